"""Each planner rule, and all of them together, against the same steps run one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpipe.pipeline.rules import crop_call, rewrite
from fastpipe.transforms.steps import Call
from fastpipe.types import Box, ImageShape


def numbered(height: int, width: int) -> np.ndarray:
    """An image in which every pixel is unlike every other, so that no misplaced pixel goes unseen."""
    count = np.arange(height * width).reshape(height, width)
    return np.stack([count % 251, count // 251, np.full_like(count, 7)], -1).astype(np.uint8)


def run_all(steps, image):
    for step in steps:
        image = step.apply(image)
    return image


def same(steps, height=23, width=37):
    image = numbered(height, width)
    planned = rewrite(steps, ImageShape(height, width))
    np.testing.assert_array_equal(run_all(planned, image), run_all(steps, image))
    return [step.op for step in planned]


HFLIP, VFLIP = Call("hflip"), Call("vflip")


def crop(*box):
    return crop_call(Box(*box))


def pad(*padding, fill=0, mode="constant"):
    return Call.of("pad", padding=list(padding), fill=fill, padding_mode=mode)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([crop(0, 0, 23, 37)], []),
        ([crop(3, 4, 10, 20), crop(1, 2, 5, 6)], ["crop"]),
        ([crop(3, 4, 10, 20), crop(-1, 2, 5, 6)], ["crop", "crop"]),
        ([crop(3, 4, 10, 20), crop(1, 2, 15, 6)], ["crop", "crop"]),
        ([HFLIP, crop(3, 4, 10, 20)], ["crop", "hflip"]),
        ([HFLIP, crop(3, 30, 10, 20)], ["crop", "hflip"]),
        ([VFLIP, crop(3, 4, 10, 20)], ["crop", "vflip"]),
        ([HFLIP, HFLIP], []),
        ([VFLIP, VFLIP, HFLIP], ["hflip"]),
        ([HFLIP, VFLIP, HFLIP], ["hflip", "vflip", "hflip"]),
        ([pad(4), crop(4, 4, 23, 37)], []),
        ([pad(4), crop(5, 6, 10, 11)], ["crop"]),
        ([pad(4), crop(3, 6, 10, 11)], ["pad", "crop"]),
        ([pad(2, 5), crop(5, 2, 20, 30)], ["crop"]),
        ([pad(1, 2, 3, 4, mode="reflect"), crop(2, 1, 20, 30)], ["crop"]),
        ([pad(1, 2, 3, 4, mode="edge"), crop(2, 1, 24, 30)], ["pad", "crop"]),
        ([pad(0)], []),
        ([HFLIP, pad(4), crop(5, 6, 10, 11)], ["crop", "hflip"]),
        ([Call.of("center_crop", output_size=[10, 11])], ["crop"]),
        ([Call.of("center_crop", output_size=[30, 11])], ["center_crop"]),
        ([Call.of("center_crop", output_size=[9, 9]), HFLIP, crop(1, 1, 3, 4)], ["crop", "hflip"]),
        ([Call.of("resize", size=[23, 37]), HFLIP], ["hflip"]),
        ([Call.of("resize", size=[11, 17]), crop(1, 1, 3, 4)], ["resize", "crop"]),
        ([Call("invert"), crop(1, 1, 3, 4)], ["invert", "crop"]),
    ],
)
def test_rule(steps, expected):
    assert same(steps) == expected


boxes = st.builds(Box, st.integers(-3, 30), st.integers(-3, 40), st.integers(1, 30), st.integers(1, 40))
calls = st.one_of(
    st.sampled_from([HFLIP, VFLIP, Call("invert")]),
    boxes.map(crop_call),
    st.builds(
        lambda sides, mode: pad(*sides, mode=mode, fill=9),
        st.one_of(*(st.lists(st.integers(0, 6), min_size=n, max_size=n) for n in (1, 2, 4))),
        st.sampled_from(["constant", "edge"]),
    ),
    st.builds(lambda h, w: Call.of("center_crop", output_size=[h, w]), st.integers(1, 30), st.integers(1, 40)),
)


@given(st.lists(calls, max_size=7), st.integers(1, 29), st.integers(1, 31))
def test_any_chain_gives_the_same_pixels(steps, height, width):
    same(steps, height, width)


def test_rewriting_twice_changes_nothing_more():
    steps = [HFLIP, pad(4), crop(5, 6, 10, 11), VFLIP, crop(1, 1, 5, 5)]
    once = rewrite(steps, ImageShape(23, 37))
    assert rewrite(once, ImageShape(23, 37)) == once
