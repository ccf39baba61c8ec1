"""Whether a decline was needed: drawn copies that a variant declined although another variant of the op takes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs
import tilecopy as tc

from tilecopy_core.plugin import checked, instance_of, integer_in

from .description import Description
from .drawing import seeded
from .rules import Meaningless, partition_of, request_of
from .subject import Subject

_NAMED = re.compile(r"\[[^]]*\]|\([^()]*\)|\d+")
"""What differs between two copies that are declined for one reason: places and numbers."""


@attrs.frozen
class Declined:
    """Copies that were declined for one reason.

    Attributes:
        reason: what the variant said of the first of them.
        count: how many there are.
        takers: other variants that take the first.
        example: the first, the smallest by what it moves.
    """

    reason: str
    count: int
    takers: tuple[str, ...]
    example: Description

    def __str__(self) -> str:
        return f"{self.count} that {', '.join(self.takers)} took: {self.reason}\n    {self.example.to_json()}"


@checked(subject=instance_of("a Subject", Subject), count=integer_in(0, 10**7))
def declined_alone(subject: Subject, count: int = 300, others: Iterable[Subject] | None = None) -> list[Declined]:
    """Drawn copies that the variant declined and another one took, by reason, the most frequent first.

    Args:
        subject: the variant.
        count: copies to draw.
        others: variants to hold it against; by default every installed one of the same op.
    """
    others = _of_the_same_op(subject) if others is None else list(others)
    found: dict[str, list[tuple[str, tuple[str, ...], Description]]] = {}
    for number in range(count):
        description = seeded(subject.ranges, f"declines {number}")
        reason = _reason(subject, description)
        takers = tuple(other.name for other in others if _takes(other, description)) if reason else ()
        if takers:
            found.setdefault(_NAMED.sub("#", reason), []).append((reason, takers, description))
    told = []
    for alike in found.values():
        reason, takers, example = min(alike, key=lambda each: (each[2].count * each[2].blocks, each[2].key))
        told.append(Declined(reason, len(alike), takers, example))
    return sorted(told, key=lambda each: -each.count)


def _of_the_same_op(subject: Subject) -> list[Subject]:
    plugins = tc.default_registry().plugins()
    records = [(p.name, p.variant) for p in plugins if p.variant is not None and p.name != subject.name]
    return [Subject.of(name) for name, record in records if record.op == subject.record.op]


def _reason(subject: Subject, description: Description) -> str:
    """Why the variant declines a copy, or "" where it takes it or is not asked."""
    try:
        _, request = request_of(subject, description)
    except Meaningless:
        return ""
    call, plugin = subject.registry.call, subject.registered
    verdict = call(plugin, "tilecopy_predicate", request=request)
    if isinstance(verdict, tc.Accept):
        verdict = call(plugin, "tilecopy_partition", request=request)
    return verdict.reason if isinstance(verdict, tc.Decline) else ""


def _takes(subject: Subject, description: Description) -> bool:
    try:
        _, request = request_of(subject, description)
    except Meaningless:
        return False
    return partition_of(subject, request) is not None
