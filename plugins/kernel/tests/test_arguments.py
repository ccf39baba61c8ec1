"""Arguments of a launch: what fits its parameter works, everything else is refused with what to do, before the launch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import pytest
import tilecopy as tc
from tilecopy.executors import HostArguments
from tilecopy.kernel.number_parameters import Extent, ScalarParameter, SizeParameter
from tilecopy.kernel.parameters import ArrayParameter, ArrayView, Binding, Parameter
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.fake_driver import CPU, CUDA0, META, FakeTensor, TorchDType
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip

GOOD = np.zeros((64, 64), np.float32)


def masked(mask: Any) -> Any:
    return np.ma.MaskedArray(np.zeros((64, 64), np.float32), mask=mask)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (GOOD.astype(">f4"), ("dtype", "f4", "a.astype", "a.dtype.newbyteorder")),
        (masked(np.eye(64, dtype=bool)), ("a.filled",)),
        (masked(np.ma.nomask), ("a.filled",)),
        (GOOD.astype(object), ("dtype", "float32")),
        (np.zeros((64, 64), [("x", "f4"), ("y", "f4")]), ("a['x']",)),
        (np.zeros((64, 64), [("x", ">f4")]), ()),
        (np.zeros((64, 64), "datetime64[s]"), ("dtype", "datetime64", "float32")),
        (np.zeros((64, 64), "S4"), ("float32",)),
        (np.zeros((64, 64), np.float64), ("dtype", "float64", "float32")),
        (np.zeros((64, 64), np.complex128), ("float32",)),
        (np.zeros((32, 64), np.float32), ("shape", 32, 64)),
        (np.zeros((64, 64, 1), np.float32), ("shape", 64)),
        (np.zeros((), np.float32), ("shape",)),
        (GOOD[::-1], (-64, 64)),
        (GOOD[:, ::-1], (-1, 1)),
        (GOOD.T, (64,)),
        (GOOD.view(np.int32), ("dtype", "int32", "float32")),
        (FakeTensor(4096, (64, 64), dtype=TorchDType("float32"), device=CPU, conjugated=True), ("resolve_conj",)),
        (
            np.zeros((64, 64), [("x", "f4"), ("y", "i2")])["x"],
            (4,),
        ),
        (None, ()),
        (1.5, ("1.5",)),
        ([[0.0]], ("0.0",)),
        ("A.npy", ("str",)),
        (GOOD.tobytes(), ()),
        (np.float32(0), ("float32",)),
        (FakeTensor(4096, (64, 64), dtype=TorchDType("float32"), device=CUDA0), ("device",)),
        (FakeTensor(4096, (64, 64), dtype=TorchDType("float32"), device=META), ("device",)),
        (FakeTensor(4096, (64, 64), device=CPU), ("dtype", "float16", "float32")),
        (FakeTensor(4096, (64, 64), dtype=TorchDType("quint8"), device=CPU), ("float32",)),
        (FakeTensor(4096, (64, 64), dtype=TorchDType("float32"), device=CPU, negated=True), ("resolve_neg",)),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_what_does_not_fit_is_refused_and_nothing_is_written(bad: Any, message: tuple[object, ...], place: int) -> None:
    kernel = round_trip((64, 64), (32, 64), "float32")
    other = np.ones((64, 64), np.float32)
    arguments = [other, other.copy()]
    arguments[place] = bad
    with pytest.raises(tc.LaunchError, match=mentions(*message)) as caught:
        kernel(*arguments, executor="emulator")
    assert mentions("round_trip", "AB"[place]).search(str(caught.value))
    with pytest.raises(tc.LaunchError, match=mentions(*message)):
        kernel.prepare(*arguments, executor="emulator")()
    assert (other == 1).all() and (arguments[1 - place] == 1).all()


def test_a_read_only_array_may_be_read() -> None:
    kernel = round_trip((64, 64), (32, 64), "float32")
    a, b = byte_arrays.random_array((64, 64), np.float32), np.zeros((64, 64), np.float32)
    a.flags.writeable = False
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)
    with pytest.raises(tc.LaunchError, match=mentions("B")):
        kernel(b, a, executor="emulator")


def test_the_bytes_of_a_read_only_array_are_read_only() -> None:
    kernel = round_trip((64, 64), (32, 64), "float32")
    a, b = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    a.flags.writeable = False
    first, second = HostArguments.of(kernel, (a, b), None).arrays
    assert (first.writable, second.writable) == (False, True)
    assert (first.data.flags.writeable, second.data.flags.writeable) == (False, True)


class CpuTensor(FakeTensor):
    """A torch tensor over a NumPy array's memory."""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int64", "bool"])
def test_host_tensors_of_every_dtype_run_on_the_emulator(dtype: str) -> None:
    kernel = round_trip((64, 64), (32, 64), dtype)
    numpy = tc.dtype_of(dtype).numpy()
    a, b = byte_arrays.random_array((64, 64), numpy), np.zeros((64, 64), numpy)
    x, y = (CpuTensor(m.ctypes.data, (64, 64), dtype=TorchDType(dtype), device=CPU) for m in (a, b))
    kernel(x, y, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


def test_native_order_spelled_out_and_extents_of_one_are_fine() -> None:
    kernel = round_trip((1, 64), (1, 64), "float32", threads=32)
    a = byte_arrays.random_array((1, 64), np.float32).astype("<f4")
    strange = np.lib.stride_tricks.as_strided(a, (1, 64), (-400, 4))
    b = np.zeros((1, 64), np.float32)
    kernel(strange, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


def test_a_dimension_of_two_has_its_stride() -> None:
    kernel = round_trip((2, 64), (2, 64), "float32", threads=32)
    wide, out = np.zeros((2, 128), np.float32), np.zeros((2, 64), np.float32)
    with pytest.raises(tc.LaunchError, match=mentions(128, 64)):
        kernel(wide[:, :64], out, executor="emulator")


def test_one_array_for_two_parameters_is_allowed() -> None:
    kernel = round_trip((64, 64), (64, 64), "float32")
    a = byte_arrays.random_array((64, 64), np.float32)
    before = a.copy()
    kernel(a, a, executor="emulator")
    assert byte_arrays.same_bytes(a, before)


# ---------------------------------------------------------------------------------------------------- numbers


def one_number(dtype: str, **bounds: Any) -> tc.BuiltKernel:
    """Stores the scalar."""
    k = tc.KernelBuilder("number", threads=32)
    n = k.scalar("n", dtype, **bounds)
    b = k.param("B", (1,), "int64", align_bytes=8)
    with k.if_(k.thread_id() == 0):
        k.store(b[0], k.cast(n, "int64"))
    return k.build(target="sm_80", grid=1)


@pytest.mark.parametrize(
    ("dtype", "bounds", "values"),
    [
        ("int32", {"lower": -(2**31)}, [0, -1, -(2**31), 2**31 - 1, np.int8(-3), np.uint64(7), np.array(5)]),
        ("uint32", {}, [0, 1, 2**31 - 1, np.uint32(9)]),
        ("int64", {"lower": -(2**62)}, [0, -(2**62), 2**62, 2**32, -(2**31) - 1, np.int64(-5)]),
    ],
)
def test_integers_of_every_kind_arrive(dtype: str, bounds: dict[str, int], values: list[Any]) -> None:
    kernel = one_number(dtype, **bounds)
    for value in values:
        out = np.zeros(1, np.int64)
        kernel(value, out, executor="emulator")
        assert out[0] == int(value)


@pytest.mark.parametrize(
    "bad",
    [
        *(
            True,
            np.True_,
            np.array(True),
            1.0,
            np.float64(2),
            float("nan"),
            float("inf"),
            1j,
            "1",
            b"1",
            None,
            [],
            (1,),
        ),
        *(np.array([1]), np.array(1.5), np.zeros((64, 64)), object(), np.datetime64("2020-01-01"), 2**31, -1, 2**100),
    ],
)
def test_what_is_no_such_integer_is_refused(bad: Any) -> None:
    out = np.zeros(1, np.int64)
    with pytest.raises(tc.LaunchError, match=mentions("n")):
        one_number("int32")(bad, out, executor="emulator")
    assert out[0] == 0


class TorchBool:
    """A tensor of one bool, which torch takes for an index."""

    dtype = "torch.bool"

    def __index__(self) -> int:
        return 1


def test_a_tensor_of_one_bool_is_no_integer() -> None:
    with pytest.raises(tc.LaunchError, match=mentions("n")):
        one_number("int32")(TorchBool(), np.zeros(1, np.int64), executor="emulator")


@pytest.mark.parametrize("value", [8, 15, 17, 40])
def test_a_value_that_is_not_a_multiple_as_declared_is_refused(value: int) -> None:
    kernel, out = one_number("int32", multiple_of=16), np.zeros(1, np.int64)
    kernel(32, out, executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("n", value, 16)):
        kernel(value, out, executor="emulator")
    assert out[0] == 32


@pytest.mark.parametrize("upper", [2**31, 2**32 - 2])
def test_a_uint32_past_an_int32_travels_as_64_bits(upper: int) -> None:
    kernel, out = one_number("uint32", upper=upper), np.zeros(1, np.int64)
    kernel(upper, out, executor="emulator")
    assert out[0] == upper


def test_a_uint32_may_be_declared_up_to_its_largest_value() -> None:
    wide = ScalarParameter.declare("n", "uint32", upper=2**32 - 1)
    narrow = ScalarParameter.declare("n", "uint32", upper=2**31 - 1)
    assert (wide.type, narrow.type) == ("b64", "b32") and ScalarParameter.declare("n", "uint32") == narrow
    binding = Binding("kernel", lambda where, argument: pytest.fail("no array here"))
    wide.read(2**32 - 1, binding)
    assert wide.encode(binding) == (2**32 - 1).to_bytes(8, "little")
    with pytest.raises(tc.LaunchError, match=mentions(4294967296, 4294967295)):
        wide.read(2**32, binding)


@pytest.mark.parametrize("value", [0, 5, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_large_uint32_is_right_in_a_kernel(value: int) -> None:
    kernel = one_number("uint32", upper=2**32 - 1)
    out = np.zeros(1, np.int64)
    kernel(value, out, executor="emulator")
    assert out[0] == value
    assert kernel.cubin()[:4] == b"\x7fELF"
    with pytest.raises(tc.LaunchError, match=mentions(4294967295)):
        kernel(2**32 + value, out, executor="emulator")


def test_a_uint32_is_compared_as_unsigned() -> None:
    k = tc.KernelBuilder("compared", threads=32)
    n, b = k.scalar("n", "uint32", upper=2**32 - 1), k.param("B", (32,), "int32")
    with k.if_(n > k.thread_id()):
        k.store(b[k.thread_id()], 1)
    kernel = k.build(target="sm_80", grid=1)
    for value, written in ((0, 0), (5, 5), (2**31, 32), (2**32 - 1, 32)):
        out = np.zeros(32, np.int32)
        kernel(value, out, executor="emulator")
        assert out.sum() == written


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dtype": "float32"}, ("float32", "dtype", "int32", "uint32", "int64")),
        ({"dtype": None}, ("dtype",)),
        ({"dtype": []}, ("n", "dtype")),
        ({"multiple_of": 0}, ("multiple_of",)),
        ({"multiple_of": None}, ("multiple_of",)),
        ({"multiple_of": 1.5}, ("multiple_of",)),
        ({"lower": "0"}, ("lower",)),
        ({"upper": float("nan")}, ("upper", "nan")),
        ({"lower": 5, "upper": 4}, ("lower", 5, "upper", 4)),
        ({"dtype": "uint32", "lower": -1}, ("uint32", 4294967295)),
        ({"upper": 2**31}, ("int32",)),
        ({"dtype": "int64", "upper": 2**63}, ("int64",)),
    ],
)
def test_odd_declarations_are_request_errors(more: dict[str, Any], message: tuple[object, ...]) -> None:
    for declare in (ScalarParameter.declare, tc.KernelBuilder("scratch", threads=32).scalar):
        with pytest.raises(tc.RequestError, match=mentions("n", *message)):
            declare("n", **more)


# ------------------------------------------------------------------------------------------------ the protocol


def test_parameters_are_values() -> None:
    kernel = one_number("int64", lower=-4)
    assert [type(parameter) for parameter in kernel.parameters] == [ScalarParameter, ArrayParameter]
    assert [parameter.type for parameter in kernel.parameters] == ["b64", "u64"]
    size = SizeParameter("M", "b32", (Extent("A", 0), Extent("B", 1)))
    for parameter in (*kernel.parameters, size):
        assert pickle.loads(pickle.dumps(parameter)) == copy.deepcopy(parameter) == parameter
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            parameter.name = "other"  # type: ignore[misc]


def with_parameters(*more: Parameter) -> tc.BuiltKernel:
    """A round trip that has other parameters behind its own, which it does not read."""
    kernel = round_trip((64, 64), (32, 64), "float32")
    return attrs.evolve(kernel, parameters=(*kernel.parameters, *more))


def test_a_size_is_read_from_the_shapes_and_checked() -> None:
    a, b = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    size = SizeParameter("M", "b32", (Extent("A", 0), Extent("B", 1)), multiple_of=8)
    host = HostArguments.of(with_parameters(size), (a, b), None)
    assert host.pack_parameters(with_parameters(size), {"A": 256, "B": 512}) == [
        number.to_bytes(size_bytes, "little") for number, size_bytes in ((256, 8), (512, 8), (64, 4))
    ]
    for wrong, message in (
        (attrs.evolve(size, multiple_of=48), ("M", 64, "A", 48)),
        (attrs.evolve(size, upper=63), ("M", 64, "A", 63)),
        (attrs.evolve(size, lower=65), (65,)),
        (attrs.evolve(size, sources=(Extent("A", 2),)), ("A", 64)),
    ):
        with pytest.raises(tc.LaunchError, match=mentions(*message)):
            with_parameters(wrong)(a, b, executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("M", 64, "A", 32, "B")):
        with_parameters(size)(a, np.zeros((64, 32), np.float32), executor="emulator")


def test_extents_may_be_made_of_sizes_and_scalars() -> None:
    n = tc.KernelBuilder("scratch", threads=32).scalar("n")
    array = ArrayParameter("A", (n * 2, 8), (n + 8, 1), tc.dtype_of("float32"), 16, written=False)

    def check(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        facts = ArrayView(shape, strides, np.dtype("f4"), 0, readonly=True, device=None, owner=None)
        binding = Binding("kernel", lambda where, argument: argument)
        ScalarParameter.declare("n").read(4, binding)
        array.read(facts, binding)
        array.check(binding)

    check((8, 8), (12, 1))
    with pytest.raises(tc.LaunchError, match=mentions(9, 8, "n")):
        check((9, 8), (12, 1))
    with pytest.raises(tc.LaunchError, match=mentions(8, 12)):
        check((8, 8), (8, 1))


@attrs.frozen
class Doubled(Parameter):
    """A parameter of another package's: made at the launch from an array's address, passed by nobody."""

    array: str
    takes_argument = False

    @property
    def type(self) -> str:
        return "u64"

    def read(self, argument: Any, binding: Binding) -> None:
        assert argument is None and self.array in binding.arrays

    def encode(self, binding: Binding) -> bytes:
        return (2 * binding.addresses[self.array]).to_bytes(8, "little")


def test_a_parameter_of_another_package_needs_nothing_of_the_executors() -> None:
    from tilecopy_cuda.cuda import CudaExecutor
    from tilecopy_test_helpers.fake_driver import FakeDriver

    fake = FakeDriver(sizes=(8, 8, 8))
    cuda, kernel = (
        CudaExecutor(fake),
        attrs.evolve(with_parameters(Doubled("twice", "A")), target=tc.target_of("sm_90")),
    )
    for a in (4096, 8192):
        tensors = [FakeTensor(p, (64, 64), dtype=TorchDType("float32")) for p in (a, 1 << 20)]
        cuda.launch(kernel, tensors)
        cuda.prepare(kernel, tensors)()
        assert [launched.numbers() for launched in fake.launches[-2:]] == [(a, 1 << 20, 2 * a)] * 2
    x, y = byte_arrays.random_array((64, 64), np.float32), np.zeros((64, 64), np.float32)
    kernel(x, y, executor="emulator")
    assert byte_arrays.same_bytes(x, y)


# ---------------------------------------------------------------------------------------------- grids, executors


def test_a_grid_that_the_emulator_cannot_hold_is_refused_at_once() -> None:
    k = tc.KernelBuilder("many", threads=32)
    k.param("A", (4,), "int32")
    kernel = k.build(target="sm_90", cluster=2)
    a = np.zeros(4, np.int32)
    for grid in (2**31 - 2, (2**20, 2**10, 2**10)):
        with pytest.raises(tc.LaunchError, match=mentions("grid", "emulator")):
            kernel(a, grid=grid, executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("grid", 3, "cluster")):
        kernel(a, grid=3, executor="emulator")
    kernel(a, grid=4, executor="emulator")


@pytest.mark.parametrize(
    "grid", [0, -1, True, 1.0, "1", (), (1, 1, 1, 1), (1, None), np.array([2, 2]), 2**31, (1, 65536)]
)
def test_an_odd_grid_is_refused(grid: Any) -> None:
    k = tc.KernelBuilder("odd", threads=32)
    k.param("A", (4,), "int32")
    with pytest.raises(tc.TilecopyError, match="grid"):
        k.build(target="sm_90")(np.zeros(4, np.int32), grid=grid, executor="emulator")


def test_a_grid_that_leaves_the_arrays_is_refused_at_the_launch() -> None:
    k = tc.KernelBuilder("rows", threads=32)
    a, b = k.param("A", (128, 64), "float32"), k.param("B", (128, 64), "float32")
    tile, rows = k.shared((32, 64), "float32"), slice(k.block_id("x") * 32, k.block_id("x") * 32 + 32)
    k.cta.copy(tile[:, :], a[rows, :])
    k.cta_sync()
    k.cta.copy(b[rows, :], tile[:, :])
    kernel = k.build(target="sm_90")
    x, y = byte_arrays.random_array((128, 64), np.float32), np.zeros((128, 64), np.float32)
    with pytest.raises(tc.LaunchError, match=mentions(128)):
        kernel(x, y, grid=5, executor="emulator")
    assert not y.any()
    kernel(x, y, grid=4, executor="emulator")
    assert byte_arrays.same_bytes(x, y)


@pytest.mark.parametrize("executor", ["none", "", 3, ["cuda"], b"cuda", True])
def test_an_odd_executor_is_refused(executor: Any) -> None:
    kernel = round_trip((64, 64), (32, 64), "float32")
    with pytest.raises(tc.LaunchError, match="executor"):
        kernel(GOOD, GOOD.copy(), executor=executor)


def test_a_prepared_launch_runs_with_what_the_arrays_hold_then() -> None:
    kernel = round_trip((64, 64), (32, 64), "bfloat16")
    a, b = np.zeros((64, 64), ml_dtypes.bfloat16), np.zeros((64, 64), ml_dtypes.bfloat16)
    launch = kernel.prepare(a, b, executor="emulator")
    for seed in range(2):
        a[...] = byte_arrays.random_array((64, 64), ml_dtypes.bfloat16, seed)
        assert launch().threads == 256
        assert byte_arrays.same_bytes(a, b)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
@pytest.mark.parametrize("seen", ["uint8", "packed"])
def test_a_param_of_less_than_a_byte_is_refused_with_the_one_that_runs(dtype: str, seen: str) -> None:
    """NVIDIA/cutlass#3111: the declaration that the message gives leads to a kernel that runs."""
    k = tc.KernelBuilder("k", threads=32)
    with pytest.raises(tc.RequestError, match=mentions("A", dtype, 4, (4, 8), "uint8")):
        k.param("A", (4, 16), dtype)
    a, b = k.param("A", (4, 8), "uint8"), k.param("B", (4, 8), "uint8")
    tile = k.shared((4, 8), "uint8") if seen == "uint8" else k.shared((4, 16), dtype, name="t").view(dtype="uint8")
    k.cta.copy(tile[:, :], a[:, :])
    k.cta_sync()
    k.cta.copy(b[:, :], tile[:, :])
    source, copied = byte_arrays.random_array((4, 8), "uint8"), np.zeros((4, 8), np.uint8)
    k.build(target="sm_90a", grid=1)(source, copied, executor="emulator")
    assert byte_arrays.same_bytes(source, copied)


def test_a_copy_that_begins_inside_a_byte_names_the_views_that_copy_bytes() -> None:
    """NVIDIA/cutlass#3111."""
    shape = (4, 16)
    a, t = (tc.Buffer(shape, "int4", space=space, name=name) for space, name in (("global", "A"), ("shared", "t")))
    how: dict[str, Any] = {"scope": tc.warp(), "target": "sm_80"}
    with pytest.raises(tc.NoVariantError, match=mentions("A.view(dtype='uint8')", "t.view(dtype='uint8')")):
        tc.plan(t[:, 1:9], a[:, 1:9], **how)
    assert tc.plan(t[:, :], a[:, :], **how).variant == "gmem_smem"
    assert tc.plan(t.view(dtype="uint8")[:, :], a.view(dtype="uint8")[:, :], **how).variant == "gmem_smem"


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("wrong", [np.uint8, np.uint16, np.float32, "V2"])
def test_a_dtype_that_numpy_lacks_names_the_package_that_has_it(name: str, wrong: Any) -> None:
    kernel = round_trip((64, 64), (32, 64), name)
    with pytest.raises(tc.LaunchError, match=mentions("A", f"ml_dtypes.{name}")):
        kernel(np.zeros((64, 64), wrong), np.zeros((64, 64), wrong), executor="emulator")


def test_a_host_array_that_numpy_cannot_view_names_ml_dtypes() -> None:
    class Unknown:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("no such dtype")

    with pytest.raises(tc.LaunchError, match=mentions("A", "ml_dtypes")):
        round_trip((64, 64), (32, 64), "bfloat16")(Unknown(), GOOD, executor="emulator")
