"""Copies and layouts of every kind that is drawn."""

import tilecopy as tc
from tilecopy import R, S, TCol, TileLayout, TLane, laneid


def swizzled(mode, dtype, *shape):
    return tc.SwizzledLayout(tc.swizzle(mode, dtype), TileLayout(S[shape]))


def memory(space, shape, dtype, name, **more):
    return tc.Buffer(shape, dtype, space=space, name=name, **more)


def mbar():
    return memory("shared", (1,), "uint64", "mbar")[0]


FRAGMENT_A = TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])
"""Operand A of mma.m16n8k16, 16-bit elements (PTX ISA, "Matrix Fragments for mma.m16n8k16")."""
FRAGMENT_C = TileLayout(S[(4, 2, 8, 4, 4, 2) : (1 @ tc.wid_in_wg, 2, 4 @ laneid, 4, 1 @ laneid, 1)])
"""Operand D of wgmma.m64n32, 32-bit elements."""


def gmem_smem(rows=16, threads=64, **more):
    tile = memory("shared", (rows, 64), "float16", "tile", layout=swizzled("128B", "float16", rows, 64))
    A = memory("global", (2 * rows, 64), "float16", "A")
    return tc.plan(tile[:, :], A[0:rows, :], scope=tc.cta(threads), target="sm_90a", **more)


def ldgsts(rows=16, threads=64):
    return gmem_smem(rows, threads, op="copy_async", variant="ldgsts")


def stored():
    tile = memory("shared", (16, 64), "float16", "tile", layout=swizzled("128B", "float16", 16, 64))
    return tc.plan(memory("global", (16, 64), "float16", "B")[:, :], tile[:, :], scope=tc.cta(64), target="sm_90a")


def transposed(pitch=33):
    tile = memory("shared", (32, 32), "float32", "tile", layout=TileLayout(S[(32, 32) : (1, pitch)]))
    A = memory("global", (32, 32), "float32", "A")
    return tc.plan(tile[:, :], A[:, :], scope=tc.warp(), target="sm_90a")


def edge(variant="gmem_smem"):
    tile = memory("shared", (16, 64), "float16", "tile", layout=swizzled("128B", "float16", 16, 64))
    A = memory("global", (60, 64), "float16", "A")
    words = {"op": "copy_async", "outside": "zero"} if variant == "ldgsts" else {"outside": -1.5029296875}
    return tc.plan(tile[:, :], A[48:64, :], scope=tc.cta(64), target="sm_90a", variant=variant, **words)


def symbolic():
    row = tc.symbol("row", lower=3, upper=1000) * 16
    tile = memory("shared", (16, 64), "float16", "tile")
    A = memory("global", (16016, 64), "float16", "A")
    return tc.plan(tile[:, :], A[row : row + 16, :], scope=tc.cta(64), target="sm_90a")


def registers(*, store=True):
    frag = memory("local", (32, 8), "float32", "frag", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    tile = memory("shared", (32, 8), "float32", "padded", layout=TileLayout(S[(32, 8) : (9, 1)]))
    sides = (tile, frag) if store else (frag, tile)
    return tc.plan(sides[0][:, :], sides[1][:, :], scope=tc.warp(), target="sm_90a")


def column(mode="128B"):
    """A column of 16-byte chunks, read by one warp."""
    layout = swizzled(mode, "float16", 32, 64)
    frag = memory("local", (32, 8), "float16", "frag", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    tile = memory("shared", (32, 64), "float16", "tile", layout=layout)
    return tc.plan(frag[:, :], tile[:, 8:16], scope=tc.warp(), target="sm_90a")


def tma():
    tile = memory("shared", (16, 64), "float16", "tile", layout=swizzled("128B", "float16", 16, 64))
    A = memory("global", (60, 64), "float16", "A")
    words = {"op": "copy_async", "variant": "tma", "scope": tc.thread(), "target": "sm_90a", "mbar": mbar()}
    return tc.plan(tile[:, :], A[48:64, :], outside="zero", **words)


def bulk():
    words = {"op": "copy_async", "variant": "bulk", "scope": tc.thread(), "target": "sm_90a", "mbar": mbar()}
    return tc.plan(
        memory("shared", (1024,), "float16", "tile")[:], memory("global", (1024,), "float16", "A")[:], **words
    )


def dsmem():
    here, there = (memory("shared", (16, 64), "float16", name) for name in ("here", "there"))
    return tc.plan(there[:, 0:32], here[:, 0:32], op="copy_async", scope=tc.thread(), target="sm_90a")


def tcgen05_cp():
    lanes = TileLayout(S[(32, 64) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    acc = memory("tmem", (32, 64), "uint8", "acc", layout=lanes)
    tile = memory("shared", (32, 64), "uint8", "tile", layout=swizzled("64B", "uint8", 32, 64))
    return tc.plan(acc[:, :], tile[:, :], op="copy_async", scope=tc.thread(), target="sm_100a")


def exchanged(wide=8):
    """Registers to registers: a transpose of 4 x 4 words between lanes."""
    rows = TileLayout(S[(32, wide) : (1 @ laneid, 1)])
    columns = TileLayout(S[(8, 4, wide // 4, 4) : (4 @ laneid, wide // 4, 1, 1 @ laneid)])
    a, b = (memory("local", (32, wide), "float32", name, layout=each) for name, each in (("a", rows), ("b", columns)))
    return tc.plan(b[:, :], a[:, :], scope=tc.warp(), target="sm_90a")


def tensor(*, store=False):
    """Tensor memory to registers of a warpgroup, or back."""
    acc = memory("tmem", (128, 16), "float32", "acc", layout=TileLayout(S[(128, 16) : (1 @ TLane, 1 @ TCol)]))
    frag = memory("local", (128, 16), "float32", "frag", layout=TileLayout(S[(128, 16) : (1 @ tc.tid_in_wg, 1)]))
    sides = (acc, frag) if store else (frag, acc)
    return tc.plan(sides[0][:, :], sides[1][:, :], scope=tc.warpgroup(), target="sm_100a")


def accumulator(shape=(32, 16), dtype="float16", *, column=1, replica=R[4 : 32 @ TLane]):
    """A buffer of tensor memory, each lane of it four times."""
    layout = TileLayout(S[shape : (1 @ TLane, column @ TCol)])
    return memory("tmem", shape, dtype, "acc", layout=layout + replica if replica else layout)


CASES = {
    "gmem_smem": (gmem_smem, None),
    "ldgsts": (ldgsts, None),
    "stored": (stored, None),
    "edge": (edge, None),
    "symbolic": (symbolic, None),
    "reg_store": (registers, None),
    "reg_load": (lambda: registers(store=False), None),
    "zoom": (lambda: ldgsts(128, 128), None),
    "banks": (column, "banks"),
    "banks_padded": (transposed, "banks"),
    "fragment_of_a_plan": (registers, "fragment"),
    "tma": (tma, None),
    "bulk": (bulk, None),
    "dsmem": (dsmem, None),
    "tcgen05_cp": (tcgen05_cp, None),
    "regperm": (exchanged, None),
    "regperm_fragments": (exchanged, "fragment"),
    "tcgen05_ld": (tensor, None),
    "tcgen05_st": (lambda: tensor(store=True), None),
    "tcgen05_fragment": (tensor, "fragment"),
    "tensor_memory": (accumulator, None),
    "tensor_memory_halves": (lambda: accumulator((16, 16), column=2, replica=None)[4:12, 8:16], None),
    "tensor_memory_layout": (lambda: TileLayout(S[(8, 4) : (1 @ TLane, 1 @ TCol)] + R[2 : 8 @ TCol] + 3 @ TLane), None),
    "row_major": (lambda: memory("shared", (16, 64), "float16", "tile"), None),
    "column_major": (lambda: TileLayout(S[(16, 32) : (1, 16)]), None),
    "padded": (lambda: memory("shared", (16, 32), "float32", "tile", layout=TileLayout(S[(16, 32) : (33, 1)])), None),
    "swizzled": (lambda: swizzled("64B", "float16", 16, 64), None),
    "fragment": (lambda: memory("local", (16, 16), "float16", "A", layout=FRAGMENT_A), None),
    "fragment_zoom": (lambda: memory("local", (64, 32), "float32", "C", layout=FRAGMENT_C), None),
}
