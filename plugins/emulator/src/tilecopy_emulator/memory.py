"""Global memory as the arrays themselves, shared memory with a shadow that remembers who touched what and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

if TYPE_CHECKING:
    from .machine import Machine

IntArray = np.ndarray[Any, np.dtype[np.int64]]
NOBODY, SEVERAL, ENGINE = -1, -2, -3
"""Who last touched a byte: no thread, more than one, or an asynchronous copy engine."""

WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
"""A NumPy type of each size, used to move bytes (never to compute)."""


class GlobalMemory:
    """The arrays that a kernel was called with, each in a window of its own of a made-up 64-bit address space.

    An array's base is a multiple of its declared alignment and of nothing larger, so that a wider access than was
    declared possible is found misaligned here.
    """

    WINDOW_BITS = 44

    def __init__(self) -> None:
        self._names: list[str] = []
        self._bytes: list[Any] = []
        self._base: list[int] = []
        self._writable: list[bool] = []

    def add(self, name: str, data: Any, align_bytes: int, *, writable: bool) -> int:
        """Map a flat uint8 array; returns its base address."""
        base = ((len(self._names) + 1) << self.WINDOW_BITS) + align_bytes
        self._names.append(name)
        self._bytes.append(data)
        self._base.append(base)
        self._writable.append(writable)
        return base

    def unskewed(self, addresses: Any) -> Any:
        """Addresses as if every array began at a multiple of 256 bytes, as allocations of the driver do."""
        window = (addresses >> np.uint64(self.WINDOW_BITS)).astype(np.int64) - 1
        skew = np.array(self._base, np.uint64) & np.uint64((1 << self.WINDOW_BITS) - 1)
        return addresses - skew[window]

    def locate(
        self, machine: Machine, lanes: Any, addresses: Any, size: int, *, write: bool
    ) -> list[tuple[int, Any, IntArray]]:
        """``(array, selection of lanes, byte offsets)`` of an access, checked for alignment and bounds."""
        misaligned = addresses % np.uint64(size) != 0
        if misaligned.any():
            at = int(np.argmax(misaligned))
            machine.hazard(
                "alignment", f"the global address 0x{int(addresses[at]):x} is not a multiple of {size} bytes", lanes, at
            )
        window = (addresses >> np.uint64(self.WINDOW_BITS)).astype(np.int64) - 1
        result = []
        first = int(window[0]) if len(window) else 0
        groups = [first] if (window == first).all() else sorted(set(window.tolist()))
        for array in groups:
            chosen = slice(None) if len(groups) == 1 else np.nonzero(window == array)[0]
            if not 0 <= array < len(self._names):
                at = 0 if len(groups) == 1 else int(np.asarray(chosen)[0])
                machine.hazard("bounds", f"0x{int(addresses[at]):x} is not an address of any argument", lanes, at)
            offsets = addresses[chosen].astype(np.int64) - self._base[array]
            outside = (offsets < 0) | (offsets + size > len(self._bytes[array]))
            if outside.any():
                at = int(np.argmax(outside))
                machine.hazard(
                    "bounds",
                    f"byte {int(offsets[at])} (+{size}) is outside {self._names[array]}, which has "
                    f"{len(self._bytes[array])} bytes",
                    lanes,
                    at if len(groups) == 1 else int(np.asarray(chosen)[at]),
                )
            if write and not self._writable[array]:
                machine.hazard("read-only", f"{self._names[array]} is written and its array is read-only", lanes, 0)
            result.append((array, chosen, offsets))
        return result

    def read(self, array: int, offsets: IntArray, size: int) -> Any:
        """``size`` bytes at each offset, as uint8 of shape (n, size)."""
        data, word = self._bytes[array], WORDS[size]
        whole = len(data) // size * size
        if whole == len(data) and self._base[array] % size == 0:
            return data.view(word)[offsets // size].view(np.uint8).reshape(len(offsets), size)
        return data[offsets[:, None] + np.arange(size)]

    def write(self, array: int, offsets: IntArray, values: Any) -> None:
        """Bytes of shape (n, size) to each offset."""
        data, size = self._bytes[array], values.shape[1]
        word = WORDS[size]
        if len(data) % size == 0 and self._base[array] % size == 0:
            data.view(word)[offsets // size] = np.ascontiguousarray(values).view(word)[:, 0]
        else:
            data[offsets[:, None] + np.arange(size)] = values


@attrs.define(eq=False)
class Shadow:
    """What is known of each granule of shared memory of a batch of CTAs, flat over CTA and granule.

    ``reader_warps`` is a mask of the warps of the CTA that have read since the last barrier of the CTA.
    """

    written: Any
    writer: Any
    write_time: Any
    reader: Any
    reader_warps: Any
    read_time: Any
    pending: Any
    busy: Any

    @classmethod
    def fresh(cls, count: int) -> Shadow:
        """Nothing written, nothing touched."""
        return cls(
            np.zeros(count, bool),
            np.full(count, NOBODY, np.int32),
            np.zeros(count, np.int32),
            np.full(count, NOBODY, np.int32),
            np.zeros(count, np.uint32),
            np.zeros(count, np.int32),
            np.zeros(count, bool),
            np.zeros(count, np.int16),
        )


class SharedMemory:
    """Shared memory of a batch of CTAs.

    Args:
        ctas: CTAs of the batch.
        variables: ``(name, offset, bytes)`` in one CTA.
        granule: bytes that no access of the program splits.
        base: address of offset 0 (0x400 from sm_90 on: the first KiB is the system's).
    """

    def __init__(self, ctas: int, variables: list[tuple[str, int, int]], granule: int, base: int) -> None:
        end = max((offset + size for _, offset, size in variables), default=0)
        self.variables = variables
        self.size = -(-max(end, 16) // 16) * 16
        self.granule, self.base = granule, base
        self.data = np.zeros(ctas * self.size, np.uint8)
        self.per_cta = self.size // granule
        self.shadow = Shadow.fresh(ctas * self.per_cta)
        self.owner = np.full(self.per_cta, -1, np.int32)
        for number, (_, offset, size) in enumerate(variables):
            self.owner[offset // granule : -(-(offset + size) // granule)] = number

    def place(self, machine: Machine, lanes: Any, addresses: Any, size: int, *, remote: bool = False) -> IntArray:
        """Byte index into :attr:`data` of each lane's access, checked for window, alignment and bounds."""
        values = addresses.astype(np.int64)
        rank = values >> 24
        offsets = (values & 0xFFFFFF) - self.base
        cta = machine.cta_of(lanes)
        own = machine.rank_of(cta)
        if not remote and (rank != own).any():
            at = int(np.argmax(rank != own))
            machine.hazard(
                "window", f"0x{int(values[at]):x} is an address of CTA {int(rank[at])} of the cluster", lanes, at
            )
        aligned = min(size, 16)
        bad = offsets % aligned != 0
        if bad.any():
            at = int(np.argmax(bad))
            machine.hazard(
                "alignment", f"the shared offset {int(offsets[at])} is not a multiple of {aligned} bytes", lanes, at
            )
        bad = (offsets < 0) | (offsets + size > self.size) | (rank >= machine.cluster_size)
        if not bad.any():
            first, last = offsets // self.granule, (offsets + size - 1) // self.granule
            bad = (self.owner[first] < 0) | (self.owner[first] != self.owner[last])
        if bad.any():
            at = int(np.argmax(bad))
            names = ", ".join(f"{name} [{start}, {start + count})" for name, start, count in self.variables)
            machine.hazard(
                "bounds", f"shared bytes {int(offsets[at])} (+{size}) are in no one buffer of {names}", lanes, at
            )
        target = cta if not remote else cta - own + rank
        return np.asarray(target * self.size + offsets, np.int64)

    def granules(self, places: IntArray, size: int) -> IntArray:
        """Shadow indices of each access, shape (n, granules of one access)."""
        first = places // self.granule
        count = max(1, size // self.granule)
        return first[:, None] if count == 1 else first[:, None] + np.arange(count)

    def where(self, granule: int) -> str:
        """A granule in words: variable and byte."""
        offset = granule % self.per_cta * self.granule
        owner = int(self.owner[granule % self.per_cta])
        if owner < 0:
            return f"shared byte {offset}"
        name, start, _ = self.variables[owner]
        return f"{name.removeprefix('smem_')} byte {offset - start}"

    def check_read(self, machine: Machine, lanes: Any, places: IntArray, size: int) -> None:
        """A read: the bytes must be written, landed, and ordered after their writer; remember the reader."""
        shadow, cells = self.shadow, self.granules(places, size)
        if shadow.pending[cells].any():
            at, cell = _first(shadow.pending[cells], cells)
            machine.hazard(
                "async",
                f"{self.where(cell)} is read while an asynchronous copy to it is in flight "
                "(a wait, a commit before it, or a barrier after it is missing)",
                lanes,
                at,
            )
        if not shadow.written[cells].all():
            at, cell = _first(~shadow.written[cells], cells)
            machine.hazard("poison", f"{self.where(cell)} is read and was never written", lanes, at)
        self._check_order(machine, lanes, cells, shadow.writer, shadow.write_time, "read", "written")
        me, warp_bit = machine.lane_ids(lanes)[:, None], machine.warp_bit(lanes)[:, None]
        recent = shadow.read_time[cells] > machine.floor_of(lanes)[:, None]
        others = recent & (shadow.reader[cells] != NOBODY) & (shadow.reader[cells] != me)
        readers = np.where(others, SEVERAL, me).astype(np.int32)
        warps = np.where(recent, shadow.reader_warps[cells], 0).astype(np.uint32) | warp_bit
        shadow.reader[cells], shadow.reader_warps[cells] = readers, warps
        shadow.read_time[cells] = machine.now
        lost = (shadow.reader[cells] != readers) | (shadow.reader_warps[cells] != warps)
        if lost.any():  # several lanes of this instruction on one granule
            np.bitwise_or.at(shadow.reader_warps, cells[lost], warps[lost])
            shadow.reader[cells[lost]] = SEVERAL

    def check_write(self, machine: Machine, lanes: Any, places: IntArray, size: int, *, pending: bool = False) -> None:
        """A write (or the issue of an asynchronous one): ordered after every reader and writer; remember it."""
        shadow, cells = self.shadow, self.granules(places, size)
        if shadow.pending[cells].any():
            at, cell = _first(shadow.pending[cells], cells)
            machine.hazard(
                "async", f"{self.where(cell)} is written while an asynchronous copy to it is in flight", lanes, at
            )
        if shadow.busy[cells].any():
            at, cell = _first(shadow.busy[cells] > 0, cells)
            machine.hazard(
                "async", f"{self.where(cell)} is written while an asynchronous copy still reads it", lanes, at
            )
        self._check_order(machine, lanes, cells, shadow.writer, shadow.write_time, "written", "written")
        self._check_order(machine, lanes, cells, shadow.reader, shadow.read_time, "written", "read")
        me = np.broadcast_to(machine.lane_ids(lanes)[:, None].astype(np.int32), cells.shape)
        shadow.writer[cells] = me
        if len(cells) > 1 and (shadow.writer[cells] != me).any():
            at, cell = _first(shadow.writer[cells] != me, cells)
            machine.hazard(
                "race",
                f"{self.where(cell)} is written by two threads at once ({machine.name_of(int(shadow.writer[cell]))})",
                lanes,
                at,
            )
        shadow.write_time[cells] = machine.now
        shadow.written[cells] = True
        if pending:
            shadow.pending[cells] = True

    def _check_order(
        self, machine: Machine, lanes: Any, cells: IntArray, who: Any, when: Any, action: str, before: str
    ) -> None:
        times = when[cells]
        late = times > machine.floor_of(lanes)[:, None]
        other, me = who[cells], machine.lane_ids(lanes)[:, None]
        if machine.cluster_size > 1:  # a barrier of the own CTA says nothing of the threads of another
            cta = machine.cta_of(lanes)
            foreign = (other >= 0) & (other // machine.threads != cta[:, None])
            late = np.where(foreign, times > machine.cluster_floor[cta][:, None], late)
        if not late.any():
            return
        late &= (other != NOBODY) & (other != me)
        if not late.any():
            return
        late &= ~machine.ordered(lanes, other, self.shadow.reader_warps[cells] if before == "read" else None, times)
        if late.any():
            at, cell = _first(late, cells)
            who_name = machine.name_of(int(who[cell]))
            machine.hazard(
                "race",
                f"{self.where(cell)} is {action} with no barrier since it was {before} by {who_name}",
                lanes,
                at,
            )

    def read(self, places: IntArray, size: int) -> Any:
        """Bytes of shape (n, size)."""
        return self.data.view(WORDS[size])[places // size].view(np.uint8).reshape(len(places), size)

    def write(self, places: IntArray, values: Any) -> None:
        """Bytes of shape (n, size)."""
        size = values.shape[1]
        self.data.view(WORDS[size])[places // size] = np.ascontiguousarray(values).view(WORDS[size])[:, 0]


def _first(bad: Any, cells: IntArray) -> tuple[int, int]:
    """Lane position and granule of the first fault."""
    position = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return int(position[0]), int(cells[position])
