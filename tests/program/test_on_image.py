"""Programs on images that are loaded: torchvision's pixels, mode, size and info, on PIL images and on arrays."""

from __future__ import annotations

import io
import random
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision_here import torchvision
from transform_cases import picture

import fastpipe
from fastpipe import core
from fastpipe import transforms as fastpipe_transforms
from fastpipe.errors import PlanError
from fastpipe.ops import Crop, Operation, ToTensor
from fastpipe.program import lower, run_on_image, shape_of
from fastpipe.program.on_image import to_pil
from fastpipe.types import Generators, ImageShape, Recipe

NORMALIZED = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]


def chains(T: Any) -> dict[str, list[Any]]:
    return {
        "training": [T.RandomResizedCrop(40), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(*NORMALIZED)],
        "evaluation": [T.Resize(50), T.CenterCrop(40)],
        "a crop": [T.CenterCrop(30)],
        "all of it": [T.CenterCrop((71, 93))],
        "a crop beyond": [T.CenterCrop((40, 120))],
        "padded and jittered": [T.RandomCrop(60, padding=4), T.ColorJitter(0.4, 0.4, 0.4, 0.1)],
        "a pad that is cut off": [T.Pad(5), T.CenterCrop(50)],
        "policies": [T.RandAugment(), T.TrivialAugmentWide()],
        "by torch in the middle": [T.Resize(60), T.GaussianBlur(5), T.CenterCrop(40), T.RandomInvert(1.0)],
        "gray": [T.Grayscale(), T.ColorJitter(hue=0.3), T.Resize(30)],
        "tables": [T.RandomPosterize(1, 1.0), T.RandomSolarize(100, 1.0), T.ColorJitter(brightness=0.5)],
        "a pad that the core leaves": [T.Pad(80, padding_mode="reflect"), T.CenterCrop(200)],
        "turned": [T.RandomRotation(40, expand=True), T.Resize(50), T.PILToTensor()],
    }


@pytest.fixture(params=["core", "off"])
def with_core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "off":
        monkeypatch.setattr(core.library, "_loaded", core.library.load("off"))
    return str(request.param)


def drawn(chain: list[Any], shape: ImageShape, seed: int) -> Recipe:
    torch.manual_seed(seed)
    random.seed(seed)
    return Recipe(shape, fastpipe_transforms.Compose(chain).draw(shape, Generators()))


def expected(chain: list[Any], image: Image.Image, seed: int) -> Any:
    torch.manual_seed(seed)
    random.seed(seed)
    return torchvision.transforms.Compose(chain)(image)


@pytest.mark.usefixtures("with_core")
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", chains(fastpipe_transforms))
def test_equals_torchvision(name: str, channels: int) -> None:
    chain, reference = chains(fastpipe_transforms)[name], chains(torchvision.transforms)[name]
    if channels == 1 and name == "training":
        chain, reference = chain[:-1], reference[:-1]
    array = picture(71, 93, channels)
    image = Image.fromarray(array)
    image.info = {"dpi": (72, 72), "list": [1]}
    shape = shape_of(image)
    assert shape == shape_of(array) == (71, 93, channels)
    for seed in range(3):
        known = expected(reference, image, seed)
        program = lower(drawn(chain, shape, seed).steps, shape)
        made = run_on_image(program, image)
        if isinstance(known, torch.Tensor):
            assert made.dtype == known.dtype
            assert torch.equal(made, known)
            out = torch.empty_like(known)
            assert run_on_image(program, image, out) is out
            assert torch.equal(out, known)
        else:
            assert type(made) is Image.Image
            assert (made.mode, made.size, made.info) == (known.mode, known.size, known.info)
            raw = ("raw", "RGBX") if made.mode == "RGB" else ()  # with the fourth byte
            assert made.tobytes(*raw) == known.tobytes(*raw)
        if name != "by torch in the middle":  # of an array that is within 1/255
            pixels = run_on_image(program, array)
            assert np.array_equal(np.squeeze(np.asarray(pixels)), np.squeeze(np.asarray(known)))
    assert np.array_equal(np.asarray(image), array)


@pytest.mark.usefixtures("with_core")
def test_a_result_is_memory_of_its_own() -> None:
    image = Image.fromarray(picture(9, 11))
    whole = Recipe(ImageShape(9, 11), (Crop(0, 0, 9, 11),))
    for recipe in (whole, Recipe(ImageShape(9, 11), (Crop(2, 3, 4, 5),))):
        made = run_on_image(lower(recipe.steps, recipe.shape), image)
        assert made is not image
        before = image.tobytes()
        made.putpixel((0, 0), (1, 2, 3))
        assert image.tobytes() == before


def test_arrays_with_any_strides() -> None:
    wide = picture(40, 60)
    recipe = drawn([fastpipe_transforms.Resize(11), fastpipe_transforms.ToTensor()], ImageShape(20, 20), 0)
    for array in (wide[::2, ::3], wide[::-2, ::-3], np.swapaxes(wide[:20, :20], 0, 1)):
        made = run_on_image(lower(recipe.steps, recipe.shape), array)
        assert torch.equal(made, run_on_image(lower(recipe.steps, recipe.shape), np.ascontiguousarray(array)))


def test_an_image_of_a_subclass(tmp_path: Any) -> None:
    Image.fromarray(picture(30, 40)).save(tmp_path / "a.png", pnginfo=None, dpi=(90, 90))
    program = lower(drawn([fastpipe_transforms.Resize(17)], ImageShape(30, 40), 0).steps, ImageShape(30, 40))
    with Image.open(tmp_path / "a.png") as file:
        assert type(file) is not Image.Image
        made = run_on_image(program, file)
        known = file.resize((22, 17), Image.Resampling.BILINEAR)
    assert type(made) is Image.Image
    assert (made.tobytes(), made.info) == (known.tobytes(), known.info)


class Negative:
    """A user's step, which takes any image."""

    def apply(self, image: Any) -> Any:
        if isinstance(image, Image.Image):
            made = image.point([255 - value for value in range(256)] * len(image.getbands()))
            made.info = {"by": "hand"}
            return made
        return 255 - image

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return shape


@pytest.mark.usefixtures("with_core")
def test_a_foreign_step_gets_what_torchvision_would_hand_it() -> None:
    array = picture(30, 40)
    steps: tuple[Any, ...] = (Crop(1, 2, 20, 20), Negative(), Crop(3, 3, 5, 5))
    made = run_on_image(lower(steps, ImageShape(30, 40)), Image.fromarray(array))
    assert np.array_equal(np.asarray(made), 255 - array[4:9, 5:10])
    assert made.info == {"by": "hand"}


def test_what_is_no_source() -> None:
    assert shape_of(Image.new("P", (3, 3))) is None
    assert shape_of(Image.new("RGBA", (3, 3))) is None
    assert shape_of(Image.new("RGB", (0, 3))) is None
    assert shape_of(np.zeros((3, 3, 4), np.uint8)) is None
    assert shape_of(np.zeros((0, 3, 3), np.uint8)) is None
    assert shape_of(np.zeros((3, 3, 3), np.float32)) is None
    assert shape_of(torch.zeros(3, 3, 3, dtype=torch.uint8)) is None
    transparent = Image.new("RGB", (3, 3))
    transparent.info["transparency"] = (1, 2, 3)
    assert shape_of(transparent) is None


def test_a_result_that_does_not_fit() -> None:
    program = lower((ToTensor(),), ImageShape(5, 5))
    with pytest.raises(PlanError, match="gives no image that fits"):
        run_on_image(program, np.zeros((5, 5, 3), np.uint8), torch.zeros(3, 4, 4))


@pytest.mark.needs_core
def test_an_image_of_several_blocks_is_run_by_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    array = picture(60, 50)
    image = Image.fromarray(array)
    asked: list[Any] = []
    for name in ("memory_of", "new_image", "run_to_new_image"):
        monkeypatch.setattr(core, name, lambda *arguments, **options: asked.append(arguments))
    steps: tuple[Operation, ...] = drawn(
        [fastpipe_transforms.Resize(30), fastpipe_transforms.CenterCrop(20)], ImageShape(60, 50), 0
    ).steps
    made = run_on_image(lower(steps, ImageShape(60, 50)), image)
    assert asked
    known = expected([torchvision.transforms.Resize(30), torchvision.transforms.CenterCrop(20)], image, 0)
    assert made.tobytes("raw", "RGBX") == known.tobytes("raw", "RGBX")


@pytest.fixture
def small_blocks() -> Any:
    """Pillow keeps an image in blocks of memory of 16 MB; here of 4 kB."""
    pillow: Any = Image.core
    size = pillow.get_block_size()
    pillow.set_block_size(4096)
    yield
    pillow.set_block_size(size)


@pytest.mark.parametrize("shape", [(80, 70, 3), (33, 333, 3), (90, 61, 1), (2, 4097, 1), (61, 90)], ids=str)
def test_an_array_becomes_an_image_in_several_blocks_of_memory(small_blocks: None, shape: tuple[int, ...]) -> None:
    for change in (np.copy, lambda pixels: pixels[::-1, ::2], np.asfortranarray):
        given = change(np.random.default_rng(0).integers(0, 256, shape, np.uint8))
        expected = Image.fromarray(given.reshape(given.shape[:2]) if given.shape[2:] == (1,) else given)
        made = to_pil(given)
        before = made.tobytes()
        assert (made.mode, made.size, before) == (expected.mode, expected.size, expected.tobytes())
        given[:] = 0
        assert made.tobytes() == before
        made.putpixel((1, 1), made.getpixel((0, 0)))


@pytest.mark.needs_core
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_an_image_in_several_blocks_of_memory_is_decoded(small_blocks: None, mode: str) -> None:
    photo = corpus.jpeg(97, 131, "420" if mode == "RGB" else "gray", seed=3)
    ours, plain = fastpipe.open_image(photo), Image.open(io.BytesIO(photo))
    for image in (ours, plain):
        image.load()
    assert ours.tobytes() == plain.tobytes()
    assert ours.resize((77, 90), 2).tobytes() == plain.resize((77, 90), 2).tobytes()
    assert ours.convert(mode).crop((3, 4, 90, 80)).tobytes() == plain.convert(mode).crop((3, 4, 90, 80)).tobytes()
