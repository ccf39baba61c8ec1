"""What each instruction needs: architecture, PTX ISA version, and whether only an ``a`` or ``f`` target has it.

One table for emitted and inline instructions alike; the longest prefix that matches counts. Source: PTX ISA, "Target
ISA notes" and "PTX ISA notes" of each instruction, checked with ptxas 13.
"""

from __future__ import annotations

import re

import attrs

from ..errors import TargetError
from ..target import Target, Version, target_of


@attrs.frozen
class Needs:
    """Lowest architecture and PTX ISA version; ``specific`` where a plain target lacks the instruction."""

    arch: int = 75
    version: Version = (6, 3)
    specific: bool = False


_TABLE: dict[str, Needs] = {
    "barrier.cluster": Needs(90, (8, 0)),
    "clusterlaunchcontrol": Needs(100, (8, 6)),
    "cp.async": Needs(80, (7, 0)),
    "cp.async.bulk": Needs(90, (8, 0)),
    "cp.async.mbarrier": Needs(80, (7, 0)),
    "cp.reduce.async.bulk": Needs(90, (8, 0)),
    "cvt.rn.bf16": Needs(80, (7, 0)),
    "cvt.rn.satfinite": Needs(89, (8, 1)),
    "elect.sync": Needs(90, (8, 0)),
    "fence.mbarrier_init": Needs(90, (8, 0)),
    "fence.proxy.async": Needs(90, (8, 0)),
    "getctarank": Needs(90, (7, 8)),
    "griddepcontrol": Needs(90, (7, 8)),
    "ldmatrix": Needs(75, (6, 5)),
    "mapa": Needs(90, (7, 8)),
    "mbarrier": Needs(80, (7, 0)),
    "mbarrier.arrive.expect_tx": Needs(90, (8, 0)),
    "mbarrier.expect_tx": Needs(90, (8, 0)),
    "mbarrier.complete_tx": Needs(90, (8, 0)),
    "mbarrier.test_wait.parity": Needs(80, (7, 1)),
    "mbarrier.try_wait": Needs(90, (7, 8)),
    "red.async": Needs(90, (8, 1)),
    "setmaxnreg": Needs(90, (8, 0), specific=True),
    "st.async": Needs(90, (8, 1)),
    "stmatrix": Needs(90, (7, 8)),
    "tcgen05": Needs(100, (8, 6), specific=True),
    "wgmma": Needs(90, (8, 0), specific=True),
}
_MODIFIERS: tuple[tuple[str, Needs], ...] = (
    (r"::cta\b", Needs(75, (7, 8))),
    (r"::cluster\b", Needs(90, (7, 8))),
    (r"\.(acquire|release)\.cluster\b", Needs(90, (8, 0))),
    (r"\.L1::|\.L2::", Needs(75, (7, 4))),
    (r"\.L2::cache_hint\b", Needs(80, (7, 4))),
    (r"^(ld|st)\.global.*\.(v8\.[bfus]32|v4\.[bfus]64)\b", Needs(100, (8, 8))),
    (r"^cp\.async\.bulk\.shared::cta\.global", Needs(90, (8, 6))),
    (r"\bb128\b", Needs(75, (8, 3))),
    (r"%cluster|%is_explicit_cluster", Needs(90, (7, 8))),
)


def needs_of(instruction: str) -> Needs:
    """What one instruction (its text, without guard) needs."""
    opcode = instruction.split(None, 1)[0] if instruction else ""
    found = Needs()
    parts = opcode.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in _TABLE:
            found = _TABLE[prefix]
            break
    if "::" in instruction or "%" in instruction or ".v" in opcode or ".cluster" in opcode or "b128" in opcode:
        for pattern, needs in _MODIFIERS:
            if re.search(pattern, instruction):
                found = merge(found, needs)
    return found


def merge(left: Needs, right: Needs) -> Needs:
    """What both need together."""
    return Needs(max(left.arch, right.arch), max(left.version, right.version), left.specific or right.specific)


def check_target(instruction: str, needs: Needs, target: Target) -> None:
    """Raise :class:`TargetError` when the target lacks an instruction."""
    if target.arch < needs.arch:
        raise TargetError(f"'{instruction}' needs sm_{needs.arch} or newer; the target is {target}")
    if needs.specific and not target.suffix:
        raise TargetError(f"'{instruction}' needs a target with suffix a or f; the target is {target}")
    if instruction.startswith("tcgen05") and target.arch in (120, 121):
        raise TargetError(f"'{instruction}' needs the sm_100, sm_103 or sm_110 family; the target is {target}")


def header_target(needs: Needs, requested: Target) -> tuple[Version, Target]:
    """The lowest ``.version`` and ``.target`` for a module lowered for ``requested``.

    A module that needs nothing specific gets the plain architecture that its instructions need, so that it runs on
    everything from there on.
    """
    target = requested if needs.specific else target_of(f"sm_{needs.arch}")
    return max(needs.version, target.ptx_version), target
