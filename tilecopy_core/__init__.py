"""The core of tilecopy. It lowers GPU tile copies between two layouts to PTX.

The path of a copy: description (:func:`plan`), dispatch to the best installed variant, partition, emission of PTX text.
Kernels around copies, running and exporting them are packages on top. Importing this one loads no plugin.
"""

from typing import TYPE_CHECKING

from .errors import (
    LayoutError,
    NoVariantError,
    PerformanceWarning,
    PluginError,
    PtxError,
    RequestError,
    TargetError,
    TilecopyError,
)
from .registry.entry_points import PluginWarning
from .registry.lazy_names import BROUGHT, lazy_attributes
from .registry.priorities import priorities
from .registry.version import __version__

if TYPE_CHECKING:
    from .description.request import Accept, CopyRequest, Decline, Option, Variant, Verdict
    from .description.scope import ActiveThreads, Scope, cta, thread, warp, warpgroup
    from .description.target import TARGETS, Target, target_of
    from .dispatch.plan import Plan, plan
    from .integers.expr import Expr, Int, maximum, minimum, structural_equal, symbol
    from .layout import Axis, Iter, Layout, R, S, Swizzle, SwizzledLayout, TCol, TileLayout, TLane, laneid, m, swizzle
    from .layout.axes import bx, by, bz, cbx, cby, cbz, tid_in_wg, tx, warpid, wgid, wid_in_wg
    from .layout.dtypes import DTYPES, DType, dtype_of
    from .memory.buffers import SPACES, Buffer, Region
    from .registry.hookspecs import VariantPlugin, hookimpl
    from .registry.registry import Registry, default_registry
else:  # a checker would take every name for one of the package
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            ".description.request": "Accept CopyRequest Decline Option Variant Verdict",
            ".description.scope": "ActiveThreads Scope cta thread warp warpgroup",
            ".description.target": "TARGETS Target target_of",
            ".dispatch.plan": "Plan plan",
            ".integers.expr": "Expr Int maximum minimum structural_equal symbol",
            ".layout.axes": "Axis TCol TLane bx by bz cbx cby cbz laneid m tid_in_wg tx warpid wgid wid_in_wg",
            ".layout.boxes": "Iter",
            ".layout.dtypes": "DTYPES DType dtype_of",
            ".layout.notation": "R S",
            ".layout.swizzle": "Swizzle swizzle",
            ".layout.tile_layout": "Layout SwizzledLayout TileLayout",
            ".memory.buffers": "Buffer Region SPACES",
            ".registry.hookspecs": "VariantPlugin hookimpl",
            ".registry.registry": "Registry default_registry",
        },
        BROUGHT,
    )

__all__ = ["__version__", "Plan", "plan", "priorities"]
__all__ += ["LayoutError", "NoVariantError", "PluginError", "PtxError", "RequestError", "TargetError", "TilecopyError"]
__all__ += ["PerformanceWarning", "PluginWarning"]
__all__ += ["Axis", "Iter", "Layout", "R", "S", "Swizzle", "SwizzledLayout", "TCol", "TLane", "TileLayout", "swizzle"]
__all__ += ["bx", "by", "bz", "cbx", "cby", "cbz", "laneid", "m", "tid_in_wg", "tx", "warpid", "wgid", "wid_in_wg"]
__all__ += ["DTYPES", "SPACES", "Buffer", "DType", "Region", "dtype_of"]
__all__ += ["Expr", "Int", "maximum", "minimum", "structural_equal", "symbol"]
__all__ += ["TARGETS", "ActiveThreads", "Scope", "Target", "cta", "target_of", "thread", "warp", "warpgroup"]
__all__ += ["Accept", "CopyRequest", "Decline", "Option", "Registry", "Variant", "VariantPlugin", "Verdict"]
__all__ += ["default_registry", "hookimpl"]
