"""What one launch costs the host, with two torch tensors: `python tests/benchmarks/bench_launch.py` on a GPU machine.

Ours by a call and prepared, against cuda.core's launch of raw pointers and, where it is installed, Triton's. The kernels
do next to nothing, so that the GPU keeps up; every figure is the median over batches of the time to enqueue one launch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import tilecopy as tc
import torch
from cuda.core import Device, LaunchConfig, ObjectCode, launch
from tilecopy.executors import executor_named


def microseconds(work: Callable[[], Any], *, launches: int = 500, batches: int = 40) -> float:
    """Median host time of one launch; the queue is emptied before each batch."""
    times = []
    for _ in range(batches):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(launches):
            work()
        times.append((time.perf_counter() - started) / launches)
    return statistics.median(times) * 1e6


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
    cuda: Any = executor_named("cuda")
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
    for name, work in cases.items():
        print(f"{name:<36}" + ("not installed" if work is None else f"{microseconds(work):6.2f} us"))


if __name__ == "__main__":
    main()
