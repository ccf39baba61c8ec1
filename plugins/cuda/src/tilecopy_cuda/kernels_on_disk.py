"""Built kernels of earlier processes, beside the machine code in the disk cache."""

from __future__ import annotations

import json
from typing import Any

from tilecopy.errors import LaunchError
from tilecopy.kernel.built import BuiltKernel

from tilecopy_core.errors import Kind, checked, instance_of, optional, shown
from tilecopy_core.registry import LOCK

from .cache import ModuleCache

_DIGEST = Kind("a digest: 16 to 64 bytes", lambda value: type(value) is bytes and 16 <= len(value) <= 64)


class KernelCache:
    """Kernels by key, each with a note of its maker, kept on disk; safe for many threads and processes.

    Neither :meth:`get` nor :meth:`put` lets trouble with files through: there is no entry then, and one warning says why.

    Args:
        cache: where the bytes are; by default what the environment says (docs/reference.md, "Module cache").
    """

    @checked(LaunchError, cache=optional(instance_of("a ModuleCache", ModuleCache)))
    def __init__(self, cache: ModuleCache | None = None) -> None:
        self._cache = ModuleCache() if cache is None else cache

    @property
    def on(self) -> bool:
        """Whether kernels are kept; where they are not, no key need be made."""
        return self._cache.on

    @checked(LaunchError, key=_DIGEST)
    def get(self, key: bytes) -> tuple[Any, BuiltKernel] | None:
        """The note and the kernel of a key, or None; what another version wrote is dropped.

        Args:
            key: a digest of all that the kernel depends on.
        """
        found = self._cache.get(key)
        if found is None:
            return None
        with LOCK:
            from tilecopy.kernel.load import kernel_of

        try:
            note, record, text = json.loads(found)
            return note, kernel_of(record, text, "the cache")
        except (TypeError, ValueError, RecursionError, LaunchError):
            self._cache.discard(key)
            return None

    @checked(LaunchError, key=_DIGEST, kernel=instance_of("a BuiltKernel", BuiltKernel))
    def put(self, key: bytes, note: Any, kernel: BuiltKernel) -> None:
        """Keep a kernel, where there is a cache.

        Args:
            key: a digest of all that it depends on.
            note: what JSON can hold.
            kernel: what is kept.

        Raises:
            LaunchError: the note cannot be JSON.
            RequestError: a function that makes a parameter cannot be imported by its name.
        """
        try:
            json.dumps(note)
        except (TypeError, ValueError, RecursionError) as error:
            raise LaunchError(f"KernelCache.put: note {shown(note)} cannot be written as JSON: {error}") from error
        if self.on:
            with LOCK:
                from tilecopy.kernel.save import record_of

            self._cache.put(key, json.dumps([note, record_of(kernel), kernel.ptx], separators=(",", ":")).encode())
