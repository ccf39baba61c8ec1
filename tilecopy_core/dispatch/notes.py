"""Notes of a plan: what of it is likely a mistake, and what was left out of the request."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from ..description.request import CopyRequest, Decline, Variant
from ..errors import attribute, integer
from ..errors.records import frozen
from ..layout import TileLayout, m
from .reasons import Outcome

if TYPE_CHECKING:
    from ..registry import Registry

_MOST_INSTRUCTIONS = 128
"""Instructions of a copy by one thread; past that a variant that is made for one thread is named."""
_AXES = {"warp": "laneid", "warpgroup": "tid_in_wg", "cta": "tx"}


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
