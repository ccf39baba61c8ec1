"""Relayouts of torch's DTensors: each mesh dimension either keeps what it divides, or exchanges parts. Imported with torch alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.distributed.tensor import DTensor, Replicate, Shard

from tilecopy_core import RequestError
from tilecopy_core.plugin import row_major, short_repr

from ..frameworks.torch_calls import relayout_tensor
from ..local.call import RelayoutCall
from ..rearrangement import Rearrangement
from .exchange import ShardsCall, relayout_part
from .shards import dimension


def relayout_dtensor(call: RelayoutCall, placements: Sequence[Any] | None) -> Any:
    """Return the relayout of a DTensor.

    Args:
        call: of a DTensor, of which each mesh dimension replicates it or divides one of its dimensions. Its axes are those of the whole array.
        placements: of the result, one for each mesh dimension; by default a divided dimension stays divided. At most one mesh
            dimension may divide another dimension than before.
    """
    array = call.array
    call.refuse("is not supported for a DTensor: each process holds only its shard", "out", "stream", "device")
    mesh = array.device_mesh
    moved = call.rearrangement()
    kept = [_propagated_placement(moved, placement) for placement in array.placements]
    wanted = (
        kept
        if placements is None
        else [_checked_placement(placement, moved, n) for n, placement in enumerate(placements)]
    )
    if len(wanted) != len(kept):
        raise RequestError(
            f"placements must have one entry per dimension of the mesh, which has {len(kept)}, got {short_repr(placements)}"
        )
    changed = [n for n, (had, has) in enumerate(zip(kept, wanted, strict=True)) if had is None or had != has]
    divided = [placement.dim for placement in array.placements if isinstance(placement, Shard)]
    onto = [placement.dim for placement in wanted if isinstance(placement, Shard)]
    exchanges = all(isinstance(dims[n], Shard) for n in changed for dims in (array.placements, wanted))
    if len(changed) > 1 or not exchanges or len(set(divided)) < len(divided) or len(set(onto)) < len(onto):
        raise RequestError(
            f"placements {short_repr(placements)} differ from {array.placements} in more than one sharded mesh dimension: use "
            "array.redistribute(...) before or after the relayout"
        )
    # With all extents given a pattern says what becomes of the part that a process has; that of the other mesh dimensions is its own.
    local = array.to_local()
    pattern, extents = moved.pattern()
    named: dict[str, Any] = dict(zip(extents, moved.extents, strict=True))
    for number, placement in enumerate(array.placements):
        if isinstance(placement, Shard) and number not in changed:
            named[f"d{sum(map(len, moved.split[: placement.dim]))}"] = local.shape[placement.dim]
    if not changed:
        local_result = relayout_tensor(RelayoutCall(local, pattern, executor=call.executor, sizes=named))
    else:
        (number,) = changed
        shard_dim, out_shard_dim = array.placements[number].dim, wanted[number].dim
        local_result = relayout_part(
            ShardsCall(pattern, named, shard_dim, out_shard_dim), local, mesh.get_group(number)
        )
    return DTensor.from_local(
        local_result, mesh, wanted, run_check=False, shape=moved.shape, stride=row_major(moved.shape)
    )


def _propagated_placement(moved: Rearrangement, placement: Any) -> Any:
    """Return the placement of the result if nothing is exchanged; None if the divided dimension is split, merged or gone."""
    if isinstance(placement, Replicate):
        return placement
    if type(placement) is not Shard:
        raise RequestError(f"each placement of the DTensor must be Shard(dim) or Replicate(), got {placement}")
    first = sum(map(len, moved.split[: placement.dim]))
    if len(moved.split[placement.dim]) != 1:
        return None
    position = moved.order.index(first)
    before = 0
    for dim, count in enumerate(moved.merge):
        if before <= position < before + count:
            return Shard(dim) if count == 1 else None
        before += count
    return None


def _checked_placement(placement: Any, moved: Rearrangement, number: int) -> Any:
    if isinstance(placement, Replicate):
        return placement
    if type(placement) is not Shard:
        raise RequestError(f"placements[{number}] must be Shard(dim) or Replicate(), got {short_repr(placement)}")
    return Shard(dimension(f"placements[{number}].dim", placement.dim, len(moved.shape), "the result"))
