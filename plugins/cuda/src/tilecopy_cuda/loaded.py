"""Kernels loaded on a device, and when their modules are unloaded: once nothing can launch them any more.

What can launch a kernel holds its :class:`LoadedKernel`: the built kernel, its remembered and prepared launches, and its launchers.
A graph that has captured a launch holds it too, by a user object of the driver. A garbage collector may run anywhere, in the
middle of a capture too, so that what is dropped is only noted then. It is unloaded when a later kernel is loaded. The newest kernels
stay loaded without that: a program that builds the same kernel again and again loads it once.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from functools import cache
from typing import Any

import attrs

from .driver import Driver

_BATCH = 32
"""Unused modules that are unloaded together: the first of them waits until the work on the device is done."""

_NEWEST = 64
"""Kernels that stay loaded although nothing else holds them."""

_SEMAPHORE_BYTES = 64
"""More than a sem_t has."""


@attrs.frozen(eq=False)
class _Module:
    """A module, and semaphores that graphs post when they go."""

    ordinal: int
    handle: Any
    graphs: list[Any] = attrs.field(factory=list)

    @property
    def unused(self) -> bool:
        """Whether the graphs that had captured it are gone."""
        return all(map(_is_posted, self.graphs))


@attrs.frozen(eq=False)
class LoadedKernel:
    """A kernel's function on a device. Its module stays loaded as long as this object lives, and as graphs with it do."""

    driver: Driver
    function: Any
    module: _Module

    def hold_in_graph(self, stream: Any) -> None:
        """Where launches on a stream are being captured, let the graph hold the module (CUDA programming guide, user objects)."""
        api, call = self.driver.api, self.driver.call
        code, capturing = api.cuStreamIsCapturing(stream)
        if int(code) or not int(capturing):  # the launch itself says what is wrong with the stream
            return
        semaphore = ctypes.create_string_buffer(_SEMAPHORE_BYTES)
        self.module.graphs.append(semaphore)
        post = _semaphores()
        if post is None:
            return
        _, _, graph, *_ = call("cuStreamGetCaptureInfo", stream)
        flags = api.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
        mine = call("cuUserObjectCreate", ctypes.addressof(semaphore), api.CUhostFn(post), 1, flags)
        call("cuGraphRetainUserObject", graph, mine, 1, api.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE)


class Modules:
    """The modules that an executor has loaded; the caller holds its lock.

    Args:
        driver: the driver that they are of.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._dropped: deque[_Module] = deque()
        self._newest: deque[LoadedKernel] = deque(maxlen=_NEWEST)

    def loaded(self, ordinal: int, module: Any, function: Any) -> LoadedKernel:
        """A kernel whose module is unloaded some time after the last reference to it is gone."""
        owned = _Module(ordinal, module)
        kernel = LoadedKernel(self._driver, function, owned)
        weakref.finalize(kernel, self._dropped.append, owned).atexit = False
        self._newest.append(kernel)
        return kernel

    def unload_unused(self, *, all: bool) -> None:
        """Unload modules that nothing can launch: all, or a batch once there is one. Work in flight on the device ends first."""
        if all:
            self._newest.clear()
        dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
        unused = [module for module in dropped if module.unused]
        enough = len(unused) >= (1 if all else _BATCH) and self._driver.ended is None
        self._dropped.extend(module for module in dropped if not (enough and module in unused))
        for module in unused if enough else ():
            with self._driver.active(module.ordinal), self._driver.outside_capture():
                self._driver.api.cuModuleUnload(module.handle)


@cache
def _semaphores() -> int | None:
    """The address of sem_post, which a graph calls when it goes; None where the C library has no semaphores.

    The driver calls it from a thread of its own, where Python must not run. Without it a captured kernel stays loaded.
    """
    try:
        return ctypes.cast(ctypes.CDLL(None).sem_post, ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):
        return None


def _is_posted(semaphore: Any) -> bool:
    value = ctypes.c_int()
    if _semaphores() is None or ctypes.CDLL(None).sem_getvalue(semaphore, ctypes.byref(value)):
        return False
    return value.value > 0
