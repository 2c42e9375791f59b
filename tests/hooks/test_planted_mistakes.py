"""Errors planted in fastpipe's own ways: the script goes on by the library's own, and the report says so."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torchvision_io_here
from hooks.composed import T, v2
from PIL import Image, ImageFilter
from torch.utils.data import DataLoader
from torchvision_here import module

import fastpipe
from fastpipe import core

pytestmark = [
    pytest.mark.usefixtures("fresh_ledger"),
    pytest.mark.skipif(not core.available(), reason="only the core's ways can fail"),
]

F = module("torchvision.transforms.functional")


class Place(NamedTuple):
    """A place in which an error is planted.

    Attributes:
        target: the function that fails.
        call: a script that goes through it.
        needs: a library that isn't everywhere.
        checks: the numbers of first calls that are checked, with which the script goes through it.
    """

    target: str
    call: Callable[[Path], Any]
    needs: str = ""
    checks: tuple[int, ...] = (0, 99)


def opened(path: Path) -> Any:
    return Image.open(path).convert("RGB")


def loaded(path: Path) -> Any:
    return Image.fromarray(np.asarray(opened(path)))


def decoded(path: Path) -> Any:
    return module("torchvision.io").decode_image(torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8))


def batch(path: Path) -> Any:
    folder = path.parent / "classes" / "one"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(path.read_bytes())
    dataset = module("torchvision.datasets").ImageFolder(folder.parent, T.Compose([T.RandomCrop(20), T.ToTensor()]))
    return torch.cat([images for images, _ in DataLoader(dataset, batch_size=3)])


def boxed(path: Path) -> Any:
    tv_tensors = module("torchvision.tv_tensors")
    boxes = tv_tensors.BoundingBoxes(torch.tensor([[3, 4, 30, 40]]), format="XYXY", canvas_size=(61, 83))
    return v2.RandomIoUCrop()(v2.functional.pil_to_tensor(loaded(path)), boxes)[1]


def processed(path: Path) -> Any:
    return importlib.import_module("transformers").ViTImageProcessor()(opened(path))["pixel_values"][0]


def normalized(path: Path) -> Any:
    albumentations = importlib.import_module("albumentations")
    return albumentations.Compose([albumentations.Normalize()])(image=np.asarray(opened(path)))["image"]


def read_by_opencv(path: Path) -> Any:
    return importlib.import_module("cv2").imread(str(path))


def masks(path: Path) -> Any:
    mask = importlib.import_module("pycocotools.mask")
    return mask.decode(mask.encode(np.asfortranarray(np.asarray(opened(path))[..., 0] // 128)))


def blurred(path: Path) -> Any:
    return loaded(path).filter(ImageFilter.GaussianBlur(2))


HOOKS = "fastpipe.hooks"
PLACES = {
    "a function of images": Place(f"{HOOKS}.pillow.image_functions.our_function", blurred),
    "what a function takes": Place(f"{HOOKS}.pillow.image_functions.ImageFunction.takes", blurred),
    "a file's opener": Place("fastpipe.pillow.files.open_lazily", opened),
    "a method of a file": Place(
        "fastpipe.pillow.lazy_image.LazyImage.resize", lambda path: Image.open(path).resize((9, 8))
    ),
    "an image's pixels": Place("fastpipe.pillow.lazy_source.LazySource.image", lambda path: [*opened(path).tobytes()]),
    "an image's array": Place(
        "fastpipe.pillow.lazy_source.LazySource.array", lambda path: np.asarray(opened(path)), checks=(0,)
    ),
    "an image's tensor": Place("fastpipe.pillow.lazy_source.LazySource.run", lambda path: F.to_tensor(opened(path))),
    "a stack of tensors": Place(
        "fastpipe.pillow.lazy_source.LazySource.fill",
        lambda path: torch.stack([F.to_tensor(opened(path))] * 2),
        checks=(0,),
    ),
    "a conversion to a tensor": Place(
        "fastpipe.pillow.image_tensors.image_tensor", lambda path: F.to_tensor(opened(path))
    ),
    "a Compose": Place(
        "fastpipe.transforms.compose_plan.draw_and_run",
        lambda path: T.Compose([T.RandomCrop(20), T.ToTensor()])(opened(path)),
    ),
    "the plan of a Compose": Place(
        "fastpipe.transforms.compose_plan.ComposePlan",
        lambda path: T.Compose([T.RandomCrop(20), T.ToTensor()])(opened(path)),
    ),
    "what the plan of a Compose takes": Place(
        "fastpipe.transforms.compose_plan.ComposePlan.takes",
        lambda path: T.Compose([T.RandomCrop(20), T.ToTensor()])(opened(path)),
    ),
    "the choice of what of a Compose is compared": Place(
        f"{HOOKS}.torchvision.compose_calls.calls_back",
        lambda path: T.Compose([T.RandomCrop(20), T.ToTensor()])(opened(path)),
        checks=(99,),
    ),
    "v2's Compose": Place(
        "fastpipe.transforms.compose_plan.draw_and_run",
        lambda path: v2.Compose([v2.RandomCrop(20), v2.ToImage()])(opened(path)),
    ),
    "v2's Compose of a sample": Place(
        "fastpipe.transforms.v2._planned._with_pixels",
        lambda path: v2.Compose([v2.RandomCrop(20), v2.ToImage()])(opened(path), {"a": 1})[0],
    ),
    "boxes": Place("fastpipe.transforms.v2._params.iou_crop", boxed),
    "functions of tensors": Place(
        f"{HOOKS}.torchvision.tensors.is_tensor", lambda path: F.gaussian_blur(F.pil_to_tensor(loaded(path)), [5, 5])
    ),
    "a file as a tensor": Place(f"{HOOKS}.torchvision.tensor_files.TensorFiles._opened", decoded, "torchvision.io"),
    "a decoded tensor": Place("fastpipe.program.encoded_image.EncodedImage.run", decoded, "torchvision.io"),
    "v2's functions on a tensor": Place(
        f"{HOOKS}.torchvision.pending_tensors._pending_result",
        lambda path: v2.functional.horizontal_flip(decoded(path)),
        "torchvision.io",
    ),
    "whole batches": Place("fastpipe.datasets.base.ImageDataset.batch", batch),
    "the datasets of whole batches": Place(f"{HOOKS}.torch.known_batches.KnownBatches._source", batch),
    "an array of OpenCV's": Place(f"{HOOKS}.opencv.decode", read_by_opencv, "cv2"),
    "masks": Place(f"{HOOKS}.pycocotools.decoded", masks, "pycocotools.mask"),
    "a processor's images": Place(f"{HOOKS}.transformers.recorded_tensor", processed, "transformers"),
    "a processor's crops": Place(f"{HOOKS}.transformers._resized", processed, "transformers"),
    "albumentations' Normalize": Place(f"{HOOKS}.albumentations._Normalize.make", normalized, "albumentations"),
}


def planted(error: type[BaseException]) -> Callable[..., Any]:
    def fails(*args: Any, **options: Any) -> Any:
        raise error("planted")

    return fails


def as_arrays(made: Any) -> np.ndarray[Any, Any]:
    return np.asarray(made)


def needed(place: str) -> Place:
    found = PLACES[place]
    if found.needs == "torchvision.io":
        if torchvision_io_here.why_not():
            pytest.skip(torchvision_io_here.why_not())
    elif found.needs:
        pytest.importorskip(found.needs)
    return found


@pytest.fixture(autouse=True)
def _any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for target in ("fastpipe.hooks.torchvision.tensor_files", "fastpipe.pillow.image_tensors"):
        monkeypatch.setattr(f"{target}.LEAST_PIXELS", 0)
    monkeypatch.setattr("fastpipe.hooks.torchvision.tensor_files.LEAST_BYTES", 0)


@pytest.mark.parametrize(
    ("place", "check"), [(name, check) for name, place in PLACES.items() for check in place.checks]
)
def test_the_library_s_own_way_is_taken_and_reported(
    place: str, check: int, varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, call, *_ = needed(place)
    torch.manual_seed(0)
    expected, drawn = as_arrays(call(varied_photos[0])), torch.rand(1)
    with fastpipe.install(check=check):
        call(varied_photos[0])  # imports what is planted in
        monkeypatch.setattr(target, planted(RuntimeError))
        torch.manual_seed(0)
        made, after = as_arrays(call(varied_photos[0])), torch.rand(1)
    np.testing.assert_array_equal(made, expected)
    assert torch.equal(after, drawn)
    reasons = [reason for site in fastpipe.report().sites for reason in site.left]
    assert any("RuntimeError" in reason for reason in reasons), reasons


@pytest.mark.parametrize("error", [MemoryError, RecursionError, KeyboardInterrupt])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_nobody_s_mistake_passes(
    place: str, error: type[BaseException], varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, call, _, checks = needed(place)
    with fastpipe.install(check=checks[0]):
        call(varied_photos[0])
        monkeypatch.setattr(target, planted(error))
        with pytest.raises(error, match="planted"):
            as_arrays(call(varied_photos[0]))
