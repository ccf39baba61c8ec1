"""The registers of the threads of a machine, and of each the bits that hold nothing.

A register is an array of shape ``(U or 1, C or 1)``, never spread out where all lanes or all copies hold the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import default_rng
from tilecopy import HazardError

from ..hazards import IN_VAIN, ReportedAccess
from ..memory_model.access import REGISTER
from ..memory_model.shadow import BARRIER_ACTOR
from ..program import UnsupportedPtxError
from .barriers import Barriers
from .launch import Launch
from .operations import Operation, Pending
from .release_acquire import ReleaseAcquire
from .threads import FULL, Lanes, Threads

REGISTER_TYPES: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
ALL_BITS = np.uint64(2**64 - 1)


class Registers(Threads):
    """The threads of a batch, their registers, and what orders them among themselves (see :class:`Threads`).

    ``flags``: what strong accesses carry; ``barriers``: those of CTAs, warps and clusters; ``in_flight``: asynchronous
    operations in flight, by their numbers; ``tolerant``: the instruction is done again after its hazard was told:
    unwritten values count as written, accesses as ordered; ``place_names``: a byte of shared or local memory in words;
    ``barrier_name``: an actor that stands for asynchronous operations, in words.
    """

    place_names: dict[int, Callable[[int], str]]
    barrier_name: Callable[[int], str]

    def __init__(self, launch: Launch, first: int, ctas: int) -> None:
        super().__init__(launch, first, ctas)
        self.flags, self.barriers = ReleaseAcquire(self), Barriers(self)
        self.in_flight: dict[int, Operation] = {}
        self.place_names = {}
        self.registers: dict[str, Any] = {}
        self.defined: dict[str, Any] = {}
        self.owned: dict[str, bool] = {}
        self.recent: dict[str, Any] = {}
        self.changed: set[str] = set()
        self.loading: set[str] = set()
        self.origins: dict[str, Any] = {}
        self.holes: dict[str, Any] = {}
        self.missing: Any = None
        self.whence: Any = None
        self.trial = -1
        self.unwritten: list[tuple[Lanes, Any]] = []

    def actor_name(self, actor: int, copy: int = 0) -> str:
        """Return who a stamp of shared or tensor memory names, in words."""
        if actor < BARRIER_ACTOR:
            return self.name_of(actor, copy)
        return self.barrier_name(actor)

    def in_vain(self, at: int, pending: Pending, action: str, who: str = "") -> list[ReportedAccess]:
        """Return what a hazard's report has of an operation in flight: the instruction, and a wait that does not cover it."""
        who, instructions = who or self.name_of(pending.lane), self.program.instructions
        waits = [self.report(instructions[pending.wait], who, "", relation=IN_VAIN)] if pending.wait >= 0 else []
        return [self.report(instructions[at], who, action), *waits]

    def read(self, name: str, lanes: Lanes) -> Any:
        """A register as unsigned bits, shape ``(n or 1, C or 1)``."""
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
                if name in self.loading and not self.tolerant and not self.origins[name][self.index(lanes)[at]]:
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
        if self.tolerant:
            type = REGISTER_TYPES[self.program.register_bits[name]]
            trial = np.broadcast_to(self.registers.get(name, np.zeros((1, 1), type)), (self.units, self.copies))[lanes]
            self.write(name, lanes, trial)
            return trial
        whence = self.origins[name][lanes] if name in self.origins else np.zeros(len(known), np.int64)
        fresh = REGISTER << 60 | self.at << 32 | list(self.program.register_bits).index(name)
        whence = np.where(known, 0, np.where(whence == 0, fresh, whence))
        if self.trial < 0:
            self.tell(lanes, whence[:, None])
        type = REGISTER_TYPES[self.program.register_bits[name]]
        bits = default_rng((self.trial, *name.encode())).integers(0, 2**64, dtype=np.uint64)
        guess = (np.uint64(0), ALL_BITS, bits & np.uint64(1) if type is np.bool_ else bits)[min(self.trial, 2)]
        values = np.broadcast_to(self.registers.get(name, np.zeros((1, 1), type)), (self.units, self.copies))[lanes]
        holes = np.where(known, np.uint64(0), self.holes[name][lanes] if name in self.holes else ALL_BITS)
        self.missing |= holes
        self.whence = np.where(self.whence == 0, whence, self.whence)
        return (values & ~holes[:, None] | guess & holes[:, None]).astype(type)

    def tell(self, lanes: Lanes, origins: Any) -> None:
        """Raise the hazard of who uses what holds nothing, if nobody has told it: see :data:`..memory_model.access.REGISTER` for its place."""
        if self.tolerant:
            return
        position = int(np.argmax(origins.any(axis=1)))
        origin = int(origins[position].max())
        kind, at, place = origin >> 60, origin >> 32 & 0xFFFFFFF, origin & 0xFFFFFFFF
        if kind == REGISTER:
            what = f"register {_bare(list(self.program.register_bits)[place])}"
        else:
            what = self.place_names[kind](place)
        self.hazard("poison", f"{what} is read and was never written", lanes, position, at=at)

    def peek(self, read: Any, lanes: Lanes) -> tuple[Any, Any, Any]:
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
            Their values, and None or (where some hold nothing) for each of them the bits and origins of :meth:`peek`.
        """
        try:
            return [read(self, lanes) for read in readers], None
        except HazardError as nothing:
            if nothing.kind != "poison":
                raise
            reads = [self.peek(read, lanes) for read in readers]
            return [values for values, _, _ in reads], [(missing, whence) for _, missing, whence in reads]

    def is_fresh(self, whence: Any) -> bool:
        """Return whether a register that was never written is read right here."""
        return bool((whence >> 32 == (REGISTER << 28 | self.at)).any())

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
        """Do as :meth:`spill`, for every register."""
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

        ``names``: registers, as wide as the elements; ``lanes``: who executes; ``elements``: of shape (accesses, lanes,
        copies, length of the vector).
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
        rows: list[Any] = [self.recent.get(name) for name in names]
        if any(values is None or values.shape != shape for values in rows):
            return None
        return np.stack(rows)

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

    def unwritten_bytes(self, kind: int, lanes: Lanes, places: Any, unwritten: Any, blank: Any) -> None:
        """A load has found bytes that hold nothing: an error when what was loaded is used.

        ``kind``: :data:`..memory_model.access.SHARED` or ``LOCAL``; ``lanes``: those of the load; ``places``: where each
        lane's bytes start; ``unwritten``: of each lane's bytes, which were never written, shape (n, bytes); ``blank``:
        the origins of those that somebody wrote with nothing; None where nobody did.
        """
        at = self.at + (np.arange(len(places)) // self.width if lanes is self.many else np.zeros(len(places), np.int64))
        origins = (kind << 60 | at << 32 | places)[:, None] + np.arange(unwritten.shape[1])
        self.unwritten.append((lanes, np.where(unwritten, origins, 0 if blank is None else blank)))


def _bare(name: str) -> str:
    """A register as the text has it."""
    return name.partition("@")[0]
