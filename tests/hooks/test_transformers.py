"""Hugging Face's image processors under `fastpipe.install`: the library's tensors, by the core."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision_here  # noqa: F401
from PIL import Image
from plain_and_hooked import assert_same

import fastpipe
from fastpipe.hooks import transformers as hooked
from fastpipe.hooks.ledger import LEDGER, Site

transformers = pytest.importorskip("transformers")
backends = pytest.importorskip("transformers.image_processing_backends")

pytestmark = pytest.mark.needs_core

COUNT = 4
BACKEND = "transformers.image_processing_backends.TorchvisionBackend"


@pytest.fixture
def site(fresh_ledger: None) -> Iterator[Site]:
    with fastpipe.install(check=0):
        yield LEDGER.site("function", f"{BACKEND}.process_image")


def processors() -> dict[str, Any]:
    return {
        "CLIP": transformers.CLIPImageProcessor(),
        "ViT": transformers.ViTImageProcessor(),
        "a crop larger than the image": transformers.CLIPImageProcessor(do_resize=False, crop_size=150),
        "bytes": transformers.ViTImageProcessor(do_rescale=False, do_normalize=False),
        "a crop of bytes": transformers.CLIPImageProcessor(do_rescale=False, do_normalize=False, crop_size=64),
        "LANCZOS": transformers.ViTImageProcessor(resample=1),
        "grouped": transformers.CLIPImageProcessor(disable_grouping=False),
    }


@pytest.mark.parametrize("name", processors())
@pytest.mark.parametrize("many", [False, True])
def test_tensors_are_the_librarys(name: str, many: bool, photos: list[str], site: Site) -> None:
    def made() -> Any:
        images = [Image.open(photo).convert("RGB") for photo in photos]
        parts = processors()[name].preprocess(images[: 4 if many else 1], return_tensors=None)["pixel_values"]
        return [*parts]

    ours = made()
    assert site.images == (4 if many else 1)
    fastpipe.uninstall()
    assert_same(ours, made())


def registered() -> list[str]:
    """The names of the processors on torchvision that the library has for its models."""
    models = importlib.import_module("transformers.models.auto.image_processing_auto").IMAGE_PROCESSOR_MAPPING_NAMES
    return sorted({backends["torchvision"] for backends in models.values() if "torchvision" in backends})


@pytest.mark.slow
def test_all_that_the_library_has_give_the_same(photos: list[str], site: Site) -> None:
    def made(name: str) -> Any:
        images = [Image.open(photo).convert("RGB") for photo in photos[:2]]
        try:
            return dict(getattr(transformers, name)()(images, return_tensors="pt"))
        except (ImportError, TypeError, ValueError) as error:  # some want more than images
            return repr(error)

    ours = {name: made(name) for name in registered()}
    assert site.images > 50
    fastpipe.uninstall()
    for name, values in ours.items():
        assert_same((name, values), (name, made(name)))


def test_the_first_are_compared(photos: list[str], fresh_ledger: None) -> None:
    processor = transformers.ViTImageProcessor()
    with fastpipe.install(check=2):
        for photo in photos:
            processor(Image.open(photo).convert("RGB"), return_tensors="pt")
        known = LEDGER.site("function", f"{BACKEND}.process_image")
        assert (known.images, known.checked, known.differed) == (4, 2, 0)


@pytest.mark.parametrize("mode", ["L", "RGBA"])
def test_other_images_are_the_librarys(mode: str, photos: list[str], site: Site) -> None:
    image = Image.open(photos[0]).convert(mode)
    processor = transformers.ViTImageProcessor(do_convert_rgb=True)
    ours = processor(image, return_tensors="pt")["pixel_values"]
    assert site.images == 0
    fastpipe.uninstall()
    assert torch.equal(ours, processor(image, return_tensors="pt")["pixel_values"])


def test_a_resize_of_ones_own_is_called_as_ever(photos: list[str], site: Site) -> None:
    class Own(transformers.ViTImageProcessor):  # type: ignore[misc,name-defined]
        def resize(self, image: Any, **options: Any) -> Any:
            shapes.append(image.shape)
            return super().resize(image, **options)

    shapes: list[Any] = []
    Own()(Image.open(photos[0]).convert("RGB"), return_tensors="pt")
    assert len(shapes) == 1
    assert len(shapes[0]) == 4


def test_whatever_looks_at_the_tensor_gets_ordinary_planes(photos: list[str], site: Site) -> None:
    image = Image.open(photos[0]).convert("RGB")
    made = transformers.ViTImageProcessor().process_image(image)
    assert fastpipe.is_pending(made)
    assert made.is_contiguous()
    np.testing.assert_array_equal(made.numpy(), np.asarray(image).transpose(2, 0, 1), strict=True)
    assert type(made) is torch.Tensor
    assert made.is_contiguous()


def test_small_images_are_the_librarys(site: Site, tmp_path: Any) -> None:
    file = tmp_path / "small.jpg"
    file.write_bytes(corpus.jpeg(40, 50))
    transformers.ViTImageProcessor()(Image.open(file).convert("RGB"), return_tensors="pt")
    assert site.images == 0


def test_a_mistake_of_ours_is_told_and_the_plain_tensor_given(
    photos: list[str], monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    def planted(*_: object, **__: object) -> object:
        raise AttributeError("planted")

    processor = transformers.ViTImageProcessor()
    monkeypatch.setattr(hooked, "_resized", planted)
    ours = processor(Image.open(photos[0]).convert("RGB"), return_tensors="pt")["pixel_values"]
    (told,) = LEDGER.site("function", f"{BACKEND}._preprocess").left
    assert "planted" in told
    fastpipe.uninstall()
    assert torch.equal(ours, processor(Image.open(photos[0]).convert("RGB"), return_tensors="pt")["pixel_values"])
