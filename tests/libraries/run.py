"""Compile the kernels of this folder with NVRTC and Triton, run each on the emulator, compare with NumPy: `nox -s libraries`.

`python tests/libraries/run.py [--keep FOLDER] [WORD ...]` runs those whose library or name has one of the words, and keeps the PTX.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import nvrtc
from tilecopy import HazardError
from tilecopy_emulator import UnsupportedPtxError, run_ptx

sys.path.insert(0, str(HERE := Path(__file__).parent))

import cub_device
import cuda_kernels
import triton_kernels
from table import Kernel

BY_NVCC = ("cute.cu", "cutlass.cu", "thrust.cu")
"""CUTLASS's headers for NVRTC do not go with the newest CCCL, Thrust has none."""


@cache
def text_of(source: str, arch: str) -> str:
    """PTX of a file of this folder: by NVRTC where it can."""
    import cutlass_library
    import nvidia

    runtime = next(path.parent for root in nvidia.__path__ for path in Path(root).rglob("cooperative_groups.h"))
    cutlass = Path(cutlass_library.__file__).parent / "source" / "include"
    options = [
        f"--gpu-architecture=compute_{arch}",
        "--std=c++17",
        f"-I{runtime / 'cccl'}",
        f"-I{runtime}",
        f"-I{cutlass}",
    ]
    if source in BY_NVCC:
        command = [str(runtime.parent / "bin" / "nvcc"), "-ptx", "-w", "-o", "-", *options, str(HERE / source)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    options += ["-default-device", "--device-int128"]
    _, program = nvrtc.nvrtcCreateProgram((HERE / source).read_bytes(), source.encode(), 0, [], [])
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [each.encode() for each in options])
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytes(size + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise SystemExit(f"{source}: {log.decode()[:4000]}")
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = bytes(size + 1)
    nvrtc.nvrtcGetPTX(program, text)
    return text.rstrip(b"\0").decode()


def outcome(kernel: Kernel, keep: Path | None) -> str:
    """Empty when it did as the table says, else what it did."""
    given = [each.copy() if isinstance(each, np.ndarray) else each for each in kernel.given]
    expected = kernel.oracle(*(each.copy() if isinstance(each, np.ndarray) else each for each in given))
    arguments = [*given, *(np.zeros(each.shape, each.dtype) for each in expected)]
    more: dict[str, Any] = {"block": kernel.block, "dynamic_shared_bytes": kernel.shared, "entry": kernel.name}
    if kernel.constants is None:
        text = text_of(kernel.source, kernel.arch)
    else:
        text, more, hidden = triton_kernels.compiled(kernel, arguments)
        arguments += hidden
    if keep:
        (keep / f"{kernel.name}-{kernel.arch}.ptx").write_text(text)

    def launch(entry: str, values: list[Any], grid: int, block: int) -> None:
        run_ptx(text, values, grid=grid, block=block, entry=entry, allow=kernel.allow)

    try:
        if kernel.launches is None:
            run_ptx(text, arguments, grid=kernel.grid, cluster=kernel.cluster, allow=kernel.allow, **more)
        else:
            kernel.launches(launch, *arguments)
    except (UnsupportedPtxError, HazardError) as error:
        return "" if kernel.lacks and kernel.lacks in str(error) else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if kernel.lacks:
        return f"runs, and the table says: {kernel.lacks}"
    for number, (got, want) in enumerate(zip(arguments[len(given) :], expected, strict=False)):
        exact = want.dtype.kind not in "fV"
        wide = (got, want) if exact else (got.astype(np.float64), want.astype(np.float64))
        if not (np.array_equal(*wide) if exact else np.allclose(*wide, rtol=kernel.tolerance, atol=kernel.tolerance)):
            wrong = np.flatnonzero(wide[0].ravel() != wide[1].ravel())
            return f"output {number}: {len(wrong)} of {want.size} are wrong: at {wrong[:4]} {got.ravel()[wrong[:4]]}, not {want.ravel()[wrong[:4]]}"
    return ""


def main() -> None:
    """Run the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--keep", type=Path)
    options.add_argument("words", nargs="*")
    asked = options.parse_args()
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
    table: list[Kernel] = [*cuda_kernels.KERNELS, *cub_device.KERNELS, *triton_kernels.KERNELS]
    chosen = [k for k in table if not asked.words or any(word in f"{k.source} {k.name}" for word in asked.words)]
    failed = lacking = 0
    for kernel in chosen:
        start = time.perf_counter()
        said = outcome(kernel, asked.keep)
        failed, lacking = failed + bool(said), lacking + bool(kernel.lacks and not said)
        told = said or (f"not yet: {kernel.lacks}" if kernel.lacks else "right")
        print(
            f"{kernel.source:20} {kernel.name:28} sm_{kernel.arch:4} {time.perf_counter() - start:5.1f} s  {told}",
            flush=True,
        )
    print(
        f"{len(chosen)} kernels: {len(chosen) - failed - lacking} right, {lacking} need what the emulator does not do yet"
    )
    print(f"{len(chosen) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
