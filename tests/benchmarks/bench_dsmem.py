"""Measure the DSMEM throughput of all SMs in both directions: `python tests/benchmarks/bench_dsmem.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent)]
import tilecopy as tc
from bench_round_trip import median_seconds
from figures import record


def exchange(nbytes: int, phases: int, ctas: int, per_phase: int = 16) -> tc.BuiltKernel:
    """Pairs of CTAs send each other chunks; both sides are armed before either sends, and a phase ends before the next."""
    k = tc.KernelBuilder("exchange", threads=32)
    check = k.param("CHECK", (ctas, nbytes // 4), "uint32")
    source = k.shared((nbytes // 4,), "uint32", name="source")
    sink = k.shared((nbytes // 4,), "uint32", name="sink")
    mbar, tid, rank = k.mbarrier("mbar"), k.thread_id(), k.cluster_rank()
    block = k.block_id("x")
    with k.range(nbytes // 128) as i:
        k.store(source[i * 32 + tid], k.cast(block * 65536 + i * 32 + tid, "uint32"))
    with k.if_(tid == 0):
        mbar.init(1)
        k.fence_mbarrier_init()
    k.fence_proxy_async()
    k.cluster_sync()
    with k.range(phases) as phase:
        with k.if_(tid == 0):
            mbar.arrive_expect_tx(per_phase * nbytes)
        k.cluster_sync()
        with k.if_(tid == 0):
            for _ in range(per_phase):
                k.thread.copy_async(sink[:], source[:], mbar=mbar[0], remote_cta_id=rank ^ 1)
        mbar.wait(phase % 2)
    k.cluster_sync()
    k.cta.copy(check[block, :], sink[:])
    return k.build(target="sm_90", grid=ctas, cluster=2)


def main() -> None:
    """Print TB/s for a few chunk sizes."""
    ctas, phases = 132, 100
    print(f"{'DSMEM, bulk copies of':<24}{'TB/s':>8}  equal")
    for nbytes in (1024, 4096, 16384, 32768):
        kernel = exchange(nbytes, phases, ctas)
        out = torch.zeros(ctas, nbytes // 4, dtype=torch.int32, device="cuda").view(torch.uint32)
        seconds = median_seconds(lambda kernel=kernel, out=out: kernel(out), runs=10, warm_up=2)
        peer = torch.arange(ctas, device="cuda") ^ 1
        expected = peer[:, None] * 65536 + torch.arange(nbytes // 4, device="cuda")
        equal = bool((out.view(torch.int32) == expected).all())
        record(f"DSMEM: copies of {nbytes} bytes", ctas * phases * 16 * nbytes / seconds / 1e12, "TB/s")
        print(f"{nbytes:<24}{ctas * phases * 16 * nbytes / seconds / 1e12:>8.2f}  {equal}")
        if not equal:
            raise SystemExit(f"{nbytes}: the result differs")


if __name__ == "__main__":
    main()
