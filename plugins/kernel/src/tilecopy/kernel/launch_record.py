"""The launch record (JSON) of a saved kernel: msgspec types that check the record, and a function for its SHA-256.

The record has the parameters in order, block, grid, cluster, dynamic shared memory, target, and the checks before a
launch. Integers that are known only at launch are expressions of the parameters' names, in which ``//`` rounds down.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tilecopy_core.errors import frozen

from .number_parameters import Extent

FORMAT, FORMAT_VERSION = "tilecopy kernel", 4
PTX_FILE, RECORD_FILE = "kernel.ptx", "launch.json"

Number = int | str
"""An integer, or the expression of one that is known only at launch."""
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]


@frozen
class SavedPlan:
    """The plan of one copy of a saved kernel. ``text`` is what the plan's ``explain()`` returned."""

    variant: str
    package: str
    summary: str
    completion: str
    text: str

    def explain(self) -> str:
        """Return the text that the plan's ``explain()`` returned at build."""
        return self.text


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """The base class of the launch record's types. A JSON file with an unknown field is rejected."""


class ParameterRecord(Record, frozen=True, tag_field="kind"):
    """A parameter of the kernel, with its offset in the parameter space."""

    name: str
    offset_bytes: Count


class ArrayRecord(ParameterRecord, frozen=True, tag="array"):
    """An array, passed by its address."""

    dtype: str
    shape: tuple[Number, ...]
    strides_elems: tuple[Number, ...]
    align_bytes: Positive
    written: bool
    type: Literal["pointer"] = "pointer"
    size_bytes: Literal[8] = 8


class ScalarRecord(ParameterRecord, frozen=True, tag="scalar"):
    """An integer that the caller passes."""

    type: Literal["int32", "int64"]
    size_bytes: Count
    multiple_of: Positive
    lower: int
    upper: int
    within: tuple[Number, Number] | None = None


class SizeRecord(ScalarRecord, frozen=True, tag="size"):
    """An integer that each launch reads from the shapes or strides of arrays."""

    read_from: tuple[Extent, ...] = ()


class TensorMapRecord(ParameterRecord, frozen=True, tag="tensor_map"):
    """A tensor map that each launch encodes."""

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


class HostBytesRecord(ParameterRecord, frozen=True, tag="host_bytes"):
    """A parameter whose bytes a function computes at each launch."""

    function: str
    arrays: tuple[str, ...]
    numbers: tuple[Number, ...]
    size_bytes: Positive
    align_bytes: Positive
    type: Literal["bytes"] = "bytes"


class SymbolRecord(Record, frozen=True):
    """A symbol in the record's integer expressions. The expressions refer to the symbol by ``name``."""

    name: str
    called: str
    parameter: bool
    lower: int | None
    upper: int | None
    multiple_of: Positive
    varies: Literal["thread", "cta", "grid"]
    register: str


class BoundRecord(Record, frozen=True):
    """An integer and its range. Each launch checks that the integer is in the range."""

    value: Number
    least: int
    most: Number
    known: tuple[tuple[Number, ...], ...]
    what: str
    where: str
    extent: Number | None


class IndexAssertionRecord(Record, frozen=True):
    """An index that the kernel loads from memory, with its range."""

    line: Positive
    register: str
    clamped: bool
    lower: Number
    upper: Number


class ChecksRecord(Record, frozen=True):
    """The checks that each launch makes, and the checks that an executor makes while the kernel runs."""

    bounds: tuple[BoundRecord, ...]
    index_assertions: tuple[IndexAssertionRecord, ...]


class SharedRecord(Record, frozen=True):
    """A buffer in shared memory."""

    name: str
    offset_bytes: Count
    size_bytes: Count


class LaunchRecord(Record, frozen=True):
    """The complete launch record."""

    format: str
    format_version: int
    made_by: str
    name: str
    ptx: str
    ptx_version: str
    ptx_target: str
    target: str
    parameters: tuple[ArrayRecord | ScalarRecord | SizeRecord | TensorMapRecord | HostBytesRecord, ...]
    parameters_bytes: Count
    block: tuple[Positive, Literal[1], Literal[1]]
    grid: tuple[Number, Number, Number] | None
    cluster: tuple[Positive, Positive, Positive] | None
    dynamic_shared_bytes: Count
    shared_bytes: Count
    shared: tuple[SharedRecord, ...]
    checks: ChecksRecord
    symbols: tuple[SymbolRecord, ...]
    plans: tuple[SavedPlan, ...]
    locations: tuple[str, ...]
    statements: tuple[Count, ...]
    sha256: str = ""


def digest(record: Mapping[str, Any], text: str) -> str:
    """Return the SHA-256 of the JSON record (sorted keys, empty digest), a zero byte and the PTX text."""
    record_text = json.dumps({**record, "sha256": ""}, sort_keys=True)
    return hashlib.sha256(f"{record_text}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
