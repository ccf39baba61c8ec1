"""Conditions for the threads that own elements of a register operand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, reduce
from itertools import pairwise, product
from math import prod
from operator import and_
from typing import Any

from tilecopy_core import RequestError, laneid, thread, tid_in_wg, tx, warp, warpgroup, warpid, wgid, wid_in_wg
from tilecopy_core.description import is_thread_id
from tilecopy_core.errors import np, short_repr
from tilecopy_core.integers import Condition, Expr, Int, bounds_of, constant_of, evaluate, is_int_like, symbols_of
from tilecopy_core.layout import Axis, Iter, Pair, TileLayout, m
from tilecopy_core.plugin import CopyRequest, Decline, PtxBuilder, Region, Scope, frozen

_SCOPES = ("thread", "warp", "warpgroup", "cta")
"""Scopes inside a CTA, from fine to coarse: a thread axis counts those of one inside another."""
_THREAD_AXES = (tx, tid_in_wg, laneid, warpid, wid_in_wg, wgid)
_THREADS = {scope.kind: scope.threads for scope in (thread(), warp(), warpgroup())}


def axis_index(axis: Axis, tid: Int) -> Int:
    """Return the index of a thread along an axis. Raise RequestError if the axis does not count threads or warps of a CTA."""
    if axis.kind != "thread" or axis.finer not in _THREADS:
        raise RequestError(f"axis_index: the axis must count threads or warps of a CTA, got {axis}")
    threads = _THREADS[axis.finer]
    place = tid // threads
    return place % (_THREADS[axis.coarser] // threads) if axis.coarser in _THREADS else place


def by_thread(value: Int | Condition, cta_threads: int) -> Any:
    """Return an array with one value per thread of a CTA: the value of an integer or condition in that thread."""

    def number(operand: Int) -> Any:
        if not is_int_like(operand) or not all(map(is_thread_id, symbols_of(operand))):
            raise RequestError(f"by_thread: the value must depend only on the thread's index, got {short_repr(value)}")
        return evaluate(operand, dict.fromkeys(symbols_of(operand), np.arange(cta_threads)))

    values = value.evaluate(number) if isinstance(value, Condition) else number(value)
    return np.broadcast_to(np.asarray(values), (cta_threads,))


@frozen
class Digit:
    """A frozen record of one digit of a thread's index along an axis: ``(index - first) // stride % modulus``.

    Attributes:
        first: index of the first owner along the axis.
        stride: threads from one of the ``extent`` steps to the next.
        modulus: steps before the next coarser iter of the axis takes over, or None for the coarsest.
        step: elements that one step adds on the other side; 0 of a replica.
        replica: the iter repeats the data; a store is done by step 0.
        along: coordinates that one step adds along each guarded dimension.
    """

    axis: Axis
    first: int
    stride: int
    extent: int
    modulus: int | None
    step: Int
    replica: bool = False
    along: tuple[Int, ...] = ()

    def value(self, tid: Int) -> Int:
        """Return the value of this digit for the thread with index ``tid``."""
        digit = (axis_index(self.axis, tid) - self.first) // self.stride
        return digit if self.modulus is None else digit % self.modulus


def owner_conditions(digits: Sequence[Digit], tid: Int, cta_threads: int, *, store: bool) -> list[Condition]:
    """Return the conditions under which a thread owns elements. For a store, the thread must also hold the first replica.

    Conditions that every thread of the CTA meets are left out.
    """
    conditions: list[Condition | bool] = []
    for digit in digits:
        value = digit.value(tid)
        if store and digit.replica:
            conditions.append(value == 0)
        elif (last := bounds_of(value)[1]) is None or last >= digit.extent:
            conditions.append(value < digit.extent)
    for axis in dict.fromkeys(digit.axis for digit in digits):
        digit = min((d for d in digits if d.axis == axis), key=lambda d: d.stride)
        if digit.first:
            conditions.append(axis_index(axis, tid) >= digit.first)
        if digit.stride > 1:
            conditions.append((axis_index(axis, tid) - digit.first) % digit.stride == 0)
    return [c for c in conditions if isinstance(c, Condition) and not np.all(by_thread(c, cta_threads))]


@contextmanager
def by_owners(ptx: PtxBuilder, digits: Sequence[Digit], *, store: bool = False) -> Iterator[None]:
    """Open a block for the threads that own elements. For a store, these threads must also hold the first replica."""
    conditions = owner_conditions(digits, ptx.tid, ptx.cta_threads, store=store)
    if not conditions:
        yield
        return
    with ptx.if_(ptx.predicate(reduce(and_, conditions))):
        yield


def owning_threads(
    request: CopyRequest, digits: Sequence[Digit], *, store: bool = False
) -> np.ndarray[Any, np.dtype[np.bool]]:
    """Return a boolean array that is True for the threads of the scope that own elements."""
    tid, threads = request.scope.tid, request.scope.threads
    owns = np.ones(threads, bool)
    for condition in owner_conditions(digits, tid, threads, store=store):
        owns &= by_thread(condition, threads)
    return owns


def fragment_and_memory(request: CopyRequest) -> tuple[Region, Region]:
    """Return the register operand first, then the other operand."""
    return (request.dst, request.src) if request.dst.buffer.space == "local" else (request.src, request.dst)


def owned_fragment(request: CopyRequest) -> str | None:
    """Check that the register operand's box has a layout that assigns elements to threads of the scope."""
    fragment, _ = fragment_and_memory(request)
    if fragment.buffer.layout.swizzle is not None:
        return f"the layout of register operand {fragment.buffer.name} must not have a swizzle, because registers have no addresses"
    layout = fragment.sliced_layout()
    if layout is None:
        return f"register operand {fragment} must not split an extent of its layout, got {fragment.buffer.layout}"
    return why_no_owners(request, layout)


def why_no_owners(request: CopyRequest, layout: TileLayout) -> str | None:
    """Return why the scope's threads cannot own a register operand with this layout. Return None if they can."""
    fragment, _ = fragment_and_memory(request)
    name, kind, threads = fragment.buffer.name, request.scope.kind, thread_axes(fragment)
    for axis in threads:
        if axis.coarser not in _SCOPES[: _SCOPES.index(kind) + 1]:
            remedy = "; use a wider scope" if axis.coarser in _SCOPES else ""
            return f"register operand {name} must have only axes inside a {kind} in a copy by one {kind}, got axis {axis}{remedy}"
        if isinstance(layout.offset_on(axis), Expr):
            return f"register operand {fragment}: the offset along {axis} must be constant, because it decides which threads own the box, got {layout.offset_on(axis)}"
    if _overlap(threads):
        return f"register operand {name} must not count the same threads on two axes, got axes {', '.join(a.name for a in threads)}"
    if isinstance(layout.offset_on(m), Expr) or any(isinstance(it.stride, Expr) for it in layout.shard):
        return f"register operand {fragment}: register indices must be constant, got {layout}"
    for axis in threads:
        _, available = bounds_of(axis_index(axis, request.scope.tid))
        assert available is not None  # the thread's index is bounded by the scope
        if (last := layout.span(axis) - 1) > available:
            return f"layout indices along {axis} must be at most {available}, the last index in a {kind}, got {last}"
    thread_places, is_grid = _there(request.scope, tuple(threads))
    if not is_grid and (nobody := _nobodys(thread_places, threads, layout)):
        where = ", ".join(f"{place} along {axis}" for axis, place in zip(threads, nobody, strict=True))
        return f"each element of the layout must belong to a thread, but none of the {request.scope.threads} threads of the {kind} is at {where}"
    if request.src is not fragment or len(thread_places) == request.scope.threads:
        return None  # a store needs one owner an element: the axes must tell all threads of the scope apart
    return (
        f"the thread axes of register operand {name} distinguish only {len(thread_places)} of the {request.scope.threads} threads of the {kind} "
        f"({', '.join(a.name for a in threads) or 'no thread axis'}), so it is ambiguous which thread stores: "
        f"{_remedy(request.scope, threads)}"
    )


def _overlap(axes: Sequence[Axis]) -> bool:
    """Return whether two axes count the same threads."""
    counted = sorted((_SCOPES.index(axis.finer), _SCOPES.index(axis.coarser)) for axis in axes)
    return any(finer < coarser for (_, coarser), (finer, _) in pairwise(counted))


def _remedy(scope: Scope, axes: Sequence[Axis]) -> str:
    """Return advice about the offset of a layout that selects the thread that stores each element."""
    for axis in _THREAD_AXES:
        together = (*axes, axis)
        inside = _SCOPES.index(axis.coarser) <= _SCOPES.index(scope.kind)
        if inside and not _overlap(together) and len(_there(scope, together)[0]) == scope.threads:
            return f"add an offset along {axis} to the layout to select the thread that stores, for example layout=... + 0 @ {axis}"
    return "use a layout whose axes distinguish the threads"


def thread_axes(fragment: Region) -> list[Axis]:
    """Return the thread axes of a fragment's buffer: all axes except the register axis ``m``."""
    return [axis for axis in fragment.buffer.layout.axes if axis != m]


@lru_cache(maxsize=256)
def _there(scope: Scope, axes: tuple[Axis, ...]) -> tuple[frozenset[tuple[int, ...]], bool]:
    """Return the places of a scope's threads along some axes, and whether each place on one axis goes with each on the others."""
    places = [by_thread(axis_index(axis, scope.tid), scope.threads).tolist() for axis in axes]
    thread_places = frozenset(zip(*places, strict=True)) if places else frozenset({()})
    return thread_places, len(thread_places) == prod([len(set(along_axis)) for along_axis in places])


def _nobodys(there: frozenset[tuple[int, ...]], axes: list[Axis], layout: TileLayout) -> tuple[int, ...] | None:
    """Return a place of a layout's elements along some axes where no thread is, such as lane 16 of a last warp of 16; or None."""
    reached = []
    for axis in axes:
        axis_places = {constant_of(layout.offset_on(axis))}
        for it in layout.shard:
            if it.axis == axis:
                axis_places = {at + int(it.stride) * step for at in axis_places for step in range(it.extent)}
        reached.append(sorted(axis_places))
    return next((places for places in product(*reached) if places not in there), None)


def digits_of(threads: list[Pair], layout: TileLayout, axes: list[Axis]) -> tuple[Digit, ...] | Decline:
    """Return a :class:`Digit` per iter along the thread axes. Return Decline if iters of an axis overlap."""
    if any(it.axis == m for it in layout.replica):
        return Decline(f"the register layout must not have replicas along the register axis m, got {layout}")
    entries: list[tuple[Iter, Int, bool, tuple[Int, ...]]] = [
        *((thread, other.stride, False, tuple(it.stride for it in guarded)) for thread, other, *guarded in threads),
        *((it, 0, True, ()) for it in layout.replica),
    ]
    digits: list[Digit] = []
    for axis in axes:
        first = layout.offset_on(axis)
        assert isinstance(first, int)
        of_axis = sorted((e for e in entries if e[0].axis == axis), key=lambda e: (int(e[0].stride), e[0].extent))
        for position, (it, step, replica, along) in enumerate(of_axis):
            stride, extent = int(it.stride), it.extent
            above = int(of_axis[position + 1][0].stride) if position + 1 < len(of_axis) else None
            if stride < 1 or (above is not None and (above % stride or extent * stride > above)):
                return Decline(
                    f"the iters along {axis} of {layout} must not overlap, so that a thread's index determines its elements"
                )
            modulus = None if above is None else above // stride
            digits.append(Digit(axis, first, stride, extent, modulus, step, replica, along))
        if not of_axis:  # a slice, or an axis that the layout only offsets, leaves the threads of one place
            digits.append(Digit(axis, first, 1, 1, None, 0))
    return tuple(digits)
