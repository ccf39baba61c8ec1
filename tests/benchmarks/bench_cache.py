"""What the first call of a new kernel costs in a warm process: `python tests/benchmarks/bench_cache.py` on a GPU machine.

Thirty kernels, each planned, lowered, loaded and launched once, in a process whose imports, context and first load are
done; every figure is the median over the kernels in milliseconds. The driver's own cache of compiled text is off but where
it is named. `--stand-in` runs the host's share alone, without a GPU: the stand-in for the driver (tests/fake_driver.py)
compiles and loads nothing, so its "load" is ours and its "text" and "linker" no figures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))
COUNT = 30
PHASES = ("plan and lower", "load", "first launch", "all three")
STEPS = ("driver: text", "driver: linker", "nvJitLink", "load of machine code", "cache: put", "cache: get")


def kernels() -> list[tuple[str, tuple[int, int], int]]:
    """Element type, tile and threads of kernels with different text."""
    tiles = itertools.product((32, 64, 128), (64, 128))
    found = itertools.product(("uint8", "float16", "float32"), tiles, (96, 128))
    return list(found)[:COUNT]


def timed(times: dict[str, list[float]], name: str, work: Callable[[], Any]) -> Any:
    """What some work gives; its milliseconds are noted."""
    started = time.perf_counter()
    result = work()
    times[name].append((time.perf_counter() - started) * 1e3)
    return result


def built(dtype: str, tile: tuple[int, int], threads: int, target: str) -> Any:
    """The round trip of two tiles."""
    from tilecopy_testkit.programs import round_trip

    return round_trip((2 * tile[0], tile[1]), tile, dtype, threads=threads, target=target)


def measured(stand_in: bool, steps: bool) -> dict[str, float]:
    """Medians of this process: of the phases of a first call, or of the steps that loading may be made of."""
    import cuda.core.utils
    from tilecopy.assemblers import assemble
    from tilecopy_cuda.cache import ModuleCache, module_key
    from tilecopy_cuda.cuda import CudaExecutor
    from tilecopy_cuda.device_array import DeviceArray

    bindings = None
    if stand_in:
        from fake_driver import FakeDriver

        bindings = FakeDriver(sizes=(8, 8))
    cuda, times = CudaExecutor(bindings, ModuleCache()), defaultdict[str, list[float]](list)
    major, minor = cuda.devices()[0].capability
    target = f"sm_{major}{minor}"
    with ExitStack() as stack:
        for index, description in enumerate([("float64", (64, 64), 64), *kernels()]):
            dtype, tile, _ = description
            a, b = (stack.enter_context(DeviceArray((2 * tile[0], tile[1]), dtype, executor=cuda)) for _ in range(2))
            if index == 1:  # the one before it was the process's first
                times.clear()
            started = time.perf_counter()
            kernel = timed(times, "plan and lower", lambda d=description: built(*d, target))
            with cuda.driver.active(0):
                if steps:
                    one_by_one(cuda, kernel, times, assemble, module_key)
                    continue
                timed(times, "load", lambda k=kernel: cuda.load(k, 0))
            timed(times, "first launch", lambda k=kernel, a=a, b=b: cuda.launch(k, (a, b)))
            times["all three"].append((time.perf_counter() - started) * 1e3)
            with cuda.driver.active(0):
                cuda.driver.call("cuStreamSynchronize", cuda.driver.api.CUstream(0))
    return {name: statistics.median(found) for name, found in times.items()}


def one_by_one(cuda: Any, kernel: Any, times: dict[str, list[float]], assemble: Any, module_key: Any) -> None:
    """Each way to a loaded module, and the cache's two ways, for one kernel."""
    modules = cuda.modules
    with cuda.driver.outside_capture():
        timed(times, "driver: text", lambda: modules.image(kernel.ptx.encode() + b"\0"))
        code = timed(times, "driver: linker", lambda: modules.linked(kernel.ptx))
        timed(times, "load of machine code", lambda: modules.image(code))
    timed(times, "nvJitLink", lambda: assemble(kernel.ptx, kernel.target, "nvjitlink"))
    key = module_key(kernel.ptx, kernel.target, driver=modules.driver_version, assembler="benchmark")
    timed(times, "cache: put", lambda: modules.cache.put(key, code))
    if timed(times, "cache: get", lambda: modules.cache.get(key)) != code:
        raise SystemExit("the cache did not keep what was put")


def child(arguments: list[str], **environ: str) -> dict[str, float]:
    """The medians of a new process."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def shown(title: str, names: tuple[str, ...], figures: dict[str, float]) -> None:
    """One line of figures."""
    print(f"{title:<44}" + "".join(f"{figures[name]:>{max(10, len(name) + 2)}.2f}" for name in names))


def heading(names: tuple[str, ...]) -> None:
    """The line above them."""
    print(" " * 44 + "".join(f"{name:>{max(10, len(name) + 2)}}" for name in names))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stand-in", action="store_true", help="no GPU: the host's share alone")
    parser.add_argument("--child", choices=("phases", "steps"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(measured(chosen.stand_in, chosen.child == "steps")))
        return
    more = ["--stand-in"] if chosen.stand_in else []
    phases, steps = [*more, "--child", "phases"], [*more, "--child", "steps"]
    with tempfile.TemporaryDirectory() as folder:
        kept = {"TILECOPY_CACHE": "1", "TILECOPY_CACHE_DIR": f"{folder}/ours", "CUDA_CACHE_DISABLE": "1"}
        none = {"TILECOPY_CACHE": "0", "CUDA_CACHE_DISABLE": "1"}
        drivers = {"TILECOPY_CACHE": "0", "CUDA_CACHE_DISABLE": "0", "CUDA_CACHE_PATH": f"{folder}/driver"}
        where = "a stand-in for the driver, NOT a GPU" if chosen.stand_in else "the GPU"
        print(f"on {where}: ms, medians over {COUNT} kernels")
        heading(PHASES)
        shown("no cache", PHASES, child(phases, **none))
        shown("cache, empty before", PHASES, child(phases, **kept))
        shown("cache, filled by a process before", PHASES, child(phases, **kept))
        if not chosen.stand_in:
            child(phases, **drivers)
            shown("no cache, the driver's own filled before", PHASES, child(phases, **drivers))
        print()
        heading(STEPS)
        shown("one by one", STEPS, child(steps, **kept | {"TILECOPY_CACHE_DIR": f"{folder}/steps"}))
    imports = "import time; from cuda.bindings import driver; t = time.perf_counter(); import cuda.core.utils; "
    command = [sys.executable, "-c", f"{imports}print(time.perf_counter() - t)"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    print(f"\nimport of cuda.core, once a process that has not done it: {float(done.stdout) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
