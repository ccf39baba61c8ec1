"""Who owns what: the register layout's thread axes become digits of a thread's id, the rest its private elements."""

from __future__ import annotations

import attrs
import numpy as np

from tilecopy_core import CopyRequest, Decline, Iter, Region, Swizzle, SwizzledLayout, TileLayout, m
from tilecopy_core.expr import Condition, Expr, Int, as_expr, evaluate
from tilecopy_core.layout import Axis
from tilecopy_core.partition import WIDTHS_BITS, by_descending_stride, refine, sliced, why_not_width
from tilecopy_core.scope import TID, axis_index, tid_symbol

AXES = {
    "thread": (),
    "warp": ("laneid",),
    "warpgroup": ("laneid", "wid_in_wg", "tid_in_wg"),
    "cta": ("laneid", "warpid", "wid_in_wg", "wgid", "tid_in_wg", "tx"),
}
"""The thread axes that each scope spans; any other is coarser."""

INDEPENDENT = (
    {"tx"},
    {"laneid", "warpid"},
    {"laneid", "wid_in_wg", "wgid"},
    {"tid_in_wg", "wgid"},
)
"""Axes that may stand together in one layout: none of them says again what another says."""


@attrs.frozen
class Digit:
    """One iter along a thread axis: ``place // stride % modulus`` of the thread's place, times ``step`` elements.

    Attributes:
        axis: the thread axis.
        stride: threads from one step to the next.
        extent: number of steps.
        modulus: steps before the next coarser iter of the axis takes over, or None for the coarsest.
        step: elements that one step adds on the other side.
        replica: the iter repeats the data; a store is done by step 0.
    """

    axis: Axis
    stride: int
    extent: int
    modulus: int | None
    step: Int
    replica: bool = False

    def value(self, tid: Int) -> Int:
        """The digit of a thread."""
        digit = axis_index(self.axis, tid) // self.stride
        return digit if self.modulus is None else digit % self.modulus


@attrs.frozen
class FragmentPartition:
    """A thread moves ``outer`` vectors of ``vec`` elements between its registers and the other side.

    Attributes:
        outer: vectors of one thread.
        threads: threads of the scope.
        vec: elements of one vector.
        vec_bits: width of one vector.
        digits: how a thread's id chooses its elements.
        registers: layout of a thread's elements in its registers, from the fragment's first.
        memory: layout of the same elements on the other side, without the digits.
        swizzle: of the other side.
        fragment: the register operand.
        other: the memory operand.
        narrowed: why each wider width was not taken.
    """

    outer: int
    threads: int
    vec: int
    vec_bits: int
    digits: tuple[Digit, ...]
    registers: TileLayout
    memory: TileLayout
    swizzle: Swizzle | None
    fragment: Region
    other: Region
    narrowed: tuple[str, ...] = ()

    def summary(self) -> str:
        """One line for ``plan.explain()``."""
        return (
            f"outer {self.outer} x vec {self.vec} ({self.vec_bits} bits, {self.vec_bits // 8} bytes each) in each of "
            f"{self.threads} threads, {self.fragment.buffer.span_elems} elements a thread"
        )

    def offset(self, tid: Int) -> Int:
        """What a thread's id adds to the element offset of the other side."""
        total: Int = 0
        for digit in self.digits:
            if not digit.replica:
                total = total + digit.value(tid) * digit.step
        return total

    def conditions(self, tid: Int, *, store: bool) -> list[Condition]:
        """What must hold of a thread for it to own anything (and, to store, to be the first of its replicas)."""
        found: list[Condition] = []
        finest: dict[Axis, Digit] = {}
        for digit in self.digits:
            value = as_expr(digit.value(tid))
            found.append(value == 0 if store and digit.replica else value < digit.extent)
            if digit.axis not in finest or digit.stride < finest[digit.axis].stride:
                finest[digit.axis] = digit
        found += [
            as_expr(axis_index(axis, tid) % digit.stride) == 0 for axis, digit in finest.items() if digit.stride > 1
        ]
        return found

    def guards(self, tid: Int, cta_threads: int, *, store: bool) -> list[Condition]:
        """The conditions that some thread of the CTA does not meet."""
        threads = {TID: np.arange(cta_threads)}
        return [
            condition
            for condition in self.conditions(tid, store=store)
            if not np.all(condition.evaluate(lambda operand: np.asarray(evaluate(operand, threads))))
        ]


def operands(request: CopyRequest) -> tuple[Region, Region]:
    """The register operand and the other one."""
    return (request.dst, request.src) if request.dst.buffer.space == "local" else (request.src, request.dst)


def register_layout(request: CopyRequest) -> str | None:
    """The register operand has a layout of threads and registers that the scope can own."""
    fragment, _ = operands(request)
    if isinstance(fragment.buffer.layout, SwizzledLayout):
        return f"register operand {fragment.buffer.name} has a swizzled layout; registers have no addresses to permute"
    layout = fragment.sliced_layout()
    if not isinstance(layout, TileLayout):
        return f"register operand {fragment} is not a layout of its own: the box cuts inside an iter of {fragment.buffer.layout}"
    kind = request.scope.kind
    threads = [axis for axis in layout.axes if axis != m]
    for axis in threads:
        if axis.name not in AXES[kind]:
            return f"register operand {fragment.buffer.name}: the axis {axis} is coarser than the scope {kind}"
        if layout.offset_on(axis) != 0:
            return (
                f"register operand {fragment}: an offset of {layout.offset_on(axis)} along {axis} after slicing; the "
                "threads that own the box do not begin at the scope's first"
            )
    if not any({axis.name for axis in threads} <= group for group in INDEPENDENT):
        return f"register operand {fragment.buffer.name}: the axes {', '.join(a.name for a in threads)} name the same threads twice"
    if as_expr(layout.offset_on(m)).terms or any(as_expr(it.stride).terms for it in layout.shard):
        return f"register operand {fragment}: a register index that is not constant"
    return _threads_exist(request, layout, threads) or _store_is_whole(request, threads)


def _scope_threads(request: CopyRequest) -> Expr:
    return tid_symbol(request.scope.threads)


def _threads_exist(request: CopyRequest, layout: TileLayout, threads: list[Axis]) -> str | None:
    tids = {TID: np.arange(request.scope.threads)}
    for axis in threads:
        available = int(np.max(evaluate(axis_index(axis, _scope_threads(request)), tids)))
        last = layout.span(axis) - 1
        if last > available:
            return f"the layout reaches place {last} along {axis}; the {request.scope.kind} has places 0 to {available}"
    return None


def _store_is_whole(request: CopyRequest, threads: list[Axis]) -> str | None:
    """A store needs one owner an element: the axes must tell all threads of the scope apart."""
    fragment, _ = operands(request)
    if request.src is not fragment:
        return None
    tids = {TID: np.arange(request.scope.threads)}
    places = [
        np.broadcast_to(evaluate(axis_index(a, _scope_threads(request)), tids), (request.scope.threads,))
        for a in threads
    ]
    distinct = len(np.unique(np.stack(places), axis=1)[0]) if places else 1
    if distinct != request.scope.threads:
        named = ", ".join(a.name for a in threads) or "no thread axis"
        return (
            f"register operand {fragment.buffer.name} names {distinct} of the {request.scope.threads} threads of the "
            f"{request.scope.kind} ({named}): each of the others holds its own values, so the store is ambiguous"
        )
    return None


def sliced_other(request: CopyRequest) -> str | None:
    """The other operand's box is a layout over memory, without replicas."""
    _, other = operands(request)
    cut = sliced("destination" if other is request.dst else "source", other)
    if isinstance(cut, Decline):
        return cut.reason
    if cut[0].replica:
        return f"operand {other.buffer.name} has replicas {list(cut[0].replica)}"
    return None


def fragment_partition(request: CopyRequest) -> FragmentPartition | Decline:
    """The partition that the register layout induces, with the widest vector."""
    fragment, other = operands(request)
    layout, cut = fragment.sliced_layout(), sliced("other", other)
    assert isinstance(layout, TileLayout)
    assert not isinstance(cut, Decline)
    tile, swizzle = cut
    pairs = refine(layout.shard, tile.shard)
    if pairs is None:
        return Decline(f"{fragment} {layout} and {other} {tile} cannot be split along common extents")
    threads = [(register, memory) for register, memory in pairs if register.axis != m]
    digits = _digits(threads, layout)
    if isinstance(digits, Decline):
        return digits
    private = [(memory, register) for register, memory in pairs if register.axis == m]
    ordered = by_descending_stride(private)
    memory_iters, register_iters = [pair[0] for pair in ordered], [pair[1] for pair in ordered]
    count = int(np.prod([it.extent for it in memory_iters], dtype=np.int64))
    thread_iters = [Iter(digit.extent, digit.step) for digit in digits if not digit.replica]
    start, first = tile.offset_on(m), layout.offset_on(m)
    narrowed: list[str] = []
    for bits in WIDTHS_BITS:
        why = why_not_width(bits, other, [*thread_iters, *memory_iters], start, swizzle)
        why = why or why_not_width(bits, fragment, register_iters, first, None)
        vec = bits // fragment.buffer.dtype.bits
        if why is None and vec > 1 and (not memory_iters or memory_iters[-1].extent % vec):
            why = f"a thread's {count} elements have no contiguous run of {vec}"
        if why is not None:
            narrowed.append(f"{bits} bits: {why}")
            continue
        return FragmentPartition(
            count // vec,
            request.scope.threads,
            vec,
            bits,
            digits,
            TileLayout.of(register_iters, (), {m: first}),
            TileLayout.of(memory_iters, (), {m: start}),
            swizzle,
            fragment,
            other,
            tuple(narrowed),
        )
    return Decline(f"no vector width of {', '.join(map(str, WIDTHS_BITS))} bits fits: {'; '.join(narrowed)}")


def _digits(threads: list[tuple[Iter, Iter]], layout: TileLayout) -> tuple[Digit, ...] | Decline:
    """Each thread iter as a digit of the thread's place on its axis; the strides of one axis must nest."""
    entries = [(register, memory.stride, False) for register, memory in threads]
    entries += [(it, 0, True) for it in layout.replica if it.axis != m]
    if any(it.axis == m for it in layout.replica):
        return Decline(f"the register layout {layout} has replicas along m")
    digits: list[Digit] = []
    for axis in sorted({register.axis for register, _, _ in entries}, key=lambda axis: axis.name):
        along = sorted((e for e in entries if e[0].axis == axis), key=lambda e: as_expr(e[0].stride).const)
        for position, (register, step, replica) in enumerate(along):
            stride = as_expr(register.stride).const
            above = as_expr(along[position + 1][0].stride).const if position + 1 < len(along) else None
            if stride < 1 or (above is not None and (above % stride or register.extent * stride > above)):
                return Decline(
                    f"the iters along {axis} of {layout} overlap: no thread's place says which steps are its own"
                )
            digits.append(
                Digit(axis, stride, register.extent, None if above is None else above // stride, step, replica)
            )
    return tuple(digits)
