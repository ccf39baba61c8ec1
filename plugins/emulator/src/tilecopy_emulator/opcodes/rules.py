"""Checks of operands that ptxas also makes, in addition to the checks in each instruction handler.

A program that breaks one of these rules does not assemble, so it is an error before the run. Source: PTX ISA, sections 5 to 9,
and ptxas 13.0 if the ISA leaves it open.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tilecopy_core.ptx.instructions import Instruction as Needed
from tilecopy_core.ptx.instructions import Place

from ..program import (
    REGISTER_BITS,
    Braces,
    Instruction,
    Memory,
    Operand,
    Pair,
    Program,
    TensorAddress,
    UnsupportedPtxError,
    names_in,
    spaces_of,
)
from .operands import is_constant, refuse

_DISCARDING = ("atom", "setp", "mbarrier.arrive", "mbarrier.arrive_drop", "elect")
"""Opcodes whose whole result may be ``_``; elements of a vector always may."""

MOST_STATIC_BYTES = 48 << 10
_SPACES = ("global", "shared", "local", "const", "param")
_BARRIERS = range(16)
_WARPS = range(0, 1 << 32, 32)
_BYTE = range(256)
_BULK = range(0, (1 << 20) - 15, 16)
_RANGES: dict[str, dict[int, Sequence[int]]] = {
    "bfe": {2: _BYTE, 3: _BYTE},
    "bfi": {3: _BYTE, 4: _BYTE},
    "pmevent": {0: range(16)},
    **{f"{name}.sync": {0: _BARRIERS, 1: _WARPS} for name in ("bar", "bar.cta", "barrier", "barrier.cta")},
    **{f"{name}.red": {1: _BARRIERS, 2: _WARPS} for name in ("bar", "bar.cta", "barrier", "barrier.cta")},
    **{f"{name}.arrive": {0: _BARRIERS, 1: _WARPS[1:]} for name in ("bar", "bar.cta", "barrier", "barrier.cta")},
    "mbarrier.test_wait.parity": {2: range(2)},
    "mbarrier.try_wait.parity": {2: range(2)},
    "mbarrier.arrive": {2: range(1, 1 << 32)},
    "mbarrier.arrive.expect_tx": {},
    "mbarrier.arrive_drop": {2: range(1, 1 << 32)},
    "mbarrier.arrive_drop.expect_tx": {},
    "cp.async.bulk.global": {2: _BULK},
    "cp.async.bulk.shared::cluster": {2: _BULK},
    "cp.async.bulk.shared::cta": {2: _BULK},
    "cp.async.bulk.prefetch.L2": {1: _BULK},
    "tcgen05.commit": {1: ()},
    "tcgen05.alloc": {1: (32, 64, 128, 256, 512)},
    "tcgen05.dealloc": {1: (32, 64, 128, 256, 512)},
}
"""Start of an opcode -> position of an operand -> its allowed constants; none: it must be a register."""


def demand_operands(instruction: Instruction, needed: Needed, program: Program) -> None:
    """Raise an error for operands that ptxas rejects."""
    ranges = _ranges_of(instruction.opcode)
    for position, operand in enumerate(instruction.operands):
        if isinstance(operand, (Memory, TensorAddress)):
            spec = needed.operands[position] if position < len(needed.operands) else None
            spaces = spec.spaces if isinstance(spec, Place) else _space_of(instruction.opcode)
            _demand_address(operand, spaces, instruction, program)
        elif isinstance(operand, Braces):
            _demand_alike(operand, instruction, program)
        elif position in ranges and is_constant(operand) and not _may_be(operand, ranges[position]):
            wanted = _in_words(ranges[position])
            raise refuse(instruction, f"operand {position + 1} must be {wanted}, got {operand}")
    if "L2::cache_hint" in instruction.opcode:
        policies = instruction.operands[-2:] if "cp_mask" in instruction.opcode else instruction.operands[-1:]
        if not policies or program.register_types.get(str(policies[0])) not in ("b64", "u64", "s64"):
            raise refuse(instruction, "the cache policy must be a 64-bit register")
    if instruction.operands:
        _demand_result(instruction.operands[0], instruction)


def _in_words(numbers: Sequence[int]) -> str:
    if not isinstance(numbers, range):
        return f"a register{' or one of ' if numbers else ''}{', '.join(map(str, numbers))}"
    if numbers.step > 1:
        return f"a register or a multiple of {numbers.step} from {numbers[0]} to {numbers[-1]}"
    return f"a register or an integer from {numbers[0]} to {numbers[-1]}"


def _may_be(constant: str, numbers: Sequence[int]) -> bool:
    return bool(numbers) and (not _is_whole(constant) or int(constant) in numbers)


def _is_whole(constant: str) -> bool:
    return constant.lstrip("-").isdigit()


@lru_cache(maxsize=1 << 12)
def _ranges_of(opcode: tuple[str, ...]) -> dict[int, Sequence[int]]:
    names = (".".join(opcode[:length]) for length in range(len(opcode), 0, -1))
    return next((_RANGES[name] for name in names if name in _RANGES), {})


@lru_cache(maxsize=1 << 12)
def _space_of(opcode: tuple[str, ...]) -> tuple[str, ...]:
    """Return the state space of an instruction's address; empty if it names none, or several for several addresses."""
    named = tuple(part for part in opcode if part.partition("::")[0] in _SPACES)
    return named if len(named) == 1 else ()


def _demand_result(operand: Operand, instruction: Instruction) -> None:
    opcode = instruction.opcode
    discards = opcode[0] in _DISCARDING or ".".join(opcode[:2]) in _DISCARDING
    whole = operand.first if isinstance(operand, Pair) else operand
    if opcode[0] == "elect" and (not isinstance(operand, Pair) or operand.second == "_"):
        raise refuse(instruction, "the results of elect must include a predicate, such as _|p, got none")
    if opcode[0] == "ldmatrix" and not isinstance(operand, Braces):
        raise refuse(instruction, f"the result of ldmatrix must be registers in braces, got '{operand}'")
    if whole == "_" and not discards:
        raise refuse(instruction, f"the result of {opcode[0]} must not be _")


def _demand_address(
    operand: Memory | TensorAddress, spaces: tuple[str, ...], instruction: Instruction, program: Program
) -> None:
    base = operand.base
    if base in program.register_bits:
        if program.register_types.get(base, "b")[0] == "f":
            raise refuse(instruction, f"expected an address, got register {base} of .{program.register_types[base]}")
        width = 32 if instruction.opcode[0] == "tcgen05" and not spaces else 64 if spaces == ("global",) else 0
        if width and program.register_bits[base] != width:
            have = program.register_bits[base]
            raise refuse(instruction, f"expected an address of {width} bits, got the register {base} of {have} bits")
    elif not base or is_constant(base):
        if spaces != ("local",):
            raise refuse(instruction, f"a constant address must be in .local memory, got [{base or operand.offset}]")
    else:
        base_space = spaces_of(program).get(base, "param")
        if base_space not in {space.partition("::")[0] for space in spaces or _SPACES[:3]}:
            raise refuse(
                instruction, f"expected an address in {' or '.join(spaces or _SPACES[:3])}, got {base} in .{base_space}"
            )


def _demand_alike(vector: Braces, instruction: Instruction, program: Program) -> None:
    types = [program.register_types[name] for name in vector.items if name in program.register_types]
    if len(types) < len(vector.items):
        for name in vector.items:
            if name in spaces_of(program):
                raise refuse(instruction, f"the address of {name} must be moved to a register first")
    if len({REGISTER_BITS[type] for type in types}) > 1:
        raise refuse(instruction, f"the registers in braces must have the same width, got {', '.join(vector.items)}")
    if instruction.opcode[0] == "tcgen05" and len(types) < len(vector.items):
        raise refuse(instruction, f"every element in braces must be a register, got {', '.join(vector.items)}")
    kinds = {"f" if type[0] == "f" else "i" for type in types if type[0] != "b"}
    kinds |= {"i" for name in vector.items if _is_whole(name)}
    if len(kinds) > 1:
        raise refuse(instruction, f"the elements must be all integers or all floats, got {', '.join(vector.items)}")
    if set(vector.items) == {"_"}:
        raise refuse(instruction, "at least one element of a vector must not be _")


def demand_together(program: Program) -> None:
    """Raise an error for a kernel that uses both CTA groups of tcgen05, or more than 48 KiB of static shared memory."""
    named = {name for i in program.instructions for operand in i.operands for name in names_in(operand)}
    static = sum(var.bytes for var in program.variables if var.space == "shared" and var.name in named)
    if static > MOST_STATIC_BYTES:
        raise UnsupportedPtxError(
            f"{program.name} must have at most {MOST_STATIC_BYTES} bytes of static shared memory, got {static}: use dynamic shared memory"
        )
    groups: dict[str, Instruction] = {}
    for instruction in program.instructions:
        if instruction.opcode[0] == "tcgen05":
            for part in instruction.opcode:
                if part.startswith("cta_group::"):
                    groups.setdefault(part, instruction)
    if len(groups) > 1:
        _, second = groups.values()
        raise refuse(
            second, f"all tcgen05 instructions of a kernel must have the same .cta_group, got {' and '.join(groups)}"
        )
