"""Attention on Hopper, softmax(Q @ K.T / sqrt(128)) @ V in bfloat16: `python docs/examples/attention_tma.py`, on the emulator if there is
no GPU.

A CTA has 128 rows of Q and three warpgroups. One thread of the first fetches blocks of K and V by TMA into two rings of shared memory.
The two others hold 64 rows of Q each in registers. The tensor cores multiply Q by a block of K and, behind it, the probabilities of the
block before by V; a warpgroup waits for the first product alone, and computes its softmax while the second runs.
"""

from __future__ import annotations

from functools import cache
from math import e, log2, sqrt

import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout

HEAD, ROWS, BLOCK, STAGES, CONSUMERS = 128, 64, 128, 2, 2
BLOCK_BYTES = BLOCK * HEAD * 2
SWIZZLE = tc.swizzle("128B", "bfloat16")
SUMS = tc.mma_fragment("m64n128k16", "C", "float32")
OPERAND = tc.tile_fragment(tc.mma_fragment("m64n128k16", "A", "bfloat16"), (ROWS, HEAD))
"""Who holds which of a warpgroup's sums, and of an operand in registers."""
# matrix descriptors (PTX ISA, wgmma): rows of 64 elements with the 128B swizzle, of which eight are 1,024 bytes. The rows of V
# are the inner dimension of the product: its second 64 columns follow after all rows.
OF_K = 1 << 62 | (1024 >> 4) << 32 | 1 << 16
OF_V = 1 << 62 | (1024 >> 4) << 32 | (BLOCK * 128 >> 4) << 16


def multiply(descriptor: int, transposed: int) -> str:
    """Registers times shared memory: field 0 is the address, 1 the registers of A, 2 whether to add, 3 the sums."""
    return f"""{{{{
.reg .b64 b;
.reg .b32 t;
.reg .pred add;
shr.u32 t, {{0}}, 4;
cvt.u64.u32 b, t;
or.b64 b, b, {descriptor};
setp.ne.b32 add, {{2}}, 0;
wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{{{{{3}}}}}}, {{{{{{1}}}}}}, b, add, 1, 1, {transposed};
}}}}"""


def float32(number: float) -> str:
    """A constant in PTX."""
    return f"0f{np.float32(number).view(np.uint32):08X}"


def softmax() -> str:
    """Of a thread's 64 scores in two rows, fields 0 to 63; 64, 65 are the rows' maxima, 66, 67 their sums, 68, 69 what earlier sums lose."""
    factor = log2(e) / sqrt(HEAD)
    lines = ["{{", ".reg .f32 part<4>, low;"]
    for row in (0, 1):
        mine = [n for n in range(64) if n // 2 % 2 == row]
        top, total, loss = (f"{{{field + row}}}" for field in (64, 66, 68))
        # four maxima and four sums at once: each operation waits for the one before
        lines += [f"max.f32 part{n}, {{{mine[n]}}}, {{{mine[n + 4]}}};" for n in range(4)]
        lines += [f"max.f32 part{n % 4}, part{n % 4}, {{{mine[n]}}};" for n in range(8, 32)]
        lines += ["max.f32 part0, part0, part1;", "max.f32 part2, part2, part3;", "max.f32 part0, part0, part2;"]
        for lanes in (1, 2):  # four lanes share a row
            lines += [f"shfl.sync.bfly.b32 part1, part0, {lanes}, 31, -1;", "max.f32 part0, part0, part1;"]
        lines += [
            f"max.f32 part0, part0, {top};",
            f"mul.f32 low, part0, {float32(-factor)};",
            f"fma.rn.f32 {loss}, {top}, {float32(factor)}, low;",
            f"ex2.approx.ftz.f32 {loss}, {loss};",
            f"mov.f32 {top}, part0;",
        ]
        for field in mine:
            lines += [
                f"fma.rn.f32 {{{field}}}, {{{field}}}, {float32(factor)}, low;",
                f"ex2.approx.ftz.f32 {{{field}}}, {{{field}}};",
            ]
        lines += [f"add.f32 part{n}, {{{mine[n]}}}, {{{mine[n + 4]}}};" for n in range(4)]
        lines += [f"add.f32 part{n % 4}, part{n % 4}, {{{mine[n]}}};" for n in range(8, 32)]
        lines += ["add.f32 part0, part0, part1;", "add.f32 part2, part2, part3;", "add.f32 part0, part0, part2;"]
        lines += [f"fma.rn.f32 {total}, {total}, {loss}, part0;"]
    return "\n".join([*lines, "}}"])


@cache
def attention(heads: int, length: int) -> tc.BuiltKernel:
    """The kernel for arrays (heads, length, 128); the length is a multiple of 256."""
    kb = tc.KernelBuilder("attention", threads=128 * (1 + CONSUMERS))
    Q, K, V, out = (kb.param(name, (heads, length, HEAD), "bfloat16") for name in ("Q", "K", "V", "out"))

    def tile(count: int, rows: int, name: str) -> tc.Buffer:
        """Tiles of rows of 64 elements, the second 64 columns after the first."""
        layout = TileLayout(S[(count, rows, 2, 64) : (rows * HEAD, 64, rows * 64, 1)])
        layout = tc.SwizzledLayout(SWIZZLE, layout)
        return kb.shared((count, rows, HEAD), "bfloat16", layout=layout, name=name, align_bytes=1024)

    q_tile = tile(CONSUMERS, ROWS, "q_tile")
    rings = {"k": tile(STAGES, BLOCK, "k_ring"), "v": tile(STAGES, BLOCK, "v_ring")}
    full = {name: kb.mbarrier(f"{name}_full", count=STAGES) for name in rings}
    empty = {name: kb.mbarrier(f"{name}_empty", count=STAGES) for name in rings}
    q_full = kb.mbarrier("q_full")
    tid, head, first = kb.thread_id(), kb.block_id("y"), kb.block_id("x") * (ROWS * CONSUMERS)
    with kb.if_(tid == 0):
        q_full.init(1)
        for name in rings:
            for slot in range(STAGES):
                full[name].init(1, index=slot)
                empty[name].init(CONSUMERS, index=slot)
        kb.fence_mbarrier_init()
    kb.cta_sync()

    with kb.if_(tid < 128):
        kb.inline_ptx("setmaxnreg.dec.sync.aligned.u32 24;")
        with kb.if_(tid == 0):
            q_full.arrive_expect_tx(CONSUMERS * ROWS * HEAD * 2)
            for worker in range(CONSUMERS):
                top = first + worker * ROWS
                kb.thread.copy_async(q_tile[worker], Q[head, top : top + ROWS, :], mbar=q_full[0], variant="tma")
            with kb.range(length // BLOCK // STAGES, unroll=False) as lap:
                for slot in range(STAGES):
                    top = (lap * STAGES + slot) * BLOCK
                    for name, source in (("k", K), ("v", V)):
                        empty[name].wait(1 - lap % 2, index=slot)
                        full[name].arrive_expect_tx(BLOCK_BYTES, index=slot)
                        box = source[head, top : top + BLOCK, :]
                        kb.thread.copy_async(rings[name][slot], box, mbar=full[name][slot], variant="tma")

    def consume(worker: int, own: tc.Int) -> None:
        """What a warpgroup with 64 rows does; ``own`` counts its threads."""
        kb.inline_ptx("setmaxnreg.inc.sync.aligned.u32 240;")
        q = kb.local((ROWS, HEAD), "bfloat16", layout=OPERAND)
        p = kb.local((ROWS, BLOCK), "bfloat16", layout=OPERAND)
        scores = kb.local((ROWS, BLOCK), "float32", layout=SUMS)
        sums = kb.local((ROWS, HEAD), "float32", layout=SUMS)
        q_words, p_words, score_words, words = map(kb.registers, (q, p, scores, sums))
        tops, totals, losses = (kb.local(2, "float32") for _ in range(3))
        for row in (0, 1):
            kb.store(tops[row], float("-inf"))
            kb.store(totals[row], 0.0)
        for n in range(64):
            kb.store(words[n], 0.0)
        each_score = [score_words[n : n + 1] for n in range(64)]
        each_row = [region[n : n + 1] for region in (tops, totals, losses) for n in (0, 1)]

        def start_scores(slot: int, lap: tc.Int) -> None:
            """Q times a block of K."""
            full["k"].wait(lap % 2, index=slot)
            kb.inline_ptx("wgmma.fence.sync.aligned;")
            for step in range(HEAD // 16):
                at = kb.address(rings["k"][slot, 0, step // 4 * 64]) + step % 4 * 32
                part = q_words[step * 8 : step * 8 + 8]
                kb.inline_ptx(multiply(OF_K, 0), at, part, kb.cast(int(step > 0), "int32"), out=[score_words[:]])
            kb.inline_ptx("wgmma.commit_group.sync.aligned;")

        def start_sums(slot: int, lap: tc.Int) -> None:
            """Probabilities times a block of V."""
            full["v"].wait(lap % 2, index=slot)
            kb.inline_ptx("wgmma.fence.sync.aligned;")
            for step in range(BLOCK // 16):
                at = kb.address(rings["v"][slot, step * 16, 0])
                part = p_words[step * 8 : step * 8 + 8]
                kb.inline_ptx(multiply(OF_V, 1), at, part, kb.cast(1, "int32"), out=[words[:]])
            kb.inline_ptx("wgmma.commit_group.sync.aligned;")

        def wait(groups: int, name: str, slot: int) -> None:
            """Until at most so many products run; then the producer may fill the slot again."""
            kb.inline_ptx(f"wgmma.wait_group.sync.aligned {groups};")
            with kb.if_(own == 0):
                empty[name].arrive(index=slot)

        def pack() -> None:
            """Scores, which are probabilities now, as bfloat16."""
            for n in range(0, 64, 2):
                low, high = each_score[n], each_score[n + 1]
                kb.inline_ptx("cvt.rn.bf16x2.f32 {2}, {1}, {0};", low, high, out=[p_words[n : n + 2]])

        def step(slot: int, lap: tc.Int, before: int, before_lap: tc.Int) -> None:
            """A block of K, and the block of V before it."""
            start_scores(slot, lap)
            start_sums(before, before_lap)
            wait(1, "k", slot)
            kb.inline_ptx(softmax(), out=[*each_score, *each_row])
            wait(0, "v", before)
            for n in range(64):
                kb.inline_ptx("mul.f32 {1}, {1}, {0};", losses[n // 2 % 2 : n // 2 % 2 + 1], out=[words[n : n + 1]])
            pack()

        q_full.wait(0)
        kb.warpgroup.copy(q[:, :], q_tile[worker])
        start_scores(0, 0)
        wait(0, "k", 0)
        kb.inline_ptx(softmax(), out=[*each_score, *each_row])
        pack()
        with kb.range(length // BLOCK // STAGES - 1, unroll=False) as lap:
            step(1, lap, 0, lap)
            step(0, lap + 1, 1, lap)
        last = length // BLOCK // STAGES - 1
        step(1, last, 0, last)
        start_sums(1, last)
        wait(0, "v", 1)
        for row in (0, 1):
            total = totals[row : row + 1]
            for lanes in (1, 2):
                add = f"{{{{.reg .f32 other; shfl.sync.bfly.b32 other, {{0}}, {lanes}, 31, -1; add.f32 {{0}}, {{0}}, other;}}}}"
                kb.inline_ptx(add, out=[total])
            kb.inline_ptx("rcp.approx.ftz.f32 {0}, {0};", out=[total])
        halves = kb.local((ROWS, HEAD), "bfloat16", layout=SUMS)
        packed = kb.registers(halves)
        for n in range(0, 64, 2):
            pair, row = (words[n : n + 1], words[n + 1 : n + 2]), n // 2 % 2
            scaled = "{{.reg .f32 low, high; mul.f32 low, {0}, {2}; mul.f32 high, {1}, {2}; cvt.rn.bf16x2.f32 {3}, high, low;}}"
            kb.inline_ptx(scaled, *pair, totals[row : row + 1], out=[packed[n : n + 2]])
        kb.warpgroup.copy(q_tile[worker], halves[:, :])
        kb.fence_proxy_async()
        kb.named_barrier(worker + 1, 128)
        with kb.if_(own == 0):
            top = first + worker * ROWS
            kb.thread.copy_async(out[head, top : top + ROWS, :], q_tile[worker], variant="tma_store")
            kb.bulk_commit()
            kb.bulk_wait(0)

    for worker in range(CONSUMERS):  # written for each, so that every address is a constant
        own = tid - 128 * (worker + 1)
        with kb.if_((own >= 0) & (own < 128)):
            consume(worker, own)
    return kb.build(target="sm_90a", grid=(length // (ROWS * CONSUMERS), heads))


def main() -> None:
    """A small one."""
    import ml_dtypes

    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, 256, HEAD)).astype(ml_dtypes.bfloat16) for _ in range(3))
    o = np.zeros_like(q)
    attention(1, 256)(q, k, v, o)
    scores = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k.astype(np.float64)) / sqrt(HEAD)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    print(f"largest difference {np.abs(o - wanted).max():.4f} of values up to {np.abs(wanted).max():.1f}")


if __name__ == "__main__":
    main()
