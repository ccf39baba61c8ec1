"""The copies of gemm_ldmatrix.cu by tilecopy, and a product: `python docs/examples/gemm/gemm_ldmatrix.py`, on the emulator.

C = A @ B.T in float16 with float32 sums, any M and N, K a multiple of 8. TMA fills swizzled shared memory, from which ldmatrix reads
the operands of mma.sync.
"""

from __future__ import annotations

import sys
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout

HERE = Path(__file__).parent
THREADS = 128
BM, BN, BK, STAGES = 128, 128, 64, 3
SHARED_BYTES = STAGES * (BM + BN) * BK * 2


def copies(n_multiple: int) -> dict[str, tc.Plan]:
    """The five copies, for N that is a multiple of so many elements."""
    m = tc.symbol("M", lower=1, upper=2**31 - 129)
    n = tc.symbol("N", lower=n_multiple, upper=2**30, multiple_of=n_multiple)
    k = tc.symbol("K", lower=8, upper=2**30, multiple_of=8)
    bx, by, kt = (tc.symbol(name, upper=2**16) for name in ("bx", "by", "kt"))
    stage, wm, wn = tc.symbol("s", upper=STAGES - 1), tc.symbol("wm", upper=1), tc.symbol("wn", upper=1)
    step = tc.symbol("step", upper=BK // 16 - 1)

    def array(name: str, rows: tc.Int, columns: tc.Int, multiple: int) -> tc.Buffer:
        return tc.Buffer((rows, columns), "float16", space="global", name=name, align_bytes=min(16, 2 * multiple))

    def stages(rows: int) -> tc.Buffer:
        shape = (STAGES, rows, BK)
        layout = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[shape]))
        return tc.Buffer(shape, "float16", space="shared", name="stages", layout=layout, align_bytes=1024)

    def fragment(name: str, operand: str, shape: tuple[int, int]) -> tc.Buffer:
        layout = tc.tile_fragment(tc.mma_fragment("m16n8k16", operand, "float16"), shape)
        return tc.Buffer(shape, "float16", space="local", name=name, layout=layout)

    a, b, c = array("A", m, k, 8), array("B", n, k, 8), array("C", m, n, n_multiple)
    a_stages, b_stages = stages(BM), stages(BN)
    a_regs, b_regs, c_regs = fragment("a", "A", (64, 16)), fragment("b", "B", (64, 16)), fragment("c", "C", (64, 64))
    k_box, depth = slice(kt * BK, kt * BK + BK), slice(step * 16, step * 16 + 16)
    rows, columns = by * BM + wm * 64, bx * BN + wn * 64

    full = tc.Buffer((STAGES,), "uint64", space="shared", name="full", align_bytes=8)

    def stage_of(dst: tc.Region, src: tc.Region) -> tc.Plan:
        arrival = full[stage : stage + 1]
        return tc.plan(dst, src, op="copy_async", scope=tc.thread(), target="sm_90", outside="zero", mbar=arrival)

    def by_warp(dst: tc.Region, src: tc.Region, outside: str | None = None) -> tc.Plan:
        return tc.plan(dst, src, scope=tc.warp(), target="sm_90", outside=outside)

    return {
        "load_a": stage_of(a_stages[stage, :, :], a[by * BM : by * BM + BM, k_box]),
        "load_b": stage_of(b_stages[stage, :, :], b[bx * BN : bx * BN + BN, k_box]),
        "read_a": by_warp(a_regs[:, :], a_stages[stage, wm * 64 : wm * 64 + 64, depth]),
        "read_b": by_warp(b_regs[:, :], b_stages[stage, wn * 64 : wn * 64 + 64, depth]),
        "write_c": by_warp(c[rows : rows + 64, columns : columns + 64], c_regs[:, :], "keep"),
    }


@cache
def source(n: int, k: int, *, by_hand: bool = False) -> str:
    """The whole CUDA C++ of the kernel for such N and K; ``by_hand``: what reads shared memory is written by hand.

    Raises:
        ValueError: K is no multiple of 8, so rows of A and B are none of the 16 bytes that a tensor map asks for.
    """
    if k % 8:
        raise ValueError(f"K = {k} is no multiple of 8, which the rows of a tensor map ask for; gemm.py takes any K")
    plans = copies(gcd(n, 8))
    functions = [plan.cuda(name) for name, plan in plans.items() if not (by_hand and name in ("read_a", "read_b"))]
    hand = (HERE / "ldmatrix_by_hand.cuh").read_text() if by_hand else ""
    return "\n".join([tc.cuda_header(functions), hand, (HERE / "gemm_ldmatrix.cu").read_text()])


def boxes(m: int, n: int, k: int) -> list[dict[str, Any]]:
    """What the tensor maps of A and B say beside the arrays' addresses: those that load_a_A_map and load_b_B_map of the source encode."""
    return [
        {"sizes": (k, rows), "strides_bytes": (2 * k,), "box": (BK, tile), "swizzle": "128B"}
        for rows, tile in ((m, BM), (n, BN))
    ]


def grid(m: int, n: int) -> tuple[int, int]:
    """Blocks along N and M."""
    return -(-n // BN), -(-m // BM)


def main() -> None:
    """A product with edges on every side, on the emulator."""
    sys.path.insert(0, str(HERE.parent))
    from nvrtc import compiled
    from tilecopy_emulator import TensorMap, run_ptx

    m, n, k = 150, 72, 88
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.zeros((m, n), np.float16)
    text = compiled(source(n, k), "compute_90")
    maps = [TensorMap(array, "float16", **box) for array, box in zip((a, b), boxes(m, n, k), strict=True)]
    run_ptx(text, [a, b, c, m, n, k, *maps], grid=grid(m, n), block=THREADS, dynamic_shared_bytes=SHARED_BYTES)
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    print(f"largest difference {np.abs(c - wanted).max():.4f} of values up to {np.abs(wanted).max():.1f}")


if __name__ == "__main__":
    main()
