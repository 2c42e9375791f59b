"""albumentations' `Normalize` by the core: albumentations' own floats, and its generators' states."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import albumentations as A
import corpus
import numpy as np
import pytest
from albumentations.augmentations.pixel import transforms as pixel_transforms
from albumentations.pytorch import ToTensorV2

import fastpipe
from fastpipe import core
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks import albumentations as hooks
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import plainly

pytestmark = pytest.mark.skipif(not core.available(), reason="without the core nothing is taken over")

IMAGE = corpus.photo(47, 61)
SITE = ("function", "albumentations.Normalize")


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(LEDGER, "_sites", {})
    with fastpipe.install(check=0):
        yield


def both(transform: Any, **data: Any) -> tuple[Any, Any]:
    """What a transform gives with the hooks, and then without them, from the same state of its generators."""
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
