"""What a hazard's report says: which access came before, what a copy in flight lacks, whose line is shown, and names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_emulator import run_ptx
from tilecopy_emulator.debug_info import SourceLocation, readable

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 Y)
{
 .reg .b64 %y, %z; .reg .b32 %r<8>; .reg .pred %p<4>; .shared .align 4 .b8 s[1024];
 ld.param.u64 %y, [Y]; mov.u32 %r0, %tid.x; mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 4, %r1; mad.wide.u32 %z, %r0, 4, %y;
 xor.b32 %r3, %r0, 63; mad.lo.u32 %r4, %r3, 4, %r1; mov.u32 %r5, %ctaid.x;
"""
COPY = " cp.async.ca.shared.global [%r2], [%z], 4;\n"
READ = " ld.shared.u32 %r6, [%r4];\n st.global.u32 [%z], %r6;\n"


def hazard(body: str, *, grid: int = 1, block: int = 64, head: str = HEAD, **options: Any) -> tc.HazardError:
    with pytest.raises(tc.HazardError) as caught:
        run_ptx(f"{head}{body} ret;\n}}\n", [np.zeros(256, np.int32)], grid=grid, block=block, **options)
    return caught.value


def instructions(error: tc.HazardError) -> list[str]:
    words = ([word for word in access["ptx"].split() if word[0] != "@"] for access in error.details["accesses"])
    return [opcode for opcode, *_ in words]


@pytest.mark.parametrize("between", ["bar.sync 0;", "membar.gl;"])
def test_the_earlier_access_of_a_race_is_the_one_that_conflicts(between: str) -> None:
    first = " setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r5, 0; and.pred %p2, %p0, %p1; @%p2 st.global.u32 [%y], 0;\n"
    error = hazard(f"{first} {between}\n @%p0 atom.global.add.u32 %r6, [%y], 1;\n", grid=2, block=32)
    assert instructions(error) == ["atom.global.add.u32", "st.global.u32"]
    assert [access["action"] for access in error.details["accesses"]] == ["written", "written"]


def test_an_access_after_the_race_is_not_the_earlier_one() -> None:
    late = " setp.lt.u32 %p0, %r0, 32; @!%p0 bra END; bar.warp.sync -1; st.shared.u32 [%r2], 5; END:\n"
    error = hazard(f" st.shared.u32 [%r2], %r0;\n{READ}{late}")
    now, before = error.details["accesses"]
    assert before["ptx"] == "st.shared.u32 [%r2], %r0" and before["ptx_line"] < now["ptx_line"]


@pytest.mark.parametrize("commit", ["", " cp.async.commit_group;\n"])
def test_a_wait_after_the_barrier_is_one_of_the_accesses(commit: str) -> None:
    wait = " cp.async.wait_group 0;\n" if commit else " cp.async.wait_all;\n"
    error = hazard(f"{COPY}{commit} bar.sync 0;\n{wait}{READ}")
    assert error.kind == "race"
    assert instructions(error) == ["ld.shared.u32", "cp.async.ca.shared.global", wait.split(maxsplit=1)[0].rstrip(";")]
    assert {access["thread"] for access in error.details["accesses"][1:]} == {"thread 63 of CTA (0,0,0)"}


@pytest.mark.parametrize(
    ("body", "missing", "waits"),
    [
        (f"{COPY} bar.sync 0;\n", ("cp.async.commit_group", "cp.async.wait_group"), 0),
        (f"{COPY} cp.async.wait_group 0;\n", ("cp.async.commit_group",), 1),
        (f"{COPY} cp.async.commit_group;\n", ("cp.async.wait_group 0",), 0),
        (f"{COPY} cp.async.commit_group; cp.async.wait_group 1;\n", ("cp.async.wait_group 0",), 1),
        (
            f"{COPY} cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 2;\n",
            ("cp.async.wait_group 1",),
            1,
        ),
        (
            f"{COPY} cp.async.commit_group; cp.async.wait_group 1; cp.async.commit_group;\n",
            ("cp.async.wait_group 0",),
            1,
        ),
        (f"{COPY} cp.async.wait_group 0; cp.async.commit_group;\n", ("cp.async.wait_group 0",), 1),
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_a_copy_in_flight_says_which_step_is_missing(
    body: str, missing: tuple[str, ...], waits: int, own: bool
) -> None:
    error = hazard(body + (READ.replace("%r4", "%r2") if own else READ))
    steps = [
        name for name in ("cp.async.commit_group", "cp.async.wait_group", "barrier") if name in error.details["order"]
    ]
    assert error.kind == "async" and all(step in error.details["order"] for step in missing)
    owner = "thread 0 of" if own else "thread 63 of"
    assert len(instructions(error)) == 2 + waits and error.details["accesses"][1]["thread"].startswith(owner)
    assert ("barrier" in steps) is not own


def test_dynamic_shared_memory_that_was_not_given_is_named():
    text = HEAD.replace(" .shared .align 4 .b8 s[1024];", "").replace(".visible", ".extern .shared .b8 s[];\n.visible")
    error = hazard(" st.shared.u32 [%r2], %r0;\n", head=text)
    assert error.kind == "bounds" and error.details["accesses"][0]["thread"].startswith("thread 0 of")
    assert "dynamic_shared_bytes=" in str(error)
    assert "dynamic_shared_bytes=" not in str(hazard(" st.shared.u32 [%r2], %r0;\n", head=text, dynamic_shared_bytes=4))


def test_a_copy_of_a_builder_names_the_statements() -> None:
    k = tc.KernelBuilder("ahead", threads=64)
    A = k.param("A", (64,), "float32")
    s = k.shared(64, "float32", name="s")
    k.cta.copy_async(s[:], A[:])
    k.cp_async_commit()
    k.cta_sync()
    k.cp_async_wait(pending=0)
    k.store(A[k.thread_id()], k.load(s[k.thread_id() ^ 32]))
    with pytest.raises(tc.HazardError) as caught:
        k.build(target="sm_80", grid=1)(np.zeros(64, np.float32), executor="emulator")
    accesses = caught.value.details["accesses"]
    assert [bool(access["origin"]) for access in accesses] == [True, True, True]
    assert all(__file__.rpartition("/")[2] in access["origin"] for access in accesses)


LIBRARY = """.file 1 "/home/me/app.cu"
.file 2 "/usr/local/cuda-13.0/include/cooperative_groups/details/sync.h"
.file 3 "/home/me/include/mine.h"
"""


@pytest.mark.parametrize(("header", "line"), [(2, 7), (3, 70)])
def test_the_user_s_line_stands_in_place_of_a_library_header_s(header: int, line: int) -> None:
    head = HEAD.replace(".visible", f"{LIBRARY}.visible")
    loc = f" .loc 1 7 3\n .loc {header} 70 5, function_name $f, inlined_at 1 7 3\n"
    body = f" st.shared.u32 [%r2], %r0;\n{loc}{READ}"
    head = head.replace(".visible", ".section .debug_str\n{\n$f:\n.b8 95,90,49,102,118,0\n}\n.visible")
    error = hazard(body, head=head)
    assert error.details["accesses"][0]["source"][0]["line"] == line
    shown = [text for text in str(error).splitlines() if text.startswith("  at ")]
    assert f":{line}" in shown[0] and ":70" in shown[0]


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("/usr/local/cuda/include/cuda_pipeline_helpers.h", True), ("/x/targets/x86_64-linux/include/cub/block/block_scan.cuh", True),
        ("/env/lib/python3.12/site-packages/nvidia/cu13/include/mma.h", True), ("C:\\\\CUDA\\\\cuda-13.0\\\\include\\\\cuda\\\\std\\\\array", True),
        ("/home/me/cuda/kernels/app.cu", False), ("/home/me/include/mine.h", False), ("app.cu", False), ("/home/me/cub/app.cu", False),
    ],
)  # fmt: skip
def test_headers_that_the_user_has_not_written_are_known(file: str, library: bool) -> None:
    assert SourceLocation(file, 1).in_library is library


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z4step3CfgPi", "step"), ("_Z4fillIfEvPT_S0_", "fill"), ("_ZN2ns4stepE3CfgPi", "ns::step"), ("_ZL4stepPi", "step"),
        ("_ZN2ns4stepILi4ELb1E3CfgEEvPi", "ns::step"), ("_ZN12_GLOBAL__N_14stepEPi", "step"), ("_ZN34_INTERNAL_00000000_4_k_cu_96cb42af4stepEPi", "step"), ("_ZN3FooIfE3barEv", "Foo::bar"),
        ("plain", "plain"), ("_ZZ1kPfE1s", "s"), ("_ZN3FooC1Ev", ""), ("_Z", ""),
    ],
)  # fmt: skip
def test_names_of_functions_are_those_of_the_source(mangled: str, name: str) -> None:
    assert readable(mangled) == name


FAULTS = """ st.shared.u32 [%r2], %r0;
 ld.shared.u32 %r6, [%r4];
 mad.wide.u32 %y, %r0, 16, %y; ld.global.u32 %r7, [%y+12];
 add.u32 %r7, %r7, %r6;
 ld.shared.u32 %r6, [%r2+512];
 st.global.u32 [%z], %r6;
"""


@pytest.mark.parametrize("grid", [1, 4])
def test_all_hazards_are_reported_once_for_each_cause(grid: int) -> None:
    first = hazard(FAULTS, grid=grid, block=128)
    error = hazard(FAULTS, grid=grid, block=128, all_hazards=True)
    assert str(error) == str(first) and first.others == ()
    found = [(each.kind, instructions(each)[0]) for each in (error, *error.others)]
    assert found[:3] == [("race", "ld.shared.u32"), ("bounds", "ld.global.u32"), ("poison", "ld.shared.u32")]
    assert len(set(found)) == len(found) and {kind for kind, _ in found} <= {"race", "bounds", "poison"}
    assert instructions(error) == ["ld.shared.u32", "st.shared.u32"]
    assert [str(each) for each in error.others] == error.__notes__[: len(error.others)]


def test_a_loop_is_one_cause_and_an_access_outside_reads_zero() -> None:
    y = np.full(256, 7, np.int32)
    body = " mov.u32 %r6, 0;\nL: mad.wide.u32 %z, %r6, 64, %y; ld.global.u32 %r7, [%z]; add.u32 %r6, %r6, 1; setp.lt.u32 %p0, %r6, 40; @%p0 bra L;\n"
    with pytest.raises(tc.HazardError) as caught:
        run_ptx(f"{HEAD}{body} st.global.u32 [%y], %r7; ret;\n}}\n", [y], grid=1, block=1, all_hazards=True)
    assert caught.value.kind == "bounds" and caught.value.others == () and (y[0], y[1]) == (0, 7)


def test_a_run_that_cannot_go_on_ends_with_what_it_found() -> None:
    error = hazard(
        " ld.shared.u32 %r6, [%r2]; st.global.u32 [%z], %r6;\n trap;\n st.global.u32 [%y], 0;\n", all_hazards=True
    )
    assert [each.kind for each in (error, *error.others)] == ["poison", "trap"]


@pytest.mark.parametrize("all_hazards", [False, True])
@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize("after", ["", " bar.sync 0;\n"])
def test_a_divergent_barrier_is_called_that(after: str, grid: int, all_hazards: bool) -> None:
    body = f" st.shared.u32 [%r2], %r0; setp.lt.u32 %p0, %r0, 32;\n @!%p0 bra L;\n bar.sync 0;\nL:\n ld.shared.u32 %r6, [%r4];\n{after} st.global.u32 [%z], %r6;\n"
    error = hazard(body, grid=grid, all_hazards=all_hazards)
    assert (error.kind, error.cause) == ("barrier", "divergent")
    assert instructions(error) == ["bar.sync", "ld.shared.u32", "st.shared.u32"]


def test_a_divergent_barrier_of_a_loop_is_called_that() -> None:
    loop = " mov.u32 %r6, 0; shr.u32 %r7, %r0, 5; add.u32 %r7, %r7, 1;\nL:\n bar.sync 0;\n add.u32 %r6, %r6, 1; setp.lt.u32 %p0, %r6, %r7; @%p0 bra L;\n"
    error = hazard(f"{loop} st.shared.u32 [%r2], %r0;\n bar.sync 0;\n{READ}")
    assert (error.kind, error.cause, instructions(error)[0]) == ("barrier", "divergent", "bar.sync")


def test_a_race_before_barriers_that_all_threads_reach_stays_a_race() -> None:
    body = " st.shared.u32 [%r2], %r0; setp.lt.u32 %p0, %r0, 32;\n @!%p0 bra L;\n bar.sync 0; bra M;\nL: ld.shared.u32 %r6, [%r4]; bar.sync 0;\nM: ret;\n"
    straight = " setp.lt.u32 %p0, %r0, 32;\n @!%p0 bra L; st.shared.u32 [%r2], %r0;\nL: @%p0 bra M; ld.shared.u32 %r6, [%r4]; st.global.u32 [%z], %r6;\nM: bar.sync 0;\n"
    assert hazard(straight).kind == hazard(body).kind == "race"


@pytest.mark.parametrize(("place", "advised"), [("%d0", True), ("%d0+4", False)])
def test_an_update_of_one_value_by_several_threads_is_advised_to_be_atomic(place: str, advised: bool) -> None:
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 bins)
{{ .reg .b32 %r<4>; .reg .b64 %d<4>;
  ld.param.u64 %d0, [bins]; mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 7; mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1;
  ld.global.u32 %r2, [%d0];
  add.u32 %r2, %r2, 1;
  st.global.u32 [{place}], %r2;
  ret; }}
"""
    with pytest.raises(tc.HazardError) as error:
        run_ptx(text, [np.zeros(9, np.uint32)], grid=1, block=16)
    assert ("atomic" in error.value.details["order"]) == advised
