"""Compare random matrix products with NumPy: `python tests/tools/drawn_mma.py --count 500 --executor cuda --seed 1`.

Each draw is one kernel, written as PTX text for sm_90a, of one `mma.sync` or of one or two `wgmma.mma_async`: types, shape, A from registers or
shared memory, majors, swizzles, where an operand begins in its swizzle, offsets between its parts, accumulating or not, signs. What is multiplied
is drawn so that every sum is exact in any order: whole numbers up to 4, integers, or any numbers of which B picks one a column (which marks who
holds which element). So the emulator, a GPU and NumPy must agree byte for byte. Fragments and layouts are written out here, not imported.
"""

from __future__ import annotations

import argparse
import importlib
import random
from typing import Any

import numpy as np
from tilecopy_test_helpers.cuda_cpp import run_on_gpu

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "f32": 32, "f64": 64, "s32": 32}
BITS |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
INTEGERS = ("s32", "s8", "u8", "s4", "u4", "b1")
ONES = {"f16": 0x3C00, "bf16": 0x3F80, "tf32": 0x3F800000, "e4m3": 0x38, "e5m2": 0x3C}
SPANS = {0: 16, 1: 128, 2: 64, 3: 32}
FORMS = """m16n8k8 f32 f16 f16|m16n8k16 f32 f16 f16|m16n8k8 f16 f16 f16|m16n8k16 f16 f16 f16|m16n8k8 f32 bf16 bf16|m16n8k16 f32 bf16 bf16|
m16n8k4 f32 tf32 tf32|m16n8k8 f32 tf32 tf32|m8n8k4 f64 f64 f64|m16n8k4 f64 f64 f64|m16n8k8 f64 f64 f64|m16n8k16 f64 f64 f64|
m8n8k16 s32 s8 u8|m16n8k16 s32 s8 s8|m16n8k32 s32 u8 s8|m16n8k32 s32 u8 u8|m8n8k32 s32 s4 u4|m16n8k32 s32 s4 s4|m16n8k64 s32 u4 s4|
m8n8k128 s32 b1 b1|m16n8k128 s32 b1 b1|m16n8k256 s32 b1 b1|
m16n8k16 f32 e4m3 e5m2|m16n8k32 f32 e5m2 e4m3|m16n8k32 f16 e4m3 e4m3|m16n8k16 f16 e5m2 e5m2"""
WARPGROUP_FORMS = """k16 f32 f16 f16|k16 f16 f16 f16|k16 f32 bf16 bf16|k8 f32 tf32 tf32|k32 f32 e4m3 e5m2|k32 f16 e4m3 e4m3|
k32 f32 e5m2 e5m2|k32 s32 s8 u8|k32 s32 s8 s8|k32 s32 u8 u8|k256 s32 b1 b1"""


def values(raw: Any, type: str) -> Any:
    """Return the numbers that bits represent."""
    if type in INTEGERS:
        return np.where((type[0] == "s") & (raw >> BITS[type] - 1 == 1), raw - 2.0 ** BITS[type], raw)
    if type in ("f16", "f32", "f64"):
        return raw.astype(f"u{BITS[type] // 8}").view(f"f{BITS[type] // 8}").astype(float)
    if type in ("bf16", "tf32"):
        wide = raw << 16 if type == "bf16" else raw & 0xFFFFE000  # the lowest 13 bits do not count
        return wide.astype(np.uint32).view(np.float32).astype(float)
    fraction = 3 if type == "e4m3" else 2
    exponent, bias = raw >> fraction & (127 >> fraction), 64 >> fraction
    size = np.where(exponent > 0, 1 << fraction, 0) + (raw & ((1 << fraction) - 1))
    found = np.ldexp(size.astype(float), np.maximum(exponent, 1) - (bias - 1) - fraction)
    found[(raw & 127) > {3: 0x7E, 2: 0x7B}[fraction]] = np.inf
    return np.where(raw >> 7, -found, found)


def drawn(rng: Any, type: str, shape: tuple[int, ...], *, whole: bool = True) -> Any:
    """Return the bits of small whole numbers or of any finite numbers; for integers, of any."""
    bits = BITS[type]
    if type in INTEGERS:
        return rng.integers(0, 1 << bits, shape)
    if whole and bits >= 32:
        return rng.integers(-4, 5, shape).astype(f"f{bits // 8}").view(f"i{bits // 8}").astype(np.int64)
    raw = np.arange(1 << bits) if whole else rng.integers(1, 1 << bits, shape)
    size = np.abs(values(raw, type))
    if whole:
        return rng.choice(raw[(size % 1 == 0) & (size <= 4) & (raw != 1 << (bits - 1))], shape)
    return np.where((size > 1e-30) & (size < 6e4), raw, 0)


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


def placed(pick: random.Random, image: bytearray, raw: Any, type: str, mode: int, *, mn: bool) -> int:
    """Put a matrix (M or N, K) behind what is in shared memory, by PTX ISA 9.7.16.5.1; its descriptor but for where that begins."""
    span, pad = SPANS[mode], pick.choice([1, 1, 2]) if len(raw) <= 96 else 1
    lines = packed(raw.T if mn else raw, type).view(np.uint8)
    line, byte = np.arange(len(lines))[:, None], np.arange(lines.shape[1])
    units, eights = lines.shape[1] // 16, len(lines) // 8
    shift = 32 * pick.randrange(span // 32) if mode and not mn else 0  # in a row that is longer than K
    if mode == 0:
        by_eight, by_unit = pick.choice([(128 * pad, 128 * pad * eights), (128 * units, 128)])
        at = line % 8 * 16 + line // 8 * by_eight + byte // 16 * by_unit + byte % 16
        leading, stride = (by_eight, by_unit) if mn else (by_unit, by_eight)
    else:
        stride = 8 * span * pad
        leading = stride * eights if mn else 16 * pick.choice([0, 1])
        at = line % 8 * span + line // 8 * stride + shift + byte // span * leading * mn + byte % span
        at = at ^ (at >> 3 & (span - 16))
    start = -(-len(image) // 1024) * 1024
    image.extend(bytes(start + int(at.max()) // 16 * 16 + 16 - len(image)))
    np.frombuffer(image, np.uint8)[start + at] = lines
    return (start + shift) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


def one(number: int, executor: str) -> None:
    """One draw: the result must be NumPy's."""
    pick, rng, image = random.Random(number), np.random.default_rng(number), bytearray()
    grouped = pick.random() < 0.6
    shape, d_type, a_type, b_type = pick.choice((WARPGROUP_FORMS if grouped else FORMS).split("|")).split()
    if grouped:
        shape = f"m64n{pick.choice([8, 16, 24, 32, *range(48, 257, 16)])}{shape}"
    m, n, k = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
    threads, whole = 128 if grouped else 32, a_type in (*INTEGERS, "f64") or pick.random() < 0.6
    a, c = drawn(rng, a_type, (m, k), whole=whole), drawn(rng, d_type, (m, n))
    b = drawn(rng, b_type, (n, k))
    if not whole:  # what B picks of A, alone
        b[:], c[:] = 0, 0
        b[np.arange(n), rng.integers(0, k, n)] = ONES[b_type]
    saturates = d_type == "s32" and a_type != "b1" and pick.random() < 0.4
    if saturates:  # upwards alone, which no order changes
        a, b = a & (1 << BITS[a_type] - 1) - 1, b & (1 << BITS[b_type] - 1) - 1
        c = c & 0x7FFFFFFF | pick.choice([0, 0x7F000000])
    registers = {"c": packed(c[spots(threads, m, n, 2)], d_type)}
    in_registers = not grouped or pick.random() < 0.4
    if in_registers:
        registers["a"] = packed(a[spots(threads, m, k, max(1, 32 // BITS[a_type]))], a_type)
    form = f"{'.satfinite' * saturates}.{d_type}.{a_type}.{b_type}"
    signs, xor, accumulates, repeats = [1, 1], False, True, 1
    if grouped:
        halves = a_type in ("f16", "bf16")
        majors = [halves and not in_registers and pick.random() < 0.5, halves and pick.random() < 0.5]
        fits = [[x for x in SPANS if not mn or r * 2 % SPANS[x] == 0] for mn, r in ((majors[0], m), (majors[1], n))]
        modes = [*map(pick.choice, fits)]
        signs = [pick.choice([1, -1]) for _ in signs] if d_type != "s32" else signs
        accumulates, repeats = pick.random() < 0.6, pick.choice([1, 2]) if whole and not saturates else 1
        left = 0 if in_registers else placed(pick, image, a, a_type, modes[0], mn=majors[0])
        right = placed(pick, image, b, b_type, modes[1], mn=majors[1])
        numbers = signs * (d_type != "s32") + [int(mn) for mn in majors[in_registers:]] * halves
        product = f"wgmma.mma_async.sync.aligned.{shape}{form}{'.and.popc' * (a_type == 'b1')} $c, "
        product += ", ".join(["$a" if in_registers else "%da", "%db", "%p", *map(str, numbers)]) + ";\n"
        text = f"add.u64 %da, %base, {left}; add.u64 %db, %base, {right}; setp.ne.b32 %p, {int(accumulates)}, 0;\n"
        text += f"wgmma.fence.sync.aligned;\n{product}" + f"setp.eq.b32 %p, 0, 0;\n{product}" * (repeats - 1)
        text += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
        form += f" A {'registers' if in_registers else SPANS[modes[0]]} B {SPANS[modes[1]]} MN {majors} {signs} x{repeats} +C {accumulates}"
    else:
        registers["b"] = packed(b[spots(32, n, k, max(1, 32 // BITS[b_type]))], b_type)
        xor = a_type == "b1" and pick.random() < 0.5
        text = f"mma.sync.aligned.{shape}.row.col{form}.{d_type}{'.xor.popc' * xor}{'.and.popc' * (a_type == 'b1' and not xor)}"
        text += " $c, $a, $b, $c;"
    found = run(*kernel(registers, text, bytes(image)), executor)
    left, right = values(a, a_type) * signs[0], values(b, b_type) * signs[1]
    both = (left[:, None] != right[None]).sum(axis=2) if xor else left @ right.T
    wanted = repeats * both + values(c, d_type) * accumulates
    wanted = np.minimum(wanted, 2.0**31 - 1) if saturates else wanted
    size = BITS[d_type] // 8
    words = wanted.astype(np.int64).astype(np.uint32) if d_type == "s32" else (wanted + 0.0).astype(f"f{size}")
    wanted, found = words.view(f"u{size}")[spots(threads, m, n, 2)], found.view(f"u{size}")
    if not np.array_equal(found, wanted):
        t, i = np.argwhere(found != wanted)[0]
        what = f"{(found != wanted).sum()} of {wanted.size} wrong; thread {t} element {i}: {found[t, i]:x}, not {wanted[t, i]:x}"
        raise AssertionError(f"{shape}{form}{' marked' * (not whole)}: {what}")


TEXT = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 a, .param .u64 b, .param .u64 c)
{
    .shared .align 1024 .b8 smem[SIZE];
    .reg .b32 %t, %s, %i, %w<4>; .reg .b64 %pa, %pb, %pc, %y, %base, %da, %db; .reg .pred %p;
    mov.u32 %t, %tid.x; mov.u32 %s, smem; bfe.u32 %i, %s, 4, 14; cvt.u64.u32 %base, %i;
    mul.lo.u32 %i, %t, 16; add.u32 %s, %s, %i; ld.param.u64 %y, [image]; mad.wide.u32 %y, %t, 16, %y;
LOOP:
    setp.ge.u32 %p, %i, SIZE; @%p bra DONE;
    ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%y]; st.shared.v4.b32 [%s], {%w0, %w1, %w2, %w3};
    add.u32 %i, %i, STEP; add.u32 %s, %s, STEP; add.u64 %y, %y, STEP; bra LOOP;
DONE:
    fence.proxy.async.shared::cta; bar.sync 0;
    LOADS
    PRODUCTS
    STORES
    ret;
}
"""


def kernel(registers: dict[str, Any], products: str, image: bytes) -> tuple[str, list[Any]]:
    """The kernel's text and its arguments: registers from memory, the image into shared memory, the products, and C back."""
    loads, stores = list[str](), ""
    for name, held in registers.items():
        size, kind = held.itemsize, f"b{8 * held.itemsize}"
        names = {f"[%p{name}+{i * size}]": f"%{name}{i}" for i in range(held.shape[1])}
        products = products.replace(f"${name}", f"{{{', '.join(names.values())}}}")
        loads += [f".reg .{kind} {each};" for each in names.values()]
        loads += [f"ld.param.u64 %p{name}, [{name}]; mad.wide.u32 %p{name}, %t, {held.strides[0]}, %p{name};"]
        loads += [f"ld.global.{kind} {each}, {place};" for place, each in names.items()]
        stores = stores or " ".join(f"st.global.{kind} {place}, {each};" for place, each in names.items())  # of C
    bytes_, none = np.frombuffer(image or bytes(16), np.uint8), np.zeros(4, np.uint32)
    text = TEXT.replace("SIZE", str(len(bytes_))).replace("STEP", str(16 * len(registers["c"])))
    text = text.replace("LOADS", " ".join(loads)).replace("PRODUCTS", products).replace("STORES", stores)
    return text, [bytes_.copy(), *(registers.get(each, none) for each in "abc")]


def run(text: str, arrays: list[Any], executor: str) -> Any:
    """The registers of C and D, one row a thread."""
    if executor == "emulator":
        importlib.import_module("tilecopy_emulator").run_ptx(text, arrays, grid=1, block=len(arrays[-1]))
        return arrays[-1]
    run_on_gpu(text.encode() + b"\0", "k", arrays, grid=1, block=len(arrays[-1]))
    return arrays[-1]


def main() -> None:
    """Run the draws and print the number of correct results."""
    parser = argparse.ArgumentParser()
    for name, default in (("--count", 500), ("--executor", "emulator"), ("--seed", 0)):
        parser.add_argument(name, type=type(default), default=default)
    given = parser.parse_args()
    np.seterr(invalid="ignore")  # signaling NaNs
    wrong = list[str]()
    for number in range(given.count):
        try:
            one(given.seed * 1_000_003 + number, given.executor)
        except Exception as error:
            wrong.append(f"draw {number}: {type(error).__name__}: {str(error)[:600]}")
    print("\n".join([f"{given.executor}: {given.count - len(wrong)} right, {len(wrong)} wrong", *wrong[:8]]))
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
