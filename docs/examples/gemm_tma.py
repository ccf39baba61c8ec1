"""C = A @ B.T in bfloat16 on Hopper: tiles by TMA, products by wgmma. `python docs/examples/gemm_tma.py` multiplies, on the emulator if
there is no GPU.

A CTA has three warpgroups. One thread of the first fetches tiles of A and B into a ring of shared memory; the two others multiply
64 rows each. Two CTAs of a cluster work on tiles above each other: each fetches its own tile of A and half of the tile of B, which
it sends to both.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout

BM, BN, BK = 128, 256, 64
STAGES, CLUSTER, CONSUMERS = 4, 2, 2
BAND = 8
"""At most so many rows of clusters are worked on together, so that their tiles are found in the L2 cache."""
STAGE_BYTES = (BM + BN) * BK * 2
SWIZZLE = tc.swizzle("128B", "bfloat16")
SUMS = tc.mma_fragment(f"m64n{BN}k16", "C", "float32")
PART = tc.mma_fragment("m64n64k16", "C", "float32")
"""Who holds which of a warpgroup's sums, all of them and 64 columns."""
# rows of 128 bytes with the 128B swizzle; eight of them are 1,024 bytes (PTX ISA, matrix descriptor of wgmma)
DESCRIPTOR = 1 << 62 | (1024 >> 4) << 32 | 1 << 16
MULTIPLY = f"""{{{{
.reg .b64 a, b;
.reg .b32 t;
.reg .pred add;
shr.u32 t, {{0}}, 4;
cvt.u64.u32 a, t;
or.b64 a, a, {DESCRIPTOR};
shr.u32 t, {{1}}, 4;
cvt.u64.u32 b, t;
or.b64 b, b, {DESCRIPTOR};
setp.ne.b32 add, {{2}}, 0;
wgmma.mma_async.sync.aligned.m64n{BN}k16.f32.bf16.bf16 {{{{{{3}}}}}}, a, b, add, 1, 1, 0, 0;
}}}}"""


@cache
def gemm(m: int, n: int, k: int, multiprocessors: int = 132) -> tc.BuiltKernel:
    """The kernel for (m, k) times (n, k) transposed; k and n are multiples of 8."""
    kb = tc.KernelBuilder("gemm", threads=128 * (1 + CONSUMERS))
    A, B, C = kb.param("A", (m, k), "bfloat16"), kb.param("B", (n, k), "bfloat16"), kb.param("C", (m, n), "bfloat16")

    def ring(rows: int, columns: int, count: int, name: str) -> tc.Buffer:
        layout = tc.SwizzledLayout(SWIZZLE, TileLayout(S[count, rows, columns]))
        return kb.shared((count, rows, columns), "bfloat16", layout=layout, name=name, align_bytes=1024)

    a_ring, b_ring = ring(BM, BK, STAGES, "a_ring"), ring(BN, BK, STAGES, "b_ring")
    c_ring = ring(64, 64, 2 * CONSUMERS, "c_ring")
    full, empty = kb.mbarrier("full", count=STAGES), kb.mbarrier("empty", count=STAGES)
    tid, rank = kb.thread_id(), kb.cluster_rank() % CLUSTER
    with kb.if_(tid == 0):
        for slot in range(STAGES):
            full.init(1, index=slot)
            empty.init(CONSUMERS * CLUSTER, index=slot)
        kb.fence_mbarrier_init()
    kb.cluster_sync()

    across, down = -(-n // BN), -(-m // (BM * CLUSTER))
    clusters = max(1, min(multiprocessors // CLUSTER, across * down))
    laps = -(-k // (BK * STAGES))  # what lies beyond k arrives as zeros
    first = kb.block_id("x") // CLUSTER
    mine = (across * down - first + clusters - 1) // clusters

    band = max(rows for rows in range(1, BAND + 1) if down % rows == 0)

    def place(turn: tc.Int) -> tuple[tc.Int, tc.Int]:
        """First row and column of a CTA's tile: bands of some rows of clusters, in each column by column."""
        number = first + turn * clusters
        row = number // (band * across) * band + number % band
        return (row * CLUSTER + rank) * BM, number % (band * across) // band * BN

    with kb.if_(tid < 128):
        kb.inline_ptx("setmaxnreg.dec.sync.aligned.u32 24;")
        with kb.if_(tid == 0), kb.range(mine, unroll=False) as turn:
            row, column = place(turn)
            with kb.range(laps, unroll=False) as lap:
                for slot in range(STAGES):
                    phase = (turn * laps + lap) % 2
                    at = (lap * STAGES + slot) * BK
                    empty.wait(1 - phase, index=slot, cluster=True)
                    full.arrive_expect_tx(STAGE_BYTES, index=slot)
                    box = A[row : row + BM, at : at + BK]
                    kb.thread.copy_async(a_ring[slot], box, mbar=full[slot], outside="zero", variant="tma")
                    half = BN // CLUSTER
                    box = B[column + rank * half : column + rank * half + half, at : at + BK]
                    into = b_ring[slot, rank * half : rank * half + half, :]
                    everyone = (1 << CLUSTER) - 1
                    kb.thread.copy_async(into, box, mbar=full[slot], outside="zero", multicast=everyone, variant="tma")
    for worker in range(CONSUMERS):  # written for each, so that every address is a constant
        own = tid - 128 * (worker + 1)
        with kb.if_((own >= 0) & (own < 128)):
            kb.inline_ptx("setmaxnreg.inc.sync.aligned.u32 240;")
            sums = kb.local((64, BN), "float32", layout=SUMS)
            words = kb.registers(sums)
            halves = kb.local((64, 64), "bfloat16", layout=PART)
            packed = kb.registers(halves)
            with kb.range(mine, unroll=False) as turn:
                row, column = place(turn)
                with kb.range(laps, unroll=False) as lap:
                    for slot in range(STAGES):
                        full.wait((turn * laps + lap) % 2, index=slot)
                        kb.inline_ptx("wgmma.fence.sync.aligned;")
                        for step in range(0, BK, 16):
                            a_at = kb.address(a_ring[slot, worker * 64, 0])
                            b_at = kb.address(b_ring[slot, 0, 0])
                            more = kb.cast(lap, "int32") if slot == step == 0 else kb.cast(1, "int32")
                            kb.inline_ptx(MULTIPLY, a_at + step * 2, b_at + step * 2, more, out=[words[:]])
                        kb.inline_ptx("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;")
                        with kb.if_((own < CLUSTER) & (lap * STAGES + slot > 0)):  # the products before these are done
                            empty.arrive(index=(slot - 1) % STAGES, cta_rank=own, relaxed=True)
                kb.inline_ptx("wgmma.wait_group.sync.aligned 0;")
                with kb.if_(own < CLUSTER):
                    empty.arrive(index=STAGES - 1, cta_rank=own, relaxed=True)
                for part in range(0, BN, 64):
                    tile = c_ring[worker * 2 + part // 64 % 2]
                    with kb.if_(own == 0):
                        kb.bulk_wait(1, read=True)
                    kb.named_barrier(worker + 1, 128)
                    for pair in range(0, 32, 2):
                        low, high = (words[part // 2 + pair + n : part // 2 + pair + n + 1] for n in (0, 1))
                        kb.inline_ptx("cvt.rn.bf16x2.f32 {2}, {1}, {0};", low, high, out=[packed[pair : pair + 2]])
                    kb.warpgroup.copy(tile, halves[:, :])
                    kb.fence_proxy_async()
                    kb.named_barrier(worker + 1, 128)
                    with kb.if_(own == 0):
                        top, left = row + worker * 64, column + part
                        box = C[top : top + 64, left : left + 64]
                        kb.thread.copy_async(box, tile, outside="zero", variant="tma_store")
                        kb.bulk_commit()
            with kb.if_(own == 0):
                kb.bulk_wait(0)
    kb.cluster_sync()
    return kb.build(target="sm_90a", grid=clusters * CLUSTER, cluster=CLUSTER)


def main() -> None:
    """A product with edges on every side."""
    import ml_dtypes

    m, n, k = 150, 264, 72
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    c = np.zeros((m, n), ml_dtypes.bfloat16)
    gemm(m, n, k, multiprocessors=2)(a, b, c)
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    difference = np.abs(c.astype(np.float32) - wanted).max()
    print(f"largest difference {difference:.4f} of values up to {np.abs(wanted).max():.1f}")


if __name__ == "__main__":
    main()
