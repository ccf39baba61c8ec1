"""copy -> elementwise: global <-> shared copies of any element count, one element a thread and round."""

from __future__ import annotations

import attrs

from tilecopy_core.plugin import (
    CopyRequest,
    Decline,
    Expr,
    PtxBuilder,
    Side,
    Variant,
    Verdict,
    first_failure,
    hookimpl,
    no_replica,
    scope_in,
    sliced,
    valid_copy,
    whole_byte_elements,
)

PAIRS = (("global", "shared"), ("shared", "global"))

variant = Variant(
    name="elementwise",
    op="copy",
    priority=7,  # after gmem_smem: only what that declines comes here
    summary="any element count, one element a thread and round",
    spaces=PAIRS,
)

PREDICATE = (
    scope_in("thread", "warp", "warpgroup", "cta"),
    valid_copy,
    whole_byte_elements,
    no_replica,
)


@attrs.frozen
class ElementPartition:
    """Element ``i`` goes to thread ``i % threads`` in round ``i // threads``."""

    count: int
    threads: int
    dst: Side
    src: Side

    @property
    def outer(self) -> int:
        """Rounds; in the last one some threads have nothing to do."""
        return -(-self.count // self.threads)

    def summary(self) -> str:
        """One line for plan.explain()."""
        return f"{self.outer} rounds of {self.threads} single elements, {self.count} in all"


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """A table of checks."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> ElementPartition | Decline:
    """Both sides in logical order."""
    sides = []
    for operand, region in (("destination", request.dst), ("source", request.src)):
        cut = sliced(operand, region)
        if isinstance(cut, Decline):
            return cut
        sides.append(Side(region, cut))
    return ElementPartition(request.dst.size, request.scope.threads, *sides)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: ElementPartition, ptx: PtxBuilder) -> None:
    """A load and a store a round, guarded where the last round is not full."""
    thread = ptx.thread_index(request.scope)
    bits = request.src.buffer.dtype.bits

    def move(turn: int) -> None:
        element = turn * partition.threads + thread
        src, dst = (
            ptx.address(side.region.buffer, side.layout.unswizzled.apply(element)["m"], side.swizzle)
            for side in (partition.src, partition.dst)
        )
        into = ptx.regs("b64", 1) if bits == 64 else None
        ptx.store(dst, bits, ptx.load(src, bits, into))

    for turn in range(partition.outer):
        left = partition.count - turn * partition.threads
        if left >= partition.threads or not isinstance(thread, Expr):  # one thread alone fills every round
            move(turn)
        else:
            with ptx.if_(ptx.predicate(thread < left)):
                move(turn)
