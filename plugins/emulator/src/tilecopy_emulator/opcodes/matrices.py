"""The instructions ``ldmatrix``, ``stmatrix`` and ``movmatrix`` for matrices in the registers of a warp.

A matrix has rows of 16 bytes in shared memory; lane ``rows * j + r`` has the address of row ``r`` of matrix ``j``. :data:`_FORMS`
has the layouts of elements in registers. Source: PTX ISA 9.7.14.5.15 to .17, and CUTLASS for elements of 4 and 6 bits, which
become the low bits of a byte.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import attrs
import numpy as np

from ..machine.machine import Machine
from ..memory_model.access import AccessKind
from ..program import Instruction, Program
from .loads import names_of, origins_of, shared_address
from .operands import Handler, Lanes, Reader, Step, demand_count, reader, refuse, writer
from .products import layout

_ROW = AccessKind("shared", 16)
_FORMS = {  # rows, bytes of an element in a register, and the steps of a matrix's rows and elements over lanes and a lane's elements
    ("ldmatrix", "m8n8", False): (8, 2, ((8, 4, 0), (4, 1, 0), (2, 0, 1))),
    ("ldmatrix", "m8n8", True): (8, 2, ((4, 1, 0), (2, 0, 1), (8, 4, 0))),
    ("ldmatrix", "m16n16", True): (16, 1, ((4, 1, 0), (4, 0, 1), (2, 0, 4), (8, 4, 0))),
    ("ldmatrix", "m8n16", False): (8, 1, ((8, 4, 0), (4, 1, 0), (4, 0, 1))),
    ("stmatrix", "m8n8", False): (8, 2, ((8, 4, 0), (4, 1, 0), (2, 0, 1))),
    ("stmatrix", "m8n8", True): (8, 2, ((4, 1, 0), (2, 0, 1), (8, 4, 0))),
    ("stmatrix", "m16n8", True): (8, 1, ((4, 1, 0), (2, 0, 1), (2, 0, 2), (8, 4, 0))),
}
PACKED_BITS = {"b6x16_p32": 6, "b4x16_p64": 4}
"""Formats with 16 elements at the beginning of 16 bytes -> bits of an element."""


@attrs.frozen(eq=False)
class _Move:
    """The matrices of an instruction.

    ``tiles``: number of matrices; ``rows``: of each; ``bytes``: of an element; ``packed``: bits of an element in shared
    memory, if it is narrower there, else 0; ``lane, element``: of each element of all matrices, row by row.
    """

    tiles: int
    rows: int
    bytes: int
    packed: int
    lane: Any
    element: Any

    @property
    def registers(self) -> int:
        """The number of 32-bit registers per lane."""
        return len(self.lane) * self.bytes // 128

    def to_lanes(self, rows: Any) -> Any:
        """Convert matrix rows of shape (rows, clusters, elements) to lane values (lanes, clusters, elements)."""
        copies = rows.shape[1]
        flat = rows.reshape(-1, self.tiles * self.rows, copies, rows.shape[2]).swapaxes(2, 3)
        elements = np.empty((len(flat), 32, len(self.lane) // 32, copies), rows.dtype)
        elements[:, self.lane, self.element] = flat.reshape(len(flat), -1, copies)
        return np.ascontiguousarray(elements.swapaxes(2, 3)).reshape(-1, copies, elements.shape[2])

    def to_rows(self, lanes: Any) -> Any:
        """Convert lane values to matrix rows. This is the inverse of :meth:`to_lanes`."""
        copies = lanes.shape[1]
        elements = lanes.reshape(-1, 32, copies, lanes.shape[2])[:, self.lane, :, self.element]
        elements = elements.swapaxes(0, 1).reshape(elements.shape[1], self.tiles * self.rows, -1, copies)
        return np.ascontiguousarray(elements.swapaxes(2, 3)).reshape(-1, copies, elements.shape[2])


@lru_cache(maxsize=32)
def _form(name: str, shape: str, tiles: int, packed: int, *, trans: bool) -> _Move:
    rows, size, steps = _FORMS[name, shape, trans]
    elems_per_lane = rows * 16 // size // 32
    return _Move(tiles, rows, size, packed, *layout((tiles, 0, elems_per_lane), *steps))


def _form_of(instruction: Instruction) -> _Move:
    name, parts = instruction.opcode[0], set(instruction.opcode)
    shape = next((part for part in instruction.opcode if part[0] == "m" and part[1].isdigit()), "")
    trans, packed = "trans" in parts, next((bits for format, bits in PACKED_BITS.items() if format in parts), 0)
    if (name, shape, trans) not in _FORMS:
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    return _form(name, shape, next(count for count in (1, 2, 4) if f"x{count}" in parts), packed, trans=trans)


def _rows(machine: Machine, lanes: Lanes, form: _Move, addresses: Any) -> tuple[Any, Any]:
    """Return the lanes with the addresses of rows, and these addresses."""
    index = machine.demand_full_warps(lanes, "ldmatrix and stmatrix")
    addresses = machine.rows(addresses, lanes)
    if machine.program.arch <= 75:  # all addresses must be valid
        machine.shared.place(index, addresses, _ROW.bytes)
    giving = np.nonzero(machine.lane[index, 0] < form.rows * form.tiles)[0]
    return index[giving], addresses[giving]


def unpack(rows: Any, bits: int) -> Any:
    """Unpack rows of 16 elements from ``bits`` bits per element to one byte per element."""
    places = np.arange(16) * bits
    wide = rows[..., places // 8].astype(np.uint16) | rows[..., places // 8 + 1].astype(np.uint16) << 8
    return (wide >> places % 8 & (1 << bits) - 1).astype(np.uint8)


def _load(instruction: Instruction, program: Program) -> Step:
    form = _form_of(instruction)
    demand_count(instruction, 2)
    names = names_of(instruction.operands[0], form.registers, instruction)
    writers = [writer(x, "b32", instruction, program) for x in names]
    address = shared_address(instruction.operands[1], instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        who, addresses = _rows(machine, lanes, form, address(machine, lanes))
        raw = np.ascontiguousarray(machine.shared.load(who, _ROW, addresses))
        raw = unpack(raw, form.packed) if form.packed else raw
        words = form.to_lanes(raw.view(f"u{form.bytes}")).view(np.uint32)
        for number, write in enumerate(writers):
            write(machine, lanes, words[:, :, number])
        if machine.unwritten:
            ((_, origins),), machine.unwritten = machine.unwritten, []
            if form.packed:
                first = np.arange(16) * form.packed
                origins = np.maximum(origins[:, first // 8], origins[:, (first + form.packed - 1) // 8])
            elements = form.to_lanes(origins.reshape(len(who), 1, -1, form.bytes).max(axis=3))[:, 0]
            machine.poison_found(names, 4, lanes, np.repeat(elements, form.bytes, axis=1))

    return step


def _store(instruction: Instruction, program: Program) -> Step:
    form = _form_of(instruction)
    demand_count(instruction, 2)
    address = shared_address(instruction.operands[0], instruction, program)
    names = names_of(instruction.operands[1], form.registers, instruction)
    readers = [reader(x, "b32", instruction, program) for x in names]

    def step(machine: Machine, lanes: Lanes) -> None:
        who, addresses = _rows(machine, lanes, form, address(machine, lanes))
        elements, origins = _elements(machine, lanes, readers, form.bytes)
        raw = form.to_rows(elements).view(np.uint8)
        if origins is not None:
            origins = np.repeat(form.to_rows(origins[:, None])[:, 0], form.bytes, axis=1)
        machine.shared.store(who, _ROW, addresses, raw, origins)

    return step


def _elements(machine: Machine, lanes: Lanes, readers: list[Reader], size: int) -> tuple[Any, Any]:
    """Return elements of registers ``(lanes, copies, n)``, and the origins of undefined ones ``(lanes, n)``, or None."""
    values, lacking = machine.sources(readers, lanes)
    words = machine.stack(values, lanes, -1)
    origins = origins_of(lacking, 4)
    if origins is not None:
        origins = origins.reshape(len(words), -1, size).max(axis=2)
    return np.ascontiguousarray(words).view(f"u{size}"), origins


def _transpose(instruction: Instruction, program: Program) -> Step:
    demand_count(instruction, 2)
    name = str(instruction.operands[0])
    write = writer(name, "b32", instruction, program)
    readers = [reader(instruction.operands[1], "b32", instruction, program)]
    as_rows, as_columns = (_form("ldmatrix", "m8n8", 1, 0, trans=trans) for trans in (False, True))

    def step(machine: Machine, lanes: Lanes) -> None:
        index = machine.demand_full_warps(lanes, "movmatrix")
        elements, origins = _elements(machine, lanes, readers, as_rows.bytes)
        write(machine, lanes, as_columns.to_lanes(as_rows.to_rows(elements)).view(np.uint32)[:, :, 0])
        if origins is not None:
            elem_origins = as_columns.to_lanes(as_rows.to_rows(origins[:, None]))[:, 0]
            machine.poison_found((name,), 4, index, np.repeat(elem_origins, as_rows.bytes, axis=1))

    return step


INSTRUCTIONS: dict[str, Handler] = {"ldmatrix": _load, "stmatrix": _store, "movmatrix": _transpose}
