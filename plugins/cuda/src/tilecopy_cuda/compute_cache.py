"""The settings of the CUDA driver's compute cache. The cache is a folder of compiled kernels.

The driver reads and writes the cache and does not report errors (CUDA programming guide, CUDA environment variables). If it
cannot use the cache, each process compiles its kernels again.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tilecopy_core.errors import frozen

DEFAULT_LIMIT_BYTES = 1 << 30
_LEAST_FREE_BYTES = 1 << 20
"""The free space below which a disk counts as full. The machine code of a kernel has 5 to 50 KB."""


@frozen
class ComputeCache:
    """A frozen record of the compute cache's settings.

    Attributes:
        folder: the folder of the cache.
        limit_bytes: the largest size of the cache.
        disabled: True if an environment variable disables the cache.
        problem: the reason that the driver cannot write there, with what to do, or "".
    """

    folder: Path
    limit_bytes: int
    disabled: bool
    problem: str

    @classmethod
    def of_environment(cls) -> ComputeCache:
        """Return the cache settings from the environment variables ``CUDA_CACHE_...`` and the home folder."""
        environ = os.environ
        if path := environ.get("CUDA_CACHE_PATH", ""):
            folder = Path(path)
        elif sys.platform == "win32":
            folder = Path(environ.get("APPDATA", ""), "NVIDIA", "ComputeCache")
        else:
            folder = Path(environ.get("HOME", "") or "/", ".nv", "ComputeCache")
        limit = environ.get("CUDA_CACHE_MAXSIZE", "")
        limit_bytes = int(limit) if limit.isascii() and limit.isdecimal() else DEFAULT_LIMIT_BYTES
        disabled = environ.get("CUDA_CACHE_DISABLE", "").strip() == "1"
        return cls(folder, limit_bytes, disabled, "" if disabled else _problem(folder))


def _problem(folder: Path) -> str:
    """Return the reason that the driver cannot write to a folder (or create it), or ""."""
    remedy = "set CUDA_CACHE_PATH to a writable folder, or disable the cache with CUDA_CACHE_DISABLE=1"
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
        if not existing.is_dir():
            return f"{existing} is not a folder: {remedy}"
        if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
            return f"{existing} must be readable and writable for this user: {remedy}"
        free_bytes = shutil.disk_usage(existing).free
    except OSError as error:
        return f"{folder}: {error.strerror}: {remedy}"
    full = free_bytes < _LEAST_FREE_BYTES
    return f"the disk of {existing} is almost full ({free_bytes} bytes free): {remedy}" if full else ""
