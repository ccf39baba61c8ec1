"""The cache of checked launches. A call that differs from a cached call only in addresses is not checked again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import attrs
from tilecopy.executors import LOWEST_ADDRESS, framework_of, reader_of, same_tensors

from tilecopy_core.plugin import frozen, row_major

from ..arrays.devices import CrossDeviceSync
from ..arrays.frameworks import Framework, Torch, driver
from ..planner.launching import DeviceLauncher
from .call import CheckedLaunch, RelayoutCall, current_stream, run_call, words_of

_MOST_LAUNCHES = 4096
"""The most cached launches; then the cache is cleared."""


class CacheMissError(Exception):
    """The error for a call that has no cached launch."""


@frozen(eq=False)
class _CachedLaunch:
    """A frozen record of a checked call on device arrays, for other addresses.

    Attributes:
        launch: a function of both addresses and the stream.
        launches: its launches so far, by the low bits of the addresses; none if the sides are on two GPUs.
        mask: the bits of both addresses that must be zero.
        strides: the strides of a new torch tensor for the result, or None.
        result_facts: the facts of a new result, as its reader returns them.
        current: a function that returns the framework's current stream.
        sync: orders the work of two GPUs if the sides are on two, else None.
        low, high: the sides may overlap if the destination's address minus the source's is between these, in bytes.
    """

    launch: DeviceLauncher
    launches: Mapping[int, tuple[Callable[..., None], int, int]]
    mask: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    result_facts: Any
    current: Callable[[], Any]
    dtype: Any
    framework: Framework
    out_framework: Framework
    sync: CrossDeviceSync | None
    low: int
    high: int

    def new_result(self, array: Any, stream: Any) -> tuple[Any, int]:
        """Return a new array for the result and the address of the new array."""
        result = self.framework.empty(array, self.shape, self.dtype, stream)
        reader = _readers.get(type(result))
        facts, address = (None, 0) if reader is None else reader(result)
        if facts is None or facts != self.result_facts:
            raise CacheMissError
        return result, address

    def launch_first(self, source: int, destination: int, stream: Any) -> None:
        """Launch at addresses for which ``launches`` has no entry. Raise CacheMissError if an address is misaligned."""
        sync = self.sync
        if (source | destination) & self.mask:
            raise CacheMissError
        if sync and stream is not None and driver().device_of_stream(stream) not in (None, sync.here[0]):
            raise CacheMissError
        with nullcontext(stream) if sync is None or stream is not None else sync.stream() as current:
            self.launch(source, destination, current)


_readers: dict[type, Callable[[Any], tuple[Any, int]]] = {}
_launches: dict[Any, _CachedLaunch] = {}
_newest: dict[Any, tuple[Callable[[], bool], Callable[..., bool], _CachedLaunch]] = {}
"""The other arguments -> the newest call on torch tensors with them: a function that returns True if torch must dispatch calls, one that
compares tensors with those of the call, and its record. A comparison in torch takes a fifth of the time of reading the tensors."""
_NONE_KEPT: Any = (None, None, None)


def launch_cached(array: Any, axes: Any, out: Any, stream: Any, executor: str | None, sizes: Mapping[str, Any]) -> Any:
    """Run a call with the cached launch of an earlier call that differs only in addresses. Return the result."""
    try:
        options = _options(axes, out, executor, sizes)
        sees_calls, same, kept = _newest.get(options, _NONE_KEPT)
        if same is not None and not sees_calls() and (same(array) if out is None else same(array, out)):
            address, out_address = array.data_ptr(), 0 if out is None else out.data_ptr()
        else:
            facts, address = _readers[type(array)](array)
            out_facts, out_address = (None, 0) if out is None else _readers[type(out)](out)
            kept = _launches[facts, options, out_facts]
    except Exception:  # the complete check reports what is wrong with the arguments
        kept, address = None, 0
    if kept is None or address < LOWEST_ADDRESS:  # it may have no memory; torch.compile traces no raise in a handler
        raise CacheMissError
    result = out
    if out is None and stream is None and kept.strides is not None:
        result = array.new_empty_strided(kept.shape, kept.strides)  # a third faster than new_empty
        out_address = result.data_ptr()
    elif out is None:
        result, out_address = kept.new_result(array, stream)
    elif out_address < LOWEST_ADDRESS or kept.low < out_address - address < kept.high:
        raise CacheMissError  # may have no memory, or may overlap; the complete check decides
    if stream is None:
        stream = kept.current()
    prepared = kept.launches.get((address & 15) << 4 | out_address & 15)  # low_bits of both
    if prepared is None:
        kept.launch_first(address, out_address, stream)
    else:
        launch, src_bytes, dst_bytes = prepared
        launch((address + src_bytes, out_address + dst_bytes), stream)
    if out is not None:
        kept.out_framework.mark_written(out)
    return result


def _options(axes: Any, out: Any, executor: str | None, sizes: Mapping[str, Any]) -> Any:
    return axes, executor, tuple(sizes.items()) if sizes else None, out is None


def relayout_array(call: RelayoutCall) -> Any:
    """Return the relayout of an array in memory. torch does not record the call."""
    if call.device is None:
        with suppress(CacheMissError):
            return launch_cached(call.array, call.axes, call.out, call.stream, call.executor, call.sizes)
    dynamo = sys.modules.get("torch._dynamo")
    run = run_call if dynamo is None else dynamo.disable(run_call)
    return run(call, partial(_keep, call))


def _keep(call: RelayoutCall, checked: CheckedLaunch) -> None:
    """Cache a launch for later calls of the same kind, if their arrays can be read cheaply.

    It is not cached if only its addresses require the narrow words, or torch must dispatch it.
    """
    source, destination, moved = checked.source, checked.destination, checked.rearrangement
    relative, out_relative = [attrs.evolve(side.memory, start=0) for side in (source, destination)]
    aligned = words_of(relative, moved, out_relative)
    facts = []
    for side in (call.array, destination.owner if call.out is None else call.out):
        reader = _reader_of(type(side))
        if reader is None or aligned != checked.words:
            return
        _readers[type(side)] = reader
        try:
            facts.append(reader(side)[0])
        except CacheMissError:
            return
    if len(_launches) >= _MOST_LAUNCHES:
        _launches.clear()
        _newest.clear()
    options = _options(call.axes, call.out, call.executor, call.sizes)
    (first, last), (out_first, out_last) = relative.byte_bounds, out_relative.byte_bounds
    launches: Mapping[int, Any] = checked.launch.launches
    current: Callable[[], Any] = current_stream(source, destination)
    if checked.sync is not None:  # each launch orders the streams of both GPUs: launch_first
        launches, current = {}, lambda: None
    kept = _CachedLaunch(
        checked.launch,
        launches,
        checked.words.elem_bytes - 1,
        moved.shape,
        row_major(moved.shape) if isinstance(source.framework, Torch) else None,
        facts[1],
        current,
        source.dtype,
        source.framework,
        destination.framework,
        checked.sync,
        first - out_last,
        last - out_first,
    )
    try:
        _launches[facts[0], options, None if call.out is None else facts[1]] = kept
    except TypeError:  # axes is a list
        return
    tensors = [call.array] if call.out is None else [call.array, call.out]
    same = same_tensors(tensors)
    if same is not None and not any(tensor.requires_grad for tensor in tensors):
        from ..arrays.torch_internals import sees_calls

        _newest[options] = sees_calls, same, kept


def _reader_of(kind: type) -> Callable[[Any], tuple[Any, int]] | None:
    """Return a function that returns an array's facts and address, or None if reading them is not cheap.

    It raises CacheMissError for a tensor of torch if the call must go through torch.
    """
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and kind in (torch.Tensor, torch.nn.Parameter)
    read = reader_of(kind) if is_tensor or framework_of(kind) == "cupy" else None
    if read is None or not is_tensor:
        return read
    from ..arrays.torch_internals import must_see

    def read_tensor(tensor: Any) -> tuple[Any, int]:
        if must_see(tensor):
            raise CacheMissError
        return read(tensor)

    return read_tensor
