"""Loads, stores and atomics: each to the state space that it names or that its generic address points to."""

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
"""Bytes of a cache line."""


class Memories(Registers):
    """The threads of a batch, their registers, and the memories that they reach (see :class:`Threads`)."""

    def __init__(self, launch: Launch, first: int, ctas: int) -> None:
        super().__init__(launch, first, ctas)
        self.shared, self.local, self.globals = SharedMemory(self), LocalMemory(self), GlobalAccesses(self)
        self.maps = TensorMaps(self.globals)

    def load(self, lanes: Lanes, access: AccessKind, addresses: Any) -> Any:
        """Bytes of memory, shape ``(n or 1, C or 1, access.bytes)``, through every check."""
        raw = self.load_or_nothing(lanes, access, addresses)
        if self.unwritten:
            (who, origins), self.unwritten = self.unwritten[0], []
            self.tell(who, origins)
        return raw

    def poison_loaded(self, names: Sequence[str], element: int, width: int = 0) -> None:
        """What the load that has just been done found never written: its registers are poison, and say where it is from.

        Whoever uses one is at fault, and the load is what is told. Where nothing in the program reads any of its
        registers, it is not a look-ahead that may be in vain: the load itself is at fault.

        ``names``: the registers, one after another; ``element``: bytes of each; ``width``: lanes of one instruction,
        where several in a row have been done as one (with all their registers).
        """
        taken, self.unwritten = self.unwritten, []
        for lanes, origins in taken:
            count, index = origins.shape[1] // element, self.index(lanes)
            step = width or len(index)
            for number, first in enumerate(range(0, len(index), step)):
                part = slice(first, first + step)
                self.poison_found(names[number * count : (number + 1) * count], element, index[part], origins[part])

    def poison_found(self, names: Sequence[str], element: int, lanes: Lanes, byte_origins: Any) -> None:
        """Do as :meth:`poison_loaded`, for one instruction: its registers, and the origins of each lane's bytes."""
        if byte_origins.any() and read_somewhere(self.program).isdisjoint(names):
            self.tell(lanes, byte_origins)
        for part, name in enumerate(names):
            origins = byte_origins[:, part * element : (part + 1) * element]
            bad = origins.any(axis=1)
            whole = np.repeat(origins[:, -1:] != 0, 8, axis=1)  # a wider register holds copies of the sign
            whole[:, :element] = origins != 0
            bits = np.where(whole, np.uint8(255), np.uint8(0)).view(np.uint64)[:, 0]
            whence = origins[np.arange(len(bad)), np.argmax(origins != 0, axis=1)]
            self.undefine(name, self.index(lanes)[bad], whence[bad], bits[bad])

    def load_or_nothing(self, lanes: Lanes, access: AccessKind, addresses: Any) -> Any:
        """Do as :meth:`load`; of bytes that hold nothing :attr:`unwritten` tells."""
        if access.space == "":
            return self._generic(lanes, access, addresses, lambda to, x, at, rows: self.load_or_nothing(to, x, at))
        return self._memory_of(access.space).load(lanes, access, addresses)

    def store(self, lanes: Lanes, access: AccessKind, addresses: Any, raw: Any, origins: Any = None) -> None:
        """Write bytes, as :meth:`load`; ``origins``: of bytes that hold nothing, see :meth:`sources`, shape (n, access.bytes)."""
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
        """Read, compute, write in one; ``update(old, rows, columns)`` gives the new values (with ``shared=True`` there). Returns the old ones."""
        if access.space == "":
            return self._generic(
                lanes, access, addresses, lambda to, x, at, rows: self.atomic(to, x, at, _of_rows(update, rows))
            )
        if access.space[:6] == "shared":
            return self.shared.atomic(lanes, access, addresses, partial(update, shared=True))
        return self.globals.atomic(lanes, access, addresses, update)

    def demand_mapped(self, lanes: Lanes, access: AccessKind, addresses: Any) -> None:
        """Demand that there is memory in the cache line at an address, and access none of it; shared memory is in no line."""
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
        """Split an access with generic addresses by the space that they point to."""
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
            self.hazard("bounds", f"the generic address 0x{int(addresses.flat[0]):x} is in no window", lanes)
        space = ("global", "shared::cluster", "local")[kind]
        return lanes, attrs.evolve(access, space=space), addresses & np.uint64(0xFFFFFFFF) if kind else addresses


def _of_rows(update: Any, rows: Any) -> Any:
    if rows is None:
        return update
    return lambda old, part, columns, **where: update(old, rows[part], columns, **where)
