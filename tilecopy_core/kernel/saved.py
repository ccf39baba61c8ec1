"""Kernels in folders: PTX text and a launch record (JSON), for anyone with the driver API, and read back.

A folder holds ``kernel.ptx`` and ``launch.json``. The record says all that a launch needs: the parameters in order, block,
grid, cluster, dynamic shared memory, target; and what this package checks before one. Integers known at launch only are
expressions of the parameters' names, in which ``//`` rounds down.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from ..dtypes import dtype_of
from ..errors import LaunchError, RequestError, TilecopyError
from ..expr import Expr, Int, Symbol, of_atom
from ..memory import Buffer, Region
from ..target import target_of
from ..version import __version__
from ..written import as_python, read
from .bounds import Bound
from .built import BuiltKernel, SharedAllocation, ValueCheck
from .parameters import ArrayParameter, NumberParameter, Parameter, ScalarParameter, SizeParameter

FORMAT, FORMAT_VERSION = "tilecopy kernel", 1
PTX_FILE, RECORD_FILE = "kernel.ptx", "launch.json"


@attrs.frozen
class SavedPlan:
    """What a saved kernel tells of one of its copies.

    Attributes:
        variant: name of the chosen variant.
        package: the distribution that it came from.
        summary: the partition in one line.
        completion: how the caller learns that the copy is done.
        text: what the plan explained.
    """

    variant: str
    package: str
    summary: str
    completion: str
    text: str

    def explain(self) -> str:
        """The table of the plan, as it was when the kernel was built."""
        return self.text


# ------------------------------------------------------------------------------------------------------- writing


def save_kernel(kernel: BuiltKernel, folder: str | Path) -> Path:
    """Write a kernel into a folder, which is made where there is none; see :meth:`BuiltKernel.save`."""
    where = Path(folder)
    record = record_of(kernel)
    try:
        where.mkdir(parents=True, exist_ok=True)
        (where / PTX_FILE).write_text(kernel.ptx, encoding="utf-8")
        (where / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise LaunchError(f"kernel {kernel.name} cannot be saved in {where}: {error.strerror or error}") from error
    return where


def record_of(kernel: BuiltKernel) -> dict[str, Any]:
    """The launch record of a kernel.

    Raises:
        RequestError: a parameter is of a kind that only this package's launch can fill.
    """
    names = _SymbolNames(kernel.scalars)
    parameters, offset = [], 0
    for parameter in kernel.parameters:
        told = _parameter(kernel, parameter, names)
        offset = -(-offset // told["size_bytes"]) * told["size_bytes"]
        parameters.append(told | {"offset_bytes": offset})
        offset += told["size_bytes"]
    checks = {
        "bounds": [_bound(bound, names) for bound in kernel.bounds],
        "values": [
            {
                "line": check.line,
                "register": check.register,
                "lower": names.text(check.lower),
                "upper": names.text(check.upper),
                "clamped": check.clamped,
            }
            for check in kernel.value_checks
        ],
    }
    grid = None if kernel.grid is None else [names.text(count) for count in kernel.grid]
    version, target = (re.search(rf"^\.{word} (\S+)", kernel.ptx, re.M) for word in ("version", "target"))
    assert version is not None
    assert target is not None
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "made_by": f"tilecopy-core {__version__}",
        "name": kernel.name,
        "ptx": PTX_FILE,
        "ptx_sha256": _digest(kernel.ptx),
        "ptx_version": version[1],
        "ptx_target": target[1],
        "target": str(kernel.target),
        "parameters": parameters,
        "parameters_bytes": offset,
        "block": [kernel.threads, 1, 1],
        "grid": grid,
        "cluster": None if kernel.cluster is None else list(kernel.cluster),
        "dynamic_shared_bytes": kernel.shared_bytes if kernel.dynamic_shared else 0,
        "shared_bytes": kernel.shared_bytes,
        "shared": [attrs.asdict(each) for each in kernel.allocations],
        "checks": checks,
        "symbols": names.table(),
        "plans": [
            {
                "variant": plan.variant,
                "package": plan.package,
                "summary": plan.summary,
                "completion": plan.completion,
                "text": plan.explain(),
            }
            for plan in kernel.plans
        ],
        "origins": list(kernel.origins),
        "statements": list(kernel.statements),
    }


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

    def text(self, value: Int) -> int | str:
        """A plain integer as it is, any other as an expression of names."""
        return as_python(value, self.of) if isinstance(value, Expr) else value

    def table(self) -> list[dict[str, Any]]:
        """Every symbol that has been named, and what it is."""
        return [
            {
                "name": name,
                "called": found.name,
                "parameter": found in self._parameters,
                "lower": found.lower,
                "upper": found.upper,
                "multiple_of": found.multiple_of,
                "varies": found.varies,
                "register": found.register,
            }
            for found, name in self._names.items()
        ]


def _parameter(kernel: BuiltKernel, parameter: Parameter, names: _SymbolNames) -> dict[str, Any]:
    if isinstance(parameter, ArrayParameter):
        return {
            "name": parameter.name,
            "kind": "array",
            "type": "pointer",
            "size_bytes": 8,
            "dtype": str(parameter.dtype),
            "shape": [names.text(extent) for extent in parameter.shape],
            "strides_elems": [names.text(stride) for stride in parameter.strides],
            "align_bytes": parameter.align_bytes,
            "written": parameter.written,
        }
    if not isinstance(parameter, (ScalarParameter, SizeParameter)):
        raise RequestError(
            f"kernel {kernel.name}: parameter {parameter.name} ({type(parameter).__name__}) is made at each launch by this "
            "package; a kernel that has one cannot be saved for other launchers"
        )
    size = 4 if parameter.type == "b32" else 8
    told: dict[str, Any] = {
        "name": parameter.name,
        "kind": "size" if isinstance(parameter, SizeParameter) else "scalar",
        "type": f"int{8 * size}",
        "size_bytes": size,
        "multiple_of": parameter.multiple_of,
        "lower": parameter.lower,
        "upper": parameter.upper,
    }
    if isinstance(parameter, SizeParameter):
        return told | {"read_from": [attrs.asdict(source) for source in parameter.sources]}
    if parameter.within is not None:
        told["within"] = [names.text(bound) for bound in parameter.within]
    return told


def _bound(bound: Bound, names: _SymbolNames) -> dict[str, Any]:
    region = bound.region
    return {
        "buffer": region.buffer.name,
        "dtype": str(region.buffer.dtype),
        "shape": [names.text(extent) for extent in region.buffer.shape],
        "starts": [names.text(start) for start in region.starts],
        "extents": list(region.extents),
        "dim": bound.dim,
        "known": [[names.text(fact) for fact in facts] for facts in bound.known],
        "where": bound.where,
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ------------------------------------------------------------------------------------------------------- reading


def load_kernel(folder: str | Path) -> BuiltKernel:
    """A kernel that :meth:`BuiltKernel.save` wrote: it launches and is checked as the one that was saved.

    Its ``plans`` are what the saved ones told (:class:`SavedPlan`); nothing is lowered again, and no variant need be
    installed.

    Args:
        folder: where it was saved.

    Raises:
        LaunchError: the folder holds no such kernel, one of a later format, or PTX that is not the record's.
    """
    where = Path(folder)
    try:
        record = json.loads((where / RECORD_FILE).read_text(encoding="utf-8"))
        text = (where / PTX_FILE).read_text(encoding="utf-8")
    except OSError as error:
        raise LaunchError(f"{where} holds no kernel of kernel.save: {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise LaunchError(f"{where} holds no kernel of kernel.save: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise LaunchError(f"{where / RECORD_FILE} is no launch record of kernel.save (its format is not {FORMAT!r})")
    if record.get("format_version") != FORMAT_VERSION:
        raise LaunchError(
            f"{where / RECORD_FILE} has format version {record.get('format_version')!r}; this package reads "
            f"{FORMAT_VERSION}: read it with the package that made it, {record.get('made_by')}"
        )
    if record.get("ptx_sha256") != _digest(text):
        raise LaunchError(
            f"{where / PTX_FILE} is not the text that {RECORD_FILE} was written for; save the kernel again"
        )
    try:
        return _kernel(record, text)
    except LaunchError:
        raise
    except (TilecopyError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise LaunchError(
            f"{where / RECORD_FILE} is not as kernel.save writes it: {type(error).__name__}: {error}"
        ) from error


def _kernel(record: dict[str, Any], text: str) -> BuiltKernel:
    symbols = {each["name"]: _symbol(each) for each in record["symbols"]}
    names: dict[str, Int] = {name: of_atom(found) for name, found in symbols.items()}
    checks = record["checks"]
    grid = None if record["grid"] is None else tuple(read(count, names) for count in record["grid"])
    parameters = tuple(_read_parameter(each, names) for each in record["parameters"])
    return BuiltKernel(
        name=record["name"],
        ptx=text,
        plans=tuple(SavedPlan(**each) for each in record["plans"]),  # type: ignore[misc]  # they tell the same
        target=target_of(record["target"]),
        threads=record["block"][0],
        parameters=parameters,
        written=frozenset(p.name for p in parameters if isinstance(p, ArrayParameter) and p.written),
        grid=grid,  # type: ignore[arg-type]
        cluster=None if record["cluster"] is None else tuple(record["cluster"]),
        shared_bytes=record["shared_bytes"],
        dynamic_shared=bool(record["dynamic_shared_bytes"]),
        allocations=tuple(SharedAllocation(**each) for each in record["shared"]),
        bounds=tuple(_read_bound(each, names) for each in checks["bounds"]),
        scalars={symbols[each["name"]]: each["name"] for each in record["symbols"] if each["parameter"]},
        value_checks=tuple(
            ValueCheck(
                line=each["line"],
                register=each["register"],
                lower=read(each["lower"], names),
                upper=read(each["upper"], names),
                clamped=each["clamped"],
            )
            for each in checks["values"]
        ),
        origins=tuple(record["origins"]),
        statements=tuple(record["statements"]),
    )


def _symbol(told: Mapping[str, Any]) -> Symbol:
    return Symbol(
        told["called"], told["lower"], told["upper"], told["multiple_of"], told["varies"], (), told["register"]
    )


def _read_parameter(told: Mapping[str, Any], names: Mapping[str, Int]) -> Parameter:
    name = told["name"]
    if told["kind"] == "array":
        shape, strides = (tuple(read(n, names) for n in told[key]) for key in ("shape", "strides_elems"))
        return ArrayParameter(name, shape, strides, dtype_of(told["dtype"]), told["align_bytes"], told["written"])
    common = {
        "name": name,
        "type": {"int32": "b32", "int64": "b64"}[told["type"]],
        "multiple_of": told["multiple_of"],
        "lower": told["lower"],
        "upper": told["upper"],
    }
    made: NumberParameter
    if told["kind"] == "size":
        made = SizeParameter(
            **common,
            sources=[(each["array"], each["dim"], each["factor"], each["constant"]) for each in told["read_from"]],
        )
    elif told["kind"] != "scalar":
        raise ValueError(f"parameter {name} is of the kind {told['kind']!r}")
    else:
        within = told.get("within")
        made = ScalarParameter(**common, within=None if within is None else tuple(read(n, names) for n in within))  # type: ignore[arg-type]
    return made


def _read_bound(told: Mapping[str, Any], names: Mapping[str, Int]) -> Bound:
    shape: Any = tuple(read(extent, names) for extent in told["shape"])
    buffer = Buffer(shape, told["dtype"], space="global", name=told["buffer"])
    region = Region(buffer, tuple(read(start, names) for start in told["starts"]), tuple(told["extents"]))
    known = tuple(tuple(read(fact, names) for fact in facts) for facts in told["known"])
    return Bound(region, told["dim"], known, told["where"])
