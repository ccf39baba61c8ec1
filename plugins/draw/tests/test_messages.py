"""What a picture says when it cannot be drawn, whole: the only place where its wording is tested."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy_draw import draw

sys.path.insert(0, str(Path(__file__).parent))
import cases


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (
            lambda: draw(cases.gmem_smem(), select="phase 4"),
            tc.RequestError,
            "draw: there is no phase 4: they go from 0 to 3",
        ),
        (
            lambda: draw(cases.gmem_smem(), select="all"),
            tc.RequestError,
            "draw: select is words such as 'instruction 2', 'warp 1', 'phase 0', 'thread 5', 'rows 0:32', 'columns 0:64', with commas between; not 'all'",
        ),
        (
            lambda: draw(cases.gmem_smem(), select="warp 2"),
            tc.RequestError,
            "draw: there is no warp 2: they go from 0 to 1",
        ),
        (
            lambda: draw(cases.gmem_smem(), select="rows 0:17"),
            tc.RequestError,
            "draw: rows 0:17 of a picture that has 16 rows",
        ),
        (
            lambda: draw(cases.gmem_smem(), "bulk"),
            tc.RequestError,
            "draw: gmem_smem moves bytes by threads: kind 'moves' shows them, 'bulk' are of engines",
        ),
        (
            lambda: draw(cases.gmem_smem(), "fragment"),
            tc.RequestError,
            "draw: no side of this copy is in registers, so there is no fragment to draw; give no kind",
        ),
        (
            lambda: draw(cases.gmem_smem(), "move"),
            tc.RequestError,
            "draw: kind 'move' is not moves or banks or fragment or bulk, or None; did you mean moves?",
        ),
        (
            lambda: draw(cases.tma(), "moves"),
            tc.RequestError,
            "draw: one thread issues tma, and an engine moves the bytes; draw kind 'bulk'",
        ),
        (lambda: draw(cases.gmem_smem(), width=10), tc.RequestError, "draw: width is 480 to 4096 pixels, not 10"),
        (
            lambda: draw(cases.gmem_smem(), "banks", compare_with=3),
            tc.RequestError,
            "draw: compare_with is a layout, not 3",
        ),
        (
            lambda: draw(TileLayout(S[8, 8]), "moves"),
            tc.RequestError,
            "draw: kind 'moves' is of a plan: a layout alone says who owns what, or which bank, not who moves it; draw kind 'banks'",
        ),
        (
            lambda: draw(TileLayout(S[256, 256])),
            tc.RequestError,
            "draw: 256 rows of 256 elements, too many to be read on one page; draw a part of it: select='rows 0:32, columns 0:64'",
        ),
        (
            lambda: draw(3),
            tc.RequestError,
            "draw: x is a plan, a region, a buffer or a layout with fixed extents, not 3",
        ),
    ],
)
def test_what_is_said(refused: Callable[[], Any], error: type[tc.TilecopyError], message: str) -> None:
    with pytest.raises(error) as caught:
        refused()
    assert type(caught.value) is error
    assert str(caught.value).split("\n")[0] == message
