"""One copy and the kernel around it, as plain data: what is drawn, printed, recorded and drawn again."""

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
"""What starts are made of: the CTA, the turn of the loop, the group of threads within the CTA, a scalar argument."""


def units_of(scope: str, threads: int) -> int:
    """Return how many groups of threads of a scope a CTA has."""
    return threads // {"cta": threads, "warp": 32, "warpgroup": 128, "thread": 1}[scope]


Axis = Annotated[str, name_of(*AXES)]
Iters = tuple[tuple[Positive, Number, Axis], ...]
"""``(extent, stride, axis)`` of each iter of a layout."""
_Bits = Annotated[int, msgspec.Meta(ge=0, le=30)]


@attrs.frozen(field_transformer=typed_fields)
class AffineTerm:
    """``factor * (variable // quotient % modulus)``; no remainder where ``modulus`` is 0."""

    variable: Annotated[str, name_of(*VARIABLES)]
    factor: Number
    quotient: Positive = 1
    modulus: Natural = 0

    @checked(values=VALUES)
    def at(self, values: Mapping[str, Any]) -> Any:
        """Return the value, for integers or for a kernel's symbolic integers."""
        if self.variable not in values:
            raise tc.RequestError(f"AffineTerm.at: values {short_repr(values)} has none of {self.variable}")
        value = values[self.variable]
        if self.quotient > 1:
            value = value // self.quotient
        if self.modulus:
            value = value % self.modulus
        return value * self.factor


@attrs.frozen(field_transformer=typed_fields)
class AffineStart:
    """Where a box begins along one dimension: a constant and what varies."""

    base: Number
    terms: tuple[AffineTerm, ...] = ()

    @checked(values=VALUES)
    def at(self, values: Mapping[str, Any]) -> Any:
        """Return the value, for integers or for a kernel's symbolic integers."""
        return sum((term.at(values) for term in self.terms), start=self.base)


@attrs.frozen(field_transformer=typed_fields)
class Operand:
    """One side of a copy: a buffer in a memory, and the box of it.

    Attributes:
        space: ``global``, ``shared``, ``local`` or ``tmem``.
        shape: extents of the buffer.
        extents: extents of the box.
        starts: where the box begins.
        iters: ``(extent, stride, axis)`` of the layout, strides in elements.
        replica: replica iters likewise.
        offset: ``(axis, elements)``.
        swizzle: ``(per_element, swizzle_len, atom_len)``, or None.
        storage_offset: elements from the memory's first to the buffer's.
        align_bytes: what the memory's first byte is a multiple of.
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
                f"Operand: shape {short_repr(self.shape)}, extents {short_repr(self.extents)} and starts {short_repr(self.starts)} have one entry "
                "for each dimension"
            )

    @property
    def layout(self) -> tc.TileLayout:
        """The layout as tilecopy writes it."""
        shard = tc.S[tuple(e for e, _, _ in self.iters) : tuple(s @ AXES[a] for _, s, a in self.iters)]
        built: Any = shard
        if self.replica:
            built = built + tc.R[tuple(e for e, _, _ in self.replica) : tuple(s @ AXES[a] for _, s, a in self.replica)]
        for axis, elems in self.offset:
            built = built + elems @ AXES[axis]
        plain = tc.TileLayout(built)
        return plain if self.swizzle is None else tc.SwizzledLayout(tc.Swizzle(*self.swizzle), plain)

    @property
    def memory_elems(self) -> int:
        """Elements of the memory behind the buffer, along ``m``."""
        reach = 1 + sum((e - 1) * s for e, s, a in (*self.iters, *self.replica) if a == "m")
        reach += dict(self.offset).get("m", 0)
        block = 1 if self.swizzle is None else 1 << self.swizzle[0] + self.swizzle[1]
        return -(-reach // block) * block + self.storage_offset

    @checked(values=VALUES)
    def box(self, values: Mapping[str, Any]) -> tuple[slice, ...]:
        """The index of the box for values of the variables."""
        begins = [start.at(values) for start in self.starts]
        return tuple(slice(b, b + e) for b, e in zip(begins, self.extents, strict=True))


def stack(operand: Operand, extent: int, stride: int) -> Operand:
    """Return an operand with one more dimension, the first, of as many such boxes."""
    return attrs.evolve(
        operand,
        shape=(extent, *operand.shape),
        extents=(extent, *operand.extents),
        starts=(AffineStart(0), *operand.starts),
        iters=((extent, stride, "m"), *operand.iters),
    )


@attrs.frozen(kw_only=True, field_transformer=typed_fields)
class CopyCase:
    """One copy, and the kernel around it.

    Attributes:
        op: ``copy`` or ``copy_async``.
        dtype: element type.
        scope: ``thread``, ``warp``, ``warpgroup`` or ``cta``.
        threads: of each CTA.
        target: such as ``sm_90a``.
        dst, src: the operands.
        issued_by: ``all``: every group of threads of the scope copies its own box; ``one``: thread 0 alone does.
        blocks: CTAs.
        cluster: CTAs of a cluster.
        rank_offset: how many ranks further on, in the cluster, the destination lies.
        iterations: of the loop around the copy; 1 is none.
        n: value of the scalar argument.
        multiple_of: what the scalar is declared to be a multiple of.
        outside: what stands for source elements outside, or None.
        dynamic_shape: whether the sizes of global arrays are known at launch only.
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
        """Groups of threads of a CTA that copy a box each."""
        return 1 if self.issued_by == "one" else units_of(self.scope, self.threads)

    @property
    def cta_group(self) -> int:
        """How many CTAs one copy is for: of a pair the first issues it for both."""
        options: dict[str, Any] = dict(self.options)
        return int(options.get("cta_group", 1))

    @property
    def receivers(self) -> tuple[int, ...]:
        """The CTAs of a cluster that get what its first one copies; () where every CTA copies."""
        options: dict[str, Any] = dict(self.options)
        mask = options.get("multicast", 0)
        return tuple(rank for rank in range(self.cluster) if mask >> rank & 1)

    @property
    def rank_offsets(self) -> tuple[int, ...]:
        """How many ranks further on in the cluster a copy arrives, each time that it does."""
        return self.receivers or (self.rank_offset,)

    @property
    def spaces(self) -> tuple[str, str]:
        """Source and destination."""
        return self.src.space, self.dst.space

    @property
    def elem_bytes(self) -> int:
        """Bytes of an element."""
        return tc.dtype_of(self.dtype).bytes

    @property
    def count(self) -> int:
        """Elements of a box."""
        return prod(self.dst.extents)

    @property
    def variables(self) -> set[str]:
        """The variables that the starts depend on."""
        return {term.variable for side in (self.dst, self.src) for start in side.starts for term in start.terms}

    def values(self) -> list[dict[str, int]]:
        """The variables of every copy that is made, turn after turn."""
        return [
            {"block": block, "turn": turn, "unit": unit, "n": self.n}
            for turn in range(self.iterations)
            for block in range(0, self.blocks, self.cluster if self.receivers else 1)
            for unit in range(self.units)
        ]

    def to_json(self) -> str:
        """One line, from which :meth:`from_json` makes the same."""
        return _one_line(attrs.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CopyCase:
        """The case of a line.

        Raises:
            RequestError: it is not a line that :meth:`to_json` gives.
        """
        TEXT.check(text, "CopyCase.from_json", "text")
        try:
            data = json.loads(text)
            case = msgspec.convert(data, cls)
            if _one_line({**attrs.asdict(case), **data}) != case.to_json():
                raise ValueError("it has fields that no case has")
        except Exception as error:
            raise tc.RequestError(
                f"CopyCase.from_json: text {short_repr(text)} is not what to_json gives: {type(error).__name__}: {error}"
            ) from error
        return case

    @property
    def key(self) -> str:
        """A short name; two cases that differ have two."""
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
                (self.cluster, "of them a cluster"),
                (self.iterations, "iterations"),
                (self.units, "groups of threads"),
            )
            if value > 1
        ]
        if "n" in self.variables:
            around.append(f"n = {self.n}, declared a multiple of {self.multiple_of}")
        if self.dynamic_shape:
            around.append("sizes known at launch")
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
