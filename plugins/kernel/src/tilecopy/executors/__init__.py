"""Functions and classes for packages that provide executors (entry points ``tilecopy.executors.v1``).

A package that has an executor, or that launches kernels itself, imports from here.
"""

from typing import TYPE_CHECKING

from tilecopy_core.layout import html_table
from tilecopy_core.registry import lazy_attributes

from ..executor_registry import Executor, choose_executor, executors, get_executor, unavailable_reason
from ..kernel.parameters import ArrayView
from .arguments import LOWEST_ADDRESS, array_view, is_masked, reader_of, same_tensors
from .streams import capturing_framework, common_stream, framework_of, stream_handle

__all__ = ["LOWEST_ADDRESS", "ArrayView", "Executor", "HostArguments", "HostArray", "IndexAssertion", "common_stream"]
__all__ += ["array_view", "capturing_framework", "choose_executor", "get_executor", "executors", "framework_of"]
__all__ += ["html_table", "is_masked", "reader_of", "same_tensors", "stream_handle", "unavailable_reason"]

if TYPE_CHECKING:
    from ..kernel.built import IndexAssertion
    from .host_memory import HostArguments, HostArray
else:  # executors on the GPU do not need them
    __getattr__, __dir__ = lazy_attributes(
        __name__, {"tilecopy.kernel.built": "IndexAssertion", ".host_memory": "HostArguments HostArray"}
    )
