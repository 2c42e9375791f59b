"""Programs that are kept with their jobs: any image, again and again, gets what it would get alone."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import torchvision
from transform_cases import picture

import fastpipe.transforms as T
from fastpipe.ops import HFlip, Invert, interned
from fastpipe.program import lower, run_on_image
from fastpipe.types import ImageShape

V = torchvision.transforms
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

pytestmark = pytest.mark.needs_core


def build(library: Any, gray: bool) -> Any:
    normalize = library.Normalize([0.1], [0.3]) if gray else library.Normalize(MEAN, STD)
    head = [library.RandomCrop(8, padding=3), library.RandomHorizontalFlip()]
    return library.Compose([*head, library.ToTensor(), normalize])


@settings(deadline=None, max_examples=25)
@given(
    size=st.tuples(st.integers(2, 20), st.integers(2, 20)),
    gray=st.booleans(),
    seeds=st.lists(st.integers(0, 3), min_size=2, max_size=6),
)
def test_calls_give_each_image_its_own_tensor(size: tuple[int, int], gray: bool, seeds: list[int]) -> None:
    ours, theirs = build(T, gray), build(V, gray)
    results = []
    for number, seed in enumerate(seeds):
        image = Image.fromarray(picture(*size, 1 if gray else 3, number))
        torch.manual_seed(seed)
        expected = theirs(image)
        for given_image in (image, np.asarray(image), np.asarray(image)[::-1][::-1]):
            torch.manual_seed(seed)
            results.append((ours(given_image), expected))
    for made, expected in results:  # behind all calls: no result shares memory with another
        assert torch.equal(made, expected)


def kept_program(shape: ImageShape) -> Any:
    steps = interned(HFlip()), interned(Invert())
    return lower(steps, shape)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_kept_program_takes_arrays_of_any_layout_and_images(channels: int) -> None:
    program = kept_program(ImageShape(5, 7, channels))
    assert program.memo is not None
    wide = picture(10, 21, channels)
    for array in (wide[:5, :7], wide[::2, ::3], wide[::-2, ::-3], np.asfortranarray(wide[:5, :7])):
        expected = 255 - array[:, ::-1]
        np.testing.assert_array_equal(run_on_image(program, array).reshape(expected.shape), expected)
        image = Image.fromarray(np.ascontiguousarray(array))
        image.info = {"a": 1}
        for _ in range(2):
            made = run_on_image(program, image)
            np.testing.assert_array_equal(np.asarray(made), expected)
            assert type(made) is Image.Image
            assert made.info == V.functional.invert(V.functional.hflip(image)).info


def test_an_image_whose_memory_is_of_another_size_is_not_read_as_if_it_were() -> None:
    program = kept_program(ImageShape(5, 7, 3))
    run_on_image(program, Image.new("RGB", (7, 5)))
    lying = Image.new("RGB", (3, 2))
    lying._size = (7, 5)
    assert program.memo.jobs[False].run_on(lying) is None


def test_what_is_kept_is_no_part_of_a_program() -> None:
    program = kept_program(ImageShape(5, 7, 3))
    run_on_image(program, Image.new("RGB", (7, 5)))
    assert program.memo.jobs
    assert program == program._replace(memo=type(program.memo)())
    assert not pickle.loads(pickle.dumps(program.memo)).jobs
    assert not copy.copy(program.memo).jobs
