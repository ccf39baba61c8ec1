"""Running a plan on device addresses, or on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from .asking import shown
from .overlap import Footprint
from .problem import DTYPES, WIDEST_BYTES, Dim, Place, Problem
from .tilings import Tiling

Planned = tuple[Problem, Place, Tiling, tc.BuiltKernel]
"""A plan's normal form, where it begins, its tiling, and its kernel."""


@attrs.frozen(eq=False)
class Strided:
    """Memory as the dimensions of a problem, for whoever reads NumPy's or CUDA's array interface.

    Attributes:
        interface: the one it has, version 3.
        device: whether it is memory of a GPU.
        owner: what keeps it alive.
    """

    interface: dict[str, Any]
    device: bool
    owner: Any = None

    def __getattr__(self, name: str) -> Any:
        if name != ("__cuda_array_interface__" if self.device else "__array_interface__"):
            raise AttributeError(name)
        return self.interface


def bind(
    plan: Callable[[int, int], Planned], executor: str, sides: tuple[Footprint, Footprint]
) -> Callable[[Any, Any, Any], Any]:
    """What moves arrays of one form.

    Args:
        plan: plans for addresses that are multiples of so many bytes.
        executor: ``"cuda"`` for addresses in device memory, ``"emulator"`` for NumPy arrays.
        sides: the bytes of source and destination, from their first elements.

    Raises:
        RequestError: no such executor.
    """
    if isinstance(executor, str) and executor == "cuda":
        return OnDevice(plan)
    if isinstance(executor, str) and executor == "emulator":
        return lambda source, destination, _: _on_host(plan, sides, source, destination)
    raise tc.RequestError(f"executor={shown(executor)}: a relayout runs on 'cuda' or 'emulator'")


@attrs.frozen(eq=False)
class OnDevice:
    """What moves arrays of one form in device memory, wherever they lie.

    Attributes:
        plan: plans for addresses that are multiples of so many bytes.
        launches: by :func:`low_bits` of both addresses, the launch of their plan and where it begins, in bytes from each.
    """

    plan: Callable[[int, int], Planned]
    launches: dict[int, tuple[Callable[..., None], int, int]] = attrs.field(factory=dict)

    def __call__(self, source: int, destination: int, stream: Any) -> None:
        """Launch, planned first where no addresses like these were seen."""
        try:
            key = low_bits(source, destination)
        except TypeError:
            said = f"source {shown(source)}, destination {shown(destination)}"
            raise tc.RequestError(f"{said}: addresses in device memory, as integers") from None
        if key not in self.launches:
            planned = self.plan(align_of(source), align_of(destination))
            operands = _operands(planned, source, destination, device=True)
            launch = planned[-1].launcher(*operands, executor="cuda")
            self.launches[key] = launch, planned[1].src_bytes, planned[1].dst_bytes
        launch, src_bytes, dst_bytes = self.launches[key]
        launch((source + src_bytes, destination + dst_bytes), stream)


def low_bits(source: int, destination: int) -> int:
    """What a plan depends on of two addresses: each one's remainder by :data:`WIDEST_BYTES`."""
    return (source & 15) << 4 | destination & 15


def _on_host(
    plan: Callable[[int, int], Planned], sides: tuple[Footprint, Footprint], source: Any, destination: Any
) -> Any:
    _demand("source", source, sides[0])
    _demand("destination", destination, sides[1])
    if not destination.flags.writeable:
        raise tc.RequestError("destination is read-only")
    addresses = [int(array.__array_interface__["data"][0]) for array in (source, destination)]
    planned = plan(*map(align_of, addresses))
    views = _operands(planned, *addresses, device=False, owners=(source, destination))
    return planned[-1](*map(np.asarray, views), executor="emulator")


def _demand(name: str, array: Any, planned: Footprint) -> None:
    """An array holds at least the bytes that a plan reads or writes: they are reached by address.

    Raises:
        RequestError: it is none, its elements are of another size, or it is too short.
    """
    if not isinstance(array, np.ndarray) or array.dtype.hasobject or isinstance(array, np.ma.MaskedArray):
        raise tc.RequestError(f"{name} {shown(array)}: a NumPy array of plain elements is wanted")
    own = Footprint(0, array.shape, array.strides, array.itemsize)
    (low, high), (first, end) = own.span, planned.span
    if array.itemsize != planned.itemsize or not low <= first <= end <= high:
        raise tc.RequestError(
            f"{name}: an array of shape {array.shape}, strides of {array.strides} bytes and dtype {array.dtype}; the plan is for "
            f"elements of {planned.itemsize} bytes, from byte {first} to byte {end} of the first"
        )


def align_of(address: int) -> int:
    """Bytes that an address is a multiple of, up to 16."""
    return min(WIDEST_BYTES, address & -address) if address else WIDEST_BYTES


def _operands(
    planned: Planned, src: int, dst: int, *, device: bool, owners: tuple[Any, Any] = (None, None)
) -> tuple[Strided, Strided]:
    """The arrays that a plan's kernel takes, from the addresses of the caller's first elements."""
    problem, place, *_ = planned
    dtype = np.dtype(DTYPES[problem.elem_bytes])

    def seen(address: int, step: Callable[[Dim], int], readonly: bool, owner: Any) -> Strided:
        interface = {
            "shape": tuple(dim.extent for dim in problem.dims),
            "strides": tuple(step(dim) * problem.elem_bytes for dim in problem.dims),
            "typestr": dtype.str,
            "data": (address, readonly),
            "version": 3,
        }
        return Strided(interface, device, owner)

    return (
        seen(src + place.src_bytes, lambda dim: dim.src, True, owners[0]),
        seen(dst + place.dst_bytes, lambda dim: dim.dst, False, owners[1]),
    )
