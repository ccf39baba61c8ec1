"""A test case as plain data: one copy and its harness. A case can be drawn at random, printed and stored as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import prod
from typing import Annotated, Any

import attrs
import msgspec
import tilecopy as tc

from tilecopy_core.errors import TEXT, checked, instance_of, short_repr

from .validators import MEMORIES, OUTSIDE, VALUES, Natural, Number, Positive, Shape, name_of, typed_fields

AXES = {
    axis.name: axis
    for axis in (tc.m, tc.TLane, tc.TCol, tc.laneid, tc.warpid, tc.wid_in_wg, tc.wgid, tc.tid_in_wg, tc.tx)
}
"""The axes that an operand's layout may have."""
VARIABLES = ("block", "turn", "unit", "n")
"""The variables of starts: the CTA, the loop's index, the group of threads within the CTA, a scalar argument."""


def units_of(scope: str, threads: int) -> int:
    """Return the number of scopes, such as warps, in a CTA of ``threads`` threads."""
    return threads // {"cta": threads, "warp": 32, "warpgroup": 128, "thread": 1}[scope]


Axis = Annotated[str, name_of(*AXES)]
Iters = tuple[tuple[Positive, Number, Axis], ...]
"""``(extent, stride, axis)`` of each iter of a layout."""
_Bits = Annotated[int, msgspec.Meta(ge=0, le=30)]


@attrs.frozen(field_transformer=typed_fields)
class AffineTerm:
    """The term ``factor * (variable // quotient % modulus)``. If ``modulus`` is 0, ``% modulus`` is omitted.

    The variable is ``block`` (the CTA), ``turn`` (the iteration of the loop around the copy), ``unit`` (the scope's index in the
    CTA, such as the warp's) or ``n`` (the scalar argument).
    """

    variable: Annotated[str, name_of(*VARIABLES)]
    factor: Number
    quotient: Positive = 1
    modulus: Natural = 0

    @checked(values=VALUES)
    def at(self, values: Mapping[str, Any]) -> Any:
        """Return the value of the term. ``values`` maps variables to integers or to a kernel's symbolic integers."""
        if self.variable not in values:
            raise tc.RequestError(f"AffineTerm.at: values must contain {self.variable!r}, got {short_repr(values)}")
        value = values[self.variable]
        if self.quotient > 1:
            value = value // self.quotient
        if self.modulus:
            value = value % self.modulus
        return value * self.factor


@attrs.frozen(field_transformer=typed_fields)
class AffineStart:
    """The start of a box along one dimension: a constant plus the sum of the terms."""

    base: Number
    terms: tuple[AffineTerm, ...] = ()

    @checked(values=VALUES)
    def at(self, values: Mapping[str, Any]) -> Any:
        """Return the start of the box. ``values`` maps variables to integers or to a kernel's symbolic integers."""
        return sum((term.at(values) for term in self.terms), start=self.base)


@attrs.frozen(field_transformer=typed_fields)
class Operand:
    """A frozen record of the source or the destination of a copy: a buffer, and a box of the buffer.

    Attributes:
        space: ``global``, ``shared``, ``local`` or ``tmem``.
        shape: extents of the buffer.
        extents: extents of the box.
        starts: the start of the box along each dimension.
        iters: ``(extent, stride, axis)`` of each iter of the layout, strides in elements.
        replica: the replica iters, in the same form.
        offset: ``(axis, elements)`` of each axis with an offset.
        swizzle: ``(per_element, swizzle_len, atom_len)``, or None.
        storage_offset: elements from the start of the memory to the start of the buffer.
        align_bytes: alignment of the memory.
    """

    space: Annotated[str, name_of(*MEMORIES)]
    shape: Shape
    extents: Shape
    starts: tuple[AffineStart, ...]
    iters: Iters
    replica: Iters = ()
    offset: tuple[tuple[Axis, Number], ...] = ()
    swizzle: tuple[_Bits, _Bits, _Bits] | None = None
    storage_offset: Natural = 0
    align_bytes: Positive = 16

    def __attrs_post_init__(self) -> None:
        if not len(self.shape) == len(self.extents) == len(self.starts):
            raise tc.RequestError(
                f"Operand: shape, extents and starts must have equal lengths, got {short_repr(self.shape)}, "
                f"{short_repr(self.extents)} and {short_repr(self.starts)}"
            )

    @property
    def layout(self) -> tc.TileLayout:
        """The layout of the buffer, as a TileLayout or a SwizzledLayout."""
        shard, replica = ([tc.Iter(e, s, AXES[a]) for e, s, a in iters] for iters in (self.iters, self.replica))
        plain = tc.TileLayout.of(shard, replica, tuple((AXES[axis], elems) for axis, elems in self.offset))
        return plain if self.swizzle is None else tc.SwizzledLayout(tc.Swizzle(*self.swizzle), plain)

    @property
    def memory_elems(self) -> int:
        """The number of elements of memory that the buffer needs along the layout axis ``m``."""
        reach = 1 + sum((e - 1) * s for e, s, a in (*self.iters, *self.replica) if a == "m")
        reach += dict(self.offset).get("m", 0)
        block = 1 if self.swizzle is None else 1 << self.swizzle[0] + self.swizzle[1]
        return -(-reach // block) * block + self.storage_offset

    @checked(values=VALUES)
    def box(self, values: Mapping[str, Any]) -> tuple[slice, ...]:
        """Return the slices that index the box, for the given values of the variables."""
        begins = [start.at(values) for start in self.starts]
        return tuple(slice(b, b + e) for b, e in zip(begins, self.extents, strict=True))


def stack(operand: Operand, extent: int, stride: int) -> Operand:
    """Return an operand with ``extent`` boxes along a new first dimension, ``stride`` elements apart."""
    return attrs.evolve(
        operand,
        shape=(extent, *operand.shape),
        extents=(extent, *operand.extents),
        starts=(AffineStart(0), *operand.starts),
        iters=((extent, stride, "m"), *operand.iters),
    )


@attrs.frozen(kw_only=True, field_transformer=typed_fields)
class CopyCase:
    """A frozen record of one copy and its harness.

    Attributes:
        op: ``copy`` or ``copy_async``.
        dtype: element type.
        scope: ``thread``, ``warp``, ``warpgroup`` or ``cta``.
        threads: threads per CTA.
        target: the target, such as ``sm_90a``.
        dst, src: the operands.
        issued_by: ``all`` if every group of threads of the scope copies its own box, ``one`` if only thread 0 copies.
        blocks: number of CTAs.
        cluster: CTAs per cluster.
        rank_offset: the rank of the CTA with the destination minus the rank of the CTA that copies, modulo the cluster.
        iterations: iterations of the loop around the copy; 1 means no loop.
        n: value of the scalar argument.
        multiple_of: the number of which the scalar is declared to be a multiple.
        outside: the ``outside=`` of the copy, or None.
        dynamic_shape: True if the sizes of global arrays are known only at launch.
        options: plain options of the copy, by name.
    """

    op: Annotated[str, name_of("copy", "copy_async")]
    dtype: Annotated[str, name_of(*tc.DTYPES)]
    scope: Annotated[str, name_of("thread", "warp", "warpgroup", "cta")]
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)]
    target: Annotated[str, name_of(*tc.TARGETS)]
    dst: Operand
    src: Operand
    issued_by: Annotated[str, name_of("all", "one")] = "all"
    blocks: Positive = 1
    cluster: Annotated[int, msgspec.Meta(ge=1, le=16)] = 1
    rank_offset: Natural = 0
    iterations: Positive = 1
    n: Natural = 0
    multiple_of: Positive = 1
    outside: Any = attrs.field(default=None, validator=OUTSIDE)
    dynamic_shape: bool = False
    options: tuple[tuple[str, str | bool | int | float | None], ...] = ()

    @property
    def units(self) -> int:
        """The number of scopes, such as warps, that copy in a CTA. Each scope copies its own box."""
        return 1 if self.issued_by == "one" else units_of(self.scope, self.threads)

    @property
    def cta_group(self) -> int:
        """The number of CTAs per copy. It is 2 if the first CTA of a pair issues one copy for both CTAs, else 1."""
        options: dict[str, Any] = dict(self.options)
        return int(options.get("cta_group", 1))

    @property
    def receivers(self) -> tuple[int, ...]:
        """The ranks of the CTAs that receive a multicast copy, or () without multicast. CTA 0 of the cluster issues the copy."""
        options: dict[str, Any] = dict(self.options)
        mask = options.get("multicast", 0)
        return tuple(rank for rank in range(self.cluster) if mask >> rank & 1)

    @property
    def rank_offsets(self) -> tuple[int, ...]:
        """The rank of each CTA that receives a copy, relative to the rank of the CTA that issues the copy."""
        return self.receivers or (self.rank_offset,)

    @property
    def spaces(self) -> tuple[str, str]:
        """The state spaces of source and destination."""
        return self.src.space, self.dst.space

    @property
    def elem_bytes(self) -> int:
        """The number of bytes of an element."""
        return tc.dtype_of(self.dtype).bytes

    @property
    def count(self) -> int:
        """The number of elements of a box."""
        return prod(self.dst.extents)

    @property
    def variables(self) -> set[str]:
        """The variables on which the starts of the boxes depend."""
        return {term.variable for side in (self.dst, self.src) for start in side.starts for term in start.terms}

    def values(self) -> list[dict[str, int]]:
        """Return the values of the variables for each execution of the copy, ordered by iteration."""
        return [
            {"block": block, "turn": turn, "unit": unit, "n": self.n}
            for turn in range(self.iterations)
            for block in range(0, self.blocks, self.cluster if self.receivers else 1)
            for unit in range(self.units)
        ]

    def to_json(self) -> str:
        """Return the test case as one line of JSON. :meth:`from_json` parses this line."""
        return _one_line(attrs.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CopyCase:
        """Parse a test case from a line of JSON.

        Raises:
            RequestError: the text is not the JSON of a case.
        """
        TEXT.check(text, "CopyCase.from_json", "text")
        try:
            data = json.loads(text)
            case = msgspec.convert(data, cls)
            if _one_line({**attrs.asdict(case), **data}) != case.to_json():
                raise ValueError("unknown fields")
        except Exception as error:
            raise tc.RequestError(
                f"CopyCase.from_json: text must be the JSON of a test case, got {short_repr(text)}: {type(error).__name__}: {error}"
            ) from error
        return case

    @property
    def key(self) -> str:
        """A short hash that identifies the test case."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=8).hexdigest()

    def __str__(self) -> str:
        scope = f"cta({self.threads})" if self.scope == "cta" else f"{self.scope} of {self.threads} threads"
        lines = [f"{self.op} {self.dtype}, scope {scope}, {self.target}"]
        for name, side in (("from", self.src), ("to", self.dst)):
            box = ", ".join(f"{_start_text(s)}:+{e}" for s, e in zip(side.starts, side.extents, strict=True))
            extra = f", its storage offset {side.storage_offset}" if side.storage_offset else ""
            lines.append(f"  {name:<5}{side.space} {list(side.shape)} box [{box}], {side.layout}{extra}")
        around = [
            f"{value} {what}"
            for value, what in (
                (self.blocks, "CTAs"),
                (self.cluster, "CTAs per cluster"),
                (self.iterations, "iterations"),
                (self.units, "groups of threads"),
            )
            if value > 1
        ]
        if "n" in self.variables:
            around.append(f"n = {self.n}, declared as a multiple of {self.multiple_of}")
        if self.dynamic_shape:
            around.append("sizes known only at launch")
        if self.outside is not None:
            around.append(f"outside={self.outside!r}")
        around += [f"{name}={value!r}" for name, value in self.options]
        return "\n".join([*lines, *([f"  with {', '.join(around)}"] if around else [])])


CASE = instance_of("a CopyCase", CopyCase)


def _start_text(start: AffineStart) -> str:
    parts = [str(start.base)] if start.base or not start.terms else []
    for term in start.terms:
        text = term.variable
        text = f"({text} // {term.quotient})" if term.quotient > 1 else text
        text = f"({text} % {term.modulus})" if term.modulus else text
        parts.append(text if term.factor == 1 else f"{term.factor}*{text}")
    return " + ".join(parts)


def _one_line(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), sort_keys=True)
