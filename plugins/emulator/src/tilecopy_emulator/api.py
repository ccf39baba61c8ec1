"""Running any PTX text on host arrays: :func:`run_ptx`."""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import attrs
import numpy as np
from tilecopy import LaunchError

from .demands import demand, is_flag, is_whole, items_of, shown
from .memory.observed import Observer
from .memory.tensor_maps import MAP_BYTES, TensorMap
from .program import BudgetError, Parameter, Program
from .reading.parser import parse
from .run import ALLOWABLE, MOST_CTAS, Report, lay_out_shared, run_grid
from .threads.arrays import GlobalMemory

Dim3 = tuple[int, int, int]
BASE_ALIGN_BYTES = 256
"""Alignment of the arrays, as of allocations of the driver."""
MAX_THREADS, MAX_BLOCK_Z = 1024, 64
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
MAX_CLUSTER = 16
MAX_SHARED_BYTES = 227 * 1024


def run_ptx(
    text: str,
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
) -> Report:
    """Run a kernel of any PTX text, whoever wrote it, with no GPU.

    Args:
        text: a PTX module.
        arguments: in the order of the parameters. For a pointer, an array (NumPy, or a CPU array with DLPack), which is
            changed in place; two arrays that share memory share it in the kernel too. For a number, an integer or a float.
            For a structure passed by value, its bytes (``bytes``, or a NumPy array or scalar of that size); for a tensor map,
            a :class:`TensorMap`, whose address may be an array.
        entry: name of the kernel; may be left out where the text has only one.
        grid: CTAs, one to three extents.
        block: threads of a CTA, one to three extents.
        cluster: CTAs of a cluster; by default what ``.reqnctapercluster`` says, else one.
        dynamic_shared_bytes: size of the ``.extern .shared`` arrays.
        profile: count memory sectors and bank conflicts too (slower).
        allow: what is no hazard here: ``("same-value",)`` lets several threads write the same value to the same place with
            no barrier between. Who reads it must still be ordered after all of them. ``"unfenced-init"`` lets a bulk copy use
            an mbarrier whose ``mbarrier.init`` was not fenced (``fence.mbarrier_init`` or ``fence.proxy.async``).
        observer: called with each :class:`Access` and :class:`Transfer`, in the order in which they run here (slower).
        progress: called with CTAs done and CTAs in all.

    Returns:
        What the run did.

    Raises:
        UnsupportedPtxError: the text is not PTX or has something that the emulator does not know; names the line.
        LaunchError: the arguments do not fit the parameters, or the extents do not fit the kernel or the hardware.
        HazardError: an execution that the hardware leaves undefined.
    """
    if not isinstance(text, str):
        raise LaunchError(f"run_ptx takes the text of a PTX module, not {type(text).__name__} {shown(text)}")
    demand("run_ptx", "entry", entry, entry is None or isinstance(entry, str), "the name of a kernel, or None")
    program = parse(text, entry)
    return run_program(
        program,
        arguments,
        grid=grid,
        block=block,
        cluster=cluster,
        dynamic_shared_bytes=dynamic_shared_bytes,
        profile=profile,
        allow=allow,
        observer=observer,
        progress=progress,
    )


def run_program(
    program: Program,
    arguments: Sequence[Any],
    *,
    grid: Sequence[int] | int,
    block: Sequence[int] | int,
    cluster: Sequence[int] | int | None,
    dynamic_shared_bytes: int,
    profile: bool,
    allow: Sequence[str],
    observer: Observer | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """As :func:`run_ptx`, of a text that has been parsed."""
    demand("run_ptx", "profile", profile, is_flag(profile), "True or False")
    fits = observer is None or callable(observer)
    demand("run_ptx", "observer", observer, fits, "a function of an Access or a Transfer, or None")
    names = items_of(allow)
    fits = names is not None and all(isinstance(name, str) and name in ALLOWABLE for name in names)
    demand("run_ptx", "allow", allow, fits, f"names of what is no hazard here, of {', '.join(ALLOWABLE)}")
    where = f"kernel {program.name}"
    extents = _extents(program, grid, block, cluster)
    fits = is_whole(dynamic_shared_bytes, 0, MAX_SHARED_BYTES)
    demand(where, "dynamic_shared_bytes", dynamic_shared_bytes, fits, f"0 to {MAX_SHARED_BYTES}")
    _, _, shared_bytes = lay_out_shared(program, dynamic_shared_bytes, ())
    if shared_bytes > MAX_SHARED_BYTES:
        raise LaunchError(
            f"{where}: {shared_bytes} bytes of shared memory, static and dynamic; at most {MAX_SHARED_BYTES}"
        )
    memory = GlobalMemory()
    parameters = _parameters(program, arguments, memory)
    return run_grid(
        program,
        grid=extents[0],
        block=extents[1],
        cluster=extents[2],
        parameters=parameters,
        memory=memory,
        dynamic_shared_bytes=dynamic_shared_bytes,
        profile=profile,
        allow=tuple(names or ()),
        observer=observer,
        progress=progress,
    )


# --------------------------------------------------------------------------------------------------- extents


def _extent(name: str, value: Sequence[int] | int, where: str) -> Dim3:
    """One to three positive integers, filled up with ones."""
    listed = items_of(value)
    try:
        sizes = [0 if is_flag(x) else operator.index(x) for x in ((value,) if listed is None else listed[:4])]
    except Exception:  # an object's own
        sizes = []
    fits = 1 <= len(sizes) <= 3 and min(sizes) >= 1 and max(sizes) < 1 << 63
    demand(where, name, value, fits, "one to three positive integers")
    return (sizes[0], sizes[1] if len(sizes) > 1 else 1, sizes[2] if len(sizes) > 2 else 1)


def _extents(
    program: Program, grid: Sequence[int] | int, block: Sequence[int] | int, cluster: Sequence[int] | int | None
) -> tuple[Dim3, Dim3, Dim3 | None]:
    """Grid, block and cluster, checked against the kernel and the hardware."""
    where = f"kernel {program.name}"
    ctas, threads = _extent("grid", grid, where), _extent("block", block, where)
    if any(size > most for size, most in zip(ctas, MAX_GRID, strict=True)):
        raise LaunchError(f"{where}: a grid of {ctas} CTAs; at most {MAX_GRID}")
    if prod(ctas) > MOST_CTAS:
        raise BudgetError(
            f"{where}: a grid of {prod(ctas)} CTAs; the emulator runs at most {MOST_CTAS} in one launch. Launch a smaller grid"
        )
    if prod(threads) > MAX_THREADS or threads[2] > MAX_BLOCK_Z:
        raise LaunchError(f"{where}: a block of {threads} threads; at most {MAX_THREADS}, and {MAX_BLOCK_Z} in z")
    if program.block is not None and threads != program.block:
        raise LaunchError(f"{where}: a block of {threads} threads, and .reqntid says {program.block}")
    if program.max_threads and prod(threads) > program.max_threads:
        raise LaunchError(f"{where}: {prod(threads)} threads in a block, and .maxntid says {program.max_threads}")
    if cluster is None:
        size = program.cluster
    else:
        size = _extent("cluster", cluster, where)
        if program.cluster is not None and size != program.cluster:
            raise LaunchError(f"{where}: a cluster of {size} CTAs, and .reqnctapercluster says {program.cluster}")
    if size is not None:
        if prod(size) > MAX_CLUSTER:
            raise LaunchError(f"{where}: a cluster of {size} CTAs; at most {MAX_CLUSTER}")
        if any(a % b for a, b in zip(ctas, size, strict=True)):
            raise LaunchError(f"{where}: a grid of {ctas} CTAs is not made of whole clusters of {size}")
        if prod(size) > 1 and program.arch < 90:
            raise LaunchError(f"{where}: clusters need sm_90, the text is for sm_{program.arch}")
    return ctas, threads, size


# --------------------------------------------------------------------------------------------------- arguments


@attrs.frozen(eq=False)
class _Array:
    """An array argument: the memory from its first byte to its last."""

    parameter: Parameter
    array: Any
    first: int
    end: int


def _parameters(program: Program, arguments: Sequence[Any], memory: GlobalMemory) -> dict[str, bytes]:
    """The bytes of each parameter; arrays are mapped into the memory."""
    try:
        return _encoded(program, arguments, memory)
    except LaunchError as error:
        signature, first = _signature(program), next((each.place for each in program.instructions), None)
        said = "" if signature in str(error) else f"\n  the kernel is {program.name}{signature}"
        there = "".join(f"\n{line}" for line in first.lines(program.sources)) if first else ""
        raise LaunchError(f"{error}{said}{there}") from None


def _signature(program: Program) -> str:
    """The parameters as PTX declares them."""
    sizes = (f"[{each.bytes}]" if each.is_array else "" for each in program.parameters)
    found = (f".{each.type} {each.name}{size}" for each, size in zip(program.parameters, sizes, strict=True))
    return f"({', '.join(found) or 'none'})"


def _encoded(program: Program, arguments: Sequence[Any], memory: GlobalMemory) -> dict[str, bytes]:
    where = f"kernel {program.name}"
    given = items_of(arguments)
    if given is None:
        raise LaunchError(f"{where}: the arguments are a sequence, not {type(arguments).__name__} {shown(arguments)}")
    if len(given) != len(program.parameters):
        raise LaunchError(
            f"{where}: {len(given)} arguments for {len(program.parameters)} parameters {_signature(program)}: {shown(arguments)}"
        )
    found: dict[str, bytes] = {}
    arrays: list[_Array] = []
    maps: dict[str, TensorMap] = {}
    for number, (parameter, argument) in enumerate(zip(program.parameters, given, strict=True)):
        place = f"{where}, argument {number} ({parameter.name})"
        is_map = isinstance(argument, TensorMap) and parameter.bytes == MAP_BYTES
        array = _as_array(argument.address if is_map else argument, place)
        if is_map and array is not None:
            maps[parameter.name] = argument
            arrays.append(_Array(parameter, array, *_span(array, place)))
        elif is_map:
            found[parameter.name] = argument.encode()
        elif parameter.is_array:
            found[parameter.name] = _structure(parameter, argument, place)
        elif array is not None:
            if parameter.bytes != 8:
                raise LaunchError(
                    f"{place}: an array for a parameter .{parameter.type}, which holds no address: {shown(argument)}"
                )
            arrays.append(_Array(parameter, array, *_span(array, place)))
        else:
            found[parameter.name] = _number(parameter, argument, place)
    addresses = _mapped(arrays, memory)
    encoded = {name: each.encode(addresses[name]) for name, each in maps.items()}
    return found | {name: struct.pack("<Q", address) for name, address in addresses.items()} | encoded


def _as_array(argument: Any, place: str) -> Any:
    """An argument as a NumPy array over the same memory, or None when it is no array."""
    if isinstance(argument, np.ndarray):
        return argument
    try:
        exchanged = not isinstance(argument, np.generic) and bool(argument.__dlpack_device__)
    except Exception:  # an object's own
        exchanged = False
    if not exchanged:
        return None
    try:
        device, _ = argument.__dlpack_device__()
    except Exception as error:  # a framework's own
        raise LaunchError(f"{place}: {shown(argument)} cannot be viewed as a NumPy array: {shown(error)}") from error
    if int(device) != 1:
        raise LaunchError(
            f"{place}: the array is on a device (DLPack type {int(device)}), the emulator takes host arrays"
        )
    try:
        return np.from_dlpack(argument)
    except Exception as error:  # likewise
        raise LaunchError(f"{place}: {type(argument).__name__} cannot be viewed as a NumPy array: {error}") from error


def _span(array: Any, place: str) -> tuple[int, int]:
    """Addresses of an array's first byte and of the one after its last."""
    if array.dtype.hasobject:
        raise LaunchError(f"{place}: an array of Python objects: {shown(array)}")
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise LaunchError(f"{place}: {shown(array)}, whose mask a kernel does not see; pass a.filled(value)")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise LaunchError(f"{place}: the array has gaps (strides {array.strides}); pass np.ascontiguousarray(..) of it")
    first = int(array.ctypes.data)
    return first, first + array.nbytes


def _mapped(arrays: list[_Array], memory: GlobalMemory) -> dict[str, int]:
    """Map arrays into the memory, those that share bytes as one; their addresses by parameter."""
    found: dict[str, int] = {}
    group: list[_Array] = []
    end = 0
    for each in [*sorted(arrays, key=lambda a: (a.first, a.end)), None]:
        if group and (each is None or each.first >= end):
            start = group[0].first
            writable = any(other.array.flags.writeable for other in group)
            data = (
                np.frombuffer(memoryview((ctypes.c_uint8 * (end - start)).from_address(start)), np.uint8)
                if end > start
                else None
            )
            name = " or ".join(other.parameter.name for other in group)
            base = memory.add(
                name, np.zeros(0, np.uint8) if data is None else data, BASE_ALIGN_BYTES, writable=writable
            )
            for other in group:
                found[other.parameter.name] = base + other.first - start
            group, end = [], 0
        if each is not None:
            group.append(each)
            end = max(end, each.end)
    return found


def _structure(parameter: Parameter, argument: Any, place: str) -> bytes:
    """The bytes of a structure passed by value."""
    try:
        known = isinstance(argument, (np.ndarray, np.generic)) and not argument.dtype.hasobject
        raw = argument.tobytes() if known else bytes(memoryview(argument).cast("B"))
    except (TypeError, ValueError):
        raise LaunchError(
            f"{place}: a structure of {parameter.bytes} bytes is wanted (bytes, or a NumPy array), "
            f"not {type(argument).__name__} {shown(argument)}"
        ) from None
    if len(raw) != parameter.bytes:
        raise LaunchError(f"{place}: {len(raw)} bytes for a structure of {parameter.bytes}: {shown(argument)}")
    return raw


def _number(parameter: Parameter, argument: Any, place: str) -> bytes:
    """The bytes of a number."""
    size, kind = parameter.bytes, parameter.type[0]
    raw = isinstance(argument, np.generic) and argument.dtype.itemsize == size
    if raw and (
        argument.dtype.kind == "V" or (argument.dtype.kind == "f" and kind in "fb")
    ):  # ml_dtypes' are of kind V
        return bytes(argument.tobytes())
    if isinstance(argument, (float, np.floating)) and kind in "fb" and size in (2, 4, 8):
        return _float(argument, parameter, place)
    if isinstance(argument, (float, np.floating)):
        raise LaunchError(f"{place}: the float {argument!r} for a parameter .{parameter.type}")
    try:
        value = operator.index(argument)
    except Exception:  # an object's own
        raise LaunchError(
            f"{place}: an array, an integer or a float is wanted for .{parameter.type}, not {type(argument).__name__} "
            f"{shown(argument)}"
        ) from None
    if kind == "f":
        return _float(value, parameter, place)
    low = 0 if kind == "u" else -(1 << (8 * size - 1))
    high = (1 << (8 * size - 1)) - 1 if kind == "s" else (1 << 8 * size) - 1
    if kind == "u" and -(1 << (8 * size - 1)) <= value < 0:
        low = value  # compilers declare signed parameters as .u32 too
    if not low <= value <= high:
        raise LaunchError(f"{place}: {shown(value)} does not fit into .{parameter.type}")
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _float(value: Any, parameter: Parameter, place: str) -> bytes:
    """The bytes of a number as a float; a finite one stays finite."""
    try:
        with np.errstate(over="ignore"):
            found = np.array(float(value), f"f{parameter.bytes}")
        fits = bool(np.isfinite(found)) or not math.isfinite(value)
    except OverflowError:
        fits = False
    if not fits:
        raise LaunchError(f"{place}: {shown(value)} does not fit into .{parameter.type}")
    return found.tobytes()
