"""Conditions that are evaluated when a kernel runs: comparisons, combined with ``&``, ``|`` and ``~``."""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any, ClassVar

from ..errors import RequestError, short_repr
from ..errors.attrs_classes import frozen

__all__ = ["Condition", "RunTime"]


class RunTime:
    """The base class of symbolic integers and run-time values. Operators that a subclass does not define raise an error.

    ``has`` is the start of the error's message, which says which operators are supported.
    """

    __slots__ = ()
    __array_ufunc__ = None  # array + value comes to __radd__, which refuses it
    has: ClassVar[str]

    def _refuse(self, other: Any = None, *_: Any) -> Any:
        raise RequestError(f"this operator on '{self!r}' and {short_repr(other)} is not supported: {self.has}")

    _refused: Any = _refuse  # a class may define any of them
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refused
    __pow__ = __rpow__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refused
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refused


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
"""Comparison -> its function."""


@frozen(eq=False, repr=False)
class Condition:
    """A frozen record of a condition: a comparison, ``and``, ``or``, ``not``, or ``elect`` (one lane per warp).

    It has no truth value while a kernel is described: combine conditions with ``&``, ``|`` and ``~``. Its ``op`` is one
    of ``== != < <= > >=`` on two operands, ``and or not`` on conditions, or ``elect`` on nothing.
    """

    op: str
    left: Any = None
    right: Any = None

    __array_ufunc__ = None

    def _with(self, op: str, other: Any) -> Condition:
        if isinstance(other, bool):  # a comparison that was decided, such as one on the only thread's id
            other = Condition("==", int(other), 1)
        if not isinstance(other, Condition):
            raise RequestError(f"'{op}' must join two conditions, got {short_repr(other)} (in '{self!r} {op} ...')")
        return Condition(op, self, other)

    def __and__(self, other: Any) -> Condition:
        return self._with("and", other)

    def __or__(self, other: Any) -> Condition:
        return self._with("or", other)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Condition:
        return Condition("not", self)

    def __bool__(self) -> bool:
        raise RequestError(
            f"'{self!r}' is known only when the kernel runs: to branch, use KernelBuilder.if_; to combine conditions, put "
            "each in parentheses and use & | ~; to compare structure, use tilecopy_core.structural_equal"
        )

    def __repr__(self) -> str:
        if self.op == "elect":
            return "elect"
        if self.op == "not":
            return f"not ({self.left!r})"
        sides = [
            f"({s!r})" if isinstance(s, Condition) and s.op in ("and", "or") else repr(s)
            for s in (self.left, self.right)
        ]
        return f" {self.op} ".join(sides)

    def evaluate(self, value_of: Callable[[Any], Any]) -> Any:
        """Return the condition's value, a bool or an array. ``value_of`` returns the value of an operand."""
        if self.op == "not":
            return self.left.evaluate(value_of) ^ True  # of a bool, or an array of them
        if self.op in ("and", "or"):
            left, right = self.left.evaluate(value_of), self.right.evaluate(value_of)
            return left & right if self.op == "and" else left | right
        return COMPARISONS[self.op](value_of(self.left), value_of(self.right))
