"""The main job: copy a real array, tile by tile through shared memory, and verify every byte of the result."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from ..errors import RequestError, TilecopyError
from ..executors import choose_executor, executor_named
from ..kernel import BuiltKernel, KernelBuilder
from ..layout import Layout, S, SwizzledLayout, TileLayout, swizzle
from ..registry import default_registry
from ..target import Target, target_of

Progress = Callable[[int, int], None]
_UNITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


@attrs.frozen
class Job:
    """What is asked.

    Attributes:
        tile: rows and columns of a tile.
        threads: threads of a CTA.
        swizzle: mode of the shared layout, or None.
        pad: elements added to each row of the shared layout.
        variant: a variant to demand, or None.
        target: architecture, or None for the GPU's own.
        executor: ``cuda``, ``emulator`` or None for the GPU where there is one.
    """

    tile: tuple[int, int] = (128, 64)
    threads: int = 128
    swizzle: str | None = None
    pad: int = 0
    variant: str | None = None
    target: str | None = None
    executor: str | None = None


@attrs.frozen(eq=False)
class Part:
    """The tiles of one size: the inner ones, those of the right edge, the bottom edge or the corner."""

    where: str
    tile: tuple[int, int]
    count: int
    kernel: BuiltKernel


@attrs.frozen(eq=False)
class Outcome:
    """What was done.

    Attributes:
        shape: of the array.
        dtype: of the array.
        order: ``C`` or ``F``.
        parts: one for each size of tile.
        nbytes: bytes of the array.
        seconds: of the copy alone (a median on the GPU).
        runs: how many copies that is the median of.
        executor: which ran it.
        verified: how the result was checked.
    """

    shape: tuple[int, ...]
    dtype: str
    order: str
    parts: tuple[Part, ...]
    nbytes: int
    seconds: float
    runs: int
    executor: str
    target: str
    verified: str


def load_array(path: Path) -> Any:
    """The array of a .npy file.

    Raises:
        RequestError: it is not a .npy file of plain elements.
    """
    try:
        with path.open("rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise RequestError(f"{path}: not a .npy file (it does not begin with the bytes of one)")
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise RequestError(f"{path}: there is no such file") from None
    except (ValueError, OSError, EOFError) as error:
        reason = str(error).split(". ")[0]
        raise RequestError(f"{path}: not a .npy file of plain elements ({reason})") from None
    if array.dtype.hasobject or array.dtype.itemsize == 0:
        raise RequestError(f"{path}: elements of dtype {array.dtype} are not plain bytes")
    return array


def as_rows(array: Any, width: int) -> list[Any]:
    """An array's own memory as 2-D views of unsigned words, no byte copied.

    The axes are taken in memory order, all but the last together as rows. One row alone (a vector) becomes rows of
    ``width`` and a rest.
    """
    flat = array if array.flags.c_contiguous else array.T
    flat = np.ascontiguousarray(flat) if not flat.flags.c_contiguous else flat
    size = flat.dtype.itemsize
    unit = next(width_bytes for width_bytes in (8, 4, 2, 1) if size % width_bytes == 0)
    columns = (flat.shape[-1] if flat.ndim else 1) * (size // unit)
    words = flat.reshape(-1).view(_UNITS[unit])
    if len(words) == 0:
        return []
    if columns < len(words):
        return [words.reshape(-1, columns)]
    whole = len(words) // width * width
    return [
        part.reshape(-1, cols)
        for part, cols in ((words[:whole], width), (words[whole:], len(words) - whole))
        if len(part)
    ]


def shared_layout(job: Job, tile: tuple[int, int], dtype: str) -> Layout:
    """The layout of a tile in shared memory: row-major, padded or swizzled."""
    if job.pad and job.swizzle:
        raise RequestError("--swizzle and --pad are two ways to the same end; give one")
    if job.pad < 0:
        raise RequestError(f"--pad is at least 0, not {job.pad}")
    rows, columns = tile
    plain = TileLayout(S[(rows, columns) : (columns + job.pad, 1)])
    return SwizzledLayout(swizzle(job.swizzle, dtype), plain) if job.swizzle else plain


def build_parts(job: Job, shape: tuple[int, int], dtype: str, target: Target) -> list[Part]:
    """The kernels of a 2-D array: one for the inner tiles, one for each edge that the tile does not divide."""
    (rows, columns), (height, width) = shape, job.tile
    splits = [
        [("inner", 0, extent // step, step), ("edge", extent // step * step, 1, extent % step)]
        for extent, step in ((rows, height), (columns, width))
    ]
    names = {("inner", "inner"): "inner", ("inner", "edge"): "right edge", ("edge", "inner"): "bottom edge"}
    parts = []
    for row_kind, row_start, row_count, tile_rows in splits[0]:
        for column_kind, column_start, column_count, tile_columns in splits[1]:
            if not (row_count and column_count and tile_rows and tile_columns):
                continue
            tile = (tile_rows, tile_columns)
            where = names.get((row_kind, column_kind), "corner")
            counts, starts = (row_count, column_count), (row_start, column_start)
            kernel = _tile_kernel(job, shape, dtype, target, tile, starts, counts, where)
            parts.append(Part(where, tile, row_count * column_count, kernel))
    return parts


def _tile_kernel(
    job: Job,
    shape: tuple[int, int],
    dtype: str,
    target: Target,
    tile: tuple[int, int],
    starts: tuple[int, int],
    counts: tuple[int, int],
    where: str,
) -> BuiltKernel:
    elements = tile[0] * tile[1]
    threads = max(t for t in range(1, min(job.threads, elements) + 1) if elements % t == 0)
    kernel = KernelBuilder(f"tilecopy_{where.replace(' ', '_')}", threads=threads)
    source = kernel.param("source", shape, dtype)
    result = kernel.param("result", shape, dtype)
    staging = kernel.shared(tile, dtype, layout=shared_layout(job, tile, dtype), name="tile")
    block = kernel.block_id("x")  # one dimension: y and z end at 65535
    row = starts[0] + block // counts[1] * tile[0]
    column = starts[1] + block % counts[1] * tile[1]
    box = (slice(row, row + tile[0]), slice(column, column + tile[1]))
    forced = next((p.variant for p in default_registry().plugins() if p.variant and p.name == job.variant), None)
    if forced is not None and forced.op == "copy_async":
        kernel.cta.copy_async(staging[:, :], source[box], variant=job.variant)
        kernel.cp_async_commit()
        kernel.cp_async_wait(0)
        kernel.cta_sync()
        kernel.cta.copy(result[box], staging[:, :])
    else:
        kernel.cta.copy(staging[:, :], source[box], variant=job.variant)
        kernel.cta_sync()
        kernel.cta.copy(result[box], staging[:, :], variant=job.variant)
    return kernel.build(target=target, grid=(counts[0] * counts[1],))


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
    """Copy an array file tile by tile; the result is verified before the output file appears.

    Raises:
        TilecopyError: a bad file, option or target, a copy that no variant lowers, or a result that differs.
    """
    array = load_array(source)
    _check_destination(destination)
    target, executor = choose_target(job)
    pieces = as_rows(array, job.tile[1])
    built = [(piece, build_parts(job, piece.shape, str(piece.dtype), target)) for piece in pieces]
    result = np.empty_like(array, order="K")
    results = as_rows(result, job.tile[1])
    run = _run_cuda if executor == "cuda" else _run_here
    seconds, runs = run(executor, built, results, progress)
    if array.tobytes(order="A") != result.tobytes(order="A"):
        wrong = int(np.count_nonzero(as_bytes(array) != as_bytes(result)))
        raise TilecopyError(f"verification failed: {wrong} of {array.nbytes} bytes differ; nothing was written")
    _save(destination, result)
    order = "C" if array.flags.c_contiguous else "F"
    verified = f"all {array.nbytes} bytes equal to the input's; the result was filled with other bytes before"
    parts = tuple(part for _, found in built for part in found)
    return Outcome(
        array.shape, str(array.dtype), order, parts, array.nbytes, seconds, runs, executor, str(target), verified
    )


def as_bytes(array: Any) -> Any:
    """The array's memory as flat bytes."""
    return np.frombuffer(array.tobytes(order="A"), np.uint8)


def _check_destination(path: Path) -> None:
    if path.is_dir():
        raise RequestError(f"{path}: the output is a directory; give a file name")
    if not path.absolute().parent.is_dir():
        raise RequestError(f"{path}: the directory {path.absolute().parent} does not exist")
    if not os.access(path.absolute().parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise RequestError(f"{path}: the output cannot be written")


def _save(path: Path, array: Any) -> None:
    """Write a .npy file in one step: it is there whole, or not at all."""
    handle, temporary = tempfile.mkstemp(suffix=".npy", dir=path.absolute().parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, array)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _run_here(
    name: str, built: list[tuple[Any, list[Part]]], results: list[Any], progress: Progress | None
) -> tuple[float, int]:
    total = sum(part.count for _, parts in built for part in parts)
    done, seconds = 0, 0.0
    for (piece, parts), result in zip(built, results, strict=True):
        np.invert(piece, out=result)  # every byte of the result is wrong until it is copied
        for part in parts:
            started = time.perf_counter()
            choose_executor(name, part.kernel).launch(part.kernel, (piece, result))
            seconds += time.perf_counter() - started
            done += part.count
            if progress is not None:
                progress(done, total)
    return seconds, 1


def _run_cuda(
    name: str, built: list[tuple[Any, list[Part]]], results: list[Any], progress: Progress | None
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
        if progress is not None and launches:
            progress(1, 1)
    return seconds, runs
