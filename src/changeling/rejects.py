"""Rejected records: their reasons, counted, and lines of JSON with the reason, the origin of the record, and its raw bytes."""

import base64
import contextlib
import json
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa

from changeling.model import arrow_layouts
from changeling.model.change import Origin

_MAX_REASONS = 10
_OTHERS = "other reasons"
_RECENT = 100


class RejectSink:
    """Counts the reasons of rejects, and with a path writes the rejects to a file that is created with the first one.

    Rejects of an earlier run are never lost: a file of that name is first renamed to `NAME.1`, `NAME.2`, …
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._reasons: Counter[str] = Counter()
        self._examples: dict[str, Origin] = {}
        self._file: BinaryIO | None = None
        self._recent: pa.RecordBatch | None = None

    def __enter__(self) -> "RejectSink":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def remember(self, records: pa.RecordBatch) -> None:
        """Keeps the current wire records, for changes of theirs that are rejected later."""
        self._recent = records

    def recent_values(self) -> list[bytes | None]:
        """The values of some of the wire records that were remembered last."""
        return [] if self._recent is None else self._recent.column("value").slice(0, _RECENT).to_pylist()

    def with_raw_records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rejects of changes with the bytes of their records, as far as these are still kept."""
        if self._recent is None or not batch.num_rows:
            return batch
        places = {_place(origin): number for number, origin in enumerate(self._recent.column("origin").to_pylist())}
        found = [places.get(_place(origin)) for origin in batch.column("origin").to_pylist()]
        for name, column in (("raw", "value"), ("key", "key"), ("headers", "headers"), ("topic", "topic")):
            records = self._recent.column(column).to_pylist()
            kept = batch.column(name).to_pylist()
            values = [kept[row] if place is None else records[place] for row, place in enumerate(found)]
            field = arrow_layouts.REJECTS.field(name)
            batch = batch.set_column(batch.schema.get_field_index(name), field, pa.array(values, field.type))
        return batch

    def explanation(self) -> list[str]:
        """The reasons, each with how many records have it and where the first of them is."""
        return [
            f"{count:,} {'record' if count == 1 else 'records'}, such as {self._examples[reason]}: {reason}"
            for reason, count in self._reasons.most_common()
        ]

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes every record of a batch of layout `REJECTS`."""
        if not batch.num_rows:
            return
        for reason, origin in zip(batch.column("reason").to_pylist(), arrow_layouts.origins(batch), strict=True):
            known = reason in self._reasons or len(self._reasons) < _MAX_REASONS
            self._reasons[reason if known else _OTHERS] += 1
            self._examples.setdefault(reason if known else _OTHERS, origin)
        if self.path is None:
            return
        if self._file is None:
            _rename_existing(Path(self.path))
            self._file = Path(self.path).open("wb")  # noqa: SIM115 - closed when the sink is
        for row in batch.to_pylist():
            self._file.write(json.dumps(reject_line(row), ensure_ascii=False).encode() + b"\n")
        self._file.flush()


def _place(origin: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(origin.values())


def _rename_existing(path: Path) -> None:
    if not path.is_file() or path.stat().st_size == 0:
        return
    number = 1
    while (older := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    path.rename(older)


def reject_line(row: dict[str, Any]) -> dict[str, Any]:
    """A row of layout `REJECTS` for people and machines; it has `raw` if the bytes are text."""
    raw, origin = row["raw"], row["origin"]
    line: dict[str, Any] = {
        "reason": row["reason"],
        "origin": None if origin is None else {name: value for name, value in origin.items() if value is not None},
        "raw_base64": None if raw is None else base64.b64encode(raw).decode(),
    }
    with contextlib.suppress(UnicodeDecodeError):
        line["raw"] = None if raw is None else raw.decode()
    if row.get("key") is not None:
        line["key_base64"] = base64.b64encode(row["key"]).decode()
    if row.get("topic") is not None:
        line["topic"] = row["topic"]
    return line
