"""tilecopy-relayout: permute, split and merge the dimensions of arrays at nearly the speed of a plain copy."""

from typing import TYPE_CHECKING

from tilecopy_core.registry import lazy_attributes

from .api import relayout, relayout_shards

__all__ = ["plan_relayout", "relayout", "relayout_shards"]

if TYPE_CHECKING:
    from .planner.plan import plan_relayout
else:  # a checker would take every name for one of the package
    __getattr__, __dir__ = lazy_attributes(__name__, {".planner.plan": "plan_relayout"})
