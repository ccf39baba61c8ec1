"""The variant tcgen05_cp of copy_async. It issues ``tcgen05.cp`` from shared to tensor memory, in all PTX shapes.

One thread issues the copy; a matrix descriptor names the source. The destination's lanes and replicas say which shape it
is. No commit and no wait is emitted: the caller commits to an mbarrier and waits on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecopy_core.plugin import LOCK, CopyRequest, Decline, Option, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import first_failure, tcgen05

if TYPE_CHECKING:
    from .partition import AtomPartition

variant = Variant(
    name="tcgen05_cp",
    op="copy_async",
    priority=10,
    summary="tcgen05.cp from shared to tensor memory; the caller commits to an mbarrier",
    spaces=(("shared", "tmem"),),
    features=("tcgen05",),
    options=(
        Option("cta_group", (int,), "the number of participating CTAs, 1 or 2; default: the kernel's cta_group, or 1"),
    ),
    completion="tcgen05_commit",
    completion_steps=(
        "before the copy: call fence_proxy_async() in the threads that wrote the source, then put a barrier",
        "call tcgen05_commit(mbar) in the thread that copied",
        "call wait(phase) on that mbarrier in every thread that reads the tensor memory or overwrites the source",
        "call tcgen05_fence_after() if there is a barrier between the wait and tcgen05_ld",
    ),
    threads="one",
)


def has_address(request: CopyRequest) -> str | None:
    """Check that a copy in a kernel has a destination with an address from ``tcgen05.alloc``."""
    if request.dst.buffer.allocated_addr is None and request.active.cta_threads is not None:
        return f"destination {request.dst.buffer.name} must have an allocated address: use KernelBuilder.tmem and tcgen05_alloc"
    return None


def element_width(request: CopyRequest) -> str | None:
    """Check that elements have from 4 to 64 bits, so that a row of 128 bits has several elements."""
    dtype = request.src.buffer.dtype
    return f"elements must have 4 to 64 bits, got {dtype.bits}-bit {dtype}" if dtype.bits > 64 else None


def group_of(request: CopyRequest) -> int:
    """Return the number of participating CTAs: option ``cta_group``, else the cta_group of the kernel's allocation, else 1."""
    option: int | None = variant.option(request, "cta_group")
    return request.cta_group or 1 if option is None else option


def cta_group(request: CopyRequest) -> str | None:
    """Check that ``cta_group=`` is 1 or 2, equals the cta_group of the kernel's allocation, and fits the cluster."""
    group = group_of(request)
    if group not in (1, 2):
        return f"option cta_group must be 1 or 2, got {group!r}"
    if request.cta_group not in (None, group):
        return f"option cta_group must be {request.cta_group}, as in the allocation of the kernel's tensor memory, got {group}"
    if group == 2 and request.cluster is not None and request.cluster % 2:
        ctas = f"{request.cluster} CTA{'s' * (request.cluster > 1)}"
        return f"the cluster must have an even number of CTAs for option cta_group=2, got {ctas}: use build(cluster=2)"
    return None


PREDICATE = (valid_copy, element_width, has_address, cta_group)
"""The checks for rules that the record does not declare."""


@hookimpl
def tilecopy_predicate(request: CopyRequest) -> Verdict:
    """Return Accept if every check passes, else Decline with the reason of the first check that fails."""
    return first_failure(request, PREDICATE)


@hookimpl
def tilecopy_partition(request: CopyRequest) -> AtomPartition | Decline:
    """Return the ``tcgen05.cp`` instructions, and the matrix descriptor of the first instruction."""
    with LOCK:
        from .partition import atom_partition
    return atom_partition(request)


@hookimpl
def tilecopy_emit(request: CopyRequest, partition: AtomPartition, ptx: PtxBuilder) -> None:
    """Emit one ``tcgen05.cp`` per atom. The descriptor is encoded once per buffer, and each atom adds an offset to it."""
    group = group_of(request)
    holder = ptx.address(request.dst.buffer.allocated_addr)
    encoded = partition.descriptor
    buffer, per_unit = request.src.buffer, partition.elem_per_128b
    base = tcgen05.allocated_address(ptx, holder)
    for atom in partition.atoms:
        start = partition.start_elems + atom.step_16_bytes * per_unit
        descriptor = tcgen05.matrix_descriptor(ptx, buffer, encoded.ldo, encoded.sdo, encoded.swizzle, start)
        at = tcgen05.plus_columns(ptx, base, atom.column)
        if atom.lane:
            at, first_row = ptx.reg("b32"), at
            ptx.instr("add.s32", at, first_row, atom.lane << 16)
        tcgen05.cp(ptx, at, descriptor, group, atom.shape)
