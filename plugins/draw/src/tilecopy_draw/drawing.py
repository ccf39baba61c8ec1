"""Draw a plan, a region, a buffer or a layout with :func:`draw`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import tilecopy as tc

from tilecopy_core.errors import Validator, instance_of, integer_in, one_of, optional, short_repr

from .access_view import draw_moves
from .banks import draw_banks, draw_layout
from .bulk import draw_bulk
from .counts import counts_of
from .fragments import TENSOR_AXES, draw_fragment, draw_tensor, load_of
from .grids import registers_of
from .picture import Picture
from .selection import Selection, TooLargeError
from .svg import Figure
from .trace import TOLD, CopyTrace, run_copy

FigureMaker = Callable[[Selection], Iterator[Figure]]
"""A function that yields the figures of a selection, the best first, and then raises TooLargeError."""
KINDS = ("moves", "banks", "fragment", "bulk")
LEAST_WIDTH, MOST_WIDTH = 480, 4096
WIDTH = Validator(f"from {LEAST_WIDTH} to {MOST_WIDTH} pixels", integer_in(LEAST_WIDTH, MOST_WIDTH).fits)
MOST_ELEMENTS = 1 << 20
"""The most elements of a region, buffer or layout that is drawn without a plan."""
_ELEMENTS = {0: "complex128", 1: "uint64", 3: "uint16", 4: "uint8"}
"""The ``per_element`` of a swizzle -> the dtype that it is for."""


def draw(
    x: Any,
    kind: str | None = None,
    *,
    select: str | None = None,
    compare_with: tc.TileLayout | None = None,
    width: int = 960,
) -> Picture:
    """Draw a copy, a region, a buffer or a layout.

    Args:
        x: a :class:`tilecopy.Plan`, or a region, buffer or layout. Of memory, the banks are drawn; of registers or tensor memory,
            the place of each element. A layout alone has elements of 4 bytes, or of the size that its swizzle is for.
        kind: ``moves`` (which thread moves each element, in which vector), ``banks`` (of shared memory, with the conflicts of
            each phase), ``fragment`` (which thread and register, or lane and column of tensor memory, holds each element),
            ``bulk`` (what a bulk or tensor copy moves). Default: the kind that fits.
        select: the part to draw: ``"instruction 2"``, ``"warp 1"``, ``"phase 0"``, ``"thread 5"``, ``"rows 0:32"``,
            ``"columns 0:64"``, or several of them, separated by commas.
        compare_with: for ``banks``, another layout of the shared buffer to draw beside. Default: the one without the swizzle.
        width: the width of the picture in pixels.

    Returns:
        The picture. Starts and sizes that are known only at run time have their minimum values, and the picture shows them.

    Raises:
        RequestError: the kind or selection does not exist, or the picture is too large for a page; the message names selections that fit.
        TilecopyError: dispatch or the emulator rejects the copy.
    """
    optional(one_of(*KINDS)).check(kind, "draw", "kind")
    width = WIDTH.check(width, "draw", "width")
    if compare_with is not None:
        instance_of("a layout", tc.TileLayout).check(compare_with, "draw", "compare_with")
    selection = Selection.read(select)
    kind, figures, data = (_of_plan if isinstance(x, tc.Plan) else _of_memory)(x, kind, compare_with)
    if compare_with is not None and kind != "banks":
        raise tc.RequestError(f"draw: compare_with needs kind 'banks', got kind {kind!r}")
    try:
        figure, svg = _first_fitting(figures, selection, width)
    except TooLargeError as error:
        fitting = [next((text for text in group if _fits(figures, text, width)), None) for group in error.parts]
        notes = [f" ({error.count_note})" * bool(error.count_note)] + [""] * len(fitting)
        suggestions = [f"select={text!r}{note}" for text, note in zip(fitting, notes, strict=False) if text]
        parts = f"a part: {' or '.join(suggestions)}" if suggestions else "a smaller copy"
        raise tc.RequestError(f"draw: a picture of {error.what} does not fit on one page: draw {parts}") from None
    return Picture(figure.title, kind, svg, {"kind": kind, "title": figure.title, **data, **figure.data})


def _of_memory(x: Any, kind: str | None, compare_with: tc.TileLayout | None) -> tuple[str, FigureMaker, dict[str, Any]]:
    """Return the kind, the figures and the data of a picture of a region, a buffer or a layout."""
    region = _region_of(x)
    if not region.size:
        raise tc.RequestError(f"draw: x must have at least one element, got {region}")
    if region.size > MOST_ELEMENTS:
        raise tc.RequestError(
            f"draw: x must have at most {MOST_ELEMENTS} elements, got {region.size}: draw a region of {short_repr(x)}"
        )
    axes = {axis.name for axis in region.buffer.layout.axes}
    fitting = "banks" if axes <= {"m"} else "fragment"
    kind = kind or fitting
    if region.buffer.dtype.bits % 8:
        raise tc.RequestError(
            f"draw: elements of x must have at least 8 bits, got {short_repr(x)}: draw its view(dtype='uint8')"
        )
    if kind == "fragment" and not (region.buffer.space == "tmem" and axes <= TENSOR_AXES):
        return _of_plan(load_of(region.buffer), kind, compare_with)
    if kind not in ("banks", "fragment"):
        raise tc.RequestError(
            f"draw: kind {kind!r} needs a plan, because a layout has no threads that move its elements: use kind {fitting!r}"
        )
    if kind == "banks" != fitting:
        raise tc.RequestError(f"draw: kind 'banks' needs a layout of memory, got {short_repr(x)}: use kind {fitting!r}")
    if not all(isinstance(start, int) for start in region.starts) or region.buffer.placed_by():
        raise tc.RequestError(
            f"draw: the start of {region} must be a constant, but it is known only at run time: draw a plan"
        )
    if kind == "banks":
        return kind, partial(draw_layout, region, compare_with=compare_with), {}
    return kind, partial(draw_tensor, region), {}


def _of_plan(
    plan: tc.Plan, kind: str | None, compare_with: tc.TileLayout | None
) -> tuple[str, FigureMaker, dict[str, Any]]:
    """Return the kind, the figures and the data of a picture of a plan's copy."""
    trace = run_copy(plan)
    kind = kind or ("bulk" if trace.by_engine else "moves")
    makers: dict[str, FigureMaker] = {
        "moves": partial(draw_moves, trace),
        "banks": partial(draw_banks, trace, compare_with=compare_with),
        "fragment": partial(draw_fragment, trace),
        "bulk": partial(draw_bulk, trace),
    }
    return kind, makers[kind], data_of(trace)


def _first_fitting(figures: FigureMaker, selection: Selection, width: int) -> tuple[Figure, str]:
    """Return the first figure that fits, and its SVG text, or raise TooLargeError."""
    return next((figure, svg) for figure in figures(selection) if (svg := figure.svg(width)) is not None)


def _fits(figures: FigureMaker, selection: str, width: int) -> bool:
    """Return True if the picture of a selection fits on one page."""
    try:
        return bool(_first_fitting(figures, Selection.read(selection), width))
    except (tc.RequestError, TooLargeError):  # the selection is empty or too large
        return False


def _region_of(x: Any) -> Any:
    """Return a region, or the whole region of a buffer or of a layout; a layout has elements of its swizzle's size or 4 bytes."""
    if isinstance(x, tc.TileLayout):
        shape, per_element = tuple(it.extent for it in x.shard), x.swizzle.per_element if x.swizzle is not None else 2
        if any(axis.name not in ("m", *TENSOR_AXES) for axis in x.axes):  # threads own the elements
            return tc.Buffer(shape, "float32", space="local", layout=x, name="fragment")[...]
        space = "tmem" if TENSOR_AXES & {axis.name for axis in x.axes} else "global"
        return tc.Buffer(shape, _ELEMENTS.get(per_element, "uint32"), space=space, layout=x, name="layout")[...]
    region = x[...] if isinstance(x, tc.Buffer) else x
    if not isinstance(region, tc.Region) or not isinstance(region.buffer.layout, tc.TileLayout):
        raise tc.RequestError(
            f"draw: x must be a plan, a region, a buffer or a layout with fixed extents, got {short_repr(x)}"
        )
    return region


def data_of(trace: CopyTrace) -> dict[str, Any]:
    """Return the trace of a copy as plain data: instructions, accesses, and each destination element's source."""
    request = trace.request
    trace_data: dict[str, Any] = {
        "copy": str(request),
        "variant": trace.variant,
        "values": trace.values,
        "instructions": [{"line": step.line, "opcode": step.opcode} for step in trace.steps],
        "ptx": trace.ptx,
    }
    for side in trace.sides:
        trace_data[side.name] = {
            "space": side.space,
            "name": side.label,
            "accesses": {name: side.accesses[name].tolist() for name in TOLD},
            "element_bytes": side.elements.tolist(),
        }
        if side.by_threads:
            trace_data[side.name] |= counts_of(side)
        if side.space == "local":
            threads, registers, _ = registers_of(trace, side)
            trace_data["registers"] = {"thread": threads.tolist(), "register": registers.tolist()}
            trace_data[side.name]["registers"] = trace_data["registers"]
    return trace_data | {"source_of": trace.source_of.tolist()}
