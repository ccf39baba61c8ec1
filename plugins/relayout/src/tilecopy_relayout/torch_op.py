"""The operators of torch for a relayout: ``tilecopy::relayout`` and ``tilecopy::relayout_into``.

They support gradients (the inverse relayout), ``torch.compile`` (shapes without memory) and ``torch.vmap``. Only calls that need
one of these use them, because an operator in Python costs torch some ten microseconds a call. Imported with torch alone.
"""

from __future__ import annotations

from typing import Any

import torch

from tilecopy_core import RequestError
from tilecopy_core.plugin import shown

from .api import relayout_tensor
from .host import choose_executor
from .patterns import rearrangement


def traced(
    array: Any, axes: Any, out: Any, stream: Any, device: int | None, executor: str | None, sizes: dict[str, int]
) -> Any:
    """:func:`~tilecopy_relayout.relayout` as an operator.

    Raises:
        RequestError: ``stream=``, ``device=``, or an ``out=`` with gradients.
    """
    if stream is not None:
        raise RequestError(
            "stream=: an operator of torch runs on torch's current stream; use `with torch.cuda.stream(stream):` around it"
        )
    if device is not None:
        raise RequestError("device=: an operator of torch runs on the GPU of its tensor; leave it out")
    if not torch.compiler.is_compiling():
        choose_executor(executor, array.device.index)  # refuses what is wrong in the words of the caller
        rearrangement(axes, array.shape, sizes)
    if out is not None and not isinstance(out, torch.Tensor):
        raise RequestError(f"out {shown(out)} is no torch tensor, as the array is")
    text = axes if isinstance(axes, str) else ",".join([str(axis) for axis in axes])
    if out is None:
        return _operate(array, text, sizes, executor or "")
    if torch.is_grad_enabled() and (array.requires_grad or out.requires_grad):
        raise RequestError("out= with tensors that require gradients: torch records none through it; leave out= away")
    extents = list(sizes.values())
    torch.ops.tilecopy.relayout_into(array, out, text, " ".join(sizes), extents, executor or "")
    return out


def _relayout(array: torch.Tensor, axes: str, names: str, extents: list[int], executor: str) -> torch.Tensor:
    """A new tensor. ``names`` and ``extents`` are the sizes of a pattern; an empty ``executor`` is the default."""
    return relayout_tensor(_resolved(array), axes, None, executor or None, _sizes(names, extents))


def _relayout_into(
    array: torch.Tensor, out: torch.Tensor, axes: str, names: str, extents: list[int], executor: str
) -> None:
    """The same into ``out``."""
    relayout_tensor(_resolved(array), axes, out, executor or None, _sizes(names, extents))


def _shaped(array: torch.Tensor, axes: str, names: str, extents: list[int], executor: str) -> torch.Tensor:
    """The result without its memory."""
    return array.new_empty(rearrangement(axes, array.shape, _sizes(names, extents)).shape)


def _fits(array: torch.Tensor, out: torch.Tensor, axes: str, names: str, extents: list[int], executor: str) -> None:
    """Refuse a call whose shapes alone are invalid."""
    shape = rearrangement(axes, array.shape, _sizes(names, extents)).shape
    if tuple(out.shape) != shape:
        raise RequestError(f"out has the shape {tuple(out.shape)}, the result has {shape}")


def _batched(
    info: Any, dims: Any, array: torch.Tensor, axes: str, names: str, extents: list[int], executor: str
) -> tuple[torch.Tensor, int]:
    """The operator with ``torch.vmap``'s dimension first on both sides."""
    shape = array.shape[: dims[0]] + array.shape[dims[0] + 1 :]
    pattern, sizes = rearrangement(axes, shape, _sizes(names, extents)).pattern(batch="batch")
    return _operate(array.movedim(dims[0], 0), pattern, sizes, executor), 0


def _remember_inverse(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    array, axes, names, extents, ctx.executor = inputs
    ctx.inverse = rearrangement(axes, array.shape, _sizes(names, extents)).inverse()


def _gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    """Back the way that the elements came."""
    pattern, sizes = ctx.inverse
    return _operate(gradient, pattern, sizes, ctx.executor), None, None, None, None


def _operate(array: torch.Tensor, axes: str, sizes: dict[str, int], executor: str) -> Any:
    return torch.ops.tilecopy.relayout(array, axes, " ".join(sizes), list(sizes.values()), executor)


def _sizes(names: str, extents: list[int]) -> dict[str, int]:
    return dict(zip(names.split(), extents, strict=True))


def _resolved(array: torch.Tensor) -> torch.Tensor:
    """Without torch's lazy conjugation and sign, which gradients of complex functions carry."""
    return array.resolve_conj().resolve_neg()


_operator = torch.library.custom_op("tilecopy::relayout", _relayout, mutates_args=())
_operator.register_fake(_shaped)
_operator.register_autograd(_gradient, setup_context=_remember_inverse)
_operator.register_vmap(_batched)
torch.library.custom_op("tilecopy::relayout_into", _relayout_into, mutates_args=("out",)).register_fake(_fits)
