"""The local memory of threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory_model.access import LOCAL, STACK, AccessKind
from ..threads.registers import Registers
from ..threads.threads import Lanes


class LocalMemory:
    """The local memory of each thread."""

    def __init__(self, machine: Registers) -> None:
        self.machine = machine
        machine.place_names[LOCAL] = self.where
        self.size = len(machine.launch.local_owner)
        self.data: Any = None
        self.written: Any = None
        self.blank: Any = None
        self.changes = 0
        self.bottom = machine.launch.symbols.get(STACK, ("", self.size))[1]
        self.top = np.full(machine.units, self.bottom)
        """The top of each thread's stack, if the program has one."""

    def expand(self, copies: int) -> None:
        """Replicate the local memory for every cluster of the batch."""
        self.top = np.tile(self.top, copies)
        if self.data is not None:
            self.data = self.data.transpose(1, 0, 2).reshape(-1, 1, self.size)
            self.written = np.tile(self.written, (copies, 1))
        if self.blank is not None:
            self.blank = np.tile(self.blank, (copies, 1))

    def where(self, offset: int) -> str:
        """Return the name that messages use for a byte, such as ``x byte 4``."""
        symbols = self.machine.launch.symbols.items()
        before = ((at, name) for name, (space, at) in symbols if space == "local" and at <= offset)
        start, name = max(before, default=(0, "local"))
        return f"{name} byte {offset - start}"

    def allot(self, lanes: Lanes, sizes: Any, align: int) -> Any:
        """Execute ``alloca``: allocate bytes on each thread's stack, and return their start addresses."""
        machine, index = self.machine, self.machine.index(lanes)
        sizes = machine.uniform(sizes, lanes)
        start = -(-self.top[index] // align) * align
        bad, free = sizes > (self.size - start).astype(np.uint64), self.size - start
        machine.hazard_where(bad, "bounds", lambda i: f"alloca must fit in {free[i]} bytes, got {sizes[i]}", lanes)
        self.top[index] = start + sizes.astype(np.int64)
        return start

    def give_back(self, lanes: Lanes, tops: Any) -> None:
        """Execute ``stackrestore``: free the stack's bytes from an address upward."""
        machine, index = self.machine, self.machine.index(lanes)
        tops = machine.uniform(tops, lanes).astype(np.int64)
        bad = (tops < self.bottom) | (tops > self.top[index])
        machine.hazard_where(bad, "bounds", lambda i: f"stackrestore must use a stacksave result, got {tops[i]}", lanes)
        if self.written is not None:
            self.written[index] &= np.arange(self.size) < tops[:, None]
        self.top[index] = tops

    def place(self, lanes: Lanes, access: AccessKind, addresses: Any) -> Any:
        """Check an access to local memory. Return the offsets of its bytes as an array of shape (n, access.bytes)."""
        machine = self.machine
        if self.data is None:
            self.data = np.zeros((machine.units, machine.copies, self.size), np.uint8)
            self.written = np.zeros((machine.units, self.size), bool)
        offsets = machine.uniform(addresses, lanes).astype(np.int64)
        machine.hazard_where(
            offsets % access.bytes != 0, "alignment", lambda at: f"the local address {int(offsets[at])} is not a multiple of "
            f"{access.bytes} bytes ({self.where(int(offsets[at]))})", lanes,
        )  # fmt: skip
        bad = (offsets < 0) | (offsets + access.bytes > self.size)
        if not bad.any():
            owner = machine.launch.local_owner
            bad = (owner[offsets] < 0) | (owner[offsets] != owner[offsets + access.bytes - 1])
            bad |= (offsets >= self.bottom) & (offsets + access.bytes > self.top[machine.index(lanes)])
        what = f"an access of {access.bytes} bytes must be in one variable (local memory has {self.size} bytes)"
        say = lambda at: f"{what}, got {self.where(int(offsets[at]))}"  # noqa: E731
        machine.hazard_where(bad, "bounds", say, lanes)
        return offsets[:, None] + np.arange(access.bytes)

    def load(self, lanes: Lanes, access: AccessKind, addresses: Any) -> Any:
        """Execute a load from local memory. See :meth:`Machine.load`."""
        places, index = self.place(lanes, access, addresses), self.machine.index(lanes)
        known = self.written[index[:, None], places]
        blank = None if self.blank is None else self.blank[index[:, None], places]
        if not known.all() or (blank is not None and blank.any()):
            self.machine.unwritten_bytes(LOCAL, lanes, places[:, 0], ~known, blank)
        return np.ascontiguousarray(self.data[index[:, None], :, places].transpose(0, 2, 1))

    def store(self, lanes: Lanes, access: AccessKind, addresses: Any, raw: Any, origins: Any = None) -> None:
        """Execute a store to local memory. See :meth:`Machine.store`."""
        places, index = self.place(lanes, access, addresses), self.machine.index(lanes)
        self.written[index[:, None], places] = True
        if self.blank is None and origins is not None:
            self.blank = np.zeros(self.written.shape, np.int64)
        if self.blank is not None:
            self.blank[index[:, None], places] = 0 if origins is None else origins
        shape = (len(index), self.machine.copies, access.bytes)
        new = np.broadcast_to(raw, shape).transpose(0, 2, 1)
        if self.machine.suspicious and not np.array_equal(self.data[index[:, None], :, places], new):
            self.changes += 1
        self.data[index[:, None], :, places] = new
