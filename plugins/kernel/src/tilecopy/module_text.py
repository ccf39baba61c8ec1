"""Functions that write the text of a PTX module, from the emitted lines of a kernel or from a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from operator import attrgetter
from typing import Any

from tilecopy_core import Buffer, CopyRequest, Plan, PtxError, Region, Registry, RequestError, Target, target_of
from tilecopy_core.description import Version
from tilecopy_core.errors import checked, frozen, instance_of, optional
from tilecopy_core.integers import Symbol, fits, of_atom
from tilecopy_core.memory import check_identifier
from tilecopy_core.ptx import STEM, Needs, PtxBuilder, Recipe, merge

from .emission_checks import emit_checked
from .expression_text import symbols_in_order
from .shared_memory import POOL, KernelBindings, SharedPlan

_SMALL_PARAMETERS_BYTES, _PARAMETERS_BYTES, _LARGE_PARAMETERS = 4_352, 32_764, Needs(version=(8, 1))
"""The most bytes of a kernel's parameters on any target, and with the version that allows more (PTX ISA, kernel parameters)."""
_CLUSTERS = Needs(90, (7, 8))
"""The target and PTX version that a kernel with clusters needs."""


@frozen
class ParameterText:
    """The declaration of a parameter in PTX: name, element type (such as ``b64``), and the length and alignment of a byte array."""

    name: str
    type: str
    count: int | None = None
    align_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """The size of the parameter in bytes."""
        return int(self.type[1:]) // 8 * (self.count or 1)

    def __str__(self) -> str:
        if self.count is None:
            return f".param .{self.type} param_{self.name}"
        return f".param .align {self.align_bytes} .{self.type} param_{self.name}[{self.count}]"


def header_target(needs: Needs, requested: Target) -> tuple[Version, Target]:
    """Return the lowest ``.version`` and ``.target`` that a module needs if it was lowered for ``requested``.

    A module that needs no suffix gets the plain architecture that its instructions need, so that it runs on that and
    all newer ones. A module with an instruction that is not in the table keeps the requested target, and has the newest version in
    the table.
    """
    target = requested if needs.targets or not needs.known else target_of(f"sm_{needs.arch}")
    return max(needs.version, target.ptx_version), target


def directive_of(ptx: str, name: str) -> str:
    """Return the value of a directive of a module, such as ``sm_90`` for ``.target``, or "" if it is missing."""
    return next((line.split()[1] for line in ptx.splitlines() if line.startswith(f"{name} ")), "")


def declarations(ptx: PtxBuilder) -> list[str]:
    """Return the lines that declare all registers of a kernel or function."""
    counts = sorted(ptx.register_counts.items())
    return [f".reg .{type} {ptx.mark}{STEM[type]}<{count}>;" for type, count in counts]


def parameter_text(recipe: Recipe, name: str) -> ParameterText:
    """Return the PTX declaration of the parameter that a launch computes from a recipe."""
    return ParameterText(name, "b8", recipe.size_bytes, recipe.align_bytes)


def parameter_bytes(parameters: Sequence[ParameterText]) -> int:
    """Return the total size of the parameters in bytes. Each parameter begins at a multiple of its alignment."""
    end = 0
    for parameter in parameters:
        align = parameter.align_bytes or parameter.size_bytes
        end = -(-end // align) * align + parameter.size_bytes
    return end


def module_text(
    ptx: PtxBuilder,
    name: str,
    parameters: Sequence[ParameterText],
    shared: SharedPlan,
    cluster: tuple[int, int, int] | None = None,
    min_ctas_per_sm: int | None = None,
) -> tuple[str, tuple[int, ...]]:
    """Return the text of a module with one kernel, with the lowest possible ``.version`` and ``.target``.

    The second result has, for each line of the text, the number of its statement (0 for none).
    """
    needs = ptx.needs if cluster is None else merge(ptx.needs, _CLUSTERS)
    total = parameter_bytes(parameters)
    if total > _PARAMETERS_BYTES:
        raise PtxError(
            f"kernel {name}: the parameters must have at most {_PARAMETERS_BYTES:,} bytes, got {total:,} bytes in {len(parameters)} parameters: "
            "pass fewer arrays, or views of one array"
        )
    if total > _SMALL_PARAMETERS_BYTES:
        needs = merge(needs, _LARGE_PARAMETERS)
    version, target = header_target(needs, ptx.target)
    lines = [f".version {version[0]}.{version[1]}", f".target {target}", ".address_size 64", ""]
    buffers = shared.buffers.values()
    if shared.dynamic:
        lines += [f".extern .shared .align {max(b.align_bytes for b in buffers)} .b8 {POOL}[];", ""]
    listed = ",\n".join(f"\t{parameter}" for parameter in parameters)
    lines += [f".visible .entry {name}(", *listed.split("\n"), ")", f".reqntid {ptx.cta_threads}, 1, 1"]
    if min_ctas_per_sm is not None:
        lines.append(f".minnctapersm {min_ctas_per_sm}")
    if cluster is not None:
        lines += [".explicitcluster", f".reqnctapercluster {', '.join(map(str, cluster))}"]
    lines.append("{")
    lines += [f"\t{line}" for line in declarations(ptx)]
    if not shared.dynamic:
        lines += [f"\t.shared .align {b.align_bytes} .b8 smem_{b.name}[{b.span_bytes}];" for b in buffers]
    lines.append("")
    emitted = ptx.lines
    text = "\n".join([*lines, *map(str, emitted), "\tret;", "}", ""])
    return text, (*[0] * len(lines), *map(attrgetter("statement"), emitted))


@checked(plan=instance_of("a Plan, from plan()", Plan), registry=optional(instance_of("a Registry", Registry)))
def ptx_text(plan: Plan, name: str = "copy", registry: Registry | None = None) -> str:
    """Return a PTX module with one kernel. The kernel executes only a plan's copy.

    The operands are parameters or are declared in the module:

    - a global array is a parameter ``param_NAME`` of 64 bits, its address;
    - a symbol of starts, sizes, strides and options is a parameter ``param_NAME`` of 32 bits if its bounds are within those
      of an int32, else of 64; special registers such as block ids are read where they are used;
    - a shared array is a ``.shared`` variable ``smem_NAME`` of the module, above 48 KiB a part of the dynamic pool ``smem_pool``;
    - a fragment is virtual registers;
    - what each launch computes, such as a tensor map, is a parameter of bytes after all others.

    The order of parameters is: destination, source, symbols of both by first appearance, then those of options. The CTA has
    the threads for which the plan was made, else those of the scope. The text does not contain the steps that complete the copy
    (``plan.completion_steps``) or waits before it. The plan's variant is looked up by its name in the registry, by default that of
    the process.

    Raises:
        RequestError: the name is not an identifier, two operands have the same name, or tensor memory has no address.
        PtxError, PluginError: the variant's instructions cannot be written.
    """
    check_identifier(name, "ptx_text: name")
    request, memories, parameters = plan.request, list[Buffer](), dict[object, tuple[str, str]]()
    for what in _operands(request):
        key = what.memory if isinstance(what, Buffer) else what
        if key in parameters:
            continue
        taken = {called for called, _ in parameters.values()}
        if isinstance(what, Symbol):
            word = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in what.name)
            free = next(candidate for n in count() if (candidate := f"{word}_{n}" if n else word) not in taken)
            parameters[key] = (free, "b32" if fits(of_atom(what), 32) else "b64")
            continue
        if what.name in taken:
            raise RequestError(f"{request}: operands must have different names, got {what.name} twice")
        if what.space == "tmem" and what.allocated_addr is None:
            raise RequestError(
                f"{request}: tensor memory {what.name} has no address; pass Buffer(allocated_addr=...) with the shared "
                "word that tcgen05.alloc writes, or use KernelBuilder.tmem"
            )
        if what.space == "shared":  # all its bytes, because a view may have only a part
            span = (what.memory.span_bytes,)
            memories.append(Buffer(span, "uint8", space="shared", align_bytes=what.align_bytes, memory=what.memory))
        # one without a type is not a parameter, but its name is used
        parameters[key] = (what.name, "u64" if what.space == "global" else "")
    shared = SharedPlan.of(memories, request.target)
    scalars = {key: parameter for key, parameter in parameters.items() if isinstance(key, Symbol)}
    bindings = KernelBindings(scalars, request.cluster, shared=shared)
    ptx = PtxBuilder(request.target, request.active.cta_threads or request.scope.threads, bindings=bindings)
    emit_checked(plan, ptx, registry)
    computed = [parameter_text(recipe, called) for recipe, called in bindings.host_parameters.items()]
    return module_text(
        ptx, name, [ParameterText(*parameter) for parameter in parameters.values() if parameter[1]] + computed, shared
    )[0]


def _operands(request: CopyRequest) -> Iterator[Buffer | Symbol]:
    """Yield the buffers and the symbols of a copy in the order of the parameters. Some may come several times."""
    regions = (request.dst, request.src)
    yield from (region.buffer for region in regions)
    for region in regions:
        yield from _symbols(*region.starts, *region.buffer.shape, *region.buffer.placed_by())
    for value in request.options.values():
        region = value[()] if isinstance(value, Buffer) else value
        if isinstance(region, Region):
            yield region.buffer
            yield from _symbols(*region.starts, *region.buffer.placed_by())
        else:
            yield from _symbols(value)
    for region in regions:
        if isinstance(region.buffer.allocated_addr, Buffer):
            yield region.buffer.allocated_addr


def _symbols(*values: Any) -> Iterator[Symbol]:
    for value in values:
        yield from (symbol for symbol in symbols_in_order(value) if not symbol.register)
