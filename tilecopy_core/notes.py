"""What is told of a copy that is right and absurd: too many instructions of one thread, too many registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import attrs

from .errors import LayoutError, attribute, integer
from .layout import m
from .request import CopyRequest, Variant

MOST_INSTRUCTIONS = 128
"""Instructions of a copy by one thread past which a variant that is made for one thread is named."""
MOST_REGISTERS = 255
"""32-bit registers that a thread can have on every architecture; ptxas spills the rest to local memory."""
_AXES = {"warp": "laneid", "warpgroup": "tid_in_wg", "cta": "tx"}

NoteKind: TypeAlias = Literal["instructions", "registers"]


@attrs.frozen
class Note:
    """Why a plan is likely a mistake, and what to do.

    Attributes:
        kind: ``instructions`` or ``registers``: of which a thread needs too many.
        text: one line for a person to read.
    """

    kind: NoteKind
    text: str


def issued_by_one_thread(request: CopyRequest, partition: Any) -> int:
    """The instructions of a copy at scope thread that are too many, by its partition; 0 where they are not, or it does not say."""
    if request.scope.kind != "thread":
        return 0
    count = integer(attribute(partition, "instructions_per_thread")) or 0
    return count if count > MOST_INSTRUCTIONS else 0


def of_instructions(count: int, chosen: str, other: Variant, lacks: Sequence[str]) -> Note:
    """That another variant, which is made for one thread, accepts the copy or lacks but some options.

    Args:
        count: instructions that the one thread issues.
        chosen: name of the variant that was chosen.
        other: record of the other.
        lacks: names of the options that it requires and was not given.
    """
    if lacks:
        needed = ", ".join(f"{option.name}= ({option.meaning})" for option in other.options if option.name in lacks)
        remedy = f"it lacks only {needed}"
    else:
        remedy = f"it accepts too: ask for it by variant={other.name!r}"
    return Note(
        "instructions",
        f"one thread issues {count:,} instructions; variant {other.name} is made for one thread and may need far fewer; {remedy}; "
        f"the copy then completes by {other.completion}; variant={chosen!r} says that this one is meant",
    )


def of_registers(request: CopyRequest) -> tuple[Note, ...]:
    """For each fragment that fits no thread's registers, that it does not."""
    if "local" not in request.spaces:
        return ()
    found = []
    for memory in dict.fromkeys(region.buffer.memory for region in (request.dst, request.src)):
        if memory.space != "local":
            continue
        try:
            words = -(-memory.span_bytes // 4)
        except LayoutError:  # known at run time alone: variants decline it
            continue
        if words > MOST_REGISTERS:
            found.append(
                Note(
                    "registers",
                    f"{memory.name} takes {words:,} registers of each thread, which has "
                    f"{MOST_REGISTERS} at most: the rest goes to local memory; {_fewer(request, memory.layout)}",
                )
            )
    return tuple(found)


def _fewer(request: CopyRequest, layout: Any) -> str:
    """What to do about a fragment of too many registers."""
    kind, threads = request.scope.kind, request.scope.threads
    if kind == "thread" or any(axis != m for axis in layout.axes):
        return "copy a smaller tile at a time, or share it out over more threads"
    such = (
        ""
        if layout.size % threads
        else f", such as TileLayout(S[({threads}, {layout.size // threads}) : (1 @ {_AXES[kind]}, 1)])"
    )
    return (
        f"its layout names no thread axis, so each of {threads} threads holds all of its {layout.size:,} elements; give it a "
        f"layout= that shares them out{such}"
    )
