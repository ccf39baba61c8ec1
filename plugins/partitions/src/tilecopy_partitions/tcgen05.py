"""Descriptors, addresses and ``tcgen05.cp`` for copies to and from tensor memory (PTX ISA 9.7.16)."""

from __future__ import annotations

from tilecopy_core import PtxError
from tilecopy_core.integers import constant_of
from tilecopy_core.plugin import Address, Buffer, Int, PtxBuilder, Register, is_multiple, key_of
from tilecopy_core.ptx import pure_once


def matrix_descriptor(
    ptx: PtxBuilder, buffer: Buffer, ldo: int, sdo: int, swizzle: int, start_elems: Int = 0
) -> Register:
    """Return the 64-bit matrix descriptor (PTX ISA 9.7.16.4.1) of rows in shared memory that begin at ``start_elems``.

    It is encoded once per kernel for the start of the buffer's memory; the offset of the first row is added to that, and what varies
    of it once per block.

    Args:
        ptx: the builder.
        buffer: the shared buffer.
        ldo: leading-dimension byte offset, in units of 16 bytes.
        sdo: stride-dimension byte offset, in units of 16 bytes.
        swizzle: the code: 0 none, 6 32B, 4 64B, 2 128B.
        start_elems: the element of the first row, from the buffer's start.
    """
    start_bits = (start_elems + buffer.storage_offset) * buffer.dtype.bits
    if buffer.space != "shared" or buffer.align_bytes % 16 or not is_multiple(start_bits, 128):
        raise PtxError(
            f"matrix_descriptor: rows must begin at a multiple of 16 bytes of shared memory, got element {start_elems} of {buffer!r}"
        )
    if swizzle % 2:
        raise PtxError(f"matrix_descriptor: the swizzle code must be 0, 2, 4 or 6, got {swizzle}")
    root, key = ptx.blocks[0], (buffer.memory, ldo, sdo, swizzle)
    start = ptx.bindings.shared_base(ptx, buffer)
    unit = pure_once(ptx, root, ("unit", buffer.memory), "bfe.u32", "b32", start, 4, 14)
    wide = pure_once(ptx, root, ("wide unit", buffer.memory), "cvt.u64.u32", "b64", unit)
    fields = hex(ldo << 16 | sdo << 32 | 1 << 46 | swizzle << 61)
    encoded = pure_once(ptx, root, ("descriptor", *key), "or.b64", "b64", wide, fields)
    units = start_bits // 128
    varying = units - constant_of(units)
    if not isinstance(varying, int):
        encoded = ptx.blocks[-1].once(
            ("descriptor", *key, key_of(varying)), _plus, ptx, encoded, ptx.value(varying, 64)
        )
    return plus_units(ptx, encoded, constant_of(units))


def plus_units(ptx: PtxBuilder, descriptor: Register, units: int) -> Register:
    """Return a matrix descriptor that starts ``16 * units`` bytes after ``descriptor``."""
    return _plus(ptx, descriptor, units) if units else descriptor


def _plus(ptx: PtxBuilder, descriptor: Register, units: Register | int) -> Register:
    result = ptx.reg("b64")
    ptx.instr("add.s64", result, descriptor, units)
    return result


def allocated_address(ptx: PtxBuilder, holder: Address) -> Register:
    """Return the tensor-memory address that ``tcgen05.alloc`` wrote to ``holder``."""
    return ptx.load(holder, 32)[0]


def plus_columns(ptx: PtxBuilder, base: Register, column: Int) -> Register:
    """Return a tensor-memory address plus a number of columns."""
    if isinstance(column, int) and not 0 <= column < 512:
        raise PtxError(f"plus_columns: column must be from 0 to 511, got {column}")
    if isinstance(column, int) and column == 0:
        return base
    result = ptx.reg("b32")
    ptx.instr("add.s32", result, base, column if isinstance(column, int) else ptx.value(column))
    return result


def cp(
    ptx: PtxBuilder, address: Register, descriptor: Register, cta_group: int = 1, shape: str = "32x128b.warpx4"
) -> None:
    """Emit one ``tcgen05.cp`` from shared to tensor memory. An example of ``shape`` is ``4x256b``."""
    if descriptor.type != "b64" or address.type != "b32":
        raise PtxError(
            f"tcgen05.cp: the operands must be a 32-bit address and a 64-bit descriptor, got {address} and {descriptor}"
        )
    ptx.instr(f"tcgen05.cp.cta_group::{cta_group}.{shape}", f"[{address}]", descriptor)
