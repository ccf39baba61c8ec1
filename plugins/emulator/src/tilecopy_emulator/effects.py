"""What an instruction reads and writes: one table by opcode, and what follows from it for a program.

How an opcode may be spelt stands in the core's table (:mod:`tilecopy_core.ptx.instructions`) and is not repeated here.
"""

from __future__ import annotations

from functools import lru_cache

import attrs

from .alu import FORMS
from .order.access import SCOPES, Access
from .order.clocks import ASYNC_GLOBAL, ASYNC_SHARED, ISSUED, TENSOR, TENSORMAP
from .program import (
    REGISTER_BITS,
    Instruction,
    Memory,
    Negated,
    Offset,
    Operand,
    Pair,
    Program,
    TensorAddress,
    Vector,
    refuse,
)

SPACES = {
    "global": "global",
    "const": "const",
    "param": "param",
    "param::entry": "param",
    "local": "local",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared::cluster",
}
CACHE_HINTS = frozenset({"ca", "cg", "cs", "lu", "cv", "wb", "wt"})
ORDERS = {"ld": ("weak", "relaxed", "acquire"), "st": ("weak", "relaxed", "release")}
VECTORS = {"v2": 2, "v4": 4, "v8": 8}


@attrs.frozen
class Effect:
    """What the instructions of an opcode read and write.

    Attributes:
        name: the opcode, or a dotted prefix of it.
        results: how many of its first operands are registers that it writes.
        registers_only: it makes registers of registers: what it reads matters where what it writes does.
        shared_piece: bytes of shared memory that it may read or write apart from their neighbours; 0: none, or as its operands say.
        sections: the clock's sections that it needs (see :mod:`.order.clocks`).
        by_engine: an engine moves the bytes, not the thread.
    """

    name: str = ""
    results: int = 0
    registers_only: bool = False
    shared_piece: int = 0
    sections: tuple[str, ...] = ()
    by_engine: bool = False


EFFECTS = {
    effect.name: effect
    for effect in (
        *(
            Effect(name, 1, registers_only=True)
            for name in (
                *FORMS,
                *[
                    "activemask",
                    "cvta",
                    "elect",
                    "getctarank",
                    "isspacep",
                    "mapa",
                    "match",
                    "mov",
                    "redux",
                    "shfl",
                    "vote",
                ],
            )
        ),
        Effect("alloca", 1),
        Effect("stacksave", 1),
        Effect("movmatrix", 1, registers_only=True),
        Effect("mma", 1, registers_only=True, shared_piece=4),
        Effect("ld", 1),
        Effect("ldu", 1),
        Effect("multimem.ld_reduce", 1),
        Effect("wmma.load", 1),
        Effect("wmma.mma", 1, registers_only=True),
        Effect("st.bulk", shared_piece=8),
        Effect("ldmatrix", 1, shared_piece=8),
        Effect("stmatrix", shared_piece=8),
        Effect("mbarrier", shared_piece=8),
        Effect("mbarrier.inval", shared_piece=8, sections=(ISSUED,)),
        Effect("cp.async.bulk", sections=(ASYNC_SHARED,), by_engine=True),
        Effect("cp.reduce.async.bulk", sections=(ASYNC_SHARED,), by_engine=True),
        Effect("clusterlaunchcontrol.try_cancel", sections=(ASYNC_SHARED,), by_engine=True),
        Effect("clusterlaunchcontrol.query_cancel", 1, registers_only=True),
        Effect("fence.proxy.tensormap::generic", sections=(TENSORMAP,)),
        Effect("tensormap.cp_fenceproxy", sections=(TENSORMAP,)),
        Effect("st.async", shared_piece=4, by_engine=True),
        Effect("red.async", by_engine=True),
        Effect("wgmma.mma_async", 1, sections=(ASYNC_SHARED,), by_engine=True),
        Effect("tcgen05", shared_piece=4, sections=(ASYNC_SHARED, TENSOR)),
        Effect("tcgen05.cp", shared_piece=4, sections=(ASYNC_SHARED, TENSOR), by_engine=True),
        Effect("tcgen05.mma", shared_piece=4, sections=(ASYNC_SHARED, TENSOR), by_engine=True),
    )
}
"""By opcode, the longest prefix counts; what is not here reads all its operands."""


@lru_cache(maxsize=1 << 12)
def effect_of(opcode: tuple[str, ...]) -> Effect:
    """What the table says of an opcode."""
    names = (".".join(opcode[:length]) for length in range(len(opcode), 0, -1))
    return next((EFFECTS[name] for name in names if name in EFFECTS), Effect())


def names_in(operand: Operand) -> tuple[str, ...]:
    """The registers, variables and constants that an operand names."""
    if isinstance(operand, (Memory, Offset)):
        return (operand.base,)
    if isinstance(operand, TensorAddress):
        return operand.base, *operand.coordinates
    if isinstance(operand, Vector):
        return operand.items
    if isinstance(operand, Pair):
        return operand.first, operand.second
    return (operand.name if isinstance(operand, Negated) else operand,)


def written_by(instruction: Instruction) -> tuple[str, ...]:
    """The registers that an instruction writes."""
    count = effect_of(instruction.opcode).results
    return tuple(name for operand in instruction.operands[:count] for name in names_in(operand) if name != "_")


def is_hint(part: str) -> bool:
    """Whether a part of an opcode is about caches only."""
    return part in CACHE_HINTS or part.startswith(("L1::", "L2::"))


@attrs.frozen
class Parts:
    """What the opcode of a load or store says."""

    access: Access
    type: str
    count: int
    element: int


def parts_of(instruction: Instruction) -> Parts:
    """The parts of the opcode of ``ld`` or ``st``.

    Raises:
        UnsupportedPtxError: a part that is not known or does not go with the others.
    """
    name, *rest = instruction.opcode
    types = [part for part in rest if part in REGISTER_BITS or part == "b128"]
    if len(types) != 1 or types[0] in ("pred", "f16x2", "bf16x2", "bf16"):
        raise refuse(instruction, f"{name} does not have one type that memory has")
    type = types[0]
    rest.remove(type)
    if type == "b128":  # as the registers have it
        type, rest = "b64", [*rest, "v2"]
    space, order, scope, count, volatile, read_only = "", "", "", 1, False, False
    for part in rest:
        if part in SPACES and not space:
            space = SPACES[part]
        elif part in ORDERS.get(name, ()) and not order:
            order = part
        elif part in SCOPES and not scope:
            scope = part
        elif part in VECTORS and count == 1:
            count = VECTORS[part]
        elif part == "volatile" and not order:
            volatile = True
        elif part == "mmio":
            pass
        elif part == "nc" and name == "ld":
            read_only = True
        elif not is_hint(part):
            raise refuse(instruction, f"'.{part}' is not known here")
    strong = order in ("relaxed", "acquire", "release")
    if strong != bool(scope) or (volatile and strong):
        raise refuse(instruction, "a scope goes with .relaxed, .acquire and .release, and with nothing else")
    element = REGISTER_BITS[type] // 8
    total = element * count
    if (
        total > 32
        or (total > 16 and (space not in ("global", "") or program_is_narrow(type)))
        or (count == 8 and element < 4)
    ):
        raise refuse(instruction, f"no instruction moves {count} elements of {element} bytes in this space")
    access = Access(space, total, order or "weak", scope or "gpu", volatile, None, read_only)
    return Parts(access, type, count, element)


_NO_LOADS = frozenset(("st", "red", "bra", "bar", "barrier", "fence", "membar", "nanosleep", "exit", "ret"))


def may_load(instruction: Instruction) -> bool:
    """Whether an instruction may read memory (what is not known here may)."""
    return instruction.opcode[0] not in _NO_LOADS and not effect_of(instruction.opcode).registers_only


def loads_strongly(instruction: Instruction) -> bool:
    """Whether an instruction may load from memory by a strong access, and does not write there."""
    name = instruction.opcode[0]
    if name == "ld":
        return bool(parts_of(instruction).access.strength)
    return name != "atom" and may_load(instruction)


def program_is_narrow(type: str) -> bool:
    """Whether a type is too narrow for accesses of 256 bits."""
    return REGISTER_BITS[type] < 32


@lru_cache(maxsize=32)
def read_somewhere(program: Program) -> frozenset[str]:
    """Registers that some instruction of a program reads."""
    found: set[str] = set()
    for instruction in program.instructions:
        found.add(instruction.guard)
        for operand in instruction.operands[effect_of(instruction.opcode).results :]:
            found.update(names_in(operand))
    return frozenset(found)


@lru_cache(maxsize=32)
def loads_somewhere(program: Program) -> bool:
    """Whether some instruction of a program loads from shared or local memory, or may."""
    parts = [set(i.opcode) for i in program.instructions if i.opcode[0] in ("ld", "ldu", "ldmatrix", "wmma")]
    return any(part.isdisjoint(("global", "const", "param", "param::entry")) for part in parts)


@lru_cache(maxsize=32)
def pieces(program: Program) -> tuple[int, int]:
    """Bytes that no access to shared and to global memory splits: the widest powers of two, at most 16."""
    shared = glob = 16
    for instruction in program.instructions:
        name, opcode = instruction.opcode[0], instruction.opcode
        size = effect_of(opcode).shared_piece
        shared = min(shared, size or 16)
        glob = 1 if "cp_mask" in opcode else glob
        if name in ("ld", "ldu", "st") and "async" not in opcode and "bulk" not in opcode:
            access = parts_of(instruction).access
            size = access.bytes & -access.bytes
            if access.space in ("", "shared", "shared::cluster"):
                shared = min(shared, size)
            if access.space in ("", "global"):
                glob = min(glob, size)
        elif name in ("atom", "red", "multimem", "wmma") or (name == "st" and "release" in opcode):
            size = next((max(1, REGISTER_BITS[part] // 8) for part in opcode if part in REGISTER_BITS), 1)
            shared, glob = min(shared, size), min(glob, size)
        elif opcode[:2] == ("cp", "async") and len(opcode) > 2 and opcode[2] in ("ca", "cg"):
            size = int(str(instruction.operands[2])) if str(instruction.operands[2]).isdigit() else 4
            shared = min(shared, size)
            glob = min(glob, 4 if len(instruction.operands) > 3 else size)
    return shared, glob


@lru_cache(maxsize=32)
def sections(program: Program) -> tuple[str, ...]:
    """The proxies whose fences matter to a program, and :data:`.order.clocks.ISSUED` where that does."""
    found: set[str] = set()
    for opcode in {instruction.opcode for instruction in program.instructions}:
        effect = effect_of(opcode)
        found.update(effect.sections)
        if effect.by_engine and effect.sections and "global" in opcode:
            found.add(ASYNC_GLOBAL)
    return tuple(name for name in (ASYNC_SHARED, ASYNC_GLOBAL, TENSORMAP, TENSOR, ISSUED) if name in found)


def shared_side_not_counted(opcode: tuple[str, ...]) -> str:
    """The instruction's name if it moves shared memory by an engine, whose wavefronts no model here knows; else ``""``."""
    effect = effect_of(opcode)
    touches = opcode[0] in ("wgmma", "tcgen05") or any(part.startswith("shared") for part in opcode)
    return effect.name if effect.by_engine and touches else ""
