"""Records that describe a copy (scope, target, request) and a variant, and checks of a copy against a variant."""

from .request import OPS, CopyRequest, Variant, check_request
from .scope import (
    MAX_CTA_THREADS,
    WARP_THREADS,
    ActiveThreads,
    Scope,
    cta,
    differs_within,
    is_thread_id,
    thread,
    tid_symbol,
    warp,
    warpgroup,
)
from .subbyte_elements import why_not_in_bytes
from .target import TARGETS, Target, Version, target_of

__all__ = ["ActiveThreads", "CopyRequest", "MAX_CTA_THREADS", "OPS", "Scope", "TARGETS", "Target", "Variant", "Version"]
__all__ += ["WARP_THREADS", "check_request", "cta", "differs_within", "is_thread_id", "target_of"]
__all__ += ["thread", "tid_symbol", "warp", "warpgroup", "why_not_in_bytes"]
