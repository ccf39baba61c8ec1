"""NOT the planner: a stand-in with its interface that moves words by a NumPy assignment, for what lies in front of it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import attrs
import numpy as np
from tilecopy_relayout.planner.launching import low_bits
from tilecopy_test_helpers.fake_driver import on_host

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
    shape: tuple[int, ...]
    dtype: str
    axes: tuple[int, ...]
    strides: tuple[int, ...]
    out_strides: tuple[int, ...]
    target: str

    def bind(self, executor: str | None, gpus: Any = None) -> Callable[[Any, Any, Any], None]:
        return Bound(self._on_pointers) if executor == "cuda" else self._on_arrays

    def _on_arrays(self, source: Any, result: Any, stream: Any) -> None:
        itemsize = np.dtype(self.dtype).itemsize
        assert (source.shape, result.shape) == (self.shape, tuple(self.shape[axis] for axis in self.axes))
        assert source.strides == tuple(s * itemsize for s in self.strides) or prod(self.shape) == 1
        assert result.strides == tuple(s * itemsize for s in self.out_strides) or prod(self.shape) == 1
        assert source.dtype == result.dtype == self.dtype
        words(result)[...] = words(source).transpose(*self.axes, len(self.axes))

    def _on_pointers(self, source: int, result: int, stream: Any) -> None:
        """Where "device memory" is the host's."""
        out_shape = [self.shape[axis] for axis in self.axes]
        self._on_arrays(
            at(source, self.shape, self.strides, self.dtype),
            at(result, out_shape, self.out_strides, self.dtype),
            stream,
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


def plan_relayout(
    shape: Sequence[int],
    dtype: Any,
    axes: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    out_strides: Sequence[int] | None = None,
    align_bytes: int = 16,
    out_align_bytes: int = 16,
    target: Any,
) -> Plan:
    assert 0 not in shape and len(shape) > 0 and {align_bytes, out_align_bytes} <= {1, 2, 4, 8, 16}
    out_shape = [shape[axis] for axis in axes]
    made = Plan(
        tuple(shape),
        str(dtype),
        tuple(axes),
        tuple(strides if strides is not None else row_major(shape)),
        tuple(out_strides if out_strides is not None else row_major(out_shape)),
        str(target),
    )
    asked.append(made)
    return made


def row_major(shape: Sequence[int]) -> list[int]:
    return [prod(shape[index + 1 :]) for index in range(len(shape))]
