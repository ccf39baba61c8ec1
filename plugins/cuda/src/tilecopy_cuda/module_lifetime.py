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

from tilecopy_core.errors import frozen

from .driver import Driver

_BATCH = 32
"""Unused modules that are unloaded together: the first of them waits until the work on the device is done."""

_NEWEST = 64
"""Kernels that stay loaded although nothing else holds them."""

_ADDRESS = ctypes.c_void_p
_SEMAPHORE_BYTES = 64
"""More than a sem_t has."""


@frozen(eq=False)
class _Module:
    """A module, and the semaphores (by address) that graphs post when they go."""

    ordinal: int
    handle: Any
    graphs: list[int] = attrs.field(factory=list)

    @property
    def unused(self) -> bool:
        """Return whether the graphs that had captured it are gone."""
        self.graphs[:] = [semaphore for semaphore in self.graphs if not _is_posted(semaphore)]
        return not self.graphs


@frozen(eq=False)
class LoadedKernel:
    """A kernel's function on a device. Its module stays loaded as long as this object lives, and as graphs with it do."""

    driver: Driver
    function: Any
    module: _Module

    def retain_in_graph(self, stream: Any) -> None:
        """Where launches on a stream are being captured, let the graph hold the module (CUDA programming guide, user objects)."""
        api, call = self.driver.api, self.driver.call
        code, capturing = api.cuStreamIsCapturing(stream)
        if int(code) or not int(capturing):  # the launch itself says what is wrong with the stream
            return
        library = _library()
        semaphore = library.calloc(1, _SEMAPHORE_BYTES) if library else 0
        self.module.graphs.append(semaphore)
        if not library:
            return
        post = ctypes.cast(library.sem_post, ctypes.c_void_p).value
        _, _, graph, *_ = call("cuStreamGetCaptureInfo", stream)
        flags = api.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
        mine = call("cuUserObjectCreate", semaphore, api.CUhostFn(post), 1, flags)
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

    def track(self, ordinal: int, module: Any, function: Any) -> LoadedKernel:
        """Return a kernel whose module is unloaded some time after the last reference to it is gone."""
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
        enough = len(unused) >= (1 if all else _BATCH) and self._driver.sticky_error is None
        self._dropped.extend(module for module in dropped if not (enough and module in unused))
        for module in unused if enough else ():
            with self._driver.active(module.ordinal), self._driver.outside_capture():
                self._driver.api.cuModuleUnload(module.handle)


@cache
def _library() -> Any:
    """Return the C library, whose sem_post a graph calls when it goes; None where it has no semaphores.

    The driver calls it from a thread of its own, where Python must not run. Without it a captured kernel stays loaded.
    """
    try:
        library: Any = ctypes.CDLL(None)
        library.sem_post.argtypes, library.sem_getvalue.argtypes = (_ADDRESS,), (_ADDRESS, _ADDRESS)
        library.calloc.restype, library.calloc.argtypes = _ADDRESS, (ctypes.c_size_t, ctypes.c_size_t)
        library.free.argtypes = (_ADDRESS,)
    except (AttributeError, OSError, TypeError):
        return None
    return library


def _is_posted(semaphore: int) -> bool:
    """Return whether a graph has posted a semaphore, which is freed then. It is the C library's memory: a graph may outlive all of this."""
    value, library = ctypes.c_int(), _library()
    if not semaphore or library.sem_getvalue(semaphore, ctypes.byref(value)) or not value.value:
        return False
    library.free(semaphore)
    return True
