"""Lazy relayouts of Dask arrays, block by block. This module imports Dask.

Dask's ``reshape`` splits and merges dimensions, before and after a permutation of the blocks. Each block, a NumPy or CuPy array, is
permuted by a relayout on the worker that has the block.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dask import array as da
from tilecopy.executors import is_masked

from tilecopy_core import RequestError

from ..arrays.array import array_of
from ..arrays.frameworks import Framework, framework_of
from ..local.cached_launches import relayout_array
from ..local.call import RelayoutCall
from ..local.host import choose_executor


def relayout_blocks(call: RelayoutCall) -> Any:
    """Return the lazy relayout of a Dask array."""
    array = call.array
    if not isinstance(array, da.Array):
        raise RequestError(f"array must be a Dask array, got a {type(array).__name__} of Dask")
    call.refuse(
        "a Dask array does not support it, because its blocks are computed later: omit it", "out", "stream", "device"
    )
    if any(math.isnan(extent) for extent in array.shape):
        raise RequestError(f"array must have known chunks, got shape {array.shape}: call array.compute_chunk_sizes()")
    _demand_movable(array, call.executor)
    moved = call.rearrangement()
    if 0 in moved.shape:
        return da.empty_like(array, shape=moved.shape, chunks=moved.shape)
    array = _without_empty_chunks(array)
    split = array.reshape(moved.extents) if moved.extents != array.shape else array
    rank = len(moved.order)
    turned = da.blockwise(
        relayout_block,
        moved.order,
        split,
        tuple(range(rank)),
        order=moved.order,
        executor=call.executor,
        name=None,
        token="relayout",  # noqa: S106  (the beginning of the tasks' names)
        dtype=array.dtype,
        meta=None if split._meta.ndim != rank else split._meta.transpose(moved.order),
    )
    return turned.reshape(moved.shape) if moved.shape != turned.shape else turned


def _demand_movable(array: Any, executor: str | None) -> None:
    """Check what is known of the blocks before they are computed: their class and dtype, and the executor for them."""
    on_host = isinstance(array._meta, (np.ndarray, np.generic))
    if executor is not None:
        choose_executor(executor, None if on_host else 0)
    if on_host:
        array_of("array", array._meta if is_masked(array._meta) else np.empty(0, array.dtype))
    elif type(framework_of(type(array._meta))) is Framework:
        raise RequestError(f"array must have blocks of NumPy or CuPy, got blocks of {type(array._meta).__name__}")


def _without_empty_chunks(array: Any) -> Any:
    """Return the array without empty blocks, which Dask's ``reshape`` does not count right."""
    for dim, extents in enumerate(array.chunks):
        if 0 in extents:
            kept = [block for block, extent in enumerate(extents) if extent]
            array = array.blocks[(*[slice(None)] * dim, kept)]
    return array


def relayout_block(block: Any, *, order: tuple[int, ...], executor: str | None) -> Any:
    """Return the relayout of one block. Dask calls this function on the worker that has the block."""
    return relayout_array(RelayoutCall(block, order, executor=executor))
