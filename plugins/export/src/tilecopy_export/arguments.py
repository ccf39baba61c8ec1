"""The arguments of an exported copy: what a caller passes, in order, and what must hold of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import attrs
from tilecopy.integer_text import symbols_in_order, unique_name

from tilecopy_core import Plan
from tilecopy_core.description import MAX_CTA_THREADS, is_thread_id, tid_symbol
from tilecopy_core.errors import RequestError, short_repr
from tilecopy_core.integers import Expr, Int, Symbol
from tilecopy_core.layout import StridedLayout
from tilecopy_core.memory import Buffer, Memory, Region
from tilecopy_partitions import TensorMap

Key: TypeAlias = "Memory | Symbol | str"
"""What an argument stands for: a memory, a symbol, or the name of a special register."""
TID = "tid"
"""The last argument of every function: the index of the thread among those of the copy's CTA."""

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
"""What registers of a block and variables of its arithmetic are called: ``%r0`` would hide a compiler's register, silently."""
_VECTORS = "char uchar short ushort int uint long ulong longlong ulonglong float double"
_RESERVED = frozenset([*_WORDS.split(), *(f"{name}{n}" for name in _VECTORS.split() for n in (1, 2, 3, 4))])
"""Words of C++ and CUDA, and functions that the text calls, that no argument or function can be called."""


@attrs.frozen(eq=False)
class BufferArgument:
    """A frozen record of an argument that is a buffer of the copy.

    Attributes:
        name: of the argument.
        buffer: what it is.
        role: ``destination``, ``source`` or ``option NAME``.
        written: whether the copy writes it.
        same_as: the argument that stands for the same memory, of which this one is a repetition, or "".
        recipe: of what the host makes before the launch, how; else None.
    """

    name: str
    buffer: Buffer
    role: str
    written: bool
    same_as: str = ""
    recipe: TensorMap | None = None

    @property
    def words(self) -> int:
        """Return how many 32-bit words the fragment has."""
        memory = self.buffer.memory
        return -(-memory.span_bytes * 8 // memory.word_bits) * (memory.word_bits // 32)


C_TYPES = {
    "int32_t": (-(2**31), 2**31 - 1),
    "uint32_t": (0, 2**32 - 1),
    "int64_t": (-(2**63), 2**63 - 1),
}
"""Types of arguments that are integers, with the smallest and the largest value of each."""


@attrs.frozen(eq=False)
class ScalarArgument:
    """A frozen record of an argument that is an integer: a symbol of starts, sizes and strides, or the thread's index.

    Attributes:
        name: of the argument.
        symbol: what it stands for.
        lower: smallest value, None where nothing is known.
        upper: largest value, None where nothing is known.
        multiple_of: a divisor of every value.
    """

    name: str
    symbol: Symbol | None
    lower: int | None
    upper: int | None
    multiple_of: int = 1

    @property
    def type(self) -> str:
        """Return the first of ``int32_t``, ``uint32_t`` and ``int64_t`` that holds all values."""
        if self.lower is None or self.upper is None:
            return "int64_t"
        fit = (name for name, (least, most) in C_TYPES.items() if least <= self.lower and self.upper <= most)
        return next(fit, "int64_t")

    @property
    def bits(self) -> int:
        """Return the width of the type in bits."""
        return 64 if self.type == "int64_t" else 32


Argument: TypeAlias = "BufferArgument | ScalarArgument"


def key_of_symbol(symbol: Symbol) -> Key:
    """Return what the argument of a symbol is found by: symbols of one special register are one argument."""
    return symbol.register or symbol


def check_function_name(name: object, what: str = "the name of a function") -> str:
    """Check that a name can be one of C++, PTX and Python, and return it.

    Raises:
        RequestError: it is not such a name.
    """
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or name in _RESERVED:
        raise RequestError(f"{what} must be an identifier of C++ that is not a keyword, got {short_repr(name)}")
    if "__" in name or (name[0] == "_" and name[1:2].isupper()):
        raise RequestError(
            f"{what}: {name!r} is reserved to the C++ implementation (two underscores, or _ and a capital)"
        )
    return name


def arguments_of(plan: Plan) -> tuple[Argument, ...]:
    """Return the arguments in order: destination, source, symbols as they first appear, the options' buffers, ``tid``.

    Raises:
        RequestError: an operand cannot leave the kernel that it belongs to.
    """
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
                f"{request}: {role} {region.buffer.name} is in tensor memory, and such a copy cannot leave its kernel: its "
                "address is what tcgen05.alloc wrote to a shared word of that kernel (KernelBuilder.tcgen05_alloc); build "
                "the kernel around it with KernelBuilder, and save that (kernel.save)"
            )
    taken = {TID}
    operands: list[BufferArgument] = []
    for role, region in buffers:
        earlier = next((o for o in operands if o.buffer.memory is region.buffer.memory), None)
        if earlier is not None and role.startswith("option"):
            continue  # one argument for all mbarriers of an array, and for those that are operands too
        name = _argument_name(region.buffer.name, taken)
        operands.append(
            BufferArgument(name, region.buffer, role, role == "destination", "" if earlier is None else earlier.name)
        )
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
    """Return the threads of the CTA that the copy was planned for, or the most that a CTA has if that is not known."""
    request = plan.request
    return request.active.cta_threads or (request.scope.threads if request.scope.kind == "cta" else MAX_CTA_THREADS)


def tid_key(threads: int) -> Key:
    """Return the key of ``tid``."""
    thread_index = tid_symbol(max(threads, 2))
    assert isinstance(thread_index, Expr)
    return key_of_symbol(next(iter(thread_index.symbols)))


def _number(name: str, same: list[Symbol]) -> ScalarArgument:
    """One argument for symbols that are the same register; the closest bounds hold for all."""
    lowers = [symbol.lower for symbol in same if symbol.lower is not None]
    uppers = [symbol.upper for symbol in same if symbol.upper is not None]
    multiple = max(symbol.multiple_of for symbol in same)
    return ScalarArgument(name, same[0], max(lowers, default=None), min(uppers, default=None), multiple)


def _integers(region: Region) -> Iterator[Int]:
    """Every integer of a region that may be symbolic: starts, shape, strides, its storage offset."""
    buffer = region.buffer
    yield from region.starts
    yield from buffer.shape
    layout = buffer.layout
    yield from layout.strides
    if not isinstance(layout, StridedLayout):
        yield from (layout.offset_on(axis) for axis in layout.axes)
    yield buffer.storage_offset


def _argument_name(stem: str, taken: set[str]) -> str:
    """Return an identifier like ``wanted`` that is not yet among those that are taken, and add it to them."""
    letters = re.sub(r"[^A-Za-z0-9]+", "_", stem)
    letters = letters if letters[:1].isalpha() and not letters.startswith(MARK) else f"n{letters}"
    name = unique_name(f"{letters}_", taken, separator="") if letters in _RESERVED else unique_name(letters, taken)
    taken.add(name)
    return name
