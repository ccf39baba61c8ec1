"""The functions that relayout an array: ``relayout`` in one process, ``relayout_shards`` across a process group."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tilecopy_core import RequestError
from tilecopy_core.plugin import short_repr
from tilecopy_core.registry import LOCK

from .local.cached_launches import CacheMissError, launch_cached, relayout_array
from .local.call import RelayoutCall
from .validation import items_of


def relayout(
    array: Any,
    axes: Any,
    *,
    out: Any = None,
    stream: Any = None,
    device: int | None = None,
    executor: str | None = None,
    placements: Sequence[Any] | None = None,
    **sizes: int,
) -> Any:
    """Permute, split and merge the dimensions of an array into new memory. The bits of the elements do not change.

    Args:
        array: an array of torch, CuPy, JAX, NumPy or Dask, with any strides and any element type of whole bytes. A torch tensor may require a
            gradient, and ``torch.compile`` may compile the call.
        axes: a permutation as in ``numpy.transpose`` (for each dimension of the result, the number of the array's dimension), or a
            pattern as in einops, such as ``"b (h p) w -> b h w p"``.
        out: an array for the result, of the result's shape and the array's dtype, with any strides. It must not overlap the
            array or itself. By default a new C-contiguous array of the same framework. If it is on another GPU, the array's GPU
            writes it by peer access. As for torch's ``copy_``, the relayout then waits for the current stream of
            ``out``'s GPU, and that stream waits for the relayout (torch and CuPy).
        stream: a CUstream as an integer, or a stream of torch, CuPy or cuda.core; by default the framework's current stream. If
            ``out`` is on another GPU, it may be a stream of either GPU. That GPU launches, and no other stream waits. For host
            and JAX arrays, the call returns when the relayout is done.
        device: the number of the GPU that launches, if ``out`` is on another GPU: one of the two. For host arrays, the GPU that
            they go through; by default the current GPU.
        executor: ``"cuda"`` or ``"emulator"``. By default host arrays go through a GPU if there is one, else to the emulator.
        placements: for a DTensor of torch, the placement of the result on each dimension of the mesh. By default it stays split
            as it is. On one mesh dimension it may be split along another dimension: :func:`relayout_shards` exchanges the parts.
        sizes: lengths of axes of the pattern, for example ``p=4``.

    Returns:
        ``out``, or the new array. It never shares memory with ``array``, even if no element changes place.

    Raises:
        RequestError: an argument is invalid; the message names it and the rule.
        LaunchError: ``stream`` is not a stream, or the driver rejects the launch.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling():
        from .frameworks.torch_op import apply_operator

        return apply_operator(RelayoutCall(array, axes, out, stream, device, executor, sizes))
    if device is None and placements is None:
        try:
            return launch_cached(array, axes, out, stream, executor, sizes)
        except CacheMissError:
            pass
    if not isinstance(axes, (str, tuple)):
        axes = items_of("axes", axes)  # an iterator is read once
    call = RelayoutCall(array, axes, out, stream, device, executor, sizes)
    module, name = type(array).__module__, type(array).__name__
    if name == "DTensor" and module.startswith("torch."):
        from .distributed.dtensors import relayout_dtensor  # no lock, because torch.compile cannot trace one

        return relayout_dtensor(call, placements)
    if placements is not None:
        raise RequestError(
            f"placements= must be omitted for a {name}, got {short_repr(placements)}: only a DTensor of torch has placements"
        )
    if module.partition(".")[0] == "dask":
        with LOCK:
            from .frameworks.dask_blocks import relayout_blocks

        return relayout_blocks(call)
    if name == "Proxy" and module == "torch.fx.proxy":
        from .frameworks.torch_op import record_operator

        return record_operator(call)
    if torch is not None and isinstance(array, torch.Tensor):
        from .frameworks.torch_calls import relayout_tensor

        return relayout_tensor(call)
    return relayout_array(call)


def relayout_shards(
    x: Any, axes: Any, *, shard_dim: int, out_shard_dim: int, group: Any = None, out: Any = None, **sizes: int
) -> Any:
    """Relayout an array with a shard on each rank of a ``torch.distributed`` group. Return this rank's result shard.

    All ranks of the group must call it, in the same order as their other collective calls. The extent of ``x`` along ``shard_dim`` may
    differ between ranks, and may be 0. The ranks' parts of the result are those that ``torch.chunk`` makes along ``out_shard_dim``.

    Args:
        x: a torch tensor on the CPU or a GPU: this rank's part of the array, with any strides and any element type of whole bytes. It may
            require a gradient. In a function that ``torch.compile`` compiles, all parts must have the same size.
        axes: the axes of the whole array, as in :func:`relayout`.
        shard_dim: the dimension of ``x`` along which the array is divided, in the order of the ranks.
        out_shard_dim: the dimension of the result along which the result is divided.
        group: a process group; by default the group of all ranks.
        out: a tensor for this rank's part of the result, any strides. Its extent along ``out_shard_dim`` is free, but the extents of all ranks
            must add up to the result's. All ranks pass one, or none. If it is symmetric memory on every rank, it is written directly.
        sizes: lengths of axes of the pattern, for the whole array.

    Returns:
        ``out``, or a new C-contiguous tensor.

    Raises:
        RequestError: the ranks disagree, or the arguments of a rank are invalid. The error is the same on every rank, and no data moved.
        LaunchError: a rank does not make the call within the group's timeout, or the driver rejects the launch.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        raise RequestError(
            f"x must be this process's shard of the array as a torch tensor, got {short_repr(x)}: in JAX, use "
            "jax.lax.all_to_all inside jax.shard_map"
        )
    from .distributed.exchange import ShardsCall, relayout_part  # no lock, because torch.compile cannot trace one

    return relayout_part(ShardsCall(axes, sizes, shard_dim, out_shard_dim), x, group, out)
