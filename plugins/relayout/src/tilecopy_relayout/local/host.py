"""Relayouts of host arrays, on the emulator or through a GPU in pieces that fit its memory."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

from tilecopy.executors import capturing_framework, get_executor, unavailable_reason

from tilecopy_core import RequestError
from tilecopy_core.errors import np
from tilecopy_core.registry import LOCK

from ..arrays.devices import DevicePlacement
from ..arrays.frameworks import driver
from ..planner import plan as planner
from ..planner.problem import RelayoutSpec
from ..validation import EXECUTOR

EMULATED_TARGET = "sm_90"
"""The default target on the emulator."""
NEVER_WRITTEN = 0xA5
"""The byte that fills memory before a relayout into it is verified."""


def choose_executor(name: str | None, device: int | None = None) -> str:
    """Return the executor's name: ``name`` if it is not None, else ``cuda`` if a GPU exists, else ``emulator``."""
    if name is not None:
        EXECUTOR.check(name, "relayout", "executor")
    if device is not None and name == "emulator":
        raise RequestError(f"executor={name!r} needs a host array, got an array on GPU {device}: copy it to the host")
    if device is not None or name is not None:
        return name or "cuda"
    return "cuda" if unavailable_reason("cuda") is None else "emulator"


def target_of_gpu(device: int | None = None) -> str:
    """Return the architecture of a GPU. The default is the thread's current GPU, or GPU 0 if no GPU is current."""
    cuda: Any = get_executor("cuda")
    device = driver().current_device() if device is None else device
    major, minor = next(d.capability for d in cuda.devices() if d.ordinal == device)
    return f"sm_{major}{minor}"


def boxes(shape: Sequence[int], most: int) -> Iterator[tuple[slice, ...]]:
    """Yield contiguous boxes that cover an array, in row-major order. A box has at most ``most`` elements."""
    if not shape:
        yield ()
    elif 0 not in shape:
        step = max(1, most // prod(shape[1:]))
        for start in range(0, shape[0], step):
            for inner in boxes(shape[1:], most):
                yield (slice(start, min(start + step, shape[0])), *inner)


def default_memory_bytes(executor: str) -> int | None:
    """Return the byte limit of a piece's source plus result: 80% of free GPU memory. Return None on the emulator."""
    if executor != "cuda":
        return None
    with driver().active(driver().current_device()):
        free, _ = driver().call("cuMemGetInfo", what="cannot read the size of the free GPU memory")
    return int(free) * 8 // 10


def move_in_pieces(source: Any, result: Any, executor: str) -> None:
    """Copy one host array to another, in pieces that fit the GPU's memory. Both arrays may have any strides."""
    limit = default_memory_bytes(executor)
    most = max(1, result.size if limit is None else limit // (2 * result.itemsize))
    for box in boxes(result.shape, most):
        piece = result[box]
        target_piece = piece if executor != "cuda" or piece.flags.c_contiguous else np.empty(piece.shape, piece.dtype)
        move_piece(source[box], target_piece, executor)
        if target_piece is not piece:
            piece[...] = target_piece


def move_piece(source: Any, result: Any, executor: str, *, target: str | None = None, timed_runs: int = 0) -> float:
    """Copy one piece of a host array. Return the seconds that the copy took, without transfers to and from the GPU.

    On a GPU, ``result`` is C-contiguous, and the seconds are the median of ``timed_runs`` launches, timed by CUDA events, or 0.
    """
    if executor == "cuda":
        return _through_gpu(source, result, target or target_of_gpu(), timed_runs)
    launch = _plan(source, result, target or EMULATED_TARGET).bind(executor)
    started = time.perf_counter()
    launch(source, result, None)
    return time.perf_counter() - started


def _plan(source: Any, result: Any, target: str) -> Any:
    """Return the plan of one piece."""
    src, dst = (tuple(stride // words.itemsize for stride in words.strides) for words in (source, result))
    return planner.plan_of(RelayoutSpec(source.shape, src, dst, source.itemsize), target)


def _through_gpu(source: Any, result: Any, target: str, timed_runs: int) -> float:
    cuda: Any = get_executor("cuda")
    with LOCK:
        from tilecopy_cuda import DeviceArray, time_on_device
    if capturing := capturing_framework():
        raise RequestError(
            f"host arrays are not supported while the current stream of {capturing} is captured into a graph: pass device "
            "arrays"
        )
    memory, first, source = _compact(source)
    gpu = driver().current_device()
    launch = _plan(source, result, target).bind("cuda", DevicePlacement.of(gpu, gpu))
    allocated = partial(DeviceArray, dtype="uint8", device=gpu, executor=cuda)
    with allocated(memory.nbytes) as device_source, allocated(result.nbytes) as device_result:
        device_source.copy_from(memory)
        work = partial(launch, device_source.pointer + first, device_result.pointer, None)
        seconds = 0.0
        if timed_runs:
            device_result.fill(NEVER_WRITTEN)
            seconds = time_on_device(cuda, work, runs=timed_runs, warm_up=1, device=gpu)
        else:
            work()
        device_result.copy_to(result)  # cuMemcpyDtoH on the legacy stream waits for the launch
    return seconds


def _compact(source: Any) -> tuple[Any, int, Any]:
    """Return the bytes to copy to a device, the offset of the first element in them, and the array with its strides there.

    These are the array's own bytes if it has no gaps (dimensions in any order, broadcast or not), else a copy.
    """
    low, high = np.lib.array_utils.byte_bounds(source)
    if high - low > source.nbytes:
        source = np.ascontiguousarray(source)
        low, high = source.ctypes.data, source.ctypes.data + source.nbytes
    memory = np.asarray((ctypes.c_uint8 * (high - low)).from_address(low))
    return memory, source.ctypes.data - low, source  # the array keeps the memory alive
