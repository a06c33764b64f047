"""The `meta` of the log: what is left out of it comes back exactly, and only where it does it is left out."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

from changeling.formats import registry
from changeling.formats.decoding import Decoder
from changeling.formats.encoding import Encoder
from changeling.formats.format import read_options, write_options
from changeling.formats.meta_template import filled
from changeling.model import arrow_layouts


def event(number: int, **source: object) -> dict[str, object]:
    time = 1_703_505_330_123 + number
    return {
        "before": None,
        "after": json.dumps({"_id": f"u{number}"}),
        "source": {
            "version": "3.0.0",
            "connector": "xtdb-cdc",
            "name": "node",
            "ts_ms": time,
            "snapshot": None,
            "db": "mydb",
            "table": f"t{number % 3}",
            "tx_id": number,
            "system_time": time,
            **source,
        },
        "op": "c",
        "ts_ms": source.get("ts_ms", time),
        "transaction": {"id": str(number), "total_order": number, "data_collection_order": 0},
    }


def batch_of(records: Sequence[bytes]) -> pa.RecordBatch:
    rows = [
        {"value": value, "origin": {"file": "f", "ordinal": 0, "record": place}} for place, value in enumerate(records)
    ]
    return pa.RecordBatch.from_pylist(rows, arrow_layouts.RECORDS)


def both(records: Sequence[bytes], name: str = "xtdb", **options: object) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The changes with their whole `meta`, and with what the log stores; the same, column by column and record by record."""
    form = registry.get(name)
    made = []
    for templates in (False, True):
        decoded = Decoder(form, read_options(form, options), templates=templates)(batch_of(records))
        assert decoded.rejects.num_rows == 0
        made.append(decoded.changes)
    alone = Decoder(form, read_options(form, options), by_columns=False, templates=True)(batch_of(records)).changes
    assert filled(alone).equals(made[0])
    assert filled(made[1]).equals(made[0])
    return made[0], made[1]


def test_changes_of_a_table_have_one_meta_in_the_log() -> None:
    changes, kept = both([json.dumps(event(number), separators=(",", ":")).encode() for number in range(3_000)])
    assert len(set(changes["meta"].to_pylist())) == 3_000
    texts = set(kept["meta"].to_pylist())
    assert len(texts) == 3
    assert json.loads(min(texts)) == {
        "source": {
            "version": "3.0.0",
            "connector": "xtdb-cdc",
            "name": "node",
            "ts_ms": None,
            "snapshot": None,
            "db": "mydb",
            "table": "t0",
            "tx_id": None,
            "system_time": None,
        },
        "left_out": {
            "source.ts_ms": "commit_time.ms",
            "source.tx_id": "position.0",
            "source.system_time": "commit_time.ms",
        },
    }
    assert list(changes.drop_columns(["meta"]).columns) == list(kept.drop_columns(["meta"]).columns)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "with blanks"])
@pytest.mark.parametrize(
    "odd",
    [
        {"system_time": 17},
        {"extra": {"ts_ms": 1}},
        {"name": '{"left_out":{}}'},
        {"name": 'with "quotes" and \\'},
        {"ts_ms": None},
        {"ts_ms": None, "system_time": None},
        {"system_time": None},
        {"snapshot": "true"},
        {"left_out": {"source.ts_ms": "commit_time.ms"}},
    ],
    ids=str,
)
def test_every_meta_comes_back(odd: dict[str, object], separators: tuple[str, str]) -> None:
    events = [event(number, **(odd if number % 5 == 2 else {})) for number in range(100)]
    both([json.dumps(one, separators=separators).encode() for one in events])


def test_events_without_a_time_of_their_own_are_written_as_they_were() -> None:
    records = [json.dumps(event(number, ts_ms=None), separators=(",", ":")).encode() for number in range(20)]
    changes, kept = both(records)
    form = registry.get("xtdb")
    for batch in (changes, kept):
        written = Encoder(form, write_options(form, {}))(batch)
        assert written.records.column("value").to_pylist() == records


def test_a_text_of_its_own_for_nearly_every_change_is_kept_whole() -> None:
    records = [
        json.dumps(event(number, name=f"node {number}"), separators=(",", ":")).encode() for number in range(500)
    ]
    changes, kept = both(records)
    assert kept.equals(changes)


def test_what_only_looks_like_a_template_is_none() -> None:
    record = b'{"data":[{"id":"1"}],"database":"d","table":"t","pkNames":["id"],"type":"INSERT","left_out":{"es":"x"}}'
    changes, _ = both([record], "canal")
    assert changes["meta"][0].as_py().endswith('"left_out":{"es":"x"}}')
