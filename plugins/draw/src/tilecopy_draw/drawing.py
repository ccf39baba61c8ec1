"""The one function: a layout, region, plan or fragment becomes a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import tilecopy as tc

from tilecopy_core.errors import one_of, optional, shown

from .banks import draw_banks, draw_layout
from .counts import counts_of
from .engines import draw_boxes
from .fragments import TENSOR_AXES, draw_fragment, draw_tensor, load_of
from .grids import registers_of
from .moves import draw_moves
from .page import Sheet
from .part import Part, TooLargeError
from .picture import Picture
from .running import TOLD, Movement, run_copy

Sheets = Callable[[Part], Iterator[Sheet]]
"""Makes the pictures of a part, the best first; TooLargeError after the last."""
KINDS = ("moves", "banks", "fragment", "boxes")
LEAST_WIDTH, MOST_WIDTH = 480, 4096
MOST_ELEMENTS = 1 << 20
"""Of a layout that is drawn by itself."""
_ELEMENTS = {0: "complex128", 1: "uint64", 3: "uint16", 4: "uint8"}
"""By the ``per_element`` of a swizzle."""


def draw(
    x: Any, kind: str | None = None, *, part: str | None = None, before: tc.TileLayout | None = None, width: int = 960
) -> Picture:
    """Draw a copy, a region, a buffer or a layout.

    Args:
        x: a :class:`tilecopy.Plan`; a region, buffer or layout of memory, whose banks are drawn, or of registers or tensor memory,
            where each element's place is. A layout alone is taken as of elements of 4 bytes, or of those that its swizzle is for.
        kind: ``moves`` (who moves each element, in which vector), ``banks`` (of shared memory, with the conflicts of each phase),
            ``fragment`` (which thread and register, or lane and column of tensor memory, holds each element), ``boxes`` (what an
            engine moves); by default what fits.
        part: what to draw of it: ``"instruction 2"``, ``"warp 1"``, ``"phase 0"``, ``"thread 5"``, ``"rows 0:32"``, ``"columns 0:64"``, with
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
    region = _region_of(x)
    if not region.size:
        raise tc.RequestError(f"draw: x must have elements, got {region}")
    if region.size > MOST_ELEMENTS:
        raise tc.RequestError(
            f"draw: x has {region.size} elements; at most {MOST_ELEMENTS} are drawn. Draw a region of it, not {shown(x)}"
        )
    axes = {axis.name for axis in region.buffer.layout.axes}
    fitting = "banks" if axes <= {"m"} else "fragment"
    kind = kind or fitting
    if region.buffer.dtype.bits % 8:
        raise tc.RequestError(
            f"draw: two elements of x share a byte, and pictures are of whole bytes; draw its view(dtype='uint8'), not {shown(x)}"
        )
    if kind == "fragment" and not (region.buffer.space == "tmem" and axes <= TENSOR_AXES):
        return _of_plan(load_of(region.buffer), kind, wanted, before, width)
    if kind not in ("banks", "fragment"):
        raise tc.RequestError(
            f"draw: kind {kind!r} is of a plan: a layout alone says who owns what, or which bank, not who moves it; draw kind {fitting!r}"
        )
    if kind == "banks" != fitting:
        raise tc.RequestError(f"draw: x is not of memory, so it has no banks; draw kind {fitting!r}: {shown(x)}")
    if not all(isinstance(start, int) for start in region.starts) or region.buffer.placed_by():
        raise tc.RequestError(
            f"draw: {region} lies at a place known at run time only; give it as a number, or draw a plan"
        )
    sheets: Sheets = partial(draw_layout, region, before=before) if kind == "banks" else partial(draw_tensor, region)
    return _picture(kind, sheets, wanted, before, width, {})


def _of_plan(plan: tc.Plan, kind: str | None, part: Part, before: tc.TileLayout | None, width: int) -> Picture:
    movement = run_copy(plan)
    kind = kind or ("boxes" if movement.by_engine else "moves")
    makers: dict[str, Sheets] = {
        "moves": partial(draw_moves, movement),
        "banks": partial(draw_banks, movement, before=before),
        "fragment": partial(draw_fragment, movement),
        "boxes": partial(draw_boxes, movement),
    }
    return _picture(kind, makers[kind], part, before, width, data_of(movement))


def _picture(
    kind: str, sheets: Sheets, part: Part, before: tc.TileLayout | None, width: int, data: dict[str, Any]
) -> Picture:
    """The first sheet that fits; where none does, the error names parts that do."""
    if before is not None and kind != "banks":
        raise tc.RequestError(f"draw: before is of kind 'banks', not of {kind!r}")
    try:
        sheet, svg = _first_fitting(sheets, part, width)
    except TooLargeError as error:
        fitting = [next((text for text in group if _fits(sheets, text, width)), None) for group in error.parts]
        notes = [f" ({error.there})" * bool(error.there)] + [""] * len(fitting)
        suggestions = [f"part={text!r}{note}" for text, note in zip(fitting, notes, strict=False) if text]
        parts = f"a part of it: {' or '.join(suggestions)}" if suggestions else "a smaller copy"
        raise tc.RequestError(f"draw: {error.what}, too many to be read on one page; draw {parts}") from None
    return Picture(sheet.title, kind, svg, {"kind": kind, "title": sheet.title, **data, **sheet.data})


def _first_fitting(sheets: Sheets, part: Part, width: int) -> tuple[Sheet, str]:
    """Return the first sheet that fits, and its text; TooLargeError where none does."""
    return next((sheet, svg) for sheet in sheets(part) if (svg := sheet.svg(width)) is not None)


def _fits(sheets: Sheets, part: str, width: int) -> bool:
    """Return True if a page holds a part."""
    try:
        return bool(_first_fitting(sheets, Part.read(part), width))
    except (tc.RequestError, TooLargeError):  # it names nothing that is there, or too much
        return False


def _owned(layout: tc.TileLayout) -> bool:
    """Whether threads hold the elements."""
    return any(axis.name not in ("m", *TENSOR_AXES) for axis in layout.axes)


def _region_of(x: Any) -> Any:
    """The region, or that of a buffer, or of a layout alone with elements of 4 bytes, or of those that its swizzle is for."""
    if isinstance(x, tc.TileLayout):
        shape, each = tuple(it.extent for it in x.shard), x.swizzle.per_element if x.swizzle is not None else 2
        if _owned(x):
            return tc.Buffer(shape, "float32", space="local", layout=x, name="fragment")[...]
        space = "tmem" if TENSOR_AXES & {axis.name for axis in x.axes} else "global"
        return tc.Buffer(shape, _ELEMENTS.get(each, "uint32"), space=space, layout=x, name="layout")[...]
    region = x[...] if isinstance(x, tc.Buffer) else x
    if not isinstance(region, tc.Region) or not isinstance(region.buffer.layout, tc.TileLayout):
        raise tc.RequestError(f"draw: x is a plan, a region, a buffer or a layout with fixed extents, not {shown(x)}")
    return region


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
    for side in movement.sides:
        found[side.name] = {
            "space": side.space,
            "name": side.label,
            "accesses": {name: side.touched[name].tolist() for name in TOLD},
            "element_bytes": side.elements.tolist(),
        }
        if side.by_threads:
            found[side.name] |= counts_of(side)
        if side.space == "local":
            threads, registers, _ = registers_of(movement, side)
            found["registers"] = {"thread": threads.tolist(), "register": registers.tolist()}
            found[side.name]["registers"] = found["registers"]
    return found | {"came_from": movement.came_from.tolist()}
