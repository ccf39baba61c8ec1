"""Measure the CUDA C++ examples on a GPU: `python tests/benchmarks/bench_export.py` (needs torch and NVRTC).

Each GEMM is compared with the same kernel with hand-written copies and with torch, and the stencil with torch's copy_ of the same array.
The exit status is 1 if a result is wrong, a GEMM is below 0.9 of the hand-written one (0.95 by ldmatrix), or the stencil below 0.9 of the copy.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from bench_round_trip import median_seconds
from cuda.bindings import driver
from figures import record

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "docs" / "examples" / name) for name in ("gemm", "stencil")]
import gemm
import gemm_ldmatrix
import stencil
from tilecopy_test_helpers.cuda_cpp import compiled, encoded_map

LEAST = 0.9
LEAST_BY_LDMATRIX = 0.95
REST_SECONDS = 0.0 if "--no-rest" in sys.argv else 0.1
"""Before each measurement of a GEMM."""


def packed(argument: Any) -> Any:
    """What a launch takes for an argument."""
    if isinstance(argument, torch.Tensor):
        return ctypes.c_uint64(argument.data_ptr())
    return ctypes.c_int32(argument) if isinstance(argument, int) else argument


def kernel_of(source: str, name: str, shared_bytes: int = 0) -> Callable[..., None]:
    """A launch of a kernel with dynamic shared memory: ``launch(grid, block, *arguments)``, tensors, int32 numbers and tensor maps."""
    major, minor = torch.cuda.get_device_capability()
    cubin = compiled(source, f"sm_{major}{minor}", kind="CUBIN")
    torch.cuda.current_stream().synchronize()  # the context is there
    error, module = driver.cuModuleLoadData(cubin)
    assert error == driver.CUresult.CUDA_SUCCESS, error
    error, function = driver.cuModuleGetFunction(module, name.encode())
    assert error == driver.CUresult.CUDA_SUCCESS, error
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (error,) = driver.cuFuncSetAttribute(function, limit, shared_bytes)
    assert error == driver.CUresult.CUDA_SUCCESS, error

    def launch(grid: tuple[int, int], block: int, *arguments: Any) -> None:
        values = [packed(each) for each in arguments]
        pointers = (ctypes.c_void_p * len(values))(
            *(each.getPtr() if hasattr(each, "getPtr") else ctypes.addressof(each) for each in values)
        )
        stream = torch.cuda.current_stream().cuda_stream
        place = ctypes.addressof(pointers)
        (code,) = driver.cuLaunchKernel(function, *grid, 1, block, 1, 1, shared_bytes, stream, place, 0)
        assert code == driver.CUresult.CUDA_SUCCESS, code

    return launch


def in_turn(works: list[Callable[[], Any]]) -> list[float]:
    """Medians of seconds: nine rounds in a drawn order, ten launches a measurement, each after a rest.

    Without the rest (``--no-rest``: 125 launches a measurement) the GPU lowers its clock, most for what needs most power.
    """
    found = list[list[float]]([] for _ in works)
    for _ in range(9):
        for place in random.sample(range(len(works)), len(works)):
            torch.cuda.synchronize()
            time.sleep(REST_SECONDS)
            how = {"runs": 1, "warm_up": 2, "batch": 10} if REST_SECONDS else {}
            found[place].append(median_seconds(works[place], **how))
    return [statistics.median(times) for times in found]


def gemms(of: ModuleType, title: str, least: float, *more_sizes: tuple[int, int, int]) -> bool:
    """A table of TFLOP/s of one of the two; whether the results are right and the speed is there."""
    good = True
    print(f"{title:<22}{'tilecopy':>10}{'by hand':>10}{'torch':>10}{'to hand':>9}   TFLOP/s")
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (4104, 4008, 4040), (1000, 3000, 5000), *more_sizes):
        a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((m, k), (n, k)))
        wanted = (a.float() @ b.float().T).half()
        maps: list[Any] = []
        if of is gemm_ldmatrix:
            boxes = zip((a, b), of.boxes(m, n, k), strict=True)
            maps = [encoded_map(array.data_ptr(), **box) for array, box in boxes]
        works: list[Callable[[], Any]] = []
        for by_hand in (False, True):
            if by_hand and (k % 8 or n % 8):
                continue
            launch = kernel_of(of.source(n, k, by_hand=by_hand), "gemm", of.SHARED_BYTES)
            c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)

            def work(launch: Any = launch, given: Any = (a, b, c, m, n, k, *maps)) -> None:
                launch(of.grid(*given[3:5]), of.THREADS, *given)

            work()
            torch.cuda.synchronize()
            if not torch.allclose(c, wanted, rtol=2e-3, atol=2e-2 * k**0.5 / 8):
                print(f"wrong: {m} x {n} x {k}, by_hand={by_hand}, difference {(c - wanted).abs().max().item()}")
                good = False
            works.append(work)
        works.append(lambda a=a, b=b: torch.matmul(a, b.T))
        rates = [2e-12 * m * n * k / seconds for seconds in in_turn(works)]
        row = rates if len(rates) == 3 else [rates[0], float("nan"), rates[1]]
        ratio = row[0] / row[1]
        record(f"export: {title}, {m} x {n} x {k}", row[0], "TFLOP/s", by_hand=row[1], torch=row[2])
        good &= not ratio < least
        print(f"{f'{m} x {n} x {k}':<22}{row[0]:>10.1f}{row[1]:>10.1f}{row[2]:>10.1f}{ratio:>9.3f}")
    return good


def stencils() -> bool:
    """A table of TB/s read and written; whether the results are right and the speed is there."""
    good = True
    print(f"\n{'stencil float32':<22}{'tilecopy':>10}{'copy_':>10}{'ratio':>9}   TB/s")
    for m, n in ((16384, 16384), (16000, 20000), (12345, 12344)):
        a, b = torch.rand((m, n), device="cuda"), torch.zeros((m, n), device="cuda")
        launch = kernel_of(stencil.source(n), "stencil")

        def work(launch: Any = launch, a: Any = a, b: Any = b, m: int = m, n: int = n) -> None:
            launch(stencil.grid(m, n), stencil.THREADS, a, b, m, n)

        work()
        p = torch.nn.functional.pad(a, (1, 1, 1, 1))
        wanted = 0.25 * ((p[:-2, 1:-1] + p[2:, 1:-1]) + (p[1:-1, :-2] + p[1:-1, 2:]))
        if not torch.equal(b, wanted):
            print(f"wrong: {m} x {n}")
            good = False
        del p, wanted
        ours = 8e-12 * m * n / median_seconds(work)
        copied = 8e-12 * m * n / median_seconds(lambda a=a, b=b: b.copy_(a))
        good &= ours / copied >= LEAST
        record(f"export: stencil, {m} x {n}", ours, "TB/s", torch=copied)
        print(f"{f'{m} x {n}':<22}{ours:>10.2f}{copied:>10.2f}{ours / copied:>9.3f}")
    return good


def main() -> None:
    """The tables."""
    results = [
        gemms(gemm, "GEMM float16", LEAST, (777, 1001, 333)),
        gemms(gemm_ldmatrix, "by ldmatrix", LEAST_BY_LDMATRIX),
        stencils(),
    ]
    raise SystemExit(not all(results))


if __name__ == "__main__":
    main()
