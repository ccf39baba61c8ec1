"""Symbolic integers: block ids, loop variables, thread ids and scalar parameters in index arithmetic.

An integer is a plain ``int`` or an :class:`Expr`: a constant plus a sum of ``coefficient * atom`` with at least one
term. An atom is a :class:`Symbol`, or an :class:`Operation` on integers, whose properties are in the table
:data:`OPERATIONS`. The facts about an atom (its bounds, a divisor, its symbols) are computed once, when it is created;
they follow from what the symbols declare. The divisor decides vector widths, the bounds decide 32- or 64-bit arithmetic.

``a == b`` gives a :class:`Condition`, which has no truth value; :func:`structural_equal` tests structural equality, and
:func:`key_of` gives a key for a dict.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache, partial, reduce
from math import gcd
from typing import Any, TypeAlias

import attrs

from ..errors import RequestError, Validator, checked, instance_of, integer, one_of, optional, short_repr
from ..errors.attrs_classes import frozen
from ..errors.lazy_numpy import np
from .conditions import COMPARISONS, Condition, RunTime

__all__ = ["Atom", "Expr", "INT", "Int", "OPERATIONS", "Symbol", "add", "bounds_of", "constant_of", "divisor_of"]
__all__ += ["evaluate", "fits", "floordiv", "is_int_like", "is_multiple", "key_of", "maximum", "minimum", "mul"]
__all__ += ["of_atom", "plain", "sub", "substitute", "sum_of", "symbols_of", "terms_of"]

Int: TypeAlias = "int | Expr"
Bounds: TypeAlias = "tuple[int | None, int | None]"
Term: TypeAlias = "tuple[Atom, int]"


class Atom:
    """The base class of atoms (symbols and operations). A term is a coefficient times an atom. Atoms compare by value.

    Attributes:
        op: the name of an operation in :data:`OPERATIONS`; "" of a symbol.
        operands: the two integers that the operation is of; none of a symbol.
        lower, upper: smallest and largest value; None where nothing is known.
        divisor: the largest integer proved to divide every value.
        bits: mask of the bits that can be set, or None when a value can be negative or has no upper bound.
        order: its text, which terms are sorted by, so that equal sums have equal terms.
    """

    op: str = ""
    operands: tuple[Any, ...] = ()
    lower: int | None
    upper: int | None
    divisor: int
    bits: int | None
    order: str

    @cached_property
    def symbols(self) -> frozenset[Symbol]:
        """All symbols in the atom."""
        return frozenset((self,)) if isinstance(self, Symbol) else frozenset().union(*map(symbols_of, self.operands))

    def __repr__(self) -> str:
        return self.order


@attrs.frozen(slots=False, repr=False, cache_hash=True)
class Symbol(Atom):
    """An integer whose value is known only at run time. :func:`symbol` returns a new symbol as an expression.

    Two symbols are equal when they are the same object (or name the same special register) with the same bounds; the name is only
    how it prints.

    Attributes:
        multiple_of: a divisor of every value it can have.
        varies: ``"thread"`` when two threads of a CTA can see different values, else ``"cta"`` or ``"grid"``.
        source: integers that decide its value (a loop's start): it differs between threads where one of them does.
        register: the special register that it is, such as ``%ctaid.x``, or "".
        identity: the register, or an object that copies of this symbol with other bounds share.
    """

    name: str = attrs.field(eq=False)
    lower: int | None = 0
    upper: int | None = None
    multiple_of: int = 1
    varies: str = attrs.field(default="grid", eq=False)
    source: tuple[Int, ...] = attrs.field(default=(), eq=False)
    register: str = attrs.field(default="", eq=False)
    identity: object = attrs.field(default=attrs.Factory(lambda self: self.register or object(), takes_self=True))

    def __attrs_post_init__(self) -> None:
        vars(self).update(order=self.name, divisor=self.multiple_of)
        vars(self).update(bits=_bits_within(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Symbol, attrs.astuple(self, recurse=False)


def key_of(value: Any) -> Any:
    """Return a hashable key for an integer or a tuple of integers. Equal keys mean structurally equal integers."""
    if isinstance(value, Expr):
        return value.const, value.terms
    return tuple(map(key_of, value)) if isinstance(value, tuple) else value


@attrs.frozen(slots=False, repr=False, cache_hash=True)
class Operation(Atom):
    """An operation on two integers, such as ``//``. Use functions such as :func:`floordiv` for a simplified result."""

    op: str
    operands: tuple[Any, Any] = attrs.field(eq=key_of)

    def __attrs_post_init__(self) -> None:
        (left, right), rule = self.operands, OPERATIONS[self.op]
        lower, upper = rule.bounds(left, right)
        vars(self).update(order=rule.text.format(_text_of(left), _text_of(right)), lower=lower, upper=upper)
        vars(self).update(divisor=rule.divisor(divisor_of(left), divisor_of(right)))
        vars(self).update(bits=rule.bits(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Operation, (self.op, self.operands)


def _text_of(value: Int) -> str:
    """Return an integer as text, shortened if it is very long."""
    return short_repr(value) if isinstance(value, int) and value.bit_length() > 64 else str(value)


def is_int_like(value: object) -> bool:
    """Return whether a value is an int or an Expr. A bool does not count as an int."""
    return type(value) is int or isinstance(value, Expr) or (isinstance(value, int) and not isinstance(value, bool))


def plain(value: Any) -> Any:
    """Return a value, converted to an int if it is an integer of NumPy or another framework."""
    if type(value) is int or isinstance(value, Expr):
        return value
    number = integer(value)
    return value if number is None else number


INT = Validator("an integer, plain or symbolic", is_int_like)
_BOUND = optional(instance_of("a plain integer", int))
_DIVISOR = Validator("an integer of at least 1", lambda value: type(value) is int and value > 0)


def symbol(
    name: str, *, lower: int | None = 0, upper: int | None = None, multiple_of: int = 1, varies: str = "grid"
) -> Expr:
    """Return the expression of a new :class:`Symbol`. Two calls return different symbols even for the same name.

    Args:
        name: how it prints.
        lower: smallest value, None where nothing is known.
        upper: largest value, None where nothing is known.
        multiple_of: a divisor of every value.
        varies: ``thread`` when the threads of a CTA can see different values, else ``cta`` or ``grid``.

    Raises:
        RequestError: an argument has another type, or no value lies within the bounds.
    """
    if not isinstance(name, str) or not name:
        raise RequestError(f"symbol: name must be a non-empty string, got {short_repr(name)}")
    where = f"symbol {name}"
    lower, upper = _BOUND.check(lower, where, "lower"), _BOUND.check(upper, where, "upper")
    multiple_of = _DIVISOR.check(multiple_of, where, "multiple_of")
    one_of("thread", "cta", "grid").check(varies, where, "varies")
    if lower is not None and upper is not None and -(-lower // multiple_of) > upper // multiple_of:
        what = "value" if multiple_of == 1 else f"multiple of {short_repr(multiple_of)}"
        raise RequestError(
            f"symbol {name}: the range from lower={short_repr(lower)} to upper={short_repr(upper)} must contain a {what}"
        )
    return of_atom(Symbol(name, lower, upper, multiple_of, varies))


def of_atom(atom: Atom) -> Expr:
    """Return an atom as an expression."""
    return Expr(0, ((atom, 1),))


def sum_of(const: int, terms: Iterable[Term]) -> Int:
    """Return the sum of a constant and terms whose atoms are all different."""
    kept = [term for term in terms if term[1]]
    if len(kept) > 1:
        kept.sort(key=lambda term: term[0].order)
    return Expr(const, tuple(kept)) if kept else const


def constant_of(value: Int) -> int:
    """Return the constant term of an integer expression."""
    return value.const if isinstance(value, Expr) else value


def terms_of(value: Int) -> tuple[Term, ...]:
    """Return the terms of an integer expression, except the constant term. A plain integer has no terms."""
    return value.terms if isinstance(value, Expr) else ()


def add(left: Int, right: Int) -> Int:
    """Return the sum of two integers."""
    if not isinstance(right, Expr):
        if not isinstance(left, Expr):
            return left + right
        return Expr(left.const + right, left.terms) if right else left
    if not isinstance(left, Expr):
        return add(right, left)
    terms = dict(left.terms)
    for atom, coefficient in right.terms:
        terms[atom] = terms.get(atom, 0) + coefficient
    return sum_of(left.const + right.const, terms.items())


def sub(left: Int, right: Int) -> Int:
    """Return the difference of two integers."""
    return add(left, mul(right, -1)) if isinstance(right, Expr) else add(left, -right)


def mul(left: Int, right: Int) -> Int:
    """Return the product of two integers, multiplied out if both are symbolic."""
    if not isinstance(left, Expr):
        return mul(right, left) if isinstance(right, Expr) else left * right
    if isinstance(right, Expr):
        total = add(mul(left, right.const), mul(Expr(0, right.terms), left.const))
        for atom, coefficient in left.terms:
            for other, factor in right.terms:
                first, second = sorted((atom, other), key=lambda a: a.order)
                product = Operation("*", (of_atom(first), of_atom(second)))
                total = add(total, Expr(0, ((product, coefficient * factor),)))
        return total
    if right in (0, 1):
        return left if right else 0
    return Expr(left.const * right, tuple([(atom, c * right) for atom, c in left.terms]))


def _positive(left: Int, op: str, right: Int) -> int:
    if isinstance(right, Expr) or right <= 0:
        raise RequestError(
            f"'{left} {op} {short_repr(right)}': the right operand of '{op}' on a symbolic integer must be a positive constant, got {short_repr(right)}"
        )
    return right


def floordiv(left: Int, right: Int) -> Int:
    """Return ``left // right`` for a positive constant ``right``. Terms that are multiples of ``right`` are divided exactly."""
    divisor = _positive(left, "//", right)
    if not isinstance(left, Expr):
        return left // divisor
    if divisor == 1:
        return left
    whole = tuple((atom, c // divisor) for atom, c in left.terms if c % divisor == 0)
    rest = tuple((atom, c) for atom, c in left.terms if c % divisor)
    quotient: Int = Expr(left.const // divisor, whole) if whole else left.const // divisor
    return add(quotient, _block(left.const % divisor, rest, divisor, True)) if rest else quotient


def mod(left: Int, right: Int) -> Int:
    """Return ``left % right`` for a positive constant ``right``. Terms that are multiples of ``right`` are dropped."""
    divisor = _positive(left, "%", right)
    if not isinstance(left, Expr):
        return left % divisor
    rest = tuple((atom, c) for atom, c in left.terms if c * atom.divisor % divisor)
    const = left.const % divisor
    return _block(const, rest, divisor, False) if rest else const


def _as_quotients(value: Expr) -> Int:
    """Return an equal value with ``n * (x // n)`` in place of ``x - x % n``, which has tighter bounds but does not cancel in sums."""
    for atom, c in value.terms:
        if atom.op == "%" and all((other, -c * factor) in value.terms for other, factor in atom.operands[0].terms):
            x, n = atom.operands
            return add(value, c * (x - n * (x // n) - of_atom(atom)))
    return value


@lru_cache(maxsize=4096)  # the places of threads are the same few quotients in every copy
def _block(const: int, terms: tuple[Term, ...], divisor: int, quotient: bool) -> Int:
    """Return ``rest // divisor`` or ``rest % divisor`` for the sum of a constant and terms, none of which is a multiple of the divisor."""
    rest = Expr(const, terms)
    if (known := _as_quotients(rest)) is not rest:
        return floordiv(known, divisor) if quotient else mod(known, divisor)
    lower, upper = rest.bounds
    if lower is not None and upper is not None and lower // divisor == upper // divisor:
        first = lower // divisor
        return first if quotient else add(rest, -first * divisor)
    common = gcd(divisor, *(c for _, c in rest.terms))
    if common > 1:
        reduced = Expr(rest.const // common, tuple((atom, c // common) for atom, c in rest.terms))
        if quotient:
            return floordiv(reduced, divisor // common)
        return add(mul(mod(reduced, divisor // common), common), rest.const % common)
    for step in sorted({gcd(divisor, c * atom.divisor) for atom, c in rest.terms}, reverse=True):
        multiples = sum_of(0, ((atom, c) for atom, c in rest.terms if c * atom.divisor % step == 0))
        small = sub(rest, multiples)
        lower, upper = bounds_of(small)
        if lower is None or upper is None or lower // step != upper // step:
            continue
        first = lower // step * step
        if not structural_equal(small, first):  # floor((step * x + r) / (step * d)) is floor(x / d) for 0 <= r < step
            whole = add(multiples, first)
            return floordiv(whole, divisor) if quotient else add(mod(whole, divisor), sub(small, first))
    (atom, coefficient), op = rest.terms[0], "//" if quotient else "%"
    if len(rest.terms) == 1 and rest.const == 0 and coefficient == 1 and atom.op == op:
        dividend, by = atom.operands
        if quotient:
            return floordiv(dividend, by * divisor)
        if by % divisor == 0:
            return mod(dividend, divisor)
    return of_atom(Operation(op, (rest, divisor)))


def xor(left: Int, right: Int) -> Int:
    """Return the bitwise XOR of two integers, simplified to a sum if no bit can be set in both integers."""
    if not isinstance(left, Expr) and not isinstance(right, Expr):
        return left ^ right
    if structural_equal(left, right):
        return 0
    bits = possible_bits(left), possible_bits(right)
    if 0 in bits or (bits[0] is not None and bits[1] is not None and not bits[0] & bits[1]):
        return add(left, right)
    return of_atom(Operation("^", (left, right)))


def _operator(op: str, compute: Callable[[Any, Any], Any]) -> Callable[[Expr, Any], Any]:
    """Return a method of Expr for an operator, which computes with the operands in Python's order."""

    def method(self: Expr, other: Any) -> Any:
        if type(other) is not int and not isinstance(other, Expr):
            if op in getattr(type(other), "reflects", ()):  # that class knows what to do
                return NotImplemented
            if not is_int_like(other) and not isinstance(other, np.integer):
                kind = type(other).__name__
                raise RequestError(
                    f"'{self} {op} {short_repr(other)}': operands of index arithmetic must be integers, got {kind}"
                )
            other = int(other)
        return compute(self, other)

    return method


@frozen(slots=False, eq=False, repr=False)
class Expr(RunTime):
    """An immutable symbolic integer ``const + sum(coefficient * atom)``.

    ``terms`` are the ``(atom, coefficient)`` pairs, at least one, in a canonical order, no coefficient zero. Operators give
    an int when the result is constant, a :class:`Condition` when they compare.
    """

    const: int
    terms: tuple[Term, ...]
    has = "integers known only at run time support + - * ^, comparisons, and // and % by a positive constant"

    def __reduce__(self) -> tuple[Any, ...]:
        return Expr, (self.const, self.terms)

    def __hash__(self) -> int:
        return hash((self.const, self.terms))

    def __repr__(self) -> str:
        parts = []
        for atom, c in self.terms:  # Python multiplies and divides from left to right: 3*(a)//2 is half of 3*a
            factor = f"({atom})" if atom.op in ("//", "%") else f"{atom}"
            parts.append(f"{atom}" if c == 1 else f"{_text_of(c)}*{factor}")
        if self.const:
            parts.append(_text_of(self.const))
        return " + ".join(parts).replace("+ -", "- ")

    @cached_property
    def bounds(self) -> Bounds:
        """The integer's lower bound and upper bound; see :func:`bounds_of`."""
        known = _as_quotients(self)
        lower, upper = bounds_of(constant_of(known))
        for atom, coefficient in terms_of(known):
            low, high = (atom.lower, atom.upper) if coefficient > 0 else (atom.upper, atom.lower)
            lower = None if lower is None or low is None else lower + low * coefficient
            upper = None if upper is None or high is None else upper + high * coefficient
        return lower, upper

    @property
    def symbols(self) -> frozenset[Symbol]:
        """All symbols in the expression."""
        return reduce(operator.or_, [atom.symbols for atom, _ in self.terms])

    def __neg__(self) -> Any:
        return mul(self, -1)

    __add__ = __radd__ = _operator("+", add)
    __sub__ = _operator("-", sub)
    __rsub__ = _operator("-", lambda right, left: sub(left, right))
    __mul__ = __rmul__ = _operator("*", mul)
    __floordiv__ = _operator("//", floordiv)
    __mod__ = _operator("%", mod)
    __xor__ = _operator("^", xor)
    __rxor__ = _operator("^", lambda right, left: xor(left, right))
    __eq__, __ne__, __lt__, __le__, __gt__, __ge__ = (_operator(op, partial(Condition, op)) for op in COMPARISONS)

    def __index__(self) -> int:
        raise RequestError(
            f"the value must be a plain integer, got {self}: a symbolic integer is known only when the kernel runs; "
            "to loop in the kernel, use KernelBuilder.range"
        )

    def __bool__(self) -> bool:
        raise RequestError(
            f"the truth value of {self} is known only when the kernel runs; use KernelBuilder.if_ to branch on it"
        )


@checked(left=INT, right=INT)
def minimum(left: Int, right: Int) -> Int:
    """Return the minimum of two integers, for example ``minimum(k.block_id("x") * 128, rows - 128)`` to keep the last tile in bounds.

    Raises RequestError if one of them is not an integer.
    """
    low, high = bounds_of(sub(left, right))
    if high is not None and high <= 0:
        return left
    if low is not None and low >= 0:
        return right
    if not isinstance(left, Expr) or (isinstance(right, Expr) and repr(right) < repr(left)):
        left, right = right, left
    return of_atom(Operation("min", (left, right)))


@checked(left=INT, right=INT)
def maximum(left: Int, right: Int) -> Int:
    """Return the maximum of two integers; see :func:`minimum`."""
    return mul(minimum(mul(left, -1), mul(right, -1)), -1)


def structural_equal(left: Any, right: Any) -> bool:
    """Return whether two integers, or tuples of integers, are structurally equal. Other values are compared with ``==``."""
    if type(left) is int and type(right) is int:
        return left == right
    if isinstance(left, Expr) and isinstance(right, Expr):
        if left is right or (left.const == right.const and left.terms == right.terms):
            return True
        return bool(key_of(sub(left, right)) == 0)
    if isinstance(left, Expr) or isinstance(right, Expr):
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(structural_equal(a, b) for a, b in zip(left, right, strict=True))
    try:
        equal = left == right
    except Exception:  # an object's own
        return left is right
    return equal if isinstance(equal, bool) else left is right


def bounds_of(value: Int) -> Bounds:
    """Return the lower bound and the upper bound of an integer. A bound that cannot be derived is None."""
    return value.bounds if isinstance(value, Expr) else (value, value)


def divisor_of(value: Int) -> int:
    """Return the largest known divisor of an integer expression, or 0 for the constant 0."""
    if not isinstance(value, Expr):
        return abs(value)
    return gcd(value.const, *[c * atom.divisor for atom, c in value.terms])


def is_multiple(value: Int, factor: int) -> bool:
    """Return whether an integer is proved to be a multiple of ``factor``."""
    return divisor_of(value) % factor == 0


def fits(value: Int, bits: int) -> bool:
    """Return whether an integer is proved to fit in a signed integer of ``bits`` bits."""
    lower, upper = bounds_of(value)
    return lower is not None and upper is not None and lower >= -(1 << bits - 1) and upper < 1 << bits - 1


def _low_bit(value: int) -> int:
    return value & -value


def _between(low: int, largest: int) -> int:
    """Return all bits from ``low`` (a power of two) up to the top bit of ``largest``."""
    return ((1 << largest.bit_length()) - 1) & -low


def _bits_within(atom: Atom) -> int | None:
    if atom.lower is None or atom.upper is None or atom.lower < 0:
        return None
    return _between(_low_bit(atom.divisor) or 1, atom.upper)


def possible_bits(value: Int) -> int | None:
    """Return the mask of the bits that an integer can have set, or None if the integer may be negative or unbounded."""
    lower, upper = bounds_of(value)
    if lower is None or upper is None or lower < 0:
        return None
    masks = [constant_of(value)] if constant_of(value) else []
    for atom, coefficient in terms_of(value):
        mask = atom.bits
        if mask is None or coefficient < 0:
            return None
        if _low_bit(coefficient) == coefficient:
            masks.append(mask * coefficient)
        else:  # a product with any other number spreads over all bits between
            masks.append(_between(_low_bit(mask * coefficient) or 1, min(mask, atom.upper or 0) * coefficient))
    total = sum(masks)
    if total == reduce(operator.or_, masks, 0):
        return total
    # two terms share a bit: carries can reach anything above the lowest
    return (1 << total.bit_length()) - min(_low_bit(m) for m in masks if m)


def symbols_of(value: Int) -> frozenset[Symbol]:
    """Return all symbols in an integer."""
    return value.symbols if isinstance(value, Expr) else frozenset()


def evaluate(value: Int, env: Mapping[Symbol, Any]) -> Any:
    """Return an expression's value for given values of the symbols. Raises KeyError for a symbol without a value."""
    if not isinstance(value, Expr):
        return value
    total: Any = value.const
    for atom, coefficient in value.terms:
        operands = [evaluate(operand, env) for operand in atom.operands]
        atom_value = env[atom] if isinstance(atom, Symbol) else OPERATIONS[atom.op].compute(*operands)
        total = total + atom_value * coefficient
    return total


def substitute(value: Int, replacements: Mapping[Symbol, Any]) -> Int:
    """Return an integer expression after replacing symbols by other integers. The result is simplified."""
    symbols = symbols_of(value)
    if symbols.isdisjoint(replacements):
        return value
    result: Int = evaluate(value, {s: replacements.get(s, of_atom(s)) for s in symbols})
    return result


@frozen
class Rule:
    """A frozen record of how one operation on two integers is computed, bounded and printed.

    Attributes:
        text: the format of its Python expression, for the texts of its operands.
        cpp: the format of its C++ expression, in which functions of the exported header round down.
        compute: returns the value for the values of its operands: numbers, arrays or symbolic integers.
        bounds: returns the smallest and the largest value for its operands.
        divisor: returns a divisor of every value for divisors of the operands.
        bits: returns the mask of the bits that can be set, or None, for an operation with bounds and divisor.
        instruction: the PTX instruction that computes it, without the width, or "" if it takes several.
    """

    text: str
    cpp: str
    compute: Callable[[Any, Any], Any]
    bounds: Callable[[Any, Any], Bounds]
    divisor: Callable[[int, int], int]
    bits: Callable[[Operation], int | None] = _bits_within
    instruction: str = ""


def _quotient_bounds(left: Int, by: int) -> Bounds:
    lower, upper = bounds_of(left)
    return None if lower is None else lower // by, None if upper is None else upper // by


def _remainder_bits(operation: Operation) -> int | None:
    dividend, by = operation.operands
    below = _low_bit(by) - 1
    if below != by - 1:
        return _bits_within(operation)
    inner = possible_bits(dividend)
    return below if inner is None else below & inner


def _product_bounds(left: Int, right: Int) -> Bounds:
    (a, b), (c, d) = bounds_of(left), bounds_of(right)
    if a is not None and b is not None and c is not None and d is not None:
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    if a is not None and c is not None and a >= 0 and c >= 0:
        return a * c, None
    return None, None


def _xor_bounds(left: Int, right: Int) -> Bounds:
    masks = possible_bits(left), possible_bits(right)
    if masks[0] is not None and masks[1] is not None:
        return 0, masks[0] | masks[1]
    edges = [edge for edge in (*bounds_of(left), *bounds_of(right)) if edge is not None]
    if len(edges) < 4:
        return None, None
    # two's complement: the sign and everything below the widest operand can change
    reach = 1 << max((edge if edge >= 0 else ~edge).bit_length() for edge in edges)
    return -reach, reach - 1


def _least_bounds(left: Int, right: Int) -> Bounds:
    (a, b), (c, d) = bounds_of(left), bounds_of(right)
    lower = None if a is None or c is None else min(a, c)
    return lower, min((edge for edge in (b, d) if edge is not None), default=None)


def _least(left: Any, right: Any) -> Any:
    return minimum(left, right) if is_int_like(left) and is_int_like(right) else np.minimum(left, right)


OPERATIONS: dict[str, Rule] = {
    "//": Rule(
        "({})//{}",
        "tilecopy::quotient({}, {})",
        operator.floordiv,
        _quotient_bounds,
        lambda inner, by: 1 if inner % by else inner // by,
    ),
    "%": Rule("({})%{}", "tilecopy::remainder({}, {})", operator.mod, lambda _, by: (0, by - 1), gcd, _remainder_bits),
    "*": Rule("({})*({})", "({} * {})", operator.mul, _product_bounds, operator.mul, instruction="mul.lo.s"),
    "^": Rule(
        "(({})^({}))",
        "({} ^ {})",
        operator.xor,
        _xor_bounds,
        lambda left, right: _low_bit(gcd(left, right)),
        lambda operation: None if operation.lower is None or operation.lower < 0 else operation.upper,
        "xor.b",
    ),
    "min": Rule("min({}, {})", "tilecopy::lesser({}, {})", _least, _least_bounds, gcd),
}
"""Name of an :class:`Operation` -> its rule."""
