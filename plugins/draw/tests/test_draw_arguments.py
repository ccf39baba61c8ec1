"""Kinds, parts, what is refused, and the command."""

import json
import re

import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy import S, TileLayout, laneid
from tilecopy_draw import draw
from tilecopy_draw.command import draw_command
from tilecopy_test_helpers import picture_cases as cases
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.picture_cases import memory, swizzled

COPY = ["global float16 [64, 64] [0:16, :]", "shared float16 [16, 64]", "--scope", "cta:64"]


def refused(match, *arguments, **words):
    with pytest.raises(tc.RequestError, match=mentions(*match)):
        draw(*arguments, **words)


def test_parts():
    whole = draw(cases.gmem_smem())
    part = draw(cases.gmem_smem(), select="instruction 1, warp 0")
    assert ">t31<" in part.svg and ">t32<" not in part.svg and ">t32<" in whole.svg
    assert part.data == whole.data
    rows = draw(cases.gmem_smem(), select=" rows  2:4,columns 8:24")
    assert ">t17<" in rows.svg and ">t19<" not in rows.svg and ">t8<" not in rows.svg
    assert ">t5<" in draw(cases.gmem_smem(), select="thread 5").svg
    assert draw(cases.column(), "banks", select="warp 0").svg == draw(cases.column(), "banks").svg
    assert (
        ">t9 r0<" not in draw(memory("local", (16, 16), "float16", "A", layout=cases.FRAGMENT_A), select="rows 0:2").svg
    )
    assert draw(cases.tcgen05_cp(), select="instruction 2").svg.count(">c2<") == 4


@pytest.mark.parametrize("part", ["rows 12:16", "rows 8:16", "instruction 1", "instruction 1, warp 1", "thread 63", "phase 3", "rows 15:16, columns 60:64"])  # fmt: skip
@pytest.mark.parametrize("variant", ["gmem_smem", "ldgsts"])
def test_parts_of_an_edge_tile(variant, part):
    """Some of them have nothing inside the array."""
    picture = draw(cases.edge(variant), select=part)
    assert picture.kind == "moves" and picture.data == draw(cases.edge(variant)).data
    assert ("url(#absent)" in picture.svg) or part in ("rows 8:16", "instruction 1")


def test_the_part_phase():
    whole, part = draw(cases.gmem_smem()).svg, draw(cases.gmem_smem(), select="phase 1").svg
    assert ">t7<" in whole and ">t7<" not in part and ">t8<" in part and ">t15<" in part and ">t16<" not in part
    phases = draw(cases.column("32B"), "banks", select="phase 2").data["phases"]
    assert [{phase["phase"] for phase in state["phases"]} for state in phases] == [{2}, {2}]
    refused((4, 3), cases.gmem_smem(), select="phase 4")


def test_rows_of_banks_and_boxes():
    svg = draw(cases.tma(), select="rows 0:2").svg
    assert ">0,0<" in svg or ">48,0<" in svg
    assert ">50,0<" not in svg and ">fill<" not in svg
    phases = draw(cases.column(), "banks", select="rows 8:16").data["phases"]
    assert [{tuple(phase["threads"]) for phase in state["phases"]} for state in phases] == [{tuple(range(8, 16))}] * 2
    tile, edge = memory("shared", (16, 64), "float16", "tile"), memory("global", (60, 64), "float16", "B")
    clipped = tc.plan(edge[48:64, :], tile[:, :], outside="keep", scope=tc.cta(64), target="sm_90a")
    refused((), clipped, "banks", select="rows 12:16")


def test_parts_of_registers():
    svg = draw(cases.exchanged(), select="thread 5").svg
    assert svg.count(">t5 r0<") == 2 and ">t6 r0<" not in svg
    assert ">t6 r0<" not in draw(cases.registers(), select="thread 5").svg
    assert ">t6 r0<" not in draw(cases.registers(), "fragment", select="thread 5").svg
    refused(("instruction",), cases.registers(), "fragment", select="instruction 0")
    refused(("warp",), swizzled("128B", "float16", 8, 64), select="warp 0")


@pytest.mark.parametrize("part", ["", "instruction", "warp -1", "warp x", "lane 3", "rows 3", "rows 4:4", "warp 0, warp 1", 3, "rows 0:4;warp 1"])  # fmt: skip
def test_a_part_is_words(part):
    refused(("instruction",), cases.gmem_smem(), select=part)


def test_parts_that_are_not_there():
    refused(("warp",), cases.gmem_smem(), select="warp 2")
    refused((9,), cases.gmem_smem(), select="instruction 9")
    refused((17, 16), cases.gmem_smem(), select="rows 0:17")
    refused((65, 64), swizzled("128B", "float16", 8, 64), select="columns 0:65")
    refused((), cases.gmem_smem(), select="warp 1, thread 3")
    refused((4, 3), cases.tcgen05_cp(), select="instruction 4")


def test_what_is_too_large_says_which_part_to_draw():
    tile = memory("shared", (256, 64), "float32", "tile", layout=TileLayout(S[(256, 64) : (1, 256)]))
    plan = tc.plan(tile[:, :], memory("global", (256, 64), "float32", "A")[:, :], scope=tc.cta(64), target="sm_90a")
    refused(("instruction 0, warp 0", 16384), plan)
    assert draw(plan, select="instruction 0, warp 0").kind == "moves"
    assert draw(plan, select="rows 0:16, columns 0:16").kind == "moves"
    refused(("rows 0:32, columns 0:64", 256), TileLayout(S[256, 256]))
    assert draw(TileLayout(S[256, 256]), select="rows 0:32, columns 0:64").kind == "banks"


@pytest.mark.parametrize("make", [
    lambda: TileLayout(S[(256, 256) : (1, 256)]),
    lambda: swizzled("32B", "uint8", 128, 1024),
    lambda: memory("local", (512, 32), "float32", "C", layout=TileLayout(S[(128, 4, 32) : (1 @ tc.tx, 32, 1)])),
    lambda: cases.exchanged(64),
    lambda: cases.accumulator((128, 64), "float32", replica=None),
])  # fmt: skip
def test_each_part_that_is_told_can_be_drawn(make):
    with pytest.raises(tc.RequestError, match=mentions("select")) as caught:
        draw(make(), width=480)
    parts = re.findall("select='(.*?)'", str(caught.value))
    assert parts and all(draw(make(), select=part, width=480).svg for part in parts)


def test_kinds_that_do_not_go():
    refused(("move", "banks"), cases.gmem_smem(), "move")
    refused(("gmem_smem",), cases.gmem_smem(), "bulk")
    refused(("bulk",), cases.tma(), "moves")
    refused(("fragment",), cases.gmem_smem(), "fragment")
    refused(("shared",), cases.tma(), "banks")
    refused(("banks", "moves"), cases.gmem_smem(), compare_with=TileLayout(S[16, 64]))
    refused(("layout", 3), cases.gmem_smem(), "banks", compare_with=3)
    refused(("moves",), TileLayout(S[8, 8]), "moves")
    for x in (cases.accumulator(), cases.CASES["tensor_memory_layout"][0]()):
        refused(("fragment", "banks"), x, "banks")
        refused(("bulk", "fragment"), x, "bulk")
        refused(("banks", "fragment"), x, compare_with=TileLayout(S[8, 4]))
        refused((), x, select="thread 3")
    refused(("banks",), TileLayout(S[8, 8]), "bulk")
    refused(("x",), memory("shared", (16, 64), "uint4", "tile"))
    assert draw(memory("shared", (16, 64), "uint4", "tile").view(dtype="uint8")).kind == "banks"
    refused((), TileLayout(S[(8, 8) : (1 @ tc.TLane, 1)]))
    refused((128, 2048), cases.accumulator((64, 8)))
    refused((), cases.accumulator()[32:40, :])
    refused(("banks",), TileLayout(S[8, 8]), "fragment")
    refused(("banks",), TileLayout(S[(32, 8) : (1 @ laneid, 1)]), "banks")
    refused(("fragment",), TileLayout(S[(8, 8) : (1 @ tc.bx, 1)]))
    for x in (3, None, "copy", tc.symbol("n")):
        refused(("layout",), x)
    for width in (100, 5000, 960.0, True):
        refused(("width", 480, 4096), cases.gmem_smem(), width=width)
    start = tc.symbol("n", upper=8)
    refused(("tile", "n"), memory("shared", (16, 64), "float16", "tile")[start : start + 8, :])


def test_what_cannot_be_run_is_refused():
    huge = memory("global", (1 << 20, 512), "float16", "A")
    plan = tc.plan(
        memory("shared", (16, 64), "float16", "tile")[:, :], huge[0:16, 0:64], scope=tc.warp(), target="sm_90a"
    )
    refused((67108864,), plan)


def command(*words):
    return CliRunner().invoke(draw_command, words, standalone_mode=False)


def test_the_command_draws(tmp_path):
    done = command(*COPY, "-o", str(tmp_path / "copy.svg"))
    assert done.exception is None and "Who moves each element" in done.output and done.output.endswith("\n")
    assert (tmp_path / "copy.svg").read_text().startswith("<svg")
    assert command(*COPY).output.startswith("<svg")
    told = json.loads(command(*COPY, "--json", "-o", str(tmp_path / "copy.png")).output)
    assert told["output"].endswith("copy.png") and told["variant"] == "gmem_smem" and len(told["source_of"]) == 1024
    words = ["--op", "copy_async", "--variant", "tma", "--scope", "thread", "--json"]
    assert json.loads(command(*COPY[:2], *words).output)["kind"] == "bulk"
    assert ">t31<" in command(*COPY, "--select", "warp 0", "--kind", "moves", "--width", "1200").output


def test_the_command_refuses(tmp_path):
    wrong = command(*COPY, "-o", str(tmp_path / "copy.gif"))
    assert mentions(".svg", ".png", ".html").search(str(wrong.exception))
    assert str(command(*COPY, "-o", str(tmp_path / "no" / "copy.svg")).exception)
    assert mentions("boxs").search(str(command(*COPY, "--kind", "boxs").exception))
    assert mentions("all").search(str(command(*COPY, "--select", "all", "-o", str(tmp_path / "copy.svg")).exception))
    assert not list(tmp_path.iterdir())
