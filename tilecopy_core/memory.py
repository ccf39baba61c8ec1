"""Buffers and regions: shaped, typed arrays in a memory space, and boxes of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from .dtypes import DType, dtype_of
from .errors import LayoutError, RequestError, a, maybe, one_of, shown
from .expr import INT, Expr, Int, is_int, key_of
from .layout import S, TileLayout, box, checked_extents, m

SPACES = ("global", "shared", "local", "tmem")
"""Memory spaces: global and shared memory, registers, tensor memory."""

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}\Z")
_RESERVED = {"WARP_SZ"}
"""Names that PTX predefines (PTX ISA 4.4)."""


def check_identifier(name: Any, what: str) -> str:
    """Return a name that may appear in PTX as it is.

    Raises:
        RequestError: not a letter followed by at most 127 letters, digits and underscores.
    """
    if not isinstance(name, str) or not _IDENTIFIER.match(name) or name in _RESERVED:
        raise RequestError(
            f"{what} {shown(name)} is not an identifier: a letter, then at most 127 letters, digits and underscores"
            f" (and not {', '.join(_RESERVED)})"
        )
    return name


@attrs.frozen(eq=False)
class Memory:
    """One piece of memory: what buffers that see the same bytes have in common, and what belongs to a kernel.

    Attributes:
        name: an identifier, used in PTX and in messages.
        space: one of :data:`SPACES`.
    """

    name: str
    space: str


_STARTS, _EXTENTS = {int, Expr}, {int}
_MEMORY = maybe(a("a Memory, that of another buffer", Memory))


@attrs.frozen(kw_only=True, init=False, repr=False)
class Buffer:
    """A shaped, typed array in one memory space.

    ``buffer[0:64, start:start+8]`` is a :class:`Region`; starts may be symbolic, extents may not.

    Attributes:
        shape: extents, in elements.
        dtype: element type.
        layout: place of each element, in elements from the buffer's own start; row-major by default.
        memory: the memory that it is; buffers with the same name are not the same.
        align_bytes: what the address of the allocation is a multiple of.
        elem_offset: the buffer's own start inside its allocation, in elements; counts in every alignment test.
        allocated_addr: for tensor memory, the shared word that ``tcgen05.alloc`` writes its address to.
    """

    shape: tuple[int, ...]
    dtype: DType
    layout: TileLayout
    memory: Memory
    align_bytes: int
    elem_offset: Int = attrs.field(default=0, eq=key_of)
    allocated_addr: Any = None

    def __init__(
        self,
        shape: Sequence[int] | int,
        dtype: Any,
        *,
        space: str,
        layout: TileLayout | None = None,
        name: str = "buffer",
        align_bytes: int | None = None,
        elem_offset: Int = 0,
        allocated_addr: Any = None,
        memory: Memory | None = None,
    ) -> None:
        check_identifier(name, "buffer name")
        if type(space) is not str or space not in SPACES:
            one_of(*SPACES).check(space, f"buffer {name}", "space")
        extents = checked_extents(shape, f"buffer {name}, shape")
        if layout is None:
            layout = TileLayout(S[extents])
        if not isinstance(layout, TileLayout):
            raise LayoutError(f"buffer {name}: a layout is a TileLayout or a SwizzledLayout, not {shown(layout)}")
        layout._admit(extents, f"buffer {name}")
        if align_bytes is None:  # 16 bytes are checked at launch; a swizzled buffer starts with a whole atom
            align_bytes = 16 if space == "global" else 1024 if layout.swizzle is not None else 128
        if (
            not isinstance(align_bytes, int)
            or isinstance(align_bytes, bool)
            or align_bytes < 1
            or align_bytes & (align_bytes - 1)
        ):
            raise RequestError(f"buffer {name}: align_bytes is a power of two, not {shown(align_bytes)}")
        if type(elem_offset) is not int:
            INT.check(elem_offset, f"buffer {name}", "elem_offset")
        if memory is not None:
            _MEMORY.check(memory, f"buffer {name}", "memory")
        if allocated_addr is not None:
            _HOLDER.check(allocated_addr, f"buffer {name}", "allocated_addr")
        self.__attrs_init__(
            shape=extents,
            dtype=dtype_of(dtype),
            layout=layout,
            memory=memory or Memory(name, space),
            align_bytes=align_bytes,
            elem_offset=elem_offset,
            allocated_addr=allocated_addr,
        )

    def __repr__(self) -> str:
        return f"{self.space} {self.name}: {self.dtype}{list(self.shape)}"

    @property
    def name(self) -> str:
        """The name of its memory."""
        return self.memory.name

    @property
    def space(self) -> str:
        """The space of its memory."""
        return self.memory.space

    def __getitem__(self, key: Any) -> Region:
        """A box: slices, ints (an extent of 1) and symbolic starts; missing dimensions are whole."""
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) > len(self.shape):
            raise LayoutError(f"{self.name} has {len(self.shape)} dimensions; the index has {len(parts)}: {shown(key)}")
        region = []
        for dim, part in enumerate(parts):
            if isinstance(part, slice):
                region.append(part)
            elif is_int(part):
                region.append(slice(part, part + 1))
            elif part is Ellipsis:
                raise LayoutError(f"{self.name}: dimensions left out at the end are whole; an index has no '...'")
            elif hasattr(part, "__index__") and not isinstance(part, (bool, np.ndarray)):
                region.append(slice(int(part), int(part) + 1))
            else:
                raise LayoutError(f"{self.name}, dimension {dim}: an index is an integer or a slice, not {shown(part)}")
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


_HOLDER = maybe(a("a shared Buffer, or the address", Buffer, int))


@attrs.frozen(repr=False)
class Region:
    """A box of a buffer: static extents, starts that may be symbolic.

    Raises:
        LayoutError: starts and extents that are no box of the buffer.
    """

    buffer: Buffer
    starts: tuple[Int, ...] = attrs.field(eq=key_of)
    extents: tuple[int, ...]

    def __attrs_post_init__(self) -> None:
        if type(self.buffer) is not Buffer:
            raise LayoutError(f"Region: buffer is a Buffer, not {shown(self.buffer)}")
        rank = len(self.buffer.shape)
        for name, values, kind in (("starts", self.starts, _STARTS), ("extents", self.extents, _EXTENTS)):
            if type(values) is not tuple or len(values) != rank or not kind.issuperset(map(type, values)):
                self._refuse(name, values)
        if rank and min(self.extents) < 1:
            self._refuse("extents", self.extents)

    def _refuse(self, name: str, values: Any) -> None:
        rule = "integers" if name == "starts" else "plain integers of at least 1"
        raise LayoutError(
            f"Region of {self.buffer}: {name} are {rule}, one a dimension, in a tuple; not {shown(values)}"
        )

    _layout: list[TileLayout | None] = attrs.field(init=False, factory=list, eq=False)

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

    @property
    def is_symbolic(self) -> bool:
        """Whether a start is known only at run time."""
        return any(isinstance(start, Expr) for start in self.starts)

    def sliced_layout(self) -> TileLayout | None:
        """The layout of the box (found once), or None where the box is not a layout of its own."""
        if not self._layout:
            self._layout.append(self.buffer.layout._cut_to(self.buffer.shape, self.starts, self.extents))
        return self._layout[0]

    def __repr__(self) -> str:
        parts = [f"{s}:{s + e}" for s, e in zip(self.starts, self.extents, strict=True)]
        return f"{self.buffer.name}[{', '.join(parts)}]"
