"""The lake of an earlier version, as a release leaves it: later versions have to read it and to continue with it.

`python -m tests.lake.stored` makes the file for the version at hand; once released, a file is never made again.
"""

import shutil
import tarfile
from pathlib import Path

import pytest

import changeling
import changeling.spark
from changeling.iceberg.failpoints import FailpointReached
from tests.log.lakes import Shop
from tests.replicas.shops import bus, item

FEED = {
    "name": "ups",
    "table": "public.users",
    "topic": {"type": "table"},
    "with": {"FORMAT": "JSON", "MODE": "UPDATES"},
}
TABLES = [{"name": "public.orders", "mode": "history"}]
FIRST = [
    item(1, "insert", {"id": 1, "name": "Ann", "n": 1}),
    item(2, "insert", {"id": 2, "name": "Bob", "n": 2}),
    item(3, "insert", {"id": 1, "name": "first", "n": 1}, table="orders"),
    '{"no": "item"}',
]
SECOND = [
    item(4, "update", {"id": 1, "name": "Anna", "n": 10}, {"id": 1}),
    item(5, "delete", None, {"id": 2}),
    item(6, "insert", {"id": 3, "name": "Cid", "n": None}),
    item(7, "update", {"id": 1, "name": "second", "n": 2}, {"id": 1}, table="orders"),
]
USERS = [{"id": 1, "name": "Anna", "n": 10}, {"id": 3, "name": "Cid", "n": None}]
FOLDER = Path(__file__).parent / "stored"
VERSIONS = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz"))
THIRD = [
    item(8, "update", {"id": 3, "name": "Cid", "n": 3}, {"id": 3}),
    item(9, "insert", {"id": 4, "name": "Dee", "n": 4}),
]
_MADE_IN = Path("/tmp/changeling-stored-lake")


def unpacked(version: str, folder: Path) -> Shop:
    """The lake of a version, in another place than where it was made."""
    with tarfile.open(FOLDER / f"{version}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return Shop(folder)


def _filled(folder: Path) -> Shop:
    """A replica whose rows were replaced, a history, a feed, a reject, after two runs."""
    made = bus(folder, feeds=[FEED], tables=TABLES)
    made.write("1.json", *FIRST)
    made.pipeline.run(once=True)
    made.write("2.json", *SECOND)
    made.pipeline.run(once=True)
    return made


def _make() -> None:
    """Two runs, and a third one that was interrupted in the middle of its merge."""
    changeling.spark.session(**{"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"})
    shutil.rmtree(_MADE_IN, ignore_errors=True)
    made = _filled(_MADE_IN)
    made.write("3.json", *THIRD)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CHANGELING_FAILPOINT", "replica.after")
        with pytest.raises(FailpointReached):
            made.pipeline.run(once=True)
    FOLDER.mkdir(exist_ok=True)
    with tarfile.open(FOLDER / f"{changeling.__version__}.tar.xz", "w:xz") as packed:
        packed.add(_MADE_IN, ".")
    shutil.rmtree(_MADE_IN)


if __name__ == "__main__":
    _make()
