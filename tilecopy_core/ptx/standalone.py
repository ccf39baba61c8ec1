"""A plan's copy as a PTX module of its own: what can be had of the core and one variant alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..description.request import CopyRequest
from ..dispatch.plan import Plan
from ..errors import RequestError, checked, instance_of, optional
from ..integers.expr import Symbol, fits, of_atom, symbols_in_order
from ..layout import TileLayout
from ..memory.buffers import Buffer, Region, check_identifier
from ..registry.registry import Registry
from .bindings import KernelBindings, SharedPlan
from .builder import PtxBuilder
from .emitted_text import emit_checked
from .host_parameters import declared
from .module import module_text


@checked(plan=instance_of("a Plan, as plan() gives it", Plan), registry=optional(instance_of("a Registry", Registry)))
def ptx_text(plan: Plan, name: str = "copy", registry: Registry | None = None) -> str:
    """A PTX module with one kernel that does a plan's copy and nothing else.

    The operands come from outside, or are there with the kernel:

    - a global array is a parameter ``param_NAME`` of 64 bits, its address;
    - a symbol of starts, sizes, strides and options is a parameter ``param_NAME`` of 32 bits where its bounds are within those
      of an int32, else of 64; special registers such as block ids are read where they are used;
    - a shared array is a ``.shared`` variable ``smem_NAME`` of the module, past 48 KiB a place in the dynamic pool ``smem_pool``;
    - a fragment is virtual registers;
    - what each launch makes, such as a tensor map, is a parameter of bytes behind all others.

    Parameters stand in the order destination, source, symbols of both by first appearance, then what only options name. The
    CTA has the threads that the plan was made for, else those of the scope. What completes the copy
    (``plan.completion_steps``), and what it waits for, is not in the text.

    Args:
        plan: what :func:`tilecopy_core.plan` gave.
        name: of the kernel.
        registry: where the variant is looked up by its name; by default the process's.

    Raises:
        RequestError: the name is no identifier, or two operands have the same name.
        PtxError, PluginError: the variant's instructions cannot be written.
    """
    check_identifier(name, "ptx_text: name")
    request, memories, parameters = plan.request, list[Buffer](), dict[object, tuple[str, str]]()
    taken: set[str] = set()
    for what in _operands(request):
        key = what.memory if isinstance(what, Buffer) else what
        if key in parameters:
            continue
        parameters[key] = ("", "")
        if isinstance(what, Buffer):
            if what.name in taken:
                raise RequestError(f"{request}: two operands are called {what.name}; give each a name of its own")
            if what.space == "shared":
                memories.append(_whole(what))
            elif what.space == "global":
                parameters[key] = (what.name, "u64")
        else:
            word = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in what.name)
            number = next(n for n in range(len(taken) + 1) if (f"{word}_{n}" if n else word) not in taken)
            parameters[key] = (f"{word}_{number}" if number else word, "b32" if fits(of_atom(what), 32) else "b64")
        taken.add(what.name if isinstance(what, Buffer) else parameters[key][0])
    shared = SharedPlan.of(memories, request.target)
    scalars = {key: found for key, found in parameters.items() if isinstance(key, Symbol)}
    threads = request.active.cta_threads or request.scope.threads
    bindings = KernelBindings(shared, scalars)
    ptx = PtxBuilder(request.target, threads, bindings=bindings)
    emit_checked(plan, ptx, registry)
    computed = [declared(recipe, called) for recipe, called in bindings.host_parameters.items()]
    text, _ = module_text(ptx, name, [found for found in parameters.values() if found[0]] + computed, shared)
    return text


def _operands(request: CopyRequest) -> Iterator[Buffer | Symbol]:
    """The buffers and the symbols of a copy, in the order of the parameters; some come several times."""
    for region in (request.dst, request.src):
        yield region.buffer
    for region in (request.dst, request.src):
        yield from _symbols(*region.starts, *region.buffer.shape, *region.buffer.placed_by())
    for value in request.options.values():
        region = value[()] if isinstance(value, Buffer) else value
        if isinstance(region, Region):
            yield region.buffer
            yield from _symbols(*region.starts, *region.buffer.placed_by())
        else:
            yield from _symbols(value)
    for region in (request.dst, request.src):
        if isinstance(region.buffer.allocated_addr, Buffer):
            yield region.buffer.allocated_addr


def _symbols(*values: Any) -> Iterator[Symbol]:
    for value in values:
        yield from (found for found in symbols_in_order(value) if not found.register)


def _whole(buffer: Buffer) -> Buffer:
    """The memory of a buffer that may be a view of it."""
    memory = buffer.memory
    assert isinstance(memory.layout, TileLayout)
    return Buffer(
        (memory.layout.size,),
        memory.dtype,
        space=memory.space,
        layout=memory.layout,
        name=memory.name,
        align_bytes=buffer.align_bytes,
        memory=memory,
    )
