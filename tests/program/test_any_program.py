"""Any operations with any parameters, in a program from a file: what torchvision's functions make of a PIL image."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import torchvision
from transforms.functional import cases

from fastpipe.ops import REGISTRY, Operation
from fastpipe.program import Encoded, execute, lower, to_pil
from fastpipe.transforms.functional import InterpolationMode as Mode
from fastpipe.types import ImageShape

TF = torchvision.transforms.functional
Arguments = dict[str, Any]

SIDES = st.integers(1, 50)
FACTORS = st.one_of(st.floats(0, 3), st.sampled_from([0, 0.5, 1, 2]))
FILTERS = st.sampled_from([Mode.NEAREST, Mode.BILINEAR, Mode.BICUBIC, Mode.BOX, Mode.HAMMING, Mode.LANCZOS])
WARPS = st.sampled_from([Mode.NEAREST, Mode.BILINEAR, Mode.BICUBIC])
FILLS = st.one_of(st.none(), st.integers(0, 255))
SHIFTS = st.integers(-20, 20)


def crop(height: int, width: int) -> st.SearchStrategy[Arguments]:
    tops, lefts = st.integers(-5, height - 1), st.integers(-5, width - 1)
    return st.fixed_dictionaries({"top": tops, "left": lefts, "height": SIDES, "width": SIDES})


def pad(height: int, width: int) -> st.SearchStrategy[Arguments]:
    most = min(height, width) - 1  # what mirrors without its edge has
    padding = st.tuples(*[st.integers(0, min(most, 9))] * 4).map(list)
    modes = st.sampled_from(["constant", "edge", "reflect", "symmetric"])
    return st.fixed_dictionaries({"padding": padding, "fill": st.integers(0, 255), "padding_mode": modes})


def affine(height: int, width: int) -> st.SearchStrategy[Arguments]:
    shears = st.tuples(st.floats(-60, 60), st.floats(-60, 60)).map(list)
    return st.fixed_dictionaries(
        {
            "angle": st.floats(-180, 180),
            "translate": st.tuples(SHIFTS, SHIFTS).map(list),
            "scale": st.one_of(st.just(1.0), st.floats(0.1, 3)),
            "shear": st.one_of(st.just([0.0, 0.0]), shears),
            "interpolation": WARPS,
            "fill": FILLS,
        }
    )


def perspective(height: int, width: int) -> st.SearchStrategy[Arguments]:
    corners = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
    moved = st.tuples(*[st.integers(-9, 9)] * 8).map(
        lambda by: [[x + by[2 * i], y + by[2 * i + 1]] for i, (x, y) in enumerate(corners)]
    )
    return st.fixed_dictionaries(
        {"startpoints": st.just(corners), "endpoints": moved, "interpolation": WARPS, "fill": FILLS}
    )


def blur(height: int, width: int) -> st.SearchStrategy[Arguments]:
    sizes = st.tuples(*(st.integers(0, min(side - 1, 4)).map(lambda half: 2 * half + 1) for side in (width, height)))
    sigmas = st.tuples(*[st.floats(0.1, 3)] * 2)
    return st.fixed_dictionaries({"kernel_size": sizes.map(list), "sigma": sigmas.map(list)})


def elastic(height: int, width: int) -> st.SearchStrategy[Arguments]:
    fields = st.tuples(st.integers(0, 999), st.sampled_from([0.02, 0.3, 3.0])).map(
        lambda drawn: (
            drawn[1] * (torch.rand(1, height, width, 2, generator=torch.Generator().manual_seed(drawn[0])) - 0.5)
        )
    )
    filters = st.sampled_from([Mode.NEAREST, Mode.BILINEAR])
    return st.fixed_dictionaries({"displacement": fields, "interpolation": filters, "fill": FILLS})


def one(name: str, values: st.SearchStrategy[Any]) -> Callable[[int, int], st.SearchStrategy[Arguments]]:
    return lambda height, width: st.fixed_dictionaries({name: values})


def nothing(height: int, width: int) -> st.SearchStrategy[Arguments]:
    return st.just({})


ANY: dict[str, Callable[[int, int], st.SearchStrategy[Arguments]]] = {
    "hflip": nothing,
    "vflip": nothing,
    "invert": nothing,
    "autocontrast": nothing,
    "equalize": nothing,
    "crop": crop,
    "center_crop": one("output_size", st.tuples(SIDES, SIDES).map(list)),
    "pad": pad,
    "resize": lambda height, width: st.fixed_dictionaries(
        {"size": st.tuples(SIDES, SIDES).map(list), "interpolation": FILTERS}
    ),
    "adjust_brightness": one("brightness_factor", FACTORS),
    "adjust_contrast": one("contrast_factor", FACTORS),
    "adjust_saturation": one("saturation_factor", FACTORS),
    "adjust_sharpness": one("sharpness_factor", FACTORS),
    "adjust_hue": one("hue_factor", st.floats(-0.5, 0.5)),
    "adjust_gamma": lambda height, width: st.fixed_dictionaries({"gamma": st.floats(0, 4), "gain": st.floats(0, 2)}),
    "posterize": one("bits", st.integers(1, 8)),
    "solarize": one("threshold", st.floats(0, 256)),
    "rgb_to_grayscale": one("num_output_channels", st.sampled_from([1, 3])),
    "rotate": lambda height, width: st.fixed_dictionaries(
        {
            "angle": st.one_of(st.floats(-360, 360), st.sampled_from([0.0, 90.0, 180.0, 270.0])),
            "interpolation": WARPS,
            "expand": st.booleans(),
            "fill": FILLS,
        }
    ),
    "affine": affine,
    "perspective": perspective,
    "gaussian_blur": blur,
    "elastic_transform": elastic,
}
OTHERS = {"to_tensor", "pil_to_tensor", "normalize", "convert_image_dtype", "erase"}  # on tensors, or the end


def test_every_exact_operation_on_images_is_among_them() -> None:
    assert set(ANY) | OTHERS == set(REGISTRY)


def encoded(height: int, width: int, gray: bool, kind: str) -> tuple[bytes, Image.Image]:
    file = io.BytesIO()
    Image.fromarray(cases.pixels(height, width, None if gray else 3)).save(file, kind)
    return file.getvalue(), Image.open(file).convert("RGB")


def by_torchvision(operation: Operation, image: Image.Image) -> Any:
    arguments = operation.arguments()
    if "interpolation" in arguments:
        arguments["interpolation"] = TF.InterpolationMode(arguments["interpolation"].value)
    return getattr(TF, operation.op)(image, **arguments)


@pytest.mark.filterwarnings("ignore")
@given(st.data(), SIDES, SIDES, st.booleans(), st.sampled_from(["JPEG", "PNG"]), st.booleans())
def test_any_program_is_torchvisions(
    data: Any, height: int, width: int, gray: bool, kind: str, as_tensor: bool
) -> None:
    file, expected = encoded(height, width, gray, kind)
    shape, steps = ImageShape(height, width), []
    for _ in range(data.draw(st.integers(1, 5))):
        name = data.draw(st.sampled_from(sorted(ANY)))
        operation = REGISTRY[name](**data.draw(ANY[name](shape.height, shape.width)))
        made = cases.outcome(by_torchvision, operation, expected)
        if isinstance(made, Exception) or not 0 < made.width * made.height <= 40_000:
            continue  # errors are tested with the functions
        expected, shape = made, operation.output_shape(shape)
        steps.append(operation)
    tensor = None
    if as_tensor:
        mean, std = [0.4] * shape.channels, [0.3] * shape.channels
        steps += [REGISTRY["to_tensor"](), REGISTRY["normalize"](mean=mean, std=std)]
        tensor = TF.normalize(TF.to_tensor(expected), mean, std)
    actual = to_pil(execute(lower(tuple(steps), ImageShape(height, width)), Encoded.of(file)))
    if tensor is not None:
        assert torch.equal(actual, tensor)
    else:
        assert (actual.mode, actual.size) == (expected.mode, expected.size)
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))
