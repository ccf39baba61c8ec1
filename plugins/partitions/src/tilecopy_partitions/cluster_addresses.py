"""Addresses in the shared memory of other CTAs of a cluster (PTX ISA, ``mapa``)."""

from __future__ import annotations

from tilecopy_core.errors import PtxError, RequestError, short_repr
from tilecopy_core.integers import Int, bounds_of, key_of
from tilecopy_core.plugin import Address, PtxBuilder, Register


def mapa(ptx: PtxBuilder, address: Address, rank: Int) -> Address:
    """Map a shared address to CTA ``rank`` of the cluster. Return the address in the ``shared::cluster`` window.

    Only the register is mapped: use an address with ``whole=True`` if its offset may be negative.
    """
    if address.space != "shared":
        raise PtxError(f"mapa: the address must be in shared memory, got {address} in {address.space} memory")
    cluster, lower = ptx.bindings.cluster, bounds_of(rank)[0]
    if cluster is not None and lower is not None and lower >= cluster:
        raise RequestError(
            f"rank must be less than the cluster size {cluster} of this kernel, got {short_repr(rank)}: pass a larger cluster= to build"
        )
    if type(rank) is int and not 0 <= rank < 16:
        raise PtxError(f"mapa: rank must be from 0 to 15, got {short_repr(rank)}")

    def compute() -> Register:
        chosen, result = ptx.operand(rank), ptx.reg("b32")
        ptx.instr("mapa.shared::cluster.u32", result, address.base, chosen)
        return result

    mapped = ptx.blocks[-1].once(("mapa", address.base, key_of(rank)), compute)
    return Address("shared::cluster", mapped, address.offset_bytes, address.align_bytes)
