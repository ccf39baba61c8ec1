"""The accesses that a hazard is about: who, what, where in PTX and in its source, which values, and what would order them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from .effects import modifiers_of
from .places import Place
from .program import Instruction

_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_WIDTHS = ("8", "16", "32", "64")


@attrs.frozen
class ReportedAccess:
    """One access.

    Attributes:
        thread: who, in words.
        action: ``"read"`` or ``"written"``; "" where the hazard is about no access.
        line: of the PTX text; 0 where it is not known.
        text: the instruction.
        place: in the source, or None.
        value: what it reads or writes, in words; "" where that is not known.
        origin: the statement of a KernelBuilder that it comes from, or "".
    """

    thread: str
    action: str
    line: int = 0
    text: str = ""
    place: Place | None = None
    value: str = ""
    origin: str = ""

    @classmethod
    def of(
        cls, thread: str, action: str, instruction: Instruction | None, value: str = "", origin: str = ""
    ) -> ReportedAccess:
        """The access of an instruction, or of one that is not known."""
        if instruction is None:
            return cls(thread, action, value=value)
        return cls(thread, action, instruction.line, instruction.text, instruction.place, value, origin)

    def data(self, sources: Mapping[str, str]) -> dict[str, Any]:
        """As JSON has it; the source's places innermost first."""
        places = [] if self.place is None else self.place.chain()
        return {
            "thread": self.thread,
            "action": self.action,
            "ptx_line": self.line,
            "ptx": self.text,
            "value": self.value,
            "origin": self.origin,
            "source": [
                {"file": p.file, "line": p.line, "column": p.column, "function": p.function, "text": p.text(sources)}
                for p in places
            ],
        }


def value_of(raw: Any, instruction: Instruction) -> str:
    """Bytes (the last axis; the first lane's) as the instruction's type reads them: ``1.5``, ``-3``, ``0x3f800000``, ``{1, 2}``."""
    data = np.ascontiguousarray(np.reshape(raw, (-1, raw.shape[-1]))[0], np.uint8)
    name = modifiers_of(instruction.opcode).type
    if name[1:] not in _WIDTHS or len(data) % (int(name[1:]) // 8):
        name = "b8"
    size = int(name[1:]) // 8
    if name[0] == "b":
        found = [f"0x{int(each):0{2 * size}x}" for each in data.view(f"<u{size}")]
    else:
        dtype = _FLOATS.get(name) or np.dtype(f"<{'i' if name[0] == 's' else 'u'}{size}")
        found = [str(each) for each in data.view(dtype)]
    return found[0] if len(found) == 1 else f"{{{', '.join(found)}}}"


def in_words(sides: Sequence[ReportedAccess], order: str, sources: Mapping[str, str]) -> str:
    """What a message says after the line of the first side: places, the other side, values, order, each on its line."""
    if not sides:
        return ""
    first, *others = sides
    said = [first.place.in_words(sources)] if first.place else []
    for other in others:
        if other.line:
            said.append(f"  before that, {other.thread}, PTX line {other.line}: {other.text}")
            said += [other.place.in_words(sources)] if other.place else []
            said += [f"  from: {other.origin}"] if other.origin else []
        if first.action == "written" and first.value and other.value:
            same = ", the same" if first.value == other.value else ""
            said.append(f"  values: {other.value} was {other.action}, {first.value} is {first.action}{same}")
        elif first.value:
            said.append(f"  value: {first.value}")
    if order:
        said.append(f"  what orders them: {order}")
    return "".join(f"\n{each}" for each in said)
