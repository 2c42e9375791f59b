"""Recipes for detection on samples with boxes: torchvision's samples and end states, without its tensors in between."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision.transforms.v2 as theirs
from PIL import Image
from torchvision import tv_tensors
from v2_pipelines import same

from fastpipe.ops import TensorShape, tensor_operation
from fastpipe.ops.before_tensor import TensorPad
from fastpipe.transforms import v2

FORMATS = ["XYXY", "XYWH", "CXCYWH"]
COLOURS = {tv_tensors.Image: (123.0, 117.0, 104.0), "others": 0}
LARGE = corpus.photo(271, 303)  # of more gray values than float32 adds up without rounding


def boxes(seed: int, height: int, width: int, count: int, format: str, dtype: torch.dtype = torch.float32) -> Any:
    """Boxes inside and across an image's edges, as large as it, of no area, infinite and NaN."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        left, top = rng.uniform(-5, width), rng.uniform(-5, height)
        box = [left, top, rng.uniform(left - 2, width + 5), rng.uniform(top - 2, height + 5)]
        odd = rng.random()
        if odd < 0.2:
            box = [0.0, 0.0, width / (1 if odd < 0.1 else 2), height]
        elif odd < 0.25:
            box[2] = left
        elif odd < 0.28:
            box[rng.randrange(4)] = float("nan" if odd < 0.27 else "inf")
        made.append(box)
    corners = torch.tensor(made, dtype=torch.float64).reshape(-1, 4).to(dtype)
    found = tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=(height, width))  # type: ignore[call-overload]
    return theirs.functional.convert_bounding_box_format(found, new_format=tv_tensors.BoundingBoxFormat[format])


def outcome(call: Callable[[], Any]) -> tuple[Any, torch.Tensor]:
    try:
        made = call()
    except Exception as error:
        made = type(error).__name__, str(error)
    return made, torch.get_rng_state()


CROPS: list[dict[str, Any]] = [
    {},
    {"min_scale": 0.1, "max_scale": 0.9, "min_aspect_ratio": 0.3, "trials": 7},
    {"sampler_options": [0.3, 0.95, 1]},
    {"min_scale": 0.0, "max_scale": 1.3},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.float16])
def test_iou_crops_are_torchvision_s(dtype: torch.dtype) -> None:
    drawn = 0
    for seed in range(90):
        rng = random.Random(seed)
        height, width = rng.randint(1, 700), rng.randint(1, 900)
        count, format = rng.choice([0, 1, 2, 5, 20]), rng.choice(FORMATS)
        image, options = tv_tensors.Image(torch.zeros(1, height, width)), rng.choice(CROPS)
        found = []
        for library in (v2, theirs):
            torch.manual_seed(seed)
            given = [image, boxes(seed, height, width, count, format, dtype)]
            found.append(outcome(lambda: library.RandomIoUCrop(**options).make_params(given)))  # noqa: B023
        assert same(*found)
        drawn += isinstance(found[0][0], dict) and bool(found[0][0])
    assert drawn > 20


def test_iou_crops_of_upright_boxes_make_no_tensor_for_each_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theirs.RandomIoUCrop, "make_params", None)
    crop = theirs.RandomIoUCrop()
    transform = v2.Compose([crop, v2.ToImage()])
    image, found = Image.fromarray(LARGE), boxes(0, *LARGE.shape[:2], 5, "XYWH")
    made, _ = transform(image, found)
    assert isinstance(made, tv_tensors.Image)


def test_a_default_dtype_or_device_is_torchvision_s_business() -> None:
    for set_default, value, usual in (
        (torch.set_default_dtype, torch.float64, torch.float32),
        (torch.set_default_device, "meta", None),
    ):
        set_default(value)  # type: ignore[operator]
        try:
            found = []
            for library in (v2, theirs):
                torch.manual_seed(3)
                image, given = tv_tensors.Image(torch.zeros(1, 90, 80)), boxes(1, 90, 80, 4, "XYXY")
                found.append(outcome(lambda: library.RandomIoUCrop().make_params([image, given])))  # noqa: B023
        finally:
            set_default(usual)  # type: ignore[operator]
        assert same(*found)


def ssd(library: Any) -> list[Any]:
    return [
        library.ToImage(),
        library.RandomPhotometricDistort(),
        library.RandomZoomOut(fill=COLOURS),
        library.RandomIoUCrop(),
        library.RandomHorizontalFlip(p=0.5),
        library.Resize((60, 75), antialias=True),
        *ending(library),
    ]


def ssdlite(library: Any) -> list[Any]:
    return [library.RandomIoUCrop(), library.RandomHorizontalFlip(p=0.5), library.ToImage(), *ending(library)]


def multiscale(library: Any) -> list[Any]:
    sizes = library.RandomShortestSize((48, 70, 101), max_size=133)
    return [sizes, library.RandomHorizontalFlip(p=0.5), library.ToImage(), *ending(library)]


def jittered(library: Any) -> list[Any]:
    """Large-scale jitter, on a tensor."""
    return [library.ToImage(), library.ScaleJitter((90, 110)), library.ClampBoundingBoxes(), *ending(library)]


def ending(library: Any) -> list[Any]:
    return [
        library.ToDtype(torch.float, scale=True),
        library.ConvertBoundingBoxFormat("XYXY"),
        library.SanitizeBoundingBoxes(),
        library.ToPureTensor(),
    ]


@pytest.mark.parametrize("library", [v2, theirs], ids=["ours", "held"])
@pytest.mark.parametrize("recipe", [ssd, ssdlite, multiscale, jittered])
def test_samples_of_a_recipe(recipe: Any, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No transform of torchvision's sees a pixel, be it ours or torchvision's own within our Compose."""
    ours, expected = v2.Compose(recipe(library)), theirs.Compose(recipe(theirs))
    small = corpus.photo(61, 83)
    for seed, pixels in enumerate(
        [*[LARGE, small, small[..., 1].copy()] * 4, corpus.photo(1, 40), corpus.photo(33, 2)]
    ):
        height, width = pixels.shape[:2]
        count, format = seed % 6, FORMATS[seed % 3]

        def sample(pixels: Any = pixels, given: Any = (seed, height, width, count, format)) -> Any:
            found = boxes(*given)
            target = {"boxes": found, "labels": torch.arange(len(found)), "image_id": 7}
            return Image.fromarray(pixels), target

        torch.manual_seed(seed)
        plain = outcome(lambda: expected(*sample()))
        torch.manual_seed(seed)
        with monkeypatch.context() as without:
            if isinstance(plain[0][0], torch.Tensor):
                without.setattr(theirs.ToImage, "transform", None)
            made = outcome(lambda: ours(*sample()))
        assert same(made, plain)
        if isinstance(made[0][0], torch.Tensor):
            assert made[0][0].stride() == plain[0][0].stride()


@pytest.mark.parametrize("fill", [(123.0, 117.0, 104.0), 17.0, (1, 2.0, 3), (0.5, 1.0, 2.0), 3.5, 255.0])
def test_colours_of_borders_that_are_floats(fill: Any) -> None:
    shape: Any = TensorShape.of((40, 50, 3), torch.uint8, pure=False, ahead=True)
    given = {"padding": [1, 2, 3, 4], "fill": fill, "padding_mode": "constant"}
    whole = all(float(colour).is_integer() for colour in np.atleast_1d(fill))
    operation = tensor_operation("pad", given, shape)
    assert isinstance(operation, TensorPad) == whole
    pixels = corpus.photo(40, 50)
    expected = theirs.functional.pad(torch.from_numpy(pixels).permute(2, 0, 1), **given)
    if whole:
        assert np.array_equal(operation.apply(pixels), expected.permute(1, 2, 0).numpy())
    transforms = [[library.ToImage(), library.Pad([1, 2, 3, 4], fill=fill)] for library in (v2, theirs)]
    made, plain = (theirs.Compose(one)(Image.fromarray(pixels)) for one in transforms)
    assert same(v2.Compose(transforms[0])(Image.fromarray(pixels)), plain)
    assert same(made, plain)
