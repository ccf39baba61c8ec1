"""What a picture says when it cannot be drawn, whole: the only place where its wording is tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy_draw import draw
from tilecopy_test_helpers import picture_cases as cases


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (
            lambda: draw(cases.gmem_smem(), select="phase 4"),
            tc.RequestError,
            "draw: select: phase must be from 0 to 3, got 4",
        ),
        (
            lambda: draw(cases.gmem_smem(), select="all"),
            tc.RequestError,
            "draw: select must be parts separated by commas, such as 'instruction 2', 'warp 1', 'phase 0', 'thread 5', 'rows 0:32', 'columns 0:64', got 'all'",
        ),
        (
            lambda: draw(cases.gmem_smem(), select="warp 2"),
            tc.RequestError,
            "draw: select: warp must be from 0 to 1, got 2",
        ),
        (
            lambda: draw(cases.gmem_smem(), select="rows 0:17"),
            tc.RequestError,
            "draw: select: rows must be within 0:16, got 0:17",
        ),
        (
            lambda: draw(cases.gmem_smem(), "bulk"),
            tc.RequestError,
            "draw: kind 'bulk' needs a bulk or tensor copy, but variant gmem_smem moves the bytes by threads: use kind 'moves'",
        ),
        (
            lambda: draw(cases.gmem_smem(), "fragment"),
            tc.RequestError,
            "draw: kind 'fragment' needs a copy to or from registers, got A[0:16, 0:64] (global) to tile[0:16, 0:64] (shared), float16: omit kind",
        ),
        (
            lambda: draw(cases.gmem_smem(), "move"),
            tc.RequestError,
            "draw: kind must be moves or banks or fragment or bulk, or None, got 'move'; did you mean moves?",
        ),
        (
            lambda: draw(cases.tma(), "moves"),
            tc.RequestError,
            "draw: kind 'moves' needs a copy whose bytes are moved by threads, but variant tma uses a copy engine: use kind 'bulk'",
        ),
        (
            lambda: draw(cases.gmem_smem(), width=10),
            tc.RequestError,
            "draw: width must be from 480 to 4096 pixels, got 10",
        ),
        (
            lambda: draw(cases.gmem_smem(), "banks", compare_with=3),
            tc.RequestError,
            "draw: compare_with must be a layout, got 3",
        ),
        (
            lambda: draw(TileLayout(S[8, 8]), "moves"),
            tc.RequestError,
            "draw: kind 'moves' needs a plan, because a layout has no threads that move its elements: use kind 'banks'",
        ),
        (
            lambda: draw(TileLayout(S[256, 256])),
            tc.RequestError,
            "draw: a picture of 256 rows of 256 elements does not fit on one page: draw a part: select='rows 0:32, columns 0:64'",
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
