"""Hazards lead to the source: ``.file`` and ``.loc`` with their chains, both accesses, values, what would order them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy_cli.builtin_commands import tilecopy
from tilecopy_emulator import UnsupportedPtxError, parse, run_ptx
from tilecopy_emulator.command import emulate
from tilecopy_emulator.debug_info import LineDirective, LineTable, SourceLocation
from tilecopy_emulator.parser.module import parse_compiled
from tilecopy_test_helpers.mentions import is_hazard, mentions

SOURCE = "line one\n  put(s, i, 7);\n  y[i] = s[i ^ SWAP];\n  s[i] = v;  // in put\n"
TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 Y)
{
 .reg .b64 %y; .reg .b32 %r<8>; .reg .pred %p; .shared .align 4 .b8 s[512];
 .loc 1 1 1
 ld.param.u64 %y, [Y]; mov.u32 %r0, %tid.x; mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 4, %r1;
 xor.b32 %r3, %r0, SWAP; mad.lo.u32 %r4, %r3, 4, %r1; mad.wide.u32 %y, %r0, 4, %y;
 .loc 1 2 3
 .loc 1 4 5, function_name $L__info_string0, inlined_at 1 2 3
 st.shared.u32 [%r2], %r0;
 .loc 1 3 3
 ACCESS
 ret;
}
.file 1 "/somewhere/put.cu"
.section .debug_str
{
$L__info_string0:
.b8 95,90,51,112,117,116,80,105,0

}
"""
READ = "ld.shared.u32 %r5, [%r4]; st.global.u32 [%y], %r5;"


def hazard(text: str, *, block: int = 64, grid: int = 1) -> tc.HazardError:
    program = parse_compiled(text, None, "/somewhere/put.cu", SOURCE)
    launch = {"cluster": None, "dynamic_shared_bytes": 0, "profile": False, "allow": ()}
    with pytest.raises(tc.HazardError) as caught:
        run_ptx(program, [np.zeros(256, np.int32)], grid=grid, block=block, **launch)
    return caught.value


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize(("swap", "order"), [(1, "__syncwarp()"), (32, "__syncthreads()")])
def test_both_accesses_with_their_lines_values_and_order(swap: int, order: str, grid: int) -> None:
    text = TEXT.replace("ACCESS", READ).replace("SWAP", str(swap))
    error = hazard(text, grid=grid)
    lines = str(error).splitlines()[1:]
    said = (
        (line_of(text, READ), "ld.shared.u32 %r5, [%r4]"),
        ("/somewhere/put.cu:3", "y[i] = s[i ^ SWAP];"),
        (swap, "(0,0,0)", line_of(text, "st.shared"), "st.shared.u32 [%r2], %r0"),
        ("/somewhere/put.cu:4", "s[i] = v;  // in put"),
        ("/somewhere/put.cu:2", "put(s, i, 7);"),
        (swap,),
        (error.details["order"],),
    )
    for line, values in zip(lines, said, strict=True):
        assert mentions(*values).search(line)
    assert error.details["order"].startswith(order)
    now, before = error.details["accesses"]
    assert (now["action"], before["action"], before["value"]) == ("read", "written", str(swap))
    assert [place["line"] for place in before["source"]] == [4, 2] and before["source"][0]["function"] == "_Z3putPi"
    assert pickle.loads(pickle.dumps(error)).details == error.details


@pytest.mark.parametrize(
    ("access", "before", "value"),
    [
        ("st.shared.u32 [%r4], %r0;", "st.shared.u32 [%r2], %r0", "1"),
        ("st.shared.u32 [%r4], %r3;", "st.shared.u32 [%r2], %r0", "1"),
        ("st.shared.u32 [%r1+256], %r0;", "st.shared.u32 [%r1+256], %r0", "63"),
        ("atom.shared.add.u32 %r5, [%r4], 1;", "st.shared.u32 [%r2], %r0", "1"),
        ("st.global.u32 [%y], 1; st.global.u32 [%y+4], %r0;", "st.global.u32 [%y], 1", "31"),
        ("ld.global.u32 %r5, [%y]; st.global.u32 [%y+4], %r0;", "ld.global.u32 %r5, [%y]", "0"),
        (
            "ld.global.u32 %r5, [%y]; @%p bra L; st.global.u32 [%y+4], %r0; L:",
            "ld.global.u32 %r5, [%y]",
            "0",
        ),
    ],
)
def test_writes_reads_and_atomics(access: str, before: str, value: str) -> None:
    text = TEXT.replace("ACCESS", f"setp.gt.u32 %p, %r0, 40; {access}").replace("SWAP", "1")
    error = hazard(text)
    earlier = error.details["accesses"][1]
    assert (earlier["ptx"], earlier["value"]) == (before, value)
    assert mentions(before, value).search(str(error))


def test_threads_of_one_instruction_have_their_own_values() -> None:
    text = TEXT.replace("ACCESS", "st.shared.u32 [%r1+256], %r0;").replace("SWAP", "1")
    for each in hazard(text).details["accesses"]:
        assert each["thread"].startswith(f"thread {each['value']} of ")


def test_inlined_places_are_chained_by_those_before() -> None:
    places = LineTable()
    places.file(1, "a.cu")
    places.loc(LineDirective(1, 4, 5, "f", 0, (1, 2, 3)), None)
    place = places.loc(LineDirective(1, 9, 1, "g", 0, (1, 4, 5)), None)
    assert place is not None and [each.line for each in place.chain()] == [9, 4, 2]


def test_of_several_stores_in_one_step_the_one_that_is_met_is_named() -> None:
    text = TEXT.replace("ACCESS", "ld.shared.u32 %r5, [%r4+256];").replace("SWAP", "1")
    text = text.replace("[%r2], %r0;", "[%r2], %r0;\n st.shared.u32 [%r2+256], %r3;")
    _, before = hazard(text).details["accesses"]
    assert (before["ptx_line"], before["value"]) == (line_of(text, "+256], %r3"), "0")


def test_ctas_are_ordered_by_flags_and_apart_they_keep_their_lines() -> None:
    access = "mov.u32 %r6, %ctaid.x; setp.eq.u32 %p, %r6, 1; @%p st.global.u32 [%y], 1;\n @!%p st.global.u32 [%y], 2;"
    text = TEXT.replace("ACCESS", access).replace("SWAP", "1")
    error = hazard(text, grid=2)
    assert "release a flag" in error.details["order"]
    lines = [line_of(text, "@!%p st"), line_of(text, "@%p st")]
    assert sorted(each["ptx_line"] for each in error.details["accesses"]) == sorted(lines)


def test_a_run_again_leaves_memory_as_the_first_did() -> None:
    text = TEXT.replace("ACCESS", "atom.global.add.u32 %r5, [%y], 5;" + READ).replace("SWAP", "32")
    found = np.zeros(64, np.int32)
    with pytest.raises(tc.HazardError, check=is_hazard("race", "s", "ld.shared.u32")):
        run_ptx(text, [found], grid=1, block=64)
    assert (found == 5).all()


def test_a_called_function_s_places_lead_to_the_call() -> None:
    function = ".func f(.reg .b32 at)\n{\n .loc 1 4 1\n st.shared.u32 [at], 3;\n ret;\n}\n.visible .entry"
    text = TEXT.replace(".visible .entry", function).replace("ACCESS", "call f, (%r4);").replace("SWAP", "1")
    now, _ = hazard(text).details["accesses"]
    assert [place["line"] for place in now["source"]] == [4, 3]


def test_code_that_a_compiler_merged_has_the_line_before_it() -> None:
    text = TEXT.replace("ACCESS", READ).replace("SWAP", "33").replace(" .loc 1 3 3", " .loc 1 3 3\n .loc 1 0 0")
    now, _ = hazard(text).details["accesses"]
    assert [place["line"] for place in now["source"]] == [3]


@pytest.mark.parametrize("loc", [".loc 9 1 1", ".loc 1 99999999 1"])
def test_lines_that_name_nothing_are_passed_over(loc: str) -> None:
    text = TEXT.replace("ACCESS", READ).replace("SWAP", "1").replace(" .loc 1 3 3", f" {loc}")
    assert hazard(text).kind == "race"


@pytest.mark.parametrize(
    "loc", [".loc", ".loc 1", ".loc 1 -1 1", f".loc {'9' * 6000} 1 1", ".loc 1 1 1 1", ".loc 1 1 1, function_name nowhere, inlined_at 1 2 3"]
)  # fmt: skip
def test_lines_that_are_not_ptx_are_refused(loc: str) -> None:
    text = TEXT.replace("ACCESS", READ).replace("SWAP", "1")
    line = line_of(text, " .loc 1 3 3")
    with pytest.raises(UnsupportedPtxError) as error:
        parse(text.replace(" .loc 1 3 3", f" {loc}"))
    assert line <= error.value.line <= line + 1


def test_places_never_go_round_for_ever_and_read_what_is_a_file(tmp_path: Path) -> None:
    places = LineTable()
    places.file(1, "a.cu")
    for _ in range(1000):
        place = places.loc(LineDirective(1, 1, 1, "x", 0, (1, 1, 1)), None)
    assert place is not None and len(place.chain()) <= 101
    assert (
        SourceLocation(str(tmp_path), 1).text({})
        == SourceLocation("a\0b", 1).text({})
        == SourceLocation("none.cu", 1).text({})
        == ""
    )
    (tmp_path / "a.cu").write_bytes(b"\xff\x1b[31mred\n")
    assert "\x1b" not in SourceLocation(str(tmp_path / "a.cu"), 1).text({})
    assert (
        SourceLocation(str(tmp_path / "a.cu"), 3).text({}) == SourceLocation(str(tmp_path / "a.cu"), 0).text({}) == ""
    )


def test_json_and_annotations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "put.cu").write_text(SOURCE)
    text = TEXT.replace("/somewhere/put.cu", str(tmp_path / "put.cu")).replace("ACCESS", READ).replace("SWAP", "1")
    (tmp_path / "k.ptx").write_text(text)
    words = ["k.ptx", "zeros:int32:64", "--block", "64"]
    said = CliRunner().invoke(emulate, [*words, "--annotations", "github"]).output.splitlines()
    assert said[0].startswith("::error file=put.cu,line=3,col=3,title=race%3A thread 0 of CTA (0%2C0%2C0)::race: ")
    assert "%0A  PTX line" in said[0] and "%25r5" in said[0]
    assert said[1].startswith("::notice file=put.cu,line=4,col=5,title=before that%3A thread 1 ")
    assert CliRunner().invoke(emulate, [*words, "--annotations", "github", "--json"]).exit_code == 2
    (tmp_path / "k.ptx").write_text("\n".join(line for line in text.splitlines() if ".loc" not in line))
    said = CliRunner().invoke(emulate, [*words, "--annotations", "github"]).output.splitlines()
    assert said[0].startswith("::error file=k.ptx,line=")
    (tmp_path / "k.ptx").write_text(text.replace("%r3, %r0, 1;", "%r3, %r0, 0;"))
    clean = CliRunner().invoke(emulate, [*words, "--annotations", "github"])
    assert clean.exit_code == 0 and "::" not in clean.output
    (tmp_path / "k.ptx").write_text(text)
    with pytest.raises(SystemExit) as ended:
        tilecopy.main(["emulate", *words, "--json"])
    assert ended.value.code == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["type"], error["kind"], error["bytes"]) == ("HazardError", "race", [4, 7])
    assert [each["source"][0]["file"] for each in error["accesses"]] == [str(tmp_path / "put.cu")] * 2


def test_a_hazard_is_pickled_with_its_cause_as_dask_does() -> None:
    support = pytest.importorskip("tblib.pickling_support")
    support.install()
    error = hazard(TEXT.replace("ACCESS", READ).replace("SWAP", "1"))
    again = pickle.loads(pickle.dumps(error))
    assert again.details == error.details and str(again) == str(error)
