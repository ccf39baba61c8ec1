"""Hook wrappers that record each hook's side effects and count the function calls of the hook."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
from collections.abc import Generator, Iterator, MutableMapping
from functools import cache
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from tilecopy_core.plugin import key_of

MAX_CALLS = {"tilecopy_predicate": 100_000, "tilecopy_partition": 1_000_000, "tilecopy_emit": 4_000_000}
"""The most calls and returns of Python and C functions in one call of a hook. 100,000 take about 10 ms, and the core itself takes
1 ms per copy."""

_PLAIN_TYPES = {int, str, bool, float, type(None)}


class _Environment(MutableMapping[str, str]):
    """The environment, with the names of the variables that were accessed."""

    def __init__(self, real: MutableMapping[str, str]) -> None:
        self._real, self.asked = real, set[str]()

    def _noted(self, name: str) -> str:
        self.asked.add(name)
        return name

    def __getitem__(self, name: str) -> str:
        return self._real[self._noted(name)]

    def __setitem__(self, name: str, value: str) -> None:
        self._real[self._noted(name)] = value

    def __delitem__(self, name: str) -> None:
        del self._real[self._noted(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)


@cache
def _compared_fields(kind: type) -> tuple[str, ...] | None:
    """Return the names of a record's fields that are compared, or None for a type that is not a record."""
    return tuple(f.name for f in attrs.fields(kind) if f.eq and f.init) if attrs.has(kind) else None


def snapshot(value: Any) -> Any:
    """Return a record's contents as nested tuples, to compare the contents before and after a hook call."""
    kind: Any = type(value)
    if kind in _PLAIN_TYPES:
        return value
    if kind is tuple or isinstance(value, (tuple, list)):
        return tuple(map(snapshot, value))
    names = _compared_fields(kind)
    if names is not None:
        return kind.__name__, tuple([snapshot(getattr(value, name)) for name in names])
    if hasattr(value, "items"):
        return tuple(sorted((str(name), snapshot(entry)) for name, entry in value.items()))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return key_of(value) if isinstance(value, tc.Expr) else value


class HookAuditor:
    """A plugin that wraps every hook. It records the side effects and the number of function calls of each hook.

    Attributes:
        complaints: a sentence for each side effect.
        calls: the most calls and returns in one call of each hook.
    """

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.calls: dict[str, int] = {}

    @property
    def slow(self) -> list[str]:
        """The hooks that make more function calls than :data:`MAX_CALLS`."""
        return [hook for hook, calls in self.calls.items() if calls > MAX_CALLS[hook]]

    def _watch(self, hook: str, given: dict[str, Any]) -> Generator[None, Any, Any]:
        before = {name: snapshot(value) for name, value in given.items()}
        printed, real = io.StringIO(), os.environ
        environment = _Environment(real)
        calls, profile = 0, sys.getprofile()

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        os.environ = environment  # type: ignore[assignment]  # noqa: B003
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                sys.setprofile(count)
                answer = yield
        finally:
            sys.setprofile(profile)
            os.environ = real  # noqa: B003
            self.calls[hook] = max(calls, self.calls.get(hook, 0))
            if printed.getvalue():
                self.complaints.append(f"{hook} must not print, got {printed.getvalue().strip()!r}")
            for name in sorted(environment.asked):
                self.complaints.append(f"{hook} must not read environment variables, but it reads {name}")
            for name, value in given.items():
                if snapshot(value) != before[name]:
                    self.complaints.append(f"{hook} must not change its arguments, but it changes {name}")
        return answer

    @tc.hookimpl(wrapper=True)
    def tilecopy_predicate(self, request: tc.CopyRequest) -> Generator[None, Any, Any]:
        """Record a call of the predicate."""
        return (yield from self._watch("tilecopy_predicate", {"request": request}))

    @tc.hookimpl(wrapper=True)
    def tilecopy_partition(self, request: tc.CopyRequest) -> Generator[None, Any, Any]:
        """Record a call of the partition hook, and check that the returned partition can be pickled."""
        answer = yield from self._watch("tilecopy_partition", {"request": request})
        if isinstance(answer, tc.Decline) or answer is None:
            return answer
        try:
            pickle.loads(pickle.dumps((request, answer)))  # noqa: S301 - our own bytes
        except Exception as error:
            self.complaints.append(f"the partition cannot be pickled: {type(error).__name__}: {error}")
        return answer

    @tc.hookimpl(wrapper=True)
    def tilecopy_emit(self, request: tc.CopyRequest, partition: Any, ptx: Any) -> Generator[None, Any, Any]:
        """Record a call of the emit hook."""
        depth = len(ptx.blocks)
        answer = yield from self._watch("tilecopy_emit", {"request": request, "partition": partition})
        if len(ptx.blocks) != depth:
            self.complaints.append("tilecopy_emit must close every block of the builder, but it leaves one open")
        return answer
