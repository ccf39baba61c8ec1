"""Instructions that work on registers alone: moves, integers, floats, conversions, predicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .machine import FULL, Machine, Step
from .program import Instruction, UnsupportedPtxError, Vector

_NUMPY: dict[str, Any] = {
    **{f"u{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"b{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype("f2"),
    "f32": np.dtype("f4"),
    "f64": np.dtype("f8"),
    "pred": np.dtype("?"),
}


def special(machine: Machine, name: str, lanes: Any) -> Any:
    """A special register of some lanes, or None when there is none of that name."""
    ids = machine.lane_ids(lanes)
    tid = ids % machine.threads
    table: dict[str, Callable[[], Any]] = {
        "%tid.x": lambda: tid,
        "%tid.y": lambda: tid * 0,
        "%tid.z": lambda: tid * 0,
        "%ntid.x": lambda: tid * 0 + machine.threads,
        "%laneid": lambda: tid % 32,
        "%warpid": lambda: tid // 32,
        "%cluster_ctarank": lambda: machine.rank_of(machine.cta_of(lanes)),
        "%cluster_nctarank": lambda: tid * 0 + machine.cluster_size,
    }
    if name in table:
        return table[name]().astype(np.uint32)
    kind, _, dim = name.partition(".")
    if kind == "%ctaid":
        return machine.blocks[machine.cta_of(lanes), "xyz".index(dim)].astype(np.uint32)
    if kind == "%nctaid":
        return (tid * 0 + machine.grid["xyz".index(dim)]).astype(np.uint32)
    return None


def value(machine: Machine, operand: Any, lanes: Any, type: str) -> Any:
    """An operand of some lanes, as an array (or scalar, for a constant) of a PTX type."""
    dtype = _NUMPY[type]
    text = str(operand)
    if text[0] in "-0123456789":
        if text[:2] in ("0f", "0F", "0d", "0D"):
            raw = int(text[2:], 16)
            return np.array(raw, np.uint32 if text[1] in "fF" else np.uint64).view("f4" if text[1] in "fF" else "f8")[
                ()
            ]
        number = int(text.rstrip("U"), 0)
        if dtype.kind == "f":
            return dtype.type(number)
        return np.array(number & ((1 << dtype.itemsize * 8) - 1), f"u{dtype.itemsize}").view(dtype)[()]
    if text[0] == "%":
        found = special(machine, text, lanes)
        raw = found if found is not None else machine.read(text, lanes)
    else:
        raw = machine.read(text, lanes) if text in machine.registers else address_of(machine, text, lanes)
    if type == "pred":
        return raw
    unsigned = np.dtype(f"u{dtype.itemsize}")
    return (raw if raw.dtype == unsigned else raw.astype(unsigned)).view(dtype)


def address_of(machine: Machine, name: str, lanes: Any) -> Any:
    """The address of a shared variable, in the window of each lane's CTA."""
    for variable, offset, _ in machine.shared.variables:
        if variable == name:
            rank = (
                machine.rank_of(machine.cta_of(lanes)) if machine.program.arch >= 90 or machine.cluster_size > 1 else 0
            )
            return (
                np.zeros(len(machine.lane_ids(lanes)), np.uint32) + machine.shared.base + offset + (rank << 24)
            ).astype(np.uint32)
    if name == "smem_pool":
        rank = machine.rank_of(machine.cta_of(lanes))
        return (machine.shared.base + (rank << 24)).astype(np.uint32)
    return machine.read(name, lanes)  # raises: not known


def bits(values: Any) -> Any:
    """The unsigned bits of a typed array."""
    values = np.asarray(values)
    return values if values.dtype.kind in "ub" else values.view(f"u{values.dtype.itemsize}")


def _simple(function: Callable[..., Any]) -> Callable[[Instruction], Step]:
    """An instruction ``d, a, b, ..`` that computes on its last type."""

    def compile(instruction: Instruction) -> Step:
        type = instruction.opcode[-1]
        destination, *sources = instruction.operands

        def step(machine: Machine, lanes: Any) -> None:
            operands = [value(machine, source, lanes, type) for source in sources]
            with np.errstate(all="ignore"):
                machine.write(str(destination), lanes, bits(canonical(function(*operands), type)))

        return step

    return compile


_CANONICAL_NAN = {"f16": 0x7FFF, "f32": 0x7FFFFFFF}
"""What every NaN result is in hardware: payloads are kept by moves, not by arithmetic (PTX ISA, "Floating-point")."""


def canonical(result: Any, type: str) -> Any:
    """A result with its NaNs as hardware makes them."""
    if type not in _CANONICAL_NAN:
        return result
    found = np.asarray(result)
    nan = np.array(_CANONICAL_NAN[type], f"u{found.dtype.itemsize}").view(found.dtype)
    return np.where(np.isnan(found), nan, found)


def _truncated_divide(a: Any, b: Any) -> Any:
    if np.asarray(a).dtype.kind == "f":
        return a / b
    quotient = np.abs(a) // np.abs(b) if np.asarray(a).dtype.kind == "i" else a // b
    return (
        np.where((a < 0) != (b < 0), -quotient, quotient).astype(np.asarray(a).dtype)
        if np.asarray(a).dtype.kind == "i"
        else quotient
    )


def _widened(type: str) -> np.dtype[Any]:
    dtype = _NUMPY[type]
    return np.dtype(f"{dtype.kind}{dtype.itemsize * 2}") if dtype.itemsize < 8 else dtype


def _multiply(add: bool) -> Callable[[Instruction], Step]:
    """``mul`` and ``mad``: ``.lo``, ``.wide``, and plain floats."""

    def compile(instruction: Instruction) -> Step:
        type, modes = instruction.opcode[-1], instruction.opcode[1:-1]
        wide, high = "wide" in modes, "hi" in modes
        destination, *sources = instruction.operands
        third = f"{type[0]}{int(type[1:]) * 2}" if wide else type

        def step(machine: Machine, lanes: Any) -> None:
            a, b = (value(machine, source, lanes, type) for source in sources[:2])
            with np.errstate(all="ignore"):
                if type[0] == "f":
                    product = a * b
                    result = product
                    if add:  # one rounding: exact in the next wider type for f16 and f32
                        c = value(machine, sources[2], lanes, type)
                        exact = np.longdouble if type == "f64" else np.float64
                        result = (np.asarray(a, exact) * b + c).astype(_NUMPY[type])
                else:
                    if wide or high:
                        a, b = np.asarray(a).astype(_widened(type)), np.asarray(b).astype(_widened(type))
                    result = a * b
                    if high:
                        result = (result >> int(type[1:])).astype(_NUMPY[type])
                    if add:
                        result = result + value(machine, sources[2], lanes, third)
            machine.write(str(destination), lanes, bits(canonical(result, type)))

        return step

    return compile


def _shift(left: bool) -> Callable[[Instruction], Step]:
    def compile(instruction: Instruction) -> Step:
        type = instruction.opcode[-1]
        destination, source, amount = instruction.operands
        width = _NUMPY[type].itemsize * 8

        def step(machine: Machine, lanes: Any) -> None:
            a = value(machine, source, lanes, type)
            by = np.asarray(value(machine, amount, lanes, "u32"))
            inside = np.minimum(by, width - 1).astype(np.asarray(a).dtype)
            result = a << inside if left else a >> inside
            if left or type[0] in "ub":
                result = np.where(by >= width, np.asarray(0, result.dtype), result)
            machine.write(str(destination), lanes, bits(result))

        return step

    return compile


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "neu": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}


def _setp(instruction: Instruction) -> Step:
    compare, type = _COMPARE[instruction.opcode[1]], instruction.opcode[-1]
    destination, left, right = instruction.operands

    def step(machine: Machine, lanes: Any) -> None:
        result = compare(value(machine, left, lanes, type), value(machine, right, lanes, type))
        machine.write(str(destination), lanes, np.broadcast_to(result, (len(machine.lane_ids(lanes)),)))

    return step


def _selp(instruction: Instruction) -> Step:
    type = instruction.opcode[-1]
    destination, yes, no, condition = instruction.operands

    def step(machine: Machine, lanes: Any) -> None:
        chosen = np.where(
            machine.read(str(condition), lanes), value(machine, yes, lanes, type), value(machine, no, lanes, type)
        )
        machine.write(str(destination), lanes, bits(chosen))

    return step


def _mov(instruction: Instruction) -> Step:
    type = instruction.opcode[-1]
    destination, source = instruction.operands

    def step(machine: Machine, lanes: Any) -> None:
        if isinstance(source, Vector):
            part = _NUMPY[type].itemsize * 8 // len(source.items)
            total: Any = 0
            for position, item in enumerate(source.items):
                total = total | (
                    value(machine, item, lanes, f"u{part}").astype(np.uint64) << np.uint64(position * part)
                )
            machine.write(str(destination), lanes, total)
        elif isinstance(destination, Vector):
            whole = value(machine, source, lanes, type).astype(np.uint64)
            part = _NUMPY[type].itemsize * 8 // len(destination.items)
            for position, item in enumerate(destination.items):
                machine.write(item, lanes, (whole >> np.uint64(position * part)) & np.uint64((1 << part) - 1))
        else:
            machine.write(str(destination), lanes, bits(value(machine, source, lanes, type)))

    return step


def _cvt(instruction: Instruction) -> Step:
    wanted, held = instruction.opcode[-2], instruction.opcode[-1]
    modes = instruction.opcode[1:-2]
    destination, source = instruction.operands

    def step(machine: Machine, lanes: Any) -> None:
        if held == "bf16":
            raw = value(machine, source, lanes, "u16").astype(np.uint32) << np.uint32(16)
            found: Any = raw.view("f4")
        else:
            found = value(machine, source, lanes, held)
        with np.errstate(all="ignore"):
            if wanted == "bf16":
                result: Any = _to_bfloat16(np.asarray(found, "f4"))
            elif held[0] == "f" and wanted[0] != "f":
                limits = np.iinfo(_NUMPY[wanted])
                whole = np.trunc(found) if "rzi" in modes else np.rint(found)
                result = np.clip(np.nan_to_num(whole, nan=0.0), limits.min, limits.max).astype(_NUMPY[wanted])
            else:
                result = canonical(np.asarray(found).astype(_NUMPY[wanted]), wanted)
        machine.write(str(destination), lanes, _extend(bits(result), result, machine, str(destination)))

    return step


def _extend(raw: Any, typed: Any, machine: Machine, destination: str) -> Any:
    """Sign-extend into a wider register, as ``cvt`` to a narrow signed type does."""
    width = machine.program.register_bits.get(destination, 0)
    if typed.dtype.kind == "i" and typed.dtype.itemsize * 8 < width:
        return typed.astype(f"i{width // 8}").view(f"u{width // 8}")
    return raw


def _to_bfloat16(values: Any) -> Any:
    raw = values.view(np.uint32)
    rounded = (raw + np.uint32(0x7FFF) + ((raw >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype(np.uint16)


def _cvta(instruction: Instruction) -> Step:
    destination, source = instruction.operands

    def step(machine: Machine, lanes: Any) -> None:
        machine.write(str(destination), lanes, value(machine, source, lanes, instruction.opcode[-1]))

    return step


def _bfe(instruction: Instruction) -> Step:
    destination, source, start, length = instruction.operands
    type = instruction.opcode[-1]

    def step(machine: Machine, lanes: Any) -> None:
        a = value(machine, source, lanes, type)
        at, count = (np.asarray(value(machine, x, lanes, "u32")) & 0xFF for x in (start, length))
        width = _NUMPY[type].itemsize * 8
        up = (width - np.minimum(count, width)).astype(a.dtype)
        shifted = np.left_shift(np.right_shift(bits(a), at.astype(bits(a).dtype)), bits(up)).view(a.dtype)
        machine.write(str(destination), lanes, bits(np.where(count == 0, a * 0, shifted >> up)))

    return step


def _bfi(instruction: Instruction) -> Step:
    destination, field, background, start, length = instruction.operands
    type = instruction.opcode[-1]

    def step(machine: Machine, lanes: Any) -> None:
        a, b = (value(machine, x, lanes, type).astype(np.uint64) for x in (field, background))
        at, count = (np.asarray(value(machine, x, lanes, "u32")).astype(np.uint64) for x in (start, length))
        mask = ((np.uint64(1) << count) - np.uint64(1)) << at
        machine.write(str(destination), lanes, (b & ~mask) | ((a << at) & mask))

    return step


def _prmt(instruction: Instruction) -> Step:
    destination, low, high, control = instruction.operands

    def step(machine: Machine, lanes: Any) -> None:
        both = value(machine, low, lanes, "u32").astype(np.uint64) | (
            value(machine, high, lanes, "u32").astype(np.uint64) << np.uint64(32)
        )
        chosen = np.asarray(value(machine, control, lanes, "u32")).astype(np.uint64)
        total: Any = np.zeros_like(both)
        for position in range(4):
            selector = (chosen >> np.uint64(4 * position)) & np.uint64(0xF)
            byte = (both >> ((selector & np.uint64(7)) * np.uint64(8))) & np.uint64(0xFF)
            sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
            byte = np.where(selector & np.uint64(8), sign, byte)
            total = total | (byte << np.uint64(8 * position))
        machine.write(str(destination), lanes, total)

    return step


def _exit(instruction: Instruction) -> Step:
    return lambda machine, lanes: machine.exit(FULL if len(machine.lane_ids(lanes)) == machine.count else lanes)


def _nothing(instruction: Instruction) -> Step:
    if instruction.opcode[0] == "bra":
        return lambda machine, lanes: None
    raise UnsupportedPtxError(f"PTX line {instruction.line}: '{instruction.text}' is not known")


HANDLERS: dict[str, Callable[[Instruction], Step]] = {
    "abs": _simple(np.abs),
    "add": _simple(lambda a, b: a + b),
    "and": _simple(lambda a, b: a & b),
    "bfe": _bfe,
    "bfi": _bfi,
    "bra": _nothing,
    "cvt": _cvt,
    "cvta": _cvta,
    "div": _simple(_truncated_divide),
    "exit": _exit,
    "fma": _multiply(add=True),
    "mad": _multiply(add=True),
    "max": _simple(lambda a, b: np.fmax(a, b) if np.asarray(a).dtype.kind == "f" else np.maximum(a, b)),
    "min": _simple(lambda a, b: np.fmin(a, b) if np.asarray(a).dtype.kind == "f" else np.minimum(a, b)),
    "mov": _mov,
    "mul": _multiply(add=False),
    "neg": _simple(lambda a: -a),
    "not": _simple(lambda a: ~a),
    "or": _simple(lambda a, b: a | b),
    "prmt": _prmt,
    "rem": _simple(lambda a, b: np.fmod(a, b)),
    "ret": _exit,
    "selp": _selp,
    "setp": _setp,
    "shl": _shift(left=True),
    "shr": _shift(left=False),
    "sub": _simple(lambda a, b: a - b),
    "xor": _simple(lambda a, b: a ^ b),
}
