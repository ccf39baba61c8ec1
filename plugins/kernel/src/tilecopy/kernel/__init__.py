"""Kernels around tile copies: KernelBuilder describes one, ``build`` lowers it."""

from .barriers import Mbarrier
from .builder import KernelBuilder
from .built import BuiltKernel, SharedAllocation, ValueCheck
from .parameters import ArrayParameter, Parameter, ScalarParameter, SizeParameter
from .values import Value

__all__ = [
    "ArrayParameter",
    "BuiltKernel",
    "KernelBuilder",
    "Mbarrier",
    "Parameter",
    "ScalarParameter",
    "SharedAllocation",
    "SizeParameter",
    "Value",
    "ValueCheck",
]
