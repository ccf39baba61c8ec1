"""Kernels in folders: PTX text and a launch record (JSON), for :func:`~tilecopy.load_kernel` and for anyone with the driver API.

A folder holds ``kernel.ptx`` and ``launch.json``. The record says all that a launch needs: the parameters in order, block,
grid, cluster, dynamic shared memory, target; and what this package checks before one. Integers known at launch only are
expressions of the parameters' names, in which ``//`` rounds down. A digest covers the text and all of the record; the
records below are its types, and msgspec holds what is read against them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
from msgspec import Meta, Struct, to_builtins

from tilecopy_core.errors import LaunchError, RequestError, shown
from tilecopy_core.integers import Expr, Int, Symbol
from tilecopy_core.registry import __version__

from ..integer_text import as_python
from .bounds import Bound
from .parameters import ArrayParameter, Extent, Parameter, ScalarParameter, SizeParameter

FORMAT, FORMAT_VERSION = "tilecopy kernel", 3
PTX_FILE, RECORD_FILE = "kernel.ptx", "launch.json"

Number = int | str
"""A plain integer, or the text of one that is known at launch."""
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]


@attrs.frozen
class SavedPlan:
    """What a saved kernel tells of one of its copies: what its plan said, and as ``text`` what that explained."""

    variant: str
    package: str
    summary: str
    completion: str
    text: str

    def explain(self) -> str:
        """The table of the plan, as it was when the kernel was built."""
        return self.text


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """What is nothing else, and of no other types."""


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
    parameters: tuple[_Array | _Scalar | _Size, ...]
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
    """Write a kernel into a folder, which is made where there is none; see :meth:`BuiltKernel.save`."""
    where = Path(folder)
    record = record_of(kernel)
    try:
        where.mkdir(parents=True, exist_ok=True)
        (where / PTX_FILE).write_text(kernel.ptx, encoding="utf-8")
        (where / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise LaunchError(
            f"kernel {kernel.name} cannot be saved in {shown(str(where))}: {error.strerror or error}"
        ) from error
    return where


def record_of(kernel: Any) -> dict[str, Any]:
    """The launch record of a kernel, as JSON has it.

    Raises:
        RequestError: a parameter is of a kind that only this package's launch can fill.
    """
    names = _SymbolNames(kernel.scalars)
    parameters, offset = list[Any](), 0
    for parameter in kernel.parameters:
        size = 4 if parameter.type == "b32" else 8
        offset = -(-offset // size) * size
        parameters.append(_parameter(kernel, parameter, offset, names))
        offset += size
    version, target = re.findall(r"^\.(?:version|target) (\S+)", kernel.ptx, re.M)
    launch = Launch(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        made_by=f"tilecopy-core {__version__}",
        name=kernel.name,
        ptx=PTX_FILE,
        ptx_version=version,
        ptx_target=target,
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
    """A name for each symbol, those of parameters first; the table says what each is."""

    def __init__(self, parameters: Mapping[Symbol, str]) -> None:
        self._names: dict[Symbol, str] = dict(parameters)
        self._parameters = dict(parameters)

    def of(self, found: Symbol) -> str:
        """The name of a symbol."""
        if found not in self._names:
            stem = re.sub(r"\W", "_", found.name)
            name, number = stem, 2
            while name in self._names.values():
                name, number = f"{stem}_{number}", number + 1
            self._names[found] = name
        return self._names[found]

    def texts(self, values: tuple[Int | None, ...]) -> Any:
        """Plain integers and None as they are, any other as an expression of names."""
        return tuple(as_python(value, self.of) if isinstance(value, Expr) else value for value in values)

    def table(self) -> tuple[_Symbol, ...]:
        """Every symbol that has been named, and what it is."""
        return tuple(
            _Symbol(name, s.name, s in self._parameters, s.lower, s.upper, s.multiple_of, s.varies, s.register)  # type: ignore[arg-type]
            for s, name in self._names.items()
        )


def _parameter(kernel: Any, parameter: Parameter, offset: int, names: _SymbolNames) -> Any:
    if isinstance(parameter, ArrayParameter):
        shape, strides = names.texts(parameter.shape), names.texts(parameter.strides)
        dtype = str(parameter.dtype)
        return _Array(parameter.name, offset, dtype, shape, strides, parameter.align_bytes, parameter.written)
    if not isinstance(parameter, (ScalarParameter, SizeParameter)):
        raise RequestError(
            f"kernel {kernel.name}: parameter {parameter.name} ({parameter.__class__.__name__}) is made at each launch by this "
            "package; a kernel that has one cannot be saved for other launchers"
        )
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


def _bound(bound: Bound, names: _SymbolNames) -> _Bound:
    value, most, extent = names.texts((bound.value, bound.most, bound.extent))
    known = tuple(map(names.texts, bound.known))
    return _Bound(value, bound.least, most, known, bound.what, bound.where, extent)


def digest(record: Mapping[str, Any], text: str) -> str:
    """SHA-256 of a record (as JSON with sorted keys, its own digest empty), a zero byte and the PTX text."""
    told = json.dumps({**record, "sha256": ""}, sort_keys=True)
    return hashlib.sha256(f"{told}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
