"""Relayouts of torch tensors, with a torch operator only if torch must dispatch the call. This module imports torch."""

from __future__ import annotations

from typing import Any

import torch

from ..arrays.frameworks import demand_strided
from ..arrays.torch_internals import needs_torch_dispatch
from ..local.cached_launches import relayout_array
from ..local.call import RelayoutCall


def relayout_tensor(call: RelayoutCall) -> Any:
    """Return the relayout of a torch tensor."""
    sides = {"array": call.array, "out": call.out}
    tensors = {name: side for name, side in sides.items() if isinstance(side, torch.Tensor)}
    for name, tensor in tensors.items():
        demand_strided(name, tensor)
    if any(map(needs_torch_dispatch, tensors.values())):
        from .torch_op import apply_operator

        return apply_operator(call)
    return relayout_array(call)
