"""Buffers (typed arrays in a memory space) and regions (boxes of buffers)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Literal

import attrs

from ..errors import LayoutError, RequestError, instance_of, integer_in, one_of, optional, short_repr
from ..errors.attrs_classes import frozen
from ..errors.lazy_regex import pattern
from ..integers.expr import INT, Expr, Int, add, bounds_of, divisor_of, key_of, plain, structural_equal, sub
from ..layout import StridedLayout, TCol, TileLayout, TLane, box, checked_extents, checked_order, m, row_major
from ..layout.boxes import leaving, surely_leaves
from ..layout.dtypes import DType, dtype_of
from ..layout.notation import row_major_layout
from .views import AnyLayout, check_begins_inside, rescale_layout, reshape_layout

SPACES = ("global", "shared", "local", "tmem")
"""Memory spaces: global and shared memory, registers, tensor memory."""
SPACE_ALIASES = {"gmem": "global", "smem": "shared", "reg": "local"}
"""Short names of memory spaces, which are accepted too."""

_IDENTIFIER = pattern(r"(?!WARP_SZ\Z)[A-Za-z][A-Za-z0-9_]{0,127}\Z")  # PTX predefines WARP_SZ (PTX ISA 4.4)


def symbolic(extents: Sequence[Int]) -> bool:
    """Return True if an extent is symbolic. A symbolic extent is known only at launch."""
    return Expr in map(type, extents)


def checked_shape(shape: Any, what: str, space: str) -> tuple[Any, ...]:
    """Check extents and return them as a tuple. Only extents in global memory may be 0 or symbolic."""
    values = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    least = 0 if space == "global" else 1
    if not symbolic(values):
        return checked_extents(values, what, least)
    if space != "global":
        raise LayoutError(f"{what}: extents in {space} memory must be known when the kernel is built, got {values}")
    for extent in (extent for extent in values if isinstance(extent, Expr)):
        lower, _ = bounds_of(extent)
        if lower is None or lower < 0:
            raise LayoutError(
                f"{what}: the extent {extent} must not be negative, got lower bound {lower}: declare a lower bound of at least 0"
            )
    return tuple(extent if isinstance(extent, Expr) else checked_extents(extent, what, least)[0] for extent in values)


def check_identifier(name: Any, what: str) -> str:
    """Return the name if it is a valid PTX identifier. Raises RequestError for any other name."""
    if not isinstance(name, str) or not _IDENTIFIER.match(name):
        raise RequestError(
            f"{what} must be an identifier (a letter, then at most 127 letters, digits and underscores; not WARP_SZ), "
            f"got {short_repr(name)}"
        )
    return name


@frozen(eq=False)
class Memory:
    """A frozen record of one allocation of memory in one kernel. All views of the allocation share the record.

    The layout and the element type are those of the declaration. Views must stay in the layout's span; the element type
    decides the width of registers. PTX and messages use the name.
    """

    name: str
    space: str
    layout: AnyLayout = attrs.field(repr=False)
    dtype: DType = attrs.field(repr=False)

    @property
    def span_bytes(self) -> int:
        """The size of the allocation in bytes. No view may exceed it. Raises LayoutError if the size is symbolic."""
        return -(-self.layout.span(m) * self.dtype.bits // 8)

    @property
    def word_bits(self) -> int:
        """The width of a register of local memory in bits: 64 for elements of 64 bits, else 32."""
        return 64 if self.dtype.bits == 64 else 32


_ALIGN = integer_in(1, 2**32)
_SPACE = one_of(*SPACES)
_MEMORY = optional(instance_of("the Memory of another buffer", Memory))


@frozen(init=False, repr=False)
class Buffer:
    """A typed array in one memory space.

    ``buffer[0:64, start:start+8]`` is a :class:`Region`; starts may be symbolic, extents may not. An extent may be 0, and
    a copy of such a region copies nothing. With ``outside=``, the region of a copy may overhang the shape at both ends: starts
    are coordinates, and ``-1`` is the one before the first. The spaces ``global``, ``shared`` and ``local`` can be written
    ``gmem``, ``smem`` and ``reg``.

    Attributes:
        shape: extents, in elements; those of a global buffer may be symbolic.
        dtype: element type.
        layout: place of each element, in elements from the buffer's first; row-major by default.
        memory: its allocation, whose name and space it has; views share it, two buffers of one name do not.
        align_bytes: the alignment of the allocation's address.
        storage_offset: the element of its allocation at which the buffer begins; alignment checks include it. 0 for registers.
        allocated_addr: for tensor memory, the shared word to which ``tcgen05.alloc`` writes the address.
    """

    shape: tuple[Any, ...] = attrs.field(eq=key_of)
    dtype: DType
    layout: AnyLayout
    memory: Memory
    align_bytes: int
    storage_offset: Int = attrs.field(eq=key_of)
    allocated_addr: Any
    name: str = attrs.field(eq=False)
    space: str = attrs.field(eq=False)
    _placed_by: tuple[Expr, ...] | None = attrs.field(init=False, default=None, eq=False)

    def __init__(
        self,
        shape: Sequence[Int] | Int,
        dtype: Any,
        *,
        space: str,
        layout: AnyLayout | None = None,
        name: str = "buffer",
        align_bytes: int | None = None,
        storage_offset: Int = 0,
        allocated_addr: Any = None,
        memory: Memory | None = None,
    ) -> None:
        where = f"buffer {check_identifier(name, 'buffer name')}"
        space = SPACE_ALIASES.get(space, space) if isinstance(space, str) else space
        _SPACE.check(space, where, "space")
        extents, element_type = checked_shape(shape, f"{where}, shape", space), dtype_of(dtype)
        if layout is None:
            strided = symbolic(extents) or 0 in extents
            layout = StridedLayout(extents, row_major(extents)) if strided else row_major_layout(extents)
        elif isinstance(layout, (TileLayout, StridedLayout)):
            layout.check_admits(extents, where)
            check_begins_inside(layout, where)
        else:
            raise LayoutError(f"{where}: layout must be a TileLayout or a SwizzledLayout, got {short_repr(layout)}")
        if align_bytes is None:  # 16 bytes are checked at launch; a swizzled buffer starts with a whole atom
            align_bytes = 16 if space == "global" else 1024 if layout.swizzle is not None else 128
        align_bytes, storage_offset = plain(align_bytes), plain(storage_offset)
        if not _ALIGN.fits(align_bytes) or align_bytes & (align_bytes - 1):
            raise RequestError(
                f"{where}: align_bytes must be a power of two up to 2**32, got {short_repr(align_bytes)}"
            )
        INT.check(storage_offset, where, "storage_offset")
        if space == "local" and not structural_equal(storage_offset, 0):
            raise LayoutError(
                f"{where}: storage_offset must be 0 for registers, got {storage_offset}: put the offset into the layout"
            )
        if memory is not None:
            _MEMORY.check(memory, where, "memory")
        if allocated_addr is not None:
            _HOLDER.check(allocated_addr, where, "allocated_addr")
        memory = memory or Memory(name, space, layout, element_type)
        self.__attrs_init__(
            extents,
            element_type,
            layout,
            memory,
            align_bytes,
            storage_offset,
            allocated_addr,
            memory.name,
            memory.space,
        )

    def __repr__(self) -> str:
        return f"{self.space} {self.name}: {self.dtype}{list(self.shape)}"

    def placed_by(self) -> tuple[Expr, ...]:
        """Return the symbolic integers in the layout's strides and offsets, and in the buffer's storage offset."""
        if self._placed_by is None:  # every copy of the buffer asks twice
            layout, steps = self.layout, [it.stride for it in self.layout.replica]
            parts = (*layout.strides, *steps, *layout.offset.values(), self.storage_offset)
            object.__setattr__(self, "_placed_by", tuple([value for value in parts if isinstance(value, Expr)]))
        return self._placed_by or ()

    def __getitem__(self, key: Any) -> Region:
        """Return a region for slices and integers (an extent of 1); missing dimensions, and those of ``...``, are whole."""
        parts = key if isinstance(key, tuple) else (key,)
        dots = [dim for dim, part in enumerate(parts) if part is Ellipsis]
        at = dots[0] if dots else len(parts)
        rest = parts[at + 1 :]
        parts = (*parts[:at], *[slice(None)] * (len(self.shape) - at - len(rest)), *rest)
        if len(parts) > len(self.shape):
            raise LayoutError(
                f"an index of {self.name} must have at most {len(self.shape)} dimensions, got {len(parts)}: {short_repr(key)}"
            )
        if len(dots) > 1:
            raise LayoutError(f"{self.name}: an index must have at most one '...', got {short_repr(key)}")
        try:
            starts, extents = box(self.shape, parts, overhang=True)
        except LayoutError as error:
            raise LayoutError(f"{self.name}{list(self.shape)}: {error}") from None
        return Region(self, starts, extents)

    def __iter__(self) -> Iterator[Region]:
        """Raise RequestError: iteration would never end, because ``buffer[i]`` may overhang."""
        raise RequestError(f"{self} is not iterable; use regions such as {self.name}[0:8]")

    def permute(self, *order: int) -> Buffer:
        """Return the buffer with its dimensions in another order: ``A.permute(1, 0)[i, j]`` is ``A[j, i]``.

        Raises LayoutError unless each dimension is named once and each iter of the layout belongs to one of them.
        """
        axes = order[0] if len(order) == 1 and isinstance(order[0], (tuple, list)) else order
        dims = checked_order(axes, len(self.shape), f"{self}, permute")
        try:
            layout = self.layout.reorder(self.shape, dims)
        except LayoutError as error:
            raise LayoutError(f"{self}, permute{dims}: {error}") from None
        return attrs.evolve(self, shape=[self.shape[dim] for dim in dims], layout=layout)

    @property
    def T(self) -> Buffer:
        """The transpose, ``permute(1, 0)``. Raises LayoutError if the buffer does not have two dimensions."""
        if len(self.shape) != 2:
            raise LayoutError(f"{self} must have two dimensions for .T, got {len(self.shape)}: use permute(...)")
        return self.permute(1, 0)

    def view(
        self, *, shape: Sequence[Int] | Int | None = None, layout: TileLayout | None = None, dtype: Any = None
    ) -> Buffer:
        """Return a view of the same bytes with another shape, layout or element type. All arguments are optional.

        Raises LayoutError if the view leaves the memory, needs more alignment than the memory has, or does not exist.

        Args:
            shape: extents; without a layout, the same number of elements in row-major order.
            layout: places in elements of the new type, from the buffer's start.
            dtype: element type. Without shape and layout, the last contiguous dimension gets more or fewer elements.
        """
        wanted = self.dtype if dtype is None else dtype_of(dtype)
        try:
            view = self._make_view(shape, layout, wanted)
            self._check_alignment(view)
            if layout is not None:
                self._check_inside(view)
        except LayoutError as error:
            raise LayoutError(f"{self}, view: {error}") from None
        return view

    def _make_view(self, shape: Any, layout: Any, dtype: DType) -> Buffer:
        bits = self.dtype.bits
        start = self.storage_offset
        if dtype.bits != bits:
            if divisor_of(start) * bits % dtype.bits:
                raise LayoutError(
                    f"the storage offset must be a whole number of {dtype} elements, got {start} {self.dtype} elements"
                )
            start = start * bits // dtype.bits
        if layout is not None and not isinstance(layout, TileLayout):
            raise LayoutError(f"layout must be a TileLayout or a SwizzledLayout, got {short_repr(layout)}")
        extents = None if shape is None else checked_shape(shape, "shape", self.space)
        if layout is None:
            layout, scaled = rescale_layout(self.layout, self.shape, bits, dtype.bits)
            extents = scaled if extents is None else extents
            if not structural_equal(extents, scaled):
                layout = reshape_layout(layout, scaled, extents)
        else:
            if extents is None:
                extents = self.shape
                if dtype.bits != bits and (symbolic(extents) or prod(extents) != layout.size):
                    extents = rescale_layout(self.layout, self.shape, bits, dtype.bits)[1]
            if symbolic(extents):
                raise LayoutError(f"a view with layout= must have a plain-integer shape, got {extents}: pass shape=")
            layout.check_admits(extents, "the new layout")
            check_begins_inside(layout, "the new layout")
        return attrs.evolve(self, shape=extents, dtype=dtype, layout=layout, storage_offset=start)

    def _check_alignment(self, view: Buffer) -> None:
        """Check that the memory has the alignment of the view's elements and swizzle, and registers of its width."""
        memory = self.memory
        if self.space == "local" and (view.dtype.bits == 64) != (memory.word_bits == 64):
            raise LayoutError(
                f"{view.dtype} needs registers of {64 if view.dtype.bits == 64 else 32} bits, but {memory.name} has "
                f"registers of {memory.word_bits} bits for {memory.dtype}; copy through shared memory"
            )
        if self.space not in ("global", "shared"):
            return
        needed, why = view.dtype.bytes, f"elements of {view.dtype}"
        swizzle, old_swizzle = view.layout.swizzle, self.layout.swizzle
        if swizzle is not None and swizzle != old_swizzle and self.space == "shared":
            period = swizzle.period_elems * view.dtype.bits // 8
            if old_swizzle is None or old_swizzle.period_elems * self.dtype.bits // 8 < period:
                needed, why = max(needed, period), f"the pattern of {swizzle}"
        if self.align_bytes % needed:
            raise LayoutError(
                f"{why} must be aligned to {needed} bytes, but {memory.name} is aligned to {self.align_bytes} bytes: declare "
                f"align_bytes={needed}"
            )

    def _check_inside(self, view: Buffer) -> None:
        memory = self.memory
        for axis in (TCol, TLane) if self.space == "tmem" else (m,):
            bits, memory_bits, unit = (1, 1, "lanes") if axis == TLane else (view.dtype.bits, memory.dtype.bits, "bits")
            used, available = view.layout.reach(axis) * bits, memory.layout.reach(axis) * memory_bits
            room, _ = bounds_of(sub(available, used))
            if room is None or room < 0:
                raise LayoutError(f"{view.layout} needs {used} {unit} along {axis}, but {memory.name} has {available}")

    @property
    def span_elems(self) -> int:
        """The number of elements that the layout spans, including gaps."""
        return self.layout.span(m)

    @property
    def span_bytes(self) -> int:
        """The number of bytes that the layout spans, including gaps."""
        return -(-self.span_elems * self.dtype.bits // 8)

    @property
    def registers_per_thread(self) -> int:
        """The number of 32-bit registers per thread of a local buffer. Raises LayoutError if the span is symbolic."""
        return -(-self.memory.span_bytes // 4)


_HOLDER = optional(instance_of("a Buffer in shared memory or an address", Buffer, int))


@frozen(repr=False)
class Region:
    """A frozen record of a box of a buffer. Extents are static. Starts may be symbolic. The box may be out of bounds.

    ``starts`` is the coordinate of its first element. ``inside`` has a pair of flags per dimension: whether enclosing conditions
    prove that the box does not exceed the low and the high end; () if they prove nothing. Raises LayoutError for malformed values.
    """

    buffer: Buffer
    starts: tuple[Int, ...] = attrs.field(eq=key_of)
    extents: tuple[int, ...]
    inside: tuple[tuple[bool, bool], ...] = ()
    _layout: TileLayout | Literal[False] | None = attrs.field(init=False, default=False, eq=False)
    """The layout of the box, once it is known; False before."""
    _text: str = attrs.field(init=False, default="", eq=False)

    def __attrs_post_init__(self) -> None:
        buffer = self.buffer
        if type(buffer) is not Buffer:
            raise LayoutError(f"Region: buffer must be a Buffer, got {short_repr(buffer)}")
        for name, values, types in (("starts", self.starts, {int, Expr}), ("extents", self.extents, {int})):
            if type(values) is not tuple or len(values) != len(buffer.shape) or not types.issuperset(map(type, values)):
                raise LayoutError(
                    f"Region of {buffer}: {name} must be a tuple of integers, one per dimension, got {short_repr(values)}"
                )
        if min(self.extents, default=0) < 0:
            raise LayoutError(f"Region of {buffer}: extents must be at least 0, got {short_repr(self.extents)}")

    @property
    def size(self) -> int:
        """The number of elements in the box."""
        return prod(self.extents)

    @property
    def nbytes(self) -> int:
        """The size of the box's elements in bytes, without gaps."""
        return self.size * self.buffer.dtype.bits // 8

    def sliced_layout(self) -> TileLayout | None:
        """Return the layout of the box, or None if the box is empty or no layout can describe the box.

        If the box overhangs, coordinates out of bounds have places too, but no elements.
        """
        if self._layout is False:
            layout = self.buffer.layout.box(self.buffer.shape, self.starts, self.extents) if self.size else None
            object.__setattr__(self, "_layout", layout)
        return self._layout or None

    def exceeds(self, dim: int) -> tuple[bool, bool]:
        """Return whether the box may exceed the dimension's low end, and whether it may exceed the high end."""
        room, _ = bounds_of(self.room(dim))
        low, _ = bounds_of(self.starts[dim])
        begins, ends = self.inside[dim] if self.inside else (False, False)
        return not begins and (low is None or low < 0), not ends and (room is None or room < 0)

    def room(self, dim: int) -> Int:
        """Return the distance in elements from the box's end to the dimension's end, negative if out of bounds."""
        return sub(self.buffer.shape[dim], add(self.starts[dim], self.extents[dim]))

    def check_inside(self) -> None:
        """Raise :class:`LayoutError` if a part of the box is proved to be out of bounds."""
        for dim, (start, extent, size) in enumerate(zip(self.starts, self.extents, self.buffer.shape, strict=True)):
            if surely_leaves(start, extent, size):
                below = "; a negative start does not count from the end" if isinstance(start, int) and start < 0 else ""
                edge = '; to copy an edge tile, pass outside="zero", a number or "keep"' if self.size > 1 else ""
                raise LayoutError(
                    f"{self.buffer.name}{list(self.buffer.shape)}: {leaving(dim, start, extent, size)}{below}{edge}"
                )

    def __repr__(self) -> str:
        if not self._text:  # a copy's plan, text and messages have it
            parts = [f"{s}:{s + e}" for s, e in zip(self.starts, self.extents, strict=True)]
            object.__setattr__(self, "_text", f"{self.buffer.name}[{', '.join(parts)}]")
        return self._text
