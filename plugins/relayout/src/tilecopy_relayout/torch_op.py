"""torch's own view of a relayout: the operators ``tilecopy::relayout`` and ``tilecopy::relayout_into``.

They carry gradients (the inverse relayout), ``torch.compile`` (shapes without memory) and ``torch.vmap``. Only calls that need
one of these pass through them: an operator in Python costs torch some ten microseconds a call. Imported with torch alone.
"""

from __future__ import annotations

from typing import Any

import torch

from tilecopy_core import RequestError

from .api import relayout_tensor
from .patterns import rearrangement


def traced(array: Any, axes: Any, out: Any, stream: Any, executor: str | None, sizes: dict[str, int]) -> Any:
    """:func:`~tilecopy_relayout.relayout` as an operator.

    Raises:
        RequestError: ``stream=``, or an ``out=`` with gradients.
    """
    if stream is not None:
        raise RequestError(
            "stream=: an operator of torch runs on torch's current stream; use `with torch.cuda.stream(stream):` around it"
        )
    text = axes if isinstance(axes, str) else ",".join([str(axis) for axis in axes])
    names, extents = " ".join(sizes), list(sizes.values())
    if out is None:
        return torch.ops.tilecopy.relayout(array, text, names, extents, executor or "")
    if torch.is_grad_enabled() and (array.requires_grad or out.requires_grad):
        raise RequestError("out= with tensors that require gradients: torch records none through it; leave out= away")
    torch.ops.tilecopy.relayout_into(array, out, text, names, extents, executor or "")
    return out


@torch.library.custom_op("tilecopy::relayout", mutates_args=())
def relayout_operator(array: torch.Tensor, axes: str, names: str, extents: list[int], executor: str) -> torch.Tensor:
    """A new tensor. ``names`` and ``extents`` are the sizes of a pattern; an empty ``executor`` is the default."""
    made: torch.Tensor = relayout_tensor(_resolved(array), axes, None, executor or None, _sizes(names, extents))
    return made


@torch.library.custom_op("tilecopy::relayout_into", mutates_args=("out",))
def relayout_into_operator(
    array: torch.Tensor, out: torch.Tensor, axes: str, names: str, extents: list[int], executor: str
) -> None:
    """The same into ``out``."""
    relayout_tensor(_resolved(array), axes, out, executor or None, _sizes(names, extents))


@relayout_operator.register_fake
def _(array: torch.Tensor, axes: str, names: str, extents: list[int], executor: str) -> torch.Tensor:
    return array.new_empty(rearrangement(axes, array.shape, _sizes(names, extents)).shape)


@relayout_into_operator.register_fake
def _(array: torch.Tensor, out: torch.Tensor, axes: str, names: str, extents: list[int], executor: str) -> None:
    rearrangement(axes, array.shape, _sizes(names, extents))


@relayout_operator.register_vmap  # type: ignore[arg-type]
def _(info: Any, dims: Any, array: torch.Tensor, axes: str, names: str, extents: list[int], executor: str) -> Any:
    moved = rearrangement(axes, array.shape[: dims[0]] + array.shape[dims[0] + 1 :], _sizes(names, extents))
    pattern, sizes = moved.pattern(batch="batch")
    batched = array.movedim(dims[0], 0)
    return torch.ops.tilecopy.relayout(batched, pattern, " ".join(sizes), list(sizes.values()), executor), 0


def _remember_inverse(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    array, axes, names, extents, ctx.executor = inputs
    ctx.pattern, ctx.sizes = rearrangement(axes, array.shape, _sizes(names, extents)).inverse()


def _inverse(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    names, extents = " ".join(ctx.sizes), list(ctx.sizes.values())
    return torch.ops.tilecopy.relayout(gradient, ctx.pattern, names, extents, ctx.executor), None, None, None, None


relayout_operator.register_autograd(_inverse, setup_context=_remember_inverse)


def _sizes(names: str, extents: list[int]) -> dict[str, int]:
    return dict(zip(names.split(), extents, strict=True))


def _resolved(array: torch.Tensor) -> torch.Tensor:
    """Without torch's lazy conjugation and sign, which gradients of complex functions carry."""
    return array.resolve_conj().resolve_neg()
