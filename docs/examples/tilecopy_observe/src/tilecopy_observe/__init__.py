"""Times and traces every dispatch of a process: ``python -m tilecopy_observe SCRIPT`` prints a table when the script ends.

Installed, it is on in every process: ``tilecopy_observe.observer.dispatches`` are the newest dispatches, and
``tilecopy_observe.show()`` prints them. It wraps the hooks and declares itself an observer, so that nothing that it does
can reach a plan: what it raises or gives back is dropped, and it is set aside with a warning.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Generator
from time import perf_counter
from typing import Any, TextIO

import attrs

import tilecopy_core as tc

Wrapper = Generator[None, Any, Any]


@attrs.define
class Answer:
    """What one variant said to one copy.

    Attributes:
        verdict: ``chosen``, ``accepted`` (and another was taken), ``declined``, ``raised``, or ``not asked``: its record
            alone rules the copy out.
        reason: why it was not chosen.
        predicate_seconds: what its predicate took; None if it was not called. Wall-clock time, other wrappers included.
        partition_seconds: likewise.
        emit_seconds: of every emission since.
    """

    verdict: str
    reason: str = ""
    predicate_seconds: float | None = None
    partition_seconds: float | None = None
    emit_seconds: list[float] = attrs.field(factory=list)


@attrs.define
class Dispatch:
    """One dispatch, or copies that are emitted by a plan of another process.

    Attributes:
        request: the copy.
        answers: by variant, in the order in which they were asked; then those that were not.
        chosen: the variant, or "" where none took the copy.
        seconds: the whole dispatch.
    """

    request: tc.CopyRequest
    answers: dict[str, Answer] = attrs.field(factory=dict)
    chosen: str = ""
    seconds: float | None = None


class Observer:
    """The wrappers.

    Attributes:
        dispatches: the newest ones, oldest first.
    """

    observer = True
    """Says to the core that this plugin only looks."""

    def __init__(self, limit: int = 1000) -> None:
        self.dispatches: deque[Dispatch] = deque(maxlen=limit)
        self._running = threading.local()

    @tc.hookimpl(wrapper=True)
    def tilecopy_dispatch(self, request: tc.CopyRequest) -> Wrapper:
        """The whole of a dispatch."""
        dispatch = Dispatch(request)
        self.dispatches.append(dispatch)
        outer, self._running.dispatch = getattr(self._running, "dispatch", None), dispatch
        started = perf_counter()
        try:
            plan = yield
        except tc.NoVariantError as error:
            _complete(dispatch, error.declined)
            raise
        finally:
            dispatch.seconds = perf_counter() - started
            self._running.dispatch = outer
        dispatch.chosen = plan.variant
        dispatch.answers.setdefault(plan.variant, Answer("chosen")).verdict = "chosen"
        _complete(dispatch, plan.declined)
        return plan

    @tc.hookimpl(wrapper=True)
    def tilecopy_predicate(self, variant: tc.Variant) -> Wrapper:
        """What one variant answers."""
        answer = self._answer(variant)
        started = perf_counter()
        try:
            verdict = yield
        finally:
            answer.predicate_seconds = perf_counter() - started
        answer.verdict = "accepted" if isinstance(verdict, tc.Accept) else "declined"
        return verdict

    @tc.hookimpl(wrapper=True)
    def tilecopy_partition(self, variant: tc.Variant) -> Wrapper:
        """How the winner splits the copy, or that it declines after all."""
        answer = self._answer(variant)
        answer.verdict = "raised"
        started = perf_counter()
        try:
            partition = yield
        finally:
            answer.partition_seconds = perf_counter() - started
        answer.verdict = "declined" if isinstance(partition, tc.Decline) else "accepted"
        return partition

    @tc.hookimpl(wrapper=True)
    def tilecopy_emit(self, request: tc.CopyRequest, variant: tc.Variant) -> Wrapper:
        """The winner's instructions; without ``ptx``, which an observer may not take."""
        dispatch = next((each for each in reversed(self.dispatches) if each.request is request), None)
        if dispatch is None:  # the plan was made elsewhere
            dispatch = Dispatch(request, chosen=variant.name)
            self.dispatches.append(dispatch)
        started = perf_counter()
        try:
            return (yield)
        finally:
            answer = dispatch.answers.setdefault(variant.name, Answer("chosen"))
            answer.emit_seconds.append(perf_counter() - started)

    def _answer(self, variant: tc.Variant) -> Answer:
        """Where the running dispatch notes a variant's answer; hooks that are called outside of one note theirs nowhere."""
        dispatch = getattr(self._running, "dispatch", None)
        answers: dict[str, Answer] = {} if dispatch is None else dispatch.answers
        return answers.setdefault(variant.name, Answer("raised"))


def _complete(dispatch: Dispatch, reasons: dict[str, str]) -> None:
    """Add why each variant was not chosen, those included that no hook was asked of."""
    for name, reason in reasons.items():
        dispatch.answers.setdefault(name, Answer("not asked")).reason = reason


observer = Observer()
"""The plugin of this process."""


def show(observer: Observer = observer, file: TextIO | None = None) -> None:
    """Print a table of each dispatch.

    Args:
        observer: whose dispatches; by default this process's.
        file: where to; by default standard error.

    Raises:
        RequestError: rich is not installed.
    """
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError as error:
        raise tc.RequestError(f"tilecopy_observe.show: the table needs {error.name}: pip install rich") from error
    console = Console(file=file or sys.stderr, soft_wrap=False)
    for dispatch in list(observer.dispatches):
        title = f"{dispatch.request}: {dispatch.chosen or 'no variant'}"
        if dispatch.seconds is not None:
            title += f", {_microseconds(dispatch.seconds)} µs"
        table = Table(title=Text(title), title_justify="left")
        for name in ("variant", "verdict", "predicate µs", "partition µs", "emit µs", "why not"):
            table.add_column(name, justify="right" if "µs" in name else "left", overflow="fold")
        for name, answer in dispatch.answers.items():
            times = (answer.predicate_seconds, answer.partition_seconds)
            emits = " + ".join(map(_microseconds, answer.emit_seconds))
            cells = (name, answer.verdict, *map(_microseconds, times), emits, answer.reason)
            table.add_row(*map(Text, cells))
        console.print(table)


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.0f}"
