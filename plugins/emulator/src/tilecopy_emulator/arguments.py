"""The conversion of a launch's arguments to the bytes of the kernel's parameters."""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from tilecopy import LaunchError

from tilecopy_core.errors import short_repr

from .alu.formats import BF16, F16, encode, quantize
from .argument_checks import items_of
from .memory.tensor_maps import MAP_ALIGN_BYTES, MAP_BYTES, TensorMap
from .program import REGISTER_BITS, Parameter, Program, Variable, shown_name
from .signatures import DTYPES, parameter_types, vector_type
from .threads.global_arrays import GlobalMemory

BASE_ALIGN_BYTES = 256
"""The alignment of arrays, which is that of the driver's allocations."""
_ADDRESS = struct.Struct("<Q")


@attrs.frozen(eq=False, init=False)
class Struct:
    """A kernel argument that is a C++ structure. The fields have the order and alignment of C++ structure members.

    A field is a number (an ``int`` has 4 bytes, a ``float`` is a float32, a ``bool`` has 1 byte; ``numpy.int64(3)`` has the size of its
    type), a :class:`Pointer`, ``None`` for a null pointer, an array or ``bytes`` inside the structure, or another Struct.

    Attributes:
        fields: the fields.
    """

    fields: tuple[Any, ...]

    def __init__(self, *fields: Any) -> None:
        self.__attrs_init__(fields)


@attrs.frozen(eq=False)
class Pointer:
    """A pointer that is a kernel argument or a field of a :class:`Struct`.

    Attributes:
        target: an array, which the kernel changes in place; or a :class:`Struct`, a :class:`TensorMap` or a list of Structs and Pointers,
            whose bytes are put into global memory; or ``None`` for a null pointer.
    """

    target: Any


@attrs.frozen(eq=False)
class _Array:
    """An array whose address a kernel gets, with the addresses of its first byte and of its end."""

    name: str
    array: Any
    first: int
    end: int


@attrs.define(eq=False)
class _Block:
    """Bytes that contain addresses, which are filled in after everything is mapped.

    Attributes:
        name: for messages.
        data: the bytes.
        align: alignment of the first byte.
        addresses: the offset of each address, its target, and the function from the address to its bytes.
    """

    name: str
    data: bytearray = attrs.Factory(bytearray)
    align: int = 1
    addresses: list[tuple[int, _Array | _Block, Callable[[int], bytes]]] = attrs.Factory(list)

    def append(self, field: _Block) -> None:
        """Add a field at the next offset that is a multiple of the field's alignment."""
        self.align = max(self.align, field.align)
        self.data.extend(bytes(-len(self.data) % field.align))
        self.addresses += [(len(self.data) + at, target, bytes_of) for at, target, bytes_of in field.addresses]
        self.data.extend(field.data)


def argument_bytes(
    program: Program, arguments: Sequence[Any], variables: Mapping[str, Any], memory: GlobalMemory
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the bytes of each kernel parameter and of each variable in ``variables``. Map arrays into ``memory``."""
    try:
        return _encode(program, arguments, variables, memory)
    except LaunchError as error:
        signature, first = _signature(program), next((instruction.place for instruction in program.instructions), None)
        declared = "" if signature in str(error) else f"\n  the kernel is {program.name}{signature}"
        first_lines = "".join(f"\n{line}" for line in first.lines(program.sources)) if first else ""
        raise LaunchError(f"{error}{declared}{first_lines}") from None


def _signature(program: Program) -> str:
    """Return the parameters as PTX declares them."""
    sizes = (f"[{p.bytes}]" if p.is_array else "" for p in program.parameters)
    parameters = (f".{p.type} {p.name}{size}" for p, size in zip(program.parameters, sizes, strict=True))
    return f"({', '.join(parameters) or 'none'})"


def _encode(
    program: Program, arguments: Sequence[Any], variables: Mapping[str, Any], memory: GlobalMemory
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    where = f"kernel {program.name}"
    items = items_of(arguments)
    if items is None:
        raise LaunchError(f"{where}: arguments must be a sequence, got {short_repr(arguments)}")
    if len(items) != len(program.parameters):
        raise LaunchError(
            f"{where}: the number of arguments must be {len(program.parameters)} {_signature(program)}, got {len(items)} ({', '.join(type(item).__name__ for item in items)})"
        )
    blocks, types = {}, parameter_types(program.name) or ()
    if len(types) != len(items):
        types = ("",) * len(items)
    for number, (parameter, argument) in enumerate(zip(program.parameters, items, strict=True)):
        place = f"{where}, argument {number} ({parameter.name})"
        blocks[parameter.name] = _argument(parameter, types[number], argument, place)
    values = {}
    for name, value in variables.items():
        variable = variable_named(program, name)
        values[variable.name] = _value(variable, value, name, f"{where}, variable {name}")
    _resolve([*blocks.values(), *values.values()], memory)
    parameters, values_bytes = ({name: bytes(block.data) for name, block in part.items()} for part in (blocks, values))
    return parameters, values_bytes


def variable_named(program: Program, name: str) -> Variable:
    """Return the module variable with a C++ or PTX name. Raise LaunchError unless exactly one variable matches."""
    names = {var.name: shown_name(var) for var in program.variables if var.space in ("global", "const")}
    fitting = [ptx_name for ptx_name in names if ptx_name == name] or [
        ptx_name for ptx_name, known in names.items() if known == name or known.endswith(f"::{name}")
    ]
    if len(fitting) != 1:
        raise LaunchError(
            f"kernel {program.name}: {'several variables are' if fitting else 'no variable is'} named {short_repr(name)}; "
            f"the module has {', '.join(names[ptx_name] for ptx_name in fitting or names) or 'none'}"
        )
    return next(var for var in program.variables if var.name == fitting[0])


def _value(variable: Variable, value: Any, name: str, place: str) -> _Block:
    """Return the block of a variable's value."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and variable.bytes == max(1, REGISTER_BITS[variable.type] // 8):
        parameter = Parameter(name, variable.type, variable.bytes, variable.align, 0)
        return _Block(name, bytearray(_number(parameter, value, place)))
    block = _block_of(value, name, place)
    if len(block.data) != variable.bytes:
        raise LaunchError(
            f"{place}: the value must have {variable.bytes} bytes, got {len(block.data)} bytes: {short_repr(value)}"
        )
    return block


def _argument(parameter: Parameter, type: str, argument: Any, place: str) -> _Block:
    """Return the block of one argument; ``type`` is the parameter's type in C++, or "" if it is not known."""
    name = parameter.name
    if parameter.is_array:
        if parameter.bytes == 2 and isinstance(argument, (int, float)) and not isinstance(argument, bool):
            return _Block(name, bytearray(_half(parameter, type, argument, place)))
        vector = vector_type(type) if isinstance(argument, Struct) else None
        if vector and all(_is_plain(field) for field in argument.fields):
            return _vector(parameter, type, vector, argument, place)
        if isinstance(argument, (Struct, TensorMap)):
            block = _block_of(argument, name, place)
            if len(block.data) != parameter.bytes:
                raise LaunchError(
                    f"{place}: the structure must have {parameter.bytes} bytes, got {len(block.data)}: write a field "
                    "of 8 bytes as numpy.int64(3) or numpy.float64(0.5), and a pointer as Pointer(array)"
                )
            return block
        return _Block(name, bytearray(_structure(parameter, argument, place)))
    array = None
    if argument is not None and not isinstance(argument, (Pointer, TensorMap, list, tuple)):
        array = _as_array(argument, place)
        if isinstance(argument, Struct):
            rule = f"the argument for .{parameter.type} must be a number, got a Struct: pass Pointer(Struct(...))"
            raise LaunchError(f"{place}: {rule}")
        if array is None:
            number = _number(parameter, argument, place)
            if type.endswith("*") and any(number):
                raise LaunchError(
                    f"{place}: the argument for {type} must be an array, or None for a null pointer, got the number {short_repr(argument)}"
                )
            return _Block(name, bytearray(number))
    if parameter.bytes != 8 or (array is not None and type in DTYPES):
        rule = f"the argument for {type or '.' + parameter.type} must be a number, got {short_repr(argument)}"
        raise LaunchError(f"{place}: {rule}")
    if array is not None:
        _check_dtype(array.dtype, type, place)
    return _block_of(
        argument if isinstance(argument, Pointer) else Pointer(argument if array is None else array), name, place
    )


def _is_plain(value: Any) -> bool:
    """Return True for a number without a NumPy type."""
    return isinstance(value, (int, float)) and not isinstance(value, (bool, np.generic))


def _vector(parameter: Parameter, type: str, vector: tuple[str, int], argument: Struct, place: str) -> _Block:
    """Return the block of a vector such as ``float3``. Integers are converted to the type of its components, as in C++."""
    component_type, count = vector
    if len(argument.fields) != count:
        raise LaunchError(f"{place}: the argument for {type} must have {count} numbers, got {len(argument.fields)}")
    nbytes = parameter.bytes // count
    component = Parameter(parameter.name, component_type, nbytes, nbytes, 0)
    return _Block(parameter.name, bytearray(b"".join(_number(component, x, place) for x in argument.fields)))


def _check_dtype(dtype: Any, type: str, place: str) -> None:
    """Raise an error for an array whose numbers have another size than the kernel's, or are integers for floats of 4 or 8 bytes."""
    wanted = np.dtype(DTYPES[type[:-1]]) if type[:-1] in DTYPES else None
    if wanted is None or dtype.type is np.void or dtype.itemsize == 1 or dtype.kind == "c":
        return
    if dtype.itemsize != wanted.itemsize or (wanted.itemsize > 2 and (dtype.kind == "f") != (wanted.kind == "f")):
        how = f"pass array.astype(numpy.{wanted}) to convert the array, or array.view(numpy.uint8) to pass the bytes unchanged"
        raise LaunchError(f"{place}: the array's dtype must match the parameter {type}, got {dtype}: {how}")


def _block_of(value: Any, name: str, place: str) -> _Block:
    """Return the bytes of a field, and the addresses in them."""
    if value is None:
        return _Block(name, bytearray(8), 8)
    if isinstance(value, Struct) and not value.fields:
        return _Block(name, bytearray(1))  # C++ has no type of 0 bytes
    if isinstance(value, Pointer):
        target = None if value.target is None else _target(value.target, name, place)
        return _Block(name, bytearray(8), 8, [(0, target, _ADDRESS.pack)] if target is not None else [])
    if isinstance(value, (Struct, list, tuple)):
        return _block_of_fields(value, name, place)
    if isinstance(value, TensorMap):
        array = _as_array(value.address, place)
        if array is None:
            return _Block(name, bytearray(value.encode()), MAP_ALIGN_BYTES)
        target = _Array(name, array, *_span(array, place))
        return _Block(name, bytearray(MAP_BYTES), MAP_ALIGN_BYTES, [(0, target, value.encode)])
    if isinstance(value, (bytes, bytearray)):
        return _Block(name, bytearray(value))
    if isinstance(value, bool):
        return _Block(name, bytearray([value]))
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):  # numpy.float64 is a subclass of float
        parameter = Parameter(name, "f32" if isinstance(value, float) else "b32", 4, 4, 0)
        return _Block(name, bytearray(_number(parameter, value, f"{place}, {name}")), 4)
    plain = value if isinstance(value, np.generic) else _as_array(value, place)
    if plain is None or plain.dtype.hasobject:
        rule = f"{name} must be a number, a Pointer, a Struct, an array or bytes, got {type(value).__name__} {short_repr(value)}"
        raise LaunchError(f"{place}: {rule}")
    return _Block(name, bytearray(plain.tobytes()), plain.dtype.alignment)


def _block_of_fields(value: Struct | list[Any] | tuple[Any, ...], name: str, place: str) -> _Block:
    block = _Block(name)
    fields, form = (value.fields, "{}.{}") if isinstance(value, Struct) else (value, "{}[{}]")
    for number, field in enumerate(fields):
        inner = form.format(name, number)
        if isinstance(value, (list, tuple)) and not isinstance(field, (Struct, Pointer)):
            raise LaunchError(
                f"{place}: {inner} must be a Struct or a Pointer, got {type(field).__name__} {short_repr(field)}; pass numbers as a NumPy array"
            )
        block.append(_block_of(field, inner, place))
    block.data.extend(bytes(-len(block.data) % block.align))
    return block


def _target(target: Any, name: str, place: str) -> _Array | _Block:
    """Return the target of a pointer, as an array or a block."""
    if isinstance(target, (Struct, Pointer, TensorMap, list, tuple)):
        return _block_of(target, name, place)
    array = _as_array(target, place)
    if array is None:
        rule = f"{name}: the target of a pointer must be an array, a Struct, a TensorMap or a list, got {type(target).__name__} {short_repr(target)}"
        raise LaunchError(f"{place}: {rule}")
    return _Array(name, array, *_span(array, place))


def _resolve(blocks: Iterable[_Block], memory: GlobalMemory) -> None:
    """Map the targets of the blocks into the memory, and write their addresses into the blocks."""
    whole, arrays = list(blocks), list[_Array]()
    for block in whole:  # the loop appends to it
        for _, target, _ in block.addresses:
            if isinstance(target, _Array):
                arrays.append(target)
            else:
                whole.append(target)
    addresses = _map_arrays(arrays, memory)
    targets = {id(target): target for block in whole for _, target, _ in block.addresses if isinstance(target, _Block)}
    for target in targets.values():
        data = np.frombuffer(target.data, np.uint8)
        addresses[id(target)] = memory.add(target.name, data, BASE_ALIGN_BYTES, writable=True)
    for block in whole:
        raw = np.frombuffer(block.data, np.uint8)
        for at, target, bytes_of in block.addresses:
            address = bytes_of(addresses[id(target)])
            raw[at : at + len(address)] = np.frombuffer(address, np.uint8)


def _as_array(argument: Any, place: str) -> Any:
    """Return an argument as a NumPy array over the same memory, or None if it is not an array."""
    if isinstance(argument, np.ndarray):
        return argument
    try:
        exchanged = not isinstance(argument, np.generic) and bool(argument.__dlpack_device__)
    except Exception:  # raised by a method of the object
        exchanged = False
    if not exchanged:
        return None
    try:
        device, _ = argument.__dlpack_device__()
    except Exception as error:  # an exception class of the framework
        raise LaunchError(
            f"{place}: {short_repr(argument)} cannot be viewed as a NumPy array: {short_repr(error)}"
        ) from error
    if int(device) != 1:
        raise LaunchError(f"{place}: the array must be in host memory, got DLPack device type {int(device)}")
    try:
        return np.from_dlpack(argument)
    except Exception as error:  # also of the framework
        raise LaunchError(f"{place}: {type(argument).__name__} cannot be viewed as a NumPy array: {error}") from error


def _span(array: Any, place: str) -> tuple[int, int]:
    """Return the addresses of an array's first byte and of the byte after its last."""
    if array.dtype.hasobject:
        raise LaunchError(f"{place}: the array must hold numbers, got Python objects: {short_repr(array)}")
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise LaunchError(f"{place}: the array must not be masked, got {short_repr(array)}: pass array.filled(value)")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise LaunchError(f"{place}: the array must be contiguous, got strides {array.strides}: pass array.copy()")
    first = int(array.ctypes.data)
    return first, first + array.nbytes


def _map_arrays(arrays: list[_Array], memory: GlobalMemory) -> dict[int, int]:
    """Map arrays into the memory, those that share bytes as one; return their addresses by identity."""
    addresses: dict[int, int] = {}
    group: list[_Array] = []
    end = 0
    for array in [*sorted(arrays, key=lambda a: (a.first, a.end)), None]:
        if group and (array is None or array.first >= end):
            start = group[0].first
            writable = any(other.array.flags.writeable for other in group)
            data = np.zeros(0, np.uint8)
            if end > start:
                data = np.frombuffer(memoryview((ctypes.c_uint8 * (end - start)).from_address(start)), np.uint8)
            name = " or ".join(dict.fromkeys(other.name for other in group))
            base = memory.add(name, data, BASE_ALIGN_BYTES, writable=writable)
            for other in group:
                addresses[id(other)] = base + other.first - start
            group, end = [], 0
        if array is not None:
            group.append(array)
            end = max(end, array.end)
    return addresses


def _structure(parameter: Parameter, argument: Any, place: str) -> bytes:
    """Return the bytes of a structure that is passed by value."""
    how = f"pass a Struct, bytes, a NumPy scalar or a structured array of {parameter.bytes} bytes"
    try:
        known = isinstance(argument, (np.ndarray, np.generic)) and not argument.dtype.hasobject
        raw = argument.tobytes() if known else bytes(memoryview(argument).cast("B"))
    except (TypeError, ValueError):
        raise LaunchError(
            f"{place}: the argument must be a structure of {parameter.bytes} bytes, got {type(argument).__name__} {short_repr(argument)}: {how}"
        ) from None
    if (
        isinstance(argument, np.ndarray)
        and argument.ndim
        and argument.dtype.type is not np.void
        and argument.dtype != np.uint8
    ):
        raise LaunchError(
            f"{place}: the argument must be a structure of {parameter.bytes} bytes, got an array of {argument.dtype}: {how}; "
            f"if the array is a field of a structure, pass Struct(array)"
        )
    if len(raw) != parameter.bytes:
        raise LaunchError(f"{place}: the size must be {parameter.bytes} bytes, got {len(raw)}: {short_repr(argument)}")
    return raw


def _half(parameter: Parameter, type: str, value: float, place: str) -> bytes:
    """Return the bytes of a number for a parameter of type half or bfloat16."""
    if type not in ("__half", "__nv_bfloat16"):
        raise LaunchError(
            f"{place}: the number must be a float16 or a bfloat16, got {value!r}: pass numpy.float16({value!r}) or "
            f"ml_dtypes.bfloat16({value!r}); on the command line, write float16:{value!r} or bfloat16:{value!r}"
        )
    form = F16 if type == "__half" else BF16
    rounded = quantize(np.array([value], np.float64), form, "rn")
    if math.isfinite(value) and not np.isfinite(rounded).all():
        raise LaunchError(f"{place}: {value!r} is out of the range of .{form.name}")
    return np.asarray(encode(rounded, form)).astype("<u2").tobytes()


def _number(parameter: Parameter, argument: Any, place: str) -> bytes:
    """Return the bytes of a number."""
    size, kind = parameter.bytes, parameter.type[0]
    raw = isinstance(argument, np.generic) and argument.dtype.itemsize == size
    if raw and (argument.dtype.kind == "V" or (argument.dtype.kind == "f" and kind in "fb")):  # V: a type of ml_dtypes
        return bytes(argument.tobytes())
    if isinstance(argument, (float, np.floating)) and kind in "fb" and size in (2, 4, 8):
        return _float(argument, parameter, place)
    if isinstance(argument, (float, np.floating)):
        raise LaunchError(f"{place}: the argument for .{parameter.type} must be an integer, got the float {argument!r}")
    try:
        value = operator.index(argument)
    except Exception:  # raised by a method of the object
        raise LaunchError(
            f"{place}: the argument for .{parameter.type} must be an array, an integer or a float, got {type(argument).__name__} "
            f"{short_repr(argument)}"
        ) from None
    if kind == "f":
        return _float(value, parameter, place)
    low = 0 if kind == "u" else -(1 << (8 * size - 1))
    high = (1 << (8 * size - 1)) - 1 if kind == "s" else (1 << 8 * size) - 1
    if kind == "u" and -(1 << (8 * size - 1)) <= value < 0:
        low = value  # compilers declare signed parameters as .u32 too
    if not low <= value <= high:
        raise LaunchError(f"{place}: {short_repr(value)} is out of the range of .{parameter.type}")
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _float(value: Any, parameter: Parameter, place: str) -> bytes:
    """Return the bytes of a number as a float; a finite number must stay finite."""
    try:
        with np.errstate(over="ignore"):
            number = np.array(float(value), f"f{parameter.bytes}")
        fits = bool(np.isfinite(number)) or not math.isfinite(value)
    except OverflowError:
        fits = False
    if not fits:
        raise LaunchError(f"{place}: {short_repr(value)} is out of the range of .{parameter.type}")
    return number.tobytes()
