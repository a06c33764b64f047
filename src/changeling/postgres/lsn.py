"""Places in PostgreSQL's write-ahead log: numbers here, `16/B374D848` there."""


def parse(text: str) -> int:
    """The number of a place."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def spell(lsn: int) -> str:
    """The text of a place."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
