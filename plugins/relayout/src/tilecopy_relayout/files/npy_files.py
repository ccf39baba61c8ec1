"""The relayout of a .npy file into another .npy file, in pieces. Both files may be larger than host or GPU memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from tilecopy.overlap import StridedMemory
from tilecopy_cli.command import FileError, NpyFile, TransferReport, header_of, output_file, printable_name, read_npy

from tilecopy_core import TilecopyError
from tilecopy_core.plugin import row_major

from ..arrays.array import array_of
from ..axes import rearrangement
from ..local import host
from ..local.call import words_of
from ..planner.problem import RelayoutSpec

_TIMED_RUNS = 3
_EMULATED_BYTES = 1 << 26
"""Bytes of both sides of a piece on the emulator, few enough that progress is shown often."""


@attrs.frozen(eq=False)
class FileReport(TransferReport):
    """A frozen record of a finished relayout of a file. ``seconds`` is the sum of the launch times of all pieces.

    The launch time of a piece is the median of ``runs`` launches. ``wall_seconds`` includes reading, verification and writing.
    """

    result_shape: tuple[int, ...]
    pieces: int
    wall_seconds: float

    @property
    def wall_gb_per_s(self) -> float:
        """The bytes read plus the bytes written, divided by the time of the whole job, in GB/s."""
        return 2 * self.bytes / self.wall_seconds / 1e9


def _relaid_out(
    npy: NpyFile, words: RelayoutSpec, place: tuple[slice, ...], executor: str, target: str
) -> tuple[Any, float, int]:
    """Return the bytes of one piece of the result, the seconds of its relayout, and the number of words that differ from NumPy's."""
    shape, strides = tuple(part.stop - part.start for part in place), words.sides[0].strides_bytes
    offset_bytes = sum(part.start * stride for part, stride in zip(place, strides, strict=True))
    order = sorted(range(len(shape)), key=lambda dim: -strides[dim])  # as the elements lie in the file
    box = npy.read(offset_bytes, [shape[dim] for dim in order], [strides[dim] for dim in order], words.dtype)
    expected = box.transpose(np.argsort(order))
    result = np.empty(shape, words.dtype)
    flat = result.reshape(-1).view(np.uint8)
    flat.fill(host.NEVER_WRITTEN)
    seconds = host.move_piece(expected, result, executor, target=target, timed_runs=_TIMED_RUNS)
    differing = sum(int(np.count_nonzero(a != b)) for a, b in zip(_bits(expected), _bits(result), strict=True))
    return flat, seconds, differing


def _bits(array: Any) -> list[Any]:
    """Return the words as unsigned integers, so that a comparison compares all bits."""
    if array.dtype.kind != "c":
        return [array]
    return [array.real.view(np.uint64), array.imag.view(np.uint64)]


def relayout_file(
    source: Path,
    destination: Path,
    axes: str,
    *,
    sizes: Mapping[str, int] | None = None,
    max_memory_bytes: int | None = None,
    executor: str | None = None,
    target: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> FileReport:
    """Relayout a .npy file piece by piece into a C-contiguous .npy file.

    Every piece is verified against NumPy. The output file is created or replaced after all pieces are verified. ``max_memory_bytes`` limits
    the bytes of both sides of a piece; by default they fit the free memory. ``executor`` and ``target`` are by default those of the GPU, if
    there is one. ``progress`` is called with the number of finished bytes of the result and that of all bytes.
    """
    started = time.perf_counter()
    read = read_npy(source, mapped=True)
    array = array_of(printable_name(source), read.array)
    itemsize, moved = array.memory.itemsize, rearrangement(axes, array.memory.shape, sizes)
    executor = host.choose_executor(executor)
    target = target or (host.target_of_gpu() if executor == "cuda" else host.EMULATED_TARGET)
    seconds: list[float] = []
    with output_file(destination) as write:
        if destination.exists() and destination.samefile(source):
            raise FileError(
                f"{printable_name(destination)}: the output must not be the input file: pass another file name"
            )
        header = header_of(read.descr, moved.shape)
        strides = tuple(stride * itemsize for stride in row_major(moved.shape))
        words = words_of(array.memory, moved, StridedMemory(0, moved.shape, strides, itemsize))
        total = prod(moved.shape) * itemsize
        limit = max_memory_bytes or host.default_memory_bytes(executor) or _EMULATED_BYTES
        places = list(host.boxes(words.extents, max(1, limit // (2 * words.elem_bytes))))

        def parts() -> Iterator[Any]:
            yield header
            for index, place in enumerate(places, start=1):
                flat, piece_seconds, differing = _relaid_out(read, words, place, executor, target)
                if differing:
                    raise TilecopyError(
                        f"verification failed: {differing} words of {words.elem_bytes} bytes in piece {index} differ from NumPy's; nothing was written"
                    )
                seconds.append(piece_seconds)
                progress(index * total // len(places), total)
                yield flat
            read.check_unchanged()

        write(parts())
    return FileReport(
        shape=array.memory.shape,
        result_shape=moved.shape,
        dtype=read.descr if isinstance(read.descr, str) and array.dtype.kind == "V" else str(array.dtype),
        bytes=total,
        pieces=len(places),
        seconds=sum(seconds),
        runs=_TIMED_RUNS if executor == "cuda" else 1,
        wall_seconds=time.perf_counter() - started,
        executor=executor,
        target=target,
        verified=f"all {total} bytes were equal to NumPy's before they were written{read.left_out}",
    )
