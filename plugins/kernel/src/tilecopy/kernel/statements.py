"""The recorded statements of a kernel, with methods that lower them to PTX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Protocol

import attrs

from tilecopy_core.description import ActiveThreads, CopyRequest, Scope, Target, check_request
from tilecopy_core.dispatch import Plan, dispatch, tell
from tilecopy_core.errors import LayoutError, TilecopyError, frozen, short_repr
from tilecopy_core.integers import Condition, Expr, Int, Symbol, bounds_of, fits, maximum, substitute
from tilecopy_core.memory import Outside, Region
from tilecopy_core.ptx import PtxBuilder, Register
from tilecopy_core.registry import Registry
from tilecopy_partitions import read_local, write_local

from ..emission_checks import emit_checked
from .bounds import NOTHING, Alternatives, Facts, conjunction, never_negative, with_ends_proved
from .conversion import emit, lesser
from .values import Value, bind_loaded, element_offset, lower_condition, lower_value, stored_bits


class Statement(Protocol):
    """A recorded statement of a kernel. The build calls :meth:`lower` to write its PTX."""

    def lower(self, context: Lowering) -> None:
        """Write the statement through ``context.ptx``."""

    def describe(self) -> str:
        """Return a short description of the statement. Error messages quote it."""


@frozen(eq=False)
class LocatedStatement:
    """A frozen record of a statement and its line in the user's program."""

    statement: Statement
    where: str

    def __str__(self) -> str:
        return f"{self.statement.describe()} at {self.where}"


@frozen(eq=False)
class Lowering:
    """The inputs and the results of lowering a kernel's statements.

    Attributes:
        known: block ids with the bounds of the grid, if it is known at build.
        facts: the facts about block ids that follow from a grid computed from sizes.
        cluster: the number of CTAs of a cluster; 1 without clusters.
        cta_group: the ``cta_group`` of the kernel's tensor memory, or None.
        min_ctas_per_sm: the number of CTAs that an SM must hold at once.
        plans: the plan of each copy, in order.
        locations: the description and source line of each statement, by its number; that of 0 is empty.
        indices: the register of each loaded index, with its statement.
    """

    ptx: PtxBuilder
    target: Target
    registry: Registry
    known: Mapping[Symbol, Int] = attrs.field(factory=dict)
    facts: Facts = ()
    cluster: int = 1
    cta_group: int | None = None
    min_ctas_per_sm: int = 1
    plans: list[Plan] = attrs.field(factory=list)
    locations: list[str] = attrs.field(factory=lambda: [""])
    indices: list[tuple[Register, Index]] = attrs.field(factory=list)

    def run(self, body: Sequence[LocatedStatement]) -> None:
        """Lower statements in order. An error message names the source line of its statement."""
        outer = self.ptx.statement
        for placed in body:
            self.ptx.statement = len(self.locations)
            self.locations.append(f"{placed.statement.describe()}, {placed.where}")
            try:
                placed.statement.lower(self)
                if isinstance(placed.statement, CopyStatement) and placed.statement.src.size:
                    tell(self.plans[-1], self.registry, placed.where)
            except TilecopyError as error:
                if not getattr(error, "located", False):
                    error.args = (f"{error}\n  at {placed.where}", *error.args[1:])
                    error.located = True  # type: ignore[attr-defined]
                raise
        self.ptx.statement = outer


@frozen(eq=False)
class CopyStatement:
    """A statement for a tile copy. ``around`` may have facts that follow from the enclosing conditions and loops."""

    op: str
    dst: Region
    src: Region
    scope: Scope
    active: ActiveThreads
    variant: tuple[str, ...] | None
    options: Mapping[str, Any]
    outside: Outside | None = None
    around: Alternatives = NOTHING

    def describe(self) -> str:
        """Return a string such as ``copy s[0:8] <- x[0:8]``."""
        return f"{self.op} {self.dst} <- {self.src}"

    def lower(self, context: Lowering) -> None:
        """Dispatch the copy and write it. A copy without elements becomes a comment."""
        dst, src = self.dst, self.src
        if self.outside is not None:  # the facts and the bounds of the grid may prove it inside
            around = conjunction(self.around, (context.facts,))
            known = tuple(tuple(substitute(fact, context.known) for fact in facts) for facts in around)
            dst, src = (with_ends_proved(region, known, context.known) for region in (dst, src))
        request = CopyRequest(
            op=self.op,
            dst=dst,
            src=src,
            scope=self.scope,
            target=context.target,
            active=self.active,
            options=self.options,
            outside=self.outside,
            cluster=context.cluster,
            cta_group=context.cta_group,
            min_ctas_per_sm=context.min_ctas_per_sm,
        )
        check_request(request, bounds=False)  # the builder has checked the bounds of the regions
        if not src.size:
            context.ptx.comment(f"{self.describe()}: no elements, nothing to copy")
            return
        plan = dispatch(request, self.variant, context.registry)
        context.plans.append(plan)
        context.locations[-1] = f"{plan.variant}: {context.locations[-1]}"
        emit_checked(plan, context.ptx, context.registry)


@frozen(eq=False)
class Load:
    """A statement that loads one element."""

    result: Value
    element: Region

    def describe(self) -> str:
        """Return a string such as ``load of x[0]``."""
        return f"load of {self.element}"

    def lower(self, context: Lowering) -> None:
        """Write a load of the element's width, or use the register that holds the element."""
        ptx, bits = context.ptx, self.element.buffer.dtype.bits
        offset = element_offset(self.element)
        if self.element.buffer.space == "local":
            assert isinstance(offset, int)
            raw = read_local(ptx, self.element.buffer, offset, bits)[0]
            if bits in (8, 16):
                raw = emit(ptx, raw.type, "and.b32", raw, (1 << bits) - 1)
            else:
                raw = emit(ptx, raw.type, f"mov.{raw.type}", raw)  # a later store must not change what was loaded
        else:
            into = ptx.regs("b64", 1) if bits == 64 else None
            raw = ptx.load(ptx.address(self.element.buffer, offset), bits, into)[0]
        bind_loaded(ptx, self.result, raw)


@frozen(eq=False)
class Index:
    """A statement that converts a run-time value to a symbolic integer, clamped to its range if ``clamp`` is True."""

    symbol: Symbol
    value: Value
    least: Int
    most: Int
    clamp: bool

    def describe(self) -> str:
        """Return a string such as ``index i from 0 to 7``."""
        return f"index {self.symbol} from {self.least} to {self.most}"

    def lower_to(self, ptx: PtxBuilder) -> Register:
        """Return a new register with the integer. Exactly one line of the PTX writes this register."""
        register = lower_value(ptx, self.value)
        signed = self.value.dtype.kind == "i"
        if register.bits == 32 and not (fits(self.least, 32) and fits(self.most, 32)):
            register = emit(ptx, "b64", "cvt.s64.s32" if signed else "cvt.u64.u32", register)
        if not self.clamp:
            return emit(ptx, register.type, f"mov.{register.type}", register)
        steps = [("min", self.most, "s" if signed else "u")]
        # negative bounds are not valid for min.u
        if not signed and not never_negative(self.least) and not never_negative(self.most):
            steps = [("min", maximum(self.most, 0), "u"), ("min", self.most, "s")]
        if signed or bounds_of(self.least) != (0, 0):
            steps.append(("max", self.least, "s"))
        for name, bound, sign in steps:
            limit = ptx.value(bound, register.bits) if isinstance(bound, Expr) else bound
            register = lesser(ptx, f"{sign}{register.bits}", register, limit, greater=name == "max")
        return register

    def lower(self, context: Lowering) -> None:
        """Bind the value's register to the symbol."""
        register = self.lower_to(context.ptx)
        context.ptx.bind(self.symbol, register)
        context.indices.append((register, self))


@frozen(eq=False)
class Store:
    """A statement that stores a value to one element."""

    element: Region
    value: Value

    def describe(self) -> str:
        """Return a string such as ``store to x[0]``."""
        return f"store to {self.element}"

    def lower(self, context: Lowering) -> None:
        """Write a store of the element's width, or a move to the register that holds the element."""
        ptx, dtype = context.ptx, self.element.buffer.dtype
        register = stored_bits(ptx, self.value)
        offset = element_offset(self.element)
        if self.element.buffer.space == "local":
            assert isinstance(offset, int)
            write_local(ptx, self.element.buffer, offset, dtype.bits, [register])
        else:
            ptx.store(ptx.address(self.element.buffer, offset), dtype.bits, [register])


@frozen(eq=False)
class Loop:
    """A statement for a loop at run time."""

    index: Symbol
    count: Int
    start: Int
    unroll: bool
    body: list[LocatedStatement] = attrs.field(factory=list)

    def describe(self) -> str:
        """Return a string such as ``range(8, start=0)``."""
        return f"range({short_repr(self.count)}, start={short_repr(self.start)})"

    def lower(self, context: Lowering) -> None:
        """Write the loop and its body."""
        with context.ptx.loop(self.index, self.count, self.start, unroll=self.unroll):
            context.run(self.body)


@frozen(eq=False)
class If:
    """A statement with a body. Only the threads for which a condition is true execute the body."""

    condition: Condition
    body: list[LocatedStatement] = attrs.field(factory=list)

    def describe(self) -> str:
        """Return a string such as ``if_(tid < 32)``."""
        return f"if_({self.condition!r})"

    def lower(self, context: Lowering) -> None:
        """Write a branch around the body."""
        with context.ptx.if_(lower_condition(context.ptx, self.condition)):
            context.run(self.body)


@frozen(eq=False)
class Action:
    """A statement, for example a barrier, whose PTX is written by the function ``write``."""

    name: str
    write: Callable[[PtxBuilder], None]

    def describe(self) -> str:
        """Return the name of the method that recorded the statement, such as ``cta_sync``."""
        return self.name

    def lower(self, context: Lowering) -> None:
        """Call the function that writes the PTX."""
        self.write(context.ptx)


def words_of(region: Region) -> range:
    """Return a region's registers. Raise LayoutError if they are not whole, consecutive registers of one thread."""
    buffer = region.buffer
    places = [
        element_offset(buffer[tuple(start + step for start, step in zip(region.starts, steps, strict=True))])
        for steps in product(*map(range, region.extents))
    ]
    first, bits, word = places[0], buffer.dtype.bits, buffer.memory.word_bits
    assert isinstance(first, int)
    if places != list(range(first, first + len(places))) or first * bits % word or len(places) * bits % word:
        raise LayoutError(
            f"{region} must consist of whole, consecutive {word}-bit registers; use KernelBuilder.registers({buffer.name})"
        )
    return range(first * bits // word, (first + len(places)) * bits // word)
