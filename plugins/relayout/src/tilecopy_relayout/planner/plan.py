"""Plans of relayouts. A plan holds the normal form, the tiling of least expected cost and the built kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from math import inf, prod
from typing import Any

import attrs
import tilecopy as tc
from tilecopy.overlap import StridedMemory, overlaps_itself
from tilecopy.validators import checked, instance_of, optional

from tilecopy_core.plugin import frozen, row_major, short_repr

from ..arrays.devices import DevicePlacement
from ..arrays.frameworks import driver
from ..axes import rearrangement
from ..validation import EXECUTOR, integers_of
from .candidates import candidates
from .cost import BEST_SHARE, TilingCost, cost_of, least_total
from .kernels import build
from .launching import DeviceLauncher, low_bits, move_on_host
from .problem import WIDEST_BYTES, Problem, RelayoutSpec, problem_of
from .tilings import Tiling

ALIGNMENTS = (1, 2, 4, 8, WIDEST_BYTES)
_MOST_BYTES = 2**49
"""The size of a GPU's virtual address space."""


@frozen
class RelayoutPlan:
    """A frozen record of the plan of one relayout, for addresses that are multiples of ``align_bytes`` (16 by default).

    Attributes:
        spec: the relayout that was planned.
        problem: its normal form.
        base_offsets: the bytes from the caller's first source and destination element to those of the normal form.
        tiling: the tiling with the least expected cost.
        kernel: the kernel of the tiling.
    """

    spec: RelayoutSpec
    problem: Problem
    base_offsets: tuple[int, int]
    tiling: Tiling
    kernel: tc.BuiltKernel

    @property
    def cost(self) -> TilingCost:
        """The expected cost of the tiling."""
        return cost_of(self.problem, self.tiling)

    @property
    def expected_efficiency(self) -> float:
        """The expected throughput relative to a plain copy, for arrays far larger than the caches.

        On an H200 it is within 12 percent of the measured value, and within 30 for elements of 1 and 2 bytes at any address.
        """
        return BEST_SHARE / self.cost.total

    def explain(self) -> str:
        """Return a description of the dimensions, the tiling with its expected cost, and the kernel's copies."""
        problem, factors = self.problem, attrs.asdict(self.cost).items()
        dims = [
            f"  {extent} elements {'backwards ' if n in problem.reversed else ''}"
            f"(source stride {problem.src[n]}, destination stride {problem.dst[n]}), {self.tiling.tile[n]} per box"
            for n, extent in enumerate(problem.extents)
        ]
        costs = ", ".join(f"{name} {factor:.2f}" for name, factor in factors if factor >= 1.005)
        return "\n".join(
            [
                f"relayout of {problem.size} elements of {problem.elem_bytes} bytes by {self.tiling.kind}: "
                f"boxes of {self.tiling.nbytes(problem)} bytes, {self.tiling.threads} threads each",
                *dims,
                f"expected: {self.expected_efficiency:.0%} of the throughput of a plain copy"
                + (f" (factors: {costs})" if costs else ""),
                "",
                self.kernel.explain(),
            ]
        )

    @checked(executor=EXECUTOR, placement=optional(instance_of("a DevicePlacement", DevicePlacement)))
    def bind(self, executor: str, placement: DevicePlacement | None = None) -> Callable[[Any, Any, Any], Any]:
        """Return a function that performs the planned relayout.

        Args:
            executor: with ``"cuda"``, the function takes the addresses of both first elements in device memory and a stream;
                with ``"emulator"``, it takes two NumPy arrays and None.
            placement: for ``"cuda"``, the GPUs of all addresses (:class:`~tilecopy_relayout.arrays.devices.DevicePlacement`). By default the driver finds
                the GPU of each address. The source's GPU launches; if the addresses are on two GPUs, the stream's GPU launches.

        If addresses are multiples of fewer bytes than planned, the first call with them makes another plan.

        Raises:
            RequestError: the executor is unknown. The function raises it for invalid addresses and arrays that are too short.
        """
        plan = partial(plan_of, self.spec, str(self.kernel.target))
        if executor == "emulator":
            return lambda source, destination, _: move_on_host(plan, self.spec, source, destination)
        if placement is not None:
            return DeviceLauncher(plan, placement)
        launcher_on = cache(partial(DeviceLauncher, plan))

        def launch(source: int, destination: int, stream: Any) -> None:
            low_bits(source, destination)  # raises if one is not an address
            placement = DevicePlacement.of(driver().device_of(source), driver().device_of(destination), stream)
            launcher_on(placement)(source, destination, stream)

        return launch


def plan_relayout(
    shape: Sequence[int],
    dtype: Any,
    axes: Any,
    *,
    strides: Sequence[int] | None = None,
    out_strides: Sequence[int] | None = None,
    align_bytes: int = WIDEST_BYTES,
    out_align_bytes: int = WIDEST_BYTES,
    target: str,
    **sizes: int,
) -> RelayoutPlan:
    """Return the plan of a relayout. No GPU is needed.

    Args:
        shape: the shape of the source.
        dtype: the element type, of whole bytes.
        axes: a permutation or a pattern, as in :func:`relayout`.
        strides: the strides of the source in elements, row-major by default; they may be negative or 0.
        out_strides: the strides of the destination in elements, in its own order of dimensions, row-major by default.
        align_bytes: the address of the first source element is a multiple of this: 1, 2, 4, 8 or 16, and at least the bytes
            of an element.
        out_align_bytes: the same for the destination.
        target: the target, such as ``"sm_90a"``.
        sizes: lengths of axes of the pattern.

    Raises:
        RequestError: ``axes``, an extent, a stride or an alignment is invalid, the array has no elements, or the dtype is not
            of whole bytes.
        NoVariantError: a variant that the plan needs is not installed.
        TargetError: the target is unknown.
    """
    element_type, extents = tc.dtype_of(dtype), integers_of("shape", shape)
    elem_bytes = element_type.bits // 8
    if element_type.bits % 8:
        raise tc.RequestError(
            f"dtype must have elements of whole bytes, got {element_type} of {element_type.bits} bits: pack them in pairs as uint8"
        )
    if min(extents, default=1) < 1:
        raise tc.RequestError(f"shape must have extents of at least 1, got {short_repr(shape)}")
    if prod(extents) * elem_bytes > _MOST_BYTES:
        raise tc.RequestError(
            f"an array of this shape must have at most {_MOST_BYTES} bytes, got shape {short_repr(shape)} with {prod(extents) * elem_bytes} bytes"
        )
    moved = rearrangement(axes, extents, sizes)
    source = moved.source_strides(_steps("strides", strides, extents))
    out_steps = moved.destination_strides(_steps("out_strides", out_strides, moved.shape))
    if overlaps_itself(StridedMemory(0, moved.extents, out_steps, 1)):
        raise tc.RequestError(
            f"out_strides must not make elements of the result overlap, got {short_repr(out_strides)} for the shape {moved.shape}"
        )
    for name, align in (("align_bytes", align_bytes), ("out_align_bytes", out_align_bytes)):
        if type(align) is not int or align not in ALIGNMENTS or align < elem_bytes:
            raise tc.RequestError(
                f"{name} must be one of {', '.join(map(str, ALIGNMENTS))} and at least the element size of {elem_bytes} bytes, got {short_repr(align)}"
            )
    spec = RelayoutSpec(moved.extents, source, out_steps, elem_bytes)
    return plan_of(spec, str(tc.target_of(target)), align_bytes, out_align_bytes)


def plan_of(
    spec: RelayoutSpec, target: str, src_align: int = WIDEST_BYTES, dst_align: int = WIDEST_BYTES
) -> RelayoutPlan:
    """Return the plan of a valid relayout, for addresses aligned to ``src_align`` and ``dst_align`` bytes."""
    problem, base_offsets = problem_of(spec, src_align, dst_align)
    return RelayoutPlan(spec, problem, base_offsets, *_best_kernel(problem, target))


def _steps(name: str, strides: Sequence[int] | None, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a side, row-major by default."""
    if strides is None:
        return row_major(shape)
    steps = integers_of(name, strides)
    if len(steps) != len(shape):
        raise tc.RequestError(f"{name} must have one entry per dimension of shape {shape}, got {short_repr(strides)}")
    return steps


@lru_cache(maxsize=512)
def _best_kernel(problem: Problem, target: str) -> tuple[Tiling, tc.BuiltKernel]:
    """Return the best tiling of a problem and its kernel. Cached, because they depend only on the arguments."""
    tiling, _ = choose(problem)
    return tiling, build(problem, tiling, target)


def choose(problem: Problem) -> tuple[Tiling, TilingCost]:
    """Return the tiling with the least expected cost and the cost of this tiling. For equal costs, the first wins."""
    tilings = candidates(problem)
    if len(tilings) == 1:
        return tilings[0], cost_of(problem, tilings[0])
    best = inf, 0
    for least, number in sorted([(least_total(problem, tiling), number) for number, tiling in enumerate(tilings)]):
        if (least, number) >= best:
            break
        best = min(best, (cost_of(problem, tilings[number]).total, number))
    return tilings[best[1]], cost_of(problem, tilings[best[1]])
