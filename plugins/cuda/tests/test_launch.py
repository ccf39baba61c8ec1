"""What the CUDA executor gives the driver and asks of it, on a stand-in (tilecopy_test_helpers.fake_driver): no GPU, no kernel runs."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import struct
import sys
import threading
import tracemalloc
import types
import weakref
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest
import tilecopy as tc
from tilecopy.executors import arguments
from tilecopy.kernel.computed_parameters import TensorMapParameter
from tilecopy_cuda.cuda import CudaExecutor
from tilecopy_cuda.device_array import DeviceArray
from tilecopy_test_helpers import host_bytes
from tilecopy_test_helpers.fake_driver import (
    CPU,
    CUDA0,
    CUDA1,
    FLOAT16,
    FLOAT32,
    META,
    FakeDriver,
    FakeTensor,
    TorchDType,
)
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip, two_columns

A0, B0 = 0x7F0000001000, 0x7F0000002000
STICKY = [700, 702, 710, 714, 715, 716, 717, 718, 719, 721]


@attrs.define
class Place:
    """Where a test's arrays are, which GPU is current, and whether the test itself uses the other GPU."""

    home: int
    current: int | None
    uses_both: bool = False


@pytest.fixture(
    autouse=True,
    params=[Place(0, 0), Place(1, 1), Place(1, 0), Place(1, None)],
    ids=["first", "second", "second-not-current", "second-none-current"],
)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Every test on the first GPU, and on the second with another context current or none: then the first stays untouched."""
    place, made = attrs.evolve(request.param), list[FakeDriver]()
    for name, value in (("home", place.home), ("begins", place.current), ("made", made)):
        monkeypatch.setattr(FakeDriver, name, value)
    monkeypatch.setattr(CUDA0, "index", place.home)
    monkeypatch.setattr(CUDA1, "index", 1 - place.home)
    yield place
    for fake in made if not place.uses_both else ():
        assert {*fake.retained, *(launched.gpu for launched in fake.launches)} <= {place.home}


WHERE_CURRENT = pytest.mark.parametrize("place", [Place(0, 0), Place(1, 1)], ids=["first", "second"], indirect=True)
"""For tests in which no array says a GPU, and of what a launch costs where the context is current."""


def scalars_kernel() -> tc.BuiltKernel:
    """Parameters of every width, out of the order in which they are stored."""
    k = tc.KernelBuilder("scalars", threads=32)
    n = k.scalar("n", lower=-100, upper=1000, multiple_of=2)
    a = k.param("A", (256, 64), "float16")
    k.scalar("m", "int64", lower=-(2**40), upper=2**40)
    b = k.param("B", (256, 64), "float16")
    with k.if_(n > 0):
        k.store(b[0, 0], k.load(a[0, 0]))
    return k.build(target="sm_90")


@pytest.fixture
def kernel() -> tc.BuiltKernel:
    return round_trip((256, 64), (128, 64), "float16", target="sm_90")


@pytest.fixture
def fake() -> FakeDriver:
    return FakeDriver(sizes=(8, 8))


@pytest.fixture
def cuda(fake: FakeDriver) -> CudaExecutor:
    return CudaExecutor(fake)


def test_the_bytes_of_every_parameter_reach_the_driver_in_order() -> None:
    fake = FakeDriver(sizes=(4, 8, 8, 8))
    cuda, kernel = CudaExecutor(fake), scalars_kernel()
    for n, m, a, b in ((-6, -(2**33) - 1, A0, B0), (6, 5, B0, A0), (-6, -(2**33) - 1, B0 + 16, A0)):
        cuda.launch(kernel, (n, FakeTensor(a), m, FakeTensor(b)), grid=(5, 2), stream=9)
        seen = fake.launches[-1]
        assert seen.numbers() == (n % 2**32, a, m % 2**64, b)
        assert (seen.grid, seen.block, seen.stream) == ((5, 2, 1), (32, 1, 1), 9)
    assert len(fake.launches) == 3


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_numbers_beside_any_number_of_arrays(count: int) -> None:
    k = tc.KernelBuilder("arrays", threads=32)
    first = k.scalar("n")
    arrays = [k.param(f"A{index}", (64,), "float32") for index in range(count)]
    k.scalar("m", "int64")
    with k.if_(first > 0):
        for array in arrays:
            k.store(array[0], k.load(arrays[0][1]))
    kernel, fake = k.build(target="sm_90", grid=1), FakeDriver(sizes=(4, *[8] * count, 8))
    cuda, flat = CudaExecutor(fake), {"shape": (64,), "strides": (1,), "dtype": FLOAT32}
    addresses = tuple(A0 + (index << 20) for index in range(count))
    tensors = [FakeTensor(address, **flat) for address in addresses]
    cuda.launch(kernel, (7, *tensors, 2**40 + 3))
    cuda.launch_by_address(kernel, (7, *tensors, 2**40 + 3))(addresses)
    cuda.prepare(kernel, (7, *tensors, 2**40 + 3))()
    assert [launched.numbers() for launched in fake.launches] == [(7, *addresses, 2**40 + 3)] * 3


@pytest.mark.parametrize(("rows", "shared"), [(128, 0), (512, 512 * 64 * 2)])
def test_dynamic_shared_memory_is_asked_of_the_driver(rows: int, shared: int) -> None:
    """Up to 48 KiB the module declares it itself."""
    kernel, fake = round_trip((512, 64), (rows, 64), "float16", target="sm_90"), FakeDriver(sizes=(8, 8))
    CudaExecutor(fake).launch(kernel, (FakeTensor(A0, (512, 64)), FakeTensor(B0, (512, 64))))
    assert [launched.shared_bytes for launched in fake.launches] == [shared]
    assert fake.calls["cuFuncSetAttribute"] == (shared > 0)


@WHERE_CURRENT
def test_a_kernel_may_have_no_parameters_or_numbers_alone() -> None:
    for count, sizes in ((0, ()), (1, (8,)), (3, (8, 8, 8))):
        k = tc.KernelBuilder("few", threads=32)
        for index in range(count):
            k.scalar(f"n{index}", "int64")
        kernel, fake = k.build(target="sm_90", grid=3), FakeDriver(sizes=sizes)
        cuda, numbers = CudaExecutor(fake), tuple(2**40 * index for index in range(count))
        for _ in range(2):
            cuda.launch(kernel, numbers)
        cuda.prepare(kernel, numbers)()
        assert [launched.numbers() for launched in fake.launches] == [numbers] * 3


@WHERE_CURRENT
def test_a_launch_like_an_earlier_one_is_one_call_of_the_driver(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor
) -> None:
    cuda.launch(kernel, (FakeTensor(A0), FakeTensor(B0)))
    before = fake.calls.copy()
    for turn in range(1, 6):
        cuda.launch(kernel, (FakeTensor(A0 + 16 * turn), FakeTensor(B0 + 32 * turn)))
        assert fake.launches[-1].numbers() == (A0 + 16 * turn, B0 + 32 * turn)
    assert fake.calls - before == {"cuLaunchKernel": 5}


@WHERE_CURRENT
def test_launches_that_take_turns_keep_their_own_numbers() -> None:
    k = tc.KernelBuilder("one_number", threads=32)
    k.scalar("n", "int64")
    kernel, fake = k.build(target="sm_90", grid=1), FakeDriver(sizes=(8,))
    cuda, numbers = CudaExecutor(fake), [3, 5, 3, 3, 5, 7, 3, 7, 5]
    for number in numbers:
        cuda.launch(kernel, (number,))
    assert [launched.numbers() for launched in fake.launches] == [(number,) for number in numbers]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (FakeTensor(A0 + 8), ("A", "0x7f0000001008", 16)),
        (FakeTensor(A0, shape=(128, 64)), ("A", "shape", 128, 64, 256)),
        (FakeTensor(A0, strides=(128, 1)), ("A", 128, 64)),
        (FakeTensor(A0, strides=(-64, 1)), ("A", 64)),
        (FakeTensor(A0, dtype=FLOAT32), ("A", "dtype", "float32", "float16")),
        (FakeTensor(A0, device=META), ("A",)),
        (FakeTensor(A0, negated=True), ("a.resolve_neg",)),
        (None, ("A",)),
        (7, ("A",)),
    ],
)
def test_what_was_remembered_is_still_checked(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, bad: Any, message: tuple[object, ...]
) -> None:
    for _ in range(2):
        cuda.launch(kernel, (FakeTensor(A0), FakeTensor(B0)))
    with pytest.raises(tc.LaunchError, match=mentions(*message)):
        cuda.launch(kernel, (bad, FakeTensor(B0)))
    with pytest.raises(tc.LaunchError, match=mentions(*message)):
        cuda.prepare(kernel, (bad, FakeTensor(B0)))
    assert len(fake.launches) == 2
    cuda.launch(kernel, (FakeTensor(A0), FakeTensor(B0)))
    assert len(fake.launches) == 3


def test_a_conjugated_view_is_refused_after_a_plain_tensor() -> None:
    """Tensors of complex elements alone can be conjugated views."""
    k = tc.KernelBuilder("complex", threads=32)
    source, result = k.param("A", (32,), "complex64"), k.param("B", (32,), "complex64")
    tile = k.shared((32,), "complex64", name="tile")
    k.cta.copy(tile[:], source[:])
    k.cta_sync()
    k.cta.copy(result[:], tile[:])
    kernel, fake = k.build(target="sm_90", grid=1), FakeDriver(sizes=(8, 8))
    cuda, plain = CudaExecutor(fake), {"shape": (32,), "strides": (1,), "dtype": TorchDType("complex64")}
    arguments = FakeTensor(A0, **plain), FakeTensor(B0, **plain)
    for _ in range(2):
        cuda.launch(kernel, arguments)
    with pytest.raises(tc.LaunchError, match=mentions("a.resolve_conj")):
        cuda.launch(kernel, (FakeTensor(A0, conjugated=True, **plain), arguments[1]))
    assert len(fake.launches) == 2


@attrs.define(eq=False)
class StoredTensor(FakeTensor):
    """A tensor of torch with a storage of so many bytes, at an offset in it."""

    storage_bytes: int = 256 * 64 * 2
    offset: int = 0

    def untyped_storage(self) -> Any:
        return types.SimpleNamespace(nbytes=lambda: self.storage_bytes)

    def storage_offset(self) -> int:
        return self.offset

    def element_size(self) -> int:
        return 2


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("place_of_bad", [0, 1])
@pytest.mark.parametrize(
    "bad",
    [
        FakeTensor(0),
        StoredTensor(0, storage_bytes=0),
        StoredTensor(64 * 2, storage_bytes=0, offset=64),  # torch's address of a view of a freed storage
        StoredTensor(256 * 64 * 2, storage_bytes=0, offset=256 * 64),
    ],
    ids=["no memory", "freed", "view of freed", "second half of freed"],
)
def test_an_array_without_memory_is_refused_on_every_path(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, bad: FakeTensor, place_of_bad: int, captured: bool
) -> None:
    """PyTorch #195862 and #196019: FSDP frees the storage of a tensor between its uses, and the tensor keeps its shape."""
    name = "AB"[place_of_bad]
    arguments: list[Any] = [StoredTensor(A0), StoredTensor(B0)]
    if type(bad) is FakeTensor:
        arguments = [FakeTensor(A0), FakeTensor(B0)]
    without_memory = [*arguments]
    without_memory[place_of_bad] = bad
    for use in (cuda.launch, cuda.prepare, cuda.launch_by_address):
        with pytest.raises(tc.LaunchError, match=mentions(name, 256, 64)):
            use(kernel, without_memory)
    assert not fake.launches
    cuda.launch(kernel, arguments)
    fake.capturing = int(captured)
    for _ in range(2):  # the launch is remembered
        with pytest.raises(tc.LaunchError, match=mentions(name)):
            cuda.launch(kernel, without_memory, stream=9)
        cuda.launch(kernel, arguments, stream=9)
    assert len(fake.launches) == 3


def test_a_storage_that_is_too_small_is_refused(kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor) -> None:
    for storage_bytes, offset in ((256 * 64 * 2 - 1, 0), (256 * 64 * 2, 64), (8, 0)):
        with pytest.raises(tc.LaunchError, match=mentions("A", storage_bytes)):
            cuda.launch(kernel, (StoredTensor(A0, storage_bytes=storage_bytes, offset=offset), StoredTensor(B0)))
    assert not fake.launches
    cuda.launch(kernel, (StoredTensor(A0 + 128, storage_bytes=257 * 64 * 2, offset=64), StoredTensor(B0)))
    assert len(fake.launches) == 1


def test_a_launcher_refuses_address_0_but_of_empty_arrays() -> None:
    k = tc.KernelBuilder("maybe", threads=32)
    n = k.size("n", lower=0)
    a, b = k.param("A", (n,), "float32"), k.param("B", (32,), "float32")
    t = k.thread_id()
    with k.if_(t < n):
        k.store(b[t], k.load(a[t]))
    kernel, fake = k.build(target="sm_90", grid=1), FakeDriver(sizes=(8, 8, 4))
    flat = {"strides": (1,), "dtype": FLOAT32}
    full, rows = FakeTensor(B0, (32,), **flat), FakeTensor(A0, (32,), **flat)
    launch = CudaExecutor(fake).launch_by_address(kernel, (rows, full))
    for addresses in ((0, B0), (A0, 0)):
        with pytest.raises(tc.LaunchError, match=mentions(addresses.index(0))):
            launch(addresses)
    assert not fake.launches
    CudaExecutor(fake).launch_by_address(kernel, (FakeTensor(0, (0,), **flat), full))((0, B0))
    assert len(fake.launches) == 1


def test_the_number_of_arguments_and_scalars_are_checked_every_time() -> None:
    fake = FakeDriver(sizes=(4, 8, 8, 8))
    cuda, kernel, a, b = CudaExecutor(fake), scalars_kernel(), FakeTensor(A0), FakeTensor(B0)
    cuda.launch(kernel, (2, a, 1, b), grid=1)
    for bad, message in (
        ((2, a, 1), (4, "arguments")),
        ((2, a, 1, b, b), (4, "arguments")),
        ((3, a, 1, b), (3,)),
        ((1002, a, 1, b), (1002, 100, 1000)),
        ((2, a, True, b), ("m", "True")),
        ((2.0, a, 1, b), ("n", "2.0")),
        ((2, 1, a, b), ("A",)),
    ):
        with pytest.raises(tc.LaunchError, match=mentions(*message)):
            cuda.launch(kernel, bad, grid=1)
    with pytest.raises(tc.LaunchError, match=mentions("grid")):
        cuda.launch(kernel, (2, a, 1, b))
    for grid in (True, 1.0, (1.0,), [True], (1, None), "1", [[1]], np.array([1, 1])):
        with pytest.raises(tc.LaunchError, match=mentions("grid")):
            cuda.launch(kernel, (2, a, 1, b), grid=grid)
    assert len(fake.launches) == 1
    for grid in (1, (1,), [1], np.int64(1), (np.int64(1), 1)) * 2:
        cuda.launch(kernel, (2, a, np.int64(1), b), grid=grid)
        cuda.launch(kernel, (2, a, 1, b), grid=grid)
    assert {launched.grid for launched in fake.launches} == {(1, 1, 1)} and len(fake.launches) == 21


def test_each_array_has_its_own_alignment() -> None:
    k = tc.KernelBuilder("aligned", threads=32)
    a, b = k.param("A", (64,), "float32", align_bytes=4), k.param("B", (64,), "float32", align_bytes=64)
    k.store(b[0], k.load(a[0]))
    kernel, fake = k.build(target="sm_90", grid=1), FakeDriver(sizes=(8, 8))
    cuda, flat = CudaExecutor(fake), {"shape": (64,), "strides": (1,), "dtype": FLOAT32}
    for _ in range(2):
        cuda.launch(kernel, (FakeTensor(A0 + 4, **flat), FakeTensor(B0, **flat)))
        with pytest.raises(tc.LaunchError, match=mentions("B")):
            cuda.launch(kernel, (FakeTensor(A0, **flat), FakeTensor(B0 + 16, **flat)))
    assert len(fake.launches) == 2


def test_threads_do_not_mix_their_arguments(kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor) -> None:
    def work(thread: int) -> None:
        for turn in range(50):
            address = (thread << 32) + 64 * turn
            cuda.launch(kernel, (FakeTensor(address), FakeTensor(address + 16)))

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(1, 9)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seen = {launched.numbers() for launched in fake.launches}
    assert seen == {((t << 32) + 64 * i, (t << 32) + 64 * i + 16) for t in range(1, 9) for i in range(50)}
    assert len(fake.launches) == 400 and fake.calls["cuModuleLoadDataEx"] == 1


def test_threads_share_a_launcher_by_address(kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor) -> None:
    launch, failed = cuda.launch_by_address(kernel, (FakeTensor(A0), FakeTensor(B0))), []

    def work(thread: int) -> None:
        try:
            for turn in range(400):
                address = (thread << 32) + 64 * turn
                launch((address, address + 16), thread)
        except Exception as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work, args=(thread,)) for thread in range(1, 9)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed
    seen = {(launched.stream, *launched.numbers()) for launched in fake.launches}
    assert seen == {(t, (t << 32) + 64 * i, (t << 32) + 64 * i + 16) for t in range(1, 9) for i in range(400)}


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ((A0,), ("addresses",)),
        ((A0, B0, A0), ("addresses",)),
        (A0, ("addresses",)),
        ({A0, B0}, ("addresses",)),
        ((A0, float(B0)), ("addresses", 64)),
        ((A0, True), ("addresses", 64)),
        ((A0, -16), ("addresses", 64)),
        ((A0, 1 << 64), ("addresses", 64, 18446744073709551616)),
        ((A0 + 4, B0), ("0x7f0000001004", 64)),
        ((A0, B0 + 1), ("0x7f0000002001", 8)),
        ((A0, B0 + 4), (8,)),
        ((A0 + 32, B0), (64,)),
    ],
)
def test_a_launcher_refuses_what_is_no_address(addresses: Any, message: tuple[object, ...]) -> None:
    k = tc.KernelBuilder("aligned", threads=32)
    a, b = k.param("A", (64,), "float32", align_bytes=64), k.param("B", (64,), "float32", align_bytes=8)
    k.store(b[0], k.load(a[0]))
    fake, flat = FakeDriver(sizes=(8, 8)), {"shape": (64,), "strides": (1,), "dtype": FLOAT32}
    arrays = (FakeTensor(A0, **flat), FakeTensor(B0, **flat))
    launch = CudaExecutor(fake).launch_by_address(k.build(target="sm_90", grid=1), arrays)
    with pytest.raises(tc.LaunchError, match=mentions("aligned", *message)):
        launch(addresses)
    assert not fake.launches
    for good in ((A0, B0 + 8), [A0 + 64, B0]):
        launch(good)
    assert [launched.numbers() for launched in fake.launches] == [(A0, B0 + 8), (A0 + 64, B0)]


def test_a_launcher_takes_the_streams_of_a_launch(kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor) -> None:
    launch = cuda.launch_by_address(kernel, (FakeTensor(A0), FakeTensor(B0)))
    launch((A0, B0), 1)
    with pytest.raises(tc.LaunchError, match=mentions("True")):
        launch((A0, B0), True)
    assert len(fake.launches) == 1


@WHERE_CURRENT
def test_a_prepared_launch_is_one_call_and_keeps_its_arguments(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor
) -> None:
    a, b = FakeTensor(A0), FakeTensor(B0)
    launch, alive = cuda.prepare(kernel, (a, b), stream=5), weakref.ref(a)
    default = cuda.prepare(kernel, (a, b))
    assert not fake.launches
    del a
    before = fake.calls.copy()
    for _ in range(3):
        default()
    assert fake.calls - before == {"cuLaunchKernel": 3} and alive() is not None
    fake.launches.clear()
    before = fake.calls.copy()
    for _ in range(3):
        launch()
    assert fake.calls - before == {"cuLaunchKernel": 3, "cuStreamIsCapturing": 3}  # a graph would hold the kernel
    cuda.launch(kernel, (FakeTensor(A0 + 64), b))
    launch()
    assert [x.numbers()[0] for x in fake.launches] == [A0, A0, A0, A0 + 64, A0] and fake.launches[-1].stream == 5


@WHERE_CURRENT
def test_a_prepared_launch_of_host_arrays_copies_them_each_time(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor
) -> None:
    launch = cuda.prepare(kernel, (np.zeros((256, 64), np.float16), np.zeros((256, 64), np.float16)))
    for _ in range(2):
        launch()
    assert fake.calls["cuMemcpyHtoDAsync"] == 4 and fake.calls["cuMemcpyDtoHAsync"] == 2
    assert fake.calls["cuMemAlloc"] == fake.calls["cuMemFree"] == 4


@WHERE_CURRENT
def test_host_memory_goes_through_the_device_and_back(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor
) -> None:
    a, b = np.arange(256 * 64, dtype=np.float16).reshape(256, 64), np.ones((256, 64), np.float16)
    cuda.launch(kernel, (a, FakeTensor(b.ctypes.data, device=CPU, dtype=FLOAT16)))
    cuda.launch(kernel, (a, FakeTensor(B0)))
    assert (b == 1).all() and fake.launches[1].numbers()[1] == B0
    assert fake.calls["cuMemAlloc"] == fake.calls["cuMemFree"] == 3
    fake.fail["cuLaunchKernel"] = 1
    with pytest.raises(tc.LaunchError, match=mentions("round_trip", "CUDA_ERROR_INVALID_VALUE")):
        cuda.launch(kernel, (a, b))
    assert fake.calls["cuMemAlloc"] == fake.calls["cuMemFree"] == 5 and not fake.pushed


@WHERE_CURRENT
def test_arguments_that_share_host_memory_share_it_on_the_device() -> None:
    kernel, fake = two_columns("sm_90"), FakeDriver(sizes=(8, 8))
    both = np.zeros((8, 64), np.int32)
    CudaExecutor(fake).launch(kernel, (both[:, :32], both[:, 32:]))
    left, right = fake.launches[0].numbers()
    assert right - left == 128 and fake.calls["cuMemcpyDtoHAsync"] == 2 and fake.allocated == [both.nbytes]
    apart = np.zeros(2 * 8 * 64 + 4, np.int32)[1:].view()
    first, second = (apart[at : at + 512].reshape(8, 64)[:, :32] for at in (0, 513))  # they do not overlap
    CudaExecutor(fake).launch(kernel, (first, second))
    assert fake.calls["cuMemAlloc"] == 3
    with pytest.raises(tc.LaunchError, match=mentions("L", "R", 4)):
        CudaExecutor(fake).launch(kernel, (apart[:512].reshape(8, 64)[:, :32], apart[1:513].reshape(8, 64)[:, :32]))
    assert fake.calls["cuMemAlloc"] == fake.calls["cuMemFree"]


@WHERE_CURRENT
def test_what_is_only_read_may_overlap_and_keeps_a_copy_of_its_own() -> None:
    k = tc.KernelBuilder("sums", threads=32)
    a, b, out = (k.param(name, (32,), "float32") for name in "ABO")
    t = k.thread_id()
    k.store(out[t], k.load(a[t]) + k.load(b[t]))
    kernel, fake = k.build(target="sm_90", grid=1), FakeDriver(sizes=(8, 8, 8))
    memory, result = np.arange(33, dtype=np.float32), np.zeros(32, np.float32)
    CudaExecutor(fake).launch(kernel, (memory[:-1], memory[1:], result))  # 4 bytes apart, which one copy could not have
    assert fake.allocated == [128, 128, 128] and fake.calls["cuMemcpyDtoHAsync"] == 1
    whole = np.arange(96, dtype=np.float32)
    CudaExecutor(fake).launch(kernel, (whole[:32], whole[32:64], whole[32:64]))  # what is written is in what is read
    _, second, third = fake.launches[1].numbers()
    assert second == third and fake.allocated[3:] == [128, 128] and fake.calls["cuMemcpyDtoHAsync"] == 2


# ------------------------------------------------------------------------------------------- contexts and their end


def test_a_launch_from_a_thread_without_the_context_is_made_in_it(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor
) -> None:
    arguments = (FakeTensor(A0), FakeTensor(B0))
    launch = cuda.prepare(kernel, arguments)
    fake.current = None
    cuda.launch(kernel, arguments)
    launch()
    assert len(fake.launches) == 2 and not fake.pushed


@pytest.mark.parametrize("code", STICKY)
def test_an_error_that_ends_the_context_says_so_and_so_does_everything_later(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, code: int
) -> None:
    arguments = (FakeTensor(A0), FakeTensor(B0))
    launch = cuda.prepare(kernel, arguments)
    cuda.launch(kernel, arguments)
    fake.fail = {"cuLaunchKernel": code, "cuModuleLoadDataEx": code, "cuCtxPushCurrent": code}
    with pytest.raises(tc.LaunchError, match=mentions(code)):
        cuda.launch(kernel, arguments)
    other = attrs.evolve(kernel, name="other")
    host = np.zeros((256, 64), np.float16)
    for attempt in (
        lambda: cuda.launch(kernel, arguments),
        launch,
        lambda: cuda.launch(other, arguments),
        lambda: cuda.launch(other, (host, host)),
        lambda: cuda.prepare(other, arguments),
    ):
        with pytest.raises(tc.LaunchError, match=rf"CUDA_ERROR\w+ \({code}\)"):
            attempt()
    with pytest.raises(tc.LaunchError, match="CUDA_ERROR"):
        DeviceArray((4,), "float32", executor=cuda)


@WHERE_CURRENT
@pytest.mark.parametrize("call", ["cuModuleLoadDataEx", "cuStreamSynchronize", "cuMemAlloc", "cuCtxPushCurrent"])
def test_an_end_that_another_call_reports_is_no_fault_of_the_ptx(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, call: str
) -> None:
    host = np.zeros((256, 64), np.float16)
    fake.fail[call] = 719
    with pytest.raises(tc.LaunchError, match=mentions("CUDA_ERROR_LAUNCH_FAILED")):
        cuda.launch(kernel, (host, host))
    fake.fail.clear()
    with pytest.raises(tc.LaunchError, match=mentions("CUDA_ERROR_LAUNCH_FAILED", 719)):
        cuda.launch(kernel, (host, host))


def test_other_errors_end_nothing(kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor) -> None:
    arguments = (FakeTensor(A0), FakeTensor(B0))
    fake.fail["cuModuleLoadDataEx"] = 218
    with pytest.raises(tc.LaunchError, match=mentions("round_trip", "CUDA_ERROR_INVALID_PTX")):
        cuda.launch(kernel, arguments)
    fake.fail = {"cuLaunchKernel": 701}
    with pytest.raises(tc.LaunchError, match=mentions("round_trip", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", 701)):
        cuda.launch(kernel, arguments)
    clusters = attrs.evolve(kernel, cluster=(1, 2, 1))
    for code in (1, 912):
        fake.fail = {"cuLaunchKernel": code}
        with pytest.raises(tc.LaunchError, match=mentions(code, fake.home)):
            cuda.launch(clusters, arguments)
    fake.fail = {"cuLaunchKernel": 400}
    with pytest.raises(tc.LaunchError, match=mentions("stream", fake.home)):
        cuda.launch(kernel, arguments)
    fake.fail = {"cuLaunchKernel": 906}
    with pytest.raises(tc.LaunchError, match=mentions("stream")):
        cuda.launch(kernel, arguments)
    fake.fail.clear()
    cuda.launch(kernel, arguments)
    assert len(fake.launches) == 1


def test_capture_into_a_graph(kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor) -> None:
    fake.capturing = 1
    cuda.launch(kernel, (FakeTensor(A0), FakeTensor(B0)), stream=7)
    assert fake.modes == ["RELAXED", "GLOBAL"] and fake.calls["cuStreamSynchronize"] == 0
    with pytest.raises(tc.LaunchError, match=mentions("A")):
        cuda.launch(kernel, (np.zeros((256, 64), np.float16), FakeTensor(B0)), stream=7)
    assert len(fake.launches) == 1 and fake.calls["cuMemAlloc"] == 0


# ----------------------------------------------------------------------------------------------------- streams


class TorchStream:
    cuda_stream = 0x10


class CupyStream:
    ptr = 0x11


class CudaCoreStream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 0x12


class OldProtocolStream:
    __cuda_stream__ = (0, 0x13)


class BrokenStream:
    @property
    def cuda_stream(self) -> int:
        raise ValueError("closed")


@pytest.mark.parametrize(
    ("stream", "number"),
    [
        (None, 0),
        (0, 0),
        (0x77, 0x77),
        (np.int64(3), 3),
        (TorchStream(), 0x10),
        (CupyStream(), 0x11),
        (CudaCoreStream(), 0x12),
        (OldProtocolStream(), 0x13),
    ],
)
def test_streams_of_every_framework(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, stream: Any, number: int
) -> None:
    for _ in range(2):
        cuda.launch(kernel, (FakeTensor(A0), FakeTensor(B0)), stream=stream)
    assert [launched.stream for launched in fake.launches] == [number, number]


class Torch:
    """A stand-in for torch that has a current stream for each GPU."""

    def __init__(self, *streams: int) -> None:
        self._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: self.streams[device == CUDA1.index])
        self.streams = list(streams)


class OldTorch:
    """One without the reader of the number."""

    _C = None

    def __init__(self, *streams: int) -> None:
        current = lambda device: types.SimpleNamespace(cuda_stream=self.streams[device == CUDA1.index])  # noqa: E731
        self.cuda, self.streams = types.SimpleNamespace(current_stream=current), list(streams)


class TorchTensor(FakeTensor):
    __module__ = "torch"


class Cupy:
    def __init__(self, *streams: int) -> None:
        current = lambda device: types.SimpleNamespace(ptr=self.streams[device == CUDA1.index])  # noqa: E731
        self.cuda, self.streams = types.SimpleNamespace(get_current_stream=current), list(streams)


@pytest.mark.parametrize("kind", [Torch, OldTorch])
def test_a_launch_takes_the_current_stream_of_torch(
    kernel: tc.BuiltKernel,
    fake: FakeDriver,
    cuda: CudaExecutor,
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    place: Place,
) -> None:
    place.uses_both, torch = True, kind(0x20, 0x10030)
    monkeypatch.setitem(sys.modules, "torch", torch)
    a, b = TorchTensor(A0), TorchTensor(B0)
    there = TorchTensor(A0 + (1 << 48), device=CUDA1), TorchTensor(B0 + (1 << 48), device=CUDA1)
    for _ in range(2):  # checked, and remembered
        cuda.launch(kernel, (a, b))
        cuda.launch(kernel, there)
    prepared, launcher = cuda.prepare(kernel, (a, b)), cuda.launch_by_address(kernel, (a, b))
    torch.streams[0] = 0x40
    cuda.launch(kernel, (a, b))
    prepared()
    launcher((A0, B0))
    launcher((A0, B0), 0x50)
    cuda.launch(kernel, (a, b), stream=0)
    cuda.prepare(kernel, (a, b), stream=0x50)()
    cuda.launch(kernel, (a, np.zeros((256, 64), np.float16)))  # host memory goes there and back on that stream too
    streams = [launched.stream for launched in fake.launches]
    assert streams == [0x20, 0x10030, 0x20, 0x10030, 0x40, 0x40, 0x40, 0x50, 0, 0x50, 0x40]


def test_two_frameworks_need_one_stream(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch, cupy = Torch(0), Cupy(0)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    arguments = TorchTensor(A0), CupyInterface()
    cuda.launch(kernel, arguments)
    torch.streams[0] = 0x20
    with pytest.raises(tc.LaunchError, match=mentions("A", "0x20", "B", "0x0", "stream")):
        cuda.launch(kernel, arguments)
    cuda.launch(kernel, arguments, stream=7)
    cupy.streams[0] = 0x20
    cuda.launch(kernel, arguments)
    assert [launched.stream for launched in fake.launches] == [0, 7, 0x20]


@pytest.mark.parametrize(("stream", "number"), [(None, 0), (1, 0), (2, 2), (0x60, 0x60)])
def test_the_stream_of_the_cuda_array_interface(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, stream: Any, number: int
) -> None:
    cuda.launch(kernel, (Interface(stream=stream), Interface()))
    cuda.launch(kernel, (Interface(stream=stream), Interface()), stream=7)
    assert [launched.stream for launched in fake.launches] == [number, 7]
    with pytest.raises(tc.LaunchError, match=mentions("stream")):
        cuda.launch(kernel, (Interface(stream=3), Interface(stream=4)))


@pytest.mark.parametrize("stream", [0, -1, 2**64, "legacy"])
def test_what_is_no_stream_of_the_cuda_array_interface(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, stream: Any
) -> None:
    with pytest.raises(tc.LaunchError, match=mentions("A", "__cuda_array_interface__")):
        cuda.launch(kernel, (Interface(stream=stream), Interface()))
    assert not fake.launches


@pytest.mark.parametrize("stream", [True, -1, 2**64, 1.5, "0", [], object(), BrokenStream()])
def test_what_is_no_stream(kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, stream: Any) -> None:
    with pytest.raises(tc.LaunchError, match="^stream "):
        cuda.launch(kernel, (FakeTensor(A0), FakeTensor(B0)), stream=stream)
    assert not fake.launches


# -------------------------------------------------------------------------------------- arrays by their protocols


class Interface:
    """An array by the CUDA array interface alone."""

    def __init__(self, **more: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (256, 64),
            "strides": None,
            "typestr": "<f2",
            "data": (4096, False),
            "version": 3,
        } | more


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"typestr": ">f2"}, ("A", "f2")),
        ({"mask": object()}, ("mask",)),
        ({"strides": (129, 2)}, (129,)),
        ({"strides": (256, 2)}, (128,)),
        ({"typestr": "nonsense"}, ("A", "__cuda_array_interface__")),
        ({"shape": None}, ("A", "__cuda_array_interface__")),
        ({"data": None}, ("A", "__cuda_array_interface__")),
        ({"typestr": "|V2"}, ("float16",)),
    ],
)
def test_the_cuda_array_interface_is_checked(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, more: dict[str, Any], message: tuple[object, ...]
) -> None:
    good = Interface()
    with pytest.raises(tc.LaunchError, match=mentions(*message)):
        cuda.launch(kernel, (Interface(**more), good))
    assert not fake.launches
    with pytest.raises(tc.LaunchError, match=mentions("B")):
        cuda.launch(kernel, (good, Interface(data=(4096, True))))
    cuda.launch(kernel, (Interface(data=(4096, True)), good))
    assert len(fake.launches) == 1


class CupyInterface(Interface):
    __module__ = "cupy"


@pytest.mark.parametrize("prepared", [False, True])
def test_an_address_says_its_gpu(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, place: Place, prepared: bool
) -> None:
    """Although cuda-bindings' cuPointerGetAttribute says GPU 0 for all memory."""
    there, place.uses_both = Interface(data=((1 << 48) + 4096, False)), True
    cuda.prepare(kernel, (there, there))() if prepared else cuda.launch(kernel, (there, there))
    assert [launched.gpu for launched in fake.launches] == [CUDA1.index] == fake.retained


def test_an_empty_array_lies_on_no_gpu(place: Place) -> None:
    fake, place.uses_both = FakeDriver(sizes=(8, 8, 4)), True
    k = tc.KernelBuilder("empty", threads=32)
    n = k.size("n", lower=0)
    a, b = k.param("A", (n,), "float32"), k.param("B", (32,), "float32")
    t = k.thread_id()
    with k.if_(t < n):
        k.store(b[t], k.load(a[t]))
    kernel = k.build(target="sm_90", grid=1)
    nowhere = Interface(data=(0, False), shape=(0,), typestr="<f4")
    there = Interface(data=((1 << 48) + 4096, False), shape=(32,), typestr="<f4")
    CudaExecutor(fake).launch(kernel, (nowhere, there))
    assert len(fake.launches) == 1 and fake.retained == [CUDA1.index]


@pytest.mark.parametrize(("code", "pointer"), [(1, 4096), (0, (0xFFFF << 48) + 4096)])
def test_an_address_of_no_gpu(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, code: int, pointer: int
) -> None:
    fake.fail["cuPointerGetAttribute"] = code
    array = Interface(data=(pointer, False))
    with pytest.raises(tc.LaunchError, match=mentions(hex(pointer), "CUDA_ERROR_INVALID_VALUE")):
        cuda.launch(kernel, (array, array))


class Device:
    """An array by DLPack alone, on a device of some type."""

    def __init__(self, type: int) -> None:
        self._type = type

    def __dlpack__(self, **_: Any) -> Any:
        pytest.fail("nobody looks into memory of another kind")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._type, 0


@pytest.mark.parametrize("type", [3, 4, 10, 14])
def test_memory_that_no_cuda_device_addresses_is_refused(kernel: tc.BuiltKernel, cuda: CudaExecutor, type: int) -> None:
    with pytest.raises(tc.LaunchError, match=mentions("A", type)):
        cuda.launch(kernel, (Device(type), FakeTensor(B0)))


# ---------------------------------------------------------------------------------------- copies of a kernel


def test_a_copied_or_pickled_kernel_carries_no_handles(fake: FakeDriver, cuda: CudaExecutor) -> None:
    k = tc.KernelBuilder("plain", threads=32)
    a, b = k.param("A", (256, 64), "float16"), k.param("B", (256, 64), "float16")
    k.store(b[0, 0], k.load(a[0, 0]))
    kernel = k.build(target="sm_90", grid=1)
    cuda.launch(kernel, (FakeTensor(A0), FakeTensor(B0)))
    assert kernel._caches.states
    for twin in (copy.copy(kernel), copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert not twin._caches.states and twin.ptx == kernel.ptx and twin.parameters == kernel.parameters
        cuda.launch(twin, (FakeTensor(A0), FakeTensor(B0)))
    assert len(fake.launches) == 4 and fake.calls["cuModuleLoadDataEx"] == 1


# ------------------------------------------------------------------------------- modules that nothing can launch


def loads_of_rows(rows: int) -> tc.BuiltKernel:
    k = tc.KernelBuilder("rows", threads=32)
    a, b = k.param("A", (rows, 64), "float16"), k.param("B", (rows, 64), "float16")
    k.store(b[rows - 1, 0], k.load(a[rows - 1, 0]))
    return k.build(target="sm_90", grid=1)


def arrays_of_rows(rows: int) -> tuple[FakeTensor, FakeTensor]:
    return FakeTensor(A0, shape=(rows, 64)), FakeTensor(B0, shape=(rows, 64))


@WHERE_CURRENT
def test_a_service_of_many_kernels_holds_few_modules_and_flat_memory(fake: FakeDriver, cuda: CudaExecutor) -> None:
    held = []
    for rows in range(1, 701):
        kernel = loads_of_rows(rows)
        cuda.launch(kernel, arrays_of_rows(rows))
        cuda.prepare(kernel, arrays_of_rows(rows), stream=5)()
        fake.images.clear()
        fake.launches.clear()
        fake.modes.clear()
        if rows == 400:
            tracemalloc.start()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
        assert len(fake.loaded) <= 100
    gc.collect()
    held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert held[1] - held[0] < 300 * 1000  # under 1 kB a kernel
    del kernel
    cuda.unload_unused()
    assert not fake.loaded and fake.calls["cuModuleUnload"] == 700


@pytest.mark.parametrize("keep", ["kernel", "twin", "prepared", "launcher"])
def test_what_can_launch_a_kernel_keeps_its_module(fake: FakeDriver, cuda: CudaExecutor, keep: str) -> None:
    kernel = loads_of_rows(9)
    cuda.launch(kernel, arrays_of_rows(9))
    holders: dict[str, Any] = {
        "kernel": kernel,
        "twin": pickle.loads(pickle.dumps(kernel)),
        "prepared": cuda.prepare(kernel, arrays_of_rows(9)),
        "launcher": cuda.launch_by_address(kernel, arrays_of_rows(9)),
    }
    cuda.launch(holders["twin"], arrays_of_rows(9))
    held = holders[keep]
    del kernel, holders
    cuda.unload_unused()
    assert len(fake.loaded) == 1
    if keep == "prepared":
        held()
    elif keep == "launcher":
        held((A0, B0))
    else:
        cuda.launch(held, arrays_of_rows(9))
    assert len(fake.launches) == 3 and fake.calls["cuModuleLoadDataEx"] == 1
    del held
    cuda.unload_unused()
    assert not fake.loaded


@WHERE_CURRENT
def test_a_kernel_that_is_launched_on_host_arrays_stays_loaded(fake: FakeDriver, cuda: CudaExecutor) -> None:
    kernel, arrays = loads_of_rows(9), (np.zeros((9, 64), np.float16), np.zeros((9, 64), np.float16))
    for _ in range(2):
        cuda.launch(kernel, arrays)
        cuda.unload_unused()
    assert len(fake.loaded) == 1 and fake.calls["cuModuleLoadDataEx"] == 1


def test_host_arrays_in_a_capture_are_refused_before_memory_is_allocated(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CuPy #4567: an allocation invalidates the capture of another stream, whatever is raised after it."""
    arrays = [np.zeros((256, 64), np.float16) for _ in range(2)]
    stream = types.SimpleNamespace(ptr=7, is_capturing=lambda: True)
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(get_current_stream=lambda device=0: stream))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(tc.LaunchError, match="captured"):
        cuda.launch(kernel, arrays, device=fake.home)
    assert not fake.calls["cuMemAlloc"] and not fake.launches
    stream.is_capturing = lambda: False
    cuda.launch(kernel, arrays, device=fake.home)
    assert fake.calls["cuMemAlloc"] == 2


class Float8:
    """An array of float8 on a GPU that says what it is by DLPack alone."""

    def __init__(self, code: int) -> None:
        tensor = struct.pack("QiiiBBHQQQ", A0, 2, 0, 1, code, 8, 1, 0, 0, 0)
        self.memory = ctypes.create_string_buffer(tensor)

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.memory), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class JaxFloat8(Float8):
    """JAX takes the stream of an export for a handle, and -1 for an invalid one."""

    __module__ = "jaxlib"

    def is_deleted(self) -> bool:
        return False

    def block_until_ready(self) -> None: ...

    def __dlpack__(self, stream: int | None = None, **_: Any) -> Any:
        if stream == -1:
            raise RuntimeError("invalid resource handle")
        return super().__dlpack__()


@pytest.mark.parametrize("kind", [Float8, JaxFloat8])
@pytest.mark.parametrize(("code", "dtype"), [(10, "float8_e4m3fn"), (12, "float8_e5m2"), (77, None)])
def test_float8_by_dlpack(monkeypatch: pytest.MonkeyPatch, kind: type[Float8], code: int, dtype: str | None) -> None:
    """cuda-python #1624: its view of such an array raises TypeError when it is asked for the dtype."""
    pytest.importorskip("ml_dtypes")

    class View:
        shape, strides, ptr, readonly, device_id = (64,), None, A0, False, 0

        @property
        def dtype(self) -> Any:
            raise TypeError(f"Unsupported dtype. dtype code: {code}")

    def view(array: Any, stream_ptr: int) -> Any:
        array.__dlpack__(stream=stream_ptr)
        return View()

    monkeypatch.setattr(arguments, "_memory_view", lambda: types.SimpleNamespace(from_any_interface=view))
    if dtype is None:
        with pytest.raises(tc.LaunchError, match="77"):
            arguments.array_view("array", kind(code), lambda _: 0)
        return
    facts = arguments.array_view("array", kind(code), lambda _: 0)
    assert facts.dtype.name == dtype and facts.dtype.itemsize == 1 and facts.device == 0


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_graph_keeps_what_it_has_captured(fake: FakeDriver, cuda: CudaExecutor, elsewhere: bool) -> None:
    kernels = [loads_of_rows(9), loads_of_rows(10)]
    fake.capturing = 1
    cuda.launch(kernels[0], arrays_of_rows(9), stream=5)
    cuda.prepare(kernels[1], arrays_of_rows(10), stream=5)()
    cuda.launch_by_address(kernels[1], arrays_of_rows(10))((A0, B0), 5)
    fake.capturing = 0
    drop = threading.Thread(target=kernels.clear)
    drop.start() if elsewhere else kernels.clear()
    drop.join() if elsewhere else None
    cuda.unload_unused()
    assert len(fake.loaded) == 2 and len(fake.graph) == 3
    fake.destroy_graph()
    cuda.unload_unused()
    assert not fake.loaded


def test_a_graph_keeps_what_a_thread_without_a_context_captured(fake: FakeDriver, cuda: CudaExecutor) -> None:
    kernel, fake.capturing, fake.current = loads_of_rows(9), 1, None
    cuda.launch(kernel, arrays_of_rows(9), stream=5)
    del kernel
    cuda.unload_unused()
    assert len(fake.launches) == 1 and len(fake.loaded) == 1 and len(fake.graph) == 1
    fake.destroy_graph()
    cuda.unload_unused()
    assert not fake.loaded


def test_a_graph_may_outlive_the_executor(fake: FakeDriver) -> None:
    cuda, kernel, fake.capturing = CudaExecutor(fake), loads_of_rows(9), 1
    cuda.launch(kernel, arrays_of_rows(9), stream=5)
    ((_, semaphore),) = fake.graph
    del cuda, kernel
    gc.collect()
    taken = [bytearray(48) for _ in range(1000)]  # whoever has the memory next finds it written
    fake.destroy_graph()
    assert ctypes.c_int.from_address(semaphore).value == 1 and not any(map(any, taken))


def test_a_module_without_the_function_is_unloaded(fake: FakeDriver, cuda: CudaExecutor) -> None:
    fake.fail["cuModuleGetFunction"] = 500
    with pytest.raises(tc.LaunchError, match=mentions("cuModuleGetFunction", "CUDA_ERROR_NOT_FOUND")):
        cuda.launch(loads_of_rows(9), arrays_of_rows(9))
    assert fake.calls["cuModuleLoadDataEx"] == 1 and not fake.loaded


# ------------------------------------------------------------------------------------- what a launch computes


def boxes(rows: Any = None, **declared: Any) -> tc.BuiltKernel:
    """Boxes of 8 rows of A, of however many, into shared memory; B is of no copy."""
    k = tc.KernelBuilder("boxes", threads=32)
    m = k.size("M", lower=0, upper=2**40) if rows is None else rows
    k.param("B", (m, 64), "float16")
    a = k.param("A", (m, 64), "float16", **declared)
    tile, bar = k.shared((8, 64), "float16"), k.mbarrier("bar")
    with k.if_(k.thread_id() == 0):
        bar.init(1)
        k.fence_mbarrier_init()
        bar.arrive_expect_tx(1024)
        k.thread.copy_async(tile[:, :], a[8:16, :], mbar=bar[0], outside="zero", variant="tma")
    return k.build(target="sm_90", grid=1)


def boxed() -> tuple[tc.BuiltKernel, FakeDriver, CudaExecutor]:
    fake = FakeDriver(sizes=(8, 8, 8, 128))
    return boxes(), fake, CudaExecutor(fake)


def rows(address: int, count: int = 256, **more: Any) -> FakeTensor:
    return FakeTensor(address, (count, 64), **more)


def maps_of(fake: FakeDriver) -> list[int]:
    """The number of the map of each launch."""
    return [launched.numbers()[-1] for launched in fake.launches]


def test_a_map_is_encoded_once_for_an_address(place: Place) -> None:
    kernel, fake, cuda = boxed()
    for a, b in ((A0, B0), (A0, B0), (A0 + 16, B0), (A0 + 16, B0), (A0, B0)):
        cuda.launch(kernel, (rows(b), rows(a)))
    assert maps_of(fake) == [1, 1, 2, 2, 3]
    assert [found.address for found in fake.maps] == [A0, A0 + 16, A0]
    assert attrs.astuple(fake.maps[0], recurse=False)[1:] == (1, (64, 256), (128,), (64, 8), (1, 1), 0, 0, place.home)
    assert fake.calls["cuGetProcAddress"] <= 2
    cuda.launch(kernel, (rows(B0, 128), rows(A0, 128)))  # another size
    assert fake.maps[3].sizes == (64, 128) and maps_of(fake)[5:] == [4]


def test_launchers_and_prepared_launches_encode_for_their_addresses(place: Place) -> None:
    kernel, fake, cuda = boxed()
    ready = cuda.prepare(kernel, (rows(B0), rows(A0)))
    at = cuda.launch_by_address(kernel, (rows(B0), rows(A0)))
    assert len(fake.maps) == 2 and not fake.launches
    for _ in range(2):
        ready()
        at((B0, A0))
    at((B0, A0 + 32))
    at((B0, A0 + 32))
    ready()
    assert maps_of(fake) == [1, 2, 1, 2, 3, 3, 1] and {found.gpu for found in fake.maps} == {place.home}
    with pytest.raises(tc.LaunchError, match=mentions("0x7f0000001008", 16)):
        at((B0, A0 + 8))
    assert len(fake.maps) == 3 and len(fake.launches) == 7


def test_threads_have_maps_of_their_own() -> None:
    kernel, fake, cuda = boxed()
    at = cuda.launch_by_address(kernel, (rows(B0), rows(A0)))

    def work(thread: int) -> None:
        fake.current = None  # a thread of its own has no context
        for turn in range(20):
            a = A0 + (thread << 32) + 16 * (turn // 2)
            at((B0, a))
            cuda.launch(kernel, (rows(B0), rows(a)))

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(1, 7)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seen = [launched.numbers() for launched in fake.launches]
    assert len(seen) == 240 and all(fake.maps[number - 1].address == a for _, _, a, number in seen)


def test_a_map_of_host_memory_is_of_its_copy_on_the_device(place: Place) -> None:
    kernel, fake, cuda = boxed()
    place.uses_both = True
    a = np.zeros((256, 64), "float16")
    cuda.launch(kernel, (np.zeros_like(a), a))
    assert [found.address for found in fake.maps] == [fake.launches[0].numbers()[2]]


def test_a_map_that_the_driver_refuses_is_told_and_nothing_is_launched() -> None:
    kernel, fake, cuda = boxed()
    at = cuda.launch_by_address(kernel, (rows(B0), rows(A0)))
    fake.fail["cuTensorMapEncodeTiled"] = 1
    told = ("A", "float16", "0x7f0000001000", 64, 256, "CUDA_ERROR_INVALID_VALUE")
    for launch in (cuda.launch, cuda.prepare, cuda.launch_by_address):
        with pytest.raises(tc.LaunchError, match=mentions(*told)):
            launch(kernel, (rows(B0), rows(A0)))
    with pytest.raises(tc.LaunchError, match="0x7f0000001010"):
        at((B0, A0 + 16))
    fake.fail.clear()
    at((B0, A0 + 16))
    cuda.launch(kernel, (rows(B0), rows(A0)))
    assert [fake.maps[number - 1].address for number in maps_of(fake)] == [A0 + 16, A0]


def test_a_driver_without_tensor_maps() -> None:
    kernel, fake, cuda = boxed()
    fake.fail["cuGetProcAddress"] = 500
    with pytest.raises(tc.LaunchError, match="NOT_FOUND"):
        cuda.launch(kernel, (rows(B0), rows(A0)))
    assert not fake.launches


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, ("M",)), (2**31, ("M", 2147483648, 31))],
)
def test_extents_that_no_map_has(count: int, told: tuple[object, ...]) -> None:
    kernel, fake, cuda = boxed()
    for launch in (cuda.launch, cuda.prepare, cuda.launch_by_address):
        with pytest.raises(tc.LaunchError, match=mentions("boxes", "A", *told)):
            launch(kernel, (rows(B0, count), rows(A0, count)))
    assert not fake.launches and not fake.maps


def test_a_fixed_extent_that_no_map_has_is_told_once() -> None:
    """Of a recipe whose variant proved nothing."""
    kernel, fake, cuda = boxed()
    (found,) = [p for p in kernel.parameters if isinstance(p, TensorMapParameter)]
    large = attrs.evolve(found, recipe=attrs.evolve(found.recipe, sizes=(*found.recipe.sizes[:-1], 2**31)))
    kernel = attrs.evolve(kernel, parameters=tuple(large if p is found else p for p in kernel.parameters))
    with pytest.raises(tc.LaunchError, match=mentions("A", 2147483648)):
        cuda.launch(kernel, (rows(B0), rows(A0)))
    assert not fake.launches


@pytest.mark.parametrize(
    ("step", "told"),
    [(2**39, (1099511627776,)), (68, (136,))],
)
def test_strides_that_no_map_has(step: int, told: tuple[object, ...]) -> None:
    """Of a recipe whose variant proved nothing."""
    kernel, fake, cuda = boxed()
    (found,) = [p for p in kernel.parameters if isinstance(p, TensorMapParameter)]
    strange = attrs.evolve(found, recipe=attrs.evolve(found.recipe, strides_bytes=(2 * step,)))
    kernel = attrs.evolve(kernel, parameters=tuple(strange if p is found else p for p in kernel.parameters))
    with pytest.raises(tc.LaunchError, match=mentions("A", *told, 16, 40)):
        cuda.launch(kernel, (rows(B0), rows(A0)))
    assert not fake.launches


def test_the_address_of_a_map_is_a_multiple_of_16() -> None:
    kernel, fake, cuda = boxed()
    (found,) = [p for p in kernel.parameters if isinstance(p, TensorMapParameter)]
    array = attrs.evolve(found.recipe.array, storage_offset=4)
    strange = attrs.evolve(found, recipe=attrs.evolve(found.recipe, array=array))
    kernel = attrs.evolve(kernel, parameters=tuple(strange if p is found else p for p in kernel.parameters))
    with pytest.raises(tc.LaunchError, match=mentions("A", "0x7f0000001008", 16)):
        cuda.launch(kernel, (rows(B0), rows(A0)))
    assert not fake.launches


def test_bytes_of_a_function_of_somebody_elses() -> None:
    kernel, fake = host_bytes.last_row(), FakeDriver(sizes=(4, 8, 8, 16))
    cuda, flat = CudaExecutor(fake), {"dtype": FLOAT32}
    b = FakeTensor(B0, (32,), (1,), **flat)
    for a, count in ((A0, 7), (A0, 7), (A0 + 64, 7), (A0, 9)):
        cuda.launch(kernel, (FakeTensor(a, (count, 32), (32, 1), **flat), b))
        assert fake.launches[-1].numbers() == (count, a, B0, a + 128 * (count - 1) + (count << 64))
    for function, told in host_bytes.FAULTS.items():
        kernel = host_bytes.last_row(function)
        for launch in (cuda.launch, cuda.prepare, cuda.launch_by_address):
            with pytest.raises(tc.LaunchError, match=told):
                launch(kernel, (FakeTensor(A0, (7, 32), (32, 1), **flat), b))
    assert len(fake.launches) == 4
