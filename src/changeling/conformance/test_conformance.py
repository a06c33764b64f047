"""Every registered format runs the same cases: a change is read back equal, or is refused by name. Nothing else."""

from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import changeling
from changeling.conformance.cases import CASES, ROW, SHOP, TIME, batch
from changeling.conformance.comparing import canonical_changes, same
from changeling.formats import registry
from changeling.formats.capabilities import FEATURES, LABELS, needed
from changeling.formats.decoding import Decoder
from changeling.formats.encoding import Encoder
from changeling.formats.format import read_options
from changeling.formats.meta_template import VALUES, with_whole_meta
from changeling.formats.options import WriteOptions
from changeling.formats.pairing import Pairing
from changeling.model import arrow_layouts, json_text
from changeling.model.change import Change
from changeling.model.operation import Image
from changeling.model.table import schema_from_json

EVERY = registry.names()
FORMATS = registry.foreign() or EVERY
"""The formats of other packages; where there are none, Changeling's own."""


def encoded(changes: pa.RecordBatch, name: str, drop: frozenset[str] = frozenset()) -> tuple[pa.Table, pa.Table]:
    return changeling.encode(changes, name, drop=drop)


def held(change: Change, name: str) -> pa.Table | None:
    """The records of a change in a format, None where the format cannot carry it; it gets a time where the format needs one."""
    records, rejects = encoded(batch([change]), name)
    if rejects["feature"].to_pylist() == ["commit_time"] and change.commit_time is None:
        records, rejects = encoded(batch([msgspec.structs.replace(change, commit_time=TIME)]), name)
    return None if rejects.num_rows else records


def options_of(like: Change) -> dict[str, Any]:
    """What a user would say of the records of a change: table, key and schema."""
    schema = schema_from_json(like.schema) if like.schema is not None else None
    options = {"table": like.table or SHOP, "key": schema.key if schema and like.key is not None else ("_id",)}
    if schema is not None:
        options["schemas"] = (schema,)
    if like.key is None and like.op == "insert":
        del options["key"]
        options["schemas"] = (type(schema)(schema.columns),)  # type: ignore[union-attr, misc]
    return options


def decoded(records: pa.Table, name: str, like: Change) -> pa.RecordBatch:
    """Reads the records of a change back."""
    changes, rejects = changeling.decode(records, name, **options_of(like))
    assert rejects.num_rows == 0, rejects.to_pylist()
    found = changes.combine_chunks().to_batches()[0]
    if not registry.get(name).halves:
        return found
    pairing = Pairing()
    return pa.concat_batches([pairing(found), pairing.rest()])


@cache
def native(case: str, name: str) -> list[pa.RecordBatch]:
    """A case written in a format and read back, in the format's own convention, change by change; none where it is refused."""
    records = held(CASES[case], name)
    if records is None:
        return []
    found = decoded(records, name, CASES[case])
    return [found.slice(place, 1) for place in range(found.num_rows)]


def check_pair(change: Change, given: pa.RecordBatch, name: str) -> None:
    """`given` is the one change, in whatever convention; it goes through `name` and must be read back or be refused."""
    form = registry.get(name)
    arrived = given.column("arrived")[0].as_py()
    records, rejects = encoded(given, name)
    if rejects.num_rows:
        feature = rejects["feature"][0].as_py()
        assert feature in FEATURES, rejects.to_pylist()
        assert f"cannot carry {feature}" in rejects["reason"][0].as_py()
        lacking = [need for need in needed(change, arrived) if need not in form.carries]
        assert not lacking or feature in lacking
        return
    assert records.num_rows >= 1
    back = canonical_changes(decoded(records, name, change))
    if change.op != "message":
        back = [
            found for found in back if found.op != "message" or "tombstone" not in json_text.members(found.meta or "{}")
        ]
    if moves(change) and len(back) > 1:
        assert [found.op for found in back if found.op not in LABELS] in (["delete"], ["delete", "message"])
        assert back[0].key == canonical_row_key(change)
        change, back = msgspec.structs.replace(change, op=back[-1].op, before=None, before_image=Image.NONE), back[-1:]
    elif moves(change):
        assert back[0].before is not None
        assert canonical_row_key(back[0]) == canonical_row_key(change)
    assert len(back) == 1
    encoding = given.column("encoding")[0].as_py()
    same(change, back[0], arrived, form, encoding != "canonical" and registry.get(encoding).halves)


def canonical_row_key(change: Change) -> str:
    """The key that the row had before the change."""
    before = json_text.members(change.before or b"{}")
    return json_text.canonical_key(
        (name, before.get(name, value)) for name, value in json_text.members(change.key or b"{}").items()
    ).decode()


def moves(change: Change) -> bool:
    """Whether the change gives its row another key."""
    return change.op == "update" and change.before is not None and canonical_row_key(change) != change.key


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_a_change_comes_back_or_is_refused_by_name(case: str, name: str) -> None:
    check_pair(CASES[case], batch([CASES[case]]), name)


@pytest.mark.parametrize(
    ("through", "name"), [(one, other) for one in EVERY for other in EVERY if one in FORMATS or other in FORMATS]
)
def test_each_format_into_each_other(through: str, name: str) -> None:
    """Every case as it is read from one format goes through the other; what went wrong is shown for each of them."""
    wrong: dict[str, str] = {}
    tried = 0
    for case in CASES:
        # That a case is refused by name is shown above.
        for row in native(case, through):
            tried += 1
            (change,) = canonical_changes(row)
            try:
                check_pair(change, row, name)
            except AssertionError as error:
                wrong[case] = str(error)
    assert wrong == {}
    assert tried > 0


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_what_was_refused_can_be_dropped_by_its_name(case: str, name: str) -> None:
    """`--drop` with the names that were refused, one after another, always ends in a written or a left-out change."""
    drop: frozenset[str] = frozenset()
    for _ in range(len(FEATURES)):
        _, rejects = encoded(batch([CASES[case]]), name, drop)
        if not rejects.num_rows:
            return
        feature = rejects["feature"][0].as_py()
        assert feature in FEATURES.keys() - drop, rejects.to_pylist()
        drop |= {feature}
    pytest.fail(f"{case} is refused whatever is dropped")


@pytest.mark.parametrize("name", FORMATS)
def test_duplicates_and_order_are_kept(name: str) -> None:
    """Five writes of one row, one of them twice: the same five are read back, in order."""
    counts = [3, 1, 1, 2, 9]
    changes = [
        msgspec.structs.replace(
            CASES["update with both images"], after=ROW.replace('"count":2147483647', f'"count":{count}')
        )
        for count in counts
    ]
    records, rejects = encoded(batch(changes), name, frozenset(FEATURES))
    assert rejects.num_rows == 0
    back = canonical_changes(decoded(records, name, changes[0]))
    written = [json_text.members(change.after)["count"] for change in back if change.after is not None]
    assert written == [str(count).encode() for count in counts]


@pytest.mark.parametrize("name", FORMATS)
def test_absent_null_and_present_stay_apart(name: str) -> None:
    """A partial image with a NULL, an empty text, and thirteen columns that it does not mention."""
    change = msgspec.structs.replace(
        CASES["partial upsert"], after='{"count":null,"name":""}', after_image=Image.PARTIAL
    )
    check_pair(change, batch([change]), name)
    if "partial" in registry.get(name).carries and "upsert" in registry.get(name).carries:
        assert encoded(batch([change]), name)[1].num_rows == 0, "a format that carries partial images refused one"


@pytest.mark.parametrize("name", FORMATS)
def test_what_the_log_leaves_out_of_meta_comes_back(name: str) -> None:
    """Templates name only values that `meta_template` knows, of one record and of many."""
    form = registry.get(name)
    for case, change in CASES.items():
        records = held(change, name)
        if records is None:
            continue
        options = read_options(form, options_of(change))
        many = pa.concat_tables([records] * 20).combine_chunks().to_batches()[0]
        for given in (records.to_batches()[0], many):
            changes = Decoder(form, options)(given).changes
            stored = Decoder(form, options, templates=True)(given).changes
            for meta in stored.column("meta").to_pylist():
                left_out = json_text.members(meta or "{}").get("left_out", b"{}") if form.meta_templates else b"{}"
                values = set(map(json_text.string, json_text.members(left_out).values()))
                assert values <= VALUES.keys(), f"{case}: {meta}"
            assert with_whole_meta(stored).equals(changes), case


@pytest.mark.parametrize("name", FORMATS)
def test_empty_input_gives_empty_output(name: str) -> None:
    records, rejects = changeling.encode(batch([]), name)
    assert (records.num_rows, rejects.num_rows) == (0, 0)
    changes, rejects = changeling.decode(records, name, table="t", key="_id")
    assert (changes.num_rows, rejects.num_rows) == (0, 0)
    assert changes.schema == arrow_layouts.CHANGES


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_declares_itself(name: str) -> None:
    form = registry.get(name)
    assert form.name == name
    assert form.summary
    assert form.carries <= FEATURES.keys()
    assert issubclass(form.write_options, WriteOptions)
    Encoder(form, form.write_options())
