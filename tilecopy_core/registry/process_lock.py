"""What a process does once: under one lock, which no fork leaves held in the child."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

LOCK = threading.RLock()
"""Held while plugins, kernels or the driver are loaded. A fork waits for it: else the child would wait for a thread that it
does not have, at a lock of ours or at that of a module that was being imported. It is one lock, since two that a fork takes
in turn could each be held by somebody who waits for the other."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


class once(Generic[T]):  # noqa: N801 (a decorator, as functools.cached_property, whose own lock a fork may leave held)
    """A property that is computed at its first use and kept by the object."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, owner: Any, kind: Any = None) -> T:
        if owner is None:
            return self  # type: ignore[return-value]
        name = self._compute.__name__
        with LOCK:
            if name not in vars(owner):
                vars(owner)[name] = self._compute(owner)
        found: T = vars(owner)[name]
        return found
