"""What a GPU and compute-sanitizer say of each fault: ``python faults_on_gpu.py --save corpus/hardware.md``.

Every faulty program runs in a process of its own: after its correct twin, whose bytes it is held against, and once under each tool of
compute-sanitizer (initcheck where memory is read that was never written). A program that does not end is killed after some seconds. Nothing here can fail: it is a record, not a test.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver
from tilecopy_test_helpers.corpus import CASES, Case

TOOLS = ("memcheck", "racecheck", "synccheck")
PLAIN_SECONDS, TOOL_SECONDS = 12, 25
WORKERS = 20
STARTED = "the faulty program starts"


def call(function: Any, *arguments: Any) -> Any:
    """Call the driver; its results. Ends the process with the error's name."""
    status, *results = function(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        _, text = driver.cuGetErrorName(status)
        print(f"{function.__name__}: {text.decode()}", flush=True)
        os._exit(0)
    return results[0] if len(results) == 1 else results


def three(extent: int | tuple[int, ...]) -> tuple[int, ...]:
    """``(x, y, z)`` of a launch's extent."""
    return (*((extent,) if isinstance(extent, int) else extent), 1, 1)[:3]


def launched(case: Case, ptx: str) -> list[bytes]:
    """The arrays of a case after one launch."""
    module = call(driver.cuModuleLoadData, ptx.encode() + b"\0")
    function = call(driver.cuModuleGetFunction, module, case.name.encode())
    arguments, pointers, values = case.arguments(), [], []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            pointers.append(call(driver.cuMemAlloc, argument.nbytes))
            call(driver.cuMemcpyHtoD, pointers[-1], argument.ctypes.data, argument.nbytes)
            values.append(np.array([int(pointers[-1])], np.uint64))
        else:
            values.append(np.array([argument & 0xFFFFFFFF], np.uint32))
    table = np.array([value.ctypes.data for value in values], np.uint64)
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = three(case.grid)
    config.blockDimX, config.blockDimY, config.blockDimZ = three(case.block)
    config.sharedMemBytes = case.dynamic
    if case.cluster is not None:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        size = attribute.value.clusterDim
        size.x, size.y, size.z = three(case.cluster)
        config.attrs, config.numAttrs = [attribute], 1
    call(driver.cuLaunchKernelEx, config, function, table.ctypes.data, 0)
    call(driver.cuCtxSynchronize)
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    for pointer, array in zip(pointers, arrays, strict=True):
        call(driver.cuMemcpyDtoH, array.ctypes.data, pointer, array.nbytes)
    return [array.tobytes() for array in arrays]


def run_one(case: Case, alone: bool) -> None:
    """Run the faulty program, after its twin unless ``alone``, and print what came of it."""
    call(driver.cuInit, 0)
    call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, call(driver.cuDeviceGet, 0)))
    right = None if alone else launched(case, case.correct().ptx)
    print(STARTED, flush=True)
    found = launched(case, case.faulty().ptx)
    print("same bytes" if found == right else "wrong bytes", flush=True)
    os._exit(0)


def output_of(number: int, command: list[str], seconds: int) -> str | None:
    """What a process prints, on one of the GPUs; None when the program that it had started had to be killed."""
    gpus = max(1, int(os.environ.get("GPUS", "1")))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(number % gpus), "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environment)
    except subprocess.TimeoutExpired as late:
        if STARTED.encode() not in (late.stdout or b""):
            return "too slow to start"
        return None
    return done.stdout + done.stderr


def row(task: tuple[int, Case]) -> str:
    """A row of the table."""
    number, case = task
    kinds = ", ".join(sorted(set(case.faulty().faults.values()))).replace("|", " or ")
    if case.target.startswith("sm_10"):
        return f"| `{case.name}` | {kinds} | not for this GPU | |"
    command = [sys.executable, __file__, "--one", case.name]
    said = output_of(number, command, PLAIN_SECONDS)
    if said is None:
        return f"| `{case.name}` | {kinds} | hangs | not run |"
    result = said.strip().splitlines()[-1] if said.strip() else "nothing was said"
    if "cuModuleLoadData" in result:
        return f"| `{case.name}` | {kinds} | the driver refuses the text | |"
    seen = []
    for tool in (*TOOLS, *(["initcheck"] if "poison" in kinds else [])):
        padding = ["--padding", "64"] if tool == "memcheck" else []
        said = output_of(number, ["compute-sanitizer", "--tool", tool, *padding, *command, "--alone"], TOOL_SECONDS)
        if said is None:
            seen.append(f"{tool} (not ended)")
        elif any(int(count) for count in re.findall(r"SUMMARY: (\d+)", said)):
            seen.append(tool)
    return f"| `{case.name}` | {kinds} | {result} | {', '.join(seen) or 'nothing'} |"


def main() -> None:
    """Run one program, or make the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--one")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--every", type=int, default=1)
    asked = parser.parse_args()
    if asked.one:
        run_one(next(case for case in CASES if case.name == asked.one), asked.alone)
    lines = ["| fault | kind | the GPU | compute-sanitizer sees it |", "|---|---|---|---|"]
    with ThreadPoolExecutor(WORKERS) as pool:
        for line in pool.map(row, enumerate(CASES[:: asked.every])):
            lines.append(line)
            if asked.save:
                asked.save.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
