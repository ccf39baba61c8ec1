"""Run by `nox -s subsets` in an environment with the core and one variant (or none): its copy works, another's says what to install."""

from __future__ import annotations

import sys

import tilecopy as tc
from tilecopy import R, S, TCol, TileLayout, TLane, laneid


def region(space: str, shape: tuple[int, ...], dtype: str = "float32", **more: object) -> tc.Region:
    """A whole buffer."""
    return tc.Buffer(shape, dtype, space=space, name=f"{space}_{len(shape)}", **more)[tuple(slice(0, e) for e in shape)]  # type: ignore[arg-type]


FRAGMENT = TileLayout(S[(32, 8) : (1 @ laneid, 1)])
TMEM = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
MBAR = tc.Buffer(1, "uint64", space="shared", name="mbar", align_bytes=8)
COPIES = {
    "gmem_smem": lambda: tc.plan(
        region("shared", (32, 32)), region("global", (32, 32)), scope=tc.warp(), target="sm_90a"
    ),
    "reg": lambda: tc.plan(
        region("local", (32, 8), layout=FRAGMENT), region("shared", (32, 8)), scope=tc.warp(), target="sm_90a"
    ),
    "regperm": lambda: tc.plan(
        region("local", (32, 8), layout=FRAGMENT),
        region("local", (32, 8, 1), layout=FRAGMENT),
        scope=tc.warp(),
        target="sm_90a",
    ),
    "ldgsts": lambda: tc.plan(
        region("shared", (32, 32)), region("global", (32, 32)), op="copy_async", scope=tc.warp(), target="sm_90a"
    ),
    "bulk": lambda: tc.plan(
        region("shared", (64,)),
        region("global", (64, 1)),
        op="copy_async",
        scope=tc.thread(),
        target="sm_90a",
        mbar=MBAR[0],
    ),
    "dsmem": lambda: tc.plan(
        region("shared", (64,)),
        region("shared", (64, 1)),
        op="copy_async",
        scope=tc.thread(),
        target="sm_90a",
        mbar=MBAR[0],
        remote_cta_id=1,
    ),
    "tcgen05_cp": lambda: tc.plan(
        region("tmem", (32, 16), "uint8", layout=TMEM, allocated_addr=0),
        region("shared", (32, 16), "uint8"),
        op="copy_async",
        scope=tc.thread(),
        target="sm_100a",
    ),
}


def main(installed: str) -> None:
    """Check every copy."""
    for name, plan in COPIES.items():
        if name == installed:
            assert plan().variant == name
            continue
        try:
            plan()
        except tc.NoVariantError as error:
            assert f"pip install plugins/{name}" in str(error), error
        else:
            raise AssertionError(f"{name} works and is not installed")
    print(f"{installed or 'no variant'}: its copies work, the others say what to install")


if __name__ == "__main__":
    main(sys.argv[1])
