"""Forms of opcodes: the modifiers and types that an opcode may have, and the function that computes the results.

A form is written as in the PTX ISA: ``add{.rn,.rz,.rm,.rp}{.ftz}{.sat}``, with separate types. Groups in braces are
optional, groups in parentheses are required, and the order is free (as for ptxas). An opcode that matches no form
is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import attrs

from ..argument_checks import demand

TYPES = frozenset(
    {f"{kind}{bits}" for kind in "bsu" for bits in (8, 16, 32, 64)}
    | {f"{element}x{count}" for element in ("e4m3", "e5m2", "e2m1") for count in (2, 4)}
    | {"b128", "b4", "f16", "f16x2", "f32", "f32x2", "f64", "bf16", "bf16x2", "tf32", "u16x2", "s16x2", "pred"}
    | {"u4", "s4", "u2", "s2", "e2m3x2", "e3m2x2", "ue8m0x2", "u8x4", "s8x4"}
)
"""The parts of an opcode that are types; all others are modifiers."""

_ROLES = TYPES | {"t", "t0", "w", "cc"}
"""The roles of an operand, without marks."""

_NAMED = {
    "rnd": ("rn", "rz", "rm", "rp"),
    "cmp": ("eq", "ne", "lt", "le", "gt", "ge"),
    "ucmp": ("lo", "ls", "hi", "hs"),
    "fcmp": ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"),
    "bool": ("and", "or", "xor"),
}


class UndefinedResultError(Exception):
    """Raised if an operation has no defined result in some lanes. The emulator reports a hazard.

    Attributes:
        message: what happened.
        lanes: True for lanes without a result.
    """

    def __init__(self, message: str, lanes: Any) -> None:
        super().__init__(message)
        self.message, self.lanes = message, lanes


@attrs.frozen
class Mode:
    """The modifiers and types of one instruction."""

    types: tuple[str, ...]
    modifiers: frozenset[str]

    @property
    def type(self) -> str:
        """The last type in the opcode. Most instructions compute in this type."""
        return self.types[-1]

    def has(self, modifier: str) -> bool:
        """Return True if the instruction has this modifier."""
        return modifier in self.modifiers

    def one_of(self, *names: str, default: str = "") -> str:
        """Return the first of ``names`` that is a modifier of the instruction, or ``default`` if none is."""
        return next((name for name in names if name in self.modifiers), default)

    @property
    def direction(self) -> str:
        """The rounding mode. The default is ``rn``: to nearest even."""
        return self.one_of("rz", "rm", "rp", "rna", default="rn")


Compute = Callable[..., Any]
"""A function from unsigned bits (one array per operand) to unsigned bits, or to a tuple of them for several results."""


@attrs.frozen(eq=False)
class Form:
    """A form of an opcode: the valid modifiers, types and operands, and the function that computes the results.

    Attributes:
        name: the opcode.
        groups: ``(choices, required)`` of each group of modifiers.
        types: the valid combinations of types.
        results: role of each result: a type, or ``t`` (the last type), ``t0`` (the first), ``w`` (twice the last),
            ``cc`` (the carry flag, which is implicit); a role with ``?`` is optional.
        sources: roles of the operands; a role with ``!`` must be a constant, one with ``*`` is a vector of four.
        build: a function from the mode to the computation.
        approximate: the ISA gives an error bound instead of bits; the last bits may differ from a GPU's.
    """

    name: str
    groups: tuple[tuple[tuple[str, ...], bool], ...]
    types: frozenset[tuple[str, ...]]
    results: tuple[str, ...]
    sources: tuple[str, ...]
    build: Callable[[Mode], Compute]
    approximate: bool = False

    def match(self, types: tuple[str, ...], modifiers: tuple[str, ...]) -> Mode | None:
        """Return the :class:`Mode` for types and modifiers. Return None if the form does not allow them."""
        if types not in self.types or len(set(modifiers)) != len(modifiers):
            return None
        remaining = list(modifiers)
        for choices, required in self.groups:
            matches = [part for part in remaining if part in choices]
            if len(matches) > 1 or (required and not matches):
                return None
            for part in matches:
                remaining.remove(part)
        return Mode(types, frozenset(modifiers)) if not remaining else None

    def spellings(self) -> Iterable[str]:
        """Yield every opcode of this form, with the modifiers in the order of the PTX ISA."""
        options = [choices if required else ("", *choices) for choices, required in self.groups]
        for types in sorted(self.types):
            for parts in product(*options):
                yield ".".join(part for part in (self.name, *parts, *types) if part)

    def type_of(self, operand: str, mode: Mode) -> str:
        """Return the PTX type of an operand from its role. For example, role ``t`` is the last type in the opcode."""
        role = operand.rstrip("?!*")
        if role == "t":
            return mode.types[-1]
        if role == "t0":
            return mode.types[0]
        if role == "w":
            return f"{mode.type[0]}{int(mode.type[1:]) * 2}"
        return role


_GROUP = re.compile(r"\{([^}]*)\}|\(([^)]*)\)|\.([\w:]+)")


def form(pattern: str, types: str, roles: str, build: Callable[[Mode], Compute], *, approximate: bool = False) -> Form:
    """Return the :class:`Form` that ``pattern``, ``types`` and ``roles`` describe.

    Args:
        pattern: the opcode and its modifiers, such as ``mul(.hi,.lo){.sat}``.
        types: combinations separated by blanks, with dots between types: ``"f16.f32 f32.f32"``.
        roles: ``"results = sources"``, such as ``"t = t t u32"``.
        build: see :class:`Form`.
        approximate: see :class:`Form`.
    """
    name = re.match(r"\w+", pattern)
    demand("form", "pattern", pattern, name is not None, "an opcode with modifiers, such as mul(.hi,.lo){.sat}")
    assert name is not None
    groups = []
    for optional, required, literal in _GROUP.findall(pattern[name.end() :]):
        text = optional or required or literal
        choices: list[str] = []
        for part in text.split(","):
            choices += _NAMED.get(part.strip(" ."), (part.strip(" ."),))
        groups.append((tuple(choices), not optional))
    combinations = frozenset(tuple(combination.split(".")) for combination in types.split())
    demand("form", "types", types, all(TYPES.issuperset(parts) for parts in combinations), "types such as u32 f32.f16")
    results, sources = (tuple(part.split()) for part in (roles.partition("=")[0], roles.partition("=")[2]))
    fits = all(role.rstrip("?") in _ROLES for role in results) and all(role.rstrip("?!*") in _ROLES for role in sources)
    demand("form", "roles", roles, fits, "t (last type), t0 (first type), w (twice as wide), cc or types such as u32")
    return Form(name[0], tuple(groups), combinations, results, sources, build, approximate)


def plain(compute: Compute) -> Callable[[Mode], Compute]:
    """Return a function that returns ``compute`` for every :class:`Mode`, because the operation is always the same."""
    return lambda mode: compute
