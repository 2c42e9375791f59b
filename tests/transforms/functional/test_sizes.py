"""Sizes worked out without pixels are the sizes of the images that the operations give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import torchvision

from fastpipe import ops
from fastpipe.ops import sizes
from fastpipe.transforms import functional as F
from fastpipe.types import ImageShape

R = torchvision.transforms.functional

LENGTHS = st.integers(1, 60)


def gray(height: int, width: int) -> Image.Image:
    return Image.fromarray(np.arange(height * width, dtype=np.uint32).astype(np.uint8).reshape(height, width))


@given(LENGTHS, LENGTHS, st.integers(1, 80), st.none() | st.integers(1, 99))
def test_resized_size_of_one_length(height: int, width: int, size: int, max_size: int | None) -> None:
    if max_size is not None and max_size <= size:
        with pytest.raises(ValueError, match="must be strictly greater"):
            sizes.resized_size(height, width, size, max_size)
        return
    expected = R._compute_resized_output_size((height, width), [size], max_size)
    assert list(sizes.resized_size(height, width, size, max_size)) == expected
    assert list(sizes.resized_size(height, width, (size,), max_size)) == expected


@given(LENGTHS, LENGTHS, st.integers(0, 70), st.integers(0, 70))
def test_center_crop_box(height: int, width: int, crop_height: int, crop_width: int) -> None:
    image = gray(height, width)
    expected = R.center_crop(image, [crop_height, crop_width])
    top, left, box_height, box_width = sizes.center_crop_box(height, width, [crop_height, crop_width])
    assert (box_height, box_width) == (crop_height, crop_width)
    np.testing.assert_array_equal(np.asarray(image.crop((left, top, left + box_width, top + box_height))), expected)


@given(
    LENGTHS,
    LENGTHS,
    st.floats(-800, 800) | st.sampled_from([0, 90, -90, 180, 270, 360, 45]),
    st.booleans(),
    st.none() | st.tuples(st.integers(-9, 70), st.integers(-9, 70)),
)
def test_rotated_size(height: int, width: int, angle: float, expand: bool, center: Any) -> None:
    result = R.rotate(gray(height, width), angle, expand=expand, center=center)
    turn = ops.Rotate(angle, expand=expand, center=center)
    assert turn.output_shape(ImageShape(height, width, 1)) == (result.height, result.width, 1)


@pytest.mark.parametrize("padding", [3, [3], (3,), [1, 2], (1, 2, 3, 4), [0, -1, 2, -3]])
def test_padding(padding: Any) -> None:
    left, top, right, bottom = sizes.padding_ltrb(padding)
    result = R.pad(gray(9, 8), padding)
    assert result.size == (left + 8 + right, top + 9 + bottom)
    np.testing.assert_array_equal(np.asarray(F.pad(gray(9, 8), padding)), np.asarray(result))


def test_padding_of_another_length() -> None:
    with pytest.raises(ValueError, match="not a 3 element tuple"):
        sizes.padding_ltrb([1, 2, 3])
