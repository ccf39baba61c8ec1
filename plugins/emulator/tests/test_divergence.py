"""Drawn programs on registers, guarded and branched by lane: what each thread holds is what it would hold alone."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tilecopy_emulator import run_ptx
from tilecopy_test_helpers.profiles import examples

THREADS, REGISTERS = 32, 5
HEADER = f"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {{
    .reg .b32 %r<{REGISTERS}>; .reg .b32 %t<2>; .reg .b64 %d<3>; .reg .pred %p<2>;
    mov.u32 %t0, %tid.x;
"""
WORDS = {"mov": lambda a, b: a, "add": lambda a, b: a + b, "xor": lambda a, b: a ^ b, "sub": lambda a, b: a - b}
SUFFIX = {"mov": "b32", "xor": "b32", "add": "u32", "sub": "u32"}
REGISTER = st.integers(0, REGISTERS - 1)
OPERATION = st.tuples(st.sampled_from(sorted(WORDS)), REGISTER, REGISTER, st.one_of(REGISTER, st.just(None)))
WHO = st.one_of(st.just(None), st.integers(0, THREADS), st.sampled_from(["odd", "even"]))
"""Every thread; those below a number; every second one."""
STEPS = st.lists(st.tuples(WHO, st.booleans(), st.lists(OPERATION, min_size=1, max_size=4)), min_size=1, max_size=12)


def chosen(who: int | str | None, tid: int) -> bool:
    if who is None:
        return True
    return tid < who if isinstance(who, int) else (tid % 2 == 1) == (who == "odd")


def line(operation: tuple[str, int, int, int | None]) -> str:
    name, to, left, right = operation
    second = "" if name == "mov" else f", {7 if right is None else f'%r{right}'}"
    return f"{name}.{SUFFIX[name]} %r{to}, %r{left}{second};"


def text_of(steps: list) -> str:
    lines = [f"mad.lo.u32 %r{n}, %t0, {n + 3}, {n};" for n in range(REGISTERS)]
    for number, (who, branches, operations) in enumerate(steps):
        guard = ""
        if who is not None:
            if isinstance(who, int):
                lines.append(f"setp.lt.u32 %p0, %t0, {who};")
            else:
                lines += ["and.b32 %t1, %t0, 1;", f"setp.eq.u32 %p0, %t1, {int(who == 'odd')};"]
            guard = "@%p0 "
        if guard and branches:
            lines.append(f"@!%p0 bra $L{number};")
            guard = ""
        lines += [guard + line(operation) for operation in operations]
        if who is not None and branches:
            lines.append(f"$L{number}:")
    lines += ["ld.param.u64 %d0, [out];", "mul.wide.u32 %d1, %t0, 4;", "add.s64 %d0, %d0, %d1;"]
    lines += [f"st.global.b32 [%d0+{n * THREADS * 4}], %r{n};" for n in range(REGISTERS)]
    return HEADER + "\n".join(lines) + "\nret;\n}\n"


@examples(300)
@example([(5, False, [("add", 0, 0, None)]), (None, False, [("mov", 1, 0, None)]), (9, False, [("add", 0, 0, None)])])
@given(STEPS)
def test_threads_that_diverge_hold_what_they_would_alone(steps: list) -> None:
    wanted = np.zeros((REGISTERS, THREADS), np.uint32)
    for tid in range(THREADS):
        held = [(tid * (n + 3) + n) % 2**32 for n in range(REGISTERS)]
        for who, _, operations in steps:
            for name, to, left, right in operations if chosen(who, tid) else ():
                held[to] = WORDS[name](held[left], 7 if right is None else held[right]) % 2**32
        wanted[:, tid] = held
    found = np.zeros_like(wanted)
    run_ptx(text_of(steps), [found], grid=1, block=THREADS)
    assert np.array_equal(found, wanted)
