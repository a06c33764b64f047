"""DataWorks' statements, one a test; each name begins with its number in the list of statements."""

from typing import Any

from tests.statements.reading import converted

META = ["_sequence_id_", "_operation_type_", "_execute_time_", "_before_image_", "_after_image_"]


def rows(case: str) -> list[tuple[list[Any], dict[str, Any]]]:
    """Metadata and data of each written row."""
    made = converted(f"xtdb/{case}", "dataworks")
    assert all(list(row)[:5] == META for row in made)
    return [([row[name] for name in META], {name: row[name] for name in row if name not in META}) for row in made]


def test_001_06_sequence_ids_are_texts_that_rise_with_each_event() -> None:
    ids = [meta[0] for meta, _ in rows("seed-transaction")]
    assert all(isinstance(number, str) and number.isdigit() for number in ids)
    assert [int(number) for number in ids] == sorted(map(int, ids))
    assert len(set(ids)) == 3


def test_001_13_an_insert_is_one_row() -> None:
    ((meta, data),) = rows("seed-create")
    assert meta[1:] == ["I", 1703505330123, "N", "Y"]
    assert data["_id"] == "user-123"


def test_001_14_and_001_15_an_update_is_the_row_before_and_the_row_after() -> None:
    (first, before), (second, after) = rows("seed-update")
    assert first[:3] == second[:3] == [first[0], "U", 1703595015456]
    assert (first[3:], second[3:]) == (["Y", "N"], ["N", "Y"])
    assert (before["age"], after["age"]) == (30, 31)


def test_001_17_a_delete_is_the_deleted_row() -> None:
    ((meta, data),) = rows("seed-delete")
    assert meta[1:] == ["D", 1703681415789, "Y", "N"]
    assert data["age"] == 31


def test_001_18_names_of_columns_stay() -> None:
    ((_, data),) = rows("seed-sql-insert")
    assert list(data) == ["_id", "name", "category", "price", "created_at", "tags"]
