"""The differences between NumPy, torch, CuPy and JAX: how a result is made, and which arrays may be written."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
from tilecopy.executors import framework_of as module_of
from tilecopy.executors import get_executor, stream_handle

from tilecopy_core import RequestError

_LEGACY_STREAM = (0, 1)
"""The handles of the legacy default stream (CUDA driver API, "Stream synchronization behavior"); 2 is the thread's default stream."""


class Framework:
    """A framework without a class of its own: its arrays can be read and written, none can be made."""

    name = "another framework"
    has_streams = False
    """Whether it has a current stream for each GPU."""

    def unwrap(self, where: str, array: Any) -> Any:
        """Return the array, or another object on the same memory that has its facts."""
        if _has(array, "__cuda_array_interface__") or _has(array, "__dlpack__"):
            return array
        if _has(array, "__array_interface__"):
            return np.asarray(array)
        if _has(array, "__array__"):
            kind = f"a {type(array).__name__} of {type(array).__module__.partition('.')[0]}"
            if where == "out":
                raise RequestError(
                    f"out must be an array in memory, got {kind}, which only gives copies of its elements: pass a NumPy array, and assign it to a[...] after the call"
                )
            lazy = " or dask.array.from_zarr(a)" if type(array).__module__.startswith("zarr") else ""
            raise RequestError(
                f"{where} must be an array in memory, got {kind}, which only gives copies of its elements: pass np.asarray(a){lazy}"
            )
        return array

    def empty(self, array: Any, shape: Sequence[int], dtype: Any, stream: Any) -> Any:
        """Return a C-contiguous array with nothing in it, of an array's framework and device."""
        raise RequestError(
            f"no result can be made for a {type(array).__name__}, because its framework is not supported: pass out="
        )

    def finalize(self, array: Any, result: Any, stream: Any) -> Any:
        """Return the result, once work that writes it is on the stream."""
        return result

    def out_error(self, out: Any) -> str | None:
        """Return why an array may not be written, or None."""
        return None

    def mark_written(self, out: Any) -> None:
        """Tell the framework that the elements of ``out`` changed."""


def _has(array: Any, name: str) -> bool:
    try:
        return getattr(array, name, None) is not None
    except Exception:  # an object's own
        return False


class NumPy(Framework):
    """Host arrays."""

    name = "NumPy"

    def unwrap(self, where: str, array: Any) -> Any:
        """Return the array; a scalar as a read-only array of no dimensions."""
        if isinstance(array, np.ndarray):
            return array
        scalar = np.array(array)
        scalar.flags.writeable = False
        return scalar

    def empty(self, array: Any, shape: Sequence[int], dtype: Any, stream: Any) -> Any:
        """Return what ``numpy.empty_like`` makes; it keeps subclasses and their units."""
        if type(array) in (np.ndarray, np.memmap):
            return np.empty(tuple(shape), dtype)
        try:
            result = np.empty_like(array, dtype=dtype, order="C", subok=True, shape=tuple(shape))
        except Exception as error:  # the subclass's own
            raise RequestError(
                f"array: a {type(array).__name__} of shape {tuple(shape)} cannot be made ({error}): pass np.asarray(a)"
            ) from error
        if result.shape != tuple(shape):
            raise RequestError(f"array: a {type(array).__name__} cannot have shape {tuple(shape)}: pass np.asarray(a)")
        return result


class Torch(Framework):
    """Tensors of the CPU and of GPUs."""

    name = "torch"
    has_streams = True

    def unwrap(self, where: str, array: Any) -> Any:
        """Return the tensor without its history."""
        if not isinstance(array, sys.modules["torch"].Tensor):
            return array
        demand_strided(where, array)
        return array.detach() if array.requires_grad else array

    def empty(self, array: Any, shape: Sequence[int], dtype: Any, stream: Any) -> Any:
        """Return memory of the caching allocator that belongs to the stream that will write it."""
        if stream is None or not array.is_cuda:
            return array.new_empty(shape)
        import torch

        number = stream_handle(stream)
        if number in _LEGACY_STREAM:  # which torch's allocator knows as its own default stream alone
            owner = torch.cuda.default_stream(array.device)
        else:
            owner = torch.cuda.ExternalStream(number, device=array.device)
        with torch.cuda.stream(owner):
            return array.new_empty(shape)

    def out_error(self, out: Any) -> str | None:
        """Return the reason for a tensor whose gradient is recorded."""
        if out.requires_grad and sys.modules["torch"].is_grad_enabled():
            return "it requires a gradient, and torch would not see the write: pass out.detach()"
        return None

    def mark_written(self, out: Any) -> None:
        """Increment its version, by which torch finds saved tensors that were modified before a backward pass."""
        sys.modules["torch"].autograd.graph.increment_version(out)


def demand_strided(where: str, tensor: Any) -> None:
    """Check that the bytes of a tensor of torch are all that it consists of, and lie at strides."""
    if type(tensor).__name__.startswith("Uninitialized"):
        raise RequestError(f"{where} must have a shape, got a {type(tensor).__name__}: run its module once before")
    if type(tensor).__name__ == "MaskedTensor":
        raise RequestError(
            f"{where} must not be a masked tensor, because the mask would not be moved: pass a.get_data() or a.to_tensor(value)"
        )
    if tensor.is_quantized:
        raise RequestError(
            f"{where} must not be a quantized tensor, because the scale would be lost: pass a.int_repr()"
        )
    if tensor.is_nested:
        raise RequestError(
            f"{where} must not be a nested tensor, because its rows differ in length: pass its rows one by one (a.unbind()), or "
            "a.to_padded_tensor(value)"
        )
    if tensor.layout != sys.modules["torch"].strided:
        raise RequestError(f"{where} must be dense memory, got a tensor of layout {tensor.layout}: pass a.to_dense()")


class CuPy(Framework):
    """Arrays of one GPU."""

    name = "CuPy"
    has_streams = True

    def empty(self, array: Any, shape: Sequence[int], dtype: Any, stream: Any) -> Any:
        """Return memory of CuPy's pool that belongs to the stream that will write it."""
        import cupy

        with array.device:
            if stream is None:
                return cupy.empty(tuple(shape), dtype)
            number = stream_handle(stream)
            with cupy.cuda.ExternalStream(0 if number in _LEGACY_STREAM else number):
                return cupy.empty(tuple(shape), dtype)


def jax_memory(array: Any) -> SimpleNamespace:
    """Return a JAX array on a GPU with the CUDA array interface, which JAX itself has only for a few dtypes."""
    interface = {
        "shape": array.shape,
        "strides": None,
        "typestr": f"|V{array.dtype.itemsize}",
        "data": (array.unsafe_buffer_pointer(), True),
        "version": 3,
    }
    return SimpleNamespace(array=array, dtype=array.dtype, __cuda_array_interface__=interface)


class Jax(Framework):
    """Arrays that must not change: the result is filled before the caller gets it."""

    name = "JAX"

    def unwrap(self, where: str, array: Any) -> Any:
        """Return the memory of the array after its computation; a NumPy array if it is on the host."""
        import jax

        if isinstance(array, jax.core.Tracer):
            transform = _TRACERS.get(type(array).__name__, "jax.jit (or jax.lax.scan, jax.eval_shape and others)")
            raise RequestError(
                f"{where} must have elements, but {transform} traces the call: call relayout outside of JAX's transforms, or "
                "use jax.numpy.transpose inside"
            )
        if not isinstance(array, jax.Array):
            instead = "a[...], the array that it refers to" if type(array).__name__.endswith("Ref") else "an array"
            raise RequestError(
                f"{where} must be an array with elements, got a {type(array).__name__} of JAX: pass {instead}"
            )
        if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
            raise RequestError(
                f"{where} must not be an array of random keys: pass jax.random.key_data(a), and give the result to jax.random.wrap_key_data"
            )
        if array.is_deleted():
            raise RequestError(
                f"{where} must have memory, but the array of shape {array.shape} was deleted or donated: pass another array"
            )
        devices = array.devices()
        if len(devices) != 1:
            instead = (
                "one copy, a.addressable_data(0)" if array.is_fully_replicated else "its addressable_shards one by one"
            )
            raise RequestError(f"{where} must be on one device, got an array on {len(devices)} devices: pass {instead}")
        array.block_until_ready()
        if next(iter(devices)).platform == "cpu":
            return np.asarray(array)
        order = getattr(getattr(getattr(array, "format", None), "layout", None), "major_to_minor", None)
        if order is not None and tuple(order) != tuple(range(array.ndim)):
            raise RequestError(f"{where} must be row-major, but JAX keeps its dimensions in the order {tuple(order)}")
        return jax_memory(array)

    def empty(self, array: Any, shape: Sequence[int], dtype: Any, stream: Any) -> Any:
        """Return zeros on the device (JAX has no uninitialised memory), or a NumPy array that becomes the result."""
        if isinstance(array, np.ndarray):
            return np.empty(tuple(shape), dtype)
        import jax

        with _as_typed(array.array):
            zeros = jax.numpy.zeros(tuple(shape), dtype, device=_placement(array.array))
            return zeros.block_until_ready()

    def finalize(self, array: Any, result: Any, stream: Any) -> Any:
        """Return the result after the stream is done, because JAX does not wait for the stream. It is committed and weakly typed as the array."""
        import jax

        with _as_typed(array):
            if isinstance(result, np.ndarray):
                result = jax.device_put(result, _placement(array))
            elif result.size:
                driver = get_executor("cuda").driver  # type: ignore[attr-defined]
                with driver.active(driver.device_of(result.unsafe_buffer_pointer())):
                    stream_number = 0 if stream is None else stream_handle(stream)
                    driver.call("cuStreamSynchronize", driver.api.CUstream(stream_number))
            if array.weak_type:
                weak = jax.numpy.full(result.shape, np.zeros((), array.dtype).item())
                result = weak.at[...].set(result) if weak.dtype == result.dtype else result
        return result

    def out_error(self, out: Any) -> str | None:
        """Return the reason, which holds for every JAX array."""
        return "JAX arrays never change: omit out=, and use the new array"


_TRACERS = {"BatchTracer": "jax.vmap", "JVPTracer": "jax.jvp", "LinearizeTracer": "jax.grad"}
"""Transforms of JAX by the class of what a function gets in them; in jax.jit and all others it is the same class."""


@contextmanager
def _as_typed(array: Any) -> Iterator[None]:
    """Have JAX make arrays of an array's dtype, of 64 bits too, and on its device if none is named."""
    import jax

    with ExitStack() as contexts:
        contexts.enter_context(jax.default_device(next(iter(array.devices()))))
        if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
            if not callable(getattr(jax, "enable_x64", None)):  # JAX before 0.8
                from jax.experimental import enable_x64
            else:
                enable_x64 = jax.enable_x64
            contexts.enter_context(enable_x64(True))
        yield


def _placement(array: Any) -> Any:
    """Return the sharding of a result on an array's one device, or None for an array that JAX may move to another."""
    import jax

    sharding = array.sharding
    if not array.committed:
        return None
    if isinstance(sharding, jax.sharding.NamedSharding):
        whole = jax.sharding.PartitionSpec()
        return jax.sharding.NamedSharding(sharding.mesh, whole, memory_kind=sharding.memory_kind)
    return jax.sharding.SingleDeviceSharding(next(iter(array.devices())), memory_kind=sharding.memory_kind)


_NUMPY, _OTHER = NumPy(), Framework()
_BY_MODULE: dict[str, Framework] = {"torch": Torch(), "cupy": CuPy(), "jax": Jax()}


def framework_of(kind: type[Any]) -> Framework:
    """Return the framework whose arrays are of a type, or of a class that it is derived from."""
    if issubclass(kind, (np.ndarray, np.generic)):
        return _NUMPY
    return _BY_MODULE.get(module_of(kind), _OTHER)
