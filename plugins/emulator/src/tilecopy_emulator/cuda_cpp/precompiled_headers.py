"""The directories of CUDA C++ headers. A process precompiles headers, and so parses each header only once.

NVRTC saves the parsed headers at the top of a source in a precompiled header. A later source of the same process
that begins with the same directives uses it.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilecopy_core.registry import LOCK

_LIBRARIES = ("cudart", "cccl", "cutlass", "curand")
"""The names of NVIDIA's locator for the header directories of wheels and of an installed toolkit."""
_INCLUDES = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)
_HEAP_BYTES, _MOST_BYTES = 1 << 29, 1 << 30
"""The bytes of NVRTC's heap for precompiled headers, and of all files of a process; a precompiled header has 70 to 400 MB."""
UNROLL_LIMIT = "-D_CCCL_META_UNROLL_LIMIT=10"
"""The number of overloads of each metafunction in libcu++: 10 as with nvcc; NVRTC's 16 take three times as long to parse."""


def header_folders() -> list[str]:
    """Return the directories of the installed NVIDIA headers."""
    try:
        with LOCK:
            from cuda.pathfinder import find_nvidia_header_directory

        return [folder for library in _LIBRARIES if (folder := find_nvidia_header_directory(library))]
    except Exception:  # raised by an older locator; a source without includes needs none
        return []


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tilecopy-headers-", ignore_cleanup_errors=True)


def precompiled_headers() -> list[Path]:
    """Return the paths of this process's precompiled headers, oldest first."""
    return sorted(Path(_folder().name).glob("*.pch"), key=lambda path: path.stat().st_mtime_ns)


def precompiling(source: str, headers: Mapping[str, str], nvrtc: Any) -> list[str]:
    """Return NVRTC options that use or create a precompiled header for a source. Return [] if NVRTC cannot create one.

    NVRTC does not check whether headers of a directory or in memory have changed, but it compares its options: one of
    them has a digest of the headers that may change.
    """
    if not _INCLUDES.search(source):
        return []
    with suppress(Exception):  # a full disk; an NVRTC before 12.8
        Path(_folder().name).mkdir(exist_ok=True)  # the exit of a forked process removes it
        parsed = precompiled_headers()
        if sum(path.stat().st_size for path in parsed) > _MOST_BYTES:
            for path in parsed:
                path.unlink()
        nvrtc.nvrtcSetPCHHeapSize(_HEAP_BYTES)
        digest = hashlib.sha256(repr(sorted(headers.items())).encode("utf-8", "replace")).hexdigest()
        same = f"-D_TILECOPY_HEADERS=0x{digest[:16]}"
        return ["--pch", f"--pch-dir={_folder().name}", "--pch-messages=false", "--diag-suppress=629,630", same]
    return []
