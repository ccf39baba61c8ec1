"""Streams: the one that a launch is given, or else the current stream of the framework that its arrays come from."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from tilecopy_core.errors import TEXT, Validator, attribute, checked, short_repr

from ..errors import LaunchError

CurrentStream = partial[int]
"""Reads the number of the stream (a CUstream) on which a framework puts a GPU's work now; equal ones read the same."""

LEGACY = 0
"""The legacy default stream, which is also the driver's default. The CUDA array interface and DLPack call it 1."""
_LEGACY = partial(int, LEGACY)
_CAPTURES: dict[str, Callable[[Any], bool]] = {
    "torch": lambda torch: torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing(),
    "cupy": lambda cupy: cupy.cuda.get_current_stream().is_capturing(),
}
"""Whether the current stream of a framework is captured, by the name of its module."""
_READERS = Validator(
    "readers of streams by name",
    lambda value: isinstance(value, Mapping) and all(isinstance(reader, partial) for reader in value.values()),
)


def stream_handle(stream: Any) -> int:
    """Return the CUstream of an integer, or of a torch, CuPy or cuda.core stream object.

    Raises:
        LaunchError: none of these.
    """
    try:
        handle: Any = None if isinstance(stream, bool) else stream
        if hasattr(stream, "cuda_stream"):
            handle = stream.cuda_stream
        elif hasattr(stream, "__cuda_stream__"):
            protocol = stream.__cuda_stream__
            handle = (protocol() if callable(protocol) else protocol)[1]
        elif hasattr(stream, "ptr"):
            handle = stream.ptr
        number = operator.index(handle)
    except Exception:  # an object's own
        number = -1
    if not 0 <= number < 2**64:
        raise LaunchError(
            f"stream must be a CUstream as an integer, or a stream of torch, CuPy or cuda.core, got {short_repr(stream)}"
        )
    return number


def stream_device(stream: Any) -> int | None:
    """Return the GPU that a stream object says it is of (torch, CuPy, cuda.core); None: it does not say."""
    device = attribute(stream, "device")
    for number in (attribute(device, "index"), attribute(device, "device_id"), attribute(stream, "device_id")):
        if type(number) is int and number >= 0:
            return number
    return None


def framework_of(kind: type) -> str:
    """Return the top-level module of the framework that an array's type comes from: ``"torch"``, ``"cupy"``, ``"jax"``, or ``""``.

    A class that is derived from a framework's own belongs to that framework.
    """
    roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return next((root.removesuffix("lib") for root in roots if root in ("torch", "cupy", "jax", "jaxlib")), "")


def current_stream(framework: str, device: int) -> CurrentStream | None:
    """Return what reads a framework's current stream of a GPU.

    Args:
        framework: ``"torch"`` or ``"cupy"``. Every other framework has none, or none that can be asked for.
        device: the GPU's number.

    Returns:
        The reader, or None where the framework is not loaded or has no current stream.
    """
    module: Any = sys.modules.get(framework)
    if module is None:
        return None
    if framework == "torch":
        raw = getattr(module._C, "_cuda_getCurrentRawStream", None)
        return partial(_torch_stream, module, device) if raw is None else partial(raw, device)
    return partial(_cupy_stream, module, device) if framework == "cupy" else None


def capturing_framework() -> str:
    """Return the name of a framework whose current stream is captured into a graph, or "". An allocation would end the capture."""
    for name, captures in _CAPTURES.items():
        module = sys.modules.get(name)
        with suppress(Exception):  # no GPU, or a version that cannot tell
            if module is not None and captures(module):
                return name
    return ""


def enable_torch_peer_access(device: int, other: int) -> None:
    """Have torch, where it is in use, give one GPU access to its memory of another, as its allocators do at the first copy between both."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.empty(1, device=f"cuda:{other}").copy_(torch.empty(1, device=f"cuda:{device}"))


def _torch_stream(torch: Any, device: int) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)


def _cupy_stream(cupy: Any, device: int) -> int:
    return int(cupy.cuda.get_current_stream(device).ptr)


def exported_stream(number: Any) -> CurrentStream | None:
    """Return the ``stream`` of a CUDA array interface, on which its array was last worked on; None: there is nothing to wait for.

    Raises:
        ValueError: it is not a stream. 0 is not: the interface says that it could be either default stream.
    """
    if number is None:
        return None
    stream = operator.index(number)
    if not 0 < stream < 2**64:
        raise ValueError(f"stream {number}")
    return partial(int, LEGACY if stream == 1 else stream)


@checked(LaunchError, what=TEXT, readers=_READERS)
def common_stream(what: str, readers: Mapping[str, CurrentStream]) -> CurrentStream:
    """Return what reads the one current stream of all arguments.

    Args:
        what: is launched, for messages.
        readers: of the arguments whose frameworks have a current stream (:attr:`ArrayView.stream`), by name.

    Returns:
        The reader. It raises :class:`LaunchError` when the frameworks' current streams differ. Without any it gives 0, the
        legacy default stream.
    """
    different = {(reader.func, reader.args): reader for reader in readers.values()}
    if len(different) > 1:
        return partial(_common_handle, what, readers)
    return next(iter(different.values()), _LEGACY)


def _common_handle(what: str, readers: Mapping[str, CurrentStream]) -> int:
    handles = {name: reader() for name, reader in readers.items()}
    if len(set(handles.values())) > 1:
        handle_list = ", ".join(f"{name} on 0x{number:x}" for name, number in handles.items())
        raise LaunchError(
            f"{what}: the current streams of its arguments' frameworks differ: {handle_list}; pass stream=, and let that "
            "stream wait for the others"
        )
    return next(iter(handles.values()))
