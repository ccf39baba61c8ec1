"""Accesses of a batch's threads to global memory. Every access is checked and recorded per byte."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..debug_info import readable
from ..memory_model.access import WINDOW_BITS, AccessKind, IntraWarpConflict
from ..memory_model.shadow import BARRIER_ACTOR, WEAK, Conflict, ShadowMemory, actor_of, stamp
from ..threads.global_arrays import GlobalArray, Reads, fetch, put
from ..threads.registers import Registers
from ..threads.threads import Lanes
from . import observed, profile
from .race_check import ShadowedMemory, judge_global, raise_in_flight

LOG_ENTRIES = 1 << 12
LOG_BYTES = 1 << 26
"""The largest log of reads, in bytes, for an array without writes; past it, the array gets a shadow."""


class GlobalAccesses(ShadowedMemory):
    """The global-memory loads, stores and atomics of a batch's threads, with checks of these accesses."""

    def __init__(self, machine: Registers) -> None:
        super().__init__(machine, machine.launch.memory.cell, judge_global, whole_grid=True)
        self.arrays = machine.launch.memory.arrays

    def spread(self, lanes: Lanes, addresses: Any) -> Any:
        """Broadcast addresses to one row per lane and one column per cluster of the batch."""
        shape = (self.machine.size(lanes), self.machine.copies)
        return addresses if addresses.shape == shape else np.broadcast_to(addresses, shape)

    def locate(self, lanes: Lanes, addresses: Any, size: int) -> list[tuple[GlobalArray, Any, Any]]:
        """Check an access. Return ``(array, mask, byte offsets)`` for each array. A mask of None selects all."""
        aligned = size & -size if size & (size - 1) else size
        low = addresses & np.uint64(aligned - 1)
        if low.any():
            position, copy = first_of(low != 0)
            what = f"the global address 0x{int(addresses[position, copy]):x} is not a multiple of {aligned} bytes"
            self.machine.hazard("alignment", what, lanes, position, copy=copy)
        least, most = int(addresses.min()), int(addresses.max())
        if least >> WINDOW_BITS == most >> WINDOW_BITS:
            array = self.array_at(lanes, least, addresses)
            offsets = addresses.view(np.int64) - array.base
            if least < array.base or most - array.base + size > len(array.data):
                bad = (offsets < 0) | (offsets + size > len(array.data))
                self.outside(lanes, array, offsets, bad, size)
            return [(array, None, offsets)]
        addresses = self.spread(lanes, addresses)
        window = addresses >> np.uint64(WINDOW_BITS)
        pieces = []
        for number in np.unique(window).tolist():
            chosen = window == number
            array = self.array_at(lanes, number << WINDOW_BITS, addresses, chosen)
            offsets = addresses[chosen].view(np.int64) - array.base
            bad = (offsets < 0) | (offsets + size > len(array.data))
            if bad.any():
                whole = np.zeros(chosen.shape, bool)
                whole[chosen] = bad
                self.outside(lanes, array, addresses.view(np.int64) - array.base, whole, size)
            pieces.append((array, chosen, offsets))
        return pieces

    def array_at(self, lanes: Lanes, address: int, addresses: Any, chosen: Any = None) -> GlobalArray:
        """Return the array that contains an address. Raise the hazard of an address outside all arrays."""
        number = (address >> WINDOW_BITS) - 1
        if not 0 <= number < len(self.arrays):
            position, copy = first_of(chosen) if chosen is not None else (0, 0)
            self.machine.hazard(
                "bounds", f"0x{int(addresses[position, copy]):x} is not an address of any argument or variable",
                lanes, position, copy=copy,
            )  # fmt: skip
        array = self.arrays[number]
        if array.freed:
            self.machine.hazard("lifetime", f"{array.name} are accessed after {array.freed} freed them", lanes)
        return array

    def outside(self, lanes: Lanes, array: GlobalArray, offsets: Any, bad: Any, size: int) -> NoReturn:
        """Raise the hazard of an access to bytes outside an array."""
        position, copy = first_of(bad)
        at = int(offsets[position, copy])
        self.machine.hazard(
            "bounds", f"an access of {size} bytes at byte {at} is outside {array.name} of {len(array.data)} bytes "
            f"({array.where(at, size)})", lanes, position, copy=copy, bytes=(at, at + size - 1),
        )  # fmt: skip

    def cells(self, array: GlobalArray, offsets: Any, size: int) -> tuple[Any, int]:
        """Return the shadow cells of accesses as a flat array, and the number of cells per access."""
        return self.cells_from(offsets.ravel() + array.skew, size)

    def shadow_of(self, array: GlobalArray) -> ShadowMemory:
        """Return the shadow memory of an array. The first call creates that memory from the logged reads."""
        if array.shadow is None:
            array.shadow = ShadowMemory((len(array.data) + array.skew) // self.cell + 2, self.machine.crowds)
            log, array.log = array.log, []
            for offsets, size, threads, stamp_bits in log:
                self._fold(array, offsets, size, threads, stamp_bits)
        return array.shadow

    def _fold(self, array: GlobalArray, offsets: Any, size: int, threads: Any, stamp_bits: int) -> None:
        assert array.shadow is not None
        if isinstance(offsets, tuple):
            offsets = offsets[0] + offsets[1]
        cells, count = self.cells(array, np.broadcast_to(offsets, threads.shape), size)
        stamps = threads.ravel() | np.int64(stamp_bits)
        array.shadow.read(cells, np.repeat(stamps, count) if count > 1 else stamps, never)

    def note_read(
        self, array: GlobalArray, lanes: Lanes, offsets: Any, access: AccessKind, *, remember: bool = True
    ) -> None:
        """Check and record a read of one array. Without shadow memory, an ordinary read is only logged."""
        if access.read_only:
            array.constant.append((offsets, access.bytes))
            if len(array.constant) > LOG_ENTRIES:
                self._fold_constant(array)
            if array.shadow is not None:
                self._check_constant(array, lanes, self.spread(lanes, offsets), access.bytes, writes=False)
        if array.shadow is not None or access.strength or self.machine.launch.sought:
            self.shadow_of(array)
            spread = self.spread(lanes, offsets)
            self.check_read(array, lanes, spread, access.bytes, access.strength, None, remember=remember)
        elif remember:
            self._log(array, offsets, access.bytes, self.machine.grid_thread[lanes])

    def remember(self, array: GlobalArray, reads: Reads, actors: Any) -> None:
        """Record reads that passed the checks, so that later writes are checked against these reads.

        ``array``: the array that is read; ``reads``: its bytes; ``actors``: of the grid, which read them, of shape
        (pieces or 1, copies).
        """
        if array.space != "global":
            return
        actors = np.broadcast_to(actors, np.broadcast_shapes(reads.offsets.shape, actors.shape))
        offsets = reads.offsets
        if reads.chosen is not None:
            offsets, actors = np.broadcast_to(offsets, actors.shape)[reads.chosen], actors[reads.chosen]
        if array.shadow is None:
            self._log(array, offsets, reads.size, actors)
            return
        cells, count = self.cells(array, np.broadcast_to(offsets, actors.shape), reads.size)
        stamps = actors.ravel() | np.int64(int(stamp(self.machine.launch.time.now, WEAK, 0)))
        array.shadow.remember(cells, np.repeat(stamps, count) if count > 1 else stamps, never)

    def _log(self, array: GlobalArray, offsets: Any, size: int, threads: Any) -> None:
        """Log reads of an array that was not written yet."""
        kept: Any = offsets
        if offsets.size > 4096 and offsets.ndim > 1 and offsets.shape[0] > 1 and offsets.shape[1] > 1:
            rows, columns = offsets[:, :1], offsets[:1] - offsets[0, 0]
            if (rows + columns == offsets).all():
                kept = (rows.copy(), columns.copy())
        array.log_bytes += 256 + (kept.nbytes if kept is offsets else kept[0].nbytes + kept[1].nbytes)
        array.log.append((kept, size, threads, int(stamp(self.machine.launch.time.now, WEAK, 0))))
        if array.log_bytes > LOG_BYTES:
            self.shadow_of(array)

    def check_read(
        self, array: GlobalArray, lanes: Lanes, offsets: Any, size: int, strength: int, chosen: Any, *,
        remember: bool = True,
    ) -> None:  # fmt: skip
        """Check that a read is ordered after earlier writes."""
        if array.space != "global":
            return
        self._order(array, lanes, offsets, size, strength, chosen, remember=remember)

    def check_write(
        self, array: GlobalArray, lanes: Lanes, offsets: Any, size: int, strength: int, chosen: Any, *,
        raw: Any = None, modifies: bool = False,
    ) -> None:  # fmt: skip
        """Check that a write is ordered after earlier accesses. ``raw``: the written bytes, to detect equal values.

        Raises:
            IntraWarpConflict: lanes write to one place, and the values decide whether it is a hazard.
        """
        self.shadow_of(array)
        if array.constant or array.constant_cells is not None:
            self._fold_constant(array)
            self._check_constant(array, lanes, offsets, size, chosen, writes=True)
        if array.in_flight:
            self._check_in_flight(array, lanes, offsets, size, chosen)
        equal = None
        if raw is not None and self.machine.launch.allows_same_value:
            equal = (fetch(array, offsets, size) == raw).all(axis=-1).ravel()
            equal = np.repeat(equal, max(1, size // self.cell))
        self._order(array, lanes, offsets, size, strength, chosen, raw=raw, writes=True, equal=equal, modifies=modifies)

    def _fold_constant(self, array: GlobalArray) -> None:
        if array.constant_cells is None:
            array.constant_cells = np.zeros((len(array.data) + array.skew) // self.cell + 2, bool)
        for read, length in array.constant:
            array.constant_cells[self.cells(array, read, length)[0]] = True
        array.constant = []

    def _check_constant(
        self, array: GlobalArray, lanes: Lanes, offsets: Any, size: int, chosen: Any = None, *, writes: bool
    ) -> None:
        """Raise a race if ``ld.global.nc`` reads bytes that this launch writes, before or after."""
        assert array.shadow is not None
        cells, count = self.cells(array, offsets, size)
        bad = array.constant_cells[cells] if writes else array.shadow.writer[cells] != 0
        if self.machine.tolerant or not bad.any():
            return
        at = int(np.argmax(bad))
        position, copy = position_of(chosen, offsets, at // count)
        where = array.where(int(offsets.ravel()[at // count]))
        if writes:
            what = f"{where} is written after ld.global.nc read it in the same launch"
            self.machine.hazard("race", what, lanes, position, copy=copy)
        actor = int(actor_of(array.shadow.writer[cells[at]]))
        who = self.machine.launch.name_of(actor) if actor < BARRIER_ACTOR else "an asynchronous copy"
        what = f"{where} is read by ld.global.nc after {who} wrote it in the same launch"
        self.machine.hazard("race", what, lanes, position, copy=copy, threads=(who,))

    def _check_in_flight(self, array: GlobalArray, lanes: Lanes, offsets: Any, size: int, chosen: Any) -> None:
        """Raise a hazard for a write while asynchronous copies still read the bytes."""
        if self.machine.tolerant:
            return
        cells, count = self.cells(array, offsets, size)
        for number, reads in list(array.in_flight.items()):
            operation = reads[0].owner.get(number)
            if operation is None:
                del array.in_flight[number]
                continue
            hit = np.zeros(len(cells), bool)
            for read in reads:
                hit |= np.isin(cells, self.cells(array, read.flat, read.size)[0])
            if hit.any():
                at = int(np.argmax(hit)) // count
                position, copy = position_of(chosen, offsets, at)
                where = array.where(int(offsets.ravel()[at]))
                raise_in_flight(self.machine, operation, -1, where, "written", lanes, position, copy, None, wrote=False)

    def _order(
        self, array: GlobalArray, lanes: Lanes, offsets: Any, size: int, strength: int, chosen: Any, *,
        raw: Any = None, **more: Any,
    ) -> None:  # fmt: skip
        """Check that accesses are ordered; ``more``: see :meth:`ShadowedMemory.hold`."""
        cells, count = self.cells(array, offsets, size)
        threads = self.machine.grid_thread[lanes]
        threads = (threads if chosen is None else threads[chosen]).ravel()
        if count > 1:
            threads = np.repeat(threads, count)
        shadow = self.shadow_of(array)
        try:
            self.hold(shadow, cells, threads, strength, key=array.base, **more)
        except Conflict as conflict:
            if conflict.together:
                conflict = shadow.farthest(conflict, cells, threads // 32, lambda actor: actor // 32)
            at = conflict.position // count
            low, first = int(offsets.ravel()[at]), int(conflict.cell) * self.cell - array.skew
            first, last = max(first, low), min(first + self.cell, low + size) - 1
            values = None
            if raw is not None:
                rows = raw.reshape(-1, size)
                same = offsets.ravel() == low
                values = rows[at], rows[same], threads[::count][same]
            warp = -1 if self.machine.threads % 32 else int(threads[conflict.position]) // 32
            self.raise_race(
                conflict, array.where(first), strength, lanes, position_of(chosen, offsets, at), (first, last),
                writes=more.get("writes", False), values=values, fetch=lambda: fetch(array, np.array([low]), size),
                near=lambda actor: actor // 32 == warp, key=array.base,
            )  # fmt: skip

    def load(self, lanes: Lanes, access: AccessKind, addresses: Any) -> Any:
        """Execute a load from global memory. See :meth:`Machine.load`."""
        machine = self.machine
        addresses = _wide(addresses)
        if access.strength:
            addresses = self.spread(lanes, addresses)
            machine.flags.prepare(access)
        pieces = self.locate(lanes, addresses, access.bytes)
        if machine.launch.profile and access.space == "global":
            profile.count_global(machine, lanes, addresses, access.bytes)
        for array, _, _ in pieces:
            if not array.has_value:
                self._note_no_value(array)
        if len(pieces) == 1:
            array, _, offsets = pieces[0]
            if array.space == "global":
                self.note_read(array, lanes, offsets, access)
            raw = fetch(array, offsets, access.bytes)
        else:
            addresses = self.spread(lanes, addresses)
            raw = np.empty((*addresses.shape, access.bytes), np.uint8)
            for array, chosen, offsets in pieces:
                self.check_read(array, lanes, offsets, access.bytes, access.strength, chosen)
                raw[chosen] = fetch(array, offsets, access.bytes)
        if access.strength and machine.copies == 1:
            if machine.others and machine.launch.in_loop[machine.at]:
                machine.yields(machine.index(lanes))
            older = machine.flags.delay(lanes, addresses[:, 0], raw)
            machine.flags.acquire(lanes, access, addresses, older=older)
        if machine.launch.observer is not None:
            observed.tell_access(machine, "load", lanes, ("global", addresses), raw)
        return raw

    def _note_no_value(self, array: GlobalArray) -> None:
        """Add a note to the report if a variable is read that has no initial value, was not set and was not written."""
        array.has_value = True
        if array.shadow is None or not array.shadow.writer.any():
            name = readable(array.name) or array.name
            self.machine.note(f"the variable {name} is read as zeros because it has no initial value and was not set")

    def store(self, lanes: Lanes, access: AccessKind, addresses: Any, raw: Any, origins: Any = None) -> None:
        """Execute a store to global memory. See :meth:`Machine.store`."""
        machine = self.machine
        if origins is not None and origins.any():
            machine.tell(lanes, origins)
        addresses = self.spread(lanes, _wide(addresses))
        if access.strength:
            machine.flags.prepare(access)
        if machine.launch.profile and access.space == "global":
            profile.count_global(machine, lanes, addresses, access.bytes)
        raw = np.broadcast_to(raw, (*addresses.shape, access.bytes))
        for array, chosen, offsets in self.locate(lanes, addresses, access.bytes):
            if not array.writable or array.space != "global":
                kind = "in state space ." + array.space if array.space != "global" else "a read-only array"
                machine.hazard("read-only", f"{array.name} must be writable, but it is {kind}", lanes)
            part = raw[chosen] if chosen is not None else raw
            try:
                self.check_write(array, lanes, offsets, access.bytes, access.strength, chosen, raw=part)
            except IntraWarpConflict as together:
                put(array, offsets, part)
                if not np.array_equal(fetch(array, offsets, access.bytes), part):
                    raise together.error from None
            before = fetch(array, offsets, access.bytes) if access.strength or machine.suspicious else None
            if access.strength and machine.copies == 1 and chosen is None:
                machine.flags.record(lanes, addresses[:, 0], before, part)
            if machine.suspicious and before is not None and np.array_equal(before, part):
                continue
            put(array, offsets, part)
            machine.launch.version += 1
        if access.strength:
            machine.flags.release(lanes, access, addresses, new=raw)
        if machine.launch.observer is not None:
            observed.tell_access(machine, "store", lanes, ("global", addresses), raw)

    def atomic(self, lanes: Lanes, access: AccessKind, addresses: Any, update: Any) -> Any:
        """Execute an atomic operation on global memory. See :meth:`Machine.atomic`."""
        machine = self.machine
        addresses = self.spread(lanes, _wide(addresses))
        machine.flags.prepare(access)
        old, size = np.empty(addresses.shape, access.dtype), access.bytes
        for array, chosen, offsets in self.locate(lanes, addresses, size):
            if not array.writable or array.space != "global":
                machine.hazard("read-only", f"{array.name} must be writable, but it is read-only", lanes)
            self.check_write(array, lanes, offsets, size, access.strength, chosen, modifies=True)
            rows, columns = np.nonzero(np.ones(addresses.shape, bool) if chosen is None else chosen)
            of = rows[:, None], columns[:, None]
            who = machine.index(lanes)[rows] if machine.copies == 1 else None

            def get(where: Any, array: GlobalArray = array) -> Any:
                return np.ascontiguousarray(fetch(array, where, size)).view(access.dtype).copy()

            def set_(where: Any, values: Any, array: GlobalArray = array) -> None:
                put(array, where, values.view(np.uint8))

            bits = self.serialize(access, update, offsets.ravel(), addresses[rows, 0], who, of, get, set_, shared=False)
            old[rows, columns] = bits[:, 0]
        if machine.launch.observer is not None:
            observed.tell_access(machine, "atomic", lanes, ("global", addresses), old[..., None].view(np.uint8))
        return old


def never(positions: Any, before: Any) -> tuple[Any, Any]:
    """Judge every access as unordered, so that shadow memory keeps every read."""
    none = np.zeros(len(positions), bool)
    return none, none


def first_of(bad: Any) -> tuple[int, int]:
    """Return the row (lane) and the column (cluster) of the first True in a mask."""
    position = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return int(position[0]), int(position[1])


def position_of(chosen: Any, offsets: Any, at: int) -> tuple[int, int]:
    """Return the row (lane) and the column (cluster) of an element of a flattened access."""
    if chosen is None:
        return at // offsets.shape[1], at % offsets.shape[1]
    rows, columns = np.nonzero(chosen)
    return int(rows[at]), int(columns[at])


def _wide(addresses: Any) -> Any:
    addresses = np.asarray(addresses)
    return addresses if addresses.dtype == np.uint64 else addresses.astype(np.uint64)
