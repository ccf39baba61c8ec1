"""NumPy arrays, scalars and subclasses, and objects of other libraries that give arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilecopy import RequestError
from tilecopy_relayout import relayout
from tilecopy_test_helpers.mentions import mentions


def moved(array: Any, axes: Any = (1, 0), **arguments: Any) -> Any:
    return relayout(array, axes, executor="emulator", **arguments)


@pytest.mark.parametrize("dtype", ["f8", "i2", "?", "c16", "S3", "M8[s]", [("a", "i4"), ("b", "u1")]])
def test_scalars_are_arrays_of_no_dimensions(dtype: Any) -> None:
    """NumPy #13105: reductions and indexing give scalars, which numpy.transpose takes."""
    scalar = np.ones(3, dtype)[1]
    made = moved(scalar, " -> 1")
    assert made.shape == (1,) and made.dtype == scalar.dtype and made.tobytes() == scalar.tobytes()
    assert moved(scalar, ()).shape == ()
    with pytest.raises(RequestError, match=mentions("out")):
        moved(np.zeros((), scalar.dtype), (), out=scalar)


class Quantity(np.ndarray):
    """An array with a unit, as those of astropy, unyt and gwpy."""

    unit = ""

    def __array_finalize__(self, array: Any) -> None:
        self.unit = getattr(array, "unit", "")


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_subclass_keeps_its_class() -> None:
    """einops #152 and astropy #8281: a unit that is dropped in silence is a wrong number."""
    length = np.arange(6.0).reshape(2, 3).view(Quantity)
    length.unit = "m"
    made = moved(length, "a b -> b 1 a")
    assert type(made) is Quantity and made.unit == "m" and (made == np.asarray(length).T[:, None]).all()
    assert made.flags.c_contiguous and moved(length[:, ::2]).flags.c_contiguous
    assert type(moved(np.matrix([[1, 2, 3]]))) is np.matrix
    records = np.zeros((2, 3), [("a", "i4"), ("b", "u1")]).view(np.recarray)
    assert type(moved(records)) is np.recarray and moved(records).a.shape == (3, 2)
    assert type(moved(np.ones((2, 3)), out=np.zeros((3, 2)).view(Quantity))) is Quantity


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_subclass_that_cannot_have_the_shape_is_refused() -> None:
    with pytest.raises(RequestError, match="matrix"):
        moved(np.matrix([[1, 2, 3]]), "a b -> b 1 a")
    with pytest.raises(RequestError, match="matrix"):
        moved(np.matrix([[1, 2, 3]]), "a b -> (b a)")


def test_a_map_of_a_file_gives_memory(tmp_path: Any) -> None:
    np.save(tmp_path / "t.npy", np.arange(6).reshape(2, 3))
    assert type(moved(np.load(tmp_path / "t.npy", mmap_mode="r"))) is np.ndarray


def test_a_masked_out_is_refused_with_what_writes_into_it() -> None:
    """A filled copy is a temporary: the call would succeed and the array never change."""
    masked = np.ma.masked_array(np.zeros((3, 2)), mask=[[True, False]] * 3)
    with pytest.raises(RequestError, match=r"^out.*a\.data") as caught:
        moved(np.ones((2, 3)), out=masked)
    assert "filled" not in str(caught.value)
    moved(np.ones((2, 3)), out=masked.data)
    assert masked.data.sum() == 6
    with pytest.raises(RequestError, match=r"^array.*a\.filled"):
        moved(masked)


@pytest.mark.parametrize("sizes", [{"\N{MICRO SIGN}": 2}, {"\N{GREEK SMALL LETTER MU}": 2}])
@pytest.mark.parametrize("name", ["\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}"])
def test_names_are_normalized_as_python_normalizes_keywords(name: str, sizes: dict[str, int]) -> None:
    """einops #255: the key for micro and the Greek letter look the same."""
    array = np.arange(12.0).reshape(4, 3)
    assert (moved(array, f"({name} b) c -> c {name} b", **sizes) == array.reshape(2, 2, 3).transpose(2, 0, 1)).all()
    assert (moved(array, "(\ufb01 b) c -> c fi b", fi=2) == array.reshape(2, 2, 3).transpose(2, 0, 1)).all()
    both = {"\N{MICRO SIGN}": 2, "\N{GREEK SMALL LETTER MU}": 4}
    with pytest.raises(RequestError, match="\N{GREEK SMALL LETTER MU}=4"):
        moved(array, f"({name} b) c -> c {name} b", **both)


@pytest.mark.parametrize(
    "axes", ["2,0,1", "2 0 1", "(2, 0, 1)", "[2,0,1]", "2,0,1,", " ( 2,0,1, ) ", "-1 0 -2", "\uff12,0,1", "02,00,01"]
)
def test_spellings_of_a_permutation(axes: str) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    assert (moved(array, axes) == array.transpose(2, 0, 1)).all()


def test_spellings_of_one() -> None:
    for axes in ("a 01 b -> b a 1", "a \uff11 b -> b a 1", "\u2026 1 b -> b \u2026 1"):
        assert moved(np.ones((2, 1, 3)), axes).shape == (3, 2, 1)
    for axes in ("2,,0,1", "2,0 1", "(2,0,1", "a 10 b -> a b", "2;0;1", "--2,0,1"):
        with pytest.raises(RequestError, match="axes"):
            moved(np.ones((2, 3, 4)), axes)


class Interface:
    """An array by the protocol of NumPy, as PIL images have it."""

    def __init__(self, array: Any) -> None:
        self.array, self.__array_interface__ = array, array.__array_interface__


class Convertible:
    """An object that gives copies of its elements, as a pandas DataFrame, an h5py Dataset or a zarr Array does."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array.copy()


def test_objects_with_the_protocol_of_numpy_are_arrays() -> None:
    array = np.arange(6).reshape(2, 3)
    made = moved(Interface(array))
    assert type(made) is np.ndarray and (made == array.T).all()
    out = np.zeros((3, 2), array.dtype)
    moved(array, out=Interface(out))
    assert (out == array.T).all()
    out.flags.writeable = False
    with pytest.raises(RequestError, match=mentions("out")):
        moved(array, out=Interface(out))


def test_objects_that_give_copies_are_refused_with_what_to_pass() -> None:
    array = Convertible(np.arange(6).reshape(2, 3))
    with pytest.raises(RequestError, match=mentions("array", "Convertible", "np.asarray(a)")):
        moved(array)
    with pytest.raises(RequestError, match=mentions("out", "Convertible", "a[...]")):
        moved(np.ones((3, 2)), out=array)


def test_arrays_of_zarr_are_refused_with_the_way_to_dask() -> None:
    zarr = pytest.importorskip("zarr")
    with pytest.raises(RequestError, match=r"dask\.array\.from_zarr"):
        moved(zarr.array(np.ones((2, 3))))
