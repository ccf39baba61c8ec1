"""``relayout_shards`` for torch tensors. The ranks agree on a call, and then exchange data. This module imports torch.

If the ranks can access each other's memory, each writes its part of every rank's result (symmetric.py). Otherwise the data for each rank
are packed, exchanged by ``all_to_all_single`` and unpacked. Packing and unpacking are skipped if no element would move.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from math import prod
from typing import Any, NamedTuple

import attrs
import torch
import torch.distributed as dist

from tilecopy_core import RequestError
from tilecopy_core.errors import integer
from tilecopy_core.plugin import frozen, row_major, short_repr

from ..arrays import torch_internals
from ..arrays.array import array_of, dtype_name
from ..axes import rearrangement
from ..local.cached_launches import relayout_array
from ..local.call import RelayoutCall, checked_result
from ..rearrangement import Rearrangement
from ..validation import items_of, refuse, sizes_of
from .rendezvous import NEW, Rendezvous
from .shards import RankRequest, Shards, Strides, are_consecutive, chunk_extents, dimension, merge_requests
from .symmetric import SymmetricWorkspace

_MOST_KINDS = 64
"""The most cached calls of a group; the oldest is dropped first."""


class ShardsCall(NamedTuple):
    """A named tuple of the arguments of ``relayout_shards``, except the tensors and the group.

    The fields are those of :class:`~tilecopy_relayout.distributed.shards.RankRequest`.
    """

    axes: Any
    sizes: Mapping[str, Any]
    shard_dim: Any
    out_shard_dim: Any
    extent: int | None = None
    total: int | None = None

    def for_torch(self, group_name: str) -> tuple[Any, ...]:
        """Return the arguments of the torch operator. The extent -1 stands for the extent from ``torch.chunk``."""
        names, extents = " ".join(self.sizes), list(self.sizes.values())
        part = -1 if self.extent is None else self.extent
        return _text(self.axes), names, extents, self.shard_dim, self.out_shard_dim, group_name, part, self.total

    @classmethod
    def of_torch(cls, *carried: Any) -> tuple[ShardsCall, Any]:
        """Return the call and the process group from arguments that :meth:`for_torch` returned."""
        axes, names, extents, shard_dim, out_shard_dim, group, part, total = carried
        sizes = dict(zip(names.split(), extents, strict=True))
        call = cls(axes, sizes, shard_dim, out_shard_dim, None if part < 0 else part, total)
        return call, torch_internals.group_by_name(group)

    def rearrangement(self, shape: Sequence[int]) -> Rearrangement:
        """Return the rearrangement of the whole array. ``shape`` is the shape of a rank's part."""
        whole: Any = [*shape[: self.shard_dim], self.total, *shape[self.shard_dim :][1:]]
        return rearrangement(self.axes, whole, self.sizes)


def relayout_part(call: ShardsCall, x: Any, group: Any = None, out: Any = None) -> torch.Tensor:
    """Run a call of :func:`~tilecopy_relayout.relayout_shards`. Return this rank's part of the result."""
    group = dist.group.WORLD if group is None else group
    if torch.compiler.is_compiling():
        if out is not None:
            raise RequestError("out= is not supported under torch.compile: omit it")
        total = x.shape[call.shard_dim] * dist.get_world_size(group)
        *arguments, _ = call.for_torch(group.group_name)
        return torch.ops.tilecopy.relayout_shards(x, *arguments, total)
    if not isinstance(group, dist.ProcessGroup):
        raise RequestError(
            f"group must be a process group of torch.distributed that includes this process, got {short_repr(group)}: call "
            "torch.distributed.init_process_group for the group of all ranks"
        )
    if not isinstance(call.axes, (str, tuple)):
        with suppress(RequestError):  # raised later, on all ranks
            call = call._replace(axes=items_of("axes", call.axes))  # an iterator is read once
    if torch_internals.transforms_are_active() or torch_internals.has_tangent(x):
        raise RequestError(
            "x: relayout_shards supports neither forward-mode derivatives nor torch.func: use backward()"
        )
    if not torch_internals.needs_torch_dispatch(x):
        return exchange(x, call, group, out)
    if out is not None:
        raise RequestError("out= supports neither autograd nor traced or wrapped tensors: omit it")
    shards = _agree(x, call, group, None).shards
    call = call._replace(shard_dim=shards.shard_dim, out_shard_dim=shards.out_shard_dim, total=shards.cuts[-1])
    return torch.ops.tilecopy.relayout_shards(x, *call.for_torch(group.group_name))


def exchange(x: torch.Tensor, call: ShardsCall, group: Any, out: Any) -> torch.Tensor:
    """Exchange data with the other ranks. Return this rank's part of the result. Autograd does not record the call."""
    kind = _agree(x, call, group, out)
    with torch.no_grad():
        result = kind.move(group, x, out)
    if out is not None:
        torch.autograd.graph.increment_version(out)
    return result


# ---------------------------------------------------------------------------------------------------- agreement


@frozen(eq=False)
class _AgreedCall:
    """A call that all ranks agreed on: the common digest, and a function of ``group``, ``x`` and ``out`` that exchanges the parts."""

    digest: int
    shards: Shards
    move: Callable[..., torch.Tensor]


@attrs.define(eq=False)
class _GroupState:
    """The state of a process group: the rendezvous of its ranks, the cached calls, and the shared GPU memory."""

    rendezvous: Rendezvous
    workspace: SymmetricWorkspace
    kinds: dict[Any, _AgreedCall] = attrs.field(factory=dict)
    settled: int = 0


_groups: weakref.WeakKeyDictionary[Any, _GroupState] = weakref.WeakKeyDictionary()
"""Process group -> its state, which does not keep the group alive."""


def _agree(x: torch.Tensor, call: ShardsCall, group: Any, out: Any) -> _AgreedCall:
    """Return the exchange that all ranks agree on."""
    state = _groups.get(group)
    if state is None:
        rendezvous = Rendezvous(group)
        state = _groups[group] = _GroupState(rendezvous, SymmetricWorkspace(group.group_name, rendezvous))
    try:
        records = out is not None and out.requires_grad and torch.is_grad_enabled()
        arguments = call._replace(sizes=tuple(sorted(call.sizes.items())))  # type: ignore[arg-type]  # a mapping has no hash
        key = arguments, _facts(x), None if out is None else (out.data_ptr(), records, _facts(out))
        may_overlap = out is not None and x.untyped_storage().data_ptr() == out.untyped_storage().data_ptr()
        kind = None if may_overlap else state.kinds.get(key)
    except Exception:  # the complete check reports what is wrong with the arguments
        key, kind = None, None
    if state.rendezvous.all_equal(NEW if kind is None else kind.digest):
        assert kind is not None
        return kind
    texts = state.rendezvous.all_gather_text(_request_of(x, call, out).text())
    requests = [RankRequest.of(text) for text in texts]
    shards = merge_requests(requests)
    # The number makes the digests of different agreements differ, even for equal arguments.
    state.settled += 1
    digest = hashlib.sha256("\n".join([f"{state.settled}", *texts]).encode()).digest()[:8]
    into = [request.out_strides or row_major(shards.out_shape(rank)) for rank, request in enumerate(requests)]
    direct_out = out if all(request.symmetric for request in requests) else None
    move = state.workspace.push(x, direct_out, shards, into) if requests[0].device == "cuda" else None
    if move is None:
        move = _all_to_all_of(state.rendezvous.rank, x, shards, into)
    if len(state.kinds) >= _MOST_KINDS:
        del state.kinds[next(iter(state.kinds))]
    kind = state.kinds[key] = _AgreedCall(int.from_bytes(digest, "little"), shards, move)
    return kind


def _facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    lazy = tensor.is_conj(), tensor.is_neg()
    return type(tensor), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device, lazy


def _request_of(x: torch.Tensor, call: ShardsCall, out: Any) -> RankRequest:
    """Return the arguments of this rank, or its error, to send to the other ranks, so that they do not wait."""
    try:
        source = array_of("x", x)
        sizes = tuple(sorted(sizes_of(call.sizes).items()))
        out_shard_dim = integer(call.out_shard_dim)
        if out_shard_dim is None:
            refuse(f"out_shard_dim must be a dimension of the result, got {short_repr(call.out_shard_dim)}")
        if out is not None:
            if not isinstance(out, torch.Tensor) or out.device != x.device:
                refuse(f"out must be a torch tensor on x's device {x.device}, got {short_repr(out)}")
            checked_result("out", out, source, tuple(out.shape))
        return RankRequest(
            shape=source.memory.shape,
            dtype=dtype_name(x.dtype),
            device=x.device.type,
            axes=_text(call.axes),
            sizes=sizes,
            shard_dim=dimension("shard_dim", call.shard_dim, x.ndim, "x"),
            out_shard_dim=out_shard_dim,
            total=call.total,
            extent=call.extent,
            out_shape=None if out is None else tuple(out.shape),
            out_strides=None if out is None else out.stride(),
            symmetric=out is not None and torch_internals.is_symmetric(out),
        )
    except RequestError as error:
        return RankRequest(refused=str(error))


def _text(axes: Any) -> str:
    return axes if isinstance(axes, str) else ",".join(map(str, items_of("axes", axes)))


# --------------------------------------------------------------------------------------------------- all_to_all


def _all_to_all_of(
    rank: int, x: torch.Tensor, shards: Shards, into: Sequence[tuple[int, ...]]
) -> Callable[..., torch.Tensor]:
    """Return the exchange of one rank by ``all_to_all_single``, which packs the parts before and unpacks them after it.

    ``x`` is the rank's part of the array; ``into`` has the strides of each rank's part of the result.
    """
    order, strides, elem_bytes = _wire_order(shards), x.stride(), x.element_size()
    sent_to, received_from = [], []
    for other in range(shards.ranks):
        sent_to.append([shards.in_source(box, rank, strides).permute(order) for box in shards.boxes(rank, other)])
        boxes = shards.boxes(other, rank)
        received_from.append([shards.in_result(box, rank, into[rank]).permute(order) for box in boxes])
    counts = [[sum(prod(box.extents) for box in boxes) for boxes in side] for side in (received_from, sent_to)]
    sizes = [[count * elem_bytes for count in rank_counts] for rank_counts in counts]
    sent, received = list(chain.from_iterable(sent_to)), list(chain.from_iterable(received_from))
    out_shape = shards.out_shape(rank)

    def move(group: Any, x: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        result = x.new_empty(out_shape) if out is None else out
        if are_consecutive(sent) and x.is_contiguous():
            outgoing = _flat(x)
        else:
            outgoing = x.new_empty(x.numel())
            for view, part in _views(x, outgoing, sent):
                _copy(view, part)
        straight = are_consecutive(received) and result.is_contiguous()
        incoming = _flat(result) if straight else x.new_empty(result.numel())
        dist.all_to_all_single(incoming.view(torch.uint8), outgoing.view(torch.uint8), *sizes, group=group)
        if not straight:
            for view, part in _views(result, incoming, received):
                _copy(part, view)
        return result

    return move


def _wire_order(shards: Shards) -> Sequence[int]:
    """Return the order of dimensions in sent boxes, the same on every rank: the array's if this avoids packing, else the result's."""
    moved, cuts = shards.moved, shards.cuts
    extents = [end - start for start, end in pairwise(cuts)]
    rank = extents.index(max(extents))  # a rank with elements
    shape = [prod(group) for group in moved.split]
    shape[shards.shard_dim] = extents[rank]
    boxes = [box for receiver in range(shards.ranks) for box in shards.boxes(rank, receiver)]
    if are_consecutive([shards.in_source(box, rank, row_major(tuple(shape))) for box in boxes]):
        return range(len(moved.order))
    return moved.order


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return a 1-D view of a contiguous tensor; ``view`` may fail because of the strides of dimensions of extent 1."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _views(tensor: torch.Tensor, flat: torch.Tensor, boxes: Sequence[Strides]) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield the views of each box in a tensor, and in ``flat``, where the boxes are packed."""
    parts, first = flat.split([prod(box.extents) for box in boxes]), tensor.storage_offset()
    for part, box in zip(parts, boxes, strict=False):
        yield tensor.as_strided(box.extents, box.strides, first + box.offset), part.view(box.extents)


def _copy(source: torch.Tensor, destination: torch.Tensor) -> None:
    """Copy a tensor, with relayout on a GPU, and with torch on the CPU, where relayout would use a GPU or the emulator."""
    if source.is_cuda:
        relayout_array(RelayoutCall(source, tuple(range(source.ndim)), destination))
    else:
        destination.copy_(source)


# ----------------------------------------------------------------------------------------------------- operator


_SCHEMA = (
    "(Tensor x, str axes, str names, SymInt[] sizes, SymInt shard_dim, SymInt out_shard_dim, str group, SymInt extent, SymInt total) "
    "-> Tensor"
)
"""``extent`` is the length of this rank's part along ``out_shard_dim``, ``total`` the array's along ``shard_dim``."""


def _part(x: torch.Tensor, *carried: Any) -> torch.Tensor:
    """Return this rank's part."""
    call, group = ShardsCall.of_torch(*carried)
    return exchange(x.resolve_conj().resolve_neg(), call, group, None)


def _fake(x: torch.Tensor, *carried: Any) -> torch.Tensor:
    """Return a fake tensor with the result's shape."""
    call, group = ShardsCall.of_torch(*carried)
    shape = list(call.rearrangement(x.shape).shape)
    extents = chunk_extents(shape[call.out_shard_dim], group.size())
    shape[call.out_shard_dim] = extents[group.rank()] if call.extent is None else call.extent
    return x.new_empty(shape)


def _remember_inverse(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, *carried = inputs
    call, ctx.group = ShardsCall.of_torch(*carried)
    moved = call.rearrangement(x.shape)
    pattern, sizes = moved.inverse()
    total = moved.shape[call.out_shard_dim]
    ctx.inverse = ShardsCall(pattern, sizes, call.out_shard_dim, call.shard_dim, x.shape[call.shard_dim], total)


def _gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    """Return the gradient of this rank's part: the inverse exchange of the result's gradient."""
    inverse = ctx.inverse.for_torch(ctx.group.group_name)
    return (torch.ops.tilecopy.relayout_shards(gradient, *inverse), *[None] * len(inverse))


_operator = torch.library.custom_op("tilecopy::relayout_shards", _part, mutates_args=(), schema=_SCHEMA)
_operator.register_fake(_fake)
_operator.register_autograd(_gradient, setup_context=_remember_inverse)
