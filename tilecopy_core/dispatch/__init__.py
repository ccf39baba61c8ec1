"""Dispatch: choosing a variant for a request, and the reasons why other variants were not chosen."""

from .plan import Note, Plan, demanded_names, dispatch, plan, tell
from .reasons import Outcome

__all__ = ["Note", "Outcome", "Plan", "demanded_names", "dispatch", "plan", "tell"]
