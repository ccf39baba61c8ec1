"""Symbolic integers: block ids, loop variables, thread ids and scalar parameters in index arithmetic.

An :class:`Expr` is a constant plus a sum of ``coefficient * atom``; an atom is a :class:`Symbol` or a quotient,
remainder, product or exclusive or of expressions. Three facts can be proved of an expression, and nothing is assumed
that does not follow from what its symbols declare: its bounds, a divisor (:func:`divisor_of`) and which bits can be
set (:func:`possible_bits`). The divisor decides vector widths, the bounds decide 32- or 64-bit arithmetic.

``a == b`` gives a :class:`Condition` for ``KernelBuilder.if_``; in a boolean context it is structural equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd
from typing import Any, TypeAlias

import attrs

from .errors import RequestError

Int: TypeAlias = "int | Expr"
Bounds: TypeAlias = "tuple[int | None, int | None]"


@attrs.frozen(repr=False, cache_hash=True)
class Symbol:
    """An integer known only at run time; :func:`symbol` makes the expression to compute with.

    Attributes:
        name: how it prints, and what identifies it within one kernel (``"tid.x"``, ``"ctaid.x"``, ``"k0"``).
        lower: smallest value it can have.
        upper: largest value it can have, or None where nothing is known.
        multiple_of: a divisor of every value it can have.
        varies: ``"thread"`` when two threads of a CTA can see different values, else ``"cta"`` or ``"grid"``.
    """

    name: str
    lower: int = 0
    upper: int | None = None
    multiple_of: int = 1
    varies: str = "grid"

    def __repr__(self) -> str:
        return self.name


@attrs.frozen(repr=False, cache_hash=True)
class FloorDiv:
    """``dividend // divisor`` of a positive constant divisor."""

    dividend: Expr
    divisor: int

    def __repr__(self) -> str:
        return f"({self.dividend})//{self.divisor}"


@attrs.frozen(repr=False, cache_hash=True)
class Mod:
    """``dividend % divisor`` of a positive constant divisor; never negative."""

    dividend: Expr
    divisor: int

    def __repr__(self) -> str:
        return f"({self.dividend})%{self.divisor}"


@attrs.frozen(repr=False, cache_hash=True)
class Product:
    """The product of two expressions that are both symbolic."""

    left: Expr
    right: Expr

    def __repr__(self) -> str:
        return f"({self.left})*({self.right})"


@attrs.frozen(repr=False, cache_hash=True)
class Xor:
    """Bitwise exclusive or of two expressions."""

    left: Expr
    right: Expr

    def __repr__(self) -> str:
        return f"(({self.left})^({self.right}))"


Atom: TypeAlias = "Symbol | FloorDiv | Mod | Product | Xor"


class Expr:
    """``const + sum(coefficient * atom)``; immutable, hashable, at least one term.

    Operators give an int when the result is constant, a :class:`Condition` when they compare.

    Attributes:
        const: the constant.
        terms: ``(atom, coefficient)`` pairs in a canonical order, no coefficient zero.
    """

    __slots__ = ("_hash", "const", "terms")
    _hash: int | None
    const: int
    terms: tuple[tuple[Atom, int], ...]

    def __init__(self, const: int, terms: tuple[tuple[Atom, int], ...]) -> None:
        object.__setattr__(self, "const", const)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "_hash", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an Expr is immutable")

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.const, self.terms)))
        assert self._hash is not None
        return self._hash

    def __repr__(self) -> str:
        parts = [f"{atom}" if c == 1 else f"{c}*{atom}" for atom, c in self.terms]
        if self.const:
            parts.append(str(self.const))
        return " + ".join(parts).replace("+ -", "- ")

    def __add__(self, other: Any) -> Any:
        return _binary(add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary(add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _binary(lambda a, b: add(a, mul(b, -1)), self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary(lambda a, b: add(a, mul(b, -1)), other, self)

    def __mul__(self, other: Any) -> Any:
        return _binary(mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary(mul, other, self)

    def __neg__(self) -> Any:
        return mul(as_expr(self), -1)

    def __floordiv__(self, other: Any) -> Any:
        return _binary(floordiv, self, other)

    def __mod__(self, other: Any) -> Any:
        return _binary(mod, self, other)

    def __xor__(self, other: Any) -> Any:
        return _binary(xor, self, other)

    def __rxor__(self, other: Any) -> Any:
        return _binary(xor, other, self)

    def __eq__(self, other: object) -> Any:
        return Condition("==", self, other) if is_int(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return Condition("!=", self, other) if is_int(other) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return Condition("<", self, other) if is_int(other) else NotImplemented

    def __le__(self, other: Any) -> Any:
        return Condition("<=", self, other) if is_int(other) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return Condition(">", self, other) if is_int(other) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return Condition(">=", self, other) if is_int(other) else NotImplemented

    def __index__(self) -> int:
        raise RequestError(f"{self} is known only when the kernel runs; a plain integer is needed here")

    def __bool__(self) -> bool:
        raise RequestError(f"{self} is known only when the kernel runs; use KernelBuilder.if_ to branch on it")


def _atom_key(atom: Atom) -> str:
    """What atoms are sorted by, so that equal sums have equal terms and text is stable."""
    return atom.name if isinstance(atom, Symbol) else repr(atom)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@attrs.frozen(eq=False, repr=False)
class Condition:
    """A comparison of two index expressions (or of run-time values), or ``and``, ``or``, ``not`` of conditions.

    Attributes:
        op: one of ``== != < <= > >=`` on two operands, or ``and``, ``or``, ``not`` on conditions.
        left: first operand.
        right: second operand; None for ``not``.
    """

    op: str
    left: Any
    right: Any = None

    def __and__(self, other: Condition) -> Condition:
        return Condition("and", self, other)

    def __or__(self, other: Condition) -> Condition:
        return Condition("or", self, other)

    def __invert__(self) -> Condition:
        return Condition("not", self)

    def __bool__(self) -> bool:
        if self.op in ("==", "!=") and is_int(self.left) and is_int(self.right):
            return same(self.left, self.right) == (self.op == "==")
        raise RequestError(f"'{self!r}' is known only when the kernel runs; use KernelBuilder.if_ to branch on it")

    def __repr__(self) -> str:
        if self.op == "not":
            return f"not ({self.left!r})"
        return f"{self.left!r} {self.op} {self.right!r}"

    def operands(self) -> Iterator[Any]:
        """Every operand that is not itself a condition, left to right."""
        for side in (self.left, self.right):
            if isinstance(side, Condition):
                yield from side.operands()
            elif side is not None:
                yield side

    def evaluate(self, value_of: Callable[[Any], Any]) -> Any:
        """The truth of the condition, given the value (an int or an array) of each operand."""
        if self.op == "not":
            return ~self.left.evaluate(value_of)
        if self.op in ("and", "or"):
            left, right = self.left.evaluate(value_of), self.right.evaluate(value_of)
            return left & right if self.op == "and" else left | right
        return _COMPARE[self.op](value_of(self.left), value_of(self.right))


# --------------------------------------------------------------------------------------------- construction


def is_int(value: object) -> bool:
    """Whether a value is an integer in the sense of this module: an int or an Expr (no bool)."""
    return isinstance(value, (int, Expr)) and not isinstance(value, bool)


def as_expr(value: Any) -> Expr:
    """An integer as an Expr (which may then have no term)."""
    return value if isinstance(value, Expr) else Expr(int(value), ())


def symbol(name: str, *, lower: int = 0, upper: int | None = None, multiple_of: int = 1, varies: str = "grid") -> Expr:
    """The expression of one new :class:`Symbol`."""
    return Expr(0, ((Symbol(name, lower, upper, multiple_of, varies), 1),))


def _binary(function: Callable[[Expr, Expr], Expr], left: Any, right: Any) -> Any:
    if not (_integral(left) and _integral(right)):
        return NotImplemented
    return simplify(function(as_expr(left), as_expr(right)))


def _integral(value: object) -> bool:
    return is_int(value) or (hasattr(value, "__index__") and not isinstance(value, (bool, float)))


def simplify(expr: Expr) -> Int:
    """The plain int when nothing symbolic is left, else the expression itself."""
    return expr if expr.terms else expr.const


def _build(const: int, terms: Mapping[Atom, int]) -> Expr:
    kept = [(atom, c) for atom, c in terms.items() if c]
    if len(kept) > 1:
        kept.sort(key=lambda item: _atom_key(item[0]))
    return Expr(const, tuple(kept))


def add(left: Expr, right: Expr) -> Expr:
    """Sum of two expressions."""
    if not right.terms:
        return left if not right.const else Expr(left.const + right.const, left.terms)
    if not left.terms:
        return Expr(left.const + right.const, right.terms)
    terms = dict(left.terms)
    for atom, coefficient in right.terms:
        terms[atom] = terms.get(atom, 0) + coefficient
    return _build(left.const + right.const, terms)


def mul(left: Expr, right: Expr | int) -> Expr:
    """Product; of two symbolic expressions it distributes over their terms."""
    right = as_expr(right)
    if left.terms and right.terms:
        total = mul(Expr(0, left.terms), right.const) if right.const else Expr(0, ())
        if left.const:
            total = add(total, mul(Expr(0, right.terms), left.const))
        for atom, coefficient in left.terms:
            for other, factor in right.terms:
                pair = sorted((atom, other), key=_atom_key)
                product = Product(Expr(0, ((pair[0], 1),)), Expr(0, ((pair[1], 1),)))
                total = add(total, Expr(0, ((product, coefficient * factor),)))
        return Expr(total.const + left.const * right.const, total.terms)
    if right.terms:
        left, right = right, left
    factor = right.const
    if factor == 0:
        return Expr(0, ())
    return Expr(left.const * factor, tuple((atom, c * factor) for atom, c in left.terms))


def _constant_divisor(right: Expr, operation: str) -> int:
    if right.terms or right.const <= 0:
        raise RequestError(f"'{operation}' of a symbolic integer needs a positive constant on its right, not {right}")
    return right.const


def floordiv(left: Expr, right: Expr) -> Expr:
    """``left // right`` for a positive constant right: what divides is taken out, what is too small is dropped."""
    divisor = _constant_divisor(right, "//")
    if divisor == 1:
        return left
    whole: dict[Atom, int] = {}
    rest: dict[Atom, int] = {}
    for atom, coefficient in left.terms:
        (whole if coefficient % divisor == 0 else rest)[atom] = coefficient
    quotient = Expr(left.const // divisor, tuple((atom, c // divisor) for atom, c in whole.items()))
    remainder = _build(left.const % divisor, rest)
    if not remainder.terms:
        return quotient
    lower, upper = bounds_of(remainder)
    if lower is not None and upper is not None and lower // divisor == upper // divisor:
        return add(quotient, Expr(lower // divisor, ()))
    common = gcd(divisor, *(c for _, c in remainder.terms))
    if common > 1:
        reduced = Expr(remainder.const // common, tuple((atom, c // common) for atom, c in remainder.terms))
        return add(quotient, floordiv(reduced, Expr(divisor // common, ())))
    if len(remainder.terms) == 1 and remainder.const == 0:
        atom, coefficient = remainder.terms[0]
        if coefficient == 1 and isinstance(atom, FloorDiv):
            return add(quotient, floordiv(atom.dividend, Expr(atom.divisor * divisor, ())))
    return add(quotient, Expr(0, ((FloorDiv(remainder, divisor), 1),)))


def mod(left: Expr, right: Expr) -> Expr:
    """``left % right`` for a positive constant right; multiples of it vanish."""
    divisor = _constant_divisor(right, "%")
    if divisor == 1:
        return Expr(0, ())
    rest = {atom: c for atom, c in left.terms if (c * _atom_divisor(atom)) % divisor}
    remainder = _build(left.const % divisor, rest)
    if not remainder.terms:
        return remainder
    lower, upper = bounds_of(remainder)
    if lower is not None and upper is not None and lower // divisor == upper // divisor:
        return Expr(remainder.const - lower // divisor * divisor, remainder.terms)
    common = gcd(divisor, *(c for _, c in remainder.terms))
    if common > 1:
        reduced = Expr(remainder.const // common, tuple((atom, c // common) for atom, c in remainder.terms))
        scaled = mul(mod(reduced, Expr(divisor // common, ())), common)
        return Expr(scaled.const + remainder.const % common, scaled.terms)
    if len(remainder.terms) == 1 and remainder.const == 0:
        atom, coefficient = remainder.terms[0]
        if coefficient == 1 and isinstance(atom, Mod) and atom.divisor % divisor == 0:
            return mod(atom.dividend, Expr(divisor, ()))
    return Expr(0, ((Mod(remainder, divisor), 1),))


def xor(left: Expr, right: Expr) -> Expr:
    """Bitwise exclusive or; a sum when the two can have no bit in common."""
    if not left.terms and not right.terms:
        return Expr(left.const ^ right.const, ())
    for zero, other in ((left, right), (right, left)):
        if not zero.terms and zero.const == 0:
            return other
    left_bits, right_bits = possible_bits(left), possible_bits(right)
    if left_bits is not None and right_bits is not None and not left_bits & right_bits:
        return add(left, right)
    return Expr(0, ((Xor(left, right), 1),))


# --------------------------------------------------------------------------------------------- what can be proved


def same(left: Any, right: Any) -> bool:
    """Structural equality of two integers."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    difference = add(as_expr(left), mul(as_expr(right), -1))
    return not difference.terms and difference.const == 0


def bounds_of(value: Any) -> Bounds:
    """Smallest and largest value an integer can have; None on a side where nothing is known."""
    expr = as_expr(value)
    lower: int | None = expr.const
    upper: int | None = expr.const
    for atom, coefficient in expr.terms:
        low, high = _atom_bounds(atom)
        if coefficient < 0:
            low, high = high, low
        lower = None if lower is None or low is None else lower + low * coefficient
        upper = None if upper is None or high is None else upper + high * coefficient
    return lower, upper


def _atom_bounds(atom: Atom) -> Bounds:
    if isinstance(atom, Symbol):
        return atom.lower, atom.upper
    if isinstance(atom, FloorDiv):
        lower, upper = bounds_of(atom.dividend)
        return (None if lower is None else lower // atom.divisor), (None if upper is None else upper // atom.divisor)
    if isinstance(atom, Mod):
        return 0, atom.divisor - 1
    if isinstance(atom, Product):
        (a, b), (c, d) = bounds_of(atom.left), bounds_of(atom.right)
        if a is not None and c is not None and a >= 0 and c >= 0:
            return a * c, (None if b is None or d is None else b * d)
        return None, None
    bits = possible_bits(Expr(0, ((atom, 1),)))
    return (None, None) if bits is None else (0, bits)


def divisor_of(value: Any) -> int:
    """The largest integer that is proved to divide every value (0 for the constant 0, which all divide)."""
    expr = as_expr(value)
    return gcd(expr.const, *(c * _atom_divisor(atom) for atom, c in expr.terms))


def is_multiple(value: Any, factor: int) -> bool:
    """Whether every value is proved to be a multiple of ``factor``."""
    return divisor_of(value) % factor == 0


def _atom_divisor(atom: Atom) -> int:
    if isinstance(atom, Symbol):
        return atom.multiple_of
    if isinstance(atom, FloorDiv):
        inner = divisor_of(atom.dividend)
        return inner // atom.divisor if inner and inner % atom.divisor == 0 else 1
    if isinstance(atom, Mod):
        return gcd(divisor_of(atom.dividend), atom.divisor)
    if isinstance(atom, Product):
        return divisor_of(atom.left) * divisor_of(atom.right)
    return _power_of_two(gcd(divisor_of(atom.left), divisor_of(atom.right)))


def _power_of_two(value: int) -> int:
    return value & -value if value else 0


def possible_bits(value: Any) -> int | None:
    """Mask of the bits that can be set in a value, or None when it can be negative or is unbounded."""
    expr = as_expr(value)
    lower, upper = bounds_of(expr) if not any(isinstance(a, Xor) for a, _ in expr.terms) else (0, 0)
    if lower is None or upper is None or lower < 0:
        return None
    masks = [expr.const] if expr.const else []
    for atom, coefficient in expr.terms:
        mask = _term_bits(atom, coefficient)
        if mask is None:
            return None
        masks.append(mask)
    total = 0
    for mask in masks:
        if total & mask:  # carries can reach anything above the lowest bit that two terms share
            top = sum(masks).bit_length()
            lowest = min(_power_of_two(m) for m in masks if m)
            return (1 << top) - lowest
        total |= mask
    return total


def _term_bits(atom: Atom, coefficient: int) -> int | None:
    if isinstance(atom, Xor):
        left, right = possible_bits(atom.left), possible_bits(atom.right)
        mask = None if left is None or right is None else left | right
        return None if mask is None or coefficient != _power_of_two(coefficient) else mask * coefficient
    lower, upper = _atom_bounds(atom)
    if lower is None or upper is None or lower < 0 or coefficient < 0:
        return None
    if isinstance(atom, Mod) and _power_of_two(atom.divisor) == atom.divisor:
        inner = possible_bits(atom.dividend)
        mask = (atom.divisor - 1) & (inner if inner is not None else -1)
        return (
            mask * coefficient if _power_of_two(coefficient) == coefficient else _span(mask * coefficient, coefficient)
        )
    low = _power_of_two(_atom_divisor(atom) * coefficient) or 1
    return _span(upper * coefficient, low)


def _span(largest: int, low: int) -> int:
    """All bits from the lowest set bit of ``low`` up to the top bit of ``largest``."""
    return ((1 << largest.bit_length()) - 1) & -_power_of_two(low)


# --------------------------------------------------------------------------------------------- walking


def symbols_of(value: Any) -> set[Symbol]:
    """Every symbol in an integer."""
    found: set[Symbol] = set()
    for atom, _ in as_expr(value).terms:
        if isinstance(atom, Symbol):
            found.add(atom)
        elif isinstance(atom, (FloorDiv, Mod)):
            found |= symbols_of(atom.dividend)
        else:
            found |= symbols_of(atom.left) | symbols_of(atom.right)
    return found


def evaluate(value: Any, env: Mapping[str, Any]) -> Any:
    """The value for given symbols (name -> int or array).

    Raises:
        KeyError: a symbol of the expression is not in ``env``.
    """
    expr = as_expr(value)
    total: Any = expr.const
    for atom, coefficient in expr.terms:
        total = total + _evaluate_atom(atom, env) * coefficient
    return total


def _evaluate_atom(atom: Atom, env: Mapping[str, Any]) -> Any:
    if isinstance(atom, Symbol):
        return env[atom.name]
    if isinstance(atom, FloorDiv):
        return evaluate(atom.dividend, env) // atom.divisor
    if isinstance(atom, Mod):
        return evaluate(atom.dividend, env) % atom.divisor
    left, right = evaluate(atom.left, env), evaluate(atom.right, env)
    return left * right if isinstance(atom, Product) else left ^ right


def substitute(value: Any, replacements: Mapping[str, Any]) -> Int:
    """The integer with symbols replaced by integers, simplified anew."""
    expr = as_expr(value)
    if not any(found.name in replacements for found in symbols_of(expr)):
        return simplify(expr)
    env: dict[str, Any] = {found.name: Expr(0, ((found, 1),)) for found in symbols_of(expr)}
    return simplify(as_expr(evaluate(expr, env | dict(replacements))))


def split_terms(value: Any, name: str) -> tuple[Int, Int, bool]:
    """Split into (terms without the symbol ``name``, terms of nothing but it, whether that is all of it).

    When a term mixes the symbol with others, the third value is False and the first two are not to be used.
    """
    expr = as_expr(value)
    without: dict[Atom, int] = {}
    only: dict[Atom, int] = {}
    for atom, coefficient in expr.terms:
        found = {s.name for s in symbols_of(Expr(0, ((atom, 1),)))}
        if name not in found:
            without[atom] = coefficient
        elif found == {name}:
            only[atom] = coefficient
        else:
            return 0, 0, False
    return simplify(_build(expr.const, without)), simplify(_build(0, only)), True
