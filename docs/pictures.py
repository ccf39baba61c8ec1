"""The pictures of the docs: `python docs/pictures.py` writes docs/pictures/*.svg, and tests/integration/test_docs.py holds that they are these."""

from __future__ import annotations

from pathlib import Path

import tilecopy as tc
from tilecopy import S, TileLayout, laneid
from tilecopy_draw import Picture, draw

FOLDER = Path(__file__).parent / "pictures"


def shared(shape: tuple[int, ...], dtype: str, layout: tc.Layout | None = None) -> tc.Buffer:
    """A tile in shared memory."""
    return tc.Buffer(shape, dtype, space="shared", name="tile", layout=layout or TileLayout(S[shape]))


def pictures() -> dict[str, Picture]:
    """Each picture by the name of its file."""
    swizzle = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[16, 64]))
    rows = tc.Buffer((32, 8), "float32", space="local", name="rows", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    operand = tc.Buffer(
        (16, 16), "float16", space="local", name="A", layout=tc.mma_fragment("m16n8k16", "A", "float16")
    )
    A = tc.Buffer((64, 64), "float32", space="global", name="A")
    B = tc.Buffer((64, 64), "float32", space="global", name="B")
    tile = shared((16, 64), "float32")
    through = tc.plan(tile[:, :], A[0:16, :], scope=tc.cta(128), target="sm_80")
    padded = shared((32, 32), "float32", TileLayout(S[(32, 32) : (33, 1)]))
    transposed = tc.plan(B.T[0:32, 0:32], padded[:, :], scope=tc.warp(), target="sm_80")
    box = shared((16, 64), "float16", swizzle)
    half = tc.Buffer((200, 1000), "float16", space="global", name="A")
    full = tc.Buffer((1,), "uint64", space="shared", name="full")
    tensor = tc.plan(
        box[:, :],
        half[0:16, 0:64],
        op="copy_async",
        scope=tc.thread(),
        target="sm_90",
        variant="tma",
        mbar=full[0],
    )
    image = tc.Buffer((100, 72), "float32", space="global", name="A")
    halo = shared((18, 34), "float32")
    corner = tc.plan(halo[:, :], image[-1:17, -1:33], scope=tc.cta(256), target="sm_80", outside="zero")
    table = tc.Buffer((1000, 256), "float32", space="global", name="table")
    part = tc.Buffer(
        (256,), "float32", space="local", name="part", layout=TileLayout(S[(2, 32, 4) : (4, 1 @ laneid, 1)])
    )
    stage = shared((8, 128), "float32")
    long = tc.Buffer((1024, 128), "float32", space="global", name="A")
    fetch = tc.plan(stage[:, :], long[0:8, :], op="copy_async", scope=tc.cta(128), target="sm_80", variant="ldgsts")
    cache = tc.Buffer((40, 16, 128), "float16", space="global", name="cache")
    page = tc.symbol("page", lower=0, upper=39)
    slot = shared((16, 128), "float16")
    collect = tc.plan(slot[:, :], cache[page, :, :], op="copy_async", scope=tc.cta(128), target="sm_80")
    high, wide = tc.symbol("M", lower=1, upper=2**20), tc.symbol("N", lower=8, upper=2**20, multiple_of=8)
    row, column = tc.symbol("row", upper=2**20), tc.symbol("column", upper=2**20, multiple_of=64)
    square = shared((64, 64), "float16", tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[64, 64])))
    sized = tc.Buffer((high, wide), "float16", space="global", name="A")
    header = tc.plan(
        square[:, :],
        sized[row : row + 64, column : column + 64],
        op="copy_async",
        scope=tc.cta(128),
        target="sm_80",
        outside="zero",
    )
    received = tc.Buffer((8, 4, 64), "float32", space="global", name="y")
    exchanged = tc.plan(
        received[0:4, :, :], shared((4, 4, 64), "float32").permute(1, 0, 2)[:, :, :], scope=tc.cta(64), target="sm_90"
    )
    return {
        "swizzle": draw(shared((16, 64), "float16", swizzle)),
        "rows": draw(rows, "fragment"),
        "mma_a": draw(operand, "fragment"),
        "through_shared": draw(through),
        "transpose": draw(transposed, "banks", compare_with=TileLayout(S[32, 32])),
        "tma": draw(tensor),
        "halo": draw(corner),
        "gather": draw(tc.plan(part[:], table[7, :], scope=tc.warp(), target="sm_80")),
        "pipeline": draw(fetch),
        "paged_copy": draw(collect),
        "cuda_cpp": draw(header),
        "many_gpus": draw(exchanged),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        picture.save(FOLDER / f"{name}.svg")
