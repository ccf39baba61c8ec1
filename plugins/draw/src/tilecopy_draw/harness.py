"""The harness that runs a copy for a picture. The kernel's arrays are flat, so that each byte can be marked."""

from __future__ import annotations

from typing import Any

import tilecopy as tc
from tilecopy.harness import COMPLETIONS, OPTIONS, TMEM_LANES, Harness, HarnessCopy, HarnessMemory, element_storage

from tilecopy_core.plugin import Iter, bounds_of, evaluate, short_repr, substitute, symbols_of

MOST_BYTES = 1 << 26
"""The most bytes of one memory of a copy that is run."""
TMEM_COLUMNS = 512


class DrawHarness(Harness):
    """The harness that runs a copy for a picture. It fills source and destination, runs the copy and stores the result.

    Attributes:
        request: the copy.
        values: the value of each integer that is known only at run time.
        numbers: the values that are arguments of the kernel, before those of the sides.

    Raises:
        RequestError: this kernel does not support the copy, or its arrays are too large.
    """

    def __init__(self, request: tc.CopyRequest, variant: str) -> None:
        self.request, self.record = request, _record_of(variant)
        record = self.record
        if request.src.buffer.dtype.bits % 8:
            raise tc.RequestError(
                f"draw: {request}: elements must have at least 8 bits, got {request.src.buffer.dtype}"
            )
        for layout in (request.src.sliced_layout(), request.dst.sliced_layout()):
            if layout is not None and any((bounds_of(it.stride)[0] or 0) < 0 for it in layout.unswizzled.shard):
                raise tc.RequestError(
                    f"draw: {request}: strides must not be negative, got {layout}: draw the copy with positive strides"
                )
        if record.completion not in COMPLETIONS:
            raise tc.RequestError(
                f"draw: the completion of {variant} must be one of {', '.join(COMPLETIONS)}, got {record.completion!r}"
            )
        mask, is_one = request.options.get("multicast"), record.threads == "one"
        if request.options.get("cta_group", 1) != 1 or not isinstance(mask, (int, type(None))):
            raise tc.RequestError(
                f"draw: a copy with cta_group=2 or a run-time multicast mask is not supported, got cta_group={request.options.get('cta_group', 1)} and multicast={mask}"
            )
        receivers = tuple(rank for rank in range(16) if (mask or 0) >> rank & 1)
        receiving = 1 if mask is None else max(2, 1 << max(receivers, default=0).bit_length())
        tids = [symbol for symbol in self._symbols() if symbol.register == "%tid.x"]
        least = TMEM_LANES if "tmem" in request.spaces else 32 if is_one else 1
        threads = max(least, request.scope.threads, *(1 + (tid.upper or 0) for tid in tids))
        copy = HarnessCopy(
            variant=record,
            op=request.op,
            scope=request.scope.kind,
            options={name: value for name, value in request.options.items() if name not in OPTIONS},
            target=request.target,
            outside=request.outside,
            issued_by_one=is_one or (request.scope.kind == "thread" and not tids),
            nbytes=request.dst.nbytes,
            cluster=2 if any(option.name == "remote_cta_id" for option in record.options) else receiving,
            receivers=receivers,
        )
        super().__init__(tc.KernelBuilder("draw", threads=threads), copy, COMPLETIONS[record.completion])
        self.values: dict[Any, int] = {}
        self.swap: dict[Any, Any] = {}
        self.numbers: list[int] = []
        self._declare()
        for side in ("src", "dst"):
            self.memories[side] = self._memory(side, getattr(request, side))
        self.mbarrier = self.kernel.mbarrier() if self.needs_mbarrier else None

    def _symbols(self) -> list[Any]:
        """Return the integers that are known only at run time, in order of first appearance."""
        symbols: dict[Any, None] = {}
        for region in (self.request.dst, self.request.src):
            for value in (*region.starts, *region.buffer.shape, *region.buffer.placed_by()):
                symbols.update(dict.fromkeys(sorted(symbols_of(value), key=str)))
        return list(symbols)

    def _declare(self) -> None:
        """Declare each symbol as a scalar, and choose its value: the minimum, or for an extent the first that holds the box."""
        most: dict[Any, int] = {}
        for number, symbol in enumerate(self._symbols()):
            step, low = symbol.multiple_of, symbol.lower if symbol.lower is not None else 0
            upper = 2**31 - 1 if symbol.upper is None else symbol.upper
            self.values[symbol] = -(-low // step) * step
            most[symbol] = upper // step * step
            if not symbol.register:
                dtype = "int32" if low >= -(2**31) and upper < 2**31 else "int64"
                self.swap[symbol] = self.kernel.scalar(f"n{number}", dtype, multiple_of=step, lower=low, upper=upper)
        for region in (self.request.dst, self.request.src):
            for start, extent, size in zip(region.starts, region.extents, region.buffer.shape, strict=True):
                for symbol in symbols_of(size):
                    while (now := self.values[symbol]) < most[symbol] and evaluate(size - start, self.values) < extent:
                        self.values[symbol] = min(most[symbol], max(symbol.multiple_of, 2 * now))
        self.numbers = [self.values[symbol] for symbol in self.swap]

    def _now(self, value: Any) -> Any:
        return substitute(value, self.swap)

    def _layout(self, layout: Any) -> Any:
        if not isinstance(layout, tc.TileLayout):
            return type(layout)(tuple(map(self._now, layout.shape)), tuple(map(self._now, layout.strides)))
        shard = [Iter(it.extent, self._now(it.stride), it.axis) for it in layout.shard]
        offset = {axis: self._now(layout.offset_on(axis)) for axis in layout.axes}
        return tc.TileLayout.of(shard, layout.replica, offset, layout.swizzle)

    def _memory(self, name: str, region: tc.Region) -> HarnessMemory:
        k, old, size = self.kernel, region.buffer, region.buffer.dtype.bits // 8
        word, words = element_storage(old.dtype.bits)
        starts, ctas = tuple(map(self._now, region.starts)), self.copy.cluster
        if old.space == "tmem":
            assert isinstance(old.layout, tc.TileLayout)
            columns = -(-old.layout.span(tc.TCol) * size // 4)
            halves = size == 2 and all(it.stride % 2 == 0 for it in old.layout.shard if it.axis.name == "TCol")
            if halves and name == "dst":
                raise tc.RequestError(
                    f"draw: a destination in the lower halves of tensor memory columns is not supported, got {old}"
                )
            buffer = k.tmem(old.shape, old.dtype, layout=old.layout, name=name)
            self.regions[name] = tc.Region(buffer, starts, region.extents)
            array = k.param(f"{name}_given", (ctas, TMEM_LANES, TMEM_COLUMNS), "uint32")
            return HarnessMemory(array, None, buffer, columns=max(32, 1 << (columns - 1).bit_length()))
        count = int(evaluate(old.storage_offset + old.layout.reach(), self.values)) * words
        if count * size > MOST_BYTES:
            raise tc.RequestError(
                f"draw: {old} must have at most {MOST_BYTES} bytes, got {count * size}: draw the copy with a smaller array"
            )
        if old.space == "global":
            array = pool = k.param(name, (count,), word, align_bytes=old.align_bytes)
        elif old.space == "shared":
            array = k.param(f"{name}_given", (ctas, count), word)
            pool = k.shared(count, word, name=name, align_bytes=max(size, old.align_bytes))
        else:
            array = k.param(f"{name}_given", (ctas, k.threads, count), word)
            pool = k.local(count, word, name=name)
        buffer = tc.Buffer(
            tuple(map(self._now, old.shape)), old.dtype, space=old.space, name=pool.name, layout=self._layout(old.layout),
            memory=pool.memory, align_bytes=pool.align_bytes, storage_offset=self._now(old.storage_offset),
        )  # fmt: skip
        self.regions[name] = tc.Region(buffer, starts, region.extents)
        return HarnessMemory(array, pool, buffer)

    def build(self) -> tc.BuiltKernel:
        """Return the built kernel."""
        self.body()
        cluster = self.copy.cluster
        return self.kernel.build(target=self.copy.target, grid=cluster, cluster=cluster if self.has_cluster else None)


def _record_of(variant: str) -> tc.Variant:
    for plugin in tc.default_registry().plugins():
        if plugin.name == variant and plugin.variant is not None:
            return plugin.variant
    raise tc.PluginError(f"draw: variant {short_repr(variant)} must be installed: install its package")
