"""tilecopy: lower GPU tile copies, described by two layouts and a scope, to PTX.

The path of a copy: description (:class:`KernelBuilder` or :func:`plan`), dispatch to the best installed variant,
partition, emission of PTX text, and a run on the GPU or the emulator. Importing this package loads no plugin and
nothing of CUDA.
"""

from typing import TYPE_CHECKING

from .deprecation import TilecopyDeprecationWarning, moved_names
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
from .request import Accept, CopyRequest, Decline, Option, Variant, Verdict
from .scope import ActiveThreads, Scope, cta, thread, warp, warpgroup
from .target import TARGETS, Target, target_of
from .version import __version__

if TYPE_CHECKING:
    from .export import cuda_header
    from .hookspecs import VariantPlugin, hookimpl
    from .kernel import BuiltKernel, KernelBuilder, Mbarrier, Value
    from .kernel.saved import load_kernel
    from .registry import Registry, default_registry


_LATER = {
    "BuiltKernel": "kernel",
    "KernelBuilder": "kernel",
    "Mbarrier": "kernel",
    "Registry": "registry",
    "Value": "kernel",
    "VariantPlugin": "hookspecs",
    "cuda_header": "export",
    "default_registry": "registry",
    "hookimpl": "hookspecs",
    "load_kernel": "kernel.saved",
}
"""Names whose modules are imported when they are first asked for, to keep the import of this package short."""


if not TYPE_CHECKING:  # a checker would take every name for one of the package
    __getattr__ = moved_names(__name__, {}, later=_LATER)


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
    "BuiltKernel",
    "CopyRequest",
    "DType",
    "Decline",
    "Expr",
    "HazardError",
    "Int",
    "Iter",
    "KernelBuilder",
    "LaunchError",
    "Layout",
    "LayoutError",
    "Mbarrier",
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
    "TilecopyDeprecationWarning",
    "TilecopyError",
    "Value",
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
    "cuda_header",
    "default_registry",
    "dtype_of",
    "hookimpl",
    "laneid",
    "load_kernel",
    "m",
    "maximum",
    "minimum",
    "plan",
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
