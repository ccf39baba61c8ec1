"""Functions that run a plan on device addresses or on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import attrs
import tilecopy as tc
from tilecopy.executors import is_masked
from tilecopy.overlap import StridedMemory

from tilecopy_core.errors import np
from tilecopy_core.plugin import frozen, short_repr

from ..arrays.devices import DevicePlacement
from .problem import WIDEST_BYTES, RelayoutSpec


@frozen(eq=False)
class DeviceLauncher:
    """A launcher of one planned relayout. The addresses may change, but not the GPUs.

    Attributes:
        plan: a function that returns a :class:`~tilecopy_relayout.planner.plan.RelayoutPlan` for two alignments in bytes.
        placement: the GPUs of the memory.
        launches: :func:`low_bits` of both addresses -> the launch of their plan and its base offsets in bytes.
    """

    plan: Callable[[int, int], Any]
    placement: DevicePlacement
    launches: dict[int, tuple[Callable[..., None], int, int]] = attrs.field(factory=dict)

    def __call__(self, source: int, destination: int, stream: Any) -> None:
        """Launch the kernel for two addresses. The first launch with a new alignment builds its kernel."""
        key = low_bits(source, destination)
        if key not in self.launches:
            plan = self.plan(align_of(source), align_of(destination))
            operands = _operands(plan, source, destination, placement=self.placement)
            launch = plan.kernel.launch_by_address(*operands, device=self.placement.launching, executor="cuda")
            self.launches[key] = launch, *plan.base_offsets
        launch, src_bytes, dst_bytes = self.launches[key]
        launch((source + src_bytes, destination + dst_bytes), stream)


def low_bits(source: int, destination: int) -> int:
    """Return both addresses modulo :data:`WIDEST_BYTES` as one integer. The integer selects the plan."""
    if source == 0 or destination == 0:
        which = "source" if source == 0 else "destination"
        raise tc.RequestError(f"{which} must be the address of memory, got 0: the memory was freed or never allocated")
    try:
        return (source & 15) << 4 | destination & 15
    except TypeError:
        raise tc.RequestError(
            f"addresses must be integers, got source {short_repr(source)} and destination {short_repr(destination)}"
        ) from None


def move_on_host(plan_for: Callable[[int, int], Any], spec: RelayoutSpec, source: Any, destination: Any) -> Any:
    """Relayout a NumPy array into another on the emulator. ``plan_for`` takes both alignments and returns a plan."""
    for name, array, side in zip(("source", "destination"), (source, destination), spec.sides, strict=True):
        _demand(name, array, side)
    if not destination.flags.writeable:
        raise tc.RequestError("destination must be writable, got a read-only array")
    addresses = [int(array.__array_interface__["data"][0]) for array in (source, destination)]
    plan = plan_for(*map(align_of, addresses))
    views = _operands(plan, *addresses)
    return plan.kernel(*map(np.asarray, views), executor="emulator")


def _demand(name: str, array: Any, planned: StridedMemory) -> None:
    """Check that an array holds the bytes that a plan reads or writes, because the kernel accesses them by address."""
    if not isinstance(array, np.ndarray) or array.dtype.hasobject or is_masked(array):
        raise tc.RequestError(f"{name} must be a NumPy array without a mask or Python objects, got {short_repr(array)}")
    footprint = StridedMemory(0, array.shape, array.strides, array.itemsize)
    (low, high), (first, end) = footprint.byte_bounds, planned.byte_bounds
    if array.itemsize != planned.itemsize or not low <= first <= end <= high:
        raise tc.RequestError(
            f"{name} must have elements of {planned.itemsize} bytes and cover bytes {first} to {end} from its first element, got "
            f"shape {array.shape}, strides of {array.strides} bytes and dtype {array.dtype}"
        )


def align_of(address: int) -> int:
    """Return the alignment of an address in bytes: the largest power of 2 that divides the address, up to 16."""
    return min(WIDEST_BYTES, address & -address) if address else WIDEST_BYTES


def _operands(plan: Any, src: int, dst: int, *, placement: DevicePlacement | None = None) -> list[SimpleNamespace]:
    """Return the arguments of a plan's kernel, on the host or on GPUs, from the addresses of the caller's first elements."""
    problem, (src_bytes, dst_bytes) = plan.problem, plan.base_offsets
    name = "__array_interface__" if placement is None else "__cuda_array_interface__"
    devices = (None, None) if placement is None else (placement.source, placement.destination)
    addresses = src + src_bytes, dst + dst_bytes
    operands = []
    for n, (address, side) in enumerate(zip(addresses, problem.sides, strict=True)):
        interface = {
            "shape": side.shape,
            "strides": side.strides_bytes,
            "typestr": np.dtype(problem.dtype).str,
            "data": (address, n == 0),  # the source is read-only
            "version": 3,
        }
        operands.append(SimpleNamespace(**{name: interface}, device_id=devices[n]))
    return operands
