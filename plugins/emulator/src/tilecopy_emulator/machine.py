"""The machine: a batch of clusters in execution.

Values of many, order of one: as long as the clusters of a batch do the same, there are ``U`` unit lanes (the threads
of one cluster) times ``C`` copies. A register is an array of shape ``(U or 1, C or 1)``, never spread out where all
lanes or all copies hold the same. Which lanes run, what they touch in shared memory, and what they know of one another
is kept once for all copies. When copies part (:class:`Diverged`) the machine lays itself out anew, with every thread of
the batch a unit lane of the single copy, and runs the instruction again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import attrs
import numpy as np

from tilecopy_core import HazardError

from . import spaces
from .access import REGISTER, SHARED, Access
from .alu import FORMS
from .barriers import Barriers
from .engines import Engines
from .expansion import CARRY
from .launch import Dim3, Launch
from .local import LocalMemory
from .locations import Flags
from .mbarrier import Mbarriers
from .order import Order
from .program import Pair, UnsupportedPtxError, Vector
from .progress import Watch, read_somewhere
from .shadow import BARRIER_ACTOR
from .shared import SharedMemory

RUN, AT_BARRIER, AT_WARP, AT_CLUSTER, AT_MBARRIER, DONE = range(6)
FULL = slice(None)
Lanes = Any
REGISTER_TYPES: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
PASSIVE = frozenset((*FORMS, "mov"))
"""Instructions that read and write registers alone."""
BITWISE = frozenset(("mov", "and", "or", "xor", "not", "lop3", "prmt", "shl", "shr", "shf", "bfe", "bfi", "brev"))
BITWISE |= {"selp", "setp", "szext"}
"""Those in which each bit of the result comes from few bits of the sources."""
ALL_BITS = np.uint64(2**64 - 1)
TRIALS = 10
"""Guesses at what a register that holds nothing might hold: two of the same bit everywhere, the others by chance."""
PATIENCE_BITS = 6
"""A group that has branched back 2**6 times while others could run lets them go first."""


class Diverged(Exception):  # noqa: N818 (never leaves the machine)
    """Copies differ in what must be the same in all."""


@attrs.frozen(eq=False)
class Stuck:
    """Why a machine cannot go on by itself: raises the hazard when called."""

    accuse: Callable[[], NoReturn]


class Machine:
    """A batch of clusters.

    Args:
        launch: what all batches share.
        first: number of the first CTA.
        ctas: how many, whole clusters.
    """

    def __init__(self, launch: Launch, first: int, ctas: int) -> None:
        self.launch, self.program, self.first = launch, launch.program, first
        self.threads, self.cluster_size = launch.threads, launch.cluster_size
        self.copies = ctas // self.cluster_size
        self.unit_ctas = self.cluster_size
        self.begun = launch.operations
        self.registers: dict[str, Any] = {}
        self.defined: dict[str, Any] = {}
        self.owned: dict[str, bool] = {}
        unit = self.unit_ctas * self.threads
        self.pc = np.zeros(unit, np.int64)
        self.status = np.zeros(unit, np.int8)
        self.turn = np.zeros(unit, np.int64)
        self.lanes: Lanes = FULL
        self.at = 0
        self.next_at = 0
        self.stale = self.settled = False
        self.others: list[int] = []
        self.limit = 1 << 60
        self._lay_out()
        key = 0 if self.copies > 1 else first
        self.order = Order(launch.time, self.unit_ctas, self.threads, key, launch.sections)
        self.shared = SharedMemory(self)
        self.local = LocalMemory(self)
        self.barriers = Barriers(self)
        self.mbarriers = Mbarriers(self)
        self.engines = Engines(self)
        self.flags = Flags(self)
        self.tensor: Any = None
        self.watch = Watch(self)
        self.many: Any = None
        self.each = 1
        self.recent: dict[str, Any] = {}
        self.changed: set[str] = set()
        self.converging: dict[Any, dict[int, int]] = {}
        self.joined: Any = None
        self.loading: set[str] = set()
        self.origins: dict[str, Any] = {}
        self.holes: dict[str, Any] = {}
        self.missing: Any = None
        self.whence: Any = None
        self.trial = -1
        self.unwritten: list[tuple[Lanes, Any]] = []

    # ------------------------------------------------------------------------------------------- who is who

    tid: tuple[Any, Any, Any]
    block: tuple[Any, Any, Any]
    cluster_ctaid: tuple[Any, Any, Any]
    ntid: Dim3
    nctaid: Dim3
    ncluster: Dim3
    thread: Any
    lane: Any
    warp: Any
    rank: Any
    explicit_cluster: bool
    dynamic_shared_bytes: int
    total_shared_bytes: int

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

    @property
    def clock(self) -> int:
        """Instructions executed so far, by however many threads at once."""
        self.watch.read_time()
        return int(self.launch.executed.sum())

    def size(self, lanes: Lanes) -> int:
        """How many lanes."""
        return self.units if lanes is FULL else len(lanes)

    def index(self, lanes: Lanes) -> Any:
        """Their numbers in the unit."""
        return self.ids if lanes is FULL else lanes

    def rows(self, values: Any, lanes: Lanes) -> Any:
        """Values with one row a lane."""
        values = np.asarray(values)
        if values.ndim == 0:
            values = values.reshape(1, 1)
        return (
            values
            if values.shape[0] == self.size(lanes)
            else np.broadcast_to(values, (self.size(lanes), values.shape[1]))
        )

    def uniform(self, values: Any, lanes: Lanes) -> Any:
        """One value a lane, which must be the same in every copy.

        Raises:
            Diverged: it is not; call this before any side effect.
        """
        values = np.asarray(values)
        if values.ndim == 0:
            return np.broadcast_to(values, (self.size(lanes),))
        first = values[:, 0]
        if values.shape[1] > 1 and not (values == values[:, :1]).all():
            raise Diverged
        return first if len(first) == self.size(lanes) else np.broadcast_to(first, (self.size(lanes),))

    def demand_single(self) -> None:
        """What follows orders threads of different clusters: keep them apart from here on."""
        if self.copies > 1:
            raise Diverged

    def name_of(self, lane: int, copy: int = 0) -> str:
        """A thread in words."""
        return self.launch.name_of(int(self.grid_thread[lane, copy]))

    def actor_name(self, actor: int, copy: int = 0) -> str:
        """Who a stamp of shared or tensor memory names, in words."""
        if actor < BARRIER_ACTOR:
            return self.name_of(actor, copy)
        return f"an asynchronous copy that {self.mbarriers.name_of_actor(actor)} counts"

    def symbol(self, name: str, lanes: Lanes) -> Any:
        """The address of a variable or parameter, in its own state space.

        Raises:
            UnsupportedPtxError: nothing of that name is declared.
        """
        found = self.launch.symbols.get(name)
        if found is None:
            line = self.program.instructions[self.at].line
            raise UnsupportedPtxError(f"PTX line {line}: '{name}' is not declared")
        space, address = found
        if space == "shared":
            rank = self.rank if len(self.rank) == 1 or lanes is FULL else self.rank[lanes]
            return (rank.astype(np.uint64) << np.uint64(24)) + np.uint64(address)
        return np.full((1, 1), address, np.uint64)

    # ------------------------------------------------------------------------------------------- hazards

    def hazard(self, kind: str, message: str, lanes: Lanes = None, position: int = 0, **more: Any) -> NoReturn:
        """Raise :class:`HazardError` for a lane of the instruction that is being executed.

        Args:
            kind: see the kinds in the README.
            message: what is wrong, without the thread and the line.
            lanes: those that execute it; None where no thread is meant.
            position: which of them.
            more: ``copy`` (which copy of the lane), ``at`` (another instruction), ``bytes``, ``address``, ``cause``, ``threads``.
        """
        at = more.pop("at", self.at)
        if lanes is not None and lanes is self.many:
            at += position // self.each
        instructions = self.program.instructions
        copy = int(more.pop("copy", 0))
        who, threads = "", tuple(more.pop("threads", ()))
        if lanes is not None and self.size(lanes):
            name = self.name_of(int(self.index(lanes)[position]), copy)
            who, threads = f"{name}: ", (name, *threads)
        if not instructions:
            raise HazardError(f"{kind}: {who}{message}", kind=kind)
        instruction = instructions[min(at, len(instructions) - 1)]
        origin = self.launch.origin_of(instruction.line)
        text = f"{kind}: {who}{message}\n  PTX line {instruction.line}: {instruction.text}"
        if origin:
            text += f"\n  in: {origin}"
        raise HazardError(text, kind=kind, line=instruction.line, threads=threads, **more)

    # ------------------------------------------------------------------------------------------- registers

    def read(self, name: str, lanes: Lanes) -> Any:
        """A register as unsigned bits, shape ``(n or 1, C or 1)``.

        Raises:
            HazardError: it was never written in one of the lanes.
        """
        group = lanes is self.lanes and lanes is not FULL
        if group:
            values = self.recent.get(name)
            if values is not None:
                return values
        elif name in self.changed:
            self.spill(name)
        values = self.registers.get(name)
        if values is None:
            if name not in self.program.register_bits:
                line = self.program.instructions[self.at].line
                raise UnsupportedPtxError(f"PTX line {line}: '{name}' is not declared")
            return self._nothing_there(name, lanes, np.zeros(self.size(lanes), bool))
        defined = self.defined[name]
        if defined is not None:
            known = defined[lanes]
            if not known.all():
                at = int(np.argmin(known))
                if name in self.loading and not self.origins[name][self.index(lanes)[at]]:
                    self.hazard(
                        "async", f"register {_bare(name)} is read while a tcgen05.ld to it is in flight "
                        "(tcgen05.wait::ld is missing)", lanes, at,
                    )  # fmt: skip
                return self._nothing_there(name, lanes, known)
        if lanes is FULL or values.shape[0] == 1:
            self.owned[name] = False  # who got it may keep it, under another register's name too
            return values
        values = values[lanes]
        if group:
            self.recent[name] = values
        return values

    def _nothing_there(self, name: str, lanes: Lanes, known: Any) -> Any:
        """Some lanes read a register that holds nothing: a hazard, told where nothing came from, or the bits of a trial."""
        whence = self.origins[name][lanes] if name in self.origins else np.zeros(len(known), np.int64)
        fresh = REGISTER << 60 | self.at << 32 | list(self.program.register_bits).index(name)
        whence = np.where(known, 0, np.where(whence == 0, fresh, whence))
        if self.trial < 0:
            self.tell(lanes, whence[:, None])
        type = REGISTER_TYPES[self.program.register_bits[name]]
        bits = np.random.default_rng((self.trial, *name.encode())).integers(0, 2**64, dtype=np.uint64)
        guess = (np.uint64(0), ALL_BITS, bits & np.uint64(1) if type is np.bool_ else bits)[min(self.trial, 2)]
        values = np.broadcast_to(self.registers.get(name, np.zeros((1, 1), type)), (self.units, self.copies))[lanes]
        holes = np.where(known, np.uint64(0), self.holes[name][lanes] if name in self.holes else ALL_BITS)
        self.missing |= holes
        self.whence = np.where(self.whence == 0, whence, self.whence)
        return (values & ~holes[:, None] | guess & holes[:, None]).astype(type)

    def tell(self, lanes: Lanes, origins: Any) -> NoReturn:
        """The hazard of who uses what holds nothing: it names where that came from, see :data:`.access.REGISTER`."""
        position = int(np.argmax(origins.any(axis=1)))
        origin = int(origins[position].max())
        kind, at, place = origin >> 60, origin >> 32 & 0xFFFFFFF, origin & 0xFFFFFFFF
        if kind == REGISTER:
            what = f"register {_bare(list(self.program.register_bits)[place])}"
        else:
            what = (self.shared if kind == SHARED else self.local).where(place)
        self.hazard("poison", f"{what} is read and was never written", lanes, position, at=at)

    def glimpse(self, read: Any, lanes: Lanes) -> tuple[Any, Any, Any]:
        """A source with zeros for what it lacks, and of each lane the bits that hold nothing and where that came from."""
        index = np.array(self.index(lanes))
        self.trial, self.missing, self.whence = 0, np.zeros(len(index), np.uint64), np.zeros(len(index), np.int64)
        try:
            return self.rows(read(self, index), index), self.missing, self.whence
        finally:
            self.trial = -1

    def sources(self, readers: Sequence[Any], lanes: Lanes) -> tuple[list[Any], Any]:
        """Sources of an instruction that passes on what holds nothing.

        Returns:
            Their values, and None or (where some hold nothing) for each of them the bits and origins of :meth:`glimpse`.
        """
        try:
            return [read(self, lanes) for read in readers], None
        except HazardError as nothing:
            if nothing.kind != "poison":
                raise
            found = [self.glimpse(read, lanes) for read in readers]
            return [values for values, _, _ in found], [(missing, whence) for _, missing, whence in found]

    def is_fresh(self, whence: Any) -> bool:
        """Whether a register that was never written is read right here."""
        return bool((whence >> 32 == (REGISTER << 28 | self.at)).any())

    def _pass_on(self, lanes: Lanes, nothing: HazardError) -> None:
        """An instruction on registers alone has a source that holds nothing in some lanes; the same is then true of its results.

        Compilers move and compute what nobody uses; only who uses it is told. Where each bit of a result comes from few
        bits of the sources, the instruction is tried with several guesses: those that change are nothing, the others count.
        """
        instruction = self.program.instructions[self.at]
        opcode = instruction.opcode
        if nothing.kind != "poison" or opcode[0] not in PASSIVE:
            raise nothing
        exact = opcode[0] in BITWISE or (
            opcode[0] == "cvt" and all(part[0] in "su" and part != "sat" for part in opcode[1:])
        )
        result: Any = instruction.operands[0]
        pair = (result.first, result.second) if isinstance(result, Pair) else (result,)
        names = [name for name in (result.items if isinstance(result, Vector) else pair) if name != "_"]
        names += [CARRY] if "cc" in opcode else []
        index = np.array(self.index(lanes))
        found: list[Any] = []
        self.missing, self.whence = np.zeros(len(index), np.uint64), np.zeros(len(index), np.int64)
        for name in names:
            self._let_go(name)
        before = [(self.registers.get(name), self.defined.get(name)) for name in names]
        try:
            for self.trial in range(TRIALS) if exact else (2,):
                for name, (values, defined) in zip(names, before, strict=True):
                    self._restore(name, values, defined)
                self.launch.steps[self.at](self, index)
                found.append(
                    [np.broadcast_to(self.registers[name], (self.units, self.copies))[index] for name in names]
                )
        except HazardError:  # a divisor of nothing, say
            raise nothing from None
        finally:
            self.trial = -1
            for name, (values, defined) in zip(names, before, strict=True):
                self._restore(name, values, defined)
        if self.is_fresh(self.whence) and read_somewhere(self.program).isdisjoint(names):
            raise nothing  # nobody reads it: whoever wrote this meant something else
        for number, name in enumerate(names):
            first = found[0][number]
            self.write(name, index, first)
            bits = np.where(self.missing != 0, ALL_BITS, np.uint64(0))
            if exact:
                changed = [np.bitwise_or.reduce(each[number] ^ first, axis=1) for each in found]
                bits = np.bitwise_or.reduce(changed).astype(np.uint64)
            self.undefine(name, index[bits != 0], self.whence[bits != 0], bits[bits != 0])

    def _restore(self, name: str, values: Any, defined: Any) -> None:
        """Put a register back as it was."""
        if values is None:
            self.registers.pop(name, None)
            self.defined.pop(name, None)
            return
        self.registers[name], self.owned[name] = values, False
        self.defined[name] = None if defined is None else defined.copy()

    def spill(self, name: str) -> None:
        """Put what the running group holds of a register where the other lanes' values are."""
        values = self.recent.pop(name)
        self.changed.discard(name)
        self._merge(name, self.lanes, values)

    def _let_go(self, name: str) -> None:
        """Have the running group hold a register no more; what it changed is kept with the other lanes' values."""
        if name in self.changed:
            self.spill(name)
        else:
            self.recent.pop(name, None)

    def spill_all(self) -> None:
        """As :meth:`spill`, for every register."""
        for name in list(self.changed):
            self.spill(name)
        self.recent.clear()

    def write(self, name: str, lanes: Lanes, values: Any) -> None:
        """Set a register; values are cut to its width. Arrays that were given or got are never changed."""
        if name == "_":
            return
        type = REGISTER_TYPES[self.program.register_bits[name]]
        values = np.asarray(values)
        if values.dtype != type:
            values = values.astype(type)
        if values.ndim == 0:
            values = values.reshape(1, 1)
        if lanes is FULL:
            self.registers[name], self.defined[name], self.owned[name] = values, None, False
            return
        if lanes is self.lanes:
            self.recent[name] = values
            self.changed.add(name)
            return
        self._let_go(name)
        self._merge(name, lanes, values)

    def _merge(self, name: str, lanes: Any, values: Any) -> None:
        type = values.dtype
        old = self.registers.get(name)
        if old is None:
            old = np.zeros((1, 1), type)
            self.defined[name] = np.zeros(self.units, bool)
            self.owned[name] = False
        copies = max(old.shape[1], values.shape[1])
        if not self.owned[name] or old.shape != (self.units, copies):
            old = np.broadcast_to(old, (self.units, copies)).copy()
            self.registers[name], self.owned[name] = old, True
        old[lanes] = values
        defined = self.defined[name]
        if defined is not None:
            defined[lanes] = True

    def write_many(self, names: list[str], lanes: Lanes, elements: Any) -> bool:
        """Set registers if the running group as a whole executes; whether it did.

        Args:
            names: registers, as wide as the elements.
            lanes: who executes.
            elements: of shape (accesses, lanes, copies, length of the vector).
        """
        if lanes is not self.lanes or lanes is FULL:
            return False
        self.recent.update(zip(names, elements.transpose(0, 3, 1, 2).reshape(-1, *elements.shape[1:3]), strict=True))
        self.changed.update(names)
        return True

    def read_many(self, names: list[str], lanes: Lanes) -> Any:
        """Registers that the running group has at hand, one after another; None where that is not so."""
        if lanes is not self.lanes or lanes is FULL:
            return None
        shape = (len(lanes), self.copies)
        found: list[Any] = [self.recent.get(name) for name in names]
        if any(values is None or values.shape != shape for values in found):
            return None
        return np.stack(found)

    def undefine(self, name: str, lanes: Lanes, whence: Any = 0, bits: Any = ALL_BITS) -> None:
        """Poison some bits of a register (all of them, as ever, for who uses it otherwise); who uses it is told ``whence``."""
        if name == "_" or not self.size(lanes):
            return
        self._let_go(name)
        if name not in self.registers:
            type = REGISTER_TYPES[self.program.register_bits[name]]
            self.registers[name], self.owned[name] = np.zeros((1, 1), type), False
        defined = self.defined.get(name)
        if defined is None:
            defined = self.defined[name] = np.full(self.units, name in self.defined)
        defined[lanes] = False
        self.holes.setdefault(name, np.full(self.units, ALL_BITS))[lanes] = bits
        self.origins.setdefault(name, np.zeros(self.units, np.int64))[lanes] = whence

    # ------------------------------------------------------------------------------------------- memory

    def load(self, lanes: Lanes, access: Access, addresses: Any) -> Any:
        """Bytes of memory, shape ``(n or 1, C or 1, access.bytes)``, through every check."""
        raw = spaces.load(self, lanes, access, addresses)
        if self.unwritten:
            (who, origins), self.unwritten = self.unwritten[0], []
            self.tell(who, origins)
        return raw

    def unwritten_bytes(self, kind: int, lanes: Lanes, places: Any, unwritten: Any, blank: Any) -> None:
        """A load has found bytes that hold nothing: an error when what was loaded is used.

        Args:
            kind: :data:`.access.SHARED` or :data:`.access.LOCAL`.
            lanes: those of the load.
            places: where each lane's bytes start.
            unwritten: of each lane's bytes, which were never written, shape (n, bytes).
            blank: the origins of those that somebody wrote with nothing; None where nobody did.
        """
        at = self.at + (np.arange(len(places)) // self.each if lanes is self.many else np.zeros(len(places), np.int64))
        origins = (kind << 60 | at << 32 | places)[:, None] + np.arange(unwritten.shape[1])
        self.unwritten.append((lanes, np.where(unwritten, origins, 0 if blank is None else blank)))

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
        spaces.store(self, lanes, access, addresses, raw, origins)

    def atomic(self, lanes: Lanes, access: Access, addresses: Any, update: Any) -> Any:
        """Read, compute, write in one; ``update(old, rows, columns)`` gives the new values (with ``shared=True`` there). Returns the old ones."""
        return spaces.atomic(self, lanes, access, addresses, update)

    # ------------------------------------------------------------------------------------------- running

    def run(self) -> Stuck | None:
        """Step until every thread has exited (None) or nothing can go on without another batch.

        Raises:
            HazardError: an execution that the hardware leaves undefined.
        """
        steps, lengths, instructions = self.launch.steps, self.launch.lengths, self.program.instructions
        guards = [(i.guard, i.unless, i.opcode[0] == "bra") for i in instructions]
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
                        condition = self.uniform(self.read(guard, active), active)
                        if unless:
                            condition = ~condition
                        if not condition.all():
                            active = self.index(active)[condition]
                    size = self.units if active is FULL else len(active)
                    if size:
                        if branches:
                            self.branch(active, self.launch.targets[at])
                        else:
                            try:
                                steps[at](self, active)
                            except HazardError as error:
                                self._pass_on(active, error)
                        executed[at : at + lengths[at]] += size * self.copies
            except Diverged:
                self.expand()
                continue
            if self.stale or self.next_at >= self.limit:
                if not self.settled:
                    self.pc[self.index(self.lanes)] = self.next_at
                stuck = self.watch.verdict() or self._schedule()
            else:
                self.at = self.next_at
        return stuck

    def branch(self, lanes: Lanes, target: int) -> None:
        """Lanes go on somewhere else."""
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
            self.watch.looped(lanes)

    def _limit(self, at: int) -> int:
        position = bisect_right(self.others, at)
        return self.others[position] if position < len(self.others) else 1 << 60

    def settle(self) -> None:
        """Write the places of the running group down, since its lanes part."""
        if not self.settled:
            self.pc[self.index(self.lanes)] = self.at + 1
            self.settled = self.stale = True

    def _schedule(self) -> Stuck | None:
        """Choose the group that runs next: of the lanes that have been patient, those furthest back."""
        if self.recent:
            self.spill_all()
        self.stale = self.settled = False
        self.lanes, self.others, self.limit = None, [], 1 << 60
        running = self.status == RUN
        while not running.any():
            if (self.status == DONE).all():
                return None
            if not self.engines.land_something() and not self.mbarriers.time_out():
                return Stuck(self.accuse)
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

    def park(self, lanes: Lanes, status: int, *, again: bool = False) -> None:
        """Let lanes wait, past the current instruction or (``again``) at it."""
        self.settle()
        lanes = self.index(lanes)
        self.status[lanes] = status
        self.pc[lanes] = self.at if again else self.at + 1

    def wake(self, lanes: Any, at: int | None = None) -> None:
        """Let waiting lanes run again."""
        self.status[lanes] = RUN
        if at is not None:
            self.pc[lanes] = at
        self.turn[lanes] = self.turn[lanes].max()
        self.stale = True
        self.launch.version += 1

    def exit(self, lanes: Lanes) -> None:
        """Lanes that end."""
        ending = self.index(lanes)
        self.barriers.leaving(ending)
        self.settle()
        self.status[ending] = DONE
        self.launch.version += 1
        self.engines.leaving(ending)
        self.barriers.left(ending)
        self._left_convergence(ending)

    def finish(self) -> None:
        """Every thread has ended: nothing may be under way."""
        self.engines.finish()
        if self.tensor is not None:
            self.tensor.finish()

    def living(self, cta: int) -> Any:
        """Lanes of a CTA that have not exited."""
        lanes = self.ids[cta * self.threads : (cta + 1) * self.threads]
        return lanes[self.status[lanes] != DONE]

    def accuse(self) -> NoReturn:
        """Nobody can go on: say who waits for what."""
        waiting = np.nonzero((self.status != DONE) & (self.status != RUN))[0]
        status = self.status[waiting]
        for kind, say in (
            (AT_MBARRIER, self.mbarriers.accuse),
            (AT_WARP, self._accuse_warp),
            (AT_BARRIER, self.barriers.accuse),
            (AT_CLUSTER, self.barriers.accuse_cluster),
        ):
            chosen = waiting[status == kind]
            if len(chosen):
                say(chosen)
        raise AssertionError("nobody waits")

    # ------------------------------------------------------------------------------------------- warps

    def warp_bits(self, lanes: Any) -> Any:
        """For each warp of the unit, which of its lanes are among some."""
        bits = np.zeros(self.unit_ctas * self.warps_per_cta, np.uint32)
        np.bitwise_or.at(bits, self.warp_of[lanes], np.uint32(1) << self.lane[lanes, 0])
        return bits

    def converge(self, lanes: Lanes, mask: Any, *, anywhere: bool = False) -> Any:
        """Lanes whose whole mask has reached this instruction; the rest wait.

        Args:
            lanes: who comes now.
            mask: the lanes of its warp that each names (1-D, the same in every copy).
            anywhere: whether the same kind of instruction with the same mask elsewhere counts too.
        """
        index = self.index(lanes)
        mask = np.broadcast_to(np.asarray(mask).astype(np.uint32), index.shape)
        own = (mask >> self.lane[index, 0]) & np.uint32(1)
        if not own.all():
            at = int(np.argmin(own))
            self.hazard(
                "barrier" if anywhere else "aligned",
                f"the mask 0x{int(mask[at]):08x} does not name the lane itself",
                lanes,
                at,
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
        ready = self._converged(key, alive)
        if not ready:
            return self.ids[:0]
        found = np.array(sorted(ready))
        self.joined = np.array([waiting.pop(lane) for lane in found.tolist()])
        if not waiting:
            del self.converging[key]
        self.wake(found)
        if not anywhere:
            self.pc[found] = self.at + 1
        return found

    def _converged(self, key: Any, alive: Any) -> set[int]:
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
        return ready

    def _left_convergence(self, ending: Any) -> None:
        """Lanes have exited: whoever waits for them in a warp waits for ever."""
        for waiting in self.converging.values():
            for gone in ending.tolist():
                first = gone - int(self.lane[gone, 0])
                for lane, mask in waiting.items():
                    if lane - int(self.lane[lane, 0]) == first and mask >> (gone - first) & 1:
                        self._accuse_warp(np.array([lane]), gone)

    def _accuse_warp(self, waiting: Any, gone: int = -1) -> NoReturn:
        lane = int(waiting[0])
        for key, members in self.converging.items():
            if lane in members:
                at = int(self.pc[lane]) - (1 if isinstance(key, str) else 0)
                wanted = members[lane]
                first = lane - int(self.lane[lane, 0])
                here = sum(1 << (other - first) for other in members if 0 <= other - first < 32)
                missing = wanted & ~here
                bit = (missing & -missing).bit_length() - 1
                more = f"; {self.name_of(first + bit)} has not" if bit >= 0 and first + bit < self.units else ""
                if gone >= 0:
                    more = f"; {self.name_of(gone)} exits and does not come"
                instruction = self.program.instructions[at]
                kind = "barrier" if instruction.opcode[0] == "bar" else "aligned"
                self.hazard(
                    kind,
                    f"{bin(wanted & here).count('1')} of the {bin(wanted).count('1')} lanes of the mask 0x{wanted:08x} "
                    f"have come{more}",
                    waiting[:1],
                    at=at,
                )
        raise AssertionError("not waiting")

    def whole_warps(self, lanes: Lanes) -> Lanes:
        """For an instruction with .aligned: lanes whose whole warp has come; the rest wait for their warps."""
        if lanes is FULL:
            return lanes
        alive = self.warp_bits(self.ids[self.status != DONE])
        return self.converge(lanes, alive[self.warp_of[lanes]])

    def demand_whole_warps(self, lanes: Lanes, what: str = "") -> Any:
        """For an instruction with .aligned: every living lane of each warp is here.

        Returns the first lane of each warp.
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
            self.hazard(
                "aligned",
                f"an instruction with .aligned is executed by {count} of the {int(alive[warp]).bit_count()} threads "
                f"of the warp{what}",
                lanes,
                at,
            )
        _, firsts = np.unique(self.warp_of[lanes], return_index=True)
        return lanes[firsts]

    # ------------------------------------------------------------------------------------------- laying out anew

    def expand(self) -> None:
        """From one cluster that stands for many to every thread of the batch for itself."""
        copies, unit = self.copies, self.units
        if copies == 1:
            raise AssertionError("one copy cannot differ from itself")
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
        ctas = self.unit_ctas
        self.copies, self.unit_ctas = 1, ctas * copies
        self._lay_out()
        self.order = self.order.copied(copies, self.first)
        shift = self.launch.operations - self.begun  # the copies' numbers begin after the last of this machine's
        self.launch.operations += shift * copies
        made = self.engines.expand(copies, unit, shift)
        self.shared.expand(copies, (unit, ctas * 64, shift))
        self.flags.expand(copies, unit, ctas * self.shared.size)
        self.local.expand(copies)
        self.barriers.expand(copies, ctas, unit)
        self.mbarriers.expand(copies, ctas, unit)
        if self.tensor is not None:
            self.tensor.expand(copies, shift, made)


def _bare(name: str) -> str:
    """A register as the text has it."""
    return name.partition("@")[0]
