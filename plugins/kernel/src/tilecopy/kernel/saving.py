"""Kernels into folders: PTX text and a launch record (JSON), for anyone with the driver API.

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

from tilecopy_core.errors import LaunchError, RequestError, shown
from tilecopy_core.expr import Expr, Int, Symbol
from tilecopy_core.version import __version__

from ..written import as_python
from .bounds import Bound
from .parameters import ArrayParameter, Parameter, ScalarParameter, SizeParameter

FORMAT, FORMAT_VERSION = "tilecopy kernel", 1
PTX_FILE, RECORD_FILE = "kernel.ptx", "launch.json"
SYMBOL_FACTS = ("lower", "upper", "multiple_of", "varies", "register")
"""What is told of a symbol, beside its names."""


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


def packed(kernel: Any) -> bytes:
    """A kernel's record and text as bytes, for caches; :func:`~tilecopy.kernel.saved.unpacked` reads them.

    Raises:
        RequestError: a parameter is of a kind that only this package's launch can fill.
    """
    return json.dumps([record_of(kernel), kernel.ptx], separators=(",", ":")).encode()


def record_of(kernel: Any) -> dict[str, Any]:
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
            attrs.asdict(check) | {"lower": names.text(check.lower), "upper": names.text(check.upper)}
            for check in kernel.value_checks
        ],
    }
    version, target = re.findall(r"^\.(?:version|target) (\S+)", kernel.ptx, re.M)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "made_by": f"tilecopy-core {__version__}",
        "name": kernel.name,
        "ptx": PTX_FILE,
        "ptx_sha256": digest(kernel.ptx),
        "ptx_version": version,
        "ptx_target": target,
        "target": str(kernel.target),
        "parameters": parameters,
        "parameters_bytes": offset,
        "block": [kernel.threads, 1, 1],
        "grid": None if kernel.grid is None else [names.text(count) for count in kernel.grid],
        "cluster": None if kernel.cluster is None else list(kernel.cluster),
        "dynamic_shared_bytes": kernel.shared_bytes if kernel.dynamic_shared else 0,
        "shared_bytes": kernel.shared_bytes,
        "shared": [attrs.asdict(each) for each in kernel.allocations],
        "checks": checks,
        "symbols": names.table(),
        "plans": [
            {name: getattr(plan, name) for name in ("variant", "package", "summary", "completion")}
            | {"text": plan.explain()}
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
            {"name": name, "called": found.name, "parameter": found in self._parameters}
            | {fact: getattr(found, fact) for fact in SYMBOL_FACTS}
            for found, name in self._names.items()
        ]


def _parameter(kernel: Any, parameter: Parameter, names: _SymbolNames) -> dict[str, Any]:
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
        "integer": bound.integer,
    }


def digest(text: str) -> str:
    """What tells whether a text is the one that a record was written for."""
    return hashlib.sha256(text.encode()).hexdigest()
