"""An asynchronous operation in flight: who issued it, what it touches, what it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ..order.clocks import Clock
from ..order.shadow import FLIGHT_ACTOR
from .threads import Threads


@attrs.define(eq=False)
class Operation:
    """One operation in flight.

    Attributes:
        kind: what it is, in words.
        machine: whose.
        number: among all.
        at: the instruction that issued it.
        lanes: unit lanes that issued it, in its order.
        reads, writes: shadow cells of shared memory.
        array_write: what it writes of global memory: array, cells, and the threads that get them.
        reduces: what it writes it combines with what is there; so others may do at the same time.
        land: moves the bytes.
        lack: what is missing where somebody did not wait for it.
        barrier: place of the mbarrier that it completes on, or -1.
        size: bytes that it counts there.
        group: number of the bulk group of its thread; read: its source may be reused.
        ctas: whose shared memory it uses.
        clock: what it comes after (see Order.causes).
    """

    kind: str
    machine: Threads
    number: int
    at: int
    lane: int
    land: Callable[[Operation], None]
    lack: str
    reads: Any = None
    writes: Any = None
    array_write: Any = None
    reduces: bool = False
    barrier: int = -1
    size: int = 0
    group: int = -1
    read: bool = False
    ctas: tuple[int, ...] = ()
    clock: Clock | None = None
    data: dict[str, Any] = attrs.Factory(dict)

    @property
    def actor(self) -> int:
        """As the shadows know it."""
        return FLIGHT_ACTOR + self.number

    def named(self) -> str:
        """In words, with its line."""
        return f"an asynchronous copy ({self.kind} of PTX line {self.machine.program.instructions[self.at].line}, {self.who()})"

    def who(self) -> str:
        """The thread that issued it."""
        return self.machine.name_of(self.lane)


def lands_later(operation: Operation) -> None:
    """How an operation lands whose bytes another one moves."""
