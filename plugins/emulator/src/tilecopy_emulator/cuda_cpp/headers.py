"""The standard headers that NVRTC lacks. Each header is a file of this package, a libcu++ header, or empty.

They are passed in memory. NVRTC has ``printf``, ``assert``, ``malloc``, ``memcpy`` and the functions of ``<math.h>`` built in, and
libcu++ has the parts of C++ that kernels can use. The rest is only for the host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from tilecopy_core.registry import LOCK

_IN_LIBCUXX = (
    "algorithm array atomic bit cmath complex concepts cstddef cstdlib cstring functional initializer_list iterator "
    "limits mdspan memory numbers numeric optional ratio span tuple type_traits utility variant"
)
"""C++ headers that libcu++ has under ``cuda/std``. They take seconds, so a text without ``std`` gets empty ones."""
_NUMBERS = {"cfloat": "float.h", "climits": "limits.h", "cstdint": "stdint.h"}
"""Headers with only macros and types -> their names in C."""
_FOR_HOSTS = (
    "any barrier bitset cassert ccomplex cctype cerrno cfenv charconv chrono condition_variable csignal cstdarg cstdio ctime "
    "deque exception execution filesystem forward_list fstream future iomanip ios iosfwd iostream istream list locale map mutex new "
    "numbers ostream queue random regex set shared_mutex sstream stack stdexcept streambuf string string_view system_error "
    "thread typeinfo unordered_map unordered_set valarray vector assert.h complex.h ctype.h errno.h memory.h omp.h pthread.h signal.h "
    "stdarg.h stdbool.h stddef.h stdio.h stdlib.h string.h strings.h sys/stat.h sys/time.h sys/types.h time.h unistd.h"
)
_FROM_CUB = re.compile(r"cub/(?:cub|device/\w+|util_allocator)\.cuh")
"""Headers of CUB that NVRTC cannot compile: their algorithms for whole arrays are functions of the host."""
IMPLICIT = "implicit.h"
"""The header that is included first if the text uses names of nvcc's implicit header."""
STANDARD = "standard.h"
"""The header that is included first if the text uses names of ``std`` without their headers, as libstdc++ allows."""
_IN_STANDARD = "algorithm array cmath complex cstdint cstring functional limits numeric tuple type_traits utility"


@cache
def _own(name: str) -> str:
    """Return a header of this package."""
    with LOCK:  # the first read imports modules
        return (files(__package__) / "headers" / name).read_text(encoding="utf-8")


@cache
def implicit_names() -> frozenset[str]:
    """Return the names of the macros and types that the header :data:`IMPLICIT` defines."""
    limits = "CHAR|SCHAR|UCHAR|SHRT|USHRT|INT|UINT|LONG|ULONG|LLONG|ULLONG|INT8|INT16|INT32|INT64|UINT8|UINT16|UINT32|UINT64|SIZE"
    names = re.findall(r"(?:#define|typedef [a-z ]+) (\w+)", _own(IMPLICIT) + _own("math.h"))
    names += [f"{prefix}_{end}" for prefix in limits.split("|") for end in ("MIN", "MAX")]
    names += [f"{prefix}_{end}" for prefix in ("FLT", "DBL") for end in ("MIN", "MAX", "EPSILON", "DIG", "MANT_DIG")]
    names += [f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    return frozenset((*names, "uintptr_t", "intptr_t"))


def standard_headers(text: str, folders: list[str]) -> Mapping[str, str]:
    """Return a dictionary from the names of standard headers to the texts that a compilation uses.

    ``text``: of the sources that include them; ``folders``: directories of installed headers.
    """
    headers = dict.fromkeys(_FOR_HOSTS.split(), "")
    uses_std = re.search(r"\bstd\b", text) is not None
    for name in _IN_LIBCUXX.split():
        headers[name] = _shim(name) if uses_std else ""
    for name, of_c in _NUMBERS.items():
        headers[name] = _shim(name) if name == "cstdint" else _included(name)
        headers[of_c] = _included(name)
    headers |= {"inttypes.h": headers["stdint.h"], "cinttypes": headers["cstdint"]}
    headers["cmath"] = f'#include "math.h"\n{headers["cmath"]}'
    headers[STANDARD] = "".join(_shim(name) for name in _IN_STANDARD.split())
    headers |= {name: _own(name) for name in (IMPLICIT, "math.h", "cuda.h")}
    return headers | {name: _cub(text, folders) for name in _FROM_CUB.findall(text)}


def stand_in(name: str) -> str:
    """Return a replacement for a missing header: what kernels use of PyTorch, cuFFT or Thrust's complex numbers, or ""."""
    if name.startswith("cufft"):
        return _own("cufft.h")
    if name == "thrust/complex.h":
        return _shim("complex", "thrust")
    return _own("torch.h") if re.match(r"cublas|torch/|ATen/|c10/", name) else ""


def _shim(name: str, namespace: str = "std") -> str:
    """Return a C++ header that includes that of libcu++."""
    return f"#pragma once\n{_included(name)}namespace {namespace} {{ using namespace ::cuda::std; }}\n"


def _included(name: str) -> str:
    """Return the line that includes a libcu++ header, whose templates must not be inside a file's ``extern "C"``."""
    return f'extern "C++" {{\n#include <cuda/std/{name}>\n}}\n'


def _cub(text: str, folders: list[str]) -> str:
    """Return a header with the block, warp and thread classes of CUB that a text uses."""
    parts = [f"cub/{part}" for part in ("block", "warp", "thread", "iterator")]
    paths = (path for folder in folders for part in parts for path in sorted((Path(folder) / part).glob("*.cuh")))
    named = [
        path.relative_to(path.parents[2]).as_posix()
        for path in paths
        if path.stem == "thread_operators" or path.stem.title().replace("_", "") in text
    ]
    return "".join(["#pragma once\n", *(f"#include <{name}>\n" for name in dict.fromkeys(named))])
