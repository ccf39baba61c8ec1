"""Relayouts of torch's DTensors. Ranks exchange data along at most one mesh dimension. This module imports torch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
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
    """Relayout a DTensor whose placements are ``Shard`` or ``Replicate``. ``call.axes`` refers to the global tensor.

    By default a sharded dimension stays sharded. At most one mesh dimension may shard another dimension than before.
    """
    array = call.array
    call.refuse(
        "a DTensor does not support it, because each process holds only its shard: omit it", "out", "stream", "device"
    )
    mesh = array.device_mesh
    moved = call.rearrangement()
    kept = [_propagated_placement(moved, placement) for placement in array.placements]
    wanted = kept
    if placements is not None:
        wanted = [_checked_placement(placement, moved, n) for n, placement in enumerate(placements)]
    if len(wanted) != len(kept):
        raise RequestError(
            f"placements must have one entry for each of the {len(kept)} mesh dimensions, got {short_repr(placements)}"
        )
    changed = [n for n, (had, has) in enumerate(zip(kept, wanted, strict=True)) if had is None or had != has]
    divided = [placement.dim for placement in array.placements if isinstance(placement, Shard)]
    onto = [placement.dim for placement in wanted if isinstance(placement, Shard)]
    exchanges = all(isinstance(dims[n], Shard) for n in changed for dims in (array.placements, wanted))
    if len(changed) > 1 or not exchanges or len(set(divided)) < len(divided) or len(set(onto)) < len(onto):
        raise RequestError(
            f"placements must differ from {array.placements} in at most one sharded mesh dimension, got {short_repr(placements)}: "
            "use array.redistribute(...) before or after the relayout"
        )
    # A pattern with all lengths also applies to the local part, with its extents along the other sharded dimensions.
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
        part_call = ShardsCall(pattern, named, array.placements[number].dim, wanted[number].dim)
        local_result = relayout_part(part_call, local, mesh.get_group(number))
    return DTensor.from_local(
        local_result, mesh, wanted, run_check=False, shape=moved.shape, stride=row_major(moved.shape)
    )


def _propagated_placement(moved: Rearrangement, placement: Any) -> Any:
    """Return the placement of the result without an exchange, or None if the sharded dimension is split, merged or removed."""
    if isinstance(placement, Replicate):
        return placement
    if type(placement) is not Shard:
        raise RequestError(f"each placement of the DTensor must be Shard(dim) or Replicate(), got {placement}")
    first = sum(map(len, moved.split[: placement.dim]))
    if len(moved.split[placement.dim]) != 1:
        return None
    dim = bisect_right(list(accumulate(moved.merge)), moved.order.index(first))  # whose part of the order it is in
    return Shard(dim) if moved.merge[dim] == 1 else None


def _checked_placement(placement: Any, moved: Rearrangement, number: int) -> Any:
    if isinstance(placement, Replicate):
        return placement
    if type(placement) is not Shard:
        raise RequestError(f"placements[{number}] must be Shard(dim) or Replicate(), got {short_repr(placement)}")
    return Shard(dimension(f"placements[{number}].dim", placement.dim, len(moved.shape), "the result"))
