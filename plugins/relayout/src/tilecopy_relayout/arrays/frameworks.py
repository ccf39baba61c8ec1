"""Classes for NumPy, torch, CuPy and JAX. They create results, and report which arrays must not be written."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

from tilecopy.executors import framework_of as module_of
from tilecopy.executors import get_executor, stream_handle

from tilecopy_core import RequestError
from tilecopy_core.errors import attribute, np

_LEGACY_STREAM = (0, 1)
"""The handles of the legacy default stream (CUDA driver API, "Stream synchronization behavior"); 2 is the thread's default stream."""


def driver() -> Any:
    """Return the driver of the executor ``cuda``."""
    return get_executor("cuda").driver  # type: ignore[attr-defined]


class Framework:
    """The base class of frameworks. Arrays of an unknown framework can be read and written, but not created."""

    has_streams = False
    """True if the framework has a current stream for each GPU."""

    def unwrap(self, where: str, array: Any) -> Any:
        """Return ``array``, or an object with the same memory and an interface that relayout can read."""
        if attribute(array, "__cuda_array_interface__") is not None or attribute(array, "__dlpack__") is not None:
            return array
        if attribute(array, "__array_interface__") is not None:
            return np.asarray(array)
        if attribute(array, "__array__") is not None:
            kind = f"a {type(array).__name__} of {type(array).__module__.partition('.')[0]}"
            lazy = " or dask.array.from_zarr(a)" if type(array).__module__.startswith("zarr") else ""
            instead = "pass a NumPy array, and assign it to a[...]" if where == "out" else f"pass np.asarray(a){lazy}"
            raise RequestError(
                f"{where} must be an array in memory, got {kind} that only returns copies of its elements: {instead}"
            )
        return array

    def empty(self, array: Any, shape: Sequence[int], dtype: Any, stream: Any) -> Any:
        """Return an uninitialized C-contiguous array of the same framework and on the same device as ``array``."""
        raise RequestError(
            f"out= is required for a {type(array).__name__}, because relayout cannot create arrays of its framework"
        )

    def finalize(self, array: Any, result: Any, stream: Any) -> Any:
        """Return the result for the caller. The launch that writes ``result`` is already enqueued on the stream."""
        return result

    def out_error(self, out: Any) -> str | None:
        """Return an error message if an array must not be written, else None."""
        return None

    def mark_written(self, out: Any) -> None:
        """Tell the framework that the elements of ``out`` changed."""


class NumPy(Framework):
    """The framework NumPy. Its arrays are in host memory."""

    def unwrap(self, where: str, array: Any) -> Any:
        """Return the array, or a read-only 0-D array if ``array`` is a scalar."""
        if isinstance(array, np.ndarray):
            return array
        scalar = np.array(array)
        scalar.flags.writeable = False
        return scalar

    def empty(self, array: Any, shape: Sequence[int], dtype: Any, stream: Any) -> Any:
        """Return a new array of the same class as ``array``, with its attributes, for example its physical units."""
        if type(array) in (np.ndarray, np.memmap):
            return np.empty(tuple(shape), dtype)
        try:
            result = np.empty_like(array, dtype=dtype, order="C", subok=True, shape=tuple(shape))
        except Exception as error:  # the subclass's own
            raise RequestError(
                f"array: creating a {type(array).__name__} of shape {tuple(shape)} failed ({error}): pass np.asarray(a)"
            ) from error
        if result.shape != tuple(shape):
            raise RequestError(f"array: a {type(array).__name__} cannot have shape {tuple(shape)}: pass np.asarray(a)")
        return result


class Torch(Framework):
    """The framework torch. Its tensors are on the CPU or a GPU."""

    has_streams = True

    def unwrap(self, where: str, array: Any) -> Any:
        """Return the tensor, detached from the autograd graph."""
        if not isinstance(array, sys.modules["torch"].Tensor):
            return array
        demand_strided(where, array)
        return array.detach() if array.requires_grad else array

    def empty(self, array: Any, shape: Sequence[int], dtype: Any, stream: Any) -> Any:
        """Return a tensor from the caching allocator, allocated on the stream that will write the tensor."""
        if stream is None or not array.is_cuda:
            return array.new_empty(shape)
        import torch

        number = stream_handle(stream)
        if number in _LEGACY_STREAM:  # torch's allocator knows it only as its own default stream
            owner = torch.cuda.default_stream(array.device)
        else:
            owner = torch.cuda.ExternalStream(number, device=array.device)
        with torch.cuda.stream(owner):
            return array.new_empty(shape)

    def out_error(self, out: Any) -> str | None:
        """Return an error message if autograd would have to record the write to the tensor, else None."""
        if out.requires_grad and sys.modules["torch"].is_grad_enabled():
            return "the tensor must not require a gradient, because autograd cannot record the write: pass out.detach()"
        return None

    def mark_written(self, out: Any) -> None:
        """Increment the tensor's version. torch then detects an overwritten tensor that a backward pass needs."""
        sys.modules["torch"].autograd.graph.increment_version(out)


def demand_strided(where: str, tensor: Any) -> None:
    """Check that a torch tensor is strided and initialized, and not masked, quantized or nested."""
    kind, rule = type(tensor).__name__, ""
    if kind.startswith("Uninitialized"):
        rule = f"the tensor must have a shape, got a {kind}: call the tensor's torch module once before relayout"
    elif kind == "MaskedTensor":
        rule = "the tensor must not be masked, because the mask would be lost: pass a.get_data()"
    elif tensor.is_quantized:
        rule = "the tensor must not be quantized, because the scale would be lost: pass a.int_repr()"
    elif tensor.is_nested:
        rule = "the tensor must not be nested, because its rows differ in length: pass each tensor of a.unbind()"
    elif tensor.layout != sys.modules["torch"].strided:
        rule = f"the tensor must be strided, got layout {tensor.layout}: pass a.to_dense()"
    if rule:
        raise RequestError(f"{where}: {rule}")


class CuPy(Framework):
    """The framework CuPy. Each of its arrays is on one GPU."""

    has_streams = True

    def empty(self, array: Any, shape: Sequence[int], dtype: Any, stream: Any) -> Any:
        """Return an array from CuPy's memory pool, allocated on the stream that will write the array."""
        import cupy

        with array.device:
            if stream is None:
                return cupy.empty(tuple(shape), dtype)
            number = stream_handle(stream)
            with cupy.cuda.ExternalStream(0 if number in _LEGACY_STREAM else number):
                return cupy.empty(tuple(shape), dtype)


def jax_memory(array: Any) -> SimpleNamespace:
    """Return an object with ``__cuda_array_interface__`` for a JAX array of any dtype on a GPU."""
    interface = {
        "shape": array.shape,
        "strides": None,
        "typestr": f"|V{array.dtype.itemsize}",
        "data": (array.unsafe_buffer_pointer(), True),
        "version": 3,
    }
    return SimpleNamespace(array=array, dtype=array.dtype, __cuda_array_interface__=interface)


class Jax(Framework):
    """The framework JAX. JAX arrays are immutable, so relayout returns only after the result is written."""

    def unwrap(self, where: str, array: Any) -> Any:
        """Wait for the array. Return a NumPy array if it is on the host, else an object with a CUDA array interface."""
        import jax

        if isinstance(array, jax.core.Tracer):
            transform = _TRACERS.get(type(array).__name__, "jax.jit or another transform of JAX")
            raise RequestError(
                f"{where} must be a concrete array, but {transform} traces the call: inside a transform, use "
                "jax.numpy.transpose"
            )
        if not isinstance(array, jax.Array):
            instead = "pass the array a[...]" if type(array).__name__.endswith("Ref") else "pass an array"
            raise RequestError(f"{where} must be a jax.Array, got a {type(array).__name__} of JAX: {instead}")
        if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
            raise RequestError(
                f"{where} must not be an array of random keys, got dtype {array.dtype}: pass jax.random.key_data(a), and wrap the result with jax.random.wrap_key_data"
            )
        if array.is_deleted():
            raise RequestError(
                f"{where} must have memory, but JAX deleted or donated the array of shape {array.shape}: pass another array"
            )
        devices = array.devices()
        if len(devices) != 1:
            instead = (
                "one copy, a.addressable_data(0)" if array.is_fully_replicated else "each a.addressable_shards[n].data"
            )
            raise RequestError(f"{where} must be on one device, got an array on {len(devices)} devices: pass {instead}")
        array.block_until_ready()
        if next(iter(devices)).platform == "cpu":
            return np.asarray(array)
        order = getattr(getattr(getattr(array, "format", None), "layout", None), "major_to_minor", None)
        if order is not None and tuple(order) != tuple(range(array.ndim)):
            raise RequestError(f"{where} must be row-major, got an array with the dimension order {tuple(order)}")
        return jax_memory(array)

    def empty(self, array: Any, shape: Sequence[int], dtype: Any, stream: Any) -> Any:
        """Return an uninitialized NumPy array if ``array`` is on the host, else a JAX array of zeros on the GPU."""
        if isinstance(array, np.ndarray):
            return np.empty(tuple(shape), dtype)
        import jax

        with _as_typed(array.array):
            zeros = jax.numpy.zeros(tuple(shape), dtype, device=_placement(array.array))
            return zeros.block_until_ready()

    def finalize(self, array: Any, result: Any, stream: Any) -> Any:
        """Wait for the stream and return the result. The result is committed to a device if ``array`` is, and weakly typed if ``array`` is."""
        import jax

        with _as_typed(array):
            if isinstance(result, np.ndarray):
                result = jax.device_put(result, _placement(array))
            elif result.size:
                with driver().active(driver().device_of(result.unsafe_buffer_pointer())):
                    stream_number = 0 if stream is None else stream_handle(stream)
                    driver().call("cuStreamSynchronize", driver().api.CUstream(stream_number))
            if array.weak_type:
                weak = jax.numpy.full(result.shape, np.zeros((), array.dtype).item())
                result = weak.at[...].set(result) if weak.dtype == result.dtype else result
        return result

    def out_error(self, out: Any) -> str | None:
        """Return the error message for a JAX array that is passed as ``out=``. JAX arrays are immutable."""
        return "JAX arrays are immutable: omit out=, and use the new array"


_TRACERS = {"BatchTracer": "jax.vmap", "JVPTracer": "jax.jvp", "LinearizeTracer": "jax.grad"}
"""Class of a tracer -> its transform of JAX; jax.jit and all others share one class."""


@contextmanager
def _as_typed(array: Any) -> Iterator[None]:
    """Make JAX create arrays with an array's dtype, even of 64 bits, and on its device by default."""
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
    """Return the sharding of a result on an array's device, or None if the array is not committed to it."""
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
    """Return the framework that defines an array's type or one of the type's base classes."""
    if issubclass(kind, (np.ndarray, np.generic)):
        return _NUMPY
    return _BY_MODULE.get(module_of(kind), _OTHER)
