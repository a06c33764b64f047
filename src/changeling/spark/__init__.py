"""Changeling on Spark, for users: the session, the data source, decode and encode over frames and files.

Each name is loaded when it is first asked for: the rooms below the pipelines read this package's modules, some without Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from changeling.datasource.source import register
    from changeling.lake_session import session
    from changeling.spark.dialects import Decoded, Encoded, decode, decode_both, encode, encode_both
    from changeling.spark.files import decode_files

__all__ = [
    "Decoded",
    "Encoded",
    "decode",
    "decode_both",
    "decode_files",
    "encode",
    "encode_both",
    "register",
    "session",
]
_HOMES = {
    "decode_files": "changeling.spark.files",
    "register": "changeling.datasource.source",
    "session": "changeling.lake_session",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'changeling.spark' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "changeling.spark.dialects")), name)
