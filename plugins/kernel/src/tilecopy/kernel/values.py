"""Run-time values of a kernel: loaded elements, constants, arithmetic and casts.

Block ids, loop variables and scalars are not values but symbolic integers (:mod:`tilecopy_core.integers.expr`).
16-bit floats are computed in float32 and rounded when they are stored or cast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import attrs

from tilecopy_core.errors import LayoutError, RequestError, frozen, instance_of, np, one_of, short_repr
from tilecopy_core.integers import Condition, Expr, Int, RunTime, bounds_of, fits, key_of
from tilecopy_core.layout import DType, dtype_of
from tilecopy_core.memory import Region
from tilecopy_core.ptx import SETP, PtxBuilder, Register
from tilecopy_core.registry import LOCK

from . import conversion

_BINARY = ("add", "sub", "mul", "div", "min", "max")
_VALUES = ("loaded", "address", "const", "index", "cast", "checked_int", "neg", *_BINARY)
_SHOWN_DEPTH = 4
"""The depth of nested operations that a message shows, because a value may have thousands."""


def _arithmetic(op: str, *, swap: bool = False) -> Callable[[Value, Any], Value]:
    return lambda self, other: self._with(op, other, swap=swap)


def _comparison(op: str) -> Callable[[Value, Any], Condition]:
    def compare(self: Value, other: Any) -> Condition:
        if not conversion.computes(self.dtype) and self.dtype.kind != "b":
            raise RequestError(f"'{self!r} {op} {short_repr(other)}': values of {self.dtype} cannot be compared")
        return Condition(op, self, as_value(other, self.dtype))

    return compare


@frozen(eq=False)
class Value(RunTime):
    """A run-time value of one thread. ``+ - * /`` and ``-v`` give new values, and comparisons give conditions.

    Attributes:
        dtype: the type of the value.
        op: ``loaded``, ``address``, ``const``, ``index``, ``cast``, ``checked_int`` (an integer whose range the launch checks), ``neg``,
            ``add``, ``sub``, ``mul``, ``div``, ``min``, ``max``.
        args: the operands: values, a constant, a symbolic integer, or an element that is loaded or whose address is taken. A cast has the
            value, the rounding of PTX (``rn``, ``rz``, ``rp``, ``rm``), and True if it saturates.
    """

    dtype: DType = attrs.field(validator=instance_of("a DType", DType))
    op: str = attrs.field(validator=one_of(*_VALUES))
    args: tuple[Any, ...] = attrs.field(default=(), validator=instance_of("a tuple", tuple))

    def __attrs_post_init__(self) -> None:
        wanted: tuple[Any, ...] = _ARGUMENTS.get(self.op, (Value,) * (1 if self.op == "neg" else 2))
        if len(self.args) != len(wanted) or not all(map(isinstance, self.args, wanted)):
            raise RequestError(f"Value: args must be the operands of {self.op}, got {short_repr(self.args)}")

    has: ClassVar[str] = "run-time values support + - * /, min, max and comparisons"
    reflects: ClassVar[tuple[str, ...]] = ("+", "-", "*", "==", "!=", "<", "<=", ">", ">=")

    __add__, __radd__ = _arithmetic("add"), _arithmetic("add", swap=True)
    __sub__, __rsub__ = _arithmetic("sub"), _arithmetic("sub", swap=True)
    __mul__, __rmul__ = _arithmetic("mul"), _arithmetic("mul", swap=True)
    __truediv__ = _arithmetic("div")
    __eq__, __ne__ = _comparison("=="), _comparison("!=")  # type: ignore[assignment]
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    __hash__ = object.__hash__

    def __neg__(self) -> Value:
        return Value(self.dtype, "neg", (self,))

    def min(self, other: Any) -> Value:
        """Return the smaller of two values."""
        return self._with("min", other)

    def max(self, other: Any) -> Value:
        """Return the larger of two values."""
        return self._with("max", other)

    def __repr__(self) -> str:
        return self._text(_SHOWN_DEPTH)

    def _text(self, depth: int) -> str:
        if self.op in ("const", "index", "checked_int"):
            return repr(self.args[0])
        if not depth:
            return "..."
        name = str(self.dtype) if self.op == "cast" else self.op
        shown_args = self.args[:1] if self.op == "cast" else self.args
        return f"{name}({', '.join(a._text(depth - 1) if isinstance(a, Value) else repr(a) for a in shown_args)})"

    def parts(self) -> Iterator[Value]:
        """Yield the value and all values from which it is computed, without duplicates."""
        pending, seen = [self], set[int]()
        while pending:
            value = pending.pop()
            if id(value) not in seen:  # several operations may use a value
                seen.add(id(value))
                yield value
                pending += [operand for operand in value.args if isinstance(operand, Value)]

    def places(self) -> tuple[Int, ...] | None:
        """Return the integers that determine the value and its load addresses, or None if it depends on registers.

        Threads with equal integers have the same value.
        """
        integers = dict[Any, Int]()
        for value in self.parts():
            dependencies: tuple[Int, ...] | None = value.args if value.op == "index" else ()
            if value.op in ("loaded", "address"):
                element = value.args[0]
                in_memory = element.buffer.space in ("global", "shared")
                dependencies = (*element.starts, *element.buffer.placed_by()) if in_memory else None
            if dependencies is None:
                return None
            integers |= {key_of(integer): integer for integer in dependencies}
        return tuple(integers.values())

    def __bool__(self) -> bool:
        raise RequestError(
            "the truth value of a run-time value is not known at build time; use KernelBuilder.if_ to branch on it"
        )

    def _with(self, op: str, other: Any, *, swap: bool = False) -> Value:
        value = as_value(other, self.dtype)
        if value.dtype != self.dtype:
            raise RequestError(f"{op} of {self.dtype} and {value.dtype}: the dtypes must be equal; cast one of them")
        if not conversion.computes(self.dtype):
            may_be_cast = conversion.converts(self.dtype)
            hint = "arithmetic: cast to float32 first" if may_be_cast else "arithmetic or casts"
            raise RequestError(f"{op} of {self.dtype}: the type does not support {hint}")
        return Value(self.dtype, op, (value, self) if swap else (self, value))


_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "loaded": (Region,),
    "address": (Region,),
    "const": ((int, float),),
    "index": ((int, Expr),),
    "checked_int": (Value, Expr),
    "cast": (Value, str, bool),
}
"""The types of operands, for the operations whose operands are not all values."""


def as_value(value: Any, dtype: DType) -> Value:
    """Convert a number or symbolic integer to a value of ``dtype``. Run-time values are returned unchanged."""
    if isinstance(value, Value):
        return value
    if isinstance(value, Expr):
        converted = cast(value, dtype)
        if dtype.kind not in "iu":
            return converted
        (lower, upper), (low, high) = bounds_of(value), conversion.range_of(dtype)
        proved = upper is not None and upper <= high
        if lower is None or lower < low or (dtype.bits < 32 and not proved):
            raise RequestError(
                f"the integer {value} must fit in {dtype}, from {low} to {high}, but it may be from {lower} to {upper}; "
                f"to wrap around, use KernelBuilder.cast(..., '{dtype}')"
            )
        # block ids are only bounded by the largest grid, so the launch checks that they fit 32 bits
        return converted if proved or dtype.bits == 64 else Value(dtype, "checked_int", (converted, value))
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    if isinstance(value, bool) and dtype.kind == "b":
        return Value(dtype, "const", (int(value),))
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise RequestError(f"value must be a number or a run-time value, got {short_repr(value)}")
    if why := why_not_held(value, dtype):
        raise RequestError(f"the value {short_repr(value)} as {dtype}: {why}")
    return Value(dtype, "const", (_as_held(value, dtype.name),))


_PRECISION = {"float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149)}
"""The bits of the significand and the exponent of the smallest positive number (IEEE 754, and bfloat16)."""


def _as_held(number: float, dtype: str) -> float:
    """Return a constant rounded once to a float type, ties to even. For other types it is unchanged."""
    if dtype not in _PRECISION or not number or not math.isfinite(number):
        return number
    bits, least = _PRECISION[dtype]
    with LOCK:
        from fractions import Fraction
    exact = abs(Fraction(number))
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()  # the exponent, or one more
    unit = Fraction(2) ** max(exponent - (exact < Fraction(2) ** exponent) - bits + 1, least)
    return math.copysign(float(round(exact / unit) * unit), number)


def why_not_held(number: float, dtype: DType) -> str | None:
    """Return why a dtype cannot hold a number, or None if the dtype can. Floats may be rounded."""
    if dtype.kind in "iub":
        if isinstance(number, float) and not number.is_integer():  # also NaN and infinities
            return "the number must be whole; round it first"
        low, high = conversion.range_of(dtype)
        return None if low <= number <= high else f"the number must be from {low} to {high}"
    largest = conversion.LARGEST.get(dtype.name)
    if largest is not None:
        finite = isinstance(number, int) or abs(number) != float("inf")
        return f"the number must be from -{largest!r} to {largest!r}" if finite and abs(number) > largest else None
    return f"{dtype} does not support constants: view the buffer as an integer type of the same width"


ROUNDINGS = {"nearest": "rn", "zero": "rz", "up": "rp", "down": "rm"}
"""The roundings of a conversion -> their names in PTX."""


def cast(value: Any, dtype: Any, round: str = "nearest", saturate: bool | None = None) -> Value:
    """Convert a value, number or symbolic integer to a dtype. See :meth:`KernelBuilder.cast`."""
    wanted = dtype_of(dtype)
    says = saturate is not None or round != "nearest" or wanted.name in conversion.FLOAT8
    if isinstance(value, Expr):
        value = Value(dtype_of("int32" if fits(value, 32) else "int64"), "index", (value,))
    elif says and not isinstance(value, Value):
        # a number becomes float64 or int64, which the conversion may round and clamp
        value = as_value(value, dtype_of("float64" if isinstance(value, (float, np.floating)) else "int64"))
    source = as_value(value, wanted)
    if source.dtype == wanted:
        return source
    for side in (source.dtype, wanted):
        if not conversion.converts(side):
            raise RequestError(f"cannot cast {source.dtype} to {wanted}")
    if wanted.name in conversion.FLOAT8:
        if round != "nearest":
            raise RequestError(
                f"cast to {wanted}: round must be 'nearest', the only rounding mode of PTX for this type, got {round!r}"
            )
        if saturate is None:
            raise RequestError(
                f"cast to {wanted}: saturate must be True (clamp to the largest finite value) or False "
                f"(overflow becomes {'NaN' if wanted.name.endswith('fn') else 'infinity'}), got None"
            )
    to_integer = source.dtype.kind == "f" and wanted.kind != "f"
    rounding = "rz" if to_integer and round == "nearest" and saturate is None else ROUNDINGS[round]
    return Value(wanted, "cast", (source, rounding, bool(saturate)))


# --------------------------------------------------------------------------------------------- lowering


def element_offset(element: Region) -> Int:
    """Return an element's swizzled offset in its buffer, in elements. The offset of a register must be constant."""
    buffer = element.buffer
    if element.size != 1:
        raise LayoutError(f"load and store need a region of one element, got {element} with {element.size} elements")
    place = buffer.layout.apply(*element.starts, shape=buffer.shape)
    if buffer.space == "local":
        if set(place) - {"m"}:
            raise LayoutError(f"{buffer.name} is distributed over threads; use KernelBuilder.registers({buffer.name})")
        if isinstance(place.get("m", 0), Expr):
            raise LayoutError(f"{element}: indices of registers must be constants (unroll the loop in Python)")
    return place.get("m", 0)


def lower_value(ptx: PtxBuilder, value: Value) -> Register:
    """Return the b32 or b64 register that holds a value in its compute type."""
    register = _register_of(ptx, "value", value)
    if register is None:
        raw = _raw(ptx, value)
        computed = _compute(ptx, value) if raw is None else conversion.from_storage(ptx, raw, value.dtype)
        register = _keep(ptx, "value", value, computed)
    return register


def bind_loaded(ptx: PtxBuilder, value: Value, raw: Register) -> None:
    """Bind a loaded value to its bits in ``raw`` (zero-extended). The bits are converted when the value is used in arithmetic."""
    _keep(ptx, "raw", value, raw)


def stored_bits(ptx: PtxBuilder, value: Value) -> Register:
    """Return the bits to store for a value: the loaded bits unchanged (a NaN keeps its payload), or the rounded result."""
    raw = _raw(ptx, value)
    return raw if raw is not None else conversion.to_storage(ptx, lower_value(ptx, value), value.dtype)


def _raw(ptx: PtxBuilder, value: Value) -> Register | None:
    """Return the bits of a value that was loaded or cast to a narrow float, or None for other values."""
    raw = _register_of(ptx, "raw", value)
    if raw is None and value.op == "cast" and conversion.narrow(value.dtype):
        raw = _keep(ptx, "raw", value, _cast(ptx, value))
    return raw


def _keep(ptx: PtxBuilder, what: str, value: Value, register: Register) -> Register:
    """Keep a value's register in the innermost block, and return it."""
    return ptx.blocks[-1].once((what, value), lambda: register)


def _register_of(ptx: PtxBuilder, what: str, value: Value) -> Register | None:
    """Return the register of a value in an open block, or None."""
    return next((register for block in ptx.blocks if (register := block.lookup((what, value))) is not None), None)


def _compute(ptx: PtxBuilder, value: Value) -> Register:
    type = conversion.register_type(value.dtype)
    if value.op == "index":
        return ptx.value(ptx.exact(value.args[0]), int(type[1:]))
    if value.op == "checked_int":
        return lower_value(ptx, value.args[0])
    if value.op in ("min", "max") and type[0] != "f":
        left, right = (lower_value(ptx, arg) for arg in value.args)
        return conversion.lesser(ptx, type, left, right, greater=value.op == "max")
    result = ptx.reg(f"b{type[1:]}")
    if value.op == "address":
        address = ptx.address(value.args[0].buffer, element_offset(value.args[0]))
        ptx.instr(f"add.{type}", result, address.base, address.offset_bytes)
        return result
    if value.op == "const":
        ptx.instr(f"mov.{type}", result, conversion.constant(value.args[0], type))
        return result
    if value.op == "loaded":
        raise RequestError(
            f"the value {value!r} must be used inside the block and kernel that loaded it; load the element again in this block"
        )
    if value.op == "cast":
        return _cast(ptx, value)
    operands = [lower_value(ptx, arg) for arg in value.args]
    rounding = ".lo" if value.op == "mul" else ""
    if type[0] == "f" and value.op in ("add", "sub", "mul", "div"):
        rounding = ".rn"  # without it, a product and a sum may be fused and rounded once (PTX ISA 9.7.3)
    sign = "s" + type[1:] if value.op == "neg" and type[0] == "u" else type
    ptx.instr(f"{value.op}{rounding}.{sign}", result, *operands)
    return conversion.wrap(ptx, result, value.dtype)


def _cast(ptx: PtxBuilder, value: Value) -> Register:
    """Return the result of a cast in its compute type, or as the bits of a narrow float."""
    source, rounding, saturate = value.args
    operand = lower_value(ptx, source)
    if source.dtype.name in conversion.HALVES and source.op not in ("loaded", "const", "cast"):
        operand = conversion.from_storage(ptx, conversion.to_storage(ptx, operand, source.dtype), source.dtype)
    return conversion.convert(ptx, operand, source.dtype, value.dtype, rounding, saturate)


def lower_condition(ptx: PtxBuilder, condition: Condition) -> Register:
    """Return a predicate register that holds a condition. The condition must be a result of :func:`with_types`."""
    return ptx.predicate(condition, lambda comparison: _compare(ptx, comparison))


def with_types(condition: Condition) -> Condition:
    """Return the condition with each integer converted to the type of the run-time value that it is compared with."""
    if condition.op in ("and", "or"):
        return Condition(condition.op, with_types(condition.left), with_types(condition.right))
    if condition.op == "not":
        return Condition("not", with_types(condition.left))
    side = next((side for side in (condition.left, condition.right) if isinstance(side, Value)), None)
    if side is None:
        return condition
    return Condition(condition.op, as_value(condition.left, side.dtype), as_value(condition.right, side.dtype))


def _compare(ptx: PtxBuilder, condition: Condition) -> Register:
    if condition.op == "elect":
        result = ptx.reg("pred")
        ptx.instr("elect.sync", f"_|{result}", "0xffffffff")
        return result
    left, right = condition.left, condition.right
    if not isinstance(left, Value):
        return ptx.predicate(condition)
    if left.dtype != right.dtype:
        raise RequestError(
            f"compared values must have the same dtype, got {left.dtype} and {right.dtype}: cast one of them first"
        )
    operands = lower_value(ptx, left), lower_value(ptx, right)
    name = "neu" if condition.op == "!=" and left.dtype.kind == "f" else SETP[condition.op]
    return conversion.emit(ptx, "pred", f"setp.{name}.{conversion.register_type(left.dtype)}", *operands)
