"""The job of `tilecopy run`: copy an array tile by tile through shared memory, and verify every byte of the result."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from tilecopy.executors import get_executor, unavailable_reason

from tilecopy_core.description import Target, target_of
from tilecopy_core.errors import TilecopyError

from .file_errors import FileError, printable_name
from .job import Job, RunReport, TiledCopy, as_rows, tiled_copy
from .npy import bytes_of, file_signature, read_npy
from .output import output_file

Progress = Callable[[int, int], None]
"""A function of the number of tiles done and of the total."""


def choose_target(job: Job) -> tuple[Target, str]:
    """Return a job's target and executor. The defaults are the GPU's target and cuda, or sm_90 and the emulator."""
    why = unavailable_reason("cuda")
    name = job.executor or ("cuda" if why is None else "emulator")
    if job.target is None and why is None:
        cuda: Any = get_executor("cuda")
        major, minor = cuda.devices()[0].capability
        return target_of(f"sm_{major}{minor}"), name
    return target_of(job.target or "sm_90"), name


def copy_file(source: Path, destination: Path, job: Job, progress: Progress = lambda done, total: None) -> RunReport:
    """Copy an array file tile by tile, and verify the result before the output file is created or replaced.

    The header is copied byte for byte, so that the two files compare equal.
    """
    read = read_npy(source)
    array = read.array
    with output_file(destination) as write:
        over_itself = destination.exists() and destination.samefile(source)
        target, executor = choose_target(job)
        result = np.empty_like(array, order="K")
        words, result_words = as_rows(array), as_rows(result)
        np.invert(words, out=result_words)  # every byte of the result is wrong until it is copied
        seconds, runs, tiled = 0.0, 0, None
        if words.size:
            tiled = tiled_copy(job, words.shape, str(words.dtype), target)
            progress(0, tiled.count)
            run = _run_cuda if executor == "cuda" else _run_here
            seconds, runs = run(get_executor(executor), tiled, words, result_words, progress)
        wrong = int(np.count_nonzero(bytes_of(array) != bytes_of(result)))
        if wrong:
            raise TilecopyError(f"verification failed: {wrong} of {array.nbytes} bytes differ; nothing was written")
        if over_itself and _has_changed(destination, read.stamp):
            raise FileError(
                f"{printable_name(destination)}: the input changed during the copy onto itself, so nothing was written: run the command again"
            )
        write((read.header, bytes_of(result)))
    order = "C" if array.flags.c_contiguous else "F"
    verified = (
        f"all {array.nbytes} bytes are equal to the input's, and each byte was wrong before the copy{read.left_out}"
    )
    copied = array.shape, str(array.dtype), array.nbytes, seconds, runs, executor, str(target), verified
    return RunReport(*copied, order=order, tiled=tiled)


def _has_changed(path: Path, stamp: tuple[int, ...]) -> bool:
    try:
        return file_signature(path.stat()) != stamp
    except OSError:
        return True


def _run_here(executor: Any, tiled: TiledCopy, words: Any, made: Any, progress: Progress) -> tuple[float, int]:
    """Run once on host arrays. Pass ``progress=`` to the executor if its class has this parameter; one CTA is one tile."""
    if "progress" in inspect.signature(type(executor)).parameters:
        executor = type(executor)(progress=progress)
    started = time.perf_counter()
    executor.launch(tiled.kernel, (words, made))
    seconds = time.perf_counter() - started
    progress(tiled.count, tiled.count)
    return seconds, 1


def _run_cuda(executor: Any, tiled: TiledCopy, words: Any, made: Any, progress: Progress) -> tuple[float, int]:
    """Run several times on device arrays, and return the median time and the number of runs."""
    from tilecopy_cuda import CudaExecutor, DeviceArray, time_on_device

    assert isinstance(executor, CudaExecutor)
    runs = 10
    with ExitStack() as stack:
        arrays = []
        for host in (words, made):
            arrays.append(stack.enter_context(DeviceArray(host.shape, host.dtype, executor=executor)))
            arrays[-1].copy_from(host)
        seconds = time_on_device(executor, executor.prepare(tiled.kernel, arrays), runs=runs)
        arrays[1].copy_to(made)
        progress(tiled.count, tiled.count)
    return seconds, runs
