"""Work that is counted, so that no result depends on the machine's speed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class TooMuchWork(BaseException):
    """Raised in what makes too many calls; no `except Exception` stops it."""


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Let what runs inside make so many calls and returns, of Python functions and of C functions.

    Counting takes as long as the calls themselves. It begins once the process has run for as long as a quarter of them takes
    at least: 10 ns each.
    """
    made, profile = calls // 4, sys.getprofile()

    def count(*_: object) -> None:
        nonlocal made
        made += 1
        if made > calls:
            raise TooMuchWork(f"more than {calls} calls")

    previous = signal.signal(signal.SIGVTALRM, lambda *_: sys.setprofile(count))
    signal.setitimer(signal.ITIMER_VIRTUAL, made * 1e-8)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
        sys.setprofile(profile)
    assert made <= calls
