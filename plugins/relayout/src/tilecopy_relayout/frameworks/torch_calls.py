"""Relayouts of torch tensors: through the operator if torch must dispatch the call, otherwise by a direct launch."""

from __future__ import annotations

import sys
from typing import Any

from ..arrays.frameworks import demand_strided
from ..local.cached_launches import relayout_array
from ..local.call import RelayoutCall


def relayout_tensor(call: RelayoutCall) -> Any:
    """Return the relayout of a torch tensor."""
    from ..arrays.torch_internals import needs_torch_dispatch  # no lock, because torch.compile cannot trace one

    torch: Any = sys.modules["torch"]
    sides = {"array": call.array, "out": call.out}
    tensors = {name: side for name, side in sides.items() if isinstance(side, torch.Tensor)}
    for name, tensor in tensors.items():
        demand_strided(name, tensor)
    if any(map(needs_torch_dispatch, tensors.values())):
        from .torch_op import apply_operator

        return apply_operator(call)
    return relayout_array(call)
