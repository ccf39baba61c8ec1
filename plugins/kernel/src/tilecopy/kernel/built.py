"""Built kernels. A built kernel has PTX text and plans, and an executor launches it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from tilecopy_core.description import Target
from tilecopy_core.dispatch import Plan
from tilecopy_core.errors import ANY_INTEGER, RequestError, TilecopyError, did_you_mean, frozen, integer, short_repr
from tilecopy_core.integers import INT, Int, Symbol, key_of, symbols_of
from tilecopy_core.layout import html_table
from tilecopy_core.registry import LOCK

from ..errors import AssemblerError, LaunchError
from ..executor_registry import choose_executor
from ..validators import PATH, Validator, checked, integer_in, mapping_of
from .bounds import Bound
from .parameters import ArrayParameter, Parameter, value_of, with_values
from .special_registers import GRID_LIMIT, bounded_by, cluster_rank, only_symbol

if TYPE_CHECKING:
    from ..assemblers import Resources

Dim3 = tuple[int, int, int]
_MOST_REMEMBERED = 256
"""The most grids and numbers for which a kernel keeps that their bounds hold."""
_COUNT = integer_in(0, 2**31 - 1)
_GRID = Validator(
    "a tuple of three integers of at least 0",
    lambda value: type(value) is tuple and len(value) == 3 and all(map(_COUNT.fits, value)),
)
_NUMBERS = mapping_of(INT)


@frozen
class SharedAllocation:
    """A frozen record of a shared buffer's offset and size. Executors that check bounds use it."""

    name: str
    offset_bytes: int
    size_bytes: int


@frozen
class IndexAssertion:
    """A frozen record of the range of an index that is loaded from memory. Executors that check the range use it.

    Attributes:
        line: the line (from 1) of the PTX after which the register has the value.
        register: the name of the register, such as ``%r5``.
        lower: the smallest value, computed from sizes and scalars.
        upper: the largest value.
        clamped: True if the instructions clamp it.
    """

    line: int
    register: str
    lower: Int = attrs.field(eq=key_of)
    upper: Int = attrs.field(eq=key_of)
    clamped: bool


@attrs.define(eq=False, repr=False)
class LaunchCaches:
    """The caches that a kernel keeps between launches. Copies and pickles of the kernel have empty caches.

    Attributes:
        executors: the executors that ran the kernel, by name.
        states: executor -> its own cache for this kernel.
        repeats: name of an executor -> None, or a function ``(stream, arguments)`` that launches and returns True if the arguments
            fit those of an earlier call without ``grid=`` and ``device=``.
        inside: the grids and numbers for which the bounds were checked.
    """

    executors: dict[str | None, Any] = attrs.field(factory=dict)
    states: dict[Any, Any] = attrs.field(factory=dict)
    repeats: dict[str | None, Callable[..., bool] | None] = attrs.field(factory=dict)
    inside: set[Any] = attrs.field(factory=set)


@frozen(eq=False, repr=False)
class BuiltKernel:
    """A built kernel. You call it with its arrays and scalars, in order or by name.

    Attributes:
        name: the kernel's name.
        ptx: the text of the PTX module.
        plans: the plan of each copy, in order.
        target: the architecture that it was built for.
        threads: threads of a CTA.
        parameters: the parameters of the PTX function, in order. The caller passes arrays and scalars, but no sizes.
        mutated_args: names of the arrays that the kernel writes.
        grid: CTAs along x, y, z, each an integer or computed from sizes and scalars; None if the launch gives it.
        cluster: CTAs of a cluster, or None.
        shared_bytes: shared memory of a CTA, in bytes.
        dynamic_shared: True if the shared memory is dynamic.
        allocations: the buffers in dynamic shared memory.
        bounds: conditions on the grid and the scalars that a launch checks.
        scalars: symbol -> name of its parameter.
        index_assertions: the values from memory that are used as indices.
        locations: each statement with its source line; the first entry is empty.
        statements: for each line of the PTX, the number of its statement.
        notes: sentences about the PTX, which :meth:`explain` shows after the copies.
    """

    name: str
    ptx: str
    plans: tuple[Plan, ...]
    target: Target
    threads: int
    parameters: tuple[Parameter, ...]
    mutated_args: frozenset[str]
    grid: tuple[Int, Int, Int] | None
    cluster: Dim3 | None
    shared_bytes: int
    dynamic_shared: bool
    allocations: tuple[SharedAllocation, ...]
    bounds: tuple[Bound, ...]
    scalars: Mapping[Symbol, str]
    index_assertions: tuple[IndexAssertion, ...] = attrs.field(repr=False)
    locations: tuple[str, ...] = attrs.field(repr=False)
    statements: tuple[int, ...] = attrs.field(repr=False)
    notes: tuple[str, ...] = attrs.field(default=(), repr=False)
    _caches: LaunchCaches = attrs.field(factory=LaunchCaches, init=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return BuiltKernel, tuple(getattr(self, field.name) for field in attrs.fields(BuiltKernel) if field.init)

    def __repr__(self) -> str:
        names = ", ".join(p.name for p in self.parameters)
        launched = f"grid {self.grid}" if self.grid is not None else "grid at launch"
        return f"BuiltKernel({self.name}({names}) for {self.target}, {self.threads} threads, {launched}, {len(self.plans)} copies)"

    def _repr_html_(self) -> str:
        rows = [(plan.variant, plan.summary, plan.completion) for plan in self.plans]
        return html_table(rows, ("variant", "split", "completion"), repr(self))

    @property
    def arrays(self) -> tuple[ArrayParameter, ...]:
        """The parameters that are arrays, in the order of :attr:`parameters`."""
        return tuple(parameter for parameter in self.parameters if isinstance(parameter, ArrayParameter))

    def explain(self) -> str:
        """Return the ``Plan.explain()`` text of each copy, in the order of the copies, and then notes on the kernel.

        The notes name likely mistakes in its PTX. If an assembler is installed, they also say if registers spill.
        """
        notes = [f"note: {note}" for note in (*self.notes, *self._spills())]
        return "\n\n".join([*(plan.explain() for plan in self.plans), *(["\n".join(notes)] if notes else [])])

    def _spills(self) -> Iterator[str]:
        """Yield a sentence if an assembler is installed and reports that registers of the kernel spill."""
        with suppress(AssemblerError):
            taken = self.resources()
            if taken.spill_bytes:
                yield (
                    f"each thread has {taken.registers} registers and spills {taken.spill_bytes} bytes to local memory: "
                    "use smaller fragments, or build with fewer threads or a smaller min_ctas_per_sm="
                )

    def resources(self, assembler: str | None = None) -> Resources:
        """Return the registers and spilled bytes per thread, and the shared memory in bytes per CTA. An assembler reports them.

        The numbers of the driver's own compiler may differ.

        Args:
            assembler: ``nvjitlink`` or ``ptxas``; by default the first that is installed.

        Raises:
            AssemblerError: no assembler is installed (the message says what to install), or it rejects the PTX.
        """
        with LOCK:
            from ..assemblers import resources_of

        resources = resources_of(self.ptx, self.target, assembler)
        return attrs.evolve(resources, shared_bytes=resources.shared_bytes + self.shared_bytes * self.dynamic_shared)

    def cubin(self, assembler: str | None = None) -> bytes:
        """Return the machine code of the kernel for its target. For ``assembler``, see :meth:`resources`.

        Raises:
            AssemblerError: no assembler is installed, or it rejects the PTX.
        """
        with LOCK:
            from ..assemblers import assemble

        return assemble(self.ptx, self.target, assembler)

    def save(self, folder: str | Path) -> Path:
        """Write ``kernel.ptx`` and ``launch.json`` into a folder, for :func:`tilecopy.load_kernel` and other launchers.

        The record holds the parameters in order (kind, type, size, and for arrays dtype, shape, strides and alignment),
        block, grid, cluster, dynamic shared bytes and target. docs/export.md shows launches from other libraries.

        Raises:
            RequestError: a function that computes a parameter cannot be imported by its name.
            LaunchError: the folder cannot be written.
        """
        with LOCK:
            from .save import save_kernel

        PATH.check(folder, "BuiltKernel.save", "folder", LaunchError)
        return save_kernel(self, folder)

    @checked(ptx_line=ANY_INTEGER)
    def source_location(self, ptx_line: int) -> str:
        """Return the statement and source line that emitted a PTX line (counted from 1), or "" if no statement did."""
        return self.locations[self.statements[ptx_line - 1]] if 0 < ptx_line <= len(self.statements) else ""

    def check_bounds(self, grid: Dim3, scalars: Mapping[str, int]) -> None:
        """Raise :class:`LayoutError` if a region can be out of bounds with this grid and these scalars."""
        _GRID.check(grid, "check_bounds", "grid")
        if type(scalars) is not dict:
            _NUMBERS.check(scalars, "check_bounds", "scalars")
        key = (grid, *(scalars.get(name) for name in self.scalars.values()))
        inside = self._caches.inside
        if key in inside or 0 in grid:  # no CTA, nothing is accessed
            return
        numbers = {symbol: scalars[name] for symbol, name in self.scalars.items() if name in scalars}
        check_all(self.bounds, grid, self.cluster, numbers)
        if len(inside) >= _MOST_REMEMBERED:
            inside.clear()
        inside.add(key)

    @checked(numbers=_NUMBERS)
    def values_at(self, numbers: Mapping[str, int]) -> tuple[IndexAssertion, ...]:
        """Return the range checks of the indices that a launch loads from memory. ``numbers`` determine the ranges.

        Args:
            numbers: values of sizes and scalars, by name.

        Raises:
            LaunchError: the lower bound of a clamped index is above its upper bound.
        """
        assertions = []
        for check in self.index_assertions:
            lower, upper = (self._number(bound, numbers) for bound in (check.lower, check.upper))
            if check.clamped and lower > upper:
                raise LaunchError(
                    f"kernel {self.name}: an index has the empty range {check.lower} to {check.upper} ({lower} to {upper} in this launch)\n"
                    f"  at {self.source_location(check.line)}"
                )
            if not check.clamped:
                assertions.append(attrs.evolve(check, lower=lower, upper=upper))
        return tuple(assertions)

    def _number(self, value: Int, numbers: Mapping[str, int]) -> int:
        if any(symbol.name not in numbers for symbol in symbols_of(value)):
            raise LaunchError(f"kernel {self.name}: {value} cannot be computed without the arguments of a launch")
        return value_of(value, numbers)

    def launch_grid(self, grid: Sequence[int] | int | None, numbers: Mapping[str, int] | None = None) -> Dim3:
        """Return the grid of a launch: ``grid``, or the build's grid if None. Counts that depend on sizes may be 0.

        Args:
            grid: the grid of the launch, or None.
            numbers: values of sizes and scalars, by name.

        Raises:
            LaunchError: the grid is invalid or missing, the two grids differ, the cluster does not divide it, or it exceeds the
                limits of the hardware.
        """
        if numbers is not None and type(numbers) is not dict:
            _NUMBERS.check(numbers, "launch_grid", "numbers", LaunchError)
        built = None if self.grid is None else self._evaluate(self.grid, numbers or {})
        chosen = built if grid is None else dim3(grid, "grid", LaunchError)
        if chosen is None:
            raise LaunchError(f"kernel {self.name} needs a grid: pass grid= to build or to the launch")
        if self.grid and built and chosen != built:
            raise LaunchError(
                f"kernel {self.name}: grid must equal the build's grid {with_values(self.grid, built)}, got {chosen}"
            )
        check_cluster(self.name, chosen, self.cluster)
        return chosen

    def _evaluate(self, grid: tuple[Int, Int, Int], numbers: Mapping[str, int]) -> Dim3:
        x, y, z = (self._number(count, numbers) for count in grid)
        for (dim, most), count in zip(GRID_LIMIT.items(), (x, y, z), strict=True):
            if not 0 <= count <= most:
                grid_text = with_values(grid, (x, y, z))
                raise LaunchError(
                    f"kernel {self.name}: the grid must have from 0 to {most} CTAs along {dim}, got {count} ({grid_text})"
                )
        return x, y, z

    def __call__(
        self,
        /,
        *arguments: Any,
        grid: Sequence[int] | int | None = None,
        stream: Any = None,
        device: int | None = None,
        executor: str | None = None,
        **named: Any,
    ) -> Any:
        """Check the arguments and launch.

        Args:
            arguments: arrays (NumPy, or anything with DLPack or ``__cuda_array_interface__``) and integers.
            grid: CTAs along x, y, z, if not given at build.
            stream: for the CUDA executor: an integer, or a torch, CuPy or cuda.core stream. By default the current stream of the
                arrays' framework (torch, CuPy), or the stream that the CUDA array interface names, or the legacy default stream.
            device: the number of the GPU that launches, if the arrays are on several GPUs or on none. By default the GPU of
                ``stream=``, if it names one; else that of the first array that the kernel writes; for host arrays the current GPU.
            executor: ``cuda`` or ``emulator``; by default the GPU if there is one.
            named: arguments by the names of their parameters, ``kernel(A=a, B=b)``, after those that are passed in order.

        Returns:
            The executor's report (None from ``cuda``, counts from ``emulator``).

        Raises:
            LaunchError: an argument does not fit its parameter, or the driver reports an error; nothing was launched.
        """
        if "torch._dynamo" in sys.modules:
            compiler = getattr(sys.modules.get("torch"), "compiler", None)
            if compiler is not None and compiler.is_dynamo_compiling():
                # break the graph, so that nothing below is traced
                call = compiler.disable(BuiltKernel.__call__)
                return call(self, *arguments, grid=grid, stream=stream, device=device, executor=executor, **named)
        caches = self._caches
        if grid is None and device is None and not named:
            try:
                repeat = caches.repeats[executor]
            except Exception:  # no earlier launch, or `executor` is not hashable
                repeat = None
            if repeat is not None and repeat(stream, arguments):
                return None
        try:
            chosen = caches.executors[executor]
        except Exception:  # no earlier launch, or `executor` is not hashable
            chosen = self._executor(executor)
        if named:
            arguments = self._in_order(arguments, named)
        if grid is not None or device is not None:
            return chosen.launch(self, arguments, grid=grid, stream=stream, **self._on(chosen, device))
        report = chosen.launch(self, arguments, grid=None, stream=stream)
        caches.repeats[executor] = getattr(caches.states.get(chosen), "repeat", None)
        return report

    def prepare(
        self,
        /,
        *arguments: Any,
        grid: Sequence[int] | int | None = None,
        stream: Any = None,
        device: int | None = None,
        executor: str | None = None,
        **named: Any,
    ) -> Callable[[], Any]:
        """Check the arguments once and return a function that launches: ``launch = kernel.prepare(a, b)``, then ``launch()``.

        The function keeps the arguments alive. Their contents may change between launches, but not their addresses and shapes. With
        arrays on the GPU, a launch costs little more than the driver's own. Without ``stream=``, each launch uses the stream
        that is current when you call it. ``prepare`` has the parameters of a call and raises the same errors.
        """
        arguments = self._in_order(arguments, named) if named else arguments
        chosen = self._executor(executor)
        prepare = getattr(chosen, "prepare", None) or partial(partial, chosen.launch)  # `prepare` is optional
        prepared: Callable[[], Any] = prepare(self, arguments, grid=grid, stream=stream, **self._on(chosen, device))
        return prepared

    def launch_by_address(
        self,
        /,
        *arguments: Any,
        grid: Sequence[int] | int | None = None,
        device: int | None = None,
        executor: str | None = None,
        **named: Any,
    ) -> Callable[..., None]:
        """Return a function ``launch(addresses, stream=None)`` for arrays of the same layout at other addresses.

        This is for libraries that check their arrays themselves. Shapes, strides and dtypes are checked once, now. Each
        launch checks only the alignment of the addresses. Without ``stream=`` a launch uses the
        current stream. The arguments are those of a call of the kernel, with device arrays.

        Raises:
            LaunchError: an argument does not fit its parameter, or the executor cannot launch by address.
        """
        arguments = self._in_order(arguments, named) if named else arguments
        chosen = self._executor(executor)
        if not hasattr(chosen, "launch_by_address"):
            raise LaunchError(
                f"kernel {self.name}, executor={short_repr(executor)}: executor {chosen.name} cannot launch by address; call the kernel with arrays"
            )
        launch: Callable[..., None] = chosen.launch_by_address(self, arguments, grid=grid, **self._on(chosen, device))
        return launch

    def _in_order(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments in the order of their parameters, or raise LaunchError unless each parameter gets one."""
        names = [parameter.name for parameter in self.parameters if parameter.takes_argument]
        for name in named:
            if name not in names:
                near = did_you_mean(name, names) if name != "cluster" else "; pass cluster= to build instead"
                raise LaunchError(f"kernel {self.name} has no parameter {name!r}; it has {', '.join(names)}{near}")
            if name in names[: len(given)]:
                raise LaunchError(f"kernel {self.name}: argument {name} is passed twice, in order and by name")
        if missing := [name for name in names[len(given) :] if name not in named]:
            raise LaunchError(f"kernel {self.name}: missing argument(s): {', '.join(missing)}")
        return (*given, *(named[name] for name in names[len(given) :]))

    def _on(self, chosen: Any, device: int | None) -> dict[str, int]:
        """Return the argument that names the launching GPU for an executor; empty if none is named."""
        if device is None:
            return {}
        if not hasattr(chosen, "devices"):
            raise LaunchError(
                f"kernel {self.name}: executor {chosen.name} has no GPUs, got device={short_repr(device)}; omit device="
            )
        return {"device": device}

    def _executor(self, name: str | None) -> Any:
        """Return the executor of a name, or the default, and cache it."""
        if name is not None and not isinstance(name, str):
            raise LaunchError(f'kernel {self.name}: executor must be a string such as "cuda", got {short_repr(name)}')
        chosen = self._caches.executors[name] = choose_executor(name, self)
        return chosen


def check_cluster(name: str, grid: Dim3, cluster: Dim3 | None) -> None:
    """Raise :class:`LaunchError` if the grid is not a multiple of the cluster in each dimension."""
    if cluster is not None and any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise LaunchError(f"kernel {name}: the grid must be a multiple of the cluster {cluster}, got {grid}")


def check_all(bounds: Sequence[Bound], grid: Dim3, cluster: Dim3 | None, numbers: Mapping[Symbol, Int]) -> None:
    """Raise :class:`LayoutError` if a region can be out of bounds with this grid, cluster and symbol values."""
    replacements = {**numbers, **bounded_by(grid)}
    if cluster is not None:
        replacements[only_symbol(cluster_rank())] = cluster_rank(prod(cluster))
    seen = set()
    for bound in bounds:  # the copies of a kernel often share their boxes
        what = key_of((bound.value, bound.least, bound.most, bound.known))
        if what not in seen:
            seen.add(what)
            bound.check(replacements)


def dim3(value: Sequence[int] | int, what: str, error: type[TilecopyError] = RequestError) -> Dim3:
    """Return the x, y, z counts of a grid or cluster; missing counts are 1. Raise ``error`` if a count is invalid."""
    counts = [integer(count) or 0 for count in (value if isinstance(value, (tuple, list)) else (value,))]
    if not 1 <= len(counts) <= 3 or min(counts) < 1:
        raise error(f"{what} must be one to three positive integers, got {short_repr(value)}")
    x, y, z = (*counts, 1, 1)[:3]
    if x >= 2**31 or y > 65535 or z > 65535:
        raise error(f"{what} must be at most (2**31 - 1, 65535, 65535), got {short_repr(value)}")
    return x, y, z
