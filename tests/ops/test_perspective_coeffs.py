"""The coefficients of a perspective: torchvision's, bit for bit, whatever numbers the points are."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torchvision_here import torchvision

from fastpipe.ops.matrices import perspective_coeffs

NUMBERS = st.one_of(st.integers(-3, 5000), st.floats(-3, 5000, width=32), st.floats(-3, 5000))
POINTS = st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=4, max_size=4)
CORNERS = [[0, 0], [5000, 0], [5000, 4001], [0, 4001]]


@given(POINTS, POINTS)
@example(CORNERS, [[17, 12], [4900, 3], [4990, 3900], [1, 4000]])
@example(CORNERS, [[17, 12.1], [4900, 3], [4990, 3900], [1, 4000]])
def test_coefficients_are_torchvisions(start: Any, end: Any) -> None:
    made = []
    for function in (perspective_coeffs, torchvision.transforms.functional._get_perspective_coeffs):
        try:
            made.append(torch.tensor(function(start, end)))
        except RuntimeError as error:
            made.append(str(error))
    mine, theirs = made
    if isinstance(theirs, str):
        assert mine == theirs
    else:
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
