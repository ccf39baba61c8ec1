"""Run all GPU tests and benchmarks and print a short table: `python tests/tools/run_gpu.py` on a machine with a GPU.

It runs as users install: with every package of tilecopy and what they depend on. It first prints the card and what is missing. The
benchmarks also need torch, the memory checks compute-sanitizer. `--figures FILE` writes the benchmarks' figures as JSON.

On a machine without network: build wheels of the packages (`uv build --all-packages --wheel -o wheels`) and download those of the
dependencies that the machine lacks (`pip download --only-binary=:all: --no-deps`). There, install all with
`pip install --no-index --no-deps --target site wheels/*.whl`, and run this script with `PYTHONPATH=site`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

TESTS = Path(__file__).parents[1]
PLUGINS = sorted(TESTS.parent.glob("plugins/*/pyproject.toml"))
PROGRAMS = ("ptxas", "cuobjdump", "ncu", "compute-sanitizer")
MODULES = ("torch", "triton", "cupy", "jax", "numba_cuda")
"""What some parts compare with or use, where it is installed."""
FIGURES = "TILECOPY_FIGURES"
"""The variable that names the file of the benchmarks' records (benchmarks/figures.py)."""
NUMBA = "from numba import cuda; cuda.jit('void(float32[:])')(lambda a: None)"
"""What works where Numba and the NumPy beside it fit together."""
SIDE_BY_SIDE = 4
"""Tests that run at the same time."""
SECOND = """
import sys, pytest, torch
torch.cuda.set_device(1)
torch.zeros(1, device="cuda")
sys.exit(pytest.main(sys.argv[1:]))
"""
"""pytest in a process whose current GPU is the second: there goes what tests put on "cuda" or in NumPy arrays."""
SANITIZER_TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


class Part(NamedTuple):
    """A test or benchmark: a command with a limit in seconds, and how many lines of its output are shown."""

    name: str
    command: list[str]
    seconds: int
    show: int = 10

    def run(self) -> tuple[str, str]:
        """Run it in a user's environment; print the end of its output, return its name and verdict."""
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith("TILECOPY_") or name == FIGURES
        }
        started = time.monotonic()
        try:
            process = subprocess.run(
                self.command, capture_output=True, text=True, timeout=self.seconds, check=False, env=environ
            )
        except subprocess.TimeoutExpired:
            return self.name, f"timed out after {self.seconds} s"
        lines = (process.stdout + process.stderr).strip().splitlines()
        shown = "\n".join(lines[-self.show :])
        print(f"== {self.name} ({time.monotonic() - started:.0f} s)\n{shown}", flush=True)
        return self.name, "ok" if process.returncode == 0 else f"failed ({process.returncode})"


def gpus() -> list[str]:
    """Return the names of the GPUs that the driver finds."""
    from tilecopy.executors import get_executor

    cuda: Any = get_executor("cuda")
    return [] if cuda.unavailable_reason() else [device.name for device in cuda.devices()]


def driver_version() -> str:
    """Return the release of the NVIDIA driver, or "unknown"."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def missing() -> list[str]:
    """Return what is not installed of tilecopy's packages, and of all that they and ``tilecopy[all]`` require."""
    packages = [("tilecopy-testkit", "")] + [
        (f"tilecopy-{path.parent.name}", "") for path in PLUGINS if path.parent.name != "kernel"
    ]
    wanted, seen, absent = [("tilecopy", ""), ("tilecopy", "all"), *packages], set[tuple[str, str]](), set[str]()
    while wanted:
        name, extra = wanted.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            requirements = map(Requirement, metadata.requires(name) or [])
        except metadata.PackageNotFoundError:
            absent.add(name)
            continue
        for requirement in requirements:
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            wanted += [(requirement.name, each) for each in ("", *requirement.extras)]
            try:
                if not requirement.specifier.contains(metadata.version(requirement.name), prereleases=True):
                    absent.add(f"{requirement} ({metadata.version(requirement.name)} is installed)")
            except metadata.PackageNotFoundError:
                absent.add(str(requirement).partition(";")[0].strip())
    return sorted(absent)


def pytest_of(name: str, *files: str, only: str = "", seconds: int = 200) -> Part:
    """Return a part of test files, relative to the repository, and of the tests that ``only`` selects."""
    options = ["-q", "-p", "no:cacheprovider", "-W", "default", *(["-k", only] if only else [])]
    return Part(
        name, [sys.executable, "-m", "pytest", *options, *(str(TESTS.parent / file) for file in files)], seconds, 25
    )


def script(name: str, file: str, *arguments: str, seconds: int = 120, show: int = 12) -> Part:
    """Return a part that is a program of tests/."""
    return Part(name, [sys.executable, str(TESTS / file), *arguments], seconds, show)


def benchmark(name: str, *arguments: str, seconds: int = 120, show: int = 24) -> Part:
    """Return a part that is a benchmark."""
    return script(f"bench_{name}", f"benchmarks/bench_{name}.py", *arguments, seconds=seconds, show=show)


def tests() -> list[Part]:
    """Return the parts that check results, of which several may run at the same time."""
    views = [
        "tests/core/memory/test_views.py",
        "tests/core/memory/test_out_of_bounds.py",
        "plugins/kernel/tests/test_sizes.py",
        "tests/integration/test_index_from_memory.py",
    ]
    exported = [
        "plugins/export/tests/test_export.py",
        "tests/integration/test_export_examples.py",
        "tests/integration/test_exported_launches.py",
    ]
    tensor = [
        "plugins/tma/tests/test_tma.py",
        "plugins/ldmatrix/tests/test_ldmatrix.py",
        "plugins/partitions/tests/test_fragments.py",
        "tests/integration/test_hopper_kernels.py",
    ]
    suites = [
        str(path.relative_to(TESTS.parent)) for path in sorted(TESTS.parent.glob("plugins/*/tests/test_suite.py"))
    ]
    parts = [
        script("emulator and GPU agree", "tools/agreement.py", seconds=300),
        pytest_of("every variant's suite, its GPU part", *suites, only="gpu", seconds=300),
        pytest_of(
            "GPU tests",
            "plugins/cuda/tests/test_cuda.py",
            "tests/integration/test_gpu_variants.py",
            only="not holds_its_memory",
            seconds=300,
        ),
        pytest_of("machine code as good as ptxas'", "tests/integration/test_machine_code.py"),
        pytest_of("GPU tests of exported copies", *exported, only="gpu"),
        pytest_of("GPU tests of relayouts", "plugins/relayout/tests/test_gpu_relayout.py", only="gpu"),
        pytest_of("GPU tests of tensor copies, fragments and their kernels", *tensor, only="cuda"),
        pytest_of("GPU tests of views, sizes, indices, edges", *views, only="gpu"),
        pytest_of("drawn arithmetic", "plugins/kernel/tests/test_arithmetic.py", only="cuda"),
        pytest_of("casts", "plugins/kernel/tests/test_conversion.py", only="cuda"),
        script(
            "drawn tensor copies",
            "tools/drawn_tma.py",
            "--count",
            "2000",
            "--executor",
            "cuda",
            "--seed",
            "1",
            seconds=200,
        ),
        script(
            "drawn products of matrices",
            "tools/drawn_mma.py",
            "--count",
            "600",
            "--executor",
            "cuda",
            "--seed",
            "1",
            seconds=200,
        ),
    ]
    if works("numba_cuda"):
        parts.append(pytest_of("Numba", "plugins/export/tests/test_numba.py"))
    if shutil.which("ncu") is not None:
        parts.append(script("profile and ncu agree", "tools/profile_agreement.py", seconds=200, show=26))
    for tool in SANITIZER_TOOLS if shutil.which("compute-sanitizer") is not None else ():
        demos = [sys.executable, str(TESTS / "tools" / "architecture.py"), "--gpu-demos"]
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *demos]
        parts.append(Part(f"compute-sanitizer {tool}", command, 200, 6))
    return parts


def benchmarks(*, peers: bool) -> list[Part]:
    """Return the parts that measure, each with the GPU to itself."""
    return [
        pytest_of(
            "memory of many kernels", "plugins/cuda/tests/test_cuda.py", only="holds_its_memory"
        ),  # it reads what the GPU has free
        benchmark("gemm"),
        benchmark("attention"),
        *(benchmark(name) for name in ("round_trip", "pipeline", "dsmem", "edges", "bulk", "tma", "launch")),
        *(benchmark(name) for name in ("relayout_host", "emit", "threads", "export")),
        benchmark("start", "--runs", "7", seconds=200),
        benchmark("relayout", *([] if peers else ["--no-compile", "--no-jax"]), seconds=400, show=40),
        benchmark("hints", seconds=200, show=14),
        benchmark("service", "2000"),
    ]


def on_two_gpus() -> list[Part]:
    """Return the parts that need a second GPU; among them are the GPU tests with the second one current."""
    files = [
        "plugins/cuda/tests/test_cuda.py",
        "tests/integration/test_gpu_variants.py",
        "plugins/relayout/tests/test_gpu_relayout.py",
    ]
    again = [str(TESTS.parent / file) for file in files]
    options = ["-q", "-p", "no:cacheprovider", "-W", "default"]
    return [
        pytest_of("tests on two GPUs", "tests/integration/test_two_gpus.py", seconds=300),
        Part("GPU tests on the second GPU", [sys.executable, "-c", SECOND, *options, *again], 500, 25),
        benchmark("gpus"),
        script("exchanges between two to four GPUs", "tools/gpu_shards.py", show=25),
        benchmark("shards", seconds=300, show=36),
    ]


def works(module: str) -> bool:
    """Return whether a module is installed; Numba must also fit the NumPy beside it."""
    if find_spec(module) is None:
        return False
    return (
        module != "numba_cuda"
        or not subprocess.run([sys.executable, "-c", NUMBA], capture_output=True, check=False).returncode
    )


def environment() -> dict[str, Any]:
    """Print the card and what is missing; return them for the records."""
    cards = gpus()
    versions = {
        name: metadata.version(name)
        for name in ("cuda-bindings", "cuda-core", "torch")
        if find_spec(name.replace("-", "."))
    }
    report = {
        "card": cards[0] if cards else "none",
        "driver": driver_version(),
        "gpus": len(cards),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
        "missing": missing(),
        "missing programs": [name for name in PROGRAMS if shutil.which(name) is None],
        "missing modules": [name for name in MODULES if not works(name)],
    }
    for name, value in report.items():
        print(f"{name}: {(', '.join(value) or 'nothing') if isinstance(value, list) else value}")
    return report


def records(lines: str, report: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a run, each with card and driver, beside what the machine had."""
    figures = [json.loads(line) for line in lines.splitlines()]
    of_machine = {"card": report["card"], "driver": report["driver"]}
    return {"machine": report, "figures": [figure | of_machine for figure in figures]}


def main() -> None:
    """Run everything; exit 1 when a part failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--figures", type=Path, metavar="FILE", help="write the figures to this file as JSON")
    parser.add_argument("--only", default="", metavar="PART", help="run only the parts whose names contain this text")
    parser.add_argument(
        "--peers", action="store_true", help="also compare relayouts with torch.compile and JAX, which takes minutes"
    )
    options = parser.parse_args()
    report = environment()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "figures.jsonl")
        path.touch()
        os.environ[FIGURES] = str(path)
        results = run_all(options.only, peers=options.peers, gpu_count=report["gpus"])
        if options.figures:
            options.figures.write_text(json.dumps(records(path.read_text(), report), indent=1) + "\n")
    width = max((len(name) for name, _ in results), default=0)
    print("\n" + "\n".join(f"{name:<{width}}  {verdict}" for name, verdict in results))
    raise SystemExit(any(verdict.startswith(("failed", "timed")) for _, verdict in results))


def run_all(only: str, *, peers: bool, gpu_count: int) -> list[tuple[str, str]]:
    """Run the parts whose name has some text in it: tests side by side, then what measures; return the verdicts."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        results = list(pool.map(Part.run, [part for part in tests() if only in part.name]))
    measured = benchmarks(peers=peers) + (on_two_gpus() if gpu_count > 1 else [])
    results += [part.run() for part in measured if only in part.name]
    return results


if __name__ == "__main__":
    main()
