"""The copies of gemm.cu by tilecopy, and a product: `python docs/examples/gemm/gemm.py` multiplies, on the emulator if need be.

C = A @ B.T in float16 with float32 sums, any M, N, K; sizes that are multiples of 8 move in vectors of 16 bytes.
"""

from __future__ import annotations

import sys
from functools import cache
from math import gcd
from pathlib import Path

import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout, laneid

HERE = Path(__file__).parent
THREADS = 256
BM, BN, BK, STAGES = 128, 128, 32, 3
SHARED_BYTES = 0  # beyond what the kernel declares


def copies(k_multiple: int, n_multiple: int) -> dict[str, tc.Plan]:
    """The five copies, for K and N that are multiples of so many elements."""
    m = tc.symbol("M", lower=1, upper=2**31 - 129)
    n = tc.symbol("N", lower=n_multiple, upper=2**30, multiple_of=n_multiple)
    k = tc.symbol("K", lower=k_multiple, upper=2**30, multiple_of=k_multiple)
    bx, by, kt = (tc.symbol(name, upper=2**16) for name in ("bx", "by", "kt"))
    stage, wm, wn = tc.symbol("s", upper=STAGES - 1), tc.symbol("wm", upper=1), tc.symbol("wn", upper=3)

    def array(name: str, rows: tc.Int, columns: tc.Int, multiple: int) -> tc.Buffer:
        return tc.Buffer((rows, columns), "float16", space="global", name=name, align_bytes=min(16, 2 * multiple))

    a, b, c = array("A", m, k, k_multiple), array("B", n, k, k_multiple), array("C", m, n, n_multiple)
    a_stages = tc.Buffer((STAGES, BM, BK), "float16", space="shared", name="stages")
    b_stages = tc.Buffer((STAGES, BN, BK), "float16", space="shared", name="stages")
    # eight neighbours along K a lane: four lanes a row, eight rows at a time
    a_part = TileLayout(S[(4, 2, 8, 4, 8) : (16, 8, 4 @ laneid, 1 @ laneid, 1)])
    b_part = TileLayout(S[(4, 8, 4, 8) : (8, 4 @ laneid, 1 @ laneid, 1)])
    # the accumulators of m16n8: rows lane / 4 and 8 further, columns 2 * (lane % 4) and the next
    c_part = TileLayout(S[(4, 2, 8, 4, 4, 2) : (16, 2, 4 @ laneid, 4, 1 @ laneid, 1)])
    a_regs = tc.Buffer((64, BK), "float16", space="local", name="a", layout=a_part)
    b_regs = tc.Buffer((32, BK), "float16", space="local", name="b", layout=b_part)
    c_regs = tc.Buffer((64, 32), "float16", space="local", name="c", layout=c_part)
    k_box = slice(kt * BK, kt * BK + BK)
    rows, columns = by * BM + wm * 64, bx * BN + wn * 32

    def stage_of(dst: tc.Region, src: tc.Region) -> tc.Plan:
        return tc.plan(dst, src, op="copy_async", scope=tc.cta(THREADS), target="sm_80", outside="zero")

    def by_warp(dst: tc.Region, src: tc.Region, outside: str | None = None) -> tc.Plan:
        return tc.plan(dst, src, scope=tc.warp(), target="sm_80", outside=outside)

    return {
        "load_a": stage_of(a_stages[stage, :, :], a[by * BM : by * BM + BM, k_box]),
        "load_b": stage_of(b_stages[stage, :, :], b[bx * BN : bx * BN + BN, k_box]),
        "read_a": by_warp(a_regs[:, :], a_stages[stage, wm * 64 : wm * 64 + 64, :]),
        "read_b": by_warp(b_regs[:, :], b_stages[stage, wn * 32 : wn * 32 + 32, :]),
        "write_c": by_warp(c[rows : rows + 64, columns : columns + 32], c_regs[:, :], "keep"),
    }


@cache
def source(n: int, k: int, *, by_hand: bool = False) -> str:
    """The whole CUDA C++ of the kernel for the divisibility that N and K have."""
    multiples = gcd(k, 8), gcd(n, 8)
    functions = [] if by_hand else [plan.cuda(name) for name, plan in copies(*multiples).items()]
    hand = (
        f"#define K_MULTIPLE {multiples[0]}\n#define N_MULTIPLE {multiples[1]}\n" + (HERE / "by_hand.cuh").read_text()
    )
    return "\n".join([tc.cuda_header(functions), hand if by_hand else "", (HERE / "gemm.cu").read_text()])


def grid(m: int, n: int) -> tuple[int, int]:
    """Blocks along N and M."""
    return -(-n // BN), -(-m // BM)


def main() -> None:
    """A product with edges on every side, on the emulator."""
    sys.path.insert(0, str(HERE.parent))
    from nvrtc import compiled
    from tilecopy_emulator import run_ptx

    m, n, k = 150, 72, 88
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.zeros((m, n), np.float16)
    run_ptx(compiled(source(n, k)), [a, b, c, m, n, k], grid=grid(m, n), block=THREADS)
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    print(f"largest difference {np.abs(c - wanted).max():.4f} of values up to {np.abs(wanted).max():.1f}")


if __name__ == "__main__":
    main()
