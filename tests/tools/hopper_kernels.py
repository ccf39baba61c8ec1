"""Load the kernels of docs/examples and of the benchmarks on a Hopper GPU, and write the machine code that it loads.

`python tests/tools/hopper_kernels.py FOLDER` loads each kernel like a launch, in its own process. It writes the driver's machine code
to the folder, and prints as JSON the local memory of each kernel in bytes per thread, as loaded and as compiled by ptxas.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import tilecopy as tc
from tilecopy.assemblers import assemble
from tilecopy.executors import get_executor
from tilecopy_test_helpers import demos

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs" / "examples"), str(ROOT / "tests" / "benchmarks"), str(ROOT / "tests" / "tools")]
_LOCAL_SIZE_BYTES = 3
"""CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES (cuda.h)."""
_RESOURCE, _MODULE_LOADED = 3, 6
"""CUPTI_CB_DOMAIN_RESOURCE and CUPTI_CBID_RESOURCE_MODULE_LOADED (cupti_callbacks.h)."""


def examples() -> dict[str, tc.BuiltKernel]:
    """Return the kernels of docs/examples, by name; those that NVRTC compiles are not ours to load."""
    import accumulator_to_operand
    import attention_tma
    import gather_scatter
    import gemm_tma
    import paged_copy

    return {
        "quantised": accumulator_to_operand.quantised(),
        "attention_tma": attention_tma.attention(16, 4096),
        "gemm_tma": gemm_tma.gemm(4096, 4096, 4096),
        **{way: gather_scatter.rows_by_index(way, 64, "float32") for way in ("gather", "scatter")},
        **{f"paged by {scope}": paged_copy.paged_copy(scope, 128, "float16") for scope in ("cta", "warp")},
    }


def benchmarks() -> dict[str, tc.BuiltKernel]:
    """Return the kernels of tests/benchmarks, by name."""
    if find_spec("torch") is None:  # the benchmarks need it to time their kernels
        sys.modules.setdefault("torch", mock.MagicMock())
    import bench_bulk
    import bench_cost
    import bench_dsmem
    import bench_edges
    import bench_gpus
    import bench_hints
    import bench_launch
    import bench_relayout
    import bench_round_trip
    import bench_threads
    import bench_tma
    from tilecopy_relayout import plan_relayout

    rows = 1 << 20
    tma = {
        f"tma {tile} x {columns}": bench_tma.single(tile, columns, swizzle)
        for tile, columns, swizzle in ((64, 64, True), (128, 64, True), (64, 128, False))
    }
    relayouts = {
        f"relayout {name}": plan_relayout(shape, dtype, axes, target="sm_90a").kernel
        for name, (shape, axes, dtype) in (bench_relayout.CASES | bench_relayout.NARROW).items()
    }
    drawn = bench_cost.drawn(6)
    costs = {
        f"cost {number} {variant} {index}": kernel
        for number, case in enumerate(drawn)
        for index, (_, variant, kernel, _) in enumerate(bench_cost.ways(case, 256 << 20))
    }
    return {
        "round trip gmem_smem": bench_round_trip.gmem_smem(rows),
        "round trip ldgsts": bench_round_trip.ldgsts(rows),
        "round trip ldgsts, 128 rows": bench_round_trip.ldgsts(rows, tile_rows=128),
        "round trip reg": bench_round_trip.reg(rows),
        "round trip reg, 8 vectors": bench_round_trip.reg(rows, vectors=8),
        "bulk": bench_bulk.single(1024),
        "bulk, prefetched": bench_bulk.single(1024, ahead=2),
        "bulk, 8 stages": bench_bulk.several(1024, 8),
        "bulk, persistent": bench_bulk.staged(1024, 132, 4),
        "DSMEM": bench_dsmem.exchange(4096, 16, 132),
        "edges copy": bench_edges.tiles(16381, 32749, 32749, "copy"),
        "edges copy_async": bench_edges.tiles(16381, 32749, 32749, "copy_async"),
        "between GPUs": bench_gpus.copier(1 << 24),
        "launch": bench_launch.one_tile("sm_90"),
        **{f"hints {case.name}": case.build(case.shape(1 << 28), "sm_90a") for case in bench_hints.CASES},
        **{f"threads {n}": bench_threads.build(n, "sm_90a", "threads") for n in range(len(bench_threads.TILES))},
        "tma, 4 stages": bench_tma.several(64, 64, True, 4),
        **{f"loop {variant}": bench_tma.loop(variant, 128) for variant in ("ldgsts", "tma")},
        **{f"multicast {multicast}": bench_tma.shared_rows(4, multicast) for multicast in (False, True)},
        **{
            f"pipeline, {kind}": demos.pipeline(
                "sm_90", rows=64, tiles=256, ctas=132, stages=4, asynchronous=kind == "ldgsts"
            )
            for kind in ("synchronous", "ldgsts")
        },
        **tma,
        **relayouts,
        **costs,
    }


class _ModuleResource(ctypes.Structure):
    """CUpti_ModuleResourceData."""

    _fields_ = (("module", ctypes.c_uint32), ("size", ctypes.c_size_t), ("cubin", ctypes.c_void_p))


class _Resource(ctypes.Structure):
    """CUpti_ResourceData."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("handle", ctypes.c_void_p),
        ("descriptor", ctypes.POINTER(_ModuleResource)),
    )


class LoadedCode:
    """The machine code of modules as the driver loads them, by CUPTI's callback.

    Attributes:
        last: that of the newest module.
    """

    def __init__(self) -> None:
        self.last = b""
        place, kind = ctypes.c_void_p, ctypes.c_uint32
        self._callback = ctypes.CFUNCTYPE(None, place, kind, kind, ctypes.POINTER(_Resource))(self._loaded)
        library, subscriber = self._library(), ctypes.c_void_p()
        for code in (
            library.cuptiSubscribe(ctypes.byref(subscriber), self._callback, None),
            library.cuptiEnableCallback(1, subscriber, _RESOURCE, _MODULE_LOADED),
        ):
            if code:
                raise OSError(f"CUPTI refuses a subscriber: {code}")

    @staticmethod
    def _library() -> Any:
        spec = find_spec("nvidia")
        roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec else []
        found = [str(path) for root in roots for path in root.glob("**/libcupti.so.*")]
        found += [str(path) for path in Path("/usr/local").glob("cuda*/**/libcupti.so")]
        return ctypes.CDLL(found[0] if found else "libcupti.so")

    def _loaded(self, user: Any, domain: int, which: int, data: Any) -> None:
        module = data.contents.descriptor.contents
        self.last = ctypes.string_at(module.cubin, module.size)


def local_bytes(cuda: Any, function: Any) -> int:
    """Return the local memory of a function, in bytes per thread."""
    which = cuda.driver.api.CUfunction_attribute(_LOCAL_SIZE_BYTES)
    return int(cuda.driver.call("cuFuncGetAttribute", which, function))


def main(folder: Path) -> None:
    """Load every kernel, and write and print the results."""
    cuda: Any = get_executor("cuda")
    kernels, code = examples() | benchmarks(), LoadedCode()
    suffixed: Callable[[tc.BuiltKernel], str] = lambda kernel: f"sm_90{kernel.target.suffix}"  # noqa: E731
    local = {}
    with cuda.driver.active(0), cuda.driver.outside_capture():
        for number, (name, kernel) in enumerate(kernels.items()):
            code.last = b""
            loaded = local_bytes(cuda, cuda.load(kernel, 0).function)
            (folder / f"{number}.cubin").write_bytes(code.last)
            assembled = assemble(kernel.ptx, suffixed(kernel), "ptxas")
            (folder / f"{number}.ptxas.cubin").write_bytes(assembled)
            module = cuda.driver.call("cuModuleLoadData", assembled)
            function = cuda.driver.call("cuModuleGetFunction", module, kernel.name.encode())
            local[name] = {"number": number, "loaded": loaded, "ptxas": local_bytes(cuda, function)}
            cuda.driver.call("cuModuleUnload", module)
    print(json.dumps(local))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
