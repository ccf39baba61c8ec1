"""Records of kernels loaded on a device, and the unloading of CUDA modules that are no longer used.

A built kernel, its cached and prepared launches and its launchers hold a :class:`LoadedKernel`. A graph that captured a launch holds
its module, by a user object of the driver. The garbage collector may run anywhere, even during a capture. So a dropped module is
only recorded then, and unloaded when a later kernel is loaded. The newest kernels stay loaded, so that a program that builds the
same kernel many times loads it once.
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
"""The number of unused modules that are unloaded together, because unloading waits for the work on the device."""

_NEWEST = 64
"""The number of newest kernels that stay loaded although nothing else holds them."""

_ADDRESS = ctypes.c_void_p
_SEMAPHORE_BYTES = 64
"""The bytes for a semaphore, more than those of a sem_t."""


@frozen(eq=False)
class _Module:
    """A frozen record of a module and the addresses of semaphores that graphs post when they are destroyed."""

    ordinal: int
    handle: Any
    graphs: list[int] = attrs.field(factory=list)

    @property
    def unused(self) -> bool:
        """True if every graph that captured a launch of the module's kernel was destroyed."""
        self.graphs[:] = [semaphore for semaphore in self.graphs if not _is_posted(semaphore)]
        return not self.graphs


@frozen(eq=False)
class LoadedKernel:
    """A kernel's function on a device. Its module stays loaded while this object or a graph that launches it exists."""

    driver: Driver
    function: Any
    module: _Module

    def retain_in_graph(self, stream: Any) -> None:
        """If the stream is being captured into a graph, keep the module loaded until the graph is destroyed."""
        api, call = self.driver.api, self.driver.call
        code, capturing = api.cuStreamIsCapturing(stream)
        if int(code) or not int(capturing):  # the launch reports errors of the stream
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
    """The modules that an executor has loaded. The caller must hold the executor's lock."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._dropped: deque[_Module] = deque()
        self._newest: deque[LoadedKernel] = deque(maxlen=_NEWEST)

    def track(self, ordinal: int, module: Any, function: Any) -> LoadedKernel:
        """Return the record of a loaded kernel. The module may be unloaded once nothing refers to the record."""
        owned = _Module(ordinal, module)
        kernel = LoadedKernel(self._driver, function, owned)
        weakref.finalize(kernel, self._dropped.append, owned).atexit = False
        self._newest.append(kernel)
        return kernel

    def unload_unused(self, *, all: bool) -> None:
        """Unload the unused modules. If ``all`` is False, do this only if at least 32 modules are unused."""
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
    """Return the C library, whose sem_post a destroyed graph calls, or None if it has no semaphores.

    The driver calls sem_post in its own thread, where Python must not run. Without it a captured kernel stays loaded.
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
    """Return True if a graph has posted a semaphore, and free it. The C library allocates it, because graphs may outlive Python."""
    value, library = ctypes.c_int(), _library()
    if not semaphore or library.sem_getvalue(semaphore, ctypes.byref(value)) or not value.value:
        return False
    library.free(semaphore)
    return True
