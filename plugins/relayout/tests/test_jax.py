"""JAX arrays: what a result keeps of its input, and what is refused, on the devices of the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
jax = pytest.importorskip("jax")

from tilecopy import LaunchError, RequestError
from tilecopy_relayout import relayout
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip

jnp = jax.numpy
CPUS = jax.devices("cpu")
two_devices = pytest.mark.skipif(len(CPUS) < 2, reason="JAX was started with one device")


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    """Make arrays on the CPU, also where JAX finds a GPU."""
    with jax.default_device(CPUS[0]):
        yield


def moved(array: Any, axes: Any = (1, 0)) -> Any:
    return relayout(array, axes, executor="emulator")


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
@pytest.mark.parametrize("enabled", [False, True])
def test_64_bits_stay(dtype: str, enabled: bool) -> None:
    """JAX #8178: where x64 is off, JAX makes 32-bit arrays of 64-bit elements in silence."""
    values = np.array([[2**40, 1, 7], [2, 3, 2**62]]).astype(dtype)
    with jax.enable_x64(True):
        array = jnp.asarray(values)
    with jax.enable_x64(enabled):
        made = moved(array)
    assert made.dtype == dtype and (np.asarray(made) == values.T).all()


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "float16", "float8_e4m3fn", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (1, 1)])
def test_dtypes(dtype: str, shape: tuple[int, int]) -> None:
    array = jnp.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
    made = moved(array)
    assert made.dtype == array.dtype and made.shape == shape[::-1]
    assert np.asarray(made).tobytes() == np.asarray(array).T.copy().tobytes()


def test_a_result_is_as_weakly_typed_as_its_input() -> None:
    """JAX #6063: jax.numpy.transpose keeps the weak type, so that the sum with bfloat16 is bfloat16."""
    nan = jnp.full((2, 3), float("nan"))
    for weak in (jnp.full((2, 3), 1.0), jnp.full((2, 3), 1), jnp.full((2, 3), 1j), nan, jnp.asarray(1.0)):
        made = moved(weak, tuple(range(weak.ndim))[::-1])
        assert made.weak_type and made.dtype == weak.dtype and not made.committed
        assert np.asarray(made).tobytes() == np.asarray(weak).T.copy().tobytes()
    assert (moved(jnp.full((2, 3), 1.0)) + jnp.ones((3, 2), "bfloat16")).dtype == "bfloat16"
    assert not moved(jnp.ones((2, 3))).weak_type


@two_devices
def test_a_result_is_committed_and_placed_as_its_input() -> None:
    """JAX #13054: a committed result cannot meet an array on another device."""
    here, there = CPUS[:2]
    x = jnp.ones((2, 3))
    committed = jax.device_put(jnp.ones((3, 2)), there)
    assert (moved(x) + committed).devices() == {there}
    with jax.default_device(there):
        uncommitted = jnp.ones((2, 3))
    made = moved(uncommitted)
    assert made.devices() == {there} and not made.committed
    made = moved(committed)
    assert made.devices() == {there} and made.committed
    with pytest.raises(ValueError, match="devices"):
        made + jax.device_put(jnp.ones((2, 3)), here)
    mesh = jax.sharding.Mesh(np.array([there]), ("i",))
    named = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i")))
    made = relayout(named, "a b -> b 1 a", executor="emulator")
    assert isinstance(made.sharding, jax.sharding.NamedSharding) and made.devices() == {there}


def test_a_result_stays_in_the_kind_of_memory_of_its_input() -> None:
    device = CPUS[0]
    for memory in device.addressable_memories():
        array = jax.device_put(jnp.ones((2, 3)), jax.sharding.SingleDeviceSharding(device, memory_kind=memory.kind))
        assert moved(array).sharding.memory_kind == array.sharding.memory_kind


def deleted() -> Any:
    array = jnp.ones((2, 3))
    array.delete()
    return array


def donated() -> Any:
    array = jnp.ones((2, 3))
    jax.jit(lambda x: x + 1, donate_argnums=0)(array)
    if not array.is_deleted():
        pytest.skip("this JAX donates nothing on the CPU")
    return array


def spread(spec: tuple[Any, ...]) -> Any:
    mesh = jax.sharding.Mesh(np.array(CPUS[:2]), ("i",))
    return jax.device_put(jnp.ones((2, 3)), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))


@pytest.mark.filterwarnings("ignore:Some donated buffers")
@pytest.mark.parametrize(
    ("array", "words"),
    [
        (lambda: jax.ShapeDtypeStruct((2, 3), "f4"), "ShapeDtypeStruct"),
        (lambda: jax.new_ref(jnp.ones((2, 3))), "a[...]"),
        (lambda: jax.random.split(jax.random.key(0), 6).reshape(2, 3), "jax.random.key_data"),
        (lambda: jax.random.key(0), "jax.random.wrap_key_data"),
        (deleted, "donated"),
        (donated, "donated"),
        pytest.param(lambda: spread(()), "addressable_data(0)", marks=two_devices),
        pytest.param(lambda: spread(("i",)), "addressable_shards", marks=two_devices),
    ],
    ids=["shape", "ref", "keys", "key", "deleted", "donated", "replicated", "sharded"],
)
def test_what_is_refused(array: Callable[[], Any], words: str) -> None:
    """XLA #22604 (deleted), JAX #4416."""
    for arguments, name in (({"array": array()}, "array"), ({"array": np.ones((3, 2), "f4"), "out": array()}, "out")):
        with pytest.raises(RequestError) as caught:
            relayout(axes=(1, 0), executor="emulator", **arguments)
        assert str(caught.value).startswith(name) and words in str(caught.value)


def test_a_kernel_refuses_a_deleted_array() -> None:
    """XLA #22604."""
    kernel, array = round_trip((8, 32), (8, 32), "float32", target="sm_80"), jnp.ones((8, 32))
    array.delete()
    with pytest.raises(LaunchError, match=mentions("A")):
        kernel(array, np.zeros((8, 32), "f4"), executor="emulator")


@pytest.mark.parametrize("transform", ["jit", "vmap", "grad", "jvp"])
def test_a_transform_is_named(transform: str) -> None:
    function = lambda x: moved(x, (0,)).sum()  # noqa: E731
    call: Any = {"jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,))}.get(transform) or getattr(jax, transform)
    argument = jnp.ones((2, 3)) if transform == "vmap" else jnp.ones(3)
    with pytest.raises(RequestError, match=rf"jax\.{transform}"):
        call(function)(argument)
