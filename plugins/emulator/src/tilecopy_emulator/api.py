"""Run a kernel from PTX text on host arrays, with :func:`run_ptx`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from tilecopy import LaunchError

from .argument_checks import demand, is_flag, is_whole, items_of
from .arguments import argument_bytes, variable_named
from .memory.observed import Observer
from .parser.module import parse
from .program import BudgetError, Program, shown_name
from .run import MAX_CLUSTER, MOST_CTAS, Report, lay_out_shared, run_grid
from .threads.global_arrays import GlobalMemory

Dim3 = tuple[int, int, int]
MAX_THREADS, MAX_BLOCK_Z = 1024, 64
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
MAX_SHARED_BYTES = 227 * 1024


def run_ptx(
    text: str | Program,
    arguments: Sequence[Any],
    *,
    entry: str | None = None,
    grid: Sequence[int] | int,
    block: Sequence[int] | int,
    cluster: Sequence[int] | int | None = None,
    dynamic_shared_bytes: int = 0,
    profile: bool = False,
    allow: Sequence[str] = (),
    observer: Observer | None = None,
    progress: Callable[[int, int], None] | None = None,
    variables: Mapping[str, Any] | None = None,
    all_hazards: bool = False,
) -> Report:
    """Run a kernel from PTX text without a GPU.

    Args:
        text: a PTX module, or the :class:`Program` that :func:`parse` returned.
        arguments: in the order of the parameters. For a pointer, an array (NumPy, or a CPU array with DLPack), which the kernel
            changes in place; two arrays that share memory share it in the kernel too. ``None`` is the null pointer. A :class:`Pointer`
            or a list of pointers and structures is put into global memory. For a number, an integer or a float. For a structure passed
            by value, a :class:`Struct` or its bytes (``bytes``, or a NumPy scalar, structured array or array of ``uint8`` of that
            size); for a half or a bfloat16, also a number. For a tensor map or its address, a :class:`TensorMap`, whose address may be
            an array.
        entry: name of the kernel; optional if the text has only one.
        grid: CTAs of the grid, one to three extents.
        block: threads of a CTA, one to three extents.
        cluster: CTAs of a cluster; by default ``.reqnctapercluster``, or one CTA.
        dynamic_shared_bytes: size of the ``.extern .shared`` arrays.
        profile: count memory sectors and bank conflicts too (slower).
        allow: hazards to allow: ``("same-value",)`` lets several threads write the same value to the same place without a
            barrier. A thread that reads it must still be ordered after all of them. ``"unfenced-init"`` lets a bulk copy use
            an mbarrier whose ``mbarrier.init`` was not fenced (``fence.mbarrier_init`` or ``fence.proxy.async``).
        observer: called with each :class:`AccessEvent` and :class:`Transfer`, in the order in which they run (slower).
        progress: called with the number of CTAs that have ended, and the number of all CTAs.
        variables: values of ``__constant__`` and ``__device__`` variables of the module, by name: a number, an array, a :class:`Struct` or a
            :class:`Pointer`. Values are copied; ``Report.variables`` has what the variables hold after the run.
        all_hazards: continue after a hazard if possible. The :class:`HazardError` of the first hazard then has one for
            each other cause in ``others``.

    Returns:
        A report of the run.

    Raises:
        UnsupportedPtxError: the text is not PTX, or the emulator does not support a part of it; the message names the line.
        LaunchError: the arguments do not fit the parameters, or the extents do not fit the kernel or the hardware.
        HazardError: the kernel does something that is undefined on hardware.
    """
    program = text if isinstance(text, Program) else parse(text, entry)
    where = f"kernel {program.name}"
    ctas, threads, size = _extents(program, grid, block, cluster)
    fits = is_whole(dynamic_shared_bytes, 0, MAX_SHARED_BYTES)
    demand(where, "dynamic_shared_bytes", dynamic_shared_bytes, fits, f"an integer from 0 to {MAX_SHARED_BYTES} bytes")
    _, _, shared_bytes = lay_out_shared(program, dynamic_shared_bytes, ())
    if shared_bytes > MAX_SHARED_BYTES:
        raise LaunchError(
            f"{where}: static plus dynamic shared memory must be at most {MAX_SHARED_BYTES} bytes, got {shared_bytes}"
        )
    memory = GlobalMemory()
    fits = variables is None or (isinstance(variables, Mapping) and all(isinstance(name, str) for name in variables))
    demand(where, "variables", variables, fits, "a dictionary from variable names to values")
    parameters, values = argument_bytes(program, arguments, variables or {}, memory)
    report = run_grid(
        program, grid=ctas, block=threads, cluster=size, parameters=parameters, memory=memory,
        dynamic_shared_bytes=dynamic_shared_bytes, variables=values, profile=profile, allow=allow, observer=observer,
        progress=progress, all_hazards=all_hazards,
    )  # fmt: skip
    for name, value in (variables or {}).items():
        if isinstance(value, np.ndarray):
            known = shown_name(variable_named(program, name))
            report.variables[known] = report.variables[known].view(np.uint8).view(value.dtype).reshape(value.shape)
    return report


def _extent(name: str, value: Sequence[int] | int, where: str) -> Dim3:
    """Return one to three positive integers as three, padded with ones."""
    listed = items_of(value)
    try:
        sizes = [0 if is_flag(x) else operator.index(x) for x in ((value,) if listed is None else listed[:4])]
    except Exception:  # raised by a method of the object
        sizes = []
    fits = 1 <= len(sizes) <= 3 and min(sizes) >= 1 and max(sizes) < 1 << 63
    demand(where, name, value, fits, "one to three positive integers")
    return (sizes[0], sizes[1] if len(sizes) > 1 else 1, sizes[2] if len(sizes) > 2 else 1)


def _extents(
    program: Program, grid: Sequence[int] | int, block: Sequence[int] | int, cluster: Sequence[int] | int | None
) -> tuple[Dim3, Dim3, Dim3 | None]:
    """Return the grid, block and cluster, checked against the kernel and the hardware."""
    where = f"kernel {program.name}"
    ctas, threads = _extent("grid", grid, where), _extent("block", block, where)
    if any(size > most for size, most in zip(ctas, MAX_GRID, strict=True)):
        raise LaunchError(f"{where}: grid must be at most {MAX_GRID} CTAs, got {ctas}")
    if prod(ctas) > MOST_CTAS:
        raise BudgetError(
            f"{where}: the emulator runs at most {MOST_CTAS} CTAs in one launch, got {prod(ctas)}: launch a smaller grid"
        )
    if prod(threads) > MAX_THREADS or threads[2] > MAX_BLOCK_Z:
        raise LaunchError(f"{where}: block must have at most {MAX_THREADS} threads ({MAX_BLOCK_Z} in z), got {threads}")
    if program.block is not None and threads != program.block:
        raise LaunchError(f"{where}: block must be {program.block} because of .reqntid, got {threads}")
    if program.max_threads and prod(threads) > program.max_threads:
        raise LaunchError(f"{where}: block must have at most {program.max_threads} threads (.maxntid), got {threads}")
    size = program.cluster if cluster is None else _extent("cluster", cluster, where)
    if program.cluster not in (None, size):
        raise LaunchError(f"{where}: cluster must be {program.cluster} because of .reqnctapercluster, got {size}")
    if size is not None:
        if prod(size) > MAX_CLUSTER:
            raise LaunchError(f"{where}: cluster must have at most {MAX_CLUSTER} CTAs, got {size}")
        if any(a % b for a, b in zip(ctas, size, strict=True)):
            raise LaunchError(f"{where}: grid must be a multiple of cluster {size} in each dimension, got {ctas}")
        if prod(size) > 1 and program.arch < 90:
            raise LaunchError(f"{where}: the target must be sm_90 or newer for clusters, got sm_{program.arch}")
    return ctas, threads, size
