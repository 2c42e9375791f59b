"""Fused steps against the steps that they stand for, and against torchvision on PIL images."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tv import torchvision

from fastpipe import transforms as T
from fastpipe.pipeline import compile_pipeline, plan_decode
from fastpipe.pipeline.fused import LookUp, ToNormalizedTensor, ToPlanarTensor, fuse_conversion, fuse_tables
from fastpipe.transforms.steps import Call
from fastpipe.types import ImageShape, Recipe

TF = torchvision.transforms.functional
EVERY_LEVEL = np.arange(256, dtype=np.uint8).reshape(8, 32)
IMAGE = np.stack([EVERY_LEVEL, EVERY_LEVEL[::-1], EVERY_LEVEL.T.reshape(8, 32)], -1)

look_ups = st.one_of(
    st.just(Call("invert")),
    st.builds(lambda bits: Call.of("posterize", bits=bits), st.integers(1, 8)),
    st.builds(lambda t: Call.of("solarize", threshold=t), st.floats(0, 256)),
    st.builds(lambda f: Call.of("adjust_brightness", brightness_factor=f), st.floats(0, 3)),
    st.builds(lambda g: Call.of("adjust_gamma", gamma=g, gain=1.0), st.floats(0.1, 3)),
)


@given(st.lists(look_ups, min_size=2, max_size=6))
def test_composed_table_equals_torchvision_one_by_one(calls):
    (fused,) = fuse_tables(calls)
    assert isinstance(fused, LookUp)
    expected = Image.fromarray(IMAGE)
    for call in calls:
        expected = getattr(TF, call.op)(expected, **dict(call.args))
    np.testing.assert_array_equal(fused.apply(IMAGE), np.asarray(expected))


def test_only_runs_of_look_ups_are_fused():
    invert, flip, posterize = Call("invert"), Call("hflip"), Call.of("posterize", bits=3)
    assert fuse_tables([invert, flip, posterize]) == (invert, flip, posterize)
    assert fuse_tables([invert, posterize, flip, invert]) == (LookUp((invert, posterize)), flip, invert)
    tensor = Call("to_tensor")
    assert fuse_tables([tensor, invert, posterize]) == (tensor, invert, posterize)


def test_arguments_that_are_refused_alone_are_refused_in_a_chain():
    chain = [Call("invert"), Call.of("posterize", bits=0)]
    assert fuse_tables(chain) == tuple(chain)


def run_plan(steps, image=IMAGE):
    plan = plan_decode(Recipe(ImageShape(*image.shape), tuple(steps)))
    for step in plan.steps:
        image = step.apply(image)
    return image, plan.steps


MEAN, STD = [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]
NORMALIZE = Call.of("normalize", mean=MEAN, std=STD, inplace=False)
TO_FLOAT = Call.of("convert_image_dtype", dtype=torch.float32)


@pytest.mark.parametrize(
    ("steps", "kinds"),
    [
        ([Call("to_tensor"), NORMALIZE], [ToNormalizedTensor]),
        ([Call("pil_to_tensor"), TO_FLOAT, NORMALIZE], [ToNormalizedTensor]),
        ([Call("pil_to_tensor")], [ToPlanarTensor]),
        ([Call("pil_to_tensor"), TO_FLOAT], [Call]),
        ([Call("to_tensor"), Call("hflip"), NORMALIZE], [Call, Call, Call]),
        ([Call("to_tensor"), Call.of("normalize", mean=[0.5], std=[0.25], inplace=False)], [ToNormalizedTensor]),
        ([Call("pil_to_tensor"), Call.of("convert_image_dtype", dtype=torch.float64)], [ToPlanarTensor, Call]),
        ([Call.of("rgb_to_grayscale", num_output_channels=1), Call("to_tensor")], [Call, Call]),
    ],
)
def test_conversions_equal_torchvision(steps, kinds):
    result, planned = run_plan(steps)
    assert [type(step) for step in planned] == kinds
    expected = Image.fromarray(IMAGE)
    for step in steps:
        expected = getattr(TF, step.op)(expected, **dict(step.args))
    assert result.dtype == expected.dtype
    assert torch.equal(result, expected)


@pytest.mark.parametrize("std", [[0.5, 0.0, 0.5], [0.5, 1e-60, 0.5], [0.5, 0.5]])
def test_arguments_that_normalize_refuses_are_left_to_it(std):
    steps = (Call("to_tensor"), Call.of("normalize", mean=MEAN, std=std, inplace=False))
    assert fuse_conversion(steps, 3) == steps


def test_gray_image_is_normalised_with_one_number():
    steps = [
        Call.of("rgb_to_grayscale", num_output_channels=1),
        Call("to_tensor"),
        Call.of("normalize", mean=[0.3], std=[0.2], inplace=False),
    ]
    result, planned = run_plan(steps)
    expected = TF.normalize(TF.to_tensor(TF.rgb_to_grayscale(Image.fromarray(IMAGE))), [0.3], [0.2])
    assert isinstance(planned[-1], ToNormalizedTensor)
    assert torch.equal(result, expected)


def test_a_subclass_that_draws_its_own_way_is_not_planned():
    class Corner(T.RandomCrop):
        @staticmethod
        def get_params(img, output_size):
            return 0, 0, *output_size

    pipeline = compile_pipeline(T.Compose([T.RandomHorizontalFlip(), Corner(4), T.ToTensor()]))
    assert len(pipeline.drawn) == 1
    assert isinstance(pipeline.rest[0], Corner)
