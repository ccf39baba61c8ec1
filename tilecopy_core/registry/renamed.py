"""Names and record arguments of ``tilecopy_core.plugin`` 0.1, and what replaces them (see docs/from_0_1_to_0_2.md)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_MOVED = {
    "tilecopy_partitions": """
        Check ChunkPartition Digit Guard HostBytes Masks RELAXED Run Side TensorMap VectorPartition WIDTHS_BITS axis_index batches
        by_descending_stride by_thread digits_of divides_threads first_failure fits_one_phase guards_of mbarrier_of mma_fragment
        no_replica one_mbarrier orders_of refine relaxed_to_global scope_in synthesize tcgen05 thread_axes tile_fragment
        whole_byte_elements why_no_owners widest Places:AddressBase Walk:SideAddresses asynchronously:emit_cp_async
        at_edges:emit_with_edges choose:branch_on_edges chunked:partition_chunks masked:masked_access operands:fragment_and_memory
        owners:owner_conditions sliced:slice_layout through_registers:emit_through_registers""",
    "tilecopy_core.errors": """
        FLAG TEXT checked instance_of integer integer_in one_of optional tuple_of Kind:Validator a:instance_of many:tuple_of
        maybe:optional whole:integer_in""",
    "tilecopy_core.plugin": "is_int:is_int_like same:structural_equal shown:short_repr",
}
"""Module -> names that are in it now, with the new name behind a colon where it is another."""
RENAMED: Mapping[str, str] = MappingProxyType(
    {
        name.partition(":")[0]: f"{module}.{name.rpartition(':')[2]}"
        for module, names in _MOVED.items()
        for name in names.split()
    }
    | {
        "fuse": "tilecopy_core.plugin.fuse_pairs, on tuples of one iter",
        "MBARRIER_TX_LIMIT": "the check tilecopy_partitions.fits_one_phase",
    }
    | dict.fromkeys(("min_arch=", "instructions=", "specific="), "features=")
)


def needed_change(*names: str) -> str:
    """Return a phrase that names the replacements in tilecopy-core 0.2 for ``names`` of 0.1."""
    changes = ", ".join(f"{name} is now {RENAMED[name]}" for name in names)
    return f"needs tilecopy-core 0.2: {changes} (see docs/from_0_1_to_0_2.md)"
