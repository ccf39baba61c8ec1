"""The table of opcode kinds and memory accesses, and functions that derive properties of a program from the table.

The spelling and the operands of an opcode are in the core's table (:mod:`tilecopy_core.ptx.instructions`) and are not
repeated here; :func:`modifiers_of` parses its modifiers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import Any, Literal

import attrs

from tilecopy_core.ptx.instructions import instruction_of

from .alu import FORMS
from .alu.convert import INTEGERS
from .memory_model.access import SCOPES, SEMANTICS, SPACES, AccessKind
from .memory_model.clocks import ASYNC_GLOBAL, ASYNC_SHARED, ISSUED, TENSOR, TENSORMAP
from .program import CARRY, REGISTER_BITS, TAKES_PART, Instruction, Memory, Operand, Program, names_in, refuse

CACHE_HINTS = frozenset({"ca", "cg", "cs", "lu", "cv", "wb", "wt"})
_TYPES = (*REGISTER_BITS, "b128")
_SAID: dict[str, tuple[str, Any]] = {
    modifier: (what, value)
    for what, values in (
        ("space", {space: space for space in SPACES} | {"param::entry": "param", "shared::cta": "shared"}),
        ("order", {order: order for order in SEMANTICS}),
        ("scope", {scope: scope for scope in SCOPES}),
        ("count", {"v2": 2, "v4": 4, "v8": 8}),
        ("type", {type: type for type in _TYPES}),
    )
    for modifier, value in values.items()
}

Pieces = Callable[[Instruction], tuple[int, int]]
"""The granularity of an instruction's accesses to shared and to global memory, in bytes, at most 16."""


@attrs.frozen
class Effect:
    """A row of the opcode table: an opcode's kind and memory accesses.

    Attributes:
        name: the opcode, or a dotted prefix of it.
        kind: its role in the order of threads and accesses; a branch goes to its label.
        registers_only: it computes registers from registers, so its sources matter only if its results do.
        passes_on: an undefined source makes the result undefined: all of it, or the bits that depend on it; "": it is a hazard.
        loads: the memory that it may read: any, that of the space in its opcode, or none.
        polled: a loop may wait for the value that it reads.
        orders: the memory semantics that its opcode may have.
        pieces: the function for the granularity of its accesses; None: 16 bytes or more.
        sections: the sections of the clock that it needs (see :mod:`.memory_model.clocks`).
        by_engine: a copy engine moves the bytes, not the thread: always to or from shared memory, or if the opcode names it.
        sums: it adds products in an order that the ISA leaves open.
    """

    name: str = ""
    kind: Literal["", "load", "store", "atomic", "branch", "barrier", "fence", "wait", "end"] = ""
    registers_only: bool = False
    passes_on: Literal["", "all", "bits"] = ""
    loads: Literal["any", "named", "none"] = "any"
    polled: bool = False
    orders: tuple[str, ...] = SEMANTICS
    pieces: Pieces | None = None
    sections: tuple[str, ...] = ()
    by_engine: Literal["", "named", "always"] = ""
    sums: bool = False


def _in_shared(size: int) -> Pieces:
    return lambda instruction: (size, 16)


def _of_access(instruction: Instruction) -> tuple[int, int]:
    access = parts_of(instruction).access
    size = access.bytes & -access.bytes
    return (
        size if access.space in ("", "shared", "shared::cluster") else 16,
        size if access.space in ("", "global") else 16,
    )


def _of_element(instruction: Instruction) -> tuple[int, int]:
    size = REGISTER_BITS.get(modifiers_of(instruction.opcode).type, 8) // 8
    return size, size


def _of_copy(instruction: Instruction) -> tuple[int, int]:
    size = int(str(instruction.operands[2])) if str(instruction.operands[2]).isdigit() else 4
    return size, 4 if len(instruction.operands) > 3 else size


def _of_mask(instruction: Instruction) -> tuple[int, int]:
    return 16, 1 if "cp_mask" in instruction.opcode else 16


_BITWISE = frozenset(("mov", "and", "or", "xor", "not", "lop3", "prmt", "shl", "shr", "shf", "bfe", "bfi", "brev"))
_BITWISE |= {"selp", "setp", "szext", *(f"cvt.{to}.{source}" for to, source in product(INTEGERS, repeat=2))}
_OF_REGISTERS = ["activemask", "clusterlaunchcontrol.query_cancel", "createpolicy", "cvta", "elect", "getctarank"]
_OF_REGISTERS += ["isspacep", "mapa", "match", "mbarrier.pending_count", "movmatrix", "redux", "shfl", "vote"]
_STRONG = SEMANTICS[1:]

EFFECTS = {
    effect.name: effect
    for effect in (
        *(Effect(name, registers_only=True, passes_on="all") for name in FORMS),
        *(Effect(name, registers_only=True, passes_on="bits") for name in _BITWISE),
        *(Effect(name, registers_only=True) for name in _OF_REGISTERS),
        Effect("mma", registers_only=True, sums=True),
        Effect("wmma.mma", registers_only=True, sums=True),
        Effect("ld", "load", loads="named", polled=True, orders=("weak", "relaxed", "acquire"), pieces=_of_access),
        Effect("ldu", "load", loads="named", orders=(), pieces=_of_access),
        Effect("st", "store", loads="none", orders=("weak", "relaxed", "release"), pieces=_of_access),
        Effect("st.bulk", loads="none", pieces=_in_shared(8)),
        Effect("st.async", loads="none", pieces=_in_shared(4), by_engine="named"),
        Effect("st.async.release", loads="none", pieces=_of_element),
        Effect("st.async.mmio", loads="none", pieces=_of_element),
        Effect("atom", "atomic", polled=True, orders=_STRONG, pieces=_of_element),
        Effect("red", "atomic", loads="none", orders=_STRONG, pieces=_of_element),
        Effect("red.async", "atomic", loads="none", pieces=_of_element, by_engine="named"),
        Effect("multimem", pieces=_of_element),
        Effect("wmma.load", loads="named", pieces=_of_element),
        Effect("wmma.store", pieces=_of_element),
        Effect("ldmatrix", loads="named", pieces=_in_shared(8)),
        Effect("stmatrix", pieces=_in_shared(8)),
        Effect("bra", kind="branch", loads="none"),
        *(Effect(name, kind="end", loads="none") for name in ("exit", "ret")),
        *(Effect(name, kind="barrier", loads="none") for name in ("bar", "barrier")),
        *(Effect(name, kind="fence", loads="none") for name in ("fence", "membar")),
        Effect("fence.proxy.tensormap::generic", kind="fence", loads="none", sections=(TENSORMAP,)),
        Effect("tensormap.cp_fenceproxy", sections=(TENSORMAP,)),
        Effect("nanosleep", loads="none"),
        Effect(TAKES_PART, loads="none"),
        *(Effect(f"mbarrier.{name}", pieces=_in_shared(8)) for name in ("init", "expect_tx", "complete_tx")),
        *(Effect(f"mbarrier.{name}", pieces=_in_shared(8)) for name in ("arrive", "arrive_drop", "try_wait")),
        Effect("mbarrier.test_wait", polled=True, pieces=_in_shared(8)),
        Effect("mbarrier.inval", pieces=_in_shared(8), sections=(ISSUED,)),
        Effect("cp.async.ca", pieces=_of_copy),
        Effect("cp.async.cg", pieces=_of_copy),
        Effect("cp.async.wait_group", kind="wait"),
        Effect("cp.async.bulk", pieces=_of_mask, sections=(ASYNC_SHARED,), by_engine="named"),
        Effect("cp.reduce.async.bulk", sections=(ASYNC_SHARED,), by_engine="named"),
        Effect("clusterlaunchcontrol.try_cancel", sections=(ASYNC_SHARED,), by_engine="named"),
        Effect("wgmma.mma_async", sections=(ASYNC_SHARED,), by_engine="always", sums=True),
        Effect("tcgen05", pieces=_in_shared(4), sections=(ASYNC_SHARED, TENSOR)),
        Effect("tcgen05.cp", pieces=_in_shared(4), sections=(ASYNC_SHARED, TENSOR), by_engine="always"),
        Effect("tcgen05.mma", pieces=_in_shared(4), sections=(ASYNC_SHARED, TENSOR), by_engine="always", sums=True),
    )
}
"""The rows by opcode; the longest prefix counts. Any other opcode reads all its operands, and may read memory."""


@lru_cache(maxsize=1 << 12)
def effect_of(opcode: tuple[str, ...]) -> Effect:
    """Return the table's row for an opcode, or a row of defaults if the table has none."""
    names = (".".join(opcode[:length]) for length in range(len(opcode), 0, -1))
    return next((EFFECTS[name] for name in names if name in EFFECTS), Effect())


@attrs.frozen
class Modifiers:
    """The parsed modifiers of an opcode that accesses memory. Of several spaces or types, only the first is kept.

    ``space``: as in :class:`AccessKind`, or ""; ``order``: memory semantics, or ""; ``scope``: or ""; ``count``:
    elements of a vector, or 0; ``type``: of an element, or "" if no register has it; ``rest``: all others in order, without cache hints.
    """

    space: str = ""
    order: str = ""
    scope: str = ""
    count: int = 0
    type: str = ""
    rest: tuple[str, ...] = ()


@lru_cache(maxsize=1 << 12)
def modifiers_of(opcode: tuple[str, ...]) -> Modifiers:
    """Return the parsed modifiers of an opcode."""
    orders = effect_of(opcode).orders
    fields, rest = {}, []
    for part in opcode[1:]:
        what, value = _SAID.get(part, ("", part))
        if what and what not in fields and (what != "order" or part in orders):
            fields[what] = value
        elif not is_hint(part):
            rest.append(part)
    return Modifiers(**fields, rest=tuple(rest))


@lru_cache(maxsize=1 << 12)
def _result_count(opcode: tuple[str, ...]) -> int:
    """Return the number of leading operands that an opcode writes; it is not known for instructions of other packages."""
    roles = instruction_of(".".join(opcode)).roles
    return next((n for n, role in enumerate(roles) if role.is_address or not role.writes), len(roles))


def _results_of(instruction: Instruction) -> tuple[Operand, ...]:
    """Return the first operands that an instruction writes; a result may be left out before an address."""
    first = instruction.operands[: _result_count(instruction.opcode)]
    return tuple(operand for operand in first if not isinstance(operand, Memory))


def written_by(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers that an instruction writes."""
    carry = (CARRY,) if "cc" in instruction.opcode else ()
    return (*(x for operand in _results_of(instruction) for x in names_in(operand) if x != "_"), *carry)


def is_hint(part: str) -> bool:
    """Return True if a modifier is only a cache hint."""
    return part in CACHE_HINTS or part.startswith(("L1::", "L2::"))


@attrs.frozen
class Parts:
    """The parsed opcode of a load or store."""

    access: AccessKind
    type: str
    count: int
    element: int


def parts_of(instruction: Instruction) -> Parts:
    """Return the parsed opcode of an ``ld`` or ``st``."""
    parts = _parts_or_fault(instruction.opcode)
    if isinstance(parts, str):
        raise refuse(instruction, parts)
    return parts


@lru_cache(maxsize=1 << 12)
def _parts_or_fault(opcode: tuple[str, ...]) -> Parts | str:
    """Return the parsed opcode of an ``ld`` or ``st``, or what is wrong with it."""
    name, mods = opcode[0], modifiers_of(opcode)
    type, count = mods.type, mods.count or 1
    known = ("volatile", "mmio", "nc") if name == "ld" else ("volatile", "mmio")
    if type in ("", "pred", "f16x2", "bf16x2", "bf16") or any(part in _TYPES for part in mods.rest):
        return f"{name} must have one type that memory can hold, such as .b32, got {'.'.join(opcode)}"
    unknown = [part for part in mods.rest if part not in known]
    if type == "b128":  # the type of its registers
        unknown += [f"v{count}"] if mods.count else []
        type, count = "b64", 2
    if unknown:
        return f"the modifier '.{unknown[0]}' is not supported"
    strong, volatile = mods.order not in ("", "weak"), "volatile" in mods.rest
    if strong != bool(mods.scope) or (volatile and strong):
        return f"a scope must be present if and only if the access is .relaxed, .acquire or .release, got {'.'.join(opcode)}"
    element = REGISTER_BITS[type] // 8
    total, limit = element * count, 32 if element >= 4 and mods.space in ("global", "") else min(16, 4 * element)
    if total > limit:
        return f"this access must have at most {limit} bytes, got {count} x {element}-byte elements"
    access = AccessKind(mods.space, total, mods.order or "weak", mods.scope or "gpu", volatile, None, "nc" in mods.rest)
    return Parts(access, type, count, element)


def may_load(instruction: Instruction) -> bool:
    """Return True if an instruction may read memory, or if the table does not have the instruction's opcode."""
    effect = effect_of(instruction.opcode)
    return effect.loads != "none" and not effect.registers_only


def loads_strongly(instruction: Instruction) -> bool:
    """Return True if an instruction may be a strong load that does not write memory."""
    kind = effect_of(instruction.opcode).kind
    if kind == "load":
        return bool(parts_of(instruction).access.strength)
    return kind != "atomic" and may_load(instruction)


@lru_cache(maxsize=32)
def read_somewhere(program: Program) -> frozenset[str]:
    """Return the registers that at least one instruction of a program reads."""
    registers: set[str] = set()
    for instruction in program.instructions:
        registers.add(instruction.guard)
        for operand in instruction.operands[len(_results_of(instruction)) :]:
            registers.update(names_in(operand))
    return frozenset(registers)


@lru_cache(maxsize=32)
def loads_somewhere(program: Program) -> bool:
    """Return True if an instruction of a program may load from shared or local memory."""
    named = {i.opcode for i in program.instructions if effect_of(i.opcode).loads == "named"}
    return any(modifiers_of(opcode).space not in ("global", "const", "param") for opcode in named)


@lru_cache(maxsize=32)
def pieces(program: Program) -> tuple[int, int]:
    """Return the bytes per shadow cell of shared memory and of global memory. Each access covers only whole cells."""
    of = [(effect_of(instruction.opcode).pieces, instruction) for instruction in program.instructions]
    sizes = [(16, 16), *(measure(instruction) for measure, instruction in of if measure is not None)]
    return min(shared for shared, _ in sizes), min(glob for _, glob in sizes)


@lru_cache(maxsize=32)
def sections(program: Program) -> tuple[str, ...]:
    """Return the sections of a program's vector clocks: one for each proxy, and ``ISSUED`` for ``mbarrier.inval``."""
    proxies: set[str] = set()
    for opcode in {instruction.opcode for instruction in program.instructions}:
        effect = effect_of(opcode)
        proxies.update(effect.sections)
        if effect.by_engine and effect.sections and "global" in opcode:
            proxies.add(ASYNC_GLOBAL)
    return tuple(name for name in (ASYNC_SHARED, ASYNC_GLOBAL, TENSORMAP, TENSOR, ISSUED) if name in proxies)


def shared_side_not_counted(opcode: tuple[str, ...]) -> str:
    """Return an opcode's name if the profile cannot count its shared-memory accesses, else ``""``."""
    effect = effect_of(opcode)
    touches = effect.by_engine == "always" or any(part.startswith("shared") for part in opcode)
    return effect.name if effect.by_engine and touches else ""


def is_approximate(opcode: tuple[str, ...]) -> bool:
    """Return True if the PTX ISA specifies an error bound for an opcode's result instead of its exact bits."""
    sums = effect_of(opcode).sums and {"s32", "f64", "kind::i8"}.isdisjoint(opcode)
    return sums or "approx" in opcode or "full" in opcode
