"""Kernels out of the folders that :mod:`.saving` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tilecopy_core.dtypes import dtype_of
from tilecopy_core.errors import PATH, LaunchError, TilecopyError, checked, shown
from tilecopy_core.expr import Int, Symbol, of_atom
from tilecopy_core.memory import Buffer, Region
from tilecopy_core.target import target_of

from ..written import read
from .bounds import Bound
from .built import BuiltKernel, SharedAllocation, ValueCheck
from .parameters import ArrayParameter, Extent, Parameter, ScalarParameter, SizeParameter
from .saving import FORMAT, FORMAT_VERSION, PTX_FILE, RECORD_FILE, SYMBOL_FACTS, digest


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


@checked(LaunchError, folder=PATH)
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
        raise LaunchError(
            f"folder {shown(str(where))} holds no kernel of kernel.save: {shown(error.filename)}: {error.strerror}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise LaunchError(f"folder {shown(str(where))} holds no kernel of kernel.save: {error}") from error
    return _of_record(record, text, shown(str(where / RECORD_FILE)))


def unpacked(data: bytes) -> BuiltKernel:
    """A kernel out of the bytes of :func:`~tilecopy.kernel.saving.packed`.

    Raises:
        LaunchError: they are not of this package and version.
    """
    try:
        record, text = json.loads(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise LaunchError(f"{len(data)} bytes are no packed kernel: {error}") from error
    return _of_record(record, text, "a packed kernel")


def _of_record(record: Any, text: str, where: str) -> BuiltKernel:
    """The kernel of a record that may be anything."""
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise LaunchError(f"{where} is no launch record of kernel.save (its format is not {FORMAT!r})")
    if record.get("format_version") != FORMAT_VERSION:
        raise LaunchError(
            f"{where} has format version {record.get('format_version')!r}; this package reads "
            f"{FORMAT_VERSION}: read it with the package that made it, {record.get('made_by')}"
        )
    if record.get("ptx_sha256") != digest(text):
        raise LaunchError(
            f"{where}: {PTX_FILE} is not the text that {RECORD_FILE} was written for; save the kernel again"
        )
    try:
        return _kernel(record, text)
    except LaunchError:
        raise
    except (TilecopyError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise LaunchError(f"{where} is not as kernel.save writes it: {type(error).__name__}: {error}") from error


def _kernel(record: dict[str, Any], text: str) -> BuiltKernel:
    symbols = {
        each["name"]: Symbol(each["called"], **{fact: each[fact] for fact in SYMBOL_FACTS})
        for each in record["symbols"]
    }
    names: dict[str, Int] = {name: of_atom(found) for name, found in symbols.items()}
    checks = record["checks"]
    parameters = tuple(_read_parameter(each, names) for each in record["parameters"])
    return BuiltKernel(
        name=record["name"],
        ptx=text,
        plans=tuple(SavedPlan(**each) for each in record["plans"]),  # type: ignore[misc]  # they tell the same
        target=target_of(record["target"]),
        threads=record["block"][0],
        parameters=parameters,
        written=frozenset(p.name for p in parameters if isinstance(p, ArrayParameter) and p.written),
        grid=None if record["grid"] is None else _all(record["grid"], names),
        cluster=None if record["cluster"] is None else tuple(record["cluster"]),
        shared_bytes=record["shared_bytes"],
        dynamic_shared=bool(record["dynamic_shared_bytes"]),
        allocations=tuple(SharedAllocation(**each) for each in record["shared"]),
        bounds=tuple(_read_bound(each, names) for each in checks["bounds"]),
        scalars={symbols[each["name"]]: each["name"] for each in record["symbols"] if each["parameter"]},
        value_checks=tuple(
            ValueCheck(**each | {"lower": read(each["lower"], names), "upper": read(each["upper"], names)})
            for each in checks["values"]
        ),
        origins=tuple(record["origins"]),
        statements=tuple(record["statements"]),
    )


def _all(told: Any, names: Mapping[str, Int]) -> Any:
    """Integers out of their texts, in tuples where those are in lists."""
    return tuple(_all(each, names) for each in told) if isinstance(told, list) else read(told, names)


def _read_parameter(told: Mapping[str, Any], names: Mapping[str, Int]) -> Parameter:
    name = told["name"]
    if told["kind"] == "array":
        shape, strides = (_all(told[key], names) for key in ("shape", "strides_elems"))
        return ArrayParameter(name, shape, strides, dtype_of(told["dtype"]), told["align_bytes"], told["written"])
    common = {key: told[key] for key in ("name", "multiple_of", "lower", "upper")}
    common["type"] = {"int32": "b32", "int64": "b64"}[told["type"]]
    if told["kind"] == "size":
        return SizeParameter(**common, sources=[Extent(**each) for each in told["read_from"]])
    if told["kind"] != "scalar":
        raise ValueError(f"parameter {name} is of the kind {told['kind']!r}")
    return ScalarParameter(**common, within=_all(told["within"], names) if "within" in told else None)


def _read_bound(told: Mapping[str, Any], names: Mapping[str, Int]) -> Bound:
    buffer = Buffer(_all(told["shape"], names), told["dtype"], space="global", name=told["buffer"])
    region = Region(buffer, _all(told["starts"], names), tuple(told["extents"]))
    return Bound(region, told["dim"], _all(told["known"], names), told["where"], told.get("integer", ""))
