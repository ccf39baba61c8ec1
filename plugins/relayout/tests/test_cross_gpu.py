"""Relayouts on GPUs other than the first, and from one into another, on the stand-in for the driver."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
from tilecopy import LaunchError, RequestError
from tilecopy_relayout import plan_relayout, relayout
from tilecopy_relayout.arrays import frameworks
from tilecopy_relayout.arrays.devices import DevicePlacement
from tilecopy_relayout.local import cached_launches, call
from tilecopy_relayout.planner import plan as planner
from tilecopy_test_helpers import fake_gpu, fake_planner
from tilecopy_test_helpers.mentions import mentions

A = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> fake_gpu.Machine:
    made = fake_gpu.machine_with_gpu(monkeypatch)
    made.gpu.sizes = (8, 8)
    for name in ("_launches", "_newest", "_readers"):
        monkeypatch.setattr(cached_launches, name, {})
    return made


def on_gpu(gpu: int, shape: tuple[int, ...] = (4, 6)) -> Any:
    """An array of words, which begins as most do at a multiple of 16 bytes."""
    memory = np.zeros(int(np.prod(shape)) * 4 + 16, np.uint8)
    first = -memory.ctypes.data % 16
    return fake_gpu.ndarray(memory[first : first + memory.size - 16].view(np.float32).reshape(shape), gpu)


def current(gpu: int) -> int:
    """The number of CuPy's current stream of a GPU."""
    return 77 + (gpu << 16)


def steps(machine: fake_gpu.Machine) -> list[tuple[Any, ...]]:
    """What was put on streams since the last call, with events in the order in which they were made."""
    found, machine.gpu.order = machine.gpu.order, []
    events = list(dict.fromkeys(step[1] for step in found if step[0] != "launch"))
    return [step if step[0] == "launch" else (step[0], events.index(step[1]), *step[2:]) for step in found]


def waited(here: int, there: int) -> list[tuple[Any, ...]]:
    """The steps of a relayout from one GPU into another."""
    return [
        ("record", 0, there, current(there)),
        ("wait", 0, here, current(here)),
        ("launch", here, current(here)),
        ("record", 1, here, current(here)),
        ("wait", 1, there, current(there)),
    ]


def test_the_framework_learns_of_a_write_on_another_gpu(
    machine: fake_gpu.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    monkeypatch.setattr(frameworks.CuPy, "mark_written", lambda self, out: written.append(out))
    outs = [on_gpu(1, (6, 4)) for _ in range(4)]
    for out, stream in zip(outs, (None, None, 0x50, 0x50), strict=True):
        relayout(on_gpu(0), (1, 0), out=out, stream=stream)
    assert written == outs


# -------------------------------------------------------------------------------------------------- one GPU, any


@pytest.mark.parametrize("own", [0, 1, None])
def test_everything_is_on_the_arrays_gpu(machine: fake_gpu.Machine, own: int | None) -> None:
    machine.gpu.current = own
    for _ in range(2):  # checked, then remembered
        made = relayout(on_gpu(1), (1, 0))
        assert made.gpu == 1
        relayout(on_gpu(1), (1, 0), out=on_gpu(1, (6, 4)), stream=0x10050)
    assert [(x.gpu, x.stream) for x in machine.gpu.launches] == [(1, current(1)), (1, 0x10050)] * 2
    assert machine.gpu.retained == [1] and not machine.gpu.enabled and not machine.gpu.calls["cuEventCreate"]


def test_calls_on_several_gpus_are_not_taken_for_one_another(machine: fake_gpu.Machine) -> None:
    for gpu in (0, 3, 1, 0, 3, 1):
        relayout(on_gpu(gpu), (1, 0))
        relayout(on_gpu(gpu), (1, 0), out=on_gpu(gpu, (6, 4)))
    assert [launched.gpu for launched in machine.gpu.launches] == [0, 0, 3, 3, 1, 1] * 2


@pytest.mark.parametrize("own", [2, None])
def test_host_arrays_go_through_the_current_gpu(machine: fake_gpu.Machine, own: int | None) -> None:
    machine.gpu.current = own
    relayout(A, (1, 0))
    assert {launched.gpu for launched in machine.gpu.launches} == {own or 0} == set(machine.gpu.retained)
    assert not machine.gpu._memory


def test_a_bound_plan_asks_where_its_addresses_are(machine: fake_gpu.Machine) -> None:
    launch = plan_relayout((4, 6), "float32", (1, 0), target="sm_90").bind("cuda")
    for gpu in (0, 1, 0):
        launch(on_gpu(gpu).data.ptr, on_gpu(gpu, (6, 4)).data.ptr, None)
    source, out = on_gpu(1).data.ptr, on_gpu(2, (6, 4)).data.ptr
    for stream in (0x10050, 0x20050, None):
        launch(source, out, stream)
    assert [launched.gpu for launched in machine.gpu.launches] == [0, 1, 0, 1, 2, 1]
    with pytest.raises(RequestError, match=mentions("addresses")):
        launch("a", 4096, None)


def test_a_plan_that_is_bound_to_its_gpus_asks_nothing_of_addresses(machine: fake_gpu.Machine) -> None:
    """Those of memory of a peer, for one, which is mapped here."""
    x, far = on_gpu(1).data.ptr, on_gpu(3, (6, 4)).data.ptr
    machine.gpu.mapped[far] = {1, 3}
    launch = plan_relayout((4, 6), "float32", (1, 0), target="sm_90").bind("cuda", DevicePlacement.of(1, 1))
    launch(x, far, 0x10050)
    assert steps(machine) == [("launch", 1, 0x10050)] and machine.gpu.retained == [1] and not machine.gpu.enabled


def test_threads_use_different_gpus_at_once(machine: fake_gpu.Machine) -> None:
    failed: list[BaseException] = []

    def work(gpu: int) -> None:
        try:
            machine.gpu.current = (gpu + 1) % 4
            for _ in range(12):
                relayout(on_gpu(gpu), (1, 0))
                relayout(on_gpu(gpu), (1, 0), out=on_gpu(gpu ^ 1, (6, 4)))
                relayout(on_gpu(gpu), "a (b c) -> c a b", c=2)
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=work, args=(gpu,)) for gpu in range(4) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed, failed[0]
    assert [sum(x.gpu == gpu for x in machine.gpu.launches) for gpu in range(4)] == [72] * 4
    assert machine.gpu.enabled == {(0, 1), (1, 0), (2, 3), (3, 2)}


# --------------------------------------------------------------------------------------------- from one to another


def test_both_gpus_wait_for_one_another(machine: fake_gpu.Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = on_gpu(1), on_gpu(2, (6, 4))
    assert relayout(x, (1, 0), out=y) is y
    assert steps(machine) == waited(1, 2)
    assert machine.gpu.launches[0].numbers() == (x.data.ptr, y.data.ptr) and machine.gpu.enabled == {(1, 2)}
    relayout(on_gpu(2), (1, 0), out=on_gpu(1, (6, 4)))
    assert steps(machine) == waited(2, 1)
    monkeypatch.setattr(call, "array_of", None)  # the check would fail
    machine.gpu.current = None
    for here, there in ((1, 2), (2, 1)):
        relayout(on_gpu(here), (1, 0), out=on_gpu(there, (6, 4)))
        assert steps(machine) == waited(here, there)
    assert not machine.gpu._of.keys() - machine.gpu.loaded  # no event is left
    assert machine.gpu.calls["cuCtxEnablePeerAccess"] == 2


def test_the_elements_arrive(machine: fake_gpu.Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "plan_of", fake_planner.plan_of)
    for _ in range(2):
        x, y = on_gpu(1), on_gpu(3, (6, 4))
        x.host[...] = A
        relayout(x, (1, 0), out=y)
        assert (y.host == A.T).all()


def test_a_stream_says_who_launches_and_nothing_waits(
    machine: fake_gpu.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        x, y = on_gpu(1), on_gpu(2, (6, 4))
        for stream, gpu in ((0x10050, 1), (0x20050, 2), (0, 1)):
            relayout(x, (1, 0), out=y, stream=stream)
            assert steps(machine) == [("launch", gpu, stream)]
        relayout(x, (1, 0), out=y)
        assert steps(machine) == waited(1, 2)
    assert machine.gpu.enabled == {(1, 2), (2, 1)}
    monkeypatch.setattr(call, "array_of", None)  # the check would fail
    for stream in (0x10050, 0):
        relayout(on_gpu(1), (1, 0), out=on_gpu(2, (6, 4)), stream=stream)
        assert steps(machine) == [("launch", 1, stream)]


def test_a_device_says_who_launches_and_both_wait(machine: fake_gpu.Machine) -> None:
    for _ in range(2):
        x, y = on_gpu(1), on_gpu(2, (6, 4))
        relayout(x, (1, 0), out=y, device=2)
        assert steps(machine) == waited(2, 1)
        relayout(x, (1, 0), out=y, device=1)
        assert steps(machine) == waited(1, 2)
        relayout(x, (1, 0), out=y, device=2, stream=0x20050)
        assert steps(machine) == [("launch", 2, 0x20050)]
    for device in (0, True, "1"):
        with pytest.raises(RequestError, match=mentions("device", 1, 2)):
            relayout(x, (1, 0), out=y, device=device)
    relayout(A, (1, 0), device=3)  # host arrays go through it
    assert steps(machine) == [("launch", 3, 0)]
    with pytest.raises(RequestError, match=mentions("device", 4)):
        relayout(A, (1, 0), device=4)
    with pytest.raises(RequestError, match=mentions("device", 0, "emulator")):
        relayout(A, (1, 0), device=0, executor="emulator")


def test_what_a_graph_can_hold_is_waited_for(machine: fake_gpu.Machine) -> None:
    x, y = on_gpu(1), on_gpu(2, (6, 4))
    relayout(x, (1, 0), out=y)
    steps(machine)
    for captured, expected in (
        ({1}, [("launch", 1, current(1))]),  # into a graph of which the other stream is no part
        ({1, 2}, waited(1, 2)),
        ({2}, waited(1, 2)),  # the launch takes part in the other stream's graph
    ):
        machine.gpu.captured = {current(gpu) for gpu in captured}
        relayout(x, (1, 0), out=y)
        assert steps(machine) == expected


def test_what_has_no_current_stream_needs_one(machine: fake_gpu.Machine) -> None:
    x = on_gpu(1)
    stranger = type("Stranger", (), {"__cuda_array_interface__": x.__cuda_array_interface__, "dtype": x.dtype})()
    for array, out, name in ((stranger, on_gpu(2, (6, 4)), "array"), (on_gpu(2, (6, 4)), stranger, "out")):
        with pytest.raises(RequestError, match=mentions(name, "Stranger", "stream")):
            relayout(array, (1, 0), out=out)
    relayout(stranger, (1, 0), out=on_gpu(2, (6, 4)), stream=0x20050)
    assert steps(machine) == [("launch", 2, 0x20050)]


def test_gpus_without_peer_access_are_told(machine: fake_gpu.Machine) -> None:
    machine.gpu.peers = False
    for stream in (None, 0x20050):
        with pytest.raises(LaunchError, match=mentions(2, 1)):
            relayout(on_gpu(1), (1, 0), out=on_gpu(2, (6, 4)), stream=stream)
    assert not machine.gpu.launches


def test_memory_that_is_mapped_from_another_gpu_is_the_arrays(machine: fake_gpu.Machine) -> None:
    """CuPy says GPU 1 of what lies on GPU 3."""
    x, y = on_gpu(1), on_gpu(1, (6, 4))
    far = type(
        "ndarray", (fake_gpu.ndarray,), {"data": property(lambda self: fake_gpu.Memory(y.data.ptr + (2 << 48), 1))}
    )
    there = far(y.host, 1)
    machine.gpu.mapped[there.data.ptr] = {1, 3}
    for _ in range(2):
        relayout(x, (1, 0), out=there)
    assert steps(machine) == [("launch", 1, current(1))] * 2 and machine.gpu.retained == [1]


def test_host_memory_and_a_gpus_are_two(machine: fake_gpu.Machine) -> None:
    with pytest.raises(RequestError, match=mentions("out", 1)):
        relayout(on_gpu(1), (1, 0), out=np.zeros((6, 4), np.float32))
