"""The variant ldmatrix of copy. It loads matrices from shared memory into register fragments for tensor cores.

Each lane passes the address of one row of a matrix and gets the elements that ``mma`` needs. The layouts determine the
matrices of a fragment, and whether they are transposed; a copy that does not consist of whole matrices is declined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecopy_core.plugin import LOCK, Accept, CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import (
    AddressBase,
    by_owners,
    first_failure,
    fragment_and_memory,
    owned_fragment,
    read_local,
    scope_in,
    whole_byte_elements,
)

if TYPE_CHECKING:
    from .partition import MatrixPartition

variant = Variant(
    name="ldmatrix",
    op="copy",
    priority=20,
    summary="ldmatrix loads of matrix fragments from shared memory; transposed if the layouts require it",
    spaces=(("shared", "local"),),
    completion="barrier",
    threads="all",
)


def whole_warps(request: CopyRequest) -> str | None:
    """Check that the scope consists of whole warps."""
    with LOCK:
        from .forms import LANES
    if last_warp_threads := request.scope.threads % LANES:
        return f"the scope must have whole warps of {LANES} threads, got a last warp of {last_warp_threads} threads"
    return None


def words_of_32_bits(request: CopyRequest) -> str | None:
    """Check that the fragment's registers have 32 bits."""
    fragment, _ = fragment_and_memory(request)
    bits = max(fragment.buffer.dtype.bits, fragment.buffer.memory.dtype.bits)
    return f"the registers of {fragment} must have 32 bits, got {bits} bits" if bits > 32 else None


PREDICATE = (
    scope_in("warp", "warpgroup", "cta"),
    valid_copy,
    whole_byte_elements,
    whole_warps,
    words_of_32_bits,
    owned_fragment,
)
"""The checks for rules that the record does not declare; each returns a reason to decline, or None."""
DEMOTED_PRIORITY = 5
"""The priority of a copy for which ``reg`` needs as many instructions, because each lane reads one register of a row."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept or Decline. Variant ``reg`` has a higher priority for ``.x1`` copies of 8- or 32-bit elements."""
    verdict = first_failure(request, PREDICATE)
    if verdict and fragment_and_memory(request)[0].buffer.dtype.bits != 16:
        partition = tilecopy_partition(request)
        if not isinstance(partition, Decline) and partition.count == 1 and ".trans" not in partition.form.shape:
            return Accept(DEMOTED_PRIORITY)
    return verdict


@hookimpl
def tilecopy_partition(request: CopyRequest) -> MatrixPartition | Decline:
    """Return the partition of the fragment into matrices."""
    with LOCK:
        from .partition import matrices
    return matrices(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: MatrixPartition, ptx: PtxBuilder) -> None:
    """Emit the ``ldmatrix`` or ``stmatrix`` instructions. Only the warps that own elements execute them."""
    store, local = request.src.buffer.space == "local", partition.fragment.buffer
    opcode = f"{'st' if store else 'ld'}matrix.sync.aligned.{partition.form.shape.format(partition.count)}"
    with by_owners(ptx, partition.warps, store=store):
        places = AddressBase(ptx, partition.other.buffer, partition.offset(ptx.tid), partition.swizzle)
        for batch in partition.batches:
            words = [read_local(ptx, local, first, 32)[0] for first in batch.registers]
            registers = f"{{{', '.join(map(str, words))}}}"
            address = places.at(batch.place)
            ptx.instr(opcode, *((address, registers) if store else (registers, address)))
