"""albumentations' `Normalize` with `ToTensorV2`: a tensor whose floats are made later, in the batch's memory."""

from __future__ import annotations

import pickle
from typing import Any

import albumentations as A
import corpus
import numpy as np
import pytest
import torch
from albumentations.pytorch import ToTensorV2
from hooks.albumentations_calls import LARGE, SITE, assert_same, both, images, pair
from torch.utils.data import DataLoader, Dataset

import fastpipe
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks import albumentations as hooks
from fastpipe.hooks.ledger import LEDGER
from fastpipe.interop.albumentations import normalizing
from fastpipe.plain_way import plainly

pytestmark = [pytest.mark.needs_core, pytest.mark.usefixtures("hooks_without_checks")]


def assert_same_tensor(made: Any, expected: torch.Tensor) -> None:
    assert fastpipe.is_pending(made)
    assert (made.shape, made.stride(), made.dtype) == (expected.shape, expected.stride(), expected.dtype)
    assert made.is_contiguous() == expected.is_contiguous()
    assert torch.equal(made, expected)
    assert type(made) is torch.Tensor
    assert not fastpipe.is_pending(made)
    assert made.stride() == expected.stride()


@pytest.mark.parametrize("size", [(1, 1), (1, 37), (37, 1), (2, 3), (131, 157), (224, 224)], ids=str)
def test_a_tensor_waits(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    monkeypatch.setattr(hooks, "_LEAST_PIXELS", 0)
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
        made, expected = both(transform, seed, **data)
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
    normalizing.pair_is_known.cache_clear()
    monkeypatch.setattr(normalizing, "_PAIR", "another")
    try:
        made, expected = both(pair(), image=LARGE)
    finally:
        normalizing.pair_is_known.cache_clear()
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
