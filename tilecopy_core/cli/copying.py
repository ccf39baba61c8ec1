"""The main job: copy a real array, tile by tile through shared memory, and verify every byte of the result."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TilecopyError
from ..executors import executor_named
from ..target import Target, target_of
from .errors import FileError, shown
from .job import Job, Outcome, Part, as_rows, build_parts
from .npy import bytes_of, read_npy, stamp_of
from .output import output_file

Progress = Callable[[int, int], None]
"""Called with tiles done and tiles in all."""


def choose_target(job: Job) -> tuple[Target, str]:
    """Target and executor of a job: what was asked, else the GPU's own, else sm_90 on the emulator."""
    cuda: Any = executor_named("cuda")
    why = cuda.why_unavailable()
    name = job.executor or ("cuda" if why is None else "emulator")
    if job.target is not None:
        return target_of(job.target), name
    if why is None:
        major, minor = cuda.devices()[0].capability
        return target_of(f"sm_{major}{minor}"), name
    return target_of("sm_90"), name


def copy_file(source: Path, destination: Path, job: Job, progress: Progress | None = None) -> Outcome:
    """Copy an array file tile by tile; the result is verified before the output file appears or changes.

    The header of the output is that of the input, byte for byte: the two files compare equal.

    Raises:
        FileError: the input cannot be read, or the output cannot be written.
        TilecopyError: a bad option or target, a copy that no variant lowers, or a result that differs.
    """
    read = read_npy(source)
    array = read.array
    with output_file(destination) as write:
        over_itself = destination.exists() and destination.samefile(source)
        target, executor = choose_target(job)
        pieces = as_rows(array, job.tile[1])
        built = [(piece, build_parts(job, piece.shape, str(piece.dtype), target)) for piece in pieces]
        result = np.empty_like(array, order="K")
        results = as_rows(result, job.tile[1])
        run = _run_cuda if executor == "cuda" else _run_here
        seconds, runs = run(executor, built, results, progress)
        wrong = int(np.count_nonzero(bytes_of(array) != bytes_of(result)))
        if wrong:
            raise TilecopyError(f"verification failed: {wrong} of {array.nbytes} bytes differ; nothing was written")
        if over_itself and _changed(destination, read.stamp):
            raise FileError(f"{shown(destination)}: the file changed while it was copied over itself; it is as it was")
        write((read.header, bytes_of(result)))
    order = "C" if array.flags.c_contiguous else "F"
    verified = f"all {array.nbytes} bytes equal to the input's; the result was filled with other bytes before"
    parts = tuple(part for _, found in built for part in found)
    return Outcome(
        array.shape, str(array.dtype), order, parts, array.nbytes, seconds, runs, executor, str(target), verified
    )


def _changed(path: Path, stamp: tuple[int, ...]) -> bool:
    try:
        return stamp_of(path.stat()) != stamp
    except OSError:
        return True


def _run_here(
    name: str, built: Sequence[tuple[Any, list[Part]]], results: Sequence[Any], progress: Progress | None
) -> tuple[float, int]:
    total = sum(part.count for _, parts in built for part in parts)
    done, seconds = 0, 0.0
    for (piece, parts), result in zip(built, results, strict=True):
        np.invert(piece, out=result)  # every byte of the result is wrong until it is copied
        for part in parts:
            executor = _reporting(name, _shifted(progress, done, total))
            started = time.perf_counter()
            executor.launch(part.kernel, (piece, result))
            seconds += time.perf_counter() - started
            done += part.count
            if progress is not None:
                progress(done, total)
    return seconds, 1


def _shifted(progress: Progress | None, done: int, total: int) -> Progress | None:
    """Progress of one kernel (a CTA copies one tile) as that of all."""
    return None if progress is None else lambda ctas, _: progress(done + ctas, total)


def _reporting(name: str, progress: Progress | None) -> Any:
    """An executor; where its class takes ``progress=``, a function of CTAs done and CTAs in all, one that calls ours."""
    executor = executor_named(name)
    if progress is not None and "progress" in inspect.signature(type(executor)).parameters:
        return type(executor)(progress=progress)  # type: ignore[call-arg]
    return executor


def _run_cuda(
    name: str, built: Sequence[tuple[Any, list[Part]]], results: Sequence[Any], progress: Progress | None
) -> tuple[float, int]:
    from ..executors.cuda import CudaExecutor
    from ..executors.device_array import DeviceArray, time_on_device

    executor: Any = executor_named(name)
    assert isinstance(executor, CudaExecutor)
    runs = 10
    with ExitStack() as stack:
        launches: list[Callable[[], None]] = []
        copies = []
        for (piece, parts), result in zip(built, results, strict=True):
            source = stack.enter_context(DeviceArray(piece.shape, piece.dtype, executor=executor))
            target = stack.enter_context(DeviceArray(piece.shape, piece.dtype, executor=executor))
            source.copy_from(piece)
            target.copy_from(np.invert(piece))
            copies.append((target, result))
            for part in parts:
                launches.append(lambda k=part.kernel, a=source, b=target: executor.launch(k, (a, b)))  # type: ignore[misc]

        def copy_once() -> None:
            for launch in launches:
                launch()

        seconds = time_on_device(executor, copy_once, runs=runs) if launches else 0.0
        for target, result in copies:
            target.copy_to(result)
        total = sum(part.count for _, parts in built for part in parts)
        if progress is not None:
            progress(total, total)
    return seconds, runs
