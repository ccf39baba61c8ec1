"""What the core says when it refuses something, whole: the only place where its wording is tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilecopy_core as tc
from tilecopy_core import S, TileLayout, laneid


def memory(space: str = "global", shape: tuple[int, ...] = (32, 32), dtype: str = "float32", **more: Any) -> tc.Buffer:
    return tc.Buffer(shape, dtype, space=space, name="A" if space == "global" else "s", **more)


def plan(dst: Any, src: Any, **more: Any) -> tc.Plan:
    return tc.plan(dst, src, **{"scope": tc.warp(), "target": "sm_90a"} | more)


def declined(variant: str, dst: Any, src: Any, **more: Any) -> str:
    """Raise NoVariantError with the reason of one variant."""
    try:
        plan(dst, src, variant=variant, **more)
    except tc.NoVariantError as error:
        raise tc.NoVariantError(error.declined[variant], {}) from error
    raise AssertionError


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (lambda: S[0, 4], tc.LayoutError, "S[...]: every extent must be at least 1, got (0, 4)"),
        (
            lambda: S[(4, 4) : (1,)],
            tc.LayoutError,
            "S[...] must have one stride per extent, got 2 extents and 1 strides: (4, 4) and (1,)",
        ),
        (lambda: S[4.5,], tc.LayoutError, "S[...]: an extent must be a plain integer, got 4.5"),
        (lambda: TileLayout(4), tc.LayoutError, "TileLayout: spec must be S[...] (+ R[...] + offset), got 4"),
        (lambda: TileLayout(S[4, 4]).apply(4, 0), tc.LayoutError, "index 4 is out of bounds for extent 4"),
        (
            lambda: TileLayout(S[4, 4]).permute([0, 0]),
            tc.LayoutError,
            "permute of TileLayout(S[4, 4]): [0, 0] is not a permutation of 2 dimensions: name each of 0 to 1 once",
        ),
        (
            lambda: TileLayout(S[4, 4]).tile_to((6, 4)),
            tc.LayoutError,
            "TileLayout(S[4, 4]): shape must be a multiple of atom_shape (4, 4), got (6, 4)",
        ),
        (
            lambda: tc.Swizzle(3, 3, 2),
            tc.LayoutError,
            "Swizzle: atom_len must be at least swizzle_len 3, got 2: the XOR would read bits that it writes",
        ),
        (
            lambda: tc.swizzle("96B", "float16"),
            tc.LayoutError,
            "swizzle mode '96B' is unknown; the modes are none, 32B, 64B, 128B; did you mean 64B?",
        ),
        (
            lambda: memory(shape=(-1, 4)),
            tc.LayoutError,
            "buffer A, shape: every extent must be at least 0, got (-1, 4)",
        ),
        (
            lambda: tc.Buffer(4, "int8", space="heap"),
            tc.RequestError,
            "buffer buffer: space must be global or shared or local or tmem, got 'heap'",
        ),
        (
            lambda: tc.Buffer(4, "int8", space="shared", align_bytes=12),
            tc.RequestError,
            "buffer buffer: align_bytes must be a power of two up to 2**32, got 12",
        ),
        (
            lambda: memory()[4:3, :],
            tc.LayoutError,
            "A[32, 32]: dimension 0: the region 4 : 3 must not end before it starts, got extent -1",
        ),
        (lambda: memory()[0, 0, 0], tc.LayoutError, "an index of A must have at most 2 dimensions, got 3: (0, 0, 0)"),
        (
            lambda: memory("shared", layout=TileLayout(S[16, 16])),
            tc.LayoutError,
            "buffer s: the shape (32, 32) must have 256 elements, as many as TileLayout(S[16, 16]), got 1024",
        ),
        (
            lambda: memory("shared").permute((0, 0)),
            tc.LayoutError,
            "shared s: float32[32, 32], permute: (0, 0) is not a permutation of 2 dimensions: name each of 0 to 1 once",
        ),
        (lambda: tc.cta(2048), tc.RequestError, "a CTA must have 1 to 1024 threads, got 2048"),
        (
            lambda: tc.target_of("sm_91"),
            tc.TargetError,
            "target 'sm_91' is unknown; did you mean sm_90?; the targets are sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_100f, sm_103, sm_103a, sm_103f, sm_110, sm_110a, sm_110f, sm_120, sm_120a, sm_120f, sm_121, sm_121a, sm_121f",
        ),
        (
            lambda: plan(memory("shared")[:, :], memory()[0:33, :]),
            tc.LayoutError,
            'A[32, 32]: dimension 0: the region 0 : 33 is out of bounds for extent 32; to copy an edge tile, pass outside="zero", a number or "keep"',
        ),
        (
            lambda: plan(memory("shared")[:, :], memory(dtype="float16")[:, :]),
            tc.RequestError,
            "copy float16 global A[32x32] -> float32 shared s[32x32], scope warp, sm_90a: destination s[0:32, 0:32] has dtype float32 but source A[0:32, 0:32] has float16; a copy does not convert dtypes",
        ),
        (
            lambda: plan(memory("shared")[:, :], memory()[0:16, :]),
            tc.RequestError,
            "copy float32 global A[16x32] -> float32 shared s[32x32], scope warp, sm_90a: destination extents (32, 32) and source extents (16, 32) must be equal (extents of 1 are ignored)",
        ),
        (
            lambda: plan(memory("shared")[:, :], memory()[:, :], op="move"),
            tc.RequestError,
            "op 'move' is unknown; the ops are copy, copy_async",
        ),
        (
            lambda: plan(memory("shared")[:, :], memory()[-1:31, :], outside="zeros"),
            tc.RequestError,
            'outside must be "zero", "keep", or a number (including infinity and NaN) that the dtype represents exactly, got \'zeros\'; did you mean zero?',
        ),
        (
            lambda: declined("bulk", memory("shared")[:, 0:2], memory()[:, 0:2], op="copy_async", scope=tc.thread()),
            tc.NoVariantError,
            "the contiguous chunk must be a multiple of 16 bytes for cp.async.bulk, got 8 bytes (2 elements; destination TileLayout(S[(32, 2) : (32, 1)]), source TileLayout(S[(32, 2) : (32, 1)]))",
        ),
        (
            lambda: declined(
                "tma",
                memory("shared", (8, 6), "float16")[:, :],
                memory(shape=(8, 6), dtype="float16")[:, :],
                op="copy_async",
                scope=tc.thread(),
            ),
            tc.NoVariantError,
            "option mbar is required but was not given; it must be one mbarrier of the CTA, such as mbar[0]",
        ),
        (
            lambda: declined("ldgsts", memory("shared")[:, :], memory()[:, :], op="copy_async", target="sm_75"),
            tc.NoVariantError,
            "target sm_75 has no cp.async: ldgsts needs sm_80 or newer",
        ),
        (
            lambda: declined(
                "reg",
                memory("local", layout=TileLayout(S[(32, 32) : (1 @ laneid, 1)]))[:, :],
                memory()[:, :],
                scope=tc.thread(),
            ),
            tc.NoVariantError,
            "register operand s must have only axes inside a thread in a copy by one thread, got axis laneid; use a wider scope",
        ),
        (
            lambda: declined("gmem_smem", memory("shared", (33, 1))[:, :], memory(shape=(33, 1))[:, :]),
            tc.NoVariantError,
            "the number of elements must be a multiple of the 32 threads of the warp, got 33 elements",
        ),
        (
            lambda: tc.Variant(name="v", op="copies", priority=1, summary="s", spaces=()),
            tc.PluginError,
            "Variant 'v': spaces must be a tuple of (source, destination) pairs of memory spaces, got ()",
        ),
        (
            lambda: tc.Option("hint", int, "a hint", ignorable="yes"),
            tc.PluginError,
            "Option 'hint': ignorable must be True or False, got 'yes'",
        ),
        (
            lambda: tc.Decline(""),
            tc.PluginError,
            "Decline: reason must be a non-empty string that names the operand, its value and the broken rule, got ''",
        ),
    ],
)
def test_what_is_said(refused: Callable[[], Any], error: type[tc.TilecopyError], message: str) -> None:
    with pytest.raises(error) as caught:
        refused()
    assert type(caught.value) is error
    assert str(caught.value).split("\n")[0] == message
