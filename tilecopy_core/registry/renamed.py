"""Names and record arguments of ``tilecopy_core.plugin`` 0.1, and what replaces them (docs/from_0_1_to_0_2.md)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_MOVED = {
    "tilecopy_partitions": "ChunkPartition Digit Guard HostBytes Masks RELAXED Run Side TensorMap VectorPartition WIDTHS_BITS axis_index batches "
    "by_descending_stride digits_of divides_threads fits_one_phase guards_of mbarrier_of mma_fragment one_mbarrier orders_of refine "
    "relaxed_to_global synthesize tcgen05 thread_axes tile_fragment why_no_owners widest",
    "tilecopy_core.errors": "FLAG TEXT checked instance_of integer integer_in one_of optional tuple_of",
}
RENAMED: Mapping[str, str] = MappingProxyType(
    {name: f"{module}.{name}" for module, names in _MOVED.items() for name in names.split()}
    | {
        "Places": "tilecopy_partitions.AddressBase",
        "Walk": "tilecopy_partitions.SideAddresses",
        "asynchronously": "tilecopy_partitions.emit_cp_async",
        "at_edges": "tilecopy_partitions.emit_with_edges",
        "choose": "tilecopy_partitions.branch_on_edges",
        "chunked": "tilecopy_partitions.partition_chunks",
        "operands": "tilecopy_partitions.fragment_and_memory",
        "owners": "tilecopy_partitions.owner_conditions",
        "sliced": "tilecopy_partitions.slice_layout",
        "through_registers": "tilecopy_partitions.emit_through_registers",
        "a": "tilecopy_core.errors.instance_of",
        "many": "tilecopy_core.errors.tuple_of",
        "maybe": "tilecopy_core.errors.optional",
        "whole": "tilecopy_core.errors.integer_in",
        "is_int": "tilecopy_core.plugin.is_int_like",
        "masked": "tilecopy_core.plugin.masked_access",
        "fuse": "tilecopy_core.plugin.fuse_pairs, on tuples of one iter",
        "MBARRIER_TX_LIMIT": "the check tilecopy_partitions.fits_one_phase",
        "Kind": "tilecopy_core.errors.Validator",
        "shown": "tilecopy_core.plugin.short_repr",
        "same": "tilecopy_core.plugin.structural_equal",
        "min_arch=": "features=",
        "instructions=": "features=",
        "specific=": "features=",
    }
)


def needed_change(*names: str) -> str:
    """Return a phrase for a message that says what replaces names of 0.1."""
    changes = ", ".join(f"{name} is now {RENAMED[name]}" for name in names)
    return f"needs tilecopy-core 0.2: {changes} (docs/from_0_1_to_0_2.md)"
