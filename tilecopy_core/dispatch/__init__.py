"""Dispatch chooses a variant for a copy request and records why each other variant was not chosen."""

from .plan import Note, Plan, demanded_names, dispatch, plan, tell
from .reasons import Outcome

__all__ = ["Note", "Outcome", "Plan", "demanded_names", "dispatch", "plan", "tell"]
