"""The arguments of an exported copy, with their order, names, types and bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import attrs
from tilecopy.expression_text import symbols_in_order, unique_name

from tilecopy_core import Plan
from tilecopy_core.description import MAX_CTA_THREADS, is_thread_id
from tilecopy_core.errors import RequestError, short_repr
from tilecopy_core.integers import Expr, Int, Symbol
from tilecopy_core.layout import StridedLayout
from tilecopy_core.memory import Buffer, Memory, Region
from tilecopy_partitions import TensorMap

Key: TypeAlias = "Memory | Symbol | str"
"""The key of an argument: a memory, a symbol, or the name of a special register."""
TID = "tid"
"""The name of the last argument of every function: the thread's index in the copy's CTA."""

_WORDS = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl "
    "concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete "
    "do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable "
    "namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast "
    "requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw "
    "true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq "
    "int32_t uint32_t int64_t uint64_t threadIdx blockIdx blockDim gridDim warpSize tilecopy NULL min main std dim3 size_t ptrdiff_t half clock int8_t int16_t uint8_t uint16_t int64_t uint64_t"
)
MARK = "tc_"
"""The prefix of the names of registers and variables. A name such as ``%r0`` would silently hide a compiler's register."""
_VECTORS = "char uchar short ushort int uint long ulong longlong ulonglong float double"
_RESERVED = frozenset([*_WORDS.split(), *(f"{name}{n}" for name in _VECTORS.split() for n in (1, 2, 3, 4))])
"""Words of C++ and CUDA, and functions that the generated code calls, which cannot be names of arguments or functions."""


@attrs.frozen(eq=False)
class BufferArgument:
    """A frozen record of an argument that is a buffer of the copy.

    Attributes:
        name: the name of the argument.
        buffer: the buffer.
        role: ``destination``, ``source`` or ``option NAME``.
        written: True if the copy writes it.
        same_as: the name of an earlier argument with the same memory, or "".
        recipe: the recipe of a tensor map, which the host encodes before the launch, or None.
    """

    name: str
    buffer: Buffer
    role: str
    written: bool
    same_as: str = ""
    recipe: TensorMap | None = None

    @property
    def words(self) -> int:
        """The number of 32-bit words of the fragment that each thread holds."""
        memory = self.buffer.memory
        return -(-memory.span_bytes * 8 // memory.word_bits) * (memory.word_bits // 32)


C_TYPES = {"int32_t": (-(2**31), 2**31 - 1), "uint32_t": (0, 2**32 - 1), "int64_t": (-(2**63), 2**63 - 1)}
"""The C++ types of integer arguments -> the smallest and largest value of each."""


@attrs.frozen(eq=False)
class ScalarArgument:
    """A frozen record of an integer argument: the value of a symbol of the copy, or the thread's index.

    Attributes:
        name: the name of the argument.
        symbol: the symbol, or None for the thread's index.
        lower: the smallest value, or None if it is not known.
        upper: the largest value, or None if it is not known.
        multiple_of: a divisor of every value.
    """

    name: str
    symbol: Symbol | None
    lower: int | None
    upper: int | None
    multiple_of: int = 1

    @property
    def type(self) -> str:
        """The C++ type: the first of ``int32_t``, ``uint32_t`` and ``int64_t`` that can hold every value."""
        if self.lower is None or self.upper is None:
            return "int64_t"
        fit = (name for name, (least, most) in C_TYPES.items() if least <= self.lower and self.upper <= most)
        return next(fit, "int64_t")

    @property
    def bits(self) -> int:
        """The width of the argument's C++ type in bits."""
        return 64 if self.type == "int64_t" else 32


Argument: TypeAlias = "BufferArgument | ScalarArgument"


def key_of_symbol(symbol: Symbol) -> Key:
    """Return a symbol's key for :func:`by_key`: the symbol's special register if it has one, else the symbol."""
    return symbol.register or symbol


def check_function_name(name: object) -> None:
    """Raise RequestError if a function name is invalid in C++, PTX or Python."""
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or name in _RESERVED:
        raise RequestError(f"a function name must be a C++ identifier that is not reserved, got {short_repr(name)}")
    if "__" in name or (name[0] == "_" and name[1:2].isupper()):
        raise RequestError(
            f"a function name must not contain '__' or begin with '_' and a capital letter, because C++ reserves such names, got {name!r}"
        )


def arguments_of(plan: Plan) -> tuple[Argument, ...]:
    """Return a copy's arguments in this order: destination, source, symbols, buffers of options, ``tid``."""
    request = plan.request
    buffers: list[tuple[str, Region]] = [("destination", request.dst), ("source", request.src)]
    values: list[Int] = []
    for option, value in request.options.items():
        if isinstance(value, (Region, Buffer)):
            buffers.append((f"option {option}", value if isinstance(value, Region) else value[()]))
        elif isinstance(value, Expr):
            values.append(value)
    for role, region in buffers:
        if region.buffer.space == "tmem":
            raise RequestError(
                f"{request}: {role} {region.buffer.name} of an exported copy must not be in tensor memory, because only the "
                "kernel that runs tcgen05.alloc has the address; build the whole kernel with KernelBuilder, and export it "
                "with kernel.save"
            )
    taken = {TID}
    operands: list[BufferArgument] = []
    for role, region in buffers:
        earlier = next((o for o in operands if o.buffer.memory is region.buffer.memory), None)
        if earlier is not None and role.startswith("option"):
            continue  # all mbarriers of an array, and a buffer that is also an operand, have one argument
        name = _argument_name(region.buffer.name, taken)
        same_as = "" if earlier is None else earlier.name
        operands.append(BufferArgument(name, region.buffer, role, role == "destination", same_as))
    symbols: dict[Key, list[Symbol]] = {}
    regions = [region for _, region in buffers]
    both_sides = [value for region in regions[:2] for value in _integers(region)]
    for value in (*both_sides, *values, *(value for region in regions[2:] for value in _integers(region))):
        for symbol in symbols_in_order(value):
            if not is_thread_id(symbol):
                symbols.setdefault(key_of_symbol(symbol), []).append(symbol)
    numbers = [_number(_argument_name(same[0].name, taken), same) for same in symbols.values()]
    last = cta_threads(plan) - 1
    both, options = operands[:2], operands[2:]
    return (*both, *numbers, *options, ScalarArgument(TID, None, 0, last))


def cta_threads(plan: Plan) -> int:
    """Return the number of threads in the copy's CTA, or the largest possible number if it is unknown."""
    request = plan.request
    return request.active.cta_threads or (request.scope.threads if request.scope.kind == "cta" else MAX_CTA_THREADS)


def by_key(arguments: Iterable[Argument]) -> dict[Key, Argument]:
    """Return a dict from memory or symbol key to argument. Of two arguments with the same memory, it has the first."""
    arguments_by_key: dict[Key, Argument] = {}
    for argument in arguments:
        if isinstance(argument, BufferArgument):
            arguments_by_key.setdefault(argument.buffer.memory, argument)
        else:
            arguments_by_key["%tid.x" if argument.symbol is None else key_of_symbol(argument.symbol)] = argument
    return arguments_by_key


def _number(name: str, same: list[Symbol]) -> ScalarArgument:
    """Return the argument of symbols of the same register, with the tightest of their bounds."""
    lowers = [symbol.lower for symbol in same if symbol.lower is not None]
    uppers = [symbol.upper for symbol in same if symbol.upper is not None]
    multiple = max(symbol.multiple_of for symbol in same)
    return ScalarArgument(name, same[0], max(lowers, default=None), min(uppers, default=None), multiple)


def _integers(region: Region) -> Iterator[Int]:
    """Yield the integers of a region that may be symbolic: starts, shape, strides, storage offset."""
    buffer = region.buffer
    yield from region.starts
    yield from buffer.shape
    layout = buffer.layout
    yield from layout.strides
    if not isinstance(layout, StridedLayout):
        yield from (layout.offset_on(axis) for axis in layout.axes)
    yield buffer.storage_offset


def _argument_name(stem: str, taken: set[str]) -> str:
    """Return an identifier that begins with ``stem`` and is not taken, and add it to those that are taken."""
    letters = re.sub(r"[^A-Za-z0-9]+", "_", stem)
    letters = letters if letters[:1].isalpha() and not letters.startswith(MARK) else f"n{letters}"
    name = unique_name(f"{letters}_", taken, separator="") if letters in _RESERVED else unique_name(letters, taken)
    taken.add(name)
    return name
