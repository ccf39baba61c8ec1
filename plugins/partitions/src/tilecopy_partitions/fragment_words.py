"""Functions that read and write elements of fragments in registers. Several narrow elements share a register."""

from __future__ import annotations

from tilecopy_core.errors import PtxError, short_repr
from tilecopy_core.plugin import Buffer, PtxBuilder, Register


def local_words(ptx: PtxBuilder, buffer: Buffer, start_elem: int, bits: int) -> list[Register] | None:
    """Return the registers of ``bits`` bits from element ``start_elem`` on. Return None if one is used only in part."""
    words = ptx.fragment(buffer)
    first, word = start_elem * buffer.dtype.bits, words[0].bits
    if first % word or bits % word:
        return None
    return words[first // word : (first + bits) // word]


def read_local(ptx: PtxBuilder, buffer: Buffer, start_elem: int, bits: int) -> list[Register]:
    """Return registers that hold ``bits`` bits of a local buffer, from element ``start_elem`` on."""
    whole = local_words(ptx, buffer, start_elem, bits)
    if whole is not None:
        return whole
    word, position = _within_word(ptx, buffer, start_elem, bits)
    if position == 0 and bits in (8, 16):
        return [word]  # a narrow store takes the low bits
    result = ptx.reg("b32")
    ptx.instr("bfe.u32", result, word, position, bits)
    return [result]


def write_local(
    ptx: PtxBuilder,
    buffer: Buffer,
    start_elem: int,
    bits: int,
    registers: list[Register],
    *,
    guard: Register | None = None,
) -> None:
    """Write ``bits`` bits to a local buffer, from element ``start_elem`` on. ``guard`` is an optional predicate."""
    whole = local_words(ptx, buffer, start_elem, bits)
    if whole is not None:
        if len(whole) != len(registers):
            need = f"{len(whole)} registers of {whole[0].bits} bits"
            raise PtxError(f"{buffer.name}: {bits} bits of {buffer.dtype} need {need}, got {short_repr(registers)}")
        for word, register in zip(whole, registers, strict=True):
            ptx.instr(f"mov.b{word.bits}", word, register, guard=guard)
        return
    word, position = _within_word(ptx, buffer, start_elem, bits)
    if not ptx.bindings.inlined:
        ptx.blocks[0].once(("cleared", word), _clear_first, ptx, word)  # bfi reads the bits that it leaves
    ptx.instr("bfi.b32", word, registers[0], word, position, bits, guard=guard)


def _clear_first(ptx: PtxBuilder, word: Register) -> Register:
    ptx.place_first(f"\tmov.b32 {word}, 0;")
    return word


def _within_word(ptx: PtxBuilder, buffer: Buffer, start_elem: int, bits: int) -> tuple[Register, int]:
    words = ptx.fragment(buffer)
    first, size = start_elem * buffer.dtype.bits, words[0].bits
    if not 0 <= first < len(words) * size or first % size + bits > size:
        raise PtxError(f"{buffer.name}: {bits} bits at element {start_elem} must be inside one register")
    return words[first // size], first % size
