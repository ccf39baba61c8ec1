"""The space of copies that are drawn for a variant, and where choices come from: seeds, which are quick, or Hypothesis, which shrinks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import attrs
import tilecopy as tc

from tilecopy_core.errors import checked, one_of, tuple_of

from .copy_case import CASE, CopyCase
from .validators import DTYPES as DTYPES_ASKED
from .validators import MAYBE_FUNCTION, PAIR, SPACES, TARGETS, VARIANT

T = TypeVar("T")

DTYPES = (
    "float16", "float32", "uint8", "bfloat16", "float64", "int8", "bool", "float8_e4m3fn", "float8_e5m2",
    "int16", "uint16", "int32", "uint32", "int64", "uint64", "complex64", "complex128",
)  # fmt: skip
"""Element types that are drawn unless others are asked for."""


class Draw(Protocol):
    """Where choices come from."""

    def choose(self, options: Sequence[T]) -> T:
        """One of some; the first is the simplest."""


class Seeded:
    """Choices that follow from a seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def choose(self, options: Sequence[T]) -> T:
        """One of some."""
        return options[int(self._random.random() * len(options))]


def shuffle(draw: Draw, items: Sequence[T]) -> list[T]:
    """All of some in a drawn order; the given one is the simplest."""
    remaining, order = list(items), []
    while remaining:
        order.append(remaining.pop(draw.choose(range(len(remaining)))))
    return order


@attrs.frozen
class CaseSpace:
    """What is drawn for a variant.

    Attributes:
        variant: its record.
        spaces: ``(source, destination)`` pairs.
        dtypes: element types.
        targets: architectures.
        author_draw: draws cases of the author's, or None where a draw has none; most draws are its.
    """

    variant: tc.Variant = attrs.field(validator=VARIANT)
    spaces: tuple[tuple[str, str], ...] = attrs.field(validator=tuple_of(PAIR))
    dtypes: tuple[str, ...] = attrs.field(validator=tuple_of(one_of(*tc.DTYPES)))
    targets: tuple[str, ...] = attrs.field(validator=tuple_of(one_of(*tc.TARGETS)))
    author_draw: Callable[[Draw, CaseSpace], CopyCase | None] | None = attrs.field(
        default=None, validator=MAYBE_FUNCTION
    )

    @classmethod
    @checked(variant=VARIANT, spaces=SPACES, dtypes=DTYPES_ASKED, targets=TARGETS, author_draw=MAYBE_FUNCTION)
    def of(
        cls,
        variant: tc.Variant,
        spaces: Sequence[tuple[str, str]] | None = None,
        dtypes: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        author_draw: Callable[[Draw, CaseSpace], CopyCase | None] | None = None,
    ) -> CaseSpace:
        """What a record claims, or the part of it that is asked for."""
        claimed = variant.targets
        if any("tmem" in pair for pair in variant.spaces):
            claimed = tuple(t for t in claimed if tc.target_of(t).suffix and tc.target_of(t).arch < 120)
        return cls(
            variant,
            tuple((source, destination) for source, destination in spaces or variant.spaces),
            tuple(dtypes or DTYPES),
            tuple(targets or claimed),
            author_draw,
        )

    @checked(case=CASE)
    def have(self, case: CopyCase) -> bool:
        """Whether a case is one of these."""
        return (
            case.op == self.variant.op
            and case.spaces in self.spaces
            and case.dtype in self.dtypes
            and case.target in self.targets
        )


def finish(draw: Draw, case_space: CaseSpace, counts: dict[str, int], **parts: Any) -> CopyCase:
    """Return a case of these parts for a target that is drawn."""
    return CopyCase(
        op=case_space.variant.op,
        target=draw.choose(case_space.targets),
        blocks=counts["block"],
        iterations=counts["turn"],
        n=counts["n"] * counts["multiple_of"],
        multiple_of=counts["multiple_of"],
        **parts,
    )


def scopes_of(case_space: CaseSpace, scopes: list[str]) -> list[str]:
    """Return the scopes to draw: what completes by groups of wgmma is a warpgroup's (PTX ISA, "wgmma.commit_group")."""
    return ["warpgroup"] if case_space.variant.completion == "wgmma_group" else scopes


def swizzle_parts(mode: str | None, dtype: str) -> tuple[int, int, int]:
    """Return the three lengths of the swizzle of a mode."""
    swizzle = tc.swizzle(mode or "none", dtype)
    return swizzle.per_element, swizzle.swizzle_len, swizzle.atom_len
