"""What is told of a copy that is right and absurd: too many instructions of one thread, too many registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import attrs

from ..description.request import CopyRequest, Variant
from ..errors import attribute, integer
from ..layout import TileLayout, m

MOST_INSTRUCTIONS = 128
"""Instructions of a copy by one thread; past that a variant that is made for one thread is named."""
MOST_REGISTERS = 255
"""32-bit registers that a thread can have on every architecture; ptxas spills the rest to local memory."""
_AXES = {"warp": "laneid", "warpgroup": "tid_in_wg", "cta": "tx"}

NoteKind: TypeAlias = Literal["instructions", "registers", "option"]


@attrs.frozen
class Note:
    """Why a plan is likely a mistake, and what to do; or what was left out of the request.

    Attributes:
        kind: ``instructions`` or ``registers``: of which a thread needs too many; ``option``: one was left out, which is no mistake.
        text: one line for a person to read.
        other: the variant that is named instead, or "".
    """

    kind: NoteKind
    text: str
    other: str = ""


def past(most: int, partition: Any, what: str) -> int:
    """What a partition says that a thread needs of something, where that is more than the most; else 0."""
    count = integer(attribute(partition, what)) or 0
    return count if count > most else 0


def of_instructions(count: int, chosen: str, other: Variant, lacks: Sequence[str]) -> Note:
    """That another variant, which is made for one thread, accepts the copy or lacks only some options.

    Args:
        count: instructions that the one thread issues.
        chosen: name of the variant that was chosen.
        other: record of the other.
        lacks: names of the options that it requires and was not given.
    """
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


def of_registers(count: int, request: CopyRequest) -> Note:
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
        f"fragment {buffer.name}: {count:,} registers of each thread, which has {MOST_REGISTERS} at most; the rest goes to local "
        f"memory; {remedy}",
    )
