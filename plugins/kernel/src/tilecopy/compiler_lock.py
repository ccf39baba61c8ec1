"""The compilers that run in this process: a fork waits for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tilecopy_core.registry import LOCK

_compilers: list[int] = []
"""The threads (by identifier) that are in a compiler now."""
_changed = threading.Condition()


@contextmanager
def compiling() -> Iterator[None]:
    """Let a compiler's library run, in any number of threads at once, while no fork happens.

    A fork waits until every thread has left its compiler, because the library has locks of its own. The body must not take
    ``LOCK``, so import the library before: the thread that forks holds ``LOCK`` while it waits.
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
    # A fork within a compiler, by a signal handler for example, waits for the others alone.
    thread = threading.get_ident()
    _changed.wait_for(lambda: all(other == thread for other in _compilers))


def _after_fork() -> None:
    _changed.release()
    LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
