"""A record of one call of ``relayout``, and a function that checks the whole call before anything is launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from math import gcd
from typing import Any, NamedTuple, cast

from tilecopy.executors import common_stream, stream_handle
from tilecopy.overlap import StridedMemory, overlaps, overlaps_itself

from tilecopy_core import RequestError
from tilecopy_core.plugin import frozen, short_repr

from ..arrays.array import SideArray, array_of, dtype_name
from ..arrays.devices import CrossDeviceSync, DevicePlacement
from ..arrays.frameworks import driver
from ..axes import rearrangement
from ..planner import plan as planner
from ..planner.launching import DeviceLauncher, align_of
from ..planner.problem import WIDEST_BYTES, RelayoutSpec
from ..rearrangement import Rearrangement
from .host import choose_executor, move_in_pieces, target_of_gpu


class RelayoutCall(NamedTuple):
    """A named tuple of the arguments of :func:`~tilecopy_relayout.relayout`. torch.compile can trace a tuple."""

    array: Any
    axes: Any
    out: Any = None
    stream: Any = None
    device: int | None = None
    executor: str | None = None
    sizes: Mapping[str, Any] = {}

    def rearrangement(self) -> Rearrangement:
        """Return the rearrangement of the array's dimensions."""
        return rearrangement(self.axes, self.array.shape, self.sizes)

    def refuse(self, why: str, *names: str) -> None:
        """Raise RequestError if an argument named in ``names`` is not None. The message ends with ``why``."""
        for name in names:
            if getattr(self, name) is not None:
                raise RequestError(f"{name}=: {why}")

    def for_torch(self) -> tuple[Any, str, str, list[int], str]:
        """Return the arguments of the torch operator in this order: array, axes, axis names, axis lengths, executor."""
        axes = self.axes if isinstance(self.axes, str) else ",".join([str(axis) for axis in self.axes])
        return self.array, axes, " ".join(self.sizes), list(self.sizes.values()), self.executor or ""

    @classmethod
    def of_torch(
        cls, array: Any, axes: str, names: str, extents: list[int], executor: str, out: Any = None
    ) -> RelayoutCall:
        """Return the call from the arguments that :meth:`for_torch` returned."""
        sizes = dict(zip(names.split(), extents, strict=True))
        return cls(array, axes, out, executor=executor or None, sizes=sizes)


@frozen(eq=False)
class CheckedLaunch:
    """A frozen record of a checked call on device arrays and its launch."""

    launch: DeviceLauncher
    words: RelayoutSpec
    rearrangement: Rearrangement
    source: SideArray
    destination: SideArray
    sync: CrossDeviceSync | None


def run_call(call: RelayoutCall, on_launch: Callable[[CheckedLaunch], None]) -> Any:
    """Check and run a call. Return the result. ``on_launch`` receives each launch that may be cached."""
    if call.stream is not None:
        stream_handle(call.stream)
    source = array_of("array", call.array)
    moved = rearrangement(call.axes, source.memory.shape, call.sizes)
    executor = choose_executor(call.executor, source.device)
    new = call.out is None
    result = source.framework.empty(source.owner, moved.shape, source.dtype, call.stream) if new else call.out
    destination = checked_result("the new array" if new else "out", result, source, moved.shape)
    words = None if 0 in moved.shape else words_of(source.memory, moved, destination.memory)
    stream = call.stream
    if source.device is None or destination.device is None:
        with nullcontext() if call.device is None else _through(call.device, executor):
            if words is not None:
                side, out_side = words.sides
                move_in_pieces(source.words(side, words.dtype), destination.words(out_side, words.dtype), executor)
    else:
        placement = DevicePlacement.of(source.device, destination.device, stream, call.device)
        sync = CrossDeviceSync.of(source, destination, placement.launching)
        if stream is None and sync is None:
            stream = current_stream(source, destination)()
        if words is not None:
            addresses = source.memory.start, destination.memory.start
            launch = launcher_of(words, placement, *addresses)
            with nullcontext(stream) if sync is None or stream is not None else sync.stream() as current:
                launch(*addresses, current)
            if call.device is None and placement.launching == source.device:
                on_launch(CheckedLaunch(launch, words, moved, source, destination, sync))
    if new:
        return source.framework.finalize(call.array, result, stream)
    destination.framework.mark_written(call.out)
    return call.out


def _through(device: int, executor: str) -> Any:
    """Return a context in which host arrays use a GPU."""
    if executor != "cuda":
        raise RequestError(f"device must be omitted with the executor {executor}, got {short_repr(device)}")
    if type(device) is not int or device not in [gpu.ordinal for gpu in driver().devices]:
        raise RequestError(
            f"device must be one of the GPU numbers {[gpu.ordinal for gpu in driver().devices]} of this machine, got {short_repr(device)}"
        )
    return driver().active(device)


def current_stream(source: SideArray, destination: SideArray) -> Callable[[], int]:
    """Return a function that returns the frameworks' current stream. It must be the same stream for both arrays."""
    sides = {"array": source.stream, "out": destination.stream}
    return common_stream("relayout", {name: stream for name, stream in sides.items() if stream is not None})


def checked_result(name: str, result: Any, source: SideArray, shape: tuple[int, ...]) -> SideArray:
    """Check the shape, dtype, device and memory of a result array. Return the array's :class:`SideArray`."""
    facts = array_of(name, result)
    memory, source_memory = facts.memory, source.memory
    if memory.shape != shape:
        raise RequestError(
            f"{name} must have the result's shape {shape} for an array of shape {source_memory.shape}, got {memory.shape}"
        )
    if dtype_name(facts.dtype) != dtype_name(source.dtype) or memory.itemsize != source_memory.itemsize:
        raise RequestError(
            f"{name} must have the array's dtype {source.dtype}, got {facts.dtype}: relayout does not convert dtypes"
        )
    if facts.device != source.device and (name != "out" or None in (facts.device, source.device)):
        raise RequestError(f"{name} must be {source.place} like the array, got an array {facts.place}")
    if name == "out" and (why := facts.framework.out_error(result)):
        raise RequestError(f"out: {why}")
    if name == "out" and facts.readonly:
        raise RequestError("out must be writable, got a read-only array")
    if overlaps_itself(memory):
        raise RequestError(
            f"{name} must not have elements that share memory, got shape {shape} with strides of {memory.strides_bytes} bytes: "
            "pass another array"
        )
    if overlaps(source_memory, memory):
        raise RequestError(
            f"{name} must not overlap the array, because relayout cannot work in place: pass another array"
        )
    return facts


def words_of(source: StridedMemory, moved: Rearrangement, out: StridedMemory) -> RelayoutSpec:
    """Convert a relayout to a copy of 1- to 16-byte words between two arrays, in the destination's dimension order.

    A word is as wide as the element's size, all strides and both addresses allow. An element of several words (12
    bytes, or a misaligned element) adds an innermost dimension on both sides.
    """
    src, dst = moved.source_strides(source.strides_bytes), moved.destination_strides(out.strides_bytes)
    dims = [(moved.extents[n], src[n], dst[n]) for n in moved.order if moved.extents[n] != 1]
    steps = [step for _, *both in dims for step in both]
    word = gcd(WIDEST_BYTES, source.itemsize, source.start, out.start, *steps)
    if source.itemsize > word or not dims:  # also for a single element
        dims.append((source.itemsize // word, word, word))
    extents, src, dst = zip(*dims, strict=True)
    return RelayoutSpec(extents, tuple(step // word for step in src), tuple(step // word for step in dst), word)


def launcher_of(words: RelayoutSpec, placement: DevicePlacement, source: int, destination: int) -> DeviceLauncher:
    """Return a launcher of a relayout on GPUs, planned for the alignments of these addresses."""
    plan = planner.plan_of(words, target_of_gpu(placement.launching), align_of(source), align_of(destination))
    return cast("DeviceLauncher", plan.bind("cuda", placement))
