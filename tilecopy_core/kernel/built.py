"""Built kernels: PTX text and plans, ready to be launched by an executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from ..dispatch import Plan
from ..errors import LaunchError, RequestError
from ..expr import Int, Symbol, only_symbol
from ..memory import Buffer
from ..ptx import KernelBindings, PtxBuilder, SharedPlan, module_text
from ..registry import Registry, default_registry
from ..scope import bounded_by, cluster_rank
from ..target import Target, target_of
from .bounds import Bound
from .parameters import ArrayParameter, Parameter, ScalarParameter, integer
from .statements import Lowering, Placed

Dim3 = tuple[int, int, int]


@attrs.frozen
class SharedAllocation:
    """Where one shared buffer lies, for executors that check bounds."""

    name: str
    offset_bytes: int
    size_bytes: int


@attrs.frozen(eq=False, repr=False)
class BuiltKernel:
    """A lowered kernel; call it with arrays in the order of its parameters.

    Attributes:
        name: the kernel's name.
        ptx: the module's text.
        plans: one a copy, in order.
        target: what it was lowered for.
        threads: threads of a CTA.
        parameters: those of the PTX function, in order; the caller passes an argument for each that takes one.
        written: names of the parameters that it writes.
        grid: CTAs along x, y, z, or None: then it is given at launch.
        cluster: CTAs of a cluster, or None.
        shared_bytes: shared memory of a CTA.
        dynamic_shared: whether that memory is one dynamic pool.
        allocations: the shared buffers in the pool.
        bounds: what must hold of the grid and the scalars.
        scalars: the name of the parameter that each symbol is.
        origins: what each statement is and where it was made; the first is none.
        statements: for each line of the PTX the number of its statement.
        executors: those that ran it, by the name that was asked for; like ``remembered``, no part of a copy or a pickle.
        remembered: what each executor keeps for later launches.
    """

    name: str
    ptx: str
    plans: tuple[Plan, ...]
    target: Target
    threads: int
    parameters: tuple[Parameter, ...]
    written: frozenset[str]
    grid: Dim3 | None
    cluster: Dim3 | None
    shared_bytes: int
    dynamic_shared: bool
    allocations: tuple[SharedAllocation, ...]
    bounds: tuple[Bound, ...]
    scalars: Mapping[Symbol, str]
    origins: tuple[str, ...] = attrs.field(repr=False)
    statements: tuple[int, ...] = attrs.field(repr=False)
    executors: dict[str | None, Any] = attrs.field(factory=dict, init=False, repr=False)
    remembered: dict[Any, Any] = attrs.field(factory=dict, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in attrs.fields(BuiltKernel) if field.init}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        names = ", ".join(p.name for p in self.parameters)
        launched = f"grid {self.grid}" if self.grid is not None else "grid at launch"
        return f"BuiltKernel({self.name}({names}) for {self.target}, {self.threads} threads, {launched}, {len(self.plans)} copies)"

    @property
    def arrays(self) -> tuple[ArrayParameter, ...]:
        """The parameters that are arrays, in order."""
        return tuple(parameter for parameter in self.parameters if isinstance(parameter, ArrayParameter))

    def explain(self) -> str:
        """The plans of all copies, one table after the other."""
        return "\n\n".join(plan.explain() for plan in self.plans)

    def cubin(self, assembler: str | None = None) -> bytes:
        """Machine code for the target.

        Args:
            assembler: ``nvjitlink`` or ``ptxas``; by default the first that is installed.

        Raises:
            AssemblerError: none is installed, or the text is refused.
        """
        from ..assemblers import assemble

        return assemble(self.ptx, self.target, assembler)

    def origin_of(self, ptx_line: int) -> str:
        """The statement, and the line of the program, that a line (from 1) of the PTX came from; "" where there is none."""
        return self.origins[self.statements[ptx_line - 1]] if 0 < ptx_line <= len(self.statements) else ""

    def check_bounds(self, grid: Dim3, scalars: Mapping[str, int]) -> None:
        """Raise :class:`LayoutError` when a region can leave its buffer with this grid and these scalars."""
        replacements: dict[Symbol, Int] = {
            found: scalars[name] for found, name in self.scalars.items() if name in scalars
        }
        replacements.update(bounded_by(grid))
        if self.cluster is not None:
            ranks = self.cluster[0] * self.cluster[1] * self.cluster[2]
            replacements[only_symbol(cluster_rank())] = cluster_rank(ranks)
        for bound in self.bounds:
            bound.check(replacements)

    def launch_grid(self, grid: Sequence[int] | int | None) -> Dim3:
        """The grid of a launch: the argument, else the one given at build.

        Raises:
            LaunchError: neither is given, both are and differ, or the cluster does not divide it.
        """
        chosen = self.grid if grid is None else dim3(grid, "grid")
        if chosen is None:
            raise LaunchError(f"kernel {self.name}: no grid was given at build or launch")
        if self.grid is not None and chosen != self.grid:
            raise LaunchError(f"kernel {self.name} was built for the grid {self.grid}, not {chosen}")
        if self.cluster is not None and any(g % c for g, c in zip(chosen, self.cluster, strict=True)):
            raise LaunchError(f"kernel {self.name}: the grid {chosen} is not a multiple of the cluster {self.cluster}")
        return chosen

    def __call__(
        self,
        *arguments: Any,
        grid: Sequence[int] | int | None = None,
        stream: Any = None,
        executor: str | None = None,
    ) -> Any:
        """Check the arguments and launch.

        Args:
            arguments: arrays (NumPy, or anything with DLPack or ``__cuda_array_interface__``) and integers.
            grid: CTAs along x, y, z, when not given at build.
            stream: of the CUDA executor: an integer, or a torch, CuPy or cuda.core stream; by default the legacy one.
            executor: ``cuda`` or ``emulator``; by default the GPU where there is one.

        Returns:
            What the executor reports (None from ``cuda``, counts from ``emulator``).

        Raises:
            LaunchError: an argument does not fit its parameter, or the driver refuses; nothing was launched.
        """
        try:
            chosen = self.executors[executor]
        except (KeyError, TypeError):
            chosen = self._executor(executor)
        return chosen.launch(self, arguments, grid=grid, stream=stream)

    def prepare(
        self,
        *arguments: Any,
        grid: Sequence[int] | int | None = None,
        stream: Any = None,
        executor: str | None = None,
    ) -> Callable[[], Any]:
        """A launch whose arguments are checked once, now: ``launch = kernel.prepare(a, b)``, then ``launch()`` in a loop.

        It keeps the arguments alive and launches with the memory that they have now, at little more than the driver's own
        cost where they are on the GPU; what they hold may change between launches, their address and shape may not.

        Args:
            arguments: as for a call of the kernel.
            grid: as for a call of the kernel.
            stream: as for a call of the kernel.
            executor: as for a call of the kernel.

        Raises:
            LaunchError: as for a call of the kernel.
        """
        chosen = self._executor(executor)
        prepare = getattr(chosen, "prepare", None)
        if prepare is None:  # an executor need not offer it
            return partial(chosen.launch, self, arguments, grid=grid, stream=stream)
        prepared: Callable[[], Any] = prepare(self, arguments, grid=grid, stream=stream)
        return prepared

    def _executor(self, name: str | None) -> Any:
        """The executor of a name, or the one that is chosen by default; remembered for later calls."""
        if name is not None and not isinstance(name, str):
            raise LaunchError(f'kernel {self.name}: executor= is a name, such as "cuda", not {name!r}')
        from ..executors import choose_executor

        chosen = self.executors[name] = choose_executor(name, self)
        return chosen


def dim3(value: Sequence[int] | int, what: str) -> Dim3:
    """One to three counts as three.

    Raises:
        RequestError: not one to three positive integers.
    """
    counts = [integer(count) for count in (value if isinstance(value, (tuple, list)) else (value,))]
    known = [count for count in counts if count is not None and count >= 1]
    if not 1 <= len(known) <= 3 or len(known) != len(counts):
        raise RequestError(f"{what} is one to three positive integers, not {value!r}")
    x, y, z = (*known, 1, 1)[:3]
    if x >= 2**31 or y > 65535 or z > 65535:
        raise RequestError(f"{what} {value!r} passes the hardware's 2**31 - 1, 65535, 65535")
    return x, y, z


@attrs.frozen(eq=False)
class Description:
    """A kernel as described: what KernelBuilder collects.

    Attributes:
        name: the kernel's name.
        threads: threads of a CTA.
        parameters: in order.
        scalars: the parameter that each symbol is.
        shared: the shared buffers, in order.
        body: the statements.
        bounds: what must hold of starts.
        written: names of the arrays that it writes.
    """

    name: str
    threads: int
    parameters: tuple[Buffer | Parameter, ...]
    scalars: Mapping[Symbol, ScalarParameter]
    shared: tuple[Buffer, ...]
    body: tuple[Placed, ...]
    bounds: tuple[Bound, ...]
    written: frozenset[str]


def lower_kernel(
    described: Description,
    *,
    target: Target | str,
    grid: Sequence[int] | int | None,
    cluster: Sequence[int] | int | None,
    registry: Registry | None,
) -> BuiltKernel:
    """Lower recorded statements for a target."""
    chosen = target_of(target)
    grid3 = None if grid is None else dim3(grid, "grid")
    cluster3 = None if cluster is None else _cluster(cluster, chosen)
    shared = SharedPlan.of(described.shared, chosen)
    bindings = KernelBindings(shared, {found: (p.name, p.type) for found, p in described.scalars.items()})
    ptx = PtxBuilder(chosen, described.threads, bindings=bindings)
    context = Lowering(ptx, chosen, registry or default_registry(), grid3)
    context.run(described.body)
    declared = tuple(
        ArrayParameter.of(p, written=p.name in described.written) if isinstance(p, Buffer) else p
        for p in described.parameters
    )
    text, statements = module_text(ptx, described.name, [(p.name, p.type) for p in declared], shared, cluster3)
    kernel = BuiltKernel(
        name=described.name,
        ptx=text,
        plans=tuple(context.plans),
        target=chosen,
        threads=described.threads,
        parameters=declared,
        written=described.written,
        grid=grid3,
        cluster=cluster3,
        shared_bytes=shared.size_bytes,
        dynamic_shared=shared.dynamic,
        allocations=tuple(SharedAllocation(b.name, shared.offsets[b.memory], b.span_bytes) for b in described.shared),
        bounds=described.bounds,
        scalars={found: p.name for found, p in described.scalars.items()},
        origins=tuple(context.origins),
        statements=statements,
    )
    if grid3 is not None:
        kernel.launch_grid(None)
        if not described.scalars:
            kernel.check_bounds(grid3, {})
            kernel = attrs.evolve(kernel, bounds=())  # nothing that they depend on is open any more
    return kernel


def _cluster(value: Sequence[int] | int, target: Target) -> Dim3:
    cluster = dim3(value, "cluster")
    size = cluster[0] * cluster[1] * cluster[2]
    if target.arch < 90:
        raise RequestError(f"a cluster of {size} CTAs needs sm_90 or newer; the target is {target}")
    if size > 16 or size & (size - 1):
        raise RequestError(f"a cluster has 1, 2, 4, 8 or (where the device allows it) 16 CTAs, not {size}")
    return cluster
