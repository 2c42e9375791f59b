"""albumentations' transforms with examples of arguments, and what they are compared by."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from recipe_conformance import flat

from fastpipe.transforms.named_arrays import named_arrays_of, pixels_of_array, pixels_of_arrays

A = pytest.importorskip("albumentations")
cv2 = pytest.importorskip("cv2")
ToTensorV2 = pytest.importorskip("albumentations.pytorch").ToTensorV2

CASES: dict[type, list[Callable[[], Any]]] = {
    A.AtLeastOneBBoxRandomCrop: [
        lambda: A.AtLeastOneBBoxRandomCrop(9, 7),
        lambda: A.AtLeastOneBBoxRandomCrop(5, 8, 0.3),
    ],
    A.BBoxSafeRandomCrop: [lambda: A.BBoxSafeRandomCrop(), lambda: A.BBoxSafeRandomCrop(0.4)],
    A.CenterCrop: [
        lambda: A.CenterCrop(9, 7),
        lambda: A.CenterCrop(40, 12, pad_if_needed=True, fill=3, fill_mask=7),
        lambda: A.CenterCrop(33, 60, pad_if_needed=True, border_mode=cv2.BORDER_REFLECT_101, pad_position="random"),
    ],
    A.Crop: [
        lambda: A.Crop(2, 3, 11, 14),
        lambda: A.Crop(0, 0, 64, 48),
        lambda: A.Crop(1, 2, 50, 45, pad_if_needed=True, pad_position="random", fill=9),
    ],
    A.CropAndPad: [
        lambda: A.CropAndPad(px=(-6, -1)),
        lambda: A.CropAndPad(percent=(-0.2, 0.2), keep_size=False, fill=(3, 90), fill_mask=(1, 5)),
        lambda: A.CropAndPad(px=-3, keep_size=False),
        lambda: A.CropAndPad(px=4, border_mode=cv2.BORDER_REPLICATE),
    ],
    A.D4: [lambda: A.D4()],
    A.HorizontalFlip: [lambda: A.HorizontalFlip(), lambda: A.HorizontalFlip(p=1)],
    A.LongestMaxSize: [
        lambda: A.LongestMaxSize(20),
        lambda: A.LongestMaxSize([13, 90], area_for_downscale="image"),
        lambda: A.LongestMaxSize(max_size_hw=(18, None), interpolation=cv2.INTER_CUBIC),
    ],
    A.NoOp: [lambda: A.NoOp()],
    A.Pad: [lambda: A.Pad((3, 0, 5, 2), fill=8), lambda: A.Pad(4, border_mode=cv2.BORDER_REFLECT), lambda: A.Pad(0)],
    A.PadIfNeeded: [
        lambda: A.PadIfNeeded(40, 41, position="random"),
        lambda: A.PadIfNeeded(None, None, 8, 16, border_mode=cv2.BORDER_WRAP),
        lambda: A.PadIfNeeded(1, 1),
    ],
    A.RandomCrop: [lambda: A.RandomCrop(9, 7), lambda: A.RandomCrop(30, 30, pad_if_needed=True, fill=(1, 2, 3))],
    A.RandomCropFromBorders: [lambda: A.RandomCropFromBorders(0.3, 0.2, 0.1, 0.4)],
    A.RandomCropNearBBox: [lambda: A.RandomCropNearBBox(0.4, "near")],
    A.RandomResizedCrop: [
        lambda: A.RandomResizedCrop((16, 12)),
        lambda: A.RandomResizedCrop((9, 31), (0.3, 0.9), (0.5, 2), cv2.INTER_CUBIC, area_for_downscale="image_mask"),
        lambda: A.RandomResizedCrop((11, 8), (0.999, 1), (3, 4), cv2.INTER_LANCZOS4, cv2.INTER_LINEAR),
    ],
    A.RandomRotate90: [lambda: A.RandomRotate90()],
    A.RandomScale: [lambda: A.RandomScale(0.5, p=1), lambda: A.RandomScale((-0.4, -0.1), area_for_downscale="image")],
    A.RandomSizedBBoxSafeCrop: [lambda: A.RandomSizedBBoxSafeCrop(14, 17, 0.2)],
    A.RandomSizedCrop: [lambda: A.RandomSizedCrop((5, 9), (13, 10), w2h_ratio=1.3)],
    A.Resize: [lambda: A.Resize(17, 23), lambda: A.Resize(8, 9, cv2.INTER_NEAREST, area_for_downscale="image")],
    A.SmallestMaxSize: [lambda: A.SmallestMaxSize(20), lambda: A.SmallestMaxSize(max_size_hw=(None, 30))],
    A.SquareSymmetry: [lambda: A.SquareSymmetry()],
    A.Transpose: [lambda: A.Transpose(), lambda: A.Transpose(p=1)],
    A.VerticalFlip: [lambda: A.VerticalFlip(), lambda: A.VerticalFlip(p=1)],
}
"""Each class that is drawn from a shape alone, with arguments."""


def sample(height: int, width: int, seed: int = 0, *, boxes: int = 3) -> dict[str, Any]:
    """Named arrays: an image, masks, boxes with labels, points."""
    rng = np.random.default_rng(seed)
    corners = np.sort(rng.random((boxes, 2, 2)), axis=1) * [width, height]
    corners[:, 1] = np.minimum(corners[:, 1] + 0.2, [width, height])
    corners[:, 0] = np.maximum(corners[:, 1] - np.maximum(corners[:, 1] - corners[:, 0], 0.2), 0)
    return {
        "image": rng.integers(0, 256, (height, width, 3), dtype=np.uint8),
        "mask": rng.integers(0, 20, (height, width), dtype=np.uint8),
        "masks": [rng.integers(0, 2, (height, width), dtype=np.uint8) for _ in range(2)],
        "bboxes": corners.reshape(boxes, 4),
        "labels": list(range(boxes)),
        "keypoints": rng.random((4, 2)) * [width, height],
        "near": (width // 4, height // 4, max(3 * width // 4, width // 4 + 1), max(3 * height // 4, height // 4 + 1)),
        "number": 5,
    }


def compose(*members: Any, seed: int = 0, **options: Any) -> Any:
    boxes = A.BboxParams("pascal_voc", label_fields=["labels"], min_visibility=0.1)
    return A.Compose(members, bbox_params=boxes, keypoint_params=A.KeypointParams("xy"), seed=seed, **options)


def members_of(transform: Any) -> list[Any]:
    found = [transform]
    if isinstance(transform, A.BaseCompose):
        for member in transform.transforms:
            found += members_of(member)
    return found


def states(transform: Any) -> list[Any]:
    """The states of all generators of a transform and of its members, and the members' last parameters."""
    return [
        (
            repr(one.random_generator.bit_generator.state),
            one.py_random.getstate(),
            flat({key: value for key, value in getattr(one, "params", {}).items() if key != "bbox_matrix"}),
        )
        for one in members_of(transform)
    ]


def in_windows(data: dict[str, Any]) -> dict[str, Any]:
    """The same with pixels that are to come."""
    made = dict(data)
    for name in ("image", "mask"):
        if isinstance(data.get(name), np.ndarray):
            made[name] = pixels_of_array(data[name])
    masks = data.get("masks")
    if isinstance(masks, list) and masks and len({mask.shape for mask in masks}) == 1:
        made["masks"] = pixels_of_arrays(data["masks"])
    return made


def outcome(call: Callable[[], dict[str, Any]]) -> Any:
    try:
        return flat(call())
    except Exception as error:
        return type(error)


def assert_same(make: Callable[[], Any], data: dict[str, Any], times: int = 3) -> None:
    """Asserts that a transform gives what it gives by itself, and leaves its generators where it would."""
    ours, theirs = make(), make()
    if getattr(ours, "seed", None) is None:
        for one in (ours, theirs):
            one.set_random_seed(1)
    recipe: Any = named_arrays_of(ours)
    for time in range(times):
        expected = outcome(lambda: theirs(**copy.deepcopy(data)))
        found = outcome(lambda: recipe.run(ours, in_windows(copy.deepcopy(data))))
        assert found == expected, (time, ours)
        if not isinstance(expected, type):
            assert states(ours) == states(theirs), ours
