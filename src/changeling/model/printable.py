"""Text from elsewhere for people to read: what it holds must not look like what the program says."""

import unicodedata

_ESCAPED = {"Cc", "Cs", "Zl", "Zp"}
"""Controls, halves of letters, and what ends a line or a paragraph."""
_TURNING = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""What turns the direction of the text that follows."""


def printable(text: str) -> str:
    r"""The text in one line, for one terminal as for another: a newline in it is `\n`, an escape `\x1b`."""
    if text.isprintable():
        return text
    return "".join(_escaped(letter) for letter in text)


def printable_lines(text: str) -> str:
    """A message that may have several lines: those after the first are indented, so that none looks like another message."""
    first, *others = map(printable, text.split("\n"))
    return "\n".join([first, *(line if line.startswith("  ") else f"  {line}" for line in others)])


def _escaped(letter: str) -> str:
    if unicodedata.category(letter) in _ESCAPED or letter in _TURNING:
        return letter.encode("unicode_escape").decode()
    return letter
