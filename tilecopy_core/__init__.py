"""The core of tilecopy: lower GPU tile copies, described by two layouts and a scope, to PTX.

The path of a copy: description (:func:`plan`), dispatch to the best installed variant, partition, emission of PTX text.
Kernels around copies, running and exporting them are packages on top. Importing this one loads no plugin.
"""

from typing import TYPE_CHECKING

from .dispatch import Plan, plan
from .dtypes import DTYPES, DType, dtype_of
from .errors import (
    AssemblerError,
    CacheError,
    HazardError,
    LaunchError,
    LayoutError,
    NoVariantError,
    PerformanceWarning,
    PluginError,
    PtxError,
    RequestError,
    TargetError,
    TilecopyError,
)
from .expr import Expr, Int, maximum, minimum, same, symbol
from .layout import (
    Axis,
    Iter,
    Layout,
    R,
    S,
    Swizzle,
    SwizzledLayout,
    TCol,
    TileLayout,
    TLane,
    bx,
    by,
    bz,
    cbx,
    cby,
    cbz,
    laneid,
    m,
    swizzle,
    tid_in_wg,
    tx,
    warpid,
    wgid,
    wid_in_wg,
)
from .loading import PluginWarning
from .memory import SPACES, Buffer, Region
from .names import BROUGHT, names_later
from .request import Accept, CopyRequest, Decline, Option, Variant, Verdict
from .scope import ActiveThreads, Scope, cta, thread, warp, warpgroup
from .target import TARGETS, Target, target_of
from .version import __version__

if TYPE_CHECKING:
    from .hookspecs import VariantPlugin, hookimpl
    from .registry import Registry, default_registry
    from .standalone import ptx_text
else:  # a checker would take every name for one of the package
    __getattr__ = names_later(
        __name__,
        {
            "Registry": ".registry",
            "VariantPlugin": ".hookspecs",
            "default_registry": ".registry",
            "hookimpl": ".hookspecs",
            "ptx_text": ".standalone",
        },
        BROUGHT,
    )


__all__ = [
    "__version__",
    "DTYPES",
    "SPACES",
    "TARGETS",
    "Accept",
    "ActiveThreads",
    "AssemblerError",
    "CacheError",
    "Axis",
    "Buffer",
    "CopyRequest",
    "DType",
    "Decline",
    "Expr",
    "HazardError",
    "Int",
    "Iter",
    "LaunchError",
    "Layout",
    "LayoutError",
    "NoVariantError",
    "Option",
    "PerformanceWarning",
    "Plan",
    "PluginError",
    "PluginWarning",
    "PtxError",
    "R",
    "Region",
    "Registry",
    "RequestError",
    "S",
    "Scope",
    "Swizzle",
    "SwizzledLayout",
    "TCol",
    "TLane",
    "Target",
    "TargetError",
    "TileLayout",
    "TilecopyError",
    "Variant",
    "VariantPlugin",
    "Verdict",
    "bx",
    "by",
    "bz",
    "cbx",
    "cby",
    "cbz",
    "cta",
    "default_registry",
    "dtype_of",
    "hookimpl",
    "laneid",
    "m",
    "maximum",
    "minimum",
    "plan",
    "ptx_text",
    "same",
    "swizzle",
    "symbol",
    "target_of",
    "thread",
    "tid_in_wg",
    "tx",
    "warp",
    "warpgroup",
    "warpid",
    "wgid",
    "wid_in_wg",
]
