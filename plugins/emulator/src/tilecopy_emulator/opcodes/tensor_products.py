"""The instruction ``tcgen05.mma`` for dense matrices without block scales (PTX ISA 9.7.17.10).

D has row i of 128 in lane i, of 64 in lane ``i % 16 + 32 * (i // 16)``, and element j of any type in column j. A in tensor
memory has the same lanes, packed. A pair of CTAs (``cta_group::2``) computes 256 rows: each has half of the rows of A and D, and
half of B. Products of one thread with the same D run in order, and after its copies; they complete with their commit.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import attrs
import numpy as np

from ..machine.machine import Machine
from ..memory_model.shadow import in_flight_stamp
from ..program import Instruction, Memory, Program
from ..threads.async_operations import Operation, completes_late
from .loads import address_reader, immediate, names_of
from .matrix_descriptors import PADDED_BITS, TCGEN05, UNIT, Descriptor, matrix_of, operand_in_shared
from .operands import Handler, Lanes, Step, is_constant, reader, refuse
from .products import ELEMENT_BITS, product, values_of
from .tensor_memory import CELLS, COLUMNS, TensorMemory, result_of

_FLOATS = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
KINDS: dict[str, tuple[int, dict[int, str], dict[int, str]]] = {
    "kind::f16": (16, {0: "f16", 1: "bf16"}, {0: "f16", 1: "f32"}),
    "kind::tf32": (8, {2: "tf32"}, {1: "f32"}),
    "kind::f8f6f4": (32, _FLOATS, {0: "f16", 1: "f32"}),
    "kind::i8": (32, {0: "u8", 1: "s8"}, {2: "s32"}),
}
"""Kind -> K, the types of A and B, and the types of D, by their codes in the instruction descriptor."""
_RESERVED = 0xE0800047
"""Bits of the instruction descriptor that must be zero, among them sparsity and shifts."""
_NOT_KNOWN = ("sp", "ws", "block_scale", "ashift", "block16", "block32")
_PIPELINED = ("tcgen05.mma", "tcgen05.cp")


@attrs.frozen
class _MmaKind:
    """The fields of an instruction descriptor.

    ``m, n, k``: the shape; ``a, b, d``: the types; ``signs``: of A and B; ``transposed``: whether M and N are
    contiguous in A and B; ``saturates``: integers saturate on overflow; ``accumulates``: D
    is added; ``scale``: the factor of D.
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    signs: tuple[int, int]
    transposed: tuple[bool, bool]
    saturates: bool
    accumulates: bool = False
    scale: float = 1.0

    @classmethod
    def read(cls, machine: Machine, one: Any, word: int, kind: str, group: int) -> _MmaKind:
        """Check an instruction descriptor and return the descriptor's fields."""
        k, types, results = KINDS[kind]
        a, b = (types.get(word >> at & 7, "") for at in (7, 10))
        d, m, n = results.get(word >> 4 & 3, ""), (word >> 24 & 31) * 16, (word >> 17 & 63) * 8
        integers, bits = kind == "kind::i8", [word >> at & 1 for at in (3, 13, 14, 15, 16)]
        narrow = [major and type in PADDED_BITS for major, type in zip(bits[3:], (a, b), strict=True)]
        wanted = (64, 128) if group == 1 else (256,)
        step = 8 if m == 64 and not integers else 16
        for wrong, what in (
            (word & _RESERVED, f"reserved bits must be zero in a dense product, got 0x{word & _RESERVED:08x}"),
            (not (a and b and d), f"A, B and D must have valid types, got {a or '?'}, {b or '?'} and {d or '?'}"),
            (d == "f16" and "bf16" in (a, b), "D must not be f16 if A or B is bf16"),
            (m not in wanted, f"M must be {' or '.join(map(str, wanted))}, got {m}"),
            (
                not 8 <= n <= 256 or (n % step and not (integers and n in (8, 24))),
                f"N must be a multiple of {step} up to 256, got {n}",
            ),
            (bits[0] and not integers, "only integers saturate"),
            (integers and (bits[1] or bits[2]), "integers must not be negated: clear bits 13 and 14"),
            (any(narrow), "K must be contiguous for elements of 4 and 6 bits"),
        ):
            if wrong:
                machine.hazard("descriptor", f"instruction descriptor 0x{word:08x} is invalid for {kind}: {what}", one)
        signs = 1 - 2 * bits[1], 1 - 2 * bits[2]
        return cls(m // group, n, k, a, b, d, signs, (bool(bits[3]), bool(bits[4])), bool(bits[0]))

    def cells(self, cta: int, taddr: int, columns: int) -> Any:
        """Return the tensor-memory cells of the matrix at address ``taddr``, in shape ``(rows, columns)``."""
        row = np.arange(self.m)
        lane = row if self.m == 128 else row % 16 + 32 * (row // 16)
        return cta * CELLS + (lane[:, None] + (taddr >> 16)) * COLUMNS + (taddr & 0xFFFF) + np.arange(columns)

    def complete(self, machine: Machine, operation: Operation) -> None:
        """Compute the result matrix D, and write it to tensor memory."""
        data, memory, shared = operation.data, TensorMemory.of(machine), machine.shared
        one, cells = np.array([operation.lane]), data["cells"]
        if "cells_a" in data:
            memory.demand_upper(data["cells_a"], one, 0, operation.at)
            words = memory.words[data["cells_a"]]  # (rows, columns, copies)
            a = values_of(words.transpose(2, 0, 1), self.a).reshape(machine.copies, self.m, self.k)
        else:
            raw = shared.fetch(data["place_a"], UNIT)
            a = matrix_of(raw, self.m, self.k, self.a, mn_major=self.transposed[0])
        rows = self.n // len(data["place_b"])
        parts = [
            matrix_of(shared.fetch(places, UNIT), rows, self.k, self.b, mn_major=self.transposed[1])
            for places in data["place_b"]
        ]
        b = np.concatenate(parts, axis=1)
        c: Any = np.zeros((1, self.m, self.n))
        kept = data["kept_lanes"]
        if self.accumulates:
            accumulators = memory.words[cells].transpose(2, 0, 1)
            if self.d == "f16":
                accumulators = accumulators.astype(np.uint16)
            else:
                memory.demand_upper(cells[kept], one, 0, operation.at)
            c = values_of(accumulators, self.d)[..., 0] * self.scale
        raw = product(a * self.signs[0], b * self.signs[1], c, self.d, saturate=self.saturates)
        bits = np.broadcast_to(raw, (machine.copies, self.m, self.n)).transpose(1, 2, 0)
        memory.words[cells[kept]] = bits[kept]
        memory.low_alone[cells[kept]] = self.d == "f16"


def _mma(instruction: Instruction, program: Program) -> Step:
    opcode, operands = instruction.opcode, list(instruction.operands)
    kind = next((part for part in opcode if part in KINDS), "")
    if not kind or not {*_NOT_KNOWN}.isdisjoint(opcode):
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    group = 2 if "cta_group::2" in opcode else 1
    scale = 1.0
    if len(operands) > 5 and is_constant(operands[-1]) and kind in ("kind::f16", "kind::tf32"):
        scale = 2.0 ** -immediate(operands.pop(), instruction, "the scale of D")
    masks: list[Any] = []
    if len(operands) == 6:
        masks = [reader(x, "b32", instruction, program) for x in names_of(operands.pop(4), 4 * group, instruction)]
    if len(operands) != 5:
        raise refuse(instruction, f"expected D, A, B, idesc, optionally {4 * group} lane masks, and a predicate")
    target = address_reader(operands[0], instruction, program)
    in_tensor = isinstance(operands[1], Memory)
    descriptors = [reader(operand, "b64", instruction, program) for operand in operands[2 if in_tensor else 1 : 3]]
    readers = [target, *([address_reader(operands[1], instruction, program)] if in_tensor else []), *descriptors]
    readers += [reader(operands[3], "b32", instruction, program), reader(operands[4], "pred", instruction, program)]
    readers += masks

    def step(machine: Machine, lanes: Lanes) -> None:
        operand_values = [machine.uniform(read(machine, lanes), lanes) for read in readers]
        if group == 2 and machine.cluster_size % 2:
            machine.hazard("window", f"cta_group::2 needs an even cluster size, got {machine.cluster_size}", lanes)
        for position, lane in enumerate(machine.index(lanes).tolist()):
            taddr, a, b, word, accumulates, *masked = (int(values[position]) for values in operand_values)
            form = _MmaKind.read(machine, np.array([lane]), word, kind, group)
            form = attrs.evolve(form, accumulates=bool(accumulates), scale=scale)
            off = np.array([mask >> bit & 1 for mask in masked for bit in range(32)], bool)
            _issue(machine, lane, form, taddr, (a, b), off, group, in_tensor=in_tensor)

    return step


def _issue(
    machine: Machine, lane: int, form: _MmaKind, taddr: int, words: tuple[int, int], off: Any, group: int, *, in_tensor: bool
) -> None:  # fmt: skip
    memory, one, cta = TensorMemory.of(machine), np.array([lane]), int(machine.cta_of[lane])
    ctas = [cta] if group == 1 else [cta & ~1, cta | 1]
    right = Descriptor.read(machine, one, words[1], TCGEN05)
    what: Any = (form.n // group, form.k, form.b)
    b_parts = [operand_in_shared(machine, one, peer, right, *what, mn_major=form.transposed[1]) for peer in ctas]
    place_b, cells_b = np.stack([places for places, _ in b_parts]), np.concatenate([cells for _, cells in b_parts])
    earlier = [other for other in machine.in_flight.values() if other.lane == lane and other.kind in _PIPELINED]
    for number, peer in enumerate(ctas):
        cells = form.cells(peer, taddr, form.n)
        data: dict[str, Any] = {"product": form, "place_b": place_b, "cells": cells}
        after, same = (
            {in_flight_stamp(x.actor) for x in earlier if result_of(x.data) == result}
            | memory.completed_stamps.get((lane, result), set())
            for result in ((), result_of(data))
        )
        reads = cells_b
        if in_tensor:
            columns = form.k * ELEMENT_BITS[form.a] // 32
            data["cells_a"] = _touch(machine, one, peer, form, words[0], columns, "read", after)
        else:
            where = Descriptor.read(machine, one, words[0], TCGEN05)
            what = (form.m, form.k, form.a)
            data["place_a"], cells_a = operand_in_shared(machine, one, peer, where, *what, mn_major=form.transposed[0])
            reads = np.union1d(reads, cells_a)
        lanes = cells[:, 0] % CELLS // COLUMNS + 128 * number
        data["kept_lanes"] = ~off[lanes] if len(off) else np.ones(form.m, bool)
        for action in ("read", "written") if form.accumulates else ("written",):
            _touch(machine, one, peer, form, taddr, form.n, action, after | same, data["kept_lanes"])
        operation = machine.engines.start(
            "tcgen05.mma", lane, completes_late, "a tcgen05.commit of the issuing thread and a wait for the commit are missing",
            reads=np.unique(reads), ctas=tuple(ctas), data=data,
        )  # fmt: skip
        machine.engines.begin(operation)
        memory.shadow.begin(
            operation.actor, data.get("cells_a", np.zeros(0, np.int64)).ravel(), cells[data["kept_lanes"]].ravel()
        )
        memory.copies.setdefault((lane, group), []).append(operation)


def _touch(
    machine: Machine, one: Any, cta: int, form: _MmaKind, taddr: int, columns: int, action: str, after: Set[int], kept: Any = True
) -> Any:  # fmt: skip
    """Return cells of tensor memory after checks that they are allocated and ordered."""
    memory, cells = TensorMemory.of(machine), form.cells(cta, taddr, columns)
    if taddr >> 16 not in ((0,) if form.m == 128 else (0, 16)):
        first = "0" if form.m == 128 else "0 or 16"
        machine.hazard("window", f"an operand of {form.m} rows must begin in lane {first}, got lane {taddr >> 16}", one)
    column, lanes = taddr & 0xFFFF, cells[[0, -1], 0] % CELLS // COLUMNS
    memory.inside(one, cta, column, column + columns - 1, (int(lanes[0]), int(lanes[1])))
    memory.touch(one, 0, int(one[0]), cells[kept] if kept is not True else cells, action, after=after)
    return cells


INSTRUCTIONS: dict[str, Handler] = {"tcgen05.mma": _mma}
