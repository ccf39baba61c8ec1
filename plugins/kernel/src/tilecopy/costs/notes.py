"""Notes on plans with a high cost. A note names the likely mistake and says what to do instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from attrs import evolve

from tilecopy_core import CopyRequest, Decline, Int, LayoutError, Region, Registry, RequestError, TileLayout, Variant, m
from tilecopy_core.dispatch import Note, Outcome
from tilecopy_core.errors import attribute, frozen, integer
from tilecopy_core.integers import add, mul

_MOST_INSTRUCTIONS = 128
"""The instructions per thread of a copy above which other variants are compared."""
_QUARTER = 4
"""Another variant is named if it needs at most the instructions divided by this."""
_BOX = 256
"""The most elements of a tensor copy's box along a dimension."""
_AXES = {"warp": "laneid", "warpgroup": "tid_in_wg", "cta": "tx"}


def _of_instructions(start: str, chosen: str, other: Variant, needs: str) -> Note:
    """Return a note that begins with ``start`` and says what the variant ``other`` needs, and how to choose one of the two."""
    how = f"copies with variant {other.name} complete with {other.completion!r}; to keep {chosen}, pass variant={chosen!r}"
    return Note("instructions", f"{start}; {needs}; {how}", other.name)


def _needs_of_one(other: Variant, lacks: Sequence[str]) -> str:
    """Return what a variant whose copies one thread issues needs: to be named, or the options in ``lacks``."""
    lacking = ", ".join(f"{option.name}= ({option.meaning})" for option in other.options if option.name in lacks)
    remedy = f"pass {lacking}" if lacks else f"pass variant={other.name!r}"
    return f"variant {other.name} is for copies by one thread and may need far fewer instructions; to use it, {remedy}"


def _of_registers(count: int, request: CopyRequest) -> Note:
    """Return a note that a thread has fewer registers than ``count``, with the largest fragment of the copy."""
    fragments = [region.buffer for region in (request.dst, request.src) if region.buffer.space == "local"]
    buffer = max(fragments, key=lambda each: attribute(each, "registers_per_thread") or 0)
    layout, kind, threads = buffer.memory.layout, request.scope.kind, request.scope.threads
    remedy = "copy smaller tiles, or distribute the tile over more threads"
    if kind != "thread" and isinstance(layout, TileLayout) and layout.axes == (m,):
        remedy = f"its layout has no thread axis, so each of the {threads} threads holds the whole fragment; give the fragment a layout with a thread axis"
        per_thread, rest = divmod(layout.size, threads)
        remedy += "" if rest else f", such as layout=TileLayout(S[({threads}, {per_thread}) : (1 @ {_AXES[kind]}, 1)])"
    return Note(
        "registers",
        f"fragment {buffer.name} needs {count:,} registers per thread; at most {request.most_registers} fit, and the rest spill to "
        f"local memory: {remedy}",
    )


@frozen
class _Way:
    """A variant that accepts a copy, or would with the options in ``lacks``; ``count`` is its instructions per thread, 0 if unknown."""

    record: Variant
    priority: int
    count: int
    lacks: tuple[str, ...]


def _instructions_per_thread(request: CopyRequest, partition: Any) -> int:
    """Return the number of loads, stores and copies that each thread issues, 0 if the partition does not say."""
    count = integer(attribute(partition, "instructions_per_thread")) or 0
    return 2 * count if request.op == "copy" and {*request.spaces} == {"global", "shared"} else count


def _way(outcome: Outcome, request: CopyRequest, registry: Registry) -> _Way | None:
    """Return the cost of a variant that was not chosen, or None if it declines or raises."""
    plugin = registry.table().plugin_named(outcome.name)
    with suppress(Exception):
        if plugin and (plugin.record.threads == "one" or not outcome.lacks):
            verdict = registry.call(plugin, "tilecopy_predicate", request=request)
            partition = registry.call(plugin, "tilecopy_partition", request=request) if verdict else None
            if partition is not None and not isinstance(partition, Decline):
                priority = registry.priority_of(plugin, verdict.priority).value
                return _Way(plugin.record, priority, _instructions_per_thread(request, partition), outcome.lacks)
    return None


def _fewer(count: int, outcomes: list[Outcome], request: CopyRequest, registry: Registry) -> list[_Way]:
    """Return the variants that need at most a quarter of the instructions, the highest priority first."""
    ways = filter(None, (_way(outcome, request, registry) for outcome in outcomes))
    fewer = [way for way in ways if _QUARTER * way.count <= count]
    return sorted(fewer, key=lambda way: (-way.priority, way.record.name))


def _with_fewer_dimensions(request: CopyRequest) -> CopyRequest | None:
    """Return the copy with each dimension that both sides copy whole merged into the one before it, except the last.

    Return None if no dimensions can be merged.
    """
    sides = request.dst, request.src
    kept = [[dim for dim, extent in enumerate(side.extents) if extent > 1] for side in sides]
    joined: list[set[int]] = [set(), set()]
    for at in range(1, len(kept[0]) - 1):
        pair = [(side, dims[at - 1], dims[at]) for side, dims in zip(sides, kept, strict=True)]
        whole = all(side.starts[dim] == 0 and side.extents[dim] == side.buffer.shape[dim] for side, _, dim in pair)
        if whole and all(dim == before + 1 for _, before, dim in pair):
            for dims, (_, _, dim) in zip(joined, pair, strict=True):
                dims.add(dim)
    if not any(joined):
        return None
    dst, src = (_with_joined(side, dims) for side, dims in zip(sides, joined, strict=True))
    return evolve(request, dst=dst, src=src)


def _with_joined(region: Region, dims: set[int]) -> Region:
    """Return the same box of a view in which these dimensions are merged into those before them."""
    parts: list[tuple[Int, Int, int]] = []
    for dim, (size, start, extent) in enumerate(zip(region.buffer.shape, region.starts, region.extents, strict=True)):
        outer_size, outer_start, outer_extent = parts.pop() if dim in dims else (1, 0, 1)
        parts.append((mul(outer_size, size), add(mul(outer_start, size), start), outer_extent * extent))
    shape, starts, extents = zip(*parts, strict=True)
    inside = tuple(ends for dim, ends in enumerate(region.inside) if dim not in dims)
    return Region(region.buffer.view(shape=shape), starts, extents, inside)


def _as_written(region: Region) -> str:
    """Return the Python expression of a box of a view."""
    name = region.buffer.name
    return f"{name}.view(shape={region.buffer.shape}){str(region).removeprefix(name)}"


def _without_rest(request: CopyRequest) -> Iterator[tuple[CopyRequest, str]]:
    """Yield the copy without the elements that remain after whole boxes along a dimension, and describe these elements."""
    sides = request.src, request.dst
    kept = [[dim for dim, extent in enumerate(side.extents) if extent > 1] for side in sides]
    for dims in zip(*kept, strict=True):
        extent = request.src.extents[dims[0]]
        if rest := extent % _BOX if extent > _BOX else 0:
            src, dst = (
                evolve(side, extents=(*side.extents[:dim], extent - rest, *side.extents[dim + 1 :]))
                for side, dim in zip(sides, dims, strict=True)
            )
            yield evolve(request, src=src, dst=dst), f"the last {rest} of {extent} elements along dimension {dims[0]}"


def _of_copies(count: int, request: CopyRequest, chosen: str, outcomes: list[Outcome], registry: Registry) -> Note:
    """Return a note that one thread issues ``count`` asynchronous copies, and how to write the copy with fewer."""
    start, asked = f"one thread issues {count:,} asynchronous copies", [*outcomes, Outcome(chosen, "not asked", "")]
    notations: list[tuple[CopyRequest, str]] = []
    with suppress(LayoutError, RequestError):
        if joined := _with_fewer_dimensions(request):
            views = f"from {_as_written(joined.src)} to {_as_written(joined.dst)}"
            notations.append((joined, f"if you copy {views}"))
    notations += [(part, f"if you copy {rest} separately") for part, rest in _without_rest(request)]
    for other, how in notations:
        for way in _fewer(count, asked, other, registry)[:1]:
            name, needed = way.record.name, f"{way.count:,} instructions " if way.count else "fewer instructions "
            lacks = "".join(f", with {option}=" for option in way.lacks)
            return Note("copies", f"{start}; variant {name} needs {needed}{how}{lacks}", name)
    plugin = registry.table().plugin_named(chosen)
    if plugin is not None and plugin.record.threads != "one":
        return Note(
            "copies", f"{start}; distribute them over more threads: copy with all threads of the CTA (k.cta.copy_async)"
        )
    share = {
        ("global", "shared"): ", or copy with another variant and all threads of the CTA (k.cta.copy_async)",
        ("shared", "global"): ", or copy with all threads of the CTA (k.cta.copy)",
    }.get(request.spaces, "")
    text = f"{start}, one per chunk that is contiguous in both source and destination; choose layouts with longer chunks{share}"
    return Note("copies", text)


def notes(
    request: CopyRequest, chosen: str, partition: Any, outcomes: list[Outcome], registry: Registry, *, demanded: bool
) -> tuple[Note, ...]:
    """Return the notes on a chosen variant. Hooks of other variants are called only if a thread issues too many instructions."""
    notes: list[Note] = []
    count = _instructions_per_thread(request, partition)
    if count > _MOST_INSTRUCTIONS:
        notes += _of_too_many(count, request, chosen, outcomes, registry, demanded=demanded)
    if "local" in request.spaces:
        registers = integer(attribute(partition, "registers_per_thread")) or 0
        if registers > request.most_registers:
            notes.append(_of_registers(registers, request))
    return tuple(notes)


def _of_too_many(
    count: int, request: CopyRequest, chosen: str, outcomes: list[Outcome], registry: Registry, *, demanded: bool
) -> list[Note]:
    """Return the note on a copy of which each thread issues ``count`` instructions, if another way needs fewer."""
    single = request.scope.kind == "thread"
    able = [o for o in outcomes if o.priority is not None or (single and o.lacks)]
    ways = _fewer(count, able, request, registry)
    start = f"{'one' if single else 'each'} thread issues {count:,} instructions"
    for way in ways if single else ():
        if way.record.threads == "one":
            return [_of_instructions(start, chosen, way.record, _needs_of_one(way.record, way.lacks))]
    accepting = [way for way in ways if way.count and not way.lacks]
    if accepting:
        best = min(accepting, key=lambda way: way.count)
        name = best.record.name
        needs = (
            f"variant {name} accepts the copy and needs {best.count:,} instructions per thread: pass variant={name!r}"
        )
        return [_of_instructions(start, chosen, best.record, needs)]
    if single and request.op == "copy_async" and not demanded:
        return [_of_copies(count, request, chosen, outcomes, registry)]
    return []
