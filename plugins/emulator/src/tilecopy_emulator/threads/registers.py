"""The registers of a batch's threads, and the undefined bits of each register.

A register is an array of shape ``(U or 1, C or 1)``, not broadcast if all lanes or all copies have the same value.
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
from .async_operations import Operation, Pending
from .barriers import Barriers
from .launch import Launch
from .release_acquire import ReleaseAcquire
from .threads import FULL, Lanes, Threads

REGISTER_TYPES: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
ALL_BITS = np.uint64(2**64 - 1)


class Registers(Threads):
    """The threads of a batch, their registers and their synchronisation (see :class:`Threads`).

    ``flags``: clocks that strong accesses release; ``barriers``: of CTAs, warps and clusters; ``in_flight``: asynchronous
    operations in flight, by number; ``tolerant``: the instruction is executed again after its hazard was reported:
    unwritten values count as written, accesses as ordered; ``place_names``: functions from a byte of shared or local
    memory to its name; ``barrier_name``: a function from an actor of asynchronous operations to its name.
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
        """Return the name that messages use for the thread or mbarrier with a given actor number (see shadow.py)."""
        if actor < BARRIER_ACTOR:
            return self.name_of(actor, copy)
        return self.barrier_name(actor)

    def in_vain(self, at: int, pending: Pending, action: str, who: str = "") -> list[ReportedAccess]:
        """Return report entries for an operation in flight: its instruction, and a wait that does not cover it."""
        who, instructions = who or self.name_of(pending.lane), self.program.instructions
        waits = [self.report(instructions[pending.wait], who, "", relation=IN_VAIN)] if pending.wait >= 0 else []
        return [self.report(instructions[at], who, action), *waits]

    def read(self, name: str, lanes: Lanes) -> Any:
        """Return a register's values as unsigned bit patterns, in shape ``(lanes or 1, clusters or 1)``."""
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
            self.owned[name] = False  # the caller may keep the array, also as another register
            return values
        values = values[lanes]
        if group:
            self.recent[name] = values
        return values

    def _nothing_there(self, name: str, lanes: Lanes, known: Any) -> Any:
        """Raise the hazard for lanes that read an undefined register, or return the bits of a guess."""
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
        """Raise HazardError for a read of undefined bits. ``origins`` encodes where the undefined bits come from."""
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
        """Return a source's values with undefined bits as 0, each lane's mask of undefined bits, and their origins."""
        index = np.array(self.index(lanes))
        self.trial, self.missing, self.whence = 0, np.zeros(len(index), np.uint64), np.zeros(len(index), np.int64)
        try:
            return self.rows(read(self, index), index), self.missing, self.whence
        finally:
            self.trial = -1

    def sources(self, readers: Sequence[Any], lanes: Lanes) -> tuple[list[Any], Any]:
        """Return source operands for an instruction that may copy undefined bits to its results without a hazard.

        Returns:
            Their values, and None or (if some are undefined) the bits and origins of :meth:`peek` for each of them.
        """
        try:
            return [read(self, lanes) for read in readers], None
        except HazardError as nothing:
            if nothing.kind != "poison":
                raise
            reads = [self.peek(read, lanes) for read in readers]
            return [values for values, _, _ in reads], [(missing, whence) for _, missing, whence in reads]

    def is_fresh(self, whence: Any) -> bool:
        """Return True if the current instruction reads a register that was never written."""
        return bool((whence >> 32 == (REGISTER << 28 | self.at)).any())

    def _restore(self, name: str, values: Any, defined: Any) -> None:
        """Restore a register."""
        if values is None:
            self.registers.pop(name, None)
            self.defined.pop(name, None)
            return
        self.registers[name], self.owned[name] = values, False
        self.defined[name] = None if defined is None else defined.copy()

    def spill(self, name: str) -> None:
        """Merge the running lanes' values of a register into the array of all lanes."""
        values = self.recent.pop(name)
        self.changed.discard(name)
        self._merge(name, self.lanes, values)

    def _let_go(self, name: str) -> None:
        """Drop the running group's copy of a register, and merge its changes with the other lanes' values."""
        if name in self.changed:
            self.spill(name)
        else:
            self.recent.pop(name, None)

    def spill_all(self) -> None:
        """Merge the running lanes' values of every register into the arrays of all lanes."""
        for name in list(self.changed):
            self.spill(name)
        self.recent.clear()

    def write(self, name: str, lanes: Lanes, values: Any) -> None:
        """Set a register. Values are truncated to the register's width. The caller's arrays are not modified."""
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
        """If all running lanes execute the instruction, set several registers and return True. Otherwise return False.

        ``names``: registers, as wide as the elements; ``lanes``: that execute; ``elements``: of shape (accesses, lanes,
        copies, length of the vector).
        """
        if lanes is not self.lanes or lanes is FULL:
            return False
        self.recent.update(zip(names, elements.transpose(0, 3, 1, 2).reshape(-1, *elements.shape[1:3]), strict=True))
        self.changed.update(names)
        return True

    def read_many(self, names: list[str], lanes: Lanes) -> Any:
        """Return the stacked values of registers. Return None if the running lanes have not cached all of them."""
        if lanes is not self.lanes or lanes is FULL:
            return None
        shape = (len(lanes), self.copies)
        rows: list[Any] = [self.recent.get(name) for name in names]
        if any(values is None or values.shape != shape for values in rows):
            return None
        return np.stack(rows)

    def undefine(self, name: str, lanes: Lanes, whence: Any = 0, bits: Any = ALL_BITS) -> None:
        """Mark bits of a register as undefined. The report of a later use describes the origin ``whence``."""
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
        """Record unwritten bytes that a load read. A later use of the loaded value is a hazard.

        ``kind``: :data:`..memory_model.access.SHARED` or ``LOCAL``; ``lanes``: those of the load; ``places``: the start of
        each lane's bytes; ``unwritten``: True for bytes that were never written, shape (n, bytes); ``blank``: the
        origins of bytes that were written with undefined values, or None.
        """
        at = self.at + (np.arange(len(places)) // self.width if lanes is self.many else np.zeros(len(places), np.int64))
        origins = (kind << 60 | at << 32 | places)[:, None] + np.arange(unwritten.shape[1])
        self.unwritten.append((lanes, np.where(unwritten, origins, 0 if blank is None else blank)))


def _bare(name: str) -> str:
    """Return the name of a register as in the text."""
    return name.partition("@")[0]
