"""Exchanges on GPUs of one host. Each rank's GPU writes directly into every rank's result. This module imports torch.

A call is one CUDA graph: a barrier of the ranks' GPUs, concurrent relayouts of all boxes that this rank sends, and a barrier.
After the first barrier, no rank reads the old contents of the memory. After the second, the result is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, cast

import attrs
import torch

from tilecopy_core.plugin import frozen, row_major

from ..arrays.devices import DevicePlacement
from ..arrays.frameworks import driver
from ..arrays.torch_internals import symmetric_handle, symmetric_memory
from ..local.call import launcher_of
from ..planner.launching import DeviceLauncher
from ..planner.problem import RelayoutSpec
from .rendezvous import Rendezvous
from .shards import Shards

_LEAST_BYTES = 1 << 21
"""The least bytes of the memory for results: the granularity of the driver."""
_MOST_GRAPHS = 64
"""The most cached graphs of a kind of call, one per address of the array; the oldest is dropped first."""
_NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING."""


@frozen(eq=False)
class SymmetricBuffer:
    """A frozen record of symmetric memory. Each rank has a buffer of the same size. All ranks can write to each buffer.

    It has this rank's memory, torch's handle with the barrier, and the address of each rank's memory in this process.
    """

    tensor: torch.Tensor
    handle: Any
    addresses: tuple[int, ...]


class SymmetricWorkspace:
    """The GPU memory that the ranks of a group share. The first exchange allocates this memory.

    Results are written to this memory and then copied to new tensors, so that no rank writes to a tensor of a caller on another rank.
    The memory grows in powers of two. Smaller memory is kept, too, because CUDA graphs of the caller may write to it.
    """

    def __init__(self, group_name: str, rendezvous: Rendezvous) -> None:
        self._group_name, self._rendezvous = group_name, rendezvous
        self._usable = rendezvous.one_host
        self._kept: list[SymmetricBuffer] = []
        self._streams: list[int] = []
        self._done: Any = None

    def push(
        self, x: torch.Tensor, out: torch.Tensor | None, shards: Shards, into: Sequence[tuple[int, ...]]
    ) -> Callable[[Any, torch.Tensor, Any], torch.Tensor] | None:
        """Return a function that exchanges the parts. Return None if some rank cannot write to another rank's memory.

        Every rank must make this call. ``x`` is this rank's part of the array. ``out`` is its symmetric memory for the result, if all
        ranks have it. ``into`` has the strides of each rank's part of the result.
        """
        with torch.cuda.device(x.device):
            if out is not None:
                buffer = self._buffer(lambda: out)
            else:
                buffer = self._kept_buffer(x, shards)
                into = [row_major(shards.out_shape(rank)) for rank in range(shards.ranks)]
            if buffer is None:
                return None
            self._done = self._done or torch.cuda.Event()
            gpu, rank, moves = x.device.index, self._rendezvous.rank, []
            for step in range(1, shards.ranks + 1):  # each rank begins with another receiver
                receiver = (rank + step) % shards.ranks
                for box in shards.boxes(rank, receiver):
                    source = shards.in_source(box, rank, x.stride())
                    result = shards.in_result(box, receiver, into[receiver])
                    first = source.offset * x.element_size()
                    address = buffer.addresses[receiver] + result.offset * x.element_size()
                    spec = RelayoutSpec(source.extents, source.strides, result.strides, x.element_size())
                    launch = launcher_of(spec, DevicePlacement.of(gpu, gpu), x.data_ptr() + first, address)
                    moves.append((launch, first, address))
            while len(self._streams) < max(len(moves), 2):
                with driver().active(gpu):
                    self._streams.append(int(driver().call("cuStreamCreate", _NON_BLOCKING)))
        timeout_ms = int(self._rendezvous.seconds * 1000)
        barrier = partial(buffer.handle.barrier, channel=0, timeout_ms=timeout_ms)
        work = PutGraph(x.device, buffer, barrier, tuple(moves), tuple(self._streams))
        shape = shards.out_shape(rank)
        written = None if out is not None else buffer.tensor[: prod(shape) * x.element_size()].view(x.dtype).view(shape)
        return partial(self._move, work, written)

    def _move(
        self, work: PutGraph, written: torch.Tensor | None, group: Any, x: torch.Tensor, out: Any
    ) -> torch.Tensor:
        """Run one call, and copy its result from ``written`` to a new tensor or ``out``; ``written`` is None if it is in ``out``.

        Calls of a group use the same memory, so they wait for each other, on any stream. In a graph capture of the caller, the
        work is captured, and the caller must order the graph and other calls.
        """
        with torch.cuda.device(x.device):
            captured = torch.cuda.is_current_stream_capturing()
            if not captured:
                self._done.wait()
            work(x.data_ptr(), captured=captured)
            result = torch.empty_like(written) if written is not None and out is None else out
            if written is not None:
                result.copy_(written)
            if not captured:
                self._done.record()
            return cast("torch.Tensor", result)

    def _kept_buffer(self, x: torch.Tensor, shards: Shards) -> SymmetricBuffer | None:
        """Return memory for the largest part of the result, allocated if necessary, or None."""
        most = max(prod(shards.out_shape(rank)) for rank in range(shards.ranks)) * x.element_size()
        nbytes = max(_LEAST_BYTES, 1 << (most - 1).bit_length() if most else 0)
        if self._usable and (not self._kept or self._kept[-1].tensor.numel() < nbytes):
            buffer = self._buffer(lambda: symmetric_memory(nbytes, x.device))
            self._usable = buffer is not None
            if buffer is not None:
                self._kept.append(buffer)
        return self._kept[-1] if self._usable else None

    def _buffer(self, make: Callable[[], torch.Tensor]) -> SymmetricBuffer | None:
        """Return a tensor as memory that all ranks can write, or None on every rank if a rank cannot access another's."""
        if not self._usable:
            return None
        try:
            tensor = make()
            handle = symmetric_handle(tensor, self._group_name)
            within = f"{tensor.data_ptr() - handle.buffer_ptrs[handle.rank]}"  # it may begin elsewhere on each rank
        except (ImportError, RuntimeError):
            within = ""
        offsets = self._rendezvous.all_gather_text(within)
        if not all(offsets):
            return None
        bases = zip(handle.buffer_ptrs, map(int, offsets), strict=True)
        return SymmetricBuffer(tensor, handle, tuple(base + offset for base, offset in bases))


@frozen(eq=False)
class PutGraph:
    """A frozen record of an exchange. Calling the record launches the exchange as a CUDA graph.

    Attributes:
        barrier: a function that enqueues a barrier of all ranks' GPUs on the current stream.
        moves: for each box its relayout, the bytes from the array's first element, and the address in its receiver's memory.
        streams: streams, at least as many as moves.
        graphs: the array's address -> its graph.
    """

    device: torch.device
    buffer: SymmetricBuffer
    barrier: Callable[[], None]
    moves: tuple[tuple[DeviceLauncher, int, int], ...]
    streams: tuple[int, ...]
    graphs: dict[int, Any] = attrs.field(factory=dict)

    def __call__(self, source: int, *, captured: bool) -> None:
        """Enqueue the exchange on the current stream for an array at ``source``; ``captured`` if the stream is being captured."""
        if captured:
            self._work(source)
            return
        graph = self.graphs.get(source)
        if graph is None:
            if len(self.graphs) >= _MOST_GRAPHS:
                del self.graphs[next(iter(self.graphs))]
            graph = self.graphs[source] = self._capture(source)
        graph.replay()

    def _capture(self, source: int) -> Any:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(torch.cuda.ExternalStream(self.streams[0], self.device)):
            graph.capture_begin(capture_error_mode="relaxed")
            try:
                self._work(source)
            finally:
                graph.capture_end()
        return graph

    def _work(self, source: int) -> None:
        """Enqueue the work on the current stream, and on other streams that wait for it and that it waits for."""
        gpu = self.device.index
        current = gpu, torch.cuda.current_stream(self.device).cuda_stream
        others = [(gpu, stream) for stream in self.streams[1 : len(self.moves)]]
        self.barrier()
        for other in others:
            driver().wait_for(current, other)
        for (launch, first, address), (_, stream) in zip(self.moves, [current, *others], strict=False):
            launch(source + first, address, stream)
        for other in others:
            driver().wait_for(other, current)
        self.barrier()
