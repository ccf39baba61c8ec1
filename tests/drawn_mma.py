"""Drawn matrix products against NumPy: `python tests/drawn_mma.py --count 500 --executor cuda --seed 1`.

Each draw is one kernel, written as PTX text for sm_90a, of one `mma.sync` or of one or two `wgmma.mma_async`: types, shape, A from registers or
shared memory, majors, swizzles, where an operand begins in its swizzle, offsets between its parts, accumulating or not, signs. What is multiplied
is drawn so that every sum is exact in any order: whole numbers up to 4, integers, or any numbers of which B picks one a column (which marks who
holds which element). So the emulator, a GPU and NumPy must agree byte for byte. Fragments and layouts are written out here, not imported.
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import numpy as np

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "f32": 32, "f64": 64, "s32": 32}
BITS |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
SMALL = 4
SPANS = {0: 16, 1: 128, 2: 64, 3: 32}
FORMS = """
    m16n8k8 f32 f16 f16|m16n8k16 f32 f16 f16|m16n8k8 f16 f16 f16|m16n8k16 f16 f16 f16|m16n8k8 f32 bf16 bf16|m16n8k16 f32 bf16 bf16
    m16n8k4 f32 tf32 tf32|m16n8k8 f32 tf32 tf32|m8n8k4 f64 f64 f64|m16n8k4 f64 f64 f64|m16n8k8 f64 f64 f64|m16n8k16 f64 f64 f64
    m8n8k16 s32 s8 u8|m16n8k16 s32 s8 s8|m16n8k32 s32 u8 s8|m16n8k32 s32 u8 u8|m8n8k32 s32 s4 u4|m16n8k32 s32 s4 s4|m16n8k64 s32 u4 s4
    m8n8k128 s32 b1 b1|m16n8k128 s32 b1 b1|m16n8k256 s32 b1 b1|m16n8k16 f32 e4m3 e5m2|m16n8k32 f32 e5m2 e4m3|m16n8k32 f16 e4m3 e4m3|m16n8k16 f16 e5m2 e5m2
"""
WARPGROUP_FORMS = """
    k16 f32 f16 f16|k16 f16 f16 f16|k16 f32 bf16 bf16|k8 f32 tf32 tf32|k32 f32 e4m3 e5m2|k32 f16 e4m3 e4m3|k32 f32 e5m2 e5m2
    k32 s32 s8 u8|k32 s32 s8 s8|k32 s32 u8 u8|k256 s32 b1 b1
"""


def values(raw: Any, type: str) -> Any:
    """The numbers that bits stand for."""
    if type in ("u8", "u4", "b1"):
        return raw.astype(float)
    if type in ("s8", "s4", "s32"):
        return np.where(raw >> (BITS[type] - 1), raw - 2.0 ** BITS[type], raw)
    if type in ("f16", "f32", "f64"):
        return raw.astype(f"u{BITS[type] // 8}").view(f"f{BITS[type] // 8}").astype(float)
    if type in ("bf16", "tf32"):
        wide = raw << 16 if type == "bf16" else raw & 0xFFFFE000  # the lowest 13 bits do not count
        with np.errstate(invalid="ignore"):  # signaling NaNs
            return wide.astype(np.uint32).view(np.float32).astype(float)
    fraction = 3 if type == "e4m3" else 2
    exponent, bias = raw >> fraction & (127 >> fraction), 64 >> fraction
    size = np.where(exponent > 0, 1 << fraction, 0) + (raw & ((1 << fraction) - 1))
    found = np.ldexp(size.astype(float), np.maximum(exponent, 1) - (bias - 1) - fraction)
    found[(raw & 127) > {3: 0x7E, 2: 0x7B}[fraction]] = np.inf
    return np.where(raw >> 7, -found, found)


def drawn(rng: Any, type: str, shape: tuple[int, ...], *, whole: bool) -> Any:
    """Bits of small whole numbers, or of any finite ones; every integer."""
    bits = BITS[type]
    if type[0] in "sub" and type != "bf16":
        return rng.integers(0, 1 << bits, shape)
    if whole:
        found = np.arange(-SMALL, SMALL + 1).astype(np.float64)
        if bits <= 16:
            every = np.arange(1 << bits)
            pool = every[np.isin(values(every, type), found) & (every != 1 << (bits - 1))]
        else:
            pool = found.astype(f"f{bits // 8}").view(f"u{bits // 8}").astype(np.int64)
            pool = pool[found != 0] if bits == 64 else np.unique(pool)
        return rng.choice(pool, shape)
    raw = rng.integers(1, 1 << bits, shape)
    fine = np.isfinite(values(raw, type)) & (np.abs(values(raw, type)) > 1e-30) & (np.abs(values(raw, type)) < 6e4)
    return np.where(fine, raw, 0)


def selecting(rng: Any, type: str, n: int, k: int) -> Any:
    """B of zeros, with a single one in each column of it."""
    one = next(
        raw
        for raw in ({"f32": 0x3F800000, "tf32": 0x3F800000}.get(type, -1), *range(1 << 16))
        if raw >= 0 and values(np.array([raw]), type)[0] == 1
    )
    found = np.zeros((n, k), np.int64)
    found[np.arange(n), rng.integers(0, k, n)] = one
    return found


def spots(threads: int, rows: int, columns: int, run: int) -> tuple[Any, Any]:
    """Row and column of element i of thread t, as PTX ISA 9.7.15.5 has it for all dense shapes; ``run``: elements side by side."""
    t, halves = np.arange(threads)[:, None], min(rows, 16) // 8
    i = np.arange(rows * columns // threads)[None, :]
    row = t // 32 * 16 + t % 32 // 4 + 8 * (i // run % halves)
    return row, i // (run * halves) * 4 * run + t % 4 * run + i % run


def packed(raw: Any, type: str) -> Any:
    """Elements side by side in words of 32 bits (of float64: 64)."""
    bits = BITS[type]
    if bits >= 8:
        return np.ascontiguousarray(raw.astype(f"u{bits // 8}")).view(np.uint64 if bits == 64 else np.uint32)
    per = 32 // bits
    parts = raw.reshape(*raw.shape[:-1], -1, per).astype(np.uint64) << np.arange(0, 32, bits, dtype=np.uint64)
    return parts.sum(axis=-1).astype(np.uint32)


def unpacked(words: Any, type: str) -> Any:
    """Elements of words."""
    return words.view(f"u{BITS[type] // 8}").astype(np.int64)


class Image:
    """Operands in shared memory, byte by byte."""

    def __init__(self) -> None:
        self.data = np.full(46 << 10, 0xA5, np.uint8)
        self.end = 0

    def place(self, rng: random.Random, raw: Any, type: str, mode: int, *, mn: bool) -> int:
        """Put a matrix (M or N, K) down by PTX ISA 9.7.16.5.1; returns its descriptor, start relative to the image."""
        rows = len(raw)
        span, pad = SPANS[mode], rng.choice([1, 1, 2]) if rows <= 96 else 1
        across = packed(raw.T if mn else raw, type).view(np.uint8)  # lines of bytes
        line, byte = np.arange(len(across))[:, None], np.arange(across.shape[1])[None, :]
        units, lines = across.shape[1] // 16, len(across) // 8
        shift = 32 * rng.randrange(span // 32) if mode and not mn else 0
        if mode == 0:
            by_eight, by_unit = rng.choice([(128 * pad, 128 * pad * lines), (128 * units, 128)])
            at = line % 8 * 16 + line // 8 * by_eight + byte // 16 * by_unit + byte % 16
            leading, stride = (by_eight, by_unit) if mn else (by_unit, by_eight)
        else:
            stride = 8 * span * pad
            leading = stride * lines if mn else 16 * rng.choice([0, 1])
            at = (
                line % 8 * span
                + line // 8 * stride
                + byte // span * leading * mn
                + byte % (span if mn else 1 << 20)
                + shift
            )
            at = at ^ (at >> 3 & (span - 16))
        start = -(-self.end // 1024) * 1024
        self.end = start + int(at.max()) // 16 * 16 + 16
        self.data[start + at] = across
        return (start + shift) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


def one(number: int, executor: str) -> str:
    """One draw; what it was.

    Raises:
        AssertionError: the result is not NumPy's.
    """
    pick, rng, image = random.Random(number), np.random.default_rng(number), Image()
    grouped = pick.random() < 0.6
    shape, d_type, a_type, b_type = pick.choice(
        (WARPGROUP_FORMS if grouped else FORMS).replace("\n", "|").strip("| ").split("|")
    ).split()
    integers, bitwise = d_type == "s32", a_type == "b1"
    if grouped:
        k, m, n = int(shape[1:]), 64, pick.choice([8, 16, 24, 32, *range(48, 257, 16)])
        shape = f"m64n{n}{shape}"
    else:
        m, n, k = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
    threads, whole = 128 if grouped else 32, integers or a_type == "f64" or pick.random() < 0.6
    a, b = drawn(rng, a_type, (m, k), whole=whole), drawn(rng, b_type, (n, k), whole=True)
    if not whole:
        b = selecting(rng, b_type, n, k)
    saturates = integers and not bitwise and pick.random() < 0.4 and "u4" not in (a_type, b_type)
    c = drawn(rng, d_type, (m, n), whole=True)
    if saturates:  # upwards alone, which no order changes
        a, b, c = (
            a & (1 << BITS[a_type] - 1) - 1,
            b & (1 << BITS[b_type] - 1) - 1,
            c & 0x7FFFFFFF | 0x7F000000 * pick.randint(0, 1),
        )
    if not whole and d_type != "s32":
        c = np.zeros((m, n), np.int64)
    signs, accumulates, repeats, told, xor = (1, 1), True, 1, "", False
    run_a, run_b = (max(1, 32 // BITS[each]) for each in (a_type, b_type))
    registers, text = {"c": packed(c[spots(threads, m, n, 2)], d_type)}, ""
    word = "b64" if d_type == "f64" else "b32"
    if not grouped:
        registers |= {"a": packed(a[spots(32, m, k, run_a)], a_type), "b": packed(b[spots(32, n, k, run_b)], b_type)}
        xor = bitwise and pick.random() < 0.5
        modifiers = ".satfinite" * saturates
        tail = (".xor.popc" if xor else ".and.popc") * bitwise
        text = f"mma.sync.aligned.{shape}.row.col{modifiers}.{d_type}.{a_type}.{b_type}.{d_type}{tail} $c, $a, $b, $c;"
    else:
        halves, accumulates, repeats = (
            a_type in ("f16", "bf16"),
            pick.random() < 0.6,
            pick.choice([1, 2]) if whole and not saturates else 1,
        )
        signs = (pick.choice([1, -1]), pick.choice([1, -1])) if not integers else (1, 1)
        majors = [halves and pick.random() < 0.5 for _ in "ab"]
        modes = [
            pick.choice([mode for mode in SPANS if not (mn and rows * 2 % SPANS[mode])])
            for mn, rows in zip(majors, (m, n), strict=True)
        ]
        from_registers = pick.random() < 0.4
        if from_registers:
            registers["a"], majors[0] = packed(a[spots(128, m, k, run_a)], a_type), False
            left = "$a"
        else:
            left = f"%da + {image.place(pick, a, a_type, modes[0], mn=majors[0])}"
        right = image.place(pick, b, b_type, modes[1], mn=majors[1])
        more = "" if integers else f", {signs[0]}, {signs[1]}"
        if halves:
            more += (f", {int(majors[0])}" if not from_registers else "") + f", {int(majors[1])}"
        product = f"wgmma.mma_async.sync.aligned.{shape}{'.satfinite' * saturates}.{d_type}.{a_type}.{b_type}{'.and.popc' * bitwise}"
        text = "wgmma.fence.sync.aligned;\n"
        if not from_registers:
            text += f"    add.u64 %da, %base, {left.split()[2]};\n"
        text += f"    add.u64 %db, %base, {right};\n    setp.ne.b32 %p, {int(accumulates)}, 0;\n"
        for _ in range(repeats):
            text += (
                f"    {product} $c, {'$a' if from_registers else '%da'}, %db, %p{more};\n    setp.eq.b32 %p, 0, 0;\n"
            )
        text += "    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned 0;"
        told = f" A {'registers' if from_registers else SPANS[modes[0]]} B {SPANS[modes[1]]} majors {majors} signs {signs} x{repeats} +C {accumulates}"
    found = run(kernel(registers, text, threads, word, image.end), registers, image, executor)
    left_, right_ = values(a, a_type) * signs[0], values(b, b_type) * signs[1]
    both = left_ @ right_.T if not xor else (left_[:, None] != right_[None]).sum(axis=2)
    wanted = repeats * both + values(c, d_type) * accumulates
    if integers:
        wanted = np.clip(wanted, -(2.0**31), 2.0**31 - 1) if saturates else wanted
        bits = wanted.astype(np.int64) & 0xFFFFFFFF
    else:
        bits = (wanted + 0.0).astype(f"f{BITS[d_type] // 8}").view(f"u{BITS[d_type] // 8}").astype(np.int64)
    told = f"{shape}.{d_type}.{a_type}.{b_type}{' satfinite' * saturates}{' marked' * (not whole)}{told}"
    wrong = unpacked(found, d_type) != bits[spots(threads, m, n, 2)]
    if wrong.any():
        t, i = np.argwhere(wrong)[0]
        what = f"thread {t} element {i}: {unpacked(found, d_type)[t, i]:x}, not {bits[spots(threads, m, n, 2)][t, i]:x}"
        raise AssertionError(f"{told}: {int(wrong.sum())} of {wrong.size} wrong; {what}")
    return told


def kernel(registers: dict[str, Any], text: str, threads: int, word: str, size: int) -> str:
    """The kernel's text: registers from memory, the image into shared memory, the products, and what came of C."""
    lines, step = [], int(word[1:]) // 8
    for name, held in registers.items():
        braces = "{" + ", ".join(f"%{name}{i}" for i in range(held.shape[1])) + "}"
        text = text.replace(f"${name}", braces)
        lines += [f".reg .{word} %{name}<{held.shape[1]}>;", f"mad.wide.u32 %x, %t, {held.shape[1] * step}, %p_{name};"]
        lines += [f"ld.global.{word} %{name}{i}, [%x+{i * step}];" for i in range(held.shape[1])]
    count = registers["c"].shape[1]
    stores = [f"st.global.{word} [%x+{i * step}], %c{i};" for i in range(count)]
    pointers = "".join(f" ld.param.u64 %p_{name}, [{name}];" for name in ("image", "a", "b", "c", "d"))
    return f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
    .shared .align 1024 .b8 smem[{max(size, 16)}];
    .reg .b32 %t, %s, %i, %w<4>; .reg .b64 %x, %y, %base, %da, %db, %p_image, %p_a, %p_b, %p_c, %p_d; .reg .pred %p;
   {pointers}
    mov.u32 %t, %tid.x; mov.u32 %s, smem; and.b32 %i, %s, 0x3ffff; shr.u32 %i, %i, 4; cvt.u64.u32 %base, %i;
    mul.lo.u32 %i, %t, 16;
LOOP:
    setp.ge.u32 %p, %i, {size}; @%p bra DONE;
    cvt.u64.u32 %y, %i; add.u64 %y, %y, %p_image; ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%y];
    mov.u32 %s, smem; add.u32 %s, %s, %i; st.shared.v4.b32 [%s], {{%w0, %w1, %w2, %w3}};
    add.u32 %i, %i, {16 * threads}; bra LOOP;
DONE:
    fence.proxy.async.shared::cta; bar.sync 0;
    {" ".join(lines)}
    {text}
    mad.wide.u32 %x, %t, {count * step}, %p_d;
    {" ".join(stores)}
    ret;
}}
"""


def run(text: str, registers: dict[str, Any], image: Image, executor: str) -> Any:
    """D's registers, one row a thread."""
    none = np.zeros(4, np.uint32)
    inputs = [image.data, registers.get("a", none), registers.get("b", none), registers["c"]]
    found = np.zeros_like(registers["c"])
    if executor == "emulator":
        from tilecopy_emulator import run_ptx

        run_ptx(text, [*inputs, found], grid=1, block=len(found))
        return found
    from cuda.bindings import driver

    def call(function: Any, *arguments: Any) -> Any:
        status, *results = function(*arguments)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise AssertionError(f"{function.__name__}: {status.name}")
        return results[0] if results else None

    call(driver.cuInit, 0)
    call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, call(driver.cuDeviceGet, 0)))
    module = call(driver.cuModuleLoadData, text.encode() + b"\0")
    memory = [call(driver.cuMemAlloc, max(16, each.nbytes)) for each in (*inputs, found)]
    for pointer, each in zip(memory, inputs, strict=False):
        call(driver.cuMemcpyHtoD, pointer, np.ascontiguousarray(each).ctypes.data, each.nbytes)
    cells = [np.array([int(pointer)], np.uint64) for pointer in memory]
    arguments = np.array([cell.ctypes.data for cell in cells], np.uint64)
    function = call(driver.cuModuleGetFunction, module, b"k")
    call(driver.cuLaunchKernel, function, 1, 1, 1, len(found), 1, 1, 0, 0, arguments.ctypes.data, 0)
    call(driver.cuCtxSynchronize)
    call(driver.cuMemcpyDtoH, found.ctypes.data, memory[-1], found.nbytes)
    for pointer in memory:
        call(driver.cuMemFree, pointer)
    call(driver.cuModuleUnload, module)
    return found


def main() -> None:
    """Print how many were right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--executor", default="emulator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--print", action="store_true", help="what each draw was")
    given = parser.parse_args()
    right, wrong = 0, list[str]()
    for number in range(given.count):
        try:
            told = one(given.seed * 1_000_003 + number, given.executor)
        except Exception as error:
            wrong.append(f"draw {number}: {type(error).__name__}: {str(error)[:600]}")
            continue
        right += 1
        if given.print:
            print(number, told)
    print(f"{given.executor}: {right} right, {len(wrong)} wrong")
    for each in wrong[:8]:
        print(each)


if __name__ == "__main__":
    main()
