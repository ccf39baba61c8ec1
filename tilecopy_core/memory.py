"""Buffers and regions: shaped, typed arrays in a memory space, and boxes of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs

from .dtypes import DType, dtype_of
from .errors import LayoutError, RequestError
from .expr import Int, as_expr, is_int
from .layout import Layout, S, SwizzledLayout, TileLayout, box, m

SPACES = ("global", "shared", "local", "tmem")
"""Memory spaces: global and shared memory, registers, tensor memory."""

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}\Z")


_RESERVED = {"WARP_SZ"}
"""Names that PTX predefines (PTX ISA 4.4)."""


def check_identifier(name: str, what: str) -> str:
    """Return a name that may appear in PTX as it is.

    Raises:
        RequestError: not a letter followed by at most 127 letters, digits and underscores.
    """
    if not isinstance(name, str) or not _IDENTIFIER.match(name) or name in _RESERVED:
        raise RequestError(
            f"{what} {name!r} is not an identifier: a letter, then at most 127 letters, digits and underscores"
            f" (and not {', '.join(_RESERVED)})"
        )
    return name


def _shape(value: Any) -> tuple[int, ...]:
    extents = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for extent in extents:
        if not hasattr(extent, "__index__") or isinstance(extent, bool) or (is_int(extent) and as_expr(extent).terms):
            raise LayoutError(f"a shape is made of plain integers; found {extent!r} in {extents}")
        if int(extent) < 1:
            raise LayoutError(f"every extent of a shape is at least 1; found {extent} in {extents}")
    return tuple(int(extent) for extent in extents)


@attrs.frozen(kw_only=True, init=False, repr=False)
class Buffer:
    """A shaped, typed array in one memory space.

    ``buffer[0:64, start:start+8]`` is a :class:`Region`; starts may be symbolic, extents may not.

    Attributes:
        shape: extents, in elements.
        dtype: element type.
        space: one of :data:`SPACES`.
        layout: place of each element, in elements from the buffer's own start; row-major by default.
        name: an identifier, used in PTX and in messages.
        align_bytes: what the address of the allocation is a multiple of.
        elem_offset: the buffer's own start inside its allocation, in elements; counts in every alignment test.
        allocated_addr: for tensor memory, whether ``tcgen05.alloc`` has given it an address (set by KernelBuilder).
    """

    shape: tuple[int, ...]
    dtype: DType
    space: str
    layout: Layout
    name: str
    align_bytes: int
    elem_offset: Int = 0
    allocated_addr: Any = None

    def __init__(
        self,
        shape: Sequence[int] | int,
        dtype: Any,
        *,
        space: str,
        layout: Layout | None = None,
        name: str = "buffer",
        align_bytes: int | None = None,
        elem_offset: Int = 0,
        allocated_addr: Any = None,
    ) -> None:
        extents = _shape(shape)
        if space not in SPACES:
            raise RequestError(f"buffer {name}: space {space!r} is unknown; the spaces are {', '.join(SPACES)}")
        check_identifier(name, "buffer name")
        if layout is None:
            layout = TileLayout(S[extents])
        if not isinstance(layout, (TileLayout, SwizzledLayout)):
            raise LayoutError(f"buffer {name}: a layout is a TileLayout or a SwizzledLayout, not {layout!r}")
        layout.check_admits(extents, f"buffer {name}")
        if align_bytes is None:
            align_bytes = _default_alignment(space, layout)
        if align_bytes < 1 or align_bytes & (align_bytes - 1):
            raise RequestError(f"buffer {name}: align_bytes is a power of two, not {align_bytes}")
        self.__attrs_init__(
            shape=extents,
            dtype=dtype_of(dtype),
            space=space,
            layout=layout,
            name=name,
            align_bytes=align_bytes,
            elem_offset=elem_offset,
            allocated_addr=allocated_addr,
        )

    def __repr__(self) -> str:
        return f"{self.space} {self.name}: {self.dtype}{list(self.shape)}"

    def __getitem__(self, key: Any) -> Region:
        """A box: slices, ints (an extent of 1) and symbolic starts; missing dimensions are whole."""
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) > len(self.shape):
            raise LayoutError(f"{self.name} has {len(self.shape)} dimensions; the index has {len(parts)}")
        region = []
        for dim, part in enumerate(parts):
            if isinstance(part, slice):
                if part.step not in (None, 1):
                    raise LayoutError(f"{self.name}, dimension {dim}: a region has no step (found {part.step})")
                region.append(part)
            elif hasattr(part, "__index__") and not isinstance(part, bool):
                start = part if is_int(part) else int(part)
                region.append(slice(start, start + 1))
            else:
                raise LayoutError(f"{self.name}, dimension {dim}: an index is an integer or a slice, not {part!r}")
        region += [slice(0, extent) for extent in self.shape[len(parts) :]]
        try:
            starts, extents = box(self.shape, region)
        except LayoutError as error:
            raise LayoutError(f"{self.name}{list(self.shape)}: {error}") from None
        return Region(self, starts, extents)

    @property
    def span_elems(self) -> int:
        """Elements that the layout reaches from its first place (its allocation), gaps included."""
        return self.layout.span(m)

    @property
    def span_bytes(self) -> int:
        """Bytes of the allocation that this buffer needs."""
        return -(-self.span_elems * self.dtype.bits // 8)


def _default_alignment(space: str, layout: Layout) -> int:
    """16 bytes for global memory (checked at launch), 128 for shared, a whole 1024-byte atom where swizzled."""
    if space == "global":
        return 16
    return 1024 if isinstance(layout, SwizzledLayout) else 128


@attrs.frozen(repr=False)
class Region:
    """A box of a buffer: static extents, starts that may be symbolic."""

    buffer: Buffer
    starts: tuple[Int, ...]
    extents: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        total = 1
        for extent in self.extents:
            total *= extent
        return total

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, gaps not counted."""
        return self.size * self.buffer.dtype.bits // 8

    def sliced_layout(self) -> Layout | None:
        """The layout of the box, or None where the box is not a layout of its own."""
        region = [slice(s, s + e) for s, e in zip(self.starts, self.extents, strict=True)]
        return self.buffer.layout.slice(self.buffer.shape, region)

    def __repr__(self) -> str:
        parts = [f"{s}:{s + e}" for s, e in zip(self.starts, self.extents, strict=True)]
        return f"{self.buffer.name}[{', '.join(parts)}]"
