"""The arguments of a launch as bytes of the kernel's parameters; arrays are mapped into the memory."""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from tilecopy import LaunchError

from .demands import items_of, shown
from .memory.tensor_maps import MAP_BYTES, TensorMap
from .program import Parameter, Program
from .threads.arrays import GlobalMemory

BASE_ALIGN_BYTES = 256
"""Alignment of the arrays, as of allocations of the driver."""


@attrs.frozen(eq=False)
class _Array:
    """An array argument: the memory from its first byte to its last."""

    parameter: Parameter
    array: Any
    first: int
    end: int


def parameter_bytes(program: Program, arguments: Sequence[Any], memory: GlobalMemory) -> dict[str, bytes]:
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
