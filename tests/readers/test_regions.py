"""Regions against Pillow's whole image, for every chroma subsampling, place and size."""

from __future__ import annotations

import corpus
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpipe import readers
from fastpipe.errors import UnsupportedRequestError
from fastpipe.types import Box

KINDS = (*corpus.SUBSAMPLINGS, "gray", "progressive", "progressive-444", "progressive-gray")
SIZES = ((97, 131), (64, 96), (33, 200), (150, 31))


def _file(kind: str, size: tuple[int, int]) -> bytes:
    if kind.startswith("progressive"):
        return corpus.files()[f"jpeg-{kind}"]
    return corpus.jpeg(*size, kind)


FILES = {(kind, size): _file(kind, size) for kind in KINDS for size in SIZES}
WHOLE = {key: corpus.pillow_pixels(data) for key, data in FILES.items()}


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[str, tuple[int, int]], Box]:
    key = draw(st.sampled_from(sorted(FILES)))
    height, width = WHOLE[key].shape[:2]
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    return key, Box(top, left, draw(st.integers(1, height - top)), draw(st.integers(1, width - left)))


@given(case=boxes(), reader=st.sampled_from(readers.available_readers()))
@settings(max_examples=4 * settings.default.max_examples)
def test_a_region_is_bit_equal_to_pillows(case: tuple[tuple[str, tuple[int, int]], Box], reader: str) -> None:
    key, box = case
    pixels = readers.decode(FILES[key], box, reader=reader)
    np.testing.assert_array_equal(pixels, WHOLE[key][box.top : box.bottom, box.left : box.right])


@pytest.mark.parametrize(
    "region",
    [(-1, 0, 5, 5), (0, -1, 5, 5), (0, 0, 0, 5), (0, 0, 5, 0), (0, 0, 98, 5), (93, 0, 5, 5), (0, 127, 5, 5), (0, 0, 5)],
)
def test_a_region_outside_names_itself_and_the_image(region: tuple[int, ...]) -> None:
    data = corpus.files()["jpeg-420"]
    with pytest.raises(UnsupportedRequestError) as caught:
        readers.read_image(data, region=region)
    assert "97×131" in str(caught.value)
    assert str(region) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("region", [(0.5, 0, 5, 5), ("a", 0, 5, 5), 7])
def test_a_region_of_something_else_is_refused(region: object) -> None:
    with pytest.raises(UnsupportedRequestError, match="whole pixels"):
        readers.read_image(corpus.files()["png-rgb"], region=region)
