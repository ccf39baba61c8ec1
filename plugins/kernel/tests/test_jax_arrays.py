"""JAX arrays as arguments of kernels, on the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip

jax = pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    """Make arrays on the CPU, also where JAX finds a GPU."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.mark.parametrize("shape", [(0, 8), (8, 0)])
def test_arrays_without_elements(shape: tuple[int, int]) -> None:
    """numba#4140."""
    k = tc.KernelBuilder("empty", threads=32)
    a, b = k.param("A", shape, "float32"), k.param("B", shape, "float32")
    k.cta.copy(b[:, :], a[:, :])
    arrays = [jax.numpy.zeros(shape, "float32") for _ in range(2)]
    k.build(target="sm_90", grid=1)(*arrays, executor="emulator")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "bool", "complex64"])
def test_arrays_of_every_dtype_are_read_and_not_written(dtype: str) -> None:
    kernel = round_trip((32, 8), (16, 8), dtype, target="sm_90")
    values: Any = byte_arrays.random_array((32, 8), dtype, 1)
    result, source = np.zeros_like(values), jax.numpy.asarray(values)
    kernel(source, result, executor="emulator")
    assert byte_arrays.same_bytes(result, values)
    with pytest.raises(tc.LaunchError, match=mentions("B")):
        kernel(values, source, executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("A", "jax.jit")):
        jax.jit(lambda a: kernel(a, result, executor="emulator"))(source)
    source.delete()
    with pytest.raises(tc.LaunchError, match=mentions("A")):
        kernel(source, result, executor="emulator")
