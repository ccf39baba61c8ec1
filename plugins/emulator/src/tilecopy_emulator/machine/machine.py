"""The interpreter that executes a batch of clusters.

While the clusters of a batch execute the same, there are ``U`` unit lanes (the threads of one cluster) times ``C``
copies. A register is an array of shape ``(U or 1, C or 1)``, not broadcast if all lanes or all copies have the same
value. The state of lanes, their accesses to shared memory, and their clocks are kept once for all copies. When copies
diverge (:class:`CopiesDiverged`), the machine expands: every thread of the batch becomes a unit lane of a single copy,
and the machine runs the instruction again.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NoReturn

import numpy as np
from tilecopy import HazardError

from ..effects import effect_of, read_somewhere, written_by
from ..memory.memories import Memories
from ..memory_model.clocks import BARRIER_COLUMNS
from ..threads.launch import Launch
from ..threads.registers import ALL_BITS
from ..threads.threads import (
    AT_BARRIER,
    AT_CLUSTER,
    AT_MBARRIER,
    AT_WARP,
    DONE,
    FULL,
    RUN,
    Blocked,
    CopiesDiverged,
    Lanes,
)
from .engines import Engines
from .livelock import LivelockDetector
from .mbarrier import Mbarriers
from .participation import Participation

_TOLERATED = frozenset(
    ["poison", "bounds", "alignment", "read-only", "window", "race", "async", "proxy", "descriptor", "arithmetic"]
)
"""Kinds of hazards after which a thread can continue."""
_OF_ENGINES = ("wgmma", "tcgen05", "mbarrier", "clusterlaunchcontrol", "tensormap", "bar", "barrier")
_OF_WARPS = ("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "shfl", "vote", "match", "redux")
"""Opcodes that are not executed again after a hazard, and those that are skipped for all lanes or for none."""
TRIALS = 10
"""The number of guessed values for an undefined register: all zeros, all ones, and random ones."""
PATIENCE_BITS = 6
"""The exponent of the number of backward branches (2**6) after which a group lets others run first."""


class Machine(Memories):
    """An interpreter that executes a batch of clusters.

    Args:
        launch: the state that all batches share.
        first: number of the first CTA.
        ctas: number of CTAs, in whole clusters.
    """

    def __init__(self, launch: Launch, first: int, ctas: int) -> None:
        super().__init__(launch, first, ctas)
        self.begun = launch.operations
        self.limit = 1 << 60
        self.mbarriers = Mbarriers(self, lambda: self.engines.complete_oldest())
        self.engines = Engines(self, self.mbarriers)
        self.tensor: Any = None
        self.warpgroups: Any = None
        self.participation = Participation(self)
        self.watch = LivelockDetector(self, self.mbarriers, self.engines)

    def run(self) -> Blocked | None:  # noqa: C901, PLR0912, PLR0915 (the loop over instructions, where a call costs every step)
        """Execute until every thread has exited. Return :class:`Blocked` if another batch must run first, else None."""
        steps, lengths, instructions = self.launch.steps, self.launch.lengths, self.program.instructions
        guards = [(i.guard, i.unless, target >= 0) for i, target in zip(instructions, self.launch.targets, strict=True)]
        count, executed = len(instructions), self.launch.executed
        stuck = self._schedule()
        while stuck is None:
            if self.lanes is None:
                self.finish()
                return None
            at = self.at
            self.next_at = at + lengths[at]
            try:
                if at >= count:
                    self.exit(self.lanes)
                else:
                    guard, unless, branches = guards[at]
                    active = self.lanes
                    if guard:
                        condition = self.read(guard, active)
                        if condition.size == 1:  # one value for all lanes
                            active = active if condition.item() != unless else self.ids[:0]
                        else:
                            condition = self.uniform(condition, active) != unless
                            if not condition.all():
                                active = self.index(active)[condition]
                    size = self.units if active is FULL else len(active)
                    if size:
                        if branches:
                            self.branch(active, self.launch.targets[at])
                        else:
                            try:
                                if self.tolerant:
                                    self._do_what_can_be_done(at, active)
                                else:
                                    steps[at](self, active)
                            except HazardError as error:
                                self._pass_on(active, error)
                        executed[at : at + lengths[at]] += size * self.copies
            except CopiesDiverged:
                self.expand()
                continue
            except HazardError as error:
                self._tolerate(at, error)
                continue
            self.tolerant = False
            if self.stale or self.next_at >= self.limit:
                if not self.settled:
                    self.pc[self.index(self.lanes)] = self.next_at
                stuck = self.watch.verdict() or self._schedule()
            else:
                self.at = self.next_at
        return stuck

    def _tolerate(self, at: int, error: HazardError) -> None:
        """Record a hazard and execute its instruction again without checks, thread by thread; if that is not possible, end the run."""
        self.launch.record(error)
        if not self.launch.all_hazards or self.tolerant or self.settled or error.kind not in _TOLERATED:
            raise error
        opcode = self.program.instructions[at].opcode
        if opcode[0] in _OF_ENGINES or "bulk" in opcode or ("async" in opcode[1:2] and opcode[0] != "cp"):
            raise error  # some lanes may have started their operation
        self.at, self.many, self.unwritten = at, None, []
        if self.copies > 1:
            self.expand()
        self.tolerant = True

    def _do_what_can_be_done(self, at: int, lanes: Lanes) -> None:
        """Execute an instruction that broke a rule; skip lanes that still break it, with zeros as results."""
        try:
            self.launch.steps[at](self, lanes)
        except HazardError:
            self.at, self.many, self.unwritten = at, None, []
            index, last = np.array(self.index(lanes)), at + self.launch.lengths[at]
            if len(index) > 1 and self.program.instructions[at].opcode[0] not in _OF_WARPS:
                for half in np.array_split(index, 2):
                    self._do_what_can_be_done(at, half)
                return
            for name in {name for step in self.program.instructions[at:last] for name in written_by(step)}:
                self.write(name, index, 0)

    def _pass_on(self, lanes: Lanes, nothing: HazardError) -> None:
        """Mark results of a register instruction as undefined in the lanes where a source is undefined.

        Compilers move and compute unused values, so only a use is a hazard. If each bit of a result depends on few
        bits of the sources, the instruction is executed with several guesses: bits of the result that change are undefined.
        """
        instruction = self.program.instructions[self.at]
        effect = effect_of(instruction.opcode)
        if nothing.kind != "poison" or not effect.passes_on:
            raise nothing
        exact, names = effect.passes_on == "bits", written_by(instruction)
        index = np.array(self.index(lanes))
        trials: list[Any] = []
        self.missing, self.whence = np.zeros(len(index), np.uint64), np.zeros(len(index), np.int64)
        for name in names:
            self._let_go(name)
        before = [(self.registers.get(name), self.defined.get(name)) for name in names]
        try:
            for self.trial in range(TRIALS) if exact else (2,):
                for name, (values, defined) in zip(names, before, strict=True):
                    self._restore(name, values, defined)
                self.launch.steps[self.at](self, index)
                trials.append([np.broadcast_to(self.registers[x], (self.units, self.copies))[index] for x in names])
        except HazardError:  # for example, an undefined divisor
            raise nothing from None
        finally:
            self.trial = -1
            for name, (values, defined) in zip(names, before, strict=True):
                self._restore(name, values, defined)
        if self.is_fresh(self.whence) and read_somewhere(self.program).isdisjoint(names):
            raise nothing  # no instruction reads the result, so this is probably a mistake
        for number, name in enumerate(names):
            first = trials[0][number]
            self.write(name, index, first)
            bits = np.where(self.missing != 0, ALL_BITS, np.uint64(0))
            if exact:
                changed = [np.bitwise_or.reduce(trial[number] ^ first, axis=1) for trial in trials]
                bits = np.bitwise_or.reduce(changed).astype(np.uint64)
            self.undefine(name, index[bits != 0], self.whence[bits != 0], bits[bits != 0])

    def branch(self, lanes: Lanes, target: int) -> None:
        """Let lanes continue at a branch target."""
        back = target <= self.at
        if self.size(lanes) == self.size(self.lanes):
            self.next_at = target
            if self.others:
                self.limit = self._limit(target)
                self.stale = self.stale or target >= self.others[0]
        else:
            self.settle()
            self.pc[lanes] = target
        if back:
            self.watch.count_loop(lanes)

    def _limit(self, at: int) -> int:
        position = bisect_right(self.others, at)
        return self.others[position] if position < len(self.others) else 1 << 60

    def _schedule(self) -> Blocked | None:
        """Choose the group that runs next: of the lanes with the fewest turns, those furthest back."""
        if self.recent:
            self.spill_all()
        self.stale = self.settled = False
        self.lanes, self.others, self.limit = None, [], 1 << 60
        running = self.status == RUN
        while not running.any():
            if (self.status == DONE).all():
                return None
            if not self.engines.complete_oldest() and not self.mbarriers.time_out():
                return Blocked(self.raise_hang)
            running = self.status == RUN
        self.stale = False
        if running.all():
            ready, places = self.ids, self.pc
            if (places == places[0]).all():
                self.lanes, self.at = FULL, int(places[0])
                return None
        else:
            ready = np.nonzero(running)[0]
            places = self.pc[ready]
        level = self.turn[ready] >> PATIENCE_BITS
        first = places if (level == level[0]).all() else places[level == level.min()]
        self.at = int(first.min())
        here = places == self.at
        self.lanes = ready[here]
        self.others = sorted(set(places[~here].tolist()))
        self.limit = self._limit(self.at)
        return None

    def exit(self, lanes: Lanes) -> None:
        """Let lanes exit."""
        ending = self.index(lanes)
        if self.warpgroups is not None:
            self.warpgroups.leaving(ending)
        self.settle()
        self.status[ending] = DONE
        self.launch.version += 1
        for cta in self.engines.leaving(ending):
            if self.tensor is not None:
                self.tensor.end_cta(cta)
        self.barriers.exit_lanes(ending)
        for waiting, masks in self.converge_without_exited():
            self.barriers.warp_joined(waiting, masks)

    def finish(self) -> None:
        """Check that no operation is in flight when every thread has ended."""
        self.engines.finish()
        if self.tensor is not None:
            self.tensor.finish()
        self.participation.finish()

    def raise_hang(self) -> NoReturn:
        """Raise the hazard of threads that wait forever."""
        waiting = np.nonzero((self.status != DONE) & (self.status != RUN))[0]
        status = self.status[waiting]
        for kind, say in (
            (AT_MBARRIER, self.mbarriers.raise_hang),
            (AT_WARP, self._raise_warp_hang),
            (AT_BARRIER, self.barriers.raise_hang),
            (AT_CLUSTER, self.barriers.raise_cluster_hang),
        ):
            chosen = waiting[status == kind]
            if len(chosen):
                say(chosen)
        raise AssertionError("nobody waits")

    def expand(self) -> None:
        """Execute each cluster of the batch separately from now on. Until now, one cluster represented all of them."""
        copies, unit = self.copies, self.units
        if copies == 1:
            raise AssertionError("a single cluster cannot diverge")
        self.spill_all()
        self.unwritten = []
        if self.lanes is not None and self.lanes is not FULL:
            self.lanes = (np.arange(copies)[:, None] * unit + self.lanes).ravel()
        for name, values in self.registers.items():
            lanes, columns = values.shape
            if lanes > 1:
                new = values.T.reshape(-1, 1) if columns > 1 else np.tile(values, (copies, 1))
            else:
                new = np.repeat(values.T, unit, axis=0) if columns > 1 else values
            self.registers[name], self.owned[name] = new, False
            if self.defined[name] is not None:
                self.defined[name] = np.tile(self.defined[name], copies)
        self.holes = {name: np.tile(holes, copies) for name, holes in self.holes.items()}
        self.origins = {name: np.tile(origins, copies) for name, origins in self.origins.items()}
        self.pc, self.status = np.tile(self.pc, copies), np.tile(self.status, copies)
        self.turn = np.tile(self.turn, copies)
        self.converging = {
            key: {lane + copy * unit: mask for copy in range(copies) for lane, mask in waiting.items()}
            for key, waiting in self.converging.items()
        }
        self.gathering = {at: np.tile(waiting, copies) for at, waiting in self.gathering.items()}
        ctas = self.unit_ctas
        self.copies, self.unit_ctas = 1, ctas * copies
        self._lay_out()
        self.order = self.order.replicate(copies, self.first)
        shift = self.launch.operations - self.begun  # the copies' numbers begin after the last of this machine
        self.launch.operations += shift * copies
        clones = self.engines.expand(copies, unit, shift)
        self.shared.expand(copies, (unit, ctas * BARRIER_COLUMNS, shift))
        self.flags.expand(copies, unit, ctas * self.shared.size)
        self.local.expand(copies)
        self.barriers.expand(copies, ctas, unit)
        self.mbarriers.expand(copies, ctas, unit)
        self.participation.expand(copies)
        if self.tensor is not None:
            self.tensor.expand(copies, shift, clones)
        if self.warpgroups is not None:
            self.warpgroups.expand(copies, unit, ctas, clones)
