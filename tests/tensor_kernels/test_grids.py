"""Where the pixels of warped tensors come from: the fast way gives the bits of torch's product of matrices."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastpipe.tensor_kernels import grids

SIDES = st.integers(1, 300)


@given(height=SIDES, width=SIDES, new_height=SIDES, new_width=SIDES, seed=st.integers(0, 10**6))
def test_both_ways_give_the_same_grid(height: int, width: int, new_height: int, new_width: int, seed: int) -> None:
    if not grids.products_are_sums():
        pytest.skip("this torch rounds products of matrices otherwise")
    theta = torch.randn(1, 2, 3, generator=torch.Generator().manual_seed(seed)) * torch.tensor([1.0, 1.0, 40.0])
    found = grids.affine_grid(theta, width, height, new_width, new_height)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grids, "products_are_sums", lambda: False)
        assert torch.equal(found, grids.affine_grid(theta, width, height, new_width, new_height))


def test_another_float_takes_torchs_product() -> None:
    theta = torch.tensor([[[1.0, 0.2, 3.0], [0.0, 1.5, -2.0]]], dtype=torch.float64)
    grid = grids.affine_grid(theta, 7, 5, 7, 5)
    assert grid.dtype == torch.float64
    torch.testing.assert_close(grid.float(), grids.affine_grid(theta.float(), 7, 5, 7, 5))
