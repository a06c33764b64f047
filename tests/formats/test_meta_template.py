"""The `meta` of the log: what is left out of it comes back exactly, and only where it does it is left out."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

from changeling.conformance import test_conformance as suite
from changeling.formats import registry
from changeling.formats.decoding import Decoder
from changeling.formats.encoding import Encoder
from changeling.formats.format import read_options, write_options
from changeling.formats.meta_template import with_whole_meta
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


LEAST = ("db", "table", "tx_id")
"""What a source has at least."""


def sparse(number: int, *names: str, **source: object) -> dict[str, object]:
    """An event whose source has only these members."""
    whole = event(number, **source)
    assert isinstance(whole["source"], dict)
    return {**whole, "source": {name: whole["source"][name] for name in names}}


def compact(one: dict[str, object]) -> bytes:
    return json.dumps(one, separators=(",", ":")).encode()


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
    assert with_whole_meta(alone).equals(made[0])
    assert with_whole_meta(made[1]).equals(made[0])
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


@pytest.mark.parametrize(
    "lacking",
    [
        sparse(5, *LEAST, ts_ms=None),
        sparse(5, *LEAST, "ts_ms", ts_ms=None),
        sparse(5, *LEAST, "system_time", ts_ms=None, system_time=None),
        sparse(5, *LEAST, "ts_ms"),
        sparse(5, *LEAST, "system_time"),
        sparse(5, "table", "tx_id", ts_ms=None),
    ],
    ids=lambda one: ",".join(one["source"]),
)
def test_members_that_events_lack_are_not_left_out(lacking: dict[str, object]) -> None:
    for records in (
        [compact(lacking)],
        [compact(lacking)] * 20,
        [compact(event(1)), compact(lacking), compact(event(2))],
    ):
        _, kept = both(records)
        form = registry.get("xtdb")
        written = Encoder(form, write_options(form, {}))(kept)
        assert written.rejects.num_rows == 0
        assert written.records.column("value").to_pylist() == records
        for meta in kept["meta"].to_pylist():
            assert isinstance(lacking["source"], dict)
            whole = json.loads(meta)
            assert {f"source.{name}" for name in whole["source"]} >= whole.get("left_out", {}).keys()


def test_a_name_with_quotes_in_it() -> None:
    both([compact(event(number, **{'a "name"': number % 2, "\\": 1})) for number in range(10)])


@pytest.mark.parametrize(
    ("source", "left_out", "whole"),
    [
        (
            '{"db":"d","table":"t","tx_id":null}',
            '{"source.ts_ms":"commit_time.ms","source.tx_id":"position.0","source.system_time":"commit_time.ms"}',
            '{"source":{"db":"d","table":"t","tx_id":7}}',
        ),
        (
            '{"db":"d","ts_ms":null,"table":"t","tx_id":null}',
            '{"source.tx_id":"position.0","source.system_time":"commit_time.ms"}',
            '{"source":{"db":"d","ts_ms":null,"table":"t","tx_id":7}}',
        ),
        (
            '{"db":"d","table":"t","tx_id":"7"}',
            '{"source.ts_ms":"commit_time.ms"}',
            '{"source":{"db":"d","table":"t","tx_id":"7"}}',
        ),
    ],
)
def test_templates_of_earlier_versions_that_name_members_which_events_lacked(
    source: str, left_out: str, whole: str
) -> None:
    changes, _ = both([compact(sparse(number, *LEAST, ts_ms=None)) for number in (6, 7, 8)])
    place = changes.schema.get_field_index("meta")
    own = changes["meta"].to_pylist()
    metas = [own[0], f'{{"source":{source},"left_out":{left_out}}}', own[2]]
    stored = changes.set_column(place, changes.schema.field(place), pa.array(metas, pa.string()))
    assert with_whole_meta(stored)["meta"].to_pylist() == [own[0], whole, own[2]]
    form = registry.get("xtdb")
    written = Encoder(form, write_options(form, {}))(stored)
    assert written.rejects.num_rows == 0
    (_, value, _) = written.records.column("value").to_pylist()
    assert json.loads(value)["source"] == json.loads(whole)["source"]


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


def test_the_suite_refuses_values_that_templates_cannot_be_filled_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "VALUES", {"commit_time.ms": None})
    with pytest.raises(AssertionError, match=r"position\.0"):
        suite.test_what_the_log_leaves_out_of_meta_comes_back("xtdb")
