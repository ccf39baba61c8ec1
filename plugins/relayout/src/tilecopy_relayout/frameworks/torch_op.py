"""The torch operators of relayout: ``tilecopy::relayout`` and ``tilecopy::relayout_into``.

They support gradients (the inverse relayout), ``torch.compile`` (fake tensors), ``torch.jit.trace`` and ``torch.vmap``. A
:class:`torch.autograd.Function` around the first supports forward-mode derivatives and the transforms of ``torch.func``. Only calls
that need one of these use them, because torch takes about ten microseconds per call of a Python operator. This module imports torch.
"""

from __future__ import annotations

from typing import Any

import torch

from tilecopy_core import RequestError
from tilecopy_core.plugin import short_repr

from ..arrays import torch_internals
from ..arrays.frameworks import framework_of
from ..axes import rearrangement
from ..local.cached_launches import relayout_array
from ..local.call import RelayoutCall
from ..local.host import choose_executor
from ..validation import sizes_of


def apply_operator(call: RelayoutCall) -> Any:
    """Call the torch operator and return the relayout of a tensor."""
    array, out = call.array, call.out
    why = "this argument is not supported while torch records or traces the call"
    call.refuse(f"{why}: call relayout inside `with torch.cuda.stream(stream):`", "stream")
    call.refuse(f"{why}: omit it", "device")
    if torch.compiler.is_compiling() and (
        torch_internals.forward_mode_is_active() or _breaks_the_graph(out is not None)
    ):
        return _uncompiled(call)
    if not _records_operators():
        choose_executor(call.executor, array.device.index)  # raises errors about the caller's arguments
        order = call.rearrangement().order
        call = call if isinstance(call.axes, str) else call._replace(axes=order)
    if out is not None:
        if not isinstance(out, torch.Tensor):
            raise RequestError(f"out must be a torch tensor like the array, got {short_repr(out)}")
        _demand_no_derivatives(array, out)
    try:
        if out is None:
            return _operate(*call.for_torch())
        _, *carried = call.for_torch()
        torch.ops.tilecopy.relayout_into(array, out, *carried)
        return out
    except (TypeError, NotImplementedError) as error:
        for name, tensor in (("array", array), ("out", out)):
            if tensor is not None and type(tensor) not in (torch.Tensor, torch.nn.Parameter):
                raise RequestError(
                    f"{name}: a {type(tensor).__name__} of shape {tuple(tensor.shape)} does not support the operators of tilecopy "
                    f"({str(error).partition(chr(10))[0]}); pass a plain tensor with the same elements"
                ) from error
        raise


def record_operator(call: RelayoutCall) -> Any:
    """Record the operator in the graph of ``torch.fx.symbolic_trace``. The array is a proxy without a shape."""
    call.refuse("this argument is not supported under torch.fx.symbolic_trace: trace with torch.export", "out")
    return torch.ops.tilecopy.relayout(*call._replace(sizes=sizes_of(call.sizes)).for_torch())


def _demand_no_derivatives(array: torch.Tensor, out: torch.Tensor) -> None:
    """Check that writing into ``out`` loses no derivative."""
    if not torch.compiler.is_compiling():  # these checks cannot be traced
        if array.is_meta != out.is_meta:
            raise RequestError(f"out must be on the array's device {array.device}, got {out.device}")
        if why := framework_of(torch.Tensor).out_error(out):
            raise RequestError(f"out: {why}")
        if any(map(torch_internals.is_wrapped_by_transform, (array, out))):
            raise RequestError("out= is not supported in a function that torch.func transforms: omit it")
        if any(map(torch_internals.has_tangent, (array, out))):
            raise RequestError("out= does not support forward-mode derivatives: omit it")
    if torch.is_grad_enabled() and (array.requires_grad or out.requires_grad):
        raise RequestError("out= does not support autograd: call relayout under torch.no_grad()")


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch may not be installed
def _breaks_the_graph(writes: bool) -> bool:
    """Return True if a transform of ``torch.func`` is active for which the operator has no rule: all except ``vmap``.

    An operator that writes has no rule for ``vmap``, either. Dynamo guards the stack of transforms by itself.
    """
    return any(writes or kind != torch_internals.TransformType.Vmap for kind in torch_internals.active_transforms())


_uncompiled = torch.compiler.disable(apply_operator)
"""A version for calls in torch.compile under a transform without a rule, which breaks the graph."""


def _relayout(array: torch.Tensor, axes: str, names: str, extents: list[int], executor: str) -> torch.Tensor:
    """Return the relayout. ``names`` and ``extents`` are the axis lengths of a pattern; an empty ``executor`` is the default."""
    result: torch.Tensor = relayout_array(RelayoutCall.of_torch(_resolve(array), axes, names, extents, executor))
    return result


def _relayout_into(
    array: torch.Tensor, out: torch.Tensor, axes: str, names: str, extents: list[int], executor: str
) -> None:
    """Write the result into ``out``."""
    relayout_array(RelayoutCall.of_torch(_resolve(array), axes, names, extents, executor, out))


def _fake(array: torch.Tensor, *carried: Any) -> torch.Tensor:
    """Return a fake tensor with the result's shape."""
    return array.new_empty(RelayoutCall.of_torch(array, *carried).rearrangement().shape)


def _fits(array: torch.Tensor, out: torch.Tensor, *carried: Any) -> None:
    """Check the shape and dtype of ``out``."""
    shape = RelayoutCall.of_torch(array, *carried).rearrangement().shape
    if tuple(out.shape) != shape:
        raise RequestError(f"out must have shape {shape}, got {tuple(out.shape)}")
    if out.dtype != array.dtype:
        raise RequestError(
            f"out must have the array's dtype {array.dtype}, got {out.dtype}: relayout does not convert dtypes"
        )


def _vmap(info: Any, dims: Any, array: torch.Tensor, *carried: Any) -> tuple[torch.Tensor, int]:
    """Return the result with the batch dimension of ``torch.vmap`` first."""
    call = RelayoutCall.of_torch(array, *carried)
    shape = array.shape[: dims[0]] + array.shape[dims[0] + 1 :]
    pattern, sizes = rearrangement(call.axes, shape, call.sizes).pattern(batch="batch")
    batched = RelayoutCall(array.movedim(dims[0], 0), pattern, executor=call.executor, sizes=sizes)
    return _operate(*batched.for_torch()), 0


def _remember_inverse(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    call = RelayoutCall.of_torch(*inputs)
    ctx.carried, ctx.executor = inputs[1:], call.executor
    ctx.inverse = call.rearrangement().inverse()


def _gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    """Return the gradient of the array: the inverse relayout of the result's gradient."""
    pattern, sizes = ctx.inverse
    call = RelayoutCall(gradient, pattern, executor=ctx.executor, sizes=sizes)
    return _operate(*call.for_torch()), None, None, None, None


class _Relayout(torch.autograd.Function):  # type: ignore[misc]  # torch may not be installed
    """The operator with derivatives that ``torch.library`` does not support: forward mode, and those of ``torch.func``."""

    @staticmethod
    def forward(array: torch.Tensor, axes: str, names: str, extents: list[int], executor: str) -> Any:
        """Call the operator and return its result."""
        return torch.ops.tilecopy.relayout(array, axes, names, extents, executor)

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> Any:
        """Return the tangent of the result: the relayout of the array's tangent."""
        return _Relayout.apply(tangent, *ctx.carried)

    setup_context = staticmethod(_remember_inverse)
    backward = staticmethod(_gradient)
    vmap = staticmethod(_vmap)


def _records_operators() -> bool:
    """Return True if torch.compile, torch.export or torch.jit.trace records operators by name."""
    return bool(torch.compiler.is_compiling() or torch.jit.is_tracing())


def _functionalizes() -> bool:
    """Return True if ``torch.func.functionalize`` is active, which has no rule for ``autograd.Function``."""
    levels = torch_internals.active_transforms()
    functionalizes = torch_internals.TransformType.Functionalize in levels
    if functionalizes and len(set(levels)) > 1:
        raise RequestError(
            "relayout does not support torch.func.functionalize together with another transform: use only one of them"
        )
    return functionalizes


def _operate(*arguments: Any) -> Any:
    operator = torch.ops.tilecopy.relayout if _records_operators() or _functionalizes() else _Relayout.apply
    return operator(*arguments)


def _resolve(array: torch.Tensor) -> torch.Tensor:
    """Return a tensor without torch's lazy conjugation and negation, which gradients of complex functions may have."""
    return array.resolve_conj().resolve_neg()


_operator = torch.library.custom_op("tilecopy::relayout", _relayout, mutates_args=())
_operator.register_fake(_fake)
_operator.register_autograd(_gradient, setup_context=_remember_inverse)
_operator.register_vmap(_vmap)
torch.library.custom_op("tilecopy::relayout_into", _relayout_into, mutates_args=("out",)).register_fake(_fits)
