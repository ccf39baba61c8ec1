"""NumPy that is imported at first use behaves like the module."""

import copy
import pickle
from typing import Any
from unittest import mock

import numpy as np

from tilecopy_core.errors import np as lazy


def not_used_yet() -> Any:
    kind: Any = type(lazy)
    return kind()


def test_what_a_test_replaces_in_numpy_is_replaced_for_as_long() -> None:
    fresh, original = not_used_yet(), np.empty
    with mock.patch("numpy.empty"):
        assert fresh.empty is np.empty is not original
    assert fresh.empty is original
    with mock.patch("numpy.zeros") as replaced:
        assert fresh.zeros is replaced


def test_what_a_test_replaces_through_it_is_restored() -> None:
    fresh, original = not_used_yet(), np.ones
    with mock.patch.object(fresh, "ones") as replaced:
        assert np.ones is fresh.ones is replaced
    assert np.ones is fresh.ones is original


def test_copies_and_pickles_of_it_are_itself() -> None:
    assert lazy.float32 is np.float32
    assert copy.deepcopy(lazy) is copy.copy(lazy) is pickle.loads(pickle.dumps(lazy)) is lazy
