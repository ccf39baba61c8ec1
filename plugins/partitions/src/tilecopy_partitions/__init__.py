"""A library for variants: shared partitions, functions that emit the instructions of a partition, and named layouts of fragments.

A variant imports the contract from :mod:`tilecopy_core.plugin`, and from here what fits its copies:
``[outer, threads, vec]`` partitions and their rounds, chunks of bulk copies, owners of register fragments, tensor memory.
"""

from typing import TYPE_CHECKING

from tilecopy_core.registry import lazy_attributes

from . import tcgen05
from .cluster_addresses import mapa
from .edge_predicates import all_of, opposite, range_predicate
from .fragment_owners import (
    Digit,
    axis_index,
    by_owners,
    by_thread,
    digits_of,
    fragment_and_memory,
    owned_fragment,
    owner_conditions,
    owning_threads,
    thread_axes,
    why_no_owners,
)
from .fragment_words import local_words, read_local, write_local
from .predicate_checks import (
    RELAXED,
    Check,
    divides_threads,
    first_failure,
    fits_one_phase,
    mbarrier_of,
    no_replica,
    one_mbarrier,
    relaxed_to_global,
    scope_in,
    whole_byte_elements,
)
from .round_loop import (
    AddressBase,
    Masks,
    SideAddresses,
    batches,
    branch_on_edges,
    emit_cp_async,
    emit_through_registers,
    emit_with_edges,
    masked_access,
    round_indices,
)
from .thread_values import ThreadValues, element_places, matching_rows, thread_values
from .vector_partition import (
    WIDTHS_BITS,
    Guard,
    Run,
    Side,
    VectorPartition,
    by_descending_stride,
    guards_of,
    orders_of,
    refine,
    slice_layout,
    synthesize,
    widest,
)

# In the order of the table in docs/plugins.md.
__all__ = ["by_descending_stride", "orders_of", "refine", "slice_layout"]
__all__ += ["WIDTHS_BITS", "Run", "Side", "VectorPartition", "synthesize", "widest"]
__all__ += ["ChunkPartition", "partition_chunks", "emit_chunks", "bulk_destination", "mapa"]
__all__ += ["Guard", "guards_of", "Masks", "emit_with_edges"]
__all__ += ["branch_on_edges", "range_predicate", "all_of", "opposite"]
__all__ += ["AddressBase", "SideAddresses", "emit_cp_async", "batches", "round_indices", "emit_through_registers"]
__all__ += ["Digit", "axis_index", "by_thread", "local_words", "read_local", "write_local", "digits_of"]
__all__ += ["fragment_and_memory", "owned_fragment", "owner_conditions", "owning_threads", "by_owners", "thread_axes"]
__all__ += ["why_no_owners", "mma_fragment", "tile_fragment"]
__all__ += ["ThreadValues", "thread_values", "element_places", "matching_rows", "tcgen05"]
__all__ += ["TensorMap", "tensor_place", "HostBytes"]
__all__ += ["Check", "first_failure", "no_replica", "scope_in", "whole_byte_elements", "masked_access"]
__all__ += ["RELAXED", "divides_threads", "fits_one_phase", "mbarrier_of", "one_mbarrier", "relaxed_to_global"]

if TYPE_CHECKING:
    from .chunk_partition import ChunkPartition, bulk_destination, emit_chunks, partition_chunks
    from .fragments import mma_fragment, tile_fragment
    from .host_parameters import HostBytes, TensorMap, tensor_place
else:  # few variants need these
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            ".chunk_partition": "ChunkPartition bulk_destination emit_chunks partition_chunks",
            ".fragments": "mma_fragment tile_fragment",
            ".host_parameters": "HostBytes TensorMap tensor_place",
        },
    )
