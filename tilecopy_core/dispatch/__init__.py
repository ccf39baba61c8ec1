"""From a request to a plan: which variant is chosen, and why the others are not."""

from .plan import Plan, demanded_names, dispatch, plan, tell

__all__ = ["Plan", "demanded_names", "dispatch", "plan", "tell"]
