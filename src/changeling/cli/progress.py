"""A progress bar on terminals where it is of use, silence elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SMALL = 16 * 1024 * 1024
"""Read in about a second."""


@contextmanager
def progress_bar(total: int | None) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of bytes read since the last call; nothing is shown for little input."""
    if not sys.stderr.isatty() or (total is not None and total < _SMALL):
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda amount: progress.update(task, advance=amount)
