"""Compare the start of a process (imports and first relayout) with that of an earlier checkout.

    python tests/benchmarks/bench_start.py [CHECKOUT] [--runs 15]

Imports are CPU time with the interpreter's own start subtracted. On a GPU (torch is needed) the first relayout is timed by the
clock, after the context and after ``import torch, tilecopy_relayout, cuda.bindings.driver``: once with the text in the driver's
compute cache, and once with ``CUDA_CACHE_PATH`` at an empty folder. Without a GPU it is CPU time with a stand-in for the driver
(tilecopy_test_helpers.fake_driver). The checkouts take turns. Every figure is a median. An earlier checkout of another minor version
runs in its own environment, CHECKOUT/.venv.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from checkouts import python_of

ROOT = Path(__file__).resolve().parents[2]
IMPORTS = {
    "interpreter": "pass",
    "numpy": "import numpy",
    "tilecopy": "import tilecopy",
    "relayout": "import tilecopy_relayout",
}
CPU = "{}\nimport time; print(time.process_time())"
ON_A_GPU = """
import time, torch, tilecopy_relayout, cuda.bindings.driver
x = torch.zeros(64, 1024, 256, device="cuda")
torch.cuda.synchronize()
started = time.perf_counter()
tilecopy_relayout.relayout(x, (2, 0, 1))
torch.cuda.synchronize()
print(time.perf_counter() - started)
"""
STAND_IN = f"""
import sys, time, types
from contextlib import nullcontext
import importlib.metadata, numpy as np, tilecopy_relayout
sys.path += [{str(ROOT / "tests/helpers/src")!r}]
import cuda.bindings
from tilecopy_test_helpers import fake_driver
cuda.bindings.driver = sys.modules["cuda.bindings.driver"] = driver = fake_driver.FakeDriver(sizes=(8, 8))

class ndarray:
    device = nullcontext()
    def __init__(self, host): self.host = host
    def __getattr__(self, name): return getattr(self.host, name)
    data = property(lambda self: types.SimpleNamespace(ptr=self.host.ctypes.data, device_id=0))
    __cuda_array_interface__ = property(lambda self: self.host.__array_interface__)

ndarray.__module__ = "cupy"
cupy = sys.modules["cupy"] = types.ModuleType("cupy")
cupy.ndarray, cupy.empty = ndarray, lambda shape, dtype: ndarray(np.empty(shape, dtype))
cupy.cuda = types.SimpleNamespace(
    get_current_stream=lambda device=0: types.SimpleNamespace(ptr=0x77),
    ExternalStream=lambda pointer: nullcontext(), Device=lambda number: nullcontext())
x = ndarray(np.zeros((64, 1024, 256), np.float32))
started = time.process_time()
tilecopy_relayout.relayout(x, (2, 0, 1))
print(time.process_time() - started)
assert len(driver.launches) == 1
"""


def child(checkout: Path, compiled: Path, code: str, **variables: str) -> float:
    """Return the number that a fresh interpreter prints, whose packages are a checkout's, compiled as pip leaves them."""
    sources = [checkout, *sorted(checkout.glob("plugins/*/src"))]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*map(str, sources), os.environ.get("PYTHONPATH", "")]),
        "PYTHONPYCACHEPREFIX": str(compiled),
        "PYTHONDONTWRITEBYTECODE": "",
        "OPENBLAS_NUM_THREADS": "1",
        "TILECOPY_CACHE": "0",  # what checkouts before the driver's own cache alone need
    }
    command = [python_of(checkout), "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment | variables)
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr}")
    return float(done.stdout.split()[-1])


def has_gpu() -> bool:
    """Return whether torch finds a GPU here."""
    code = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def main() -> None:
    """Measure, and print a table of milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=Path, help="the root of an earlier checkout")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    trees = {"this checkout": ROOT} | ({"earlier": options.checkout.resolve()} if options.checkout else {})
    seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    gpu = has_gpu()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for run in range(options.runs + 1):
            for tree, checkout in trees.items():
                compiled = folder / tree / "compiled"
                for what, code in IMPORTS.items():
                    seconds[tree, what].append(child(checkout, compiled, CPU.format(code)))
                if gpu:
                    filled, empty = folder / tree / "filled", folder / tree / "empty"
                    shutil.rmtree(empty, ignore_errors=True)
                    for path in (filled, empty):
                        path.mkdir(exist_ok=True)
                        took = child(checkout, compiled, ON_A_GPU, CUDA_CACHE_PATH=str(path), CUDA_CACHE_DISABLE="0")
                        seconds[tree, f"first relayout, the driver's cache {path.name}"].append(took)
                else:
                    seconds[tree, "first relayout, stand-in driver"].append(child(checkout, compiled, STAND_IN))
            if not run:
                seconds.clear()  # the first run compiles the modules and fills the driver's cache
    milliseconds = {key: statistics.median(values) * 1e3 for key, values in seconds.items()}
    for tree in trees:
        start = milliseconds[tree, "interpreter"]
        numpy = milliseconds[tree, "numpy"] - start
        print(f"{tree}: {options.runs} runs, medians")
        for (other, what), value in milliseconds.items():
            if other == tree and what in IMPORTS and what != "interpreter":
                print(f"  import {what:<50} {value - start:7.1f} ms, {(value - start) / numpy:.2f} of numpy")
            elif other == tree and what not in IMPORTS:
                print(f"  {what:<57} {value:7.1f} ms")


if __name__ == "__main__":
    main()
