"""``relayout`` on a real GPU, for each framework that is installed; skipped with the reason where there is none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tilecopy import RequestError
from tilecopy.executors import unavailable_reason
from tilecopy_relayout import relayout
from tilecopy_relayout.files import npy_files as files
from tilecopy_relayout.local import host
from tilecopy_test_helpers.mentions import mentions


@pytest.fixture(autouse=True)
def gpu() -> None:
    why = unavailable_reason("cuda")
    if why is not None:
        pytest.skip(f"no GPU: {why}")
    if "fake_planner" in getattr(sys.modules.get("tilecopy_relayout.planner.plan"), "__name__", ""):
        pytest.skip("the planner is not there: its stand-in takes no device addresses")


@pytest.fixture
def torch() -> Any:
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    return module


CASES = [
    ((512, 1024), (1, 0)),
    ((509, 1021), (1, 0)),
    ((3, 5, 7, 11), (0, 2, 3, 1)),
    ((2, 64, 33, 17), "b c h w -> b h w c"),
    ((4, 12, 9, 5), "b (h p) w c -> (b w) p h c"),
    ((2, 1, 3, 2, 1, 2, 3, 2), (7, 5, 3, 1, 0, 2, 4, 6)),
]


def expected(array: Any, axes: Any) -> Any:
    einops = pytest.importorskip("einops")
    sizes = {"p": 4} if "p" in str(axes) else {}
    if isinstance(axes, str):
        return einops.rearrange(array, axes, **sizes), sizes
    return array.transpose(axes), sizes


@pytest.mark.parametrize(("shape", "axes"), CASES)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
def test_torch(torch: Any, shape: tuple[int, ...], axes: Any, dtype: str) -> None:
    host_array = np.random.default_rng(0).integers(0, 250, shape).astype(dtype)
    wanted, sizes = expected(host_array, axes)
    array = torch.from_numpy(host_array).cuda()
    for _ in range(2):  # checked, then remembered
        made = relayout(array, axes, **sizes)
        assert made.is_contiguous() and (made.cpu().numpy() == wanted).all()
    out = torch.zeros(tuple(2 * extent for extent in wanted.shape), dtype=array.dtype, device="cuda")
    view = out[tuple(slice(None, None, 2) for _ in wanted.shape)]
    for _ in range(2):
        relayout(array, axes, out=view, **sizes)
        assert (view.cpu().numpy() == wanted).all()
    assert int((out != 0).sum()) == int((wanted != 0).sum())


def test_torch_views(torch: Any) -> None:
    room = torch.randn(40, 50, 60, device="cuda")
    for view in (room[::2, 1:, ::3], room.transpose(0, 2), room[:1].expand(5, 50, 60), room[1:, 3:, 5:]):
        for axes in ((2, 1, 0), (0, 2, 1), (1, 0, 2)):
            assert relayout(view, axes).equal(view.permute(axes))
    half = torch.randn(41, 43, device="cuda").half().reshape(-1)[1:].as_strided((20, 40), (43, 1))
    assert relayout(half, (1, 0)).equal(half.t())  # an address that only elements divide
    with pytest.raises(RequestError, match=mentions("array")):
        relayout(room, (0, 1, 2), out=room)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*", "ignore:`torch.jit:DeprecationWarning")
def test_torch_streams_graphs_and_gradients(torch: Any) -> None:
    x = torch.randn(300, 500, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        made = relayout(x, (1, 0)) + 1
    stream.synchronize()
    assert made.equal(x.t() + 1)
    made = relayout(x, (1, 0), stream=stream)
    stream.synchronize()
    assert made.equal(x.t())
    out, graph = torch.zeros(500, 300, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):  # torch's own is of the first GPU that captured
        relayout(x, (1, 0), out=out)
    x.mul_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert out.equal(x.t())
    y = torch.randn(30, 50, 4, device="cuda", dtype=torch.float64, requires_grad=True)
    relayout(y, "a (b c) d -> d a c b", b=5).square().sum().backward()
    assert y.grad.equal(2 * y.detach())
    compiled = torch.compile(lambda a: relayout(a * 2, (1, 0)) + 1, fullgraph=True)
    assert compiled(x).equal((x * 2).t() + 1)


def test_torch_transforms(torch: Any) -> None:
    """They see the call also after it was remembered, and what they call is remembered for none."""
    x, direction = torch.randn(4, 6, device="cuda"), torch.randn(4, 6, device="cuda")

    def turned(a: Any) -> Any:
        return relayout(a, (1, 0))

    for _ in range(2):
        made, tangent = torch.func.jvp(turned, (x,), (direction,))
        assert made.equal(x.t()) and tangent.equal(direction.t())
        assert torch.func.grad(lambda a: turned(a).square().sum())(x).equal(2 * x)
        assert torch.func.vmap(lambda a: relayout(a, (0,)))(x).equal(x)
        with torch.autograd.forward_ad.dual_level():
            dual = turned(torch.autograd.forward_ad.make_dual(x, direction))
            assert torch.autograd.forward_ad.unpack_dual(dual).tangent.equal(direction.t())
        assert turned(x).equal(x.t())
        leaf = x.clone().requires_grad_()
        turned(leaf).sum().backward()
        assert leaf.grad.eq(1).all()


def test_past_2_to_the_31_elements(torch: Any) -> None:
    rows, columns = 46_349, 46_351
    x = torch.empty(rows, columns, dtype=torch.uint8, device="cuda").random_(0, 256)
    made = relayout(x, (1, 0))
    assert made.numel() > 2**31 and made.equal(x.t())
    far = torch.as_strided(
        torch.empty(5 * 2**30 + 64, dtype=torch.int8, device="cuda").random_(), (2, 64), (5 * 2**30, 1)
    )
    assert relayout(far, (1, 0)).equal(far.t())


@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_cupy(shape: tuple[int, ...], axes: Any) -> None:
    cupy = pytest.importorskip("cupy")
    host_array = np.random.default_rng(0).integers(0, 250, shape).astype("f4")
    wanted, sizes = expected(host_array, axes)
    for _ in range(2):
        made = relayout(cupy.asarray(host_array), axes, **sizes)
        assert isinstance(made, cupy.ndarray) and (made.get() == wanted).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_jax(shape: tuple[int, ...], axes: Any, dtype: str) -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    array = jax.numpy.asarray(np.random.default_rng(0).integers(0, 100, shape)).astype(dtype)
    wanted, sizes = expected(np.asarray(array), axes)
    made = relayout(array, axes, **sizes)
    assert made.devices() == array.devices() and made.dtype == array.dtype and (np.asarray(made) == wanted).all()


@pytest.mark.parametrize("max_memory_bytes", [None, 100_000])
def test_numpy_through_the_gpu(max_memory_bytes: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if max_memory_bytes is not None:
        monkeypatch.setattr(host, "default_memory_bytes", lambda executor: max_memory_bytes)
    array = np.random.default_rng(0).random((64, 65, 66))
    for view in (array, array[:, ::-1], array[::2, 1::2], np.broadcast_to(array[:1], array.shape)):
        assert (relayout(view, (2, 0, 1), executor="cuda") == view.transpose(2, 0, 1)).all()
    np.save(tmp_path / "in.npy", array)
    outcome = files.relayout_file(tmp_path / "in.npy", tmp_path / "out.npy", "2,0,1", executor="cuda")
    assert (np.load(tmp_path / "out.npy") == array.transpose(2, 0, 1)).all() and outcome.seconds > 0
