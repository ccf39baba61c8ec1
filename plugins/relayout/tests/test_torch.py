"""torch tensors: the operator, its gradient, ``torch.compile``, ``torch.vmap``, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilecopy_test_helpers.mentions import mentions

torch = pytest.importorskip("torch")

from tilecopy import LaunchError, RequestError
from tilecopy_relayout import relayout
from tilecopy_testkit.programs import round_trip

X = torch.arange(4 * 6 * 10, dtype=torch.float64).reshape(4, 6, 10)
PATTERN = "a (b c) d -> (d a) c b"


def moved(array: Any) -> Any:
    return relayout(array, PATTERN, b=2, executor="emulator")


def expected(array: Any) -> Any:
    return array.reshape(4, 2, 3, 10).permute(3, 0, 2, 1).reshape(40, 3, 2)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.complex128]
)
def test_dtypes(dtype: Any) -> None:
    x = X.to(dtype)
    made = relayout(x[:, ::2], (2, 0, 1), executor="emulator")
    assert made.dtype == dtype and made.is_contiguous() and made.device == x.device
    assert made.view(torch.uint8).equal(x[:, ::2].permute(2, 0, 1).contiguous().view(torch.uint8))


def test_into_a_view() -> None:
    room = torch.zeros(10, 8, 6, dtype=X.dtype)
    out = room[:, ::2]
    assert relayout(X, (2, 0, 1), out=out, executor="emulator") is out
    assert out.equal(X.permute(2, 0, 1)) and not room[:, 1::2].any()
    with pytest.raises(RequestError, match=mentions("array")):
        relayout(X, (0, 1, 2), out=X, executor="emulator")
    with pytest.raises(RequestError):
        relayout(X[:2, :2, 0], (1, 0), out=torch.zeros(2, 1, dtype=X.dtype).expand(2, 2), executor="emulator")


def freed(shape: tuple[int, ...], *, left_bytes: int = 0, row: int = 0, turned: bool = False) -> Any:
    """A tensor whose storage was made smaller (PyTorch #195862: FSDP does so), from a row of its storage on."""
    tensor = torch.ones(shape[1], shape[0] + row).T[row:] if turned else torch.ones(shape[0] + row, shape[1])[row:]
    tensor.untyped_storage().resize_(left_bytes)
    return tensor


class Wrapper(torch.Tensor):
    """A tensor without a storage of its own (PyTorch #196019)."""

    @staticmethod
    def __new__(cls, shape: tuple[int, ...]) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float32)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return super().__torch_dispatch__(function, types, arguments, named or {})


WITHOUT_MEMORY = pytest.mark.parametrize(
    "without_memory",
    [
        freed,
        lambda shape: freed(shape, row=3),
        lambda shape: freed(shape, left_bytes=8),
        lambda shape: freed(shape, left_bytes=4 * 8 * 32 + 127, row=1),
        lambda shape: freed(shape, turned=True),
        Wrapper,
        lambda shape: freed(shape, turned=True, row=2, left_bytes=320),
    ],
    ids=["freed", "view of freed", "8 bytes left", "a byte missing", "turned", "wrapper", "turned view"],
)


@WITHOUT_MEMORY
def test_a_tensor_without_memory_is_refused(without_memory: Any) -> None:
    with pytest.raises(RequestError, match=r"array: .*\(8, 32\)"), torch.no_grad():
        relayout(without_memory((8, 32)), (1, 0), executor="emulator")
    source = torch.ones(32, 8)
    with pytest.raises(RequestError, match=r"out: .*\(8, 32\)"), torch.no_grad():
        relayout(source, (1, 0), out=without_memory((8, 32)), executor="emulator")


@WITHOUT_MEMORY
def test_a_kernel_refuses_a_tensor_without_memory(without_memory: Any) -> None:
    kernel = round_trip((8, 32), (8, 32), "float32", target="sm_80")
    for name, arguments in (
        ("A", (without_memory((8, 32)), torch.ones(8, 32))),
        ("B", (torch.ones(8, 32), without_memory((8, 32)))),
    ):
        with pytest.raises(LaunchError, match=rf"argument {name}: .*\(8, 32\)"):
            kernel(*arguments, executor="emulator")
        with pytest.raises(LaunchError, match=rf"argument {name}: .*\(8, 32\)"):
            kernel.prepare(*arguments, executor="emulator")()


def test_a_fake_tensor_has_no_memory_for_a_kernel() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(8, 32)
    kernel = round_trip((8, 32), (8, 32), "float32", target="sm_80")
    with pytest.raises(LaunchError, match="argument A"):
        kernel(fake, torch.ones(8, 32), executor="emulator")
    assert tuple(relayout(fake, (1, 0), executor="emulator").shape) == (32, 8)  # its shape alone is traced
    with pytest.raises((RequestError, AssertionError, RuntimeError)):
        relayout(torch.ones(32, 8), (1, 0), out=fake, executor="emulator")


def test_empty_tensors_need_no_memory() -> None:
    assert relayout(torch.ones(0, 8), (1, 0), executor="emulator").shape == (8, 0)
    whole = torch.ones(4, 8)[:0]
    whole.untyped_storage().resize_(0)
    assert relayout(whole, (1, 0), executor="emulator").shape == (8, 0)


def test_gradients() -> None:
    x = X.clone().requires_grad_()
    weight = torch.randn(40, 3, 2, dtype=X.dtype)
    (moved(x) * weight).sum().backward()
    y = X.clone().requires_grad_()
    (expected(y) * weight).sum().backward()
    assert x.grad.equal(y.grad)
    small = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    function = lambda a: relayout(a, "a (b c) d -> (d a) c b", b=2, executor="emulator")  # noqa: E731
    assert torch.autograd.gradcheck(function, (small,)) and torch.autograd.gradgradcheck(function, (small,))
    conjugated = torch.randn(2, 3, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: relayout(a, (1, 0), executor="emulator").conj(), (conjugated,))


def test_no_gradient_where_none_is_recorded() -> None:
    x = X.clone().requires_grad_()
    with torch.no_grad():
        assert not relayout(x, (2, 0, 1), executor="emulator").requires_grad
    assert relayout(x, (2, 0, 1), executor="emulator").requires_grad
    parameter = torch.nn.Parameter(X)
    assert relayout(parameter, (2, 0, 1), executor="emulator").grad_fn is not None
    with pytest.raises(RequestError):
        relayout(x, (2, 0, 1), out=torch.zeros(10, 4, 6, dtype=X.dtype), executor="emulator")
    with pytest.raises(RequestError, match=mentions("out.detach")):
        relayout(X, (0, 1, 2), out=torch.zeros_like(X).requires_grad_(), executor="emulator")


def test_the_operator_keeps_torchs_rules() -> None:
    relayout(X.clone().requires_grad_(), (0, 2, 1), executor="emulator")
    arguments = (X.clone().requires_grad_(), PATTERN, "b", [2], "emulator")
    torch.library.opcheck(torch.ops.tilecopy.relayout, arguments)
    out = torch.zeros(40, 3, 2, dtype=X.dtype)
    torch.library.opcheck(torch.ops.tilecopy.relayout_into, (X, out, PATTERN, "b", [2], "emulator"))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_does_not_break(dynamic: bool) -> None:
    torch._dynamo.reset()

    def function(x: Any) -> Any:
        turned = relayout(x * 2, (1, 0, 2), executor="emulator")
        return relayout(turned, "b a (d e) -> (e a) b d", d=5, executor="emulator") + 1

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for rows in (4, 7):
        x = torch.randn(rows, 6, 10, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        plain = (y * 2).reshape(rows, 6, 5, 2).permute(3, 0, 1, 2).reshape(2 * rows, 6, 5) + 1
        found = compiled(x)
        assert found.equal(plain)
        found.square().sum().backward()
        plain.square().sum().backward()
        assert x.grad.equal(y.grad)


def test_compile_with_out_and_without_stream() -> None:
    torch._dynamo.reset()
    out = torch.zeros(6, 4, 10, dtype=X.dtype)

    def function(x: Any, out: Any) -> Any:
        relayout(x + 1, (1, 0, 2), out=out, executor="emulator")
        return out * 2

    assert torch.compile(function, backend="aot_eager", fullgraph=True)(X, out).equal((X + 1).permute(1, 0, 2) * 2)
    assert out.equal((X + 1).permute(1, 0, 2))
    with pytest.raises(Exception, match=mentions("torch", "stream")):
        torch.compile(lambda x: relayout(x, (1, 0, 2), stream=0), backend="aot_eager", fullgraph=True)(X)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_vmap(dim: int) -> None:
    found = torch.vmap(lambda a: relayout(a, "p (q r) -> (r p) q", r=2, executor="emulator"), in_dims=dim)(X)
    parts = [p.reshape(p.shape[0], -1, 2).permute(2, 0, 1).flatten(0, 1) for p in X.unbind(dim)]
    assert found.equal(torch.stack(parts))


def test_tensors_that_torch_only_imagines() -> None:
    with torch._subclasses.FakeTensorMode() as mode:
        made = relayout(mode.from_tensor(X), (2, 0, 1), executor="emulator")
    assert tuple(made.shape) == (10, 4, 6) and type(made).__name__ == "FakeTensor"


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (lambda: torch.zeros(2, 2, dtype=torch.complex64).conj(), ("resolve_conj",)),
        (lambda: torch.zeros(2, 2, dtype=torch.complex64).conj().imag, ("resolve_neg",)),
        (lambda: torch.zeros(2, 2).to_sparse(), ()),
        (lambda: torch.zeros(2, 2, device="meta"), ("device",)),
        (lambda: torch.quantize_per_tensor(torch.zeros(2, 2), 0.1, 0, torch.qint8), ()),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_refused(tensor: Any, message: tuple[object, ...]) -> None:
    with pytest.raises(RequestError, match=mentions(*message)):
        relayout(tensor(), (1, 0), executor="emulator")


def test_numpy_out_of_a_tensor() -> None:
    out = np.zeros((10, 4, 6))
    relayout(X, (2, 0, 1), out=out, executor="emulator")
    assert (out == X.permute(2, 0, 1).numpy()).all()


def test_axes_are_refused_in_the_callers_words_where_gradients_are_recorded() -> None:
    x = X.clone().requires_grad_()
    for axes, message in (
        (5, ("axes", 5)),
        ((0, 0, 1), ("axes",)),
        ("a -> a", (1,)),
    ):
        with pytest.raises(RequestError, match=mentions(*message)):
            relayout(x, axes, executor="emulator")
    with pytest.raises(RequestError, match=mentions("executor", 5)):
        relayout(x, (2, 0, 1), executor=5)
    assert relayout(x, iter((2, 0, 1)), executor="emulator").shape == (10, 4, 6)
    scalar = torch.tensor(2.0, requires_grad=True)
    relayout(scalar, (), executor="emulator").backward()
    assert scalar.grad == 1


def test_sizes_that_follow_from_a_shape_are_compiled() -> None:
    torch._dynamo.reset()
    function = torch.compile(
        lambda x: relayout(x, "(a b) c -> b (c a)", b=x.shape[0] // 2, executor="emulator"),
        backend="aot_eager",
        fullgraph=True,
        dynamic=True,
    )
    for rows in (4, 10):
        x = torch.randn(rows, 3)
        assert function(x).equal(x.reshape(2, rows // 2, 3).permute(1, 2, 0).reshape(rows // 2, 6))
