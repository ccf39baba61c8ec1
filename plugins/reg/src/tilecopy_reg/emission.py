"""Instructions of a fragment copy. Vector accesses load and store the fragment's registers directly."""

from __future__ import annotations

from tilecopy_core.plugin import Address, CopyRequest, PtxBuilder, Register, m
from tilecopy_partitions import (
    AddressBase,
    all_of,
    branch_on_edges,
    by_owners,
    local_words,
    masked_access,
    range_predicate,
    read_local,
    write_local,
)

from .partition import FragmentPartition


def emit(request: CopyRequest, partition: FragmentPartition, ptx: PtxBuilder) -> None:
    """Emit one access per vector in the threads that own elements. Add a branch for edge tiles if needed."""
    store, edge = request.src.buffer.space == "local", partition.edge
    with by_owners(ptx, partition.digits, store=store):
        if edge is None:
            _vectors(request, partition, ptx)
        else:
            branch_on_edges(
                ptx, edge.guards, lambda: _vectors(request, partition, ptx), lambda: _vectors(request, edge, ptx)
            )


def _vectors(request: CopyRequest, partition: FragmentPartition, ptx: PtxBuilder) -> None:
    places = AddressBase(ptx, partition.other.buffer, partition.offset(ptx.tid), partition.swizzle)
    guards = [(guard, partition.along(number, ptx.tid)) for number, guard in enumerate(partition.guards)]
    for first in range(0, partition.outer * partition.vec, partition.vec):
        register = int(partition.registers.along(m, first))
        mask = all_of(
            ptx,
            [
                range_predicate(ptx, guard.position(first) + thread_coordinate, guard.size, guard.ends)
                for guard, thread_coordinate in guards
            ],
        )
        address = places.at(partition.memory.along(m, first))
        if request.src.buffer.space != "local":
            _load(ptx, partition, register, address, mask, request.fill)
        elif mask is not False:
            values = read_local(ptx, partition.fragment.buffer, register, partition.vec_bits)
            ptx.store(masked_access(address, mask), partition.vec_bits, values, relaxed=request.relaxed)


def _load(
    ptx: PtxBuilder,
    partition: FragmentPartition,
    register: int,
    address: Address,
    mask: Register | bool,
    fill: tuple[int, ...] | None,
) -> None:
    """Load a vector into the fragment; outside of the array, fill or keep it as the request says."""
    fragment, bits = partition.fragment.buffer, partition.vec_bits
    whole = local_words(ptx, fragment, register, bits)
    if mask is False:
        if fill is not None and whole is not None:
            ptx.fill(whole, fill)
        elif fill is not None:
            write_local(ptx, fragment, register, bits, ptx.constant(fill, bits))
        return
    loaded = ptx.load(masked_access(address, mask, fill), bits, whole)
    if whole is None:
        kept = mask if isinstance(mask, Register) and fill is None else None
        write_local(ptx, fragment, register, bits, loaded, guard=kept)
