"""Tables for people: as wide as the terminal, and never cut where there is none."""

from rich.console import Console
from rich.table import Table

_WIDE = 400


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """A plain table; numbers stand to the right."""
    made = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for name in numbers:
        made.add_column(name, justify="right")
    return made


def show(made: Table, *, stderr: bool = False) -> None:
    """Prints a table: into a pipe or a file each row is one line."""
    console = Console(highlight=False, markup=False, stderr=stderr)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, stderr=stderr, width=_WIDE)
    console.print(made)
