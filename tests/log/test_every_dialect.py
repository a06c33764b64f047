"""Every dialect goes into the log whole: what lies there is what `decode` gives for the same records."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.formats import registry
from changeling.log import log_tables as tables
from changeling.model import arrow_layouts
from changeling.model.table import parse_columns
from tests.conformance.test_fuzz import mutated
from tests.golden.test_golden import CASES, options_of, records_of
from tests.log.expecting import Row, expected, in_order, resolved, with_meta
from tests.log.lakes import Shop, message
from tests.log.lakes import log_only as shop

OWN = ("table", "key", "columns")
"""Settings outside of a source's options."""
UNLIKE = ("public.basic_types", "public.orders")
"""Tables for which golden cases carry schemas that do not fit each other."""


@dataclass(frozen=True)
class Stream:
    """Golden cases of one format with the same options, carried in the same way: one source of the pipeline."""

    name: str
    format: str
    carrier: str
    options: dict[str, Any]
    cases: tuple[Path, ...]

    def setting(self) -> dict[str, Any]:
        """The source as the pipeline file has it."""
        own = {name: self.options[name] for name in OWN if name in self.options}
        if isinstance(own.get("key"), str):
            own["key"] = own["key"].split(",")
        if isinstance(own.get("columns"), str):
            own["columns"] = {column.name: column.type for column in parse_columns(own["columns"])}
        return {
            "name": self.name,
            "type": "files",
            "path": f"in/{self.name}/*",
            "format": self.format,
            "carrier": self.carrier,
            "options": {name: value for name, value in self.options.items() if name not in OWN},
            **own,
        }


def streams() -> Iterator[Stream]:
    """All golden cases."""
    groups: dict[tuple[str, str, str], list[Path]] = {}
    for case in CASES:
        carrier = "kcat" if (case / "messages.jsonl").exists() else "plain"
        options = json.dumps(options_of(case, "read"), sort_keys=True)
        groups.setdefault((case.parent.name, carrier, options), []).append(case)
    for number, ((form, carrier, options), cases) in enumerate(sorted(groups.items())):
        name = f"{form.replace('-', '_')}_{number}"
        yield Stream(name, form, carrier, json.loads(options), tuple(cases))


STREAMS = list(streams())


def lines_of(stream: Stream, case: Path) -> list[Row]:
    """The records of a case, and broken ones after them."""
    given: list[Row] = [
        {"topic": row.get("topic"), **{name: _bytes(row.get(name)) for name in ("value", "key")}}
        for row in records_of(case)
    ]
    if stream.carrier == "plain":
        start = given[0]["value"][: len(given[0]["value"]) // 2]
        broken = [b"broken", b'{"a":1}', start.replace(b'"', b"") + b"\xff"]
        return given + [{"value": value, "key": None, "topic": None} for value in broken]
    dice = random.Random(case.name)
    wounded = [{**row, "value": mutated(row["value"], dice)} for row in given if row["value"] is not None]
    return [*given, *(row for row in wounded if is_text(row["value"])), {**given[0], "value": b"broken"}]


def is_text(value: bytes) -> bool:
    """kcat prints nothing else."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def write(made: Shop, stream: Stream) -> pa.RecordBatch:
    """Writes the files of a source; gives the records in them, each with its place."""
    rows = []
    offset = 0
    for ordinal, case in enumerate(stream.cases):
        lines: list[str | bytes] = []
        for number, row in enumerate(lines_of(stream, case)):
            place = {"file": str(made.folder / "in" / stream.name / case.name), "ordinal": ordinal, "record": number}
            if stream.carrier == "kcat":
                place |= {"topic": row["topic"], "partition": 0, "offset": offset}
                row["headers"] = [{"name": "trace", "value": b"%d" % offset}]
                lines.append(message(row, offset))
                offset += 1
            else:
                lines.append(row["value"])
            rows.append({**row, "origin": place})
        made.write(f"{stream.name}/{case.name}", *lines)
    return pa.RecordBatch.from_pylist(rows, arrow_layouts.RECORDS)


@dataclass(frozen=True)
class Run:
    """The tables after one run over all streams, and what went in."""

    log: list[Row]
    rejects: list[Row]
    given: dict[str, pa.RecordBatch]


@pytest.fixture(scope="module")
def done(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    rules = [{"name": name, "schema": "ignore"} for name in UNLIKE]
    made = shop(tmp_path_factory.mktemp("dialects"), *(stream.setting() for stream in STREAMS), tables=rules)
    given = {stream.name: write(made, stream) for stream in STREAMS}
    made.pipeline.run(once=True)
    log = resolved(with_meta(made.table(tables.CHANGES)), made.table(tables.SCHEMAS).to_pylist())
    return Run(log, made.rejects(), given)


@pytest.mark.parametrize("form", registry.names())
def test_the_log_holds_what_decode_gives(form: str, done: Run) -> None:
    for stream in (stream for stream in STREAMS if stream.format == form):
        changes, rejects = expected(done.given[stream.name], form, stream.name, **stream.options)
        assert changes
        assert rejects
        assert in_order([row for row in done.log if row["source"] == stream.name]) == in_order(changes)
        assert in_order([row for row in done.rejects if row["source"] == stream.name]) == in_order(rejects)
