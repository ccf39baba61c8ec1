"""Count the cost of a copy from its PTX and addresses, without a GPU or an emulator: ``tc.cost(plan)``."""

from __future__ import annotations

from functools import total_ordering
from math import prod
from typing import Any

import attrs
import numpy as np

from tilecopy_core.description import CopyRequest
from tilecopy_core.dispatch import Plan
from tilecopy_core.errors import PluginError, TilecopyError, checked, frozen, instance_of, optional
from tilecopy_core.integers import Symbol, evaluate, fits, of_atom, symbols_of
from tilecopy_core.layout import html_table
from tilecopy_core.memory import Buffer, Region
from tilecopy_core.ptx import Bindings, PtxBuilder, Recipe, Register
from tilecopy_core.registry import Registry, default_registry
from tilecopy_partitions import TensorMap

from ..emission_checks import emit_checked, register_bits, statements
from ..harness import stand_ins
from . import h200
from .counts import CopyCounts
from .interpreter import GLOBAL_STEP_BYTES, SHARED_STEP_BYTES, CopyInterpreter, Counters, live_registers
from .traffic import BANK_BYTES, BANKS, SECTOR_BYTES

_COUNTED = {field.name for field in attrs.fields(CopyCounts)} & {field.name for field in attrs.fields(Counters)}
_COUNTED -= {"sectors", "wavefronts"}
"""The counts that a cost takes from an interpreter as they are; the others may be unknown."""
_DATA_PATHS = ("tensor", "bulk", "cp.async", "registers")
_FAR = 4096
"""The value that is assumed for a size that has no bounds."""


@total_ordering
@frozen(order=False)
class Cost(CopyCounts):
    """The cost of one copy. ``a < b`` means that ``a`` is expected to take less GPU time per byte.

    Costs are ordered by :attr:`cycles` per byte, then by instructions per byte, then by registers. Costs with unknown traffic come after
    all others. The order is meant for an H200 on which all SMs move a large array by copies of this kind. The other attributes are the
    counts, see :class:`~tilecopy.costs.counts.CopyCounts`.
    """

    @property
    def limits(self) -> dict[str, float]:
        """A dict from each GPU limit (``dram``, ...) to an SM's cycles per copy if only this limit applies."""
        return h200.MODEL.limits(self)

    @property
    def active_per_sm(self) -> int:
        """The number of scopes (such as CTAs or warps) that execute the copy on one SM at the same time."""
        return h200.MODEL.active_per_sm(self)

    @property
    def cycles(self) -> float | None:
        """An SM's cycles per copy while all SMs execute this copy, or None if the traffic is unknown."""
        return None if self.not_counted else h200.MODEL.cycles(self)

    @property
    def _key(self) -> tuple[bool, float, float, int]:
        is_unknown = bool(self.not_counted)
        return is_unknown, h200.MODEL.cycles(self) / self.nbytes, self.instructions / self.nbytes, self.registers

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, Cost):
            return NotImplemented
        return self._key < other._key

    def __str__(self) -> str:
        most = "at most " if self.upper_bound else ""
        parts = [f"{most}{self.max_instructions_per_thread:,} instructions per thread ({self.instructions:,} in all)"]
        parts += [f"{' and '.join(map(str, self.access_bytes))} bytes each"] if self.access_bytes else []
        parts.append(f"{self.registers} registers")
        for count, ideal, unit in (
            (self.sectors, self.ideal_sectors, "sectors"),
            (self.wavefronts, self.ideal_wavefronts, "wavefronts"),
        ):
            if ideal or count is None:
                parts.append(f"{count_text(count)} {unit} (ideal {ideal:,})")
        if self.not_counted:
            parts.append(f"not counted: {', '.join(self.not_counted)}")
        return ", ".join(parts)

    def _repr_html_(self) -> str:
        return html_table(attrs.asdict(self).items())


def count_text(count: float | None) -> str:
    """Return a count as a string, or ``unknown`` for None."""
    return "unknown" if count is None else f"{count:,.0f}"


@checked(
    plan=instance_of("a Plan from plan() or from a kernel's .plans", Plan),
    registry=optional(instance_of("a Registry", Registry)),
)
def cost(plan: Plan, registry: Registry | None = None) -> Cost:
    """Return the cost of a plan's copy: instructions, registers, and traffic of global and shared memory.

    Everything is counted from the PTX that the variant writes and from the addresses of each thread. The count assumes that arrays
    begin at multiples of 256 bytes, that the CTA's box is inside the array, and that sizes and scalars have no divisors but those
    that are declared.

    Args:
        plan: a result of :func:`tilecopy.plan`, or one of a kernel's ``plans``.
        registry: the registry that has the plan's variant; by default that of the process.

    Raises:
        RequestError: the copy can only be written in its kernel, for example because of memory that only the kernel has.
        PluginError: the variant is not installed any more, or is faulty.
    """
    plugin = (registry or default_registry()).table().plugin_named(plan.variant)
    options = dict(plan.request.options)
    options |= {} if plugin is None or plugin.variant is None else stand_ins(plugin.variant, options)
    dst, src = _with_address(plan.request.dst), _with_address(plan.request.src)
    request = attrs.evolve(plan.request, dst=dst, src=src, options=options)
    plan = attrs.evolve(plan, request=request)
    outside = _CountedBindings(request)
    threads, mask = request.active.cta_threads or request.scope.threads, request.active.mask
    ptx = PtxBuilder(request.target, min(threads, 1024), bindings=outside)
    emit_checked(plan, ptx, registry)
    lines = list(statements(ptx.lines))
    try:
        counters = CopyInterpreter(lines, outside.known, outside.symbols, outside.tids, outside.aside).counters
    except (IndexError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise PluginError(f"the cost of variant {plan.variant} ({plan.package}) cannot be counted: {error}") from error
    bits = {name: bits for name, bits in register_bits(ptx).items() if bits > 1}
    before, after = outside.fragment_registers(request.src), outside.fragment_registers(request.dst)
    nbytes, shared_bytes = request.src.nbytes, _accessed_bytes(request, "shared", outside.symbols)
    touched = np.unique(np.concatenate(counters.touched)) if counters.touched else np.zeros(0, np.int64)
    tiles = {region.buffer.memory for region in (request.dst, request.src) if region.buffer.space == "shared"}
    counted: dict[str, Any] = {name: getattr(counters, name) for name in _COUNTED}
    return Cost(
        variant=plan.variant,
        threads=request.scope.threads,
        cta_threads=threads,
        copies_per_cta=max(1, (threads if mask is None else sum(mask)) // request.scope.threads),
        nbytes=nbytes,
        stores=request.dst.buffer.space == "global",
        access_bytes=tuple(sorted(counters.accesses, reverse=True)),
        registers=live_registers(lines, before, after, bits),
        sectors=None if counters.unknown["global"] else counters.sectors,
        ideal_sectors=-(-_accessed_bytes(request, "global", outside.symbols) // SECTOR_BYTES),
        data_path=next((path for path in _DATA_PATHS if path in counters.data_paths), ""),
        wavefronts=None if counters.unknown["shared"] else counters.wavefronts,
        ideal_wavefronts=-(-shared_bytes // (BANKS * BANK_BYTES)) if counters.shared_requests else 0,
        touched_sector_bytes=len(touched) * SECTOR_BYTES,
        contiguous_pieces=int((np.diff(touched) != 1).sum()) + bool(len(touched)),
        in_flight_bytes=counters.batch_bytes,
        shared_bytes=sum(memory.span_bytes for memory in tiles),
        not_counted=tuple(sorted(set().union(*counters.unknown.values()))),
        **counted,
    )


def _with_address(region: Region) -> Region:
    """Return the region; tensor memory that no kernel has allocated gets an address."""
    buffer = region.buffer
    if buffer.space != "tmem" or buffer.allocated_addr is not None:
        return region
    holder = Buffer((1,), "uint32", space="shared", name=f"{buffer.name}_address")
    return attrs.evolve(region, buffer=attrs.evolve(buffer, allocated_addr=holder))


class _CountedBindings(Bindings):
    """The bindings of a copy whose cost is counted, in which each operand has a value.

    Attributes:
        known: register or special register -> its value in each thread.
        symbols: the value of every symbol.
        tids: index in the CTA of each thread of the scope.
    """

    def __init__(self, request: CopyRequest) -> None:
        super().__init__()
        self.symbols = _assume_values(request)
        scope, mask = request.scope, request.active.mask
        first = mask.index(True) if mask is not None and True in mask else 0
        first -= first % scope.threads
        self.tids = np.arange(first, first + scope.threads)
        self.known: dict[str, Any] = {"%tid.x": self.tids, "%laneid": self.tids % 32, "%cluster_ctarank": 0}
        self.known |= {
            symbol.register: value for symbol, value in self.symbols.items() if symbol.register not in ("", "%tid.x")
        }
        self._bases: dict[Any, int] = {}
        self._operands = {request.dst.buffer.memory, request.src.buffer.memory}
        self._words: dict[Any, list[Register]] = {}

    def _base(self, buffer: Buffer, step: int) -> int:
        return self._bases.setdefault(buffer.memory, (len(self._bases) + 1) * step)

    def pointer(self, emitter: Any, buffer: Buffer) -> Register:
        register = super().pointer(emitter, buffer)
        self.known[register.name] = self._base(buffer, GLOBAL_STEP_BYTES)
        return register

    def shared_base(self, emitter: Any, buffer: Buffer) -> Register:
        register = super().shared_base(emitter, buffer)
        self.known[register.name] = self._base(buffer, SHARED_STEP_BYTES)
        return register

    def symbol(self, emitter: Any, found: Symbol) -> Register:
        if not found.register:
            self.scalars.setdefault(found, (found.name, "b32" if fits(of_atom(found), 32) else "b64"))
        register = super().symbol(emitter, found)
        if not found.register:
            self.known[register.name] = self.symbols.setdefault(found, _one(found))
        return register

    def fragment(self, emitter: Any, buffer: Buffer) -> list[Register]:
        self._words[buffer.memory] = super().fragment(emitter, buffer)
        return self._words[buffer.memory]

    def host_parameter(self, emitter: Any, recipe: Recipe) -> Register:
        register = super().host_parameter(emitter, recipe)
        if isinstance(recipe, TensorMap):
            self.known[register.name] = (self._base(recipe.array, GLOBAL_STEP_BYTES), recipe)
        return register

    @property
    def aside(self) -> set[int]:
        """The base addresses of shared buffers that are not operands of the copy, such as an mbarrier."""
        return {base for memory, base in self._bases.items() if memory not in self._operands}

    def fragment_registers(self, region: Region) -> set[str]:
        """Return the names of the registers that hold the fragment of a region."""
        return {register.name for register in self._words.get(region.buffer.memory, ())}


def _one(found: Symbol, about: int = 1) -> int:
    """Return a value near ``about`` that the symbol may have, with no divisor but the declared one."""
    value = max(found.lower or 0, about)
    value = (-(-value // found.multiple_of) | (about > 1)) * found.multiple_of
    if found.upper is not None and value > found.upper:
        value = found.upper // found.multiple_of * found.multiple_of
    return value


def _assume_values(request: CopyRequest) -> dict[Symbol, int]:
    """Return values for the symbols of a request. If possible, its boxes are inside their arrays with them."""
    sizes: set[Symbol] = set()
    starts: set[Symbol] = set()
    for region in (request.dst, request.src):
        for value in (*region.buffer.shape, *region.buffer.placed_by()):
            sizes |= symbols_of(value)
        for value in region.starts:
            starts |= symbols_of(value)
    far = {symbol: _one(symbol, _FAR) for symbol in sizes}
    for near in (1, 2, 0):
        values = {**{symbol: _one(symbol, near) for symbol in starts}, **far}
        if all(_inside(region, values) for region in (request.dst, request.src)):
            return values
    return values


def _accessed_bytes(request: CopyRequest, space: str, values: dict[Symbol, int]) -> int:
    """Return the number of bytes inside the arrays that a copy reads or writes in a state space, with fills."""
    total = 0
    for region, other in ((request.src, request.dst), (request.dst, request.src)):
        if region.buffer.space != space:
            continue
        spans = _spans_inside(region, values)
        if region is request.src or request.fill is None:
            pairs = zip(spans, _spans_inside(other, values), strict=True)
            spans = [(max(low, other_low), min(high, other_high)) for (low, high), (other_low, other_high) in pairs]
        total += prod(max(0, high - low) for low, high in spans) * region.buffer.dtype.bits // 8
    return total


def _spans_inside(region: Region, values: dict[Symbol, int]) -> list[tuple[int, int]]:
    """Return the range of coordinates of a box that are inside its array, by dimension.

    All dimensions of extent 1 become the first range, because two regions may have different numbers of them. A dimension whose start
    depends on the thread is inside.
    """
    spans, is_there = [], True
    for start, extent, size in zip(region.starts, region.extents, region.buffer.shape, strict=True):
        try:
            first = evaluate(start, values)
            low, high = max(0, -first), min(extent, evaluate(size, values) - first)
        except (KeyError, TilecopyError):
            low, high = 0, extent
        if extent == 1:
            is_there = is_there and low < high
        else:
            spans.append((int(low), int(high)))
    return [(0, int(is_there)), *spans]


def _inside(region: Region, values: dict[Symbol, int]) -> bool:
    return _spans_inside(region, values) == [(0, 1), *((0, extent) for extent in region.extents if extent != 1)]
