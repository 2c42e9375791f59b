"""albumentations' `Normalize` and `ToTensorV2` by the core: albumentations' own floats, and its generators' states."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import albumentations as A
import corpus
import numpy as np
import pytest
from albumentations.augmentations.pixel import transforms as pixel_transforms
from albumentations.core import transforms_interface
from albumentations.pytorch import ToTensorV2
from hooks.albumentations_calls import LARGE, SITE, assert_same, both, images

import fastpipe
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks.ledger import LEDGER
from fastpipe.interop.albumentations import normalizing
from fastpipe.plain_way import plainly

pytestmark = [pytest.mark.needs_core, pytest.mark.usefixtures("hooks_without_checks")]
IMAGE = corpus.photo(47, 61)


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
        made, expected = both(transform, seed, **data)
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
    monkeypatch.setattr(
        "fastpipe.interop.albumentations.normalizing.normalized_by_factor", lambda image, *_: image.astype(np.float32)
    )
    with fastpipe.install(check=1):
        with pytest.warns(FastpipeWarning, match="Normalize gave other values"):
            assert_same(transform(image=IMAGE)["image"], expected)
        assert_same(transform(image=IMAGE)["image"], expected)
        assert LEDGER.site(*SITE).is_off


def test_another_albucore(monkeypatch: pytest.MonkeyPatch) -> None:
    fastpipe.uninstall()
    monkeypatch.setattr(normalizing, "_NORMALIZE", "another")
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
