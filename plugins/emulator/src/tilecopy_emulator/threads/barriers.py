"""The barriers of CTAs, warps and clusters, and named barriers (PTX ISA 9.7.13.1 to .4)."""

from __future__ import annotations

from typing import Any, NoReturn

import attrs
import numpy as np

from ..hazards import ReportedAccess
from ..memory_model.clocks import NOTHING, Clock, join
from .threads import AT_BARRIER, AT_CLUSTER, DONE, Lanes, Threads


@attrs.define(eq=False)
class _Named:
    """The state of one barrier of one CTA.

    ``expected``: threads, or None for all of the CTA; ``arrived``: lane -> (place of the instruction, whether it waits,
    whether whole warps must arrive); ``clock``: released by lanes that only arrive; ``last_time``: of its last
    completion; ``last_waited``: lanes that waited then; ``votes``: a value of each lane (``bar.red``); ``done``: called
    with the lanes that were waiting and their votes.
    """

    expected: int | None = None
    arrived: dict[int, tuple[int, bool, bool]] = attrs.Factory(dict)
    clock: Clock = NOTHING
    last_time: int = 0
    last_waited: Any = None
    votes: dict[int, Any] = attrs.Factory(dict)
    done: Any = None


@attrs.define(eq=False)
class _Cluster:
    """The state of the barrier of one cluster."""

    phase: int = 0
    clock: Clock = NOTHING
    done: Clock = NOTHING


class Barriers:
    """The barriers of a batch's CTAs and clusters."""

    def __init__(self, machine: Threads) -> None:
        self.machine = machine
        self.named: dict[tuple[int, int], _Named] = {}
        self.clusters: dict[int, _Cluster] = {}
        self.arrived = np.full(machine.units, -1, np.int64)
        self.passed = np.zeros(machine.units, np.int64)
        self.resized: dict[int, list[int]] = {}
        self.mixed: dict[int, dict[int, int]] = {}
        """CTA whose threads met at a barrier by different instructions -> lane -> its last instruction."""

    def expand(self, copies: int, ctas: int, unit: int) -> None:
        """Replicate the barriers for every cluster of the batch."""
        order, first = self.machine.order, self.machine.first
        named, clusters = self.named, self.clusters
        self.mixed = {
            cta + copy * ctas: {lane + copy * unit: place for lane, place in places.items()}
            for copy in range(copies)
            for cta, places in self.mixed.items()
        }
        self.named, self.clusters = {}, {}
        warps = ctas * self.machine.warps_per_cta
        self.resized = {w + copy * warps: list(x) for w, x in self.resized.items() for copy in range(copies)}
        self.arrived, self.passed = np.tile(self.arrived, copies), np.tile(self.passed, copies)
        for copy in range(copies):
            shift = first + copy * ctas
            for (cta, number), old in named.items():
                self.named[cta + copy * ctas, number] = attrs.evolve(
                    old,
                    arrived={lane + copy * unit: x for lane, x in old.arrived.items()},
                    clock=order.renumber(old.clock, shift),
                    last_waited=None if old.last_waited is None else old.last_waited + copy * unit,
                    votes={lane + copy * unit: x[copy : copy + 1] for lane, x in old.votes.items()},
                )
            for cluster, state in clusters.items():
                self.clusters[cluster + copy] = _Cluster(
                    state.phase, order.renumber(state.clock, shift), order.renumber(state.done, shift)
                )

    def reach(
        self, lanes: Lanes, numbers: Any, counts: Any, *, waits: bool, aligned: bool, votes: Any = None,
        done: Any = None,
    ) -> None:  # fmt: skip
        """Let lanes arrive at barriers. The lanes wait there if ``waits`` is true.

        ``lanes``: that arrive; ``numbers``: of the barriers, one per lane; ``counts``: of expected threads, one per lane, or
        None for all of the CTA; ``waits``: whether they wait (``bar.sync``) or continue (``bar.arrive``); ``aligned``:
        whether whole warps must arrive; ``votes``: a value of each lane (``bar.red``), rows (n, C); ``done``: called with
        the lanes that were waiting and their votes.
        """
        machine = self.machine
        index = machine.index(lanes)
        if waits and votes is None and (numbers == numbers[0]).all():
            rest = self._whole(lanes, index, int(numbers[0]), counts)
            if rest is not None:
                if not len(rest):
                    return
                numbers, counts = numbers[rest], None if counts is None else counts[rest]
                lanes = index = index[rest]
        self._check(lanes, numbers, counts)
        if waits:
            machine.park(index, AT_BARRIER)
        warps = machine.warp_of[index]
        for warp in np.unique(warps):
            at = np.nonzero(warps == warp)[0]
            for number in np.unique(numbers[at]):
                chosen = at[numbers[at] == number]
                self._reach(index[chosen], int(number), None if counts is None else int(counts[chosen[0]]), waits, aligned,
                            None if votes is None else votes[chosen], done)  # fmt: skip

    def _whole(self, lanes: Lanes, index: Any, number: int, counts: Any) -> Any:
        """Let CTAs pass whose threads all arrive now; return the positions of the other lanes, None for all."""
        machine = self.machine
        if counts is not None and not (counts == machine.threads).all():
            return None
        come = np.bincount(machine.cta_of[index], minlength=machine.unit_ctas)
        whole = come == machine.threads
        if self.named:
            for cta in np.nonzero(whole)[0].tolist():
                state = self.named.get((cta, number))
                whole[cta] = state is None or not state.arrived
        if not whole.any():
            return None
        self._check(lanes, np.full(1, number), None if counts is None else counts[:1])
        ctas = np.nonzero(whole)[0]
        machine.order.barriers(ctas)
        if self.named:
            for cta in ctas.tolist():
                self.named.pop((cta, number), None)
        return np.nonzero(~whole[machine.cta_of[index]])[0]

    def _check(self, lanes: Lanes, numbers: Any, counts: Any) -> None:
        machine = self.machine
        bad, what = (numbers < 0) | (numbers > 15), "the barrier number must be from 0 to 15"
        machine.hazard_where(bad, "barrier", lambda at: f"{what}, got {int(numbers[at])}", lanes)
        if counts is not None:
            bad, what = (counts % 32 != 0) | (counts <= 0), "the thread count of a barrier must be a multiple of 32"
            machine.hazard_where(bad, "barrier", lambda at: f"{what}, got {int(counts[at])}", lanes)

    def _reach(
        self, lanes: Any, number: int, expected: int | None, waits: bool, aligned: bool, votes: Any, done: Any
    ) -> None:
        machine = self.machine
        cta = int(lanes[0]) // machine.threads
        state = self.named.setdefault((cta, number), _Named())
        if state.arrived and state.expected != expected:
            other = f"{_count(state.expected)} where {machine.name_of(next(iter(state.arrived)))} arrived"
            machine.hazard("barrier", f"barrier {number} expects {_count(expected)} here, but {other}", lanes)
        again = [lane for lane in lanes.tolist() if lane in state.arrived]
        if again:
            machine.hazard("barrier", f"the thread arrives twice on barrier {number} in one phase", np.array(again))
        self._know_last(state, lanes, number, expected)
        state.expected = expected
        for position, lane in enumerate(lanes.tolist()):
            state.arrived[lane] = (machine.at, waits, aligned)
            if votes is not None:
                state.votes[lane] = votes[position]
        if not waits:
            state.clock = join([state.clock, machine.order.release(lanes)])
        state.done = done or state.done
        if self._complete(cta, state) and not waits:
            machine.launch.version += 1

    def _know_last(self, state: _Named, lanes: Any, number: int, expected: int | None) -> None:
        """Check that the last phase of a barrier happens before arrivals, which could otherwise count for that phase."""
        if not state.last_time:
            return
        machine = self.machine
        waited = state.last_waited
        if np.isin(lanes[:1], waited).all():
            return
        cta = int(lanes[0]) // machine.threads
        row = machine.order.row(lanes[:1])
        inside = waited - cta * machine.threads
        if not len(inside) or int(row[inside].max()) <= state.last_time:
            who = machine.name_of(int(waited[0])) if len(waited) else "others"
            come = f"{len(lanes)} of {machine.threads if expected is None else expected} threads have arrived"
            what = f"barrier {number} is reused, but its last phase, by {who}, is not ordered before this one ({come})"
            machine.hazard("barrier", what, lanes, threads=(who,))

    def _complete(self, cta: int, state: _Named) -> bool:
        machine = self.machine
        living = machine.living(cta)
        if state.expected is None:
            if len(state.arrived) < len(living):
                return False
        else:
            counts: dict[int, int] = {}
            for lane in state.arrived:
                warp = int(machine.warp_of[lane])
                counts[warp] = counts.get(warp, 0) + 1
            alive = np.bincount(machine.warp_of[living], minlength=machine.unit_ctas * machine.warps_per_cta)
            came = sum(32 if count >= alive[warp] else count for warp, count in counts.items())
            if came < state.expected:
                return False
        self._explain(cta, state)
        places = {lane: place for lane, (place, _, _) in state.arrived.items()}
        if state.expected is None and len(set(places.values())) > 1:
            self.mixed[cta] = places
        waiting = np.array(sorted(lane for lane, (_, waits, _) in state.arrived.items() if waits), np.int64)
        self._demand_warps(state)
        time = machine.launch.time.now
        if len(waiting) == len(living):
            machine.order.barrier(cta, waiting)
        else:
            clock = machine.order.release(waiting) if len(waiting) else NOTHING
            machine.order.acquire(waiting, join([state.clock, clock])) if len(waiting) else None
        state.last_time, state.last_waited = time, waiting
        votes, done = state.votes, state.done
        state.arrived, state.clock, state.votes, state.expected, state.done = {}, NOTHING, {}, None, None
        if len(waiting):
            machine.wake(waiting)
        if done is not None:
            done(waiting, votes)
        return True

    def _explain(self, cta: int, state: _Named) -> None:
        """Report a divergent barrier for races whose earlier thread waited here and whose later thread did not."""
        machine, launch = self.machine, self.machine.launch
        first = machine.first * machine.threads
        for race in [*launch.suspects]:
            hazard, mine, other = race
            if (mine - first) // machine.threads != cta or other - first not in state.arrived:
                continue
            launch.suspects.remove(race)
            place, come = state.arrived[other - first][0], state.arrived.get(mine - first)
            if come is None or self._apart(place, come[0]):
                number = next(number for number, entry in enumerate(launch.hazards) if entry is hazard)
                launch.hazards[number] = hazard.behind(*self._divergent(other, place, mine, come[0] if come else -1))
        if launch.first_only and launch.first_error is not None and not launch.suspects:
            launch.all_hazards = False
            raise launch.first_error

    def passed_by(self, mine: int, other: int) -> tuple[ReportedAccess, str, str] | None:
        """Return arguments for :meth:`Hazard.behind`. Return None if no divergent barrier separated the two threads."""
        first = self.machine.first * self.machine.threads
        places = self.mixed.get((mine - first) // self.machine.threads, {})
        mine_at, other_at = places.get(mine - first, -1), places.get(other - first, -1)
        if mine_at < 0 or other_at < 0 or not self._apart(other_at, mine_at):
            return None
        return self._divergent(other, other_at, mine, mine_at)

    def _apart(self, place: int, other: int) -> bool:
        """Return True if one thread can reach both of two barriers, so that they are not the ends of two branches."""
        launch = self.machine.launch
        return place != other and (launch.reaches(place, other) or launch.reaches(other, place))

    def _divergent(self, waits: int, place: int, passes: int, passes_at: int) -> tuple[ReportedAccess, str, str]:
        machine = self.machine
        instructions, launch = machine.program.instructions, machine.launch
        barrier = machine.report(instructions[place], launch.name_of(waits), "")
        instead = "does not" if passes_at < 0 else f"waits at PTX line {instructions[passes_at].line}"
        return barrier, instead, launch.name_of(passes)

    def _demand_warps(self, state: _Named) -> None:
        """Check for ``.aligned`` that all living lanes of a warp arrived, by one instruction."""
        machine = self.machine
        arrived = np.array(sorted(lane for lane, (_, _, aligned) in state.arrived.items() if aligned), np.int64)
        warps = machine.warp_of[arrived]
        alive = machine.warp_bits(machine.ids[machine.status != DONE])
        here = machine.warp_bits(arrived)
        for warp in np.unique(warps):
            members = arrived[warps == warp]
            places = {state.arrived[lane][0] for lane in members.tolist()}
            if len(places) > 1 or alive[warp] & ~here[warp]:
                come = f"got {len(members)} of {int(alive[warp] | here[warp]).bit_count()} threads, by {len(places)} instructions"
                machine.hazard("barrier", f"a whole warp must reach this barrier by one instruction, {come}", members)

    def exit_lanes(self, ending: Any) -> None:
        """Complete the barriers at which only exiting lanes were missing."""
        machine = self.machine
        ctas = set(machine.cta_of[ending].tolist())
        for (cta, _), state in self.named.items():
            if cta in ctas and state.arrived:
                self._complete(cta, state)
        for cluster in {cta // machine.cluster_size for cta in ctas}:
            self._cluster_complete(cluster)
        if self.resized:
            self._compare_warpgroups(np.unique(machine.warp_of[ending]))

    def set_registers(self, lanes: Lanes) -> None:
        """Record that whole warps executed a ``setmaxnreg``."""
        for warp in np.unique(self.machine.warp_of[self.machine.index(lanes)]).tolist():
            self.resized.setdefault(warp, []).append(self.machine.at)

    def _compare_warpgroups(self, ended: Any) -> None:
        """Check that every warp of a warpgroup that has ended executed the same ``setmaxnreg``."""
        machine, per_cta = self.machine, self.machine.warps_per_cta
        text = [instruction.text for instruction in machine.program.instructions]
        for first in {int(w) - int(w) % per_cta % 4 for w in ended}:
            warps = [w for w in range(first, first + 4) if w // per_cta == first // per_cta]
            if (machine.status[np.isin(machine.warp_of, warps)] != DONE).any():
                continue
            most = max(warps, key=lambda w: len(self.resized.get(w, [])))
            wanted = self.resized.get(most, [])
            for warp in warps:
                texts = [text[at] for at in self.resized.get(warp, [])]
                for number, at in enumerate(wanted):
                    if texts[number : number + 1] != [text[at]]:
                        other = machine.name_of(int(np.argmax(machine.warp_of == warp)))
                        machine.hazard(
                            "aligned", f"all warps of a warpgroup must execute this setmaxnreg, but the warp of {other} does not",
                            machine.ids[machine.warp_of == most], at=at, threads=(other,),
                        )  # fmt: skip

    def raise_hang(self, waiting: Any) -> NoReturn:
        """Raise the hazard of a barrier that never completes."""
        machine = self.machine
        lane = int(waiting[0])
        for (cta, number), state in self.named.items():
            if lane not in state.arrived:
                continue
            self._explain(cta, state)
            living = machine.living(cta)
            missing = [x for x in living.tolist() if x not in state.arrived]
            whole = machine.threads if state.expected is None else state.expected
            who = f"; {machine.name_of(missing[0])} has not" if missing else ""
            what = f"barrier {number} never completes: {len(state.arrived)} of {whole} threads of the CTA have arrived{who}"
            machine.hazard("barrier", what, waiting[:1], at=state.arrived[lane][0])
        raise AssertionError("not waiting")

    def cluster_arrive(self, lanes: Lanes, *, relaxed: bool) -> None:
        """Execute ``barrier.cluster.arrive``."""
        machine = self.machine
        index = machine.index(lanes)
        what = "the thread arrives twice at the cluster barrier without a wait in between"
        machine.hazard_where(self.arrived[index] >= 0, "barrier", what, lanes)
        clusters = machine.cta_of[index] // machine.cluster_size
        for cluster in np.unique(clusters).tolist():
            members = index[clusters == cluster]
            state = self.clusters.setdefault(cluster, _Cluster())
            self.arrived[members] = state.phase
            if not relaxed:
                state.clock = join([state.clock, machine.order.release(members)])
            self._cluster_complete(cluster)

    def _cluster_complete(self, cluster: int) -> None:
        state = self.clusters.get(cluster)
        if state is None:
            return
        machine = self.machine
        size = machine.cluster_size * machine.threads
        members = machine.ids[cluster * size : (cluster + 1) * size]
        living = members[machine.status[members] != DONE]
        if len(living) and (self.arrived[living] != state.phase).any():
            return
        state.phase += 1
        state.done, state.clock = state.clock, NOTHING
        waiting = living[machine.status[living] == AT_CLUSTER]
        if len(waiting):
            self._pass(waiting, state)
            machine.wake(waiting)

    def _pass(self, lanes: Any, state: _Cluster) -> None:
        self.arrived[lanes] = -1
        self.passed[lanes] = state.phase
        if state.done.rows:
            self.machine.order.acquire(lanes, state.done)

    def cluster_wait(self, lanes: Lanes) -> None:
        """Execute ``barrier.cluster.wait``."""
        machine = self.machine
        index = machine.index(lanes)
        what = "the thread waits at the cluster barrier before it has arrived"
        machine.hazard_where(self.arrived[index] < 0, "barrier", what, lanes)
        clusters = machine.cta_of[index] // machine.cluster_size
        for cluster in np.unique(clusters).tolist():
            members = index[clusters == cluster]
            state = self.clusters[cluster]
            over = self.arrived[members] < state.phase
            if over.any():
                self._pass(members[over], state)
            if not over.all():
                machine.park(members[~over], AT_CLUSTER)

    def raise_cluster_hang(self, waiting: Any) -> NoReturn:
        """Raise the hazard of a cluster barrier that never completes."""
        machine = self.machine
        lane = int(waiting[0])
        cluster = int(machine.cta_of[lane]) // machine.cluster_size
        size = machine.cluster_size * machine.threads
        members = machine.ids[cluster * size : (cluster + 1) * size]
        living = members[machine.status[members] != DONE]
        state = self.clusters[cluster]
        missing = living[self.arrived[living] != state.phase]
        who = f"; {machine.name_of(int(missing[0]))} has not" if len(missing) else ""
        come = f"{len(living) - len(missing)} of {len(living)} threads have arrived{who}"
        what = f"the barrier of the cluster never completes: {come}"
        machine.hazard("barrier", what, waiting[:1], at=int(machine.pc[lane]) - 1)

    def cluster_phase(self, cta: int) -> int:
        """Return the number of phases that the cluster barrier of a CTA has completed."""
        state = self.clusters.get(cta // self.machine.cluster_size)
        return 0 if state is None else state.phase

    def warp_sync(self, lanes: Lanes, mask: Any) -> None:
        """Execute ``bar.warp.sync``."""
        machine = self.machine
        converged = machine.converge(lanes, mask, anywhere=True)
        if machine.size(converged):
            self.warp_joined(machine.index(converged), machine.joined)

    def warp_joined(self, lanes: Any, mask: Any) -> None:
        """Synchronise the vector clocks of lanes that passed ``bar.warp.sync``, separately for each warp and mask."""
        machine = self.machine
        warps = machine.warp_of[lanes]
        for warp in np.unique(warps):
            members = lanes[warps == warp]
            masks = mask[warps == warp]
            if (masks == masks[0]).all():
                machine.order.warp_barrier(members)
            else:
                for group_mask in np.unique(masks):
                    machine.order.warp_barrier(members[masks == group_mask])


def _count(expected: int | None) -> str:
    return "all threads" if expected is None else f"{expected} threads"
