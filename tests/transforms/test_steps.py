"""Drawn calls: their shapes are the shapes of what they give, and they print, compare and pickle."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from transforms.functional import cases

from fastpipe.errors import PlanError
from fastpipe.transforms import functional as F
from fastpipe.transforms.functional import InterpolationMode
from fastpipe.transforms.steps import Call
from fastpipe.types import ImageShape


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", cases.SIZES, ids=str)
def test_output_shape(size: tuple[int, int]) -> None:
    image = cases.pil_image("RGB", *size)
    for op, arguments in [
        *cases.geometry(*size),
        *cases.resizing(*size),
        *cases.colors(),
        *cases.filters(),
        *cases.warps(*size, 3),
        ("to_grayscale", {}),
    ]:
        call = Call.of(op, **arguments)
        if op in ("five_crop", "ten_crop"):
            with pytest.raises(PlanError, match="several images"):
                call.output_shape(ImageShape(*size))
            continue
        result = cases.outcome(call.apply, image)
        if not isinstance(result, Exception):
            channels, height, width = F.get_dimensions(result)
            assert call.output_shape(ImageShape(*size)) == (height, width, channels), str(call)


def test_apply_is_the_functional() -> None:
    array = cases.pixels(9, 7, 3)
    call = Call.of("crop", top=1, left=2, height=3, width=4)
    np.testing.assert_array_equal(call.apply(array), array[1:4, 2:6])
    assert call["left"] == 2


def test_printing() -> None:
    assert str(Call.of("hflip")) == "hflip()"
    resize = Call.of("resize", size=[224, 224], interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True)
    assert str(resize) == "resize(size=[224, 224], interpolation=bilinear, max_size=None, antialias=True)"
    rotate = Call.of("rotate", angle=-12.345678901, fill=(1, 2.5, 0.1 + 0.2))
    assert str(rotate) == "rotate(angle=-12.3457, fill=(1, 2.5, 0.3))"
    elastic = Call.of("elastic_transform", displacement=torch.zeros(1, 20, 30, 2))
    assert str(elastic) == "elastic_transform(displacement=<float32 1×20×30×2>)"


def test_equality_and_pickling() -> None:
    calls = [
        Call.of("hflip"),
        Call.of("crop", top=1, left=2, height=3, width=4),
        Call.of("resize", size=[3, 4], interpolation=InterpolationMode.BICUBIC),
        Call.of("elastic_transform", displacement=torch.rand(1, 3, 4, 2)),
        Call.of("elastic_transform", displacement=torch.rand(1, 3, 4, 2)),
        Call.of("other", values=np.arange(3)),
    ]
    for i, call in enumerate(calls):
        copy = pickle.loads(pickle.dumps(call))
        assert copy == call
        assert hash(copy) == hash(call)
        assert [call == other for other in calls] == [i == j for j in range(len(calls))]
    assert Call.of("hflip") != "hflip()"
