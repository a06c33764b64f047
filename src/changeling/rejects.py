"""Rejected records as lines of JSON: the reason, where the record lies, and its raw bytes."""

import base64
import contextlib
import json
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa


class RejectSink:
    """Writes rejects to a file that exists only once there is something in it; an older file of that name is replaced."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> "RejectSink":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Keeps every record of a batch of layout `REJECTS`."""
        if not batch.num_rows:
            return
        if self._file is None:
            self._file = Path(self.path).open("wb")  # noqa: SIM115 - closed when the sink is
        for row in batch.to_pylist():
            self._file.write(json.dumps(reject_line(row), ensure_ascii=False).encode() + b"\n")
        self._file.flush()


def reject_line(row: dict[str, Any]) -> dict[str, Any]:
    """A row of layout `REJECTS` for people and machines; `raw` is there where the bytes are text."""
    raw = row["raw"]
    line: dict[str, Any] = {
        "reason": row["reason"],
        "origin": {name: value for name, value in row["origin"].items() if value is not None},
        "raw_base64": None if raw is None else base64.b64encode(raw).decode(),
    }
    with contextlib.suppress(UnicodeDecodeError):
        line["raw"] = None if raw is None else raw.decode()
    if row.get("key") is not None:
        line["key_base64"] = base64.b64encode(row["key"]).decode()
    if row.get("topic") is not None:
        line["topic"] = row["topic"]
    return line
