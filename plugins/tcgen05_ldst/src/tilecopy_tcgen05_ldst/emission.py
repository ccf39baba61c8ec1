"""Instructions of a copy between tensor memory and registers."""

from __future__ import annotations

from contextlib import ExitStack

from tilecopy_core.plugin import Condition, CopyRequest, PtxBuilder, Register
from tilecopy_partitions import fragment_and_memory, local_words, tcgen05

from .shapes import LANES
from .transfers import LaneTransfer, TransferPartition


def emit(request: CopyRequest, partition: TransferPartition, ptx: PtxBuilder, *, wait: bool) -> None:
    """Emit the instructions of a copy: each warp's tensor memory address, the loads or stores, and the wait."""
    fragment, tensor = fragment_and_memory(request)
    kind = "st" if request.dst is tensor else "ld"
    warp, (first, last) = ptx.thread_index(request.scope) // LANES % partition.period, partition.warps
    conditions = [warp >= first] if first else []
    conditions += [warp <= last] if last < partition.period - 1 else []
    with ExitStack() as stack:
        for condition in conditions:
            if isinstance(condition, Condition):
                stack.enter_context(ptx.if_(ptx.predicate(condition)))
        at = _address(ptx, tcgen05.allocated_address(ptx, ptx.address(tensor.buffer.allocated_addr)), partition)
        constant = partition.column if isinstance(partition.column, int) else 0
        for transfer in partition.transfers:
            first_elems = [register * LANES // fragment.buffer.dtype.bits for register in transfer.registers]
            words = [local_words(ptx, fragment.buffer, elem, 32) for elem in first_elems]
            registers = "{" + ", ".join(str(word) for group in words for word in group or ()) + "}"
            place = f"[{at}+{(transfer.lane << 16) + constant + transfer.column}]"
            split = [transfer.split] if transfer.shape == "16x32bx2" else []
            operands_of: list[int | str] = [place, *split, registers] if kind == "st" else [registers, place, *split]
            ptx.instr(_opcode(kind, transfer, halves=partition.halves), *operands_of)
        if wait:
            ptx.instr(f"tcgen05.wait::{kind}.sync.aligned")


def _opcode(kind: str, each: LaneTransfer, *, halves: bool) -> str:
    packed = {"ld": ".pack::16b", "st": ".unpack::16b"}[kind] if halves else ""
    return f"tcgen05.{kind}.sync.aligned.{each.shape}.x{each.repeats}{packed}.b32"


def _address(ptx: PtxBuilder, base: Register, partition: TransferPartition) -> Register:
    """Return the address of the warp's first lane, at the variable part of the copy's column."""
    address = base
    lanes = ptx.tid // LANES % 4
    if not isinstance(lanes, int):
        address = ptx.reg("b32")
        ptx.instr("mad.lo.s32", address, ptx.value(lanes), LANES << 16, base)
    varying = 0 if isinstance(partition.column, int) else partition.column
    column = varying + ptx.tid // (4 * LANES) * partition.column_step
    return address if isinstance(column, int) else tcgen05.plus_columns(ptx, address, column)
