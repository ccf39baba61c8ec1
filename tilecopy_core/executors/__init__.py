"""Executors: what runs a built kernel. ``cuda`` is here; others come by entry point ``tilecopy.executors.v1``."""

from ..running import Executor, choose_executor, executor_named, executors
from .arguments import HostArguments, HostArray

__all__ = ["Executor", "HostArguments", "HostArray", "choose_executor", "executor_named", "executors"]
