"""albumentations' `Normalize` and `ToTensorV2` by the core: albumentations' own floats, and its generators' states."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import albumentations as A
import corpus
import hypothesis
import numpy as np
import pytest
import torch
from albumentations.augmentations.pixel import transforms as pixel_transforms
from albumentations.core import bbox_utils, transforms_interface
from albumentations.pytorch import ToTensorV2
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

import fastpipe
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks import albumentations as hooks
from fastpipe.hooks.ledger import LEDGER
from fastpipe.plain_way import plainly

pytestmark = pytest.mark.needs_core

IMAGE = corpus.photo(47, 61)
LARGE = corpus.photo(131, 157)
SITE = ("function", "albumentations.Normalize")


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(LEDGER, "_sites", {})
    monkeypatch.setattr(LEDGER, "notes", {})
    with fastpipe.install(check=0):
        yield


def both(transform: Any, **data: Any) -> tuple[Any, Any]:
    """A transform's results with the hooks and without them, from the same state of its generators."""
    transform.set_random_seed(7)
    made = transform(**data)
    after = transform.py_random.getstate(), transform.random_generator.bit_generator.state
    transform.set_random_seed(7)
    with plainly():
        expected = transform(**data)
    assert after == (transform.py_random.getstate(), transform.random_generator.bit_generator.state)
    return made, expected


def assert_same(made: Any, expected: Any) -> None:
    made, expected = np.asarray(made), np.asarray(expected)
    assert made.dtype == expected.dtype
    assert made.strides == expected.strides
    assert made.tobytes() == expected.tobytes()


def images() -> int:
    return LEDGER.site(*SITE).images


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)},
        {"mean": (0.1, 0.7, 0.3), "std": (1.3, 0.01, 0.3), "max_pixel_value": 100.0},
        {"mean": (0, 0, 0), "std": (1, 1, 1), "max_pixel_value": 1.0},
    ],
    ids=str,
)
def test_every_byte(options: dict[str, Any]) -> None:
    every = np.stack([np.roll(np.arange(256, dtype=np.uint8), k) for k in (0, 85, 170)], -1)[None]
    for image in (every, IMAGE, IMAGE[:1, :1], np.ascontiguousarray(IMAGE[:, ::-1]), IMAGE[3:40, 5:21]):
        before = images()
        made, expected = both(A.Normalize(**options), image=image)
        assert images() == before + 1
        assert_same(made["image"], expected["image"])
        assert made["image"].flags.owndata == expected["image"].flags.owndata


@pytest.mark.parametrize(
    ("transform", "image"),
    [
        (A.Normalize(), IMAGE.astype(np.float32) / 255),
        (A.Normalize(mean=0.5, std=0.5), IMAGE),
        (A.Normalize(mean=(0.5,), std=(0.5,)), IMAGE[..., 0]),
        (A.Normalize(mean=(0.5,), std=(0.5,)), IMAGE[..., :1]),
        (A.Normalize(mean=(0.5,) * 5, std=(0.5,) * 5), np.dstack([IMAGE, IMAGE[..., :2]])),
        (A.Normalize(normalization="image"), IMAGE),
        (A.Normalize(normalization="min_max_per_channel"), IMAGE),
    ],
    ids=lambda value: "" if isinstance(value, np.ndarray) else str(value),
)
def test_the_rest_is_albumentations_own(transform: Any, image: Any) -> None:
    made, expected = both(transform, image=image)
    assert images() == 0
    assert_same(made["image"], expected["image"])


def test_a_pipeline_with_all_targets() -> None:
    transform = A.Compose(
        [
            A.RandomResizedCrop((32, 40)),
            A.HorizontalFlip(),
            A.OneOf([A.ColorJitter(), A.GaussNoise()], p=0.8),
            A.Normalize(p=0.7),
            ToTensorV2(),
        ],
        bbox_params=A.BboxParams("pascal_voc", label_fields=["labels"]),
        keypoint_params=A.KeypointParams("xy"),
        additional_targets={"second": "image"},
        seed=5,
        save_applied_params=True,
    )
    for seed in range(12):
        data = {
            "image": IMAGE,
            "second": corpus.photo(47, 61, seed),
            "mask": IMAGE[..., 0],
            "bboxes": np.array([[3.0, 4, 30, 40], [20, 2, 50, 45]]),
            "labels": [1, 2],
            "keypoints": np.array([[4.0, 5], [30, 30]]),
        }
        transform.set_random_seed(seed)
        made = transform(**data)
        after = transform.py_random.getstate(), transform.random_generator.bit_generator.state
        transform.set_random_seed(seed)
        with plainly():
            expected = transform(**data)
        assert after == (transform.py_random.getstate(), transform.random_generator.bit_generator.state)
        assert made.keys() == expected.keys()
        for name in made.keys() - {"applied_transforms"}:
            assert_same(made[name], expected[name])
        assert repr(made["applied_transforms"]) == repr(expected["applied_transforms"])
    assert images() > 4


def test_volumes_and_batches() -> None:
    made, expected = both(A.Normalize(), images=np.stack([IMAGE, IMAGE[::-1]]))
    assert_same(made["images"], expected["images"])
    made, expected = both(A.Normalize(), volume=np.stack([IMAGE, IMAGE[::-1]]))
    assert_same(made["volume"], expected["volume"])


def test_a_difference_is_said_and_the_plain_image_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    fastpipe.uninstall()
    transform = A.Normalize()
    expected = transform(image=IMAGE)["image"]
    monkeypatch.setattr("fastpipe.core.factors.normalized_by_factor", lambda image, *_: image.astype(np.float32))
    with fastpipe.install(check=1):
        with pytest.warns(FastpipeWarning, match="Normalize gave other values"):
            assert_same(transform(image=IMAGE)["image"], expected)
        assert_same(transform(image=IMAGE)["image"], expected)
        assert LEDGER.site(*SITE).is_off


def test_another_albucore(monkeypatch: pytest.MonkeyPatch) -> None:
    fastpipe.uninstall()
    monkeypatch.setattr(hooks, "_FINGERPRINT", "another")
    with fastpipe.install(check=0):
        made, expected = both(A.Normalize(), image=IMAGE)
    assert_same(made["image"], expected["image"])
    assert images() == 0
    assert LEDGER.site(*SITE).left == {"another albucore than is known": 1}


def test_nothing_stays() -> None:
    ours = pixel_transforms.normalize
    transform = A.Compose([A.Normalize(), A.HorizontalFlip()])
    kept = pickle.dumps(A.Normalize(p=0.5))
    fastpipe.uninstall()
    assert pixel_transforms.normalize is not ours
    assert pixel_transforms.normalize.__module__ == "albucore.functions"
    code = "import pickle, sys; pickle.loads(sys.stdin.buffer.read()); assert 'fastpipe' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], input=kept, check=True)
    assert transform(image=IMAGE)["image"].dtype == np.float32


# -- Normalize and ToTensorV2 together


def pair(*before: Any, **options: Any) -> Any:
    return A.Compose([*before, A.Normalize(), ToTensorV2()], **options)


def assert_same_tensor(made: Any, expected: torch.Tensor) -> None:
    assert fastpipe.is_pending(made)
    assert (made.shape, made.stride(), made.dtype) == (expected.shape, expected.stride(), expected.dtype)
    assert made.is_contiguous() == expected.is_contiguous()
    assert torch.equal(made, expected)
    assert type(made) is torch.Tensor
    assert not fastpipe.is_pending(made)
    assert made.stride() == expected.stride()


@pytest.mark.parametrize("size", [(1, 1), (1, 37), (37, 1), (2, 3), (131, 157), (224, 224)], ids=str)
def test_a_tensor_waits(size: tuple[int, int]) -> None:
    image = corpus.photo(*size)
    for given in (image, image[::-1], image[:, ::-1], np.asfortranarray(image)):
        before = images()
        made, expected = both(pair(), image=given)
        assert images() == before + 1
        assert_same_tensor(made["image"], expected["image"])


def test_what_is_drawn_before(monkeypatch: pytest.MonkeyPatch) -> None:
    transform = pair(
        A.RandomResizedCrop((140, 130)),
        A.HorizontalFlip(),
        A.OneOf([A.ColorJitter(), A.GaussNoise()], p=0.8),
        bbox_params=A.BboxParams("pascal_voc", label_fields=["labels"]),
        keypoint_params=A.KeypointParams("xy"),
        additional_targets={"second": "image"},
        seed=5,
        save_applied_params=True,
    )
    for seed in range(6):
        data = {
            "labels": [1, 2],
            "image": LARGE,
            "second": corpus.photo(131, 157, seed),
            "mask": LARGE[..., 0],
            "masks": [LARGE[..., 1], LARGE[..., 2]],
            "bboxes": np.array([[3.0, 4, 120, 110], [20, 2, 50, 45]]),
            "keypoints": np.array([[4.0, 5], [80, 90]]),
        }
        transform.set_random_seed(seed)
        made = transform(**data)
        after = transform.py_random.getstate(), transform.random_generator.bit_generator.state
        transform.set_random_seed(seed)
        with plainly():
            expected = transform(**data)
        assert after == (transform.py_random.getstate(), transform.random_generator.bit_generator.state)
        assert list(made) == list(expected)
        assert repr(made["applied_transforms"]) == repr(expected["applied_transforms"])
        assert_same_tensor(made["image"], expected["image"])
        for name in made.keys() - {"applied_transforms", "image", "masks"}:
            assert_same(made[name], expected[name])
        for mask, other in zip(made["masks"], expected["masks"], strict=True):
            assert_same(mask, other)


@pytest.mark.parametrize(
    "image", [LARGE[..., 0], LARGE[..., :1], LARGE.astype(np.float32) / 255, np.dstack([LARGE, LARGE])], ids=str
)
def test_other_images_become_tensors_as_ever(image: Any) -> None:
    channels = image.shape[2] if image.ndim == 3 else 1
    transform = A.Compose([A.Normalize(mean=(0.4,) * channels, std=(0.2,) * channels), ToTensorV2()])
    made, expected = both(transform, image=image)
    assert not fastpipe.is_pending(made["image"])
    assert_same(made["image"], expected["image"])


class _OwnNormalize(A.Normalize):
    def apply(self, img: Any, **params: Any) -> Any:
        return super().apply(img, **params) * 2


class _OwnToTensor(ToTensorV2):
    def apply(self, img: Any, **params: Any) -> Any:
        return super().apply(img, **params) * 2


class _OwnCompose(A.Compose):
    pass


def _patched() -> Any:
    normalize = A.Normalize()
    normalize._key2func["image"] = lambda image, **params: np.zeros_like(image, dtype=np.float32)
    return normalize


@pytest.mark.parametrize(
    "transform",
    [
        A.Compose([_OwnNormalize(), ToTensorV2()]),
        A.Compose([A.Normalize(), _OwnToTensor()]),
        A.Compose([A.Normalize(), A.HorizontalFlip(), ToTensorV2()]),
        A.Compose([A.Normalize(normalization="image"), ToTensorV2()]),
        A.Compose([_patched(), ToTensorV2()]),
        _OwnCompose([A.Normalize(), ToTensorV2()]),
    ],
    ids=["normalize", "to_tensor", "between", "per image", "patched", "compose"],
)
def test_what_is_not_known_is_albumentations_own(transform: Any) -> None:
    made, expected = both(transform, image=LARGE)
    assert not fastpipe.is_pending(made["image"])
    assert_same(made["image"], expected["image"])


def test_replay() -> None:
    transform = A.ReplayCompose([A.HorizontalFlip(), A.Normalize(), ToTensorV2()])
    made, expected = both(transform, image=LARGE)
    assert_same(made["image"], expected["image"])
    again = A.ReplayCompose.replay(made["replay"], image=LARGE)["image"]
    assert_same(again, expected["image"])


@pytest.mark.parametrize("chances", [(1, 0), (0, 1), (0.5, 0.5)], ids=str)
def test_either_may_be_left_out(chances: tuple[float, float]) -> None:
    transform = A.Compose([A.Normalize(p=chances[0]), ToTensorV2(p=chances[1])])
    for seed in range(8):
        transform.set_random_seed(seed)
        made = transform(image=LARGE)["image"]
        transform.set_random_seed(seed)
        with plainly():
            expected = transform(image=LARGE)["image"]
        assert type(expected) is (torch.Tensor if fastpipe.is_pending(made) else type(made))
        assert_same(made, expected)


def test_a_compose_within_another() -> None:
    made, expected = both(A.Compose([A.HorizontalFlip(), pair(A.VerticalFlip())]), image=LARGE)
    assert_same_tensor(made["image"], expected["image"])


def test_a_transform_behind_sees_elements() -> None:
    transform = A.Compose([A.Normalize(), ToTensorV2(), A.Lambda(image=lambda image, **params: image + 1)])
    made, expected = both(transform, image=LARGE)
    assert_same(made["image"], expected["image"])


def test_an_error_is_the_user_s() -> None:
    def fails(image: Any, **params: Any) -> Any:
        raise KeyError("mine")

    transform = A.Compose([A.Normalize(), ToTensorV2(), A.Lambda(image=fails)])
    with pytest.raises(KeyError, match="mine"):
        transform(image=LARGE)
    made, expected = both(A.Normalize(), image=LARGE)
    assert_same(made["image"], expected["image"])


def test_the_image_may_change_afterwards() -> None:
    image = LARGE.copy()
    made = pair()(image=image)["image"]
    assert fastpipe.is_pending(made)
    image[:] = 0
    with plainly():
        assert torch.equal(made, pair()(image=LARGE)["image"])


def test_pickles_and_copies() -> None:
    made, expected = both(pair(), image=LARGE)
    assert torch.equal(pickle.loads(pickle.dumps(made["image"])), expected["image"])
    made = pair()(image=LARGE)["image"]
    assert torch.equal(made.clone(), expected["image"])
    assert torch.equal(made[:, 3:40, 5:60], expected["image"][:, 3:40, 5:60])


# -- what is turned


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
@pytest.mark.parametrize(
    "shape", [(5, 7), (5, 7, 1), (6, 4, 2), (31, 17, 3), (8, 9, 4), (3, 4, 5), (1, 6, 3), (6, 1, 3)]
)
def test_views_become_arrays(dtype: Any, shape: tuple[int, ...]) -> None:
    image = np.random.default_rng(3).integers(0, 256, shape).astype(dtype)
    wide = np.repeat(image, 2, 1)[:, : shape[1]]
    for whole in (image, wide, np.asfortranarray(image)):
        for view in (whole, whole[::-1], whole[:, ::-1], whole[::-1, ::-1], whole[..., ::-1], whole[:0], whole[::2]):
            for given in (view, view.swapaxes(0, 1)):
                made = transforms_interface.ensure_contiguous_output(given)
                with plainly():
                    expected = transforms_interface.ensure_contiguous_output(given)
                assert (made is given) == (expected is given)
                assert_same(made, expected)
                assert made.shape == expected.shape
                assert made.flags.writeable == expected.flags.writeable
                assert made.flags.owndata == expected.flags.owndata
                assert np.shares_memory(made, given) == np.shares_memory(expected, given)


@pytest.mark.parametrize("kind", [A.Transpose, A.RandomRotate90, A.D4])
def test_turns(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    fastpipe.uninstall()
    copied: list[Any] = []
    mask = np.ascontiguousarray(LARGE[..., 0])
    plain = transforms_interface.ensure_contiguous_output

    def ensure_contiguous_output(arg: Any) -> Any:
        copied.append(plain(arg) is not arg)
        return plain(arg)

    monkeypatch.setattr(transforms_interface, "ensure_contiguous_output", ensure_contiguous_output)
    with fastpipe.install(check=0):
        for seed in range(8):
            transform = A.Compose([kind(p=1)], seed=seed)
            made = transform(image=LARGE, mask=mask)
            assert not any(copied)
            with plainly():
                expected = A.Compose([kind(p=1)], seed=seed)(image=LARGE, mask=mask)
            copied.clear()
            for name in made:
                assert_same(made[name], expected[name])


# -- boxes


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


class _Photos(Dataset[Any]):
    """Photos, with a `Compose` that draws."""

    def __init__(self) -> None:
        self.transform = pair(A.RandomResizedCrop((150, 140)), A.HorizontalFlip(), seed=3)

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        return self.transform(image=corpus.photo(131 + index, 157, index))["image"], index


def _stacked(samples: Any) -> Any:
    images, numbers = zip(*samples, strict=True)
    return torch.stack(images), list(numbers)


@pytest.mark.parametrize("collate", [None, _stacked], ids=["default", "own"])
@pytest.mark.parametrize("workers", [0, 1])
def test_batches(workers: int, collate: Any) -> None:
    def batches() -> Any:
        torch.manual_seed(3)
        return list(DataLoader(_Photos(), 4, num_workers=workers, collate_fn=collate))

    made = batches()
    fastpipe.uninstall()
    expected = batches()
    assert len(made) == len(expected) == 3
    for (tensor, numbers), (other, other_numbers) in zip(made, expected, strict=True):
        assert type(tensor) is torch.Tensor
        assert (tensor.shape, tensor.stride(), tensor.dtype) == (other.shape, other.stride(), other.dtype)
        assert torch.equal(tensor, other)
        assert list(numbers) == list(other_numbers)


def test_a_batch_holds_no_arrays_of_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastpipe.program import pending_work

    monkeypatch.setattr(pending_work.NormalizedPixels, "_new", None)
    tensors = [pair()(image=corpus.photo(131, 157, seed))["image"] for seed in range(3)]
    batch = torch.stack(tensors)
    with plainly():
        expected = torch.stack([pair()(image=corpus.photo(131, 157, seed))["image"] for seed in range(3)])
    assert torch.equal(batch, expected)
    assert all(map(fastpipe.is_pending, tensors))


@pytest.mark.parametrize("batched", [False, True])
def test_what_the_core_refuses(monkeypatch: pytest.MonkeyPatch, batched: bool) -> None:
    monkeypatch.setattr("fastpipe.program.pending_work.normalized_by_factor", lambda *_: None)
    made, expected = both(pair(), image=LARGE)
    if batched:
        assert torch.equal(torch.stack([made["image"]]), torch.stack([expected["image"]]))
    else:
        assert_same_tensor(made["image"], expected["image"])


@pytest.mark.parametrize("batched", [False, True])
def test_a_difference_in_a_tensor_is_said(monkeypatch: pytest.MonkeyPatch, batched: bool) -> None:
    fastpipe.uninstall()
    expected = pair()(image=LARGE)["image"]

    def wrong(image: Any, mean: Any, factor: Any, out: Any = None) -> Any:
        made = np.empty(image.shape, np.float32) if out is None else out
        made[...] = image
        return made

    monkeypatch.setattr("fastpipe.program.pending_work.normalized_by_factor", wrong)
    with fastpipe.install(check=1):
        made = pair()(image=LARGE)["image"]
        assert fastpipe.is_pending(made)
        with pytest.warns(FastpipeWarning, match="Normalize: an image had other values"):
            made = torch.stack([made])[0] if batched else made.contiguous()
        assert torch.equal(made, expected)
        assert LEDGER.site(*SITE).is_off
        made = pair()(image=LARGE)["image"]
        assert not fastpipe.is_pending(made)
        assert torch.equal(made, expected)


def test_another_albumentations(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks._pair_is_known.cache_clear()
    monkeypatch.setattr(hooks, "_PAIR_FINGERPRINT", "another")
    try:
        made, expected = both(pair(), image=LARGE)
    finally:
        hooks._pair_is_known.cache_clear()
    assert not fastpipe.is_pending(made["image"])
    assert_same(made["image"], expected["image"])


def test_no_method_stays() -> None:
    transform = pair()
    assert "apply_with_params" in vars(A.Normalize)
    waiting = transform(image=LARGE)["image"]
    fastpipe.uninstall()
    assert "apply_with_params" not in vars(A.Normalize)
    assert "apply_with_params" not in vars(ToTensorV2)
    assert not hasattr(A.Compose.__call__, "__wrapped__")
    expected = transform(image=LARGE)["image"]
    assert type(expected) is torch.Tensor
    assert torch.equal(waiting, expected)
