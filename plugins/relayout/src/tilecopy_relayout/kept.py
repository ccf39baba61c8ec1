"""Plans of earlier processes: the tiling and the built kernel of a problem, in the disk cache of the CUDA executor."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

import attrs
import tilecopy as tc

from tilecopy_core.registry import LOCK

from .problem import Problem
from .tilings import Tiling

if TYPE_CHECKING:
    from tilecopy_cuda import KernelCache

_FORMAT = "tilecopy relayout 1"


@cache
def _cache() -> KernelCache | None:
    """The cache, where the executor is installed."""
    try:
        with LOCK:
            from tilecopy_cuda import KernelCache
    except ModuleNotFoundError:
        return None
    return KernelCache()


def key_of(problem: Problem, target: str) -> bytes:
    """A digest of all that a plan depends on: the problem, the target, and every package that affects the text."""
    variants = [(p.name, p.source.package, p.source.version, p.status) for p in tc.default_registry().plugins()]
    dims = [attrs.astuple(dim) for dim in problem.dims]
    asked = dims, problem.elem_bytes, problem.src_align, problem.dst_align, sorted(problem.reversed), target
    return hashlib.sha256(json.dumps([_FORMAT, asked, _made_by(), sorted(variants)]).encode()).digest()


@cache
def _made_by() -> tuple[str, str]:
    return version("tilecopy-core"), version("tilecopy-relayout")


def recall(problem: Problem, target: str) -> tuple[Tiling, tc.BuiltKernel] | None:
    """The tiling and the kernel that a process like this one made, or None."""
    kept = _cache()
    if kept is None or not kept.on:
        return None
    found = kept.get(key_of(problem, target))
    if found is None:
        return None
    note, kernel = found
    try:
        kind, tile, threads, order = note
        return Tiling(kind, tuple(tile), threads, tuple(order)), kernel
    except (TypeError, ValueError):  # somebody else's, whatever its key says: it is written over
        return None


def keep(problem: Problem, target: str, tiling: Tiling, kernel: tc.BuiltKernel) -> None:
    """Keep a plan for later processes, where there is a cache."""
    kept = _cache()
    if kept is not None and kept.on:
        note = tiling.kind, tiling.tile, tiling.threads, tiling.order
        kept.put(key_of(problem, target), note, kernel)
