"""Kernels in folders: PTX text and a launch record (JSON), for :func:`~tilecopy.load_kernel` and for anyone with the driver API.

A folder holds ``kernel.ptx`` and ``launch.json``. The record has all that a launch needs: the parameters in order, block,
grid, cluster, dynamic shared memory, target, and what this package checks before a launch. Integers known only at launch
are expressions of the parameters' names, in which ``//`` rounds down. A digest covers the text and the whole record. The
classes below are the types of the record; msgspec checks what is read against them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, to_builtins

from tilecopy_core.errors import RequestError, frozen, shown
from tilecopy_core.integers import Expr, Int, Symbol
from tilecopy_core.registry import LOCK, __version__

from ..errors import LaunchError
from ..files import write_files
from ..integer_text import as_python, unique_name
from ..module_text import directive_of
from .bounds import Bound
from .parameters import (
    ArrayParameter,
    BytesParameter,
    ComputedParameter,
    Extent,
    Parameter,
    ScalarParameter,
    SizeParameter,
    TensorMapParameter,
)

FORMAT, FORMAT_VERSION = "tilecopy kernel", 3
PTX_FILE, RECORD_FILE = "kernel.ptx", "launch.json"

Number = int | str
"""A plain integer, or the text of one that is known at launch."""
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]


@frozen
class SavedPlan:
    """The plan of one copy of a saved kernel; ``text`` is what its ``explain()`` returned."""

    variant: str
    package: str
    summary: str
    completion: str
    text: str

    def explain(self) -> str:
        """The table of the plan, as it was when the kernel was built."""
        return self.text


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """A record with exactly its fields, each of its type."""


class _Array(Record, frozen=True, tag_field="kind", tag="array"):
    name: str
    offset_bytes: Count
    dtype: str
    shape: tuple[Number, ...]
    strides_elems: tuple[Number, ...]
    align_bytes: Positive
    written: bool
    type: Literal["pointer"] = "pointer"
    size_bytes: Literal[8] = 8


class _Scalar(Record, frozen=True, tag_field="kind", tag="scalar"):
    name: str
    offset_bytes: Count
    type: str
    size_bytes: Count
    multiple_of: Positive
    lower: int
    upper: int
    within: tuple[Number, Number] | None = None


class _Size(_Scalar, frozen=True, tag="size"):
    read_from: tuple[Extent, ...] = ()


class _TensorMap(Record, frozen=True, tag_field="kind", tag="tensor_map"):
    name: str
    offset_bytes: Count
    array: str
    start_bytes: Number
    dtype: str
    sizes: tuple[Number, ...]
    strides_bytes: tuple[Number, ...]
    box: tuple[Positive, ...]
    element_strides: tuple[Positive, ...]
    swizzle: str
    fill: str
    type: Literal["bytes"] = "bytes"
    size_bytes: Literal[128] = 128
    align_bytes: Literal[64] = 64


class _HostBytes(Record, frozen=True, tag_field="kind", tag="host_bytes"):
    name: str
    offset_bytes: Count
    function: str
    arrays: tuple[str, ...]
    numbers: tuple[Number, ...]
    size_bytes: Positive
    align_bytes: Positive
    type: Literal["bytes"] = "bytes"


class _Symbol(Record, frozen=True):
    name: str
    called: str
    parameter: bool
    lower: int | None
    upper: int | None
    multiple_of: Positive
    varies: Literal["thread", "cta", "grid"]
    register: str


class _Bound(Record, frozen=True):
    value: Number
    least: int
    most: Number
    known: tuple[tuple[Number, ...], ...]
    what: str
    where: str
    extent: Number | None


class _Value(Record, frozen=True):
    line: Positive
    register: str
    clamped: bool
    lower: Number
    upper: Number


class _Checks(Record, frozen=True):
    bounds: tuple[_Bound, ...]
    values: tuple[_Value, ...]


class _Shared(Record, frozen=True):
    name: str
    offset_bytes: Count
    size_bytes: Count


class Launch(Record, frozen=True):
    """All of a record."""

    format: str
    format_version: int
    made_by: str
    name: str
    ptx: str
    ptx_version: str
    ptx_target: str
    target: str
    parameters: tuple[_Array | _Scalar | _Size | _TensorMap | _HostBytes, ...]
    parameters_bytes: Count
    block: tuple[Positive, Literal[1], Literal[1]]
    grid: tuple[Number, Number, Number] | None
    cluster: tuple[Positive, Positive, Positive] | None
    dynamic_shared_bytes: Count
    shared_bytes: Count
    shared: tuple[_Shared, ...]
    checks: _Checks
    symbols: tuple[_Symbol, ...]
    plans: tuple[SavedPlan, ...]
    origins: tuple[str, ...]
    statements: tuple[Count, ...]
    sha256: str = ""


def save_kernel(kernel: Any, folder: str | Path) -> Path:
    """Write a kernel into a folder, and make the folder if there is none; see :meth:`BuiltKernel.save`."""
    where = Path(folder)
    record = record_of(kernel)
    try:
        where.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=1) + "\n"
        write_files({where / PTX_FILE: [kernel.ptx.encode()], where / RECORD_FILE: [text.encode()]})
    except OSError as error:
        raise LaunchError(
            f"kernel {kernel.name} cannot be saved in {shown(str(where))}: {error.strerror or error}"
        ) from error
    return where


def record_of(kernel: Any) -> dict[str, Any]:
    """The launch record of a kernel, as JSON has it.

    Raises:
        RequestError: a function that makes a parameter cannot be imported by its name.
    """
    names = _SymbolNames(kernel.scalars)
    parameters, offset = list[Any](), 0
    for parameter in kernel.parameters:
        size = align = 4 if parameter.type == "b32" else 8
        if isinstance(parameter, ComputedParameter):
            size, align = parameter.size_bytes, parameter.align_bytes
        offset = -(-offset // align) * align
        parameters.append(_parameter(kernel, parameter, offset, names))
        offset += size
    launch = Launch(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        made_by=f"tilecopy-core {__version__}",
        name=kernel.name,
        ptx=PTX_FILE,
        ptx_version=directive_of(kernel.ptx, ".version"),
        ptx_target=directive_of(kernel.ptx, ".target"),
        target=str(kernel.target),
        parameters=tuple(parameters),
        parameters_bytes=offset,
        block=(kernel.threads, 1, 1),
        grid=None if kernel.grid is None else names.texts(kernel.grid),
        cluster=kernel.cluster,
        dynamic_shared_bytes=kernel.shared_bytes if kernel.dynamic_shared else 0,
        shared_bytes=kernel.shared_bytes,
        shared=kernel.allocations,
        checks=_Checks(
            tuple(_bound(bound, names) for bound in kernel.bounds),
            tuple(_Value(v.line, v.register, v.clamped, *names.texts((v.lower, v.upper))) for v in kernel.value_checks),
        ),
        symbols=names.table(),  # after all that names some
        plans=tuple(SavedPlan(p.variant, p.package, p.summary, p.completion, p.explain()) for p in kernel.plans),
        origins=kernel.origins,
        statements=kernel.statements,
    )
    record: dict[str, Any] = to_builtins(launch)
    return record | {"sha256": digest(record, kernel.ptx)}


class _SymbolNames:
    """A name for each symbol, those of parameters first, and a table of their meanings."""

    def __init__(self, parameters: Mapping[Symbol, str]) -> None:
        self._names: dict[Symbol, str] = dict(parameters)
        self._parameters = dict(parameters)

    def of(self, found: Symbol) -> str:
        """The name of a symbol."""
        if found not in self._names:
            self._names[found] = unique_name(re.sub(r"\W", "_", found.name), self._names.values())
        return self._names[found]

    def texts(self, values: tuple[Int | None, ...]) -> Any:
        """Plain integers and None as they are, any other as an expression of names."""
        return tuple(as_python(value, self.of) if isinstance(value, Expr) else value for value in values)

    def table(self) -> tuple[_Symbol, ...]:
        """Every symbol that has a name, and its meaning."""
        return tuple(
            _Symbol(name, s.name, s in self._parameters, s.lower, s.upper, s.multiple_of, s.varies, s.register)  # type: ignore[arg-type]
            for s, name in self._names.items()
        )


def _parameter(kernel: Any, parameter: Parameter, offset: int, names: _SymbolNames) -> Any:
    if isinstance(parameter, ArrayParameter):
        shape, strides = names.texts(parameter.shape), names.texts(parameter.strides)
        dtype = str(parameter.dtype)
        return _Array(parameter.name, offset, dtype, shape, strides, parameter.align_bytes, parameter.written)
    if isinstance(parameter, TensorMapParameter):
        m, sizes, strides = parameter, names.texts(parameter.sizes), names.texts(parameter.strides_bytes)
        (start,), rest = names.texts((m.start_bytes,)), (m.box, m.element_strides, m.swizzle, m.fill)
        return _TensorMap(m.name, offset, m.array, start, str(m.dtype), sizes, strides, *rest)
    if isinstance(parameter, BytesParameter):
        b, numbers, function = parameter, names.texts(parameter.numbers), _name_of_function(kernel, parameter)
        return _HostBytes(b.name, offset, function, b.arrays, numbers, b.size_bytes, b.align_bytes)
    assert isinstance(parameter, (ScalarParameter, SizeParameter))
    p, wide, more = parameter, parameter.type == "b64", dict[str, Any]()
    if isinstance(p, SizeParameter):
        more["read_from"] = p.sources
    elif p.within is not None:
        more["within"] = names.texts(p.within)
    made, type, size = (
        _Size if isinstance(p, SizeParameter) else _Scalar,
        "int64" if wide else "int32",
        8 if wide else 4,
    )
    return made(p.name, offset, type, size, p.multiple_of, p.lower, p.upper, **more)


def _name_of_function(kernel: Any, parameter: BytesParameter) -> str:
    make = parameter.make
    name = f"{make.__module__}:{make.__qualname__}"
    try:
        same = make.__module__ != "__main__" and function_named(name) is make
    except Exception:  # whatever an import raises
        same = False
    if not same:
        raise RequestError(
            f"kernel {kernel.name}: parameter {parameter.name} is made by {name}, which no other process can import by that "
            "name, so that the kernel cannot be saved; move the function to a module of a package"
        )
    return name


def function_named(name: str) -> Any:
    """The function of a ``module:name``. An exception of the import is raised unchanged."""
    module, _, function = name.partition(":")
    with LOCK:
        return getattr(import_module(module), function)


def _bound(bound: Bound, names: _SymbolNames) -> _Bound:
    value, most, extent = names.texts((bound.value, bound.most, bound.extent))
    known = tuple(map(names.texts, bound.known))
    return _Bound(value, bound.least, most, known, bound.what, bound.where, extent)


def digest(record: Mapping[str, Any], text: str) -> str:
    """SHA-256 of a record (as JSON with sorted keys, its own digest empty), a zero byte and the PTX text."""
    told = json.dumps({**record, "sha256": ""}, sort_keys=True)
    return hashlib.sha256(f"{told}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
