"""A mistake of fastpipe's own is no refusal: it is raised where torchvision's way has nothing to complain of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision_here import module, torchvision

import fastpipe
import fastpipe.transforms as T
from fastpipe import core, ops
from fastpipe.errors import CoreError
from fastpipe.transforms import functional as F
from fastpipe.transforms import v2

v2F = module("fastpipe.transforms.v2.functional")
tv_tensors = module("torchvision.tv_tensors")

pytestmark = pytest.mark.needs_core

WAYS: dict[str, Callable[[Any], Any]] = {
    "Compose": lambda image: T.Compose([T.Resize((41, 53)), T.RandomHorizontalFlip(), T.ToTensor()])(image),
    "Compose of an array": lambda image: T.Compose([T.Resize((41, 53)), T.RandomHorizontalFlip()])(np.asarray(image)),
    "Resize": lambda image: T.Resize((41, 53))(image),
    "resize": lambda image: F.resize(image, [41, 53]),
    "v2 Compose": lambda image: v2.Compose([v2.Resize((41, 53)), v2.RandomHorizontalFlip()])(image),
    "v2 Compose of a sample": lambda image: v2.Compose([v2.Resize((41, 53))])(image, {"boxes": boxes(image)}),
    "v2 Resize": lambda image: v2.Resize((41, 53))(image),
    "v2 resize": lambda image: v2F.resize(image, [41, 53]),
}


def boxes(image: Image.Image) -> Any:
    return tv_tensors.BoundingBoxes([[1, 2, 9, 9]], format="XYXY", canvas_size=image.size[::-1])


@pytest.fixture
def image() -> Image.Image:
    return Image.fromarray(corpus.photo(90, 120))


@pytest.mark.parametrize("error", [AttributeError, TypeError, ValueError, RuntimeError, CoreError])
@pytest.mark.parametrize("way", WAYS)
def test_a_planted_mistake_is_raised(
    image: Image.Image, monkeypatch: pytest.MonkeyPatch, way: str, error: type[Exception]
) -> None:
    def planted(*_: object) -> bool:
        raise error("planted")

    monkeypatch.setattr(ops.Resize, "to_core", planted)
    with pytest.raises(error, match="planted"):
        WAYS[way](image)


@pytest.mark.parametrize("error", [AttributeError, TypeError, CoreError])
@pytest.mark.parametrize(
    ("kind", "resize"),
    [(np.asarray, F.resize), (lambda image: F.pil_to_tensor(image).contiguous(), v2F.resize)],
    ids=["array", "tensor"],
)
def test_a_planted_mistake_of_arrays_and_tensors_is_raised(
    image: Image.Image, monkeypatch: pytest.MonkeyPatch, kind: Any, resize: Any, error: type[Exception]
) -> None:
    def planted(*_: object, **__: object) -> None:
        raise error("planted")

    resize(kind(image), [23, 31])  # what is found out once has been
    monkeypatch.setattr(core.Job, "resize", planted)
    with pytest.raises(error, match="planted"):
        resize(kind(image), [41, 53])


@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_is_pillow_s_to_do(image: Image.Image, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    expected = np.asarray(image.resize((53, 41), Image.Resampling.BILINEAR))
    monkeypatch.setattr(ops.Resize, "to_core", lambda *_: False)
    torch.manual_seed(2)  # flips nothing
    made = WAYS[way](image)
    made = made[0] if isinstance(made, tuple) else made
    if isinstance(made, torch.Tensor):
        made = (made * 255).round().to(torch.uint8).permute(1, 2, 0)
    assert np.array_equal(np.asarray(made), expected)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda image: F.resize(image, "x"),
        lambda image: T.Compose([T.RandomCrop(500), T.ToTensor()])(image),
        lambda image: F.adjust_hue(image, 3),
        lambda image: v2F.rotate(image, "x"),
        lambda image: v2.Compose([v2.RandomCrop(500)])(image),
    ],
)
def test_a_mistake_of_the_user_s_is_told_as_torchvision_tells_it(image: Image.Image, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        wrong(image)


@pytest.mark.parametrize(
    "members",
    [
        lambda library: [library.Resize(20), library.Normalize([0.5] * 3, [0.5] * 3)],
        lambda library: [library.ToTensor(), library.ToTensor()],
        lambda library: [library.ToTensor(), library.Normalize([0.5] * 4, [0.5] * 4)],
        lambda library: [library.RandomCrop(500), library.ToTensor()],
        lambda library: [library.ConvertImageDtype(torch.float32)],
        lambda library: [library.ToTensor(), library.PILToTensor()],
    ],
)
def test_a_mistake_in_a_data_set_s_transform_is_torchvision_s_error(tmp_path: Path, members: Any) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0.jpg").write_bytes(corpus.jpeg(90, 120))
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        torchvision.datasets.ImageFolder(tmp_path, torchvision.transforms.Compose(members(torchvision.transforms)))[0]
    with pytest.raises(theirs.type) as ours:
        fastpipe.ImageFolder(tmp_path, T.Compose(members(T)))[0]
    assert str(ours.value) == str(theirs.value)
