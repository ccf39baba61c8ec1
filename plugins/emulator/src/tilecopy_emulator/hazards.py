"""Records of hazards, and the conversion of hazards to error messages and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from tilecopy import HazardError

from .debug_info import SourceLocation
from .effects import modifiers_of
from .program import Instruction

_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_WIDTHS = ("8", "16", "32", "64")
DIVERGENT = "divergent"
"""The cause of a hazard at a barrier that only some threads reach."""
MOST_HAZARDS = 100
"""The largest number of hazards that one run reports."""
COMPLETED, IN_VAIN = "the wait for that operation", "a wait that does not cover that operation"
"""Relations of waits to a copy: a wait that completes it, and a wait that does not."""


@attrs.frozen
class ReportedAccess:
    """A frozen record of an instruction that a hazard reports, usually an access to memory.

    Attributes:
        thread: the name of the thread that executes it.
        action: ``"read"`` or ``"written"``; "" if the instruction does not access memory.
        line: its line in the PTX text; 0 if it is not known.
        text: the instruction.
        place: its location in the source, or None.
        value: the value that it reads or writes, as text; "" if it is not known.
        origin: the statement of a KernelBuilder that emitted it, or "".
        relation: how it relates to the first access of the hazard, such as "before that".
    """

    thread: str
    action: str
    line: int = 0
    text: str = ""
    place: SourceLocation | None = None
    value: str = ""
    origin: str = ""
    relation: str = "before that"

    @property
    def source_line(self) -> tuple[str, int]:
        """The innermost source file and line outside library headers, or "" and the PTX line if no file is known."""
        place = self.place.outside_libraries() if self.place else None
        return (place.file, place.line) if place else ("", self.line)

    def data(self, sources: Mapping[str, str]) -> dict[str, Any]:
        """Return the access as a JSON object. Source locations are innermost first, but library headers come last."""
        places = [] if self.place is None else self.place.chain()
        return {
            "thread": self.thread,
            "action": self.action,
            "relation": self.relation,
            "ptx_line": self.line,
            "ptx": self.text,
            "value": self.value,
            "origin": self.origin,
            "source": [
                {"file": p.file, "line": p.line, "column": p.column, "function": p.function, "text": p.text(sources)}
                for p in sorted(places, key=lambda place: place.in_library)
            ],
        }


@attrs.frozen
class Hazard:
    """A frozen record of a hazard: behaviour of the kernel that is undefined on hardware.

    Attributes:
        kind: the rule that was broken; the README lists the kinds.
        message: what happened; it begins with the thread.
        accesses: the access that broke the rule, then those that it conflicts with; empty if the program has no instructions.
        threads: the names of all threads of the hazard.
        bytes: first and last byte of the access, from the start of its memory, or None.
        cause: the reason in one word, if it is known.
        remedy: how to order the accesses, as text, or "".
    """

    kind: str
    message: str
    accesses: tuple[ReportedAccess, ...] = ()
    threads: tuple[str, ...] = ()
    bytes: tuple[int, int] | None = None
    cause: str = ""
    remedy: str = ""

    @property
    def line(self) -> int:
        """The PTX line of the first access, or 0 if no line is known."""
        return self.accesses[0].line if self.accesses else 0

    @property
    def root(self) -> tuple[str, frozenset[tuple[str, int]]]:
        """A key that is equal for all hazards of one cause: the kind, and the lines of the first two accesses."""
        accesses = self.accesses[: 1 if self.cause == DIVERGENT else 2]
        return self.kind, frozenset(access.source_line for access in accesses)

    def behind(self, barrier: ReportedAccess, instead: str, other: str) -> Hazard:
        """Return the hazard of the divergent barrier that caused this race.

        ``barrier``: the barrier, where the earlier thread of the race waits; ``other``: the name of the later thread;
        ``instead``: what the later thread does, such as "does not".
        """
        race = self.message.partition(": ")[2]
        first = attrs.evolve(self.accesses[0], relation="an access that the barrier does not order")
        return attrs.evolve(
            self,
            kind="barrier",
            message=f"{barrier.thread}: divergent barrier: this thread waits here, but {other} {instead}; therefore {race}",
            accesses=(barrier, first, *self.accesses[1:]),
            threads=(barrier.thread, other),
            cause=DIVERGENT,
            remedy="move the barrier out of the branch or loop, so that all threads of the CTA reach it",
        )

    def error(self, sources: Mapping[str, str]) -> HazardError:
        """Return the hazard as an exception. The message quotes source lines."""
        error = HazardError(
            "\n".join(self._lines(sources)),
            kind=self.kind, line=self.line, threads=self.threads, bytes=self.bytes, cause=self.cause,
        )  # fmt: skip
        error.details = {"accesses": [access.data(sources) for access in self.accesses], "order": self.remedy}
        return error

    def _lines(self, sources: Mapping[str, str]) -> list[str]:
        lines = [f"{self.kind}: {self.message}"]
        for number, access in enumerate(self.accesses):
            if not access.line:
                continue
            head = f"{access.relation}, {access.thread}, " if number else ""
            lines.append(f"  {head}PTX line {access.line}: {access.text}")
            lines += [f"  {'from' if number else 'in'}: {access.origin}"] if access.origin else []
            lines += access.place.lines(sources) if access.place else []
        values = [access.value for access in self.accesses[:2]]
        if len(values) == 2 and all(values) and self.accesses[0].action == "written":
            now, before = self.accesses[:2]
            same = ", the same" if now.value == before.value else ""
            lines.append(f"  values: {before.value} was {before.action}, {now.value} is written{same}")
        elif values and values[0]:
            lines.append(f"  value: {values[0]}")
        return [*lines, f"  fix: {self.remedy}"] if self.remedy else lines


def as_one_error(hazards: Sequence[Hazard], sources: Mapping[str, str]) -> HazardError:
    """Return the first hazard as an exception. Its ``others`` and its notes have one hazard for each other cause."""
    causes: dict[Any, Hazard] = {}
    covered: set[Any] = set()
    for hazard in hazards:
        if hazard.root not in covered:
            causes[hazard.root] = hazard
        covered.add(hazard.root)
        if hazard.cause == DIVERGENT:
            covered.add(("race", frozenset(access.source_line for access in hazard.accesses[1:3])))
    error, *others = (hazard.error(sources) for hazard in list(causes.values())[:MOST_HAZARDS])
    error.others = tuple(others)
    for other in others:
        error.add_note(str(other))
    if others:
        shown = f" (the first {MOST_HAZARDS} are shown)" if len(causes) > MOST_HAZARDS else ""
        error.add_note(f"{len(causes)} hazards{shown}; a later hazard may be a consequence of an earlier one")
    return error


def value_of(raw: Any, instruction: Instruction) -> str:
    """Format the first lane's bytes as values of the instruction's type, for example ``1.5`` or ``{1, 2}``."""
    data = np.ascontiguousarray(np.reshape(raw, (-1, raw.shape[-1]))[0], np.uint8)
    name = modifiers_of(instruction.opcode).type
    if name[1:] not in _WIDTHS or len(data) % (int(name[1:]) // 8):
        name = "b8"
    size = int(name[1:]) // 8
    if name[0] == "b":
        elements = [f"0x{int(element):0{2 * size}x}" for element in data.view(f"<u{size}")]
    else:
        dtype = _FLOATS.get(name) or np.dtype(f"<{'i' if name[0] == 's' else 'u'}{size}")
        elements = [str(element) for element in data.view(dtype)]
    return elements[0] if len(elements) == 1 else f"{{{', '.join(elements)}}}"
