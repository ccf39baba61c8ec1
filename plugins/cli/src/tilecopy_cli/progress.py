"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with the elapsed time, which moves from the first second; yield the function that reports progress.

    Args:
        what: is counted, such as ``"tiles"``; ``"bytes"`` are shown in their units and with their speed.

    Yields:
        A function of what is done and of all; until it is called, how much there is to do is not known.
    """
    counted = (DownloadColumn(), TransferSpeedColumn()) if what == "bytes" else (MofNCompleteColumn(),)
    columns = (TextColumn(what), BarColumn(), *counted, TimeElapsedColumn(), TimeRemainingColumn())
    terminal = sys.stderr is not None and sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
