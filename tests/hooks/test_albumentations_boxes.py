"""albumentations' boxes: checked and filtered with its own results, and fewer calls."""

from __future__ import annotations

from typing import Any

import albumentations as A
import hypothesis
import numpy as np
import pytest
from albumentations.core import bbox_utils
from hooks.albumentations_calls import LARGE, assert_same, pair
from hypothesis import strategies as st

import fastpipe
from fastpipe.plain_way import plainly

pytestmark = [pytest.mark.needs_core, pytest.mark.usefixtures("hooks_without_checks")]


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of each call of albumentations' own filter of boxes, from now on."""
    fastpipe.uninstall()
    calls: list[Any] = []
    plain = bbox_utils.filter_bboxes

    def filter_bboxes(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return plain(*args, **kwargs)

    monkeypatch.setattr(bbox_utils, "filter_bboxes", filter_bboxes)
    fastpipe.install(check=0)
    return calls


_BOXES = np.array([[3.0, 4, 120, 110], [20, 2, 50, 45], [0, 0, 157, 131], [150, 120, 156.5, 130.2]])


def test_boxes_that_stay_are_filtered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _counted(monkeypatch)
    pixels = [A.RandomBrightnessContrast(p=0.5), A.ColorJitter(p=0.5), A.GaussNoise(p=0.5), A.CLAHE(p=0.5)]
    transform = A.Compose(pixels, bbox_params=A.BboxParams("pascal_voc", label_fields=["labels"]))
    data = {"image": LARGE, "bboxes": _BOXES, "labels": [1, 2, 3, 4]}
    made = transform(**data)
    ours = len(calls)
    with plainly():
        expected = transform(**data)
    assert (ours, len(calls)) == (ours, ours + 5)
    assert ours < 4
    assert_same(made["bboxes"], expected["bboxes"])
    assert made["labels"] == expected["labels"]


@pytest.mark.parametrize(
    "options",
    [
        {"format": "pascal_voc"},
        {"format": "coco", "min_area": 900, "min_visibility": 0.3},
        {"format": "pascal_voc", "min_width": 20, "min_height": 30, "max_accept_ratio": 3.0, "clip": True},
        {"format": "pascal_voc", "filter_invalid_bboxes": True},
        {"format": "albumentations", "min_area": 1e9},
    ],
    ids=str,
)
def test_boxes(options: dict[str, Any]) -> None:
    transform = pair(
        A.HorizontalFlip(),
        A.ColorJitter(),
        A.RandomSizedCrop((60, 120), (100, 110), p=0.6),
        A.OneOf([A.Affine(rotate=20), A.RandomBrightnessContrast(), A.CoarseDropout()], p=0.8),
        A.VerticalFlip(p=0.4),
        bbox_params=A.BboxParams(label_fields=["labels"], **options),
    )
    scale = [157, 131, 157, 131] if options["format"] == "albumentations" else 1
    for seed in range(12):
        boxes = np.random.default_rng(seed).permutation(_BOXES)[: seed % 5] / scale
        if options["format"] == "coco":
            boxes[:, 2:] -= boxes[:, :2]
        given: Any = boxes.astype(np.float32) if seed % 3 == 1 else boxes.tolist() if seed % 3 else boxes
        data = {"image": LARGE, "bboxes": given, "labels": np.arange(len(boxes))}
        transform.set_random_seed(seed)
        made = transform(**data)
        transform.set_random_seed(seed)
        with plainly():
            expected = transform(**data)
        assert type(made["bboxes"]) is type(expected["bboxes"])
        assert_same(made["bboxes"], expected["bboxes"])
        assert np.array_equal(made["labels"], expected["labels"])
        assert_same(made["image"], expected["image"])


def test_filtered_boxes_are_the_callers_own() -> None:
    shape = {"height": 131, "width": 157}
    boxes = _BOXES / [157, 131, 157, 131]
    with plainly():
        expected = bbox_utils.filter_bboxes(boxes, shape)
    for _ in range(3):
        made = bbox_utils.filter_bboxes(boxes, shape)
        assert_same(made, expected)
        made[:] = 7
    strict = bbox_utils.filter_bboxes(boxes, shape, 900.0, min_width=30)
    assert len(strict) == 3
    assert len(bbox_utils.filter_bboxes(boxes, {"height": 10, "width": 10})) == 3
    assert len(bbox_utils.filter_bboxes(boxes[1:], shape)) == 3


_EDGES = st.sampled_from([0.0, -0.0, 1.0, -1e-9, 1 + 1e-6, 0.1, 0.5, np.nan, np.inf, -0.3, 1.4, 1e-9, 1 - 1e-9])


@hypothesis.given(
    st.lists(st.tuples(*(_EDGES,) * 4, st.just(7.0)), min_size=0, max_size=4), st.sampled_from([np.float32, float])
)
def test_boxes_that_are_refused(boxes: list[Any], dtype: Any) -> None:
    array = np.array(boxes, dtype).reshape(len(boxes), 5)

    def message() -> str:
        try:
            bbox_utils.check_bboxes(array)
        except ValueError as error:
            return str(error)
        return ""

    made = message()
    with plainly():
        assert made == message()


def test_boxes_in_the_image_need_no_closer_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def isclose(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("albumentations' own check")

    monkeypatch.setattr(np, "isclose", isclose)
    bbox_utils.check_bboxes(np.array([[0.0, 0.1, 1.0, 0.4, 3.0]]))
    with pytest.raises(AssertionError, match="own check"):
        bbox_utils.check_bboxes(np.array([[0.0, 0.1, 1.1, 0.4, 3.0]]))
