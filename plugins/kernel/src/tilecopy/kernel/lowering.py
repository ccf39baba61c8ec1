"""The lowering of a kernel's description to a built kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from tilecopy_core.description import Target, target_of
from tilecopy_core.errors import RequestError
from tilecopy_core.integers import Expr, Int, bounds_of
from tilecopy_core.memory import Buffer, symbolic
from tilecopy_core.ptx import Line, PtxBuilder
from tilecopy_core.registry import LOCK, Registry, default_registry

from ..module_text import ParameterText, module_text, parameter_text
from ..shared_memory import KernelBindings, SharedPlan
from .bounds import Facts
from .built import BuiltKernel, Dim3, IndexAssertion, SharedAllocation, check_all, check_cluster, dim3
from .description import Description
from .parameters import ArrayParameter, Parameter
from .special_registers import BLOCK_SYMBOLS, GRID_LIMIT, block_index
from .statements import Lowering

if TYPE_CHECKING:
    from .number_parameters import SizeParameter


def lower_kernel(
    described: Description,
    target: Target | str,
    grid: Sequence[Int] | Int | None,
    cluster: Sequence[int] | int | None,
    min_ctas_per_sm: int | None,
    registry: Registry | None,
) -> BuiltKernel:
    """Lower a described kernel for a target and return the built kernel."""
    chosen = target_of(target)
    grid3 = None if grid is None else grid_of(grid)
    sizes = _sizes(described)
    cluster3 = None if cluster is None else _cluster(cluster, chosen)
    shared = SharedPlan.of(described.shared, chosen)
    scalars = {symbol: (p.name, p.type) for symbol, p in described.scalars.items()}
    cluster_ctas = prod(cluster3 or ())
    bindings = KernelBindings(scalars, cluster_ctas, shared=shared)
    ptx = PtxBuilder(chosen, described.threads, bindings=bindings)
    for dim, count in zip("xyz", grid3 or (), strict=False):
        most = bounds_of(count)[1]
        if most is not None and most < GRID_LIMIT[dim]:
            ptx.tighter[BLOCK_SYMBOLS[dim]] = block_index(dim, max(most, 1))
    known: Facts = ()
    if grid3 is not None and described.scalars:
        known = tuple(n - 1 - block_index(dim) for dim, n in zip("xyz", grid3, strict=True))
    of_sizes = tuple(fact for fact, n in zip(known, grid3 or (), strict=False) if isinstance(n, Expr))
    context = Lowering(
        ptx,
        chosen,
        registry or default_registry(),
        dict(ptx.tighter),
        of_sizes,
        cluster_ctas,
        described.group if described.allocations else described.cta_group,
        min_ctas_per_sm or 1,
    )
    context.run(described.body)
    if described.group == 2 and cluster_ctas % 2:
        raise RequestError(
            f"kernel {described.name}: cta_group=2 needs clusters with an even number of CTAs, got {cluster_ctas}: pass cluster=2 to build"
        )
    declared = tuple(
        ArrayParameter.of(p, written=p.name in described.written) if isinstance(p, Buffer) else sizes.get(p.name, p)
        for p in described.parameters
    )
    host_parameters = bindings.host_parameters.items()
    arrays = [p.name for p in declared if isinstance(p, ArrayParameter)]
    computed: tuple[Parameter, ...] = ()
    if host_parameters:
        with LOCK:
            from .computed_parameters import computed_parameter
        computed = tuple(
            computed_parameter(recipe, name, arrays, described.scalars) for recipe, name in host_parameters
        )
    in_text = [ParameterText(p.name, p.type) for p in declared]
    in_text += [parameter_text(recipe, name) for recipe, name in host_parameters]
    text, statements = module_text(ptx, described.name, in_text, shared, cluster3, min_ctas_per_sm)
    bounds = tuple(described.bounds)
    if grid3 is not None and not symbolic(grid3):
        launched = cast("Dim3", grid3)
        check_cluster(described.name, launched, cluster3)
        if not described.scalars:
            check_all(bounds, launched, cluster3, {})
            bounds = ()  # all that they depend on is known
    if described.scalars:  # launches need no checks that are proved for all sizes and scalars
        bounds = tuple(bound for bound in bounds if not bound.holds(known))
    return BuiltKernel(
        name=described.name,
        ptx=text,
        plans=tuple(context.plans),
        target=chosen,
        threads=described.threads,
        parameters=declared + computed,
        mutated_args=frozenset(described.written),
        grid=grid3,
        cluster=cluster3,
        shared_bytes=shared.size_bytes,
        dynamic_shared=shared.dynamic,
        allocations=tuple(SharedAllocation(b.name, shared.offsets[b.memory], b.span_bytes) for b in described.shared),
        bounds=bounds,
        scalars={symbol: p.name for symbol, p in described.scalars.items()},
        index_assertions=_index_assertions(statements, context),
        locations=tuple(context.locations),
        statements=statements,
        notes=tuple(described.notes),
    )


def _index_assertions(statements: Sequence[int], context: Lowering) -> tuple[IndexAssertion, ...]:
    """Return the assertion of each index, with the line that defines its register."""
    if not context.indices:
        return ()
    defined = {
        line.operands[0]: number
        for number, line in enumerate(context.ptx.lines, len(statements) - len(context.ptx.lines) + 1)
        if isinstance(line, Line) and line.guard is None and line.opcode.startswith(("mov.", "min.", "max.", "selp."))
    }
    return tuple(
        IndexAssertion(defined[register], str(register), index.least, index.most, index.clamp)
        for register, index in context.indices
    )


def _sizes(described: Description) -> dict[str, SizeParameter]:
    """Return the sizes, each with the dimensions that it is read from."""
    if not described.scalars:
        return {}
    with LOCK:
        from .number_parameters import SizeParameter

    arrays = [p for p in described.parameters if isinstance(p, Buffer)]
    return {
        p.name: p.read_from(symbol, arrays) for symbol, p in described.scalars.items() if isinstance(p, SizeParameter)
    }


def _cluster(value: Sequence[int] | int, target: Target) -> Dim3:
    cluster = dim3(value, "cluster")
    if not target.has("cluster"):
        raise RequestError(f"a cluster of {prod(cluster)} CTAs needs a target of sm_90 or newer, got {target}")
    return cluster


def grid_of(value: Sequence[Int] | Int) -> tuple[Int, Int, Int]:
    """Return the x, y and z counts of a grid, as integers or symbolic integers. Missing counts are 1."""
    counts: list[Any] = list(value) if isinstance(value, (tuple, list)) else [value]
    if not symbolic(counts):
        return dim3(value, "grid")  # type: ignore[arg-type]
    plain = dim3([1 if isinstance(count, Expr) else count for count in counts], "grid")
    padded = (*counts, 1, 1)[:3]
    x, y, z = (count if isinstance(count, Expr) else number for count, number in zip(padded, plain, strict=True))
    return x, y, z
