"""Loads, stores and atomics: each to the state space that it names or that its generic address points to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from ..effects import read_somewhere
from ..order.access import Access, Together, new_values, rounds
from ..threads.arrays import fetch, put
from ..threads.launch import Launch
from ..threads.registers import Registers
from ..threads.threads import Lanes
from . import profile
from .global_memory import GlobalAccesses
from .local import LocalMemory
from .shared import SharedMemory


class Memories(Registers):
    """The threads of a batch, their registers, and the memories that they reach (see :class:`Threads`)."""

    def __init__(self, launch: Launch, first: int, ctas: int) -> None:
        super().__init__(launch, first, ctas)
        self.shared, self.local, self.globals = SharedMemory(self), LocalMemory(self), GlobalAccesses(self)

    def load(self, lanes: Lanes, access: Access, addresses: Any) -> Any:
        """Bytes of memory, shape ``(n or 1, C or 1, access.bytes)``, through every check."""
        raw = load(self, lanes, access, addresses)
        if self.unwritten:
            (who, origins), self.unwritten = self.unwritten[0], []
            self.tell(who, origins)
        return raw

    def poison_loaded(self, names: Sequence[str], element: int, each: int = 0) -> None:
        """What the load that has just been done found never written: its registers are poison, and say where it is from.

        Whoever uses one is at fault, and the load is what is told. Where nothing in the program reads any of its
        registers, it is no look-ahead that may be in vain: the load itself is at fault.

        Args:
            names: the registers, one after another.
            element: bytes of each.
            each: lanes of one instruction, where several in a row have been done as one (with all their registers).
        """
        taken, self.unwritten = self.unwritten, []
        for lanes, origins in taken:
            count, index = origins.shape[1] // element, self.index(lanes)
            step = each or len(index)
            for number, first in enumerate(range(0, len(index), step)):
                part = slice(first, first + step)
                self.poison_found(names[number * count : (number + 1) * count], element, index[part], origins[part])

    def poison_found(self, names: Sequence[str], element: int, lanes: Lanes, found: Any) -> None:
        """As :meth:`poison_loaded`, for one instruction: its registers, and the origins of each lane's bytes."""
        if found.any() and read_somewhere(self.program).isdisjoint(names):
            self.tell(lanes, found)
        for part, name in enumerate(names):
            origins = found[:, part * element : (part + 1) * element]
            bad = origins.any(axis=1)
            whole = np.repeat(origins[:, -1:] != 0, 8, axis=1)  # a wider register holds copies of the sign
            whole[:, :element] = origins != 0
            bits = np.where(whole, np.uint8(255), np.uint8(0)).view(np.uint64)[:, 0]
            whence = origins[np.arange(len(bad)), np.argmax(origins != 0, axis=1)]
            self.undefine(name, self.index(lanes)[bad], whence[bad], bits[bad])

    def store(self, lanes: Lanes, access: Access, addresses: Any, raw: Any, origins: Any = None) -> None:
        """Write bytes, as :meth:`load`; ``origins``: of bytes that hold nothing, see :meth:`sources`, shape (n, access.bytes)."""
        store(self, lanes, access, addresses, raw, origins)

    def atomic(self, lanes: Lanes, access: Access, addresses: Any, update: Any) -> Any:
        """Read, compute, write in one; ``update(old, rows, columns)`` gives the new values (with ``shared=True`` there). Returns the old ones."""
        return atomic(self, lanes, access, addresses, update)


def load(machine: Memories, lanes: Lanes, access: Access, addresses: Any) -> Any:
    """See :meth:`Machine.load`."""
    if access.space == "":
        return _generic(machine, lanes, access, addresses, lambda part, to, x, rows: load(machine, part, to, x))
    if access.space[:6] == "shared":
        return machine.shared.load(lanes, access, addresses)
    if access.space == "local":
        return machine.local.load(lanes, access, addresses)
    memory, addresses = machine.globals, _wide(addresses)
    if access.strength:
        addresses = memory.spread(lanes, addresses)
        machine.flags.prepare(access)
    pieces = memory.locate(lanes, addresses, access.bytes)
    if machine.launch.profile and access.space == "global":
        profile.count_global(machine, lanes, addresses, access.bytes)
    if len(pieces) == 1:
        array, _, offsets = pieces[0]
        if array.space == "global":
            memory.note_read(array, lanes, offsets, access)
        raw = fetch(array, offsets, access.bytes)
    else:
        addresses = memory.spread(lanes, addresses)
        raw = np.empty((*addresses.shape, access.bytes), np.uint8)
        for array, chosen, offsets in pieces:
            memory.check_read(array, lanes, offsets, access.bytes, access.strength, chosen)
            raw[chosen] = fetch(array, offsets, access.bytes)
    if access.strength and machine.copies == 1:
        if machine.others and machine.launch.in_loop[machine.at]:
            machine.yields(machine.index(lanes))
        fresh = machine.flags.delay(lanes, addresses[:, 0], raw)
        machine.flags.acquire(lanes, access, addresses, chosen=fresh)
    return raw


def store(machine: Memories, lanes: Lanes, access: Access, addresses: Any, raw: Any, origins: Any = None) -> None:
    """See :meth:`Machine.store`."""
    if access.space == "":
        _generic(
            machine, lanes, access, addresses,
            lambda part, to, x, rows: store(
                machine, part, to, x, raw if rows is None or len(raw) == 1 else raw[rows],
                origins if rows is None or origins is None else origins[rows],
            ),
        )  # fmt: skip
        return
    if access.space[:6] == "shared":
        machine.shared.store(lanes, access, addresses, raw, origins)
        return
    if access.space == "local":
        machine.local.store(lanes, access, addresses, raw, origins)
        return
    if origins is not None and origins.any():
        machine.tell(lanes, origins)
    memory = machine.globals
    addresses = memory.spread(lanes, _wide(addresses))
    if access.strength:
        machine.flags.prepare(access)
    if machine.launch.profile and access.space == "global":
        profile.count_global(machine, lanes, addresses, access.bytes)
    raw = np.broadcast_to(raw, (*addresses.shape, access.bytes))
    for array, chosen, offsets in memory.locate(lanes, addresses, access.bytes):
        if not array.writable or array.space != "global":
            kind = "memory of space ." + array.space if array.space != "global" else "and its array is read-only"
            machine.hazard("read-only", f"{array.name} is written, {kind}", lanes)
        part = raw[chosen] if chosen is not None else raw
        try:
            memory.check_write(array, lanes, offsets, access.bytes, access.strength, chosen, raw=part)
        except Together as together:
            put(array, offsets, part)
            if not np.array_equal(fetch(array, offsets, access.bytes), part):
                together.accuse()
        before = fetch(array, offsets, access.bytes) if access.strength or machine.suspicious else None
        if access.strength and machine.copies == 1 and chosen is None:
            machine.flags.record(lanes, addresses[:, 0], before, part)
        if machine.suspicious and before is not None and np.array_equal(before, part):
            continue
        put(array, offsets, part)
        machine.launch.version += 1
    if access.strength:
        machine.flags.release(lanes, access, addresses, new=raw)


def atomic(machine: Memories, lanes: Lanes, access: Access, addresses: Any, update: Any) -> Any:
    """See :meth:`Machine.atomic`."""
    if access.space == "":
        return _generic(
            machine, lanes, access, addresses,
            lambda part, to, x, rows: atomic(machine, part, to, x, _of_rows(update, rows)),
        )  # fmt: skip
    if access.space[:6] == "shared":
        return machine.shared.atomic(lanes, access, addresses, partial(update, shared=True))
    memory = machine.globals
    addresses = memory.spread(lanes, _wide(addresses))
    machine.flags.prepare(access)
    old = np.empty(addresses.shape, access.dtype)
    index = machine.index(lanes)
    for array, chosen, offsets in memory.locate(lanes, addresses, access.bytes):
        if not array.writable or array.space != "global":
            machine.hazard("read-only", f"{array.name} is written and may not be", lanes)
        memory.check_write(array, lanes, offsets, access.bytes, access.strength, chosen)
        size = access.bytes
        rows, columns = np.nonzero(chosen) if chosen is not None else _grid(addresses.shape)
        flat = offsets.ravel()
        before = np.empty(len(flat), access.dtype)
        changed = False
        for part in rounds(flat):
            was = np.ascontiguousarray(fetch(array, flat[part], size)).view(access.dtype)[..., 0].copy()
            new = new_values(update, was, rows[part], columns[part])
            changed = changed or not np.array_equal(new, was)
            put(array, flat[part], new[:, None].view(np.uint8))
            before[part] = was
            if machine.copies == 1:
                members = index[rows[part]]
                keys = addresses[rows[part], 0]
                values = (was[:, None, None].view(np.uint8), new[:, None, None].view(np.uint8))
                machine.flags.record(members, keys, *values)
                machine.flags.acquire(members, access, keys)
                machine.flags.release(members, access, keys, modify=True, old=values[0], new=values[1])
                if machine.launch.in_loop[machine.at] and (new == was).any():
                    machine.yields(members[new == was])  # a lock that is taken: who holds it goes first
        old[rows, columns] = before
        if changed:
            machine.launch.version += 1
    return old


def _generic(machine: Memories, lanes: Lanes, access: Access, addresses: Any, go: Any) -> Any:
    """Split an access with generic addresses by the space that they point to."""
    addresses = np.asarray(addresses)
    if addresses.dtype != np.uint64:
        addresses = addresses.astype(np.uint64)
    high = addresses >> np.uint64(40)
    kinds = np.where(high >= 16, 0, np.where(high == 1, 1, np.where(high == 2, 2, 3)))
    if (kinds == kinds.flat[0]).all():
        return go(*_of_space(machine, lanes, access, addresses, int(kinds.flat[0])), None)
    kind = machine.uniform(kinds, lanes)
    index, result = machine.index(lanes), None
    addresses = machine.rows(addresses, lanes)
    for each in np.unique(kind).tolist():
        rows = np.nonzero(kind == each)[0]
        part = go(*_of_space(machine, index[rows], access, addresses[rows], each), rows)
        if part is not None:
            if result is None:
                result = np.empty((len(index), machine.copies, *part.shape[2:]), part.dtype)
            result[rows] = part
    return result


def _wide(addresses: Any) -> Any:
    addresses = np.asarray(addresses)
    return addresses if addresses.dtype == np.uint64 else addresses.astype(np.uint64)


def _grid(shape: tuple[int, int]) -> tuple[Any, Any]:
    rows, columns = np.indices(shape)
    return rows.ravel(), columns.ravel()


def _of_space(machine: Memories, lanes: Lanes, access: Access, addresses: Any, kind: int) -> tuple[Any, Access, Any]:
    if kind == 0:
        return lanes, attrs.evolve(access, space="global"), addresses
    if kind == 1:
        return lanes, attrs.evolve(access, space="shared::cluster"), addresses & np.uint64(0xFFFFFFFF)
    if kind == 2:
        return lanes, attrs.evolve(access, space="local"), addresses & np.uint64(0xFFFFFFFF)
    return machine.hazard("bounds", f"the generic address 0x{int(addresses.flat[0]):x} is in no window", lanes)


def _of_rows(update: Any, rows: Any) -> Any:
    if rows is None:
        return update
    return lambda old, part, columns, **where: update(old, rows[part], columns, **where)
