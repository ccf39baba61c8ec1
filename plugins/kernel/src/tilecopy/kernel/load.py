"""Functions that load kernels from folders that :mod:`.save` wrote."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import convert

from tilecopy_core.description import target_of
from tilecopy_core.errors import checked, short_repr
from tilecopy_core.integers import Int, Symbol, key_of, of_atom, symbols_of
from tilecopy_core.layout import dtype_of
from tilecopy_core.memory import Buffer
from tilecopy_core.ptx import Recipe, instructions_in
from tilecopy_partitions import HostBytes, TensorMap

from ..errors import LaunchError
from ..expression_text import read
from ..validators import PATH
from . import launch_record as schema
from .bounds import Bound
from .built import BuiltKernel, IndexAssertion, SharedAllocation
from .computed_parameters import computed_parameter
from .number_parameters import ScalarParameter, SizeParameter
from .parameters import ArrayParameter, Parameter
from .save import function_named


@checked(LaunchError, folder=PATH)
def load_kernel(folder: str | Path) -> BuiltKernel:
    """Load a kernel that :meth:`BuiltKernel.save` wrote. Each launch makes the same checks as a launch of the saved kernel.

    Nothing is lowered again, and no variant must be installed. ``plans`` has the texts of the saved plans (:class:`SavedPlan`).
    If a function computes a parameter (``HostBytes``), its module is imported.

    Args:
        folder: the folder that :meth:`BuiltKernel.save` wrote.

    Raises:
        LaunchError: the folder has no kernel, or a kernel of another format or one that was modified after it was saved, or a
            function that computes a parameter cannot be imported.
    """
    where = Path(folder)
    try:
        record = json.loads(_text_of(where / schema.RECORD_FILE))
        text = _text_of(where / schema.PTX_FILE)
    except (OSError, ValueError, RecursionError) as error:
        why = f"{short_repr(error.filename)}: {error.strerror}" if isinstance(error, OSError) else error
        raise LaunchError(
            f"folder {short_repr(str(where))} does not contain a kernel that kernel.save wrote: {why}"
        ) from error
    return kernel_of(record, text, short_repr(str(where / schema.RECORD_FILE)))


def _text_of(path: Path) -> str:
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), encoding="utf-8") as file:  # noqa: PTH123 - a FIFO would block
        if not stat.S_ISREG(mode := os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path.name} must be a regular file, got mode {stat.filemode(mode)}")
        return file.read()


def kernel_of(record: Any, text: str, where: str) -> BuiltKernel:
    """Return the kernel of a launch record. Raise LaunchError if the record is invalid or does not match the PTX."""
    form = record.get("format") if isinstance(record, dict) else record
    if form != schema.FORMAT:
        raise LaunchError(
            f"{where}: format must be {schema.FORMAT!r}, got {short_repr(form)}: load a folder that kernel.save wrote"
        )
    if record.get("format_version") != schema.FORMAT_VERSION:
        raise LaunchError(
            f"{where}: format version must be {schema.FORMAT_VERSION}, got {short_repr(record.get('format_version'))}: "
            "build the kernel and save it again"
        )
    try:
        if record.get("sha256") != schema.digest(record, text):
            raise LaunchError(
                f"{where} or {schema.PTX_FILE} was modified after kernel.save wrote them (checksum mismatch); "
                "build the kernel and save it again"
            )
        return _kernel(convert(record, schema.LaunchRecord), text)
    except LaunchError:
        raise
    except Exception as error:  # a file with a valid digest may have any content
        raise LaunchError(
            f"{where} must be a launch record that kernel.save wrote: {type(error).__name__}: {error}"
        ) from error


def _kernel(record: schema.LaunchRecord, text: str) -> BuiltKernel:
    symbols = {
        s.name: Symbol(s.called, s.lower, s.upper, s.multiple_of, s.varies, (), s.register) for s in record.symbols
    }
    names: dict[str, Int] = {name: of_atom(symbol) for name, symbol in symbols.items()}
    scalars = {symbols[symbol.name]: symbol.name for symbol in record.symbols if symbol.parameter}
    arrays = {parameter.name for parameter in record.parameters if isinstance(parameter, schema.ArrayRecord)}
    parameters = tuple(
        computed_parameter(_read_recipe(parameter, record, names), parameter.name, arrays, scalars)
        if isinstance(parameter, (schema.TensorMapRecord, schema.HostBytesRecord))
        else _read_parameter(parameter, names)
        for parameter in record.parameters
    )
    _check_fit(record, parameters)
    kernel = BuiltKernel(
        name=record.name,
        ptx=text,
        plans=record.plans,  # type: ignore[arg-type]  # they have the same attributes
        target=target_of(record.target),
        threads=record.block[0],
        parameters=parameters,
        mutated_args=frozenset(p.name for p in parameters if isinstance(p, ArrayParameter) and p.written),
        grid=_read(record.grid, names),
        cluster=record.cluster,
        shared_bytes=record.shared_bytes,
        dynamic_shared=bool(record.dynamic_shared_bytes),
        allocations=tuple(SharedAllocation(s.name, s.offset_bytes, s.size_bytes) for s in record.shared),
        bounds=tuple(_read_bound(bound, names) for bound in record.checks.bounds),
        scalars=scalars,
        index_assertions=tuple(
            IndexAssertion(v.line, v.register, read(v.lower, names), read(v.upper, names), v.clamped)
            for v in record.checks.index_assertions
        ),
        locations=record.locations,
        statements=record.statements,
    )
    _check_known(kernel)
    return kernel


def _check_known(kernel: BuiltKernel) -> None:
    """Raise ValueError if an integer is not computed from parameters, or a register is not in the PTX."""
    integers: list[Any] = [*(kernel.grid or ())]
    for parameter in kernel.parameters:
        if isinstance(parameter, ArrayParameter):
            integers += [*parameter.shape, *parameter.strides]
        elif isinstance(parameter, ScalarParameter):
            integers += parameter.within or ()
    for check in kernel.index_assertions:
        integers += [check.lower, check.upper]
    for symbol in {symbol for integer in integers for symbol in symbols_of(integer)}:
        if kernel.scalars.get(symbol) != symbol.name:
            raise ValueError(f"{symbol} must be a parameter, because each launch needs its value")
    lines = kernel.ptx.splitlines()
    for check in kernel.index_assertions:
        line = lines[check.line - 1] if check.line <= len(lines) else ""
        results = [operand for _, instruction in instructions_in(line) for operand in instruction.results]
        if check.register not in map(str, results):
            raise ValueError(f"line {check.line} of the PTX must write the register {check.register!r}")


def _check_fit(record: schema.LaunchRecord, parameters: Sequence[Parameter]) -> None:
    """Raise ValueError if valid parts of a record contradict each other."""
    ranks = {parameter.name: len(parameter.shape) for parameter in parameters if isinstance(parameter, ArrayParameter)}
    names = [parameter.name for parameter in parameters]
    if len({*names}) != len(names):
        raise ValueError(f"parameter names must be different, got {', '.join(names)}")
    for parameter in parameters:
        if isinstance(parameter, ArrayParameter):
            where, shape, strides, align = parameter.name, parameter.shape, parameter.strides, parameter.align_bytes
            if len(strides) != len(shape):
                raise ValueError(f"array {where}: shape and strides must have equal length, got {shape} and {strides}")
            if align.bit_count() != 1 or align >= 1 << 32:
                raise ValueError(f"array {where}: alignment must be a power of 2 below 2**32 bytes, got {align} bytes")
        elif isinstance(parameter, SizeParameter):
            known = all(0 <= source.dim < ranks.get(source.array, 0) and source.factor for source in parameter.sources)
            if not known or not parameter.sources:
                raise ValueError(
                    f"size {parameter.name} must be read from a dimension of an array, got {parameter.sources}"
                )
    for symbol in record.symbols:
        if symbol.parameter and symbol.name not in names:
            raise ValueError(f"the symbol {symbol.name} must be one of the parameters {', '.join(names)}")
    if any(number >= len(record.locations) for number in record.statements):
        raise ValueError(f"statement numbers must be below {len(record.locations)}, got {max(record.statements)}")


def _read(value: Any, names: Mapping[str, Int]) -> Any:
    """Return the integer of an expression, or the integers of a tuple of expressions. None stays None."""
    if isinstance(value, tuple):
        return tuple(_read(element, names) for element in value)
    return None if value is None else read(value, names)


def _read_parameter(record: schema.ArrayRecord | schema.ScalarRecord, names: Mapping[str, Int]) -> Parameter:
    if isinstance(record, schema.ArrayRecord):
        shape, strides = _read((record.shape, record.strides_elems), names)
        return ArrayParameter(record.name, shape, strides, dtype_of(record.dtype), record.align_bytes, record.written)
    number = record.multiple_of, record.lower, record.upper
    type = {"int32": "b32", "int64": "b64"}[record.type]
    if isinstance(record, schema.SizeRecord):
        return SizeParameter(record.name, type, record.read_from, *number)
    return ScalarParameter(record.name, type, *number, _read(record.within, names))


def _read_recipe(
    recipe: schema.TensorMapRecord | schema.HostBytesRecord, record: schema.LaunchRecord, names: Mapping[str, Int]
) -> Recipe:
    """Return a recipe whose arrays have only a name and a start."""
    if isinstance(recipe, schema.TensorMapRecord):
        size, start = dtype_of(recipe.dtype).bytes, read(recipe.start_bytes, names)
        if key_of(start % size) != 0 or (isinstance(start, int) and start < 0):
            raise ValueError(
                f"{recipe.name} must begin at an element of {recipe.array}, got an offset of {start} bytes"
            )
        array = Buffer((1,), recipe.dtype, space="global", name=recipe.array, storage_offset=start // size)
        sizes, strides = _read((recipe.sizes, recipe.strides_bytes), names)
        return TensorMap(array, sizes, strides, recipe.box, recipe.swizzle, recipe.fill, recipe.element_strides)
    try:
        make = function_named(recipe.function)
    except Exception as error:  # whatever an import raises
        packages = ", ".join(sorted({plan.package for plan in record.plans}))
        raise LaunchError(
            f"kernel {record.name}: the function {short_repr(recipe.function)} for parameter {recipe.name} cannot be imported "
            f"({type(error).__name__}: {error}); install the function's package (the kernel's variants come from {packages})"
        ) from error
    buffers = tuple(Buffer((1,), "uint8", space="global", name=name) for name in recipe.arrays)
    return HostBytes(make, buffers, _read(recipe.numbers, names), recipe.size_bytes, recipe.align_bytes)


def _read_bound(record: schema.BoundRecord, names: Mapping[str, Int]) -> Bound:
    value, most, known, extent = _read((record.value, record.most, record.known, record.extent), names)
    return Bound(value, record.least, most, known, record.what, record.where, extent)
