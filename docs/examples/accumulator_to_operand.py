"""A product whose result is an operand of the next one, with no shared memory between: P = A @ B.T in float16, quantised to int8.

The accumulators of m16n8k16 are two neighbours a lane, operand A of m16n8k32 of int8 four, so that elements change lanes: a
copy between two fragments, which regperm_shfl does. Run it: `python docs/examples/accumulator_to_operand.py`.
"""

from __future__ import annotations

import numpy as np
import tilecopy as tc

M, N, K = 16, 32, 64
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{2}}}, {{{0}}}, {{{1}}}, {{{2}}};"


def quantised() -> tc.BuiltKernel:
    """The kernel of one warp: arguments A (M, K), B (N, K), and P (M, N), as the fragment of the next product has it."""
    k = tc.KernelBuilder("quantised", threads=32)
    a, b = k.param("A", (M, K), "float16"), k.param("B", (N, K), "float16")
    p = k.param("P", (M, N), "int8")
    tiles = [k.shared((rows, K), "float16", name=name) for rows, name in ((M, "a_tile"), (N, "b_tile"))]

    def fragment(name: str, shape: tuple[int, int], of: tuple[str, str, str], dtype: str) -> tc.Buffer:
        return k.local(shape, dtype, layout=tc.tile_fragment(tc.mma_fragment(*of), shape), name=name)

    left = fragment("left", (M, K), ("m16n8k16", "A", "float16"), "float16")
    right = fragment("right", (N, K), ("m16n8k16", "B", "float16"), "float16")
    sums = fragment("sums", (M, N), ("m16n8k16", "C", "float32"), "float32")
    bytes_ = fragment("bytes", (M, N), ("m16n8k16", "C", "int32"), "int8")
    operand = fragment("operand", (M, N), ("m16n8k32", "A", "int8"), "int8")
    for tile, array in zip(tiles, (a, b), strict=True):
        k.warp.copy(tile[:, :], array[:, :])
    k.cta_sync()
    for held, tile in zip((left, right), tiles, strict=True):
        k.warp.copy(held[:, :], tile[:, :])
    x, y, z = (k.registers(held) for held in (left, right, sums))
    for i in range(M * N // 32):
        k.store(z[i], 0.0)
    for n in range(N // 8):
        for step in range(K // 16):
            two = 4 * (n * (K // 16) + step)
            k.inline_ptx(MMA, x[8 * step : 8 * step + 8], y[two : two + 4], out=[z[4 * n : 4 * n + 4]])
    for i in range(M * N // 32):
        scaled = k.load(z[i]) * 4.0
        k.store(k.registers(bytes_)[i], k.cast(scaled.max(-127.0).min(127.0), "int8"))
    k.warp.copy(operand[:, :], bytes_[:, :])
    k.warp.copy(p[:, :], operand[:, :])
    return k.build(target="sm_80", grid=1)


def main() -> None:
    """The operand is NumPy's."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (N, K)))
    p = np.zeros((M, N), np.int8)
    kernel = quantised()
    kernel(a, b, p)
    wanted = np.clip(4 * a.astype(np.float32) @ b.astype(np.float32).T, -127, 127).astype(np.int8)
    print(f"operand: {'equal' if (p == wanted).all() else 'DIFFERENT'}")
    for plan in kernel.plans[2:5]:
        print(f"{plan.variant}: {plan.partition.summary()}")


if __name__ == "__main__":
    main()
