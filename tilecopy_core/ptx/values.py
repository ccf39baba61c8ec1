"""Integer arithmetic: symbolic integers become registers, each computed once in the outermost block that it can live in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..description.target import Target
from ..errors import ANY_INTEGER, FLAG, Kind, PtxError, checked, instance_of, one_of, optional, shown
from ..integers.expr import (
    INT,
    Atom,
    Expr,
    Int,
    Symbol,
    bounds_of,
    constant_of,
    fits,
    key_of,
    of_atom,
    substitute,
    symbols_of,
    terms_of,
)
from .bindings import Bindings
from .emitter import Block, Emitter, Sunk
from .operands import Register

_REGISTER = instance_of("a register", Register)


def _may_pass_64_bits(value: Int) -> bool:
    """Whether the bounds of an integer do not fit 64 bits; an integer without bounds is taken to fit."""
    lower, upper = bounds_of(value)
    return (lower is not None and lower < -(2**63)) or (upper is not None and upper >= 2**63)


class ValueEmitter(Emitter):
    """Lowers integers, each computed once in the outermost block that it can live in.

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
        if value.__class__ is not int and value.__class__ is not Expr:
            INT.check(value, "value", "value", PtxError)
        if type(bits) is not int or bits not in (32, 64):
            raise PtxError(f"value: bits is 32 or 64, not {shown(bits)}")
        if bits == 32 and not self._fits(value):
            raise PtxError(
                f"the value {shown(value)} is not proved to fit 32 bits; its bounds are {shown(bounds_of(value))}: declare closer ones "
                "for the scalars in it (upper=, lower=)"
            )
        key, block = ("value", key_of(value), bits), self._home(symbols_of(value))
        return block.once(key, self._sum, block, value, bits, None)

    def operand(self, value: Int, bits: int = 32) -> Register | int:
        """An integer as an operand: a number that is known stays one, what is symbolic is in a register."""
        return value if type(value) is int else self.value(value, bits)

    def _sum(self, block: Block, value: Int, bits: int, total: Register | None) -> Register:
        """``total + value`` in a block's head, modulo ``2**bits``."""
        for atom, coefficient in terms_of(value):
            total = self._term(block, atom, coefficient, bits, total)
        const = constant_of(value)
        if bits == 32:  # as a coefficient
            const = (const + 2**31) % 2**32 - 2**31
        if total is None:
            return self.pure(block, f"mov.b{bits}", self.reg(f"b{bits}"), const)
        return self.pure(block, f"add.s{bits}", self.reg(f"b{bits}"), total, const) if const else total

    def _term(self, block: Block, atom: Atom, coefficient: int, bits: int, total: Register | None) -> Register:
        type, rest = f"b{bits}", () if total is None else (total,)
        multiply = "mad" if rest else "mul"
        if bits == 64 and atom.lower is not None and atom.upper is not None and atom.upper < 2**31:
            wide = ""
            if atom.lower >= 0 and 0 < coefficient < 2**32:
                wide = "u32"
            elif atom.lower >= -(2**31) and -(2**31) <= coefficient < 2**31:
                wide = "s32"
            if wide:
                factor = self._atom(atom, 32)
                return self.pure(block, f"{multiply}.wide.{wide}", self.reg(type), factor, coefficient, *rest)
        factor = self._atom(atom, bits)
        if bits == 32:  # a coefficient past the register's width wraps as the sum does
            coefficient = (coefficient + 2**31) % 2**32 - 2**31
        if coefficient == 1:
            return factor if total is None else self.pure(block, f"add.s{bits}", self.reg(type), total, factor)
        if total is None and coefficient & (coefficient - 1) == 0 and coefficient > 0:
            return self.pure(block, f"shl.{type}", self.reg(type), factor, coefficient.bit_length() - 1)
        return self.pure(block, f"{multiply}.lo.s{bits}", self.reg(type), factor, coefficient, *rest)

    def _atom(self, atom: Atom, bits: int) -> Register:
        block = self._home(atom.symbols)

        def compute() -> Register:
            natural = self._symbol(atom) if isinstance(atom, Symbol) else _LOWERED[atom.op](self, block, atom)
            if natural.bits < bits:
                sign = "s" if atom.lower is None or atom.lower < 0 else "u"
                return self.pure(block, f"cvt.{sign}64.{sign}32", self.reg("b64"), natural)
            if natural.bits > bits:
                return self.pure(block, "cvt.u32.u64", self.reg("b32"), natural)
            return natural

        return block.once(("atom", atom, bits), compute)

    def _width(self, atom: Atom) -> int:
        """The bits that hold an operation and its operands."""
        return 32 if all(map(self._fits, (*atom.operands, of_atom(atom)))) else 64

    def _plain(self, block: Block, atom: Atom, opcode: str) -> Register:
        """An operation that is one instruction, whose name ends with the width."""
        bits = self._width(atom)
        left, right = (self.value(operand, bits) for operand in atom.operands)
        return self.pure(block, f"{opcode}{bits}", self.reg(f"b{bits}"), left, right)

    def _product(self, block: Block, atom: Atom) -> Register:
        if self._width(atom) == 32 or not all(map(self._fits, atom.operands)):
            return self._plain(block, atom, "mul.lo.s")
        lowest = min(-1 if (low := bounds_of(factor)[0]) is None else low for factor in atom.operands)
        left, right = map(self.value, atom.operands)
        return self.pure(block, f"mul.wide.{'u' if lowest >= 0 else 's'}32", self.reg("b64"), left, right)

    def _minimum(self, block: Block, atom: Atom) -> Register:
        left, right = map(self.exact, atom.operands)
        bits = self._width(atom)
        return self.lesser(f"s{bits}", self.value(left, bits), self.operand(right, bits), block=block)

    def exact(self, value: Int) -> Int:
        """An integer whose value matters, not its low bits alone: what is compared, divided, stored, counted.

        Raises:
            PtxError: it may be past the 64 bits in which it is computed.
        """
        if value.__class__ is not int and value.__class__ is not Expr:
            INT.check(value, "exact", "value", PtxError)
        if _may_pass_64_bits(value) and _may_pass_64_bits(substitute(value, self.tighter)):
            lower, upper = bounds_of(value)
            raise PtxError(
                f"the value {shown(value)} may be from {shown(lower)} to {shown(upper)}: past the 64 bits in which it is "
                "computed; declare lower= and upper= of its scalars"
            )
        return value

    @checked(
        PtxError,
        type=one_of("s32", "u32", "s64", "u64"),
        left=_REGISTER,
        right=Kind("a register, or an integer", lambda value: _REGISTER.fits(value) or ANY_INTEGER.fits(value)),
        greater=FLAG,
        block=optional(instance_of("an open Block", Block)),
    )
    def lesser(
        self, type: str, left: Register, right: Register | int, *, greater: bool = False, block: Block | None = None
    ) -> Register:
        """The lesser (or greater) of two integers of a type such as ``s32``; in a block's head, or at the current place.

        Of 32 bits by a comparison and a selection: a minimum of a minimum becomes one instruction of three operands on sm_90,
        in which ptxas 13.0 and drivers of its time lose the sign of a second one that is negated (docs/design.md).
        """
        wanted, low = f"b{type[1:]}", 0 if type[0] == "u" else -(2 ** (int(type[1:]) - 1))
        for name, operand in (("left", left), ("right", right)):
            if isinstance(operand, Register) and operand.type != wanted:
                raise PtxError(f"lesser: {name} {operand} is a register of {operand.type}; {type} takes {wanted}")
        if isinstance(right, int) and not low <= right < low + 2 ** int(type[1:]):
            raise PtxError(f"lesser: right {shown(right)} is no {type}")
        write = self.instr if block is None else partial(self.pure, block)
        result = self.reg(wanted)
        if type[1:] == "64":
            write(f"{'max' if greater else 'min'}.{type}", result, left, right)
        else:
            chosen = self.reg("pred")
            write(f"setp.{'gt' if greater else 'lt'}.{type}", chosen, left, right)
            write("selp.b32", result, left, right, chosen)
        return result

    def _division(self, block: Block, atom: Atom) -> Register:
        (dividend, by), modulo = atom.operands, atom.op == "%"
        lower, _ = bounds_of(dividend)
        blocks_below = 0
        if by & (by - 1):  # only powers of two round toward minus infinity by themselves
            if lower is None:
                raise PtxError(f"{atom}: the dividend has no lower bound and the divisor is not a power of two")
            blocks_below = max(0, -(lower // by))
            dividend, lower = dividend + blocks_below * by, lower + blocks_below * by
        bits = 32 if fits(dividend, 32) and by <= 2**31 else 64
        divided = self.value(self.exact(dividend), bits)
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


_LOWERED: dict[str, Callable[[ValueEmitter, Block, Atom], Register]] = {
    "//": ValueEmitter._division,
    "%": ValueEmitter._division,
    "*": ValueEmitter._product,
    "^": lambda emitter, block, atom: emitter._plain(block, atom, "xor.b"),
    "min": ValueEmitter._minimum,
}
"""Operation of :data:`~tilecopy_core.integers.expr.OPERATIONS` -> what writes its instructions at the head of a block."""
