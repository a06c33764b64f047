"""A progress bar on terminals where it is of use, silence elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SMALL = 16 * 1024 * 1024
"""Read in about a second."""


@contextmanager
def progress_bar(total: int | None) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of bytes read since the last call; nothing is shown for little input.

    Where the size is not known, the bar appears when it is no longer little.
    """
    if not sys.stderr.isatty() or (total is not None and total < _SMALL):
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    task = progress.add_task("", total=total)

    def advance(amount: int) -> None:
        progress.update(task, advance=amount)
        if progress.tasks[0].completed >= _SMALL:
            progress.start()

    try:
        yield advance
    finally:
        progress.stop()
