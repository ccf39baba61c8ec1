"""Global memory: the arrays of a launch and the variables of its module, with who touched which byte of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .access import WINDOW_BITS, WORDS, Access, Together
from .judgement import blame, judge_global
from .shadow import BARRIER_ACTOR, WEAK, Conflict, Shadow, actor_of, stamp

if TYPE_CHECKING:
    from .machine import Lanes, Machine

LOG_ENTRIES = 1 << 12
LOG_BYTES = 1 << 26
"""Reads of an array that nobody has written yet are only noted; at so many bytes of notes they become a shadow."""
PAGE_BITS = 12
"""Where a fault must leave arrays as they were, pages of 2**12 bytes are kept, each from its first write on."""


class GlobalArray:
    """One array of global memory."""

    def __init__(self, name: str, data: Any, base: int, *, writable: bool, space: str) -> None:
        self.name, self.data, self.base, self.writable, self.space = name, data, base, writable, space
        self.skew = base & 255
        self.shadow: Shadow | None = None
        self.log: list[tuple[Any, int, Any, Any]] = []
        self.log_bytes = 0
        self.written: Any = None
        self.flying: dict[int, Any] = {}
        self.constant: list[tuple[Any, int]] = []
        self.constant_cells: Any = None
        self.journal: list[tuple[Any, Any]] | None = None

    def remember(self, journal: list[tuple[Any, Any]]) -> None:
        """From now on note pages in a journal before they are written: each as it is there, and as it was."""
        self.journal = journal
        self._noted = np.zeros((len(self.data) >> PAGE_BITS) + 1, bool)

    def note(self, offsets: Any, size: int) -> None:
        """Some bytes are about to be written."""
        if self.journal is None:
            return
        first = offsets.ravel()
        pages = np.concatenate([first >> PAGE_BITS, (first + (size - 1)) >> PAGE_BITS])
        for page in np.unique(pages[~self._noted[pages]]).tolist():
            there = self.data[page << PAGE_BITS : (page + 1) << PAGE_BITS]
            self.journal.append((there, there.copy()))
        self._noted[pages] = True

    def where(self, first: int, size: int = 1) -> str:
        """Bytes in words."""
        return f"{self.name} byte {first}" if size == 1 else f"{self.name} bytes {first} to {first + size - 1}"


class GlobalMemory:
    """Arrays and module variables, each in a window of its own.

    An array's base is a multiple of its declared alignment and of nothing larger, so that a wider access than was
    declared possible is found misaligned here.
    """

    def __init__(self) -> None:
        self.arrays: list[GlobalArray] = []
        self.cell = 16

    def add(self, name: str, data: Any, align_bytes: int, *, writable: bool, space: str = "global") -> int:
        """Map a flat uint8 array; returns its base address."""
        base = ((len(self.arrays) + 1) << WINDOW_BITS) + align_bytes
        self.arrays.append(GlobalArray(name, data, base, writable=writable, space=space))
        return base

    def unskewed(self, addresses: Any) -> Any:
        """Addresses as if every array began at a multiple of 256 bytes, as allocations of the driver do."""
        window = (addresses >> np.uint64(WINDOW_BITS)).astype(np.int64) - 1
        skew = np.array([a.base & ((1 << WINDOW_BITS) - 1) for a in self.arrays], np.uint64)
        return addresses - skew[window]

    def spread(self, machine: Machine, lanes: Lanes, addresses: Any) -> Any:
        """Addresses with a row for each lane and a column for each copy."""
        shape = (machine.size(lanes), machine.copies)
        return addresses if addresses.shape == shape else np.broadcast_to(addresses, shape)

    # --------------------------------------------------------------------------------------- checks

    def locate(self, machine: Machine, lanes: Lanes, addresses: Any, size: int) -> list[tuple[GlobalArray, Any, Any]]:
        """``(array, chosen, byte offsets)`` of an access, its alignment and bounds checked; chosen None for all."""
        aligned = size & -size if size & (size - 1) else size
        low = addresses & np.uint64(aligned - 1)
        if low.any():
            position, copy = first_of(low != 0)
            machine.hazard(
                "alignment",
                f"the global address 0x{int(addresses[position, copy]):x} is not a multiple of {aligned} bytes",
                lanes, position, copy=copy,
            )  # fmt: skip
        least, most = int(addresses.min()), int(addresses.max())
        if least >> WINDOW_BITS == most >> WINDOW_BITS:
            array = self.array_at(machine, lanes, least, addresses)
            offsets = addresses.view(np.int64) - array.base
            if least < array.base or most - array.base + size > len(array.data):
                bad = (offsets < 0) | (offsets + size > len(array.data))
                self.outside(machine, lanes, array, offsets, bad, size)
            return [(array, None, offsets)]
        addresses = self.spread(machine, lanes, addresses)
        window = addresses >> np.uint64(WINDOW_BITS)
        pieces = []
        for each in np.unique(window).tolist():
            chosen = window == each
            array = self.array_at(machine, lanes, each << WINDOW_BITS, addresses, chosen)
            offsets = addresses[chosen].view(np.int64) - array.base
            bad = (offsets < 0) | (offsets + size > len(array.data))
            if bad.any():
                whole = np.zeros(chosen.shape, bool)
                whole[chosen] = bad
                self.outside(machine, lanes, array, addresses.view(np.int64) - array.base, whole, size)
            pieces.append((array, chosen, offsets))
        return pieces

    def array_at(self, machine: Machine, lanes: Lanes, address: int, addresses: Any, chosen: Any = None) -> GlobalArray:
        """The array that an address is of."""
        number = (address >> WINDOW_BITS) - 1
        if not 0 <= number < len(self.arrays):
            position, copy = first_of(chosen) if chosen is not None else (0, 0)
            machine.hazard(
                "bounds", f"0x{int(addresses[position, copy]):x} is not an address of any argument or variable",
                lanes, position, copy=copy,
            )  # fmt: skip
        return self.arrays[number]

    def outside(
        self, machine: Machine, lanes: Lanes, array: GlobalArray, offsets: Any, bad: Any, size: int
    ) -> NoReturn:
        """The hazard for bytes outside an array."""
        position, copy = first_of(bad)
        at = int(offsets[position, copy])
        machine.hazard(
            "bounds",
            f"byte {at} (+{size}) is outside {array.name}, which has {len(array.data)} bytes "
            f"({array.where(at, size)})",
            lanes, position, copy=copy, bytes=(at, at + size - 1),
        )  # fmt: skip

    def cells(self, array: GlobalArray, offsets: Any, size: int) -> tuple[Any, int]:
        """Shadow cells of accesses (flat), and how many each has."""
        first = offsets.ravel() + array.skew
        count = max(1, size // self.cell)
        first = first // self.cell
        if count == 1:
            return first, 1
        return (first[:, None] + np.arange(count)).ravel(), count

    def shadow_of(self, machine: Machine, array: GlobalArray) -> Shadow:
        """The stamps of an array, made at its first write."""
        if array.shadow is None:
            array.shadow = Shadow((len(array.data) + array.skew) // self.cell + 2)
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

    def note_read(self, machine: Machine, array: GlobalArray, lanes: Lanes, offsets: Any, access: Access) -> None:
        """A read of one array; while nobody writes it, remembering it is enough."""
        if access.read_only:
            array.constant.append((offsets, access.bytes))
            if len(array.constant) > LOG_ENTRIES:
                self._fold_constant(array)
            if array.shadow is not None:
                self._check_constant_read(machine, array, lanes, offsets, access.bytes)
        if array.shadow is not None or access.strength:
            self.shadow_of(machine, array)
            spread = self.spread(machine, lanes, offsets)
            self.check_read(machine, array, lanes, spread, access.bytes, access.strength, None)
            return
        threads = machine.grid_thread[lanes]
        kept: Any = offsets
        if offsets.size > 4096 and offsets.shape[0] > 1 and offsets.shape[1] > 1:
            rows, columns = offsets[:, :1], offsets[:1] - offsets[0, 0]
            if (rows + columns == offsets).all():
                kept = (rows.copy(), columns.copy())
        array.log_bytes += 256 + (kept.nbytes if kept is offsets else kept[0].nbytes + kept[1].nbytes)
        array.log.append((kept, access.bytes, threads, int(stamp(machine.launch.time.now, WEAK, 0))))
        if array.log_bytes > LOG_BYTES:
            self.shadow_of(machine, array)

    def check_read(
        self,
        machine: Machine,
        array: GlobalArray,
        lanes: Lanes,
        offsets: Any,
        size: int,
        strength: int,
        chosen: Any,
        *,
        remember: bool = True,
    ) -> None:
        """Order of a read."""
        if array.space != "global":
            return
        shadow = self.shadow_of(machine, array)
        act: Any = shadow.read
        if not remember:
            act = lambda cells, stamps, judge: shadow.read(cells, stamps, judge, remember=False)  # noqa: E731
        self._judge(machine, array, lanes, offsets, size, strength, chosen, act, "read")

    def check_write(
        self,
        machine: Machine,
        array: GlobalArray,
        lanes: Lanes,
        offsets: Any,
        size: int,
        strength: int,
        chosen: Any,
        *,
        raw: Any = None,
    ) -> None:
        """Order of a write; ``raw``: the bytes, where lanes of one warp may write the same ones to the same place.

        Raises:
            Together: they write there, and the values decide.
        """
        shadow = self.shadow_of(machine, array)
        if array.constant or array.constant_cells is not None:
            self._check_constant_write(machine, array, lanes, offsets, size, chosen)
        if array.flying:
            self._check_flying(machine, array, lanes, offsets, size, chosen)
        act: Any = shadow.write
        if raw is not None and machine.launch.allows_same_value:
            equal = (fetch(array, offsets, size) == raw).all(axis=-1).ravel()
            act = partial(shadow.write, equal=np.repeat(equal, max(1, size // self.cell)))
        self._judge(machine, array, lanes, offsets, size, strength, chosen, act, "written", raw=raw)

    def _fold_constant(self, array: GlobalArray) -> None:
        if array.constant_cells is None:
            array.constant_cells = np.zeros((len(array.data) + array.skew) // self.cell + 2, bool)
        for read, length in array.constant:
            array.constant_cells[self.cells(array, read, length)[0]] = True
        array.constant = []

    def _check_constant_read(self, machine: Machine, array: GlobalArray, lanes: Lanes, offsets: Any, size: int) -> None:
        """A read by ``ld.global.nc`` of what has been written in this launch."""
        assert array.shadow is not None
        spread = self.spread(machine, lanes, offsets)
        cells, count = self.cells(array, spread, size)
        bad = array.shadow.writer[cells] != 0
        if bad.any():
            at = int(np.argmax(bad))
            position, copy = position_of(None, spread, at // count)
            actor = int(actor_of(array.shadow.writer[cells[at]]))
            who = machine.launch.name_of(actor) if actor < BARRIER_ACTOR else "an asynchronous copy"
            machine.hazard(
                "race",
                f"{array.where(int(spread[position, copy]))} is read by ld.global.nc, and {who} writes it in this launch",
                lanes, position, copy=copy, threads=(who,),
            )  # fmt: skip

    def _check_constant_write(
        self, machine: Machine, array: GlobalArray, lanes: Lanes, offsets: Any, size: int, chosen: Any
    ) -> None:
        """A write of what ``ld.global.nc`` has read."""
        self._fold_constant(array)
        cells, count = self.cells(array, offsets, size)
        bad = array.constant_cells[cells]
        if bad.any():
            at = int(np.argmax(bad)) // count
            position, copy = position_of(chosen, offsets, at)
            machine.hazard(
                "race",
                f"{array.where(int(offsets.ravel()[at]))} is written, and ld.global.nc has read it in this launch",
                lanes, position, copy=copy,
            )  # fmt: skip

    def _check_flying(
        self, machine: Machine, array: GlobalArray, lanes: Lanes, offsets: Any, size: int, chosen: Any
    ) -> None:
        """A write while asynchronous copies still read the array."""
        cells, count = self.cells(array, offsets, size)
        for number, (owner, sources, length) in list(array.flying.items()):
            operation = owner.engines.flying.get(number)
            if operation is None:
                del array.flying[number]
                continue
            hit = np.isin(cells, self.cells(array, sources, length)[0])
            if hit.any():
                at = int(np.argmax(hit)) // count
                position, copy = position_of(chosen, offsets, at)
                machine.hazard(
                    "async",
                    f"{array.where(int(offsets.ravel()[at]))} is written while {operation.named()} still reads it",
                    lanes, position, copy=copy, threads=(operation.who(),),
                )  # fmt: skip

    def _judge(
        self,
        machine: Machine,
        array: GlobalArray,
        lanes: Lanes,
        offsets: Any,
        size: int,
        strength: int,
        chosen: Any,
        act: Any,
        action: str,
        *,
        raw: Any = None,
    ) -> None:
        cells, count = self.cells(array, offsets, size)
        threads = machine.grid_thread[lanes]
        threads = (threads if chosen is None else threads[chosen]).ravel()
        base = int(stamp(machine.launch.time.now, strength, 0))
        if count > 1:
            threads = np.repeat(threads, count)

        def judge(positions: Any, before: Any) -> tuple[Any, Any]:
            machine.flags.touched = (array.base, cells[positions], action == "written")
            return judge_global(machine, threads[positions], strength, before)

        try:
            act(cells, threads | np.int64(base), judge)
        except Conflict as conflict:
            if conflict.together and array.shadow is not None:
                conflict = array.shadow.farthest(conflict, cells, threads // 32, lambda actor: actor // 32)
            at = conflict.position // count
            position, copy = position_of(chosen, offsets, at)
            first = int(conflict.cell) * self.cell - array.skew
            low = int(offsets.ravel()[at])
            first, last = max(first, low), min(first + self.cell, low + size) - 1
            same = False
            if raw is not None and conflict.wrote and actor_of(conflict.stamp) < BARRIER_ACTOR:
                rows = raw.reshape(-1, size)
                there = rows[offsets.ravel() == low] if conflict.together else fetch(array, np.array([low]), size)
                same = bool((there == rows[at]).all())
            accuse = partial(
                blame, machine, conflict, array.where(first), action, strength, lanes, position, copy, (first, last),
                whole_grid=True, same=same,
            )  # fmt: skip
            near = int(actor_of(conflict.stamp)) // 32 == int(threads[conflict.position]) // 32
            near = (near and not machine.threads % 32) or machine.launch.allows_same_value
            if conflict.together and raw is not None and near:
                raise Together(accuse) from None
            accuse()


def never(positions: Any, before: Any) -> tuple[Any, Any]:
    """A judge for whom nothing is in order."""
    none = np.zeros(len(positions), bool)
    return none, none


def first_of(bad: Any) -> tuple[int, int]:
    """Lane and copy of the first fault."""
    position = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return int(position[0]), int(position[1])


def position_of(chosen: Any, offsets: Any, at: int) -> tuple[int, int]:
    """Lane and copy of an element of a flat access."""
    if chosen is None:
        return at // offsets.shape[1], at % offsets.shape[1]
    rows, columns = np.nonzero(chosen)
    return int(rows[at]), int(columns[at])


def fetch(array: GlobalArray, offsets: Any, size: int) -> Any:
    """Bytes of an array, shape (\\*offsets.shape, size)."""
    if size > 16:
        return np.concatenate([fetch(array, offsets + part, 16) for part in range(0, size, 16)], axis=-1)
    data, word = array.data, WORDS[size]
    if len(data) % size == 0 and array.base % size == 0 and data.ctypes.data % size == 0:
        found = data.view(word)[offsets // size if size > 1 else offsets]
        return found.view(np.uint8).reshape(*offsets.shape, size)
    return data[offsets[..., None] + np.arange(size)]


def put(array: GlobalArray, offsets: Any, raw: Any) -> None:
    """Write bytes of an array, as :func:`fetch` reads them."""
    size = raw.shape[-1]
    if size > 16:
        for part in range(0, size, 16):
            put(array, offsets + part, raw[..., part : part + 16])
        return
    array.note(offsets, size)
    data, word = array.data, WORDS[size]
    if len(data) % size == 0 and array.base % size == 0 and data.ctypes.data % size == 0:
        data.view(word)[offsets // size if size > 1 else offsets] = np.ascontiguousarray(raw).view(word)[..., 0]
    else:
        data[offsets[..., None] + np.arange(size)] = raw
