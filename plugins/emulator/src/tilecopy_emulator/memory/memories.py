"""Loads, stores and atomics. If the opcode names no state space, each lane's generic address selects it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from ..effects import read_somewhere
from ..memory_model.access import AccessKind
from ..threads.launch import Launch
from ..threads.registers import Registers
from ..threads.threads import Lanes
from . import profile
from .global_memory import GlobalAccesses
from .local import LocalMemory
from .shared import SharedMemory
from .tensor_maps import TensorMaps

LINE_BYTES = 128
"""The bytes of a cache line."""


class Memories(Registers):
    """The threads and registers of a batch, and the memories that the threads access. See :class:`Threads`."""

    def __init__(self, launch: Launch, first: int, ctas: int) -> None:
        super().__init__(launch, first, ctas)
        self.shared, self.local, self.globals = SharedMemory(self), LocalMemory(self), GlobalAccesses(self)
        self.maps = TensorMaps(self.globals)

    def load(self, lanes: Lanes, access: AccessKind, addresses: Any) -> Any:
        """Check an access. Return the loaded bytes. Their shape broadcasts to ``(n, clusters, access.bytes)``."""
        raw = self.load_or_nothing(lanes, access, addresses)
        if self.unwritten:
            (who, origins), self.unwritten = self.unwritten[0], []
            self.tell(who, origins)
        return raw

    def poison_loaded(self, names: Sequence[str], element: int, width: int = 0) -> None:
        """Mark register bits as poison if the last load took the bits from unwritten bytes.

        A later use of the register is the hazard, and its report names the load. If no instruction of the program
        reads any of the registers, the load itself is the hazard.

        ``names``: the registers in order; ``element``: bytes of each; ``width``: lanes of one instruction, if
        several consecutive instructions were executed as one (with all their registers).
        """
        taken, self.unwritten = self.unwritten, []
        for lanes, origins in taken:
            count, index = origins.shape[1] // element, self.index(lanes)
            step = width or len(index)
            for number, first in enumerate(range(0, len(index), step)):
                part = slice(first, first + step)
                self.poison_found(names[number * count : (number + 1) * count], element, index[part], origins[part])

    def poison_found(self, names: Sequence[str], element: int, lanes: Lanes, byte_origins: Any) -> None:
        """Mark a load's registers as poison. ``byte_origins`` is 0 for each defined byte, else the byte's origin."""
        if byte_origins.any() and read_somewhere(self.program).isdisjoint(names):
            self.tell(lanes, byte_origins)
        for part, name in enumerate(names):
            origins = byte_origins[:, part * element : (part + 1) * element]
            bad = origins.any(axis=1)
            whole = np.repeat(origins[:, -1:] != 0, 8, axis=1)  # a wider register has copies of the sign
            whole[:, :element] = origins != 0
            bits = np.where(whole, np.uint8(255), np.uint8(0)).view(np.uint64)[:, 0]
            whence = origins[np.arange(len(bad)), np.argmax(origins != 0, axis=1)]
            self.undefine(name, self.index(lanes)[bad], whence[bad], bits[bad])

    def load_or_nothing(self, lanes: Lanes, access: AccessKind, addresses: Any) -> Any:
        """Return bytes like :meth:`load`, but record unwritten bytes in :attr:`unwritten` instead of raising a hazard."""
        if access.space == "":
            return self._generic(lanes, access, addresses, lambda to, x, at, rows: self.load_or_nothing(to, x, at))
        return self._memory_of(access.space).load(lanes, access, addresses)

    def store(self, lanes: Lanes, access: AccessKind, addresses: Any, raw: Any, origins: Any = None) -> None:
        """Check an access, and write bytes. ``origins`` has shape (n, access.bytes) and is 0 for defined bytes."""
        if access.space != "":
            self._memory_of(access.space).store(lanes, access, addresses, raw, origins)
            return
        self._generic(
            lanes, access, addresses, lambda to, x, at, rows: self.store(
                to, x, at, raw if rows is None or len(raw) == 1 else raw[rows],
                origins if rows is None or origins is None else origins[rows],
            ),
        )  # fmt: skip

    def atomic(self, lanes: Lanes, access: AccessKind, addresses: Any, update: Any) -> Any:
        """Execute an atomic operation. ``update(old, rows, columns)`` returns the new values. Return the old values."""
        if access.space == "":
            return self._generic(
                lanes, access, addresses, lambda to, x, at, rows: self.atomic(to, x, at, _of_rows(update, rows))
            )
        if access.space[:6] == "shared":
            return self.shared.atomic(lanes, access, addresses, partial(update, shared=True))
        return self.globals.atomic(lanes, access, addresses, update)

    def demand_mapped(self, lanes: Lanes, access: AccessKind, addresses: Any) -> None:
        """Check that the cache lines at some addresses are in an array or variable. Shared memory is not checked."""
        if access.space == "":
            self._generic(lanes, access, addresses, lambda to, x, at, rows: self.demand_mapped(to, x, at))
        elif access.space == "local":
            self.local.place(lanes, access, addresses)
        elif access.space == "global":
            lines = addresses - addresses % np.uint64(LINE_BYTES)
            self.globals.locate(lanes, self.globals.spread(lanes, lines), access.bytes)

    def _memory_of(self, space: str) -> SharedMemory | LocalMemory | GlobalAccesses:
        return self.shared if space[:6] == "shared" else self.local if space == "local" else self.globals

    def _generic(self, lanes: Lanes, access: AccessKind, addresses: Any, go: Any) -> Any:
        """Split an access with generic addresses by their state spaces."""
        addresses = np.asarray(addresses)
        if addresses.dtype != np.uint64:
            addresses = addresses.astype(np.uint64)
        high = addresses >> np.uint64(40)
        kinds = np.where(high >= profile.FIRST_GLOBAL, 0, np.where(high == 1, 1, np.where(high == 2, 2, 3)))
        if (kinds == kinds.flat[0]).all():
            return go(*self._of_space(lanes, access, addresses, int(kinds.flat[0])), None)
        kind = self.uniform(kinds, lanes)
        index, result = self.index(lanes), None
        addresses = self.rows(addresses, lanes)
        for space in np.unique(kind).tolist():
            rows = np.nonzero(kind == space)[0]
            part = go(*self._of_space(index[rows], access, addresses[rows], space), rows)
            if part is not None:
                if result is None:
                    result = np.empty((len(index), self.copies, *part.shape[2:]), part.dtype)
                result[rows] = part
        return result

    def _of_space(self, lanes: Lanes, access: AccessKind, addresses: Any, kind: int) -> tuple[Any, AccessKind, Any]:
        if kind == 3:
            self.hazard("bounds", f"the generic address 0x{int(addresses.flat[0]):x} is not in any state space", lanes)
        space = ("global", "shared::cluster", "local")[kind]
        return lanes, attrs.evolve(access, space=space), addresses & np.uint64(0xFFFFFFFF) if kind else addresses


def _of_rows(update: Any, rows: Any) -> Any:
    if rows is None:
        return update
    return lambda old, part, columns, **where: update(old, rows[part], columns, **where)
