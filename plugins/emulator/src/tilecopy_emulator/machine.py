"""The machine: registers as arrays over the threads of many CTAs, stepped at the lowest program counter.

Time is a counter that goes up with every synchronisation. Each granule of shared memory remembers when and by whom
it was touched; a later access by another thread is ordered when a barrier of the CTA lies between (``floor``), one
of the warp, or an mbarrier phase that the thread observed (``known``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NoReturn

import numpy as np

from tilecopy_core import HazardError

from .memory import ENGINE, SEVERAL, GlobalMemory, SharedMemory
from .program import Instruction, Program, UnsupportedPtxError

STEP_LIMIT = 1 << 24
"""Instructions (of however many threads at once) after which a run is taken to be endless."""
RUN, AT_BARRIER, AT_WARP, AT_CLUSTER, AT_MBARRIER, DONE = range(6)
FULL = slice(None)
Step = Callable[["Machine", Any], None]
REGISTER_TYPES: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Machine:
    """A batch of CTAs in execution.

    Args:
        program: the parsed kernel.
        steps: one function an instruction (see :mod:`.operations`).
        blocks: ``(n, 3)`` ids of the CTAs, whole clusters in order of rank.
        grid: CTAs of the whole grid.
        threads: threads of a CTA.
        cluster_size: CTAs of a cluster.
        parameters: parameter name -> value.
        memory: global memory.
        shared: shared memory of the batch.
        clocks: whether mbarriers need a clock for each pair of threads.
    """

    def __init__(
        self,
        program: Program,
        steps: Sequence[Step],
        blocks: Any,
        grid: tuple[int, int, int],
        threads: int,
        cluster_size: int,
        parameters: dict[str, int],
        memory: GlobalMemory,
        shared: SharedMemory,
        *,
        clocks: bool = False,
    ) -> None:
        self.program, self.steps, self.memory, self.shared = program, steps, memory, shared
        self.blocks, self.grid, self.threads, self.cluster_size = blocks, grid, threads, cluster_size
        self.parameters = parameters
        self.ctas = len(blocks)
        self.count = self.ctas * threads
        self.ids = np.arange(self.count)
        self.cta_ids = self.ids // threads
        self.registers: dict[str, Any] = {}
        self.defined: dict[str, Any] = {}
        self.pc = np.zeros(self.count, np.int32)
        self.status = np.zeros(self.count, np.int8)
        self.together = True
        self.at = 0
        self.now = 1
        self.floor = np.zeros(self.ctas, np.int64)
        self.cluster_floor = np.zeros(self.ctas, np.int64)
        self.warps_per_cta = -(-threads // 32)
        self.warp_ids = self.cta_ids * self.warps_per_cta + self.ids % threads // 32
        self.warp_floor = np.zeros(self.ctas * self.warps_per_cta, np.int64)
        self.fence_time = np.zeros(self.count, np.int64)
        self.fence_floor = np.zeros(self.count, np.int64)
        # known[t, u]: up to when thread t knows what thread u of its cluster (last column: the engine) has done
        self.cluster_threads = cluster_size * threads
        self.known = np.zeros((self.count, self.cluster_threads + 1), np.int32) if clocks else None
        self.barrier_of = np.full(self.count, -1, np.int16)
        self.barrier_place = np.full(self.count, -1, np.int64)
        self.cluster_arrived = np.zeros(self.count, bool)
        self.copies: list[Any] = []
        self.committed = np.zeros(self.count, np.int32)
        self.mbarriers: dict[int, Any] = {}
        self.engines: list[Any] = []
        self.tensor: Any = None
        self.executed = np.zeros(len(program.instructions), np.int64)
        self.counters: dict[str, int] = {}
        self.profile = False

    # ------------------------------------------------------------------------------------------- who is who

    def lane_ids(self, lanes: Any) -> Any:
        """Index in the batch of each lane."""
        return self.ids if lanes is FULL else lanes

    def cta_of(self, lanes: Any) -> Any:
        """Index in the batch of each lane's CTA."""
        return self.cta_ids[lanes]

    def rank_of(self, cta: Any) -> Any:
        """Rank in its cluster of a CTA."""
        return cta % self.cluster_size

    def floor_of(self, lanes: Any) -> Any:
        """Up to when each lane's CTA has seen everything of itself."""
        return self.floor[self.cta_ids[lanes]]

    def name_of(self, lane: int) -> str:
        """A thread in words."""
        if lane == SEVERAL:
            return "several threads"
        if lane == ENGINE:
            return "an asynchronous copy"
        block = ",".join(map(str, self.blocks[lane // self.threads]))
        return f"thread {lane % self.threads} of CTA ({block})"

    def warp_bit(self, lanes: Any) -> Any:
        """A bit for each lane's warp in its CTA."""
        return np.uint32(1) << (self.warp_ids[lanes] % self.warps_per_cta).astype(np.uint32)

    def ordered(self, lanes: Any, other: Any, other_warps: Any, times: Any) -> Any:
        """Whether an access by ``other`` at ``times`` comes before what ``lanes`` do now (barriers of a CTA aside).

        Args:
            lanes: who accesses now.
            other: who accessed then: a thread, several, or the engine; shape (lanes, granules).
            other_warps: for readers, the mask of their warps.
            times: when.
        """
        me = self.lane_ids(lanes)[:, None]
        single = other >= 0
        mine = self.warp_ids[lanes][:, None]
        same_warp = single & (self.warp_ids[np.where(single, other, 0)] == mine)
        if other_warps is not None:
            same_warp |= ~single & (other_warps == self.warp_bit(lanes)[:, None])
        result = same_warp & (times <= self.warp_floor[mine])
        if self.known is None:
            return result
        first = me // self.cluster_threads * self.cluster_threads
        column = np.where(other == ENGINE, self.cluster_threads, np.clip(other - first, 0, self.cluster_threads - 1))
        one = single | (other == ENGINE)
        result |= one & (self.known[me, column] >= times)
        if other_warps is not None and (~one & ~result).any():
            rows = np.broadcast_to(me, other.shape)
            for index in map(tuple, np.argwhere(~one & ~result)):
                result[index] = self._knows_warps(int(rows[index]), int(other_warps[index]), int(times[index]))
        return result

    def _knows_warps(self, lane: int, warps: int, time: int) -> bool:
        """Whether a lane knows what every other thread of some warps of its CTA did up to a time."""
        assert self.known is not None
        start = lane // self.threads * self.threads % self.cluster_threads
        row = self.known[lane, start : start + self.threads]
        inside = (warps >> (np.arange(self.threads) // 32)) & 1 == 1
        inside[lane % self.threads] = False
        return bool((row[inside] >= time).all())

    def hazard(self, kind: str, message: str, lanes: Any, position: int = 0) -> NoReturn:
        """Raise :class:`HazardError` for one lane of the instruction that is being executed."""
        instruction = self.program.instructions[self.at]
        ids = self.lane_ids(lanes)
        who = f"{self.name_of(int(ids[position]))}: " if len(ids) else ""
        source = f"\n  in: {instruction.source}" if instruction.source else ""
        raise HazardError(
            f"{kind}: {who}{message}\n  PTX line {instruction.line}: {instruction.text}{source}",
            kind=kind,
            line=instruction.line,
        )

    # ------------------------------------------------------------------------------------------- registers

    def read(self, name: str, lanes: Any) -> Any:
        """A register of some lanes, as unsigned bits.

        Raises:
            HazardError: it was never written in one of them.
        """
        values = self.registers.get(name)
        if values is None:
            if name not in self.program.register_bits:
                raise UnsupportedPtxError(
                    f"PTX line {self.program.instructions[self.at].line}: operand '{name}' is not known"
                )
            self.hazard("poison", f"register {name} is read and was never written", lanes)
        defined = self.defined[name]
        if defined is not None and not defined[lanes].all():
            at = int(np.argmax(~defined[lanes]))
            self.hazard("poison", f"register {name} is read and was never written", lanes, at)
        return values[lanes]

    def write(self, name: str, lanes: Any, values: Any) -> None:
        """Set a register of some lanes; values are cut to its width."""
        if name == "_":
            return
        type = REGISTER_TYPES[self.program.register_bits[name]]
        values = np.asarray(values)
        if values.dtype != type:
            values = values.astype(type)
        if lanes is FULL:
            self.registers[name] = np.broadcast_to(values, (self.count,)) if values.shape != (self.count,) else values
            self.defined[name] = None
            return
        if name not in self.registers:
            self.registers[name] = np.zeros(self.count, type)
            self.defined[name] = np.zeros(self.count, bool)
        if not self.registers[name].flags.writeable or self.registers[name].base is not None:
            self.registers[name] = self.registers[name].copy()
        self.registers[name][lanes] = values
        if self.defined[name] is not None:
            self.defined[name][lanes] = True

    # ------------------------------------------------------------------------------------------- running

    def run(self) -> None:
        """Step until every thread has exited.

        Raises:
            HazardError: an execution that the hardware leaves undefined, or that never ends.
        """
        instructions = self.program.instructions
        for steps in count():
            if steps > STEP_LIMIT:
                self.hazard("endless", f"more than {STEP_LIMIT} steps: a loop that does not end?", self.ids[:1])
            if self.together:
                lanes: Any = FULL
            else:
                running = self.status == RUN
                if not running.any():
                    if (self.status == DONE).all():
                        break
                    if self.progress():
                        continue
                    self._stuck()
                self.at = int(self.pc[running].min())
                chosen = running & (self.pc == self.at)
                if chosen.all():
                    self.together, lanes = True, FULL
                else:
                    lanes = np.nonzero(chosen)[0]
            if self.at >= len(instructions):
                self.exit(lanes)
            else:
                self._execute(instructions[self.at], lanes)
            if self.together and self.status[0] == DONE:
                break
        if self.engines:
            self.lifetime(self.engines[0])
        if self.tensor is not None and self.tensor.allocated:
            cta = next(iter(self.tensor.allocated))
            self.at = len(instructions) - 1
            self.hazard("tensor", "the CTA ends with tensor memory allocated", np.array([cta * self.threads]))

    def _execute(self, instruction: Instruction, lanes: Any) -> None:
        active = lanes
        if instruction.guard:
            condition = self.read(instruction.guard, lanes)
            if instruction.unless:
                condition = ~condition
            if not condition.all():
                active = self.lane_ids(lanes)[condition]
        size = self.count if active is FULL else len(active)
        self.executed[self.at] += size
        before = self.at
        if instruction.opcode[0] == "bra":
            self._branch(instruction, lanes, active, size)
            return
        if size:
            self.steps[before](self, active)
        if self.together:
            self.at = before + 1
        else:
            moving = self.lane_ids(lanes)
            moving = moving[self.status[moving] != AT_MBARRIER]  # those try again when the phase completes
            self.pc[moving] = before + 1

    def _branch(self, instruction: Instruction, lanes: Any, active: Any, size: int) -> None:
        label = str(instruction.operands[-1])
        labels = self.program.labels
        target = labels[label] if label in labels else labels[label.split("@", maxsplit=1)[0]]
        if self.together and size == self.count:
            self.at = target
        elif self.together and size == 0:
            self.at += 1
        else:
            here = self.at
            self.part()
            self.pc[lanes] = here + 1
            self.pc[active] = target

    def part(self) -> None:
        """Stop stepping all threads as one."""
        if self.together:
            self.pc[:] = self.at
            self.together = False

    def park(self, lanes: Any, status: int) -> None:
        """Let threads wait, past the current instruction."""
        self.part()
        self.status[lanes] = status
        self.pc[lanes] = self.at if status == AT_MBARRIER else self.at + 1

    def exit(self, lanes: Any) -> None:
        """Threads that end."""
        if lanes is FULL:
            self.status[:] = DONE
        else:
            self.part()
            self.status[lanes] = DONE
        if self.engines:
            for engine in list(self.engines):
                ended = [cta for cta in engine.ctas() if (self.status[self.cta_ids == cta] == DONE).all()]
                if ended:
                    self.lifetime(engine)

    def lifetime(self, engine: Any) -> NoReturn:
        """A CTA ended while a copy still uses its memory."""
        self.at = engine.at
        self.hazard(
            "lifetime",
            "a CTA exits while this copy still reads or writes shared memory (a wait or a cluster barrier is missing)",
            np.array([engine.lane]),
        )

    def progress(self) -> bool:
        """Nobody can run: asynchronous copies land, as late as that; whether there were any."""
        if not self.engines:
            return False
        engines, self.engines = self.engines, []
        for engine in engines:
            engine.land(self)
        return True

    def _stuck(self) -> NoReturn:
        waiting = np.nonzero((self.status != DONE) & (self.status != RUN))[0]
        lane = int(waiting[0])
        status = int(self.status[lane])
        self.at = int(self.pc[lane]) - (status != AT_MBARRIER)
        if status == AT_MBARRIER:
            states = "; ".join(str(barrier) for barrier in self.mbarriers.values())
            self.hazard("deadlock", f"waits for a phase that never completes: {states}", waiting[:1])
        cta = self.cta_ids == self.cta_ids[lane]
        where = {AT_BARRIER: "the CTA", AT_WARP: "the warp", AT_CLUSTER: "the cluster"}[status]
        here = int((self.status[cta] == status).sum())
        self.hazard(
            "barrier",
            f"{here} of the {self.threads} threads of the CTA wait at a barrier of {where} that the others do not reach",
            waiting[:1],
        )

    # ------------------------------------------------------------------------------------------- order

    def need_clocks(self) -> Any:
        """The clocks of each pair of threads, made at the first use."""
        if self.known is None:
            self.known = np.zeros((self.count, self.cluster_threads + 1), np.int32)
        return self.known

    def columns(self, lanes: Any) -> Any:
        """Columns of :attr:`known` that are given threads."""
        return self.lane_ids(lanes) % self.cluster_threads

    def synchronise_ctas(self, ctas: Any) -> None:
        """A barrier of whole CTAs has completed: all that was done before is seen by all after."""
        self.floor[ctas] = self.now
        self._share_clocks([self.ids[self.cta_ids == cta] for cta in np.unique(ctas)] if self.known is not None else [])
        self.now += 1

    def synchronise_clusters(self, clusters: Any) -> None:
        """As :meth:`synchronise_ctas`, for whole clusters."""
        inside = np.isin(np.arange(self.ctas) // self.cluster_size, clusters)
        self.floor[inside] = self.cluster_floor[inside] = self.now
        groups = [self.ids[self.ids // self.cluster_threads == c] for c in np.unique(clusters)]
        self._share_clocks(groups if self.known is not None else [])
        self.now += 1

    def synchronise_threads(self, members: Any) -> None:
        """A barrier of some threads of one CTA has completed."""
        known = self.need_clocks()
        self._share_clocks([members])
        known[np.ix_(members, self.columns(members))] = self.now
        self.now += 1

    def _share_clocks(self, groups: list[Any]) -> None:
        for members in groups:
            assert self.known is not None
            self.known[members] = self.known[members].max(axis=0)
