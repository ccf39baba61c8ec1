"""Measure the speed of the emulator: `python tests/benchmarks/bench_emulator.py [NAME...] [--against PATH_TO_SRC]`.

Eight kernels: one that computes, three that move data, one that diverges, three whose threads meet at atomics. The figure is
millions of thread-instructions in a second of CPU time, the best of three launches. With ``--against`` the emulator of another
checkout runs the same launches in the same minutes (its root, or its `plugins/emulator/src`), and the last column is the quotient.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LAUNCHES = 3
HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 A, .param .u64 B, .param .u64 C)
{
    .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .f32 %f<40>;
    ld.param.u64 %d1, [A]; cvta.to.global.u64 %d1, %d1;
    ld.param.u64 %d2, [B]; cvta.to.global.u64 %d2, %d2;
    ld.param.u64 %d3, [C]; cvta.to.global.u64 %d3, %d3;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %nctaid.x;
    mad.lo.u32 %r5, %r2, %r3, %r1;
"""


@attrs.frozen
class Kernel:
    """A launch that is measured.

    Attributes:
        body: PTX after :data:`HEAD`: tid, ctaid, ntid, nctaid in ``%r1`` to ``%r4``, the thread in ``%r5``, the arrays in ``%d1`` to ``%d3``.
        grid: CTAs.
        block: threads of a CTA.
        arrays: makes the three arrays; they are the same each time.
    """

    body: str
    grid: int
    block: int
    arrays: Callable[[], list[Any]]


def _words(*counts: int) -> Callable[[], list[Any]]:
    """Three arrays of so many words, zeros."""
    return lambda: [np.zeros(count, np.uint32) for count in counts]


def _floats(*counts: int) -> Callable[[], list[Any]]:
    """Three arrays of so many random floats."""
    return lambda: [np.random.default_rng(count).random(count, np.float32) for count in counts]


_INNER = "\n".join(
    f"ld.shared.f32 %f2, [%r10+{4 * k}]; ld.shared.f32 %f3, [%r11+{64 * k}]; fma.rn.f32 %f1, %f2, %f3, %f1;"
    for k in range(16)
)

KERNELS = {
    "fma loop": Kernel(
        """
    cvt.rn.f32.u32 %f1, %r5; mov.f32 %f2, 0f3F7FFFF0; mov.f32 %f3, 0f3DCCCCCD; mov.u32 %r6, 0;
L:  fma.rn.f32 %f1, %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3;
    fma.rn.f32 %f1, %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 64; @%p1 bra L;
    mad.wide.u32 %d1, %r5, 4, %d1; st.global.f32 [%d1], %f1;
""",
        64,
        256,
        _words(1 << 14, 1, 1),
    ),
    "matmul": Kernel(
        f"""
    .shared .align 16 .b8 a[1024]; .shared .align 16 .b8 b[1024];
    and.b32 %r6, %r1, 15; shr.u32 %r7, %r1, 4; and.b32 %r8, %r2, 7; shr.u32 %r9, %r2, 3;
    mov.u32 %r10, a; mad.lo.u32 %r10, %r7, 64, %r10; mov.u32 %r11, b; mad.lo.u32 %r11, %r6, 4, %r11;
    mad.lo.u32 %r12, %r6, 4, %r10; mad.lo.u32 %r13, %r7, 64, %r11;
    mad.lo.u32 %r14, %r9, 16, %r7; mad.lo.u32 %r14, %r14, 128, %r6; mad.wide.u32 %d4, %r14, 4, %d1;
    mad.lo.u32 %r15, %r7, 128, %r6; mad.lo.u32 %r15, %r8, 16, %r15; mad.wide.u32 %d5, %r15, 4, %d2;
    mad.lo.u32 %r14, %r8, 16, %r14; mad.wide.u32 %d6, %r14, 4, %d3;
    mov.f32 %f1, 0f00000000; mov.u32 %r16, 0;
L:  ld.global.f32 %f4, [%d4]; ld.global.f32 %f5, [%d5]; st.shared.f32 [%r12], %f4; st.shared.f32 [%r13], %f5;
    bar.sync 0;
    {_INNER}
    bar.sync 0;
    add.u64 %d4, %d4, 64; add.u64 %d5, %d5, 8192; add.u32 %r16, %r16, 1; setp.lt.u32 %p1, %r16, 8; @%p1 bra L;
    st.global.f32 [%d6], %f1;
""",
        256,
        256,
        _floats(1 << 16, 1 << 14, 1 << 16),
    ),
    "transpose": Kernel(
        """
    .shared .align 16 .b8 s[4224];
    and.b32 %r6, %r1, 31; shr.u32 %r7, %r1, 5; and.b32 %r8, %r2, 15; shr.u32 %r9, %r2, 4;
    mad.lo.u32 %r10, %r9, 32, %r7; mad.lo.u32 %r10, %r10, 512, %r6; mad.lo.u32 %r10, %r8, 32, %r10; mad.wide.u32 %d4, %r10, 4, %d1;
    mad.lo.u32 %r11, %r8, 32, %r7; mad.lo.u32 %r11, %r11, 512, %r6; mad.lo.u32 %r11, %r9, 32, %r11; mad.wide.u32 %d5, %r11, 4, %d2;
    mov.u32 %r12, s; mad.lo.u32 %r13, %r7, 132, %r12; mad.lo.u32 %r13, %r6, 4, %r13; mad.lo.u32 %r14, %r6, 132, %r12; mad.lo.u32 %r14, %r7, 4, %r14;
    ld.global.b32 %r20, [%d4]; ld.global.b32 %r21, [%d4+16384]; ld.global.b32 %r22, [%d4+32768]; ld.global.b32 %r23, [%d4+49152];
    st.shared.b32 [%r13], %r20; st.shared.b32 [%r13+1056], %r21; st.shared.b32 [%r13+2112], %r22; st.shared.b32 [%r13+3168], %r23;
    bar.sync 0;
    ld.shared.b32 %r20, [%r14]; ld.shared.b32 %r21, [%r14+32]; ld.shared.b32 %r22, [%r14+64]; ld.shared.b32 %r23, [%r14+96];
    st.global.b32 [%d5], %r20; st.global.b32 [%d5+16384], %r21; st.global.b32 [%d5+32768], %r22; st.global.b32 [%d5+49152], %r23;
""",
        256,
        256,
        _floats(1 << 18, 1 << 18, 1),
    ),
    "saxpy": Kernel(
        """
    mul.lo.u32 %r6, %r3, %r4;
L:  mad.wide.u32 %d4, %r5, 4, %d1; mad.wide.u32 %d5, %r5, 4, %d2; ld.global.f32 %f1, [%d4]; ld.global.f32 %f2, [%d5];
    fma.rn.f32 %f2, %f1, 0f40200000, %f2; st.global.f32 [%d5], %f2;
    add.u32 %r5, %r5, %r6; setp.lt.u32 %p1, %r5, 1048576; @%p1 bra L;
""",
        512,
        256,
        _floats(1 << 20, 1 << 20, 1),
    ),
    "divergent loop": Kernel(
        """
    mul.lo.u32 %r6, %r5, 2654435761; shr.u32 %r6, %r6, 25; mov.u32 %r7, 0; mov.u32 %r8, 1;
L:  setp.gt.u32 %p1, %r7, %r6; @%p1 bra END;
    mad.lo.u32 %r8, %r8, 1664525, 1013904223; xor.b32 %r8, %r8, %r7; add.u32 %r7, %r7, 1; bra L;
END: mad.wide.u32 %d1, %r5, 4, %d1; st.global.b32 [%d1], %r8;
""",
        64,
        256,
        _words(1 << 14, 1, 1),
    ),
    "histogram": Kernel(
        """
    .shared .align 16 .b8 bins[256];
    mov.u32 %r10, bins; mad.lo.u32 %r11, %r1, 4, %r10; setp.lt.u32 %p1, %r1, 64; @%p1 st.shared.b32 [%r11], 0;
    bar.sync 0;
    mul.lo.u32 %r6, %r3, %r4; mov.u32 %r7, %r5;
L:  mad.lo.u32 %r8, %r7, 1664525, 1013904223; shr.u32 %r8, %r8, 26; mad.lo.u32 %r9, %r8, 4, %r10;
    atom.shared.add.u32 %r12, [%r9], 1;
    add.u32 %r7, %r7, %r6; setp.lt.u32 %p2, %r7, 131072; @%p2 bra L;
    bar.sync 0;
    @!%p1 bra END;
    ld.shared.b32 %r13, [%r11]; mad.wide.u32 %d4, %r1, 4, %d1; red.global.add.u32 [%d4], %r13;
    red.global.add.u32 [%d2], %r13;
END:
""",
        64,
        256,
        _words(64, 1, 1),
    ),
    "spin lock": Kernel(
        """
    setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
L:  atom.acquire.gpu.global.cas.b32 %r6, [%d1], 0, 1; setp.ne.u32 %p2, %r6, 0; @%p2 bra L;
    ld.global.b32 %r7, [%d2]; add.u32 %r7, %r7, 1; st.global.b32 [%d2], %r7;
    atom.release.gpu.global.exch.b32 %r6, [%d1], 0;
END:
""",
        48,
        32,
        _words(1, 1, 1),
    ),
    "grid barrier": Kernel(
        """
    mov.u32 %r10, 0; mov.u32 %r11, 0;
    mad.wide.u32 %d4, %r5, 4, %d2; add.u32 %r12, %r5, 32; mul.lo.u32 %r13, %r3, %r4; rem.u32 %r12, %r12, %r13; mad.wide.u32 %d5, %r12, 4, %d2;
AGAIN:
    st.global.b32 [%d4], %r10; bar.sync 0; setp.ne.u32 %p1, %r1, 0; add.u32 %r11, %r11, %r4; @%p1 bra MEET;
    fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r6, [%d1], 1;
WAIT: ld.relaxed.gpu.global.b32 %r6, [%d1]; setp.lt.u32 %p2, %r6, %r11; @%p2 bra WAIT;
    fence.acq_rel.gpu;
MEET: bar.sync 0; ld.global.b32 %r7, [%d5];
    bar.sync 0; add.u32 %r11, %r11, %r4; @%p1 bra MEET2;
    fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r6, [%d1], 1;
WAIT2: ld.relaxed.gpu.global.b32 %r6, [%d1]; setp.lt.u32 %p2, %r6, %r11; @%p2 bra WAIT2;
    fence.acq_rel.gpu;
MEET2: bar.sync 0; add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 4; @%p3 bra AGAIN;
""",
        32,
        128,
        _words(1, 4096, 1),
    ),
}


def measured(kernel: Kernel) -> float:
    """Millions of thread-instructions in a second of CPU time, the best of some launches."""
    from tilecopy_emulator import run_ptx

    best = 0.0
    for _ in range(LAUNCHES):
        arrays = kernel.arrays()
        start = time.process_time()
        report = run_ptx(HEAD + kernel.body + "ret;\n}\n", arrays, grid=kernel.grid, block=kernel.block)
        best = max(best, sum(report.instructions.values()) / (time.process_time() - start) / 1e6)
    return best


def of_checkout(name: str, root: Path) -> float | None:
    """As :func:`measured`, in a process of its own, with the packages of a checkout; None where it ends with an error, which is shown."""
    sources = [str(root), *map(str, sorted(root.glob("plugins/*/src")))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sources)}
    command = [sys.executable, __file__, "--measure", name]
    found = subprocess.run(command, env=environment, check=False, stdout=subprocess.PIPE, text=True)
    return None if found.returncode else float(json.loads(found.stdout))


def root_of(path: Path) -> Path:
    """The checkout that a path is in.

    Raises:
        SystemExit: it is in none.
    """
    for folder in (path.resolve(), *path.resolve().parents):
        if (folder / "tilecopy_core").is_dir() and (folder / "plugins").is_dir():
            return folder
    raise SystemExit(f"bench_emulator: {path} is in no checkout of tilecopy")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"kernels to run: {', '.join(KERNELS)}")
    parser.add_argument(
        "--against", type=Path, help="compare with another checkout (its root, or its plugins/emulator/src)"
    )
    parser.add_argument("--measure", choices=KERNELS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.names) - set(KERNELS):
        parser.error(f"{', '.join(sorted(unknown))}: of {', '.join(KERNELS)}")
    if given.measure:
        print(json.dumps(measured(KERNELS[given.measure])))
        return
    other = None if given.against is None else root_of(given.against)
    print(f"{'M thread-instructions / s':<26}{'here':>8}" + (f"{'there':>10}{'quotient':>10}" if other else ""))
    for name in given.names or KERNELS:
        there = None if other is None else of_checkout(name, other)
        here = of_checkout(name, ROOT)
        figures = [here, *([there, here / there if here and there else None] if other else [])]
        cells = "".join("     error" if figure is None else f"{figure:10.2f}" for figure in figures)
        print(f"{name:<24}{cells}", flush=True)


if __name__ == "__main__":
    main()
