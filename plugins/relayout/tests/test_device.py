"""Device arrays and staged host arrays, on stand-ins for the GPU and the planner: what is launched, and how often is checked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from tilecopy import LaunchError, RequestError
from tilecopy_relayout import relayout
from tilecopy_relayout.arrays import frameworks
from tilecopy_relayout.local import cached_launches, call, host
from tilecopy_relayout.planner import kernels
from tilecopy_relayout.planner import plan as planner
from tilecopy_test_helpers import fake_gpu, fake_planner
from tilecopy_test_helpers.mentions import mentions


@attrs.define(eq=False)
class Watched:
    """The stand-in planner, and what was launched."""

    plans: int = 0
    launches: list[tuple[int, int, Any]] = attrs.field(factory=list)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> fake_gpu.Machine:
    return fake_gpu.machine_with_gpu(monkeypatch)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched()

    def plan_of(*arguments: Any) -> Any:
        found.plans += 1
        plan = fake_planner.plan_of(*arguments)
        assert plan.target == "sm_90"

        def bind(executor: str | None, placement: Any) -> fake_planner.Bound:
            assert executor == "cuda" and placement.source == placement.destination == placement.launching

            def launch(source: int, result: int, stream: Any) -> None:
                found.launches.append((source, result, stream))
                plan.bind("cuda")(source, result, stream)

            return fake_planner.Bound(launch)

        return type("Plan", (), {"bind": staticmethod(bind)})

    monkeypatch.setattr(planner, "plan_of", plan_of)
    for name in ("_launches", "_newest", "_readers"):
        monkeypatch.setattr(cached_launches, name, {})
    monkeypatch.setattr(cached_launches, "LOWEST_ADDRESS", 1)  # host memory, which stands for a GPU's, may lie anywhere
    return found


def on_gpu(array: Any) -> Any:
    return fake_gpu.ndarray(array)


A = np.arange(24, dtype=np.float32).reshape(4, 6)


def test_a_call_like_one_before_is_launched_without_a_check(
    machine: fake_gpu.Machine, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (relayout(on_gpu(A), (1, 0)).host == A.T).all()
    monkeypatch.setattr(call, "array_of", None)  # the check would fail
    other = A * 2
    made = relayout(on_gpu(other), (1, 0))
    assert type(made).__name__ == "ndarray" and (made.host == other.T).all()
    assert watched.plans == 1 and watched.launches[1] == (other.ctypes.data, made.host.ctypes.data, 77)


@pytest.mark.parametrize(
    "other",
    [A.astype("f8"), A.reshape(6, 4), A.T, A[:, ::-1]],
    ids=["dtype", "shape", "strides", "sign"],
)
def test_another_call_is_checked(machine: fake_gpu.Machine, watched: Watched, other: Any) -> None:
    for array in (A, other, A, other):
        assert (relayout(on_gpu(array), (1, 0)).host == array.T).all()
    assert watched.plans == 2
    for axes, sizes in (
        ("a b -> b a", {}),
        ("(a b) c -> b a c", {"b": 2}),
        ("(a b) c -> b a c", {"b": 4}),
        ([1, 0], {}),
    ):
        expected = A.reshape(-1, sizes["b"], 6).transpose(1, 0, 2) if sizes else A.T
        assert (relayout(on_gpu(A), axes, **sizes).host == expected).all()


def test_out_is_looked_at_every_time(machine: fake_gpu.Machine, watched: Watched) -> None:
    room = np.zeros((2, 48), np.float32)
    source, out = room[0, :24].reshape(4, 6), room[1, :24].reshape(6, 4)
    source[...] = A
    for _ in range(2):
        out[...] = 0
        assert relayout(on_gpu(source), (1, 0), out=on_gpu(out)).host is out
        assert (out == A.T).all()
    assert watched.plans == 1
    with pytest.raises(RequestError, match=mentions("array")):
        relayout(on_gpu(source), (1, 0), out=on_gpu(room[0, 20:44].reshape(6, 4)))
    even, odd = room.reshape(-1)[:48:2].reshape(4, 6), room.reshape(-1)[1:49:2].reshape(6, 4)
    even[...] = A
    relayout(on_gpu(even), (1, 0), out=on_gpu(odd))  # interleaved: ranges overlap, bytes do not
    assert (odd == A.T).all()


def test_memory_that_was_freed_is_refused_every_time(machine: fake_gpu.Machine, watched: Watched) -> None:
    x, out = on_gpu(np.arange(12.0).reshape(3, 4)), on_gpu(np.zeros((4, 3)))
    relayout(x, (1, 0), out=out)
    for array, result, name in (
        (fake_gpu.ndarray(x.host, freed=True), out, "array"),
        (fake_gpu.ndarray(x.host, freed=True), None, "array"),
        (x, fake_gpu.ndarray(out.host, freed=True), "out"),
    ):
        with pytest.raises(RequestError, match=f"^{name}: "):
            relayout(array, (1, 0), out=result)
    assert len(watched.launches) == 1


def test_the_framework_learns_of_every_write_through_out(
    machine: fake_gpu.Machine, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch #23756: torch must increment the version of what is written, whether the call is checked or remembered."""
    written: list[Any] = []
    monkeypatch.setattr(frameworks.CuPy, "mark_written", lambda self, out: written.append(out))
    outs = [on_gpu(np.zeros((6, 4), "f4")) for _ in range(3)]
    for out in outs:
        relayout(on_gpu(A), (1, 0), out=out)
        relayout(on_gpu(A), (1, 0))  # new memory, of which nobody knows
    assert written == outs and watched.plans <= 2
    relayout(np.zeros((2, 0)), (1, 0), out=np.zeros((0, 2)))
    assert written == outs


def test_a_misaligned_address_is_not_taken_for_an_aligned_one(machine: fake_gpu.Machine, watched: Watched) -> None:
    memory = np.zeros(24 * 4 + 1, np.uint8)
    odd = memory[1:].view(np.float32).reshape(4, 6)
    odd[...] = A
    for array in (A, odd, A, odd):
        assert (relayout(on_gpu(array), (1, 0)).host == array.T).all()
    assert watched.plans == 3  # the misaligned one each time


def test_streams(machine: fake_gpu.Machine, watched: Watched) -> None:
    for stream, expected in ((None, 77), (5, 5), (None, 77), (5, 5)):
        relayout(on_gpu(A), (1, 0), stream=stream)
        assert watched.launches[-1][2] == expected and machine.cupy.made_on[-1] == expected


class TorchStream:
    """A stream of torch as a context; what is allocated in it is its memory."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        if handle & 1:
            raise RuntimeError("invalid StreamId")  # as torch's ExternalStream of the handle 1


@pytest.mark.parametrize(("stream", "owner"), [(0, "default"), (1, "default"), (2, 2), (0x50, 0x50)])
def test_results_of_torch_are_memory_of_the_stream(monkeypatch: pytest.MonkeyPatch, stream: int, owner: object) -> None:
    """PyTorch #67618, #182960: the handles 0 and 1 are the legacy default stream, whose memory torch's allocator reuses."""
    entered: list[Any] = []

    def within(chosen: Any) -> Any:
        entered.append(getattr(chosen, "handle", chosen))
        return nullcontext()

    cuda = SimpleNamespace(
        default_stream=lambda device: "default",
        ExternalStream=lambda handle, device: TorchStream(handle),
        stream=within,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    tensor = SimpleNamespace(is_cuda=True, device="cuda:0", new_empty=lambda shape: shape)
    assert frameworks.Torch().empty(tensor, (2, 3), None, stream) == (2, 3) and entered == [owner]


def test_the_legacy_default_stream_has_two_handles(machine: fake_gpu.Machine, watched: Watched) -> None:
    for stream, owner in ((0, 0), (1, 0), (2, 2)):
        for _ in range(2):
            relayout(on_gpu(A), (1, 0), stream=stream)
            assert watched.launches[-1][2] == stream and machine.cupy.made_on[-1] == owner


def test_host_arrays_are_refused_before_anything_is_allocated_in_a_capture(
    machine: fake_gpu.Machine, watched: Watched
) -> None:
    """CuPy #4567: an allocation invalidates the capture, whatever is raised after it."""
    machine.cupy.captures = True
    with pytest.raises(RequestError, match="captured"):
        relayout(A, (1, 0))
    assert not machine.gpu.allocated and not watched.launches
    machine.cupy.captures = False
    assert (relayout(A, (1, 0)) == A.T).all()


def test_what_is_refused_on_a_device(machine: fake_gpu.Machine, watched: Watched) -> None:
    with pytest.raises(RequestError, match=mentions("array", "emulator")):
        relayout(on_gpu(A), (1, 0), executor="emulator")
    with pytest.raises(RequestError, match=mentions("array")):
        relayout(on_gpu(A), (1, 0), out=np.zeros((6, 4), "f4"))
    fixed = np.zeros((6, 4), "f4")
    fixed.flags.writeable = False
    with pytest.raises(RequestError):
        relayout(on_gpu(A), (1, 0), out=on_gpu(fixed))
    stranger = type(
        "Stranger", (), {"__cuda_array_interface__": on_gpu(A).__cuda_array_interface__, "dtype": A.dtype}
    )()
    with pytest.raises(RequestError, match=mentions("Stranger")):
        relayout(stranger, (1, 0))
    out = np.zeros((6, 4), "f4")
    relayout(stranger, (1, 0), out=on_gpu(out))
    assert (out == A.T).all() and len(watched.launches) == 1


@pytest.mark.parametrize("remembered", [False, True])
@pytest.mark.parametrize(
    ("wrong", "values"),
    [
        (lambda shape, dtype: fake_gpu.ndarray(np.empty(shape, "f2")), ("float16", "float32")),
        (lambda shape, dtype: fake_gpu.ndarray(np.empty(shape, "i4")), ("int32", "float32")),
        (lambda shape, dtype: fake_gpu.ndarray(np.empty(shape[::-1], dtype)), ((4, 6), (6, 4))),
        (lambda shape, dtype: fake_gpu.ndarray(np.empty(shape, dtype), 1), ("GPU 1", "GPU 0")),
        (lambda shape, dtype: np.empty(shape, dtype), ("host", "GPU 0")),
        (
            lambda shape, dtype: fake_gpu.ndarray(np.broadcast_to(np.empty(shape[1:], dtype), shape)),
            ("strides",),
        ),
    ],
    ids=["narrower", "dtype", "shape", "GPU", "host", "strides"],
)
def test_a_new_array_that_a_framework_makes_is_checked_as_out_is(
    machine: fake_gpu.Machine,
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[Any, Any], Any],
    values: tuple[object, ...],
    remembered: bool,
) -> None:
    """JAX #8178: where a framework makes another dtype than it was asked for, bytes were written past the end of its array."""
    if remembered:
        relayout(on_gpu(A), (1, 0))
    launches = len(watched.launches)
    monkeypatch.setattr(machine.cupy, "empty", wrong)
    with pytest.raises(RequestError, match="the new array") as caught:
        relayout(on_gpu(A), (1, 0))
    assert all(str(value) in str(caught.value) for value in values) and len(watched.launches) == launches


def test_nothing_is_launched_for_nothing(machine: fake_gpu.Machine, watched: Watched) -> None:
    assert relayout(on_gpu(np.zeros((3, 0), "f4")), (1, 0)).shape == (0, 3)
    assert not watched.launches and not watched.plans


# ------------------------------------------------------------------------------------- host arrays through the GPU


@pytest.mark.parametrize("free_bytes", [1 << 30, 2000, 100, 8])
@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a[:, ::-1],
        lambda a: a.transpose(2, 0, 1),
        lambda a: a[::2, 1::3],
        lambda a: np.broadcast_to(a[:, :1], (5, 7, 6)),
    ],
    ids=["plain", "reversed", "permuted", "sliced", "broadcast"],
)
def test_host_arrays_go_through_the_gpu_in_pieces(
    machine: fake_gpu.Machine, watched: Watched, view: Callable[[Any], Any], free_bytes: int
) -> None:
    machine.gpu.free_bytes = free_bytes
    array = view(np.random.default_rng(0).integers(0, 99, (5, 7, 6)).astype(np.float64))
    made = relayout(array, (2, 0, 1))
    assert (made == array.transpose(2, 0, 1)).all()
    assert sum(machine.gpu.allocated) and max(machine.gpu.allocated) <= max(free_bytes * 4 // 10, 8)
    room = np.zeros((array.shape[2], array.shape[0], 2 * array.shape[1]))
    relayout(array, (2, 0, 1), out=room[:, :, ::-2])
    assert (room[:, :, ::-2] == array.transpose(2, 0, 1)).all() and not room[:, :, ::2].any()
    assert not machine.gpu._memory


def test_the_drivers_refusals_are_told(machine: fake_gpu.Machine, watched: Watched) -> None:
    machine.gpu.fail = {"cuMemAlloc": 2}
    with pytest.raises(LaunchError, match=mentions(96, "device")):
        relayout(A, (1, 0))
    machine.gpu.fail = {"cuMemGetInfo": 3}
    with pytest.raises(LaunchError, match=mentions(3)):
        relayout(A, (1, 0))


@pytest.mark.parametrize(
    ("shape", "most"),
    [((3, 4, 5), 60), ((3, 4, 5), 41), ((3, 4, 5), 13), ((3, 4, 5), 3), ((3, 4, 5), 0), ((), 1), ((0, 3), 2)],
)
def test_boxes_cover_an_array_in_its_order(shape: tuple[int, ...], most: int) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    parts = [array[box].ravel() for box in host.boxes(shape, most)]
    assert all(0 < part.size <= max(most, 1) for part in parts)
    assert (np.concatenate([np.empty(0, int), *parts]) == array.ravel()).all()


@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize(
    ("dtype", "shape"), [("bfloat16", (4, 6)), ("float64", (4, 6)), ("int64", (4, 6)), ("float32", (0, 6))]
)
def test_jax_arrays_on_a_device_are_waited_for(
    machine: fake_gpu.Machine,
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    shape: tuple[int, int],
    enabled: bool,
) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        array = jax.numpy.asarray(A[: shape[0]]).astype(dtype)  # what the framework would see of one on a GPU
    seen = frameworks.Jax.unwrap
    monkeypatch.setattr(
        frameworks.Jax,
        "unwrap",
        lambda self, where, each: (
            frameworks.jax_memory(each) if isinstance(seen(self, where, each), np.ndarray) else each
        ),
    )
    with jax.enable_x64(enabled):
        made = relayout(array, (1, 0))
    assert isinstance(made, jax.Array) and made.dtype == array.dtype
    assert np.asarray(made).tobytes() == np.asarray(array).T.copy().tobytes()
    assert machine.gpu.calls["cuStreamSynchronize"] == len(watched.launches) == min(1, array.size)


@pytest.mark.parametrize("off_bytes", [0, 2, 8])
def test_a_first_call_makes_one_kernel_wherever_its_arrays_begin(
    machine: fake_gpu.Machine, off_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, int]] = []

    def build(problem: Any, *arguments: Any) -> Any:
        made.append((problem.src_align, problem.dst_align))
        return kernels.build(problem, *arguments)

    monkeypatch.setattr(planner, "build", build)
    planner._best_kernel.cache_clear()
    memory = np.zeros(40 * 24 * 2 + 32, np.uint8)
    first = -memory.ctypes.data % 16 + off_bytes
    array = memory[first : first + 40 * 24 * 2].view(np.float16).reshape(40, 24)
    relayout(on_gpu(array), (1, 0), out=on_gpu(np.zeros((24, 40), np.float16)))
    assert [align for align, _ in made] == [{0: 16, 2: 2, 8: 8}[off_bytes]]
