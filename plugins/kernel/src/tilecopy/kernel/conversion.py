"""Types in which run-time values are computed, and the instructions that convert between types."""

from __future__ import annotations

import struct

from tilecopy_core.layout import DType
from tilecopy_core.ptx import Operand, PtxBuilder, Register

HALVES = ("float16", "bfloat16")
LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
"""The floating-point types with arithmetic -> the largest finite value of each."""
FLOAT8 = {"float8_e4m3fn": ("e4m3x2", 464.0), "float8_e5m2": ("e5m2x2", 61439.99609375)}
"""The 8-bit floats -> the PTX type of a pair of them, and the largest float32 that is rounded to a finite value."""
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000}


def computes(dtype: DType) -> bool:
    """Return True if a type supports arithmetic."""
    return (dtype.kind in "iu" and dtype.bits >= 8) or dtype.name in LARGEST


def converts(dtype: DType) -> bool:
    """Return True if values can be converted to and from a type."""
    return computes(dtype) or dtype.name in FLOAT8


def range_of(dtype: DType) -> tuple[int, int]:
    """Return the smallest and largest value of an integer type, or of bool."""
    bits = 1 if dtype.kind == "b" else dtype.bits
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)


def register_type(dtype: DType) -> str:
    """Return the PTX type in which values of a dtype are computed: f32 for 16-bit floats, s32 or u32 for narrow integers."""
    if dtype.kind == "f":
        return "f64" if dtype.bits == 64 else "f32"
    return f"{'s' if dtype.kind == 'i' else 'u'}{max(32, dtype.bits)}"


def emit(ptx: PtxBuilder, type: str, opcode: str, *operands: Operand) -> Register:
    """Write one instruction and return the new register with its result."""
    result = ptx.reg(type)
    ptx.instr(opcode, result, *operands)
    return result


def lesser(ptx: PtxBuilder, type: str, left: Register, right: Operand, *, greater: bool = False) -> Register:
    """Return the smaller of two integers of a type such as ``s32``, or the larger if ``greater``.

    For 32 bits it is a comparison and a selection. ptxas 13.0 and drivers of its time combine two nested minima on sm_90
    into one instruction with three operands and lose the sign of a negated second operand (docs/design.md).
    """
    if type[1:] == "64":
        return emit(ptx, "b64", f"{'max' if greater else 'min'}.{type}", left, right)
    chosen = emit(ptx, "pred", f"setp.{'gt' if greater else 'lt'}.{type}", left, right)
    return emit(ptx, "b32", "selp.b32", left, right, chosen)


def constant(number: float, type: str) -> str:
    """Return a number as a PTX literal of the given type."""
    if type == "f32":
        return "0f" + struct.pack(">f", number).hex().upper()
    if type == "f64":
        return "0d" + struct.pack(">d", number).hex().upper()
    return str(int(number))


def from_storage(ptx: PtxBuilder, raw: Register, dtype: DType) -> Register:
    """Convert a loaded value to its compute type, or return the raw bits if the dtype has no arithmetic."""
    if dtype.name == "float16":
        return emit(ptx, "b32", "cvt.f32.f16", emit(ptx, "b16", "cvt.u16.u32", raw))
    if dtype.name == "bfloat16":
        return emit(ptx, "b32", "shl.b32", raw, 16)
    return wrap(ptx, raw, dtype) if dtype.kind == "i" else raw


def to_storage(ptx: PtxBuilder, register: Register, dtype: DType) -> Register:
    """Return a 32- or 64-bit register with the bits to store for a computed value, rounded to the element type."""
    return _half(ptx, register, dtype, "rn") if dtype.name in HALVES else register


def _half(ptx: PtxBuilder, register: Register, dtype: DType, rounding: str) -> Register:
    type = "f16" if dtype.name == "float16" else "bf16"
    return emit(ptx, "b32", "cvt.u32.u16", emit(ptx, "b16", f"cvt.{rounding}.{type}.f32", register))


def wrap(ptx: PtxBuilder, register: Register, dtype: DType) -> Register:
    """Return an integer wrapped to the range of its dtype. Integers of 32 bits or more are returned unchanged."""
    if dtype.kind not in "iu" or dtype.bits >= 32:
        return register
    sign = "s" if dtype.kind == "i" else "u"
    return emit(ptx, "b32", f"cvt.{sign}32.{sign}{dtype.bits}", register)


def convert(
    ptx: PtxBuilder, register: Register, source: DType, wanted: DType, rounding: str, saturate: bool
) -> Register:
    """Convert a value to the dtype ``wanted``. For a 16-bit float or float8, return the bits to store."""
    have, want = register_type(source), register_type(wanted)
    if source.name in FLOAT8:
        pair = emit(ptx, "b32", f"cvt.rn.f16x2.{FLOAT8[source.name][0]}", emit(ptx, "b16", "cvt.u16.u32", register))
        register = emit(ptx, "b32", "cvt.f32.f16", emit(ptx, "b16", "cvt.u16.u32", pair))
    clamps = saturate and _reaches_past(source, wanted)
    if narrow(wanted):
        single = register if have == "f32" else _round_to_odd_f32(ptx, register, have)
        if wanted.name in FLOAT8:
            return _float8(ptx, single, wanted, saturate)
        exact = source.bits == 8  # any rounding gives the same, and older targets have only this one
        bits = _half(ptx, single, wanted, "rn" if exact else rounding)
        return _finite(ptx, bits, wanted) if clamps else bits
    if wanted.kind != "f" and clamps:
        mode = f".{rounding}i" if source.kind == "f" else ".sat"  # a float is clamped without .sat
        return emit(ptx, f"b{want[1:]}", f"cvt{mode}.{want[0]}{wanted.bits}.{have}", register)
    if have != want:
        mode = ""
        if want[0] == "f" and (have[0] != "f" or have > want):
            mode = f".{rounding}"
        elif have[0] == "f" and want[0] != "f":
            mode = f".{rounding}i"
        register = emit(ptx, f"b{want[1:]}", f"cvt{mode}.{want}.{have}", register)
    return _finite(ptx, register, wanted) if wanted.kind == "f" and clamps else wrap(ptx, register, wanted)


def narrow(dtype: DType) -> bool:
    """Return True for 16-bit floats and float8. A cast to such a dtype returns the bits to store."""
    return dtype.name in HALVES or dtype.name in FLOAT8


def _reaches_past(source: DType, wanted: DType) -> bool:
    """Return True if a type has values outside the range of another."""
    if wanted.kind == "f":
        largest = LARGEST.get(source.name, 0.0) if source.kind == "f" else range_of(source)[1]
        return largest > LARGEST[wanted.name] if wanted.name in LARGEST else True
    if source.kind == "f":
        return True
    (low, high), (least, most) = range_of(source), range_of(wanted)
    return low < least or high > most


def _float8(ptx: PtxBuilder, single: Register, dtype: DType, saturate: bool) -> Register:
    """Return the bits of an f32 converted to an 8-bit float. A value that is too large becomes infinity, or NaN without infinity."""
    type, largest = FLOAT8[dtype.name]
    pair = emit(ptx, "b16", f"cvt.rn.satfinite.{type}.f32", constant(0.0, "f32"), single)
    bits = emit(ptx, "b32", "cvt.u32.u16", pair)
    if saturate:
        return bits
    size = emit(ptx, "b32", "abs.f32", single)
    past = emit(ptx, "pred", "setp.gt.f32", size, constant(largest, "f32"))
    return emit(ptx, "b32", "add.u32", bits, emit(ptx, "b32", "selp.b32", 1, 0, past))


def _finite(ptx: PtxBuilder, bits: Register, dtype: DType) -> Register:
    """Return the bits of a float, with infinity replaced by the largest finite value of the same sign."""
    infinity = _INFINITY[dtype.name]
    size = emit(ptx, "b32", "and.b32", bits, 0x7FFFFFFF if dtype.bits == 32 else 0x7FFF)
    infinite = emit(ptx, "pred", "setp.eq.u32", size, infinity)
    return emit(ptx, "b32", "sub.u32", bits, emit(ptx, "b32", "selp.b32", 1, 0, infinite))


def _round_to_odd_f32(ptx: PtxBuilder, register: Register, type: str) -> Register:
    """Return a number rounded to odd as an f32, so that a second rounding gives the result of a single one."""
    single = emit(ptx, "b32", f"cvt.rz.f32.{type}", register)
    back = emit(ptx, f"b{type[1:]}", f"cvt.{'' if type == 'f64' else 'rzi.'}{type}.f32", single)
    inexact = emit(ptx, "b32", "selp.b32", 1, 0, emit(ptx, "pred", f"setp.ne.{type}", register, back))
    return emit(ptx, "b32", "or.b32", single, inexact)
