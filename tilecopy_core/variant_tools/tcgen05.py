"""What copies to and from tensor memory share (PTX ISA 9.7.16): descriptors, addresses, ``tcgen05.cp``."""

from __future__ import annotations

from ..errors import PtxError, checked, integer_in, one_of, shown
from ..integers.expr import INT, Int
from ..ptx.builder import BUILDER, PtxBuilder
from ..ptx.operands import ADDRESS, REGISTER, Address, Register

GROUPS = (1, 2)
"""Values of ``.cta_group``."""
SHAPES = ("128x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4", "4x256b")
"""Shapes of ``tcgen05.cp``."""


def group(cta_group: int) -> str:
    """The modifier ``.cta_group`` of an instruction, without its dot; raises PtxError for what is neither 1 nor 2."""
    if type(cta_group) is not int or cta_group not in GROUPS:
        raise PtxError(f"cta_group is 1 or 2, not {shown(cta_group)}")
    return f"cta_group::{cta_group}"


@checked(
    PtxError,
    ptx=BUILDER,
    start=ADDRESS,
    ldo=integer_in(0, 2**14 - 1),
    sdo=integer_in(0, 2**14 - 1),
    swizzle=integer_in(0, 6),
)
def matrix_descriptor(ptx: PtxBuilder, start: Address, ldo: int, sdo: int, swizzle: int) -> Register:
    """The 64-bit shared-memory matrix descriptor (PTX ISA 9.7.16.4.1), encoded once for equal arguments.

    Args:
        ptx: the builder.
        start: shared address of the first row.
        ldo: leading-dimension byte offset, in units of 16 bytes.
        sdo: stride-dimension byte offset, in units of 16 bytes.
        swizzle: the code: 0 none, 6 32B, 4 64B, 2 128B.
    """
    if start.align_bytes % 16:
        raise PtxError(
            f"matrix descriptor start {start}: proved to be a multiple of {start.align_bytes} bytes, not of 16"
        )
    if swizzle % 2:
        raise PtxError(f"no matrix descriptor has the swizzle code {swizzle}; the codes are 0, 2, 4 and 6")

    def encode() -> Register:
        at, unit, wide, result = ptx.reg("b32"), ptx.reg("b32"), ptx.reg("b64"), ptx.reg("b64")
        ptx.instr("add.s32", at, start.base, start.offset_bytes)
        ptx.instr("bfe.u32", unit, at, 4, 14)
        ptx.instr("cvt.u64.u32", wide, unit)
        ptx.instr("or.b64", result, wide, hex(ldo << 16 | sdo << 32 | 1 << 46 | swizzle << 61))
        return result

    return ptx.blocks[-1].once(("descriptor", start, ldo, sdo, swizzle), encode)


@checked(PtxError, ptx=BUILDER, holder=ADDRESS)
def allocated_address(ptx: PtxBuilder, holder: Address) -> Register:
    """The tensor-memory address that ``tcgen05.alloc`` wrote to ``holder``."""
    return ptx.load(holder, 32)[0]


@checked(PtxError, ptx=BUILDER, base=REGISTER, column=INT)
def plus_columns(ptx: PtxBuilder, base: Register, column: Int) -> Register:
    """A tensor-memory address some columns on."""
    if isinstance(column, int) and not 0 <= column < 512:
        raise PtxError(f"plus_columns: tensor memory has 512 columns; found column {shown(column)}")
    if isinstance(column, int) and column == 0:
        return base
    result = ptx.reg("b32")
    ptx.instr("add.s32", result, base, column if isinstance(column, int) else ptx.value(column))
    return result


@checked(PtxError, ptx=BUILDER, address=REGISTER, descriptor=REGISTER, shape=one_of(*SHAPES))
def cp(
    ptx: PtxBuilder, address: Register, descriptor: Register, cta_group: int = 1, shape: str = "32x128b.warpx4"
) -> None:
    """``tcgen05.cp``: the rows that a descriptor names to the lanes of a shape, such as ``4x256b``."""
    if descriptor.type != "b64" or address.type != "b32":
        raise PtxError(f"tcgen05.cp takes a 32-bit address and a 64-bit descriptor, not {address}, {descriptor}")
    ptx.instr(f"tcgen05.cp.{group(cta_group)}.{shape}", f"[{address}]", descriptor)
