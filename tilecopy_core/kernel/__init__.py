"""Kernels around tile copies: KernelBuilder describes one, ``build`` lowers it."""

from .barriers import Mbarrier
from .builder import KernelBuilder
from .built import BuiltKernel, ScalarParameter, SharedAllocation
from .values import Value

__all__ = ["BuiltKernel", "KernelBuilder", "Mbarrier", "ScalarParameter", "SharedAllocation", "Value"]
