"""The text of index arithmetic: a builder that writes it, and an interpreter of straight-line PTX that runs it."""

from __future__ import annotations

import re

import tilecopy as tc

from tilecopy_core.integers import Symbol
from tilecopy_core.plugin import PtxBuilder
from tilecopy_core.ptx import Bindings

BASE = 1 << 44


def signed(value: int, bits: int) -> int:
    """The low bits as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def run_text(lines: list[str], given_values: dict[str, int]) -> dict[str, int]:
    """Registers (unsigned) after straight-line PTX; ``given_values`` are special registers, parameters and variables."""
    registers: dict[str, int] = {}

    def read(word: str, bits: int, sign: str = "u") -> int:
        raw = registers[word] if word in registers else given_values[word] if word in given_values else int(word)
        return signed(raw, bits) if sign == "s" else raw & ((1 << bits) - 1)

    for line in lines:
        opcode, rest = line.strip().rstrip(";").split(None, 1)
        name, *modifiers = opcode.split(".")
        result, *operands = [word.strip() for word in rest.split(",")]
        type = modifiers[-1]
        bits, sign = int(type[1:]), type[0]
        if name in ("mov", "ld", "cvta"):
            value = read(operands[0].strip("[]"), bits)
        elif name == "cvt":
            value = read(operands[0], bits, sign)
            bits = int(modifiers[0][1:])
        elif name == "setp":
            a, b = read(operands[0], bits, sign), read(operands[1], bits, sign)
            value = int(a < b if modifiers[0] == "lt" else a > b)
        elif name == "selp":
            value = read(operands[0] if registers[operands[2]] else operands[1], bits)
        elif name in ("mul", "mad"):
            value = read(operands[0], bits, sign) * read(operands[1], bits, sign)
            bits = 2 * bits if modifiers[0] == "wide" else bits
            value += read(operands[2], bits) if name == "mad" else 0
        else:
            a, b = read(operands[0], bits, sign), read(operands[1], bits, sign)
            amount = min(read(operands[1], 32), bits) if name in ("shl", "shr") else 0
            value = {
                "add": lambda a=a, b=b: a + b,
                "and": lambda a=a, b=b: a & b,
                "xor": lambda a=a, b=b: a ^ b,
                "shl": lambda a=a, amount=amount: a << amount,
                "shr": lambda a=a, amount=amount: a >> amount,
                "div": lambda a=a, b=b: a // b,
                "rem": lambda a=a, b=b: a % b,
                "min": lambda a=a, b=b: min(a, b),
            }[name]()
        for word in operands:
            if name not in ("mov", "ld", "cvta") and re.fullmatch(r"-?\d+", word):
                assert -(2**63) <= int(word) < 2**64 and (bits == 64 or -(2**31) <= int(word) < 2**32), line
        registers[result] = value & ((1 << bits) - 1)
    return registers


def builder(symbols: dict[Symbol, str]) -> PtxBuilder:
    """A builder whose symbols are parameters of 32 or 64 bits."""
    names = {found: (f"p{number}", type) for number, (found, type) in enumerate(symbols.items())}
    return PtxBuilder(tc.target_of("sm_90a"), 32, bindings=Bindings(names))


def lines_of(ptx: PtxBuilder) -> list[str]:
    """What it has written."""
    return [str(line) for line in ptx.lines]


def parameters(symbols: dict[Symbol, str], env: dict[Symbol, int]) -> dict[str, int]:
    """The values as the text names them."""
    return {f"param_p{number}": env[found] for number, found in enumerate(symbols)}
