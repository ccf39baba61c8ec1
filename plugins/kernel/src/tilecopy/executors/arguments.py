"""The arguments of a launch: views of arrays of any framework, and the binding of arguments to parameters."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs

from tilecopy_core.errors import TEXT, LayoutError, attribute, checked, frozen, integer, np, short_repr
from tilecopy_core.layout import row_major
from tilecopy_core.registry import LOCK

from ..errors import LaunchError
from ..kernel.parameters import ArrayView, Binding
from ..validators import FUNCTION
from .streams import current_stream, exported_stream, framework_of

if TYPE_CHECKING:
    from ..kernel.built import BuiltKernel

View = Callable[[str, Any], ArrayView]
"""A function of an executor that returns the view of an array; its first argument names the array in messages."""

LOWEST_ADDRESS = 1 << 32
"""The lowest address of GPU memory. If a tensor's storage was freed, torch reports the offset in the storage as the address. So a
prepared call with an address below this one makes all checks again."""
_DLPACK_CODE_BYTES = 20
"""The bytes before the dtype's code in a DLTensor: the address, device and number of dimensions."""
_DLPACK_FLOAT8 = {
    8: "float8_e4m3",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
}
"""DLPack's dtype code (dlpack.h, kDLFloat8_...) -> name of the dtype in ml_dtypes."""
_HOST = 1
"""DLPack's device type of host memory (dlpack.h, kDLCPU)."""
_GPU = (2, 13)
"""DLPack's device types of memory that a GPU can address: kDLCUDA and kDLCUDAManaged."""


def bind(kernel: BuiltKernel, arguments: Sequence[Any], grid: Sequence[int] | int | None, view: View) -> Binding:
    """Bind arguments to parameters. Raise LaunchError if an argument does not fit or a region is out of bounds."""
    passed = [parameter for parameter in kernel.parameters if parameter.takes_argument]
    if len(arguments) != len(passed):
        names = ", ".join(p.name for p in passed)
        raise LaunchError(f"kernel {kernel.name} takes {len(passed)} arguments ({names}), got {len(arguments)}")
    binding = Binding(kernel.name, view)
    for parameter, argument in zip(passed, arguments, strict=True):
        parameter.read(argument, binding)
    for parameter in kernel.parameters:
        if not parameter.takes_argument:
            parameter.read(None, binding)
    for parameter in kernel.parameters:
        parameter.check(binding)
    binding.grid = kernel.launch_grid(grid, binding.numbers)
    if kernel.index_assertions and 0 not in binding.grid:
        kernel.values_at(binding.numbers)
    if kernel.bounds:
        try:
            kernel.check_bounds(binding.grid, binding.numbers)
        except LayoutError as error:
            raise LaunchError(f"kernel {kernel.name}: {error}") from error
    return binding


# ----------------------------------------------------------------------------------------- arrays of any framework


@checked(LaunchError, where=TEXT, device_of=FUNCTION)
def array_view(where: str, argument: Any, device_of: Callable[[int], int]) -> ArrayView:
    """Return the :class:`ArrayView` of an array that supports DLPack or the CUDA array interface.

    Args:
        where: the kernel and the argument, for messages.
        argument: the array.
        device_of: returns the GPU of a device address. It is called if the array does not have that.

    Raises:
        LaunchError: the argument is not an array, or its memory does not hold its elements.
    """
    facts = _facts(where, argument, device_of)
    if not facts.pointer and 0 not in facts.shape:
        raise LaunchError(
            f"{where}: the {type(argument).__name__} of shape {facts.shape} must not have the address 0: "
            "pass an array whose memory is allocated"
        )
    return facts


def _facts(where: str, argument: Any, device_of: Callable[[int], int]) -> ArrayView:
    """Return the view of an array by the first protocol that it supports."""
    if isinstance(argument, np.ndarray):
        return numpy_facts(where, argument)
    if framework_of(type(argument)) == "jax":
        if type(argument).__name__.endswith("Tracer"):
            raise LaunchError(
                f"{where}: the argument is a tracer of a JAX transform such as jax.jit and has no elements; call the kernel outside the transform"
            )
        if attribute(argument, "is_deleted") and argument.is_deleted():
            raise LaunchError(f"{where}: the JAX array was deleted or donated; pass one that still has memory")
    if _is_tensor(type(argument)):
        return _tensor_facts(where, argument)
    try:
        interface = argument.__cuda_array_interface__
    except Exception:  # frameworks raise their own errors for a dtype or a host array that they cannot describe
        interface = None
    if interface is not None:
        return _interface_facts(where, argument, interface, device_of)
    if attribute(argument, "__dlpack__") and attribute(argument, "__dlpack_device__"):
        return _dlpack_facts(where, argument)
    remedy = "; convert it first with np.asarray(a)" if _becomes_an_array(argument) else ""
    raise LaunchError(
        f"{where} must be a NumPy array, or an array with DLPack or __cuda_array_interface__, got {type(argument).__name__} "
        f"{short_repr(argument)}{remedy}"
    )


def _becomes_an_array(argument: Any) -> bool:
    """Return True if NumPy can view or copy an object's elements."""
    if isinstance(argument, (list, tuple)) or any(
        attribute(argument, f"__array_{name}__") for name in ("struct", "interface")
    ):
        return True
    try:
        return memoryview(argument).ndim > 0 and not isinstance(argument, bytes)
    except TypeError:
        return False


def host_facts(where: str, argument: Any) -> ArrayView:
    """Return the view of an array that must be in host memory; see :func:`array_view`."""
    facts = array_view(where, argument, lambda _: 0)
    if facts.device is not None:
        raise LaunchError(
            f"{where}: the array must be in host memory for this executor, got a device array on GPU {facts.device}; "
            'copy it to the host or use executor="cuda"'
        )
    return facts


def is_masked(array: Any) -> bool:
    """Return True if an array is a NumPy masked array. The test does not import numpy.ma, because that is slow."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(array, getattr(masked, "MaskedArray", ()))


def numpy_facts(where: str, array: Any) -> ArrayView:
    """Return the view of a NumPy array."""
    if type(array) is not np.ndarray and is_masked(array):
        raise LaunchError(f"{where} must not be a masked array, because kernels ignore masks: pass a.filled(value)")
    strides = _elements(where, array.strides, array.itemsize)
    writeable = array.flags.writeable
    return ArrayView(array.shape, strides, array.dtype, int(array.ctypes.data), not writeable, None, array)


def _is_tensor(kind: type) -> bool:
    """Return True if a type has the methods by which torch.Tensor describes its memory."""
    return all(hasattr(kind, name) for name in ("data_ptr", "stride", "device", "is_conj", "is_neg"))


def _tensor_facts(where: str, tensor: Any) -> ArrayView:
    try:
        shape, strides, dtype, device = tensor.shape, tensor.stride(), tensor.dtype, tensor.device
        conjugated, negated, pointer = tensor.is_conj(), tensor.is_neg(), tensor.data_ptr()
    except Exception as error:  # a sparse or traced tensor has no strides or no memory
        raise LaunchError(f"{where}: the {type(tensor).__name__} must have dense memory: {error}") from error
    if conjugated or negated:
        wanted = "resolve_conj" if conjugated else "resolve_neg"
        raise LaunchError(
            f"{where}: the tensor is a lazy view: torch {'conjugates' if conjugated else 'negates'} elements on each read, "
            f"but kernels do not; pass a.{wanted}()"
        )
    if device.type not in ("cpu", "cuda"):
        raise LaunchError(f"{where}: the tensor must be on the CPU or a CUDA device, got {device}")
    if pointer:
        _check_storage(where, tensor, shape, strides)
    ordinal = None if device.type == "cpu" else int(device.index or 0)
    return ArrayView(
        tuple(shape),
        tuple(strides),
        dtype,
        int(pointer),
        readonly=False,
        device=ordinal,
        owner=tensor,
        stream=None if ordinal is None else current_stream(framework_of(type(tensor)), ordinal),
    )


def _check_storage(where: str, tensor: Any, shape: Sequence[int], strides: Sequence[int]) -> None:
    """Raise LaunchError if a tensor has elements past the end of its storage, for example after a resize of the storage."""
    if 0 in shape or not hasattr(tensor, "untyped_storage"):
        return
    try:
        storage_bytes, offset = tensor.untyped_storage().nbytes(), tensor.storage_offset()
        itemsize = tensor.element_size()
    except Exception as error:  # a wrapper has no storage
        raise LaunchError(f"{where}: the {type(tensor).__name__} must have storage: {error}") from error
    last = offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    needed_bytes = (last + 1) * itemsize
    if storage_bytes < needed_bytes:
        raise LaunchError(
            f"{where}: shape {tuple(shape)} with strides {tuple(strides)} from element {offset} needs {needed_bytes} bytes, but the "
            f"tensor's storage has {storage_bytes} bytes; pass a tensor whose storage was not freed or resized"
        )


@frozen
class ArrayExpressions:
    """Python expressions that read an array's properties and address; ``{0}`` stands for the array.

    Attributes:
        facts: expressions separated by commas, whose values decide if the array fits a kernel.
        address: the expression of the address of its first element.
    """

    facts: str
    address: str


_OF_A_TENSOR = ArrayExpressions("{0}.shape, {0}.stride(), {0}.dtype, {0}.device, {0}.is_neg()", "{0}.data_ptr()")
_OF_A_COMPLEX_TENSOR = attrs.evolve(_OF_A_TENSOR, facts=f"{_OF_A_TENSOR.facts}, {{0}}.is_conj()")
_OF_CUPY = ArrayExpressions("{0}.shape, {0}.strides, {0}.dtype, {0}.data.device_id", "{0}.data.ptr")


def reads_of(kind: type, *, is_complex: bool) -> ArrayExpressions | None:
    """Return the expressions for arrays of a class, or None if it is unsupported. ``is_complex`` adds ``is_conj()``."""
    if _is_tensor(kind):
        return _OF_A_COMPLEX_TENSOR if is_complex else _OF_A_TENSOR
    if str(attribute(kind, "__module__")).partition(".")[0] == "cupy" and hasattr(kind, "__cuda_array_interface__"):
        return _OF_CUPY
    return None


def reader_of(kind: type) -> Callable[[Any], tuple[Any, int]] | None:
    """Return a function that reads an array's properties and address, or None if :func:`reads_of` returns None."""
    reads = reads_of(kind, is_complex=True)
    if reads is None:
        return None
    reader: Callable[[Any], tuple[Any, int]] = eval(f"lambda array: (({reads.facts}), {reads.address})".format("array"))  # noqa: S307
    return reader


def same_tensors(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """Return a torch.compile guard that compares a call's tensors with ``tensors``, or None if torch cannot make it.

    The function compares class, shape, strides, dtype, device, and the negative and conjugate bits, by the guards of torch.compile.
    """
    try:
        guards = sys.modules["torch"]._C._dynamo.guards.TensorGuards(
            *tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None
        )
        same: Callable[..., bool] = guards.check
        return same if same(*tensors) else None  # the guards fail if a tensor is passed twice
    except Exception:  # no torch, or a version without them
        return None


def _interface_facts(
    where: str, argument: Any, interface: dict[str, Any], device_of: Callable[[int], int]
) -> ArrayView:
    """Return the view of an array by its CUDA array interface, version 2 or 3."""
    try:
        if not isinstance(interface, Mapping):
            raise TypeError(f"a dict, not {type(interface).__name__}")
        if interface.get("mask") is not None:
            raise LaunchError(f"{where} must not have a mask, because kernels ignore masks: fill the array first")
        pointer, readonly = interface["data"]
        shape, strides = tuple(map(int, interface["shape"])), interface.get("strides")
        written_dtype = np.dtype(interface["typestr"])
        elements = row_major(shape) if strides is None else _elements(where, strides, written_dtype.itemsize)
        dtype = getattr(argument, "dtype", written_dtype)  # the framework's dtype may be bfloat16
        pointer = int(pointer or 0)
        stream = exported_stream(interface.get("stream"))
    except (KeyError, TypeError, ValueError) as error:
        raise LaunchError(f"{where}: its __cuda_array_interface__ is malformed: {error!r}") from error
    _await(argument)
    ordinal = _said_device(argument)
    if ordinal is None:
        ordinal = device_of(pointer) if pointer else 0
    stream = current_stream(framework_of(type(argument)), ordinal) or stream
    return ArrayView(shape, elements, dtype, pointer, bool(readonly), ordinal, argument, stream)


def _said_device(array: Any) -> int | None:
    """Return the GPU that an array reports, or None. Memory that is mapped there may be on another GPU."""
    memory = attribute(array, "data") if framework_of(type(array)) == "cupy" else array
    ordinal = integer(attribute(memory, "device_id"))
    return None if ordinal is None or ordinal < 0 else ordinal


def _await(array: Any) -> None:
    """Wait until a JAX array is computed, because JAX uses its own streams and has no current stream."""
    if framework_of(type(array)) == "jax":
        array.block_until_ready()


@cache
def _memory_view() -> Any:
    """Return cuda.core's StridedMemoryView. It is imported once, so that launches do not wait for the import lock."""
    with LOCK:
        from cuda.core.utils import StridedMemoryView

    return StridedMemoryView


def _from_dlpack(where: str, argument: Any) -> Any:
    """Return a NumPy array that views a host array by DLPack; for JAX by ``np.asarray``, which knows ml_dtypes."""
    try:
        return np.asarray(argument) if framework_of(type(argument)) == "jax" else np.from_dlpack(argument)
    except Exception as error:  # whatever the exporting framework raises
        raise LaunchError(
            f"{where}: NumPy cannot view the {type(argument).__name__} by DLPack: {error}; for bfloat16, float8 or 4-bit elements, "
            "pass a NumPy array with a dtype of ml_dtypes"
        ) from error


def _dlpack_facts(where: str, argument: Any) -> ArrayView:
    try:
        device = int(argument.__dlpack_device__()[0])
        if device == _HOST:
            return numpy_facts(where, _from_dlpack(where, argument))
        if device not in _GPU:
            raise LaunchError(
                f"{where}: the array must be on the CPU or a CUDA device, got a device of DLPack type {device}"
            )
        _await(argument)
        # without the launch's stream, which `export` gets
        view = _memory_view().from_any_interface(argument, stream_ptr=_any_stream(argument))
        dtype = attribute(argument, "dtype")
        dtype = _dlpack_dtype(argument, view) if dtype is None else dtype
    except LaunchError:
        raise
    except Exception as error:  # whatever the exporting framework raises
        raise LaunchError(f"{where}: the {type(argument).__name__} cannot be viewed by DLPack: {error}") from error
    shape = tuple(view.shape)
    strides = tuple(view.strides) if view.strides is not None else row_major(shape)
    facts = ArrayView(shape, strides, dtype, int(view.ptr), bool(view.readonly), int(view.device_id), (argument, view))
    stream = current_stream(framework_of(type(argument)), int(view.device_id))
    return attrs.evolve(facts, stream=stream, export=None if stream else argument.__dlpack__)


def _any_stream(argument: Any) -> int:
    """Return DLPack's stream number for an export without synchronisation: -1, or 1 for JAX, which takes -1 for a handle."""
    return 1 if framework_of(type(argument)) == "jax" else -1


def _dlpack_dtype(argument: Any, view: Any) -> Any:
    """Return the dtype of a DLPack array. A float8 dtype is that of ml_dtypes, because NumPy has none."""
    try:
        return view.dtype
    except TypeError:
        capsule = argument.__dlpack__(stream=_any_stream(argument))
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        code = ctypes.c_uint8.from_address(pointer_of(capsule, b"dltensor") + _DLPACK_CODE_BYTES).value
        if code not in _DLPACK_FLOAT8:
            raise
        with LOCK:
            import ml_dtypes

        return np.dtype(getattr(ml_dtypes, _DLPACK_FLOAT8[code]))


def _elements(where: str, strides_bytes: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return strides in elements, or raise LaunchError if one is not a whole number of elements."""
    for stride in strides_bytes:
        if itemsize < 1 or stride % itemsize:
            raise LaunchError(
                f"{where}: strides must be multiples of the element size, {itemsize} bytes, got {stride} bytes; pass a contiguous array"
            )
    return tuple(int(stride) // itemsize for stride in strides_bytes)
