"""Instructions with the least version in which ptxas takes them for each target, and modules of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tilecopy import Target, target_of
from tilecopy_emulator import UnsupportedPtxError
from tilecopy_emulator.opcodes.table import compile_program
from tilecopy_emulator.parser.module import parse

Version = tuple[int, int]
TARGETS = [target_of(name) for name in ("sm_75", "sm_80", "sm_90", "sm_90a", "sm_100a", "sm_120a")]
VERSIONS = [(6, 3), (6, 4), (6, 5), *((7, minor) for minor in range(9)), *((8, minor) for minor in range(9)), (9, 0)]
TYPES = {"r": "b32", "f": "f32", "d": "b64", "w": "f64", "h": "b16", "q": "b128", "p": "pred"}
NAMED = dict.fromkeys(("sa", "sb", "mb", "ra", "rmb", "n", "m"), "b32") | {"p": "pred"}
NAMED |= dict.fromkeys(("sa64", "mb64", "rg64", "rmb64", "ga", "pol", "tm64", "tm"), "b64")


class Line(NamedTuple):
    """An instruction, and the least version in which ptxas takes it for each target that has it."""

    body: str
    least: dict[Target, Version]


def lines() -> list[Line]:
    found = []
    for text in (Path(__file__).parent / "ptx_verdicts.txt").read_text().splitlines():
        if not text.startswith("#"):
            versions, _, body = text.partition(" | ")
            each = zip(TARGETS, versions.split(), strict=True)
            found.append(Line(body, {target: number(version) for target, version in each if version != "-"}))
    return found


def number(version: str) -> Version:
    major, minor = version.split(".")
    return int(major), int(minor)


LINES = lines()


def module(version: Version, target: Target, *bodies: str) -> str:
    """One entry for each instruction; the registers that it names are declared and, where they are addresses, set."""
    text = [
        ".version {}.{}".format(*version),
        f".target {target}",
        ".address_size 64",
        ".shared .align 1024 .b8 smem[4096];",
    ]
    for at, body in enumerate(bodies):
        text.append(f".visible .entry k{at}(.param .u64 pg, .param .align 64 .b8 ptm[128]) {{")
        for name in sorted(set(re.findall(r"(?<![.\w:%])([rfdwhqp]\d+|[a-z]+(?:64)?)\b", body))):
            type = NAMED.get(name) or TYPES.get(name[0] if name[1:].isdigit() else "", "")
            if type:
                text.append(f".reg .{type} {name};")
            if name in NAMED and type != "pred":
                text.append(f"ld.param.{type} {name}, [pg];")
        text += [body, "ret; }"]
    return "\n".join([*text, ""])


def refusal(body: str, target: Target, version: Version) -> str:
    """Why the emulator refuses an instruction, or nothing."""
    try:
        compile_program(parse(module(version, target, body)))
    except UnsupportedPtxError as error:
        return str(error)
    return ""
