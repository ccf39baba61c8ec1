"""Kinds, parts, what is refused, and the command."""

import json
import re
import sys
from pathlib import Path

import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy import S, TileLayout, laneid
from tilecopy_draw import draw
from tilecopy_draw.command import draw_command

sys.path.insert(0, str(Path(__file__).parent))
import cases
from cases import memory, swizzled

COPY = ["global float16 [64, 64] [0:16, :]", "shared float16 [16, 64]", "--scope", "cta:64"]


def refused(match, *arguments, **words):
    with pytest.raises(tc.RequestError, match=match):
        draw(*arguments, **words)


def test_parts():
    whole = draw(cases.gmem_smem())
    part = draw(cases.gmem_smem(), part="instruction 1, warp 0")
    assert ">t31<" in part.svg and ">t32<" not in part.svg and ">t32<" in whole.svg
    assert part.data == whole.data
    rows = draw(cases.gmem_smem(), part=" rows  2:4,columns 8:24")
    assert ">t17<" in rows.svg and ">t19<" not in rows.svg and ">t8<" not in rows.svg
    assert ">t5<" in draw(cases.gmem_smem(), part="thread 5").svg
    assert draw(cases.column(), "banks", part="warp 0").svg == draw(cases.column(), "banks").svg
    assert (
        ">t9 r0<" not in draw(memory("local", (16, 16), "float16", "A", layout=cases.FRAGMENT_A), part="rows 0:2").svg
    )
    assert draw(cases.tcgen05_cp(), part="instruction 2").svg.count(">c2<") == 4


@pytest.mark.parametrize("part", ["rows 12:16", "rows 8:16", "instruction 1", "instruction 1, warp 1", "thread 63", "phase 3", "rows 15:16, columns 60:64"])  # fmt: skip
@pytest.mark.parametrize("variant", ["gmem_smem", "ldgsts"])
def test_parts_of_an_edge_tile(variant, part):
    """Some of them have nothing inside the array."""
    picture = draw(cases.edge(variant), part=part)
    assert picture.kind == "moves" and picture.data == draw(cases.edge(variant)).data
    assert ("url(#absent)" in picture.svg) or part in ("rows 8:16", "instruction 1")


def test_the_part_phase():
    whole, part = draw(cases.gmem_smem()).svg, draw(cases.gmem_smem(), part="phase 1").svg
    assert ">t7<" in whole and ">t7<" not in part and ">t8<" in part and ">t15<" in part and ">t16<" not in part
    phases = draw(cases.column("32B"), "banks", part="phase 2").data["phases"]
    assert [{phase["phase"] for phase in state["phases"]} for state in phases] == [{2}, {2}]
    refused("there is no phase 4: they go from 0 to 3", cases.gmem_smem(), part="phase 4")


def test_rows_of_banks_and_boxes():
    svg = draw(cases.tma(), part="rows 0:2").svg
    assert ">0,0<" in svg or ">48,0<" in svg
    assert ">50,0<" not in svg and ">fill<" not in svg
    phases = draw(cases.column(), "banks", part="rows 8:16").data["phases"]
    assert [{tuple(phase["threads"]) for phase in state["phases"]} for state in phases] == [{tuple(range(8, 16))}] * 2
    tile, edge = memory("shared", (16, 64), "float16", "tile"), memory("global", (60, 64), "float16", "B")
    clipped = tc.plan(edge[48:64, :], tile[:, :], outside="keep", scope=tc.cta(64), target="sm_90a")
    refused("have no access in common", clipped, "banks", part="rows 12:16")


def test_parts_of_registers():
    svg = draw(cases.exchanged(), part="thread 5").svg
    assert svg.count(">t5 r0<") == 2 and ">t6 r0<" not in svg
    assert ">t6 r0<" not in draw(cases.registers(), part="thread 5").svg
    assert ">t6 r0<" not in draw(cases.registers(), "fragment", part="thread 5").svg
    refused("this picture has no instruction to choose", cases.registers(), "fragment", part="instruction 0")
    refused("this picture has no warp to choose", swizzled("128B", "float16", 8, 64), part="warp 0")


@pytest.mark.parametrize("part", ["", "instruction", "warp -1", "warp x", "lane 3", "rows 3", "rows 4:4", "warp 0, warp 1", 3, "rows 0:4;warp 1"])  # fmt: skip
def test_a_part_is_words(part):
    refused("draw: part is words such as 'instruction 2'", cases.gmem_smem(), part=part)


def test_parts_that_are_not_there():
    refused("there is no warp 2: they go from 0 to 1", cases.gmem_smem(), part="warp 2")
    refused("there is no instruction 9: they go from 0 to 1", cases.gmem_smem(), part="instruction 9")
    refused("rows 0:17 of a picture that has 16 rows", cases.gmem_smem(), part="rows 0:17")
    refused("columns 0:65 of a picture that has 64 columns", swizzled("128B", "float16", 8, 64), part="columns 0:65")
    refused("have no access in common", cases.gmem_smem(), part="warp 1, thread 3")
    refused("no instruction 4: they go from 0 to 3", cases.tcgen05_cp(), part="instruction 4")


def test_what_is_too_large_says_which_part_to_draw():
    tile = memory("shared", (256, 64), "float32", "tile", layout=TileLayout(S[(256, 64) : (1, 256)]))
    plan = tc.plan(tile[:, :], memory("global", (256, 64), "float32", "A")[:, :], scope=tc.cta(64), target="sm_90a")
    refused(r"16384 vectors, too many to be read on one page; draw a part of it: part='instruction 0, warp 0'", plan)
    assert draw(plan, part="instruction 0, warp 0").kind == "moves"
    assert draw(plan, part="rows 0:16, columns 0:16").kind == "moves"
    refused(r"256 rows of 256 elements, too many .* part='rows 0:32, columns 0:64'", TileLayout(S[256, 256]))
    assert draw(TileLayout(S[256, 256]), part="rows 0:32, columns 0:64").kind == "banks"


@pytest.mark.parametrize("make", [
    lambda: TileLayout(S[(256, 256) : (1, 256)]),
    lambda: swizzled("32B", "uint8", 128, 1024),
    lambda: memory("local", (512, 32), "float32", "C", layout=TileLayout(S[(128, 4, 32) : (1 @ tc.tx, 32, 1)])),
    lambda: cases.exchanged(64),
    lambda: cases.accumulator((128, 64), "float32", replica=None),
])  # fmt: skip
def test_each_part_that_is_told_can_be_drawn(make):
    with pytest.raises(tc.RequestError, match="too many to be read on one page; draw a part of it: part=") as caught:
        draw(make(), width=480)
    parts = re.findall("part='(.*?)'", str(caught.value))
    assert parts and all(draw(make(), part=part, width=480).svg for part in parts)


def test_kinds_that_do_not_go():
    refused("kind", cases.gmem_smem(), "move")
    refused("gmem_smem moves bytes by threads", cases.gmem_smem(), "boxes")
    refused("one thread issues tma, and an engine moves the bytes; draw kind 'boxes'", cases.tma(), "moves")
    refused("no side of this copy is in registers", cases.gmem_smem(), "fragment")
    refused("tma has no thread that loads or stores shared memory", cases.tma(), "banks")
    refused("before is of kind 'banks', not of 'moves'", cases.gmem_smem(), before=TileLayout(S[16, 64]))
    refused("before is a layout, not 3", cases.gmem_smem(), "banks", before=3)
    refused("kind 'moves' is of a plan", TileLayout(S[8, 8]), "moves")
    for x in (cases.accumulator(), cases.CASES["tensor_memory_layout"][0]()):
        refused("x is not of memory, so it has no banks; draw kind 'fragment'", x, "banks")
        refused("kind 'boxes' is of a plan.*; draw kind 'fragment'", x, "boxes")
        refused("before is of kind 'banks', not of 'fragment'", x, before=TileLayout(S[8, 4]))
        refused("this picture has no thread to choose", x, part="thread 3")
    refused("draw kind 'banks'", TileLayout(S[8, 8]), "boxes")
    refused("two elements of x share a byte, .*view", memory("shared", (16, 64), "uint4", "tile"))
    assert draw(memory("shared", (16, 64), "uint4", "tile").view(dtype="uint8")).kind == "banks"
    refused("or by tensor memory, and .* lies over TLane", TileLayout(S[(8, 8) : (1 @ tc.TLane, 1)]))
    refused("tensor memory has 128 lanes of 2048 bytes; .*has elements outside", cases.accumulator((64, 8)))
    refused("has elements outside, or none", cases.accumulator()[32:40, :])
    refused("names no threads; kind 'banks' draws it as memory", TileLayout(S[8, 8]), "fragment")
    refused("x is not of memory, so it has no banks", TileLayout(S[(32, 8) : (1 @ laneid, 1)]), "banks")
    refused("a fragment is held by the threads of one CTA", TileLayout(S[(8, 8) : (1 @ tc.bx, 1)]))
    for x in (3, None, "copy", tc.symbol("n")):
        refused("x is a plan, a region, a buffer or a layout", x)
    for width in (100, 5000, 960.0, True):
        refused("width is 480 to 4096 pixels", cases.gmem_smem(), width=width)
    start = tc.symbol("n", upper=8)
    refused("at a place known at run time only", memory("shared", (16, 64), "float16", "tile")[start : start + 8, :])


def test_what_cannot_be_run_is_refused():
    huge = memory("global", (1 << 20, 512), "float16", "A")
    plan = tc.plan(
        memory("shared", (16, 64), "float16", "tile")[:, :], huge[0:16, 0:64], scope=tc.warp(), target="sm_90a"
    )
    refused("at most 67108864 are run. Draw the copy with a smaller array", plan)


def command(*words):
    return CliRunner().invoke(draw_command, words, standalone_mode=False)


def test_the_command_draws(tmp_path):
    done = command(*COPY, "-o", str(tmp_path / "copy.svg"))
    assert done.exception is None and "Who moves each element" in done.output
    assert (tmp_path / "copy.svg").read_text().startswith("<svg")
    assert command(*COPY).output.startswith("<svg")
    told = json.loads(command(*COPY, "--json", "-o", str(tmp_path / "copy.png")).output)
    assert told["output"].endswith("copy.png") and told["variant"] == "gmem_smem" and len(told["came_from"]) == 1024
    words = ["--op", "copy_async", "--variant", "tma", "--scope", "thread", "--json"]
    assert json.loads(command(*COPY[:2], *words).output)["kind"] == "boxes"
    assert ">t31<" in command(*COPY, "--part", "warp 0", "--kind", "moves", "--width", "1200").output


def test_the_command_refuses(tmp_path):
    wrong = command(*COPY, "-o", str(tmp_path / "copy.gif"))
    assert "a picture is written as .svg, .png, .html" in str(wrong.exception)
    assert "does not exist" in str(command(*COPY, "-o", str(tmp_path / "no" / "copy.svg")).exception)
    assert "'boxs' is not one of" in str(command(*COPY, "--kind", "boxs").exception)
    assert "part is words" in str(command(*COPY, "--part", "all", "-o", str(tmp_path / "copy.svg")).exception)
    assert not list(tmp_path.iterdir())
