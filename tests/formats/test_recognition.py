"""Dialects are recognised by the look of their records."""

import pytest

from changeling.formats import registry
from changeling.formats.framing import CsvRows
from changeling.formats.recognition import fitting
from tests.golden.test_golden import CASES, options_of, records_of

UNMARKED = {
    # Plain rows, as snapshots write them, are what any table looks like.
    "arcion-csv/seed-snapshot-line",
    "arcion-csv/snapshot-quoting",
    "arcion-json/bare-row",
    "arcion-native/sample-snapshot",
    # A time, or nothing at all.
    "debezium-json/heartbeat",
    "debezium-json/payload-of-nothing",
    "ydb-debezium/tombstone",
}


def values_of(case: str) -> list[bytes | None]:
    path = next(path for path in CASES if f"{path.parent.name}/{path.name}" == case)
    return [None if record["value"] is None else record["value"].encode() for record in records_of(path)]


@pytest.mark.parametrize("case", [f"{path.parent.name}/{path.name}" for path in CASES])
def test_golden_records_show_their_dialect(case: str) -> None:
    name = case.partition("/")[0]
    path = next(path for path in CASES if f"{path.parent.name}/{path.name}" == case)
    options = options_of(path, "read")
    style = CsvRows(options.get("delimiter", ","), options.get("quote", '"'), options.get("escape"))
    found = fitting(values_of(case), style)
    if case in UNMARKED:
        assert found == []
    elif name == "debezium-json" and case.partition("/")[2].startswith(("xtdb-", "ydb-")):
        # The same records are golden ones of the dialects that Debezium's yields to.
        assert found == ["xtdb" if "/xtdb-" in case else "ydb-debezium"]
    else:
        assert found == [name]


def test_every_dialect_has_a_sign() -> None:
    forms = [registry.get(name) for name in registry.names()]
    assert [form.name for form in forms if not form.signs and form.row_sign is None] == []
    assert {other for form in forms for other in form.yields_to} <= set(registry.names())


def test_records_of_two_dialects_alike_fit_both() -> None:
    both = values_of("xtdb/seed-create") + values_of("ydb-json/seed-update")
    assert fitting(both) == ["xtdb", "ydb-json"]


def test_damaged_records_hide_nothing() -> None:
    good = values_of("xtdb/seed-create") * 3
    assert fitting([*good, b"{", b"\xff", b"", b"x", b"[]", b"[" * 100_000, b'{"op":"c","after":1}']) == ["xtdb"]


def test_foreign_text_shows_nothing() -> None:
    assert fitting([b'{"a":1}', b"[1,2]", b"null", b"id,name", b"1,Ann", b'"', None]) == []
