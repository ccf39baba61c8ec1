"""Kernels of one instruction each, for every form that the emulator knows, with edge values and random ones.

``cases()`` gives them; the emulator's tests compare each with an independent reference, and on a GPU the same modules
can be launched and compared with the emulator byte by byte. The name of a case begins with ``approximate`` where the ISA
gives an error bound and no bits.

Each thread loads its operands from the input arrays (one array an operand, in the order of the parameters), executes
the instruction once, and stores up to two results as 64-bit words at ``output[2 * i]`` and ``output[2 * i + 1]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from tilecopy_emulator.alu import FORMS
from tilecopy_emulator.alu.atomic import ATOMICS
from tilecopy_emulator.alu.forms import TYPES, Form, Mode

THREADS = 512
BLOCK = 128
EDGE_BITS = {
    "f32": [
        0,
        0x80000000,
        1,
        0x80000001,
        0x7FFFFF,
        0x800000,
        0x80800000,
        0x3F800000,
        0xBF800000,
        0x3F7FFFFF,
        0x40490FDB,
        0x7F7FFFFF,
        0xFF7FFFFF,
        0x7F800000,
        0xFF800000,
        0x7FC01234,
        0xFFABCDEF,
        0x4F000000,
        0xCF000001,
        0x5F800000,
        0x3F000000,
        0x3FC00000,
        0xC0200000,
        0x33800000,
        0x34000001,
        0x00FFFFFF,
        0x4B800001,
        0x477FE000,
        0x477FF000,
    ],
    "f64": [
        0,
        1 << 63,
        1,
        (1 << 63) + 5,
        0x10000000000000,
        0xFFFFFFFFFFFFF,
        0x3FF0000000000000,
        0xBFF0000000000000,
        0x3FEFFFFFFFFFFFFF,
        0x7FEFFFFFFFFFFFFF,
        0xFFEFFFFFFFFFFFFF,
        0x7FF0000000000000,
        0xFFF0000000000000,
        0x7FF8000000001234,
        0xFFF4000000000001,
        0x41E0000000000000,
        0xC1E0000000200000,
        0x43E0000000000000,
        0x3FE0000000000000,
        0x3FF8000000000000,
        0xC004000000000000,
        0x47EFFFFFF0000000,
        0x380FFFFFF0000000,
        0x36A0000000000000,
        0x40EFFC0000000000,
    ],
    "f16": [
        0,
        0x8000,
        1,
        0x8001,
        0x3FF,
        0x400,
        0x8400,
        0x3C00,
        0xBC00,
        0x3BFF,
        0x7BFF,
        0xFBFF,
        0x7C00,
        0xFC00,
        0x7E12,
        0xFD01,
        0x3800,
        0x3E00,
        0xC100,
        0x4248,
        0x5BFF,
        0x6400,
        0x6401,
    ],
    "bf16": [
        0,
        0x8000,
        1,
        0x8001,
        0x7F,
        0x80,
        0x8080,
        0x3F80,
        0xBF80,
        0x3F7F,
        0x7F7F,
        0xFF7F,
        0x7F80,
        0xFF80,
        0x7FC1,
        0xFFA2,
        0x3F00,
        0x3FC0,
        0xC020,
        0x4049,
        0x4F00,
        0x5F80,
        0x4780,
    ],
}
"""Zeros, subnormal numbers, the ends of the normal range, ones, halves (ties), limits of integers, infinities, NaNs."""


class Case(NamedTuple):
    """A kernel and its data."""

    name: str
    ptx: str
    inputs: list[Any]
    output: Any
    grid: int
    block: int


def width_of(type: str) -> int:
    """Bits of a type."""
    if type == "pred":
        return 1
    if type in ("e2m1x2", "e2m1x4"):
        return 4 * int(type[-1])
    base, _, count = type.removeprefix("u").partition("x") if type == "ue8m0x2" else type.partition("x")
    return int(base.lstrip("bfsue").split("m")[-1] or 0) * int(count or 1) if base[0] != "e" else 8 * int(count or 1)


def edges_of(type: str) -> list[int]:
    """Bits at which an instruction may go wrong."""
    if type == "pred":
        return [0, 1]
    if type in EDGE_BITS:
        return EDGE_BITS[type]
    width = width_of(type)
    element = type.removesuffix("x2")
    if element != type and element in EDGE_BITS:
        half, few = width // 2, EDGE_BITS[element]
        return [few[(5 * i + 3) % len(few)] << half | few[i] for i in range(len(few))]
    top = 1 << (width - 1)
    found = [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        33,
        top - 1,
        top,
        top + 1,
        2 * top - 1,
        2 * top - 2,
        0x55555555,
        0x12345678,
        0xFFFF,
        0x10000,
    ]
    return [value & (2 * top - 1) for value in found]


def random_of(type: str, count: int, rng: Any) -> Any:
    """Random bits; half of the floating-point ones of moderate size, so that sums and products do something."""
    width = width_of(type)
    if width == 1:
        return rng.integers(0, 2, count, dtype=np.uint64)
    bits = (
        rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False)
        if width == 64
        else rng.integers(0, 1 << width, count, dtype=np.uint64)
    )
    element = type.removesuffix("x2")
    moderate = {"f32": (23, 120, 136), "f64": (52, 1010, 1034), "f16": (10, 10, 20), "bf16": (7, 120, 136)}
    if element in moderate:
        fraction, low, high = moderate[element]
        each = width_of(element)
        for part in range(width // each):
            exponent = rng.integers(low, high, count).astype(np.uint64) << np.uint64(fraction + part * each)
            clear = np.uint64(((1 << (each - 1 - fraction)) - 1) << (fraction + part * each))
            bits = np.where(np.arange(count) % 2 == 0, bits, (bits & ~clear) | exponent)
    elif width >= 32:
        small = bits >> rng.integers(0, width, count).astype(np.uint64)
        bits = np.where(np.arange(count) % 3 == 0, small, bits)
    return bits


def values_for(types: list[str], rng: Any, *, divisor: bool) -> list[Any]:
    """An array an operand: every pair of some edges, then random bits."""
    found = []
    for position, type in enumerate(types):
        edges = np.array(edges_of(type), np.uint64)
        picks = rng.permutation(len(edges))
        lanes = np.arange(THREADS)
        index = {0: lanes % len(edges), 1: lanes // len(edges) * 7 + lanes * 3}.get(
            position, lanes * (position + 3) // 2 + picks[lanes % len(edges)]
        )
        values = edges[index % len(edges)]
        values = np.where(lanes < THREADS // 2, values, random_of(type, THREADS, rng))
        if divisor and position == 1:
            values = np.where(values == 0, np.uint64(3), values)
        found.append(values)
    return found


def defined(form: Form, mode: Mode, values: list[Any]) -> list[Any]:
    """Operands for which the ISA says something, and those that it names."""
    if form.name == "fns":
        return [values[0], values[1] & np.uint64(31), np.where(values[2] == 1 << 31, np.uint64(1), values[2])]
    if not mode.has("oob"):
        return values
    infinity = {"f16": 0x7C00, "bf16": 0x7F80}[mode.type.removesuffix("x2")]  # odd NaNs become the one of tensor copies
    halves = [values.astype(np.uint32).view(np.uint16) for values in values]
    halves = [np.where((half & 0x7FFF > infinity) & (half & 1 == 1), half & 0x8000 | 0x7FF7, half) for half in halves]
    return [half.astype(np.uint16).view(np.uint32).astype(np.uint64) for half in halves]


def array_of(values: Any, type: str) -> Any:
    """64-bit words as an array of a type's width (predicates: bytes)."""
    return values.astype(f"u{max(8, width_of(type)) // 8}")


def _register(number: int, type: str) -> str:
    if type == "b8":
        return f"%b{number}"
    return {1: "%p", 8: "%h", 16: "%h", 32: "%r", 64: "%d"}[width_of(type)] + str(number)


def module(body: list[str], operands: list[str], target: str, version: str) -> str:
    """A kernel whose ``body`` works on operands loaded into registers 1, 2, .. and leaves 64-bit results in %d20, %d21."""
    parameters = ",\n".join(
        f"\t.param .u64 param_{name}" for name in [*(f"in{i}" for i in range(len(operands))), "out"]
    )
    lines = [
        f".version {version}",
        f".target {target}",
        ".address_size 64",
        "",
        f".visible .entry single(\n{parameters}\n)",
        "{",
        "\t.reg .pred %p<30>;",
        *(["\t.reg .b8 %b<30>;"] if any("%b" in line for line in body) else []),
        "\t.reg .b16 %h<30>;",
        "\t.reg .b32 %r<30>;",
        "\t.reg .b64 %d<30>;",
        "",
        "\tmov.u32 %r20, %ctaid.x;",
        "\tmov.u32 %r21, %ntid.x;",
        "\tmov.u32 %r22, %tid.x;",
        "\tmad.lo.s32 %r23, %r20, %r21, %r22;",
        "\tmov.b64 %d20, 0;",
        "\tmov.b64 %d21, 0;",
    ]
    for number, type in enumerate(operands):
        width = max(8, width_of(type))
        lines += [
            f"\tld.param.u64 %d22, [param_in{number}];",
            "\tcvta.to.global.u64 %d22, %d22;",
            f"\tmad.wide.u32 %d22, %r23, {width // 8}, %d22;",
        ]
        if type == "pred":
            lines += ["\tld.global.u8 %h25, [%d22];", f"\tsetp.ne.u16 %p{number + 1}, %h25, 0;"]
        else:
            lines += [f"\tld.global.{'u8' if width == 8 else f'b{width}'} {_register(number + 1, type)}, [%d22];"]
    lines += [
        "\tld.param.u64 %d23, [param_out];",
        "\tcvta.to.global.u64 %d23, %d23;",
        "\tmad.wide.u32 %d23, %r23, 16, %d23;",
    ]
    lines += [f"\t{line}" for line in body]
    return "\n".join([*lines, "\tst.global.b64 [%d23], %d20;", "\tst.global.b64 [%d23+8], %d21;", "\tret;", "}", ""])


def widened(register: str, type: str, slot: int) -> list[str]:
    """Put a result into the 64-bit register of a slot."""
    width = width_of(type)
    if width == 1:
        return [f"selp.u64 %d{20 + slot}, 1, 0, {register};"]
    if width == 64:
        return [f"mov.b64 %d{20 + slot}, {register};"]
    return [f"cvt.u64.u{width if register.startswith('%b') else max(16, width)} %d{20 + slot}, {register};"]


def roles_of(form: Form) -> list[str]:
    """The roles of its operands, those of a vector one by one."""
    return [each for role in form.sources for each in ([role[:-1]] * 4 if role.endswith("*") else [role])]


def _result_type(form: Form, role: str, mode: Mode) -> str:
    return form.type_of(role, mode)


def body_of(opcode: str, form: Form, mode: Mode, constants: dict[int, str]) -> tuple[list[str], list[str], list[str]]:
    """The lines around one instruction, the types of its operands, and those of its results."""
    sources = [form.type_of(role, mode) for role in roles_of(form) if role != "cc"]
    results = [form.type_of(role, mode) for role in form.results if role != "cc"]
    operands, loaded = [], []
    for number, type in enumerate(sources):
        if number in constants:
            operands.append(constants[number])
        else:
            loaded.append(type)
            operands.append(_register(len(loaded), type))
    lines = []
    family = "sub" if opcode.startswith("sub") else "add"
    if "cc" in form.sources:
        loaded.append("u32")
        carry = _register(len(loaded), "u32")
        lines += [f"and.b32 {carry}, {carry}, 1;"]
        lines += [f"add.cc.u32 %r24, {carry}, -1;" if family == "add" else f"sub.cc.u32 %r24, 0, {carry};"]
    if any(role.endswith("*") for role in form.sources):
        operands = [f"{{{', '.join(operands[:4])}}}", *operands[4:]]
    names = [_register(10 + i, type) for i, type in enumerate(results)]
    lines.append(f"{opcode} {'|'.join(names)}, {', '.join(operands)};")
    if "cc" in form.results:
        lines.append(f"{family}c.u32 %r25, 0, 0;")
    for slot, (name, type) in enumerate(zip(names, results, strict=True)):
        lines += widened(name, type, slot)
    if "cc" in form.results:
        lines.append("cvt.u64.u32 %d21, %r25;")
    return lines, loaded, results


def target_of(form: Form, mode: Mode) -> tuple[str, str]:
    """The target and version at which a form exists."""
    newest = mode.type == "f32x2" or (form.name in ("add", "sub", "fma") and len(mode.types) == 2)
    newest = newest or (form.name in ("min", "max") and len(form.sources) == 3)
    newest = newest or any(type.startswith(("e2m", "e3m", "ue8")) for type in mode.types)
    newest = newest or (mode.types[0] == "tf32" and mode.has("satfinite") and not mode.has("rna"))
    newest = newest or mode.has("rs")
    return ("sm_100a", "8.8") if newest else ("sm_90", "8.6")


ArithmeticCase = tuple[Case, Form, Mode, dict[int, str]]
_Spelling = tuple[str, Form, Mode, dict[int, str]]


def arithmetic_cases(name: str = "") -> Iterator[ArithmeticCase]:
    """Yield every spelling of every form of the arithmetic tables, or of those of one name."""
    for form in _forms(name):
        for spelling in _spellings(form):
            yield _arithmetic_case(*spelling), *spelling[1:]


def first_and_last_cases(name: str = "") -> Iterator[ArithmeticCase]:
    """Yield the first and the last spelling of every form of the arithmetic tables, or of those of one name."""
    for form in _forms(name):
        spellings = list(_spellings(form))
        for spelling in spellings[:1] + spellings[1:][-1:]:
            yield _arithmetic_case(*spelling), *spelling[1:]


def _forms(name: str) -> Iterator[Form]:
    return (form for forms in ([FORMS[name]] if name else FORMS.values()) for form in forms)


def _spellings(form: Form) -> Iterator[_Spelling]:
    """Yield each opcode of a form, with its mode and the operands that are constants."""
    for opcode in form.spellings():
        parts = opcode.split(".")[1:]
        mode = form.match(tuple(p for p in parts if p in TYPES), tuple(p for p in parts if p not in TYPES))
        assert mode is not None
        for table in ["0x96", "0xE8", "0x1B", "0x80"] if form.name == "lop3" else [""]:
            yield opcode, form, mode, {3: table} if table else {}


def _arithmetic_case(opcode: str, form: Form, mode: Mode, constants: dict[int, str]) -> Case:
    body, loaded, _ = body_of(opcode, form, mode, constants)
    rng = np.random.default_rng(abs(hash_of(opcode)))
    values = values_for(loaded, rng, divisor=form.name in ("div", "rem") and mode.type[0] in "us")
    values = defined(form, mode, values)
    inputs = [array_of(x, type) for x, type in zip(values, loaded, strict=True)]
    sources = len([role for role in form.sources if role != "cc"])
    name = f"{opcode} {sources}{''.join(constants.values())}"
    return Case(
        f"approximate {name}" if form.approximate else name,
        module(body, loaded, *target_of(form, mode)),
        inputs,
        np.zeros(2 * THREADS, np.uint64),
        THREADS // BLOCK,
        BLOCK,
    )


def is_disputed(form: Form, mode: Mode) -> bool:
    """Return whether ptxas does not follow the pseudocode of the PTX ISA.

    It has no intermediate result of 34 bits: ptxas 13.5, and on an H200 the driver's 13.0, saturate, shift or compare a sum or product
    that has wrapped, and take unsigned sources of it as signed.
    """
    unsigned = "u32" in mode.types[1:]
    if form.name == "vmad":
        return unsigned and (mode.has("sat") or mode.has("shr7") or mode.has("shr15"))
    if form.name[0] == "v" and (mode.has("min") or mode.has("max")):
        return True
    return form.name in ("vadd", "vsub", "vabsdiff") and unsigned and mode.has("sat") and mode.types[0] == "u32"


def hash_of(text: str) -> int:
    """A number from a text, the same in every process."""
    found = 17
    for character in text:
        found = (found * 131 + ord(character)) % (1 << 61)
    return found


def atomic_cases() -> Iterator[tuple[Case, Form, Mode]]:
    """Every operation of ``atom`` on global memory, each thread on a word of its own: the old value and the new one."""
    for form in ATOMICS:
        for opcode in form.spellings():
            parts = opcode.split(".")
            mode = form.match(tuple(p for p in parts[1:] if p in TYPES), tuple(p for p in parts[1:] if p not in TYPES))
            assert mode is not None
            type = mode.type
            if width_of(type) == 128:
                continue
            width = width_of(type)
            operands = [type] * len(form.sources)
            names = [_register(i + 1, type) for i in range(len(operands))]
            result = _register(10, type)
            body = [
                f"st.global.b{width} [%d23+8], {names[0]};",
                f"atom.global.{opcode} {result}, [%d23+8], {', '.join(names[1:])};",
                f"ld.global.b{width} {_register(11, type)}, [%d23+8];",
                *widened(result, type, 0),
                *widened(_register(11, type), type, 1),
            ]
            rng = np.random.default_rng(hash_of(opcode))
            values = values_for(operands, rng, divisor=False)
            if form.name == "cas":
                values[1] = np.where(np.arange(THREADS) % 2 == 0, values[0], values[1])
            inputs = [array_of(x, type) for x in values]
            text = module(body, operands, "sm_90", "8.6")
            yield (
                Case(f"atom.{opcode}", text, inputs, np.zeros(2 * THREADS, np.uint64), THREADS // BLOCK, BLOCK),
                form,
                mode,
            )


WARP = {
    **{
        f"shfl.sync.{kind}.b32 {b} {c:#x}": [f"shfl.sync.{kind}.b32 %r10|%p10, %r1, {b}, {c}, -1;"]
        for kind in ("up", "down", "bfly", "idx")
        for b in (0, 1, 5, 17, 31)
        for c in ((0x0, 0x1800, 0x1000) if kind == "up" else (0x1F, 0x181F, 0x1C1F, 0x100F))
    },
    "vote.all": ["setp.lt.s32 %p11, %r1, 0;", "vote.sync.all.pred %p10, %p11, -1;", "selp.u32 %r10, 1, 0, %p10;"],
    "vote.any": ["setp.lt.s32 %p11, %r1, 0;", "vote.sync.any.pred %p10, !%p11, -1;", "selp.u32 %r10, 1, 0, %p10;"],
    "vote.uni": ["setp.lt.s32 %p11, %r1, 0;", "vote.sync.uni.pred %p10, %p11, -1;", "selp.u32 %r10, 1, 0, %p10;"],
    "vote.ballot": ["setp.lt.s32 %p10, %r1, 0;", "vote.sync.ballot.b32 %r10, %p10, -1;"],
    "match.any": ["and.b32 %r11, %r1, 3;", "match.any.sync.b32 %r10, %r11, -1;", "setp.eq.u32 %p10, %r10, 0;"],
    "match.all": ["and.b32 %r11, %r1, 0;", "match.all.sync.b32 %r10|%p10, %r11, -1;"],
    **{
        f"redux.{form}": [f"redux.sync.{form} %r10, %r1, -1;", "setp.eq.u32 %p10, %r10, 0;"]
        for form in ("add.u32", "add.s32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32")
    },
    **{
        f"mov %{name}": [f"mov.u32 %r10, %{name};", "setp.eq.u32 %p10, %r10, 0;"]
        for name in (
            "laneid",
            "tid.x",
            "ntid.x",
            "ctaid.x",
            "nctaid.x",
            "lanemask_eq",
            "lanemask_lt",
            "lanemask_le",
            "lanemask_gt",
            "lanemask_ge",
            "cluster_ctarank",
            "cluster_nctarank",
            "cluster_nctaid.x",
            "clusterid.x",
            "nclusterid.x",
        )
    },
    "mov pack": ["mov.b32 {%h10, %h11}, %r1;", "mov.b32 %r10, {%h11, %h10};", "setp.eq.u16 %p10, %h10, 0;"],
    "mov pack 64": ["mov.b64 %d10, {%r1, %r20};", "mov.b64 {_, %r10}, %d10;", "setp.eq.u64 %p10, %d10, 0;"],
}
"""Instructions between lanes, moves and special registers: they leave %r10 and %p10."""


def warp_cases() -> Iterator[Case]:
    """Instructions between the lanes of full warps."""
    for name, lines in WARP.items():
        rng = np.random.default_rng(hash_of(name))
        body = [*lines, *widened("%r10", "u32", 0), *widened("%p10", "pred", 1)]
        inputs = [array_of(values_for(["u32"], rng, divisor=False)[0], "u32")]
        text = module(body, ["u32"], "sm_90", "8.6")
        yield Case(name, text, inputs, np.zeros(2 * THREADS, np.uint64), THREADS // BLOCK, BLOCK)


def cases() -> Iterator[Case]:
    """All of them; the output arrays are zeros."""
    for case, form, mode, _ in arithmetic_cases():
        if is_disputed(form, mode):
            continue
        yield case
    for case, *_ in atomic_cases():
        yield case
    yield from warp_cases()
