"""The variants tcgen05_ld and tcgen05_st of copy. They copy between tensor memory and register fragments, by whole warps.

Both layouts say which register of which thread holds which lane and column. An instruction has one of five shapes, and
each is repeated over as many columns as the fragment has of it: that is found in the layouts, not asked of the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecopy_core.plugin import LOCK, CopyRequest, Decline, Option, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import first_failure, fragment_and_memory, scope_in

if TYPE_CHECKING:
    from .transfers import TransferPartition

WAIT = Option(
    "wait", (bool,), "True, or False if the caller issues tcgen05.wait, for several copies in flight", default=True
)


def element_width(request: CopyRequest) -> str | None:
    """Check that elements have 8, 16 or 32 bits, so that no element spans two 32-bit registers."""
    dtype = request.src.buffer.dtype
    return None if dtype.bits in (8, 16, 32) else f"elements must have 8, 16 or 32 bits, got {dtype.bits}-bit {dtype}"


def has_address(request: CopyRequest) -> str | None:
    """Check that the tensor memory of a copy in a kernel has an address from ``tcgen05.alloc``."""
    _, tensor = fragment_and_memory(request)
    in_a_kernel = request.active.cta_threads is not None and request.scope.kind != "cta"
    if tensor.buffer.allocated_addr is None and in_a_kernel:
        return f"{tensor.buffer.name} must have an allocated address: use KernelBuilder.tmem and tcgen05_alloc"
    return None


PREDICATE = (scope_in("warp", "warpgroup", "cta"), valid_copy, element_width, has_address)
"""The checks for rules that the record does not declare; each returns a reason to decline, or None."""


class Transfers:
    """A variant that loads from tensor memory or stores to it.

    Attributes:
        variant: its record.
    """

    def __init__(self, name: str, spaces: tuple[str, str], summary: str, steps: tuple[str, ...]) -> None:
        self.variant = Variant(
            name=name,
            op="copy",
            priority=10,
            summary=summary,
            spaces=(spaces,),
            features=("tcgen05",),
            options=(WAIT,),
            completion="barrier",
            completion_steps=steps,
            threads="all",
        )

    @hookimpl
    def tilecopy_predicate(self, request: CopyRequest) -> Verdict:
        """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
        return first_failure(request, PREDICATE)

    @hookimpl
    def tilecopy_partition(self, request: CopyRequest) -> TransferPartition | Decline:
        """Return the instructions, with the registers, lanes and columns of each instruction."""
        with LOCK:
            from .transfers import partition_transfers
        return partition_transfers(request)

    @hookimpl
    def tilecopy_emit(self, request: CopyRequest, partition: TransferPartition, ptx: PtxBuilder) -> None:
        """Emit the loads or stores, then one wait."""
        with LOCK:
            from .emission import emit
        emit(request, partition, ptx, wait=self.variant.option(request, "wait"))


load = Transfers(
    "tcgen05_ld",
    ("tmem", "local"),
    "tcgen05.ld from tensor memory to register fragments, then a wait",
    (
        "before the copy: call tcgen05_fence_after() if the tensor memory was written before a barrier or mbarrier wait",
        "with wait=False: call tcgen05_wait_ld() before the registers are read",
        "call tcgen05_fence_before() and put a barrier before other threads write or free that tensor memory",
    ),
)
store = Transfers(
    "tcgen05_st",
    ("local", "tmem"),
    "tcgen05.st from register fragments to tensor memory, then a wait",
    (
        "with wait=False: execute tcgen05.wait::st.sync.aligned before any access reads that tensor memory",
        "call tcgen05_fence_before() and put a barrier, then call tcgen05_fence_after() in the threads that use the data",
    ),
)
