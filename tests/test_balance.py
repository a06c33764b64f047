from tests.balance import measured


def test_the_files_that_take_long_exist() -> None:
    """One that was renamed would be guessed."""
    assert [path for path in measured() if not path.is_file()] == []
