"""Rows that moved to another key and appear as a delete and a create: which delete belongs to which create."""

from changeling.formats.key_changes import old_key_of
from changeling.model.change import Transaction
from changeling.model.position import encode
from changeling.replicas.key_moves import Half, Moved, moved


def half(position: str, number: int, total: int | None = None, old: int | None = None) -> Half:
    """Of the row with that number; `total` is its place in transaction `t`."""
    transaction = None if total is None else Transaction("t", total, total)
    return Half(position, key(number), transaction, None if old is None else key(old))


def key(number: int) -> str:
    return f'{{"id":{number}}}'


def test_the_delete_of_the_same_position_is_the_row_before() -> None:
    assert moved([half("011", 2)], [half("011", 1), half("012", 7)]) == Moved(
        {("011", key(2)): key(1)}, frozenset({("011", key(1))})
    )


def test_every_row_of_a_statement_moves_by_itself() -> None:
    places = [(encode(9, number), number) for number in (3, 2, 1)]
    creates = [half(position, number + 1) for position, number in places]
    deletes = [half(position, number) for position, number in places]
    assert moved(creates, deletes) == Moved(
        {(position, key(number + 1)): key(number) for position, number in places},
        frozenset((position, key(number)) for position, number in places),
    )


def test_another_delete_of_the_transaction_is_none() -> None:
    create, delete = half("019.013", 2, total=3), half("019.011", 1, total=1)
    assert moved([create], [delete]) == Moved({create.place: None})
    # Counted just before it, and another event of the source.
    create, delete = half("019.0525000", 2, total=3), half("019.0524000", 1, total=2)
    assert moved([create], [delete]) == Moved({create.place: None})


def test_among_several_of_one_position_the_one_counted_just_before() -> None:
    deletes = [half("011", 1, total=1), half("011", 5, total=3)]
    creates = [half("011", 2, total=2), half("011", 6, total=4)]
    assert moved(creates, deletes) == Moved(
        {("011", key(2)): key(1), ("011", key(6)): key(5)}, frozenset({("011", key(1)), ("011", key(5))})
    )
    assert moved([half("011", 2)], [half("011", 1), half("011", 5)]) == Moved({("011", key(2)): None})


def test_positions_that_differ_by_what_the_transaction_counts() -> None:
    delete, create = half(encode(9, 24, 4, 4), 1, total=4), half(encode(9, 24, 5, 5), 2, total=5)
    assert moved([create], [delete]) == Moved({create.place: key(1)}, frozenset({delete.place}))
    delete, create = half(encode(9, 24, 4), 1, total=4), half(encode(9, 24, 5), 2, total=5)
    assert moved([create], [delete]) == Moved({create.place: key(1)}, frozenset({delete.place}))
    delete, create = half(encode(9, 23, 4), 1, total=4), half(encode(9, 24, 5), 2, total=5)
    assert moved([create], [delete]) == Moved({create.place: None})


def test_what_the_record_names_counts_and_takes_its_delete() -> None:
    deletes = [half("011", 1), half("011", 5)]
    assert moved([half("011", 2, old=5)], deletes) == Moved({("011", key(2)): key(5)}, frozenset({("011", key(5))}))
    assert moved([half("012", 2, old=5)], deletes) == Moved({("012", key(2)): key(5)})


def test_a_delete_that_two_claim_is_nobody_s() -> None:
    creates = [half("011", 2), half("011", 3)]
    assert moved(creates, [half("011", 1)]) == Moved({("011", key(2)): None, ("011", key(3)): None})
    creates = [half("011", 2), half("011", 3, old=1)]
    assert moved(creates, [half("011", 1)]) == Moved(
        {("011", key(2)): None, ("011", key(3)): key(1)}, frozenset({("011", key(1))})
    )


def test_what_comes_twice_counts_once() -> None:
    create, delete = half("011", 2), half("011", 1)
    assert moved([create, create], [delete, delete]) == moved([create], [delete])


def test_the_key_that_a_record_names_stands_in_meta() -> None:
    assert old_key_of('{"envelope":{"op":"c"},"old_key":{"id":1}}') == key(1)
    assert old_key_of('{"envelope":{"old_key":{"id":1}}}') is None
    assert old_key_of(None) is None
