"""Compare the attention kernel of docs/examples/attention_tma.py with torch's: `python tests/benchmarks/bench_attention.py`.

Normal random numbers in bfloat16; medians over batches of ten launches by device events, all in turn. Needs torch and an H100 or H200.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "docs/examples"), str(Path(__file__).resolve().parent)]

ROUNDS = 3
BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION")


def main() -> None:
    """Print every figure."""
    import torch
    from attention_tma import attention
    from bench_tma import timed
    from figures import record
    from torch.nn.attention import SDPBackend, sdpa_kernel

    theirs = torch.nn.functional.scaled_dot_product_attention
    torch.manual_seed(0)
    for heads, length in ((3, 512), (16, 4096), (64, 4096), (16, 16384)):
        q, k, v = (torch.randn(heads, length, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        out = torch.full_like(q, 7.0)
        ours = attention(heads, length).prepare(q, k, v, out)
        ours()
        wanted = (
            theirs(q[None].float(), k[None].float(), v[None].float())[0]
            if length < 16384
            else theirs(q[None], k[None], v[None])[0]
        )
        difference = float((out.float() - wanted.float()).abs().max() / wanted.float().abs().max())
        assert difference < 0.01, f"{heads} x {length}: largest difference {difference}"
        if length < 4096:
            continue

        def by(name: str, q: Any = q[None], k: Any = k[None], v: Any = v[None]) -> None:
            with sdpa_kernel(getattr(SDPBackend, name)):
                theirs(q, k, v)

        took: dict[str, list[float]] = {name: [] for name in ("ours", "default", *BACKENDS)}
        for _ in range(ROUNDS):
            took["ours"].append(timed(torch, ours))
            took["default"].append(timed(torch, lambda q=q[None], k=k[None], v=v[None]: theirs(q, k, v)))
            for name in BACKENDS:
                took[name].append(timed(torch, lambda name=name: by(name)))
        work = 4 * heads * length * length * 128 / 1e9
        rates = ", ".join(f"{name} {work / median(times):.0f}" for name, times in took.items())
        rate = {name: work / median(times) for name, times in took.items()}
        peers = {"torch": rate["default"], "flash": rate[BACKENDS[0]], "cudnn": rate[BACKENDS[1]]}
        record(f"attention: {heads} heads, {length} tokens", rate["ours"], "TFLOP/s", **peers)
        best = min(median(times) for name, times in took.items() if name != "ours")
        print(
            f"{heads} heads, {length} tokens, TFLOP/s: {rates}; ours {best / median(took['ours']):.3f} of the fastest, "
            f"largest difference {difference:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
