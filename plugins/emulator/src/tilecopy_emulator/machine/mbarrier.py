"""Mbarrier objects: their lifetime, phases, counts and vector clocks (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import attrs
import numpy as np

from ..memory.memories import Memories
from ..memory.race_check import judge_shared
from ..memory_model.clocks import BARRIER_COLUMNS, ISSUED, NOTHING, Clock, join
from ..memory_model.shadow import BARRIER_ACTOR, barrier_of
from ..threads.launch import Location
from ..threads.threads import AT_MBARRIER, Lanes

TX_LIMIT = 2**20 - 1
COUNT_LIMIT = 2**20 - 1
TOKEN = 0x5A << 56
"""The mark of the state that an arrival returns; programs must treat the state as opaque."""


@attrs.define(eq=False)
class Mbarrier:
    """The state of one mbarrier.

    Attributes:
        place: its first byte in the unit.
        name: its name in messages.
        column: of its clock in the rows of its CTA.
        expected, pending, phase, tx: see the PTX ISA.
        initialiser: the lane that initialised it.
        fenced: True if its init was fenced for other CTAs; fenced_phase: the phase of the cluster's barrier then.
        near, far: clocks that arrivals of this phase released, from its CTA, and of cluster scope from other CTAs.
        done_near, done_far: those of the previous phase.
        done_at: the time when that phase completed; times: of each phase.
        used: the time of each lane's last use.
        waiters: lane -> the phase it waits for.
        completers: the lane whose arrival completed the previous phase, if there is only one.
        narrow: a message about an arrival whose scope does not include the mbarrier's CTA.
    """

    place: int
    name: str
    column: int
    expected: int
    pending: int
    initialiser: int
    used: Any
    phase: int = 0
    tx: int = 0
    fenced: bool = False
    fenced_phase: int = 0
    near: Clock = NOTHING
    far: Clock = NOTHING
    done_near: Clock = NOTHING
    done_far: Clock = NOTHING
    done_at: int = 0
    times: list[int] = attrs.Factory(list)
    waiters: dict[int, int] = attrs.Factory(dict)
    narrow: str = ""
    completers: Any = ()

    def __str__(self) -> str:
        tx = f" and {self.tx} bytes" if self.tx > 0 else ""
        more = f", {-self.tx} bytes more than expected" if self.tx < 0 else ""
        return f"{self.name}: phase {self.phase}, {self.pending} of {self.expected} arrivals{tx} missing{more}"


class Mbarriers:
    """The mbarriers in the shared memory of a batch of clusters."""

    def __init__(self, machine: Memories, complete_oldest: Callable[[], bool]) -> None:
        self.machine, self.complete_oldest = machine, complete_oldest
        machine.barrier_name = self.name_of_actor
        self.objects: dict[int, Mbarrier] = {}
        self.dead: set[int] = set()
        self.columns: dict[int, int] = {}
        self.next_column: dict[int, int] = {}
        self.products: set[tuple[int, int]] = set()
        self.polled: dict[int, tuple[int, int, int]] = {}
        self.timed_out = -1

    def expand(self, copies: int, ctas: int, unit: int) -> None:
        """Replicate the mbarriers for every cluster of the batch."""
        size, order, first = self.machine.shared.size, self.machine.order, self.machine.first
        objects, columns, polled = self.objects, self.columns, self.polled
        self.objects, self.columns, self.polled = {}, {}, {}
        self.dead = {place + c * ctas * size for place in self.dead for c in range(copies)}
        self.next_column = {cta + c * ctas: n for cta, n in self.next_column.items() for c in range(copies)}
        self.products = {(cta + c * ctas, column) for cta, column in self.products for c in range(copies)}
        for copy in range(copies):
            shift, lanes, ctas_before = copy * ctas * size, copy * unit, first + copy * ctas
            self.columns |= {place + shift: column for place, column in columns.items()}
            self.polled |= {lane + lanes: (p + shift, phase, at) for lane, (p, phase, at) in polled.items()}
            for place, old in objects.items():
                self.objects[place + shift] = attrs.evolve(
                    old, place=place + shift, initialiser=old.initialiser + lanes,
                    near=order.renumber(old.near, ctas_before), far=order.renumber(old.far, ctas_before),
                    done_near=order.renumber(old.done_near, ctas_before),
                    done_far=order.renumber(old.done_far, ctas_before), used=_spread(old.used, copies, copy),
                    waiters={lane + lanes: phase for lane, phase in old.waiters.items()}, times=list(old.times),
                )  # fmt: skip

    def actor(self, barrier: Mbarrier) -> int:
        """Return the number by which shadow memory identifies the completed operations of an mbarrier."""
        return BARRIER_ACTOR | (barrier.place // self.machine.shared.size * BARRIER_COLUMNS + barrier.column)

    def name_of_actor(self, actor: int) -> str:
        """Return a description of the asynchronous operation that has the number ``actor`` in shadow memory."""
        home, column = barrier_of(actor)
        if (home, column) in self.products:
            return "a wgmma.mma_async that wgmma.wait_group completed"
        for place, number in self.columns.items():
            if number == column and place // self.machine.shared.size == home:
                return f"an asynchronous copy counted by the mbarrier {self.machine.shared.where(place)}"
        return "an asynchronous copy counted by an mbarrier"

    def new_column(self, cta: int) -> int:
        """Allocate an index in a CTA's vector clocks, for example for an mbarrier."""
        number = self.next_column.get(cta, 0)
        self.next_column[cta] = number + 1
        return min(number, BARRIER_COLUMNS - 1)

    def init(self, lanes: Lanes, addresses: Any, counts: Any) -> None:
        """Execute ``mbarrier.init``."""
        machine, shared = self.machine, self.machine.shared
        places = shared.place(lanes, addresses, 8)
        counts = machine.uniform(counts, lanes).astype(np.int64)
        for position, place in enumerate(places.tolist()):
            if place in self.objects:
                machine.hazard(
                    "mbarrier", f"{shared.where(place)} is initialised again without mbarrier.inval",
                    lanes, position,
                )  # fmt: skip
            if not 1 <= counts[position] <= COUNT_LIMIT:
                machine.hazard(
                    "mbarrier", f"{shared.where(place)}: the count must be from 1 to {COUNT_LIMIT}, got {int(counts[position])}",
                    lanes, position,
                )  # fmt: skip
        shared.check_write(lanes, places, 8)
        shared.has_objects = True
        for lane, place, count in zip(machine.index(lanes).tolist(), places.tolist(), counts.tolist(), strict=True):
            if place not in self.columns:
                self.columns[place] = self.new_column(place // shared.size)
            self.objects[place] = Mbarrier(
                place, shared.where(place), self.columns[place], count, count, lane, np.zeros(machine.units, np.int64)
            )
            shared.objects[place // 8] = True
            self.dead.discard(place)
        shared.put(places, np.zeros((len(places), 1, 8), np.uint8))
        machine.launch.time.now += 1
        machine.launch.version += 1

    def inval(self, lanes: Lanes, addresses: Any) -> None:
        """Execute ``mbarrier.inval``."""
        machine, shared = self.machine, self.machine.shared
        places = shared.place(lanes, addresses, 8)
        for position, (lane, place) in enumerate(zip(machine.index(lanes).tolist(), places.tolist(), strict=True)):
            barrier = self.use(lanes, np.array([position]), place)
            users = np.nonzero(barrier.used)[0]
            users = users[users != lane]
            if len(users):
                keys = users // machine.threads + machine.order.first
                times = barrier.used[users]
                order, who, columns = machine.order, np.full(len(users), lane), users % machine.threads
                known = order.covers(who, keys, columns, times)
                known |= order.covers(who, keys, columns + order.section_at[ISSUED], times)
                if not known.all():
                    user = machine.name_of(int(users[np.argmin(known)]))
                    machine.hazard(
                        "race", f"{barrier.name} is invalidated with no barrier since {user} used it", lanes, position,
                        threads=(user,),
                    )  # fmt: skip
            if barrier.waiters:
                machine.hazard("mbarrier", f"{barrier.name} is invalidated while threads wait on it", lanes, position)
            del self.objects[place]
            shared.objects[place // 8] = False
            self.dead.add(place)
        shared.check_write(lanes, places, 8)
        machine.launch.version += 1

    def use(self, lanes: Lanes, positions: Any, place: int) -> Mbarrier:
        """Return the mbarrier at a shared-memory offset. Check that ``mbarrier.init`` happens before this use."""
        machine, shared = self.machine, self.machine.shared
        barrier = self.objects.get(place)
        if barrier is None:
            what = f"{shared.where(place)} {'was invalidated' if place in self.dead else 'must be initialised with mbarrier.init before this use'}"
            machine.hazard("mbarrier", what, lanes, int(positions[0]))
        members = machine.index(lanes)[positions]
        new = barrier.used[members] == 0
        if new.any():
            fresh, where = members[new], positions[new]
            far = fresh // machine.threads != place // shared.size
            if far.any() and not barrier.fenced:
                what = f"{barrier.name} is in another CTA: fence.mbarrier_init.release.cluster must follow mbarrier.init before this use"
                machine.hazard("mbarrier", what, lanes, int(where[np.argmax(far)]))
            cell = place // shared.cell
            stamps = np.broadcast_to(shared.shadow.writer[cell : cell + 1], fresh.shape)
            known, _ = judge_shared(machine, fresh, 0, stamps, (0, np.full(len(fresh), cell), False))
            known |= fresh == barrier.initialiser
            if barrier.fenced:
                known |= machine.barriers.passed[fresh] > barrier.fenced_phase
            who = machine.name_of(barrier.initialiser)
            what = f"{barrier.name}: mbarrier.init by {who} must happen before this use: add bar.sync or a cluster barrier between them"
            machine.hazard_where(~known, "race", what, lanes, where, threads=(who,))
        barrier.used[members] = machine.launch.time.now
        return barrier

    def fence_init(self, lanes: Lanes) -> None:
        """Execute ``fence.mbarrier_init.release.cluster``."""
        members = set(self.machine.index(lanes).tolist())
        for barrier in self.objects.values():
            if not barrier.fenced and barrier.initialiser in members:
                barrier.fenced = True
                barrier.fenced_phase = self.machine.barriers.cluster_phase(barrier.initialiser // self.machine.threads)

    def places(self, lanes: Lanes, addresses: Any, *, remote: bool) -> Any:
        """Check the mbarrier address of each lane. Return the offsets in the batch's shared memory."""
        return self.machine.shared.place(lanes, addresses, 8, remote=remote)

    def arrive(
        self, lanes: Lanes, places: Any, counts: Any, *, tx: Any = None, drop: bool = False,
        no_complete: bool = False, relaxed: bool = False, cluster: bool = False,
    ) -> Any:  # fmt: skip
        """Execute expect_tx if ``tx`` is given, then one arrival per lane. Return the state before each arrival."""
        machine = self.machine
        index = machine.index(lanes)
        tokens = np.zeros(len(index), np.uint64)
        for place in np.unique(places).tolist():
            at = np.nonzero(places == place)[0]
            barrier = self.use(lanes, at, place)
            amounts = counts[at]
            if (amounts < 1).any():
                what = f"{barrier.name}: the count of an arrival must be positive, got {int(amounts.min())}"
                machine.hazard("mbarrier", what, lanes, int(at[0]))
            one_by_one = drop or tx is not None or int(amounts.sum()) > barrier.pending
            for part in [at[i : i + 1] for i in range(len(at))] if one_by_one else [at]:
                position = int(part[0])
                total = int(counts[part].sum())
                before = barrier.pending
                if tx is not None:
                    self.add_tx(barrier, int(tx[position]), lanes, position)
                members = index[part]
                self._check_arrival(barrier, lanes, position, members, total)
                running = before - np.concatenate([[0], np.cumsum(counts[part])[:-1]])
                tokens[part] = TOKEN | barrier.phase << 40 | np.asarray(running).astype(np.uint64) & np.uint64(0xFFFFF)
                self._note(barrier, members, relaxed=relaxed, cluster=cluster)
                if drop:
                    barrier.expected -= total
                barrier.pending -= total
                completed = self.test(barrier)
                if completed:  # if several lanes arrive at once, any may be the last
                    barrier.completers = members if len(members) == 1 else ()
                if completed and no_complete:
                    what = f"{barrier.name}: an arrival with .noComplete must not complete the phase"
                    machine.hazard("mbarrier", what, lanes, position)
        machine.launch.version += 1
        return tokens

    def _check_arrival(self, barrier: Mbarrier, lanes: Lanes, position: int, members: Any, total: int) -> None:
        machine = self.machine
        if total > barrier.pending:
            machine.hazard(
                "mbarrier",
                f"{barrier.name}: {total} arrivals, but phase {barrier.phase} has only {barrier.pending} of "
                f"{barrier.expected} arrivals pending", lanes, position,
            )  # fmt: skip
        if not barrier.phase:
            return
        home = barrier.place // machine.shared.size
        keys = np.full(len(members), home + machine.order.first)
        columns = np.full(len(members), machine.order.barriers_at + barrier.column)
        known = machine.order.covers(members, keys, columns, np.full(len(members), barrier.done_at))
        machine.hazard_where(
            ~known, "mbarrier", f"{barrier.name}: this thread arrives in phase {barrier.phase}, but has not waited for phase "
            f"{barrier.phase - 1} (a wait is missing, or the phase has more arrivals than expected)",
            lanes, position + np.arange(len(members)),
        )  # fmt: skip

    def _note(self, barrier: Mbarrier, members: Any, *, relaxed: bool, cluster: bool) -> None:
        machine = self.machine
        # a relaxed arrival depends on the waits before it all the same, and no execution speculates (PTX ISA 8.10, no thin air)
        if relaxed:
            clock = join([machine.order.causes(lane) for lane in members.tolist()])
        else:
            clock = machine.order.release(members)
        if int(members[0]) // machine.threads == barrier.place // machine.shared.size:
            barrier.near = join([barrier.near, clock])
        elif cluster:
            barrier.far = join([barrier.far, clock])
        else:
            barrier.narrow = f"the arrival of {machine.name_of(int(members[0]))} has scope .cta, but {barrier.name} is in another CTA"

    def arrive_for(self, barrier: Mbarrier, lane: int, clock: Clock) -> None:
        """Execute an asynchronous operation's arrival at cluster scope. ``clock``: the issuing lane's vector clock."""
        machine = self.machine
        self._check_arrival(barrier, np.array([lane]), 0, np.array([lane]), 1)
        barrier.near = join([barrier.near, clock])
        barrier.pending -= 1
        self.test(barrier)
        machine.launch.version += 1

    def add_tx(self, barrier: Mbarrier, count: int, lanes: Lanes, position: int) -> None:
        """Add ``count`` to the tx-count of an mbarrier, and check the range of the sum."""
        barrier.tx += count
        if abs(barrier.tx) > TX_LIMIT:
            what = f"{barrier.name}: the tx-count must be at most {TX_LIMIT} bytes, got {barrier.tx}"
            self.machine.hazard("mbarrier", what, lanes, position)

    def expect_tx(self, lanes: Lanes, places: Any, amounts: Any, sign: int = 1) -> None:
        """Execute ``mbarrier.expect_tx``, or ``mbarrier.complete_tx`` if ``sign`` is -1."""
        for position, place in enumerate(places.tolist()):
            barrier = self.use(lanes, np.array([position]), place)
            if sign > 0 and barrier.tx > 0 == barrier.pending:
                counted = [copy.size for copy in self.machine.in_flight.values() if copy.barrier == place]
                if sum(counted) == barrier.tx:
                    what = f"{barrier.name}: copies in flight may complete phase {barrier.phase} before this expect_tx: execute expect_tx before the copies"
                    self.machine.hazard("mbarrier", what, lanes, position)
            self.add_tx(barrier, sign * int(amounts[position]), lanes, position)
            if sign < 0:
                self.test(barrier)
        self.machine.launch.version += 1

    def complete_tx(self, barrier: Mbarrier, count: int, lane: int) -> None:
        """Subtract the bytes of a completed operation from the mbarrier's tx-count."""
        one = np.array([lane])
        self.add_tx(barrier, -count, one, 0)
        if self.test(barrier):
            in_flight = self.machine.in_flight.values()
            late = next((copy for copy in in_flight if copy.barrier == barrier.place and copy.size), None)
            if late is not None:
                what = f"this copy's bytes complete phase {barrier.phase - 1}, but the phase may include bytes of {late.describe()}"
                self.machine.hazard(
                    "mbarrier", f"{barrier.name}: {what}: expect_tx must count the bytes of both copies", one
                )
        self.machine.launch.version += 1

    def test(self, barrier: Mbarrier) -> bool:
        """Complete the phase if no arrivals and no bytes are pending. Return True if the phase was completed."""
        if barrier.pending or barrier.tx:
            return False
        machine = self.machine
        home = barrier.place // machine.shared.size
        row = machine.order.completion(barrier.column, machine.launch.time.now)
        completion = Clock({home + machine.order.first: row})
        barrier.done_at = machine.launch.time.now
        barrier.times.append(barrier.done_at)
        machine.launch.time.now += 1
        barrier.done_near, barrier.done_far = join([barrier.near, completion]), barrier.far
        barrier.near, barrier.far = NOTHING, NOTHING
        barrier.phase += 1
        barrier.pending = barrier.expected
        waiting = [lane for lane, phase in barrier.waiters.items() if phase < barrier.phase]
        if waiting:
            for lane in waiting:
                del barrier.waiters[lane]
            machine.wake(np.array(sorted(waiting)))
        return True

    def wait(  # noqa: C901, PLR0912, PLR0915 (every form of a wait)
        self, lanes: Lanes, places: Any, wanted: Any, *, parity: bool, blocks: bool, relaxed: bool, cluster: bool
    ) -> Any:
        """Execute a wait. Return the masks of the lanes whose phase is complete and of the running lanes (None: all run).

        A wait may fail although the phase is complete. It does so once for a lane that does not know it yet, to show
        waits without a loop. ``try_wait`` suspends lanes that wait again.
        """
        machine = self.machine
        index = machine.index(lanes)
        result = np.zeros(len(index), bool)
        parked: list[int] = []
        for place in np.unique(places).tolist():
            at = np.nonzero(places == place)[0]
            barrier = self.use(lanes, at, place)
            if parity:
                parities = wanted[at]
                say = lambda i, got=parities: f"the parity of a phase must be 0 or 1, got {int(got[i])}"  # noqa: E731
                machine.hazard_where(parities > 1, "mbarrier", say, lanes, at)
                over = (barrier.phase & 1) != wanted[at]
                phases = np.where(over, barrier.phase - 1, barrier.phase)
            else:
                phases = self._token_phases(barrier, lanes, at, wanted[at])
                over = phases < barrier.phase
            members = index[at]
            home = place // machine.shared.size + machine.order.first
            column = machine.order.barriers_at + barrier.column
            have = machine.order.known_times(members, np.full(len(at), home), np.full(len(at), column))
            knows = (have >= max(1, barrier.done_at)) | np.isin(members, barrier.completers)
            early = np.zeros(len(at), bool)
            if parity:
                # the lane may see the barrier in an earlier phase, where its wait succeeds at once
                earliest = np.searchsorted(barrier.times, have, side="right")
                early = (earliest < barrier.phase) & ((earliest & 1) != wanted[at])
                over = over | early
            for i, lane in enumerate(members.tolist()):
                mark = (place, int(phases[i]), machine.at)
                fresh = self.polled.get(lane) != mark
                if early[i]:
                    self.polled.pop(lane, None)
                elif over[i]:
                    if fresh and not knows[i] and barrier.done_at:
                        over[i] = False
                        self.polled[lane] = mark
                    else:
                        self.polled.pop(lane, None)
                elif fresh or not blocks:
                    self.polled[lane] = mark
                    if not fresh:
                        machine.yields(members[i : i + 1])
                        if not machine.others:
                            self.complete_oldest()
                else:
                    parked.append(lane)
                    barrier.waiters[lane] = int(phases[i])
            passed = members[over & ~early]
            result[at] = over
            if len(passed) and barrier.done_at:
                if not cluster and barrier.done_far.rows:
                    for lane in passed.tolist():
                        machine.flags.narrow[lane] = (
                            f"the wait on {barrier.name} has scope .cta, so it does not include other CTAs"
                        )
                if barrier.narrow:
                    for lane in passed.tolist():
                        machine.flags.narrow[lane] = barrier.narrow
                clock = join([barrier.done_near, barrier.done_far]) if cluster else barrier.done_near
                if relaxed:
                    self._hear(passed, clock)
                else:
                    machine.order.acquire(passed, clock)
        if parked:
            machine.park(np.array(sorted(parked)), AT_MBARRIER, again=True)
        return result, ~np.isin(index, parked) if parked else None

    def _hear(self, lanes: Any, clock: Clock) -> None:
        location = Location(clock, 4, int(lanes[0]), True)
        for lane in lanes.tolist():
            self.machine.flags.heard.setdefault(lane, []).append(location)

    def _token_phases(self, barrier: Mbarrier, lanes: Lanes, at: Any, tokens: Any) -> Any:
        tokens = tokens.astype(np.uint64)
        real = (tokens >> np.uint64(56)) == np.uint64(0x5A)
        name = barrier.name
        say = lambda i: f"{name}: the wait must use a state that mbarrier.arrive returned, got 0x{int(tokens[i]):x}"  # noqa: E731
        self.machine.hazard_where(~real, "mbarrier", say, lanes, at)
        phases = ((tokens >> np.uint64(40)) & np.uint64(0xFFFF)).astype(np.int64)
        say = lambda i: f"{name}: the wait's phase must be {barrier.phase} or the one before, got {int(phases[i])}"  # noqa: E731
        self.machine.hazard_where(phases < barrier.phase - 1, "mbarrier", say, lanes, at)
        return phases

    def time_out(self) -> bool:
        """Let suspended waits time out. Return False if none is suspended, or nothing changed since the last call."""
        machine = self.machine
        if self.timed_out == machine.launch.version:
            return False
        lanes = [lane for barrier in self.objects.values() for lane in barrier.waiters]
        if not lanes:
            return False
        for barrier in self.objects.values():
            barrier.waiters.clear()
        self.polled = {lane: mark for lane, mark in self.polled.items() if lane not in set(lanes)}
        machine.wake(np.array(sorted(lanes)))
        self.timed_out = machine.launch.version
        return True

    def states(self) -> str:
        """Return a text with the states of up to four mbarriers, or "" if there are no mbarriers."""
        shown = [str(barrier) for barrier in self.objects.values()]
        return f" ({'; '.join(shown[:4])})" if shown else ""

    def raise_hang(self, waiting: Any) -> NoReturn:
        """Raise the hazard of a phase that never completes."""
        machine = self.machine
        lane = int(waiting[0])
        for barrier in self.objects.values():
            if lane in barrier.waiters:
                others = [machine.name_of(other) for other in sorted(barrier.waiters) if other != lane][:3]
                more = f"; {', '.join(others)} too" if others else ""
                for rest in self.objects.values():
                    if rest is not barrier and rest.waiters:
                        more += f"; {machine.name_of(min(rest.waiters))} waits for {rest}"
                machine.hazard(
                    "deadlock", f"waits for a phase that never completes: {barrier}{more}", waiting[:1],
                    at=int(machine.pc[lane]), threads=tuple(others), cause=str(barrier),
                )  # fmt: skip
        raise AssertionError("not waiting")


def _spread(used: Any, copies: int, copy: int) -> Any:
    """Return an array over the lanes of all copies with the values of one copy."""
    new = np.zeros(len(used) * copies, used.dtype)
    new[copy * len(used) : (copy + 1) * len(used)] = used
    return new
