"""Several GPUs: which one launches, and what waits for what where array and result lie on two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
from tilecopy.executors import executor_named

from tilecopy_core import RequestError

from .arrays import Array


@attrs.frozen
class Gpus:
    """The numbers of the GPUs of a relayout.

    Attributes:
        launching: runs the kernel.
        source: has the array.
        destination: has the result.
    """

    launching: int
    source: int
    destination: int

    @classmethod
    def of(cls, source: int, destination: int, stream: Any = None) -> Gpus:
        """Those of two arrays: the first one's launches, where they are two unless a stream says another.

        Raises:
            LaunchError: there is no driver, or the stream is none.
        """
        if stream is None or source == destination:
            return cls(source, source, destination)
        said = driver().device_of_stream(stream)
        return cls(source if said is None else said, source, destination)


@attrs.frozen(eq=False)
class Across:
    """The current streams of the frameworks of an array and a result on two GPUs.

    Attributes:
        device: the GPU of the array, which launches.
        current: reads its stream.
        out_device: the GPU of the result.
        out_current: reads its stream.
    """

    device: int
    current: Callable[[], int]
    out_device: int
    out_current: Callable[[], int]

    @classmethod
    def of(cls, source: Array, destination: Array) -> Across | None:
        """Of two arrays; None where they lie on one GPU.

        Raises:
            RequestError: one is of a framework that has no current streams.
        """
        if source.device == destination.device or source.device is None or destination.device is None:
            return None
        for name, side in (("array", source), ("out", destination)):
            if not side.framework.has_streams or side.stream is None:
                raise RequestError(
                    f"the array is {source.place}, out {destination.place}, and {name} is a {type(side.owner).__name__}, "
                    "which has no current stream that the other GPU's could wait for; pass stream=, and order the work on both GPUs"
                )
        return cls(source.device, source.stream, destination.device, destination.stream)

    @contextmanager
    def ordered(self) -> Iterator[int]:
        """The stream to launch on. What is launched waits for the other GPU's stream, and that one's later work for it.

        So does torch's ``copy_``. While the launch is captured into a graph and the other stream is not, no graph could hold
        the waits: then nothing waits, and the caller orders the other GPU's work before and after the graph.

        Raises:
            LaunchError: the driver refuses.
        """
        here, there = (self.device, self.current()), (self.out_device, self.out_current())
        waits = driver().is_capturing(*there) or not driver().is_capturing(*here)
        if waits:
            driver().wait_for(there, here)
        yield here[1]
        if waits:
            driver().wait_for(here, there)


def driver() -> Any:
    """The executor's driver.

    Raises:
        LaunchError: the executor is not installed.
    """
    return executor_named("cuda").driver  # type: ignore[attr-defined]
