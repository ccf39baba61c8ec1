"""The copies of stencil.cu by tilecopy, and one step: `python docs/examples/stencil/stencil.py` runs it on the emulator."""

from __future__ import annotations

import sys
from functools import cache
from math import gcd
from pathlib import Path

import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout, tx

HERE = Path(__file__).parent
THREADS = 256
WARPS = THREADS // 32
ROWS, COLUMNS, SIDE = 16, 512, 8


def copies(n_multiple: int) -> dict[str, tc.Plan]:
    """The copies, for N that are multiples of so many elements."""
    m = tc.symbol("M", lower=1, upper=2**31 - 64)
    n = tc.symbol("N", lower=n_multiple, upper=2**30, multiple_of=n_multiple)
    by, bx = tc.symbol("by", upper=2**16), tc.symbol("bx", upper=2**24)
    a, b = (
        tc.Buffer((m, n), "float32", space="global", name=name, align_bytes=min(16, 4 * n_multiple)) for name in "AB"
    )
    tile = tc.Buffer((ROWS + 2, COLUMNS + 2 * SIDE), "float32", space="shared", name="tile")
    # a row a warp, its lanes neighbouring columns
    layout = TileLayout(S[(WARPS, COLUMNS // 32, 32) : (32 @ tx, 1, 1 @ tx)])
    part = tc.Buffer((WARPS, COLUMNS), "float32", space="local", name="part", layout=layout)
    row, column = by * ROWS, bx * COLUMNS
    r = tc.symbol("r", upper=ROWS // WARPS - 1)
    scope = tc.cta(THREADS)

    def shifted(down: int, right: int) -> tc.Plan:
        first = r * WARPS + 1 + down
        box = tile[first : first + WARPS, SIDE + right : SIDE + right + COLUMNS]
        return tc.plan(part[:, :], box, scope=scope, target="sm_80")

    inside = a[row - 1 : row + ROWS + 1, column - SIDE : column + COLUMNS + SIDE]
    out = b[row + r * WARPS : row + r * WARPS + WARPS, column : column + COLUMNS]
    return {
        "load_tile": tc.plan(tile[:, :], inside, op="copy_async", scope=scope, target="sm_80", outside="zero"),
        "read_north": shifted(-1, 0),
        "read_south": shifted(1, 0),
        "read_west": shifted(0, -1),
        "read_east": shifted(0, 1),
        "write_rows": tc.plan(out, part[:, :], scope=scope, target="sm_80", outside="keep"),
    }


@cache
def source(n: int) -> str:
    """The whole CUDA C++ of the kernel for the divisibility that N has."""
    functions = [plan.cuda(name) for name, plan in copies(gcd(n, 4)).items()]
    return tc.cuda_header(functions) + (HERE / "stencil.cu").read_text()


def grid(m: int, n: int) -> tuple[int, int]:
    """Blocks along N and M."""
    return -(-n // COLUMNS), -(-m // ROWS)


def expected(a: np.ndarray) -> np.ndarray:
    """One step by NumPy."""
    p = np.pad(a, 1)
    return np.float32(0.25) * ((p[:-2, 1:-1] + p[2:, 1:-1]) + (p[1:-1, :-2] + p[1:-1, 2:]))


def main() -> None:
    """One step of an array with edges on every side."""
    sys.path.insert(0, str(HERE.parent))
    from nvrtc import compiled
    from tilecopy_emulator import run_ptx

    m, n = 70, 300
    a = np.random.default_rng(0).random((m, n), np.float32)
    b = np.zeros_like(a)
    run_ptx(compiled(source(n)), [a, b, m, n], grid=grid(m, n), block=THREADS)
    print(f"equal to NumPy: {np.array_equal(b, expected(a))}")


if __name__ == "__main__":
    main()
