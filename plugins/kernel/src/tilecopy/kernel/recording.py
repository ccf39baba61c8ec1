"""The recorder of a kernel's description: parameters, buffers, and blocks with their statements."""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any

import attrs

from tilecopy_core.description import ActiveThreads, is_thread_id
from tilecopy_core.errors import LayoutError, RequestError, attribute, frozen, short_repr
from tilecopy_core.integers import Condition, Expr, Int, Symbol, symbols_of
from tilecopy_core.memory import Buffer, Memory, Region, symbolic

from .bounds import NOTHING, Alternatives, Bound, Facts, bounds_checks, conjunction, never
from .conversion import range_of
from .description import Description
from .statements import If, LocatedStatement, Loop, Statement
from .values import Value

_OURS = ("tilecopy.", "tilecopy_core.")
"""The prefixes of this package's modules, which are skipped to find the line of the user's program."""

_OPEN: ContextVar[tuple[StatementBlock, ...]] = ContextVar("_OPEN", default=())
"""The open blocks of all kernels in this thread."""


@frozen(eq=False)
class OpenBlock:
    """A block of statements that is being recorded, such as the body of a loop.

    Attributes:
        body: its statements.
        active: the threads that are active in it.
        known: the facts in it, as alternatives; empty if no thread ever executes it.
        around: a description of the statement that opened it.
        values: the integers that have a value in it.
        left_out: its regions outside their buffers. No thread reaches them in any launch, so the block is not emitted.
    """

    body: list[LocatedStatement]
    active: ActiveThreads
    known: Alternatives
    around: str = ""
    values: set[Symbol] = attrs.field(factory=set)
    left_out: list[Region] = attrs.field(factory=list)


LAUNCH_OPTIONS = ("grid", "stream", "device", "executor")
"""The keyword arguments of a launch, which cannot be names of parameters."""


class Recorder:
    """A recorder of a kernel's description. It checks everything that it records."""

    def __init__(self, name: str, threads: int) -> None:
        self._described = Description(name, threads)
        self._limits: dict[Symbol, Facts] = {}
        self._memories: set[Memory] = set()
        self._touched: set[Memory] = set()
        self._tensors: dict[Memory, tuple[Buffer, str]] = {}
        self._columns: dict[Memory, int] = {}
        self._names: set[str] = set()
        self._inline_names: set[str] = set()
        self._counters: dict[str, Iterator[int]] = defaultdict(itertools.count)
        self._unentered: list[LocatedStatement] = []
        self._invalid_reason = ""
        self._stack = [OpenBlock(self._described.body, ActiveThreads(threads), NOTHING)]
        self._outer_blocks = _OPEN.get()

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self._described.name

    @property
    def threads(self) -> int:
        """The number of threads of each CTA."""
        return self._described.threads

    # ------------------------------------------------------------------------------------------- what belongs to it

    def _claim(self, name: str, what: str) -> None:
        if what in ("param", "scalar") and name in LAUNCH_OPTIONS:
            raise RequestError(
                f"{what} name {name!r} must not be a keyword argument of launches, kernel(.., {name}=..); choose another name"
            )
        if name in self._names:
            raise RequestError(f"{what} name {name!r} is already used in kernel {self.name}; choose another name")
        self._names.add(name)

    def _fresh(self, stem: str) -> str:
        return next(name for number in self._counters[stem] if (name := f"{stem}{number}") not in self._names)

    def _check_symbols(self, value: Int, what: object, *, anywhere: bool = False) -> None:
        """Raise RequestError unless every symbol of an integer belongs to this kernel (if ``anywhere``, as a size or scalar)."""
        scalars = self._described.scalars
        for symbol in symbols_of(value):
            if anywhere and symbol not in scalars and (symbol.register or symbol.varies != "grid"):
                raise RequestError(f"{what}: {value} must consist of sizes and scalars, but {symbol.name} is neither")
            if is_thread_id(symbol) and symbol.upper is not None and symbol.upper < self.threads - 1:
                raise RequestError(
                    f"{what}: {value} uses thread_id() of a kernel with {symbol.upper + 1} threads, but kernel {self.name} has "
                    f"{self.threads} threads: call thread_id() on this builder"
                )
            if symbol.register or symbol in scalars or any(symbol in frame.values for frame in self._stack):
                continue
            if symbol.varies == "grid":
                raise RequestError(f"{what}: the integer {symbol.name} does not belong to kernel {self.name}")
            raise RequestError(f"{what}: the integer {symbol.name} is valid only in the loop and kernel that define it")

    def _check_region(
        self, region: Region, what: str = "region", *, written: bool = False, overhang: bool = False
    ) -> bool:
        """Check a region's buffer, symbols and bounds; return False if it is outside its buffer but no thread ever reaches it."""
        if region.buffer.memory not in self._memories:
            raise RequestError(
                f"{what}: buffer {region.buffer.name} does not belong to kernel {self.name}: declare it with this builder"
            )
        self._touches(region.buffer)
        for value in (*region.starts, *region.buffer.placed_by()):
            if isinstance(value, Expr):
                self._check_symbols(value, region)
        comes = overhang or self._is_reachable(region)
        if comes and not overhang and symbolic((*region.starts, *region.buffer.shape)):
            known = self._known(*region.starts, *region.buffer.shape)
            self._described.bounds.extend(bounds_checks(region, known, self._place()))
        if written and region.buffer.space == "global":
            self._described.written.add(region.buffer.name)
        return comes

    def _touches(self, buffer: Buffer) -> None:
        """Record that a buffer is read or written, because tensor memory must be allocated somewhere in the kernel."""
        self._touched.add(buffer.memory)
        if buffer.space == "tmem":
            self._tensors.setdefault(buffer.memory, (buffer, self._place()))

    def _check_value(self, value: Value, what: str) -> None:
        """Check a value's loads and integers against this kernel, and (when the grid is known) that integers fit their types."""
        for part in value.parts():
            if part.op == "index":
                self._check_symbols(part.args[0], what)
            elif part.op in ("loaded", "address") and part.args[0].buffer.memory not in self._memories:
                raise RequestError(
                    f"{what}: the value {part!r} does not belong to kernel {self.name}: load it with this builder"
                )
            elif part.op == "checked_int":
                integer, (low, high) = part.args[1], range_of(part.dtype)
                if known := self._known(integer):
                    rule = f"the integer {integer} must fit in {part.dtype}, from {low} to {high}"
                    self._described.bounds.append(Bound(integer, low, high, known, rule, self._place()))

    def _is_reachable(self, region: Region) -> bool:
        """Return True if a region may be inside its buffer; else leave out the enclosing block, or raise LayoutError.

        A block is left out if no thread ever reaches it, or if every launch in which one would is an error.
        """
        try:
            region.check_inside()
            return True
        except LayoutError as error:
            if len(self._stack) == 1:
                raise
            known = self._known(*region.starts, *region.buffer.shape)
            symbols = [symbol for facts in known for fact in facts for symbol in symbols_of(fact)]
            scalars = self._described.scalars  # a launch gives these values, and the registers other than thread ids
            decided = not any(symbol in scalars or (symbol.register and not is_thread_id(symbol)) for symbol in symbols)
            if decided and not never(known):
                raise LayoutError(f"{error}; the enclosing conditions do not exclude that: {self._around()}") from None
            self._frame.left_out.append(region)
            self._described.bounds.extend(bounds_checks(region, known, self._place()))
            return False

    def _around(self) -> str:
        """Return descriptions of the open blocks, the innermost last."""
        return ", ".join(frame.around for frame in self._stack[1:])

    def _place(self) -> str:
        """Return the file and line of the user's program, and the open blocks."""
        return f"{self._where()}, inside {self._around()}" if len(self._stack) > 1 else self._where()

    def _known(self, *values: Int) -> Alternatives:
        """Return the facts of the open blocks, with those about the given integers and the integers in the facts."""
        known, facts = self._frame.known, list[Int]()
        if not self._limits:
            return known
        pending = [*values, *(fact for alternative in known for fact in alternative)]
        seen: set[Symbol] = set()
        while pending:
            new = symbols_of(pending.pop()) - seen
            seen |= new
            limits = [fact for symbol in sorted(new, key=repr) for fact in self._limits.get(symbol, ())]
            facts += limits
            pending += limits
        return conjunction(known, (tuple(facts),)) if facts else known

    # ------------------------------------------------------------------------------------------- statements and blocks

    @property
    def _frame(self) -> OpenBlock:
        return self._stack[-1]

    def record(self, statement: Statement) -> None:
        """Append a statement to the open block, with the line of the user's program."""
        if not callable(attribute(statement, "lower")) or not callable(attribute(statement, "describe")):
            raise RequestError(f"record: statement must have methods lower and describe, got {short_repr(statement)}")
        self._check_here(statement)
        self._frame.body.append(LocatedStatement(statement, self._where()))

    def _check_here(self, statement: Statement) -> None:
        """Raise RequestError if the innermost block belongs to another kernel, unless this kernel was created inside it."""
        blocks = [block for block in _OPEN.get() if block not in self._outer_blocks]
        if blocks and blocks[-1]._kernel is not self:
            raise RequestError(
                f"{statement.describe()}: kernel {self.name} must not record a statement inside an open block of kernel "
                f"{blocks[-1]._kernel.name}: call the builder of kernel {blocks[-1]._kernel.name}"
            )

    def _in_loop(self) -> bool:
        """Return True if a loop of the kernel is open."""
        return any(block._kernel is self and isinstance(block._placed.statement, Loop) for block in _OPEN.get())

    @staticmethod
    def _where() -> str:
        """Return the file and line of the user's program, which is the innermost frame outside this package."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
            frame = frame.f_back
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def _check_closed(self) -> None:
        """Raise RequestError unless every block was entered and reached its end, and tensor memory is allocated."""
        if len(self._stack) != 1:
            raise RequestError(f"kernel {self.name}: build must be called outside the kernel's blocks")
        if self._invalid_reason:
            raise RequestError(f"kernel {self.name}: {self._invalid_reason}")
        for placed in self._unentered:
            raise RequestError(
                f"kernel {self.name}: {placed} was never entered: write `with` before it (or `for` before a range)"
            )
        for buffer, place in self._tensors.values():
            if buffer.allocated_addr.memory not in self._touched:
                raise RequestError(
                    f"kernel {self.name}: tensor memory {buffer.name} is never allocated; before {place}, call "
                    f"tcgen05_alloc({buffer.name}) in one warp, then a barrier in all warps"
                )


class StatementBlock:
    """The block that ``k.if_`` or ``k.range`` returns. Use it once, in a ``with`` statement. A range also works in ``for``."""

    def __init__(self, kernel: Recorder, statement: If | Loop, frame: OpenBlock, index: Expr | None = None) -> None:
        self._kernel, self._frame, self._index, self._outer = kernel, frame, index, kernel._frame
        kernel._check_here(statement)
        self._placed = LocatedStatement(statement, kernel._where())
        kernel._unentered.append(self._placed)

    def __enter__(self) -> Any:
        if self._placed not in self._kernel._unentered:
            raise RequestError(f"{self._placed} was already used: create a new block")
        if self._kernel._frame is not self._outer:
            raise RequestError(
                f"{self._placed} must be created and entered in the same block: create it in the `with` statement itself"
            )
        self._kernel._unentered.remove(self._placed)
        self._kernel._stack.append(self._frame)
        _OPEN.set((*_OPEN.get(), self))
        return self._index

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self._kernel._stack.pop()
        _OPEN.set(tuple(block for block in _OPEN.get() if block is not self))
        if kind is None and not self._frame.left_out:
            self._kernel._frame.body.append(self._placed)
        elif kind is not None:
            how = "break or return" if kind is GeneratorExit else kind.__name__
            self._kernel._invalid_reason = (
                f"{self._placed} was left by {how}, but Python must reach the end of a block to record it; use k.if_ "
                "for conditions at run time"
            )

    def __iter__(self) -> Iterator[Any]:
        if self._index is None:
            raise RequestError(f"{self._placed.statement.describe()} is not a loop: write `with k.if_(...):`")
        with self:
            yield self._index


@frozen(eq=False, repr=False)
class ElectOne(Condition):
    """A condition that holds in one lane of each warp: ``with k.elect():``, or ``with k.if_(k.elect()):``."""

    kernel: Any = None
    _block: ExitStack = attrs.field(factory=ExitStack, init=False)

    def __enter__(self) -> None:
        self._block.enter_context(self.kernel.if_(self))

    def __exit__(self, *exception: Any) -> None:
        self._block.__exit__(*exception)
