"""Statements on changefeeds, as YDB has them: `ALTER TABLE t ADD CHANGEFEED f WITH (FORMAT = 'JSON', MODE = 'UPDATES')`.

statements: statement (';' statement)* [';']
statement:  ALTER TABLE table action (',' action)*  |  DROP TABLE table
action:     ADD CHANGEFEED feed WITH '(' settings ')'
         |  ALTER CHANGEFEED feed (DISABLE | SET '(' settings ')')
         |  DROP CHANGEFEED feed
settings:   name '=' value (',' name '=' value)* [',']
value:      'text' | ['-'] number | TRUE | FALSE | Interval('PT1H')
table:      name ('.' name)*  |  a path in backticks, `folder/table`
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from changeling.feeds.option_values import Interval, Value
from changeling.feeds.tokens import Kind, Token, marked, tokens
from changeling.formats.changefeed import table_of
from changeling.model.errors import UsageError, perhaps_meant
from changeling.model.table import TableName

Item = TypeVar("Item")
_KEYWORDS = ("ALTER", "TABLE", "ADD", "DROP", "CHANGEFEED", "WITH", "SET", "DISABLE")
_VALUE = "a value: 'text', a number, TRUE, FALSE or Interval('PT1H')"


@dataclass(frozen=True)
class Name:
    """A name in a statement, and where it is."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Setting:
    """`name = value`; the name in upper case."""

    name: Name
    value: Value
    value_start: int
    value_end: int


@dataclass(frozen=True)
class AddFeed:
    """ADD CHANGEFEED."""

    feed: Name
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class SetOptions:
    """ALTER CHANGEFEED … SET."""

    feed: Name
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class DisableFeed:
    """ALTER CHANGEFEED … DISABLE."""

    feed: Name


@dataclass(frozen=True)
class DropFeed:
    """DROP CHANGEFEED."""

    feed: Name


Action: TypeAlias = AddFeed | SetOptions | DisableFeed | DropFeed


@dataclass(frozen=True)
class Table:
    """The name of a table in a statement, and where it is."""

    name: TableName
    start: int
    end: int


@dataclass(frozen=True)
class AlterTable:
    """ALTER TABLE with its actions."""

    table: Table
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class DropTable:
    """DROP TABLE."""

    table: Table


Statement: TypeAlias = AlterTable | DropTable


def parse(text: str) -> list[Statement]:
    """The statements of a text; raises `UsageError` that shows the line, with a mark under the wrong word."""
    return _Parser(text).statements()


class _Parser:
    """Reads tokens from left to right; each method reads one part of the grammar."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._place = text, tokens(text), 0

    def statements(self) -> list[Statement]:
        found: list[Statement] = []
        while True:
            while self._take_sign(";"):
                pass
            if self._next.kind is Kind.END and found:
                return found
            found.append(self._statement())
            if self._next.kind is not Kind.END and not self._next.is_sign(";"):
                more = "a comma and another action, " if isinstance(found[-1], AlterTable) else ""
                raise self._unexpected(f"{more}a semicolon or the end")

    def _statement(self) -> Statement:
        verb = self._keyword("ALTER", "DROP")
        self._keyword("TABLE")
        table = self._table()
        return DropTable(table) if verb == "DROP" else AlterTable(table, self._listed(self._action))

    def _action(self) -> Action:
        verb = self._keyword("ADD", "ALTER", "DROP")
        self._keyword("CHANGEFEED")
        feed = self._name("the name of a changefeed")
        if verb == "DROP":
            return DropFeed(feed)
        if verb == "ADD":
            self._keyword("WITH")
            return AddFeed(feed, self._settings())
        if self._keyword("DISABLE", "SET") == "DISABLE":
            return DisableFeed(feed)
        return SetOptions(feed, self._settings())

    def _settings(self) -> tuple[Setting, ...]:
        self._sign("(")
        found: list[Setting] = []
        while not (found and self._take_sign(")")):
            found.append(self._setting())
            if any(found[-1].name.text == other.name.text for other in found[:-1]):
                name = found[-1].name
                raise marked(self._text, name.start, name.end, f"{name.text} is given twice")
            if not self._take_sign(",") and not self._next.is_sign(")"):
                raise self._unexpected("',' or ')'")
        return tuple(found)

    def _setting(self) -> Setting:
        given = self._name("the name of an option")
        self._sign("=")
        start = self._next.start
        value = self._value()
        return Setting(
            Name(given.text.upper(), given.start, given.end), value, start, self._tokens[self._place - 1].end
        )

    def _value(self) -> Value:
        token = self._next
        if token.kind is Kind.TEXT:
            return self._take().text
        if token.kind is Kind.NUMBER:
            return int(self._take().text)
        if token.is_sign("-") and self._tokens[self._place + 1].kind is Kind.NUMBER:
            self._take()
            return -int(self._take().text)
        if token.is_word("TRUE") or token.is_word("FALSE"):
            return self._take().is_word("TRUE")
        if token.is_word("INTERVAL"):
            self._take()
            self._sign("(")
            if self._next.kind is not Kind.TEXT:
                raise self._unexpected("a duration in quotes, as in Interval('PT1H')")
            span = Interval(self._take().text)
            self._sign(")")
            return span
        hint = f"; put a text in quotes: '{token.text}'" if token.kind in (Kind.WORD, Kind.NAME) else ""
        raise self._unexpected(_VALUE, hint)

    def _table(self) -> Table:
        first = self._name("the name of a table")
        parts, end = [first.text], first.end
        while self._take_sign("."):
            part = self._name("the next part of the table's name")
            parts, end = [*parts, part.text], part.end
        path = table_of(f"{first.text}/") if len(parts) == 1 and "/" in first.text else None
        if path is not None:
            return Table(path, first.start, end)
        if len(parts) > 3:
            problem = "a table's name has at most three parts: [catalog.][schema.]name"
            raise marked(self._text, first.start, end, problem)
        return Table(TableName(*([None] * (3 - len(parts))), *parts), first.start, end)  # type: ignore[arg-type]

    def _name(self, what: str) -> Name:
        token = self._next
        if token.kind is Kind.TEXT:
            raise self._unexpected(what, "; names are not in quotes, but in backticks where they need it")
        if token.kind is Kind.WORD and token.text.upper() in _KEYWORDS:
            raise self._unexpected(what, "; put it in backticks if that is the name")
        if token.kind not in (Kind.WORD, Kind.NAME) or not token.text:
            raise self._unexpected(what)
        self._take()
        return Name(token.text, token.start, token.end)

    def _listed(self, read: Callable[[], Item]) -> tuple[Item, ...]:
        found = [read()]
        while self._take_sign(","):
            found.append(read())
        return tuple(found)

    def _keyword(self, *words: str) -> str:
        """One of the keywords, in upper case."""
        token = self._next
        found = next((word for word in words if token.is_word(word)), None)
        if found is None:
            meant = perhaps_meant(token.text.upper(), words) if token.kind is Kind.WORD else None
            raise self._unexpected(" or ".join(words), "" if meant is None else f"; {meant}")
        self._take()
        return found

    def _sign(self, sign: str) -> None:
        if not self._take_sign(sign):
            raise self._unexpected(repr(sign))

    def _take_sign(self, sign: str) -> bool:
        """Takes a sign where it comes next; returns whether it does."""
        if not self._next.is_sign(sign):
            return False
        self._take()
        return True

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _take(self) -> Token:
        self._place += 1
        return self._tokens[self._place - 1]

    def _unexpected(self, expected: str, hint: str = "") -> UsageError:
        token = self._next
        found = "the end" if token.kind is Kind.END else repr(self._text[token.start : token.end])
        return marked(self._text, token.start, token.end, f"expected {expected}, not {found}{hint}")
