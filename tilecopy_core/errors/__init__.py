"""The errors that tilecopy raises, one class per kind of mistake, and validators of arguments.

Every message says what must hold, for which operand, what was given, and what to do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import CO_VARARGS
from itertools import chain, repeat
from typing import Any, ParamSpec, TypeVar

from .attrs_classes import frozen as frozen
from .fork_lock import LOCK
from .lazy_numpy import np
from .lazy_regex import pattern as pattern

__all__ = ["FLAG", "TEXT", "Validator", "attribute", "checked", "instance_of", "integer", "integer_in", "np"]
__all__ += ["one_of", "optional", "short_repr", "tuple_of"]
__tracebackhide__ = True  # pytest shows the call that is refused, not the checks of its arguments

P = ParamSpec("P")
T = TypeVar("T")
_SHOWN_CHARACTERS = 200
_SHOWN_BITS = 256
"""The largest width of an integer that messages print; Python may refuse longer ones (`sys.set_int_max_str_digits`)."""
_OBJECT_ADDRESS = pattern(r" at 0x[0-9A-Fa-f]+(?=[>,])")


class TilecopyError(Exception):
    """The base class of every error that tilecopy raises."""


class LayoutError(TilecopyError, ValueError):
    """Raised for a malformed layout, buffer or region, or for layouts and shapes that do not fit together."""


class RequestError(TilecopyError, ValueError):
    """Raised for an invalid argument, or for a copy that is invalid for every variant."""


class TargetError(TilecopyError, ValueError):
    """Raised for an unknown target, or for a request that needs a feature that the target lacks."""


class PtxError(TilecopyError, ValueError):
    """Raised for an instruction whose operands, widths or alignment do not match the PTX ISA."""


class PluginError(TilecopyError, RuntimeError):
    """Raised for a broken plugin that was requested by name, or for two plugins with the same name."""


class PerformanceWarning(UserWarning):
    """A warning about a copy that is correct but much slower than necessary. ``plan.explain()`` shows it as a note."""


class NoVariantError(TilecopyError, LookupError):
    """Raised if no installed variant can lower a copy.

    Attributes:
        declined: for each variant that was asked or set aside, the reason why it does not lower this copy.
    """

    def __init__(self, message: str, declined: Mapping[str, str]) -> None:
        if not isinstance(declined, Mapping):
            raise RequestError(
                f"NoVariantError: declined must be a mapping from variant names to reasons, got {short_repr(declined)}"
            )
        super().__init__(message)
        self.declined = dict(declined)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.declined)


class UnknownOptionError(RequestError, NoVariantError):
    """Raised for an option that no installed variant of the requested op takes."""


_ALSO_CALLED = {"gmem": "global", "smem": "shared", "registers": "local", "rmem": "local"}
"""Names of memory spaces in other projects, for hints in messages."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a hint such as ``"; did you mean float16?"`` if a known name resembles ``name``, else an empty string."""
    with LOCK:  # no import of the package should wait for it
        from difflib import get_close_matches

    by_folded = {word.lower(): word for word in known}
    by_folded |= {other: word for other, word in _ALSO_CALLED.items() if word in by_folded and other not in by_folded}
    folded = name.lower()[:100] if isinstance(name, str) else ""
    begun = [word for word in by_folded if len(folded) > 1 and word.startswith(folded)]
    matches = get_close_matches(folded, begun or by_folded, 1, 0 if begun else 0.5) if folded else []
    return f"; did you mean {by_folded[matches[0]]}?" if matches else ""


def short_repr(value: object) -> str:
    """Return the repr of a value as one short, printable line without addresses. The function never raises an error."""
    try:
        if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
            return f"{'a negative' if value < 0 else 'an'} integer of {value.bit_length()} bits"
        if (type(value) is tuple or type(value) is list) and len(value) > _SHOWN_CHARACTERS:
            value = value[:_SHOWN_CHARACTERS]  # each element takes characters: more is never shown
        text = " ".join(repr(value)[: 20 * _SHOWN_CHARACTERS].split())
        if not isinstance(value, (str, bytes)):
            text = without_addresses(text)
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = f"<{type(value).__name__} object>"
    if not text.isprintable():
        characters = [c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:_SHOWN_CHARACTERS]]
        text = "".join(characters)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def without_addresses(text: str) -> str:
    """Return a text without the addresses of Python objects. Addresses differ between processes."""
    return _OBJECT_ADDRESS.sub("", text) if " at 0x" in text else text


def integer(value: Any) -> int | None:
    """Return an integer of Python, NumPy or a framework as an int. Return None for any other value, such as a bool."""
    if type(value) is int:
        return value
    try:
        if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
            return None
        return int(operator.index(value))
    except Exception:  # a framework raises its own, such as for a tensor of many elements
        return None


def attribute(value: object, name: str) -> Any:
    """Return an attribute of an object, or None if the attribute does not exist or raises an error when read."""
    try:
        return getattr(value, name, None)
    except Exception:  # an object's own
        return None


class Validator:
    """A validator for a function's argument or a record's field.

    Attributes:
        rule: a phrase that completes "must be".
        words: the valid names, if the argument is a name, for hints.
    """

    def __init__(self, rule: str, fits: Callable[[Any], bool], words: Sequence[str] = ()) -> None:
        self.rule, self._fits, self.words = rule, fits, words

    def fits(self, value: Any) -> bool:
        """Return True if a value is valid. A value is invalid if its check raises an error."""
        try:
            return bool(self._fits(value))
        except Exception:  # an object's own
            return False

    def check(self, value: Any, where: str, name: str, error: type[TilecopyError] = RequestError) -> Any:
        """Check a value and return it. An integer of NumPy or another framework is converted to an int.

        Raises:
            error: the value is not valid; the message has ``where``, the name, the rule and the value.
        """
        if self.fits(value):
            return value
        number = integer(value)
        if number is None or not self.fits(number):
            raise error(
                f"{where}: {name} must be {self.rule}, got {short_repr(value)}{did_you_mean(value, self.words)}"
            )
        return number

    def __call__(self, record: Any, attribute: Any, value: Any) -> None:
        """Check a field as a validator of attrs; an integer of a framework is converted to an int."""
        if not self.fits(value):
            plain = self.check(value, type(record).__name__, attribute.name.lstrip("_"))
            object.__setattr__(record, attribute.name, plain)


def instance_of(rule: str, *types: type) -> Validator:
    """Return a validator that accepts instances of ``types``. A bool is not accepted as an int."""
    bools = int not in types
    return Validator(rule, lambda value: isinstance(value, types) and (bools or not isinstance(value, bool)))


def integer_in(low: int, high: int) -> Validator:
    """Return a validator that accepts plain integers in a range."""
    return Validator(
        f"an integer from {low} to {high}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high,
    )


def one_of(*words: str) -> Validator:
    """Return a validator that accepts the strings in ``words``."""
    return Validator(" or ".join(words), lambda value: isinstance(value, str) and value in words, words)


def optional(validator: Validator) -> Validator:
    """Return a validator that accepts None and every value that ``validator`` accepts."""
    fits = validator._fits
    return Validator(f"{validator.rule}, or None", lambda value: value is None or fits(value), validator.words)


def tuple_of(validator: Validator) -> Validator:
    """Return a validator that accepts tuples and lists whose elements ``validator`` accepts."""
    return Validator(
        f"a tuple in which each element is {validator.rule}",
        lambda value: isinstance(value, (tuple, list)) and all(map(validator.fits, value)),
    )


FLAG = Validator("True or False", lambda value: value is True or value is False)
TEXT = instance_of("a string", str)
ANY_INTEGER = integer_in(-(2**63), 2**63 - 1)


def checked(
    error: type[TilecopyError] = RequestError, **validators: Validator
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that checks the arguments of a function with one validator per parameter.

    The validator of a variadic parameter checks each of its arguments. A value that is not valid raises ``error``.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        where, code = function.__qualname__.removesuffix(".__init__"), function.__code__
        names = code.co_varnames[: code.co_argcount]
        variadic = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & CO_VARARGS else ""

        def check(name: str, value: Any) -> Any:
            return validators[name].check(value, where, name, error) if name in validators else value

        @wraps(function)
        def checking(*arguments: Any, **keywords: Any) -> T:
            values = map(check, chain(names, repeat(variadic)), arguments)
            return function(*values, **{name: check(name, value) for name, value in keywords.items()})

        return checking

    return decorate
