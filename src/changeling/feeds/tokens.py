"""The words of SQL text, each with its place, and errors that mark one of them."""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from changeling.model.errors import UsageError
from changeling.model.printable import printable

_SIGNS = "(),;=.-"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0"} | {
    sign: sign for sign in "\\'\"`?"
}
_HEXADECIMAL = {"x": 2, "u": 4, "U": 8}
"""The digits after an escape that gives a character by its number."""
_SUFFIXES = ("", "u", "l", "ul", "t", "ut", "s", "us")
"""What may follow the digits of a whole number in YQL."""
_MAX_DIGITS = 19
"""Those of 64 bits."""
_SHOWN = 100
_BEFORE = 60


class Kind(StrEnum):
    """What a token is."""

    WORD = "word"
    NAME = "name in backticks"
    TEXT = "text"
    NUMBER = "number"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True)
class Token:
    """One word or sign; `text` is its content, without quotes and escapes."""

    kind: Kind
    text: str
    start: int
    end: int

    def is_word(self, word: str) -> bool:
        """Whether it is that keyword, in any case."""
        return self.kind is Kind.WORD and self.text.upper() == word

    def is_sign(self, sign: str) -> bool:
        """Whether it is that sign."""
        return self.kind is Kind.SIGN and self.text == sign


def tokens(text: str) -> list[Token]:
    """All tokens of a text, then one for its end; comments and blanks are left out. Raises `UsageError` with a mark."""
    found: list[Token] = []
    place = 0
    while (place := _after_blanks(text, place)) < len(text):
        found.append(_token(text, place))
        place = found[-1].end
    return [*found, Token(Kind.END, "", len(text), len(text))]


def marked(text: str, start: int, end: int, problem: str) -> UsageError:
    """The error that shows the line of a text with a mark under the characters from `start` to before `end`.

    A mark at the end of the text is put behind its last word.
    """
    if not text[start:].strip():
        start = end = len(text.rstrip())
    first = text.rfind("\n", 0, start) + 1
    line = text[first:].partition("\n")[0].rstrip()
    before, under = text[first:start], text[start : min(end, first + len(line))]
    cut = max(0, len(before) - _BEFORE) if len(line) > _SHOWN else 0
    shown = line[cut : cut + _SHOWN]
    left, right = "…" if cut else "", "…" if cut + _SHOWN < len(line) else ""
    indent = _width(left + printable(before[cut:]))
    mark = "^" * max(1, min(_width(printable(under)), _width(printable(shown)) + len(left) - indent))
    number = text.count("\n", 0, first) + 1
    return UsageError(f"line {number}: {problem}\n  {left}{printable(shown)}{right}\n  {' ' * indent}{mark}")


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _after_blanks(text: str, place: int) -> int:
    while place < len(text):
        if text[place].isspace():
            place += 1
        elif text.startswith("--", place):
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
        elif text.startswith("/*", place):
            end = text.find("*/", place + 2)
            if end < 0:
                raise marked(text, place, place + 2, "this comment has no end: add */ after it")
            place = end + 2
        else:
            break
    return place


def _token(text: str, start: int) -> Token:
    letter = text[start]
    if letter in "'\"":
        return _quoted(text, start, Kind.TEXT)
    if letter == "`":
        return _quoted(text, start, Kind.NAME)
    if letter in _SIGNS:
        return Token(Kind.SIGN, letter, start, start + 1)
    end = start
    while end < len(text) and f"_{text[end]}".isidentifier():
        end += 1
    if end == start:
        raise marked(text, start, start + 1, f"{letter!r} has no meaning here")
    if not letter.isdecimal():
        return Token(Kind.WORD, text[start:end], start, end)
    digits = text[start:end].lower().rstrip("ults")
    if not digits.isdecimal() or text[start + len(digits) : end].lower() not in _SUFFIXES:
        raise marked(text, start, end, f"{text[start:end]!r} is not a whole number; put a text in quotes")
    if len(digits) > _MAX_DIGITS:
        raise marked(text, start, end, f"a number has at most {_MAX_DIGITS} digits")
    return Token(Kind.NUMBER, digits, start, end)


def _quoted(text: str, start: int, kind: Kind) -> Token:
    """A text or a name: the quote itself is written twice in it, or behind a backslash."""
    quote, place, content = text[start], start + 1, ""
    while place < len(text):
        letter = text[place]
        if letter == "\\":
            read, place = _escaped(text, place)
            content += read
        elif letter != quote:
            content += letter
            place += 1
        elif text.startswith(quote, place + 1):
            content += quote
            place += 2
        else:
            return Token(kind, content, start, place + 1)
    what = "name" if kind is Kind.NAME else "text"
    raise marked(text, start, len(text), f"this {what} has no end: add {quote} after it")


def _escaped(text: str, place: int) -> tuple[str, int]:
    """The character that a backslash and what follows stand for, and the place after them."""
    sign = text[place + 1 : place + 2]
    if sign in _ESCAPES:
        return _ESCAPES[sign], place + 2
    length = _HEXADECIMAL.get(sign, 0)
    digits = text[place + 2 : place + 2 + length]
    end = place + 2 + length
    try:
        if length and len(digits) == length and digits.isalnum():
            # Half of a surrogate pair is no character.
            return chr(int(digits, 16)).encode().decode(), end
    except (ValueError, OverflowError):
        pass
    raise marked(text, place, place + 2, "there is no such escape: write \\\\ for a backslash")
