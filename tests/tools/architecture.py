"""Plan, assemble and emulate all demos for one architecture, and run them if this machine's GPU has it.

`python tests/tools/architecture.py sm_90` (what `nox -s tests-sm_90` calls); `--gpu-demos` runs the demos on this machine's GPU alone.
"""

from __future__ import annotations

import argparse

import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy.assemblers import ASSEMBLERS, assemble
from tilecopy.executors import get_executor
from tilecopy_test_helpers import byte_arrays, demos
from tilecopy_test_helpers.programs import round_trip

SPECIFIC = {100: "a", 103: "a", 110: "a"}
"""Architectures whose tcgen05 cases need the suffix."""

ROUND_TRIPS = [
    (dtype, layout, threads)
    for dtype in ("uint8", "float16", "bfloat16", "float8_e4m3fn", "float32", "float64")
    for layout, threads in (
        (None, 128),
        (TileLayout(S[(32, 64) : (72, 1)]), 64),
        (TileLayout(S[(32, 64) : (1, 32)]), 96 // 3),
        ("128B", 128),
    )
]


def gpu_target() -> str | None:
    """The plain target of this machine's first GPU, or None."""
    cuda = get_executor("cuda")
    if cuda.unavailable_reason() is not None:
        return None
    major, minor = cuda.devices()[0].capability
    return f"sm_{major}{minor}"


def check_round_trip(dtype: str, layout: object, threads: int, target: str, executors: list[str]) -> tc.BuiltKernel:
    """Check one tile copy there and back."""
    if layout == "128B":
        layout = tc.SwizzledLayout(tc.swizzle("128B", dtype), TileLayout(S[32, 64]))
    kernel = round_trip((64, 128), (32, 64), dtype, layout=layout, threads=threads, target=target)
    for executor in executors:
        a = byte_arrays.random_array((64, 128), tc.dtype_of(dtype).numpy())
        b = np.zeros_like(a)
        kernel(a, b, executor=executor)
        assert byte_arrays.same_bytes(a, b), (dtype, layout, executor)
    return kernel


def run_architecture(name: str) -> None:
    """Check one architecture, and print what was done."""
    plain = tc.target_of(name)
    on_gpu = gpu_target() == f"sm_{plain.arch}"
    executors = ["emulator", *(["cuda"] if on_gpu else [])]
    kernels: list[tc.BuiltKernel] = [check_round_trip(*case, name, executors) for case in ROUND_TRIPS]
    ran, declined = len(kernels), []
    for title, demo in demos.DEMOS.items():
        target = f"sm_{plain.arch}{SPECIFIC.get(plain.arch, '')}" if demo.specific else name
        if not demo.runs(target):
            try:
                demo.make(target)
            except (tc.NoVariantError, tc.TargetError, tc.RequestError) as error:
                assert "sm_" in str(error), "the reason names the architecture that is needed"
                declined.append(title)
                continue
            raise AssertionError(f"{title} was lowered for {target}, which lacks its instructions")
        kernel = demo.make(target)
        for executor in executors:
            demo.check(kernel, executor)
        kernels.append(kernel)
        ran += 1
    for kernel in kernels:
        for assembler in ASSEMBLERS:
            assert assemble(kernel.ptx, kernel.target, assembler)[:4] == b"\x7fELF"
    print(f"{name}: {ran} cases planned; assembled by {' and '.join(ASSEMBLERS)}; emulated; ", end="")
    print("run on the GPU" if on_gpu else f"not run on a GPU (this machine has {gpu_target() or 'none'})")
    if declined:
        print(f"{name}: declined with the architecture that they need: {', '.join(declined)}")


def run_gpu_demos() -> None:
    """Run each demo that the GPU supports once on the GPU."""
    target = gpu_target()
    if target is None:
        raise SystemExit("no GPU")
    for title, demo in demos.DEMOS.items():
        if demo.runs(target):
            demo.check(demo.make(target), "cuda")
            print(f"{title}: ok")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("architecture", nargs="?")
    parser.add_argument("--gpu-demos", action="store_true")
    arguments = parser.parse_args()
    if arguments.gpu_demos:
        run_gpu_demos()
    elif arguments.architecture:
        run_architecture(arguments.architecture)
    else:
        parser.error("an architecture, or --gpu-demos")


if __name__ == "__main__":
    main()
