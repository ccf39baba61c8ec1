"""The emulator as an executor of tilecopy: kernels called with host arrays run here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tilecopy import BuiltKernel, HazardError
from tilecopy.executors import HostArguments, stream_handle

from .demands import demand, is_flag, items_of
from .memory.observed import Observer
from .memory.tensor_maps import encode_map
from .opcodes.table import packages
from .parser.module import parse
from .program import BudgetError, UnsupportedPtxError
from .run import MOST_CTAS, Report, run_grid
from .threads.arrays import GlobalMemory


class EmulatorExecutor:
    """Runs kernels on the CPU.

    Args:
        profile: count memory sectors and bank conflicts too (slower).
        progress: called with CTAs done and CTAs in all.
        observer: called with each :class:`AccessEvent` and :class:`Transfer`, in the order in which they run here (slower).
        all_hazards: as of :func:`run_ptx`.
    """

    name = "emulator"

    def __init__(
        self, *, profile: bool = False, progress: Callable[[int, int], None] | None = None,
        observer: Observer | None = None, all_hazards: bool = False,
    ) -> None:  # fmt: skip
        self._options: dict[str, Any] = {"profile": profile, "all_hazards": all_hazards}
        for name, flag in self._options.items():
            demand("EmulatorExecutor", name, flag, is_flag(flag), "True or False")
        for name, function in (("progress", progress), ("observer", observer)):
            demand("EmulatorExecutor", name, function, function is None or callable(function), "a function, or None")
            self._options[name] = function

    def unavailable_reason(self, kernel: BuiltKernel | None = None) -> str | None:
        """Why it cannot run a kernel here; it always can."""
        return None

    def extensions(self) -> list[tuple[str, str, str]]:
        """Return what other packages teach it, for ``tilecopy doctor``: what it is, whose, and why it is set aside or ""."""
        return [(f"instructions {package.name}", package.owner, package.reason) for package in packages()]

    def launch(
        self, kernel: BuiltKernel, arguments: Sequence[Any], *, grid: Sequence[int] | int | None = None,
        stream: Any = None,
    ) -> Report:  # fmt: skip
        """Run a kernel on host arrays (NumPy, or CPU arrays with DLPack); the arrays themselves are written. A stream has no effect.

        Raises:
            LaunchError: an argument does not fit its parameter, the stream is none, or the grid is too large to be run here.
            HazardError: an execution that the hardware leaves undefined.
            UnsupportedPtxError: an instruction that the emulator does not know; the message names its statement.
        """
        demand("launch", "kernel", kernel, isinstance(kernel, BuiltKernel), "what KernelBuilder.build makes")
        argument_list = items_of(arguments)
        rule = "a sequence, one argument for each parameter"
        demand(f"kernel {kernel.name}", "arguments", arguments, argument_list is not None, rule)
        if stream is not None:
            stream_handle(stream)
        try:
            return self._launch(kernel, argument_list or (), grid)
        except UnsupportedPtxError as error:
            if origin := kernel.source_location(error.line):
                error.args = (f"{error}\n  in: {origin}",)
            raise

    def _launch(self, kernel: BuiltKernel, arguments: Sequence[Any], grid: Sequence[int] | int | None) -> Report:
        host = HostArguments.of(kernel, arguments, grid)
        if (ctas := prod(host.binding.grid)) > MOST_CTAS:
            raise BudgetError(
                f"kernel {kernel.name}: a grid of {ctas} CTAs; the emulator runs at most {MOST_CTAS} in one launch. "
                "Launch a smaller grid, or run it on a GPU"
            )
        program, memory = parse(kernel.ptx), GlobalMemory()
        addresses = {
            a.name: memory.add(a.name, a.data, a.align_bytes, writable=a.writable, first_bytes=a.first_bytes)
            for a in host.arrays
        }
        encoded = host.pack_parameters(kernel, addresses, encode_map)
        checks = kernel.values_at(host.binding.numbers) if 0 not in host.binding.grid else ()
        journal: list[tuple[Any, Any]] = []
        for array in memory.arrays if checks else ():
            array.remember(journal)
        parameters = dict(zip((p.name for p in program.parameters), encoded, strict=False))
        try:
            return run_grid(
                program, grid=host.binding.grid, block=program.block or (kernel.threads, 1, 1), cluster=kernel.cluster,
                parameters=parameters, memory=memory, origin_of=kernel.source_location, index_assertions=checks,
                pool=[(a.name, a.offset_bytes, a.size_bytes) for a in kernel.allocations], **self._options,
            )  # fmt: skip
        except HazardError:
            for view, before in reversed(journal):  # an index out of its bounds is bad input: nothing is written
                view[:] = before
            raise


executor = EmulatorExecutor
"""What the entry point names: called with no arguments, it gives the executor."""
