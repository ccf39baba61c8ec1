"""The threads of a batch of clusters: thread numbers, thread states, and the hazards that threads raise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import attrs
import numpy as np
from tilecopy import HazardError

from ..hazards import Hazard, ReportedAccess
from ..memory_model.access import RANK_BITS
from ..memory_model.clocks import VectorClocks
from ..program import Instruction, UnsupportedPtxError
from .launch import Launch

RUN, AT_BARRIER, AT_WARP, AT_CLUSTER, AT_MBARRIER, DONE = range(6)
"""The states of a thread: it runs, waits, or has exited."""
FULL = slice(None)
WARPGROUP = 128
"""The number of threads in a warpgroup."""
Lanes = Any
TURNS = 64
"""The number of backward branches after which a thread lets others run first."""


class CopiesDiverged(Exception):  # noqa: N818 (never leaves the machine)
    """Raised if a value that must be the same in every cluster of the batch differs."""


@attrs.frozen(eq=False)
class Blocked:
    """The reason why a batch cannot continue without another batch. ``raise_hang`` raises the hazard."""

    raise_hang: Callable[[], NoReturn]


class Threads:
    """The threads of a batch of clusters.

    ``launch``: the state that all batches share; ``first``: number of the first CTA; ``ctas``: number, in whole clusters.
    """

    def __init__(self, launch: Launch, first: int, ctas: int) -> None:
        self.launch, self.program, self.first = launch, launch.program, first
        self.threads, self.cluster_size = launch.threads, launch.cluster_size
        self.crowds = self.threads, self.threads * self.cluster_size
        """The threads of a CTA and of a cluster."""
        self.copies = ctas // self.cluster_size
        self.unit_ctas = self.cluster_size
        unit = self.unit_ctas * self.threads
        self.pc = np.zeros(unit, np.int64)
        self.status = np.zeros(unit, np.int8)
        self.turn = np.zeros(unit, np.int64)
        self.lanes: Lanes = FULL
        self.at = 0
        self.next_at = 0
        self.stale = self.settled = False
        self.others: list[int] = []
        self.suspicious = self.tolerant = False
        self._lay_out()
        key = 0 if self.copies > 1 else first
        self.order = VectorClocks(launch.time, self.unit_ctas, self.threads, key, launch.sections)
        self.many: Any = None
        self.width = 1
        self.converging: dict[int | str, dict[int, int]] = {}
        self.gathering: dict[int, Any] = {}
        self.joined: Any = None

    def _lay_out(self) -> None:
        launch, unit = self.launch, self.unit_ctas * self.threads
        self.units = unit
        self.ids = np.arange(unit)
        self.cta_of = self.ids // self.threads
        inside = self.ids % self.threads
        self.thread = inside[:, None].astype(np.uint32)
        x, y, _ = launch.block
        self.tid = (self.thread % x, self.thread // x % y, self.thread // (x * y))
        self.lane, self.warp = self.thread % np.uint32(32), self.thread // np.uint32(32)
        self.warps_per_cta = -(-self.threads // 32)
        self.warp_of = self.cta_of * self.warps_per_cta + inside // 32
        rank = self.cta_of % self.cluster_size
        self.rank = rank[:, None].astype(np.uint32)
        if self.cluster_size == 1:
            self.rank = self.rank[:1]
        chosen = launch.blocks[self.first : self.first + self.unit_ctas * self.copies]
        chosen = chosen.reshape(self.copies, self.unit_ctas, 3)
        spread = chosen[:, self.cta_of] if self.unit_ctas > 1 else chosen
        axes = (np.ascontiguousarray(spread[:, :, d].T).astype(np.uint32) for d in range(3))
        bx, by, bz = (b[:1, :1] if (b == b[0, 0]).all() else b for b in axes)
        self.block = (bx, by, bz)
        cx, cy, _ = launch.cluster
        self.cluster_ctaid = (self.rank % cx, self.rank // cx % cy, self.rank // (cx * cy))
        self.ntid, self.nctaid, self.ncluster = launch.block, launch.grid, launch.cluster
        self.explicit_cluster = launch.explicit_cluster
        self.dynamic_shared_bytes, self.total_shared_bytes = launch.dynamic_shared_bytes, launch.total_shared_bytes
        # grid-wide number of each thread
        cta = self.first + np.arange(self.copies) * self.unit_ctas
        self.grid_thread = (cta * self.threads)[None, :] + self.ids[:, None]

    def clock(self) -> int:
        """Return the number of instructions that all threads of the launch have executed so far."""
        return int(self.launch.executed.sum())

    def size(self, lanes: Lanes) -> int:
        """Return the number of lanes."""
        return self.units if lanes is FULL else len(lanes)

    def index(self, lanes: Lanes) -> Any:
        """Return the lane numbers as an array. ``FULL`` stands for all lanes."""
        return self.ids if lanes is FULL else lanes

    def rows(self, values: Any, lanes: Lanes) -> Any:
        """Return values broadcast to one row per lane."""
        values = np.asarray(values)
        if values.ndim == 0:
            values = values.reshape(1, 1)
        size = self.size(lanes)
        return values if values.shape[0] == size else np.broadcast_to(values, (size, values.shape[1]))

    def stack(self, values: Iterable[Any], lanes: Lanes, axis: int = 0) -> Any:
        """Stack values along a new axis, after each is broadcast to one row per lane."""
        return np.stack(np.broadcast_arrays(*(self.rows(value, lanes) for value in values)), axis)

    def uniform(self, values: Any, lanes: Lanes) -> Any:
        """Return one value per lane. The value must be the same in every cluster of the batch.

        Raises:
            CopiesDiverged: the values differ; call this before any side effect.
        """
        values = np.asarray(values)
        if values.ndim == 0:
            return np.broadcast_to(values, (self.size(lanes),))
        first = values[:, 0]
        if values.shape[1] > 1 and not (values == values[:, :1]).all():
            raise CopiesDiverged
        return first if len(first) == self.size(lanes) else np.broadcast_to(first, (self.size(lanes),))

    def demand_single(self) -> None:
        """Raise CopiesDiverged if one cluster represents several. Call this before ordering threads across clusters."""
        if self.copies > 1:
            raise CopiesDiverged

    def name_of(self, lane: int, copy: int = 0) -> str:
        """Return the name that messages use for the thread of a lane."""
        return self.launch.name_of(int(self.grid_thread[lane, copy]))

    def symbol(self, name: str, lanes: Lanes) -> Any:
        """Return the address of a variable or parameter in its state space."""
        location = self.launch.symbols.get(name)
        if location is None:
            line = self.program.instructions[self.at].line
            raise UnsupportedPtxError(f"PTX line {line}: '{name}' is not declared")
        space, address = location
        if space == "shared":
            rank = self.rank if len(self.rank) == 1 or lanes is FULL else self.rank[lanes]
            return (rank.astype(np.uint64) << np.uint64(RANK_BITS)) + np.uint64(address)
        return np.full((1, 1), address, np.uint64)

    def living(self, cta: int) -> Any:
        """Return the lanes of a CTA that have not exited."""
        lanes = self.ids[cta * self.threads : (cta + 1) * self.threads]
        return lanes[self.status[lanes] != DONE]

    def hazard(self, kind: str, message: str, lanes: Lanes = None, position: int = 0, **more: Any) -> NoReturn:
        """Raise :class:`HazardError` for a lane of the current instruction.

        ``kind``: see the kinds in the README; ``message``: what is wrong, without the thread and the line; ``lanes``:
        those that execute it, or None for a hazard of no thread; ``position``: of the lane among them; ``more``: ``copy``
        of the lane, ``at`` (another instruction), the lane's ``action`` and its ``value``, ``met`` (the other
        accesses), for a race ``sought`` and ``suspect`` (see :class:`Launch`) and ``behind`` (the divergent barrier
        that caused it); and as in :class:`Hazard` ``threads`` (without the lane's), ``bytes``, ``cause`` and ``remedy``.
        """
        at, copy = more.pop("at", -1), int(more.pop("copy", 0))
        who, threads = "", tuple(more.pop("threads", ()))
        if lanes is not None and self.size(lanes):
            name = self.name_of(int(self.index(lanes)[position]), copy)
            who, threads = f"{name}: ", (name, *threads)
        action, value, met = more.pop("action", ""), more.pop("value", ""), more.pop("met", ())
        hidden, behind = {name: more.pop(name, None) for name in ("sought", "suspect")}, more.pop("behind", None)
        accesses = ()
        if self.program.instructions:
            instruction = self.instruction_of(lanes, position, at)
            accesses = (self.report(instruction, threads[0] if threads else "", action, value=value), *met)
        error = HazardError(f"{kind}: {who}{message}", kind=kind)
        hazard = Hazard(kind, who + message, accesses, threads, **more)
        error.details = {"hazard": hazard.behind(*behind) if behind else hazard, **hidden}
        raise error  # the launch adds the rest if no caller catches this

    def hazard_where(
        self, bad: Any, kind: str, message: str | Callable[[int], str], lanes: Lanes, positions: Any = None, **more: Any
    ) -> None:
        """Raise a hazard for the first lane that breaks a rule, if there is one. See :meth:`hazard`.

        ``bad``: for each lane, or for each at some positions, whether it breaks the rule; ``kind``: see :meth:`hazard`;
        ``message``: the message, or a function from a position in ``bad`` to it; ``lanes``: those that execute the
        instruction; ``positions``: of the lanes of ``bad`` among them; all by default; ``more``: see :meth:`hazard`.
        """
        if np.any(bad):
            at = int(np.argmax(bad))
            text = message if isinstance(message, str) else message(at)
            self.hazard(kind, text, lanes, at if positions is None else int(positions[at]), **more)

    def report(self, instruction: Instruction, thread: str, action: str, **more: str) -> ReportedAccess:
        """Return a hazard report's entry for an instruction, with the statement that emitted the instruction."""
        line = instruction.line
        return ReportedAccess(
            thread, action, line, instruction.text, instruction.place, origin=self.launch.source_location(line), **more
        )

    def demand_aligned(self, lanes: Lanes, addresses: Any, size_bytes: int, what: str) -> None:
        """Raise a hazard if an address or a byte stride is not a multiple of ``size_bytes``.

        ``lanes``: that have them; ``addresses``: unsigned, one row per lane, or one for all; ``size_bytes``: the number;
        ``what``: the text for the address, with ``{}`` for its digits.
        """
        bad = addresses % addresses.dtype.type(size_bytes) != 0
        if bad.any():
            position, copy = (int(number) for number in np.argwhere(self.rows(bad, lanes))[0])
            value = f"0x{int(self.rows(addresses, lanes)[position, copy]):x}"
            message = f"{what.format(value)} is not a multiple of {size_bytes} bytes"
            self.hazard("alignment", message, lanes, position, copy=copy)

    def note(self, message: str) -> None:
        """Add a note about the current instruction to the launch. The same note is added only once."""
        instruction = self.program.instructions[self.at]
        origin = self.launch.source_location(instruction.line)
        text = f"{message} (PTX line {instruction.line}: {instruction.text}{', ' if origin else ''}{origin})"
        if text not in self.launch.notes:
            self.launch.notes.append(text)

    def instruction_of(self, lanes: Lanes, position: int, at: int = -1) -> Instruction:
        """Return the instruction at index ``at``. By default, return the instruction that the lane executes."""
        instructions = self.program.instructions
        at = self.at if at < 0 else at
        if lanes is not None and lanes is self.many:
            at += position // self.width
        return instructions[min(at, len(instructions) - 1)]

    def settle(self) -> None:
        """Save the program counter of each running lane before the lanes diverge."""
        if not self.settled:
            self.pc[self.index(self.lanes)] = self.at + 1
            self.settled = self.stale = True

    def park(self, lanes: Lanes, status: int, *, again: bool = False) -> None:
        """Suspend lanes. They resume at the next instruction, or at the current one if ``again`` is true."""
        self.settle()
        lanes = self.index(lanes)
        self.status[lanes] = status
        self.pc[lanes] = self.at if again else self.at + 1

    def wake(self, lanes: Any, at: int | None = None) -> None:
        """Let suspended lanes run again. If ``at`` is not None, the lanes resume at the instruction with this index."""
        self.status[lanes] = RUN
        if at is not None:
            self.pc[lanes] = at
        self.turn[lanes] = self.turn[lanes].max()
        self.stale = True
        self.launch.version += 1

    def yields(self, lanes: Any) -> None:
        """Let other lanes run before lanes that only poll."""
        self.turn[lanes] = (self.turn[lanes] | (TURNS - 1)) + 1
        if self.others:
            self.stale = True

    def warp_bits(self, lanes: Any) -> Any:
        """Return a bit mask for each warp of the batch, with the bits of ``lanes`` set."""
        bits = np.zeros(self.unit_ctas * self.warps_per_cta, np.uint32)
        np.bitwise_or.at(bits, self.warp_of[lanes], np.uint32(1) << self.lane[lanes, 0])
        return bits

    def converge(self, lanes: Lanes, mask: Any, *, anywhere: bool = False) -> Any:
        """Return each lane whose mask is complete: all lanes in the mask have reached this instruction. The rest wait.

        ``lanes``: that arrive now; ``mask``: the mask of each (1-D, the same in every copy); ``anywhere``: whether the
        same kind of instruction with the same mask elsewhere also counts.
        """
        index = self.index(lanes)
        mask = np.broadcast_to(np.asarray(mask).astype(np.uint32), index.shape)
        own_bit = (mask >> self.lane[index, 0]) & np.uint32(1)
        kind = "barrier" if anywhere else "aligned"
        self.hazard_where(
            own_bit == 0, kind, lambda at: f"the mask must include the executing lane, got 0x{int(mask[at]):08x}", lanes
        )
        alive = self.warp_bits(self.ids[self.status != DONE])
        warps = self.warp_of[index]
        here = self.warp_bits(index)
        if (
            not self.converging
            and ((mask & alive[warps]) == here[warps]).all()
            and (mask == mask[np.searchsorted(warps, warps)]).all()
        ):
            self.joined = mask
            return lanes
        key = " ".join(self.program.instructions[self.at].opcode[:3]) if anywhere else self.at
        waiting = self.converging.setdefault(key, {})
        for lane, wanted in zip(index.tolist(), mask.tolist(), strict=True):
            waiting[lane] = wanted
        self.park(index, AT_WARP, again=not anywhere)
        ready_lanes, self.joined = self._wake_converged(key, alive)
        if not anywhere:
            self.pc[ready_lanes] = self.at + 1
        return ready_lanes

    def _wake_converged(self, key: int | str, alive: Any) -> tuple[Any, Any]:
        """Wake the lanes whose mask is complete except for exited lanes; return them and their masks."""
        waiting = self.converging[key]
        ready: set[int] = set()
        for lane, wanted in waiting.items():
            if lane in ready:
                continue
            first = lane - int(self.lane[lane, 0])
            needed = wanted & int(alive[self.warp_of[lane]])
            group = [first + bit for bit in range(32) if needed >> bit & 1]
            if all(waiting.get(other) == wanted for other in group):
                ready |= set(group)
        lanes = np.array(sorted(ready), np.int64)
        masks = np.array([waiting.pop(lane) for lane in lanes.tolist()], np.int64)
        if not waiting:
            del self.converging[key]
        if len(lanes):
            self.wake(lanes)
        return lanes, masks

    def converge_without_exited(self) -> Any:
        """Wake lanes that waited only for lanes that have now exited.

        They execute their instruction again, except those of a ``bar.warp.sync``, which are past it: those are returned with
        their masks.
        """
        alive = self.warp_bits(self.ids[self.status != DONE])
        for key in list(self.converging):
            lanes, masks = self._wake_converged(key, alive)
            if isinstance(key, str):
                yield lanes, masks
            else:
                self.launch.executed[key] -= len(lanes) * self.copies

    def _raise_warp_hang(self, waiting: Any) -> NoReturn:
        lane = int(waiting[0])
        for at, members in self.gathering.items():
            if members[lane]:
                first = lane - int(self.thread[lane, 0]) % WARPGROUP
                come = members[first : first + WARPGROUP]
                other = self.name_of(first + int(np.argmin(come)))
                what = f"{int(come.sum())} of the {WARPGROUP} threads of the warpgroup have arrived; {other} has not"
                self.hazard("aligned", what, waiting[:1], at=at, threads=(other,))
        for key, members in self.converging.items():
            if lane in members:
                at = int(self.pc[lane]) - (1 if isinstance(key, str) else 0)
                wanted = members[lane]
                first = lane - int(self.lane[lane, 0])
                here = sum(1 << (other - first) for other in members if 0 <= other - first < 32)
                missing = wanted & ~here & int(self.warp_bits(self.ids[self.status != DONE])[self.warp_of[lane]])
                bit = (missing & -missing).bit_length() - 1
                more = f"; {self.name_of(first + bit)} has not" if bit >= 0 else ""
                come, all_lanes = (wanted & here).bit_count(), wanted.bit_count()
                what = f"{come} of the {all_lanes} lanes of the mask 0x{wanted:08x} have arrived{more}"
                self.hazard("barrier" if isinstance(key, str) else "aligned", what, waiting[:1], at=at)
        raise AssertionError("not waiting")

    def whole_warpgroups(self, lanes: Lanes) -> Lanes:
        """Return the lanes whose whole warpgroup has reached this instruction. The other lanes wait."""
        lanes = self.whole_warps(lanes)
        index = self.index(lanes)
        if not len(index):
            return index
        size = self.threads + -self.threads % WARPGROUP
        group = (self.cta_of * size + self.thread[:, 0]) // WARPGROUP
        waiting = self.gathering.setdefault(self.at, np.zeros(self.units, bool))
        waiting[index] = True
        come, alive = (np.bincount(group[x], minlength=int(group[-1]) + 1) for x in (waiting, self.status != DONE))
        live = alive[group[index]]
        what = f"a warpgroup instruction must be executed by a warpgroup of {WARPGROUP} threads"
        say = lambda at: f"{what}, got {int(live[at])} threads"  # noqa: E731
        self.hazard_where(live < WARPGROUP, "aligned", say, index)
        ready = waiting & (come == WARPGROUP)[group]
        ready_lanes = np.nonzero(ready)[0]
        waiting[ready_lanes] = False
        if not waiting.any():
            del self.gathering[self.at]
        if np.array_equal(ready_lanes, index):
            return lanes
        self.park(index, AT_WARP)
        if len(ready_lanes):
            self.wake(ready_lanes, self.at + 1)
        return ready_lanes

    def whole_warps(self, lanes: Lanes) -> Lanes:
        """Return the lanes whose whole warp has reached an instruction with .aligned. The other lanes wait."""
        if lanes is FULL:
            return lanes
        return self.converge(lanes, np.uint32(0xFFFFFFFF))

    def demand_full_warps(self, lanes: Lanes, what: str) -> Any:
        """Check that all 32 threads of each warp execute the instruction. Return the lanes of these threads."""
        self.demand_whole_warps(lanes)
        index = self.index(lanes)
        if len(index) % 32 or (self.lane[index, 0] != np.arange(len(index)) % 32).any():
            self.hazard("aligned", f"{what} must be executed by warps of 32 threads, got a smaller warp", lanes)
        return index

    def demand_whole_warps(self, lanes: Lanes) -> Any:
        """Check that all lanes of a warp that have not exited execute an instruction with .aligned.

        Return the first lane of each warp.
        """
        if lanes is FULL:
            return self.ids[self.thread[:, 0] % 32 == 0]
        alive = self.warp_bits(self.ids[self.status != DONE])
        here = self.warp_bits(lanes)
        warps = np.unique(self.warp_of[lanes])
        bad = here[warps] != alive[warps]
        if bad.any():
            warp = int(warps[np.argmax(bad)])
            at = int(np.argmax(self.warp_of[lanes] == warp))
            count = int(here[warp]).bit_count()
            what = f"got {count} of the warp's {int(alive[warp]).bit_count()} threads"
            self.hazard("aligned", f"the whole warp must execute an instruction with .aligned, {what}", lanes, at)
        _, firsts = np.unique(self.warp_of[lanes], return_index=True)
        return lanes[firsts]
