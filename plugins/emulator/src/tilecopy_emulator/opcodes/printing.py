"""``printf`` of CUDA C++: a call of the driver's ``vprintf`` with the addresses of a format and of its arguments.

Source: CUDA programming guide, "Formatted output". Arguments lie one after another as in a structure; integers below 32 bits
arrive as 32 bits, float as double.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..order.access import Access
from ..program import Instruction, Memory, Program
from .operands import Handler, Lanes, Step

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?(?P<size>hh|h|ll|l|j|z|t|L)?(?P<letter>[diouxXcsfFeEgGaAp%])"
)
_MOST_WIDE = 4096
"""Columns of a field: a width may be an argument."""
_MOST_TEXT = 1 << 16
"""Characters of a format or of a text."""
_BYTE, _ADDRESS, _RESULT = Access("", 1), Access("local", 8), Access("local", 4)


def _vprintf(instruction: Instruction, program: Program) -> Step:
    """Operands: the variables of the two arguments and, if there is one, of the result."""
    names = [operand.base for operand in instruction.operands if isinstance(operand, Memory)]

    def step(machine: Machine, lanes: Lanes) -> None:
        machine.demand_single()
        for lane in machine.index(lanes).tolist():
            one = np.array([lane])
            format, arguments = (
                int.from_bytes(_loaded(machine, one, _ADDRESS, machine.symbol(name, one)), "little")
                for name in names[:2]
            )
            text, count = _formatted(_Arguments(machine, one, arguments), _text_at(machine, one, format))
            machine.launch.printed.append((machine.name_of(lane), text))
            for name in names[2:]:
                raw = np.frombuffer(count.to_bytes(4, "little"), np.uint8).reshape(1, 1, 4)
                machine.store(one, _RESULT, machine.symbol(name, one), raw)

    return step


def _loaded(machine: Machine, lane: Any, access: Access, address: Any) -> bytes:
    return bytes(machine.load(lane, access, np.asarray(address, np.uint64).reshape(-1, 1))[0, 0])


def _text_at(machine: Machine, lane: Any, address: int) -> str:
    """The text of C at an address."""
    found = bytearray()
    while len(found) < _MOST_TEXT and (byte := _loaded(machine, lane, _BYTE, [address + len(found)])[0]):
        found.append(byte)
    return found.decode("utf-8", "replace")


class _Arguments:
    """The arguments of one call, taken one after another."""

    def __init__(self, machine: Machine, lane: Any, address: int) -> None:
        self._machine, self._lane, self._at = machine, lane, address

    def take(self, code: str) -> Any:
        """The next argument, by its code of :mod:`struct`; it stands at a multiple of its size."""
        size = struct.calcsize(code)
        self._at = -(-self._at // size) * size
        raw = bytes(_loaded(self._machine, self._lane, _BYTE, [self._at + byte])[0] for byte in range(size))
        self._at += size
        return struct.unpack(f"<{code}", raw)[0]

    def text(self) -> str:
        """The next argument, the address of a text."""
        return _text_at(self._machine, self._lane, self.take("Q"))


def _formatted(arguments: _Arguments, format: str) -> tuple[str, int]:
    """A format with its arguments, and how many conversions it has."""
    count = 0

    def converted(found: re.Match[str]) -> str:
        nonlocal count
        letter, wide = found["letter"], found["size"] in ("ll", "l", "j", "z", "t")
        if letter == "%":
            return "%"
        count += 1
        width, precision = (
            arguments.take("i") if part == "*" else int(part or 0) for part in (found["width"], found["precision"])
        )
        flags = found["flags"] + ("-" if width < 0 else "")
        shape = f"%{flags}{min(abs(width), _MOST_WIDE) or ''}"
        if found["precision"] is not None and precision >= 0:
            shape += f".{min(precision, _MOST_WIDE)}"
        value: Any
        if letter in "di":
            value = arguments.take("q" if wide else "i")
        elif letter in "ouxX":
            letter, value = letter.replace("u", "d"), arguments.take("Q" if wide else "I")
        elif letter in "cs":
            value = arguments.text() if letter == "s" else chr(arguments.take("i") & 0xFF)
        else:
            value = arguments.take("Q" if letter == "p" else "d")
        if letter in "cpaA":  # what Python has no conversion for
            value = hex(value) if letter == "p" else value if letter == "c" else value.hex()
            letter = "s"
        return str(f"{shape}{letter}" % value)

    return _CONVERSION.sub(converted, format), count


INSTRUCTIONS: dict[str, Handler] = {"vprintf": _vprintf}
