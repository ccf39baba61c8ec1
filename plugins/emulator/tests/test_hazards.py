"""A missing commit, wait, fence, barrier or expect_tx in any demo is a HazardError that names a line."""

from __future__ import annotations

import re

import attrs
import demos
import pytest

import tilecopy_core as tc
from tilecopy_core import S, TileLayout

GUARDS = re.compile(
    r"bar\.sync|barrier\.cluster|fence|commit|expect_tx|try_wait|mbarrier\.init|wait::|wait_group|tcgen05\.(de)?alloc\."
)


def guard_lines(kernel: tc.BuiltKernel) -> list[int]:
    return [number for number, line in enumerate(kernel.ptx.split("\n")) if GUARDS.search(line)]


CASES = [(name, line) for name, demo in demos.DEMOS.items() for line in guard_lines(demo.make())]


@pytest.mark.parametrize("name", demos.DEMOS)
def test_the_demo_runs_clean(name: str) -> None:
    demos.DEMOS[name].check(demos.DEMOS[name].make(), "emulator")


def test_every_kind_of_guard_is_removed_somewhere() -> None:
    kinds = {GUARDS.search(demos.DEMOS[name].make().ptx.split("\n")[line])[0] for name, line in CASES}  # type: ignore[index]
    assert kinds >= {"bar.sync", "barrier.cluster", "fence", "commit", "expect_tx", "try_wait", "wait::", "wait_group"}


@pytest.mark.parametrize(("name", "line"), CASES)
def test_removing_one_line_is_a_hazard(name: str, line: int) -> None:
    demo = demos.DEMOS[name]
    kernel = demo.make()
    lines = kernel.ptx.split("\n")
    if "try_wait" in lines[line]:
        lines[line + 1] = ""  # the branch back to it
    lines[line] = ""
    with pytest.raises(tc.HazardError) as caught:
        demo.check(attrs.evolve(kernel, ptx="\n".join(lines)), "emulator")
    assert caught.value.line > 0 and f"PTX line {caught.value.line}" in str(caught.value)
    assert caught.value.kind


def one_thread(write: object, threads: int = 32) -> tc.BuiltKernel:
    """A kernel of one CTA whose body a function writes."""
    k = tc.KernelBuilder("k", threads=threads)
    a = k.param("A", (64,), "float32")
    s = k.shared((64,), "float32", name="s")
    write(k, a, s)  # type: ignore[operator]
    return k.build(target="sm_90a", grid=1)


def _race(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    k.store(s[0], k.cast(k.thread_id(), "float32"))


def _neighbour(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    k.store(s[k.thread_id()], 1.0)
    k.store(a[k.thread_id()], k.load(s[k.thread_id() ^ 1]))


def _overwrite(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    k.store(s[k.thread_id()], 1.0)
    k.cta_sync()
    k.store(a[k.thread_id()], k.load(s[k.thread_id() ^ 1]))
    k.store(s[k.thread_id()], 2.0)


def _poison(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    k.store(a[0], k.load(s[3]))


def _outside(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    with k.range(70) as i, k.if_(k.thread_id() == 0):
        k.store(a[i], 1.0)


def _register(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    r = k.local(4, "float32")
    k.store(a[0], k.load(r[0]))


def _divergent(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    with k.if_(k.thread_id() < 16):
        k.cta_sync()


def _misaligned(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    k.inline_ptx(
        "{{ .reg .b32 x<4>; .reg .b64 p; ld.param.u64 p, [param_A]; ld.global.v4.b32 {{x0,x1,x2,x3}}, [p+4]; }}"
    )


@pytest.mark.parametrize(
    ("write", "kind", "message"),
    [
        (_race, "race", "two threads at once"),
        (_neighbour, "race", "no barrier since it was written by thread"),
        (_overwrite, "race", "no barrier since it was read by"),
        (_poison, "poison", "s byte 12 is read and was never written"),
        (_outside, "bounds", r"outside A, which has 256 bytes"),
        (_register, "poison", "register"),
        (_divergent, "barrier", "16 of the 32 threads"),
        (_misaligned, "alignment", "not a multiple of 16"),
    ],
)
def test_undefined_executions_are_named(write: object, kind: str, message: str) -> None:
    import numpy as np

    kernel = one_thread(write)
    with pytest.raises(tc.HazardError, match=message) as caught:
        kernel(np.zeros(64, np.float32), executor="emulator")
    assert caught.value.kind == kind
    assert "PTX line" in str(caught.value) and "thread" in str(caught.value)


def test_the_profile_counts_sectors_and_bank_conflicts() -> None:
    import numpy as np
    from kernels import round_trip
    from tilecopy_emulator import EmulatorExecutor

    def wavefronts(layout: tc.Layout) -> dict[str, int]:
        kernel = round_trip((32, 32), (32, 32), "float32", threads=32, layout=layout)
        a = np.ones((32, 32), np.float32)
        return EmulatorExecutor(profile=True).launch(kernel, (a, np.zeros_like(a))).counters

    row_major = wavefronts(TileLayout(S[32, 32]))
    assert row_major["global_sectors"] == 2 * 32 * 32 * 4 // 32
    assert row_major["shared_wavefronts"] == 2 * 32 * 32 * 4 // 128
    transposed = wavefronts(TileLayout(S[(32, 32) : (1, 32)]))
    padded = wavefronts(TileLayout(S[(32, 32) : (1, 33)]))
    assert transposed["shared_wavefronts"] == 2 * 32 * 32, "32 lanes on one bank"
    assert padded["shared_wavefronts"] == 2 * 32


def test_unknown_ptx_names_its_line() -> None:
    import numpy as np
    from tilecopy_emulator import UnsupportedPtxError

    kernel = one_thread(lambda k, a, s: k.inline_ptx("vote.sync.any.pred %p0, %p0, 1;"))
    with pytest.raises(UnsupportedPtxError, match=r"line \d+: 'vote"):
        kernel(np.zeros(64, np.float32), executor="emulator")
