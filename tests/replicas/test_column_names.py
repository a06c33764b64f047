"""Names that columns have in a replica: any but those that Iceberg and Spark keep for themselves."""

import pytest

from changeling.replicas.column_names import stored_names


@pytest.mark.parametrize(
    ("names", "stored"),
    [
        (["id", " ", "\t", "a\0b", "ü", "é", "long" * 1000, "${env:HOME}", "_change_type", "_FILE"], None),
        (["id", ""], ["id", "_"]),
        (["", "_", "__"], ["___", "_", "__"]),
        (["_pos", "pos", "__pos"], ["___pos", "pos", "__pos"]),
        (["_row_id", "__row_id"], ["___row_id", "____row_id"]),
        (["__row_operation", "__original_row_id_x"], ["___row_operation", "___original_row_id_x"]),
        (["a.b", "a_x2Eb"], ["a.b", "_a_x2Eb"]),
        (["a_x2Eb", "a.b"], ["a_x2Eb", "_a.b"]),
        (["1a", "_1a"], ["1a", "__1a"]),
        (["\N{GRINNING FACE}", "_xD83D_xDE00"], ["\N{GRINNING FACE}", "__xD83D_xDE00"]),
    ],
)
def test_a_name_that_cannot_be_stored_gets_another_one(names: list[str], stored: list[str] | None) -> None:
    assert stored_names(names) == (names if stored is None else stored)
