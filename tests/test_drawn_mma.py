"""Some of the draws of drawn_mma.py on the emulator: types, shapes, majors and swizzles of products of matrices."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_mma import one

DRAWS = 100
"""As many as it takes for each form and layout to come."""


@pytest.mark.parametrize("part", range(5))
def test_drawn_products_equal_numpy(part: int) -> None:
    with np.errstate(invalid="ignore"):
        for number in range(part, DRAWS, 5):
            one(number, "emulator")
