"""C = A @ B.T in bfloat16 on Blackwell: tiles by TMA, products by tcgen05.mma into tensor memory. `python docs/examples/gemm_blackwell.py`
multiplies, on the emulator if there is no GPU. It has run on the emulator alone and is taken by the assemblers; no Blackwell GPU was available.

A CTA has two warpgroups. In the first, one thread fetches tiles of A and B into a ring of shared memory and another one multiplies them.
The second warpgroup takes the sums out of tensor memory, which holds two tiles of them: one is multiplied while the other is stored.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import tilecopy as tc
from tilecopy import S, TCol, TileLayout, TLane, tid_in_wg

BM, BN, BK, PART = 128, 256, 64, 64
STAGES, RESULTS = 4, 2
STAGE_BYTES = (BM + BN) * BK * 2
SWIZZLE = tc.swizzle("128B", "bfloat16")
# rows of 128 bytes with the 128B swizzle; eight of them are 1,024 bytes (PTX ISA, matrix descriptor of tcgen05)
DESCRIPTOR = 2 << 61 | 1 << 46 | (1024 >> 4) << 32 | 1 << 16
# float32 sums of bfloat16 products, and the shape (PTX ISA, instruction descriptor of tcgen05.mma)
INSTRUCTION = 1 << 4 | 1 << 7 | 1 << 10 | BN // 8 << 17 | BM // 16 << 24
MULTIPLY = f"""{{{{
.reg .b64 a, b;
.reg .b32 t;
.reg .pred add;
shr.u32 t, {{1}}, 4;
cvt.u64.u32 a, t;
or.b64 a, a, {DESCRIPTOR};
shr.u32 t, {{2}}, 4;
cvt.u64.u32 b, t;
or.b64 b, b, {DESCRIPTOR};
setp.ne.b32 add, {{3}}, 0;
tcgen05.mma.cta_group::1.kind::f16 [{{0}}], a, b, {INSTRUCTION}, add;
}}}}"""


@cache
def gemm(m: int, n: int, k: int, multiprocessors: int = 148) -> tc.BuiltKernel:
    """The kernel for (m, k) times (n, k) transposed; k and n are multiples of 8."""
    kb = tc.KernelBuilder("gemm", threads=256)
    A, B, C = kb.param("A", (m, k), "bfloat16"), kb.param("B", (n, k), "bfloat16"), kb.param("C", (m, n), "bfloat16")

    def ring(rows: int, columns: int, count: int, name: str) -> tc.Buffer:
        layout = tc.SwizzledLayout(SWIZZLE, TileLayout(S[count, rows, columns]))
        return kb.shared((count, rows, columns), "bfloat16", layout=layout, name=name, align_bytes=1024)

    a_ring, b_ring, c_ring = ring(BM, BK, STAGES, "a_ring"), ring(BN, BK, STAGES, "b_ring"), ring(BM, PART, 2, "c_ring")
    columns = RESULTS * BN
    rows_and_columns = TileLayout(S[(BM, columns) : (1 @ TLane, 1 @ TCol)])
    results = kb.tmem((BM, columns), "float32", layout=rows_and_columns, name="results")
    full, empty = kb.mbarrier("full", count=STAGES), kb.mbarrier("empty", count=STAGES)
    done, taken = kb.mbarrier("done", count=RESULTS), kb.mbarrier("taken", count=RESULTS)
    tid, warp = kb.thread_id(), kb.warp_id()
    with kb.if_(tid == 0):
        for slot in range(STAGES):
            full.init(1, index=slot)
            empty.init(1, index=slot)
        for slot in range(RESULTS):
            done.init(1, index=slot)
            taken.init(128, index=slot)
        kb.fence_mbarrier_init()
    with kb.if_(warp == 0):
        kb.tcgen05_alloc(results, columns=columns)
    kb.tcgen05_fence_before()
    kb.cta_sync()
    kb.tcgen05_fence_after()

    across, down = -(-n // BN), -(-m // BM)
    blocks = -(-k // BK)  # what lies beyond k arrives as zeros
    ctas = max(1, min(multiprocessors, across * down))
    first = kb.block_id("x")
    mine = (across * down - first + ctas - 1) // ctas

    with kb.if_(tid == 0), kb.range(mine, unroll=False) as turn:
        tile = first + turn * ctas
        row, column = tile % down * BM, tile // down * BN
        with kb.range(blocks, unroll=False) as block:
            number = turn * blocks + block
            slot, at = number % STAGES, block * BK
            empty.wait(1 - number // STAGES % 2, index=slot)
            full.arrive_expect_tx(STAGE_BYTES, index=slot)
            box = A[row : row + BM, at : at + BK]
            kb.thread.copy_async(a_ring[slot], box, mbar=full[slot], outside="zero", variant="tma")
            box = B[column : column + BN, at : at + BK]
            kb.thread.copy_async(b_ring[slot], box, mbar=full[slot], outside="zero", variant="tma")
    with kb.if_(tid == 32):
        start = kb.load(results.allocated_addr[0])
        with kb.range(mine, unroll=False) as turn:
            into = start + kb.cast(turn % RESULTS * BN, "uint32")
            taken.wait(1 - turn // RESULTS % 2, index=turn % RESULTS)
            kb.tcgen05_fence_after()
            with kb.range(blocks, unroll=False) as block:
                number = turn * blocks + block
                slot = number % STAGES
                full.wait(number // STAGES % 2, index=slot)
                a_at, b_at = kb.address(a_ring[slot, 0, 0]), kb.address(b_ring[slot, 0, 0])
                for step in range(0, BK, 16):
                    more = kb.cast(block + step, "int32")
                    kb.inline_ptx(MULTIPLY, into, a_at + step * 2, b_at + step * 2, more)
                kb.tcgen05_commit(empty[slot])
            kb.tcgen05_commit(done[turn % RESULTS])
    own = tid - 128
    with kb.if_(own >= 0):
        sums = kb.local((BM, PART), "float32", layout=TileLayout(S[(BM, PART) : (1 @ tid_in_wg, 1)]))
        halves = kb.local((BM, PART), "bfloat16", layout=TileLayout(S[(BM, PART) : (1 @ tid_in_wg, 1)]))
        words, packed = kb.registers(sums), kb.registers(halves)
        with kb.range(mine, unroll=False) as turn:
            tile = first + turn * ctas
            row, column = tile % down * BM, tile // down * BN
            done.wait(turn // RESULTS % 2, index=turn % RESULTS)
            kb.tcgen05_fence_after()
            for part in range(0, BN, PART):
                left = turn % RESULTS * BN + part
                kb.warpgroup.copy(sums[:, :], results[:, left : left + PART], variant="tcgen05_ld")
                if part == BN - PART:
                    kb.tcgen05_fence_before()
                    taken.arrive(index=turn % RESULTS)
                for pair in range(0, PART, 2):
                    low, high = words[pair : pair + 1], words[pair + 1 : pair + 2]
                    kb.inline_ptx("cvt.rn.bf16x2.f32 {2}, {1}, {0};", low, high, out=[packed[pair : pair + 2]])
                image = c_ring[part // PART % 2]
                with kb.if_(own == 0):
                    kb.bulk_wait(1, read=True)
                kb.named_barrier(1, 128)
                kb.warpgroup.copy(image, halves[:, :])
                kb.fence_proxy_async()
                kb.named_barrier(1, 128)
                with kb.if_(own == 0):
                    box = C[row : row + BM, column + part : column + part + PART]
                    kb.thread.copy_async(box, image, outside="zero", variant="tma_store")
                    kb.bulk_commit()
        with kb.if_(own == 0):
            kb.bulk_wait(0)
    kb.tcgen05_fence_before()
    kb.cta_sync()
    with kb.if_(warp == 0):
        kb.tcgen05_dealloc(results, columns=columns)
    return kb.build(target="sm_100a", grid=ctas)


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
