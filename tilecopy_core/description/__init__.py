"""What a copy is: the scope of threads, the target, the request, and the rules that every copy keeps."""

from .request import OPS, CopyRequest, Variant, check_operands, check_request
from .scope import (
    GRID_LIMIT,
    MAX_CTA_THREADS,
    WARP_THREADS,
    ActiveThreads,
    Scope,
    block_index,
    bounded_by,
    cluster_rank,
    cta,
    is_thread_id,
    thread,
    tid_symbol,
    warp,
    warpgroup,
)
from .target import TARGETS, Target, Version, target_of

__all__ = ["ActiveThreads", "CopyRequest", "GRID_LIMIT", "MAX_CTA_THREADS", "OPS", "Scope", "TARGETS", "Target"]
__all__ += [
    "Variant",
    "Version",
    "WARP_THREADS",
    "block_index",
    "bounded_by",
    "check_operands",
    "check_request",
    "cluster_rank",
]
__all__ += ["cta", "is_thread_id", "target_of", "thread", "tid_symbol", "warp", "warpgroup"]
