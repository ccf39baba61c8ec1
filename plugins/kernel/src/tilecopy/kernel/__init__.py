"""Kernels around tile copies: KernelBuilder describes one, ``build`` lowers it.

A name is imported when it is first used, because a saved kernel and a relayout launch without a builder.
"""

from typing import TYPE_CHECKING

from tilecopy_core.registry import lazy_attributes

if TYPE_CHECKING:
    from .barriers import Mbarrier
    from .builder import KernelBuilder
    from .built import BuiltKernel, IndexAssertion, SharedAllocation
    from .parameters import ArrayParameter, Parameter, ScalarParameter, SizeParameter
    from .values import Value
else:
    _PARAMETERS = ("ArrayParameter", "Parameter", "ScalarParameter", "SizeParameter")
    __getattr__ = lazy_attributes(
        __name__,
        {
            **dict.fromkeys(_PARAMETERS, ".parameters"),
            **dict.fromkeys(("BuiltKernel", "SharedAllocation", "IndexAssertion"), ".built"),
            "KernelBuilder": ".builder",
            "Mbarrier": ".barriers",
            "Value": ".values",
        },
    )

__all__ = ["ArrayParameter", "BuiltKernel", "KernelBuilder", "Mbarrier", "Parameter", "ScalarParameter"]
__all__ += ["SharedAllocation", "SizeParameter", "Value", "IndexAssertion"]
