"""Cases of bulk and tensor copies, which one thread issues."""

from __future__ import annotations

import attrs
import tilecopy as tc

from tilecopy_core.plugin import row_major

from .case_space import CaseSpace, Draw, finish, swizzle_parts
from .copy_case import AffineStart, AffineTerm, CopyCase, Operand
from .memory_cases import along_m, draw_start, draw_variables


def bulk_case(draw: Draw, case_space: CaseSpace, pair: tuple[str, str]) -> CopyCase:
    """By one thread, in runs of whole 16 bytes."""
    dtype = draw.choose(case_space.dtypes)
    size = tc.dtype_of(dtype).bytes
    unit = max(1, 16 // size)
    remote = any(option.name == "remote_cta_id" for option in case_space.variant.options)
    rows, columns = draw.choose([4, 1, 2, 8, 3, 16]), unit * draw.choose([2, 1, 4, 8, 3])
    if draw.choose([False] * 9 + [True]):
        columns += draw.choose([1, unit // 2 or 1])
    counts = draw_variables(draw, 1, blocks=[1], multiples=[1, 2, 4, 8])
    cluster = draw.choose([2, 2, 4]) if remote else 1
    counts["block"] = cluster * draw.choose([1, 1, 2]) if remote else draw.choose([1, 1, 2])
    if pair[1] == "global":  # the emulator wants a fence between two bulk writes of one place
        counts["turn"] = 1
    swizzle = draw.choose([None, None, None, *(swizzle_parts(mode, dtype) for mode in ("32B", "64B", "128B"))])
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
        sides.append(
            Operand(
                space,
                tuple(shape),
                tuple(box),
                tuple(starts),
                along_m(shape, row_major((*shape[:-1], shape[-1] + pad))),
                swizzle=swizzle if space == "shared" and draw.choose([True, True, True, False]) else None,
                storage_offset=draw.choose([0, 0, 0, unit, 2 * unit]),
                align_bytes=16 if space == "global" else 1024,
            )
        )
    parts = {"dtype": dtype, "scope": "thread", "threads": draw.choose([32, 64]), "issued_by": "one"}
    case = finish(draw, case_space, counts, src=sides[0], dst=sides[1], **parts)
    return attrs.evolve(case, cluster=cluster, rank_offset=draw.choose(range(1, cluster)) if cluster > 1 else 0)
