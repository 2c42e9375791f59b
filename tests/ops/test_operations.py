"""Every operation of the registry: its shape, its region, its motion, its pixels against its promise, its words."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import torchvision
from transforms.functional import cases

import torchvision.transforms.v2.functional as V2  # isort: skip

from fastpipe import ops
from fastpipe.errors import PlanError
from fastpipe.ops import EXACT, REGISTRY, Operation
from fastpipe.ops.base import OWN
from fastpipe.transforms import functional as F
from fastpipe.transforms.functional import InterpolationMode
from fastpipe.types import Box, ImageShape

TF = torchvision.transforms.functional
TENSORS_ONLY = ("convert_image_dtype", "normalize", "erase")
CONVERSIONS: list[tuple[str, dict[str, Any]]] = [
    ("to_tensor", {}),
    ("pil_to_tensor", {}),
    ("convert_image_dtype", {"dtype": torch.float32}),
    ("convert_image_dtype", {"dtype": torch.float64}),
    ("normalize", {"mean": [0.1, 0.2, 0.3], "std": [0.5, 0.6, 0.7]}),
    ("normalize", {"mean": torch.tensor([0.1]), "std": (0.5,)}),
    ("erase", {"i": 0, "j": 0, "h": 1, "w": 1, "v": torch.zeros(3, 1, 1)}),
]


def examples(height: int, width: int) -> list[Operation]:
    """Operations of every kind, for an RGB image of that size."""
    calls = [
        *cases.geometry(height, width),
        *cases.resizing(height, width),
        *cases.colors(),
        *cases.filters(),
        *cases.warps(height, width, 3),
        *CONVERSIONS,
    ]
    return [REGISTRY[name](**arguments) for name, arguments in calls if name in REGISTRY]


def on_arrays(height: int, width: int) -> list[Operation]:
    return [operation for operation in examples(height, width) if operation.op not in TENSORS_ONLY]


def test_every_operation_has_examples_a_promise_a_route_and_words() -> None:
    shown = {operation.op: operation for operation in examples(31, 20)}
    assert set(shown) == set(REGISTRY)
    for name, operation in shown.items():
        assert operation.contract is EXACT, name
        assert callable(getattr(F, name))
        assert list(operation.arguments()) == list(operation.arguments())
        assert operation.words().isascii() or "°" in operation.words()
        assert operation.words() != str(operation)
        image: Any = cases.pixels(31, 20, 3)
        if name in TENSORS_ONLY:
            image = torch.rand(3, 31, 20)
        operation.apply(image)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", cases.SIZES, ids=str)
def test_output_shape(size: tuple[int, int]) -> None:
    image = cases.pil_image("RGB", *size)
    for operation in on_arrays(*size):
        result = cases.outcome(operation.apply, image)
        if not isinstance(result, Exception):
            channels, height, width = F.get_dimensions(result)
            assert operation.output_shape(ImageShape(*size)) == (height, width, channels), str(operation)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", cases.SIZES, ids=str)
def test_pixels_keep_the_promise(size: tuple[int, int]) -> None:
    array = cases.pixels(*size, 3)
    picture = Image.fromarray(array)
    for operation in on_arrays(*size):
        arguments = operation.arguments()
        expected = cases.outcome(getattr(TF, operation.op), picture, **arguments)
        actual = cases.outcome(operation.apply, array)
        if isinstance(expected, Exception) or isinstance(actual, Exception):
            continue  # errors are tested with the functionals
        np.testing.assert_array_equal(
            np.asarray(actual).reshape(-1), np.asarray(expected).reshape(-1), err_msg=str(operation)
        )


@pytest.mark.filterwarnings("ignore")
@given(st.data(), st.integers(1, 40), st.integers(1, 40))
def test_a_region_of_the_result_is_made_of_what_it_needs(data: Any, height: int, width: int) -> None:
    operation = data.draw(st.sampled_from(on_arrays(height, width)))
    image = cases.pixels(height, width, 3)
    shape = ImageShape(height, width)
    whole = cases.outcome(operation.apply, image)
    if isinstance(whole, (Exception, torch.Tensor)) or min(whole.shape[:2]) < 1:
        return
    rows, columns = whole.shape[:2]
    top, left = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    region = Box(top, left, data.draw(st.integers(1, rows - top)), data.draw(st.integers(1, columns - left)))
    found = operation.required_region(region, shape)
    if found is None:
        return
    needed, steps = found
    assert needed.inside(shape.size)
    made: Any = image[needed.top : needed.bottom, needed.left : needed.right]
    inside = ImageShape(needed.height, needed.width)
    for step in steps:
        made = step.apply(made)
        inside = step.output_shape(inside)
    expected = whole[region.top : region.bottom, region.left : region.right]
    assert inside == ImageShape(*expected.shape)
    np.testing.assert_array_equal(made, expected)


@given(
    st.sampled_from(sorted({"nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"})),
    st.tuples(st.integers(1, 90), st.integers(1, 90)),
    st.tuples(st.integers(1, 90), st.integers(1, 90)),
    st.data(),
)
def test_a_window_of_a_resize_is_pillows(mode: str, size: Any, result: Any, data: Any) -> None:
    image = cases.pixels(*size, 3)
    picture = Image.fromarray(image).resize(result[::-1], Image.Resampling[mode.upper()])
    top, left = data.draw(st.integers(0, result[0] - 1)), data.draw(st.integers(0, result[1] - 1))
    window = Box(top, left, data.draw(st.integers(1, result[0] - top)), data.draw(st.integers(1, result[1] - left)))
    resize = ops.Resize(list(result), InterpolationMode(mode))
    needed, steps = resize.required_region(window, ImageShape(*size)) or (Box(0, 0, *size), (resize,))
    made: Any = image[needed.top : needed.bottom, needed.left : needed.right]
    for step in steps:
        made = step.apply(made)
    expected = np.asarray(picture)
    if made.shape == expected.shape and window != (0, 0, *result):
        made = made[window.top : window.bottom, window.left : window.right]
    np.testing.assert_array_equal(made, expected[window.top : window.bottom, window.left : window.right])


SIZE = ImageShape(41, 59)
LINE = [[0, 0], [58, 0], [58, 40], [0, 40]]
BENT = [[3, 2], [55, 5], [50, 39], [1, 36]]


@pytest.mark.parametrize(
    ("operation", "function"),
    [
        (ops.HFlip(), lambda b: V2.horizontal_flip(b)),
        (ops.VFlip(), lambda b: V2.vertical_flip(b)),
        (ops.Crop(3, 5, 20, 30), lambda b: V2.crop(b, 3, 5, 20, 30)),
        (ops.CenterCrop([20, 31]), lambda b: V2.center_crop(b, [20, 31])),
        (ops.Pad([1, 2, 3, 4]), lambda b: V2.pad(b, [1, 2, 3, 4])),
        (ops.Resize([82, 30]), lambda b: V2.resize(b, [82, 30])),
        (ops.Rotate(30.0), lambda b: V2.rotate(b, 30.0)),
        (ops.Rotate(30.0, center=[3.0, 4.0]), lambda b: V2.rotate(b, 30.0, center=[3.0, 4.0])),
        (
            ops.Affine(10.0, [3, -4], 1.2, [5.0, -8.0]),
            lambda b: V2.affine(b, angle=10.0, translate=[3, -4], scale=1.2, shear=[5.0, -8.0]),
        ),
        (ops.Perspective(LINE, BENT), lambda b: V2.perspective(b, LINE, BENT)),
        (ops.Invert(), lambda b: b),
    ],
    ids=lambda value: str(value) if isinstance(value, Operation) else "",
)
def test_points_go_where_torchvision_moves_boxes(operation: Operation, function: Any) -> None:
    """A box's corners moved by the matrix, and torchvision's box around them, not clamped if it can be told so."""
    kind = torchvision.tv_tensors.BoundingBoxes
    clamps = "clamping_mode" not in inspect.signature(kind.__new__).parameters
    boxes = kind(
        torch.tensor([[10.0, 12.0, 30.0, 35.0], [0.0, 0.0, 59.0, 41.0]]),
        format="XYXY",
        canvas_size=SIZE.size,
        **({} if clamps else {"clamping_mode": None}),
    )
    matrix = operation.point_transform(SIZE)
    assert matrix is not None
    expected = function(boxes)
    for before, after in zip(boxes.tolist(), expected.tolist(), strict=True):
        left, top, right, bottom = before
        corners = np.array([[left, right, left, right], [top, top, bottom, bottom], [1, 1, 1, 1]])
        x, y, scale = matrix @ corners
        x, y = x / scale, y / scale
        if clamps:
            height, width = operation.output_shape(SIZE).size
            x, y = x.clip(0, width), y.clip(0, height)
        # torchvision's perspective takes pixel centres, half a pixel off
        np.testing.assert_allclose([x.min(), y.min(), x.max(), y.max()], after, atol=0.6)


def test_an_elastic_motion_has_no_matrix() -> None:
    assert ops.ElasticTransform(cases.displacement(9, 9)).point_transform(ImageShape(9, 9)) is None


def test_masks_are_moved_and_never_blended() -> None:
    mask = np.arange(31 * 20, dtype=np.uint8).reshape(31, 20)[..., None].repeat(3, -1)
    for operation in on_arrays(31, 20):
        on_mask = operation.on_mask()
        if on_mask is None:
            assert operation.pointwise or operation.output_shape(ImageShape(31, 20)).size == (31, 20)
            continue
        result = on_mask.apply(mask)
        assert set(np.unique(result)) <= {*np.unique(mask).tolist(), 0, 7, 255}


def test_apply_is_the_functional() -> None:
    array = cases.pixels(9, 7, 3)
    call = ops.Crop(top=1, left=2, height=3, width=4)
    np.testing.assert_array_equal(call.apply(array), array[1:4, 2:6])
    assert call["left"] == 2


def test_printing() -> None:
    assert str(ops.HFlip()) == "hflip()"
    resize = ops.Resize([224, 224], InterpolationMode.BILINEAR, None, True)
    assert str(resize) == "resize(size=[224, 224], interpolation=bilinear, antialias=True)"
    rotate = ops.Rotate(-12.345678901, InterpolationMode.NEAREST, fill=(1, 2.5, 0.1 + 0.2))
    assert str(rotate) == "rotate(angle=-12.3457, interpolation=nearest, expand=False, fill=(1, 2.5, 0.3))"
    assert "displacement=<float32 1×20×30×2>" in str(ops.ElasticTransform(torch.zeros(1, 20, 30, 2)))


def test_equality_and_pickling() -> None:
    operations = [
        ops.HFlip(),
        ops.VFlip(),
        ops.Crop(1, 2, 3, 4),
        ops.Resize([3, 4], InterpolationMode.BICUBIC),
        ops.ElasticTransform(torch.rand(1, 3, 4, 2)),
        ops.ElasticTransform(torch.rand(1, 3, 4, 2)),
        ops.Normalize(np.arange(3), [1, 2, 3]),
    ]
    for i, operation in enumerate(operations):
        copy = pickle.loads(pickle.dumps(operation))
        assert copy == operation
        assert hash(copy) == hash(operation)
        assert [operation == other for other in operations] == [i == j for j in range(len(operations))]
    assert ops.HFlip() != "hflip()"


def test_an_operation_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ops.Crop(1, 2, 3, 4).top = 5


def test_a_step_of_another_kind_says_its_own_promise() -> None:
    class Own:
        promise = "as it likes"

    assert ops.contracts_of(Own())[0].text == "as it likes"
    assert ops.contracts_of(object()) == (OWN,)
    assert issubclass(PlanError, TypeError)


def test_words_say_which_way_an_image_is_turned() -> None:
    """`rotate` turns counter-clockwise, `affine` the other way round."""
    for degrees in (90.0, -90.0):
        turned = np.asarray(F.affine(cases.pixels(9, 9, 3), degrees, [0, 0], 1.0, [0.0]))
        way = ops.Affine(degrees, [0, 0], 1.0, [0.0]).words()
        same = next(angle for angle in (90.0, -90.0) if (F.rotate(cases.pixels(9, 9, 3), angle) == turned).all())
        assert way == ops.Rotate(same).words()
    assert ops.Rotate(90.0).words() == "turned 90.0° counter-clockwise"
