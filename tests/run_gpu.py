"""Every GPU test and benchmark in one call, with a short table: `python tests/run_gpu.py` on a machine with a GPU.

Needs the packages installed, pytest and hypothesis; the benchmarks also need torch, the memory checks compute-sanitizer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
NUMBA = "from numba import cuda; cuda.jit('void(float32[:])')(lambda a: None)"
"""What works where Numba and the NumPy beside it fit together."""
SECOND = """
import sys, pytest, torch
torch.cuda.set_device(1)
torch.zeros(1, device="cuda")
sys.exit(pytest.main(sys.argv[1:]))
"""
"""pytest in a process whose current GPU is the second: there goes what tests put on "cuda" or in NumPy arrays."""
SANITIZER_TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


def run(name: str, command: list[str], seconds: int, show: int) -> tuple[str, str]:
    """Run one part with a time limit; print the end of its output, return its name and verdict."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, env=dict(os.environ)
        )
    except subprocess.TimeoutExpired:
        return name, f"timed out after {seconds} s"
    lines = (done.stdout + done.stderr).strip().splitlines()
    print(f"== {name}\n" + "\n".join(lines[-show:]), flush=True)
    return name, "ok" if done.returncode == 0 else f"failed ({done.returncode})"


def gpus() -> int:
    """How many GPUs the driver finds."""
    from tilecopy.executors import executor_named

    cuda: Any = executor_named("cuda")
    return 0 if cuda.why_unavailable() else len(cuda.devices())


def on_two_gpus() -> list[tuple[str, str]]:
    """What needs a second GPU: tests across both, the GPU tests again with the second one current, the benchmark."""
    options = ["-q", "-p", "no:cacheprovider", "-W", "default"]
    relayouts = str(TESTS.parent / "plugins" / "relayout" / "tests" / "test_gpu_relayout.py")
    again = [str(TESTS / "test_cuda.py"), str(TESTS / "test_gpu_variants.py"), relayouts]
    shards, bench_shards = str(TESTS / "gpu_shards.py"), str(TESTS / "benchmarks" / "bench_shards.py")
    return [
        run("tests on two GPUs", [sys.executable, "-m", "pytest", *options, str(TESTS / "test_gpus.py")], 300, 25),
        run("GPU tests on the second GPU", [sys.executable, "-c", SECOND, *options, *again], 500, 25),
        run("bench_gpus", [sys.executable, str(TESTS / "benchmarks" / "bench_gpus.py")], 120, 16),
        run("exchanges between two to four GPUs", [sys.executable, shards], 120, 25),
        run("bench_shards", [sys.executable, bench_shards], 300, 36),
    ]


def main() -> None:
    """Run everything; exit 1 when a part failed."""
    python = sys.executable
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default"]
    results = [run("GPU tests", [*pytest, str(TESTS / "test_cuda.py"), str(TESTS / "test_gpu_variants.py")], 300, 25)]
    results.append(run("drawn arithmetic", [*pytest, str(TESTS / "test_arithmetic_run.py"), "-k", "cuda"], 100, 10))
    files = [str(TESTS / f"test_{name}.py") for name in ("views", "sizes", "index_from_memory", "edges")]
    results.append(run("GPU tests of views, sizes, indices, edges", [*pytest, *files, "-k", "gpu"], 120, 10))
    files = [str(TESTS / f"test_{name}.py") for name in ("export", "export_examples", "launchers")]
    results.append(run("GPU tests of exported copies", [*pytest, *files, "-k", "gpu"], 200, 10))
    if find_spec("numba_cuda") is not None:
        numba = subprocess.run([python, "-c", NUMBA], capture_output=True, text=True, check=False)
        if numba.returncode:
            results.append(("Numba", f"not run, Numba itself fails here: {numba.stderr.strip().splitlines()[-1]}"))
        else:
            results.append(
                run("Numba", [*pytest, str(TESTS.parent / "plugins" / "export" / "tests" / "test_numba.py")], 200, 10)
            )
    relayout = str(TESTS.parent / "plugins" / "relayout" / "tests" / "test_gpu_relayout.py")
    results.append(run("GPU tests of relayouts", [*pytest, relayout, "-k", "gpu"], 200, 10))
    files = [str(TESTS.parent / "plugins" / name / "tests" / f"test_{name}.py") for name in ("tma", "ldmatrix")]
    files += [str(TESTS / "test_fragments.py"), str(TESTS / "test_tensor_kernels.py")]
    results.append(
        run("GPU tests of tensor copies, fragments and their kernels", [*pytest, *files, "-k", "cuda"], 150, 10)
    )
    drawn = [python, str(TESTS / "drawn_tma.py"), "--count", "2000", "--executor", "cuda", "--seed", "1"]
    results.append(run("drawn tensor copies", drawn, 150, 12))
    drawn = [python, str(TESTS / "drawn_mma.py"), "--count", "600", "--executor", "cuda", "--seed", "1"]
    results.append(run("drawn products of matrices", drawn, 150, 12))
    suites = [str(path) for path in sorted(TESTS.parent.glob("plugins/*/tests/test_suite.py"))]
    results.append(run("every variant's suite, its GPU part", [*pytest, *suites, "-k", "gpu"], 300, 10))
    benchmarks = ("round_trip", "pipeline", "dsmem", "emit", "launch", "edges", "export")
    for name in [f"bench_{each}" for each in benchmarks]:
        results.append(run(name, [python, str(TESTS / "benchmarks" / f"{name}.py")], 120, 12))
    service = [python, str(TESTS / "benchmarks" / "bench_service.py"), "2000"]
    results.append(run("bench_service, 2,000 kernels", service, 100, 12))
    results.append(run("bench_start", [python, str(TESTS / "benchmarks" / "bench_start.py"), "--runs", "7"], 200, 8))
    results.append(run("bench_bulk", [python, str(TESTS / "benchmarks" / "bench_bulk.py")], 120, 24))
    results.append(run("bench_tma", [python, str(TESTS / "benchmarks" / "bench_tma.py")], 120, 24))
    for name in ("bench_gemm", "bench_attention"):
        results.append(run(name, [python, str(TESTS / "benchmarks" / f"{name}.py")], 120, 4))
    results.append(run("bench_hints", [python, str(TESTS / "benchmarks" / "bench_hints.py")], 120, 12))
    relayouts = [python, str(TESTS / "benchmarks" / "bench_relayout.py"), "--no-compile", "--no-jax"]
    results.append(run("bench_relayout, beside torch alone", relayouts, 120, 25))
    results += on_two_gpus() if gpus() > 1 else [("tests on two GPUs", "not run: there is one GPU")]
    results.append(run("emulator and GPU agree", [python, str(TESTS / "agreement.py")], 300, 12))
    if shutil.which("ncu") is not None:
        results.append(run("profile and ncu agree", [python, str(TESTS / "profile_agreement.py")], 150, 26))
    sanitizer = shutil.which("compute-sanitizer")
    for tool in SANITIZER_TOOLS:
        if sanitizer is None:
            results.append((f"compute-sanitizer {tool}", "not run: compute-sanitizer is not installed"))
            continue
        command = [
            sanitizer,
            "--tool",
            tool,
            "--error-exitcode",
            "9",
            python,
            str(TESTS / "architecture.py"),
            "--gpu-demos",
        ]
        results.append(run(f"compute-sanitizer {tool}", command, 150, 6))
    width = max(len(name) for name, _ in results)
    print("\n" + "\n".join(f"{name:<{width}}  {verdict}" for name, verdict in results))
    raise SystemExit(any(verdict.startswith(("failed", "timed")) for _, verdict in results))


if __name__ == "__main__":
    main()
