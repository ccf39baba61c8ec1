"""Record the results of ldmatrix, stmatrix and mma.sync on this machine's GPU (sm_90), which the emulator's tests replay.

    python tests/tools/record_vectors.py [plugins/emulator/tests/vectors_sm_90.json]

Each form has its own input bytes, in which all elements differ. If the emulator's result differs from the GPU's, the difference
is printed, the vector is written, and the exit status is 1.
"""

from __future__ import annotations

import datetime as dt
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from drawn_mma import drawn
from tilecopy_test_helpers.cuda_cpp import run_on_gpu
from tilecopy_test_helpers.vectors import with_result, write_vectors
from tilecopy_testkit import Counterexample, RecordedLaunch

PATH = Path(__file__).resolve().parents[2] / "plugins" / "emulator" / "tests" / "vectors_sm_90.json"
ROW_BYTES = (16, 80)
"""From one row of a matrix to the next: side by side, and with a pitch."""
PRODUCTS = """m16n8k8 f32 f16 f16 4 2 1 4|m16n8k16 f32 f16 f16 4 4 2 4|m16n8k16 f16 f16 f16 2 4 2 2|m16n8k8 f32 bf16 bf16 4 2 1 4|
m16n8k16 f32 bf16 bf16 4 4 2 4|m16n8k4 f32 tf32 tf32 4 2 1 4|m16n8k8 f32 tf32 tf32 4 4 2 4|m16n8k16 s32 s8 s8 4 2 1 4|
m16n8k32 s32 s8 u8 4 4 2 4|m16n8k32 s32 u8 u8 4 4 2 4|m16n8k64 s32 s4 s4 4 4 2 4|m16n8k256 s32 b1 b1 4 4 2 4"""
"""Shape, types of D, A and B, and 32-bit registers of D, A, B and C."""
HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry vector(.param .u64 given, .param .u64 found)
{
.shared .align 128 .b8 tile[2560];
.reg .b32 %t, %s, %p, %i, %r<32>; .reg .b64 %g, %f; .reg .pred %more;
mov.u32 %t, %tid.x; mov.u32 %s, tile; ld.param.u64 %g, [given]; ld.param.u64 %f, [found];"""


def text(*lines: str) -> str:
    """A module of one kernel with these lines."""
    return "\n".join([HEAD, *lines, "ret;", "}"])


def registers(first: int, count: int) -> str:
    """A vector of registers."""
    return f"{{{', '.join(f'%r{first + number}' for number in range(count))}}}"


def each_word(form: str, pointer: str, first: int, count: int) -> list[str]:
    """Words of this thread, from or to global memory."""
    lines = [f"mad.wide.u32 {pointer}, %t, {4 * count}, {pointer};"]
    for number in range(count):
        operands = [f"%r{first + number}", f"[{pointer}+{4 * number}]"]
        lines.append(f"{form}.global.b32 {', '.join(operands if form == 'ld' else operands[::-1])};")
    return lines


def through_shared(form: str, pointer: str, size: int) -> list[str]:
    """So many bytes between global and shared memory, 4 a thread at a time."""
    operands = ["%r0", f"[{pointer}]"], ["%r0", "[%p]"]
    first, second = ("global", "shared") if form == "fill" else ("shared", "global")
    load, store = operands if form == "fill" else operands[::-1]
    return [
        f"mad.wide.u32 {pointer}, %t, 4, {pointer}; mad.lo.u32 %p, %t, 4, %s; mov.u32 %i, 0;",
        f"{form.upper()}: ld.{first}.b32 {', '.join(load)}; st.{second}.b32 {', '.join(store[::-1])};",
        f"add.u32 %p, %p, 128; add.u64 {pointer}, {pointer}, 128; add.u32 %i, %i, 1;",
        f"setp.lt.u32 %more, %i, {size // 128}; @%more bra {form.upper()};",
        "bar.sync 0;",
    ]


def matrices() -> Iterator[RecordedLaunch]:
    """ldmatrix and stmatrix, with and without .trans; rows in another order than the lanes, side by side and apart."""
    rng = np.random.default_rng(0)
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            for pitch in ROW_BYTES:
                shape = f"sync.aligned.m8n8.x{count}{trans}.shared.b16"
                place = f"xor.b32 %p, %t, 5; mad.lo.u32 %p, %p, {pitch}, %s;"
                size = 8 * count * pitch
                image = rng.integers(0, 256, size, np.uint8).tobytes()
                lines = [*through_shared("fill", "%g", size), place, f"ldmatrix.{shape} {registers(4, count)}, [%p];"]
                name = f"x{count}{trans}, {pitch} bytes a row"
                ptx = text(*lines, *each_word("st", "%f", 4, count))
                yield RecordedLaunch(f"ldmatrix.{name}", ptx, 1, 32, (image, bytes(128 * count)))
                words = rng.integers(0, 256, 128 * count, np.uint8).tobytes()
                lines = [
                    *through_shared("fill", "%f", size),
                    f"add.u64 %f, %f, -{size};",
                    *each_word("ld", "%g", 4, count),
                    place,
                ]
                lines += [f"stmatrix.{shape} [%p], {registers(4, count)};", "bar.sync 0;"]
                lines += ["mul.wide.u32 %g, %t, 4; sub.u64 %f, %f, %g;", *through_shared("show", "%f", size)]
                yield RecordedLaunch(f"stmatrix.{name}", text(*lines), 1, 32, (words, bytes(size)))


def products() -> Iterator[RecordedLaunch]:
    """mma.sync of small whole numbers, whose sums are exact in any order."""
    for number, row in enumerate(PRODUCTS.replace("\n", "").split("|")):
        shape, d_type, a_type, b_type, *counts = row.split()
        rng, sizes = np.random.default_rng(number), [int(count) for count in counts]
        words = [operand(rng, type, count) for type, count in zip((a_type, b_type, d_type), sizes[1:], strict=True)]
        a, b, c = (registers(first, count) for first, count in zip((0, 4, 8), sizes[1:], strict=True))
        xor = ".xor.popc" if a_type == "b1" else ""
        types = f"{d_type}.{a_type}.{b_type}.{d_type}{xor}"
        lines = list[str]()
        for first, count in zip((0, 4, 8), sizes[1:], strict=True):
            lines += [*each_word("ld", "%g", first, count), f"mul.wide.u32 %f, %t, {4 * count}; sub.u64 %g, %g, %f;"]
            lines += [f"add.u64 %g, %g, {128 * count};"]
        lines += [
            "ld.param.u64 %f, [found];",
            f"mma.sync.aligned.{shape}.row.col.{types} {registers(12, sizes[0])}, {a}, {b}, {c};",
        ]
        given = b"".join(each.tobytes() for each in words)
        yield RecordedLaunch(
            f"mma.{shape}.{types}",
            text(*lines, *each_word("st", "%f", 12, sizes[0])),
            1,
            32,
            (given, bytes(128 * sizes[0])),
        )


def operand(rng: Any, type: str, count: int) -> Any:
    """The registers of a warp, with small whole numbers or any bits."""
    if type in ("s8", "u8", "s4", "b1"):
        return rng.integers(0, 256, 128 * count, np.uint8)
    size = 2 if type in ("f16", "bf16") else 4
    return drawn(rng, type, (128 * count // size,)).astype(f"u{size}").view(np.uint8)


def launch(vector: RecordedLaunch) -> list[Any]:
    """The arguments after a launch on the GPU."""
    arrays = vector.launch_arguments()
    run_on_gpu(vector.ptx.encode() + b"\0", "vector", arrays, grid=vector.grid, block=vector.block)
    return arrays


def main(words: Sequence[str]) -> int:
    """Record every vector and replay it."""
    from tilecopy.executors import get_executor

    cuda: Any = get_executor("cuda")
    if why := cuda.unavailable_reason():
        print(f"no GPU: {why}")
        return 2
    device = cuda.devices()[0]
    driver = importlib.import_module("cuda.bindings.driver")
    status, version = driver.cuDriverGetVersion()
    date, done, wrong = dt.datetime.now(dt.UTC).date().isoformat(), list[RecordedLaunch](), 0
    assert not status
    np.seterr(invalid="ignore")  # signaling NaNs
    for vector in (*matrices(), *products()):
        done.append(with_result(vector, launch(vector), f"{device.name}, driver {version}, {date}"))
        try:
            done[-1].replay()
        except Counterexample as finding:
            wrong += 1
            print(finding)
    write_vectors(Path(words[0]) if words else PATH, done, device=device.name, driver=str(version), date=date)
    print(f"{len(done)} vectors of {device.name}; the emulator differs in {wrong}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
