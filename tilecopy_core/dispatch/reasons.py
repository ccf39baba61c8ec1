"""The reasons why variants were not chosen, and the error for a copy that no variant lowers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..description.request import OPS, RESERVED, CopyRequest
from ..errors import NoVariantError, UnknownOptionError, did_you_mean, short_repr
from ..errors.attrs_classes import frozen
from ..registry.distributions import distributions
from ..registry.installable import KNOWN_GROUP, known_variants
from ..registry.lazy_names import KNOWN

if TYPE_CHECKING:
    from ..registry.registry import Table

OutcomeKind: TypeAlias = Literal[
    "declined", "lacks option", "faulty", "outranked", "tied", "other op", "other memory", "not asked", "set aside"
]


@frozen
class Outcome:
    """A frozen record of why one variant was not chosen. ``reason`` is a human-readable string.

    Attributes:
        name: the variant's name, with its distribution if another plugin has the same name.
        kind: ``declined``: its record or a hook declined; ``lacks option``: a required option was not given; ``faulty``:
            its hook failed; ``outranked`` or ``tied``: it accepts, but a variant with a higher priority or an earlier
            name was chosen; ``other op`` or ``other memory``: it lowers other copies; ``not asked``: another variant was
            demanded; ``set aside``: it could not be loaded.
        lacks: the names of the required options that were not given.
        priority: the variant's priority if it accepts; ``priority_origin`` is what set it, "" for the variant itself.
        nearness: how far it came: 0 its record excludes such copies, 1 its record excludes the threads or options,
            2 its predicate declines, 3 its partition declines or only an option is missing.
    """

    name: str
    kind: OutcomeKind
    reason: str
    lacks: tuple[str, ...] = ()
    priority: int | None = None
    nearness: int = 0
    priority_origin: str = ""


_FAR = {"other op": "only for {}", "other memory": "only for other memory pairs", "not asked": "not asked"}
"""Kinds of outcomes that are listed together, and the text for each; ``{}`` is the other ops."""


def by_kind(outcomes: Iterable[Outcome], op: str) -> dict[str, list[Outcome]]:
    """Return a dict from reasons to the outcomes, by name, of variants that lower other copies or were not asked."""
    others = ", ".join(other_op for other_op in OPS if other_op != op)
    by_name = sorted(outcomes, key=lambda outcome: outcome.name)
    outcomes_by_kind = {why: [outcome for outcome in by_name if outcome.kind == kind] for kind, why in _FAR.items()}
    return {why.format(others): group for why, group in outcomes_by_kind.items() if group}


def by_reason(outcomes: Iterable[Outcome]) -> list[tuple[str, str]]:
    """Return the different reasons of outcomes in order, each with the names of its variants, separated by commas."""
    names: dict[str, list[str]] = {}
    for outcome in outcomes:
        names.setdefault(outcome.reason, []).append(outcome.name)
    return [(reason, ", ".join(group)) for reason, group in names.items()]


def no_variant(
    request: CopyRequest, demanded: tuple[str, ...], outcomes: list[Outcome], table: Table, all_ops: Callable[[], Table]
) -> NoVariantError:
    """Return the error for a copy that no variant lowers. The message has each variant's reason and what to install."""
    declined = {outcome.name: outcome.reason for outcome in outcomes}
    none = "no installed variant can lower this copy" if outcomes else "no variant for this copy is installed"
    who = f"variant {' or '.join(map(short_repr, demanded))} cannot lower this copy" if demanded else none
    unknown = _unknown_option(request, demanded, table, all_ops)
    first_party = known_variants()
    near = [o for o in outcomes if (o.name.split(" (")[0] in demanded if demanded else o.kind not in _FAR)]
    place = {name: at - len(demanded) for at, name in enumerate(demanded)}
    nearest_first = sorted(near, key=lambda o: (place.get(o.name, 0), -o.nearness))
    lines = [f"{names}: {reason}" for reason, names in by_reason(nearest_first)]
    unknown_names = [name for name in demanded if table.plugin_named(name) is None and name not in first_party]
    if unknown:
        lines.insert(0, unknown)
    elif unknown_names:
        absent = sorted({*first_party} - {*declined})
        meant = did_you_mean(unknown_names[0], [*declined, *absent])
        known = f"{' Installed' if meant else '; installed'}: {', '.join(sorted(declined)) or 'none'}"
        known += f"; not installed: {', '.join(absent)}" if absent else ""
        lines, outcomes = [f"no variant is named {short_repr(unknown_names[0])}{meant}{known}"], []
    for name, other in first_party.items():
        fits = other.op == request.op and request.spaces in other.spaces and other.edges >= request.may_exceed_bounds
        if name not in declined and (name in demanded or (not demanded and fits)):
            does = "may lower this copy, but it" if other.op == request.op else f"lowers only {other.op}, and it"
            lines.append(f"{name}: the variant {does} is not installed: {other.install}")
    lines.insert(1, f"{who}: {request}")
    if not first_party and (unknown_names or not demanded):
        lines.append(_missing_metadata() or KNOWN)
    for why, (first, *more) in by_kind(outcomes, request.op).items() if not demanded else ():
        together = ", ".join(outcome.name for outcome in (first, *more))
        lines.append(f"{why}: {together}" if more else f"{first.name}: {first.reason}")
    kind = UnknownOptionError if unknown else NoVariantError
    return kind("\n  ".join(lines), declined)


def _missing_metadata() -> str:
    """Return a message if tilecopy is imported but the metadata of its packages are missing, else ""."""
    if ("tilecopy" in sys.modules or getattr(sys, "frozen", False)) and not distributions(declaring=KNOWN_GROUP):
        return (
            "no variant was found: the folders tilecopy*.dist-info (package metadata) must be on sys.path; "
            'bundle them into the program (see "Frozen programs" in docs/packages.md)'
        )
    return ""


def _unknown_option(request: CopyRequest, demanded: tuple[str, ...], table: Table, all_ops: Callable[[], Table]) -> str:
    """Return a message about an option that no installed variant of the op takes, or ""."""
    op, named = request.op, [table.plugin_named(name) for name in demanded]
    if demanded and not any(plugin is not None and plugin.is_variant for plugin in named):
        return ""
    takers = _takers(table, op)
    unknown = next((name for name in request.options if name not in takers), None)
    if unknown is None:
        return ""
    (other_op,) = set(OPS) - {op}
    others = _takers(all_ops(), other_op).get(unknown, set())
    if others.intersection(demanded):  # the op is wrong, not the option
        return ""
    taken = ", ".join(f"{name} ({', '.join(sorted(who))})" for name, who in sorted(takers.items())) or "none"
    elsewhere = f"; {other_op} takes it ({', '.join(sorted(others))})"
    hint = elsewhere if others else did_you_mean(unknown, RESERVED.union(takers))
    return f"no installed variant for {op} takes option {unknown!r}; the options of {op} are {taken}{hint}"


def _takers(table: Table, op: str) -> dict[str, set[str]]:
    """Return a dict from the options of an op to the names of the variants that take them."""
    takers: dict[str, set[str]] = {}
    for plugin in table.plugins:
        for option in plugin.variant.options if plugin.variant and plugin.variant.op == op else ():
            takers.setdefault(option.name, set()).add(plugin.name)
    return takers
