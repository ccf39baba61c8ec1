"""NOT the planner: a stand-in with its interface that moves words by a NumPy assignment, for what lies in front of it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import attrs
import numpy as np
from tilecopy_relayout.planner.launching import low_bits
from tilecopy_relayout.planner.problem import RelayoutSpec

from .fake_driver import on_host

asked: list[Plan] = []
"""Every plan that was asked for, in order."""


@attrs.frozen(eq=False)
class Bound:
    """What a plan's ``bind("cuda")`` gives, with ``move`` in place of a kernel."""

    move: Callable[[int, int, Any], None]
    launches: dict[int, Any] = attrs.field(factory=dict)

    def __call__(self, source: int, result: int, stream: Any) -> None:
        self.launches[low_bits(source, result)] = lambda addresses, stream: self.move(*addresses, stream), 0, 0
        self.move(source, result, stream)


@attrs.frozen
class Plan:
    spec: RelayoutSpec
    target: str

    def bind(self, executor: str | None, placement: Any = None) -> Callable[[Any, Any, Any], None]:
        return Bound(self._on_pointers) if executor == "cuda" else self._on_arrays

    def _on_arrays(self, source: Any, result: Any, stream: Any) -> None:
        spec, (side, out_side) = self.spec, self.spec.sides
        assert source.shape == result.shape == spec.extents
        assert source.strides == side.strides_bytes or prod(spec.extents) == 1
        assert result.strides == out_side.strides_bytes or prod(spec.extents) == 1
        assert source.dtype == result.dtype == spec.dtype
        words(result)[...] = words(source)

    def _on_pointers(self, source: int, result: int, stream: Any) -> None:
        """Where "device memory" is the host's."""
        spec = self.spec
        self._on_arrays(
            at(source, spec.extents, spec.src, spec.dtype), at(result, spec.extents, spec.dst, spec.dtype), stream
        )


def words(array: Any) -> Any:
    """Bits alone: a last dimension of bytes."""
    return np.lib.stride_tricks.as_strided(
        np.ndarray(1, np.uint8, array.data if not array.ndim else memory_of(array)),
        (*array.shape, array.itemsize),
        (*array.strides, 1),
    )


def memory_of(array: Any) -> Any:
    return (ctypes.c_uint8 * array.itemsize).from_address(array.ctypes.data)


def at(pointer: int, shape: Sequence[int], strides: Sequence[int], dtype: str) -> Any:
    itemsize = np.dtype(dtype).itemsize
    first = np.ndarray((), dtype, (ctypes.c_uint8 * itemsize).from_address(on_host(pointer)))
    return np.lib.stride_tricks.as_strided(first, tuple(shape), tuple(s * itemsize for s in strides))


def plan_of(spec: RelayoutSpec, target: str, src_align: int = 16, dst_align: int = 16) -> Plan:
    assert 0 not in spec.extents and len(spec.extents) > 0 and {src_align, dst_align} <= {1, 2, 4, 8, 16}
    made = Plan(spec, target)
    asked.append(made)
    return made
