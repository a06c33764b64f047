"""Pages whose commands need Spark: all of them are run alongside one session, most of them in one lake, a page after the other."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeling import Pipeline
from changeling.spark import session
from demo.embedded_postgres import EmbeddedPostgres
from tests.docs.called import called
from tests.docs.transcripts import (
    EXAMPLES,
    ON_SPARK,
    REPOSITORY,
    WITH_A_DATABASE,
    Example,
    is_printed,
    printed_commands,
    steps,
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
    found = REPOSITORY / "docs" / f"{page}.md"
    return (found if found.exists() else REPOSITORY / f"{page}.md").read_text(encoding="utf-8")


def is_endless(words: list[str]) -> bool:
    """Whether a command continues until somebody stops it."""
    return bool({"--serve", "--follow", "--watch"} & set(words)) or (words[1] == "run" and "--once" not in words)


def served(words: list[str], folder: Path) -> str:
    """What `changeling catalog --serve` prints until it serves, at a port that is free."""
    command = [sys.executable, "-m", *words, "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        process.terminate()
    return re.sub(r"(127\.0\.0\.1):\d+", r"\1:8181", "".join(lines))


class Reader:
    """Somebody who does what pages say, one after the other, in a folder; `wrong` is what they do not say."""

    def __init__(self, folder: Path, spark: SparkSession, database: str = "shop") -> None:
        self.folder, self._database = folder, database
        self._names: dict[str, object] = {"spark": spark}
        self.wrong: list[str] = []

    def read(self, page: str) -> None:
        """Does all of a page. What pages call the database `shop` may have another name.

        A command that is only explained must end well; it is not run where the page also shows what it prints.
        """
        shown = {command for command, output in printed_commands(text_of(page)) if output is not None}
        for step in steps(text_of(page)):
            if isinstance(step, Example):
                self._compare(page, step.code, self._printed(step.code), step.output)
            elif step.output is not None or step.command not in shown:
                self._call(page, *step)

    def _call(self, page: str, command: str, output: str | None) -> None:
        words = shlex.split(command)
        if words[0] == "cd":
            self.folder = (self.folder / words[1]).resolve()
        elif "--serve" in words and output is not None:
            self._compare(page, f"$ {command}", served(words, self.folder), output)
        elif words[0] != "changeling" or not is_endless(words):
            found = called(words, self.folder)
            if output is not None or found.code not in _DONE:
                self._compare(page, f"$ {command}", found.printed.replace(self._database, "shop"), output or "")

    def _printed(self, code: str) -> str:
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(printed):
            patched.chdir(self.folder)
            # Spark's processes take relative paths from where Spark was started.
            exec(code.replace('"in/', f'"{self.folder}/in/'), self._names)
        return printed.getvalue()

    def _compare(self, page: str, done: str, printed: str, output: str) -> None:
        if not is_printed(printed, output):
            self.wrong.append(f"{page}: {done}\n{printed}\n-- instead of --\n{output}")


@pytest.mark.parametrize("folder", ON_SPARK)
def test_pages_print_what_they_say(folder: str, tmp_path: Path, spark: SparkSession) -> None:
    reader = Reader(tmp_path / "shop", spark)
    shutil.copytree(EXAMPLES / folder, reader.folder)
    for page in ON_SPARK[folder]:
        reader.read(page)
        if page == "reading-the-lake":
            check_statements(page, reader.folder)
        if page == "feeds":
            (statement,) = re.findall(r"```sql\n(.*?)```", text_of(page), re.DOTALL)
            (done,) = Pipeline.load(reader.folder / "shop.yaml").sql(statement)
            assert done.feed == "customers_for_a_week"
    assert not reader.wrong, "\n".join(reader.wrong)


def check_statements(page: str, folder: Path) -> None:
    """The SQL of the page, in the session that it names."""
    lake = session(folder / "shop.yaml")
    (statement,) = re.findall(r"```sql\n(.*?)```", text_of(page), re.DOTALL)
    (row,) = lake.sql(statement).collect()
    at_the_point = f"SELECT _id FROM lake.shop_replica.users VERSION AS OF {row['snapshot']} ORDER BY _id"
    assert [found["_id"] for found in lake.sql(at_the_point).collect()] == ["user-123", "user-999"]
    assert lake.sql("SELECT max(made_at) FROM lake.shop.points").collect()


@pytest.mark.parametrize("page", WITH_A_DATABASE)
def test_pages_with_a_database_print_what_they_say(
    page: str, tmp_path: Path, spark: SparkSession, server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(server)
    reader = Reader(tmp_path / "shop", spark, database.name)
    shutil.copytree(EXAMPLES / page, reader.folder)
    try:
        if page == "postgres":
            database.execute(*_TABLES)
        monkeypatch.setenv("PG_URL" if page == "postgres" else "MIRROR_URL", database.url)
        reader.read(page)
    finally:
        database.drop()
    assert not reader.wrong, "\n".join(reader.wrong)
