"""The one table of instructions: what each needs of a target, and what its operands must be.

``PtxBuilder.instr`` looks every instruction up here, emitted or inline; the longest prefix that matches counts. The
header's ``.version`` and ``.target`` follow from the needs, the builder's checks from the operands. Source: PTX ISA,
"Target ISA notes" and "PTX ISA notes" of each instruction, checked with ptxas 13.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import attrs

from ..errors import PtxError, TargetError, shown
from ..target import Target, Version, target_of
from .operands import Address, Register

MBARRIER_TX_LIMIT = 2**20 - 1
"""The largest transaction count of one mbarrier phase, in bytes, and its largest arrival count (PTX ISA 9.7.13.15)."""


@attrs.frozen
class Needs:
    """Lowest architecture and PTX ISA version; ``specific`` where a plain target lacks the instruction.

    ``known`` is False for an instruction that the table does not have: the module then keeps the requested target.
    """

    arch: int = 75
    version: Version = (6, 3)
    specific: bool = False
    known: bool = True


@attrs.frozen
class Number:
    """An operand that is a number known when the instruction is written."""

    what: str
    low: int
    high: int
    multiple_of: int = 1
    one_of: tuple[int, ...] = ()

    def why_not(self, value: object, size: int) -> str | None:
        """Why a value cannot stand here, or None."""
        if isinstance(value, Register):
            return None
        allowed = self.one_of or range(self.low, self.high + 1, self.multiple_of)
        if isinstance(value, int) and not isinstance(value, bool) and int(value) in allowed:
            return None
        step = f", a multiple of {self.multiple_of}" if self.multiple_of > 1 else ""
        rule = f"one of {_either(self.one_of)}" if self.one_of else f"{self.low} to {self.high}{step}"
        return f"{self.what} is {rule}, not {shown(value)}"


@attrs.frozen
class Place:
    """An operand that is an address in one of some spaces; ``align_bytes`` 0 asks for the size of the access."""

    what: str
    spaces: tuple[str, ...]
    align_bytes: int

    def why_not(self, value: object, size: int) -> str | None:
        """Why a value cannot stand here, or None."""
        if not isinstance(value, Address):
            return f"{self.what} is an address, not {shown(value)}"
        if value.space not in self.spaces:
            return f"{self.what} lies in {_either(self.spaces)} memory, not in {value.space} as {value} does"
        needed = self.align_bytes or max(1, abs(size))
        if value.align_bytes % needed:
            return f"{self.what} {value} is proved to be a multiple of {value.align_bytes} bytes, {shown(needed)} are needed"
        return None


def _either(values: Sequence[object]) -> str:
    return " or ".join(filter(None, (", ".join(map(str, values[:-1])), str(values[-1]))))


Operand = Number | Place | None


@attrs.frozen
class Instruction:
    """What an opcode needs, and its operands where they are checked (None: not)."""

    needs: Needs = Needs()
    operands: tuple[Operand, ...] = ()

    def check(self, opcode: str, found: Sequence[object]) -> None:
        """Raise :class:`PtxError` for an operand that the ISA does not allow."""
        pairs = [(spec, value) for spec, value in zip(self.operands, found, strict=False) if spec is not None]
        size = next((v for spec, v in pairs if isinstance(spec, Number) and isinstance(v, int)), 1)
        for spec, value in pairs:
            if why := spec.why_not(value, size):
                raise PtxError(f"{opcode}: {why}")


_BARRIER = Place("the mbarrier", ("shared", "shared::cluster"), 8)
_OWN_BARRIER = Place("the mbarrier", ("shared",), 8)
_COLUMNS = Number("the number of tensor-memory columns", 32, 512, one_of=(32, 64, 128, 256, 512))
_BULK = Number("the size in bytes", 16, MBARRIER_TX_LIMIT, 16)
_LONG_BULK = Number("the size in bytes", 16, 2**32 - 16, 16)
_TX = Number("the byte count of one mbarrier phase", 1, MBARRIER_TX_LIMIT)
_GROUPS = Number("the number of groups", 0, 2**31 - 1)

_SM80, _SM90 = Needs(80, (7, 0)), Needs(90, (8, 0))
_TCGEN05 = Needs(100, (8, 6), specific=True)


def _to(*spaces: str, align_bytes: int = 16) -> Place:
    return Place("the destination", spaces, align_bytes)


def _from(space: str, align_bytes: int = 16) -> Place:
    return Place("the source", (space,), align_bytes)


_UNCHECKED = {
    Needs(): """
        abs activemask add addc and atom bar bar.warp.sync bfe bfi bfind bfrev bra brev brkpt call clz cnot copysign cos
        cvt cvta div dp2a dp4a ex2 exit fence fma fns isspacep ld ldu lg2 lop3 mad mad24 madc match max membar min mov mul
        mul24 nanosleep neg not or pmevent popc prefetch prmt rcp red rem ret rsqrt sad selp set setp shf shfl shl shr sin
        slct sqrt st sub subc testp trap vote xor
    """,
    Needs(75, (6, 5)): "ldmatrix",
    _SM80: "cp.async.commit_group cp.async.wait_all cp.async.mbarrier cvt.rn.bf16 mbarrier redux",
    Needs(80, (7, 1)): "mbarrier.test_wait.parity",
    Needs(89, (8, 1)): "cvt.rn.satfinite",
    Needs(90, (7, 8)): "getctarank griddepcontrol mapa mbarrier.try_wait stmatrix",
    _SM90: """
        barrier.cluster cp.async.bulk cp.reduce.async.bulk elect.sync fence.mbarrier_init fence.proxy.async
    """,
    Needs(90, (8, 0), specific=True): "setmaxnreg wgmma",
    Needs(90, (8, 1)): "red.async st.async",
    Needs(100, (8, 6)): "clusterlaunchcontrol",
    _TCGEN05: "tcgen05",
}
"""Needs -> opcode prefixes whose operands are not checked."""

_CHECKED: dict[str, tuple[Needs, tuple[Operand, ...]]] = {
    "bar.sync": (Needs(), (Number("the barrier", 0, 15), Number("the number of threads", 32, 1024, 32))),
    "cp.async": (
        _SM80,
        (
            _to("shared", align_bytes=0),
            _from("global", align_bytes=0),
            Number("the size in bytes", 4, 16, one_of=(4, 8, 16)),
        ),
    ),
    "cp.async.wait_group": (_SM80, (_GROUPS,)),
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes": (
        _SM90,
        (_to("shared::cluster"), _from("shared"), _BULK, Place("the mbarrier", ("shared::cluster",), 8)),
    ),
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes": (
        _SM90,
        (_to("shared", "shared::cluster"), _from("global"), _BULK, _BARRIER),
    ),
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes": (
        _SM90,
        (_to("shared"), _from("global"), _BULK, _OWN_BARRIER),
    ),
    "cp.async.bulk.global.shared::cta.bulk_group": (_SM90, (_to("global"), _from("shared"), _LONG_BULK)),
    "cp.async.bulk.prefetch.L2.global": (_SM90, (_from("global"), _LONG_BULK)),
    "cp.async.bulk.wait_group": (_SM90, (_GROUPS,)),
    "mbarrier.init": (_SM80, (_OWN_BARRIER, Number("the arrival count of a phase", 1, 2**20 - 1))),
    "mbarrier.inval": (_SM80, (_OWN_BARRIER,)),
    "mbarrier.arrive.expect_tx": (_SM90, (None, _BARRIER, _TX)),
    "mbarrier.expect_tx": (_SM90, (_BARRIER, _TX)),
    "mbarrier.complete_tx": (_SM90, (_BARRIER, _TX)),
    "tcgen05.alloc": (_TCGEN05, (Place("the holder", ("shared",), 4), _COLUMNS)),
    "tcgen05.dealloc": (_TCGEN05, (None, _COLUMNS)),
    "tcgen05.commit": (_TCGEN05, (_BARRIER,)),
}
"""Opcode prefix -> its needs and operands."""

TABLE: dict[str, Instruction] = {
    **{opcode: Instruction(needs) for needs, opcodes in _UNCHECKED.items() for opcode in opcodes.split()},
    **{opcode: Instruction(needs, operands) for opcode, (needs, operands) in _CHECKED.items()},
}
"""Opcode prefix -> what it needs and takes. An opcode with no entry is unknown: it needs the requested target."""

_MODIFIERS: tuple[tuple[str, Needs], ...] = (
    (r"::cta\b", Needs(75, (7, 8))),
    (r"::cluster\b", Needs(90, (7, 8))),
    (r"\.(acquire|release)\.cluster\b", Needs(90, (8, 0))),
    (r"^(ld|st|red|atom|fence|membar)\b.*\.cluster\b", Needs(90, (7, 8))),
    (r"\.L1::|\.L2::", Needs(75, (7, 4))),
    (r"\.L2::cache_hint\b", Needs(80, (7, 4))),
    (r"^(ld|st)\.global.*\.(v8\.[bfus]32|v4\.[bfus]64)\b", Needs(100, (8, 8))),
    (r"^cp\.async\.bulk\.shared::cta\.global", Needs(90, (8, 6))),
    (r"^cp\.async\.c[ag]\.shared\S*\.global.*, *%p\d+$", Needs(80, (7, 5))),
    (r"\bb128\b", Needs(75, (8, 3))),
    (r"%cluster|%is_explicit_cluster|%nclusterid", Needs(90, (7, 8))),
    (r"\.bf16", _SM80),
    (r"\.e[45]m[32]", Needs(89, (8, 1))),
)


@cache
def instruction_of(text: str) -> Instruction:
    """The table's entry for an instruction (its opcode, or its whole text without guard), needs of modifiers included."""
    opcode = text.split(None, 1)[0] if text.strip() else ""
    parts = opcode.split(".")
    found = next((TABLE[p] for p in (".".join(parts[:n]) for n in range(len(parts), 0, -1)) if p in TABLE), None)
    if found is None:
        found = Instruction(Needs(known=False))
    needs = found.needs
    for pattern, more in _MODIFIERS:
        if re.search(pattern, text):
            needs = merge(needs, more)
    return found if needs == found.needs else attrs.evolve(found, needs=needs)


def merge(left: Needs, right: Needs) -> Needs:
    """What both need together."""
    return Needs(
        max(left.arch, right.arch),
        max(left.version, right.version),
        left.specific or right.specific,
        left.known and right.known,
    )


def check_target(instruction: str, needs: Needs, target: Target) -> None:
    """Raise :class:`TargetError` when the target lacks an instruction."""
    if target.arch < needs.arch or (needs.specific and not target.suffix):
        later = "a, or a later one with suffix a or f" if needs.specific else " or newer"
        raise TargetError(f"'{instruction}' needs sm_{needs.arch}{later}; the target is {target}")
    if instruction.startswith("tcgen05") and target.arch in (120, 121):
        raise TargetError(f"'{instruction}' needs the sm_100, sm_103 or sm_110 family; the target is {target}")


def header_target(needs: Needs, requested: Target) -> tuple[Version, Target]:
    """The lowest ``.version`` and ``.target`` for a module lowered for ``requested``.

    A module that needs nothing specific gets the plain architecture that its instructions need, so that it runs on
    everything from there on; one with an instruction that the table does not know keeps the requested target.
    """
    target = requested if needs.specific or not needs.known else target_of(f"sm_{needs.arch}")
    return max(needs.version, target.ptx_version), target
