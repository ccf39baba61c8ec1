"""Check an environment with one variant or none: its copies work, and the errors of others say what to install.

`nox -s subsets` runs this program. It plans a copy for each variant with the core.
"""

from __future__ import annotations

import sys
from typing import Any

import tilecopy_core as tc
from tilecopy_core import R, S, TCol, TileLayout, TLane, laneid


def region(space: str, shape: tuple[int, ...], dtype: str = "float32", name: str = "", **more: Any) -> tc.Region:
    """Return the region of a whole new buffer."""
    name = name or f"{space}_{len(shape)}"
    return tc.Buffer(shape, dtype, space=space, name=name, **more)[tuple(slice(0, e) for e in shape)]


FRAGMENT = TileLayout(S[(32, 8) : (1 @ laneid, 1)])
ROWS = TileLayout(S[(32, 4) : (1 @ laneid, 1)])
COLUMNS = TileLayout(S[(8, 4, 4) : (4 @ laneid, 1, 1 @ laneid)])
TMEM = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
MBAR = tc.Buffer(1, "uint64", space="shared", name="mbar", align_bytes=8)
HOLDER = tc.Buffer(1, "uint32", space="shared", name="holder")
ROW, N = tc.symbol("row", upper=1000), tc.symbol("n", lower=1, upper=2**31 - 1)
GLOBAL = tc.Buffer((N, 32), "float32", space="global", name="A")[ROW * 32 : ROW * 32 + 32, :]
RAGGED = tc.Buffer((N, 5), "float32", space="global", name="A")[ROW * 7 : ROW * 7 + 7, :]
ASYNC: dict[str, Any] = {"op": "copy_async", "target": "sm_90a"}
OPERAND = TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])
MATRICES = region("shared", (16, 16), "float16", align_bytes=16)
LANES = region("tmem", (32, 8), layout=TileLayout(S[(32, 8) : (1 @ TLane, 1 @ TCol)]), allocated_addr=HOLDER)
COPIES: dict[str, tuple[tc.Region, tc.Region, dict[str, Any]]] = {
    "gmem_smem": (region("shared", (32, 32)), GLOBAL, {"scope": tc.warp()}),
    "reg": (region("local", (32, 8), layout=FRAGMENT), region("shared", (32, 8)), {"scope": tc.warp()}),
    "regperm": (
        region("local", (32, 8), layout=FRAGMENT),
        region("local", (32, 8, 1), layout=FRAGMENT),
        {"scope": tc.warp()},
    ),
    "regperm_shfl": (
        region("local", (32, 4), layout=ROWS),
        region("local", (32, 4, 1), layout=COLUMNS),
        {"scope": tc.warp()},
    ),
    "ldgsts": (region("shared", (32, 32)), GLOBAL, {**ASYNC, "scope": tc.warp()}),
    "ragged": (region("shared", (7, 5)), RAGGED, {"scope": tc.cta(64)}),
    "ragged_async": (region("shared", (7, 5)), RAGGED, {**ASYNC, "scope": tc.cta(64)}),
    "bulk": (region("shared", (64,)), region("global", (64, 1)), {**ASYNC, "scope": tc.thread(), "mbar": MBAR[0]}),
    "bulk_store": (region("global", (64, 1)), region("shared", (64,)), {**ASYNC, "scope": tc.thread()}),
    "dsmem": (
        region("shared", (64,)),
        region("shared", (64, 1)),
        {**ASYNC, "scope": tc.thread(), "mbar": MBAR[0], "remote_cta_id": N % 2},
    ),
    "tcgen05_cp": (
        region("tmem", (32, 16), "uint8", layout=TMEM, allocated_addr=HOLDER),
        region("shared", (32, 16), "uint8", align_bytes=128),
        {**ASYNC, "scope": tc.thread(), "target": "sm_100a"},
    ),
    "tcgen05_ld": (region("local", (32, 8), layout=FRAGMENT), LANES, {"scope": tc.warp(), "target": "sm_100a"}),
    "tcgen05_st": (LANES, region("local", (32, 8), layout=FRAGMENT), {"scope": tc.warp(), "target": "sm_100a"}),
    "ldmatrix": (region("local", (16, 16), "float16", layout=OPERAND), MATRICES, {"scope": tc.warp()}),
    "stmatrix": (MATRICES, region("local", (16, 16), "float16", layout=OPERAND), {"scope": tc.warp()}),
    "tma": (region("shared", (32, 32)), GLOBAL, {**ASYNC, "scope": tc.thread(), "mbar": MBAR[0]}),
    "tma_store": (GLOBAL, region("shared", (32, 32)), {**ASYNC, "scope": tc.thread()}),
}
"""Destination, source and how, for each variant."""
FOLDERS = {name: name.removesuffix("_async").removesuffix("_store").removesuffix("_shfl") for name in COPIES}
FOLDERS |= {"stmatrix": "ldmatrix", "tcgen05_ld": "tcgen05_ldst", "tcgen05_st": "tcgen05_ldst"}
"""The folder of plugins/ that brings each variant."""


def planned(name: str, **more: Any) -> tc.Plan:
    """Return the plan of a variant's copy."""
    dst, src, how = COPIES[name]
    return tc.plan(dst, src, **{"target": "sm_90a", **how, **more})


def main(installed: str) -> None:
    """Check every copy."""
    for name in COPIES:
        try:
            found = planned(name).variant
        except tc.NoVariantError as error:
            assert FOLDERS[name] != installed, error
            assert f"pip install plugins/{FOLDERS[name]}" in str(error), error
        else:  # ragged takes what others take
            assert FOLDERS[found] == installed, f"{name} works by {found}, which is not installed"
    print(f"{installed or 'no variant'}: its copies work, the others say what to install")


if __name__ == "__main__":
    main(sys.argv[1])
