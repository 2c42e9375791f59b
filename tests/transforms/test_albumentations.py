"""albumentations transforms in a torchvision-style pipeline."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transform_cases import picture

import fastpipe.transforms as T
from fastpipe.errors import PlanError
from fastpipe.transforms._base import drawable
from fastpipe.types import Generators, ImageShape

A = pytest.importorskip("albumentations")


def image_only() -> Any:
    return A.Compose(
        [A.RandomBrightnessContrast(p=0.8), A.OneOf([A.GaussNoise(p=1), A.ISONoise(p=1)], p=0.7), A.CLAHE(p=0.3)]
    )


def any_size() -> Any:
    return A.Compose([A.RandomCrop(20, 24), A.Affine(rotate=(-30, 30), p=1), A.GaussNoise(p=1)])


def test_types_are_kept() -> None:
    array = picture(40, 30)
    for transform in (T.Albumentations(image_only()), T.Albumentations(A.HorizontalFlip(p=1))):
        torch.manual_seed(1)
        expected = transform(array)
        assert type(expected) is np.ndarray
        torch.manual_seed(1)
        pil = transform(Image.fromarray(array))
        assert pil.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(pil), expected)
        torch.manual_seed(1)
        tensor = transform(torch.from_numpy(array).permute(2, 0, 1))
        assert tensor.dtype == torch.uint8
        np.testing.assert_array_equal(tensor.permute(1, 2, 0).numpy(), expected)
    np.testing.assert_array_equal(array, picture(40, 30))


def test_the_result_is_albumentations_own() -> None:
    array = picture(40, 30)
    np.testing.assert_array_equal(T.Albumentations(A.VerticalFlip(p=1))(array), array[::-1])
    np.testing.assert_array_equal(T.Albumentations(A.InvertImg(p=1))(array), 255 - array)
    gray = picture(40, 30, 1)
    np.testing.assert_array_equal(T.Albumentations(A.HorizontalFlip(p=1))(gray), gray[:, ::-1])
    mirrored = T.Albumentations(A.HorizontalFlip(p=1))(Image.fromarray(gray))
    assert mirrored.mode == "L"
    np.testing.assert_array_equal(np.asarray(mirrored), gray[:, ::-1])
    floats = torch.rand(3, 5, 7)
    assert torch.equal(T.Albumentations(A.HorizontalFlip(p=1))(floats), floats.flip(-1))
    hsv = Image.fromarray(array).convert("HSV")
    assert T.Albumentations(A.HorizontalFlip(p=1))(hsv).mode == "HSV"


@pytest.mark.parametrize("make", [image_only, any_size])
def test_torchs_seed_decides(make: Any) -> None:
    transform, array = T.Albumentations(make()), picture(40, 30)

    def results(seed: int) -> list[np.ndarray]:
        torch.manual_seed(seed)
        return [transform(array) for _ in range(5)]

    first = results(7)
    np.random.seed(3)
    transform(array)
    for one, again in zip(first, results(7), strict=True):
        np.testing.assert_array_equal(one, again)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], results(8)[0])


def test_members_of_a_compose_draw_different_numbers() -> None:
    """Seeding every member with one seed would give two equal noises."""
    transform = T.Albumentations(A.Compose([A.GaussNoise(p=1), A.GaussNoise(p=1)]))
    gray = np.full((32, 32, 3), 128, np.uint8)
    torch.manual_seed(0)
    both = transform(gray).astype(int) - 128
    torch.manual_seed(0)
    one = T.Albumentations(A.GaussNoise(p=1))(gray).astype(int) - 128
    assert abs(np.corrcoef(both.ravel(), one.ravel())[0, 1]) < 0.95


def test_drawn_ahead_and_replayed() -> None:
    transform, array = T.Albumentations(image_only()), picture(40, 30)
    assert drawable(transform)
    torch.manual_seed(5)
    expected = transform(array)
    state = torch.get_rng_state()

    own = torch.Generator().manual_seed(5)
    (step,) = transform.draw(ImageShape(40, 30), Generators(torch=own))
    assert torch.equal(own.get_state(), state)
    assert step.output_shape(ImageShape(40, 30)) == (40, 30, 3)
    again = pickle.loads(pickle.dumps(step))
    assert str(again) == str(step)
    assert f"seed={step.seed}" in str(step)
    for replay in (step, again, step):
        np.testing.assert_array_equal(replay.apply(array), expected)
    pipeline = T.Compose([T.CenterCrop(20), transform, T.ToTensor()])
    assert drawable(pipeline)


def test_what_changes_the_shape_is_not_drawn_ahead() -> None:
    assert not drawable(T.Albumentations(any_size()))
    assert not drawable(T.Albumentations(A.HorizontalFlip()))
    assert not drawable(T.Albumentations(A.Compose([A.GaussNoise(), A.ToGray(num_output_channels=1)])))
    assert T.Albumentations(any_size())(picture(40, 30)).shape == (20, 24, 3)


def test_threads_take_turns() -> None:
    transform, array = T.Albumentations(image_only()), picture(64, 64)
    steps = [transform.draw(ImageShape(64, 64), Generators())[0] for _ in range(24)]
    expected = [step.apply(array) for step in steps]
    with ThreadPoolExecutor(4) as pool:
        for one, other in zip(expected, pool.map(lambda step: step.apply(array), steps), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: A.MaskDropout(p=1),
        lambda: A.Compose([A.OneOf([A.RandomCropNearBBox(p=1)], p=1)]),
        lambda: A.CropNonEmptyMaskIfExists(5, 5, p=1),
        lambda: A.BBoxSafeRandomCrop(p=1),
        lambda: A.Compose([A.NoOp()], bbox_params=A.BboxParams("coco", label_fields=["labels"])),
    ],
)
def test_missing_targets(make: Any) -> None:
    with pytest.raises(PlanError, match="needs more than the image"):
        T.Albumentations(make())(picture(20, 20))


def test_bad_arguments() -> None:
    for transform in (len, None, T.CenterCrop(3)):
        with pytest.raises(TypeError, match="albumentations transform"):
            T.Albumentations(transform)
    transform = T.Albumentations(A.HorizontalFlip())
    with pytest.raises(TypeError, match=r"tensors \(C, H, W\)"):
        transform(torch.zeros(2, 3, 4, 5))
    with pytest.raises(TypeError, match="PIL Image, Tensor or ndarray"):
        transform("photo.jpg")
    with pytest.raises(TypeError, match="PIL can't hold"):
        T.Albumentations(A.Normalize())(Image.new("RGB", (4, 4)))
    with pytest.raises(Exception, match="exceeds"):  # albumentations' own errors come through
        T.Albumentations(A.RandomCrop(9, 9, p=1))(picture(4, 4))


def test_pickle_and_repr() -> None:
    transform, array = pickle.loads(pickle.dumps(T.Albumentations(image_only()))), picture(20, 20)
    assert "RandomBrightnessContrast" in repr(transform)
    torch.manual_seed(2)
    expected = T.Albumentations(image_only())(array)
    torch.manual_seed(2)
    np.testing.assert_array_equal(transform(array), expected)


@pytest.mark.slow
def test_the_package_does_not_import_albumentations() -> None:
    code = "import sys, fastpipe.transforms as T; T.Albumentations; sys.exit('albumentations' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_documented_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "albumentations.md").read_text(encoding="utf-8")
    (tmp_path / "train" / "cat").mkdir(parents=True)
    Image.fromarray(picture(300, 260)).save(tmp_path / "train" / "cat" / "a.jpg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    exec(next(block for block in blocks if "T.Albumentations(" in block), names)
    torch.manual_seed(4)
    image, label = names["train"][0]
    assert image.shape == (3, 224, 224)
    assert label == 0
    torch.manual_seed(4)
    assert torch.equal(names["train"][0][0], image)
