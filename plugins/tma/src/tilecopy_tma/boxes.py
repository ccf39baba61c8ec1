"""The partition of a copy into boxes of a tensor map. One tensor copy instruction copies each box."""

from __future__ import annotations

from bisect import insort
from collections import deque
from math import gcd, prod

import attrs

from tilecopy_core.plugin import (
    Accept,
    Buffer,
    CopyRequest,
    Decline,
    Int,
    Iter,
    Region,
    Swizzle,
    TileLayout,
    bounds_of,
    divisor_of,
    frozen,
    is_multiple,
    m,
    structural_equal,
    substitute,
    symbols_of,
)
from tilecopy_partitions import ChunkPartition, Side, TensorMap, VectorPartition, partition_chunks

DEMOTED_PRIORITY = 5
"""The priority of a copy that as few bulk copies move; theirs is 10."""
ALIGN_BYTES = 16
"""Strides, innermost starts and the global address are multiples of this (CUDA driver API, cuTensorMapEncodeTiled)."""
SHARED_ALIGN_BYTES = 128
"""What a box's place in shared memory is a multiple of (CUDA programming guide, tensor copies)."""
MOST_ELEMENT_BYTES = 8
MOST_DIMENSIONS = 5
MOST_BOX = 256
MOST_EXTENT = 2**31 - 1
"""cuda.h has 2**32 in CUDA 13.0 and 2**31 in 13.5; an element's coordinate is a signed integer of 32 bits (PTX ISA)."""
STRIDE_LIMIT_BYTES = 2**40
MODES = {(4, 1, 3): "32B", (4, 2, 3): "64B", (4, 3, 3): "128B", (5, 2, 2): "128B_atom_32B", (6, 1, 1): "128B_atom_64B"}
"""(M, B, S) of a swizzle of bytes -> the hardware's mode (PTX ISA, swizzling modes)."""
SPAN_BYTES = {"none": 0, "32B": 32, "64B": 64, "128B": 128, "128B_atom_32B": 128, "128B_atom_64B": 128}
"""Bytes of a row of a swizzled box; its rows lie so far apart, even where they are narrower."""


@frozen
class DimensionPiece:
    """A frozen record of one dimension of a box: ``extent`` elements along the global region's dimension ``dim``.

    Their coordinates are ``unit`` apart. In shared memory, before the swizzle, they are ``shared`` elements apart.
    """

    dim: int
    extent: int
    unit: int
    shared: int


@frozen
class MapDimension:
    """A frozen record of a tensor map dimension: every ``unit``-th coordinate of the region's dimension ``dim``."""

    dim: int
    unit: int
    box: int


@frozen
class BoxPartition:
    """A frozen record of a partition into boxes of a tensor map. There is one tensor copy per box.

    Attributes:
        map: what the launch encodes.
        starts: coordinates of the first box, innermost first.
        steps: of each coordinate, what the boxes add to it, in the order of the boxes.
        rounds: the boxes in shared memory, as ``[boxes, 1, elements of a box]``.
        box_bytes: bytes that a box completes, wherever it lies.
    """

    map: TensorMap
    starts: tuple[Int, ...] = attrs.field(eq=False)
    steps: tuple[TileLayout, ...]
    rounds: VectorPartition
    box_bytes: int

    @property
    def instructions_per_thread(self) -> int:
        """The number of tensor copies that one thread issues."""
        return self.rounds.outer

    def coordinates(self, turn: Int) -> list[Int]:
        """Return the coordinates of a box, innermost first."""
        return [start + layout.along(m, turn) for start, layout in zip(self.starts, self.steps, strict=True)]

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        box = " x ".join(map(str, reversed(self.map.box)))
        swizzled = "" if self.map.swizzle == "none" else f", swizzle {self.map.swizzle}"
        copies = "1 tensor copy" if self.rounds.outer == 1 else f"{self.rounds.outer} tensor copies"
        return f"{copies} of a box of {box} ({self.box_bytes} bytes{swizzled})"


def partition_boxes(request: CopyRequest, tile: Region, array: Region) -> BoxPartition | Decline:
    """Return the partition of a copy into boxes. The copy is between a shared tile and a region of a global array."""
    size = array.buffer.dtype.bytes
    if size > MOST_ELEMENT_BYTES:
        return Decline(f"tensor map elements must have 1, 2, 4 or 8 bytes, got {size} bytes ({array.buffer.dtype})")
    layout = tile.sliced_layout()
    if layout is None or layout.axes not in ((m,), ()):
        return Decline(f"{tile} must not split an extent of its layout, got {tile.buffer.layout}")
    strides = strides_of(array.buffer)
    if strides is None:
        return Decline(
            f"the layout of {array.buffer.name} must have one stride per dimension and no offset for a tensor map, got {array.buffer.layout}"
        )
    mode = mode_of(layout.swizzle, size)
    if mode is None:
        return Decline(
            f"the swizzle of {tile.buffer.name} must be a mode of tensor copies (32B, 64B or 128B), got {layout.swizzle}"
        )
    if "atom" in mode and not request.target.has("swizzle_atoms"):
        return Decline(
            f"the target must be sm_100 or newer for the swizzle {mode} of {tile.buffer.name}, got {request.target}"
        )
    pieces = pieces_of(layout.unswizzled, array)
    if isinstance(pieces, Decline):
        return pieces
    return _of_pieces(request, tile, array, layout, pieces, strides, mode)


def accept_with_priority(request: CopyRequest, tile: Region, array: Region) -> Accept:
    """Return Accept. The priority is lower if bulk copies need no more instructions, because bulk copies are faster."""
    if request.may_exceed_bounds or request.options.get("multicast") is not None or not _may_be_contiguous(array):
        return Accept()
    chunks = partition_chunks(request)
    if isinstance(chunks, ChunkPartition) and (chunks.rounds.outer == 1 or chunks.rounds.vec > MOST_BOX):
        # several chunks that fit a box each are never fewer than the boxes, which need not be found for them
        boxes = partition_boxes(request, tile, array)
        if isinstance(boxes, BoxPartition) and chunks.rounds.outer <= boxes.rounds.outer:
            return Accept(DEMOTED_PRIORITY)
    return Accept()


def _may_be_contiguous(array: Region) -> bool:
    """Return whether a region may be contiguous, or contiguous over more than a box; a cheap test before partitioning."""
    sides = [pair for pair in zip(array.extents, array.buffer.shape, strict=True) if pair[0] > 1]
    return len(sides) < 2 or any(extent > MOST_BOX or structural_equal(extent, size) for extent, size in sides)


def strides_of(array: Buffer) -> tuple[Int, ...] | None:
    """Return an array's element strides. Return None if it has an offset, a swizzle or several strides in a dimension.

    A dimension of extent 1 that the layout does not name continues the next one, as in row-major order.
    """
    layout = array.layout
    if not isinstance(layout, TileLayout):
        return getattr(layout, "strides", None)
    plain = layout.axes in ((m,), ()) and not layout.replica and not layout.swizzle
    if not plain or not structural_equal(layout.offset_on(m), 0):
        return None
    if array.shape == tuple(it.extent for it in layout.shard):
        return layout.strides
    parts = layout.by_dimension(array.shape)
    if any(len(part) > 1 for part in parts):
        return None
    strides = deque[Int]()
    step: Int = 1
    for extent, part in zip(reversed(array.shape), reversed(parts), strict=True):
        strides.appendleft(part[0].stride if part else step)
        step = strides[0] * extent
    return tuple(strides)


def mode_of(swizzle: Swizzle | None, size: int) -> str | None:
    """Return the name of the tensor map's swizzle mode for a layout's swizzle. Return None if there is no such mode."""
    if swizzle is None:
        return "none"
    shift = size.bit_length() - 1
    return MODES.get((swizzle.per_element + shift, swizzle.swizzle_len, swizzle.atom_len))


def pieces_of(layout: TileLayout, array: Region) -> list[DimensionPiece] | Decline:
    """Return the tile's iters sorted by stride in shared memory. Each iter names its dimension of the array."""
    dims = [dim for dim, extent in enumerate(array.extents) if extent > 1]
    try:
        grouped, separators = layout.group([array.extents[dim] for dim in dims])
    except ValueError:
        return Decline(f"the layout {layout} of the tile must split into the dimensions of {array}")
    pieces = []
    for place, dim in enumerate(dims):
        unit = 1
        for it in reversed(grouped.shard[separators[place] : separators[place + 1]]):
            if not isinstance(it.stride, int):
                return Decline(f"the strides of the tile must be known when the kernel is built, got {it.stride}")
            if it.extent > 1:
                pieces.append(DimensionPiece(dim, it.extent, unit, it.stride))
            unit *= it.extent
    return sorted(pieces, key=lambda piece: piece.shared)


def _of_pieces(
    request: CopyRequest,
    tile: Region,
    array: Region,
    layout: TileLayout,
    pieces: list[DimensionPiece],
    strides: tuple[Int, ...],
    mode: str,
) -> BoxPartition | Decline:
    size = array.buffer.dtype.bytes
    overhangs = [request.may_exceed_bounds and any(array.exceeds(dim)) for dim in range(len(array.starts))]
    if not pieces or pieces[0].shared != 1 or pieces[0].unit != 1 or not structural_equal(strides[pieces[0].dim], 1):
        return Decline(f"{array} and {tile} must be contiguous along the same dimension")
    axes, boxes, steps = list[MapDimension](), list[DimensionPiece](), list[DimensionPiece]()
    fixed = [
        dim
        for dim in range(len(array.starts))
        if array.extents[dim] == 1 and (overhangs[dim] or not structural_equal(array.starts[dim], 0))
    ]
    others = {piece.dim for piece in pieces} - {pieces[0].dim}
    room = MOST_DIMENSIONS - 1 - len(fixed) - len(others)
    if room < 0:
        return Decline(
            f"{array} must fit in the {MOST_DIMENSIONS} dimensions of a tensor map, but needs {MOST_DIMENSIONS - room} dimensions"
        )
    span = SPAN_BYTES[mode] // size
    pitch, open_ = 1, True
    remaining = deque(pieces)
    while remaining:
        piece, number = remaining.popleft(), len(axes)
        most = min(MOST_BOX, span) if number == 0 and span else MOST_BOX
        box_extent = 0
        if open_ and piece.shared == pitch and (piece.unit == 1 or (room > 0 and not overhangs[piece.dim])):
            box_extent = _extent(piece, most, SHARED_ALIGN_BYTES // gcd(SHARED_ALIGN_BYTES, piece.shared * size))
        if not box_extent or (number and box_extent == 1):
            open_ = False
            steps.append(piece)
            continue
        room -= piece.unit > 1
        axes.append(MapDimension(piece.dim, piece.unit, box_extent))
        boxes.append(attrs.evolve(piece, extent=box_extent))
        pitch = max(span, box_extent) if number == 0 else pitch * box_extent
        if box_extent < piece.extent:  # the rest of it may be a dimension of its own
            remainder = DimensionPiece(
                piece.dim, piece.extent // box_extent, piece.unit * box_extent, piece.shared * box_extent
            )
            insort(remaining, remainder, key=lambda piece: piece.shared)
    carried = {(axis.dim, axis.unit) for axis in axes}
    axes += [MapDimension(dim, 1, 1) for dim in [*sorted(others), *fixed] if (dim, 1) not in carried]
    why = why_too_large(array, axes, strides)
    if why := why or why_misaligned(tile, array, layout, pieces, steps, axes, strides, mode):
        return Decline(why)
    sizes = tuple(array.buffer.shape[axis.dim] if axis.unit == 1 else axis.box for axis in axes)
    strides_bytes = tuple(strides[axis.dim] * axis.unit * size for axis in axes[1:])
    tensor = TensorMap(array.buffer, sizes, strides_bytes, tuple(axis.box for axis in axes), swizzle=mode)
    iters = [Iter(piece.extent, piece.shared) for piece in reversed([*boxes, *steps])]
    elems, count = prod(piece.extent for piece in boxes), prod(piece.extent for piece in steps)
    along = [
        TileLayout.of([Iter(p.extent, p.unit if (p.dim, 1) == (a.dim, a.unit) else 0) for p in reversed(steps)])
        for a in axes
    ]
    starts = tuple(array.starts[axis.dim] if axis.unit == 1 else 0 for axis in axes)
    side = Side(tile, layout.unswizzled.with_iters(iters))
    rounds = VectorPartition(count, 1, elems, elems * size * 8, side, side)
    return BoxPartition(tensor, starts, tuple(along), rounds, elems * size)


def _extent(piece: DimensionPiece, most: int, aligned: int) -> int:
    """Return the largest divisor of a piece's extent for a box, preferably one whose multiples are aligned in shared memory."""
    if piece.extent <= most:
        return piece.extent
    counts = [count for count in range(most, 0, -1) if piece.extent % count == 0]
    return next((count for count in counts if count % aligned == 0), counts[0])


def why_too_large(array: Region, axes: list[MapDimension], strides: tuple[Int, ...]) -> str | None:
    """Return the reason if every launch exceeds a tensor map's limit on extents or strides. Return None otherwise."""
    for axis in axes:
        extent, step = array.buffer.shape[axis.dim], strides[axis.dim] * (axis.unit * array.buffer.dtype.bytes)
        least, most = bounds_of(extent)
        if (least or 0) > MOST_EXTENT or most == 0:
            return f"{array}: dimension {axis.dim} must have 1 to 2**31 - 1 elements for a tensor map, got {least or 0}"
        if (least := bounds_of(step)[0] or 0) < 0:
            return f"{array}: the stride of dimension {axis.dim} must be at least 0 for a tensor map, got {least} bytes"
        if least >= STRIDE_LIMIT_BYTES:
            return f"{array}: the stride of dimension {axis.dim} must be less than 2**40 bytes for a tensor map, got {least} bytes"
    return None


def why_misaligned(
    tile: Region,
    array: Region,
    layout: TileLayout,
    pieces: list[DimensionPiece],
    steps: list[DimensionPiece],
    axes: list[MapDimension],
    strides: tuple[Int, ...],
    mode: str,
) -> str | None:
    """Return why an address, stride, start or row is misaligned for tensor copies. Return None if all are aligned."""
    size, inner = array.buffer.dtype.bytes, array.starts[axes[0].dim]
    repeat = max(SHARED_ALIGN_BYTES, 8 * SPAN_BYTES[mode])
    stepped = next((piece for piece in steps if piece.shared * size % SHARED_ALIGN_BYTES), None)
    why_innermost = why_row(tile, array, pieces, mode) if axes[0].box * size % ALIGN_BYTES else None
    rules: list[tuple[str, Int, int]] = [
        (f"{array}: the innermost start", inner * size, ALIGN_BYTES),
        *(
            (f"{array}: the stride of dimension {a.dim}", strides[a.dim] * (a.unit * size), ALIGN_BYTES)
            for a in (() if why_innermost else axes[1:])
        ),
        (f"{array.buffer.name}: the address", array.buffer.align_bytes, ALIGN_BYTES),
        (f"{array.buffer.name}: its storage offset", array.buffer.storage_offset * size, ALIGN_BYTES),
        (f"{tile.buffer.name}: the address", tile.buffer.align_bytes, repeat),
        (f"{tile.buffer.name}: its storage offset", tile.buffer.storage_offset * size, repeat),
        (f"{tile}: the start", layout.offset_on(m) * size, SHARED_ALIGN_BYTES),
    ]
    for what, value, needed in rules:
        if not is_multiple(value, needed):
            return f"{what} must be a multiple of {needed} bytes for a tensor copy, got {in_bytes(value)}{how_declared(value, needed)}"
    if why_innermost is not None:
        return why_innermost
    if stepped is not None:
        return why_apart(tile, array, pieces, stepped, mode)
    for piece in steps:
        if piece.dim == axes[0].dim and piece.unit * size % ALIGN_BYTES:
            return f"{array}: the step between boxes in the innermost dimension must be a multiple of {ALIGN_BYTES} bytes, got {piece.unit * size} bytes"
    return None


def in_bytes(value: Int) -> str:
    """Return a phrase for a number of bytes, such as ``48 bytes`` or ``a multiple of 8 bytes``."""
    return f"{value} bytes" if isinstance(value, int) else f"a multiple of {divisor_of(value)} bytes"


def how_declared(value: Int, needed: int) -> str:
    """Return advice to declare a scalar with ``multiple_of=`` so that ``value`` is aligned. Return "" if none helps."""
    for symbol in sorted(symbols_of(value), key=lambda each: each.name):
        multiple = symbol.multiple_of * (needed // gcd(needed, divisor_of(value)))
        declared = (substitute(value, {symbol: number}) for number in (0, multiple, 3 * multiple))
        if not symbol.register and all(is_multiple(number, needed) for number in declared):
            return f": declare {symbol.name} with multiple_of={multiple}"
    return ""


def why_row(tile: Region, array: Region, pieces: list[DimensionPiece], mode: str) -> str:
    """Return an error message for a tile whose rows do not fit the rows of boxes."""
    name, size, span = tile.buffer.name, array.buffer.dtype.bytes, SPAN_BYTES[mode]
    extent, dim = pieces[0].extent, pieces[0].dim
    row = f"rows of {name} have {extent * size} bytes"
    if extent != array.extents[dim]:
        row = f"contiguous parts of {array.buffer.name} rows in {name} have {extent * size} bytes"
    if span and extent * size % span:
        return f"{row}; the {mode} swizzle needs a multiple of {span} bytes"
    if extent * size % ALIGN_BYTES:
        return f"{row}; a tensor copy needs a multiple of {ALIGN_BYTES} bytes"
    return why_divided(array, dim, extent, f"but a row of a box must be a multiple of {ALIGN_BYTES} bytes")


def why_apart(tile: Region, array: Region, pieces: list[DimensionPiece], step: DimensionPiece, mode: str) -> str:
    """Return an error message for boxes that begin at misaligned addresses in shared memory."""
    name, size, span = tile.buffer.name, array.buffer.dtype.bytes, SPAN_BYTES[mode]
    row_bytes, extent = pieces[0].extent * size, array.extents[step.dim]
    apart = f"boxes must begin at multiples of {SHARED_ALIGN_BYTES} bytes of shared memory, got a step of {step.shared * size} bytes between boxes"
    if span and row_bytes % span:
        return why_row(tile, array, pieces, mode)
    if span and row_bytes > span:
        return f"{apart} (rows of {name} have {row_bytes} bytes, but rows of a box with the {mode} swizzle have {span} bytes): give {name} rows of {span} bytes"
    if extent > MOST_BOX:
        return why_divided(array, step.dim, extent, f"but {apart}")
    return f"{apart} ({name} has gaps along dimension {step.dim} of {array}): remove the gaps"


def why_divided(array: Region, dim: int, extent: int, consequence: str) -> str:
    """Return an error message for a dimension that has no suitable divisor up to ``MOST_BOX`` elements."""
    divisor = next(count for count in range(MOST_BOX, 0, -1) if extent % count == 0)
    whole = extent // MOST_BOX * MOST_BOX
    return (
        f"the {extent} elements of dimension {dim} of {array} divide into equal boxes of at most {divisor} elements (hardware limit "
        f"{MOST_BOX}), {consequence}: use two copies, of {whole} and of {extent - whole} elements"
    )


def never_negative(region: Region) -> str | None:
    """Return an error message for a store that may begin at a negative coordinate. Return None for other stores."""
    for dim, start in enumerate(region.starts):
        lower = bounds_of(start)[0]
        if (lower is None or lower < 0) and region.exceeds(dim)[0]:
            return f"{region}: a tensor store must not begin at a negative coordinate, but the coordinate in dimension {dim} may be negative (PTX ISA 9.7.9.27.1.1)"
    return None
