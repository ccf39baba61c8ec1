"""``relayout`` of NumPy and JAX arrays on the host, against ``numpy.transpose``, by bits."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import LaunchError, RequestError
from tilecopy_relayout import relayout
from tilecopy_test_helpers.mentions import mentions

DTYPES = ["u1", "?", "f2", "i4", ">f4", "M8[s]", "f8", "c8", "c16", "V3", "U3", "S5", "V32", [("x", "u1"), ("y", "f4")]]


def filled(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Random bytes: NaN payloads, -0 and denormals among them."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    return np.random.default_rng(size).integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@st.composite
def views(draw: st.DrawFn) -> np.ndarray:
    """An array that slices, reversals, broadcasts and padding have made of another."""
    rank = draw(st.integers(0, 5))
    shape = [draw(st.integers(0, 4)) for _ in range(rank)]
    step = [draw(st.sampled_from([1, 1, 2, -1, -3, 0])) for _ in range(rank)]
    pad = [draw(st.integers(0, 2)) for _ in range(rank)]
    base = filled(
        tuple(1 if s == 0 else e * abs(s) + p for e, s, p in zip(shape, step, pad, strict=True)),
        draw(st.sampled_from(DTYPES)),
    )
    sliced = base[(*(slice(None, None, s or None) for s in step), ...)]
    sliced = sliced[(*(slice(0, e) for e in shape), ...)]
    view = np.broadcast_to(sliced, shape) if 0 not in shape else sliced
    return view.transpose(draw(st.permutations(range(rank))))


@given(views(), st.data())
def test_every_permutation_of_every_view(array: np.ndarray, data: st.DataObject) -> None:
    axes = tuple(data.draw(st.permutations(range(array.ndim))))
    made = relayout(array, axes, executor="emulator")
    assert type(made) is np.ndarray and made.flags.c_contiguous and made.dtype == array.dtype
    assert made.shape == array.transpose(axes).shape and bits(made) == bits(array.transpose(axes))
    assert not np.shares_memory(made, array)


@given(views(), st.data())
def test_into_every_view(array: np.ndarray, data: st.DataObject) -> None:
    axes = tuple(data.draw(st.permutations(range(array.ndim))))
    steps = [data.draw(st.sampled_from([1, 2, -1, -2])) for _ in axes]
    room = filled(tuple(array.shape[a] * abs(s) + 1 for a, s in zip(axes, steps, strict=True)), array.dtype)
    place = (
        *(
            slice(0, array.shape[a] * s, s) if s > 0 else slice(array.shape[a] * -s, 0, s)
            for a, s in zip(axes, steps, strict=True)
        ),
        ...,
    )
    expected = room.copy()
    expected[place] = array.transpose(axes)
    out = room[place]
    assert relayout(array, axes, out=out, executor="emulator") is out
    assert bits(room) == bits(expected)


def test_patterns_of_a_view_into_a_view() -> None:
    array, room = filled((4, 12, 10), "f4")[:, ::-1, ::2], np.zeros((2 * 5, 48), "f4")
    out = room[::2, ::-1]
    relayout(array, "(a b) (h p) w -> w (b h a p)", b=2, p=2, out=out, executor="emulator")
    assert bits(out) == bits(array.reshape(2, 2, 6, 2, 5).transpose(4, 1, 2, 0, 3).reshape(5, 48))
    assert not room[1::2].any()


@pytest.mark.parametrize("dtype", ["f4", "c16", "V12"])
def test_misaligned_elements(dtype: str) -> None:
    itemsize = np.dtype(dtype).itemsize
    memory = filled((30 * itemsize + 3,), "u1")
    array = memory[3:].view(dtype).reshape(5, 6)
    assert bits(relayout(array, (1, 0), executor="emulator")) == bits(array.T)
    field = filled((5, 6), [("pad", "u1"), ("x", "f4")])["x"]
    assert bits(relayout(field, (1, 0), executor="emulator")) == bits(field.T)


def test_what_does_nothing_is_still_new_memory() -> None:
    scalar, empty, plain = np.array(-0.0), np.zeros((3, 0, 2)), np.arange(6.0).reshape(2, 3)
    assert bits(relayout(scalar, (), executor="emulator")) == bits(scalar)
    assert relayout(scalar, "-> 1", executor="emulator").shape == (1,)
    assert relayout(empty, (2, 0, 1), executor="emulator").shape == (2, 3, 0)
    same = relayout(plain, (0, 1), executor="emulator")
    assert (same == plain).all() and not np.shares_memory(same, plain)


def test_special_values_arrive_as_they_were() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    nan = np.array([0x7F800001, 0x7FC01234, 0x80000000, 0xFFFFFFFF], "u4").view("f4").reshape(2, 2)
    assert bits(relayout(nan, (1, 0), executor="emulator")) == bits(nan.T)
    small = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).reshape(16, 16)
    made = relayout(small, (1, 0), executor="emulator")
    assert made.dtype == small.dtype and bits(made) == bits(small.T)
    four = np.arange(16).astype(ml_dtypes.int4).reshape(2, 8)
    assert bits(relayout(four, (1, 0), executor="emulator")) == bits(four.T)


A = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (A, {"out": A.reshape(6, 4)}, ("array",)),
        (A[:, :4], {"out": A[:, 2:].T}, ("array",)),
        (A, {"out": np.broadcast_to(np.zeros(4, "f4"), (6, 4))}, ()),
        (
            A,
            {"out": np.lib.stride_tricks.as_strided(np.zeros(9, "f4"), (6, 4), (4, 4))},
            (6, 4),
        ),
        (A, {"out": np.zeros((4, 6), "f4")}, (4, 6)),
        (A, {"out": np.zeros((6, 4), "i4")}, ("dtype", "int32", "array", "float32")),
        (A, {"out": np.zeros((6, 4), ">f4")}, ("dtype", "f4", "array", "float32")),
        (A, {"out": [[0.0] * 4] * 6}, ("array",)),
        (A, {"executor": "gpu"}, ("gpu", "executor")),
        ([[1, 2]], {}, ("array",)),
        (np.float32(3), {}, ("axes", (1, 0))),
        (np.array([["a", None]]), {}, ("dtype",)),
        (np.ma.masked_array(A, A > 3), {}, ("array",)),
    ],
)
def test_what_is_refused(array: Any, options: dict[str, Any], message: tuple[object, ...]) -> None:
    before = A.copy()
    with pytest.raises(RequestError, match=mentions(*message)):
        relayout(array, (1, 0), **{"executor": "emulator"} | options)
    assert (before == A).all()


@pytest.mark.parametrize("stream", ["x", object(), -1, True])
def test_a_stream_is_one_for_host_arrays_too(stream: Any) -> None:
    """As a call of a kernel on the emulator refuses it."""
    with pytest.raises(LaunchError, match=mentions("stream", "cuda.core")):
        relayout(A, (1, 0), executor="emulator", stream=stream)
    assert bits(relayout(A, (1, 0), executor="emulator", stream=7)) == bits(A.T)


def test_neighbours_in_one_memory_are_no_overlap() -> None:
    room = np.arange(48, dtype=np.float32)
    even, odd = room[::2].reshape(4, 6), room[1::2].reshape(6, 4)
    expected = even.T.copy()
    relayout(even, (1, 0), out=odd, executor="emulator")
    assert (odd == expected).all() and (even == expected.T).all()


# ----------------------------------------------------------------------------------------------------------- JAX


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int8", "bool", "complex64"])
def test_jax(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    with jax.default_device(jax.devices("cpu")[0]):
        array = jax.numpy.arange(24).astype(dtype).reshape(2, 3, 4)
    made = relayout(array, "a b (c d) -> d b (a c)", d=2, executor="emulator")
    expected = np.asarray(array).reshape(2, 3, 2, 2).transpose(3, 1, 0, 2).reshape(2, 3, 4)
    assert isinstance(made, jax.Array) and made.dtype == array.dtype and made.devices() == array.devices()
    assert bits(np.asarray(made)) == bits(expected)


def test_jax_refusals() -> None:
    jax = pytest.importorskip("jax")
    array = jax.numpy.zeros((2, 3))
    with pytest.raises(RequestError):
        relayout(array, (1, 0), out=jax.numpy.zeros((3, 2)), executor="emulator")
    with pytest.raises(RequestError, match=mentions("jax.jit")):
        jax.jit(lambda x: relayout(x, (1, 0), executor="emulator"))(array)


def test_importing_the_package_imports_no_framework() -> None:
    import subprocess

    code = (
        "import sys, tilecopy_relayout; "
        "print([m for m in ('torch', 'jax', 'cupy', 'dask', 'click', 'cuda') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [np.array([1, 2]), object(), 3, "emulater"])
def test_an_executor_is_one_of_two_names(name: Any) -> None:
    with pytest.raises(RequestError, match=mentions("executor")):
        relayout(np.zeros((4, 6), np.float32), (1, 0), executor=name)
