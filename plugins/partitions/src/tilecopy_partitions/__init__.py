"""What variants choose from: partitions that several of them share, the loops that emit those, and fragments by name.

A variant imports the contract from :mod:`tilecopy_core.plugin`, and from here what fits its copies:
``[outer, threads, vec]`` partitions and their rounds, chunks of bulk copies, owners of register fragments, tensor memory.
"""

from . import tcgen05
from .chunk_partition import ChunkPartition, chunked
from .fragment_owners import Digit, digits_of, operands, owners, thread_axes, why_no_owners
from .fragments import mma_fragment, tile_fragment
from .round_loop import Masks, Places, Walk, asynchronously, at_edges, batches, choose, through_registers
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
    sliced,
    synthesize,
    widest,
)

# In the order of the table in docs/plugins.md.
__all__ = ["by_descending_stride", "orders_of", "refine", "sliced"]
__all__ += ["WIDTHS_BITS", "Run", "Side", "VectorPartition", "synthesize", "widest"]
__all__ += ["ChunkPartition", "Guard", "Masks", "at_edges", "choose", "chunked", "guards_of"]
__all__ += ["Places", "Walk", "asynchronously", "batches", "through_registers"]
__all__ += ["Digit", "digits_of", "operands", "owners", "thread_axes", "why_no_owners", "mma_fragment", "tile_fragment"]
__all__ += ["tcgen05"]
