"""Text for people to read: foreign text, in which nothing may look like output of the program, and counts and sizes."""

import unicodedata

_ESCAPED = {"Cc", "Cs", "Zl", "Zp"}
"""Control characters, surrogates, and separators of lines and paragraphs."""
_BIDIRECTIONAL = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of the text that follows."""


def printable(text: str) -> str:
    r"""The text in one line, the same on every terminal: a newline becomes `\n`, an escape `\x1b`."""
    if text.isprintable():
        return text
    return "".join(_escaped(letter) for letter in text)


def printable_lines(text: str) -> str:
    """A message that may have several lines: those after the first are indented, so that none looks like another message."""
    first, *others = map(printable, text.split("\n"))
    return "\n".join([first, *(line if line.startswith("  ") else f"  {line}" for line in others)])


def _escaped(letter: str) -> str:
    if unicodedata.category(letter) in _ESCAPED or letter in _BIDIRECTIONAL:
        return letter.encode("unicode_escape").decode()
    return letter


_EXACT_BELOW = 100_000
_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"))


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: `1 record`, `2,000 records`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def sized(amount: int) -> str:
    """A number of bytes; of a large one, what counts."""
    if amount < _EXACT_BELOW:
        return counted(amount, "byte")
    size, unit = next((known for known in _UNITS if amount >= known[0]), _UNITS[-1])
    return f"{amount / size:,.1f} {unit}"
