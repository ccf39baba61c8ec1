"""What runs a built kernel: executors, which come by entry point ``tilecopy.executors.v1``, and what they are made of.

A package that has an executor, or that launches kernels itself, imports from here.
"""

from tilecopy_core.layout import html_table

from ..executor_choice import Executor, choose_executor, executor_named, executors, why_unavailable
from ..kernel.built import ValueCheck
from ..kernel.parameters import ArrayFacts
from .arguments import LOWEST_ADDRESS, HostArguments, HostArray, array_facts, same_tensors
from .streams import agreed_stream, capturing_framework, stream_pointer

__all__ = [
    "LOWEST_ADDRESS",
    "ArrayFacts",
    "Executor",
    "HostArguments",
    "HostArray",
    "ValueCheck",
    "agreed_stream",
    "array_facts",
    "capturing_framework",
    "choose_executor",
    "executor_named",
    "executors",
    "html_table",
    "same_tensors",
    "stream_pointer",
    "why_unavailable",
]
