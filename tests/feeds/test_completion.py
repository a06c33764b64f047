"""Changes completed from what was published: the rows that come out are those of the replica, whatever came late or did not fit."""

from collections.abc import Sequence

from changeling.feeds.completion import Completed, Event, RowsOf, carried_keys, complete
from changeling.feeds.row_values import Row, inferred
from changeling.model.operation import Operation
from changeling.model.types import Type
from changeling.replicas.row_effect import Effect

Rows = dict[str, Row]


def row(key: int, **values: str) -> Row:
    return {"id": str(key).encode(), **{name: f'"{value}"'.encode() for name, value in values.items()}}


def update(place: int, key: int, moved_from: int | None = None, unfit: bool = False, **values: str) -> Event:
    given = row(key, **values)
    moved = None if moved_from is None else f"[{moved_from}]"
    return Event(place, f"[{key}]", Effect.PATCH, Operation.UPDATE, given, moved, unfit)


def of(rows: Rows) -> RowsOf:
    def found(keys: Sequence[str] | None) -> Rows:
        return rows if keys is None else {key: rows[key] for key in keys if key in rows}

    return found


def completed(events: Sequence[Event], late: int, published: Rows, stored: Rows) -> list[Completed]:
    """The first `late` events came late."""
    done = complete(
        events,
        lambda event: event.place < late,
        of(published),
        of(stored),
        reads_are_published=False,
    ).without_touches()
    assert not done.incomplete
    rows: dict[str, Row | None] = {**published}
    for one in done.changes:
        assert rows.get(one.key) == one.before
        rows[one.key] = one.after
    assert {key: one for key, one in rows.items() if one is not None} == stored
    return done.changes


def test_what_a_move_carries_on_of_something_late_is_corrected_behind_it() -> None:
    events = [update(0, 1, a="late"), update(1, 2, moved_from=1, b="new")]
    published, stored = {"[1]": row(1, a="old", b="old")}, {"[2]": row(2, a="late", b="new")}
    moved = row(2, a="old", b="new")
    assert completed(events, 1, published, stored) == [
        Completed("[1]", Operation.DELETE, published["[1]"], None, 1),
        Completed("[2]", Operation.INSERT, None, moved, 1),
        Completed("[2]", Operation.UPDATE, moved, stored["[2]"], None, is_last=True),
    ]


def test_a_part_on_top_of_a_row_that_came_late() -> None:
    events = [update(0, 1, a="late", b="late"), update(1, 1, b="new")]
    stored = {"[1]": row(1, a="late", b="new")}
    assert completed(events, 1, {}, stored) == [
        Completed("[1]", Operation.INSERT, None, stored["[1]"], None),
        Completed("[1]", Operation.UPDATE, stored["[1]"], stored["[1]"], 1, mentioned=frozenset({"id", "b"})),
    ]


def test_a_cell_that_does_not_fit_is_as_the_replica_has_it() -> None:
    published, stored = {"[1]": row(1, a="old", b="old")}, {"[1]": row(1, b="new")}
    between = row(1, a="old", b="new")
    assert completed([update(0, 1, unfit=True, b="new")], 0, published, stored) == [
        Completed("[1]", Operation.UPDATE, published["[1]"], between, 0, mentioned=frozenset({"id", "b"})),
        Completed("[1]", Operation.UPDATE, between, stored["[1]"], None, is_last=True),
    ]


def test_values_of_columns_that_no_schema_declares_are_those_that_are_stored() -> None:
    assert inferred([b"299.90", b"-0"], Type("decimal")) == ([b'"299.9"', b'"0"'], {})
    assert inferred([b'"a\\u00fc\\/"'], Type("string")) == (['"aü/"'.encode()], {})
    assert inferred([b'{ "a": [1.50] }'], Type("json")) == ([b'{"a":[1.50]}'], {})
    # One of another kind says nothing of those beside it.
    assert inferred([b"-7", b'"x"', b"null"], Type("int64")) == (
        [b"-7", b"null", b"null"],
        {1: '"x" is not of type int64'},
    )


def test_what_came_late_is_carried_on_by_changes_that_were_published_before() -> None:
    behind = [update(2, 2, moved_from=1), update(3, 3, a="x"), update(4, 4, moved_from=2), update(5, 6, moved_from=5)]
    assert carried_keys([update(0, 1, a="late")], behind) == {"[2]", "[4]"}
