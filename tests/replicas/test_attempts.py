"""Attempts at a snapshot: which rows their marks enclose, and which of them count."""

from changeling.model.position import encode
from changeling.replicas.snapshot_attempts import (
    FILES,
    Assignment,
    Attempt,
    Mark,
    TopicPartition,
    attempts_of,
    deciding,
)

ZERO: TopicPartition = (3, 0)


def marked(marks: str) -> list[Mark]:
    """Marks of rows in a row: `(` the first one, `)` the last one, `.` one without a mark."""
    return [Mark(ZERO, (1, 3, place), mark == "(") for place, mark in enumerate(marks) if mark != "."]


def assigned(marks: str) -> list[int | None]:
    """The attempt that each row of one partition belongs to."""
    found = Assignment(attempts_of(marked(marks)))
    return [found(1, 3, 0, place) for place in range(len(marks))]


def test_rows_between_marks_are_one_attempt() -> None:
    assert assigned("(..).") == [0, 0, 0, 0, None]
    assert assigned("..(.)(.)") == [None, None, 0, 0, 0, 1, 1, 1]


def test_an_attempt_without_an_end_goes_on_to_the_next_one() -> None:
    assert assigned("(..(..") == [0, 0, 0, 1, 1, 1]
    assert assigned("((.)") == [0, 1, 1, 1]


def test_the_one_row_of_a_table_may_be_marked_as_the_last_only() -> None:
    assert assigned(").") == [0, None]


def test_each_partition_has_attempts_of_its_own_and_files_are_one() -> None:
    there = [Mark(FILES, (1, 4, 9), True), Mark(FILES, (2, 5, 1), False), *marked("(.)")]
    found = Assignment(attempts_of(there))
    assert [found(1, 4, None, 8), found(1, 4, None, 9), found(2, 5, None, 0), found(2, 5, None, 2)] == [
        None,
        0,
        0,
        None,
    ]
    assert [found(1, 3, 0, 1), found(1, 3, 1, 1), found(1, 4, 0, 1)] == [1, None, None]


def test_while_no_attempt_is_complete_the_one_with_the_most_of_equal_rows_counts_on_each_partition() -> None:
    end = (9, 9, 9)
    attempts = [Attempt(ZERO, (1, 3, 0), end), Attempt(ZERO, (2, 3, 0), end), Attempt((3, 1), (1, 3, 0), end)]
    rows = [(1, 0), (1, 0), (1, 1), (1, 2), (1, None), (2, 0), (2, 1), (3, 1)]
    groups, own = [group for group, _ in rows], [number for _, number in rows]
    assert deciding(groups, own, attempts) == [True, True, False, True, True, False, True, True]


def test_the_last_complete_attempt_replaces_those_before_it_and_those_that_are_not_complete() -> None:
    attempts = attempts_of(marked("(..)(.(..)(."))
    assert [attempt.contains is not None for attempt in attempts] == [True, False, True, False]
    rows = [(1, 0), (1, 0), (2, 0), (3, 1), (1, 2), (3, None), (1, 3), (4, 3)]
    groups, own = [group for group, _ in rows], [number for _, number in rows]
    assert deciding(groups, own, attempts) == [False, False, False, False, True, True, False, False]


def test_a_complete_attempt_contains_what_came_before_its_first_row() -> None:
    # Of a source without positions, they are the places of arrival.
    marks = [Mark(ZERO, (1, 3, record), record != 4, encode(0, record, 3)) for record in (0, 4, 5)]
    assert [attempt.contains for attempt in attempts_of(marks)] == [encode(0, 0, 3), None]
    marks = [Mark(FILES, (1, 3, record), record != 4, encode(3, record)) for record in (0, 4, 5)]
    assert [attempt.contains for attempt in attempts_of(marks)] == [encode(3, 0), None]
    marks = [Mark(ZERO, (1, 3, record), record != 4, "03154") for record in (0, 4, 5)]
    assert [attempt.contains for attempt in attempts_of(marks)] == ["03154", None]


def test_a_last_row_at_another_position_is_an_attempt_of_its_own() -> None:
    marks = [Mark(FILES, (1, 0, 0), True, "03154"), Mark(FILES, (2, 0, 0), False, "03254")]
    attempts = attempts_of(marks)
    assert attempts == (
        Attempt(FILES, (1, 0, 0), (2, 0, -1)),
        Attempt(FILES, (2, 0, 0), (2, 0, 0), "03254"),
    )
    found = Assignment(attempts)
    own = [found(1, 0, None, 0), found(1, 0, None, 1), found(2, 0, None, 0)]
    assert own == [0, 0, 1]
    assert deciding([1, 1, 1], own, attempts) == [False, False, True]


def test_a_last_row_that_is_delivered_again_leaves_the_complete_attempt_as_it_was() -> None:
    marks = [Mark(FILES, (1, 0, 0), True, "03154")]
    marks += [Mark(FILES, place, False, "03154") for place in ((1, 0, 3), (2, 0, 1), (3, 0, 0))]
    attempts = attempts_of(marks)
    assert attempts == (
        Attempt(FILES, (1, 0, 0), (1, 0, 3), "03154"),
        Attempt(FILES, (1, 0, 4), (2, 0, 1)),
        Attempt(FILES, (2, 0, 2), (3, 0, 0)),
    )
    found = Assignment(attempts)
    own = [found(1, 0, None, record) for record in range(4)]
    own += [found(2, 0, None, 0), found(2, 0, None, 1), found(3, 0, None, 0)]
    assert deciding([1, 1, 2, 1, 2, 1, 1], own, attempts) == [True] * 4 + [False] * 3
    # A later snapshot of one row is one.
    later = attempts_of([*marks, Mark(FILES, (4, 0, 0), False, "03254")])
    assert later[-1] == Attempt(FILES, (4, 0, 0), (4, 0, 0), "03254")
