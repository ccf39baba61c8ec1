"""The hints that bench_hints measures: what the rewriting of text gives, and that it changes nothing else."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_emulator.executor import EmulatorExecutor
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.cache_hints import LOADS, PREFETCHES, STORES, Hints, hints_of, rewritten, with_hints
from tilecopy_test_helpers.mentions import mentions

sys.path.append(str(Path(__file__).parents[2] / "tests" / "benchmarks"))
import bench_hints

TEXT = """.version 6.3
.target sm_75
	// copy from A: ld.global.v4.b32 and st.global.v4.b32
	ld.global.L1::no_allocate.v4.b32 {%r0, %r1, %r2, %r3}, [%rd0];
	@!%p1 ld.global.nc.L1::no_allocate.L2::128B.u8 %r4, [%rd0+16]; // ld.global.cs.u8
	ld.acquire.gpu.global.b32 %r5, [%rd2];
	ld.shared.b32 %r6, [%r7];
	@%p1 st.global.b32 [%rd1], %r4;
	st.global.wt.v2.b32 [%rd1], {%r0, %r1};
	st.shared.b32 [%r7], %r6;
"""
ASYNC = """.version 7.0
.target sm_80
	cp.async.cg.shared.global [%r0], [%rd0], 16;
	@%p0 cp.async.ca.shared.global.L2::64B [%r0], [%rd0], 4;
	cp.async.commit_group;
	ld.global.b32 %r1, [%rd2];
	st.global.L1::no_allocate.b32 [%rd1], %r1;
"""


def test_hints_take_the_place_of_those_that_are_there() -> None:
    assert rewritten(TEXT, Hints(".nc", ".cs")).splitlines() == [
        ".version 6.3",
        ".target sm_75",
        "	// copy from A: ld.global.v4.b32 and st.global.v4.b32",
        "	ld.global.nc.v4.b32 {%r0, %r1, %r2, %r3}, [%rd0];",
        "	@!%p1 ld.global.nc.u8 %r4, [%rd0+16]; // ld.global.cs.u8",
        "	ld.acquire.gpu.global.b32 %r5, [%rd2];",
        "	ld.shared.b32 %r6, [%r7];",
        "	@%p1 st.global.cs.b32 [%rd1], %r4;",
        "	st.global.cs.v2.b32 [%rd1], {%r0, %r1};",
        "	st.shared.b32 [%r7], %r6;",
    ]


def test_a_prefetch_is_one_of_the_asynchronous_copies() -> None:
    assert rewritten(ASYNC, Hints(".L2::256B", "")).splitlines() == [
        ".version 7.4",
        ".target sm_80",
        "	cp.async.cg.shared.global.L2::256B [%r0], [%rd0], 16;",
        "	@%p0 cp.async.ca.shared.global.L2::256B [%r0], [%rd0], 4;",
        "	cp.async.commit_group;",
        "	ld.global.b32 %r1, [%rd2];",
        "	st.global.b32 [%rd1], %r1;",
    ]


@pytest.mark.parametrize(
    ("hints", "version"),
    [
        (Hints(), "6.3"),
        (Hints(".lu", ".wt"), "6.3"),
        (Hints(".nc.L1::no_allocate"), "7.4"),
        (Hints("", ".L1::no_allocate"), "7.4"),
    ],
)
def test_the_version_is_raised_to_what_a_hint_needs(hints: Hints, version: str) -> None:
    assert rewritten(TEXT, hints).splitlines()[0] == f".version {version}"
    newer = TEXT.replace(".version 6.3", ".version 8.10")
    assert rewritten(newer, hints).splitlines()[0] == ".version 8.10"


def test_hints_are_read_as_they_were_written() -> None:
    for load in LOADS:
        for store in STORES:
            assert hints_of(rewritten(TEXT, Hints(load, store))) == {Hints(load, store)}
    assert hints_of(TEXT) == {
        Hints(load, store) for load in (".L1::no_allocate", ".nc.L1::no_allocate.L2::128B") for store in ("", ".wt")
    }


def test_a_hint_that_nothing_takes_is_an_error() -> None:
    loads_only = "\n".join(line for line in TEXT.splitlines() if "st.global" not in line)
    with pytest.raises(ValueError, match=mentions(".cs")):
        rewritten(loads_only, Hints("", ".cs"))
    with pytest.raises(ValueError, match=mentions(".nc")):
        rewritten(".version 6.3\nst.global.b32 [%rd1], %r4;\n", Hints(".nc", ""))
    with pytest.raises(ValueError, match=mentions("version")):
        rewritten("ld.global.b32 %r4, [%rd1];\n", Hints(".nc", ""))


def _small(case: bench_hints.Case) -> tuple[tuple[int, int], Any, Any]:
    rows, columns = (2 * extent - less for extent, less in zip(case.tile, case.short, strict=True))
    a = byte_arrays.random_array((rows, columns), tc.dtype_of(case.dtype).numpy())
    expected = np.ascontiguousarray(a.T) if case.transposes else a
    return (rows, columns), a, expected


@pytest.mark.parametrize("case", bench_hints.CASES, ids=lambda case: case.name)
def test_every_kernel_copies_with_every_hint(case: bench_hints.Case) -> None:
    """On the emulator, which is strict about ``.nc``; each text differs from the kernel's own in hints and version only."""
    shape, a, expected = _small(case)
    kernel = case.build(shape, "sm_90a")
    asynchronous = case.name.startswith("ldgsts")
    loads = PREFETCHES if asynchronous else LOADS
    alone = bench_hints.alone(kernel)
    assert alone == [*(Hints(load) for load in loads), *(Hints("", store) for store in STORES[1:])]
    bare = _without_version(with_hints(kernel, Hints()).ptx)
    for hints in [*alone, Hints(loads[-1], ".cs")]:
        changed = with_hints(kernel, hints)
        assert hints_of(changed.ptx) == {hints}
        assert _without_version(rewritten(changed.ptx, Hints())) == bare
        assert changed.cubin()
        b = np.zeros_like(expected)
        changed(a, b, executor="emulator")
        assert byte_arrays.same_bytes(b, expected)
    (emitted,) = hints_of(kernel.ptx)
    assert _without_version(with_hints(kernel, emitted).ptx) == _without_version(kernel.ptx)


@pytest.mark.parametrize("case", bench_hints.CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("nbytes", [bench_hints.NBYTES, bench_hints.QUICK_NBYTES])
def test_every_kernel_covers_what_is_measured(case: bench_hints.Case, nbytes: int) -> None:
    shape = case.shape(nbytes)
    kernel = case.build(shape, "sm_90")
    assert all(0 < count <= limit for count, limit in zip(kernel.launch_grid(None), (2**31 - 1, 65535, 1), strict=True))
    size_bytes = tc.dtype_of(case.dtype).bits // 8
    assert 0.99 * nbytes < shape[0] * shape[1] * size_bytes <= nbytes


def _without_version(ptx: str) -> str:
    return re.sub(r"^\.version .*$", "", ptx, flags=re.M)


COUNTED = [case for case in bench_hints.CASES if not any(case.short) and not case.name.startswith("ldgsts")]
"""The emulator's profile counts ld and st, not cp.async."""


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: case.name)
def test_no_kernel_has_bank_conflicts_nor_half_sectors(case: bench_hints.Case) -> None:
    """Wavefronts of 128 bytes and sectors of 32, as many as the bytes need: what is measured is the memory."""
    shape, a, expected = _small(case)
    report = EmulatorExecutor(profile=True).launch(case.build(shape, "sm_90a"), (a, np.zeros_like(expected)))
    assert report.counters["global_sectors"] == 2 * a.nbytes // 32
    staged = not case.name.startswith("reg")
    assert report.counters.get("shared_wavefronts", 0) == staged * 2 * a.nbytes // 128


def test_the_best_loads_are_combined_with_the_best_stores() -> None:
    times = {Hints(): 5.0, Hints(".nc"): 1.0, Hints(".cs"): 2.0, Hints(".lu"): 3.0, Hints("", ".cs"): 4.0}
    assert bench_hints.combined(times) == [
        Hints(load, store) for load in (".nc", ".cs", ".lu") for store in (".cs", "")
    ] + [Hints()]


def test_ratios_are_of_medians_in_the_same_stage() -> None:
    times: dict[Any, list[float]] = {
        bench_hints.COPY: [1.0, 2.0, 9.0],
        Hints(): [4.0, 4.0, 4.0],
        Hints(".nc", ".cs"): [1.0, 2.5, 3.0],
    }
    times[bench_hints.EMITTED] = [2.0, 2.0, 2.0]
    rows = {row.name: row for row in bench_hints.table("alone", times, 10**13, Hints("", ".wt"))}
    best = rows[".nc / .cs"]
    assert (best.tb_per_s, best.of_none, best.of_copy, best.spread) == (4.0, 1.6, 0.8, pytest.approx(0.4))
    assert (rows[bench_hints.COPY].load, best.load, rows["none / none"].of_none) == (None, ".nc", 1.0)
    assert (rows["none / .wt, as emitted"].store, rows["none / .wt, as emitted"].of_none) == (".wt", 2.0)


def test_without_a_gpu_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent:
        def unavailable_reason(self) -> str:
            return "no driver\nis installed"

    monkeypatch.setattr(bench_hints, "get_executor", lambda name: Absent())
    with pytest.raises(SystemExit, match=mentions("bench_hints")):
        bench_hints.gpu()
