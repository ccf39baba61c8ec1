"""tilecopy-relayout: permute, split and merge the dimensions of arrays at nearly the speed of a plain copy."""

from .api import relayout
from .planner import plan_relayout
from .shards import relayout_shards

__all__ = ["plan_relayout", "relayout", "relayout_shards"]
