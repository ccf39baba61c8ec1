"""The parameters that are integers: scalars that the caller passes, and sizes that a launch reads from the shapes of arrays."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import attrs

from tilecopy_core.errors import RequestError, frozen, integer, short_repr
from tilecopy_core.integers import Int, Symbol, constant_of, key_of, terms_of
from tilecopy_core.memory import Buffer

from ..errors import LaunchError
from .parameters import Binding, Parameter, value_of

_B32 = (-(2**31), 2**31 - 1)
_SCALARS: dict[str, tuple[int, int]] = {"int32": _B32, "uint32": (0, 2**32 - 1), "int64": (-(2**62), 2**62)}
"""The smallest and largest value of each type; int64 leaves one bit for sums."""
_DEFAULT_UPPER = {"int32": _B32[1], "uint32": _B32[1], "int64": 2**62}


@frozen
class NumberParameter(Parameter):
    """An integer from ``lower`` to ``upper``, a multiple of ``multiple_of``. Its PTX type is ``b32`` or ``b64``."""

    type: str
    multiple_of: int
    lower: int
    upper: int

    def take(self, number: int, binding: Binding, where: str, *, source: str = "", remedy: str = "") -> None:
        """Store a value in ``binding``. Raise LaunchError if it is out of range or not a multiple of the divisor."""
        if not self.lower <= number <= self.upper:
            raise LaunchError(
                f"{where} must be from {self.lower} to {self.upper} as declared, got {short_repr(number)}{source}{remedy}"
            )
        if number % self.multiple_of:
            raise LaunchError(f"{where} must be a multiple of {self.multiple_of} as declared, got {number}{source}")
        binding.numbers[self.name] = number

    def encode(self, binding: Binding) -> bytes:
        """Return the value as 4 or 8 bytes (two's complement)."""
        return binding.numbers[self.name].to_bytes(4 if self.type == "b32" else 8, "little", signed=True)


@frozen
class ScalarParameter(NumberParameter):
    """An integer that the caller passes.

    Attributes:
        within: further bounds, computed from sizes and scalars; ``(lower, upper)`` if there are none.
    """

    within: tuple[Int, Int] | None = attrs.field(default=None, eq=key_of)

    @classmethod
    def declare(
        cls, name: str, dtype: str = "int32", *, multiple_of: int = 1, lower: int = 0, upper: int | None = None
    ) -> ScalarParameter:
        """Return the parameter that :meth:`KernelBuilder.scalar` declares. The bounds must be plain integers.

        The kernel computes with 32-bit registers as signed numbers. So a uint32 that may be above 2**31 - 1 (declare it:
        ``upper=2**32 - 1``) is passed in 64 bits.
        """
        if not isinstance(dtype, str) or dtype not in _SCALARS:
            raise RequestError(f"scalar {name}: dtype must be one of {', '.join(_SCALARS)}, got {short_repr(dtype)}")
        least, most = _SCALARS[dtype]
        upper = _DEFAULT_UPPER[dtype] if upper is None else upper
        divisor, low, high = _declared_integers(f"scalar {name}", multiple_of, lower, upper)
        if low < least or high > most:
            raise RequestError(
                f"scalar {name}: the bounds of an {dtype} must be from {least} to {most}, got {short_repr(low)} to {short_repr(high)}"
            )
        return cls(name, "b32" if high <= _B32[1] else "b64", divisor, low, high)

    def read(self, argument: Any, binding: Binding) -> None:
        """Store a Python integer or a framework's zero-dimensional integer array. A bool or float is an error."""
        where = f"kernel {binding.kernel}, scalar {self.name}"
        remedy = "; build the kernel with wider lower= or upper= to allow it"
        self.take(_integer(argument, where, LaunchError), binding, where, remedy=remedy)

    def check(self, binding: Binding) -> None:
        """Check the bounds that are computed from sizes and other scalars."""
        if self.within is None:
            return
        number = binding.numbers[self.name]
        lower, upper = (value_of(bound, binding.numbers) for bound in self.within)
        if not lower <= number <= upper:
            raise LaunchError(
                f"kernel {binding.kernel}, scalar {self.name} must be from {self.within[0]} to {self.within[1]} as declared "
                f"({lower} to {upper} in this launch), got {number}"
            )


@frozen
class Extent:
    """A dimension from which a size is read. Its extent, or its stride in elements, is ``factor * size + constant``."""

    array: str
    dim: int
    factor: int = 1
    constant: int = 0
    stride: bool = False

    @property
    def place(self) -> str:
        """The phrase that messages use for the dimension or for its stride."""
        return f"{'the stride of ' if self.stride else ''}dimension {self.dim} of argument {self.array}"


@frozen
class SizeParameter(NumberParameter):
    """A size that each launch reads from the shapes or strides of arrays. The caller passes no argument for the size.

    Attributes:
        sources: the dimensions whose extent or stride is the size (or a multiple of it plus a constant). They must agree.
    """

    sources: tuple[Extent, ...]
    multiple_of: int = 1
    lower: int = 1
    upper: int = _B32[1]

    takes_argument: ClassVar[bool] = False

    @classmethod
    def declare(cls, name: str, *, multiple_of: int = 1, lower: int = 1, upper: int = _B32[1]) -> SizeParameter:
        """Return a size with declared bounds and divisor. :meth:`read_from` adds ``sources`` later."""
        what = f"size {name}"
        divisor, low, high = _declared_integers(what, multiple_of, lower, upper)
        if not 0 <= low <= 2**62 or high > 2**62:
            raise RequestError(
                f"{what}: the bounds must be from 0 to 2**62, got {short_repr(low)} to {short_repr(high)}"
            )
        return cls(name, "b32" if high <= _B32[1] else "b64", (), divisor, low, high)

    def symbol(self) -> Symbol:
        """Return a new symbol for the size. The symbol's bounds are rounded to multiples of the divisor."""
        by = self.multiple_of
        return Symbol(self.name, -(-self.lower // by) * by, self.upper // by * by, by)

    def read_from(self, symbol: Symbol, arrays: Collection[Buffer]) -> SizeParameter:
        """Return the size with ``sources``: extents that depend only on this size, or strides if no extent does so."""
        for stride in (False, True):
            sources = [
                Extent(array.name, dim, terms_of(number)[0][1], constant_of(number), stride)
                for array in arrays
                for dim, number in enumerate(array.layout.strides if stride else array.shape)
                if len(terms_of(number)) == 1 and terms_of(number)[0][0] == symbol
            ]
            if sources:
                return attrs.evolve(self, sources=tuple(sources))
        raise RequestError(
            f"size {self.name} cannot be read from the arguments, because no param has an extent or stride that is a multiple of "
            f"{self.name} plus a constant; declare {self.name} as a scalar"
        )

    def read(self, argument: Any, binding: Binding) -> None:
        """Store the size in ``binding``. Raise LaunchError if two ``sources`` give different values."""
        where = f"kernel {binding.kernel}, size {self.name}"
        sizes: list[tuple[str, tuple[int, ...], int]] = []
        for source in self.sources:
            facts, place = binding.arrays[source.array], source.place
            shape = facts.shape
            if source.dim >= len(shape):
                raise LaunchError(f"{where} must be read from {place}, but the argument has shape {shape}")
            if source.stride and (shape[source.dim] == 1 or 0 in shape):
                continue  # the stride of a single element is arbitrary
            value = (facts.strides if source.stride else shape)[source.dim]
            number, rest = divmod(value - source.constant, source.factor)
            if rest:
                declared = f"{source.factor}*{self.name}" + (f" + {source.constant}" if source.constant else "")
                raise LaunchError(f"{where}: {place} must be {declared} for an integer {self.name}, got {value}")
            sizes.append((place, shape, number))
        if not sizes:  # any value fits, because no dimension with such a stride has a second element
            sizes.append((self.sources[0].place, (), -(-self.lower // self.multiple_of) * self.multiple_of))
        (first, shape, number), *others = sizes
        for other, its, value in others:
            if value != number:
                raise LaunchError(
                    f"{where} must be the same in all arguments, got {number} in {first} and {value} in {other} (the arrays' shapes are {shape} and {its})"
                )
        self.take(number, binding, where, source=f" ({first})")


def _declared_integers(what: str, multiple_of: Any, lower: Any, upper: Any) -> tuple[int, int, int]:
    """Return the declared divisor and bounds of an integer. Raise RequestError if they are not valid."""
    named = {"multiple_of": multiple_of, "lower": lower, "upper": upper}
    divisor, low, high = (_integer(value, f"{what}: {name}", RequestError) for name, value in named.items())
    if divisor < 1:
        raise RequestError(f"{what}: multiple_of must be at least 1, got {short_repr(multiple_of)}")
    if low > high:
        raise RequestError(f"{what}: lower must not be above upper, got {short_repr(low)} and {short_repr(high)}")
    if -(-low // divisor) > high // divisor:
        raise RequestError(
            f"{what}: the range from lower to upper must contain a multiple of {short_repr(divisor)}, got {low} to {short_repr(high)}"
        )
    return divisor, low, high


def _integer(value: Any, where: str, error: type[Exception]) -> int:
    """Return the value as an integer, or raise the error."""
    number = integer(value)
    if number is None:
        raise error(f"{where} must be an integer, got {short_repr(value)}")
    return number
