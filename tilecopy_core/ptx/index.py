"""Index arithmetic: symbolic integers become registers, element offsets become addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import gcd

from ..errors import LayoutError, PtxError
from ..expr import (
    Atom,
    Condition,
    Expr,
    FloorDiv,
    Int,
    Mod,
    Product,
    Symbol,
    as_expr,
    bounds_of,
    divisor_of,
    possible_bits,
    simplify,
    symbol,
    symbols_of,
    xor,
)
from ..layout import Swizzle
from ..memory import Buffer
from ..scope import TID, Scope, tid_symbol
from ..target import STATIC_SHARED_LIMIT_BYTES, Target
from .emitter import Block, Emitter
from .operands import Address, Register

SPECIAL_REGISTERS = {
    TID: "%tid.x",
    **{f"ctaid.{d}": f"%ctaid.{d}" for d in "xyz"},
    **{f"nctaid.{d}": f"%nctaid.{d}" for d in "xyz"},
    "cluster_ctarank": "%cluster_ctarank",
}
"""Symbols that are special registers."""

SETP = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""Comparison -> the ISA's word for it."""
POOL = "smem_pool"


class IndexEmitter(Emitter):
    """Lowers expressions and addresses, each computed once in the outermost block that it can live in.

    Args:
        target: the architecture.
        cta_threads: threads of the CTA.
        shared: the shared buffers of the kernel, in order.

    Attributes:
        shared_bytes: shared memory of the CTA, alignment gaps included.
        shared_offsets: start of each shared buffer, by name, when they lie in one dynamic pool.
        dynamic_shared: whether they do (more than the static limit of 48 KiB).
    """

    def __init__(self, target: Target, cta_threads: int, shared: Sequence[Buffer] = ()) -> None:
        super().__init__(target)
        self.cta_threads = cta_threads
        self.shared_buffers = {buffer.name: buffer for buffer in shared}
        self.shared_offsets: dict[str, int] = {}
        end = 0
        for buffer in shared:
            start = -(-end // buffer.align_bytes) * buffer.align_bytes
            self.shared_offsets[buffer.name] = start
            end = start + buffer.span_bytes
        self.shared_bytes = end
        self.dynamic_shared = end > STATIC_SHARED_LIMIT_BYTES
        if end > target.shared_limit_bytes:
            sizes = ", ".join(f"{b.name} {b.span_bytes}" for b in shared)
            raise PtxError(
                f"{end} bytes of shared memory ({sizes}) are more than the {target.shared_limit_bytes} of {target}"
            )
        self._bound: dict[str, tuple[Register, int]] = {}
        self._scalar_params: dict[str, str] = {}

    # ------------------------------------------------------------------------------------------- symbols

    @property
    def tid(self) -> Int:
        """The thread's index in the CTA."""
        return simplify(tid_symbol(self.cta_threads)) if self.cta_threads > 1 else 0

    def thread_index(self, scope: Scope) -> Int:
        """The thread's index in a scope."""
        return scope.thread_index(self.tid)

    def declare_scalar(self, name: str, type: str) -> None:
        """Let the symbol ``name`` be the kernel parameter ``param_<name>`` of ``b32`` or ``b64``."""
        self._scalar_params[name] = type

    def bind(self, name: str, register: Register) -> None:
        """Let a symbol be a register that has just been computed at the current place."""
        block = self.blocks[-1]
        block.head += block.body  # what depends on the symbol goes after its computation
        block.body = []
        self._bound[name] = (register, block.depth)

    def _home(self, found: set[Symbol]) -> Block:
        """The outermost block in which all symbols exist."""
        depth = max((self._bound[s.name][1] for s in found if s.name in self._bound), default=0)
        return self.blocks[depth]

    def _symbol(self, atom: Symbol) -> Register:
        if atom.name in self._bound:
            return self._bound[atom.name][0]
        root = self.blocks[0]
        if atom.name not in root.known:
            if atom.name in SPECIAL_REGISTERS:
                root.known[atom.name] = self.pure(root, "mov.u32", self.reg("b32"), SPECIAL_REGISTERS[atom.name])
            elif atom.name in self._scalar_params:
                type = self._scalar_params[atom.name]
                loaded = self.pure(root, f"ld.param.{type}", self.reg(type), f"[param_{atom.name}]")
                root.known[atom.name] = loaded
            else:
                raise PtxError(
                    f"the symbol {atom.name} has no value here: it belongs to a loop or kernel that is closed"
                )
        register = root.known[atom.name]
        assert isinstance(register, Register)
        return register

    # ------------------------------------------------------------------------------------------- values

    def value(self, expr: Int, bits: int = 32) -> Register:
        """A symbolic integer in a register of 32 or 64 bits.

        Raises:
            PtxError: 32 bits are asked for and the value is not proved to fit.
        """
        expr = as_expr(expr)
        block = self._home(symbols_of(expr))
        key = (expr, bits)
        if key not in block.known:
            block.known[key] = self._sum(block, expr, bits, None)
        register = block.known[key]
        assert isinstance(register, Register)
        return register

    def _sum(self, block: Block, expr: Expr, bits: int, total: Register | None) -> Register:
        """``total + expr`` in a block's head."""
        if bits == 32 and total is None and not _fits32(expr):
            raise PtxError(f"{expr} is not proved to fit 32 bits; its bounds are {bounds_of(expr)}")
        return self._terms(block, expr, bits, total)

    def _terms(self, block: Block, expr: Expr, bits: int, total: Register | None) -> Register:
        for atom, coefficient in expr.terms:
            total = self._term(block, atom, coefficient, bits, total)
        if expr.const or total is None:
            if total is None:
                return self.pure(block, f"mov.b{bits}", self.reg(f"b{bits}"), expr.const)
            total = self.pure(block, f"add.s{bits}", self.reg(f"b{bits}"), total, expr.const)
        return total

    def _term(self, block: Block, atom: Atom, coefficient: int, bits: int, total: Register | None) -> Register:
        type = f"b{bits}"
        lower, upper = bounds_of(Expr(0, ((atom, 1),)))
        if bits == 64:
            wide = None
            if lower is not None and upper is not None and upper < 2**31:
                if lower >= 0 and 0 < coefficient < 2**32:
                    wide = "u32"
                elif lower >= -(2**31) and -(2**31) <= coefficient < 2**31:
                    wide = "s32"
            if wide is not None:
                factor = self._atom(atom, 32)
                if total is None:
                    return self.pure(block, f"mul.wide.{wide}", self.reg(type), factor, coefficient)
                return self.pure(block, f"mad.wide.{wide}", self.reg(type), factor, coefficient, total)
        factor = self._atom(atom, bits)
        if coefficient == 1:
            return factor if total is None else self.pure(block, f"add.s{bits}", self.reg(type), total, factor)
        if total is None:
            if coefficient & (coefficient - 1) == 0 and coefficient > 0:
                return self.pure(block, f"shl.{type}", self.reg(type), factor, coefficient.bit_length() - 1)
            return self.pure(block, f"mul.lo.s{bits}", self.reg(type), factor, coefficient)
        return self.pure(block, f"mad.lo.s{bits}", self.reg(type), factor, coefficient, total)

    def _atom(self, atom: Atom, bits: int) -> Register:
        expr = Expr(0, ((atom, 1),))
        block = self._home(symbols_of(expr))
        key = (atom, bits)
        if key not in block.known:
            natural = self._symbol(atom) if isinstance(atom, Symbol) else self._operation(block, atom)
            if natural.bits < bits:
                sign = "s" if (bounds_of(expr)[0] or 0) < 0 or bounds_of(expr)[0] is None else "u"
                natural = self.pure(block, f"cvt.{sign}64.{sign}32", self.reg("b64"), natural)
            elif natural.bits > bits:
                natural = self.pure(block, "cvt.u32.u64", self.reg("b32"), natural)
            block.known[key] = natural
        register = block.known[key]
        assert isinstance(register, Register)
        return register

    def _operation(self, block: Block, atom: Atom) -> Register:
        assert not isinstance(atom, Symbol)
        if isinstance(atom, (FloorDiv, Mod)):
            bits = 32 if _fits32(atom.dividend) else 64
            dividend = self.value(simplify(atom.dividend), bits)
            lower, _ = bounds_of(atom.dividend)
            result, power = self.reg(f"b{bits}"), atom.divisor & (atom.divisor - 1) == 0
            sign = "u" if lower is not None and lower >= 0 else "s"
            if power and isinstance(atom, Mod):
                return self.pure(block, f"and.b{bits}", result, dividend, atom.divisor - 1)
            if power:
                return self.pure(block, f"shr.{sign}{bits}", result, dividend, atom.divisor.bit_length() - 1)
            if sign == "s":
                raise PtxError(f"{atom}: the dividend may be negative and the divisor is not a power of two")
            return self.pure(
                block, f"{'rem' if isinstance(atom, Mod) else 'div'}.u{bits}", result, dividend, atom.divisor
            )
        bits = 32 if _fits32(Expr(0, ((atom, 1),))) and _fits32(atom.left) and _fits32(atom.right) else 64
        left, right = self.value(simplify(atom.left), bits), self.value(simplify(atom.right), bits)
        opcode = f"mul.lo.s{bits}" if isinstance(atom, Product) else f"xor.b{bits}"
        return self.pure(block, opcode, self.reg(f"b{bits}"), left, right)

    # ------------------------------------------------------------------------------------------- addresses

    def pointer(self, buffer: Buffer) -> Register:
        """The 64-bit address of a global parameter."""
        root, key = self.blocks[0], f"param_{buffer.name}"
        if key not in root.known:
            loaded = self.pure(root, "ld.param.u64", self.reg("b64"), f"[{key}]")
            root.known[key] = self.pure(root, "cvta.to.global.u64", self.reg("b64"), loaded)
        register = root.known[key]
        assert isinstance(register, Register)
        return register

    def address(self, buffer: Buffer, offset_elems: Int = 0, swizzle: Swizzle | None = None) -> Address:
        """The address of an element: the part that varies in a register, computed once, the constant as immediate.

        Args:
            buffer: a global or shared buffer.
            offset_elems: from the buffer's start, before the swizzle.
            swizzle: applied to ``offset_elems``.

        Raises:
            PtxError: the buffer has no addresses, or is a shared buffer that the kernel does not declare.
        """
        if buffer.dtype.bits < 8:
            raise PtxError(f"{buffer.name}: elements of {buffer.dtype.bits} bits have no address")
        if buffer.space not in ("global", "shared"):
            raise PtxError(f"{buffer.name} is in {buffer.space} memory, which has no addresses")
        size = buffer.dtype.bits // 8
        offset = as_expr(offset_elems)
        align = gcd(buffer.align_bytes, divisor_of(offset) * size, divisor_of(buffer.elem_offset) * size)
        if swizzle is not None:
            align = gcd(align, swizzle.chunk_elems * size)
            offset = swizzled_offset(offset, swizzle)
        place = as_expr((simplify(offset) + buffer.elem_offset) * size)
        immediate = place.const if -(2**23) <= place.const < 2**23 else 0
        varying = Expr(place.const - immediate, place.terms)
        if buffer.space == "global":
            base: Register | str = self._base(buffer.name, self.pointer(buffer), varying, _span_bytes(buffer))
        else:
            base = self._shared_base(buffer, varying)
        return Address(buffer.space, base, immediate, align)

    def shared_symbol(self, buffer: Buffer) -> tuple[str, int]:
        """The variable that holds a shared buffer, and the buffer's start in it.

        Raises:
            PtxError: the kernel does not declare the buffer.
        """
        if self.shared_buffers.get(buffer.name) != buffer:
            raise PtxError(f"the shared buffer {buffer.name} does not belong to this kernel")
        return (POOL, self.shared_offsets[buffer.name]) if self.dynamic_shared else (f"smem_{buffer.name}", 0)

    def _shared_base(self, buffer: Buffer, varying: Expr) -> Register:
        variable, start = self.shared_symbol(buffer)
        root, key = self.blocks[0], f"smem {variable}+{start}"
        if key not in root.known:
            base = self.pure(root, "mov.u32", self.reg("b32"), variable)
            root.known[key] = self.pure(root, "add.s32", self.reg("b32"), base, start) if start else base
        register = root.known[key]
        assert isinstance(register, Register)
        return self._base(key, register, varying, None)

    def _base(self, name: str, start: Register, varying: Expr, span_bytes: int | None) -> Register:
        """``start + varying``: one sum for each depth of blocks, so that inner blocks share what outer ones computed.

        Args:
            name: what ``start`` is.
            start: a 32-bit shared address or a 64-bit global pointer.
            varying: bytes to add.
            span_bytes: bytes of the global array, where they are known.
        """
        by_depth: dict[int, list[tuple[Atom, int]]] = {}
        for term in varying.terms:
            by_depth.setdefault(self._home(symbols_of(Expr(0, (term,)))).depth, []).append(term)
        total, done = start, Expr(0, ())
        for depth in sorted(by_depth):
            block, part = self.blocks[depth], Expr(0, tuple(by_depth[depth]))
            done = as_expr(part + done)
            key = ("base", name, done)
            if key not in block.known:
                block.known[key] = self._plus(block, total, part, span_bytes)
            total = block.known[key]
        if varying.const:
            block = self._home(symbols_of(varying))
            key = ("base", name, varying)
            if key not in block.known:
                bits = start.bits
                block.known[key] = self.pure(block, f"add.s{bits}", self.reg(f"b{bits}"), total, varying.const)
            total = block.known[key]
        return total

    def _plus(self, block: Block, start: Register, part: Expr, span_bytes: int | None) -> Register:
        """``start + part`` bytes. A global offset inside the array is a 32-bit index times its common factor."""
        if start.bits == 32:
            return self._sum(block, part, 32, start)
        factor = gcd(*(coefficient for _, coefficient in part.terms))
        lower, _ = bounds_of(part)
        if span_bytes is not None and lower is not None and lower >= 0 and span_bytes // factor < 2**31:
            index = Expr(0, tuple((atom, coefficient // factor) for atom, coefficient in part.terms))
            key = ("wide", index, factor)
            if key not in block.known:
                narrow = self._known_sum(block, index)
                block.known[key] = self.pure(block, "mul.wide.u32", self.reg("b64"), narrow, factor)
            return self.pure(block, "add.s64", self.reg("b64"), start, block.known[key])
        return self._sum(block, part, 64, start)

    def _known_sum(self, block: Block, index: Expr) -> Register:
        """An index that is below 2**31 in every access inside its array, in 32 bits."""
        key = ("index", index)
        if key not in block.known:
            block.known[key] = self._terms(block, index, 32, None)
        register = block.known[key]
        assert isinstance(register, Register)
        return register

    # ------------------------------------------------------------------------------------------- control

    def predicate(self, condition: Condition, compare: Callable[[Condition], Register] | None = None) -> Register:
        """A condition in a predicate register.

        Args:
            condition: comparisons of symbolic integers, and ``and``, ``or``, ``not`` of them.
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
        bits = 32 if _fits32(as_expr(condition.left)) and _fits32(as_expr(condition.right)) else 64
        right = as_expr(condition.right)
        result = self.reg("pred")
        self.instr(
            f"setp.{SETP[condition.op]}.s{bits}",
            result,
            self.value(condition.left, bits),
            right.const if not right.terms else self.value(condition.right, bits),
        )
        return result

    @contextmanager
    def loop(self, count: Int, name: str, start: Int = 0) -> Iterator[Expr]:
        """A rolled loop of ``count`` turns; gives the symbolic index, which goes from ``start`` up by 1."""
        _, most = bounds_of(count)
        first, _ = bounds_of(start)
        last = None if most is None or bounds_of(start)[1] is None else most + (bounds_of(start)[1] or 0) - 1
        index = symbol(name, lower=first or 0, upper=2**31 - 2 if last is None else max(last, 0), varies="cta")
        counter = self.reg("b32")
        self.instr("mov.b32", counter, self.value(start) if as_expr(start).terms else start)
        head, end = self.new_label("loop"), self.new_label("endloop")
        stop = start + count
        may_be_empty = (bounds_of(count)[0] or 0) < 1
        if may_be_empty:
            done = self.reg("pred")
            self.instr("setp.ge.s32", done, counter, self.value(stop) if as_expr(stop).terms else stop)
            self.instr("bra", end, guard=done)
        self.place(head)
        with self.block():
            self.bind(name, counter)
            yield index
            del self._bound[name]
        self.instr("add.s32", counter, counter, 1)
        again = self.reg("pred")
        self.instr("setp.lt.s32", again, counter, self.value(stop) if as_expr(stop).terms else stop)
        self.instr("bra", head, guard=again)
        if may_be_empty:
            self.place(end)


def _fits32(expr: Expr) -> bool:
    lower, upper = bounds_of(expr)
    return lower is not None and upper is not None and lower >= -(2**31) and upper < 2**31


def _span_bytes(buffer: Buffer) -> int | None:
    try:
        return buffer.span_bytes
    except LayoutError:  # a stride is symbolic
        return None


def swizzled_offset(offset: Expr, swizzle: Swizzle) -> Expr:
    """A swizzled element offset, taken apart so that little of it is computed again in each round.

    Multiples of the swizzle's period pass it unchanged. A constant that has no bit in common with the varying part
    is XOR-ed in rather than added, and the XOR is linear: ``swz(x ^ c) == swz(x) ^ swz(c)``, so that rounds whose
    constants differ above the swizzled bits share one register and differ in the immediate alone.
    """
    period = swizzle.period_elems
    outside = Expr(
        offset.const // period * period, tuple((a, c) for a, c in offset.terms if _always_multiple(a, c, period))
    )
    inside = Expr(0, tuple((a, c) for a, c in offset.terms if not _always_multiple(a, c, period)))
    low = offset.const % period
    bits = possible_bits(inside)
    if bits is None or bits & low:
        return as_expr(swizzle.apply(simplify(Expr(low, inside.terms))) + simplify(outside))
    pattern = as_expr(swizzle.apply(simplify(inside)))
    constant = int(swizzle.apply(low))
    reach = possible_bits(pattern)
    movable = constant if reach is None else constant & reach
    mixed = xor(pattern, Expr(movable, ())) if movable else pattern
    return as_expr(simplify(mixed) + (constant - movable) + simplify(outside))


def _always_multiple(atom: Atom, coefficient: int, factor: int) -> bool:
    return divisor_of(Expr(0, ((atom, coefficient),))) % factor == 0
