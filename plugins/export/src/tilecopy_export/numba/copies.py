"""Numba intrinsics for the copies of plans. Each intrinsic inserts the PTX of a copy as LLVM inline assembly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from inspect import Parameter, Signature
from operator import mul
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.cuda import types
from numba.cuda.extending import intrinsic

from tilecopy_core import Buffer, DType, Plan, S, TileLayout, structural_equal
from tilecopy_core.errors import checked, instance_of
from tilecopy_core.layout import StridedLayout
from tilecopy_export import Argument, CopyFunction, ScalarArgument, function_of

_WORD, _WIDE = ir.IntType(32), ir.IntType(64)


@checked(plan=instance_of("a Plan from tilecopy_core.plan", Plan))
def device_function(plan: Plan, name: str = "copy") -> Any:
    """Return a function that ``@cuda.jit`` kernels can call to perform one copy.

    Its arguments are those of :meth:`tilecopy_core.Plan.cuda`: destination, source, integers in order of first appearance,
    the options' buffers, tensor maps, and ``tid``, by default ``cuda.threadIdx.x``. Global memory is an array; shared memory is an array
    of ``cuda.shared.array(shape, dtype, alignment=...)`` or a shared address of 32 bits; a fragment is
    ``cuda.local.array(words, uint32)``, which stays in registers while only copies and constant indices touch it. A tensor map
    is an array of 128 uint8 at a multiple of 64, which the host fills before the launch (``cuTensorMapEncodeTiled``).

    Args:
        plan: a result of :func:`tilecopy_core.plan`, or one of a kernel's plans.
        name: the name of the function, for messages.

    Raises:
        RequestError: the copy cannot be exported from its kernel, or the name is not an identifier.
        PtxError, PluginError: the variant's instructions cannot be written here.
    """
    function = function_of(plan, name)

    def definition(typingctx: Any, *numba_types: Any, **named: Any) -> Any:
        takes = ", ".join(argument.name for argument in function.arguments)
        if named or not len(function.arguments) - 1 <= len(numba_types) <= len(function.arguments):
            raise TypingError(
                f"{name} must be called with the arguments {takes} (the last may be omitted), got {len(numba_types)} arguments"
            )
        for argument, numba_type in zip(function.arguments, numba_types, strict=False):  # the last may be omitted
            why = _why_not(argument, numba_type)
            if why:
                raise TypingError(f"{name}: argument {argument.name} must be {why}, got {numba_type}")
        left_out = () if len(numba_types) == len(function.arguments) else (types.Omitted(None),)
        signature = types.void(*numba_types, *left_out)

        def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            _emit(function, context, builder, signature.args, values)
            return context.get_dummy_value()

        return signature, generate

    definition.__name__ = definition.__qualname__ = name
    definition.__doc__ = f"{plan.request}\n\nby {plan.variant}: {plan.summary}"
    names = ["typingctx", *(argument.name for argument in function.arguments)]
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    parameters[-1] = parameters[-1].replace(default=None)
    definition.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return intrinsic(definition)


def _why_not(argument: Argument, numba_type: Any) -> str:
    """Return text that says what an argument must be. Return "" if the Numba type is valid."""
    if isinstance(argument, ScalarArgument):
        return "" if isinstance(numba_type, types.Integer) else "an integer"
    buffer = argument.buffer
    is_array = isinstance(numba_type, types.Array)
    if buffer.space == "local":
        fits = is_array and numba_type.dtype == types.uint32 and numba_type.ndim == 1
        return "" if fits else f"cuda.local.array({argument.words}, uint32), a fragment"
    if buffer.space == "shared" and isinstance(numba_type, types.Integer):
        return ""
    if not is_array:
        return f"an array in {buffer.space} memory" + (" or a shared address" if buffer.space == "shared" else "")
    if argument.role.startswith("option"):  # an mbarrier: 64 bits, signed or not
        return "" if getattr(numba_type.dtype, "bitwidth", 0) == buffer.dtype.bits else f"an array of {buffer.dtype}"
    dtypes = {name: kind for dtype in (buffer.memory.dtype, buffer.dtype) for name, kind in _dtypes(dtype)}
    if numba_type.dtype not in dtypes.values():
        return f"an array of {' or '.join(dtypes)}"
    declared = _declared_shape(buffer)
    forms = [(buffer.shape, _orders(buffer.layout, buffer.shape)), (declared, _orders(buffer.memory.layout, declared))]
    if not any(numba_type.ndim == len(shape) and numba_type.layout in orders for shape, orders in forms):
        shape, orders = forms[0]
        order = {"C": "row-major ('C')", "F": "column-major ('F')"}.get(orders, "")
        return f"an array of {len(shape)} dimensions{order and f' in {order} order'} (the shape of {buffer.name} is {shape})"
    return "a writable array" if argument.written and not numba_type.mutable else ""


def _dtypes(dtype: DType) -> Iterator[tuple[str, Any]]:
    """Yield the Numba types of elements of a dtype: the same type, and for types that NumPy lacks an unsigned integer of its width."""
    if not dtype.extended:
        yield dtype.name, getattr(types, "boolean" if dtype.kind == "b" else dtype.name)
        return
    if hasattr(types, dtype.name):
        yield dtype.name, getattr(types, dtype.name)
    yield f"uint{8 * dtype.bytes}", getattr(types, f"uint{8 * dtype.bytes}")


def _declared_shape(buffer: Buffer) -> tuple[Any, ...]:
    """Return the shape with which a buffer's memory was declared if its layout has it, else the shape of the buffer."""
    layout = buffer.memory.layout
    if layout.swizzle is not None:
        return buffer.shape
    return layout.shape if isinstance(layout, StridedLayout) else tuple(it.extent for it in layout.shard)


def _orders(layout: Any, shape: tuple[Any, ...]) -> str:
    """Return the orders of Numba arrays, C, F and A (any strides), that fit a layout."""
    if layout.swizzle is not None:
        return "CFA"
    rows = [reduce(mul, shape[dim + 1 :], 1) for dim in range(len(shape))]
    columns = [reduce(mul, shape[:dim], 1) for dim in range(len(shape))]
    orders = "".join(order for order, strides in (("C", rows), ("F", columns)) if _has_strides(layout, shape, strides))
    return orders or "CFA"


def _has_strides(layout: TileLayout | StridedLayout, shape: tuple[Any, ...], strides: list[Any]) -> bool:
    if isinstance(layout, StridedLayout):
        pairs = zip(layout.strides, strides, shape, strict=True)
        return all(structural_equal(stride, wanted) or structural_equal(extent, 1) for stride, wanted, extent in pairs)
    return bool(layout.canonicalize() == TileLayout(S[shape : tuple(strides)]).canonicalize())


def _emit(function: CopyFunction, context: Any, builder: Any, kinds: Sequence[Any], values: Sequence[Any]) -> None:
    """Write the inline assembly, with code that reads its operands from the arguments and stores its results there."""
    values_by_name: dict[str, Any] = {}
    for argument, kind, value in zip(function.arguments, kinds, values, strict=True):
        values_by_name[argument.name] = _block_value(argument, context, builder, kind, value)

    def place(name: str, word: int) -> Any:
        return cgutils.gep_inbounds(builder, values_by_name[name], word)

    def read(operand: Any) -> Any:
        if operand.word is None:
            return values_by_name[operand.argument]
        return builder.load(place(operand.argument, operand.word))

    outputs, inputs = function.block_outputs, function.block_inputs
    tied = [number for number, operand in enumerate(outputs) if operand in function.kept]
    block_arguments = [read(operand) for operand in inputs] + [read(outputs[number]) for number in tied]
    constraints = ["=r"] * len(outputs)
    constraints += ["l" if function.bits_of(operand) == 64 else "r" for operand in inputs]
    constraints += [*map(str, tied), "~{memory}"]
    back: Any = ir.VoidType()
    if outputs:
        back = _WORD if len(outputs) == 1 else ir.LiteralStructType([_WORD] * len(outputs))
    block = ir.InlineAsm(
        ir.FunctionType(back, [value.type for value in block_arguments]),
        "\\0A\\09".join(function.assembly("$")),
        ",".join(constraints),
        side_effect=True,
    )
    results = builder.call(block, block_arguments)
    for number, operand in enumerate(outputs):
        word = results if len(outputs) == 1 else builder.extract_value(results, number)
        assert operand.word is not None
        builder.store(word, place(operand.argument, operand.word))


def _block_value(argument: Argument, context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the operand of the inline assembly for an argument; for a fragment, the pointer to its words."""
    if isinstance(kind, types.Omitted):
        return _thread_index(builder)
    if isinstance(argument, ScalarArgument):
        return context.cast(builder, value, kind, types.int64 if argument.bits == 64 else types.int32)
    if isinstance(kind, types.Integer):
        return context.cast(builder, value, kind, types.uint32)
    data = context.make_array(kind)(context, builder, value=value).data
    if argument.buffer.space == "local":
        return builder.bitcast(data, _WORD.as_pointer())
    if argument.buffer.space == "global":
        return builder.ptrtoint(data, _WIDE)
    shared = builder.addrspacecast(data, ir.PointerType(data.type.pointee, 3))
    return builder.ptrtoint(shared, _WORD)


def _thread_index(builder: Any) -> Any:
    kind = ir.FunctionType(_WORD, [])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.nvvm.read.ptx.sreg.tid.x"), [])
