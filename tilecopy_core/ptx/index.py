"""Index arithmetic: symbolic integers become registers, element offsets become addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import gcd
from typing import overload

from ..errors import FLAG, TWO_FLAGS, Kind, PtxError, a, checked, many, maybe, shown
from ..expr import (
    CONDITION,
    INT,
    Atom,
    Condition,
    Expr,
    FloorDiv,
    Int,
    Mod,
    Product,
    Symbol,
    Term,
    Xor,
    add,
    bounds_of,
    constant_of,
    divisor_of,
    fits,
    key_of,
    made_of,
    mul,
    of_atom,
    possible_bits,
    same,
    sub,
    substitute,
    sum_of,
    symbols_of,
    terms_of,
    xor,
)
from ..layout import Swizzle, m
from ..memory import Buffer, Region
from ..target import Target
from ..views import reach
from .bindings import Bindings
from .emitter import Block, Emitter, Sunk, pure_once
from .operands import Address, Register, address_of

SETP = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""Comparison -> the ISA's word for it."""
IMMEDIATE_REACH_BYTES = 2**23
"""Constants of an address below this stay immediates; the machine instruction has 24 bits for them."""

_DECIDED = Kind("a predicate register", lambda value: isinstance(value, Register) and value.type == "pred")
_PREDICATE = Kind("a predicate register, True or False", lambda value: _DECIDED.fits(value) or FLAG.fits(value))
_WAY = Kind("a function of no argument", callable)


class IndexEmitter(Emitter):
    """Lowers integers and addresses, each computed once in the outermost block that it can live in.

    Args:
        target: the architecture.
        bindings: where buffers, symbols and fragments come from.

    Attributes:
        tighter: symbols with the closer bounds that they have in this kernel, such as a block id's with a known grid.
    """

    def __init__(self, target: Target, bindings: Bindings) -> None:
        super().__init__(target, bindings.mark)
        self.bindings = bindings
        self.tighter: dict[Symbol, Int] = {}
        self._bound: dict[Symbol, tuple[Register, int]] = {}
        self._swizzled: dict[tuple[tuple[Term, ...], Swizzle], SwizzledTerms] = {}
        self._floor = 0

    # ------------------------------------------------------------------------------------------- symbols

    def bind(self, found: Symbol, register: Register) -> None:
        """Let a symbol be a register that has just been computed at the current place."""
        if not isinstance(found, Symbol):
            raise PtxError(f"bind: found is a Symbol, not {shown(found)}")
        if not isinstance(register, Register) or register.bits not in (32, 64):
            raise PtxError(f"bind: register is one of 32 or 64 bits, not {shown(register)}")
        block = self.blocks[-1]
        block.settle()  # what depends on the symbol goes after its computation
        self._bound[found] = (register, block.depth)

    @contextmanager
    def block(self) -> Iterator[Block]:
        """A nested block; the symbols that were bound in it end with it."""
        with super().block() as opened:
            yield opened
        self._bound = {
            found: (register, depth) for found, (register, depth) in self._bound.items() if depth < opened.depth
        }

    def _home(self, symbols: frozenset[Symbol]) -> Block:
        """The outermost block in which all symbols exist."""
        bound = [self._bound[s][1] for s in symbols if s in self._bound] if self._bound else ()
        return self._at(max(bound, default=0))

    def _at(self, depth: int) -> Block:
        """The block of a depth; from inside a block that keeps its values to itself, as that one sees it."""
        return self.blocks[depth] if depth >= self._floor else Sunk(self.blocks[depth], self.blocks[self._floor])

    def _symbol(self, found: Symbol) -> Register:
        return self._bound[found][0] if found in self._bound else self.bindings.symbol(self, found)

    # ------------------------------------------------------------------------------------------- values

    def _fits(self, value: Int) -> bool:
        """Whether a value is proved to fit 32 bits in this kernel."""
        return fits(value, 32) or (bool(self.tighter) and fits(substitute(value, self.tighter), 32))

    def value(self, value: Int, bits: int = 32) -> Register:
        """A symbolic integer in a register of 32 or 64 bits.

        Raises:
            PtxError: 32 bits are asked for and the value is not proved to fit.
        """
        INT.check(value, "value", "value", PtxError)
        if type(bits) is not int or bits not in (32, 64):
            raise PtxError(f"value: bits is 32 or 64, not {shown(bits)}")
        if bits == 32 and not self._fits(value):
            raise PtxError(
                f"the value {shown(value)} is not proved to fit 32 bits; its bounds are {shown(bounds_of(value))}: declare closer ones "
                "for the scalars in it (upper=, lower=)"
            )
        block = self._home(symbols_of(value))
        return block.once(("value", key_of(value), bits), self._sum, block, value, bits, None)

    def operand(self, value: Int, bits: int = 32) -> Register | int:
        """An integer as an operand: a number that is known stays one, what is symbolic is in a register."""
        return value if type(value) is int else self.value(value, bits)

    def _sum(self, block: Block, value: Int, bits: int, total: Register | None) -> Register:
        """``total + value`` in a block's head, modulo ``2**bits``."""
        for atom, coefficient in terms_of(value):
            total = self._term(block, atom, coefficient, bits, total)
        const = constant_of(value)
        if total is None:
            return self.pure(block, f"mov.b{bits}", self.reg(f"b{bits}"), const)
        return self.pure(block, f"add.s{bits}", self.reg(f"b{bits}"), total, const) if const else total

    def _term(self, block: Block, atom: Atom, coefficient: int, bits: int, total: Register | None) -> Register:
        type = f"b{bits}"
        if bits == 64 and atom.lower is not None and atom.upper is not None and atom.upper < 2**31:
            wide = ""
            if atom.lower >= 0 and 0 < coefficient < 2**32:
                wide = "u32"
            elif atom.lower >= -(2**31) and -(2**31) <= coefficient < 2**31:
                wide = "s32"
            if wide:
                factor = self._atom(atom, 32)
                if total is None:
                    return self.pure(block, f"mul.wide.{wide}", self.reg(type), factor, coefficient)
                return self.pure(block, f"mad.wide.{wide}", self.reg(type), factor, coefficient, total)
        factor = self._atom(atom, bits)
        if bits == 32:  # a coefficient past the register's width wraps as the sum does
            coefficient = (coefficient + 2**31) % 2**32 - 2**31
        if coefficient == 1:
            return factor if total is None else self.pure(block, f"add.s{bits}", self.reg(type), total, factor)
        if total is None:
            if coefficient & (coefficient - 1) == 0 and coefficient > 0:
                return self.pure(block, f"shl.{type}", self.reg(type), factor, coefficient.bit_length() - 1)
            return self.pure(block, f"mul.lo.s{bits}", self.reg(type), factor, coefficient)
        return self.pure(block, f"mad.lo.s{bits}", self.reg(type), factor, coefficient, total)

    def _atom(self, atom: Atom, bits: int) -> Register:
        block = self._home(atom.symbols)

        def compute() -> Register:
            natural = self._symbol(atom) if isinstance(atom, Symbol) else self._operation(block, atom)
            if natural.bits < bits:
                sign = "s" if atom.lower is None or atom.lower < 0 else "u"
                return self.pure(block, f"cvt.{sign}64.{sign}32", self.reg("b64"), natural)
            if natural.bits > bits:
                return self.pure(block, "cvt.u32.u64", self.reg("b32"), natural)
            return natural

        return block.once(("atom", atom, bits), compute)

    def _operation(self, block: Block, atom: Atom) -> Register:
        if isinstance(atom, (FloorDiv, Mod)):
            return self._division(block, atom)
        assert isinstance(atom, (Product, Xor))
        narrow = all(self._fits(part) for part in (atom.left, atom.right))
        bits = 32 if narrow and self._fits(of_atom(atom)) else 64
        if bits == 64 and narrow and isinstance(atom, Product):
            lowest = min(-1 if (low := bounds_of(part)[0]) is None else low for part in (atom.left, atom.right))
            sign = "u" if lowest >= 0 else "s"
            factors = self.value(atom.left), self.value(atom.right)
            return self.pure(block, f"mul.wide.{sign}32", self.reg("b64"), *factors)
        left, right = self.value(atom.left, bits), self.value(atom.right, bits)
        opcode = f"mul.lo.s{bits}" if isinstance(atom, Product) else f"xor.b{bits}"
        return self.pure(block, opcode, self.reg(f"b{bits}"), left, right)

    def _division(self, block: Block, atom: FloorDiv | Mod) -> Register:
        dividend: Int = atom.dividend
        modulo, by = isinstance(atom, Mod), atom.by
        lower, _ = bounds_of(dividend)
        blocks_below = 0
        if by & (by - 1):  # only powers of two round toward minus infinity by themselves
            if lower is None:
                raise PtxError(f"{atom}: the dividend has no lower bound and the divisor is not a power of two")
            blocks_below = max(0, -(lower // by))
            dividend, lower = dividend + blocks_below * by, lower + blocks_below * by
        bits = 32 if fits(dividend, 32) and by <= 2**31 else 64
        divided = self.value(dividend, bits)
        result = self.reg(f"b{bits}")
        if by & (by - 1) == 0:
            if modulo:
                return self.pure(block, f"and.b{bits}", result, divided, by - 1)
            sign = "u" if lower is not None and lower >= 0 else "s"
            return self.pure(block, f"shr.{sign}{bits}", result, divided, by.bit_length() - 1)
        found = self.pure(block, f"{'rem' if modulo else 'div'}.u{bits}", result, divided, by)
        if modulo or not blocks_below:
            return found
        return self.pure(block, f"add.s{bits}", self.reg(f"b{bits}"), found, -blocks_below)

    # ------------------------------------------------------------------------------------------- addresses

    def address(
        self, buffer: Buffer, offset_elems: Int = 0, swizzle: Swizzle | None = None, *, whole: bool = False
    ) -> Address:
        """The address of an element: the part that varies in a register, computed once, the constant as immediate.

        Args:
            buffer: a global or shared buffer.
            offset_elems: from the buffer's start, before the swizzle.
            swizzle: applied to ``offset_elems``.
            whole: let the register alone lie inside the buffer (``mapa`` looks at nothing else).

        Raises:
            PtxError: the buffer has no addresses, or is a shared buffer that the kernel does not declare.
        """
        if type(buffer) is not Buffer:
            raise PtxError(f"address: buffer is a global or shared Buffer, not {shown(buffer)}")
        INT.check(offset_elems, "address", "offset_elems", PtxError)
        if swizzle is not None and type(swizzle) is not Swizzle:
            raise PtxError(f"address: swizzle is a Swizzle, or None, not {shown(swizzle)}")
        FLAG.check(whole, "address", "whole", PtxError)
        if buffer.dtype.bits < 8:
            raise PtxError(f"{buffer.name}: elements of {buffer.dtype.bits} bits have no address")
        if buffer.space not in ("global", "shared"):
            raise PtxError(f"the buffer {buffer.name} is in {buffer.space} memory, which has no addresses")
        size, offset = buffer.dtype.bits // 8, offset_elems
        if swizzle is None:
            offset = add(offset, buffer.elem_offset)
            align = gcd(buffer.align_bytes, divisor_of(offset) * size)
        else:
            align = gcd(divisor_of(offset), divisor_of(buffer.elem_offset), swizzle.chunk_elems)
            align = gcd(buffer.align_bytes, align * size)
            parts = terms_of(offset), swizzle
            swizzled = self._swizzled.get(parts)
            if swizzled is None:
                swizzled = self._swizzled[parts] = SwizzledTerms(*parts)
            offset = add(swizzled.plus(constant_of(offset)), buffer.elem_offset)
        const, terms = constant_of(offset) * size, terms_of(offset)
        if not -(2**62) < const < 2**62:
            raise PtxError(f"address: offset_elems {shown(offset_elems)} of {buffer.name} is past 62 bits")
        immediate = const if -IMMEDIATE_REACH_BYTES <= const < IMMEDIATE_REACH_BYTES else 0
        if whole:
            lower, _ = bounds_of(sum_of(0, terms))
            immediate = 0 if lower is None or lower < 0 or const < 0 else immediate
        key = ("address", buffer.memory, size, terms, const - immediate)
        base = self.blocks[-1].once(key, self._base, buffer, terms, const - immediate, immediate)
        return address_of(buffer.space, base, immediate, align)

    def element(self, region: Region, *, whole: bool = False) -> Address:
        """The address of a region of one element of global or shared memory, such as one mbarrier; see :meth:`address`.

        Raises:
            PtxError: more than one element, or memory that has no addresses.
        """
        if type(region) is not Region or region.size != 1:
            raise PtxError(f"element: region is a Region of one element, not {shown(region)}")
        place = region.buffer.layout.apply(*region.starts, shape=region.buffer.shape)
        return self.address(region.buffer, place.get("m", 0), whole=whole)

    def _base(self, buffer: Buffer, terms: tuple[Term, ...], const_bytes: int, immediate: int) -> Register:
        """A buffer's start and what varies: one sum for each depth of blocks, so that inner blocks share what outer ones computed.

        Args:
            buffer: its start is a 32-bit shared address or a 64-bit global pointer.
            terms: elements to add.
            const_bytes: bytes to add.
            immediate: what the instruction adds beyond that.
        """
        varying = add(mul(sum_of(0, terms), buffer.dtype.bits // 8), const_bytes)
        start = (self.bindings.pointer if buffer.space == "global" else self.bindings.shared_base)(self, buffer)
        parts: dict[tuple[int, bool], list[Term]] = {}
        for term in terms_of(varying):  # rounds that a stride known at launch keeps apart differ in the last part alone
            uniform = not any(found.register or found.varies != "grid" for found in term[0].symbols)
            parts.setdefault((self._home(term[0].symbols).depth, uniform), []).append(term)
        total = start
        done: tuple[Term, ...] = ()
        for depth, uniform in sorted(parts):
            block, part = self._at(depth), parts[depth, uniform]
            done = (*done, *part)
            total = block.once(("base", start, done), self._plus, block, total, part, varying + immediate, buffer)
        const = constant_of(varying)
        if const:
            block = self._home(symbols_of(varying))
            total = block.once(("base", start, key_of(varying)), self._sum, block, const, start.bits, total)
        return total

    def _plus(self, block: Block, start: Register, terms: list[Term], place: Int, buffer: Buffer) -> Register:
        """``start`` and some terms of ``place``, which is inside the buffer.

        Terms that are proved to be below ``2**31`` common factors are a 32-bit index times that factor.
        """
        part = made_of(0, tuple(terms))
        if start.bits == 32:
            return self._sum(block, part, 32, start)
        rest = sub(place, part)
        factor = gcd(*(coefficient for _, coefficient in part.terms))
        least, (lower, _), span_bytes = bounds_of(rest)[0], part.bounds, _span_bytes(buffer)
        if span_bytes is not None and least is not None and lower is not None and lower >= 0 and factor < 2**32:
            most = span_bytes - min(least, 0)
            if most // factor < 2**31:
                index = made_of(0, tuple((atom, coefficient // factor) for atom, coefficient in part.terms))
                narrow = block.once(("value", key_of(index), 32), self._sum, block, index, 32, None)
                product = pure_once(self, block, ("wide", key_of(index), factor), "mul.wide.u32", "b64", narrow, factor)
                return self.pure(block, "add.s64", self.reg("b64"), start, product)
        return self._sum(block, part, 64, start)

    # ------------------------------------------------------------------------------------------- control

    @checked(PtxError, condition=CONDITION, compare=maybe(Kind("a function", callable)))
    def predicate(self, condition: Condition, compare: Callable[[Condition], Register] | None = None) -> Register:
        """A condition on integers in a predicate register.

        Args:
            condition: a comparison, or ``and``, ``or``, ``not`` of them.
            compare: lowers one comparison instead, when its operands are of another kind.
        """
        if condition.op in ("and", "or", "not"):
            sides = (condition.left, condition.right)
            parts = [self.predicate(part, compare) for part in sides if part is not None]
            result = self.reg("pred")
            self.instr(f"{condition.op}.pred", result, *parts)
            return result
        return (compare or self._compare)(condition)

    def _compare(self, condition: Condition) -> Register:
        left, right = condition.left, condition.right
        if not INT.fits(left) or not INT.fits(right):
            raise PtxError(f"predicate: condition {condition!r} is not one of integers; compare= lowers others")
        bits = 32 if self._fits(left) and self._fits(right) else 64
        result = self.reg("pred")
        against = self.operand(right, bits)
        self.instr(f"setp.{SETP[condition.op]}.s{bits}", result, self.value(left, bits), against)
        return result

    @checked(PtxError, place=INT, size=INT, ends=TWO_FLAGS)
    def inside(self, place: Int, size: Int, ends: tuple[bool, bool] = (True, True)) -> Register | bool:
        """Whether ``0 <= place < size``: decided, or a predicate, computed once.

        The constant and the common factor of ``place`` go into what it is compared with, so that places which differ by
        a constant cost one compare each; where the low end becomes 0, one unsigned compare covers both.

        Args:
            place: what is compared.
            size: first value that is too large.
            ends: whether it can be below 0, and whether it can reach ``size``; only those are looked at.
        """
        wanted = [_half_line(place)] if ends[0] else []
        wanted += [_half_line(sub(add(size, -1), place))] if ends[1] else []
        if any(half is False for half in wanted):
            return False
        halves = [half for half in wanted if isinstance(half, tuple)]
        if len(halves) == 2 and same(halves[0][0], halves[1][0]):
            (low,) = [bound for _, op, bound in halves if op == "ge"] or [1]
            (high,) = [bound for _, op, bound in halves if op == "le"] or [-1]
            if low == 0 <= high < 2**31 and fits(halves[0][0], 32):
                return self._against(halves[0][0], "le.u32", high)
        bits = [32 if fits(form, 32) and fits(bound, 32) else 64 for form, _, bound in halves]
        return self.all_of(
            [self._against(f, f"{op}.s{n}", bound) for (f, op, bound), n in zip(halves, bits, strict=True)]
        )

    def _against(self, form: Expr, comparison: str, bound: int) -> Register:
        block, key = self._home(form.symbols), ("against", key_of(form), comparison, bound)
        return pure_once(self, block, key, f"setp.{comparison}", "pred", self.value(form, int(comparison[-2:])), bound)

    @checked(PtxError, predicates=many(_PREDICATE))
    def all_of(self, predicates: Sequence[Register | bool]) -> Register | bool:
        """The conjunction of predicates: decided, or a predicate, computed once."""
        if any(predicate is False for predicate in predicates):
            return False
        found = list(dict.fromkeys(p for p in predicates if isinstance(p, Register)))
        if not found:
            return True
        block, total = self.blocks[-1], found[0]
        for more in found[1:]:
            total = pure_once(self, block, ("both", total, more), "and.pred", "pred", total, more)
        return total

    @overload
    def opposite(self, predicate: Register) -> Register: ...

    @overload
    def opposite(self, predicate: bool) -> bool: ...

    @checked(PtxError, predicate=_PREDICATE)
    def opposite(self, predicate: Register | bool) -> Register | bool:
        """The opposite of a predicate: decided, or a predicate, computed once."""
        if isinstance(predicate, bool):
            return not predicate
        return pure_once(self, self.blocks[-1], ("not", predicate), "not.pred", "pred", predicate)

    @checked(PtxError, predicate=_DECIDED, first=_WAY, otherwise=_WAY, uniform=FLAG)
    def either(
        self, predicate: Register, first: Callable[[], None], otherwise: Callable[[], None], *, uniform: bool
    ) -> None:
        """What ``first`` writes for the threads whose predicate is true, what ``otherwise`` writes for the others.

        The first is the way that costs nothing but the branch: values that the other needs are computed in its own block.

        Args:
            predicate: chooses.
            first: writes through this builder.
            otherwise: likewise.
            uniform: whether the threads of a warp are known to agree.
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
    @checked(PtxError, index=a("a Symbol", Symbol), count=INT, start=INT)
    def loop(self, index: Symbol, count: Int, start: Int = 0) -> Iterator[None]:
        """A rolled loop of ``count`` turns, in which ``index`` goes from ``start`` up by 1."""
        stop = start + count
        if any(type(edge) is int and not fits(edge, 64) for edge in (start, stop)):
            raise PtxError(f"loop: count {shown(count)} from start {shown(start)} is past 64 bits")
        bits = 32 if self._fits(start) and self._fits(stop) else 64
        counter = self.reg(f"b{bits}")
        self.instr(f"mov.b{bits}", counter, self.operand(start, bits))
        head, end = self.new_label("loop"), self.new_label("endloop")
        may_be_empty = (bounds_of(count)[0] or 0) < 1
        if may_be_empty:
            done = self.reg("pred")
            self.instr(f"setp.ge.s{bits}", done, counter, self.operand(stop, bits))
            self.instr("bra", end, guard=done)
        self.place(head)
        with self.block():
            self.bind(index, counter)
            yield
        self.instr(f"add.s{bits}", counter, counter, 1)
        again = self.reg("pred")
        self.instr(f"setp.lt.s{bits}", again, counter, self.operand(stop, bits))
        self.instr("bra", head, guard=again)
        if may_be_empty:
            self.place(end)


def _half_line(value: Int) -> tuple[Expr, str, int] | bool:
    """``value >= 0``: decided, or as a comparison of a sum without constant and common factor with a number."""
    lower, upper = bounds_of(value)
    if lower is not None and lower >= 0:
        return True
    if (upper is not None and upper < 0) or not isinstance(value, Expr):
        return False
    factor = gcd(*(coefficient for _, coefficient in value.terms))
    sign = 1 if value.terms[0][1] > 0 else -1
    form = made_of(0, tuple((atom, sign * coefficient // factor) for atom, coefficient in value.terms))
    most = value.const // factor
    return (form, "ge", -most) if sign > 0 else (form, "le", most)


def _span_bytes(buffer: Buffer) -> int | None:
    """Most bytes that the memory of a buffer can have, the same for every view of it; None where nothing is known."""
    _, most = bounds_of(reach(buffer.memory.layout, m))
    return None if most is None else -(-most * buffer.memory.dtype.bits // 8)


class SwizzledTerms:
    """The varying part of an element offset under a swizzle, taken apart so that little is computed again in each round.

    Multiples of the swizzle's period pass it unchanged. A constant that has no bit in common with the varying part
    is XOR-ed in rather than added, and the XOR is linear: ``swz(x ^ c) == swz(x) ^ swz(c)``, so that rounds whose
    constants differ above the swizzled bits share one register and differ in the immediate alone.
    """

    def __init__(self, terms: tuple[Term, ...], swizzle: Swizzle) -> None:
        period = swizzle.period_elems
        self._swizzle = swizzle
        self._outside = sum_of(0, ((a, c) for a, c in terms if a.divisor * c % period == 0))
        self._inside = sum_of(0, ((a, c) for a, c in terms if a.divisor * c % period))
        self._bits = possible_bits(self._inside)
        self._pattern: Int = swizzle.apply(self._inside)
        self._reach = possible_bits(self._pattern)
        self._period = period
        self._mixed: dict[int, Int] = {}

    def plus(self, const: int) -> Int:
        """The swizzled offset of the terms and a constant."""
        low = const % self._period
        if self._bits is None or self._bits & low:
            varying = self._swizzle.apply(add(self._inside, low))
            return add(add(varying, self._outside), const - low)
        constant = int(self._swizzle.apply(low))
        movable = constant if self._reach is None else constant & self._reach
        mixed = self._mixed.get(movable)
        if mixed is None:
            pattern = xor(self._pattern, movable) if movable else self._pattern
            mixed = self._mixed[movable] = add(pattern, self._outside)
        return add(mixed, const - low + constant - movable)
