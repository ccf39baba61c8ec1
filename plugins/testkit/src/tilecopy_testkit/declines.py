"""Checks of declined copies: does the variant accept another notation, or does another variant accept the copy?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import attrs
import tilecopy as tc

from tilecopy_core.errors import checked, integer_in

from .copy_case import AffineStart, CopyCase, Operand, stack
from .counterexample import Counterexample
from .properties import partition_of, request_of, verdict
from .random_cases import case_of_seed
from .variant_under_test import SUBJECT, VariantUnderTest

__tracebackhide__ = True  # a failure shows the counterexample and the lines of the variant, not those of the kit
_NAMED = re.compile(r"\[[^]]*\]|\([^()]*\)|\d+")
"""The parts of a reason to decline that differ from copy to copy: places and numbers."""

NOTATION = "if a variant accepts a copy, it must accept every notation of the copy's layouts"


def equivalent_layouts_agree(subject: VariantUnderTest, case: CopyCase) -> bool:
    """If the variant accepts a copy, check that it accepts all :data:`NOTATIONS` of the copy, and return True."""
    case = attrs.evolve(case, dynamic_shape=False)  # only some notations can have sizes known at launch
    if any(_overhangs_one(operand) for operand in (case.dst, case.src)):
        return False  # other notations lose the stride of such a dimension
    if verdict(subject, case) != "":
        return False
    for name, notation in NOTATIONS.items():
        if notation is _box_alone and case.outside is not None:
            continue
        same = attrs.evolve(case, dst=notation(case.dst), src=notation(case.src))
        if reason := verdict(subject, same):
            layouts = f"from {case.src.layout} to {case.dst.layout}"
            raise Counterexample(
                NOTATION, f"the variant accepts the copy {layouts}, but declines the copy if {name}: {reason}", same
            )
    return True


def _overhangs_one(operand: Operand) -> bool:
    """Return True if the box may exceed a dimension of extent 1."""
    dims = zip(operand.shape, operand.extents, operand.starts, strict=True)
    return any(size == 1 and (extent > 1 or start != AffineStart(0)) for size, extent, start in dims)


def _fuse(operand: Operand) -> Operand:
    iters = list[tuple[int, int, str]]()
    for extent, stride, axis in operand.iters:
        if iters and iters[-1][1:] == (extent * stride, axis) and min(iters[-1][0], extent) > 1:
            iters[-1] = (iters[-1][0] * extent, stride, axis)
        else:
            iters.append((extent, stride, axis))
    return attrs.evolve(operand, iters=tuple(iters))


def _split(operand: Operand) -> Operand:
    iters = list[tuple[int, int, str]]()
    for extent, stride, axis in operand.iters:
        inner = next((factor for factor in (2, 3, 5) if extent % factor == 0 and extent > factor), 1)
        iters += (
            [(extent // inner, stride * inner, axis), (inner, stride, axis)] if inner > 1 else [(extent, stride, axis)]
        )
    return attrs.evolve(operand, iters=tuple(iters))


def _box_alone(operand: Operand) -> Operand:
    """Return the box as a buffer of its own, or the operand if its start varies or its box has no layout."""
    if operand.extents == operand.shape or any(start.terms for start in operand.starts):
        return operand
    layout = operand.layout.slice(operand.shape, operand.box({}))
    if layout is None:
        return operand
    shard, replica = (
        tuple((it.extent, int(it.stride), it.axis.name) for it in part) for part in (layout.shard, layout.replica)
    )
    offset = {axis.name: int(layout.offset_on(axis)) for axis in layout.axes}
    storage_offset = operand.storage_offset
    if operand.space in ("global", "shared") and operand.swizzle is None:  # a buffer that begins there
        storage_offset += offset.pop("m", 0)
    return attrs.evolve(
        operand,
        shape=operand.extents,
        starts=(AffineStart(0),) * len(operand.shape),
        iters=shard or ((1, 1, "m"),),
        replica=replica,
        offset=tuple(offset.items()),
        storage_offset=storage_offset,
    )


NOTATIONS: Mapping[str, Callable[[Operand], Operand]] = {
    "contiguous iters are fused": _fuse,
    "iters are split into factors": _split,
    "iters of extent 1 are added before and after the other iters": lambda operand: attrs.evolve(
        operand, iters=((1, 1, "m"), *operand.iters, (1, 7, "m"))
    ),
    "a first dimension of extent 1 is added": lambda operand: stack(operand, 1, 1),
    "the box is a whole buffer": _box_alone,
}
"""A description -> a function that returns an operand in another notation, in which each element has the same place."""


@attrs.frozen
class Declined:
    """A record of ``count`` copies that a variant declines for a reason. Variants ``takers`` accept the smallest copy."""

    reason: str
    count: int
    takers: tuple[str, ...]
    example: CopyCase

    def __str__(self) -> str:
        return f"{self.count} accepted by {', '.join(self.takers)}: {self.reason}\n    {self.example.to_json()}"


@checked(subject=SUBJECT, count=integer_in(0, 10**7))
def declined_alone(
    subject: VariantUnderTest, count: int = 300, others: Iterable[VariantUnderTest] | None = None
) -> list[Declined]:
    """Return drawn copies that the variant declined and another variant accepted, most frequent reason first.

    Args:
        subject: the variant.
        count: the number of copies to draw.
        others: variants to compare with; by default every installed one of the same op.
    """
    if others is None:
        records = [plugin.variant for plugin in tc.default_registry().plugins() if plugin.variant is not None]
        names = [record.name for record in records if record.op == subject.record.op]
        others = map(VariantUnderTest.of, names)
    others = [other for other in others if other.name != subject.name]
    by_reason: dict[str, list[Declined]] = {}

    def smallest(declined: Declined) -> tuple[int, str]:
        return declined.example.count * declined.example.blocks, declined.example.key

    for number in range(count):
        case = case_of_seed(subject.case_space, f"declines {number}")
        reason = verdict(subject, case)
        takers = tuple(other.name for other in others if _takes(other, case)) if reason else ()
        if reason and takers:
            by_reason.setdefault(_NAMED.sub("#", reason), []).append(Declined(reason, 1, takers, case))
    declines = [attrs.evolve(min(alike, key=smallest), count=len(alike)) for alike in by_reason.values()]
    return sorted(declines, key=lambda declined: -declined.count)


def _takes(subject: VariantUnderTest, case: CopyCase) -> bool:
    asked = request_of(subject, case)
    return asked is not None and partition_of(subject, asked[1]) is not None
