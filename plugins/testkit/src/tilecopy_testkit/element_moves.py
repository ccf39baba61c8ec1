"""Functions that list the element moves of a partition and compare them with the moves that the layouts define.

A place is the index of an element in global and shared memory, ``(thread of the scope, element)`` in registers, and
``(lane, element)`` in tensor memory. A move is ``(destination, source)``; the source is None if the destination is filled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import tilecopy as tc

from tilecopy_core.plugin import evaluate, symbols_of
from tilecopy_partitions import Guard, Side, VectorPartition

from . import oracle
from .copy_case import CopyCase, Operand

Place: TypeAlias = "int | tuple[int, int]"
Move: TypeAlias = "tuple[Place, Place | None]"
Values: TypeAlias = Mapping[Any, int]


def moves_of(request: tc.CopyRequest, partition: Any, values: Values) -> list[Move] | None:
    """Return every move of a copy by one scope, such as a warp. Return None if the partition does not list its moves.

    This function lists the moves of a vector partition, for a value of every symbol of the request. Another partition needs a
    method ``moves(request, values)``.
    """
    partition = chosen(partition, values)
    list_moves = getattr(partition, "moves", None)
    if callable(list_moves):
        return list(list_moves(request, values))
    rounds = partition if isinstance(partition, VectorPartition) else getattr(partition, "rounds", None)
    if not isinstance(rounds, VectorPartition) or rounds.threads > request.scope.threads:
        return None
    if (rounds.dst.region, rounds.src.region) != (request.dst, request.src):
        return None  # the rounds belong to only one operand
    moves: list[Move] = []
    part: VectorPartition | None = rounds
    while part is not None:
        moves += _vectors(request, part, values)
        part = part.tail
    return moves


def chosen(partition: Any, values: Values) -> Any:
    """Return ``partition.edge`` if it exists and the box reaches out of bounds, else ``partition``."""
    edge = getattr(partition, "edge", None)
    guards = [guard for guard in getattr(edge, "guards", ()) if guard.dim is not None]
    return partition if edge is None or all(_whole(guard, values) for guard in guards) else edge


def _whole(guard: Guard, values: Values) -> bool:
    start, size = evaluate(guard.start, values), evaluate(guard.size, values)
    return bool(start >= 0 and start + guard.extent <= size)


def _vectors(request: tc.CopyRequest, part: VectorPartition, values: Values) -> Iterator[Move]:
    """Yield the moves of all rounds and threads; each vector is contiguous from its swizzled place."""
    iterations, threads = np.divmod(np.arange(part.outer * part.threads), part.threads)
    turn, thread = tc.symbol("turn", upper=part.outer), tc.symbol("thread", upper=part.threads)
    at = {**values, **dict.fromkeys(symbols_of(turn), iterations), **dict.fromkeys(symbols_of(thread), threads)}
    flat = (turn * part.threads + thread) * part.vec
    moved, known = np.ones(len(iterations), bool), np.ones(len(iterations), bool)
    for guard in part.guards:
        coordinate, size = evaluate(guard.position(flat), at), evaluate(guard.size, values)
        inside = (evaluate(flat, at) < guard.coordinates.size) & (coordinate >= 0) & (coordinate < size)
        if guard.dim is None or guard.region.buffer is request.dst.buffer:
            moved = moved & inside
        else:
            known = known & inside
    if request.outside is None or request.outside.kind != "fill":
        moved = moved & known
    dst, src = (
        _places(side, side.offset(turn, thread, part.shape), at, len(iterations), part.vec)[moved]
        for side in (part.dst, part.src)
    )
    known_places = np.repeat(known[moved], part.vec)
    for into, out_of, has in zip(dst.ravel().tolist(), src.ravel().tolist(), known_places.tolist(), strict=True):
        yield into, out_of if has else None


def _places(side: Side, offset: Any, at: Mapping[Any, Any], count: int, vec: int) -> Any:
    first = np.asarray(evaluate(offset, at))
    if side.swizzle is not None:
        first = oracle.swizzle_address(first, side.swizzle.per_element, side.swizzle.swizzle_len, side.swizzle.atom_len)
    first = np.broadcast_to(first, (count,)) + side.region.buffer.storage_offset
    return first[:, None] + np.arange(vec)


def expected_moves(d: CopyCase, values: Mapping[str, int]) -> dict[Place, set[Place | None]]:
    """For each destination location that the copy writes, return the source locations of its element."""
    sources: dict[int, set[Place | None]] = {}
    for place, element in _by_element(d, d.src, values):
        sources.setdefault(element, set()).add(place)
    filled: set[Place | None] = {None} if oracle.fill_bytes(d) is not None else set()
    sources_by_place = {place: sources.get(element, filled) for place, element in _by_element(d, d.dst, values)}
    return {place: place_sources for place, place_sources in sources_by_place.items() if place_sources}


def _by_element(d: CopyCase, operand: Operand, values: Mapping[str, int]) -> Iterable[tuple[Place, int]]:
    index, element = oracle.index_of(d, operand, values)
    if operand.space in ("global", "shared"):
        return zip(index[-1].tolist(), element.tolist(), strict=True)
    rows = index[-2] - (oracle.threads_of(d, values["unit"])[0] if operand.space == "local" else 0)
    return zip(zip(rows.tolist(), index[-1].tolist(), strict=True), element.tolist(), strict=True)


def why_wrong(case: CopyCase, values: Mapping[str, int], moves: Iterable[Move]) -> str | None:
    """Return a description of the first wrong move. Return None if all moves agree with the layouts."""
    spaces = case.dst.space, case.src.space

    def move_text(dst: Place, src: Place | None) -> str:
        return f"{_place_text(spaces[1], src)} to {_place_text(spaces[0], dst)}"

    due, done = expected_moves(case, values), set[Place]()
    for dst, src in moves:
        if dst in done:
            return f"the partition moves {move_text(dst, src)}, a location that it writes twice"
        if dst not in due:
            return f"the partition moves {move_text(dst, src)}, a location outside the destination's box"
        if src not in due[dst]:
            right = min(due[dst], key=str)
            return f"the partition moves {move_text(dst, src)}, but this location must receive {_place_text(spaces[1], right)}"
        done.add(dst)
    for dst, place_sources in due.items():
        if dst not in done:
            return f"the partition does not move {move_text(dst, min(place_sources, key=str))}"
    return None


def _place_text(space: str, place: Place | None) -> str:
    if place is None:
        return "the fill"
    if isinstance(place, tuple):
        row, element = place
        return f"element {element} of {'thread' if space == 'local' else 'lane'} {row}"
    return f"{space} element {place}"
