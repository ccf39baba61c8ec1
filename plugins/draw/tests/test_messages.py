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
            "draw: select: phase 4 does not exist; the numbers go from 0 to 3",
        ),
        (
            lambda: draw(cases.gmem_smem(), select="all"),
            tc.RequestError,
            "draw: select must be words such as 'instruction 2', 'warp 1', 'phase 0', 'thread 5', 'rows 0:32', 'columns 0:64', with commas between; got 'all'",
        ),
        (
            lambda: draw(cases.gmem_smem(), select="warp 2"),
            tc.RequestError,
            "draw: select: warp 2 does not exist; the numbers go from 0 to 1",
        ),
        (
            lambda: draw(cases.gmem_smem(), select="rows 0:17"),
            tc.RequestError,
            "draw: rows 0:17 of a picture with 16 rows",
        ),
        (
            lambda: draw(cases.gmem_smem(), "bulk"),
            tc.RequestError,
            "draw: gmem_smem moves bytes by threads; draw kind 'moves'",
        ),
        (
            lambda: draw(cases.gmem_smem(), "fragment"),
            tc.RequestError,
            "draw: kind 'fragment' needs a copy with a side in registers; leave kind out",
        ),
        (
            lambda: draw(cases.gmem_smem(), "move"),
            tc.RequestError,
            "draw: kind must be moves or banks or fragment or bulk, or None, got 'move'; did you mean moves?",
        ),
        (
            lambda: draw(cases.tma(), "moves"),
            tc.RequestError,
            "draw: one thread issues tma, and an engine moves the bytes; draw kind 'bulk'",
        ),
        (lambda: draw(cases.gmem_smem(), width=10), tc.RequestError, "draw: width must be 480 to 4096 pixels, got 10"),
        (
            lambda: draw(cases.gmem_smem(), "banks", compare_with=3),
            tc.RequestError,
            "draw: compare_with must be a layout, got 3",
        ),
        (
            lambda: draw(TileLayout(S[8, 8]), "moves"),
            tc.RequestError,
            "draw: kind 'moves' needs a plan, because a layout alone does not say who moves its elements; draw kind 'banks'",
        ),
        (
            lambda: draw(TileLayout(S[256, 256])),
            tc.RequestError,
            "draw: 256 rows of 256 elements, too many to be read on one page; draw a part of it: select='rows 0:32, columns 0:64'",
        ),
        (
            lambda: draw(3),
            tc.RequestError,
            "draw: x must be a plan, a region, a buffer or a layout with fixed extents, got 3",
        ),
    ],
)
def test_what_is_said(refused: Callable[[], Any], error: type[tc.TilecopyError], message: str) -> None:
    with pytest.raises(error) as caught:
        refused()
    assert type(caught.value) is error
    assert str(caught.value).split("\n")[0] == message
