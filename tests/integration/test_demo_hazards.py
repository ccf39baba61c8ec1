"""A missing commit, wait, fence, barrier or expect_tx in any demo is a HazardError that names a line."""

from __future__ import annotations

import re

import attrs
import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy_test_helpers import demos
from tilecopy_test_helpers.mentions import is_hazard, mentions

GUARDS = re.compile(
    r"bar\.sync|barrier\.cluster|fence|commit|expect_tx|try_wait|mbarrier\.(init|arrive)|wait::|wait_group|tcgen05\.(de)?alloc\."
)


def guard_lines(kernel: tc.BuiltKernel) -> list[int]:
    return [number for number, line in enumerate(kernel.ptx.split("\n")) if GUARDS.search(line)]


CASES = [(name, line) for name, demo in demos.DEMOS.items() for line in guard_lines(demo.make())]


@pytest.mark.parametrize("name", demos.DEMOS)
def test_the_demo_runs_clean(name: str) -> None:
    demos.DEMOS[name].check(demos.DEMOS[name].make(), "emulator")


def test_every_kind_of_guard_is_removed_somewhere() -> None:
    removed = "\n".join(demos.DEMOS[name].make().ptx.split("\n")[line] for name, line in CASES)
    for kind in ("bar.sync", "barrier.cluster", "fence.proxy", "fence.mbarrier_init", "commit_group", "tcgen05.commit"):
        assert kind in removed
    for kind in (
        "expect_tx",
        "try_wait",
        "mbarrier.arrive.shared",
        "tcgen05.wait::ld",
        "cp.async.wait_group",
        "tcgen05.fence",
    ):
        assert kind in removed


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
    assert caught.value.line > 0 and mentions(caught.value.line).search(str(caught.value))
    assert caught.value.kind


def test_two_arguments_may_be_one_array() -> None:
    """CTA y reads row y + 1 of A and writes row y of B: a race where both are one array, and none within a CTA."""

    def shifted(by: int) -> tc.BuiltKernel:
        k = tc.KernelBuilder("shifted", threads=32)
        a, b = k.param("A", (9, 32), "float32"), k.param("B", (9, 32), "float32")
        row = k.local((32,), "float32", layout=TileLayout(S[(32,) : (1 @ tc.laneid,)]))
        k.warp.copy(row[:], a[k.block_id() + by, :])
        k.warp.copy(b[k.block_id(), :], row[:])
        return k.build(target="sm_80", grid=8)

    x, y = np.random.default_rng(0).random((2, 9, 32), np.float32)
    before = x.copy()
    shifted(1)(x, y, executor="emulator")
    assert np.array_equal(y[:8], before[1:])
    shifted(0)(x, x, executor="emulator")
    assert np.array_equal(x, before)
    with pytest.raises(tc.HazardError, check=is_hazard("race", "A", "B", 128)):
        shifted(1)(x, x, executor="emulator")
