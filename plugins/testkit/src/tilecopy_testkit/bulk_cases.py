"""Cases of bulk and tensor copies, which one thread issues."""

from __future__ import annotations

from typing import Any

import attrs
import tilecopy as tc

from .case_space import CaseSpace, Draw, finish, swizzle_parts
from .copy_case import AffineStart, AffineTerm, CopyCase, Operand
from .memory_cases import draw_start, draw_variables


def bulk_case(draw: Draw, case_space: CaseSpace, pair: tuple[str, str]) -> CopyCase:
    """By one thread, in runs of whole 16 bytes."""
    dtype = draw.choose(case_space.dtypes)
    size = tc.dtype_of(dtype).bytes
    unit = max(1, 16 // size)
    remote = any(option.name == "remote_cta_id" for option in case_space.variant.options)
    rows, columns = draw.choose([4, 1, 2, 8, 3, 16]), unit * draw.choose([2, 1, 4, 8, 3])
    if draw.choose([False] * 9 + [True]):
        columns += draw.choose([1, unit // 2 or 1])
    counts = draw_variables(draw, 1, blocks=False) | {"multiple_of": draw.choose([1, 2, 4, 8])}
    cluster = draw.choose([2, 2, 4]) if remote else 1
    counts["block"] = cluster * draw.choose([1, 1, 2]) if remote else draw.choose([1, 1, 2])
    if pair[1] == "global":  # the emulator wants a fence between two bulk writes of one place
        counts["turn"] = 1
    swizzle = draw.choose([None, None, None, *(tuple(swizzle_parts(mode, dtype)) for mode in ("32B", "64B", "128B"))])
    sides = []
    for source, space in ((True, pair[0]), (False, pair[1])):
        starts, shape, box = [], [], [rows, columns]
        for extent, grain in ((rows, 1), (columns, draw.choose([unit, unit, unit, unit, 1]))):
            varying = counts if draw.choose([True, False]) else counts | {"block": 1, "turn": 1, "n": 0}
            if remote and not source:  # where it arrives is the same for every CTA that sends
                varying = varying | {"block": 1}
            start, needed = draw_start(draw, varying, extent, grain, overhang=False)
            starts.append(start)
            shape.append(needed)
        if space == "global" and not source and counts["block"] > 1:
            starts.insert(0, AffineStart(0, (AffineTerm("block", 1),)))
            shape.insert(0, counts["block"])
            box.insert(0, 1)
        shape[-1] = -(-shape[-1] // unit) * unit if draw.choose([True] * 7 + [False]) else shape[-1]
        pad = draw.choose([0, 0, unit, 2 * unit, 1]) if draw.choose([True, True, False]) else 0
        strides, step = [0] * len(shape), 1
        for place in reversed(range(len(shape))):
            strides[place] = step
            step = step * shape[place] + (pad if place == len(shape) - 1 else 0)
        layout: dict[str, Any] = {"iters": tuple((e, s, "m") for e, s in zip(shape, strides, strict=True))}
        if space == "shared":
            layout["swizzle"] = swizzle if draw.choose([True, True, True, False]) else None
        sides.append(
            Operand(
                space,
                tuple(shape),
                tuple(box),
                tuple(starts),
                storage_offset=draw.choose([0, 0, 0, unit, 2 * unit]),
                align_bytes=16 if space == "global" else 1024,
                **layout,
            )
        )
    threads = draw.choose([32, 64])
    src, dst = sides
    case = finish(
        draw, case_space, counts, dtype=dtype, scope="thread", threads=threads, dst=dst, src=src, issued_by="one"
    )
    return attrs.evolve(case, cluster=cluster, rank_offset=draw.choose(range(1, cluster)) if cluster > 1 else 0)
