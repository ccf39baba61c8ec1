"""Work that is counted, so that no result depends on the machine's speed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class TooMuchWork(BaseException):
    """Raised in what makes too many calls; no `except Exception` stops it."""


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Let what runs inside make so many calls and returns, of Python functions and of C functions."""
    made, profile = 0, sys.getprofile()

    def count(*_: object) -> None:
        nonlocal made
        made += 1
        if made > calls:
            raise TooMuchWork(f"more than {calls} calls")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(profile)
    assert made <= calls
