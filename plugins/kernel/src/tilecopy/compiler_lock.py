"""A lock that delays ``os.fork`` while a thread of this process executes code of a compiler's library."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tilecopy_core.registry import LOCK

_compilers: list[int] = []
"""The identifiers of the threads that run a compiler now."""
_changed = threading.Condition()


@contextmanager
def compiling() -> Iterator[None]:
    """Return a context manager to hold during calls into a compiler's library. Several threads may hold it at once.

    A fork waits until every thread has left its compiler, because the library has its own locks. The body must not take
    ``LOCK``, because the thread that forks holds it while it waits. Import the library before.
    """
    thread = threading.get_ident()
    with LOCK, _changed:  # LOCK: no thread enters while a fork waits
        _compilers.append(thread)
    try:
        yield
    finally:
        with _changed:
            _compilers.remove(thread)
            _changed.notify_all()


def _before_fork() -> None:
    LOCK.acquire()
    _changed.acquire()
    # A thread that forks within a compiler, for example in a signal handler, waits only for the other threads.
    thread = threading.get_ident()
    _changed.wait_for(lambda: all(other == thread for other in _compilers))


def _after_fork() -> None:
    _changed.release()
    LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
