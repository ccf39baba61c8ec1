"""Index arithmetic. It lowers symbolic integers to registers, offsets to addresses, and conditions to predicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import gcd

from ..description.target import Target
from ..errors import PtxError, short_repr
from ..integers import bounds_of, constant_of, divisor_of, fits, key_of, of_atom, substitute, sum_of, symbols_of
from ..integers.conditions import Condition
from ..integers.expr import OPERATIONS, Atom, Expr, Int, Symbol, Term, terms_of
from ..layout.swizzle import Swizzle, SwizzledTerms
from ..memory.buffers import Buffer, Memory, Region
from .bindings import Bindings
from .emitter import Block, Emitter, Sunk, pure_once
from .lines import Line
from .operands import Address, Register, Written

SETP = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""Comparison -> the modifier of ``setp``."""
IMMEDIATE_REACH_BYTES = 2**23
"""Limit of the immediate offset of an address; the machine instruction has 24 bits for it."""


class IndexEmitter(Emitter):
    """An emitter of integers, addresses, conditions and loops. Each integer is computed once, in the outermost possible block.

    Buffers, symbols and fragments come from ``bindings``. ``tighter`` has symbols with closer bounds in this kernel than
    they declare, such as block ids if the grid is known.
    """

    def __init__(self, target: Target, bindings: Bindings) -> None:
        super().__init__(target, bindings.mark)
        self.bindings = bindings
        self.tighter: dict[Symbol, Int] = {}
        self._floor = 0

    # ------------------------------------------------------------------------------------------- symbols

    def bind(self, symbol: Symbol, register: Register) -> None:
        """Bind a symbol to a register that has just been computed in the current block."""
        block = self.blocks[-1]
        block.settle()  # what depends on the symbol goes after its computation
        self._bound[symbol] = (register, block.depth)

    def home(self, symbols: frozenset[Symbol]) -> Block:
        """Return the outermost block in which all of ``symbols`` have values."""
        bound = [self._bound[s][1] for s in symbols if s in self._bound] if self._bound else ()
        return self._at(max(bound, default=0))

    def _at(self, depth: int) -> Block:
        """Return the block at a depth; inside a block that does not share its new values, a view of it for that block."""
        return self.blocks[depth] if depth >= self._floor else Sunk(self.blocks[depth], self.blocks[self._floor])

    # ------------------------------------------------------------------------------------------- values

    def fits(self, value: Int) -> bool:
        """Return whether a value is proved to fit in 32 bits in this kernel."""
        return fits(value, 32) or (bool(self.tighter) and fits(substitute(value, self.tighter), 32))

    def value(self, value: Int, bits: int = 32) -> Register:
        """Return a register of 32 or 64 ``bits`` that holds an integer. Raises PtxError if a 32-bit register may be too small."""
        if bits == 32 and not self.fits(value):
            raise PtxError(
                f"the value {short_repr(value)} must fit in 32 bits, but its bounds are {short_repr(bounds_of(value))}: declare closer "
                "bounds of its scalars (lower=, upper=)"
            )
        key, block = ("value", key_of(value), bits), self.home(symbols_of(value))
        return block.once(key, self._sum, block, value, bits, None)

    def operand(self, value: Int, bits: int = 32) -> Register | int:
        """Return an instruction operand: a plain integer unchanged, or the register that holds a symbolic integer."""
        return value if type(value) is int else self.value(value, bits)

    def _sum(self, block: Block, value: Int, bits: int, total: Register | None) -> Register:
        """Compute ``total + value`` modulo ``2**bits`` in a block's head, and return its register."""
        for atom, coefficient in terms_of(value):
            total = self._term(block, atom, coefficient, bits, total)
        const = constant_of(value)
        if bits == 32:  # as a coefficient
            const = (const + 2**31) % 2**32 - 2**31
        if total is None:
            return self.pure(block, f"mov.b{bits}", f"b{bits}", const)
        return self.pure(block, f"add.s{bits}", f"b{bits}", total, const) if const else total

    def _term(self, block: Block, atom: Atom, coefficient: int, bits: int, total: Register | None) -> Register:
        type, rest = f"b{bits}", () if total is None else (total,)
        multiply = "mad" if rest else "mul"
        if bits == 64 and atom.lower is not None and atom.upper is not None and atom.upper < 2**31:
            unsigned = atom.lower >= 0 and 0 < coefficient < 2**32
            if unsigned or (atom.lower >= -(2**31) and -(2**31) <= coefficient < 2**31):
                wide, factor = "u32" if unsigned else "s32", self._atom(atom, 32)
                return self.pure(block, f"{multiply}.wide.{wide}", type, factor, coefficient, *rest)
        factor = self._atom(atom, bits)
        if bits == 32:  # a coefficient past the register's width wraps as the sum does
            coefficient = (coefficient + 2**31) % 2**32 - 2**31
        if coefficient == 1:
            return factor if total is None else self.pure(block, f"add.s{bits}", type, total, factor)
        if total is None and coefficient & (coefficient - 1) == 0 and coefficient > 0:
            return self.pure(block, f"shl.{type}", type, factor, coefficient.bit_length() - 1)
        return self.pure(block, f"{multiply}.lo.s{bits}", type, factor, coefficient, *rest)

    def _atom(self, atom: Atom, bits: int) -> Register:
        block = self.home(atom.symbols)

        def compute() -> Register:
            if isinstance(atom, Symbol):
                natural = self._bound[atom][0] if atom in self._bound else self.bindings.symbol(self, atom)
            else:
                natural = _LOWERED.get(atom.op, IndexEmitter._one_instruction)(self, block, atom)
            if natural.bits < bits:
                sign = "s" if atom.lower is None or atom.lower < 0 else "u"
                return self.pure(block, f"cvt.{sign}64.{sign}32", "b64", natural)
            if natural.bits > bits:
                return self.pure(block, "cvt.u32.u64", "b32", natural)
            return natural

        return block.once(("atom", atom, bits), compute)

    def _width(self, atom: Atom) -> int:
        """Return the width, 32 or 64 bits, in which an operation and its operands fit."""
        return 32 if all(map(self.fits, (*atom.operands, of_atom(atom)))) else 64

    def _one_instruction(self, block: Block, atom: Atom) -> Register:
        bits, opcode = self._width(atom), OPERATIONS[atom.op].instruction
        left, right = (self.value(operand, bits) for operand in atom.operands)
        return self.pure(block, f"{opcode}{bits}", f"b{bits}", left, right)

    def _product(self, block: Block, atom: Atom) -> Register:
        if self._width(atom) == 32 or not all(map(self.fits, atom.operands)):
            return self._one_instruction(block, atom)
        lowest = min(-1 if (low := bounds_of(factor)[0]) is None else low for factor in atom.operands)
        left, right = map(self.value, atom.operands)
        return self.pure(block, f"mul.wide.{'u' if lowest >= 0 else 's'}32", "b64", left, right)

    def _minimum(self, block: Block, atom: Atom) -> Register:
        left, right = map(self.exact, atom.operands)
        bits = self._width(atom)
        least, other = self.value(left, bits), self.operand(right, bits)
        if bits == 64:
            return self.pure(block, "min.s64", "b64", least, other)
        chosen = self.pure(block, "setp.lt.s32", "pred", least, other)  # min.s32 is not safe (docs/design.md)
        return self.pure(block, "selp.b32", "b32", least, other, chosen)

    def exact(self, value: Int) -> Int:
        """Return an integer unchanged. Raises PtxError if the integer may not fit in 64 bits."""
        if _may_pass_64_bits(value) and _may_pass_64_bits(substitute(value, self.tighter)):
            lower, upper = bounds_of(value)
            raise PtxError(
                f"the value {short_repr(value)} must fit in 64 bits, but its bounds are {short_repr(lower)} and "
                f"{short_repr(upper)}: declare lower= and upper= of its scalars"
            )
        return value

    def _division(self, block: Block, atom: Atom) -> Register:
        (dividend, by), modulo = atom.operands, atom.op == "%"
        lower, blocks_below = bounds_of(dividend)[0], 0
        if by & (by - 1):  # only powers of two round toward minus infinity by themselves
            if lower is None:
                raise PtxError(
                    f"{atom}: the dividend has no lower bound, so the divisor must be a power of two, got {by}: declare lower= of its scalars"
                )
            blocks_below = max(0, -(lower // by))
            dividend, lower = dividend + blocks_below * by, lower + blocks_below * by
        bits = 32 if fits(dividend, 32) and by <= 2**31 else 64
        divided = self.value(self.exact(dividend), bits)
        if by & (by - 1) == 0:
            if modulo:
                return self.pure(block, f"and.b{bits}", f"b{bits}", divided, by - 1)
            sign = "u" if lower is not None and lower >= 0 else "s"
            return self.pure(block, f"shr.{sign}{bits}", f"b{bits}", divided, by.bit_length() - 1)
        quotient = self.pure(block, f"{'rem' if modulo else 'div'}.u{bits}", f"b{bits}", divided, by)
        if modulo or not blocks_below:
            return quotient
        return self.pure(block, f"add.s{bits}", f"b{bits}", quotient, -blocks_below)

    # ------------------------------------------------------------------------------------------- addresses

    def address(
        self, buffer: Buffer, offset_elems: Int = 0, swizzle: Swizzle | None = None, *, whole: bool = False
    ) -> Address:
        """Return an element's address: a register for the variable part plus an immediate for the constant part.

        The swizzle is applied to ``offset_elems`` from the start of a global or shared buffer. With ``whole``, the register
        without the immediate is an address inside the buffer, as ``mapa`` needs it. Raises PtxError if the buffer has no
        addresses, or if the kernel does not declare the shared buffer.
        """
        space = buffer.space
        if buffer.dtype.bits < 8:
            raise PtxError(
                f"{buffer.name}: elements must be whole bytes to have an address, got {buffer.dtype.bits} bits"
            )
        if space not in ("global", "shared"):
            raise PtxError(
                f"the buffer {buffer.name} must be in global or shared memory to have an address, got {space} memory"
            )
        size, offset, before = buffer.dtype.bits // 8, offset_elems, buffer.storage_offset
        if swizzle is None and (before.__class__ is not int or before):
            offset = offset + before
        const, terms = (offset.const, offset.terms) if isinstance(offset, Expr) else (offset, ())
        divisor, swizzled = _swizzled_part(terms, swizzle)
        align_elems = gcd(const, divisor)
        if swizzled is not None:
            align_elems = gcd(align_elems, divisor_of(before))
            offset = swizzled.plus(const) + before
            const, terms = constant_of(offset), terms_of(offset)
        align, const = gcd(buffer.align_bytes, align_elems * size), const * size
        if not -(2**62) < const < 2**62:
            raise PtxError(
                f"address: offset_elems in {buffer.name} must fit in 62 bits, got {short_repr(offset_elems)}"
            )
        immediate = const if -IMMEDIATE_REACH_BYTES <= const < IMMEDIATE_REACH_BYTES else 0
        if whole:
            lower, _ = bounds_of(sum_of(0, terms))
            immediate = 0 if lower is None or lower < 0 or const < 0 else immediate
        key = ("address", buffer.memory, size, terms, const - immediate)
        base = self.blocks[-1].once(key, self._base, buffer, terms, const - immediate, immediate)
        return Address(space, base, immediate, align)

    def element(self, region: Region, *, whole: bool = False) -> Address:
        """Return the :meth:`address` of a one-element region, such as an mbarrier. Raises PtxError for a larger region."""
        if region.size != 1:
            raise PtxError(f"element: region must have exactly one element, got {short_repr(region)}")
        place = region.buffer.layout.apply(*region.starts, shape=region.buffer.shape)
        return self.address(region.buffer, place.get("m", 0), whole=whole)

    def _base(self, buffer: Buffer, terms: tuple[Term, ...], const_bytes: int, immediate: int) -> Register:
        """Return the register of an address. Inner blocks share the partial sum of each depth of blocks."""
        varying = sum_of(0, terms) * (buffer.dtype.bits // 8) + const_bytes
        start = (self.bindings.pointer if buffer.space == "global" else self.bindings.shared_base)(self, buffer)
        parts: dict[tuple[int, bool], list[Term]] = {}
        for term in terms_of(varying):  # rounds that a stride known at launch keeps apart differ in the last part alone
            uniform = not any(symbol.register or symbol.varies != "grid" for symbol in term[0].symbols)
            parts.setdefault((self.home(term[0].symbols).depth, uniform), []).append(term)
        total, place = start, varying + immediate
        for depth, uniform in sorted(parts):
            block, terms = self._at(depth), tuple(parts[depth, uniform])
            factor = self._narrow_by(Expr(0, terms), place, buffer) if start.bits == 64 else 0
            total = block.once(("base", total, terms, factor), self._plus, block, total, Expr(0, terms), factor)
        const = constant_of(varying)
        if const:
            block = self.home(symbols_of(varying))
            total = block.once(("base", total, const), self._sum, block, const, start.bits, total)
        return total

    def _narrow_by(self, part: Expr, place: Int, buffer: Buffer) -> int:
        """Return the common factor of a part of ``place`` if its multiples are below ``2**31`` for places in bounds, else 0."""
        factor = gcd(*(coefficient for _, coefficient in part.terms))
        lower, span_bytes = part.bounds[0], _span_bytes(buffer.memory)
        if span_bytes is None or lower is None or lower < 0 or factor >= 2**32:
            return 0
        others = [term for term in terms_of(place) if term not in part.terms]
        least = bounds_of(sum_of(constant_of(place), others))[0]  # two places that share a part may differ in it
        return factor if least is not None and (span_bytes - min(least, 0)) // factor < 2**31 else 0

    def _plus(self, block: Block, start: Register, part: Expr, factor: int) -> Register:
        """Return ``start`` plus a part of a place; a narrow part of 64 bits is computed as a 32-bit index times its factor."""
        if not factor:
            return self._sum(block, part, start.bits, start)
        index = Expr(0, tuple((atom, coefficient // factor) for atom, coefficient in part.terms))
        narrow = block.once(("value", key_of(index), 32), self._sum, block, index, 32, None)
        product = pure_once(self, block, ("wide", key_of(index), factor), "mul.wide.u32", "b64", narrow, factor)
        return self.pure(block, "add.s64", "b64", start, product)

    # ------------------------------------------------------------------------------------------- control

    def predicate(self, condition: Condition, compare: Callable[[Condition], Register] | None = None) -> Register:
        """Return a predicate register with the value of a condition. ``compare`` lowers comparisons of operands that are not integers."""
        if condition.op in ("and", "or", "not"):
            parts = [self.predicate(part, compare) for part in (condition.left, condition.right) if part is not None]
            result = self.reg("pred")
            self.instr(f"{condition.op}.pred", result, *parts)
            return result
        return (compare or self._compare)(condition)

    def _compare(self, condition: Condition) -> Register:
        left, right = map(self.exact, (condition.left, condition.right))
        bits = 32 if self.fits(left) and self.fits(right) else 64
        result = self.reg("pred")
        against = self.operand(right, bits)
        self.instr(f"setp.{SETP[condition.op]}.s{bits}", result, self.value(left, bits), against)
        return result

    def either(
        self, predicate: Register, first: Callable[[], None], otherwise: Callable[[], None], *, uniform: bool
    ) -> None:
        """Write a branch: ``first`` for the threads whose predicate is true, ``otherwise`` for the other threads.

        Both write through this builder. For the first path the cost is only the branch, because values for the other path
        are computed in its own block. ``uniform`` asserts that all threads of a warp agree.
        """
        branch, floor = "bra.uni" if uniform else "bra", self._floor
        label, end = self.new_label("inside"), self.new_label("endinside")
        written = [Block(len(self.blocks)), Block(len(self.blocks))]
        for block, write in zip(written, (first, otherwise), strict=True):
            self.blocks.append(block)
            self._floor = floor if write is first else max(floor, block.depth)
            write()
            self.blocks.pop()
        self._floor = floor
        body = self.blocks[-1].body
        self.instr(branch, label, guard=predicate)
        body += written[1].head + written[1].body
        self.instr(branch, end)
        self.place(label)
        body += written[0].head + written[0].body
        self.place(end)

    @contextmanager
    def loop(self, index: Symbol, count: Int, start: Int = 0, *, unroll: bool = True) -> Iterator[None]:
        """Open a loop of ``count`` iterations. ``index`` counts up from ``start``. ``unroll`` permits unrolling."""
        stop = start + count
        edges = [self.exact(start), self.exact(stop)]
        bits = 32 if all(map(self.fits, edges)) else 64
        counter = self.reg(f"b{bits}")
        self.instr(f"mov.b{bits}", counter, self.operand(start, bits))
        head, end = self.new_label("loop"), self.new_label("endloop")
        may_be_empty = (bounds_of(count)[0] or 0) < 1
        if may_be_empty:
            done = self.reg("pred")
            self.instr(f"setp.ge.s{bits}", done, counter, self.operand(stop, bits))
            self.instr("bra", end, guard=done)
        self.place(head)
        if not unroll:
            self._place(Line(".pragma", (Written('"nounroll"'),), statement=self.statement))
        with self.block():
            self.bind(index, counter)
            yield
        self.instr(f"add.s{bits}", counter, counter, 1)
        again = self.reg("pred")
        self.instr(f"setp.lt.s{bits}", again, counter, self.operand(stop, bits))
        self.instr("bra", head, guard=again)
        if may_be_empty:
            self.place(end)


def _may_pass_64_bits(value: Int) -> bool:
    """Return whether a bound of an integer exceeds 64 bits; an integer without bounds is assumed to fit."""
    lower, upper = bounds_of(value)
    return (lower is not None and lower < -(2**63)) or (upper is not None and upper >= 2**63)


@lru_cache(maxsize=1024)
def _swizzled_part(terms: tuple[Term, ...], swizzle: Swizzle | None) -> tuple[int, SwizzledTerms | None]:
    """Return a divisor of the variable part of an offset that the swizzle keeps, and the swizzled variable part."""
    divisor = divisor_of(sum_of(0, terms))
    return (divisor, None) if swizzle is None else (gcd(divisor, swizzle.chunk_elems), SwizzledTerms(terms, swizzle))


@lru_cache(maxsize=64)
def _span_bytes(memory: Memory) -> int | None:
    """Return the most bytes that a memory may have, or None if there is no bound."""
    _, most = bounds_of(memory.layout.reach())
    return None if most is None else -(-most * memory.dtype.bits // 8)


_LOWERED: dict[str, Callable[[IndexEmitter, Block, Atom], Register]] = {
    "//": IndexEmitter._division,
    "%": IndexEmitter._division,
    "*": IndexEmitter._product,
    "min": IndexEmitter._minimum,
}
"""Operations that need more than the one instruction in their row of :data:`~tilecopy_core.integers.expr.OPERATIONS`."""
