"""The smallest kernel around one copy: both memories are filled, what completes the copy follows, and the destination is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import Any

import attrs
import tilecopy as tc

from tilecopy_core.plugin import Iter, bounds_of, evaluate, shown, substitute, symbols_of

MOST_BYTES = 1 << 26
"""Of a memory that is run."""
LANES, COLUMNS = 128, 512
"""Of tensor memory; a column has 32 bits."""
KNOWN = ("barrier", "cp_async_group", "mbarrier", "bulk_group", "tcgen05_commit")
"""What completes the copies that are run."""
_FILL_COLUMN = "{{ .reg .b32 w; ld.global.b32 w, {1}; tcgen05.st.sync.aligned.32x32b.x1.b32 [{0}], {{w}}; tcgen05.wait::st.sync.aligned; }}"
_SHOW_COLUMN = "{{ .reg .b32 w; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{w}}, [{0}]; tcgen05.wait::ld.sync.aligned; st.global.b32 {1}, w; }}"
"""A column of a warp's lanes of tensor memory, from and to a word of an array."""


@attrs.frozen
class Operand:
    """One side of the copy in the kernel.

    Attributes:
        given: the array that the caller passes; of the memories of an SM one row a CTA, a thread or a lane.
        pool: the memory, flat; None of tensor memory.
        region: the box of the copy.
        words: elements of the pool, or columns of tensor memory.
    """

    given: tc.Buffer
    pool: tc.Buffer | None
    region: tc.Region
    words: int

    @property
    def columns(self) -> int:
        """Of the allocation in tensor memory: a power of two."""
        return max(32, 1 << (self.words - 1).bit_length())


class Around:
    """The kernel around a copy.

    Attributes:
        request, variant, record: the copy, who lowers it, and its record.
        ctas, threads: of the cluster, and of a CTA.
        src, dst: both sides.
        values: of each integer that is known at run time only.
        numbers: of these the arguments, which come before those of the sides.

    Raises:
        RequestError: it needs what this kernel has not, or its arrays are too large.
    """

    def __init__(self, request: tc.CopyRequest, variant: str) -> None:
        self.request, self.variant, self.record = request, variant, _record_of(variant)
        self.options = dict(request.options)
        if request.src.buffer.dtype.bits % 8:
            raise tc.RequestError(f"draw: {request}: elements of 4 bits are not run")
        for layout in (request.src.sliced_layout(), request.dst.sliced_layout()):
            if layout is not None and any((bounds_of(it.stride)[0] or 0) < 0 for it in layout.unswizzled.shard):
                raise tc.RequestError(
                    f"draw: {request}: negative strides are not run; draw the copy with positive ones"
                )
        self.mask = self.options.get("multicast")
        names = {option.name for option in self.record.options}
        self.far = "remote_cta_id" in names
        if self.options.get("cta_group", 1) != 1 or not isinstance(self.mask, (int, type(None))):
            raise tc.RequestError("draw: a pair of CTAs (cta_group=2) and a mask known at run time only are not run")
        receiving = max(2, 1 << ((self.mask or 1).bit_length() - 1).bit_length())
        self.ctas = 2 if self.far else 1 if self.mask is None else receiving
        least = LANES if "tmem" in request.spaces else 32 if self.record.threads == "one" else 1
        bounds = [1 + (each.upper or 0) for each in self._symbols() if each.register == "%tid.x"]
        self.threads = max(least, request.scope.threads, *bounds)
        self.k = k = tc.KernelBuilder("draw", threads=self.threads)
        self.values: dict[Any, int] = {}
        self.swap: dict[Any, Any] = {}
        self.numbers: list[int] = []
        self._declare()
        self.rank: Any = k.cluster_rank() if self.ctas > 1 else 0
        self.src, self.dst = self._operand("src", request.src), self._operand("dst", request.dst)
        self.tensor = next((side for side in (self.src, self.dst) if side.pool is None), None)
        self.mbarrier = k.mbarrier() if "mbar" in names or self.record.completion == "tcgen05_commit" else None

    def _symbols(self) -> list[Any]:
        """The integers that are known at run time, in order of first appearance."""
        found: dict[Any, None] = {}
        for region in (self.request.dst, self.request.src):
            for value in (*region.starts, *region.buffer.shape, *region.buffer.placed_by()):
                found.update(dict.fromkeys(sorted(symbols_of(value), key=str)))
        return list(found)

    def _declare(self) -> None:
        """Each symbol as a scalar with what is known of it; its value is the least that there is, of a size one that holds the box, if any."""
        most: dict[Any, int] = {}
        for number, each in enumerate(self._symbols()):
            step, low = each.multiple_of, each.lower if each.lower is not None else 0
            upper = 2**31 - 1 if each.upper is None else each.upper
            self.values[each] = -(-low // step) * step
            most[each] = upper // step * step
            if not each.register:
                dtype = "int32" if low >= -(2**31) and upper < 2**31 else "int64"
                self.swap[each] = self.k.scalar(f"n{number}", dtype, multiple_of=step, lower=low, upper=upper)
        for region in (self.request.dst, self.request.src):
            for start, extent, size in zip(region.starts, region.extents, region.buffer.shape, strict=True):
                for each in symbols_of(size):
                    while (now := self.values[each]) < most[each] and evaluate(size - start, self.values) < extent:
                        self.values[each] = min(most[each], max(each.multiple_of, 2 * now))
        self.numbers = [self.values[each] for each in self.swap]

    def _now(self, value: Any) -> Any:
        return substitute(value, self.swap)

    def _layout(self, layout: Any) -> Any:
        if not isinstance(layout, tc.TileLayout):
            return type(layout)(tuple(map(self._now, layout.shape)), tuple(map(self._now, layout.strides)))
        shard = [Iter(each.extent, self._now(each.stride), each.axis) for each in layout.shard]
        offset = {axis: self._now(layout.offset_on(axis)) for axis in layout.axes}
        return tc.TileLayout.of(shard, layout.replica, offset, layout.swizzle)

    def _operand(self, name: str, region: tc.Region) -> Operand:
        k, old, size = self.k, region.buffer, region.buffer.dtype.bits // 8
        word, words = (f"uint{8 * size}", 1) if size <= 8 else ("uint64", size // 8)
        if old.space == "tmem":
            assert isinstance(old.layout, tc.TileLayout)
            columns = -(-old.layout.span(tc.TCol) * size // 4)
            halves = size == 2 and all(each.stride % 2 == 0 for each in old.layout.shard if each.axis.name == "TCol")
            if halves and name == "dst":
                raise tc.RequestError(
                    f"draw: {old} has elements in the lower halves of columns, and those copies are not run"
                )
            made = k.tmem(old.shape, old.dtype, layout=old.layout, name=name)
            box = tc.Region(made, tuple(map(self._now, region.starts)), region.extents)
            return Operand(k.param(f"{name}_given", (LANES, COLUMNS), "uint32"), None, box, columns)
        count = int(evaluate(old.elem_offset + old.layout.reach(), self.values)) * words
        if count * size > MOST_BYTES:
            raise tc.RequestError(
                f"draw: {old} takes {count * size} bytes; at most {MOST_BYTES} are run. Draw the copy with a smaller array"
            )
        if old.space == "global":
            given = pool = k.param(name, (count,), word, align_bytes=old.align_bytes)
        elif old.space == "shared":
            given = k.param(f"{name}_given", (self.ctas, count), word)
            pool = k.shared(count, word, name=name, align_bytes=max(size, old.align_bytes))
        else:
            given = k.param(f"{name}_given", (self.threads, count), word)
            pool = k.local(count, word, name=name)
        made = tc.Buffer(
            tuple(map(self._now, old.shape)), old.dtype, space=old.space, name=pool.name, layout=self._layout(old.layout),
            memory=pool.memory, align_bytes=pool.align_bytes, elem_offset=self._now(old.elem_offset),
        )  # fmt: skip
        box = tc.Region(made, tuple(map(self._now, region.starts)), region.extents)
        return Operand(given, pool, box, count)

    # ------------------------------------------------------------------------------------------- its statements

    def build(self) -> tc.BuiltKernel:
        """The whole kernel."""
        k, tensor = self.k, self.tensor
        if self.mbarrier is not None:
            with k.if_(k.thread_id() == 0):
                self.mbarrier.init(1)
                k.fence_mbarrier_init()
        if tensor is not None:
            with k.if_(k.warp_id() == 0):
                k.tcgen05_alloc(tensor.region.buffer, columns=tensor.columns)
            self._synchronize()
        self._move(self.src, fills=True)
        self._move(self.dst, fills=True)
        self._copy()
        self._move(self.dst, fills=False)
        if tensor is not None:
            self._synchronize()
            with k.if_(k.warp_id() == 0):
                k.tcgen05_dealloc(tensor.region.buffer, columns=tensor.columns)
        if self.ctas > 1:
            k.cluster_sync()
        return k.build(target=self.request.target, grid=self.ctas, cluster=self.ctas if self.ctas > 1 else None)

    def _move(self, side: Operand, *, fills: bool) -> None:
        """Fill a memory of the SM with what is given, or give back what it holds."""
        k, pool, threads = self.k, side.pool, self.threads
        if pool is None:
            with k.if_(k.thread_id() < LANES):
                base = k.load(side.region.buffer.allocated_addr[0]) + k.cast(k.thread_id() // 32 * (32 << 16), "uint32")
                for at in range(side.words):
                    k.inline_ptx(_FILL_COLUMN if fills else _SHOW_COLUMN, base + at, side.given[k.thread_id(), at])
        elif pool.space == "local":
            for at in range(side.words):
                self._word(side.given[k.thread_id(), at], pool[at], fills=fills)
        elif pool.space == "shared":
            with k.range(-(-side.words // threads)) as turn, k.if_(turn * threads + k.thread_id() < side.words):
                at = turn * threads + k.thread_id()
                self._word(side.given[self.rank, at], pool[at], fills=fills)

    def _word(self, there: tc.Region, here: tc.Region, *, fills: bool) -> None:
        self.k.store(here, self.k.load(there)) if fills else self.k.store(there, self.k.load(here))

    def _synchronize(self) -> None:
        if self.tensor is not None:
            self.k.tcgen05_fence_before()
        self.k.cluster_sync() if self.ctas > 1 else self.k.cta_sync()
        if self.tensor is not None:
            self.k.tcgen05_fence_after()

    def _copy(self) -> None:
        k, how, receivers = self.k, self.record.completion, [r for r in range(16) if (self.mask or 0) >> r & 1]
        if how not in KNOWN:
            raise tc.RequestError(
                f"draw: {self.variant} completes by {how!r}; what is run completes by {', '.join(KNOWN)}"
            )
        if how in ("mbarrier", "bulk_group", "tcgen05_commit"):
            k.fence_proxy_async()
        self._synchronize()
        if how == "mbarrier":
            assert self.mbarrier is not None
            with self._if(k.thread_id() == 0), self._receiving(receivers):
                self.mbarrier.arrive_expect_tx(self.request.dst.nbytes)
            self._synchronize()
        alone = self.record.threads == "one" or self._alone()
        with self._if(k.thread_id() == 0 if alone else None), self._if(self.rank == 0 if receivers else None):
            self._issue()
            if how == "tcgen05_commit":
                assert self.mbarrier is not None
                k.tcgen05_commit(self.mbarrier)
            if how == "bulk_group":
                k.bulk_commit()
                k.bulk_wait(0)
        if how == "cp_async_group":
            k.cp_async_commit()
            k.cp_async_wait(0)
        if self.mbarrier is not None:
            with self._receiving(receivers):
                self.mbarrier.wait(0, cluster=self.ctas > 1)
        self._synchronize()

    def _alone(self) -> bool:
        """Whether the copy is one thread's: nothing of it says which."""
        return self.request.scope.kind == "thread" and not any(each.register == "%tid.x" for each in self._symbols())

    @contextmanager
    def _if(self, condition: Any) -> Iterator[None]:
        if condition is None or condition is True:
            yield
            return
        with self.k.if_(condition):
            yield

    def _receiving(self, ranks: Sequence[int]) -> Any:
        return self._if(reduce(or_, [self.rank == rank for rank in ranks]) if ranks else None)

    def _issue(self) -> None:
        request, options = self.request, dict(self.options)
        if self.mbarrier is not None and self.record.completion == "mbarrier":
            options["mbar"] = self.mbarrier
        if self.far:
            options["remote_cta_id"] = self.rank ^ 1
        copy = getattr(getattr(self.k, request.scope.kind), request.op)
        copy(self.dst.region, self.src.region, variant=self.variant, outside=request.outside, **options)


def _record_of(variant: str) -> tc.Variant:
    for plugin in tc.default_registry().plugins():
        if plugin.name == variant and plugin.variant is not None:
            return plugin.variant
    raise tc.PluginError(f"draw: variant {shown(variant)} is not installed")
