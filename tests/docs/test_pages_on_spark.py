"""Pages whose commands need Spark: all of them are run alongside one session, most of them in one lake, a page after the other."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from changeling.spark import session
from demo.embedded_postgres import EmbeddedPostgres
from tests.docs.called import called
from tests.docs.transcripts import (
    EXAMPLES,
    IN_ONE_LAKE,
    REPOSITORY,
    WITH_A_DATABASE,
    is_printed,
    printed_commands,
)
from tests.postgres.server import Database

_DONE = (0, 3)
_TABLES = (
    "CREATE TABLE users (id int PRIMARY KEY, name text)",
    "INSERT INTO users VALUES (1, 'Ann')",
    "CREATE TABLE orders (id int PRIMARY KEY, total numeric(10,2))",
    "INSERT INTO orders SELECT n, n FROM generate_series(1, 1000) n",
)


def text_of(page: str) -> str:
    return (REPOSITORY / "docs" / f"{page}.md").read_text(encoding="utf-8")


def is_endless(words: list[str]) -> bool:
    """Whether a command continues until somebody stops it."""
    return "--serve" in words or "--follow" in words or (words[1] == "run" and "--once" not in words)


def differences(page: str, folder: Path, database: str = "shop") -> Iterator[str]:
    """Runs the commands of a page; what they print and the page does not say.

    A command that is only explained must end well; it is not run where the page also shows what it prints. What the pages call
    the database `shop` may have another name.
    """
    commands = list(printed_commands(text_of(page)))
    shown = {command for command, output in commands if output is not None}
    for command, output in commands:
        words = shlex.split(command)
        if output is None and command in shown:
            continue
        if words[0] == "cd":
            folder = (folder / words[1]).resolve()
        elif words[0] != "changeling" or not is_endless(words):
            found = called(words, folder)
            printed = found.printed.replace(database, "shop")
            right = found.code in _DONE if output is None else is_printed(printed, output)
            if not right:
                yield f"{page}: $ {command}\n{printed}\n-- instead of --\n{output}"


@pytest.mark.usefixtures("spark")
def test_pages_of_one_lake_print_what_they_say(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    shutil.copytree(EXAMPLES / "log", folder)
    wrong: list[str] = []
    for page in IN_ONE_LAKE:
        wrong += differences(page, folder)
        if page == "reading-the-lake":
            check_statements(page, folder)
    assert not wrong, "\n".join(wrong)


def check_statements(page: str, folder: Path) -> None:
    """The SQL of the page, in the session that it names."""
    lake = session(folder / "shop.yaml")
    (statement,) = re.findall(r"```sql\n(.*?)```", text_of(page), re.DOTALL)
    (row,) = lake.sql(statement).collect()
    at_the_point = f"SELECT _id FROM lake.shop_replica.users VERSION AS OF {row['snapshot']} ORDER BY _id"
    assert [found["_id"] for found in lake.sql(at_the_point).collect()] == ["user-123", "user-999"]
    assert lake.sql("SELECT max(made_at) FROM lake.shop.points").collect()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", WITH_A_DATABASE)
def test_pages_with_a_database_print_what_they_say(
    page: str, tmp_path: Path, server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop"
    shutil.copytree(EXAMPLES / page, folder)
    database = Database(server)
    try:
        if page == "postgres":
            database.execute(*_TABLES)
        monkeypatch.setenv("PG_URL" if page == "postgres" else "MIRROR_URL", database.url)
        wrong = list(differences(page, folder, database.name))
    finally:
        database.drop()
    assert not wrong, "\n".join(wrong)
