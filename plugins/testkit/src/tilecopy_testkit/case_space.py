"""The set of copies that can be drawn for a variant, and the sources of random choices."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol, TypeVar

import attrs
import tilecopy as tc

from tilecopy_core.errors import checked

from .copy_case import CASE, CopyCase
from .validators import MAYBE_FUNCTION, MEMORIES, VARIANT, NotEmpty, name_of, typed_fields

T = TypeVar("T")

DTYPES = (
    "float16", "float32", "uint8", "bfloat16", "float64", "int8", "bool", "float8_e4m3fn", "float8_e5m2",
    "int16", "uint16", "int32", "uint32", "int64", "uint64", "complex64", "complex128",
)  # fmt: skip
"""The element types to draw by default."""


class Draw(Protocol):
    """The interface of a source of random choices."""

    def choose(self, options: Sequence[T]) -> T:
        """Return one of the options. Shrinking prefers the first option."""


class Seeded:
    """A source of random choices that a seed determines."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def choose(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[int(self._random.random() * len(options))]


def shuffle(draw: Draw, items: Sequence[T]) -> list[T]:
    """Return items in a random order. Shrinking prefers the order of ``items``."""
    remaining, order = list(items), []
    while remaining:
        order.append(remaining.pop(draw.choose(range(len(remaining)))))
    return order


Memory = Annotated[str, name_of(*MEMORIES)]


@attrs.frozen(field_transformer=typed_fields)
class CaseSpace:
    """A frozen record of the copies that can be drawn for a variant.

    Attributes:
        variant: the variant's record.
        spaces: ``(source, destination)`` pairs.
        dtypes: element types.
        targets: architectures.
        author_draw: a function of the variant's author that draws a case, or returns None. It makes most draws.
    """

    variant: tc.Variant = attrs.field(validator=VARIANT)
    spaces: Annotated[tuple[tuple[Memory, Memory], ...], NotEmpty]
    dtypes: Annotated[tuple[Annotated[str, name_of(*tc.DTYPES)], ...], NotEmpty]
    targets: Annotated[tuple[Annotated[str, name_of(*tc.TARGETS)], ...], NotEmpty]
    author_draw: Callable[[Draw, Any], CopyCase | None] | None = attrs.field(default=None, validator=MAYBE_FUNCTION)

    @classmethod
    @checked(variant=VARIANT)
    def of(
        cls,
        variant: tc.Variant,
        spaces: Sequence[tuple[str, str]] | None = None,
        dtypes: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        author_draw: Callable[[Draw, CaseSpace], CopyCase | None] | None = None,
    ) -> CaseSpace:
        """Return the case space of a variant's record, restricted to the given spaces, dtypes and targets."""
        claimed = variant.targets
        if any("tmem" in pair for pair in variant.spaces):
            claimed = tuple(t for t in claimed if tc.target_of(t).suffix and tc.target_of(t).arch < 120)
        parts: dict[str, Any] = {
            "spaces": variant.spaces if spaces is None else spaces,
            "dtypes": DTYPES if dtypes is None else dtypes,
            "targets": claimed if targets is None else targets,
        }
        return cls(variant, author_draw=author_draw, **parts)

    @checked(case=CASE)
    def have(self, case: CopyCase) -> bool:
        """Return True if a test case is in this case space."""
        return (
            case.op == self.variant.op
            and case.spaces in self.spaces
            and case.dtype in self.dtypes
            and case.target in self.targets
        )


def finish(draw: Draw, case_space: CaseSpace, counts: dict[str, int], **parts: Any) -> CopyCase:
    """Return a test case with the given fields and a random target."""
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
    """Return the scopes to draw: only ``warpgroup`` for a copy that completes with wgmma.commit_group, else all."""
    return ["warpgroup"] if case_space.variant.completion == "wgmma_group" else scopes


def swizzle_parts(mode: str | None, dtype: str) -> tuple[int, int, int]:
    """Return ``per_element``, ``swizzle_len`` and ``atom_len`` of a hardware swizzle mode such as ``128B``."""
    swizzle = tc.swizzle(mode or "none", dtype)
    return swizzle.per_element, swizzle.swizzle_len, swizzle.atom_len
