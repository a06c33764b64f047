"""Tables for people: as wide as the terminal, and never cut where there is none."""

from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from changeling.model.printable import printable

_WIDE = 400


class _Rows(Table):
    """A table whose cells are of one line each, whatever is in them."""

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        super().add_row(*(Text(printable(cell)) if isinstance(cell, str) else cell for cell in cells), **more)


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """A plain table; numbers stand to the right."""
    made = _Rows(*(printable(name) for name in columns), box=None, header_style="bold", pad_edge=False)
    for name in numbers:
        made.add_column(name, justify="right")
    return made


def show(made: Table, *, stderr: bool = False) -> None:
    """Prints a table: into a pipe or a file each row is one line."""
    console = Console(highlight=False, markup=False, stderr=stderr)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, stderr=stderr, width=_WIDE)
    console.print(made)
