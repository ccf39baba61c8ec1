"""A progress bar on standard error, shown only if standard error is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import progress
from rich.console import Console


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar with the elapsed time, and yield the function that updates it.

    Args:
        what: the unit of the count, such as ``"tiles"``; with ``"bytes"`` the bar shows prefixes and the speed.

    Yields:
        A function of the count that is done and the total. The bar has no total until the first call.
    """
    columns: list[progress.ProgressColumn] = [progress.TextColumn(what), progress.BarColumn()]
    columns += (
        [progress.DownloadColumn(), progress.TransferSpeedColumn()]
        if what == "bytes"
        else [progress.MofNCompleteColumn()]
    )
    columns += [progress.TimeElapsedColumn(), progress.TimeRemainingColumn()]
    terminal = sys.stderr is not None and sys.stderr.isatty()
    with progress.Progress(*columns, console=Console(stderr=True), transient=True, disable=not terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
