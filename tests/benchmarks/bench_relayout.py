"""Compare relayouts of whole arrays by tilecopy-relayout, torch, torch.compile, JAX and cuTENSOR on one GPU.

    python tests/benchmarks/bench_relayout.py [--quick] [--narrow] [--json FILE] [--no-compile] [--no-jax]
    python tests/benchmarks/bench_relayout.py --table FILE

2 GiB in and 2 GiB out (1.5 to 2 where the shape asks) of random bytes, the result compared with torch's; ten launches a
measurement, medians of five. Then small float16 transposes by CUDA graph, the host's time of one call, and the first call
of a new plan. ``--narrow`` takes 1 GiB each of elements that begin anywhere instead. cuTENSOR is measured where ``CUTENSOR_SO`` names its shared library.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import record

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], str]] = {
    "transpose f32": ((16384, 32768), (1, 0), "float32"),
    "transpose f16": ((32768, 32768), (1, 0), "float16"),
    "transpose u8": ((32768, 65536), (1, 0), "uint8"),
    "odd transpose f32": ((16381, 32749), (1, 0), "float32"),
    "NCHW to NHWC f16": ((64, 256, 256, 256), (0, 2, 3, 1), "float16"),
    "NHWC to NCHW f16": ((64, 256, 256, 256), (0, 3, 1, 2), "float16"),
    "3-channel NCHW to NHWC u8": ((64, 3, 3344, 3344), (0, 2, 3, 1), "uint8"),
    "210 f16": ((1024, 1024, 1024), (2, 1, 0), "float16"),
    "021 f16": ((1024, 1024, 1024), (0, 2, 1), "float16"),
    "102 f16": ((1024, 1024, 1024), (1, 0, 2), "float16"),
    "bshd to bhsd f16": ((8, 8192, 128, 128), (0, 2, 1, 3), "float16"),
    "5-D f32": ((32, 64, 128, 64, 32), (4, 2, 0, 3, 1), "float32"),
    "6-D f32": ((16, 32, 32, 32, 32, 32), (5, 1, 3, 0, 4, 2), "float32"),
    "210 u8": ((1024, 1024, 2048), (2, 1, 0), "uint8"),
    "021 u8": ((1024, 1024, 2048), (0, 2, 1), "uint8"),
}
NARROW: dict[str, tuple[tuple[int, ...], tuple[int, ...], str]] = {
    "odd transpose u8": ((32749, 32749), (1, 0), "uint8"),
    "odd rows u8": ((32749, 32768), (1, 0), "uint8"),
    "odd columns u8": ((32768, 32749), (1, 0), "uint8"),
    "odd transpose f16": ((16381, 32749), (1, 0), "float16"),
    "even transpose f16": ((16382, 32750), (1, 0), "float16"),
    "odd 210 f16": ((511, 1023, 1021), (2, 1, 0), "float16"),
    "odd NCHW to NHWC f16": ((64, 255, 253, 129), (0, 2, 3, 1), "float16"),
    "odd NHWC to NCHW f16": ((64, 129, 255, 253), (0, 3, 1, 2), "float16"),
    "transpose f32 of fours": ((16380, 16388), (1, 0), "float32"),
}
"""About 1 GiB each; the last one's rows begin at 16 bytes and not at sectors."""
SMALL = {"64 KiB": 128, "1 MiB": 704, "4 MiB": 1408, "16 MiB": 2880, "64 MiB": 5760}
"""Sides of square float16 arrays."""
BYTES = 2 << 30


def seconds(torch: Any, work: Callable[[], Any], *, runs: int = 5, batch: int = 10) -> float:
    """Median seconds of one call of ``work``, of batches between events."""
    work()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(batch):
            work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e-3 / batch)
    return statistics.median(times)


class CuTensor:
    """Permutations by cuTENSOR's C interface."""

    TYPES = {"float32": 0, "float16": 2}

    def __init__(self, path: str) -> None:
        self.lib, self.handle = ctypes.CDLL(path), ctypes.c_void_p()
        self._check(self.lib.cutensorCreate(ctypes.byref(self.handle)))
        self.compute = ctypes.c_void_p.in_dll(self.lib, "CUTENSOR_COMPUTE_DESC_32F")

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"cuTENSOR status {status}")

    def _tensor(self, shape: Any, strides: Any, dtype: str) -> Any:
        made, n = ctypes.c_void_p(), len(shape)
        extents, steps = (ctypes.c_int64 * n)(*shape), (ctypes.c_int64 * n)(*strides)
        self._check(
            self.lib.cutensorCreateTensorDescriptor(
                self.handle,
                ctypes.byref(made),
                ctypes.c_uint32(n),
                extents,
                steps,
                self.TYPES[dtype],
                ctypes.c_uint32(128),
            )
        )
        return made

    def permute(self, torch: Any, source: Any, result: Any, axes: Any, dtype: str, *, jit: int) -> Callable[[], None]:
        """A call that permutes ``source`` into ``result``."""
        n, operation = source.dim(), ctypes.c_void_p()
        left = self._tensor(source.shape, source.stride(), dtype)
        right = self._tensor(result.shape, result.stride(), dtype)
        modes, turned = (ctypes.c_int32 * n)(*range(n)), (ctypes.c_int32 * n)(*axes)
        same = ctypes.c_int(1)
        self._check(
            self.lib.cutensorCreatePermutation(
                self.handle, ctypes.byref(operation), left, modes, same, right, turned, self.compute
            )
        )
        preference, plan = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(
            self.lib.cutensorCreatePlanPreference(
                self.handle, ctypes.byref(preference), ctypes.c_int(-1), ctypes.c_int(jit)
            )
        )
        self._check(
            self.lib.cutensorCreatePlan(self.handle, ctypes.byref(plan), operation, preference, ctypes.c_uint64(0))
        )
        one = ctypes.c_float(1)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        operands = ctypes.c_void_p(source.data_ptr()), ctypes.c_void_p(result.data_ptr())
        scale = ctypes.byref(one)
        return lambda: self.lib.cutensorPermute(self.handle, plan, scale, *operands, stream)


def jax_seconds(source: Any, axes: tuple[int, ...]) -> float:
    """Median seconds of JAX's transpose, host time included (it has no out=)."""
    import jax
    import jax.numpy as jnp

    array = jax.dlpack.from_dlpack(source)
    turn = jax.jit(lambda x: jnp.transpose(x, axes))
    turn(array).block_until_ready()
    times = []
    for _ in range(5):
        started = time.perf_counter()
        turn(array).block_until_ready()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def large(torch: Any, names: list[str], cutensor: CuTensor | None, *, compiled: bool, jax: bool) -> dict[str, Any]:
    """The table of large arrays, in TB/s read and written."""
    from tilecopy_relayout import relayout

    memory = torch.randint(0, 255, (BYTES,), dtype=torch.uint8, device="cuda")
    into = torch.empty_like(memory)
    table: dict[str, Any] = {
        "copy_": {"torch": round(2 * BYTES / seconds(torch, lambda: into.copy_(memory)) / 1e12, 3)}
    }
    print(f"plain copy: {table['copy_']['torch']} TB/s", flush=True)
    for name in names:
        shape, axes, dtype = (CASES | NARROW)[name]
        kind = getattr(torch, dtype)
        count = math.prod(shape)
        nbytes = count * kind.itemsize
        source = memory[:nbytes].view(kind).view(shape)
        result = into[:nbytes].view(kind).view([shape[a] for a in axes])

        def rate(work: Callable[[], Any], nbytes: int = nbytes, **how: int) -> float:
            return round(2 * nbytes / seconds(torch, work, **how) / 1e12, 3)

        row: dict[str, Any] = {}
        into.zero_()
        relayout(source, axes, out=result)
        expected = source.permute(axes).contiguous()
        row["equal"] = bool(torch.equal(result.view(torch.uint8), expected.view(torch.uint8)))
        del expected
        row["tilecopy"] = rate(lambda s=source, a=axes, r=result: relayout(s, a, out=r))
        row["torch"] = rate(lambda s=source, a=axes, r=result: r.copy_(s.permute(a)), runs=3, batch=2)
        if cutensor is not None and dtype in cutensor.TYPES:
            row["cuTENSOR"] = max(rate(cutensor.permute(torch, source, result, axes, dtype, jit=jit)) for jit in (0, 1))
        if compiled:
            torch._dynamo.reset()
            turn = torch.compile(lambda x, a=axes: x.permute(a).contiguous(), dynamic=False)
            row["torch.compile"] = rate(lambda s=source, t=turn: t(s))
        torch.cuda.empty_cache()
        if jax:
            row["JAX"] = round(2 * nbytes / jax_seconds(source, axes) / 1e12, 3)
        peers = [row[p] for p in ("torch", "torch.compile", "JAX", "cuTENSOR") if p in row]
        row["over best peer"] = round(row["tilecopy"] / max(peers), 3)
        row["of copy_"] = round(row["tilecopy"] / table["copy_"]["torch"], 3)
        record(f"relayout: {name}", row["tilecopy"], "TB/s", **{p: row[p] for p in PEERS if p in row})
        table[name] = row
        print(f"{name:28s}", row, flush=True)
    ratios = [row["over best peer"] for name, row in table.items() if name != "copy_"]
    if ratios:
        table["geometric mean over best peer"] = round(math.prod(ratios) ** (1 / len(ratios)), 3)
        print("geometric mean over best peer:", table["geometric mean over best peer"])
    return table


def small(torch: Any, cutensor: CuTensor | None) -> dict[str, Any]:
    """Small float16 transposes in microseconds: a call between events, and inside a graph of fifty."""
    from tilecopy_relayout import relayout

    table: dict[str, Any] = {}
    for name, side in SMALL.items():
        source = torch.randn(side, side, device="cuda").half()
        result = torch.empty_like(source)
        works: dict[str, Callable[[], Any]] = {
            "tilecopy": lambda s=source, r=result: relayout(s, (1, 0), out=r),
            "torch copy_(x.t())": lambda s=source, r=result: r.copy_(s.t()),
            "plain copy_": lambda s=source, r=result: r.copy_(s),
        }
        if cutensor is not None:
            works["cuTENSOR"] = cutensor.permute(torch, source, result, (1, 0), "float16", jit=0)
        row = {f"{who}": round(seconds(torch, work, runs=9, batch=50) * 1e6, 2) for who, work in works.items()}
        relayout(source, (1, 0), out=result)
        row["equal"] = bool(torch.equal(result, source.t()))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(50):
                relayout(source, (1, 0), out=result)
        row["tilecopy in a graph"] = round(seconds(torch, graph.replay, runs=9, batch=1) * 1e6 / 50, 2)
        table[name] = row
        print(f"{name:8s}", row, flush=True)
    return table


def host(torch: Any) -> dict[str, float]:
    """Microseconds of host time of a call, from the second on."""
    from tilecopy_relayout import relayout

    source = torch.randn(256, 256, device="cuda").half()
    result = torch.empty_like(source)
    works: dict[str, Callable[[], Any]] = {
        "relayout(x, axes, out=y)": lambda: relayout(source, (1, 0), out=result),
        "relayout(x, axes)": lambda: relayout(source, (1, 0)),
        'relayout(x, "a b -> b a", out=y)': lambda: relayout(source, "a b -> b a", out=result),
        "y.copy_(x.t())": lambda: result.copy_(source.t()),
        "x.t().contiguous()": lambda: source.t().contiguous(),
    }
    table: dict[str, float] = {}
    for name, work in works.items():
        best = []
        for _ in range(5):
            work()
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(400):
                work()
            best.append((time.perf_counter() - started) / 400 * 1e6)
            torch.cuda.synchronize()
        table[name] = round(statistics.median(best), 2)
    for name in list(works)[:3]:
        peer = "y.copy_(x.t())" if "out" in name else "x.t().contiguous()"
        record(f"relayout: host time of {name}", table[name], "us", torch=table[peer])
    print("host microseconds a call:", table, flush=True)
    return table


def first(torch: Any) -> dict[str, float]:
    """Milliseconds of the first call of new plans: imports and context are there."""
    from tilecopy_relayout import relayout

    relayout(torch.ones(64, 64, device="cuda"), (1, 0))
    times: dict[str, list[float]] = {}
    for number in range(12):
        for name, shape, axes, dtype in (
            ("transpose f32", (1024, 2048 + 64 * number), (1, 0), torch.float32),
            ("transpose f16", (1024, 2048 + 128 * number), (1, 0), torch.float16),
            ("direct f16", (64, 32 + number, 128), (1, 0, 2), torch.float16),
            ("odd f32", (1023, 2049 + 2 * number), (1, 0), torch.float32),
        ):
            source = torch.zeros(shape, dtype=dtype, device="cuda")
            result = torch.empty([shape[a] for a in axes], dtype=dtype, device="cuda")
            torch.cuda.synchronize()
            started = time.perf_counter()
            relayout(source, axes, out=result)
            torch.cuda.synchronize()
            times.setdefault(name, []).append((time.perf_counter() - started) * 1e3)
    table = {name: round(statistics.median(each), 2) for name, each in times.items()}
    for name, milliseconds in table.items():
        record(f"relayout: first call, {name}", milliseconds, "ms")
    print("first call, ms (median of 12):", table, flush=True)
    return table


PEERS = ("torch", "torch.compile", "JAX", "cuTENSOR")


def markdown(report: dict[str, Any]) -> str:
    """The tables of a report for the README."""
    large, small = report["large TB/s"], report["small us"]
    lines = [
        f"TB/s read and written on one {report['GPU']}; a plain `copy_` of the same bytes: {large['copy_']['torch']:.2f}.",
        "",
        f"| case | shape, axes | {' | '.join(PEERS)} | tilecopy | over the best | of `copy_` |",
        "|---|---|" + "---|" * (len(PEERS) + 3),
    ]
    for name, (shape, axes, _) in (CASES | NARROW).items():
        if name not in large:
            continue
        row = large[name]
        peers = " | ".join(f"{row[p]:.2f}" if p in row else "-" for p in PEERS)
        lines.append(
            f"| {name} | {' x '.join(map(str, shape))}, {' '.join(map(str, axes))} | {peers} | **{row['tilecopy']:.2f}** "
            f"| {row['over best peer']:.2f} | {row['of copy_']:.2f} |"
        )
    lines += [
        "",
        f"Geometric mean over the best of them: {large['geometric mean over best peer']:.2f}. Small float16 transposes, "
        "microseconds a call, launch included:",
        "",
        f"| bytes | {' | '.join(key for key in next(iter(small.values())) if key != 'equal')} |",
        "|---|" + "---|" * (len(next(iter(small.values()))) - 1),
    ]
    for name, row in small.items():
        lines.append(f"| {name} | {' | '.join(f'{value:.1f}' for key, value in row.items() if key != 'equal')} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run and print; 1 where a result differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="measure only three cases")
    parser.add_argument(
        "--narrow", action="store_true", help="use elements of one and two bytes at unaligned addresses"
    )
    parser.add_argument(
        "--only", default="", help="measure only cases whose names contain one of these texts, separated by commas"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path, help="print the tables of an earlier --json file instead of measuring")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-jax", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.table:
        print(markdown(json.loads(chosen.table.read_text())))
        return 0
    try:
        import torch
    except ImportError:
        print("torch is not installed: pip install torch")
        return 0
    if not torch.cuda.is_available():
        print("no GPU: nothing to measure")
        return 0
    library = os.environ.get("CUTENSOR_SO")
    cutensor = CuTensor(library) if library else None
    cases = NARROW if chosen.narrow else CASES
    names = [n for n in cases if not chosen.only or any(part in n for part in chosen.only.split(","))]
    names = names[:3] if chosen.quick else names
    report = {
        "GPU": torch.cuda.get_device_name(0),
        "host us": host(torch),
        "first ms": first(torch),
        "small us": small(torch, cutensor),
        "large TB/s": large(torch, names, cutensor, compiled=not chosen.no_compile, jax=not chosen.no_jax),
    }
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=1))
    rows = [row for table in ("small us", "large TB/s") for row in report[table].values() if isinstance(row, dict)]
    return 0 if all(row.get("equal", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
