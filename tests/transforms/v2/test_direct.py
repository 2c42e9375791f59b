"""v2 transforms called directly: on what torchvision takes they are torchvision's, and arrays are images, too."""

from __future__ import annotations

import corpus
import numpy as np
import pytest
import torch
import torchvision.transforms.v2 as theirs
from PIL import Image
from torchvision import tv_tensors
from v2_pipelines import pipeline, same

from fastpipe.transforms import v2

PHOTO = corpus.photo(61, 83)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["pil", "image", "tensor"])
def test_images_handed_directly(seed: int, kind: str) -> None:
    picture = Image.fromarray(PHOTO)
    image = {
        "pil": picture,
        "image": theirs.functional.to_image(picture),
        "tensor": theirs.functional.pil_to_tensor(picture),
    }
    found = []
    for module in (v2, theirs):
        torch.manual_seed(seed)
        transforms = [t for t in pipeline(module, seed) if kind == "pil" or type(t).__name__ != "ToImage"]
        found.append((module.Compose(transforms)(image[kind]), torch.get_rng_state()))
    assert same(found[0], found[1])


@pytest.mark.parametrize("seed", range(30))
def test_arrays_are_what_pil_images_are(seed: int) -> None:
    """The fast kernels on arrays give torchvision's bytes on PIL images, and the same numbers are drawn."""
    found = []
    for module, image in ((v2, PHOTO), (theirs, Image.fromarray(PHOTO))):
        torch.manual_seed(seed)
        found.append((module.Compose(pipeline(module, seed))(image), torch.get_rng_state()))
    (ours, state), (expected, their_state) = found
    if isinstance(expected, Image.Image):
        assert isinstance(ours, np.ndarray)
        expected = np.asarray(expected)
        assert np.array_equal(ours, expected)
    else:
        assert same(ours, expected)
    assert torch.equal(state, their_state)


def test_an_array_beside_boxes() -> None:
    def sample(image: object) -> dict[str, object]:
        boxes = tv_tensors.BoundingBoxes([[1, 2, 30, 40], [5, 6, 70, 60]], format="XYXY", canvas_size=(61, 83))
        return {"image": image, "boxes": boxes, "labels": torch.tensor([1, 2]), "name": "a", "scores": np.ones(3)}

    found = []
    for module, image in ((v2, PHOTO), (theirs, Image.fromarray(PHOTO))):
        torch.manual_seed(3)
        transform = module.Compose([module.RandomZoomOut(p=1), module.RandomIoUCrop(), module.SanitizeBoundingBoxes()])
        found.append(transform(sample(image)))
    ours, expected = found
    assert np.array_equal(ours["image"], np.asarray(expected["image"]))
    assert same(ours["boxes"], expected["boxes"])
    assert same(ours["labels"], expected["labels"])
    assert ours["name"] == "a"


def test_other_arrays_pass_as_in_torchvision() -> None:
    mask, image = np.zeros((61, 83), np.uint8), Image.fromarray(PHOTO)
    made, passed = v2.Resize(20)(image, mask)
    assert made.size == theirs.Resize(20)(image).size
    assert passed is mask
    floats = np.zeros((4, 5, 3), np.float32)
    assert v2.Resize(2)(floats) is floats
    assert same(v2.ToImage()(PHOTO), theirs.ToImage()(PHOTO))
    assert v2.Lambda(lambda array: array.shape)(PHOTO) == PHOTO.shape


def test_gray_arrays_and_a_foreign_member() -> None:
    gray = PHOTO[..., 0]
    assert np.array_equal(v2.Resize(20)(gray), np.asarray(theirs.Resize(20)(Image.fromarray(gray))))
    assert v2.Resize(20)(gray[..., None]).shape == (20, 27, 1)
    foreign = v2.Compose([v2.Resize(20), v2.Lambda(lambda image: image.transpose(Image.Transpose.ROTATE_90))])
    assert foreign(PHOTO).shape == (27, 20, 3)


@pytest.mark.parametrize(
    ("name", "arguments"), [("RGB", ()), ("ScaleJitter", ((9, 9),)), ("Pad", (2, (1, 2, 3))), ("Pad", (2, "x"))]
)
def test_what_is_not_known_ahead_runs_on_the_pixels(name: str, arguments: tuple[object, ...]) -> None:
    """Results, errors and states behind are those of PIL images."""
    for array in (PHOTO[..., 0], PHOTO[:1, :7], PHOTO[:1, :1]):
        found = []
        for module, image in ((v2, array), (theirs, Image.fromarray(array))):
            torch.manual_seed(3)
            try:
                result = np.asarray(getattr(module, name)(*arguments)(image)).tolist()
            except (TypeError, ValueError) as error:
                result = type(error), str(error)
            found.append((result, torch.get_rng_state().tolist()))
        assert found[0] == found[1]


def test_cutmix_and_mixup_on_a_batch() -> None:
    images, labels = torch.rand(4, 3, 8, 9), torch.arange(4)
    for name in ("CutMix", "MixUp"):
        found = []
        for module in (v2, theirs):
            torch.manual_seed(1)
            found.append(getattr(module, name)(num_classes=5)(images, labels))
        assert same(found[0], found[1])
