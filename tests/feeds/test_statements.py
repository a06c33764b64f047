"""Statements on changefeeds: what is read from them, and how a wrong one is shown."""

from typing import Any

import pytest

from changeling.feeds.option_values import Interval
from changeling.feeds.statements import (
    AddFeed,
    AlterTable,
    DisableFeed,
    DropFeed,
    DropTable,
    SetOptions,
    Setting,
    Statement,
    parse,
)
from changeling.model.errors import UsageError
from changeling.model.printable import printable_lines


def settings(found: tuple[Setting, ...]) -> dict[str, Any]:
    return {one.name.text: one.value for one in found}


def plain(statement: Statement) -> tuple[Any, ...]:
    """A statement without the places of its words."""
    table = statement.table.name.spelled()
    if isinstance(statement, DropTable):
        return ("drop table", table)
    found: list[Any] = [table]
    for action in statement.actions:
        match action:
            case AddFeed():
                found.append(("add", action.feed.text, settings(action.settings)))
            case SetOptions():
                found.append(("set", action.feed.text, settings(action.settings)))
            case DisableFeed():
                found.append(("disable", action.feed.text))
            case DropFeed():
                found.append(("drop", action.feed.text))
    return tuple(found)


SHORT = {"FORMAT": "JSON", "MODE": "UPDATES"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "ALTER TABLE t ADD CHANGEFEED f WITH (FORMAT = 'JSON', MODE = 'UPDATES')",
            [("t", ("add", "f", SHORT))],
        ),
        (
            "alter table shop.public.users add changefeed f with (format='JSON',mode='UPDATES',);",
            [("shop.public.users", ("add", "f", SHORT))],
        ),
        (
            "ALTER TABLE t ADD CHANGEFEED f WITH (A = TRUE, b = false, C = 4, D = 5ul, E = -6, F = Interval('PT1H'), "
            "G = interval(\"P1D\"), H = \"a'b\", I = 'a\"b', J = '', K = 'it''s', L = 'it\\'s', M = '\\x41\\u00e9\\n\\\\')",
            [
                (
                    "t",
                    (
                        "add",
                        "f",
                        {
                            "A": True,
                            "B": False,
                            "C": 4,
                            "D": 5,
                            "E": -6,
                            "F": Interval("PT1H"),
                            "G": Interval("P1D"),
                            "H": "a'b",
                            "I": 'a"b',
                            "J": "",
                            "K": "it's",
                            "L": "it's",
                            "M": "Aé\n\\",
                        },
                    ),
                )
            ],
        ),
        (
            "-- first\nALTER TABLE t -- of the shop\n  ALTER CHANGEFEED f DISABLE, /* and\n then */ DROP CHANGEFEED g;;\n"
            "DROP TABLE a.b; ALTER TABLE t ALTER CHANGEFEED f SET (RETENTION_PERIOD = 'P1D') --",
            [
                ("t", ("disable", "f"), ("drop", "g")),
                ("drop table", "a.b"),
                ("t", ("set", "f", {"RETENTION_PERIOD": "P1D"})),
            ],
        ),
        ("DROP TABLE `table`", [("drop table", "table")]),
        ("DROP TABLE `a.b`.`c``d`", [("drop table", '"a.b".c`d')]),
        ("DROP TABLE `/local/shop/users`", [("drop table", "local.shop.users")]),
        ("DROP TABLE `a/b/shop/users`", [("drop table", "a/b.shop.users")]),
        ("DROP TABLE größe; DROP TABLE with_", [("drop table", "größe"), ("drop table", "with_")]),
    ],
)
def test_what_a_statement_says(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert [plain(statement) for statement in parse(text)] == expected


def test_words_have_their_places() -> None:
    text = "ALTER TABLE a.`b c` ADD CHANGEFEED f WITH (MODE = Interval( 'x' ))"
    (statement,) = parse(text)
    assert isinstance(statement, AlterTable)
    (action,) = statement.actions
    assert isinstance(action, AddFeed)
    (one,) = action.settings
    spans = [
        (statement.table.start, statement.table.end),
        (action.feed.start, action.feed.end),
        (one.name.start, one.name.end),
        (one.value_start, one.value_end),
    ]
    assert [text[start:end] for start, end in spans] == ["a.`b c`", "f", "MODE", "Interval( 'x' )"]


@pytest.mark.parametrize(
    "shown",
    [
        """\
line 1: expected ALTER or DROP, not 'ALTR'; did you mean 'ALTER'?
  ALTR TABLE t
  ^^^^""",
        """\
line 1: expected ALTER or DROP, not 'SELECT'
  SELECT 1
  ^^^^^^""",
        """\
line 1: expected TABLE, not 'TABEL'; did you mean 'TABLE'?
  DROP TABEL t
       ^^^^^""",
        """\
line 1: expected the name of a table, not the end
  DROP TABLE
            ^""",
        """\
line 1: expected the name of a table, not 'ADD'; put it in backticks if that is the name
  ALTER TABLE ADD CHANGEFEED f
              ^^^""",
        """\
line 1: expected the name of a table, not "'t'"; names are not in quotes, but in backticks where they need it
  DROP TABLE 't'
             ^^^""",
        """\
line 1: expected the next part of the table's name, not ';'
  DROP TABLE a.;
               ^""",
        """\
line 1: a table's name has at most three parts: [catalog.][schema.]name
  DROP TABLE a.b.c.d
             ^^^^^^^""",
        """\
line 1: expected ADD or ALTER or DROP, not the end
  ALTER TABLE t
               ^""",
        """\
line 1: expected ADD or ALTER or DROP, not 'ADDD'; did you mean 'ADD'?
  ALTER TABLE t ADDD CHANGEFEED f
                ^^^^""",
        """\
line 1: expected CHANGEFEED, not 'COLUMN'
  ALTER TABLE t ADD COLUMN a
                    ^^^^^^""",
        """\
line 1: expected CHANGEFEED, not 'CHANGFEED'; did you mean 'CHANGEFEED'?
  ALTER TABLE t DROP CHANGFEED f
                     ^^^^^^^^^""",
        """\
line 1: expected the name of a changefeed, not 'WITH'; put it in backticks if that is the name
  ALTER TABLE t ADD CHANGEFEED WITH (MODE = 'UPDATES')
                               ^^^^""",
        """\
line 1: expected WITH, not '('
  ALTER TABLE t ADD CHANGEFEED f (MODE = 'UPDATES')
                                 ^""",
        """\
line 1: expected '(', not 'FORMAT'
  ALTER TABLE t ADD CHANGEFEED f WITH FORMAT = 'JSON'
                                      ^^^^^^""",
        """\
line 1: expected the name of an option, not ')'
  ALTER TABLE t ADD CHANGEFEED f WITH ()
                                       ^""",
        """\
line 1: expected '=', not "'JSON'"
  ALTER TABLE t ADD CHANGEFEED f WITH (FORMAT 'JSON')
                                              ^^^^^^""",
        """\
line 1: expected a value: 'text', a number, TRUE, FALSE or Interval('PT1H'), not 'JSON'; put a text in quotes: 'JSON'
  ALTER TABLE t ADD CHANGEFEED f WITH (FORMAT = JSON)
                                                ^^^^""",
        """\
line 1: expected a value: 'text', a number, TRUE, FALSE or Interval('PT1H'), not ')'
  ALTER TABLE t ADD CHANGEFEED f WITH (FORMAT = )
                                                ^""",
        """\
line 1: expected a duration in quotes, as in Interval('PT1H'), not '5'
  ALTER TABLE t ALTER CHANGEFEED f SET (RETENTION_PERIOD = Interval(5))
                                                                    ^""",
        """\
line 1: expected ',' or ')', not 'MODE'
  ALTER TABLE t ADD CHANGEFEED f WITH (FORMAT = 'JSON' MODE = 'UPDATES')
                                                       ^^^^""",
        """\
line 1: expected ',' or ')', not the end
  ALTER TABLE t ADD CHANGEFEED f WITH (FORMAT = 'JSON'
                                                      ^""",
        """\
line 1: MODE is given twice
  ALTER TABLE t ADD CHANGEFEED f WITH (MODE = 'UPDATES', mode = 'UPDATES')
                                                         ^^^^""",
        """\
line 1: expected DISABLE or SET, not 'ENABLE'; did you mean 'DISABLE'?
  ALTER TABLE t ALTER CHANGEFEED f ENABLE
                                   ^^^^^^""",
        """\
line 1: expected a comma and another action, a semicolon or the end, not 'DROP'
  ALTER TABLE t DROP CHANGEFEED f DROP CHANGEFEED g
                                  ^^^^""",
        """\
line 1: expected a semicolon or the end, not ','
  DROP TABLE a, b
              ^""",
        """\
line 1: expected ADD or ALTER or DROP, not ';'
  ALTER TABLE t DROP CHANGEFEED f, ;
                                   ^""",
        """\
line 1: this text has no end: add ' after it
  ALTER TABLE t ADD CHANGEFEED f WITH (FORMAT = 'JSON)
                                                ^^^^^^""",
        """\
line 1: this name has no end: add ` after it
  DROP TABLE `t
             ^^""",
        """\
line 1: this comment has no end: add */ after it
  DROP /* TABLE t
       ^^""",
        """\
line 1: there is no such escape: write \\\\ for a backslash
  ALTER TABLE t ALTER CHANGEFEED f SET (AWS_REGION = 'a\\qb')
                                                       ^^""",
        """\
line 1: there is no such escape: write \\\\ for a backslash
  DROP TABLE `half of a pair \\uD83D`
                             ^^""",
        """\
line 1: a number has at most 19 digits
  ALTER TABLE t ALTER CHANGEFEED f SET (RETENTION_PERIOD = 12345678901234567890)
                                                           ^^^^^^^^^^^^^^^^^^^^""",
        """\
line 1: '5x' is not a whole number; put a text in quotes
  ALTER TABLE t ALTER CHANGEFEED f SET (RETENTION_PERIOD = 5x)
                                                           ^^""",
        """\
line 1: '@' has no meaning here
  DROP TABLE @t
             ^""",
        """\
line 1: expected the name of a table, not '``'
  DROP TABLE ``
             ^^""",
    ],
)
def test_a_wrong_statement_is_shown_with_a_mark(shown: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(shown.split("\n")[1].removeprefix("  "))
    assert str(caught.value) == shown
    assert printable_lines(shown) == shown


@pytest.mark.parametrize("text", ["", "  \n", ";;", "-- nothing"])
def test_an_empty_text_is_no_statement(text: str) -> None:
    with pytest.raises(UsageError, match=r"^line 1: expected ALTER or DROP, not the end\n"):
        parse(text)


def test_the_line_of_several_is_shown() -> None:
    with pytest.raises(UsageError) as caught:
        parse("DROP TABLE a;\n\nALTER TABLE b\n\tDROPP CHANGEFEED f;\nDROP TABLE c")
    assert str(caught.value) == (
        "line 4: expected ADD or ALTER or DROP, not 'DROPP'; did you mean 'DROP'?\n  \\tDROPP CHANGEFEED f;\n    ^^^^^"
    )


def test_wide_letters_move_the_mark() -> None:
    with pytest.raises(UsageError) as caught:
        parse("DROP TABLE `表`, e\u0301")
    line, mark = str(caught.value).split("\n")[1:]
    assert (line, mark) == ("  DROP TABLE `表`, e\u0301", " " * (2 + len("DROP TABLE `__`")) + "^")


def test_of_a_long_line_the_part_around_the_mark_is_shown() -> None:
    before = ", ".join(f"A{number} = {number}" for number in range(40))
    with pytest.raises(UsageError) as caught:
        parse(f"ALTER TABLE t ADD CHANGEFEED f WITH ({before}, B == 1, {before})")
    _, line, mark = str(caught.value).split("\n")
    assert (line[:3], line[-1]) == ("  …", "…")
    assert len(line) == 104
    assert line[len(mark) - 4 : len(mark) + 2] == "B == 1"
    assert mark == " " * (len(mark) - 1) + "^"
