"""The arguments of a launch: arrays of any framework seen as facts, and all of them bound to the parameters."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import attrs
import numpy as np

from tilecopy_core.errors import TEXT, LayoutError, attribute, checked, frozen, instance_of, integer, short_repr
from tilecopy_core.layout import row_major
from tilecopy_core.registry import LOCK

from ..errors import LaunchError
from ..kernel.built import BuiltKernel
from ..kernel.parameters import ArrayView, Binding, TensorMapArgs
from ..validators import FUNCTION
from .streams import current_stream, exported_stream, framework_of

View = Callable[[str, Any], ArrayView]
"""How an executor sees an array: where it is passed (for messages) and the array, to its facts."""

LOWEST_ADDRESS = 1 << 32
"""Addresses of GPU memory are not below it. torch reports the offset of a tensor in its storage as the address if the storage was freed,
so calls that skip the checks of an earlier call go through all of them below it."""
_DLPACK_CODE_BYTES = 20
"""Bytes before the code of the dtype in a DLTensor: its address, device and number of dimensions."""
_DLPACK_FLOAT8 = {
    8: "float8_e4m3",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
}
"""Dtypes of ml_dtypes by DLPack's codes (dlpack.h, kDLFloat8_...)."""
_HOST = 1
"""DLPack's number of host memory (dlpack.h, kDLCPU)."""
_GPU = (2, 13)
"""DLPack's numbers of memory that a GPU addresses: kDLCUDA and kDLCUDAManaged."""


def bind(kernel: BuiltKernel, arguments: Sequence[Any], grid: Sequence[int] | int | None, view: View) -> Binding:
    """Bind arguments to the parameters of a kernel, and check everything that was declared of them.

    Args:
        kernel: what is launched.
        arguments: one for each parameter that takes one.
        grid: as given at the launch.
        view: how this executor sees an array.

    Raises:
        LaunchError: wrong number, an argument that is not what its parameter declares, or a region that leaves its array.
    """
    passed = [parameter for parameter in kernel.parameters if parameter.takes_argument]
    if len(arguments) != len(passed):
        names = ", ".join(p.name for p in passed)
        raise LaunchError(f"kernel {kernel.name} takes {len(passed)} arguments ({names}), not {len(arguments)}")
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
    """Return the facts of an array of NumPy, torch, CuPy, JAX, or another framework with one of their protocols.

    Args:
        where: kernel and argument, for messages.
        argument: the array.
        device_of: the GPU of a device address, where the array does not say it.

    Raises:
        LaunchError: it is not an array, or one whose memory does not hold its elements as they are.
    """
    facts = _facts(where, argument, device_of)
    if not facts.pointer and 0 not in facts.shape:
        raise LaunchError(
            f"{where}: a {type(argument).__name__} of shape {facts.shape} at address 0: its memory was freed, or it is a wrapper "
            "without memory; pass an array that has memory"
        )
    return facts


def _facts(where: str, argument: Any, device_of: Callable[[int], int]) -> ArrayView:
    """Return the facts of an array by the first protocol that it has."""
    if isinstance(argument, np.ndarray):
        return numpy_facts(where, argument)
    if framework_of(type(argument)) == "jax":
        if type(argument).__name__.endswith("Tracer"):
            raise LaunchError(
                f"{where}: a transform of JAX such as jax.jit traces the call, and a tracer has no elements; call the kernel outside of it"
            )
        if attribute(argument, "is_deleted") and argument.is_deleted():
            raise LaunchError(f"{where}: the JAX array was deleted or donated; pass one that still has memory")
    if _is_tensor(type(argument)):
        return _tensor_facts(where, argument)
    try:
        interface = argument.__cuda_array_interface__
    except Exception:  # frameworks raise their own when they cannot describe a dtype, or a host array
        interface = None
    if interface is not None:
        return _interface_facts(where, argument, interface, device_of)
    if attribute(argument, "__dlpack__") and attribute(argument, "__dlpack_device__"):
        return _dlpack_facts(where, argument)
    remedy = "; make an array first, a = np.asarray(a)" if _becomes_an_array(argument) else ""
    raise LaunchError(
        f"{where} must be an array (NumPy, or one with DLPack or __cuda_array_interface__), got {type(argument).__name__} "
        f"{short_repr(argument)}{remedy}"
    )


def _becomes_an_array(argument: Any) -> bool:
    """Return whether NumPy can view or copy an object's elements."""
    if isinstance(argument, (list, tuple)) or any(
        attribute(argument, f"__array_{name}__") for name in ("struct", "interface")
    ):
        return True
    try:
        return memoryview(argument).ndim > 0 and not isinstance(argument, bytes)
    except TypeError:
        return False


def host_facts(where: str, argument: Any) -> ArrayView:
    """:func:`array_view` for an executor that takes host memory alone.

    Raises:
        LaunchError: as there, or the array is on a device.
    """
    facts = array_view(where, argument, lambda _: 0)
    if facts.device is not None:
        raise LaunchError(
            f"{where}: the array is on a device (GPU {facts.device}), this executor takes host arrays; "
            'copy it to the host, or run the kernel with executor="cuda"'
        )
    return facts


def _is_masked(array: Any) -> bool:
    """Return whether an array has a mask; that does not import numpy.ma, which takes long."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(array, getattr(masked, "MaskedArray", ()))


def numpy_facts(where: str, array: Any) -> ArrayView:
    """Return the facts of a NumPy array."""
    if type(array) is not np.ndarray and _is_masked(array):
        raise LaunchError(f"{where}: a masked array, whose mask a kernel does not see; pass a.filled(value)")
    strides = _elements(where, array.strides, array.itemsize)
    writeable = array.flags.writeable
    return ArrayView(array.shape, strides, array.dtype, int(array.ctypes.data), not writeable, None, array)


def _is_tensor(kind: type) -> bool:
    """Return whether a type describes its memory as torch.Tensor does."""
    return all(hasattr(kind, name) for name in ("data_ptr", "stride", "device", "is_conj", "is_neg"))


def _tensor_facts(where: str, tensor: Any) -> ArrayView:
    try:
        shape, strides, dtype, device = tensor.shape, tensor.stride(), tensor.dtype, tensor.device
        conjugated, negated, pointer = tensor.is_conj(), tensor.is_neg(), tensor.data_ptr()
    except Exception as error:  # a sparse or traced tensor has no strides or no memory
        raise LaunchError(f"{where}: a {type(tensor).__name__} that is not dense memory: {error}") from error
    if conjugated or negated:
        wanted = "resolve_conj" if conjugated else "resolve_neg"
        raise LaunchError(
            f"{where}: a view that torch {'conjugates' if conjugated else 'negates'} as it is read, which a kernel "
            f"does not; pass a.{wanted}()"
        )
    if device.type not in ("cpu", "cuda"):
        raise LaunchError(f"{where}: the tensor is on {device}; it must be on the CPU or a CUDA device")
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
    """Raise LaunchError if a tensor's elements lie past the end of its storage, whose size anyone may change."""
    if 0 in shape or not hasattr(tensor, "untyped_storage"):
        return
    try:
        storage_bytes, offset, itemsize = (
            tensor.untyped_storage().nbytes(),
            tensor.storage_offset(),
            tensor.element_size(),
        )
    except Exception as error:  # a wrapper has no storage
        raise LaunchError(f"{where}: a {type(tensor).__name__} without a storage: {error}") from error
    last = offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    needed_bytes = (last + 1) * itemsize
    if storage_bytes < needed_bytes:
        raise LaunchError(
            f"{where}: shape {tuple(shape)} with strides {tuple(strides)} from element {offset} on needs {needed_bytes} bytes, and the "
            f"tensor's storage has {storage_bytes}: it was freed or made smaller (untyped_storage().resize_); restore it before the call"
        )


@attrs.frozen
class ArrayExpressions:
    """Python expressions, of an array that is called ``{0}``.

    Attributes:
        facts: decide whether the array fits a kernel, separated by commas.
        address: gives the address of its first element.
    """

    facts: str
    address: str


_OF_A_TENSOR = ArrayExpressions("{0}.shape, {0}.stride(), {0}.dtype, {0}.device, {0}.is_neg()", "{0}.data_ptr()")
_OF_A_COMPLEX_TENSOR = attrs.evolve(_OF_A_TENSOR, facts=f"{_OF_A_TENSOR.facts}, {{0}}.is_conj()")
_OF_CUPY = ArrayExpressions("{0}.shape, {0}.strides, {0}.dtype, {0}.data.device_id", "{0}.data.ptr")


def reads_of(kind: type, *, is_complex: bool) -> ArrayExpressions | None:
    """Return how to read an array of a type at the cost of a few attributes, or None where none is cheap.

    Args:
        kind: the array's type.
        is_complex: whether its elements are complex. Of others, no view is conjugated.
    """
    if _is_tensor(kind):
        return _OF_A_COMPLEX_TENSOR if is_complex else _OF_A_TENSOR
    if kind.__module__.partition(".")[0] == "cupy" and hasattr(kind, "__cuda_array_interface__"):
        return _OF_CUPY
    return None


def same_tensors(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """Return a function that says whether other tensors of torch are like these, or None where torch cannot say it.

    It compares class, shape, strides, dtype, device, and whether views negate or conjugate, by the guards of torch.compile.
    """
    try:
        guards = sys.modules["torch"]._C._dynamo.guards.TensorGuards(
            *tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None
        )
        same: Callable[..., bool] = guards.check
        return same if same(*tensors) else None  # it says no of a tensor that is passed twice
    except Exception:  # no torch, or a version without them
        return None


def _interface_facts(
    where: str, argument: Any, interface: dict[str, Any], device_of: Callable[[int], int]
) -> ArrayView:
    """By the CUDA array interface, version 2 or 3."""
    try:
        if not isinstance(interface, Mapping):
            raise TypeError(f"a dict, not {type(interface).__name__}")
        if interface.get("mask") is not None:
            raise LaunchError(f"{where}: a masked array, whose mask a kernel does not see; pass it filled")
        pointer, readonly = interface["data"]
        shape, strides = tuple(map(int, interface["shape"])), interface.get("strides")
        written_dtype = np.dtype(interface["typestr"])
        elements = row_major(shape) if strides is None else _elements(where, strides, written_dtype.itemsize)
        dtype = getattr(argument, "dtype", written_dtype)  # the framework's own knows bfloat16
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
    """Return the GPU that an array says it is on (memory that is mapped there may lie on another); None: it does not say."""
    memory = attribute(array, "data") if framework_of(type(array)) == "cupy" else array
    ordinal = integer(attribute(memory, "device_id"))
    return None if ordinal is None or ordinal < 0 else ordinal


def _await(array: Any) -> None:
    """Wait until a JAX array is computed: JAX has streams of its own, and no current one."""
    if framework_of(type(array)) == "jax":
        array.block_until_ready()


@cache
def _memory_view() -> Any:
    """Return what reads arrays of DLPack, found once: launches do not wait for the lock of imports."""
    with LOCK:
        from cuda.core.utils import StridedMemoryView

    return StridedMemoryView


def _from_dlpack(where: str, argument: Any) -> Any:
    """Return a host array as NumPy views it by DLPack, or one of JAX as that views it, with the dtypes of ml_dtypes."""
    try:
        return np.asarray(argument) if framework_of(type(argument)) == "jax" else np.from_dlpack(argument)
    except Exception as error:  # whatever the exporting framework raises
        raise LaunchError(
            f"{where}: NumPy cannot view a {type(argument).__name__} by DLPack: {error}. NumPy has no bfloat16, float8 or 4-bit dtype of its "
            "own: pass a NumPy array with a dtype of ml_dtypes, or the framework's own array"
        ) from error


def _dlpack_facts(where: str, argument: Any) -> ArrayView:
    try:
        device = int(argument.__dlpack_device__()[0])
        if device == _HOST:
            return numpy_facts(where, _from_dlpack(where, argument))
        if device not in _GPU:
            raise LaunchError(f"{where}: the array is on a device of DLPack type {device}, no CUDA device")
        _await(argument)
        view = _memory_view().from_any_interface(
            argument, stream_ptr=_any_stream(argument)
        )  # `export` is for the launch's
        dtype = attribute(argument, "dtype")
        dtype = _dlpack_dtype(argument, view) if dtype is None else dtype
    except LaunchError:
        raise
    except Exception as error:  # whatever the exporting framework raises
        raise LaunchError(f"{where}: {type(argument).__name__} cannot be viewed: {error}") from error
    shape = tuple(view.shape)
    strides = tuple(view.strides) if view.strides is not None else row_major(shape)
    facts = ArrayView(shape, strides, dtype, int(view.ptr), bool(view.readonly), int(view.device_id), (argument, view))
    stream = current_stream(framework_of(type(argument)), int(view.device_id))
    return attrs.evolve(facts, stream=stream, export=None if stream else argument.__dlpack__)


def _any_stream(argument: Any) -> int:
    """Return DLPack's number of a stream for an export that nothing has to wait for: -1, but JAX takes that for a handle."""
    return 1 if framework_of(type(argument)) == "jax" else -1


def _dlpack_dtype(argument: Any, view: Any) -> Any:
    """Return the dtype of an array of DLPack, of float8 too, which NumPy does not know without ml_dtypes."""
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
    """Strides in elements."""
    for stride in strides_bytes:
        if itemsize < 1 or stride % itemsize:
            raise LaunchError(
                f"{where}: a stride of {stride} bytes is not a whole number of elements of {itemsize}; pass a contiguous array"
            )
    return tuple(int(stride) // itemsize for stride in strides_bytes)


# -------------------------------------------------------------------------------------------------- host memory


def flat_bytes(facts: ArrayView, itemsize: int) -> Any:
    """Return a uint8 view of host memory from an array's lowest element to its highest; ``facts`` keeps it alive."""
    low, nbytes = facts.span(itemsize)
    view = np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(low)), np.uint8)
    view.flags.writeable = not facts.readonly
    return view


@frozen
class HostSpan:
    """Host memory of some arguments of a launch.

    Attributes:
        first: its address.
        nbytes: its size.
        names: of the parameters whose arrays are in it.
    """

    first: int
    nbytes: int
    names: tuple[str, ...]

    def join(self, other: HostSpan) -> HostSpan:
        """Both as one, of which the other begins inside this one."""
        end = max(self.first + self.nbytes, other.first + other.nbytes)
        return HostSpan(self.first, end - self.first, self.names + other.names)


def host_spans(kernel: BuiltKernel, binding: Binding) -> list[HostSpan]:
    """Return the host memory of a launch's arguments, in pieces that a device can have copies of.

    Arguments are together where one of them is written in memory that the others are in too (columns of one array): a copy
    of each would lose what the kernel writes through the other.
    """
    alone = {
        parameter.name: HostSpan(*facts.span(parameter.dtype.bytes), (parameter.name,))
        for parameter in kernel.arrays
        if (facts := binding.arrays[parameter.name]).device is None
    }
    merged: list[HostSpan] = []
    for span in sorted(alone.values(), key=lambda span: span.first):
        if merged and span.first < merged[-1].first + merged[-1].nbytes:
            merged[-1] = merged[-1].join(span)
        else:
            merged.append(span)
    return [
        piece
        for span in merged
        for piece in ([span] if kernel.mutated_args.intersection(span.names) else map(alone.__getitem__, span.names))
    ]


@frozen(eq=False)
class HostArray:
    """A host array by its parameter's name.

    Attributes:
        data: a uint8 view of its memory from the lowest element to the highest.
        first_bytes: where its first element is in that: 0 without negative strides.
    """

    name: str
    data: Any
    align_bytes: int
    writable: bool
    first_bytes: int = 0


@frozen(eq=False)
class HostArguments:
    """Checked arguments that live in host memory, for executors that run kernels on the host.

    Attributes:
        arrays: in the order of the parameters.
        binding: what every parameter is bound to.
    """

    arrays: list[HostArray]
    binding: Binding

    @classmethod
    @checked(
        LaunchError,
        kernel=instance_of("a BuiltKernel", BuiltKernel),
        arguments=instance_of("a tuple of arguments", tuple, list),
    )
    def of(cls, kernel: BuiltKernel, arguments: Sequence[Any], grid: Sequence[int] | int | None) -> HostArguments:
        """Check host arguments against a kernel.

        Raises:
            LaunchError: an argument does not fit its parameter or does not live in host memory.
        """
        binding = bind(kernel, arguments, grid, host_facts)
        arrays = []
        for parameter in kernel.arrays:
            facts = binding.arrays[parameter.name]
            data = flat_bytes(facts, parameter.dtype.bytes)
            first_bytes = facts.pointer - facts.span(parameter.dtype.bytes)[0]
            arrays.append(
                HostArray(parameter.name, data, parameter.align_bytes, not facts.readonly, first_bytes=first_bytes)
            )
        return cls(arrays, binding)

    def pack_parameters(
        self,
        kernel: BuiltKernel,
        addresses: dict[str, int],
        encode_map: Callable[[TensorMapArgs], bytes] | None = None,
    ) -> list[bytes]:
        """Return the bytes of each parameter, in order, once every array has an address.

        Args:
            kernel: what is launched.
            addresses: of the arrays, by parameter.
            encode_map: the executor's tensor maps; None where it has none.

        Raises:
            LaunchError: what a launch computes cannot be made of them.
        """
        self.binding.addresses.update(addresses)
        self.binding.encode_map = encode_map
        return [parameter.encode(self.binding) for parameter in kernel.parameters]
