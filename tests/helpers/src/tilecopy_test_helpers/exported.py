"""The canonical copies twice: in kernels of ours, and as exported functions in CUDA C++ kernels of the same form."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import attrs
import tilecopy as tc
from tilecopy import S, TileLayout

TURNS = 8
"""Tiles that one CTA copies."""


@attrs.frozen
class Pair:
    """A kernel of ours, and the source of one with exported copies; both take A, B and the numbers."""

    ours: tc.BuiltKernel
    source: str
    shape: tuple[int, int]
    grid: int
    threads: int
    numbers: tuple[int, ...] = (TURNS,)
    cluster: int | None = None


def gmem_smem(op: str = "copy", ctas: int = 4) -> Pair:
    """A loop of 128 x 64 tiles through swizzled shared memory."""
    layout = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[128, 64]))
    k = tc.KernelBuilder("ours", threads=128)
    rows = ctas * TURNS * 128
    a, b = k.param("A", (rows, 64), "float16"), k.param("B", (rows, 64), "float16")
    turns = k.scalar("turns", upper=TURNS)  # else the assembler unrolls
    tile = k.shared((128, 64), "float16", layout=layout, name="tile")
    bx = k.block_id("x")
    for i in k.range(turns):
        first = (bx * TURNS + i) * 128
        getattr(k.cta, op)(tile[:, :], a[first : first + 128, :])
        if op == "copy_async":
            k.cp_async_commit()
            k.cp_async_wait(0)
        k.cta_sync()
        k.cta.copy(b[first : first + 128, :], tile[:, :])
        k.cta_sync()
    ours = k.build(target="sm_90a", grid=ctas)
    load, store = ours.plans
    wait = "tilecopy::cp_async_commit(); tilecopy::cp_async_wait<0>();" if op == "copy_async" else ""
    source = f"""{tc.cuda_header([load.cuda("load_tile"), store.cuda("store_tile")])}
extern "C" __global__ void __launch_bounds__(128) theirs(const void* A, void* B, int turns)
{{
    __shared__ __align__(1024) char tile[128 * 64 * 2];
    uint32_t s = tilecopy::shared_address(tile);
    #pragma unroll 1
    for (int i = 0; i < turns; ++i) {{
        load_tile(s, A, blockIdx.x, i);
        {wait}
        __syncthreads();
        store_tile(B, s, blockIdx.x, i);
        __syncthreads();
    }}
}}
"""
    return Pair(ours, source, (rows, 64), ctas, 128)


def ldgsts() -> Pair:
    """The same by cp.async."""
    return gmem_smem("copy_async")


def reg(vectors: int = 8, ctas: int = 4) -> Pair:
    """16 bytes times ``vectors`` a thread through registers."""
    k = tc.KernelBuilder("ours", threads=128)
    tile_rows = vectors * 16
    rows = ctas * tile_rows
    a, b = k.param("A", (rows, 64), "float16"), k.param("B", (rows, 64), "float16")
    layout = TileLayout(S[(vectors, 128, 8) : (8, 1 @ tc.tx, 1)])
    fragment = k.local((tile_rows, 64), "float16", layout=layout, name="fragment")
    first = k.block_id("x") * tile_rows
    k.cta.copy(fragment[:, :], a[first : first + tile_rows, :])
    k.cta.copy(b[first : first + tile_rows, :], fragment[:, :])
    ours = k.build(target="sm_90a", grid=ctas)
    load, store = ours.plans
    source = f"""{tc.cuda_header([load.cuda("load_fragment"), store.cuda("store_fragment")])}
extern "C" __global__ void __launch_bounds__(128) theirs(const void* A, void* B)
{{
    uint32_t fragment[{vectors * 4}];
    load_fragment(fragment, A, blockIdx.x);
    store_fragment(B, fragment, blockIdx.x);
}}
"""
    return Pair(ours, source, (rows, 64), ctas, 128, numbers=())


def dsmem() -> Pair:
    """Each CTA of a cluster of two sends its tile to the other, which writes it out."""
    k = tc.KernelBuilder("ours", threads=128)
    a, b = k.param("A", (256, 64), "float16"), k.param("B", (256, 64), "float16")
    there = k.shared((128, 64), "float16", name="there")
    here = k.shared((128, 64), "float16", name="here")
    mbar = k.mbarrier("mbar")
    tid, rank = k.thread_id(), k.cluster_rank()
    other = (rank + 1) % 2
    with k.if_(tid == 0):
        mbar.init(1)
        k.fence_mbarrier_init()
    k.cta.copy(here[:, :], a[rank * 128 : rank * 128 + 128, :])
    k.fence_proxy_async()
    k.cluster_sync()
    with k.if_(tid == 0):
        mbar.arrive_expect_tx(128 * 64 * 2)
        k.thread.copy_async(there[:, :], here[:, :], mbar=mbar[0], remote_cta_id=other)
    mbar.wait(0)
    k.cta.copy(b[other * 128 : other * 128 + 128, :], there[:, :])
    k.cluster_sync()
    ours = k.build(target="sm_90a", grid=2, cluster=2)
    load, send, store = ours.plans
    header = tc.cuda_header([load.cuda("load_tile"), send.cuda("send_tile"), store.cuda("store_tile")])
    source = f"""{header}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) theirs(const void* A, void* B)
{{
    __shared__ __align__(128) char there[128 * 64 * 2];
    __shared__ __align__(128) char here[128 * 64 * 2];
    __shared__ uint64_t mbar;
    uint32_t t = tilecopy::shared_address(there), h = tilecopy::shared_address(here), m = tilecopy::shared_address(&mbar);
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {{
        tilecopy::mbarrier_init(m, 1);
        tilecopy::fence_mbarrier_init();
    }}
    load_tile(h, A, rank);
    tilecopy::fence_proxy_async();
    tilecopy::cluster_sync();
    if (threadIdx.x == 0) {{
        tilecopy::mbarrier_arrive_expect_tx(m, 128 * 64 * 2);
        send_tile(t, h, rank, m);
    }}
    tilecopy::mbarrier_wait(m, 0);
    store_tile(B, t, rank);
    tilecopy::cluster_sync();
}}
"""
    return Pair(ours, source, (256, 64), 2, 128, numbers=(), cluster=2)


PAIRS = {"gmem_smem": gmem_smem, "ldgsts": ldgsts, "reg": reg, "dsmem": dsmem}


def registers(cubin: bytes, tool: str) -> int:
    """Registers a thread of a cubin's one kernel."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        text = subprocess.run([tool, "-res-usage", str(path)], capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"REG:(\d+)", text)[0])
