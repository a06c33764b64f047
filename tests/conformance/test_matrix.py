"""The matrix in the docs is what the formats really do."""

from tests.conformance.matrix import PAGE, lost, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page()


def test_a_format_loses_nothing_in_itself() -> None:
    assert lost("xtdb", "xtdb") == lost("arcion-json", "arcion-json") == lost("ydb-json", "ydb-json") == []
