"""Functions that write the instructions around copies: barriers, fences, groups, mbarriers, tensor memory.

Each function writes one instruction, or the sequence that the PTX ISA prescribes. The methods of KernelBuilder and Mbarrier that
record it, and the table of instructions, check the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilecopy_core.errors import PtxError, short_repr
from tilecopy_core.integers import Int
from tilecopy_core.ptx import Address, PtxBuilder, Register

SYNC = {
    "cp_async_commit": "cp.async.commit_group",
    "cp_async_wait": "cp.async.wait_group",
    "mbarrier_init": "mbarrier.init.shared.b64",
    "mbarrier_inval": "mbarrier.inval.shared.b64",
    "mbarrier_arrive": "mbarrier.arrive.shared.b64",
    "mbarrier_arrive_expect_tx": "mbarrier.arrive.expect_tx.shared::cta.b64",
    "mbarrier_wait": "mbarrier.try_wait.parity.shared::cta.b64",
    "mbarrier_wait_cluster": "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64",
    "bulk_commit": "cp.async.bulk.commit_group",
    "bulk_wait": "cp.async.bulk.wait_group",
    "bulk_wait_read": "cp.async.bulk.wait_group.read",
    "fence_proxy_async": "fence.proxy.async.shared::cta",
    "fence_mbarrier_init": "fence.mbarrier_init.release.cluster",
    "cluster_arrive": "barrier.cluster.arrive",
    "cluster_wait": "barrier.cluster.wait",
}
"""The instructions that complete copies in kernels, in Numba's functions and in the CUDA C++ header (completion.cuh)."""


def cta_sync(ptx: PtxBuilder) -> None:
    """Write ``bar.sync 0``, a barrier of all threads of the CTA like ``__syncthreads()``."""
    ptx.instr("bar.sync", 0)


def named_barrier(ptx: PtxBuilder, barrier: int, threads: int) -> None:
    """Write ``bar.sync`` with a barrier number from 1 to 15, for some warps of the CTA."""
    ptx.instr("bar.sync", barrier, threads)


def warp_sync(ptx: PtxBuilder) -> None:
    """Write ``bar.warp.sync`` for all lanes of the warp."""
    ptx.instr("bar.warp.sync", "0xffffffff")


def cluster_sync(ptx: PtxBuilder) -> None:
    """Write a barrier of all threads of the cluster: ``barrier.cluster.arrive`` (release), then ``wait`` (acquire)."""
    ptx.instr(SYNC["cluster_arrive"])
    ptx.instr(SYNC["cluster_wait"])


def fence_proxy_async(ptx: PtxBuilder, space: str = "shared::cta") -> None:
    """Write a proxy fence. It orders earlier generic accesses before later accesses by bulk copies and tcgen05."""
    ptx.instr(f"fence.proxy.async.{space}" if space else "fence.proxy.async")


def fence_mbarrier_init(ptx: PtxBuilder) -> None:
    """Write a fence that makes ``mbarrier.init`` visible to the cluster. A barrier must follow the fence."""
    ptx.instr(SYNC["fence_mbarrier_init"])


def cp_async_commit(ptx: PtxBuilder) -> None:
    """Commit the thread's pending ``cp.async`` copies as one cp.async-group."""
    ptx.instr(SYNC["cp_async_commit"])


def cp_async_wait(ptx: PtxBuilder, pending: int = 0) -> None:
    """Wait until at most ``pending`` of the thread's newest ``cp.async`` groups are incomplete."""
    ptx.instr(SYNC["cp_async_wait"], pending)


def bulk_commit(ptx: PtxBuilder) -> None:
    """Commit the thread's pending bulk copies (from shared to global memory) as one bulk async-group."""
    ptx.instr(SYNC["bulk_commit"])


def bulk_wait(ptx: PtxBuilder, pending: int = 0, *, read: bool = False) -> None:
    """Wait until at most ``pending`` of the thread's newest bulk async-groups are incomplete.

    With ``read``, wait only until the sources were read and may be written again; the destinations may be incomplete.
    """
    ptx.instr(SYNC["bulk_wait_read" if read else "bulk_wait"], pending)


# ------------------------------------------------------------------------------------------------- mbarriers


def mbarrier_arrive(ptx: PtxBuilder, barrier: Address, *, relaxed: bool) -> None:
    """Arrive once at an mbarrier with release or relaxed semantics. If it is in another CTA, use cluster scope."""
    scope = "cluster" if barrier.space == "shared::cluster" else "cta"
    if relaxed or scope == "cluster":
        order = "relaxed" if relaxed else "release"
        ptx.instr(f"mbarrier.arrive.{order}.{scope}.shared::{scope}.b64", "_", barrier)
    else:
        ptx.instr(SYNC["mbarrier_arrive"], ptx.reg("b64"), barrier)


def mbarrier_wait(ptx: PtxBuilder, barrier: Address, parity: Int, *, cluster: bool) -> None:
    """Write a loop that waits until the mbarrier phase with this parity has completed, with acquire semantics."""
    phase = ptx.operand(parity % 2)
    label, done = ptx.new_label("wait"), ptx.reg("pred")
    ptx.place(label)
    ptx.instr(SYNC["mbarrier_wait_cluster" if cluster else "mbarrier_wait"], done, barrier, phase)
    ptx.instr("bra", label, guard=done, unless=True)


# ------------------------------------------------------------------------------------------------- tensor memory


def tcgen05_fence_after(ptx: PtxBuilder) -> None:
    """Order later tcgen05 operations after the thread synchronisation that precedes this fence."""
    ptx.instr("tcgen05.fence::after_thread_sync")


def tcgen05_fence_before(ptx: PtxBuilder) -> None:
    """Order earlier tcgen05 operations before the thread synchronisation that follows this fence."""
    ptx.instr("tcgen05.fence::before_thread_sync")


def tcgen05_wait_ld(ptx: PtxBuilder) -> None:
    """Wait until this thread's ``tcgen05.ld`` instructions are complete. Then their registers may be read."""
    ptx.instr("tcgen05.wait::ld.sync.aligned")


def tcgen05_ld(ptx: PtxBuilder, registers: Sequence[Register], address: Register) -> None:
    """Write a ``tcgen05.ld.32x32b``: thread ``l`` of warp ``w`` reads tensor memory lane ``32 * (w % 4) + l``, one column per register.

    Raises PtxError unless the number of registers is a power of two up to 128.
    """
    count = len(registers)
    if count.bit_count() != 1 or count > 128:
        raise PtxError(
            f"tcgen05.ld.32x32b: the number of registers must be a power of two up to 128, got {count} ({short_repr(registers)})"
        )
    warp = ptx.tid // 32 % 4
    at = ptx.reg("b32")
    if isinstance(warp, int):
        ptx.instr("mov.b32", at, address)
    else:
        ptx.instr("mad.lo.s32", at, ptx.value(warp), 32 << 16, address)
    braces = "{" + ", ".join(map(str, registers)) + "}"
    ptx.instr(f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32", braces, f"[{at}]")
