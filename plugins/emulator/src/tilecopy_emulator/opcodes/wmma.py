"""The instructions ``wmma``: a warp's matrix product with fragments of unspecified layout (PTX ISA 9.7.15.3 and .4).

On the emulator, slot ``s`` of lane ``t`` holds element ``(32 s + t) % elements`` of its matrix, row by row. Fragments of A and B with
more slots than elements hold some twice, because the ISA sets the number of registers. For the sums see :mod:`.products`.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from ..effects import modifiers_of
from ..machine.machine import Machine
from ..memory_model.access import AccessKind
from ..program import Instruction, Program
from .loads import data_address, names_of
from .operands import Handler, Lanes, Reader, Step, demand_count, reader, refuse, writer
from .products import Fragment, product

_SHAPES = {"m16n16k16": (16, 16, 16), "m8n32k16": (8, 32, 16), "m32n8k16": (32, 8, 16), "m16n16k8": (16, 16, 8)}
_SHAPES |= {"m8n8k4": (8, 8, 4)}
GRANULE_BYTES = 16
"""The granularity of a GPU's loads and stores of a matrix: its stride is a multiple, and the first address of a large fragment."""
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8, "s8": 1, "u8": 1, "s32": 4}


@attrs.frozen
class _Fragment:
    """A matrix in the registers of a warp.

    ``rows, columns``: of the matrix; ``type``: of its elements; ``registers``: number per lane; ``width``: PTX type of each.
    """

    rows: int
    columns: int
    type: str
    registers: int
    width: str

    @classmethod
    def of(cls, matrix: str, shape: str, type: str) -> _Fragment:
        """Return the fragment of matrix ``a``, ``b``, ``c`` or ``d`` for a shape such as ``m16n16k16``."""
        m, n, k = _SHAPES[shape]
        rows, columns = {"a": (m, k), "b": (k, n)}.get(matrix, (m, n))
        slots = 16 if type == "f16" and matrix in "ab" else rows * columns // 32
        per_register = 1 if type in ("tf32", "f32", "f64", "s32") else 4 // _BYTES[type]
        return cls(rows, columns, type, slots // per_register, "b64" if type == "f64" else "b32")

    @property
    def bytes(self) -> int:
        """The number of bytes of the fragment in each lane's registers."""
        return self.registers * int(self.width[1:]) // 8

    @property
    def once(self) -> Fragment:
        """The fragment with each matrix element once. A wmma fragment may hold an element in several register slots."""
        number = np.arange(self.rows * self.columns)
        return Fragment(self.rows, self.columns, self.type, number % 32, number // 32)

    def offsets(self, stride: Any, *, row_major: bool) -> Any:
        """Return each lane's memory offsets in elements, one per register slot. The shape is (slots, 32, clusters)."""
        slots = np.arange(self.bytes // _BYTES[self.type])
        elements = (32 * slots[:, None] + np.arange(32)) % (self.rows * self.columns)
        rows, columns = np.divmod(elements, self.columns)
        outer, inner = (rows, columns) if row_major else (columns, rows)
        return outer[:, :, None].astype(np.uint64) * stride + inner[:, :, None].astype(np.uint64)


_FragmentAccess = tuple[_Fragment, bool, AccessKind]


def _fragment_access(instruction: Instruction) -> _FragmentAccess:
    """Return the fragment of a load or store, whether it is row-major, and the access of each element."""
    opcode = instruction.opcode
    shape = next(part for part in opcode if part in _SHAPES)
    type = next(part for part in opcode if part in _BYTES)
    return _Fragment.of(opcode[2], shape, type), "row" in opcode, AccessKind(modifiers_of(opcode).space, _BYTES[type])


def _addresses(machine: Machine, lanes: Lanes, base: Any, stride: Any, moved: _FragmentAccess) -> Any:
    """Return the addresses of the elements in each slot, shape (slots, lanes, copies).

    The first must be a multiple of the fragment's bytes (PTX ISA, matrix storage for wmma). GPUs need only a multiple of
    16 bytes, so anything between is only a note.
    """
    fragment, row_major, access = moved
    first = machine.rows(base, lanes).astype(np.uint64)
    machine.demand_aligned(lanes, first, min(fragment.bytes, GRANULE_BYTES), "the matrix address {}")
    if (first % np.uint64(fragment.bytes)).any():
        machine.note(
            f"the PTX ISA requires a matrix address to be a multiple of {fragment.bytes} bytes, the fragment's size "
            f"per lane; GPUs need only a multiple of {GRANULE_BYTES} bytes"
        )
    warps, copies = len(first) // 32, max(first.shape[1], stride.shape[1])
    strides = machine.rows(stride, lanes).astype(np.uint64).reshape(warps, 32, -1)
    offsets = np.stack([fragment.offsets(stride, row_major=row_major) for stride in strides], axis=1)
    offsets = np.broadcast_to(offsets, (*offsets.shape[:3], copies)).reshape(len(offsets), len(first), copies)
    return first[None] + offsets * np.uint64(access.bytes)


def _stride(instruction: Instruction, program: Program, number: int, moved: _FragmentAccess) -> Reader:
    """Return how to read the stride in elements: an operand that is a multiple of 16 bytes (CUDA C++ guide), or that of a packed matrix."""
    if len(instruction.operands) > number:
        read = reader(instruction.operands[number], "u32", instruction, program)

        def stride(machine: Machine, lanes: Lanes) -> Any:
            elements = read(machine, lanes)
            distance = elements.astype(np.uint64) * np.uint64(moved[2].bytes)
            machine.demand_aligned(lanes, distance, GRANULE_BYTES, "the matrix stride of {} bytes")
            return elements

        return stride
    packed = np.full((1, 1), moved[0].columns if moved[1] else moved[0].rows, np.uint32)
    return lambda machine, lanes: packed


def _load(instruction: Instruction, program: Program) -> Step:
    demand_count(instruction, 2, 3)
    moved = fragment, _, access = _fragment_access(instruction)
    names = names_of(instruction.operands[0], fragment.registers, instruction)
    writers = [writer(name, fragment.width, instruction, program) for name in names]
    address = data_address(instruction.operands[1], access.space, instruction, program)
    stride = _stride(instruction, program, 2, moved)

    def step(machine: Machine, lanes: Lanes) -> None:
        machine.demand_full_warps(lanes, "wmma")
        places = _addresses(machine, lanes, address(machine, lanes), stride(machine, lanes), moved)
        if access.space[:6] == "shared":
            places = places.astype(np.uint32)
        slots = [machine.rows(machine.load(lanes, access, place), lanes) for place in places]
        raw = np.concatenate(np.broadcast_arrays(*slots), axis=-1)  # (lanes, copies, bytes of all slots)
        words = np.ascontiguousarray(raw).view(f"u{int(fragment.width[1:]) // 8}")
        for number, write in enumerate(writers):
            write(machine, lanes, words[..., number])

    return step


def _store(instruction: Instruction, program: Program) -> Step:
    demand_count(instruction, 2, 3)
    moved = fragment, _, access = _fragment_access(instruction)
    address = data_address(instruction.operands[0], access.space, instruction, program)
    names = names_of(instruction.operands[1], fragment.registers, instruction)
    readers = [reader(name, fragment.width, instruction, program) for name in names]
    stride = _stride(instruction, program, 2, moved)

    def step(machine: Machine, lanes: Lanes) -> None:
        machine.demand_full_warps(lanes, "wmma")
        places = _addresses(machine, lanes, address(machine, lanes), stride(machine, lanes), moved)
        if access.space[:6] == "shared":
            places = places.astype(np.uint32)
        values = machine.stack((read(machine, lanes) for read in readers), lanes, -1)
        raw = np.ascontiguousarray(values).view(np.uint8)
        for number, place in enumerate(places):
            machine.store(lanes, access, place, raw[..., number * access.bytes : (number + 1) * access.bytes])

    return step


def _mma(instruction: Instruction, program: Program) -> Step:
    opcode = instruction.opcode
    demand_count(instruction, 4)
    shape = next(part for part in opcode if part in _SHAPES)
    types = [part for part in opcode if part in _BYTES]
    if len(types) == 2:  # for f16, the opcode has only the types of the accumulators
        types = [types[0], "f16", "f16", types[1]]
    if len(types) != 4 or ("satfinite" in opcode and types[0] != "s32"):
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    if types[1] == "f64" and any(part in ("rz", "rm", "rp") for part in opcode):
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    of = [_Fragment.of(matrix, shape, type) for matrix, type in zip("dabc", types, strict=True)]
    groups = [names_of(operand, x.registers, instruction) for operand, x in zip(instruction.operands, of, strict=True)]
    writers = [writer(name, of[0].width, instruction, program) for name in groups[0]]
    readers = [
        [reader(name, x.width, instruction, program) for name in group]
        for x, group in zip(of[1:], groups[1:], strict=True)
    ]

    fragments = [x.once for x in of]

    def step(machine: Machine, lanes: Lanes) -> None:
        index = machine.demand_full_warps(lanes, "wmma")
        words = [machine.stack((read(machine, lanes) for read in reader), lanes) for reader in readers]
        a, b, c = (
            x.values(stack.reshape(len(stack), -1, 32, stack.shape[2]))
            for x, stack in zip(fragments[1:], words, strict=True)
        )
        bits = product(a, b.swapaxes(-1, -2), c, types[0], saturate="satfinite" in opcode)
        for write, values in zip(writers, fragments[0].words(bits), strict=True):
            write(machine, lanes, values.reshape(len(index), -1))

    return step


INSTRUCTIONS: dict[str, Handler] = {"wmma.load": _load, "wmma.store": _store, "wmma.mma": _mma}
