"""Record a kernel around tile copies and lower it to PTX, with the class KernelBuilder."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Never, ParamSpec, SupportsIndex

import attrs

from tilecopy_core.description import MAX_CTA_THREADS, WARP_THREADS, cta, thread, tid_symbol, warp, warpgroup
from tilecopy_core.errors import LayoutError, PtxError, RequestError, short_repr
from tilecopy_core.integers import INT, maximum, of_atom, plain
from tilecopy_core.layout import S, StridedLayout, TCol, TileLayout, TLane, dtype_of
from tilecopy_core.memory import Buffer, Region, check_identifier, checked_shape, symbolic
from tilecopy_core.plugin import Condition, Expr, Int, Scope, Symbol, Target, bounds_of, is_int_like, is_multiple
from tilecopy_core.ptx import PtxBuilder, Register
from tilecopy_core.registry import LOCK, Registry
from tilecopy_partitions import tcgen05

from ..validators import FLAG, Validator, checked, instance_of, integer_in, one_of, optional
from . import instructions
from .active_threads import inside_condition, inside_loop, leaves, operands_of
from .barriers import Mbarrier, barrier_address
from .bounds import conjunction, facts_from
from .copies import ScopedCopies
from .recording import ElectOne, OpenBlock, Recorder, StatementBlock
from .special_registers import GRID_LIMIT, block_index, cluster_rank
from .statements import Action, If, Index, Load, Loop, Store, words_of
from .values import ROUNDINGS, Value, as_value, cast, element_offset, with_types

if TYPE_CHECKING:
    from .built import BuiltKernel
    from .number_parameters import ScalarParameter, SizeParameter

P = ParamSpec("P")
MOST_SHARED_BYTES = 2**31 - 1
"""The most bytes of a shared buffer, because shared addresses have 32 bits. The target's own limit is checked at build."""
MOST_FRAGMENT_BYTES = 16 * 1024
"""The most bytes of a fragment per thread. A thread has 255 32-bit registers, and the assembler spills the rest."""
TMEM_LANES, TMEM_COLUMNS = 128, 512
"""The lanes and 32-bit columns of an SM's tensor memory (PTX ISA 9.7.16.1)."""
MOST_CTAS_PER_SM, MOST_THREADS_PER_SM = 32, 2048
"""The most CTAs and threads per SM of the largest architectures (CUDA programming guide, technical specifications)."""

_NAME = optional(instance_of("an identifier", str))
_PENDING = integer_in(0, 2**31 - 1)
_SPACES = ("shared::cta", "shared::cluster", "global", "")
_PROXY_SPACE = Validator(
    "shared::cta, shared::cluster, global, or '' for all state spaces", one_of(*_SPACES).fits, _SPACES
)


def as_method(
    write: Callable[Concatenate[PtxBuilder, P], None], together: Scope | None = None, **kinds: Validator
) -> Callable[Concatenate[KernelBuilder, P], None]:
    """Return a KernelBuilder method that records its arguments. The build calls ``write`` with the recorded arguments.

    The method checks its arguments by validators, ``kinds``. The build checks that all threads of the scope ``together`` execute the
    instruction together (of a CTA, its size does not matter).
    """
    signature = inspect.signature(write)

    @wraps(write)
    def method(self: KernelBuilder, /, *args: P.args, **keywords: P.kwargs) -> None:
        try:
            bound = signature.bind(self, *args, **keywords)
        except TypeError as error:
            takes = ", ".join(list(signature.parameters)[1:])
            raise TypeError(f"KernelBuilder.{write.__name__}({takes}): {error}") from None
        for name, kind in kinds.items():
            if name in bound.arguments:
                bound.arguments[name] = plain(bound.arguments[name])
                kind.check(bound.arguments[name], write.__name__, name)
        rest, named = bound.args[1:], bound.kwargs
        active = self._frame.active

        def lower(ptx: PtxBuilder) -> None:
            if together is not None and (why := active.why_split(together)):
                raise RequestError(
                    f"{write.__name__}: all threads of a {together.kind} must execute this call together: {why}; move the call out of the condition"
                    + (", or use a named_barrier for whole warps" if together.kind == "cta" else "")
                )
            write(ptx, *rest, **named)

        self.record(Action(write.__name__, lower))

    return method


class KernelBuilder(Recorder):
    """A builder that records the parameters, buffers, copies and statements of a kernel. :meth:`build` lowers it.

    Args:
        name: the kernel's name in PTX, an identifier.
        threads: threads of each CTA, 1 to 1024.

    Attributes:
        thread, warp, warpgroup, cta: the scopes to copy at.
    """

    def __init__(self, name: str, *, threads: int) -> None:
        check_identifier(name, "kernel name")
        scope = cta(threads)
        super().__init__(name, scope.threads)
        self.thread = ScopedCopies(self, thread())
        self.warp = ScopedCopies(self, warp())
        self.warpgroup = ScopedCopies(self, warpgroup())
        self.cta = ScopedCopies(self, scope)

    def __repr__(self) -> str:
        names = ", ".join(p.name for p in self._described.parameters)
        return f"KernelBuilder({self.name!r}, threads={self.threads}) with parameters ({names})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> Never:
        raise RequestError(
            f"kernel {self.name}: a KernelBuilder cannot be pickled or copied; build the kernel, then "
            "pickle or save the built kernel"
        )

    # ------------------------------------------------------------------------------------------- declarations

    def param(
        self,
        name: str,
        shape: Sequence[Int] | Int,
        dtype: Any,
        *,
        strides: Sequence[Int] | None = None,
        align_bytes: int = 16,
    ) -> Buffer:
        """Declare a global array that the caller passes.

        Args:
            name: an identifier.
            shape: extents in elements. An extent may be 0, or computed from sizes and scalars, such as ``M`` or ``M * 4 + 1``.
            dtype: element type.
            strides: in elements, row-major by default. A stride may be computed from sizes and scalars, and may be negative, as that
                of ``a[::-1]``.
            align_bytes: a divisor of the base address. Every launch checks it.
        """
        check_identifier(name, "param name")
        extents = checked_shape(shape, f"param {name}, shape", "global")
        for extent in extents if symbolic(extents) else ():
            self._check_symbols(extent, f"param {name}, shape", anywhere=True)
        layout: TileLayout | StridedLayout | None = None
        if strides is not None:
            if not isinstance(strides, (tuple, list)) or len(extents) != len(strides):
                raise LayoutError(
                    f"param {name}: strides must have one integer per dimension of the shape {extents}, got {short_repr(strides)}"
                )
            strides = tuple(map(plain, strides))
            for stride in strides:
                if not is_int_like(stride):
                    raise LayoutError(f"param {name}: strides must be integers, got {short_repr(stride)}")
                self._check_symbols(stride, f"param {name}, strides", anywhere=True)
            reversed_ = any((bounds_of(stride)[0] or 0) < 0 for stride in strides)
            if symbolic(extents) or reversed_ or 0 in extents:
                layout = StridedLayout(extents, strides)
            else:
                layout = TileLayout(S[extents:strides])
        buffer = Buffer(extents, dtype, space="global", layout=layout, name=name, align_bytes=align_bytes)
        if (bits := buffer.dtype.bits) < 8:
            packed = (*extents[:-1], (extents[-1] + 1) // 2)
            raise RequestError(
                f"param {name}: elements must have at least 8 bits, got {buffer.dtype} of {bits} bits; declare "
                f"k.param({name!r}, {packed}, 'uint8') and copy it to tile.view(dtype='uint8')"
            )
        self._claim(name, "param")
        self._described.parameters.append(buffer)
        self._memories.add(buffer.memory)
        return buffer

    def size(self, name: str, *, multiple_of: int = 1, lower: int = 1, upper: int = 2**31 - 1) -> Expr:
        """Declare a size that is known only at launch. The launch reads it from the shapes of the arguments.

        You can use it in the shape and strides of a param, in a range, a start, a scalar's bounds and the grid. One build
        works for all values. Vector widths depend only on ``multiple_of``.

        Args:
            name: an identifier.
            multiple_of: a divisor of every value. The launch checks it and the bounds.
            lower: smallest value, 0 or more.
            upper: largest value. If it is above 2**31 - 1, the parameter has 64 bits.

        Raises:
            RequestError: the name is already used, or no size is within the bounds.
        """
        check_identifier(name, "size name")
        with LOCK:
            from .number_parameters import SizeParameter
        parameter = SizeParameter.declare(name, multiple_of=multiple_of, lower=lower, upper=upper)
        return self._declare("size", parameter, parameter.symbol())

    def _declare(self, kind: str, parameter: ScalarParameter | SizeParameter, symbol: Symbol) -> Expr:
        """Add an integer parameter to the kernel and return its symbol."""
        self._claim(parameter.name, kind)
        self._described.parameters.append(parameter)
        self._described.scalars[symbol] = parameter
        return of_atom(symbol)

    def scalar(
        self, name: str, dtype: str = "int32", *, multiple_of: int = 1, lower: Int = 0, upper: Int | None = None
    ) -> Expr:
        """Declare an integer that the caller passes, for starts, strides and counts. Bounds and divisor are checked at launch.

        Args:
            name: an identifier.
            dtype: ``int32``, ``uint32`` or ``int64``.
            multiple_of: a divisor of every value that you pass.
            lower: smallest value; may be computed from sizes.
            upper: largest value; may be computed from sizes. By default the largest of an int32 (2**62 for int64). A uint32
                with a larger bound is computed in 64 bits.

        Raises:
            RequestError: the name is already used, the dtype is not one of these, or it does not hold the bounds.
        """
        check_identifier(name, "scalar name")
        with LOCK:
            from .number_parameters import ScalarParameter
        within = [bound for bound in (lower, upper) if isinstance(bound, Expr)]
        for bound in within:
            self._check_symbols(bound, f"scalar {name}, bounds", anywhere=True)
        low, high = bounds_of(lower)[0] if is_int_like(lower) else lower, upper
        if isinstance(upper, Expr):
            high = bounds_of(upper)[1]
        parameter = ScalarParameter.declare(name, dtype, multiple_of=multiple_of, lower=low, upper=high)  # type: ignore[arg-type]
        symbol = Symbol(name, parameter.lower, parameter.upper, parameter.multiple_of)
        if within:
            limits = lower, parameter.upper if upper is None else upper
            parameter = attrs.evolve(parameter, within=limits)
            self._limits[symbol] = (of_atom(symbol) - limits[0], limits[1] - of_atom(symbol))
        return self._declare("scalar", parameter, symbol)

    def shared(
        self,
        shape: Sequence[int] | int,
        dtype: Any,
        *,
        layout: TileLayout | None = None,
        name: str | None = None,
        align_bytes: int | None = None,
    ) -> Buffer:
        """Declare a buffer in the CTA's shared memory.

        Args:
            shape: extents in elements.
            dtype: element type.
            layout: the place of each element, row-major by default. The buffer takes as many bytes as the layout spans.
            name: an identifier; by default a new name.
            align_bytes: a divisor of the address.

        Raises:
            PtxError: the buffer is larger than the address space of shared memory.
        """
        buffer = self._new_buffer("shared", name, shape, dtype, layout=layout, align_bytes=align_bytes)
        self._described.shared.append(buffer)
        return buffer

    def local(
        self, shape: Sequence[int] | int, dtype: Any, *, layout: TileLayout | None = None, name: str | None = None
    ) -> Buffer:
        """Declare a buffer in registers. The layout maps each element to a thread and a register (axis ``m``)."""
        return self._new_buffer("local", name, shape, dtype, layout=layout)

    def _new_buffer(self, space: str, name: str | None, shape: Sequence[int] | int, dtype: Any, **more: Any) -> Buffer:
        """Add a buffer to the kernel and return it, after checks of its name and size."""
        if name is None:
            name = self._fresh("smem" if space == "shared" else "frag")
        check_identifier(name, f"{space} buffer name")
        buffer = Buffer(shape, dtype, space=space, name=name, **more)
        most = MOST_FRAGMENT_BYTES if space == "local" else MOST_SHARED_BYTES
        if buffer.span_bytes > most:
            what = "each thread's registers" if space == "local" else f"{space} memory"
            raise (LayoutError if space == "local" else PtxError)(
                f"{space} buffer {name}: the layout {short_repr(buffer.layout)} over the shape {short_repr(shape)} takes "
                f"{buffer.span_bytes} bytes of {what}; the limit is {most} bytes"
            )
        self._claim(name, f"{space} buffer")
        self._memories.add(buffer.memory)
        return buffer

    def registers(self, fragment: Buffer) -> Buffer:
        """Return a 1-D buffer of the registers that a thread has in a local buffer. Its indices must be constants."""
        self._check_buffer(fragment, "registers: fragment must be a local buffer, got", "local")
        return Buffer(fragment.span_elems, fragment.dtype, space="local", name=fragment.name, memory=fragment.memory)

    def _check_buffer(self, buffer: Any, rule: str, space: str) -> None:
        if not isinstance(buffer, Buffer):
            raise RequestError(f"{rule} {short_repr(buffer)}")
        if buffer.space != space:
            raise RequestError(f"{rule} {buffer.name} in {buffer.space} memory")
        if buffer.memory not in self._memories:
            raise RequestError(
                f"buffer {buffer.name} does not belong to kernel {self.name}: declare it with this builder"
            )

    # ------------------------------------------------------------------------------------------- ids

    @checked(dim=one_of(*GRID_LIMIT))
    def block_id(self, dim: str = "x") -> Int:
        """Return the CTA's index in the grid along ``x``, ``y`` or ``z``."""
        return block_index(dim)

    @checked(dim=one_of("x"))
    def thread_id(self, dim: str = "x") -> Int:
        """Return the thread's index in the CTA (CTAs are one-dimensional)."""
        return tid_symbol(self.threads)

    def lane_id(self) -> Int:
        """Return the thread's index in its warp."""
        return self.thread_id() % WARP_THREADS

    def warp_id(self) -> Int:
        """Return the warp's index in the CTA."""
        return self.thread_id() // WARP_THREADS

    def cluster_rank(self) -> Int:
        """Return the CTA's rank in its cluster."""
        return cluster_rank()

    # ------------------------------------------------------------------------------------------- control

    @checked(count=INT, start=INT)
    def range(self, count: Int, *, start: Int = 0, unroll: bool = True) -> StatementBlock:
        """Open a loop on the GPU: ``for i in k.range(n):`` or ``with k.range(n) as i:``. A plain Python ``for`` unrolls.

        Args:
            count: the number of iterations.
            start: the index of the first iteration.
            unroll: True if the assembler may unroll the loop. Without unrolling, assembling takes less time (PTX ISA,
                pragma "nounroll").
        """
        FLAG.check(unroll, "range", "unroll")
        self._check_symbols(count, "range: count")
        self._check_symbols(start, "range: start")
        stop = start + count
        low, high = bounds_of(start)[0], bounds_of(stop)[1]
        if low is None or high is None or low < -(2**63) or high >= 2**63:
            raise RequestError(
                f"range({short_repr(count)}, start={short_repr(start)}): the index of a loop must fit in 64 bits, got {short_repr(low)} to {short_repr(high)}"
            )
        last = max(high - 1, low)
        decides = tuple(value for value in (start, count) if isinstance(value, Expr))
        index = Symbol(self._fresh("loop"), low, last, varies="cta", source=decides)
        loop, turn = Loop(index, count, start, unroll), of_atom(index)
        known = conjunction(self._frame.known, ((turn - start, stop - 1 - turn),))
        turns = [count] if isinstance(count, Expr) else []  # threads with the same count execute the loop together
        active = inside_loop(self._frame.active, loop.describe(), turns)
        return StatementBlock(self, loop, OpenBlock(loop.body, active, known, loop.describe(), {index}), turn)

    def if_(self, condition: Any) -> StatementBlock:
        """Open a block for the threads for which a condition holds: ``with k.if_(tid == 0):``."""
        if isinstance(condition, bool):  # a comparison whose result is known, such as one of the only thread's id
            condition = Condition("==", int(condition), 1)
        if not isinstance(condition, Condition):
            hint = "; write `not` instead of ~ for a comparison that Python evaluates" if type(condition) is int else ""
            raise RequestError(
                f"if_: condition must be a comparison of run-time integers or values, got {short_repr(condition)}{hint}"
            )
        condition = with_types(condition)
        for leaf in leaves(condition):
            if isinstance(leaf, ElectOne) and leaf.kernel is not self:
                raise RequestError(
                    f"if_: elect() in the condition must belong to kernel {self.name}: call elect() on this builder"
                )
        for operand in operands_of(condition):
            if is_int_like(operand):
                self._check_symbols(operand, "if_: condition")
            else:
                self._check_value(operand, f"if_: condition {short_repr(condition)}")
        active, branch = inside_condition(self._frame.active, condition), If(condition)
        known = conjunction(self._frame.known, facts_from(condition)) if active.mask is None or any(active.mask) else ()
        return StatementBlock(self, branch, OpenBlock(branch.body, active, known, branch.describe()))

    def elect(self) -> ElectOne:
        """Return a condition that holds in one lane of each warp (``elect.sync``, sm_90): ``with k.elect():``."""
        return ElectOne("elect", kernel=self)

    # ------------------------------------------------------------------------------------------- copies and elements

    def load(self, element: Region) -> Value:
        """Load one element of a global, shared or local buffer."""
        self._element(element)
        value = Value(element.buffer.dtype, "loaded", (element,))
        self.record(Load(value, element))
        return value

    def address(self, element: Region) -> Value:
        """Return the address of an element, for inline PTX: uint32 in shared memory, uint64 in global memory.

        The element itself is not read. A descriptor of ``wgmma`` needs such an address.

        Raises:
            LayoutError: the element is in a register, or outside its buffer.
            RequestError: the argument is not a region of one element of this kernel.
        """
        self._element(element)
        space = element.buffer.space
        if space not in ("global", "shared"):
            raise LayoutError(f"address: element must be in global or shared memory, got {element} in {space} memory")
        return Value(dtype_of("uint32" if space == "shared" else "uint64"), "address", (element,))

    def store(self, element: Region, value: Any) -> None:
        """Store a run-time value of the buffer's dtype, or a Python number that fits this dtype, to one element."""
        self._element(element, written=True)
        value = as_value(value, element.buffer.dtype)
        if value.dtype != element.buffer.dtype:
            raise RequestError(
                f"store to {element}: value must have dtype {element.buffer.dtype}, got {value.dtype}: cast it first"
            )
        self._check_value(value, f"store to {element}: value")
        self.record(Store(element, value))

    def _element(self, element: Region, *, written: bool = False) -> None:
        if not isinstance(element, Region):
            raise RequestError(f"element must be a region such as buffer[i, j], got {short_repr(element)}")
        if not 8 <= element.buffer.dtype.bits <= 64:
            raise RequestError(
                f"{element}: load and store need elements of 8 to 64 bits, got {element.buffer.dtype.bits} bits: use view(dtype=...)"
            )
        if self._check_region(element, "element", written=written):
            element_offset(element)

    @checked(lower=INT, upper=INT, clamp=FLAG)
    def index(self, value: Any, *, lower: Int = 0, upper: Int, clamp: bool = False) -> Expr:
        """Use a run-time value as a symbolic integer, such as a start index: ``A[k.index(k.load(rows[i]), upper=m - 1), :]``.

        All threads of a copy's scope must load it from the same address. Each call gives a new integer.

        Args:
            value: an integer that was loaded, or computed from loaded integers.
            lower: smallest allowed value; may be computed from sizes and scalars.
            upper: largest allowed value; may be computed in the same way.
            clamp: replace a value outside the bounds by the nearer bound. Without it, such a value is a HazardError on the
                emulator, and undefined on a GPU.

        Raises:
            RequestError: the value is not an integer, or no integer is within the bounds.
        """
        if not isinstance(value, Value) or value.dtype.kind not in "iu" or value.dtype.bits < 8:
            dtype_text = f"{value.dtype} " if isinstance(value, Value) else ""
            raise RequestError(
                f"index: value must be a run-time integer, such as k.load(rows[i]), got {dtype_text}{short_repr(value)}"
            )
        for bound in (lower, upper):
            self._check_symbols(bound, "index, bounds", anywhere=True)
        if value.dtype.kind == "u" and not clamp:
            lower = maximum(lower, 0)  # its highest bit is not a sign, even if the register is read as signed
        least, most = bounds_of(lower)[0], bounds_of(upper)[1]
        if least is None or most is None or least > most or least < -(2**62) or most > 2**62:
            raise RequestError(
                f"index: bounds must satisfy -2**62 <= lower <= upper <= 2**62, got lower={short_repr(lower)}, upper={short_repr(upper)}"
            )
        self._check_value(value, "index: value")
        places = value.places()
        name, varies = self._fresh("index"), "thread" if places is None else "cta"
        symbol = Symbol(name, least, most, varies=varies, source=places or ())
        turn = of_atom(symbol)
        self.record(Index(symbol, value, lower, upper, clamp))
        self._frame.values.add(symbol)
        if isinstance(lower, Expr) or isinstance(upper, Expr):
            self._limits[symbol] = (turn - lower, upper - turn)
        return turn

    @checked(round=one_of(*ROUNDINGS), saturate=optional(FLAG))
    def cast(self, value: Any, dtype: Any, round: str = "nearest", saturate: bool | None = None) -> Value:
        """Convert a value, number or symbolic integer to an integer dtype, float16, float32, float64, bfloat16 or a float8 dtype.

        The result is rounded once. A NaN stays a NaN in floats. In integers it becomes 0, or only the top bit is set if the value is
        a float64 or the integer has 64 bits.

        Args:
            value: the value to convert.
            dtype: the type of the result.
            round: ``"nearest"`` (ties to even), ``"zero"``, ``"up"`` or ``"down"``. float8 types have only ``"nearest"``.
                With neither ``round`` nor ``saturate``, a float becomes an integer toward zero, as in C.
            saturate: the result for a value outside the range of the type. True: the nearest finite value of the type.
                False: NaN in float8_e4m3fn, and infinity in other floats if the rounding allows it; in an integer the low bits
                of the conversion to 32 bits (64 bits for 64-bit integers), which clamps a float. None: like False; float8 types
                need True or False.

        Raises:
            RequestError: PTX does not have this conversion or rounding, or saturate is missing for a float8 type. The build
                raises TargetError if the target lacks the conversion: float8 needs sm_89, bfloat16 sm_80, rounded up or down sm_90.
        """
        return cast(value, dtype, round, saturate)

    # ------------------------------------------------------------------------------------------- synchronisation

    cta_sync = as_method(instructions.cta_sync, cta(MAX_CTA_THREADS))
    named_barrier = as_method(
        instructions.named_barrier, warp(), barrier=integer_in(1, 15), threads=integer_in(32, 1024)
    )
    warp_sync = as_method(instructions.warp_sync)
    cluster_sync = as_method(instructions.cluster_sync)
    fence_proxy_async = as_method(instructions.fence_proxy_async, space=_PROXY_SPACE)
    fence_mbarrier_init = as_method(instructions.fence_mbarrier_init)
    cp_async_commit = as_method(instructions.cp_async_commit)
    cp_async_wait = as_method(instructions.cp_async_wait, pending=_PENDING)
    bulk_commit = as_method(instructions.bulk_commit)
    bulk_wait = as_method(instructions.bulk_wait, pending=_PENDING, read=FLAG)
    tcgen05_fence_after = as_method(instructions.tcgen05_fence_after)
    tcgen05_fence_before = as_method(instructions.tcgen05_fence_before)
    tcgen05_wait_ld = as_method(instructions.tcgen05_wait_ld)

    @checked(name=_NAME, count=integer_in(1, MOST_SHARED_BYTES // 8))
    def mbarrier(self, name: str | None = None, *, count: int = 1) -> Mbarrier:
        """Declare ``count`` mbarriers in shared memory and return them as one :class:`Mbarrier`."""
        name = self._fresh("mbar") if name is None else name
        return Mbarrier(self, self.shared(count, "uint64", name=name, align_bytes=8))

    # ------------------------------------------------------------------------------------------- tensor memory

    def tmem(self, shape: Sequence[int], dtype: Any, *, layout: TileLayout, name: str | None = None) -> Buffer:
        """Declare a buffer in tensor memory. ``tcgen05_alloc`` allocates the buffer and writes its address to shared memory.

        Args:
            shape: extents.
            dtype: element type.
            layout: over ``TLane`` and ``TCol`` (in elements along a lane), with ``R[4 : 32 @ TLane]`` for tcgen05_cp.
            name: an identifier.
        """
        name = check_identifier(self._fresh("tmem") if name is None else name, "tensor buffer name")
        tensor = Buffer(shape, dtype, space="tmem", layout=layout, name=name)  # checked before its address is declared
        lanes, columns = tensor.layout.span(TLane), -(-tensor.layout.span(TCol) * tensor.dtype.bits // 32)
        if lanes > TMEM_LANES or columns > TMEM_COLUMNS:
            raise LayoutError(
                f"tensor buffer {name}: the layout {short_repr(layout)} needs {lanes} lanes and {columns} columns; tensor memory "
                f"has {TMEM_LANES} lanes and {TMEM_COLUMNS} columns"
            )
        holder = self.shared(1, "uint32", name=f"{name}_address", align_bytes=4)
        return self._new_buffer("tmem", name, shape, dtype, layout=layout, allocated_addr=holder)

    def tcgen05_alloc(self, buffer: Buffer, *, columns: int | None = None, cta_group: int | None = None) -> None:
        """Allocate tensor memory for a buffer. One whole warp must call this. Other threads can use the buffer after a barrier.

        A kernel may allocate for several buffers. After the last allocation in the program, unless it is in a loop, the CTA
        gives up the permission to allocate (``tcgen05.relinquish_alloc_permit``). So allocations by several warps need a
        barrier between them.

        Args:
            buffer: a buffer of :meth:`tmem`.
            columns: the number of 32-bit columns, a power of two from 32 to 512; by default as many as the buffer needs.
            cta_group: 1, or 2 for a pair of CTAs; by default that of the kernel's other instructions, else 1. All must be equal.

        Raises:
            RequestError: the hardware cannot allocate this number of columns, or the kernel has another ``cta_group``.
        """
        holder = self._holder(buffer)
        group = self._asks_for(cta_group, "tcgen05_alloc")
        needed = -(-buffer.memory.layout.span(TCol) * buffer.memory.dtype.bits // 32)
        count = max(32, 1 << (needed - 1).bit_length()) if columns is None else plain(columns)
        if type(count) is not int or count not in (32, 64, 128, 256, 512):
            raise RequestError(f"tcgen05_alloc: columns must be 32, 64, 128, 256 or 512, got {short_repr(columns)}")
        if needed > count:
            raise RequestError(
                f"tcgen05_alloc: columns must be at least {needed} for buffer {buffer.name}, got {count}"
            )
        self._touches(holder)
        self._columns[holder.memory] = count
        self._described.allocations += 1
        number, in_loop = self._described.allocations, self._in_loop()

        def write(ptx: PtxBuilder) -> None:
            alloc = f"tcgen05.alloc.cta_group::{group()}.sync.aligned.shared::cta.b32"
            ptx.instr(alloc, ptx.address(holder), count)
            if number == self._described.allocations and not in_loop:
                ptx.instr(f"tcgen05.relinquish_alloc_permit.cta_group::{group()}.sync.aligned")

        self.record(Action("tcgen05_alloc", write))

    def _asks_for(self, cta_group: int | None, what: str) -> Callable[[], int]:
        """Record the ``cta_group`` of an instruction, and return a function that returns that of the whole kernel at build."""
        group = None if cta_group is None else plain(cta_group)
        optional(integer_in(1, 2)).check(group, what, "cta_group")
        described = self._described
        if described.cta_group is None:
            described.cta_group = group

        def chosen() -> int:
            if group not in (None, described.group):
                raise RequestError(
                    f"{what}: cta_group must be the same in all instructions of kernel {self.name}, got {group} after "
                    f"{described.group}"
                )
            return described.group

        return chosen

    def tcgen05_dealloc(self, buffer: Buffer, *, columns: int | None = None, cta_group: int | None = None) -> None:
        """Free tensor memory, by default all columns. The warp that allocated the columns must free them before the kernel ends.

        For ``cta_group`` see :meth:`tcgen05_alloc`.
        """
        holder = self._holder(buffer)
        group = self._asks_for(cta_group, "tcgen05_dealloc")
        count = self._columns.get(holder.memory, 32) if columns is None else plain(columns)

        def write(ptx: PtxBuilder) -> None:
            ptx.instr(f"tcgen05.dealloc.cta_group::{group()}.sync.aligned.b32", _base(ptx, holder), count)

        self.record(Action("tcgen05_dealloc", write))

    def tcgen05_commit(self, barrier: Mbarrier | Region, *, cta_group: int | None = None) -> None:
        """Commit this thread's tcgen05 copies to an mbarrier. The mbarrier receives one arrival when the copies are complete.

        Pass ``mbar``, or one of several, ``mbar[i]``. For ``cta_group`` see :meth:`tcgen05_alloc`.
        """
        element = barrier[0] if isinstance(barrier, Mbarrier) else barrier
        if not isinstance(element, Region):
            raise RequestError(
                f"tcgen05_commit: barrier must be an Mbarrier or one of its mbarriers such as mbar[0], got {short_repr(barrier)}"
            )
        self._check_region(element, "tcgen05_commit: barrier")
        group = self._asks_for(cta_group, "tcgen05_commit")

        def write(ptx: PtxBuilder) -> None:
            commit = f"tcgen05.commit.cta_group::{group()}.mbarrier::arrive::one.shared::cluster.b64"
            ptx.instr(commit, barrier_address(ptx, element))

        self.record(Action("tcgen05_commit", write))

    @checked(column=INT)
    def tcgen05_ld(self, fragment: Buffer, buffer: Buffer, *, column: Int = 0) -> None:
        """Load consecutive columns of the thread's tensor memory lane into a local buffer, one column per register.

        Args:
            fragment: the local buffer. Each of its registers takes one column.
            buffer: the tensor buffer, or a view of it.
            column: the first column, in columns of 32 bits from the start of the buffer (or view).
        """
        holder = self._holder(buffer)
        self._touches(buffer)
        skipped = buffer.layout.apply(0).get("TCol", 0) * buffer.dtype.bits
        if not is_multiple(skipped, 32):
            raise RequestError(
                f"tcgen05_ld: buffer must begin at a whole column (a multiple of 32 bits), got {buffer} at bit {skipped}"
            )
        self._check_buffer(fragment, "tcgen05_ld: fragment must be a local buffer of 32-bit elements, got", "local")
        self._check_symbols(column, "tcgen05_ld: column")
        if fragment.dtype.bits != 32:
            raise RequestError(f"tcgen05_ld: fragment must be a local buffer of 32-bit elements, got {fragment!r}")

        def write(ptx: PtxBuilder) -> None:
            registers = ptx.fragment(fragment)[int(fragment.layout.apply(0).get("m", 0)) :]
            address = tcgen05.plus_columns(ptx, _base(ptx, holder), column + skipped // 32)
            instructions.tcgen05_ld(ptx, registers, address)

        self.record(Action("tcgen05_ld", write))

    def _holder(self, buffer: Buffer) -> Buffer:
        self._check_buffer(buffer, "buffer must be a tensor buffer of this kernel (KernelBuilder.tmem), got", "tmem")
        holder: Buffer = buffer.allocated_addr
        return holder

    def inline_ptx(self, text: str, *operands: Any, out: Sequence[Region] = ()) -> None:
        """Write PTX text. The operands, then the regions of ``out``, replace the fields ``{0}``, ``{1}``, ...

        Args:
            text: instructions. Labels and registers that it declares inside ``{{ }}`` are local to it.
            operands: what the text reads: run-time values and symbolic integers (their register), regions of one element (their
                address), regions of fragments (their registers, as ``%r0, %r1``).
            out: regions of fragments that the text writes, and may read. :meth:`registers` gives each thread's own part.

        The module gets the lowest ``.version`` and ``.target`` that have the instructions. If the table of instructions lacks one
        of them, the module keeps the requested target and has PTX ISA 9.0, the newest version of the table. Such an instruction
        gets copies of the operands, because it may write them, and ``explain()`` names the nearest opcode of the table.

        Raises:
            RequestError: a field has no operand, an operand is of another kind, two regions of ``out`` share a register, the text
                writes an operand that is not in ``out``, or it uses a register that is not declared.
            LayoutError: a region of a fragment does not consist of whole registers in order.
        """
        with LOCK:
            from .inline import InlineText, check_outputs
        check_outputs(out)
        for operand in (*operands, *out):
            if isinstance(operand, Region):
                if self._check_region(operand, "inline_ptx: operand"):
                    words_of(operand) if operand.buffer.space == "local" else element_offset(operand)
            elif is_int_like(operand):
                self._check_symbols(operand, "inline_ptx: operand")
            elif isinstance(operand, Value):
                self._check_value(operand, "inline_ptx: operand")
            else:
                raise RequestError(
                    "inline_ptx: operands must be values, integers, elements or regions of fragments, such as "
                    f"k.registers(fragment)[:], got {short_repr(operand)}"
                )

        try:
            inline = InlineText(text, operands, out, self._inline_names | self._names_in_text())
        except RequestError as error:
            raise RequestError(f"{error}\n  at {self._where()}") from None
        self._inline_names |= inline.declared
        self._described.notes.extend(f"{note}, at {self._where()}" for note in inline.notes())
        self._described.written.update(p.name for p in self._described.parameters if isinstance(p, Buffer))
        self.record(Action("inline_ptx", inline.write))

    def _names_in_text(self) -> set[str]:
        """Return the names of parameters and shared buffers in the PTX of the kernel."""
        shared = {f"smem_{buffer.name}" for buffer in self._described.shared}
        return shared | {f"param_{p.name}" for p in self._described.parameters}

    # ------------------------------------------------------------------------------------------- build

    @checked(
        registry=optional(instance_of("a Registry", Registry)),
        min_ctas_per_sm=optional(integer_in(1, MOST_CTAS_PER_SM)),
    )
    def build(
        self,
        *,
        target: Target | str,
        grid: Sequence[Int] | Int | None = None,
        cluster: Sequence[int] | int | None = None,
        min_ctas_per_sm: int | None = 1,
        registry: Registry | None = None,
    ) -> BuiltKernel:
        """Lower the kernel to PTX and return the built kernel.

        Args:
            target: such as ``"sm_90a"``.
            grid: CTAs along x, y, z; each may be computed from sizes and scalars. You may pass it at launch instead.
            cluster: CTAs of a cluster along x, y, z, as integers. You cannot pass it at launch.
            min_ctas_per_sm: CTAs that an SM must hold at once, as in ``__launch_bounds__``. The assembler limits the registers
                of a thread so that these fit, and does not limit them further (PTX ISA, ``.minnctapersm``). With None the
                assembler may save registers by loading in several rounds, and each round waits for memory.
            registry: the variants to choose from; by default the installed variants.

        Raises:
            NoVariantError: no variant lowers one of the copies.
            TilecopyError: anything else is wrong with the kernel; nothing is launched.
        """
        self._check_closed()
        for count in grid if isinstance(grid, (tuple, list)) else (grid,):
            if isinstance(count, Expr):
                self._check_symbols(count, "grid", anywhere=True)
        if min_ctas_per_sm is not None and min_ctas_per_sm * self.threads > MOST_THREADS_PER_SM:
            raise RequestError(
                f"kernel {self.name}: min_ctas_per_sm={min_ctas_per_sm} with CTAs of {self.threads} threads needs more than the "
                f"{MOST_THREADS_PER_SM} threads of an SM"
            )
        with LOCK:
            from .lowering import lower_kernel
        try:
            return lower_kernel(self._described, target, grid, cluster, min_ctas_per_sm, registry)
        except RecursionError:
            raise RequestError(
                f"kernel {self.name}: the operations of a value or a condition nest deeper than Python's recursion limit "
                f"({sys.getrecursionlimit()}); store some of them in a fragment (local) and load them again"
            ) from None


def _base(ptx: PtxBuilder, holder: Buffer) -> Register:
    """Return the tensor-memory address that ``tcgen05.alloc`` wrote to a shared word."""
    return tcgen05.allocated_address(ptx, ptx.address(holder))
