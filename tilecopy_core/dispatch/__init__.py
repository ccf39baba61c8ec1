"""From a request to a plan: which variant is chosen, and why the others are not."""

from .plan import Note, Plan, demanded_names, dispatch, plan, tell
from .reasons import Outcome

__all__ = ["Note", "Outcome", "Plan", "demanded_names", "dispatch", "plan", "tell"]
