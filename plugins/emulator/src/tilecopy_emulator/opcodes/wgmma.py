"""The instructions ``wgmma`` for matrix products of a warpgroup (PTX ISA 9.7.16).

A product is computed when the last warp of the warpgroup issues it. No program can see that: until a wait covers it, any access
of another instruction to its registers is a hazard, and so is any write to its operands in shared memory. After the wait of one
warp, the whole product is complete. Its reads are ordered by a clock column of the warpgroup, as with an mbarrier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

from ..machine.machine import Machine
from ..memory_model.clocks import BARRIER_COLUMNS
from ..memory_model.shadow import BARRIER_ACTOR
from ..program import Braces, Instruction, Program, names_in
from ..threads.async_operations import Operation, Pending, completes_late, in_group
from ..threads.threads import WARPGROUP
from .loads import immediate, names_of
from .matrix_descriptors import UNIT, WGMMA, Descriptor, matrix_of, operand_in_shared
from .operands import Handler, Lanes, Reader, Step, Writer, constant_bits, is_constant, reader, refuse, writer
from .products import ELEMENT_BITS, Fragment, operand, product, total

_ROWS = 64


@attrs.define(eq=False)
class _Product:
    """A product for which not all of its warps have waited.

    ``operation``: in the engines, until the first wait that covers it; ``accumulators``: the registers of its result,
    in order; ``type``: of their values; ``names``: those registers, and those of A; ``lanes``: of the warpgroup;
    ``open``: the lanes of the unit that have not waited; ``group``: number of each lane's group with it; ``done``: the
    time of its completion.
    """

    operation: Operation
    accumulators: tuple[str, ...]
    type: str
    names: frozenset[str]
    lanes: Any
    open: Any
    group: Any
    done: int = 0


class Warpgroups:
    """The pending ``wgmma.mma_async`` of a batch's warpgroups, and the last uses of registers by other instructions."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.now = 0
        self.fenced, self.committed = np.zeros(machine.units, np.int64), np.zeros(machine.units, np.int64)
        self.touched: dict[str, Any] = {}
        self.in_flight: list[_Product] = []
        self.columns: dict[tuple[int, int], int] = {}

    @classmethod
    def of(cls, machine: Machine) -> Warpgroups:
        """Return the :class:`Warpgroups` of a batch. The first call creates the object."""
        if machine.warpgroups is None:
            machine.warpgroups = cls(machine)
        warpgroups: Warpgroups = machine.warpgroups
        return warpgroups

    def expand(self, copies: int, unit: int, ctas: int, made: dict[tuple[int, int], Operation]) -> None:
        """Replicate the pending operations for every cluster of the batch."""
        self.fenced, self.committed = np.tile(self.fenced, copies), np.tile(self.committed, copies)
        self.touched = {name: np.tile(times, copies) for name, times in self.touched.items()}
        self.columns = {(cta + c * ctas, group): n for (cta, group), n in self.columns.items() for c in range(copies)}
        in_flight, self.in_flight = self.in_flight, []
        for mma in in_flight:
            for copy in range(copies):
                still_open = np.zeros(unit * copies, bool)
                still_open[copy * unit : (copy + 1) * unit] = mma.open
                operation = made.get((mma.operation.number, copy), mma.operation)
                lanes, group = mma.lanes + copy * unit, np.tile(mma.group, copies)
                new = attrs.evolve(mma, operation=operation, lanes=lanes, open=still_open, group=group)
                self.in_flight.append(new)

    def column(self, first: int) -> tuple[int, int]:
        """Return the CTA of a lane's warpgroup, and the warpgroup's column in the CTA's vector clocks."""
        machine = self.machine
        key = int(machine.cta_of[first]), first % machine.threads // WARPGROUP
        if key not in self.columns:
            self.columns[key] = machine.mbarriers.new_column(key[0])
            machine.mbarriers.products.add((key[0], self.columns[key]))
        return key[0], self.columns[key]

    def demand_idle(self, lanes: Any, names: Iterable[str], what: str, *, a: bool = False, type: str = "") -> None:
        """Raise a hazard if a ``wgmma.mma_async`` in flight uses one of the registers ``names``.

        ``lanes``: of the registers; ``names``: registers; ``what``: the verb of the use; ``a``: True if another product
        reads them as A, which several may do; ``type``: of their values if they are accumulators of another product,
        which several may share.
        """
        for mma in self.in_flight:
            shared = mma.names.intersection(names).intersection(mma.accumulators if a else names)
            if not shared or not mma.open[lanes].any() or (mma.accumulators, mma.type) == (names, type):
                continue
            name = min(shared).partition("@")[0]
            position = int(np.argmax(mma.open[lanes]))
            pending = self._lack(mma, int(lanes[position]))
            instruction = self.machine.program.instructions[mma.operation.at]
            self.machine.hazard(
                "async", f"register {name} is {what} while wgmma.mma_async of PTX line {instruction.line} is in flight: {pending.lack}",
                lanes, position, remedy=pending.remedy, met=self.machine.in_vain(mma.operation.at, pending, ""),
            )  # fmt: skip

    def _lack(self, product: _Product, lane: int) -> Pending:
        newer = int(self.committed[lane]) - int(product.group[lane]) - 1
        return in_group(lane, "wgmma", newer, product.operation)

    def why_in_flight(self, operation: Operation, _: int) -> Pending:
        """Return the reason why a ``wgmma.mma_async`` is still in flight."""
        return next(self._lack(mma, operation.lane) for mma in self.in_flight if mma.operation is operation)

    def touch(self, lanes: Lanes, names: frozenset[str]) -> None:
        """Record an instruction's use of registers. Check that no ``wgmma.mma_async`` in flight uses the registers."""
        index = self.machine.index(lanes)
        self.demand_idle(index, names, "used")
        for name in names:
            times = self.touched.setdefault(name, np.zeros(self.machine.units, np.int64))
            times[index] = self.now

    def demand_fence(self, lanes: Any, names: Iterable[str]) -> None:
        """Raise a hazard if another instruction used the registers after the last ``wgmma.fence``."""
        fenced, demand = self.fenced[lanes], self.machine.hazard_where
        demand(fenced == 0, "proxy", "a wgmma.fence is missing before the first wgmma.mma_async", lanes)
        for name in names:
            what = f"register {name.partition('@')[0]} was used after the last wgmma.fence: add a wgmma.fence"
            demand(name in self.touched and self.touched[name][lanes] >= fenced, "proxy", what, lanes)

    def fence(self, lanes: Any) -> None:
        """Execute ``wgmma.fence``."""
        self.now += 1
        self.fenced[lanes] = self.now

    def commit(self, lanes: Any) -> None:
        """Execute ``wgmma.commit_group``."""
        self.committed[lanes] += 1

    def wait(self, lanes: Any, newest: int) -> None:
        """Execute ``wgmma.wait_group``: at most ``newest`` groups of each lane stay in flight."""
        machine = self.machine
        waiting = np.zeros(machine.units, bool)
        waiting[lanes] = True
        for mma in self.in_flight:
            ready = mma.lanes[(waiting & mma.open & (mma.group < self.committed - newest))[mma.lanes]]
            if not len(ready):
                if len(missed := mma.lanes[waiting[mma.lanes]]):
                    newer = int((self.committed - mma.group)[missed].min()) - 1
                    mma.operation.waited, mma.operation.newer_at_wait = machine.at, newer
                continue
            cta, column = self.column(int(mma.lanes[0]))
            if not mma.done:
                mma.done = machine.launch.time.now
                machine.engines.done(mma.operation, BARRIER_ACTOR | (cta * BARRIER_COLUMNS + column))
            machine.order.learn(cta, ready - cta * machine.threads, machine.order.completion(column, mma.done))
            mma.open[ready] = False
        self.in_flight = [mma for mma in self.in_flight if mma.open.any()]
        machine.launch.time.now += 1
        machine.launch.version += 1

    def leaving(self, ending: Any) -> None:
        """Check that exiting lanes have waited for their ``wgmma.mma_async`` operations."""
        for mma in self.in_flight:
            position = int(np.argmax(mma.open[ending]))
            if mma.open[ending][position]:
                self.machine.hazard(
                    "lifetime", f"the thread exits while this wgmma.mma_async is in flight: {self._lack(mma, int(ending[position]))}",
                    ending, position, at=mma.operation.at,
                )  # fmt: skip


@attrs.frozen(eq=False)
class _Mma:
    """One ``wgmma.mma_async`` of a program.

    ``result``: fragment, names, readers and writers of the accumulators; ``a``: fragment, names and readers of A in
    registers, or the reader of its descriptor; ``b``: reader of B's descriptor; ``accumulates``: reader of the
    predicate; ``signs``: of A and B; ``transposed``: whether M and N are contiguous in A and B in shared memory;
    ``types``: of A and B; ``n, k``: of its shape; ``saturate``: see :func:`product`.
    """

    result: tuple[Fragment, tuple[str, ...], list[Reader], list[Writer]]
    a: tuple[Fragment, tuple[str, ...], list[Reader]] | Reader
    b: Reader
    accumulates: Reader
    signs: tuple[int, int]
    transposed: tuple[bool, bool]
    types: tuple[str, str]
    n: int
    k: int
    saturate: bool

    def deciding(self, machine: Machine, lanes: Lanes) -> list[Any]:
        """Return the operands that must be the same in every lane: descriptors and the predicate."""
        readers = [self.b, self.accumulates, *([] if isinstance(self.a, tuple) else [self.a])]
        return [machine.uniform(read(machine, lanes), lanes) for read in readers]


def _mma(instruction: Instruction, program: Program) -> Step:
    opcode, operands = instruction.opcode, list(instruction.operands)
    shape = re.fullmatch(r"m64n(\d+)k(\d+)", opcode[4]) if opcode[2:4] == ("sync", "aligned") else None
    types = tuple(part for part in opcode[5:] if part in ELEMENT_BITS)
    if shape is None or len(types) != 3:
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    n, k = map(int, shape.groups())
    from_registers = any(isinstance(source, Braces) for source in operands[1:2])
    floats, halves = types[0] != "s32", types[1] in ("f16", "bf16")
    count = 4 + 2 * floats + halves * (2 - from_registers)
    if len(operands) != count:
        raise refuse(instruction, f"the instruction takes {count} operands, got {len(operands)}")
    numbers = [_number(source, instruction) for source in operands[4:]]
    signs = numbers[:2] if floats else [1, 1]
    transposed = [0] * (2 - len(numbers[2:])) + numbers[2:]
    if not {*signs} <= {1, -1} or not {*transposed} <= {0, 1}:
        raise refuse(instruction, f"scales must be 1 or -1, and transpose flags 0 or 1, got {numbers}")
    accumulators = total(_ROWS, n, types[0], 4)
    names = names_of(operands[0], accumulators.registers, instruction)
    kind = accumulators.register_type
    result = (
        accumulators, names, [reader(name, kind, instruction, program) for name in names],
        [writer(name, kind, instruction, program) for name in names],
    )  # fmt: skip
    a: Any
    if from_registers:
        fragment = operand(_ROWS, k, types[1], 4)
        a_names = names_of(operands[1], fragment.registers, instruction)
        a = fragment, a_names, [reader(name, "b32", instruction, program) for name in a_names]
    else:
        a = reader(operands[1], "b64", instruction, program)
    form = _Mma(
        result, a, reader(operands[2], "b64", instruction, program), reader(operands[3], "pred", instruction, program),
        (signs[0], signs[1]), (bool(transposed[0]), bool(transposed[1])), (types[1], types[2]), n, k,
        "satfinite" in opcode,
    )  # fmt: skip

    def step(machine: Machine, lanes: Lanes) -> None:
        form.deciding(machine, lanes)
        index = machine.index(machine.whole_warpgroups(lanes))
        for first in range(0, len(index), WARPGROUP):
            _issue(machine, index[first : first + WARPGROUP], form)

    return step


def _number(operand: Any, instruction: Instruction) -> int:
    if not is_constant(operand):
        raise refuse(instruction, f"scales and transpose flags must be constants, got '{operand}'")
    bits = constant_bits(operand, "s32", instruction)
    return bits - (bits >> 31 << 32)


def _issue(machine: Machine, lanes: Any, form: _Mma) -> None:
    groups, firsts, cta = Warpgroups.of(machine), lanes[::32], int(machine.cta_of[lanes[0]])
    deciding = form.deciding(machine, lanes)
    for values in deciding:
        what = "all threads of a warpgroup must have the same descriptors and predicate"
        machine.hazard_where(values != values[0], "aligned", what, lanes)
    b_word, accumulates, *a_words = (int(values[0]) for values in deciding)
    fragment, names, readers, writers = form.result
    groups.demand_fence(lanes, names)
    groups.demand_idle(lanes, names, "used as accumulator", type=fragment.type)
    used, reads = frozenset(names), np.zeros(0, np.int64)
    if isinstance(form.a, tuple):
        matrix, a_names, a_readers = form.a
        groups.demand_fence(lanes, a_names)
        groups.demand_idle(lanes, a_names, "read as A", a=True)
        used |= frozenset(a_names)
        a = matrix.values(machine.stack((read(machine, lanes) for read in a_readers), lanes)[:, None])[0]
    else:
        a, reads = _in_shared(machine, firsts, a_words[0], form, 0)
    b, cells = _in_shared(machine, firsts, b_word, form, 1)
    c: Any = np.zeros((1, _ROWS, form.n))
    if accumulates:
        c = fragment.values(machine.stack((read(machine, lanes) for read in readers), lanes)[:, None])[0]
    raw = product(a * form.signs[0], b * form.signs[1], c, fragment.type, saturate=form.saturate)
    raw = np.broadcast_to(raw, (machine.copies, *raw.shape[1:]))
    for write, words in zip(writers, fragment.words(raw[None]), strict=True):
        write(machine, lanes, words[0])
    operation = machine.engines.start(
        "wgmma.mma_async", int(lanes[0]), completes_late, "", explain=groups.why_in_flight,
        reads=np.union1d(reads, cells), ctas=(cta,),
    )  # fmt: skip
    machine.engines.begin(operation)
    still_open = np.zeros(machine.units, bool)
    still_open[lanes] = True
    groups.in_flight.append(_Product(operation, names, fragment.type, used, lanes, still_open, groups.committed.copy()))


def _in_shared(machine: Machine, firsts: Any, word: int, form: _Mma, which: int) -> tuple[Any, Any]:
    """Return A or B by its descriptor: values ``(copies, rows, k)``, and their cells."""
    descriptor, cta = Descriptor.read(machine, firsts[:1], word, WGMMA), int(machine.cta_of[firsts[0]])
    what: Any = ((_ROWS, form.n)[which], form.k, form.types[which])
    places, cells = operand_in_shared(machine, firsts, cta, descriptor, *what, mn_major=form.transposed[which])
    return matrix_of(machine.shared.fetch(places, UNIT), *what, mn_major=form.transposed[which]), cells


def _ordering(instruction: Instruction, program: Program) -> Step:
    kind, operands = instruction.opcode[1], instruction.operands
    if len(operands) != (kind == "wait_group"):
        raise refuse(instruction, f"the instruction takes {int(kind == 'wait_group')} operands, got {len(operands)}")
    newest = immediate(operands[0], instruction, "the number of groups") if operands else 0

    def step(machine: Machine, lanes: Lanes) -> None:
        groups, index = Warpgroups.of(machine), machine.index(machine.whole_warps(lanes))
        if not len(index):
            return
        if kind == "fence":
            groups.fence(index)
        elif kind == "commit_group":
            groups.commit(index)
        else:
            groups.wait(index, newest)

    return step


def watch(program: Program, steps: list[Step], lengths: list[int]) -> None:
    """Make each step that uses registers of a ``wgmma.mma_async`` check that this operation is not in flight."""
    instructions = program.instructions
    products = [mma for mma in instructions if mma.opcode[:2] == ("wgmma", "mma_async")]
    names = {name for mma in products for part in mma.operands[:2] if isinstance(part, Braces) for name in part.items}
    for at, step in enumerate(list(steps)) if names else ():
        covered = [other for other in instructions[at : at + lengths[at]] if other.opcode[0] != "wgmma"]
        used = frozenset(name for other in covered for part in other.operands for name in names_in(part)) & names
        if used:
            steps[at] = _telling(step, used)


def _telling(inner: Step, names: frozenset[str]) -> Step:
    def step(machine: Machine, lanes: Lanes) -> None:
        Warpgroups.of(machine).touch(lanes, names)
        inner(machine, lanes)

    return step


INSTRUCTIONS: dict[str, Handler] = {
    "wgmma.mma_async": _mma,
    **dict.fromkeys(("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"), _ordering),
}
