"""Functions of CUDA C++ that the driver defines: ``printf``, ``assert``, ``malloc`` and ``free``.

``printf`` is ``vprintf`` with the addresses of a format and of its arguments.

Source: CUDA programming guide, "Formatted output". Arguments are laid out as in a structure; integers below 32 bits
are passed as 32 bits, float as double.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..memory_model.access import AccessKind
from ..program import Instruction, Memory, Program
from ..threads.global_arrays import HEAP_BYTES
from .loads import with_operands
from .operands import Handler, Lanes, Reader, Step

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?(?P<size>hh|h|ll|l|j|z|t|L)?(?P<letter>[diouxXcsfFeEgGaAp%])"
)
_MOST_WIDE = 4096
"""The largest width of a field, which may be an argument."""
_MOST_TEXT = 1 << 16
"""The largest number of characters in a format or a string."""
_BYTE = AccessKind("", 1)


def _each_lane(
    call: Callable[[Machine, Any, list[int]], int | None], *sizes: int
) -> Callable[[Instruction, Program], Step]:
    """Return the handler of a driver function, which is called for each lane with arguments of these sizes in bytes."""

    def handler(instruction: Instruction, program: Program) -> Step:
        names = [operand.base for operand in instruction.operands if isinstance(operand, Memory)]

        def step(machine: Machine, lanes: Lanes) -> None:
            machine.demand_single()
            for lane in machine.index(lanes).tolist():
                one = np.array([lane])
                arguments = [
                    int.from_bytes(_load(machine, one, AccessKind("local", size), machine.symbol(name, one)), "little")
                    for name, size in zip(names, sizes, strict=False)
                ]
                result = call(machine, one, arguments)
                for name in names[len(sizes) :]:
                    size = 8 if len(sizes) == 1 else 4
                    raw = np.frombuffer((result or 0).to_bytes(size, "little"), np.uint8).reshape(1, 1, size)
                    machine.store(one, AccessKind("local", size), machine.symbol(name, one), raw)

        return step

    return handler


def _print(machine: Machine, lane: Any, arguments: list[int]) -> int:
    text, count = _format(_Arguments(machine, lane, arguments[1]), _text_at(machine, lane, arguments[0]))
    machine.launch.printed.append((machine.name_of(int(lane[0])), text))
    return count


def _fail(machine: Machine, lane: Any, arguments: list[int]) -> None:
    condition, _, _, function = (
        _text_at(machine, lane, argument) if number != 2 else "" for number, argument in enumerate(arguments[:4])
    )
    machine.hazard("trap", f"assertion `{condition}` failed in {function}", lane)


def _allocate(machine: Machine, lane: Any, arguments: list[int]) -> int:
    address = machine.launch.memory.allocate(arguments[0], machine.name_of(int(lane[0])))
    if address is None:
        machine.launch.notes.append(
            f"malloc returned a null pointer: the heap has {HEAP_BYTES >> 20} MiB, as on a GPU by default"
        )
    return address or 0


def _free(machine: Machine, lane: Any, arguments: list[int]) -> None:
    fault = machine.launch.memory.free(arguments[0], machine.name_of(int(lane[0]))) if arguments[0] else ""
    if fault:
        machine.hazard("lifetime", fault, lane)


@with_operands("u64")
def _not_a_function(machine: Machine, lanes: Lanes, opcode: Any, address: Reader) -> None:
    """Raise the hazard of a call through a pointer that does not point to a matching function."""
    value = int(machine.uniform(address(machine, lanes), lanes)[0])
    what = f"a call's target must be the address of a function with the call's parameters, got 0x{value:x}"
    machine.hazard("bounds", what, lanes)


def _load(machine: Machine, lane: Any, access: AccessKind, address: Any) -> bytes:
    return bytes(machine.load(lane, access, np.asarray(address, np.uint64).reshape(-1, 1))[0, 0])


def _text_at(machine: Machine, lane: Any, address: int) -> str:
    """Return the C string at an address."""
    characters = bytearray()
    while len(characters) < _MOST_TEXT and (byte := _load(machine, lane, _BYTE, [address + len(characters)])[0]):
        characters.append(byte)
    return characters.decode("utf-8", "replace")


class _Arguments:
    """The arguments of one call, which are read in order."""

    def __init__(self, machine: Machine, lane: Any, address: int) -> None:
        self._machine, self._lane, self._at = machine, lane, address

    def take(self, code: str) -> Any:
        """Return the next argument, decoded as :mod:`struct` format ``code``. Each argument is aligned to its size."""
        size = struct.calcsize(code)
        self._at = -(-self._at // size) * size
        raw = bytes(_load(self._machine, self._lane, _BYTE, [self._at + byte])[0] for byte in range(size))
        self._at += size
        return struct.unpack(f"<{code}", raw)[0]

    def text(self) -> str:
        """Return the string to which the next argument points."""
        return _text_at(self._machine, self._lane, self.take("Q"))


def _format(arguments: _Arguments, format: str) -> tuple[str, int]:
    """Return a formatted string, and the number of conversions in the format."""
    count = 0

    def convert(match: re.Match[str]) -> str:
        nonlocal count
        letter, wide = match["letter"], match["size"] in ("ll", "l", "j", "z", "t")
        if letter == "%":
            return "%"
        count += 1
        width, precision = (arguments.take("i") if x == "*" else int(x or 0) for x in match.group("width", "precision"))
        flags = match["flags"] + ("-" if width < 0 else "")
        shape = f"%{flags}{min(abs(width), _MOST_WIDE) or ''}"
        if match["precision"] is not None and precision >= 0:
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
        if letter in "cpaA":  # Python has no such conversion
            value = hex(value) if letter == "p" else value if letter == "c" else value.hex()
            letter = "s"
        return str(f"{shape}{letter}" % value)

    return _CONVERSION.sub(convert, format), count


INSTRUCTIONS: dict[str, Handler] = {
    "vprintf": _each_lane(_print, 8, 8),
    "__assertfail": _each_lane(_fail, 8, 8, 4, 8, 8),
    "malloc": _each_lane(_allocate, 8),
    "free": _each_lane(_free, 8),
    "call": _not_a_function,
}
