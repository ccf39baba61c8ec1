"""Instructions of tensor memory (PTX ISA 9.7.16), each a function that writes through a builder."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import PtxError, checked, integer_in, one_of, shown, tuple_of
from ..integers.expr import INT, Int
from ..ptx.builder import BUILDER, PtxBuilder
from ..ptx.operands import ADDRESS, REGISTER, Address, Register

GROUPS = (1, 2)
"""Values of ``.cta_group``."""
SHAPES = ("128x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4", "4x256b")
"""Shapes of ``tcgen05.cp``."""


def _group(cta_group: int) -> str:
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


@checked(PtxError, ptx=BUILDER)
def alloc(ptx: PtxBuilder, holder: Address, columns: int, cta_group: int = 1) -> None:
    """``tcgen05.alloc`` by one whole warp: 32 to 512 columns, a power of two; the address goes to ``holder``."""
    group = _group(cta_group)
    ptx.instr(f"tcgen05.alloc.{group}.sync.aligned.shared::cta.b32", holder, columns)
    ptx.instr(f"tcgen05.relinquish_alloc_permit.{group}.sync.aligned")


@checked(PtxError, ptx=BUILDER, address=REGISTER)
def dealloc(ptx: PtxBuilder, address: Register, columns: int, cta_group: int = 1) -> None:
    """``tcgen05.dealloc`` by the warp that allocated."""
    ptx.instr(f"tcgen05.dealloc.{_group(cta_group)}.sync.aligned.b32", address, columns)


@checked(PtxError, ptx=BUILDER, address=REGISTER, descriptor=REGISTER, shape=one_of(*SHAPES))
def cp(
    ptx: PtxBuilder, address: Register, descriptor: Register, cta_group: int = 1, shape: str = "32x128b.warpx4"
) -> None:
    """``tcgen05.cp``: the rows that a descriptor names to the lanes of a shape, such as ``4x256b``."""
    if descriptor.type != "b64" or address.type != "b32":
        raise PtxError(f"tcgen05.cp takes a 32-bit address and a 64-bit descriptor, not {address}, {descriptor}")
    ptx.instr(f"tcgen05.cp.{_group(cta_group)}.{shape}", f"[{address}]", descriptor)


@checked(PtxError, ptx=BUILDER)
def commit(ptx: PtxBuilder, barrier: Address, cta_group: int = 1) -> None:
    """Let an mbarrier count one arrival when the thread's earlier tcgen05 operations are done."""
    ptx.instr(f"tcgen05.commit.{_group(cta_group)}.mbarrier::arrive::one.shared::cluster.b64", barrier)


@checked(PtxError, ptx=BUILDER)
def fence_after(ptx: PtxBuilder) -> None:
    """Order tcgen05 work that follows after the synchronisation that came before."""
    ptx.instr("tcgen05.fence::after_thread_sync")


@checked(PtxError, ptx=BUILDER)
def fence_before(ptx: PtxBuilder) -> None:
    """Order tcgen05 work that came before, before the synchronisation that follows."""
    ptx.instr("tcgen05.fence::before_thread_sync")


@checked(PtxError, ptx=BUILDER, registers=tuple_of(REGISTER), address=REGISTER)
def ld(ptx: PtxBuilder, registers: Sequence[Register], address: Register) -> None:
    """``tcgen05.ld.32x32b``: lane ``l`` of warp ``w`` reads row ``32 * (w % 4) + l``, one column a register."""
    count = len(registers)
    if count not in (1, 2, 4, 8, 16, 32, 64, 128):
        raise PtxError(
            f"tcgen05.ld.32x32b reads a power of two of columns up to 128: not {count} registers, {shown(registers)}"
        )
    warp = ptx.tid // 32 % 4
    at = ptx.reg("b32")
    if isinstance(warp, int):
        ptx.instr("mov.b32", at, address)
    else:
        ptx.instr("mad.lo.s32", at, ptx.value(warp), 32 << 16, address)
    braces = "{" + ", ".join(map(str, registers)) + "}"
    ptx.instr(f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32", braces, f"[{at}]")


@checked(PtxError, ptx=BUILDER)
def wait_ld(ptx: PtxBuilder) -> None:
    """Wait until this thread's ``tcgen05.ld`` are done; their registers may be read after it."""
    ptx.instr("tcgen05.wait::ld.sync.aligned")
