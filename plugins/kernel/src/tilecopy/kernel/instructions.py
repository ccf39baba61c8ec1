"""The instructions of a kernel around its copies: barriers, fences, groups, mbarriers, tensor memory.

Each function writes one, or the idiom that the PTX ISA prescribes, through a PTX builder. What a caller gives is checked by the
methods of KernelBuilder and Mbarrier that record them, and by the table of instructions.
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
"""The instructions that complete copies, which kernels, Numba's functions and the CUDA C++ header (completion.cuh) write."""


def cta_sync(ptx: PtxBuilder) -> None:
    """``bar.sync 0``, which is ``__syncthreads()``: after it, every thread reads what the CTA wrote before it."""
    ptx.instr("bar.sync", 0)


def named_barrier(ptx: PtxBuilder, barrier: int, threads: int) -> None:
    """``bar.sync`` on barrier 1 to 15 for some warps of the CTA."""
    ptx.instr("bar.sync", barrier, threads)


def warp_sync(ptx: PtxBuilder) -> None:
    """``bar.warp.sync`` for every lane of the warp."""
    ptx.instr("bar.warp.sync", "0xffffffff")


def cluster_sync(ptx: PtxBuilder) -> None:
    """All threads of the cluster: ``barrier.cluster.arrive`` (release), then ``wait`` (acquire)."""
    ptx.instr(SYNC["cluster_arrive"])
    ptx.instr(SYNC["cluster_wait"])


def fence_proxy_async(ptx: PtxBuilder, space: str = "shared::cta") -> None:
    """Order generic accesses before those of the async proxy: bulk copies, tcgen05."""
    ptx.instr(f"fence.proxy.async.{space}" if space else "fence.proxy.async")


def fence_mbarrier_init(ptx: PtxBuilder) -> None:
    """Make ``mbarrier.init`` visible to the cluster; a barrier follows."""
    ptx.instr(SYNC["fence_mbarrier_init"])


def cp_async_commit(ptx: PtxBuilder) -> None:
    """Close a group of the thread's ``cp.async``."""
    ptx.instr(SYNC["cp_async_commit"])


def cp_async_wait(ptx: PtxBuilder, pending: int = 0) -> None:
    """Wait until at most ``pending`` of the thread's newest groups are unfinished; a barrier shows others."""
    ptx.instr(SYNC["cp_async_wait"], pending)


def bulk_commit(ptx: PtxBuilder) -> None:
    """Close a group of the thread's bulk copies to global memory."""
    ptx.instr(SYNC["bulk_commit"])


def bulk_wait(ptx: PtxBuilder, pending: int = 0, *, read: bool = False) -> None:
    """Wait until at most ``pending`` of the thread's newest bulk groups are unfinished.

    With ``read``, until their sources have been read and may be written again; what they wrote is not yet there.
    """
    ptx.instr(SYNC["bulk_wait_read" if read else "bulk_wait"], pending)


# ------------------------------------------------------------------------------------------------- mbarriers


def mbarrier_init(ptx: PtxBuilder, barrier: Address, count: int) -> None:
    """Let an mbarrier count some arrivals a phase (1 to 2**20 - 1)."""
    ptx.instr(SYNC["mbarrier_init"], barrier, count)


def mbarrier_arrive(ptx: PtxBuilder, barrier: Address, *, relaxed: bool) -> None:
    """Arrive once, at cluster scope on a barrier of another CTA; release what the thread has written unless ``relaxed``."""
    scope = "cluster" if barrier.space == "shared::cluster" else "cta"
    if relaxed or scope == "cluster":
        order = "relaxed" if relaxed else "release"
        ptx.instr(f"mbarrier.arrive.{order}.{scope}.shared::{scope}.b64", "_", barrier)
    else:
        ptx.instr(SYNC["mbarrier_arrive"], ptx.reg("b64"), barrier)


def mbarrier_arrive_expect_tx(ptx: PtxBuilder, barrier: Address, nbytes: int) -> None:
    """Announce the bytes (at most 2**20 - 1) that copies will complete in this phase, and arrive once."""
    ptx.instr(SYNC["mbarrier_arrive_expect_tx"], "_", barrier, nbytes)


def mbarrier_wait(ptx: PtxBuilder, barrier: Address, parity: Int, *, cluster: bool) -> None:
    """``try_wait`` in a loop, until the phase of a parity has completed; acquire, at cluster scope if asked."""
    phase = ptx.operand(parity % 2)
    label, done = ptx.new_label("wait"), ptx.reg("pred")
    ptx.place(label)
    ptx.instr(SYNC["mbarrier_wait_cluster" if cluster else "mbarrier_wait"], done, barrier, phase)
    ptx.instr("bra", label, guard=done, unless=True)


# ------------------------------------------------------------------------------------------------- tensor memory


def tcgen05_alloc(ptx: PtxBuilder, holder: Address, columns: int, cta_group: int) -> None:
    """``tcgen05.alloc`` by one whole warp: 32 to 512 columns, a power of two; the address goes to ``holder``."""
    ptx.instr(f"tcgen05.alloc.cta_group::{cta_group}.sync.aligned.shared::cta.b32", holder, columns)


def tcgen05_relinquish(ptx: PtxBuilder, cta_group: int) -> None:
    """``tcgen05.relinquish_alloc_permit``: the CTA allocates no more; by the whole warp that allocated."""
    ptx.instr(f"tcgen05.relinquish_alloc_permit.cta_group::{cta_group}.sync.aligned")


def tcgen05_dealloc(ptx: PtxBuilder, address: Register, columns: int, cta_group: int) -> None:
    """``tcgen05.dealloc`` by the warp that allocated."""
    ptx.instr(f"tcgen05.dealloc.cta_group::{cta_group}.sync.aligned.b32", address, columns)


def tcgen05_commit(ptx: PtxBuilder, barrier: Address, cta_group: int) -> None:
    """Let an mbarrier count one arrival when the thread's earlier tcgen05 operations are done."""
    ptx.instr(f"tcgen05.commit.cta_group::{cta_group}.mbarrier::arrive::one.shared::cluster.b64", barrier)


def tcgen05_fence_after(ptx: PtxBuilder) -> None:
    """Order tcgen05 work that follows after the synchronisation that came before."""
    ptx.instr("tcgen05.fence::after_thread_sync")


def tcgen05_fence_before(ptx: PtxBuilder) -> None:
    """Order tcgen05 work that came before, before the synchronisation that follows."""
    ptx.instr("tcgen05.fence::before_thread_sync")


def tcgen05_wait_ld(ptx: PtxBuilder) -> None:
    """Wait until this thread's ``tcgen05.ld`` are done; their registers may be read after it."""
    ptx.instr("tcgen05.wait::ld.sync.aligned")


def tcgen05_ld(ptx: PtxBuilder, registers: Sequence[Register], address: Register) -> None:
    """``tcgen05.ld.32x32b``: lane ``l`` of warp ``w`` reads row ``32 * (w % 4) + l``, one column a register.

    Raises PtxError for a number of registers that is not a power of two up to 128.
    """
    count = len(registers)
    if count.bit_count() != 1 or count > 128:
        raise PtxError(
            f"tcgen05.ld.32x32b reads a power of two of columns up to 128: not {count} registers, {short_repr(registers)}"
        )
    warp = ptx.tid // 32 % 4
    at = ptx.reg("b32")
    if isinstance(warp, int):
        ptx.instr("mov.b32", at, address)
    else:
        ptx.instr("mad.lo.s32", at, ptx.value(warp), 32 << 16, address)
    braces = "{" + ", ".join(map(str, registers)) + "}"
    ptx.instr(f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32", braces, f"[{at}]")
