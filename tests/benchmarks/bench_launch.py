"""Measure the host time of one launch with two torch tensors: `python tests/benchmarks/bench_launch.py` on a GPU machine.

Calls and prepared launches of tilecopy are compared with cuda.core's launch of raw pointers and, if it is installed, with Triton.
The kernels do almost nothing, so that the GPU keeps up. Every figure is the median over batches of the time to
enqueue one launch, and every ratio is the median over alternating batches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import tilecopy as tc
import torch
from cuda.core import Device, LaunchConfig, ObjectCode, launch
from figures import record
from tilecopy.executors import get_executor


def microseconds(
    works: dict[str, Callable[[], Any]], *, launches: int = 500, batches: int = 60
) -> dict[str, list[float]]:
    """Return host times of one launch, in turn: a processor that others use too is slower for some seconds, for all alike.

    The queue is emptied before each batch.
    """
    times = dict[str, list[float]]({name: [] for name in works})
    for _ in range(batches):
        for name, work in works.items():
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(launches):
                work()
            times[name].append((time.perf_counter() - started) / launches * 1e6)
    return times


def one_tile(target: str) -> tc.BuiltKernel:
    """A kernel of one CTA."""
    k = tc.KernelBuilder("one_tile", threads=32)
    a, b = k.param("A", (32, 8), "float32"), k.param("B", (32, 8), "float32")
    tile = k.shared((32, 8), "float32", name="tile")
    k.warp.copy(tile[:, :], a[:, :])
    k.cta_sync()
    k.warp.copy(b[:, :], tile[:, :])
    return k.build(target=target, grid=1)


def triton_launch(a: Any, b: Any) -> Callable[[], Any] | None:
    """The same by Triton, or None without it."""
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return None

    @triton.jit  # type: ignore[untyped-decorator]
    def copy(source, result, count: tl.constexpr):
        at = tl.arange(0, count)
        tl.store(result + at, tl.load(source + at))

    return lambda: copy[1,](a, b, 256)


def main() -> None:
    """Print the figures."""
    device: Any = Device(0)
    device.set_current()
    cuda: Any = get_executor("cuda")
    major, minor = cuda.devices()[0].capability
    kernel = one_tile(f"sm_{major}{minor}")
    a, b = torch.randn(32, 8, device="cuda"), torch.zeros(32, 8, device="cuda")
    loaded, config = ObjectCode.from_ptx(kernel.ptx.encode()).get_kernel("one_tile"), LaunchConfig(grid=1, block=32)
    stream, own = device.default_stream, torch.cuda.Stream()
    pointers = a.data_ptr(), b.data_ptr()
    cases: dict[str, Callable[[], Any] | None] = {
        "cuda.core, raw pointers": lambda: launch(stream, config, loaded, *pointers),
        "kernel(a, b)": lambda: kernel(a, b),
        "kernel(a, b, stream=torch stream)": lambda: kernel(a, b, stream=own),
        "kernel.prepare(a, b)": kernel.prepare(a, b),
        "Triton": triton_launch(a, b),
    }
    times = microseconds({name: work for name, work in cases.items() if work is not None})
    medians = {name: statistics.median(values) for name, values in times.items()}
    core = next(iter(cases))
    peers = {key: medians[name] for key, name in (("cuda_core", core), ("triton", "Triton")) if name in medians}
    for name in cases:
        if name not in times:
            print(f"{name:<36}not installed")
            continue
        if name.startswith("kernel"):
            record(f"launch: {name}", medians[name], "us", **peers)
        ratio = statistics.median(ours / peer for ours, peer in zip(times[name], times[core], strict=True))
        print(f"{name:<36}{medians[name]:6.2f} us, {ratio:.2f} of cuda.core")


if __name__ == "__main__":
    main()
