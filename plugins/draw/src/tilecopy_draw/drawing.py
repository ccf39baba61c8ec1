"""The one function: a layout, region, plan or fragment becomes a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import tilecopy as tc

from tilecopy_core.plugin import one_of, optional, shown

from .banks import Tile, before_of, draw_banks, draw_layout
from .counts import sectors_of, wavefronts_of
from .engines import draw_boxes
from .fragments import draw_fragment, load_of
from .grids import registers_of
from .moves import draw_moves
from .page import Page
from .part import Part
from .picture import Picture
from .running import Movement, run_copy

KINDS = ("moves", "banks", "fragment", "boxes")
LEAST_WIDTH, MOST_WIDTH = 480, 4096
MOST_ELEMENTS = 1 << 20
"""Of a layout that is drawn by itself."""


def draw(
    x: Any, kind: str | None = None, *, part: str | None = None, before: tc.TileLayout | None = None, width: int = 960
) -> Picture:
    """Draw a copy, a region, a buffer or a layout.

    Args:
        x: a :class:`tilecopy.Plan`; a region, buffer or layout of memory, whose banks are drawn, or of registers, whose owners are.
            A layout alone is taken as of elements of 4 bytes, or of those that its swizzle is for.
        kind: ``moves`` (who moves each element, in which vector), ``banks`` (of shared memory, with the conflicts of each phase),
            ``fragment`` (which thread and register holds each element), ``boxes`` (what an engine moves); by default what fits.
        part: what to draw of it: ``"instruction 2"``, ``"warp 1"``, ``"thread 5"``, ``"rows 0:32"``, ``"columns 0:64"``, with
            commas between.
        before: of ``banks``: another layout of the shared buffer, drawn beside; by default the one without the swizzle.
        width: of the picture, in pixels.

    Returns:
        The picture. Starts and sizes that are known at run time only have their least values, and the picture says so.

    Raises:
        RequestError: there is no such kind, part or picture of that; or it is too large for a page, with the parts that are not.
        TilecopyError: what dispatch or the emulator finds wrong with the copy.
    """
    optional(one_of(*KINDS)).check(kind, "draw", "kind")
    if type(width) is not int or not LEAST_WIDTH <= width <= MOST_WIDTH:
        raise tc.RequestError(f"draw: width is {LEAST_WIDTH} to {MOST_WIDTH} pixels, not {shown(width)}")
    if before is not None and not isinstance(before, tc.TileLayout):
        raise tc.RequestError(f"draw: before is a layout, not {shown(before)}")
    wanted = Part.read(part)
    if isinstance(x, tc.Plan):
        return _of_plan(x, kind, wanted, before, width)
    return _of_layout(x, kind, wanted, before, width)


def _of_plan(plan: tc.Plan, kind: str | None, part: Part, before: tc.TileLayout | None, width: int) -> Picture:
    movement = run_copy(plan.request, plan.variant, plan.partition)
    kind = kind or ("boxes" if movement.by_engine else "moves")
    if before is not None and kind != "banks":
        raise tc.RequestError(f"draw: before is of kind 'banks', not of {kind!r}")
    data = data_of(movement)
    if kind == "moves" and not movement.by_engine:
        title, page = draw_moves(movement, part, width)
    elif kind == "moves":
        raise tc.RequestError(
            f"draw: one thread issues {movement.variant}, and an engine moves the bytes; draw kind 'boxes'"
        )
    elif kind == "banks":
        title, page, data["phases"] = draw_banks(movement, before_of(movement, before), part, width)
    elif kind == "fragment":
        title, page = draw_fragment(movement, part, width)
    else:
        title, page = draw_boxes(movement, part, width)
    return _picture(kind, title, page, data)


def _picture(kind: str, title: str, page: Page, data: dict[str, Any]) -> Picture:
    return Picture(title, kind, page.svg(title), {"kind": kind, "title": title, **data})


def _of_layout(x: Any, kind: str | None, part: Part, before: tc.TileLayout | None, width: int) -> Picture:
    region = x if isinstance(x, tc.Region) else x[...] if isinstance(x, tc.Buffer) else None
    layout = region.buffer.layout if region is not None else x
    if not isinstance(layout, tc.TileLayout):
        raise tc.RequestError(f"draw: x is a plan, a region, a buffer or a layout with fixed extents, not {shown(x)}")
    size = region.size if region is not None else layout.size
    if size > MOST_ELEMENTS:
        raise tc.RequestError(
            f"draw: x has {size} elements; at most {MOST_ELEMENTS} are drawn. Draw a region of it, not {shown(x)}"
        )
    shape = region.buffer.shape if region is not None else tuple(it.extent for it in layout.shard)
    owned = any(axis.name not in ("m", "TLane", "TCol") for axis in layout.axes)
    kind = kind or ("fragment" if owned else "banks")
    if kind == "fragment":
        dtype = region.buffer.dtype if region is not None else "float32"
        name = region.buffer.name if region is not None else "fragment"
        plan = load_of(tc.Buffer(shape, dtype, space="local", layout=layout, name=name))
        return _of_plan(plan, kind, part, before, width)
    if kind != "banks":
        raise tc.RequestError(
            f"draw: kind {kind!r} is of a plan: a layout alone says who owns what, or which bank, not who moves it"
        )
    if owned or "TLane" in {axis.name for axis in layout.axes}:
        raise tc.RequestError(f"draw: x is not of memory, so it has no banks: {shown(x)}")
    if region is None:
        size = 16 >> layout.swizzle.per_element if layout.swizzle is not None and layout.swizzle.per_element <= 4 else 4
        tile = Tile("layout", layout, shape, (0,) * len(shape), shape, size)
    else:
        starts = tuple(start for start in region.starts if isinstance(start, int))
        if len(starts) < len(region.starts) or region.buffer.placed_by():
            raise tc.RequestError(
                f"draw: {region} lies at a place known at run time only; give it as a number, or draw a plan"
            )
        tile = Tile(region.buffer.name, layout, shape, starts, region.extents, max(1, region.buffer.dtype.bits // 8))
    title, page, data = draw_layout(tile, before, part, width)
    return _picture(kind, title, page, data)


def data_of(movement: Movement) -> dict[str, Any]:
    """What a copy did, as plain data: its instructions, each access of a thread, and where each element went."""
    request = movement.request
    found: dict[str, Any] = {
        "copy": str(request),
        "variant": movement.variant,
        "values": movement.values,
        "instructions": [{"line": step.line, "opcode": step.opcode} for step in movement.steps],
        "ptx": movement.ptx,
    }
    for side in (movement.source, movement.destination):
        touched = side.touched
        found[side.name] = {
            "space": side.space,
            "name": side.label,
            "accesses": {
                "instruction": touched.step.tolist(), "line": touched.line.tolist(), "thread": touched.thread.tolist(),
                "cta": touched.cta.tolist(), "byte": touched.offset.tolist(), "bytes": touched.size.tolist(), "read": touched.read.tolist(),
            },
            "element_bytes": side.elements.tolist(),
        }  # fmt: skip
        if len(touched) and not movement.by_engine and side.space in ("global", "shared"):
            count, names = (sectors_of, "sectors") if side.space == "global" else (wavefronts_of, "wavefronts")
            found[side.name] |= dict(zip(("requests", names, "least"), count(touched), strict=True))
    if "local" in request.spaces:
        threads, registers, _ = registers_of(movement)
        return found | {"registers": {"thread": threads.tolist(), "register": registers.tolist()}}
    there = movement.destination.elements
    came = np.where(there >= 0, movement.arrived[np.maximum(there, 0)], -1)
    return found | {"came_from": np.where(came >= 0, came // movement.size, -1).tolist()}
