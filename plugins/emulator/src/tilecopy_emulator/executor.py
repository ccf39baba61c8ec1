"""The executor "emulator". It runs kernels that are called with host arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tilecopy import BuiltKernel, HazardError
from tilecopy.executors import HostArguments, stream_handle

from .argument_checks import demand, is_flag, items_of
from .memory.observed import Observer
from .memory.tensor_maps import encode_map
from .opcodes.table import packages
from .parser.module import parse
from .program import BudgetError, UnsupportedPtxError
from .run import MOST_CTAS, Report, run_grid
from .threads.global_arrays import GlobalMemory


class EmulatorExecutor:
    """An executor that runs kernels on the CPU.

    Args:
        profile: count memory sectors and bank conflicts too (slower).
        progress: called with the number of CTAs that have ended, and the number of all CTAs.
        observer: called with each :class:`AccessEvent` and :class:`Transfer`, in the order in which they run (slower).
        all_hazards: see :func:`run_ptx`.
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
        """Return None. The emulator is available for every kernel."""
        return None

    def extensions(self) -> list[tuple[str, str, str]]:
        """Return ``(name, package, error)`` for each added instruction set. ``error`` is "" for a set in use."""
        return [(f"instructions {package.name}", package.owner, package.reason) for package in packages()]

    def launch(
        self, kernel: BuiltKernel, arguments: Sequence[Any], *, grid: Sequence[int] | int | None = None,
        stream: Any = None,
    ) -> Report:  # fmt: skip
        """Run a kernel. The kernel changes NumPy arrays and CPU arrays with DLPack in place. ``stream`` has no effect.

        Raises:
            LaunchError: an argument does not fit its parameter, the stream is not valid, or the grid is too large.
            HazardError: the kernel does something that is undefined on hardware.
            UnsupportedPtxError: the emulator does not support an instruction; the message names its statement.
        """
        demand("launch", "kernel", kernel, isinstance(kernel, BuiltKernel), "a kernel from KernelBuilder.build")
        argument_list = items_of(arguments)
        rule = "a sequence with one argument for each parameter"
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
                f"kernel {kernel.name}: the emulator runs at most {MOST_CTAS} CTAs in one launch, got {ctas}: "
                "launch a smaller grid, or run the kernel on a GPU"
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
                parameters=parameters, memory=memory, source_location=kernel.source_location, index_assertions=checks,
                pool=[(a.name, a.offset_bytes, a.size_bytes) for a in kernel.allocations], **self._options,
            )  # fmt: skip
        except HazardError:
            for view, before in reversed(journal):  # an index outside its bounds is bad input, so nothing is written
                view[:] = before
            raise


executor = EmulatorExecutor
"""The object of the entry point; a call without arguments returns the executor."""
