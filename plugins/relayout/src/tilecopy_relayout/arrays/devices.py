"""The choice of the GPU that launches a relayout, and the synchronization of two GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilecopy_core import RequestError
from tilecopy_core.plugin import frozen, short_repr

from .array import SideArray
from .frameworks import driver


@frozen
class DevicePlacement:
    """A frozen record of GPU numbers: the GPU that launches a relayout, the array's GPU and the result's GPU."""

    launching: int
    source: int
    destination: int

    @classmethod
    def of(cls, source: int, destination: int, stream: Any = None, device: int | None = None) -> DevicePlacement:
        """Return the GPUs of a relayout. The source's GPU launches if ``device`` and ``stream`` do not choose a GPU."""
        if device is not None:
            if type(device) is not int or device not in (source, destination):
                raise RequestError(
                    f"device must be the GPU of the array ({source}) or of out ({destination}), got {short_repr(device)}"
                )
            return cls(device, source, destination)
        stream_device = None if stream is None or source == destination else driver().device_of_stream(stream)
        return cls(source if stream_device is None else stream_device, source, destination)


@frozen(eq=False)
class CrossDeviceSync:
    """A frozen record of the frameworks' current streams on the two GPUs of a relayout.

    Attributes:
        here: the GPU that launches, and a function that returns its current stream.
        other: the other GPU, and such a function.
        why_not: the reason why the streams cannot wait for each other, or "".
    """

    here: tuple[int | None, Any]
    other: tuple[int | None, Any]
    why_not: str

    @classmethod
    def of(cls, source: SideArray, destination: SideArray, launching: int) -> CrossDeviceSync | None:
        """Return the streams of both arrays' GPUs. Return None if both arrays are on the same GPU."""
        if source.device == destination.device:
            return None
        why_not = ""
        for name, side in (("array", source), ("out", destination)):
            if not side.framework.has_streams:
                why_not = (
                    f"stream= is required because the array is {source.place}, out is {destination.place}, and {name} is a "
                    f"{type(side.owner).__name__} without a current stream: pass a stream, and order the work on both GPUs"
                )
        here, other = (source, destination) if launching == source.device else (destination, source)
        return cls((here.device, here.stream), (other.device, other.stream), why_not)

    @contextmanager
    def stream(self) -> Iterator[int]:
        """Yield the launch stream. Earlier work on the other GPU runs before the launch, and later work runs after it.

        torch's ``copy_`` does the same. If the launch is captured into a graph and the other stream is not, a graph cannot have
        the waits. Then nothing waits, and the caller orders the other GPU's work before and after the graph.
        """
        if self.why_not:
            raise RequestError(self.why_not)
        here, other = [(device, current()) for device, current in (self.here, self.other)]
        waits = driver().is_capturing(*other) or not driver().is_capturing(*here)
        if waits:
            driver().wait_for(other, here)
        yield here[1]
        if waits:
            driver().wait_for(here, other)
