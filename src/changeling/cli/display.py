"""What people read on a terminal: tables, and changes with what became of each column."""

from typing import Any

import pyarrow as pa
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from changeling.model import arrow_layouts, json_text, times
from changeling.model.change import Change
from changeling.model.printable import printable

_NANOS = 1_000_000_000
_WIDE = 400
_BETWEEN = 2
"""Blanks between two columns."""
_COLOURS = {"insert": "green", "read": "green", "delete": "red", "truncate": "red", "update": "yellow"}


class _Rows(Table):
    """A table whose cells are single lines, whatever they contain."""

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        super().add_row(*(Text(printable(cell)) if isinstance(cell, str) else cell for cell in cells), **more)


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """A plain table; numbers are aligned to the right."""
    shown = _empty()
    for name in columns:
        shown.add_column(printable(name), overflow="fold")
    for name in numbers:
        shown.add_column(name, justify="right", overflow="fold")
    return shown


def _empty() -> _Rows:
    return _Rows(box=None, header_style="bold", pad_edge=False)


def show_table(shown: Table, *, folded: bool = False) -> None:
    """Prints a table: into a pipe or a file each row is one line.

    A terminal that is too narrow gets the columns in several tables, each with the first column; with `folded`, one table with
    cells of several lines. Nothing is cut off.
    """
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=_natural_width(shown))
    parts = [shown] if folded else _parts(console, shown)
    for number, part in enumerate(parts):
        if number:
            console.print()
        console.print(part)


def _natural_width(shown: Table) -> int:
    """What the longest row needs in one line."""
    console = Console()
    return max(_WIDE, sum(_width(console, column) + _BETWEEN for column in shown.columns))


def _parts(console: Console, shown: Table) -> list[Table]:
    """The table in as few as fit the width, all with its first column."""
    first, *others = shown.columns
    start = _width(console, first)
    chosen: list[list[Column]] = []
    room = 0
    for column in others:
        needed = _width(console, column) + _BETWEEN
        if not chosen or needed > room:
            chosen.append([first])
            room = console.width - start
        chosen[-1].append(column)
        room -= needed
    return [_of(shown, columns) for columns in chosen] if len(chosen) > 1 else [shown]


def _of(shown: Table, columns: list[Column]) -> Table:
    part = _empty()
    part.show_header = shown.show_header
    for column in columns:
        part.add_column(column.header, justify=column.justify, overflow=column.overflow)
    for cells in zip(*(column.cells for column in columns), strict=True):
        part.add_row(*cells)
    return part


def _width(console: Console, column: Column) -> int:
    return max(console.measure(cell).maximum for cell in (column.header, *column.cells))


def show_changes(batch: pa.RecordBatch) -> None:
    """Prints the changes of a batch."""
    console = Console(highlight=False, soft_wrap=True)
    for change in arrow_layouts.changes(batch):
        console.print(heading(change))
        for name, was, now in _columns(change):
            console.print(column_line(name, was, now))


def heading(change: Change, word: str | None = None) -> Text:
    """What a change did, in a word of its own or by its operation, to which row, when."""
    heading = Text()
    did = word or change.op
    heading.append(f"{did:<7} ", style=f"bold {_COLOURS.get(did, 'cyan')}")
    heading.append(str(change.table or ""), style="bold")
    if change.key is not None:
        heading.append(f" {printable(str(change.key))}")
    if change.commit_time is not None:
        heading.append(f"  {times.to_text(change.commit_time)}", style="dim")
    if change.transaction is not None:
        heading.append(f"  tx {printable(str(change.transaction.id))}", style="dim")
    return heading


def _columns(change: Change) -> list[tuple[str, bytes | None, bytes | None]]:
    before = json_text.members(change.before) if change.before is not None else {}
    after = json_text.members(change.after) if change.after is not None else {}
    names = [*after, *(name for name in before if name not in after)]
    rows = [(name, before.get(name), after.get(name)) for name in names]
    if change.before is None or change.after is None:
        return rows
    return [
        (name, was, b"absent" if now is None else now)
        for name, was, now in rows
        if was != now and not (now is None and change.after_image == "partial")
    ]


def column_line(name: str, was: bytes | None, now: bytes | None) -> Text:
    """What became of a column."""
    line = Text(f"    {printable(name)}: ")
    if was is not None:
        line.append(printable(was.decode()), style="red")
    if was is not None and now is not None:
        line.append(" -> ")
    if now is not None:
        line.append(printable(now.decode()), style="green")
    return line


def duration(nanos: int | None) -> str:
    """A duration in a suitable unit."""
    if nanos is None:
        return ""
    seconds = nanos / _NANOS
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.3f} s"
