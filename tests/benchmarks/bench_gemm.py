"""Compare the bfloat16 GEMM of docs/examples/gemm_tma.py with cuBLAS (torch.mm): `python tests/benchmarks/bench_gemm.py`.

Normal random numbers; medians over batches of ten launches by device events, both in turn. Needs torch and an H100 or H200.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "docs/examples"), str(Path(__file__).resolve().parent)]

ROUNDS = 3


def main() -> None:
    """Print every figure."""
    import torch
    from bench_tma import timed
    from figures import record
    from gemm_tma import gemm

    torch.manual_seed(0)
    for m, n, k in ((300, 520, 200), (4096, 4096, 4096), (8192, 8192, 8192)):
        a, b = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
        c = torch.full((m, n), 7.0, device="cuda", dtype=torch.bfloat16)
        ours = gemm(m, n, k).prepare(a, b, c)
        ours()
        wanted = torch.mm(a, b.T)
        difference = float((c.float() - wanted.float()).abs().max() / wanted.float().abs().max())
        assert difference < 0.01, f"{m} x {n} x {k}: largest difference {difference}"
        if m < 4096:
            continue
        by_columns = b.T.contiguous()
        layouts = {
            "B as (n, k)": lambda b=b: torch.mm(a, b.T, out=wanted),
            "B as (k, n)": lambda b=by_columns: torch.mm(a, b, out=wanted),
        }
        rounds: dict[str, list[float]] = {name: [] for name in ("ours", *layouts)}
        for _ in range(ROUNDS):
            for name, launch in (("ours", ours), *layouts.items()):
                rounds[name].append(timed(torch, launch))
        took = {name: median(times) for name, times in rounds.items()}
        rate = {name: 2 * m * n * k / time / 1e9 for name, time in took.items()}
        record(f"gemm: {m} x {n} x {k}", rate["ours"], "TFLOP/s", cublas=max(rate[name] for name in layouts))
        rates = ", ".join(f"cuBLAS {name} {2 * m * n * k / took[name] / 1e9:.0f}" for name in layouts)
        best = min(took[name] for name in layouts)
        print(
            f"{m} x {n} x {k}: ours {2 * m * n * k / took['ours'] / 1e9:.0f} TFLOP/s, {rates}, "
            f"ours {best / took['ours']:.3f} of the faster, largest difference {difference:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
