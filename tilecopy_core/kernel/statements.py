"""The statements of a kernel as recorded, and how each becomes PTX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from ..dispatch import Plan, dispatch
from ..errors import LayoutError
from ..expr import Condition, Expr, Int, as_expr, bounds_of, substitute
from ..memory import Region
from ..ptx import PtxBuilder
from ..registry import Registry
from ..request import CopyRequest, check_request
from ..scope import ActiveThreads, Scope
from ..target import Target
from .values import Value, bind_loaded, lower_condition, stored_bits


@attrs.frozen(eq=False)
class Lowering:
    """What statements are lowered with.

    Attributes:
        ptx: receives the instructions.
        target: the architecture.
        registry: the variants to ask.
        plans: the plan of each copy, in order.
    """

    ptx: PtxBuilder
    target: Target
    registry: Registry
    plans: list[Plan] = attrs.field(factory=list)


@attrs.frozen(eq=False)
class Copy:
    """A tile copy, dispatched when the target is known."""

    op: str
    dst: Region
    src: Region
    scope: Scope
    active: ActiveThreads
    variant: str | None
    options: Mapping[str, Any]

    def lower(self, context: Lowering) -> None:
        """Dispatch and emit."""
        request = CopyRequest(
            op=self.op,
            dst=self.dst,
            src=self.src,
            scope=self.scope,
            target=context.target,
            active=self.active,
            options=self.options,
        )
        check_request(request)
        plan = dispatch(request, self.variant, context.registry)
        context.plans.append(plan)
        plan.emit(context.ptx, context.registry)


@attrs.frozen(eq=False)
class Load:
    """One element into a value."""

    result: Value
    element: Region

    def lower(self, context: Lowering) -> None:
        """A load of the element's width, or the register that holds it."""
        ptx, bits = context.ptx, self.element.buffer.dtype.bits
        offset = element_offset(self.element)
        if self.element.buffer.space == "local":
            raw = ptx.read_local(self.element.buffer, as_expr(offset).const, bits)[0]
            copied = ptx.reg(raw.type)
            if bits in (8, 16):
                ptx.instr("and.b32", copied, raw, (1 << bits) - 1)
            else:
                ptx.instr(f"mov.{raw.type}", copied, raw)  # a later store must not change what was loaded
            raw = copied
        else:
            into = ptx.regs("b64", 1) if bits == 64 else None
            raw = ptx.load(ptx.address(self.element.buffer, offset), bits, into)[0]
        bind_loaded(ptx, self.result, raw)


@attrs.frozen(eq=False)
class Store:
    """A value into one element."""

    element: Region
    value: Value

    def lower(self, context: Lowering) -> None:
        """A store of the element's width, or a move into the register that holds it."""
        ptx, dtype = context.ptx, self.element.buffer.dtype
        register = stored_bits(ptx, self.value)
        offset = element_offset(self.element)
        if self.element.buffer.space == "local":
            ptx.write_local(self.element.buffer, as_expr(offset).const, dtype.bits, [register])
        else:
            ptx.store(ptx.address(self.element.buffer, offset), dtype.bits, [register])


@attrs.frozen(eq=False)
class Loop:
    """A rolled loop at run time."""

    name: str
    count: Int
    start: Int
    body: list[Any]

    def lower(self, context: Lowering) -> None:
        """The loop and its body."""
        with context.ptx.loop(self.count, self.name, self.start):
            for statement in self.body:
                statement.lower(context)


@attrs.frozen(eq=False)
class If:
    """Statements for the threads that meet a condition."""

    condition: Condition
    body: list[Any]

    def lower(self, context: Lowering) -> None:
        """A branch around the body."""
        with context.ptx.if_(lower_condition(context.ptx, self.condition)):
            for statement in self.body:
                statement.lower(context)


@attrs.frozen(eq=False)
class Action:
    """Anything else: a function that writes through the builder."""

    write: Callable[[PtxBuilder], None]

    def lower(self, context: Lowering) -> None:
        """Call it."""
        self.write(context.ptx)


def element_offset(element: Region) -> Int:
    """Offset of a region of one element from its buffer's start, swizzle included.

    Raises:
        LayoutError: more than one element, or a register index that varies.
    """
    buffer = element.buffer
    if element.size != 1:
        raise LayoutError(f"{element} has {element.size} elements; load and store take one")
    place = buffer.layout.apply(*element.starts, shape=buffer.shape)
    if buffer.space == "local":
        if set(place) - {"m"}:
            raise LayoutError(f"{buffer.name} is spread over threads; use KernelBuilder.registers({buffer.name})")
        if as_expr(place.get("m", 0)).terms:
            raise LayoutError(f"{element}: registers are indexed by constants (unroll the loop in Python)")
    return place.get("m", 0)


@attrs.frozen(eq=False)
class Bound:
    """A start that must keep a region inside its buffer; checked when the grid and the scalars are known."""

    what: str
    start: Expr
    limit: int

    def check(self, replacements: Mapping[str, Any]) -> None:
        """Raise :class:`LayoutError` when the start can leave ``[0, limit]``."""
        lower, upper = bounds_of(substitute(self.start, replacements))
        if (lower is not None and lower < 0) or (upper is not None and upper > self.limit):
            raise LayoutError(
                f"{self.what}: the start {self.start} reaches from {lower} to {upper}; it must stay in 0 to {self.limit}"
            )


def bounds_checks(region: Region) -> list[Bound]:
    """The checks of a region that stands where nothing guards it."""
    buffer = region.buffer
    return [
        Bound(f"{region}, dimension {dim} of extent {size}", as_expr(start), size - extent)
        for dim, (start, extent, size) in enumerate(zip(region.starts, region.extents, buffer.shape, strict=True))
        if as_expr(start).terms
    ]
