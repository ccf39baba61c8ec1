"""The types that values compute in, and the instructions that convert from one type to another."""

from __future__ import annotations

from tilecopy_core.layout import DType
from tilecopy_core.ptx import PtxBuilder, Register

HALVES = ("float16", "bfloat16")
LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
"""The floats that compute, with the largest finite value of each."""


def computes(dtype: DType) -> bool:
    """Whether there is arithmetic on a type, and conversion from and to it."""
    return dtype.kind in "iu" or dtype.name in LARGEST


def range_of(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer type, or of bool."""
    bits = 1 if dtype.kind == "b" else dtype.bits
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)


def register_type(dtype: DType) -> str:
    """PTX type in which values of a dtype compute: 16-bit floats as f32, narrow ints as s32 or u32."""
    if dtype.kind == "f":
        return "f64" if dtype.bits == 64 else "f32"
    return f"{'s' if dtype.kind == 'i' else 'u'}{max(32, dtype.bits)}"


def made(ptx: PtxBuilder, type: str, opcode: str, *operands: object) -> Register:
    """A new register with the result of one instruction."""
    result = ptx.reg(type)
    ptx.instr(opcode, result, *operands)
    return result


def from_storage(ptx: PtxBuilder, raw: Register, dtype: DType) -> Register:
    """Return the value whose bits are stored, in the type that it computes in."""
    if dtype.name == "float16":
        return made(ptx, "b32", "cvt.f32.f16", made(ptx, "b16", "cvt.u16.u32", raw))
    if dtype.name == "bfloat16":
        return made(ptx, "b32", "shl.b32", raw, 16)
    return wrap(ptx, raw, dtype) if dtype.kind == "i" else raw


def to_storage(ptx: PtxBuilder, register: Register, dtype: DType) -> Register:
    """The bits that are stored for a computed value: rounded to the element type, in a 32- or 64-bit register."""
    if dtype.name in HALVES:
        half = made(ptx, "b16", "cvt.rn.f16.f32" if dtype.name == "float16" else "cvt.rn.bf16.f32", register)
        return made(ptx, "b32", "cvt.u32.u16", half)
    return register


def wrap(ptx: PtxBuilder, register: Register, dtype: DType) -> Register:
    """Integers narrower than 32 bits wrap around as their type does."""
    if dtype.kind not in "iu" or dtype.bits >= 32:
        return register
    sign = "s" if dtype.kind == "i" else "u"
    return made(ptx, "b32", f"cvt.{sign}32.{sign}{dtype.bits}", register)


def convert(ptx: PtxBuilder, register: Register, source: DType, wanted: DType) -> Register:
    """Return a value of one dtype converted to another, both in the types that they compute in."""
    have, want = register_type(source), register_type(wanted)
    if wanted.name in HALVES:
        return rounded(ptx, register if have == "f32" else _to_odd_single(ptx, register, have), wanted)
    if have != want:
        rounding = ""
        if want[0] == "f" and (have[0] != "f" or have > want):
            rounding = ".rn"
        elif have[0] == "f" and want[0] != "f":
            rounding = ".rzi"
        register = made(ptx, f"b{want[1:]}", f"cvt{rounding}.{want}.{have}", register)
    return wrap(ptx, register, wanted)


def rounded(ptx: PtxBuilder, register: Register, dtype: DType) -> Register:
    """What computes in f32 as the 16-bit float that it is stored as."""
    return from_storage(ptx, to_storage(ptx, register, dtype), dtype)


def _to_odd_single(ptx: PtxBuilder, register: Register, type: str) -> Register:
    """A number as the f32 nearer to zero, its last bit set where that is another: rounded once more, it is rounded once."""
    single = made(ptx, "b32", f"cvt.rz.f32.{type}", register)
    back = made(ptx, f"b{type[1:]}", f"cvt.{'' if type == 'f64' else 'rzi.'}{type}.f32", single)
    inexact = made(ptx, "b32", "selp.b32", 1, 0, made(ptx, "pred", f"setp.ne.{type}", register, back))
    return made(ptx, "b32", "or.b32", single, inexact)
