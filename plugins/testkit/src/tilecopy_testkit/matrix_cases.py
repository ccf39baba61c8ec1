"""Cases between fragments of mma.sync and memory."""

from __future__ import annotations

import tilecopy as tc

from .case_space import CaseSpace, Draw, finish, scopes_of, swizzle_parts
from .copy_case import AffineStart, AffineTerm, CopyCase, Iters, Operand

MATRICES: dict[int, tuple[tuple[str, str, str, tuple[int, int]], ...]] = {
    8: (("m16n8k32", "A", "int8", (16, 32)), ("m16n8k32", "B", "int8", (8, 32))),
    16: (
        ("m16n8k16", "A", "float16", (16, 16)),
        ("m16n8k16", "B", "float16", (8, 16)),
        ("m16n8k16", "C", "float16", (16, 8)),
    ),
    32: (("m16n8k8", "A", "float32", (16, 8)), ("m16n8k8", "B", "float32", (8, 8))),
}
"""Operands of mma.sync by the bits of an element, with their shapes; those of other types of so many bits are alike."""


class MatrixCase:
    """Fragments of mma.sync, side by side in registers and warps, and rows or columns of 16 bytes in memory.

    Attributes:
        dtype: element type.
        unit: elements of 16 bytes.
        atom: rows and columns of one fragment of mma.sync.
    """

    def __init__(self, draw: Draw, case_space: CaseSpace) -> None:
        self.draw, self.case_space = draw, case_space
        self.dtype = draw.choose([d for d in case_space.dtypes if tc.dtype_of(d).bits in MATRICES] or ["float16"])
        self.unit = max(1, 16 // tc.dtype_of(self.dtype).bytes)
        self.name, self.operand, self.of, self.atom = draw.choose(MATRICES[tc.dtype_of(self.dtype).bits])
        scopes = [("warp", 32), ("cta", 64), ("cta", 128), ("warpgroup", 128), ("warp", 64), ("warpgroup", 256)]
        drawn = scopes_of(case_space, ["warp", "cta", "warpgroup"])
        self.scope, self.threads = draw.choose([scope for scope in scopes if scope[0] in drawn])
        self.units = {"cta": 1, "warp": self.threads // 32, "warpgroup": self.threads // 128}[self.scope]

    def draw_fragment(self) -> Operand:
        """Draw the fragments of all warps, and the part of them that is copied."""
        draw, warps = self.draw, self.threads // 32 // self.units
        apart = draw.choose([1, 1, *range(1, warps + 1)]) if warps > 1 else 1
        along = (apart, warps // apart) if warps % apart == 0 else (warps, 1)
        alike = self.scope != "warp" and draw.choose([False] * 5 + [True])  # every warp holds the same
        repeats = draw.choose([(1, 1), (1, 2), (2, 1), (2, 2), (2, 2), (1, 4), (1, 3), (3, 2)])
        tile = tuple(a * r * (1 if alike else w) for a, r, w in zip(self.atom, repeats, along, strict=True))
        axis = tc.wid_in_wg if self.scope == "warpgroup" else tc.warpid
        fragment = tc.mma_fragment(self.name, self.operand, self.of)
        layout = tc.tile_fragment(fragment, tile, (1, 1) if alike else along, warp_axis=axis)
        iters: Iters = tuple((it.extent, int(it.stride), it.axis.name) for it in layout.shard)
        replica: Iters = ((warps, 1, axis.name),) if alike else ()
        if self.scope != "warp" and draw.choose([False, False, True]):  # lanes and warps along one axis
            thread_axis = "tid_in_wg" if self.scope == "warpgroup" else "tx"
            steps = {"m": 1, "laneid": 1, axis.name: 32}
            iters, replica = (
                tuple((e, s * steps[a], a if a == "m" else thread_axis) for e, s, a in part)
                for part in (iters, replica)
            )
        extents, begin = list(tile), [0, 0]
        if draw.choose([True, False, False]):
            dim, grain = draw.choose([0, 1]), draw.choose([8] * 6 + [16, 4])
            if tile[dim] > grain:
                begin[dim] = draw.choose(range(0, tile[dim] - grain + 1, grain))
                extents[dim] = draw.choose(range(grain, tile[dim] - begin[dim] + 1, grain))
        return Operand("local", tile, tuple(extents), tuple(map(AffineStart, begin)), iters, replica=replica)

    def draw_memory(self, space: str, extents: tuple[int, ...], iterations: int) -> Operand:
        """Draw the memory of a box; some have one thing with which no whole 16 bytes fit."""
        draw, unit = self.draw, self.unit
        inner = draw.choose([1, 1, 0]) if unit == 8 else draw.choose([1] * 7 + [0])  # the dimension that is contiguous
        odd = draw.choose([""] * 6 + ["pitch", "lead", "start", "address", "tiles", "tiles"])
        mode = draw.choose(["none", "none", "32B", "64B", "128B"]) if space == "shared" else "none"
        swizzle = None
        if mode != "none" and odd != "tiles":
            swizzle = swizzle_parts(
                mode, draw.choose([self.dtype, self.dtype, "float64"])
            )  # of another width: inside rows
        moved = draw.choose([0, 0, unit, 2 * unit])
        starts = [AffineStart(0), AffineStart(0)]
        starts[inner] = AffineStart(0, (AffineTerm("turn", moved),)) if moved and iterations > 1 else AffineStart(moved)
        shape = list(extents)
        shape[inner] += moved
        grain = unit if swizzle is None else unit << swizzle[1]
        rows, lead_elems = self._rows(shape[inner], shape[1 - inner], grain, odd, self.atom[1 - inner])
        dims = [rows, rows]
        dims[inner] = ((shape[inner], 1, "m"),)
        return Operand(
            space,
            (self.units, *shape),
            (1, *extents),
            (AffineStart(0, (AffineTerm("unit", 1),)) if self.units > 1 else AffineStart(0), *starts),
            ((self.units, lead_elems, "m"), *dims[0], *dims[1]),
            swizzle=swizzle,
            storage_offset=1 if odd == "start" else draw.choose([0, 0, unit]),
            align_bytes=8 if odd == "address" else draw.choose([16, 16, 1024 if space == "shared" else 16]),
        )

    def _rows(self, width: int, height: int, grain: int, odd: str, atom: int) -> tuple[Iters, int]:
        """Draw the iters of so many rows of a width, perhaps in tiles, and the elements from one unit's rows to the next."""
        draw, unit = self.draw, self.unit
        pitch = -(-width // grain) * grain + draw.choose([0, grain])
        pitch += draw.choose([unit // 2 or 1, 1]) if odd == "pitch" else 0
        halves = [height // 2, height // 2, height // 4, atom]
        tall = draw.choose(halves if odd == "tiles" else [*[height] * 4, *halves])  # rows of a tile in memory
        tall = tall if tall and height % tall == 0 else height
        gap = (unit // 2 or 1) if odd == "tiles" else draw.choose([0, grain])
        rows = ((height // tall, tall * pitch + gap, "m"), (tall, pitch, "m"))[tall == height :]
        lead = -(-(pitch * height + gap * (height // tall)) // grain) * grain
        return rows, lead + (unit // 2 if odd == "lead" else 0)


def matrix_case(draw: Draw, case_space: CaseSpace, pair: tuple[str, str]) -> CopyCase:
    """Draw a copy between fragments of mma.sync and memory."""
    case = MatrixCase(draw, case_space)
    fragment = case.draw_fragment()
    counts = {"unit": case.units, "block": 1, "turn": draw.choose([1, 1, 2]), "n": 0, "multiple_of": 1}
    memory = case.draw_memory(next(space for space in pair if space != "local"), fragment.extents, counts["turn"])
    src, dst = (fragment, memory) if pair[0] == "local" else (memory, fragment)
    return finish(draw, case_space, counts, dtype=case.dtype, scope=case.scope, threads=case.threads, dst=dst, src=src)
