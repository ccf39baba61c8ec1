"""Functions that save kernels to folders, as PTX and a launch record (JSON), for :func:`~tilecopy.load_kernel` and other launchers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
from msgspec import to_builtins

from tilecopy_core.errors import RequestError, short_repr
from tilecopy_core.integers import Expr, Symbol
from tilecopy_core.registry import LOCK, __version__

from ..atomic_files import write_files
from ..errors import LaunchError
from ..expression_text import as_python, unique_name
from ..module_text import directive_of
from . import computed_parameters, number_parameters, parameters
from . import launch_record as schema


def save_kernel(kernel: Any, folder: str | Path) -> Path:
    """Write a kernel into a folder. The folder is created if needed. See :meth:`BuiltKernel.save`."""
    where = Path(folder)
    record = record_of(kernel)
    try:
        where.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=1) + "\n"
        write_files({where / schema.PTX_FILE: [kernel.ptx.encode()], where / schema.RECORD_FILE: [text.encode()]})
    except OSError as error:
        raise LaunchError(
            f"kernel {kernel.name} cannot be saved in {short_repr(str(where))}: {error.strerror or error}"
        ) from error
    return where


def record_of(kernel: Any) -> dict[str, Any]:
    """Return a kernel's launch record as JSON values. Raise RequestError if a function cannot be imported by name."""
    names = _SymbolNames(kernel.scalars)
    records, offset = list[Any](), 0
    for parameter in kernel.parameters:
        size = align = 4 if parameter.type == "b32" else 8
        if isinstance(parameter, computed_parameters.ComputedParameter):
            size, align = parameter.recipe.size_bytes, parameter.recipe.align_bytes
        offset = -(-offset // align) * align
        records.append(_parameter(kernel, parameter, offset, names))
        offset += size
    launch = schema.LaunchRecord(
        format=schema.FORMAT,
        format_version=schema.FORMAT_VERSION,
        made_by=f"tilecopy-core {__version__}",
        name=kernel.name,
        ptx=schema.PTX_FILE,
        ptx_version=directive_of(kernel.ptx, ".version"),
        ptx_target=directive_of(kernel.ptx, ".target"),
        target=str(kernel.target),
        parameters=tuple(records),
        parameters_bytes=offset,
        block=(kernel.threads, 1, 1),
        grid=names.texts(kernel.grid),
        cluster=kernel.cluster,
        dynamic_shared_bytes=kernel.shared_bytes if kernel.dynamic_shared else 0,
        shared_bytes=kernel.shared_bytes,
        shared=kernel.allocations,
        checks=schema.ChecksRecord(
            tuple(schema.BoundRecord(*names.texts(attrs.astuple(bound, recurse=False))) for bound in kernel.bounds),
            tuple(
                schema.IndexAssertionRecord(v.line, v.register, v.clamped, *names.texts((v.lower, v.upper)))
                for v in kernel.index_assertions
            ),
        ),
        symbols=names.table(),  # last, because the fields above add names
        plans=tuple(schema.SavedPlan(p.variant, p.package, p.summary, p.completion, p.explain()) for p in kernel.plans),
        locations=kernel.locations,
        statements=kernel.statements,
    )
    record: dict[str, Any] = to_builtins(launch)
    return record | {"sha256": schema.digest(record, kernel.ptx)}


class _SymbolNames:
    """The names of symbols, those of parameters first, and a table of them."""

    def __init__(self, parameters: Mapping[Symbol, str]) -> None:
        self._names: dict[Symbol, str] = dict(parameters)
        self._parameters = dict(parameters)

    def of(self, symbol: Symbol) -> str:
        """Return the unique name of a symbol in the launch record."""
        if symbol not in self._names:
            self._names[symbol] = unique_name(re.sub(r"\W", "_", symbol.name), self._names.values())
        return self._names[symbol]

    def texts(self, value: Any) -> Any:
        """Return a value or a tuple of values, with Python expressions in place of symbolic integers."""
        if isinstance(value, tuple):
            return tuple(map(self.texts, value))
        return as_python(value, self.of) if isinstance(value, Expr) else value

    def table(self) -> tuple[schema.SymbolRecord, ...]:
        """Return a record for each of the parameters' symbols, and for each symbol that was passed to :meth:`of`."""
        return tuple(
            schema.SymbolRecord(
                name, s.name, s in self._parameters, s.lower, s.upper, s.multiple_of, s.varies, s.register
            )
            for s, name in dict[Any, str](self._names).items()
        )


def _parameter(kernel: Any, parameter: parameters.Parameter, offset: int, names: _SymbolNames) -> Any:
    texts, name = names.texts, parameter.name
    match parameter:
        case parameters.ArrayParameter(_, shape, strides, dtype, align_bytes, written):
            return schema.ArrayRecord(name, offset, str(dtype), texts(shape), texts(strides), align_bytes, written)
        case computed_parameters.TensorMapParameter(_, recipe):
            values = texts((parameter.start_bytes, str(recipe.array.dtype), recipe.sizes, recipe.strides_bytes))
            more: Any = recipe.box, recipe.element_strides, recipe.swizzle, recipe.fill
            return schema.TensorMapRecord(name, offset, recipe.array.name, *values, *more)
        case computed_parameters.BytesParameter(_, recipe):
            function, arrays = _name_of_function(kernel, parameter), tuple(array.name for array in recipe.arrays)
            more = recipe.size_bytes, recipe.align_bytes
            return schema.HostBytesRecord(name, offset, function, arrays, texts(recipe.numbers), *more)
    assert isinstance(parameter, number_parameters.NumberParameter)
    type, size = ("int64", 8) if parameter.type == "b64" else ("int32", 4)
    number = name, offset, type, size, parameter.multiple_of, parameter.lower, parameter.upper
    if isinstance(parameter, number_parameters.SizeParameter):
        return schema.SizeRecord(*number, read_from=parameter.sources)  # type: ignore[arg-type]
    assert isinstance(parameter, number_parameters.ScalarParameter)
    return schema.ScalarRecord(*number, within=texts(parameter.within))  # type: ignore[arg-type]


def _name_of_function(kernel: Any, parameter: computed_parameters.BytesParameter) -> str:
    make = parameter.recipe.make
    name = f"{make.__module__}:{make.__qualname__}"
    try:
        same = make.__module__ != "__main__" and function_named(name) is make
    except Exception:  # whatever an import raises
        same = False
    if not same:
        raise RequestError(
            f"kernel {kernel.name} cannot be saved: the function {name} for parameter {parameter.name} must be importable by "
            "name; define it at the top level of a module in a package"
        )
    return name


def function_named(name: str) -> Any:
    """Import and return the function that ``module:name`` names. Import errors reach the caller."""
    module, _, function = name.partition(":")
    with LOCK:
        return getattr(import_module(module), function)
