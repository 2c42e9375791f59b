"""Programs against the same steps run one by one on the whole image, and against torchvision on PIL images."""

from __future__ import annotations

import dataclasses
import io
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from torchvision_here import module, torchvision

from fastpipe import ops
from fastpipe import transforms as T
from fastpipe.ops import Crop, HFlip, Invert, LookUp, Pad, ToNormalizedTensor, ToPlanarTensor, VFlip
from fastpipe.program import Encoded, execute, lower
from fastpipe.program.lower import turns
from fastpipe.transforms.multi_view import MultiView
from fastpipe.transforms.pipeline import compile_pipeline
from fastpipe.types import Box, ImageShape, Recipe

TF = torchvision.transforms.functional


def numbered(height: int, width: int) -> np.ndarray[Any, Any]:
    """An image in which every pixel is unlike every other, so that no misplaced pixel goes unseen."""
    count = np.arange(height * width).reshape(height, width)
    return np.stack([count % 251, count // 251, np.full_like(count, 7)], -1).astype(np.uint8)


def run_all(steps: Any, image: Any) -> Any:
    for step in steps:
        image = step.apply(image)
    return image


def lowered(steps: Any, height: int = 23, width: int = 37) -> Any:
    """The program for the steps, after it was held to the steps."""
    image = numbered(height, width)
    program = lower(tuple(steps), ImageShape(height, width))
    box = program.box
    part = image[box.top : box.bottom, box.left : box.right]
    np.testing.assert_array_equal(run_all(program.all_steps, part), run_all(steps, image))
    return program


def pad(*padding: int, fill: int = 0, mode: str = "constant") -> Pad:
    return Pad(list(padding), fill, mode)


@pytest.mark.parametrize(
    ("steps", "box", "expected"),
    [
        ([Crop(0, 0, 23, 37)], None, []),
        ([Crop(3, 4, 10, 20), Crop(1, 2, 5, 6)], (4, 6, 5, 6), []),
        ([Crop(3, 4, 10, 20), Crop(-1, 2, 5, 6)], (3, 6, 4, 6), ["pad"]),
        ([Crop(3, 4, 10, 20), Crop(1, 2, 15, 6)], (4, 6, 9, 6), ["pad"]),
        ([Crop(30, 40, 10, 20)], None, ["crop"]),
        ([HFlip(), Crop(3, 4, 10, 20)], (3, 13, 10, 20), ["hflip"]),
        ([HFlip(), Crop(3, 30, 10, 20)], (3, 0, 10, 7), ["hflip", "pad"]),
        ([VFlip(), Crop(3, 4, 10, 20)], (10, 4, 10, 20), ["vflip"]),
        ([HFlip(), HFlip()], None, []),
        ([VFlip(), VFlip(), HFlip()], None, ["hflip"]),
        ([HFlip(), VFlip(), HFlip()], None, ["hflip", "vflip", "hflip"]),
        ([pad(4), Crop(4, 4, 23, 37)], None, []),
        ([pad(4), Crop(5, 6, 10, 11)], (1, 2, 10, 11), []),
        ([pad(4), Crop(3, 6, 10, 11)], (0, 2, 9, 11), ["pad"]),
        ([pad(2, 5), Crop(5, 2, 20, 30)], (0, 0, 20, 30), []),
        ([pad(1, 2, 3, 4, mode="reflect"), Crop(2, 1, 20, 30)], (0, 0, 20, 30), ["pad"]),  # for the fourth byte
        ([pad(1, 2, 3, 4, mode="edge"), Crop(2, 1, 24, 30)], None, ["pad", "crop"]),
        ([pad(0)], None, []),
        ([HFlip(), pad(4), Crop(5, 6, 10, 11)], (1, 24, 10, 11), ["hflip"]),
        ([ops.CenterCrop([10, 11])], (6, 13, 10, 11), []),
        ([ops.CenterCrop([30, 11])], (0, 13, 23, 11), ["pad"]),
        ([ops.CenterCrop([9, 9]), HFlip(), Crop(1, 1, 3, 4)], (8, 18, 3, 4), ["hflip"]),
        ([ops.Resize([23, 37]), HFlip()], None, ["hflip"]),
        ([ops.Resize([11, 17]), Crop(1, 1, 3, 4)], (1, 1, 8, 11), ["resize"]),
        ([Invert(), Crop(1, 1, 3, 4)], (1, 1, 3, 4), ["invert"]),
        ([ops.Equalize(), Crop(1, 1, 3, 4)], None, ["equalize", "crop"]),
        ([Crop(1, 1, 9, 9), ops.Equalize(), Crop(1, 1, 3, 4)], (1, 1, 9, 9), ["equalize", "crop"]),
    ],
)
def test_what_is_decoded_and_what_is_left_to_do(steps: Any, box: Any, expected: list[str]) -> None:
    program = lowered(steps)
    assert program.region == (None if box is None else Box(*box))
    assert [step.op for step in program.steps] == expected


boxes = st.builds(Box, st.integers(-3, 30), st.integers(-3, 40), st.integers(1, 30), st.integers(1, 40))
steps_ = st.one_of(
    st.sampled_from([HFlip(), VFlip(), Invert(), ops.Equalize(), ops.Posterize(3), ops.AdjustSaturation(1.7)]),
    boxes.map(lambda box: Crop(*box)),
    st.builds(
        lambda sides, mode: pad(*sides, mode=mode, fill=9),
        st.one_of(*(st.lists(st.integers(0, 6), min_size=n, max_size=n) for n in (1, 2, 4))),
        st.sampled_from(["constant", "edge"]),
    ),
    st.builds(lambda h, w: ops.CenterCrop([h, w]), st.integers(1, 30), st.integers(1, 40)),
    st.builds(lambda h, w, m: ops.Resize([h, w], m), st.integers(1, 30), st.integers(1, 40), st.integers(0, 5)),
)


@given(st.lists(steps_, max_size=7), st.integers(1, 29), st.integers(1, 31))
def test_any_chain_gives_the_same_pixels(steps: Any, height: int, width: int) -> None:
    program = lowered(steps, height, width)
    again = lower(program.steps, ImageShape(*program.box.size))
    assert again.region is None  # lowering what is lowered finds nothing more


def png(image: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


@given(st.integers(2, 8), st.lists(steps_, max_size=4), st.integers(1, 29), st.integers(1, 31))
def test_the_orientation_is_part_of_the_program(orientation: int, steps: Any, height: int, width: int) -> None:
    stored = numbered(height, width)
    picture = Image.fromarray(stored)
    exif = picture.getexif()
    exif[0x0112] = orientation
    upright = ImageOps.exif_transpose(picture)
    assert upright is not None
    expected = run_all(steps, np.asarray(upright))
    recipe = Recipe(ImageShape(upright.height, upright.width), tuple(steps))
    program = lower(recipe.steps, recipe.shape, orientation=orientation)
    assert program.shape == (height, width, 3)
    np.testing.assert_array_equal(execute(program, Encoded.of(png(stored))), expected)


def test_a_rotated_file_is_decoded_in_regions() -> None:
    program = lower((Crop(1, 2, 5, 6),), ImageShape(40, 30), orientation=6)
    assert program.box == (22, 1, 6, 5)
    assert [step.op for step in program.steps] == [step.op for step in turns(6)]


look_ups = st.one_of(
    st.just(Invert()),
    st.builds(ops.Posterize, st.integers(1, 8)),
    st.builds(ops.Solarize, st.floats(0, 256)),
    st.builds(ops.AdjustBrightness, st.floats(0, 3)),
    st.builds(ops.AdjustGamma, st.floats(0.1, 3)),
)
EVERY_LEVEL = np.arange(256, dtype=np.uint8).reshape(8, 32)
IMAGE = np.stack([EVERY_LEVEL, EVERY_LEVEL[::-1], EVERY_LEVEL.T.reshape(8, 32)], -1)


def on_pil(steps: Any) -> Any:
    expected: Any = Image.fromarray(IMAGE)
    for step in steps:
        expected = getattr(TF, step.op)(expected, **step.arguments())
    return expected


@given(st.lists(look_ups, min_size=2, max_size=6))
def test_composed_table_equals_torchvision_one_by_one(calls: Any) -> None:
    (fused,) = lower(tuple(calls), ImageShape(*IMAGE.shape)).steps
    assert isinstance(fused, LookUp)
    np.testing.assert_array_equal(fused.apply(IMAGE), np.asarray(on_pil(calls)))


def fused(*steps: Any) -> tuple[Any, ...]:
    return lower(steps, ImageShape(*IMAGE.shape)).all_steps


def test_only_runs_of_look_ups_are_fused() -> None:
    invert, flip, posterize = Invert(), HFlip(), ops.Posterize(3)
    assert fused(invert, flip, posterize) == (invert, flip, posterize)
    assert fused(invert, posterize, flip, invert) == (LookUp((invert, posterize)), flip, invert)
    assert fused(ops.ToTensor(), invert, posterize)[1:] == (invert, posterize)


@pytest.mark.parametrize("step", [ops.AdjustBrightness(-1.0), ops.Posterize(0)])
def test_arguments_that_are_refused_alone_are_refused_in_a_chain(step) -> None:
    chain = (Invert(), step)
    assert fused(*chain) == chain


MEAN, STD = [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]
NORMALIZE = ops.Normalize(MEAN, STD)
TO_FLOAT = ops.ConvertImageDtype(torch.float32)


@pytest.mark.parametrize(
    ("steps", "kinds"),
    [
        ([ops.ToTensor(), NORMALIZE], [ToNormalizedTensor]),
        ([ops.PilToTensor(), TO_FLOAT, NORMALIZE], [ToNormalizedTensor]),
        ([ops.PilToTensor()], [ToPlanarTensor]),
        ([ops.PilToTensor(), TO_FLOAT], [ToNormalizedTensor]),
        ([ops.ToTensor(), HFlip(), NORMALIZE], [HFlip, ToNormalizedTensor]),
        ([ops.PilToTensor(), VFlip(), HFlip()], [VFlip, HFlip, ToPlanarTensor]),
        ([ops.ToTensor(), ops.Normalize([0.5], [0.25])], [ToNormalizedTensor]),
        ([ops.PilToTensor(), ops.ConvertImageDtype(torch.float64)], [ToPlanarTensor, ops.ConvertImageDtype]),
        ([ops.RgbToGrayscale(1), ops.ToTensor()], [ops.RgbToGrayscale, ToNormalizedTensor]),
    ],
)
def test_conversions_equal_torchvision(steps: Any, kinds: Any) -> None:
    program = lower(tuple(steps), ImageShape(*IMAGE.shape))
    assert [type(step) for step in program.all_steps] == kinds
    expected = on_pil(steps)
    result = execute(program, Encoded.of(png(IMAGE)))
    assert result.dtype == expected.dtype
    assert torch.equal(result, expected)
    assert torch.equal(run_all(program.all_steps, IMAGE), expected)


@pytest.mark.parametrize("box", [(3, 4, 9, 8), (-3, 4, 9, 8)])
def test_a_crop_behind_the_conversion_is_decoded_alone(box: Any) -> None:
    steps = [ops.PilToTensor(), ops.Crop(*box), VFlip(), TO_FLOAT]
    program = lower(tuple(steps), ImageShape(*IMAGE.shape))
    assert program.box.height < IMAGE.shape[0] or program.box.width < IMAGE.shape[1]
    assert program.after == ()
    assert torch.equal(execute(program, Encoded.of(png(IMAGE))), on_pil(steps))


@pytest.mark.parametrize("std", [[0.5, 0.0, 0.5], [0.5, 1e-60, 0.5], [0.5, 0.5]])
def test_arguments_that_normalize_refuses_are_left_to_it(std: Any) -> None:
    steps = fused(ops.ToTensor(), ops.Normalize(MEAN, std))
    assert steps[1:] == (ops.Normalize(MEAN, std),)
    with pytest.raises((ValueError, RuntimeError)):
        run_all(steps, IMAGE)


def test_gray_image_is_normalised_with_one_number() -> None:
    steps = [ops.RgbToGrayscale(1), ops.ToTensor(), ops.Normalize([0.3], [0.2])]
    program = lower(tuple(steps), ImageShape(*IMAGE.shape))
    assert isinstance(program.conversion, ToNormalizedTensor)
    expected = TF.normalize(TF.to_tensor(TF.rgb_to_grayscale(Image.fromarray(IMAGE))), [0.3], [0.2])
    assert torch.equal(execute(program, Encoded.of(png(IMAGE))), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("channels_last", [False, True])
def test_the_result_goes_where_it_is_told_to(dtype: torch.dtype, channels_last: bool) -> None:
    steps = [ops.Resize([5, 9], 2), HFlip(), ops.ToTensor(), NORMALIZE]
    program = lower(tuple(steps), ImageShape(*IMAGE.shape))
    batch = torch.full((3, 5, 9, 3) if channels_last else (3, 3, 5, 9), 7, dtype=dtype)
    out = batch[1].permute(2, 0, 1) if channels_last else batch[1]
    assert execute(program, Encoded.of(png(IMAGE)), out) is out
    assert torch.equal(out, on_pil(steps).to(dtype))
    assert batch[0].eq(7).all()
    assert batch[2].eq(7).all()


def test_views_share_the_region_that_they_need_together() -> None:
    views = MultiView(T.Compose([T.RandomResizedCrop(12), T.ToTensor()]), 3)
    torch.manual_seed(0)
    recipe = compile_pipeline(views).draw(ImageShape(23, 37))
    program = lower(recipe.steps, recipe.shape)
    torch.manual_seed(0)
    expected = views(Image.fromarray(numbered(23, 37)))
    for made, wanted in zip(execute(program, Encoded.of(png(numbered(23, 37)))), expected, strict=True):
        assert torch.equal(made, wanted)


def test_a_subclass_that_draws_its_own_way_is_not_planned() -> None:
    class Corner(T.RandomCrop):
        @staticmethod
        def get_params(img: Any, output_size: Any) -> Any:
            return 0, 0, *output_size

    pipeline = compile_pipeline(T.Compose([T.RandomHorizontalFlip(), Corner(4), T.ToTensor()]))
    assert len(pipeline.drawn) == 1
    assert isinstance(pipeline.unplanned[0], Corner)


def test_a_program_prints_what_runs() -> None:
    program = lower((ops.Resize([20, 25]), Crop(5, 5, 10, 10), ops.ToTensor()), ImageShape(40, 50))
    text = (
        "decode rows 9–31, columns 9–31 → resize(size=[20, 25], interpolation=bilinear), rows 5–15, columns 5–15 alone"
    )
    assert str(program) == f"{text} → to_tensor()"


def test_what_is_kept_of_a_chain_is_what_it_comes_to_anew() -> None:
    """Operations that transforms draw again and again, and equal ones of which nothing is kept."""
    dtype = torch.get_default_dtype()
    fresh = ops.Resize([8, 9]), HFlip(), Invert(), ops.ToTensor(), NORMALIZE
    again = tuple(ops.interned(ops.REGISTRY[step.op](**step.arguments())) for step in fresh)
    heads: list[tuple[Any, ...]] = [(), (Crop(3, 4, 10, 20),), (Crop(-1, 4, 10, 20),), (Crop(0, 0, 8, 9),)]
    shapes = [ImageShape(23, 37), ImageShape(8, 9), ImageShape(23, 37, 1), ImageShape(10, 24)]
    try:
        for default in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(default)
            for head, shape, _ in itertools.product(heads, shapes, range(3)):
                expected = lower((*head, *fresh), shape)
                assert lower((*head, *again), shape) == expected
                assert (expected.conversion is None) == (default is torch.float64)
                drawn = ops.AdjustContrast(0.1 * head[0].left if head else 2.0)  # for this image alone
                expected = lower((*head, *fresh[:2], drawn, *fresh[2:]), shape)
                assert lower((*head, *again[:2], drawn, *again[2:]), shape) == expected
                assert drawn in expected.steps
    finally:
        torch.set_default_dtype(dtype)


def _anew(step: Any) -> Any:
    """An equal step of which nothing is kept."""
    return type(step)(*(getattr(step, one.name) for one in dataclasses.fields(step) if one.init))


@pytest.mark.parametrize("first", ["PILToTensor", "ToImage", "none"])
def test_what_is_kept_of_a_chain_on_tensors_is_what_it_comes_to_anew(first: str) -> None:
    """v2's work on a tensor, which runs ahead of the conversion; its memory's layout is said for each crop."""
    v2 = module("torchvision.transforms.v2")
    before = [] if first == "none" else [getattr(v2, first)()]
    chain = [v2.RandomCrop((5, 6)), v2.Resize((8, 9)), v2.RandomHorizontalFlip(1.0)]
    end = [v2.ToImage()] if first == "none" else []
    pipeline = compile_pipeline(v2.Compose([*before, *chain, *end, v2.ToDtype(torch.float32, scale=True)]))
    assert not pipeline.unplanned
    shapes = [ImageShape(23, 37), ImageShape(8, 9), ImageShape(23, 37, 1), ImageShape(10, 24), ImageShape(9, 1)]
    layouts = set()
    for number, shape in itertools.product(range(3), shapes):
        drawn = pipeline.steps(ImageShape(40, 40, shape.channels))
        place = next(place for place, step in enumerate(drawn) if isinstance(step, Crop))
        crops = [Crop(3, 0, 4, 1), Crop(3, 0, 4, shape.width), Crop(0, 0, 8, 9), Crop(-1, 0, 7, 4), Crop(0, 0, 1, 1)]
        for crop in crops:
            steps = (*drawn[:place], crop, *drawn[place + 1 :])
            made = lower(steps, shape)
            expected = lower(tuple(map(_anew, steps)), shape)
            assert made._replace(memo=None) == expected, (number, shape, crop)
            layouts.add(made.in_rows)
    assert layouts == ({True} if first == "none" else {False, True})


def test_kept_operations_run_as_fresh_ones_do() -> None:
    """For images of several sizes, in turns: what the core was given for one is right for the next."""
    kept_ = [ops.interned(step) for step in (ops.Resize([8, 9]), HFlip(), ops.Posterize(3), ops.Rotate(30.0), VFlip())]
    fresh = [ops.Resize([8, 9]), HFlip(), ops.Posterize(3), ops.Rotate(30.0), VFlip()]
    files = {size: Encoded.of(jpeg(numbered(*size))) for size in ((23, 37), (40, 31), (8, 9))}
    for order in (slice(None), slice(None, None, -1)):
        for _ in range(3):
            for size, encoded in files.items():
                made = [execute(lower(tuple(steps[order]), ImageShape(*size)), encoded) for steps in (kept_, fresh)]
                np.testing.assert_array_equal(*(np.array(image) for image in made))


def jpeg(image: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG")
    return file.getvalue()
