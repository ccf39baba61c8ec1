"""Symbolic integers (integers with values that are known only at run time) and conditions on them."""

from . import conditions, expr
from .conditions import *  # noqa: F403 - its __all__ says what is public
from .expr import *  # noqa: F403

__all__ = conditions.__all__ + expr.__all__
