"""What a person is told: why variants were not chosen, that none lowers a copy, and what of a plan is likely a mistake."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..description.request import OPS, CopyRequest, Decline, Variant
from ..errors import NoVariantError, UnknownOptionError, attribute, did_you_mean, integer, shown
from ..errors.records import frozen
from ..layout import TileLayout, m
from ..registry.distributions import distributions
from ..registry.installable import KNOWN_GROUP, known_variants
from ..registry.lazy_names import KNOWN

if TYPE_CHECKING:
    from ..registry import Registry
    from ..registry.registry import Table

_MOST_INSTRUCTIONS = 128
"""Instructions of a copy by one thread; past that a variant that is made for one thread is named."""
_AXES = {"warp": "laneid", "warpgroup": "tid_in_wg", "cta": "tx"}

OutcomeKind: TypeAlias = Literal[
    "declined", "lacks option", "faulty", "outranked", "tied", "other op", "other memory", "not asked", "set aside"
]


@frozen
class Outcome:
    """Why one variant was not chosen; the reason is for a person to read.

    Attributes:
        name: of the variant; with its distribution where another plugin has the name.
        kind: ``declined`` by itself or for what its record declares; ``lacks option``: it would need one that was not
            given; ``faulty``: its hook failed; ``outranked`` or ``tied``: it accepts, and a higher priority or an
            earlier name was taken; ``other op`` or ``other memory``: of the copies that it lowers; ``not asked``: another was
            demanded; ``set aside``.
        lacks: names of the options that it would need.
        priority: that counts for the variant, where it accepts; ``priority_origin`` is what set it, "" for the variant itself.
        nearness: how far it came: 0 its record excludes such copies, 1 this one's threads or options; 2 its predicate declines, 3 its
            partition does, or it lacks but an option.
    """

    name: str
    kind: OutcomeKind
    reason: str
    lacks: tuple[str, ...] = ()
    priority: int | None = None
    nearness: int = 0
    priority_origin: str = ""


@frozen
class Note:
    """Why a plan is likely a mistake, and what to do; or what was left out of the request.

    The kind is ``instructions`` or ``registers``, of which a thread needs too many, or ``option``: one was left out, which is no
    mistake. The text is one line for a person to read; ``other`` is the variant that is named instead, or "".
    """

    kind: Literal["instructions", "registers", "option"]
    text: str
    other: str = ""


def _past(most: int, partition: Any, what: str) -> int:
    """What a partition says that a thread needs of something, where that is more than the most; else 0."""
    count = integer(attribute(partition, what)) or 0
    return count if count > most else 0


def _of_instructions(count: int, chosen: str, other: Variant, lacks: Sequence[str]) -> Note:
    """That ``other``, made for one thread, accepts the copy or ``lacks`` only these options; one thread issues ``count`` instructions."""
    if lacks:
        needed = ", ".join(f"{option.name}= ({option.meaning})" for option in other.options if option.name in lacks)
        remedy = f"it lacks only {needed}: try it with that"
    else:
        remedy = f"it accepts: ask for it by variant={other.name!r}"
    return Note(
        "instructions",
        f"one thread issues {count:,} instructions; variant {other.name} is made for one thread and may need far fewer; {remedy}; "
        f"its completion is {other.completion}; variant={chosen!r} says that this one is meant",
        other.name,
    )


def of_left_out(option: str, chosen: str) -> Note:
    """That the chosen variant does not take an option that was given, and may leave it out."""
    return Note("option", f"option {option} was left out: {chosen} does not take it, and the copy is right without it")


def _of_registers(count: int, request: CopyRequest) -> Note:
    """That a thread has no such number of registers, with the fragment of the copy that takes the most."""
    fragments = [region.buffer for region in (request.dst, request.src) if region.buffer.space == "local"]
    buffer = max(fragments, key=lambda each: attribute(each, "registers_per_thread") or 0)
    layout, kind, threads = buffer.memory.layout, request.scope.kind, request.scope.threads
    remedy = "copy a smaller tile at a time, or share it out over more threads"
    if kind != "thread" and isinstance(layout, TileLayout) and layout.axes == (m,):
        remedy = f"its layout names no thread axis, so each of {threads} threads holds all of it; give it one that shares it out"
        each, rest = divmod(layout.size, threads)
        remedy += "" if rest else f", such as layout=TileLayout(S[({threads}, {each}) : (1 @ {_AXES[kind]}, 1)])"
    return Note(
        "registers",
        f"fragment {buffer.name}: {count:,} registers of each thread, which has {request.most_registers} at most; the rest goes to "
        f"local memory; {remedy}",
    )


def _would(outcome: Outcome, request: CopyRequest, registry: Registry) -> tuple[int, Variant] | None:
    """Priority and record of a variant for one thread that takes a copy; without an option that it needs it may raise, and None is given."""
    plugin = registry.table().named(outcome.name) if outcome.lacks or outcome.priority is not None else None
    with suppress(Exception):
        if plugin and plugin.record.threads == "one":
            verdict = registry.call(plugin, "tilecopy_predicate", request=request)
            if verdict and not isinstance(registry.call(plugin, "tilecopy_partition", request=request), Decline | None):
                return registry.priority_of(plugin, verdict.priority).value, plugin.record
    return None


def of_choice(
    request: CopyRequest, chosen: str, partition: Any, outcomes: list[Outcome], registry: Registry
) -> tuple[Note, ...]:
    """What is likely a mistake; only where one thread issues too much are variants that were not chosen asked for more."""
    notes: list[Note] = []
    if request.scope.kind == "thread" and (count := _past(_MOST_INSTRUCTIONS, partition, "instructions_per_thread")):
        able = [(*found, o.lacks) for o in outcomes if (found := _would(o, request, registry))]
        for _, record, lacks in sorted(able, key=lambda each: (-each[0], each[1].name))[:1]:
            notes.append(_of_instructions(count, chosen, record, lacks))
    if "local" in request.spaces and (count := _past(request.most_registers, partition, "registers_per_thread")):
        notes.append(_of_registers(count, request))
    return tuple(notes)


_FAR = {"other op": "only for {}", "other memory": "only for other memory pairs", "not asked": "not asked"}
"""Kinds of outcomes that need no reason of their own, and what is said of them and the other ops."""


def folded(outcomes: Iterable[Outcome], op: str) -> dict[str, list[Outcome]]:
    """The variants that could not do a copy of an op whatever it is like, by why."""
    others = ", ".join(each for each in OPS if each != op)
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.kind in _FAR:
            found.setdefault(_FAR[outcome.kind].format(others), []).append(outcome)
    return found


def no_variant(
    request: CopyRequest, demanded: tuple[str, ...], outcomes: list[Outcome], table: Table
) -> NoVariantError:
    """The error that says why nobody lowers a copy, variant by variant, and what to install that might."""
    declined = {outcome.name: outcome.reason for outcome in outcomes}
    none = "no installed variant lowers" if outcomes else "no variant is installed, so none lowers"
    who = f"variant {' or '.join(map(shown, demanded))} does not lower" if demanded else none
    unknown = _unknown_option(request, demanded, table)
    first_party = known_variants()
    near = [o for o in outcomes if o.kind not in _FAR or o.name in demanded]
    place = {name: at - len(demanded) for at, name in enumerate(demanded)}
    lines = [f"{o.name}: {o.reason}" for o in sorted(near, key=lambda o: (place.get(o.name, 0), -o.nearness))]
    unknown_names = [name for name in demanded if table.named(name) is None and name not in first_party]
    if unknown:
        lines.insert(0, unknown)
    elif unknown_names:
        absent = sorted({*first_party} - {*declined})
        meant = did_you_mean(unknown_names[0], [*declined, *absent])
        known = f"{' Installed' if meant else '; installed'}: {', '.join(sorted(declined)) or 'none'}"
        known += f"; not installed: {', '.join(absent)}" if absent else ""
        lines, outcomes = [f"no variant is called {shown(unknown_names[0])}{meant}{known}"], []
    for name, other in first_party.items():
        fits = other.op == request.op and request.spaces in other.spaces and other.edges >= request.overhangs
        if name not in declined and (name in demanded or (not demanded and fits)):
            lines.append(f"{name}: not installed; it takes such copies: {other.install}")
    lines.insert(1, f"{who} this copy: {request}")
    if not first_party and (unknown_names or not demanded):
        lines.append(_unbundled() or f"others that could be installed are not known here: {KNOWN}")
    for why, (first, *more) in folded(outcomes, request.op).items() if not demanded else ():
        together = ", ".join(outcome.name for outcome in (first, *more))
        lines.append(f"{why}: {together}" if more else f"{first.name}: {first.reason}")
    kind = UnknownOptionError if unknown else NoVariantError
    return kind("\n  ".join(lines), declined)


def _unbundled() -> str:
    """Return what to do if tilecopy is imported and the metadata of its packages are not there, or ""."""
    if ("tilecopy" in sys.modules or getattr(sys, "frozen", False)) and not distributions(declaring=KNOWN_GROUP):
        return (
            "tilecopy is imported, but its metadata (the folders tilecopy*.dist-info) are not on sys.path, so no variant is "
            "found: bundle them into the program (docs/packages.md, Frozen programs)"
        )
    return ""


def _unknown_option(request: CopyRequest, demanded: tuple[str, ...], table: Table) -> str:
    """The sentence about an option that no variant of the op takes, installed or first-party, or ""."""
    op, named = request.op, [table.named(name) for name in demanded]
    if demanded and not any(plugin is not None and plugin.variant is not None for plugin in named):
        return ""
    takers: dict[str, set[str]] = {}
    installed = [(p.name, p.variant.op, [o.name for o in p.variant.options]) for p in table.plugins if p.variant]
    for name, lowers, options in (*installed, *((n, known.op, known.options) for n, known in known_variants().items())):
        for option in options if lowers == op else ():
            takers.setdefault(option, set()).add(name)
    for given in request.options:
        if given not in takers:
            taken = ", ".join(f"{name} ({', '.join(sorted(who))})" for name, who in sorted(takers.items())) or "none"
            near = did_you_mean(given, takers)
            return f"option {given!r} is not known to any variant of {op}; they take {taken}{near}"
    return ""
