"""What a copy is: the scope of threads, the target, the request, and the rules that every copy keeps."""

from .request import OPS, CopyRequest, check_operands
from .scope import (
    MAX_CTA_THREADS,
    WARP_THREADS,
    ActiveThreads,
    Scope,
    cta,
    is_thread_id,
    thread,
    tid_symbol,
    warp,
    warpgroup,
)
from .target import TARGETS, Target, Version, target_of

__all__ = ["ActiveThreads", "CopyRequest", "MAX_CTA_THREADS", "OPS", "Scope", "TARGETS", "Target"]
__all__ += ["Version", "WARP_THREADS", "check_operands", "cta"]
__all__ += ["is_thread_id", "target_of", "thread", "tid_symbol", "warp", "warpgroup"]
