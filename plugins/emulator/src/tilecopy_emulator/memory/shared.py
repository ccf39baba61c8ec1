"""The shared memory of a batch of clusters: one shadow memory for all clusters, and the data of each cluster."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..memory_model.access import RANK_BITS, RANK_MASK, SHARED, WORDS, AccessKind, IntraWarpConflict, bytes_of
from ..memory_model.shadow import CTA, WEAK, Conflict, ShadowMemory, stamp, strength
from ..threads.registers import Registers
from ..threads.special import RESERVED
from ..threads.threads import Lanes
from . import observed, profile
from .race_check import ShadowedMemory, judge_shared


class SharedMemory(ShadowedMemory):
    """The shared memory of a batch of clusters: one shadow memory for all clusters, and the data of each cluster."""

    def __init__(self, machine: Registers) -> None:
        super().__init__(machine, machine.launch.shared_cell, judge_shared, whole_grid=False)
        machine.place_names[SHARED] = self.where
        launch = machine.launch
        self.variables, self.base = launch.shared, launch.shared_base
        self.size = max(16, -(-launch.shared_bytes // 16) * 16)
        self.owner = np.full(self.size, -1, np.int16)
        for number, variable in enumerate(self.variables):
            self.owner[variable.offset : variable.offset + variable.size_bytes] = number
        self.allowed: dict[tuple[int, int], Any] = {}
        self._number()
        self.data = np.zeros((machine.unit_ctas * self.size // 16, machine.copies, 16), np.uint8)
        self.shadow = ShadowMemory(machine.unit_ctas * self.size // self.cell, machine.crowds)
        self.reserved: int | None = None
        if self.variables and self.variables[-1].name == RESERVED:  # it is initialised when the CTA starts
            self.reserved = self.variables[-1].offset
            cells = self.shadow.writer.reshape(machine.unit_ctas, -1)
            cells[:, self.reserved // self.cell :] = stamp(0, strength(CTA, 4), 0)
        self.blank: Any = None
        self.objects = np.zeros(machine.unit_ctas * self.size // 8, bool)
        self.has_objects = False
        self.remote: dict[int, dict[int, tuple[int, int]]] = {}

    def _number(self) -> None:
        """Set the shared address of offset 0 for each lane, and the start of its CTA's bytes."""
        machine = self.machine
        self.origin = ((machine.cta_of % machine.cluster_size) << RANK_BITS) + self.base
        self.start = machine.cta_of * self.size

    def expand(self, copies: int, shifts: tuple[int, int, int]) -> None:
        """Replicate the shared memory for every cluster of the batch."""
        self._number()
        self.data = np.ascontiguousarray(self.data.transpose(1, 0, 2)).reshape(-1, 1, 16)
        self.shadow = self.shadow.replicate(copies, shifts)
        self.objects = np.tile(self.objects, copies)
        if self.blank is not None:
            self.blank = np.tile(self.blank, copies)
        ctas, lanes = self.machine.unit_ctas // copies, shifts[0]
        self.remote = {
            cta + c * ctas: {lane + c * lanes: seen for lane, seen in by.items()}
            for c in range(copies)
            for cta, by in self.remote.items()
        }

    def place(self, lanes: Lanes, addresses: Any, size: int, *, remote: bool = False, aligned: int = 0) -> Any:
        """Check window, alignment, bounds and lifetime of accesses. Return offsets in the batch's shared memory."""
        machine = self.machine
        values = machine.uniform(addresses, lanes).astype(np.int64)
        index = machine.index(lanes)
        offsets = values - self.origin[index]
        if int(offsets.view(np.uint64).max()) < self.size and self._valid_starts(size, aligned)[offsets].all():
            return self.start[index] + offsets
        cta = machine.cta_of[index]
        rank, offsets = values >> RANK_BITS, (values & RANK_MASK) - self.base
        own_rank = cta % machine.cluster_size
        far = rank != own_rank
        if far.any() and (not remote or ((rank >= machine.cluster_size) & far).any()):
            at = int(np.argmax(far))
            if values[at] < 0 or values[at] >> 32:
                machine.hazard("bounds", f"0x{int(values[at]):x} is not an address in shared memory", lanes, at)
            if machine.cluster_size == 1 and not remote:
                machine.hazard(
                    "bounds", f"0x{int(values[at]):x} is not an address in the CTA's shared memory", lanes, at
                )
            machine.hazard(
                "window", f"0x{int(values[at]):x} is in CTA {int(rank[at])} of the cluster of {machine.cluster_size} CTAs"
                + ("" if remote else "; use .shared::cluster to access it"), lanes, at,
            )  # fmt: skip
        aligned = aligned or min(size, 16)
        machine.hazard_where(
            offsets % aligned != 0, "alignment", lambda at: f"the shared offset {int(offsets[at])} is not a multiple of "
            f"{aligned} bytes ({self.where_offset(int(offsets[at]))})", lanes,
        )  # fmt: skip
        first, last = (self.owner.take(end, mode="clip") for end in (offsets, offsets + (size - 1)))
        bad = (offsets < 0) | (offsets + size > self.size) | (first < 0) | (first != last)
        if bad.any():
            self._outside(lanes, offsets, bad, size)
        if remote and far.any():
            self._visit(lanes, index, cta, cta - own_rank + rank, far)
            return (cta - own_rank + rank) * self.size + offsets
        return cta * self.size + offsets

    def _valid_starts(self, size: int, aligned: int) -> Any:
        """Return, for each offset, True if an access of a size may begin there: aligned, and inside one variable."""
        starts = self.allowed.get((size, aligned))
        if starts is None:
            offsets = np.arange(self.size)
            last = np.minimum(offsets + size - 1, self.size - 1)
            starts = (self.owner >= 0) & (self.owner == self.owner[last]) & (offsets % (aligned or min(size, 16)) == 0)
            starts &= offsets + size <= self.size
            self.allowed[size, aligned] = starts
        return starts

    def _outside(self, lanes: Lanes, offsets: Any, bad: Any, size: int) -> NoReturn:
        at = int(np.argmax(bad))
        offset = int(offsets[at])
        names = ", ".join(f"{v.name} [{v.offset}, {v.offset + v.size_bytes})" for v in self.variables) or "(none)"
        near = [v for v in self.variables if v.offset <= offset] or list(self.variables)
        close = f"; {bytes_of(near[-1].name, offset - near[-1].offset, size)}" if near else ""
        what = f"an access of {size} bytes at shared byte {offset} is outside the variables {names}{close}"
        dynamic = [v.name for v in self.machine.program.variables if v.space == "shared" and v.extern and not v.bytes]
        if dynamic and not self.machine.dynamic_shared_bytes:
            what += f"; {', '.join(dynamic)} has 0 bytes: set dynamic_shared_bytes= (--dynamic-shared)"
        self.machine.hazard("bounds", what, lanes, at)

    def _visit(self, lanes: Lanes, index: Any, cta: Any, target: Any, far: Any) -> None:
        """Check accesses to another CTA: it must have started, must not have exited, and must not exit before them."""
        machine, order = self.machine, self.machine.order
        for position in np.nonzero(far)[0].tolist():
            lane, owner = int(index[position]), int(target[position])
            by = self.remote.setdefault(owner, {})
            if lane not in by:
                key = owner + order.first
                common = order.common.get(int(cta[position]), {})
                if not machine.barriers.passed[lane] and key not in common and key not in order.private.get(lane, {}):
                    machine.hazard(
                        "lifetime",
                        f"shared memory of CTA {owner % machine.cluster_size} of the cluster is accessed, but the CTA may not "
                        "have started (a cluster barrier is missing)", lanes, position,
                    )  # fmt: skip
            if not len(machine.living(owner)):
                what = f"shared memory of CTA {owner % machine.cluster_size} of the cluster is accessed after that CTA exited (a cluster barrier is missing)"
                machine.hazard("lifetime", what, lanes, position)
            by[lane] = (machine.launch.time.now, machine.at)

    def end_cta(self, cta: int, ending: Any) -> None:
        """Check that other CTAs' accesses to an exiting CTA's shared memory happen before the exit."""
        machine, order = self.machine, self.machine.order
        for lane, (time, at) in self.remote.get(cta, {}).items():
            if lane // machine.threads == cta:
                continue
            members = machine.ids[cta * machine.threads : (cta + 1) * machine.threads]
            key = np.full(len(members), lane // machine.threads + order.first)
            column = np.full(len(members), lane % machine.threads)
            if not order.covers(members, key, column, np.full(len(members), time)).any():
                machine.hazard(
                    "lifetime",
                    f"CTA {cta % machine.cluster_size} of the cluster may exit before this access to its shared memory "
                    f"(a cluster barrier is missing before {machine.name_of(int(ending[0]))} exits)",
                    np.array([lane]), at=at,
                )  # fmt: skip

    def where(self, place: int, size: int = 1) -> str:
        """Return the name that messages use for bytes of the batch's shared memory, such as ``tile bytes 4 to 7``."""
        return self.where_offset(place % self.size, size)

    def where_offset(self, offset: int, size: int = 1) -> str:
        """Return the name that messages use for the bytes at an offset in a CTA's shared memory."""
        owner = int(self.owner[offset]) if 0 <= offset < self.size else -1
        if owner < 0:
            return f"shared byte {offset}"
        variable = self.variables[owner]
        return bytes_of(variable.name, offset - variable.offset, size)

    def load(self, lanes: Lanes, access: AccessKind, addresses: Any) -> Any:
        """Execute a load from shared memory. See :meth:`Machine.load`."""
        places = self._access_places(lanes, access, addresses)
        self.check_read(lanes, places, access.bytes, access.strength, loads=True)
        raw = self.fetch(places, access.bytes)
        if access.strength:
            raw = raw.copy()
            older = self.machine.flags.delay(lanes, places, raw, shared=True)
            self.machine.flags.acquire(lanes, access, places, shared=True, older=older)
        if self.machine.launch.observer is not None:
            observed.tell_access(self.machine, "load", lanes, ("shared", places), raw)
        return raw

    def _access_places(self, lanes: Lanes, access: AccessKind, addresses: Any) -> Any:
        places = self.place(lanes, addresses, access.bytes, remote=access.space == "shared::cluster")
        if self.has_objects:
            self.refuse_objects(lanes, places, access.bytes)
        if self.machine.launch.profile:
            profile.count_shared(self.machine, lanes, places, access.bytes)
        return places

    def store(self, lanes: Lanes, access: AccessKind, addresses: Any, raw: Any, origins: Any = None) -> None:
        """Execute a store to shared memory. See :meth:`Machine.store`."""
        places = self._access_places(lanes, access, addresses)
        try:
            self.check_write(lanes, places, access.bytes, access.strength, raw=raw)
        except IntraWarpConflict as together:
            if origins is not None:
                self.machine.tell(lanes, origins)
            raw = np.broadcast_to(raw, (len(places), self.machine.copies, access.bytes))
            self.put(places, raw)
            if not np.array_equal(self.fetch(places, access.bytes), raw):
                raise together.error from None
        if access.strength or self.machine.suspicious:
            raw = np.broadcast_to(raw, (len(places), self.machine.copies, access.bytes))
            before = self.fetch(places, access.bytes)
            if access.strength:
                self.machine.flags.record(lanes, places, before, raw, shared=True)
            same = np.array_equal(before, raw)
        else:
            same = False
        if not same or not self.machine.suspicious:
            self.put(places, raw)
            self.machine.launch.version += 1
        if origins is not None:
            if self.blank is None:
                self.blank = np.zeros(len(self.objects) * 8, np.int64)
            self.blank[places[:, None] + np.arange(access.bytes)] = origins
        if access.strength:
            self.machine.flags.release(lanes, access, places, shared=True, new=raw)
        if self.machine.launch.observer is not None:
            observed.tell_access(self.machine, "store", lanes, ("shared", places), raw)

    def atomic(self, lanes: Lanes, access: AccessKind, addresses: Any, update: Any) -> Any:
        """Execute an atomic operation on shared memory. See :meth:`Machine.atomic`."""
        machine = self.machine
        places = self._access_places(lanes, access, addresses)
        self.check_read(lanes, places, access.bytes, access.strength, remember=False)
        self.check_write(lanes, places, access.bytes, access.strength, modifies=True)
        of, size = np.indices((len(places), machine.copies)), access.bytes

        def get(where: Any) -> Any:
            return np.ascontiguousarray(self.fetch(where, size)).view(access.dtype)[..., 0].copy()

        def set_(where: Any, values: Any) -> None:
            self.put(where, values[..., None].view(np.uint8))

        old = self.serialize(access, update, places, places, machine.index(lanes), of, get, set_, shared=True)
        if machine.launch.observer is not None:
            observed.tell_access(machine, "atomic", lanes, ("shared", places), old[..., None].view(np.uint8))
        return old

    def refuse_objects(self, lanes: Lanes, places: Any, size: int) -> None:
        """Raise a hazard if an ordinary access touches a live mbarrier."""
        bad = self.objects[places // 8] | self.objects[(places + size - 1) // 8]
        what = "only mbarrier operations may access a live mbarrier"
        self.machine.hazard_where(bad, "mbarrier", lambda at: f"{self.where(int(places[at]))}: {what}", lanes)

    def check_read(
        self, lanes: Lanes, places: Any, size: int, strength: int = WEAK, *, remember: bool = True, loads: bool = False
    ) -> None:
        """Check that a read is ordered after writes of its bytes. If ``loads`` is True, only record unwritten bytes."""
        cells, count = self.cells_from(places, size)
        written = self.shadow.writer[cells] != 0
        blank = None if self.blank is None else self.blank[places[:, None] + np.arange(size)]
        if not written.all() or (blank is not None and blank.any()):
            unwritten = np.repeat(~written.reshape(-1, count), size // count, axis=1)
            self.machine.unwritten_bytes(SHARED, lanes, places, unwritten, blank)
            if not loads:
                self.machine.tell(*self.machine.unwritten.pop())
        self._order(lanes, places, size, cells, count, strength, remember=remember)

    def check_write(
        self, lanes: Lanes, places: Any, size: int, strength: int = WEAK, *, raw: Any = None, modifies: bool = False
    ) -> None:
        """Check that a write is ordered after every earlier access. See :meth:`GlobalAccesses.check_write`."""
        cells, count = self.cells_from(places, size)
        if self.blank is not None:
            self.blank[places[:, None] + np.arange(size)] = 0
        equal = None
        if raw is not None and self.machine.launch.allows_same_value:
            equal = np.repeat((self.fetch(places, size) == raw).all(axis=(1, 2)), count)
        self._order(lanes, places, size, cells, count, strength, raw=raw, writes=True, equal=equal, modifies=modifies)

    def _order(
        self, lanes: Lanes, places: Any, size: int, cells: Any, count: int, strength: int, *, raw: Any = None,
        **more: Any,
    ) -> None:  # fmt: skip
        """Check that accesses are ordered; ``more``: see :meth:`ShadowedMemory.hold`."""
        machine = self.machine
        if self.reserved is not None and (places % self.size >= self.reserved).all():
            return  # memory of the CUDA library, which orders it by shuffles: the program is not at fault
        index = machine.index(lanes)
        index = np.repeat(index, count) if count > 1 else index
        try:
            self.hold(self.shadow, cells, index, strength, **more)
        except Conflict as conflict:
            warp_of = machine.warp_of
            if conflict.together:
                conflict = self.shadow.farthest(conflict, cells, warp_of[index], lambda actor: warp_of[actor])
            at, warp = conflict.position // count, warp_of[index[conflict.position]]
            low = int(places[at])
            first = max(int(cells[conflict.position]) * self.cell, low)
            last = min(int(conflict.cell + 1) * self.cell, low + size) - 1
            values = None
            if raw is not None:
                rows = np.broadcast_to(raw, (len(places), machine.copies, size))
                values = rows[at], rows[places == low], index[::count][places == low]
            self.raise_race(
                conflict, self.where(first), strength, lanes, (at, 0), (first % self.size, last % self.size),
                writes=more.get("writes", False), values=values, fetch=lambda: self.fetch(places[at : at + 1], size),
                near=lambda actor: bool(warp_of[actor] == warp),
            )  # fmt: skip

    def fetch(self, places: Any, size: int) -> Any:
        """Return the bytes at offsets in the batch's shared memory as an array of shape (n, clusters, size)."""
        if size > 16:
            return np.concatenate([self.fetch(places + part, 16) for part in range(0, size, 16)], axis=2)
        words = self.data.view(WORDS[size])
        if words.shape[1] == 1:
            elements = words.reshape(-1)[places // size][:, None]
        else:
            elements = words[places >> 4, :, (places & 15) // size]
        return elements.view(np.uint8).reshape(len(places), words.shape[1], size)

    def put(self, places: Any, raw: Any) -> None:
        """Write bytes at offsets in the batch's shared memory. ``raw`` broadcasts to shape (n, clusters, size)."""
        size = raw.shape[2]
        if size > 16:
            for part in range(0, size, 16):
                self.put(places + part, raw[:, :, part : part + 16])
            return
        words = self.data.view(WORDS[size])
        values = np.ascontiguousarray(raw).view(WORDS[size])[:, :, 0]
        if words.shape[1] == 1:
            words.reshape(-1)[places // size] = values[:, 0]
        else:
            words[places >> 4, :, (places & 15) // size] = values
