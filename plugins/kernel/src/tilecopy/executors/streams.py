"""Functions that find the CUDA stream of a launch: ``stream=``, or the current stream of the arrays' framework."""

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
"""A function that returns the CUstream, as an integer, on which a framework puts a GPU's work now.
Two readers that compare equal read the same stream."""

LEGACY = 0
"""The legacy default stream, which is also the driver's default. The CUDA array interface and DLPack call it 1."""
_LEGACY = partial(int, LEGACY)
_CAPTURES: dict[str, Callable[[Any], bool]] = {
    "torch": lambda torch: torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing(),
    "cupy": lambda cupy: cupy.cuda.get_current_stream().is_capturing(),
}
"""Name of a framework's module -> function that returns True if its current stream is being captured."""
_READERS = Validator(
    "a dict from argument names to values of ArrayView.stream",
    lambda value: isinstance(value, Mapping) and all(isinstance(reader, partial) for reader in value.values()),
)


def stream_handle(stream: Any) -> int:
    """Return the handle (CUstream) of a stream that is an integer or a stream object of torch, CuPy or cuda.core.

    Raises:
        LaunchError: the argument is not a stream.
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
    except Exception:  # whatever the object raises
        number = -1
    if not 0 <= number < 2**64:
        raise LaunchError(
            f"stream must be a CUstream as an integer, or a stream of torch, CuPy or cuda.core, got {short_repr(stream)}"
        )
    return number


def stream_device(stream: Any) -> int | None:
    """Return the GPU index of a stream of torch, CuPy or cuda.core, or None if the stream object has no index."""
    device = attribute(stream, "device")
    for number in (attribute(device, "index"), attribute(device, "device_id"), attribute(stream, "device_id")):
        if type(number) is int and number >= 0:
            return number
    return None


def framework_of(kind: type) -> str:
    """Return the framework of an array class: ``"torch"``, ``"cupy"``, ``"jax"``, or ``""`` for any other class.

    A class that is derived from a framework's class belongs to that framework.
    """
    roots = (base.__module__.partition(".")[0] for base in getattr(kind, "__mro__", ()))
    return next((root.removesuffix("lib") for root in roots if root in ("torch", "cupy", "jax", "jaxlib")), "")


def current_stream(framework: str, device: int) -> CurrentStream | None:
    """Return a function that reads the current stream of torch or CuPy. Return None for any other framework."""
    module: Any = sys.modules.get(framework)
    if module is None:
        return None
    if framework == "torch":
        raw = getattr(module._C, "_cuda_getCurrentRawStream", None)
        return partial(_torch_stream, module, device) if raw is None else partial(raw, device)
    return partial(_cupy_stream, module, device) if framework == "cupy" else None


def capturing_framework() -> str:
    """Return the name of a framework whose current stream is being captured into a CUDA graph, or "" if none is."""
    for name, captures in _CAPTURES.items():
        module = sys.modules.get(name)
        with suppress(Exception):  # no GPU, or a version without this function
            if module is not None and captures(module):
                return name
    return ""


def enable_torch_peer_access(device: int, other: int) -> None:
    """Copy one element between GPUs with torch. The copy enables access from ``device`` to memory on ``other``."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.empty(1, device=f"cuda:{other}").copy_(torch.empty(1, device=f"cuda:{device}"))


def _torch_stream(torch: Any, device: int) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)


def _cupy_stream(cupy: Any, device: int) -> int:
    return int(cupy.cuda.get_current_stream(device).ptr)


def exported_stream(number: Any) -> CurrentStream | None:
    """Return a function that returns the stream of a CUDA array interface. Return None if the interface has no stream.

    Raises ValueError if the entry is not a stream. 0 is not allowed, because it could be either default stream.
    """
    if number is None:
        return None
    stream = operator.index(number)
    if not 0 < stream < 2**64:
        raise ValueError(f"stream {number}")
    return partial(int, LEGACY if stream == 1 else stream)


@checked(LaunchError, what=TEXT, readers=_READERS)
def common_stream(what: str, readers: Mapping[str, CurrentStream]) -> CurrentStream:
    """Return a function that returns the current stream. All frameworks of the arguments must have the same one.

    Args:
        what: the name of what is launched, for messages.
        readers: name of an argument -> reader of its framework's current stream (:attr:`ArrayView.stream`).

    Returns:
        The reader. It raises :class:`LaunchError` if the frameworks' current streams differ. Without arguments it returns 0,
        the legacy default stream.
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
            f"{what}: the arguments' frameworks must have the same current stream, got {handle_list}; pass stream=, and make that "
            "stream wait for the other streams"
        )
    return next(iter(handles.values()))
