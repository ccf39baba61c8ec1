"""Functions that write one copy as a CUDA C++ function, and several copies as a header."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from tilecopy.expression_text import as_cpp

from tilecopy_core import Plan
from tilecopy_core.description import Target
from tilecopy_core.errors import LayoutError, RequestError, short_repr
from tilecopy_core.integers import Int, Symbol
from tilecopy_core.memory import Buffer, Region
from tilecopy_core.registry import __version__

from .function import CopyFunction, function_of
from .function_arguments import C_TYPES, Argument, BufferArgument, ScalarArgument, key_of_symbol
from .hoist import hoist

COMPLETION_HEADER = files("tilecopy_export") / "completion.cuh"
"""The fixed part of every header, with functions that complete copies and the assertion."""
ASSERT = "TILECOPY_ASSERT"
"""The macro that enables the checks of arguments against their declarations."""


def cuda_function(plan: Plan, name: str, registry: Any = None) -> str:
    """Return the text of one ``__device__ __forceinline__`` function; see :meth:`tilecopy_core.Plan.cuda`."""
    function = function_of(plan, name, registry)
    parameters = ", ".join(_parameter(argument, function) for argument in function.arguments)
    target = function.target
    hoisted = hoist(function)
    missing = f"tilecopy_{name}_needs_{target}"
    lines = [
        *(f"// {_one_line(line)}".rstrip() for line in _comment(function)),
        f'extern "C" __device__ void {missing}();',
        f"__device__ __forceinline__ void {name}({parameters})",
        "{",
        f"#ifdef {ASSERT}",
        *(f'    tilecopy::demand({test}, "{name}: {_one_line(what)}");' for test, what in _demands(function)),
        "#endif",
        *_needs_threads(function),
        f"#if {_guard(target)}",
        *(f"    {statement}" for statement in hoisted.statements),
        "    asm volatile(",
        *(f"        {_quote(line)}" for line in hoisted.function.assembly("%")),
        f"        : {_constraints(hoisted.function, outputs=True)}",
        f"        : {_constraints(hoisted.function, outputs=False)}",
        '        : "memory");',
        "#else",
        f"    {missing}();  // not defined: the copy does not exist on this architecture",
        "#endif",
        "}",
        *(line for operand in _tensor_map_arguments(function) for line in _encoder(function, operand)),
    ]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    """Return text that is safe in a comment or a string of C++, because names of symbols may have any characters."""
    return re.sub(r'[\x00-\x1f\x7f\\"]', "_", text)


_TITLE = re.compile(r"^__device__ __forceinline__ void (\w+)\(", re.M)


def cuda_header(functions: Sequence[str]) -> str:
    """Return a C++ header with exported functions, and with the functions that complete copies (namespace ``tilecopy``).

    Args:
        functions: results of :meth:`tilecopy_core.Plan.cuda`.

    Raises:
        RequestError: a text is not such a result, or two functions have the same name.
    """
    if not isinstance(functions, (list, tuple)) or not all(isinstance(text, str) for text in functions):
        raise RequestError(
            f"cuda_header: functions must be a list of texts from plan.cuda(name), got {short_repr(functions)}"
        )
    names: list[str] = []
    for text in functions:
        title = _TITLE.search(text)
        if title is None:
            raise RequestError(
                f"cuda_header: each function must be a text from plan.cuda(name), got {short_repr(text)}"
            )
        names.append(title[1])
    for name in names:
        if names.count(name) > 1:
            raise RequestError(
                f"cuda_header: functions must have different names, got {name} twice; rename one of them"
            )
    opening = f"// Made by tilecopy {__version__}: {', '.join(names) or 'the completion steps'}. Nothing to link.\n"
    return "\n".join([opening + COMPLETION_HEADER.read_text(encoding="utf-8"), *functions])


# ------------------------------------------------------------------------------------------------- tensor maps

_TYPES = {8: "UINT8", 16: "UINT16", 32: "UINT32", 64: "UINT64"}
"""Bits of an element -> CUtensorMapDataType, unsigned because a copy moves bits. A fill of NaN needs a float type instead."""


def _tensor_map_arguments(function: CopyFunction) -> list[BufferArgument]:
    return [
        argument
        for argument in function.arguments
        if isinstance(argument, BufferArgument) and argument.recipe is not None
    ]


def _encoder(function: CopyFunction, operand: BufferArgument) -> Iterator[str]:
    """Yield the lines of a host function that encodes a tensor map, for translation units that include cuda.h."""
    recipe = operand.recipe
    assert recipe is not None
    array = next(
        a.name for a in function.arguments if isinstance(a, BufferArgument) and a.buffer.memory is recipe.array.memory
    )
    numbers = {
        key_of_symbol(n.symbol): n for n in function.arguments if isinstance(n, ScalarArgument) and n.symbol is not None
    }
    taken: dict[str, None] = {}

    def name_of(symbol: Symbol) -> str:
        number = numbers.get(key_of_symbol(symbol))
        if number is None or symbol.varies != "grid":
            raise RequestError(f"the tensor map of {array} depends on {symbol.name}, which is not known on the host")
        taken[f"{number.type} {number.name}"] = None
        return number.name

    def list_of(values: Sequence[Int]) -> str:
        return ", ".join(f"(cuuint64_t)({as_cpp(value, name_of)})" for value in values)

    rank, dtype = len(recipe.sizes), recipe.array.dtype
    start = as_cpp(recipe.array.storage_offset * dtype.bytes, name_of)
    sizes, strides = list_of(recipe.sizes), list_of(recipe.strides_bytes) or "0"
    steps = ", ".join(map(str, recipe.element_strides or (1,) * rank))
    kind = str(dtype).upper() if recipe.fill == "nan" else _TYPES[dtype.bits]
    fill = "NAN_REQUEST_ZERO_FMA" if recipe.fill == "nan" else "NONE"
    parameters = ", ".join(("CUtensorMap* map", f"const void* {array}", *taken))
    yield "#if defined(CUDA_VERSION) && !defined(__CUDACC_RTC__)"
    yield f"// {operand.name} of {function.name}, on the host before the launch: include cuda.h first, link libcuda. The kernel takes"
    yield "// `const __grid_constant__ CUtensorMap map`, and passes &map."
    yield f"static inline CUresult {function.name}_{operand.name}({parameters})"
    yield "{"
    yield f"    const cuuint64_t sizes[] = {{{sizes}}}, strides[] = {{{strides}}};"
    yield f"    const cuuint32_t box[] = {{{', '.join(map(str, recipe.box))}}}, steps[] = {{{steps}}};"
    yield f"    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_{kind}, {rank}, (char*){array} + {start}, sizes, strides, box,"
    yield f"        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_{recipe.swizzle.upper()},"
    yield f"        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill});"
    yield "}"
    yield "#endif"


# ------------------------------------------------------------------------------------------------- the signature


def _constant(function: CopyFunction, operand: BufferArgument) -> str:
    written = any(
        isinstance(other, BufferArgument) and other.written and other.buffer.memory is operand.buffer.memory
        for other in function.arguments
    )
    return "" if written else "const "


def _parameter(argument: Argument, function: CopyFunction) -> str:
    if isinstance(argument, ScalarArgument):
        default = " = threadIdx.x" if argument.symbol is None else ""
        return f"{argument.type} {argument.name}{default}"
    space = argument.buffer.space
    if space == "global":
        return f"{_constant(function, argument)}void* {argument.name}"
    if space == "shared":
        return f"uint32_t {argument.name}"
    return f"{_constant(function, argument)}uint32_t (&{argument.name})[{argument.words}]"


def _guard(target: Target) -> str:
    guard = f"!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= {target.arch * 10}"
    if not target.suffix:
        return guard
    specific = f"defined(__CUDA_ARCH_FEAT_SM{target.arch}_ALL) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__)"
    return f"!defined(__CUDA_ARCH__) || (__CUDA_ARCH__ >= {target.arch * 10} && ({specific}))"


def _comment(function: CopyFunction) -> Iterator[str]:
    plan = function.plan
    request = plan.request
    yield f"{function.name}: {request}"
    yield f"{request.dst} <- {request.src}"
    yield f"by {plan.variant} ({plan.package}): {plan.summary}"
    who = {"thread": "each thread copies by itself", "cta": f"all {request.scope.threads} threads"}
    together = who.get(request.scope.kind, f"all threads of a {request.scope.kind}")
    yield f"Called by: {together}" + (
        "" if request.scope.kind == "thread" else ", together, with equal arguments except tid"
    )
    for argument in function.arguments:
        yield f"  {argument.name}: {_argument_comment(argument, function)}"
    yield f"Done: {plan.completion}" + "".join(f"; {step}" for step in plan.completion_steps)
    version = ".".join(map(str, function.version))
    yield f"Needs {function.target}, PTX ISA {version}. In a loop, write `#pragma unroll 1`, because the compiler"
    yield "counts the asm block below as one instruction and would unroll too far."


def _argument_comment(argument: Argument, function: CopyFunction) -> str:
    if isinstance(argument, ScalarArgument):
        multiple = f", a multiple of {argument.multiple_of}" if argument.multiple_of > 1 else ""
        what = "index of the thread in the copy's CTA, " if argument.symbol is None else ""
        return f"{what}{_range(argument)}{multiple}"
    if argument.recipe is not None:
        return f"{argument.role}, the address of the map that {function.name}_{argument.name}(..) below encodes before the launch"
    buffer = argument.buffer
    shape = ", ".join(map(str, buffer.shape))
    what = f"{argument.role}, {buffer.space} {buffer.dtype}[{shape}]"
    if argument.same_as:
        return f"{what}, the same memory as {argument.same_as}"
    if buffer.space == "local":
        kept = "" if argument.written else ", read only"
        return f"{what}, {argument.words} 32-bit words per thread{kept}"
    start = "its first byte" if buffer.space == "global" else "shared address of its first byte"
    return f"{what}, {start}, a multiple of {buffer.align_bytes}{_size(buffer)}"


def _size(buffer: Buffer) -> str:
    try:
        return f", {buffer.memory.span_bytes} bytes"
    except LayoutError:  # it is known only at launch
        return ""


def _range(number: ScalarArgument) -> str:
    if number.lower is None and number.upper is None:
        return "any integer"
    if number.lower is None:
        return f"at most {number.upper}"
    return f"at least {number.lower}" if number.upper is None else f"{number.lower} to {number.upper}"


# ------------------------------------------------------------------------------------------------- the checks


def _demands(function: CopyFunction) -> Iterator[tuple[str, str]]:
    """Yield the C++ conditions of assertions, each with a description."""
    for argument in function.arguments:
        if isinstance(argument, ScalarArgument):
            yield from _of_number(argument)
        elif argument.same_as:
            yield f"{argument.name} == {argument.same_as}", f"{argument.name} is {argument.same_as}"
        elif argument.buffer.space in ("global", "shared"):
            align = argument.buffer.align_bytes
            value = f"(uint64_t){argument.name}" if argument.buffer.space == "global" else argument.name
            if align > 1:
                yield f"{value} % {align} == 0", f"{argument.name} is a multiple of {align}"
    request = function.plan.request
    if request.outside is None:
        for region in (request.dst, request.src):
            yield from _inside(function, region)


def _of_number(number: ScalarArgument) -> Iterator[tuple[str, str]]:
    tests = []
    least, most = C_TYPES[number.type]
    if number.lower is not None and number.lower > least:
        tests.append(f"{number.name} >= {_literal(number.lower)}")
    if number.upper is not None and number.upper < most:
        tests.append(f"{number.name} <= {_literal(number.upper)}")
    if number.multiple_of > 1:
        tests.append(f"{number.name} % {number.multiple_of} == 0")
    if tests:
        multiple = f", a multiple of {number.multiple_of}" if number.multiple_of > 1 else ""
        yield " && ".join(tests), f"{number.name} is {_range(number)}{multiple}"


def _literal(value: int) -> str:
    return str(value) if -(2**31) < value < 2**31 else f"{value}LL"


def _inside(function: CopyFunction, region: Region) -> Iterator[tuple[str, str]]:
    """Yield the conditions that a region with run-time starts is inside its buffer."""
    names = {
        key_of_symbol(n.symbol): n.name
        for n in function.arguments
        if isinstance(n, ScalarArgument) and n.symbol is not None
    }

    def cpp(value: Int) -> str:
        return as_cpp(value, lambda found: names.get(key_of_symbol(found), "tid"))

    for dim, (start, extent) in enumerate(zip(region.starts, region.extents, strict=True)):
        low, high = region.exceeds(dim)
        tests = [f"{cpp(start)} >= 0"] if low else []
        tests += [f"{cpp(region.room(dim))} >= 0"] if high else []
        if tests:
            what = f"{region.buffer.name}, dimension {dim}: {start} to {start} + {extent} is inside"
            yield " && ".join(tests), what


def _needs_threads(function: CopyFunction) -> Iterator[str]:
    """Yield the assertion that the block has enough threads, also for debug builds: nvcc -G, NVRTC --device-debug."""
    scope = function.plan.request.scope
    if scope.kind != "thread":
        yield f"#if defined({ASSERT}) || defined(__CUDACC_DEBUG__)"
        test = f"blockDim.x * blockDim.y * blockDim.z >= {scope.threads}"
        yield f'    tilecopy::demand({test}, "{function.name}: the block has {scope.threads} threads or more");'
        yield "#endif"


# ------------------------------------------------------------------------------------------------- the block


def _quote(line: str) -> str:
    escaped = line.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}\\n\\t"'


def _constraints(function: CopyFunction, *, outputs: bool) -> str:
    """Return the list of operands, each with its constraint and its C++ expression."""
    constraints = []
    for operand in function.block_outputs if outputs else function.block_inputs:
        if operand.word is not None:
            constraint = ("+r" if operand in function.kept else "=r") if outputs else "r"
            constraints.append(f'"{constraint}"({operand.argument}[{operand.word}])')
        else:
            constraints.append(f'"{"l" if function.bits_of(operand) == 64 else "r"}"({operand.argument})')
    return ", ".join(constraints)
