"""The form of the corpus: bodies of PTX in a compact notation, and what must be said of each.

A body is PTX between the braces of one entry, with three conveniences:

* lines that begin with ``-`` are in the faulty program only, lines that begin with ``+`` in its correct twin only;
* registers are declared by use: ``%r0 %r1 ..`` and other words b32, ``%d0 ..`` b64, ``%p0 ..`` predicates,
  ``%f0 ..`` f32, ``%h0 ..`` b16; and some have their value from the start: ``%t`` thread, ``%lane``, ``%warp``,
  ``%cta``, ``%rank`` (of the cluster), ``%A`` the global address of parameter ``A``, ``%At`` that of its word ``%t``,
  ``%s`` and ``%st`` the same for a shared variable; ``%is5`` thread is 5, ``%w1`` warp is 1, ``%c0`` CTA is 0, ``%k1``
  rank is 1;
* ``WAIT [%m], 0;`` is a loop of ``mbarrier.try_wait.parity``, ``SPIN ld.. [..], 1;`` a loop that loads until it finds
  that value.

``// FAULT: race`` marks the line that must be reported, with the kind of hazard; where two lines are one fault and
either may be noticed first, both are marked.
"""

from __future__ import annotations

import re
from typing import Any

import attrs
import numpy as np

_FAULT = re.compile(r"//\s*FAULT:\s*([\w|-]+)")
_TYPES = {"d": "b64", "p": "pred", "pw": "pred", "f": "f32", "h": "b16"}

_DELAY = """    {group}
    setp.ne.u32 %p99, %r99, {number};
    @%p99 bra $EARLY;
    mov.b32 %r99, 300;
$LATE:
    sub.u32 %r99, %r99, 1;
    setp.ne.u32 %p99, %r99, 0;
    @%p99 bra $LATE;
$EARLY:"""
LATE = {
    f"{kind} {number}": _DELAY.format(group=group, number=number)
    for kind, group in (("CTA", "mov.u32 %r99, %ctaid.x;"), ("warp", "mov.u32 %r99, %tid.x; shr.u32 %r99, %r99, 5;"))
    for number in (0, 1)
}
"""Instructions that hold a group of threads back: another schedule of the same program."""


@attrs.frozen
class Text:
    """One program.

    Attributes:
        name: of the entry.
        ptx: the module.
        faults: kind of hazard of each marked line.
    """

    name: str
    ptx: str
    faults: dict[int, str]


@attrs.frozen(kw_only=True)
class Case:
    """A program, or a faulty one and its correct twin.

    Attributes:
        name: unique.
        rule: the rule that is broken or kept, with its section of the PTX ISA (9.1).
        body: see the module.
        arrays: parameters: ``"A:64 B:64"`` are arrays of 32-bit words (``A:3xu8`` of bytes, ``A:4=7`` filled).
        scalars: 32-bit parameters, ``"N=3"``; they follow the arrays.
        shared: ``"s:256 m:8"`` in bytes, 16-byte aligned (``s:20@4`` another alignment).
        module: directives at module scope.
        grid, block, cluster: of the launch.
        target: architecture.
        threads: threads that the message must name: ``"5"``, ``"0-31"`` one of those, ``"5@1"`` of CTA (1,0,0).
        bytes: what it must name: ``"s 4:8"`` some of those bytes (end excluded).
        words: patterns that the message must contain.
        gives: contents after a correct run: parameter -> function of the thread's index.
        dynamic: bytes of dynamic shared memory.
    """

    name: str
    rule: str
    body: str
    arrays: str = "A:64"
    scalars: str = ""
    shared: str = ""
    module: str = ""
    grid: int | tuple[int, ...] = 1
    block: int | tuple[int, ...] = 64
    cluster: int | tuple[int, ...] | None = None
    target: str = "sm_90a"
    threads: tuple[str, ...] = ()
    bytes: str = ""
    words: tuple[str, ...] = ()
    gives: dict[str, Any] = attrs.Factory(dict)
    dynamic: int = 0

    def faulty(self, late: str = "") -> Text:
        """The program with its fault; ``late``: a group of threads that starts late, as :data:`LATE` names them."""
        return self._text(drop="+", late=late)

    def correct(self, late: str = "") -> Text:
        """The program without it."""
        return self._text(drop="-", late=late)

    def has_fault(self) -> bool:
        """Whether a line is marked."""
        return bool(_FAULT.search(self.body))

    def _text(self, drop: str, late: str) -> Text:
        keep = [line for line in self.body.strip("\n").split("\n") if line[:1] != drop]
        body = [f" {line[1:]}" if line[:1] in "+-" else line for line in keep]
        if drop == "-":
            body = [_FAULT.sub("", line).rstrip() for line in body]
        ptx = self._module(LATE[late].split("\n") + body if late else body)
        faults = {number: m[1] for number, line in enumerate(ptx.split("\n"), 1) if (m := _FAULT.search(line))}
        return Text(self.name, ptx, faults)

    def _module(self, body: list[str]) -> str:
        body = [_expand(line, number) for number, line in enumerate(body)]
        used = set(re.findall(r"%\w+", "\n".join(re.sub(r"//.*", "", line) for line in body)))
        names = [part.split(":")[0] for part in self.arrays.split()]
        scalars = [part.split("=")[0] for part in self.scalars.split()]
        variables = [part.split(":")[0] for part in self.shared.split()]
        parameters = [f".param .u64 {n}" for n in names] + [f".param .u32 {n}" for n in scalars]
        blocks = (self.block,) if isinstance(self.block, int) else self.block
        needs, setup = _prologue(used, names, scalars, variables)
        lines = [
            f".version {'8.8' if self.target.startswith('sm_10') else '8.6'}",
            f".target {self.target}",
            ".address_size 64",
            *filter(None, self.module.strip().split("\n")),
            f".visible .entry {self.name}({', '.join(parameters)})",
            f".reqntid {', '.join(map(str, (*blocks, 1, 1)[:3]))}",
            "{",
            *(f"    .reg .{type} {', '.join(sorted(found))};" for type, found in sorted(needs.items()) if found),
            *(f"    .shared .align {align} .b8 {name}[{size}];" for name, size, align in self.variables()),
            *(f"    {line}" for line in setup),
            *body,
            "    ret;",
            "}",
            "",
        ]
        return "\n".join(lines)

    def variables(self) -> list[tuple[str, int, int]]:
        """``(name, bytes, alignment)`` of the shared variables."""
        found = []
        for part in self.shared.split():
            name, size, align = re.fullmatch(r"(\w+):(\d+)(?:@(\d+))?", part).groups()  # type: ignore[union-attr]
            found.append((name, int(size), int(align or 16)))
        return found

    def arguments(self) -> list[Any]:
        """Fresh arguments."""
        found: list[Any] = []
        for part in self.arrays.split():
            match = re.fullmatch(r"\w+:(\d+)(?:x(\w+))?(?:=(-?\d+))?", part)
            assert match is not None, part
            kind = {"u8": np.uint8, "u16": np.uint16, "u64": np.uint64, "f32": np.float32, None: np.uint32}[match[2]]
            array = np.zeros(int(match[1]), kind)
            if match[3] is not None:
                array[:] = int(match[3])
            elif part[0] != "Z":  # Z: zeros
                array[:] = np.arange(1, len(array) + 1)
            found.append(array)
        return found + [int(part.split("=")[1]) for part in self.scalars.split()]

    def check(self, arguments: list[Any]) -> None:
        """What a correct run leaves."""
        names = [part.split(":")[0] for part in self.arrays.split()]
        for name, expected in self.gives.items():
            array = arguments[names.index(name)]
            wanted = expected(np.arange(len(array))) if callable(expected) else expected
            np.testing.assert_array_equal(array, np.broadcast_to(wanted, array.shape), err_msg=f"{self.name}: {name}")


def _expand(line: str, number: int) -> str:
    """The loops that WAIT and SPIN stand for, on the line where they stand."""
    line = re.sub(
        r"\bWAIT(\.\w+\.\w+)? (\[[^]]+\]), ([^;]+);",
        lambda m: (
            f"$W{number}: mbarrier.try_wait.parity{m[1] or ''}.shared::cta.b64 %pw{number}, {m[2]}, {m[3]}; "
            f"@!%pw{number} bra $W{number};"
        ),
        line,
    )
    return re.sub(
        r"\bSPIN ([\w.:]+) (\[[^]]+\]), ([^;]+);",
        lambda m: (
            f"$S{number}: {m[1]} %rw{number}, {m[2]}; setp.ne.u32 %pw{number}, %rw{number}, {m[3]}; "
            f"@%pw{number} bra $S{number};"
        ),
        line,
    )


_SPECIAL = ("tid", "ntid", "ctaid", "nctaid", "cluster", "laneid", "warpid", "clock", "lanemask", "smid", "globaltimer")
_START = {
    "%t": "mov.u32 %t, %tid.x;",
    "%lane": "and.b32 %lane, %t, 31;",
    "%warp": "shr.u32 %warp, %t, 5;",
    "%cta": "mov.u32 %cta, %ctaid.x;",
    "%rank": "mov.u32 %rank, %cluster_ctarank;",
}
_CONDITIONS = {"is": "%t", "w": "%warp", "c": "%cta", "k": "%rank", "l": "%lane"}


def _prologue(
    used: set[str], arrays: list[str], scalars: list[str], variables: list[str]
) -> tuple[dict[str, set[str]], list[str]]:
    """Registers to declare by type, and the instructions that give those with a meaning their values."""
    needs: dict[str, set[str]] = {"b32": set(), "b64": set(), "pred": set(), "f32": set(), "b16": set()}
    values: dict[str, str] = {}
    for name in sorted(used):
        bare = name[1:]
        condition = re.fullmatch(r"(is|w|c|k|l)(\d+)", bare)
        stem = bare.removesuffix("t")
        if bare.startswith(_SPECIAL) and bare != "t":
            continue
        if condition:
            needs["pred"].add(name)
            source = _CONDITIONS[condition[1]]
            used = used | {source}
            values[name] = f"setp.eq.u32 {name}, {source}, {condition[2]};"
        elif stem in arrays:
            needs["b64"] |= {name, f"%{stem}"}
            values[f"%{stem}"] = f"ld.param.u64 %{stem}, [{stem}]; cvta.to.global.u64 %{stem}, %{stem};"
            if bare != stem:
                used = used | {"%t"}
                values[name] = f"mad.wide.u32 {name}, %t, 4, %{stem};"
        elif bare in scalars:
            needs["b32"].add(name)
            values[name] = f"ld.param.u32 {name}, [{bare}];"
        elif stem in variables:
            needs["b32"] |= {name, f"%{stem}"}
            values[f"%{stem}"] = f"mov.u32 %{stem}, {stem};"
            if bare != stem:
                used = used | {"%t"}
                values[name] = f"mad.lo.u32 {name}, %t, 4, %{stem};"
        elif name not in _START:
            needs[_TYPES.get(bare.rstrip("0123456789"), "b32")].add(name)
    if used & {"%lane", "%warp"}:
        used = used | {"%t"}
    setup = [text for name, text in _START.items() if name in used]
    needs["b32"] |= {name for name in _START if name in used}
    order = sorted(values, key=lambda name: (len(name) > 2 and name.endswith("t"), name))
    return needs, setup + [values[name] for name in order]


CASES: list[Case] = []
"""Every case with a fault, in the order of the files."""

CLEAN: list[Case] = []
"""Correct programs with no faulty twin."""


def fault(name: str, rule: str, body: str, **rest: Any) -> None:
    """Add a faulty program and its twin."""
    CASES.append(Case(name=name, rule=rule, body=body, **rest))


def clean(name: str, rule: str, body: str, **rest: Any) -> None:
    """Add a correct program."""
    CLEAN.append(Case(name=name, rule=rule, body=body, **rest))
