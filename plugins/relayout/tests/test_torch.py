"""torch tensors: the operator, its gradient, ``torch.compile``, ``torch.vmap``, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilecopy_test_helpers.mentions import mentions

torch = pytest.importorskip("torch")

from tilecopy import LaunchError, RequestError
from tilecopy_relayout import relayout
from tilecopy_test_helpers.programs import round_trip

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
        with pytest.raises(LaunchError, match=mentions(name, (8, 32))):
            kernel(*arguments, executor="emulator")
        with pytest.raises(LaunchError, match=mentions(name, (8, 32))):
            kernel.prepare(*arguments, executor="emulator")()


def test_a_fake_tensor_has_no_memory_for_a_kernel() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(8, 32)
    kernel = round_trip((8, 32), (8, 32), "float32", target="sm_80")
    with pytest.raises(LaunchError, match=mentions("A")):
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


def test_vmap_in_a_compiled_function_does_not_break_the_graph() -> None:
    torch._dynamo.reset()

    def turned(x: Any) -> Any:
        return torch.vmap(torch.vmap(lambda a: relayout(a.sin(), "a -> a 1", executor="emulator")), in_dims=1)(x)

    x, y = (X[..., :3].clone().requires_grad_() for _ in range(2))
    found = torch.compile(turned, backend="aot_eager", fullgraph=True)(x)
    wanted = y.sin().transpose(0, 1).unsqueeze(-1)
    assert found.equal(wanted)
    found.square().sum().backward()
    wanted.square().sum().backward()
    assert x.grad.equal(y.grad)


def test_a_compiled_function_is_right_in_a_transform_after_another() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda a: relayout(a, (1, 0), executor="emulator"), backend="aot_eager")
    for _ in range(2):
        assert torch.vmap(compiled)(X).equal(X.transpose(1, 2))
        assert torch.func.grad(lambda a: compiled(a).square().sum())(X[0].float()).equal(2 * X[0].float())
        assert torch.func.jvp(compiled, (X[0],), (X[1],))[1].equal(X[1].T)
        assert compiled(X[0]).equal(X[0].T)

    def into(a: Any) -> Any:
        return relayout(a, (1, 0), out=a.new_empty(a.shape[::-1]), executor="emulator")

    with pytest.raises(RequestError, match=mentions("out")):
        torch.compile(lambda a: torch.vmap(into)(a), backend="aot_eager")(X)


def test_symbolic_trace_records_the_operator_for_any_shape() -> None:
    def function(axes: Any, **arguments: Any) -> Any:
        return lambda a: relayout(a, axes, **arguments)

    for axes, sizes in (((1, 0), {}), ("a (b c) -> c b a", {"c": 2})):
        traced = torch.fx.symbolic_trace(function(axes, **sizes))
        for shape in ((2, 4), (3, 6)):
            x = torch.randn(*shape)
            wanted = x.T if not sizes else x.reshape(shape[0], -1, 2).permute(2, 1, 0)
            assert traced(x).equal(wanted)
    for wrong, value in (({"out": X}, "out"), ({"b": "two"}, "two")):
        with pytest.raises(RequestError, match=mentions(value)):
            torch.fx.symbolic_trace(function("a b c -> c b a", **wrong))


def test_functionalize_alone_works_and_with_another_transform_is_refused() -> None:
    def moved(a: Any) -> Any:
        return relayout(a, (1, 0), executor="emulator")

    functionalize, x = torch.func.functionalize, X[0]
    assert functionalize(moved)(x).equal(x.T)
    for both in (
        lambda a: functionalize(torch.vmap(moved))(a[None]),
        lambda a: torch.vmap(functionalize(moved))(a[None]),
    ):
        with pytest.raises(RequestError, match=mentions("torch.func.functionalize")):
            both(x)


def test_a_parameter_without_a_shape_is_refused() -> None:
    for where, call in (
        ("array", lambda: relayout(torch.nn.parameter.UninitializedParameter(), (1, 0))),
        ("out", lambda: relayout(X[0], (1, 0), out=torch.nn.parameter.UninitializedBuffer())),
    ):
        with pytest.raises(RequestError, match=mentions(where)):
            call()


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


# ------------------------------------------------------------------------------- what torch records and transforms


def turned(array: Any) -> Any:
    return relayout(array, (2, 0, 1), executor="emulator")


SMALL = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(2, 4, 3)


def split(array: Any) -> Any:
    return relayout(array, "a (b c) d -> (d a) c b", b=2, executor="emulator")


def split_by_torch(array: Any) -> Any:
    return array.reshape(2, 2, 2, 3).permute(3, 0, 2, 1).reshape(6, 2, 2)


@pytest.mark.parametrize("kind", ["tensor", "numpy", "view"])
def test_a_write_through_out_is_seen_by_autograd(kind: str) -> None:
    """PyTorch #23756: kernels that write by address must say so, else gradients are silently those of the new values."""
    weight, value = torch.ones(3, 2, requires_grad=True), torch.zeros(3, 2)
    loss = (weight * value).sum()
    source: Any = torch.full((2, 3), 5.0)
    out = value[:, :] if kind == "view" else value
    relayout(source.numpy() if kind == "numpy" else source, (1, 0), out=out, executor="emulator")
    assert value._version > 0
    with pytest.raises(RuntimeError, match=mentions(value._version)):
        loss.backward()


def test_a_write_through_out_is_seen_in_every_mode() -> None:
    value = torch.zeros(3, 2, requires_grad=True)
    loss = (value * value).sum()
    for number, array in enumerate((torch.ones(2, 3), torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)), start=1):
        with torch.no_grad():
            relayout(array, (1, 0), out=value, executor="emulator")
        assert value._version >= number
    with pytest.raises(RuntimeError, match=mentions(value._version)):
        loss.backward()
    with torch.inference_mode():
        assert relayout(torch.ones(2, 3), (1, 0), out=torch.zeros(3, 2), executor="emulator").sum() == 6
    empty = torch.zeros(0, 2)
    relayout(torch.zeros(2, 0), (1, 0), out=empty, executor="emulator")
    assert empty._version > 0


def test_forward_mode_derivatives() -> None:
    """PyTorch #71117: an operator without a forward formula gives derivatives of zero in silence."""
    forward_ad = torch.autograd.forward_ad
    tangent = torch.rand_like(SMALL)
    with forward_ad.dual_level():
        for dual in (
            forward_ad.make_dual(SMALL, tangent),
            forward_ad.make_dual(SMALL.clone().requires_grad_(), tangent),
        ):
            primal, derivative = forward_ad.unpack_dual(split(dual))
            assert primal.equal(split_by_torch(SMALL)) and derivative.equal(split_by_torch(tangent))
        assert forward_ad.unpack_dual(split(SMALL)).tangent is None
        with pytest.raises(RequestError, match="out="):
            relayout(forward_ad.make_dual(SMALL, tangent), (2, 0, 1), out=torch.zeros(3, 2, 4, dtype=SMALL.dtype))
    function = SMALL.clone().requires_grad_()
    assert torch.autograd.gradcheck(split, (function,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(split, (function,), check_fwd_over_rev=True, check_rev_over_rev=True)


def nonlinear(move: Any) -> Any:
    return lambda array: (move(array.sin()) ** 3).sum(0)


def scalar(move: Any) -> Any:
    return lambda array: (move(array.sin()) ** 3).sum()


def hessian_product(function: Any, array: Any) -> Any:
    return torch.func.jvp(torch.func.grad(function), (array,), (array.cos(),))[1]


def vmapped(transform: Any) -> Any:
    """A transform of a function of one row, over the rows of an array."""
    return lambda move: torch.vmap(transform(lambda row: (move(row[None].sin()) ** 3).sum()), in_dims=1)


TRANSFORMS = {
    "grad": lambda move: torch.func.grad(scalar(move)),
    "grad of grad": lambda move: torch.func.grad(lambda array: torch.func.grad(scalar(move))(array).pow(2).sum()),
    "jvp": lambda move: lambda array: torch.func.jvp(nonlinear(move), (array,), (array.cos(),)),
    "vjp": lambda move: lambda array: torch.func.vjp(scalar(move), array)[1](torch.ones((), dtype=array.dtype)),
    "jacrev": lambda move: torch.func.jacrev(nonlinear(move)),
    "jacfwd": lambda move: torch.func.jacfwd(nonlinear(move)),
    "hessian": lambda move: torch.func.hessian(scalar(move)),
    "jacrev of jacfwd": lambda move: torch.func.jacrev(torch.func.jacfwd(scalar(move))),
    "hessian product": lambda move: lambda array: hessian_product(scalar(move), array),
    "linearize": lambda move: lambda array: torch.func.linearize(nonlinear(move), array)[1](array.cos()),
    "vmap": lambda move: torch.vmap(move, in_dims=1, out_dims=1),
    "vmap of grad": lambda move: torch.vmap(torch.func.grad(scalar(move))),
    "grad of vmap": lambda move: torch.func.grad(lambda array: torch.vmap(nonlinear(move))(array).sum()),
    "vmap of vmap": lambda move: torch.vmap(torch.vmap(move, in_dims=2), in_dims=1),
    "functional": lambda move: lambda array: torch.autograd.functional.jacobian(nonlinear(move), array, vectorize=True),
    "forward functional": lambda move: (
        lambda array: torch.autograd.functional.jacobian(
            nonlinear(move), array, vectorize=True, strategy="forward-mode"
        )
    ),
    "constant": lambda move: torch.func.grad(
        lambda array: (move(torch.ones_like(array)) * move(SMALL)).sum() * array.sum()
    ),
}


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")  # torch.func.linearize's own
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions_give_what_permute_gives(name: str) -> None:
    """PyTorch #90067: an autograd.Function needs setup_context and a rule for vmap."""
    ours = lambda array: relayout(array, (*range(1, array.ndim), 0), executor="emulator")  # noqa: E731
    theirs = lambda array: array.permute(*range(1, array.ndim), 0)  # noqa: E731
    array = SMALL[None].expand(2, 2, 4, 3).contiguous() if "vmap" in name else SMALL
    found, wanted = (TRANSFORMS[name](move)(array) for move in (ours, theirs))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("transform_inside", [False, True])
def test_transforms_and_compilation_together(transform_inside: bool) -> None:
    """The graph breaks where an operator has no derivative of the kind; a tangent is never lost."""
    compiled = lambda function: torch.compile(function, backend="aot_eager")  # noqa: E731
    inner, outer = (lambda function: function, compiled) if transform_inside else (compiled, lambda function: function)
    torch._dynamo.reset()
    array = SMALL.sin()
    assert outer(lambda a: torch.func.jvp(inner(turned), (a,), (a,))[1])(array).equal(array.permute(2, 0, 1))
    assert outer(torch.func.grad(lambda a: inner(turned)(a).square().sum()))(array).equal(2 * array)
    assert outer(torch.vmap(inner(turned)))(array[None]).equal(array.permute(2, 0, 1)[None])
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(array, array)
        assert torch.autograd.forward_ad.unpack_dual(inner(outer(turned))(dual)).tangent.equal(array.permute(2, 0, 1))
    assert inner(outer(turned))(array).equal(array.permute(2, 0, 1))


def test_out_is_refused_in_a_transform() -> None:
    out = torch.zeros(3, 2)
    for transform, array in ((torch.func.grad, torch.ones(2, 3)), (torch.vmap, torch.ones(4, 2, 3))):
        with pytest.raises(RequestError, match="out="):
            transform(lambda a: relayout(a, (1, 0), out=out, executor="emulator").sum())(array)
    assert not out.any()
    constant = torch.ones(2, 3)
    seen = torch.func.grad(lambda a: relayout(constant, (1, 0), out=out, executor="emulator").sum() * a)
    assert seen(torch.tensor(2.0)) == 6 and out.sum() == 6


@pytest.mark.filterwarnings("ignore:.torch.jit.trace:DeprecationWarning")
@pytest.mark.parametrize("records", [False, True])
def test_a_trace_has_the_relayout_in_it(records: bool) -> None:
    """PyTorch #22329: what moves bytes by address must be an operator, or a trace returns memory that nobody wrote."""
    traced = torch.jit.trace(lambda x: split(x) + 1, SMALL.clone().requires_grad_(records))
    other = torch.randn_like(SMALL).requires_grad_(records)
    assert traced(other).equal(split_by_torch(other) + 1)
    assert "tilecopy::relayout" in str(traced.graph)
    into = torch.jit.trace(
        lambda x, out: relayout(x, [2, 0, 1], out=out, executor="emulator"),
        (SMALL, torch.zeros(3, 2, 4, dtype=SMALL.dtype)),
    )
    assert into(SMALL + 1, torch.zeros(3, 2, 4, dtype=SMALL.dtype)).equal((SMALL + 1).permute(2, 0, 1))


@pytest.mark.parametrize("records", [False, True])
def test_axes_may_be_tensors(records: bool) -> None:
    """PyTorch #97876: permutations come from torch.argsort."""
    x = SMALL.clone().requires_grad_(records)
    for axes in (
        torch.tensor([2, 0, 1]),
        torch.argsort(torch.tensor([1, 2, 0])),
        list(torch.tensor([-1, 0, 1])),
        np.array([2, 0, 1]),
    ):
        assert relayout(x, axes, executor="emulator").equal(x.permute(2, 0, 1))


@pytest.mark.parametrize("records", [False, True])
def test_tensors_of_shapes_alone(records: bool) -> None:
    x = torch.zeros(2, 4, 3, device="meta", requires_grad=records)
    assert split(x).shape == (6, 2, 2) and split(x).is_meta
    out = torch.zeros(3, 2, 4, device="meta")
    assert relayout(x.detach(), (2, 0, 1), out=out) is out
    with pytest.raises(RequestError, match=mentions("out", (3, 2, 4))):
        relayout(x.detach(), (0, 1, 2), out=out)
    with pytest.raises(RequestError, match="out"):
        relayout(x.detach(), (2, 0, 1), out=torch.zeros(3, 2, 4))
    with pytest.raises(RequestError, match="out"):
        relayout(torch.zeros(2, 4, 3), (2, 0, 1), out=out)
    with pytest.raises(RequestError, match=r"\(0, 0, 1\)"):
        relayout(x, (0, 0, 1))


def test_tangents_of_zeros_that_have_no_memory() -> None:
    """Forward-mode AD makes tensors of zeros without memory."""
    zeros = torch._efficientzerotensor((2, 4, 3), dtype=torch.float64)
    assert turned(zeros).equal(torch.zeros(3, 2, 4, dtype=torch.float64))


class Foreign(torch.Tensor):
    """A tensor of a class that takes torch's own operators alone."""

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return NotImplemented


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize(
    ("tensor", "instead"),
    [
        (lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged), "a.unbind()"),
        (lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)]), "a.unbind()"),
        (lambda: torch.masked.masked_tensor(torch.ones(2, 3), torch.ones(2, 3) > 0), "a.get_data()"),
        (lambda: torch.eye(3).to_sparse(), "a.to_dense()"),
        (lambda: torch.eye(3).to_sparse_csr(), "a.to_dense()"),
        (lambda: torch.eye(3).to_mkldnn(), "a.to_dense()"),
        (lambda: torch.ones(2, 3).as_subclass(Foreign), "plain tensor"),
    ],
    ids=["jagged", "nested", "masked", "sparse", "csr", "mkldnn", "foreign"],
)
def test_tensors_of_other_layouts_are_refused_with_what_to_pass(tensor: Any, instead: str, records: bool) -> None:
    """PyTorch #62027, #111254: torch's own errors ask for an issue there."""
    array = tensor()
    if records and array.layout is not torch._mkldnn:
        array.requires_grad_()
    with pytest.raises(RequestError) as caught:
        relayout(array, (1, 0), executor="emulator")
    assert str(caught.value).startswith("array") and instead in str(caught.value)
    with pytest.raises(RequestError) as caught, torch.no_grad():
        relayout(torch.ones(3, 2), (1, 0), out=tensor(), executor="emulator")
    assert str(caught.value).startswith("out") and instead in str(caught.value)
