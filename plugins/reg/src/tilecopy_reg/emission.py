"""Instructions of a fragment copy: vectors straight into and out of the fragment's registers."""

from __future__ import annotations

from contextlib import ExitStack
from functools import reduce

from tilecopy_core.plugin import CopyRequest, PtxBuilder

from .partition import FragmentPartition


def emit(request: CopyRequest, partition: FragmentPartition, ptx: PtxBuilder) -> None:
    """One access a vector, for the threads that own something."""
    store = request.src is partition.fragment
    with ExitStack() as stack:
        guards = partition.guards(ptx.tid, ptx.cta_threads, store=store)
        if guards:
            stack.enter_context(ptx.if_(ptx.predicate(reduce(lambda a, b: a & b, guards))))
        base = partition.offset(ptx.tid)
        fragment, other = partition.fragment.buffer, partition.other.buffer
        shape = (partition.outer, partition.vec)
        memory = partition.memory.unswizzled
        for turn in range(partition.outer):
            register = int(partition.registers.apply(turn, 0, shape=shape)["m"])
            address = ptx.address(other, memory.apply(turn, 0, shape=shape)["m"] + base, partition.swizzle)
            if store:
                ptx.store(address, partition.vec_bits, ptx.read_local(fragment, register, partition.vec_bits))
                continue
            whole = ptx.local_words(fragment, register, partition.vec_bits)
            loaded = ptx.load(address, partition.vec_bits, whole)
            if whole is None:
                ptx.write_local(fragment, register, partition.vec_bits, loaded)
