"""Launch the kernels of :mod:`tilecopy_test_helpers.single_instructions` on this machine's GPU and compare every byte with the emulator.

``python compare_on_gpu.py [PART OF A NAME]``: prints each case that differs, with the first lanes at fault, then counts; exit status 1 when a
case that is not approximate differs. Cases whose names begin with ``approximate`` are counted apart: the ISA gives an error bound for them.
Kernels are loaded many to a module (compiling a module of one takes longer than all else) and emulated by a pool of processes.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from cuda.bindings import driver
from tilecopy_emulator import run_ptx
from tilecopy_test_helpers.single_instructions import Case, cases

MODULE_KERNELS = 64
HEADER_LINES = 3


def call(function: Any, *arguments: Any) -> Any:
    """Call the driver; its results, or an error."""
    status, *results = function(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        _, text = driver.cuGetErrorName(status)
        raise RuntimeError(f"{function.__name__}: {text.decode()}")
    return results[0] if len(results) == 1 else results


def emulated(case: Case) -> Any:
    """The output array of a case from the emulator, or what went wrong."""
    output = case.output.copy()
    try:
        run_ptx(case.ptx, [*case.inputs, output], grid=case.grid, block=case.block)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return output


def combined(group: list[Case]) -> str:
    """One module of the kernels of several cases: ``single_0``, ``single_1``, ..."""
    lines = group[0].ptx.split("\n")[:HEADER_LINES]
    for number, case in enumerate(group):
        lines += (
            "\n".join(case.ptx.split("\n")[HEADER_LINES:])
            .replace(".entry single(", f".entry single_{number}(")
            .split("\n")
        )
    return "\n".join(lines)


def launched(function: Any, case: Case, memory: list[Any]) -> Any:
    """The output array of a case from the GPU."""
    arrays = [*case.inputs, case.output]
    for pointer, array in zip(memory, arrays, strict=False):
        call(driver.cuMemcpyHtoD, pointer, array.ctypes.data, array.nbytes)
    values = [np.array([int(pointer)], np.uint64) for pointer in memory[: len(arrays)]]
    pointers = np.array([value.ctypes.data for value in values], np.uint64)
    call(driver.cuLaunchKernel, function, case.grid, 1, 1, case.block, 1, 1, 0, 0, pointers.ctypes.data, 0)
    call(driver.cuCtxSynchronize)
    found = np.zeros_like(case.output)
    call(driver.cuMemcpyDtoH, found.ctypes.data, memory[len(arrays) - 1], found.nbytes)
    return found


def on_gpu(group: list[Case], memory: list[Any]) -> Iterator[Any]:
    """The output arrays of some cases; an error in words for one that does not compile."""
    try:
        module = call(driver.cuModuleLoadData, combined(group).encode() + b"\0")
    except RuntimeError as error:
        if len(group) == 1:
            yield str(error)
            return
        for case in group:
            yield from on_gpu([case], memory)
        return
    for number, case in enumerate(group):
        yield launched(call(driver.cuModuleGetFunction, module, f"single_{number}".encode()), case, memory)
    call(driver.cuModuleUnload, module)


def difference(case: Case, wanted: Any, found: Any) -> str:
    """The lanes at fault in words, or an empty string."""
    bad = np.nonzero((found != wanted).reshape(-1, 2).any(axis=1))[0]
    if not len(bad):
        return ""
    text = [f"{case.name}: {len(bad)} of {len(wanted) // 2} lanes differ"]
    distances = np.abs(found.astype(np.int64) - wanted.astype(np.int64)).reshape(-1, 2)[bad, 0]
    text.append(f"  median distance {int(np.median(distances))}, largest {int(distances.max())}")
    for lane in bad[:4].tolist():
        operands = " ".join(hex(int(x[lane])) for x in case.inputs)
        words = [hex(int(x)) for x in (*wanted[2 * lane : 2 * lane + 2], *found[2 * lane : 2 * lane + 2])]
        text.append(f"  lane {lane}: operands {operands}; emulator {words[0]} {words[1]}, GPU {words[2]} {words[3]}")
    return "\n".join(text)


def groups(chosen: list[Case]) -> Iterator[list[Case]]:
    """Cases in modules of one header."""
    held: dict[str, list[Case]] = {}
    for case in chosen:
        header = "\n".join(case.ptx.split("\n")[:HEADER_LINES])
        held.setdefault(header, []).append(case)
        if len(held[header]) == MODULE_KERNELS:
            yield held.pop(header)
    yield from held.values()


def main(part: str) -> int:
    """Compare all cases whose names hold a text; the exit status."""
    call(driver.cuInit, 0)
    device = call(driver.cuDeviceGet, 0)
    call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))
    capability = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    blackwell = call(driver.cuDeviceGetAttribute, capability, device) == 10
    memory = [call(driver.cuMemAlloc, 1 << 16) for _ in range(8)]
    every = [case for case in cases() if part in case.name]
    chosen = [case for case in every if blackwell or "sm_100a" not in case.ptx]
    counts: Counter[str] = Counter({"not for this GPU": len(every) - len(chosen)})
    ordered = [case for group in groups(chosen) for case in group]
    with multiprocessing.get_context("spawn").Pool(min(16, os.cpu_count() or 1)) as pool:
        outputs = pool.imap(emulated, ordered, chunksize=16)
        for group in groups(chosen):
            for case, found in zip(group, on_gpu(group, memory), strict=True):
                wanted = next(outputs)
                kind = "approximate, " if case.name.startswith("approximate") else ""
                if isinstance(found, str) or isinstance(wanted, str):
                    counts["failed"] += 1
                    print(
                        f"{case.name}: GPU {found if isinstance(found, str) else 'ran'}; emulator {wanted if isinstance(wanted, str) else 'ran'}"
                    )
                    continue
                text = difference(case, wanted, found)
                counts[kind + ("differ" if text else "same")] += 1
                if text:
                    print(text, flush=True)
    for what, count in sorted(counts.items()):
        print(f"single instructions, {what}: {count}")
    return int(bool(counts["differ"] or counts["failed"]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
