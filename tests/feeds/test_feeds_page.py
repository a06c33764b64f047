"""What the pages say of feeds is true: statements and files are accepted, tables are complete. Commands are run with those of other pages."""

import re
from pathlib import Path

import pytest

from changeling.feeds.option_values import ALIASES, READERS
from changeling.feeds.options import new_feed
from changeling.feeds.statements import AddFeed, AlterTable, parse
from changeling.formats import registry
from changeling.formats.changefeed import Mode
from changeling.pipelines.feed_sync import declared_feeds
from tests.pipelines.pipeline_files import USERS, loaded

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "feeds.md").read_text(encoding="utf-8")


def test_the_statement_is_accepted() -> None:
    (statement,) = parse(PAGE.split("```sql\n")[1].split("```")[0])
    assert isinstance(statement, AlterTable)
    (action,) = statement.actions
    assert isinstance(action, AddFeed)
    settings = {one.name.text: one.value for one in action.settings}
    assert new_feed(action.feed.text, statement.table.name, settings).retention == 7 * 86_400


def test_the_feeds_of_the_file_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA", "broker:9092")
    text = (DOCS / "pipelines.md").read_text(encoding="utf-8").split("```yaml\nfeeds:")[1].split("```")[0]
    feeds = declared_feeds(loaded(tmp_path, f"{USERS}feeds:{text}"))
    assert {feed.name for feed in feeds} >= {"users_feed", "users_files"}


def test_every_option_and_every_format_is_listed() -> None:
    options = PAGE.split("## Options\n")[1].split("## Where")[0]
    assert {*READERS, *ALIASES} - set(re.findall(r"[A-Z_]{4,}", options)) == set()
    modes: dict[str, set[str]] = {}
    for formats, listed in re.findall(r"^\| (`[a-z].*?) \| (.*?) \|$", options.split("| format | modes |")[1], re.M):
        found = set(Mode) if listed == "all" else set(listed.split(", "))
        modes |= dict.fromkeys(re.findall(r"`(.*?)`", formats), found)
    assert modes == {name: set(registry.get(name).feed_modes) for name in registry.names()}
