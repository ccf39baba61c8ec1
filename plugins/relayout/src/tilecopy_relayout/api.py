"""``relayout``: the first call of a kind checks everything; later calls only look it up and launch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, cast

import attrs
from tilecopy.executors import LOWEST_ADDRESS, agreed_stream, same_tensors, stream_pointer
from tilecopy.overlap import overlaps, overlaps_itself

from tilecopy_core import RequestError
from tilecopy_core.plugin import frozen, row_major, shown
from tilecopy_core.registry import LOCK

from .arrays.array import Array, array_of, dtype_name
from .arrays.devices import Across, Gpus, driver
from .arrays.frameworks import Framework, demand_strided
from .local.host import choose_executor, move_in_pieces, target_of_gpu
from .local.word_copy import Movement, movement_of
from .patterns import Rearrangement, rearrangement
from .planner.launching import OnDevice, align_of
from .validation import PERMUTATION, items_of

_MOST_REMEMBERED = 4096
"""Calls that are remembered before all are forgotten."""


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
    """Permute, split and merge the dimensions of an array, into new memory. Bits are moved, never computed on.

    Args:
        array: of torch, CuPy, JAX, NumPy or Dask; any strides, any element type of whole bytes. A torch tensor may require a
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
        sizes: extents of names in the pattern: ``p=4``.

    Returns:
        ``out``, or the new array. It never shares memory with ``array``, even if no element changes place.

    Raises:
        RequestError: an argument is invalid; the message names it and the rule.
        LaunchError: ``stream`` is none, or the driver refuses the launch.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling():
        from .frameworks.torch_op import traced

        return traced(array, axes, out, stream, device, executor, sizes)
    if device is None and placements is None:
        try:
            return _remembered(array, axes, out, stream, executor, sizes)
        except _UnknownError:
            pass
    if not isinstance(axes, (str, tuple)):
        axes = items_of("axes", axes, PERMUTATION)  # an iterator is read once
    if placements is not None or _is_dtensor(array):
        _demand_dtensor(array, placements, out, stream, device)
        from .distributed.dtensors import relayout_dtensor  # torch.compile, which traces this, knows no locks

        return relayout_dtensor(array, axes, placements, executor, sizes)
    if type(array).__module__.partition(".")[0] == "dask":
        with LOCK:
            from .frameworks.dask_blocks import relayout_blocks

        return relayout_blocks(array, axes, out=out, stream=stream, device=device, executor=executor, sizes=sizes)
    if torch is not None and isinstance(array, torch.Tensor):
        tensors = {name: each for name, each in (("array", array), ("out", out)) if isinstance(each, torch.Tensor)}
        for name, tensor in tensors.items():
            demand_strided(name, tensor)
        if any(is_for_torch(torch, tensor) for tensor in tensors.values()):
            from .frameworks.torch_op import traced

            return traced(array, axes, out, stream, device, executor, sizes)
    if _is_proxy(array):
        from .frameworks.torch_op import recorded

        return recorded(array, axes, out, executor, sizes)
    dynamo = sys.modules.get("torch._dynamo")
    check = _checked if dynamo is None else _untraced(dynamo)
    return check(array, axes, out, stream, device, executor, sizes)


@cache
def _untraced(dynamo: Any) -> Callable[..., Any]:
    """Return the whole check as a function that torch.compile does not look into where it has broken its graph around a call."""
    return cast("Callable[..., Any]", dynamo.disable(_checked))


def _is_dtensor(array: Any) -> bool:
    return type(array).__name__ == "DTensor" and type(array).__module__.startswith("torch.")


def _is_proxy(array: Any) -> bool:
    return type(array).__name__ == "Proxy" and type(array).__module__ == "torch.fx.proxy"


def _demand_dtensor(array: Any, placements: Any, out: Any, stream: Any, device: int | None) -> None:
    if not _is_dtensor(array):
        raise RequestError(
            f"placements={shown(placements)} is for a DTensor of torch, and the array is a {type(array).__name__}; leave it out"
        )
    given = {"out": out, "stream": stream, "device": device}
    if named := [name for name, value in given.items() if value is not None]:
        raise RequestError(f"{named[0]}= is not for a DTensor, of which every process has a part; leave it out")


def relayout_tensor(array: Any, axes: Any, out: Any, executor: str | None, sizes: dict[str, int]) -> Any:
    """:func:`relayout` of a torch tensor that has memory, whatever torch records of it. The operator calls it.

    Raises:
        RequestError: as there.
        LaunchError: as there.
    """
    try:
        return _remembered(array, axes, out, None, executor, sizes)
    except _UnknownError:
        return _checked(array, axes, out, None, None, executor, sizes)


def _checked(
    array: Any, axes: Any, out: Any, stream: Any, device: int | None, executor: str | None, sizes: dict[str, int]
) -> Any:
    if stream is not None:
        stream_pointer(stream)
    source = array_of("array", array)
    moved = rearrangement(axes, source.shape, sizes)
    chosen = choose_executor(executor, source.device)
    result = source.framework.empty(source.owner, moved.shape, source.dtype, stream) if out is None else out
    destination = checked_result("the new array" if out is None else "out", result, source, moved.shape)
    if source.device is None or destination.device is None:
        with nullcontext() if device is None else _through(device, chosen):
            if 0 not in moved.shape:
                _move_on_host(movement_of(source, moved, destination), source, destination, chosen)
    else:
        gpus = Gpus.of(source.device, destination.device, stream, device)
        across = Across.of(source, destination, gpus.launching)
        if stream is None and across is None:
            stream = _current(source, destination)()
        if 0 not in moved.shape:
            movement = movement_of(source, moved, destination)
            launch = _launch(movement, gpus, source.pointer, destination.pointer)
            with nullcontext(stream) if across is None or stream is not None else across.ordered() as current:
                launch(source.pointer, destination.pointer, current)
            if device is None and gpus.launching == source.device:
                ready = _Ready.of(launch, movement, moved, source, destination, across)
                _remember(array, axes, out, executor, sizes, ready)
    if out is None:
        return source.framework.made(array, result, stream)
    destination.framework.written(out)
    return out


def _through(device: int, executor: str) -> AbstractContextManager[None]:
    """A GPU as the one that host arrays go through."""
    if executor != "cuda":
        raise RequestError(f"device={shown(device)} is a GPU, and the relayout runs on the {executor}; leave it out")
    if type(device) is not int or device not in [each.ordinal for each in driver().devices]:
        raise RequestError(f"device={shown(device)}: this machine has {len(driver().devices)} GPUs, from 0 on")
    active: AbstractContextManager[None] = driver().active(device)
    return active


def _current(source: Array, destination: Array) -> Callable[[], int]:
    """A function that reads the current stream of the arrays' frameworks. Two frameworks must have the same stream."""
    sides = {"array": source.stream, "out": destination.stream}
    return agreed_stream("relayout", {name: stream for name, stream in sides.items() if stream is not None})


def checked_result(name: str, result: Any, source: Array, shape: tuple[int, ...]) -> Array:
    """Return the facts of an array for a result of this shape: the caller's, or one that a framework has just made.

    Raises:
        RequestError: the result does not fit into it.
    """
    found = array_of(name, result)
    if found.shape != shape:
        raise RequestError(f"{name} has the shape {found.shape}, the result has {shape}, of an array of {source.shape}")
    if dtype_name(found.dtype) != dtype_name(source.dtype) or found.itemsize != source.itemsize:
        raise RequestError(f"{name} has the dtype {found.dtype}, the array {source.dtype}; a relayout converts nothing")
    if (found.device is None) != (source.device is None):
        raise RequestError(f"{name} is {found.place}, the array {source.place}; a relayout stays in one memory")
    if name != "out" and found.device != source.device:
        raise RequestError(f"{name} is {found.place}, the array {source.place}")
    if name == "out" and (why := found.framework.refuses_out(result)):
        raise RequestError(f"out: {why}")
    if name == "out" and found.readonly:
        raise RequestError("out is read-only")
    if overlaps_itself(found.footprint):
        raise RequestError(
            f"{name} overlaps itself: shape {found.shape} with strides of {found.strides_bytes} bytes has elements that share "
            "memory, and one result for them"
        )
    if overlaps(source.footprint, found.footprint):
        raise RequestError(
            f"{name} overlaps the array; a relayout is never done in place: pass other memory, or no out"
        )
    return found


def _move_on_host(movement: Movement, source: Array, destination: Array, executor: str) -> None:
    words = source.words(movement.shape, movement.strides_bytes, movement.dtype)
    result = destination.words(movement.out_shape, movement.out_strides_bytes, movement.dtype)
    move_in_pieces(words, result, movement.axes, executor)


def _launch(movement: Movement, gpus: Gpus, source: int, destination: int) -> OnDevice:
    with LOCK:
        from .planner.plan import plan_relayout
    plan = plan_relayout(
        movement.shape,
        movement.dtype,
        movement.axes,
        strides=movement.strides,
        out_strides=movement.out_strides,
        align_bytes=align_of(source),
        out_align_bytes=align_of(destination),
        target=target_of_gpu(gpus.launching),
    )
    return cast("OnDevice", plan.bind("cuda", gpus))


# --------------------------------------------------------------------------------------- calls that were checked


class _UnknownError(Exception):
    """No call of the same kind is remembered."""


@frozen(eq=False)
class _Ready:
    """A call on device arrays that was checked, but for the addresses.

    Attributes:
        launch: takes both addresses and the stream.
        launches: its launches so far, by the low bits of the addresses.
        mask: the bits of both addresses that must be zero.
        shape: of the result.
        strides: of a new result, where torch makes it.
        result_facts: of a result that was made as a new one is, as its reader has them.
        current: reads the framework's current stream.
        dtype: of the array.
        framework: of the array.
        out_framework: of the result.
        across: orders the work of two GPUs, where both sides are on two.
        low, high: both may overlap where the destination's address less the source's, in bytes, is between these.
    """

    launch: OnDevice
    launches: Mapping[int, tuple[Callable[..., None], int, int]]
    mask: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    result_facts: Any
    current: Callable[[], Any]
    dtype: Any
    framework: Framework
    out_framework: Framework
    across: Across | None
    low: int
    high: int

    @classmethod
    def of(
        cls,
        launch: OnDevice,
        movement: Movement,
        moved: Rearrangement,
        source: Array,
        destination: Array,
        across: Across | None,
    ) -> _Ready | None:
        """The record of a launch; None if the addresses alone made the words narrower."""
        aligned = movement_of(attrs.evolve(source, pointer=0), moved, attrs.evolve(destination, pointer=0))
        if aligned != movement:
            return None
        assert source.device is not None
        reader = _reader_of(type(destination.owner))
        try:
            result_facts = None if reader is None else reader(destination.owner)[0]
        except _UnknownError:  # torch records or transforms the call
            return None
        (first, last), (out_first, out_last) = source.footprint.span, destination.footprint.span
        distance = destination.pointer - source.pointer
        return cls(
            launch,
            launch.launches,
            movement.word_bytes - 1,
            moved.shape,
            row_major(moved.shape) if source.framework.name == "torch" else None,
            result_facts,
            _current(source, destination),
            source.dtype,
            source.framework,
            destination.framework,
            across,
            first - out_last + distance,
            last - out_first + distance,
        )


_readers: dict[type, Callable[[Any], tuple[Any, int]]] = {}
_calls: dict[Any, _Ready] = {}
_newest: dict[Any, tuple[Callable[[], bool], Callable[..., bool], _Ready]] = {}
"""The newest call on tensors of torch with the same other arguments: whether torch must see calls now, whether tensors are like those of
that call, and its record. torch compares tensors in a fifth of the time that reading them takes."""


def _always() -> bool:
    """Say that torch must see calls: no call on tensors is remembered."""
    return True


_NO_CALL: Any = (_always, None, None)


def _remembered(array: Any, axes: Any, out: Any, stream: Any, executor: str | None, sizes: dict[str, int]) -> Any:
    """Launch as an earlier call of the same kind did.

    Raises:
        _UnknownError: the call must be checked.
    """
    options = axes, executor, tuple(sizes.items()) if sizes else None, out is None
    try:
        recorded, same, ready = _newest.get(options, _NO_CALL)
        if not recorded() and (same(array) if out is None else same(array, out)):
            pointer, out_pointer = array.data_ptr(), 0 if out is None else out.data_ptr()
        else:
            facts, pointer = _readers[type(array)](array)
            out_facts, out_pointer = (None, 0) if out is None else _readers[type(out)](out)
            ready = _calls[facts, options, out_facts]
    except Exception:  # whatever is odd about the arguments, the whole check says it
        raise _UnknownError from None
    if pointer < LOWEST_ADDRESS:  # it may have no memory
        raise _UnknownError
    result = out
    if out is None:
        if stream is None and ready.strides is not None:
            result = array.new_empty_strided(ready.shape, ready.strides)  # a third faster than new_empty
            out_pointer = result.data_ptr()
        else:
            result = ready.framework.empty(array, ready.shape, ready.dtype, stream)
            if type(result) not in _readers:
                raise _UnknownError
            result_facts, out_pointer = _readers[type(result)](result)
            if result_facts != ready.result_facts:  # the framework made something else: the whole check says what
                raise _UnknownError
    elif out_pointer < LOWEST_ADDRESS or ready.low < out_pointer - pointer < ready.high:
        raise _UnknownError  # may have no memory, or may overlap: exactly, by the whole check
    elif ready.across is not None:
        return _across(ready, ready.across, pointer, out_pointer, stream, out)
    if stream is None:
        stream = ready.current()
    try:
        launch, src_bytes, dst_bytes = ready.launches[(pointer & 15) << 4 | out_pointer & 15]  # low_bits of both
    except KeyError:
        if (pointer | out_pointer) & ready.mask:
            raise _UnknownError from None
        ready.launch(pointer, out_pointer, stream)
    else:
        launch((pointer + src_bytes, out_pointer + dst_bytes), stream)
    if out is not None:
        ready.out_framework.written(out)
    return result


def _across(ready: _Ready, across: Across, pointer: int, out_pointer: int, stream: Any, out: Any) -> Any:
    """:func:`_remembered` for a result on another GPU.

    Raises:
        _UnknownError: the call must be checked, because the stream's GPU launches, and that is another GPU.
    """
    if (pointer | out_pointer) & ready.mask:
        raise _UnknownError
    if stream is not None and driver().device_of_stream(stream) not in (None, across.device):
        raise _UnknownError
    with across.ordered() if stream is None else nullcontext(stream) as current:
        ready.launch(pointer, out_pointer, current)
    ready.out_framework.written(out)
    return out


def _remember(
    array: Any, axes: Any, out: Any, executor: str | None, sizes: dict[str, int], ready: _Ready | None
) -> None:
    """Remember a call for later calls of the same kind, if these need only cheap reads of their arrays."""
    if ready is None:
        return
    facts = []
    for each in (array, out):
        reader = None if each is None else _reader_of(type(each))
        if reader is not None:
            _readers[type(each)] = reader
        elif each is not None:
            return
        try:
            facts.append(None if reader is None else reader(each)[0])
        except _UnknownError:
            return
    if len(_calls) >= _MOST_REMEMBERED:
        _calls.clear()
        _newest.clear()
    options = axes, executor, tuple(sizes.items()) if sizes else None, out is None
    try:
        _calls[facts[0], options, facts[1]] = ready
    except TypeError:  # axes is a list
        return
    tensors = [array] if out is None else [array, out]
    same = same_tensors(tensors)
    if same is not None and not any(tensor.requires_grad for tensor in tensors):
        _newest[options] = _recorder(sys.modules["torch"]), same, ready


def _reader_of(kind: type) -> Callable[[Any], tuple[Any, int]] | None:
    """A function that reads the facts that a call depends on, and the address; None if that is not cheap."""
    torch = sys.modules.get("torch")
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        return _torch_reader(torch)
    if kind.__module__.partition(".")[0] == "cupy" and hasattr(kind, "__cuda_array_interface__"):
        return _cupy_key
    return None


def _torch_reader(torch: Any) -> Callable[[Any], tuple[Any, int]]:
    """Reads a tensor. It raises if the call must go through torch, or the tensor is a wrapper without memory."""
    modes, records, recorded = torch._C._len_torch_dispatch_stack, torch.is_grad_enabled, _recorder(torch)
    conjugated = frozenset({torch.complex32, torch.complex64, torch.complex128})

    def read(tensor: Any) -> tuple[Any, int]:
        if modes() or recorded() or (tensor.requires_grad and records()):
            raise _UnknownError
        dtype = tensor.dtype
        if tensor.is_neg() or (dtype in conjugated and tensor.is_conj()):
            raise _UnknownError
        return (tensor.shape, tensor.stride(), dtype, tensor.get_device()), tensor.data_ptr()

    return read


def _cupy_key(array: Any) -> tuple[Any, int]:
    memory = array.data
    return (array.shape, array.strides, array.dtype, memory.device_id), memory.ptr


def is_for_torch(torch: Any, tensor: Any) -> bool:
    """Return whether torch must see the call: it records, transforms or traces it, or the tensor has no memory of its own."""
    if tensor.requires_grad and torch.is_grad_enabled():
        return True
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or torch._C._len_torch_dispatch_stack():
        return True
    return tensor.is_meta or tensor._is_zerotensor() or _recorder(torch)()


def _recorder(torch: Any) -> Callable[[], bool]:
    """Return a function that says whether ``torch.jit.trace``, a transform of ``torch.func`` or forward-mode AD sees calls now."""
    traces, transforms, forward = (
        torch._C._is_tracing,
        torch._C._are_functorch_transforms_active,
        torch.autograd.forward_ad,
    )
    return lambda: traces() or transforms() or forward._current_level >= 0
