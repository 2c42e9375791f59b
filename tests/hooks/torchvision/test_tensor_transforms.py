"""torchvision's transforms of images without pixels: recipes, checks and the account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hooks.tensor_images import (
    FILES,
    KINDS,
    MARKS,
    PHOTO,
    F,
    opened,
    outcome,
    plainly_opened,
    shown,
    tv_tensors,
    v1,
    v2,
)

import fastpipe
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.torchvision import tensor_files
from fastpipe.plain_way import plainly
from fastpipe.program import pending_tensor, tensor_source
from fastpipe.program.comparisons import MOST_COMPARED

pytestmark = MARKS


PIXELS = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]


class _Twice:
    """A transform that nobody knows."""

    calls = 0

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        _Twice.calls += 1
        return image


class _Negative:
    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return 255 - image


RECIPES: dict[str, Callable[[], Any]] = {
    "training": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), *PIXELS]),
    "evaluation": lambda: v2.Compose([v2.Resize(70), v2.CenterCrop(64), *PIXELS]),
    "jitter": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.ColorJitter(0.4, 0.4, 0.4, 0.1), *PIXELS]),
    "to image": lambda: v2.Compose([v2.ToImage(), v2.RandomResizedCrop(64), *PIXELS, v2.ToPureTensor()]),
    "an image": lambda: v2.Compose([v2.ToImage(), v2.RandomCrop(64, padding=4)]),
    "an image of floats": lambda: v2.Compose([v2.ToImage(), v2.Resize(40), *PIXELS]),
    "halves": lambda: v2.Compose(
        [
            v2.ToDtype(torch.bfloat16, scale=True),
            v2.ColorJitter(hue=(0.07, 0.07)),
            v2.ColorJitter(saturation=(1.3, 1.3)),
            v2.RandomCrop(50),
        ]
    ),
    "uint8": lambda: v2.Compose([v2.RandomCrop(64), v2.RandomVerticalFlip()]),
    "a crop": lambda: v2.Compose([v2.RandomCrop(64)]),
    "cropped last": lambda: v2.Compose([v2.Resize(70), v2.CenterCrop(64)]),
    "erased": lambda: v2.Compose([v2.RandomResizedCrop(64), *PIXELS, v2.RandomErasing(1.0)]),
    "erased by noise": lambda: v2.Compose([v2.RandomResizedCrop(64), *PIXELS, v2.RandomErasing(1.0, value="random")]),
    "trivial": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.TrivialAugmentWide(), *PIXELS]),
    "rand": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.RandAugment(), *PIXELS]),
    "auto": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.AutoAugment(), *PIXELS]),
    "apply": lambda: v2.Compose([v2.RandomApply([v2.RandomCrop(64)], 0.5), v2.Resize([50, 50]), *PIXELS]),
    "choice": lambda: v2.Compose([v2.RandomChoice([v2.RandomCrop(64), v2.Resize([64, 64])]), *PIXELS]),
    "warps": lambda: v2.Compose([v2.RandomAffine(20), v2.RandomPerspective(), v2.RandomRotation(20), *PIXELS]),
    "foreign first": lambda: v2.Compose([_Twice(), v2.RandomResizedCrop(64), *PIXELS]),
    "foreign between": lambda: v2.Compose([v2.RandomResizedCrop(64), _Twice(), v2.RandomHorizontalFlip(), *PIXELS]),
    "foreign looks": lambda: v2.Compose([v2.RandomCrop(64), _Negative(), v2.RandomHorizontalFlip(), *PIXELS]),
    "lambda": lambda: v2.Compose([v2.RandomCrop(64), v2.Lambda(lambda x: x / 2), v2.RandomHorizontalFlip()]),
    "nested": lambda: v2.Compose([v2.Compose([v2.RandomResizedCrop(64)]), v2.Compose(PIXELS)]),
    "noise": lambda: v2.Compose([v2.RandomResizedCrop(64), *PIXELS, v2.GaussianNoise()]),
    "blur": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.GaussianBlur(5), v2.JPEG((50, 90)), *PIXELS]),
    "photometric": lambda: v2.Compose([v2.RandomPhotometricDistort(), v2.RandomResizedCrop(64), *PIXELS]),
    "gray": lambda: v2.Compose([v2.RandomGrayscale(0.5), v2.RandomResizedCrop(64), v2.ToDtype(torch.float32)]),
    "half": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.ToDtype(torch.float16, scale=True)]),
    "pil": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.ToPILImage()]),
    "old to tensor": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.ConvertImageDtype(torch.float32)]),
    "solarized at none": lambda: v2.Compose([v2.RandomCrop(64), v2.RandomSolarize(900, p=1.0)]),
    "wrong": lambda: v2.Compose([v2.RandomResizedCrop(64), v2.Normalize([0.5], [0.2])]),
    "one by one": lambda: torch.nn.Sequential(v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), *PIXELS),
    "v1": lambda: v1.Compose(
        [
            v1.RandomResizedCrop(64),
            v1.RandomHorizontalFlip(),
            v1.ConvertImageDtype(torch.float32),
            v1.Normalize(0.5, 0.2),
        ]
    ),
    "v1 crops": lambda: v1.Compose([v1.RandomCrop(64), v1.RandomHorizontalFlip()]),
    "v1 of v2": lambda: v1.Compose([v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), *PIXELS]),
    "multi": lambda: _Views(v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), *PIXELS])),
}


class _Views:
    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __call__(self, image: torch.Tensor) -> list[torch.Tensor]:
        return [self.transform(image) for _ in range(4)]


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("check", [0, 2])
def test_recipes(name: str, check: int) -> None:
    recipe = RECIPES[name]()
    kinds = (PHOTO, KINDS["gray"], KINDS["PNG"], KINDS["progressive"])

    def made() -> Any:
        torch.manual_seed(3)
        found = [outcome(lambda data=data: recipe(opened(data))) for data in kinds for _ in range(4)]
        return found, torch.get_rng_state()

    with plainly():
        expected, state = made()
    fastpipe.uninstall()
    _Twice.calls = 0
    with fastpipe.install(check=check):
        found, behind = made()
        assert _Twice.calls == (16 if "foreign" in name and "looks" not in name else 0), "user's code never runs twice"
    for one, other in zip(found, expected, strict=True):
        assert one == other
    assert torch.equal(state, behind)
    assert not any(site.differed for site in fastpipe.report().sites)


@pytest.mark.needs_core
def test_samples_with_boxes() -> None:
    recipe = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Resize([50, 60]), v2.ToDtype(torch.float32, scale=True)])

    def made(image: Any) -> Any:
        boxes = tv_tensors.BoundingBoxes([[3, 4, 20, 30]], format="XYXY", canvas_size=(97, 131))
        torch.manual_seed(0)
        image, target = recipe(tv_tensors.Image(image), {"boxes": boxes, "label": torch.tensor(3)})
        return image, target

    image, target = made(opened())
    assert fastpipe.is_pending(image)
    expected, expected_target = made(plainly_opened())
    assert shown(image) == shown(expected)
    assert shown(target["boxes"]) == shown(expected_target["boxes"])


FILLS = {tv_tensors.Image: (200, 10, 30), torch.Tensor: 90, "others": 5}
BY_CLASS: dict[str, Callable[[], Any]] = {
    "rotation": lambda: v2.RandomRotation((20, 21), fill=FILLS),
    "affine": lambda: v2.RandomAffine(20, fill=FILLS),
    "pad": lambda: v2.Pad(5, fill=FILLS),
    "zoom out": lambda: v2.RandomZoomOut(FILLS, p=1.0),
    "crop": lambda: v2.RandomCrop((300, 300), pad_if_needed=True, fill=FILLS),
    "perspective": lambda: v2.RandomPerspective(p=1.0, fill=FILLS),
    "elastic": lambda: v2.ElasticTransform(fill=FILLS),
    "dtype": lambda: v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
    "no dtype": lambda: v2.ToDtype({tv_tensors.Image: None, "others": torch.float64}),
}


@pytest.mark.filterwarnings("ignore:scale was set to True but no dtype")
@pytest.mark.parametrize("name", BY_CLASS)
@pytest.mark.parametrize("kind", [torch.Tensor, tv_tensors.Image])
@pytest.mark.parametrize("boxes", [False, True])
def test_what_is_given_by_class(name: str, kind: Any, boxes: bool) -> None:
    recipe = BY_CLASS[name]()

    def made(image: Any) -> Any:
        if kind is tv_tensors.Image:
            image = kind(image)
        torch.manual_seed(0)
        around = tv_tensors.BoundingBoxes([[3, 4, 20, 30]], format="XYXY", canvas_size=(97, 131))
        return shown(recipe(image, around)[0] if boxes else recipe(image))

    assert made(opened()) == made(plainly_opened())


@pytest.mark.needs_core
def test_planned_batches_have_no_pixels_before() -> None:
    recipe = RECIPES["training"]()
    samples = [recipe(opened()) for _ in range(3)]
    assert all(map(fastpipe.is_pending, samples))
    batch = torch.stack(samples)
    assert all(map(fastpipe.is_pending, samples))
    assert shown(batch) == shown(torch.stack([sample.clone() for sample in samples]))


# -- checks and the account


@pytest.mark.needs_core
def test_a_difference_is_told_and_the_plain_result_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    fastpipe.uninstall()
    run = tensor_source.TensorSource.run

    def wrong(*args: Any, **kwargs: Any) -> Any:
        made = run(*args, **kwargs)
        return made.add(1)

    expected = plainly_opened()
    with fastpipe.install(check=2):
        image = opened()
        monkeypatch.setattr(tensor_source.TensorSource, "run", wrong)
        with pytest.warns(fastpipe.errors.FastpipeWarning, match=r"torchvision.io.decode_image: an image had other"):
            image.sum()
        assert shown(image) == shown(expected)
        assert not fastpipe.is_pending(opened()), "left alone from now on"
    site = next(site for site in fastpipe.report().sites if site.name == "torchvision.io.decode_image")
    assert (site.images, site.checked, site.differed, site.is_off) == (1, 1, 1, True)


@pytest.mark.needs_core
def test_a_transform_that_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fastpipe.uninstall()
    recipe = RECIPES["evaluation"]()
    with plainly():
        expected = shown(recipe(opened()))
    run = tensor_source.TensorSource.run
    with fastpipe.install(check=1):
        monkeypatch.setattr(tensor_source.TensorSource, "run", lambda *args, **options: run(*args, **options).add(1))
        with pytest.warns(fastpipe.errors.FastpipeWarning, match="Compose.*gave other values"):
            assert shown(recipe(opened())) == expected


@pytest.mark.parametrize("ways", ["functions", "Compose"])
@pytest.mark.needs_core
def test_a_mistake_of_fastpipe_s_is_told_and_the_plain_result_taken(monkeypatch: pytest.MonkeyPatch, ways: str) -> None:
    def planted(*_: object) -> None:
        raise TypeError("planted")

    def resized() -> torch.Tensor:
        resize = v2.Resize((41, 53)) if ways == "functions" else v2.Compose([v2.Resize((41, 53))])
        return torch.as_tensor(resize(opened()))

    with plainly():
        expected = resized()
    monkeypatch.setattr(pending_tensor, "with_steps", planted)
    assert torch.equal(resized(), expected)
    told = {reason for site in fastpipe.report().sites for reason in site.left}
    assert told == {"fastpipe failed (TypeError: planted), and the plain way was taken"}


@pytest.mark.needs_core
def test_a_mistake_of_the_user_s_is_the_librarys_to_tell() -> None:
    with pytest.raises(RuntimeError, match="sizes should be greater than 0"):
        F.resize(opened(), [41, 0])
    assert not any(site.left for site in fastpipe.report().sites)


@pytest.mark.needs_core
@pytest.mark.parametrize("antialias", [True, False, None])
@pytest.mark.parametrize("interpolation", list(F.InterpolationMode))
def test_the_same_size_is_refused_as_another(interpolation: Any, antialias: bool | None) -> None:
    def resized(image: torch.Tensor) -> torch.Tensor:
        compose = v2.Compose([v2.Resize([*image.shape[-2:]], interpolation, antialias=antialias)])
        return compose(F.resize(image, [*image.shape[-2:]], interpolation, antialias=antialias))

    with plainly():
        expected = outcome(lambda: resized(opened()))
    assert outcome(lambda: resized(opened())) == expected


def test_the_account() -> None:
    fastpipe.uninstall()
    recipe = RECIPES["training"]()
    with fastpipe.install(check=2):
        for _ in range(5):
            recipe(opened())
        opened().sum()
        opened(FILES[sorted(name for name in FILES if "gif" in name)[0]])
    sites = {site.name.partition("(")[0]: site for site in fastpipe.report().sites}
    assert sites["Compose"].images == 5
    assert sites["Compose"].checked == 2
    assert sites["torchvision.io.decode_image"].images == 6
    assert sites["torchvision.io.decode_image"].left == {"neither a JPEG nor a PNG": 1}


@pytest.mark.parametrize("data", [PHOTO, KINDS["PNG"]], ids=["JPEG", "PNG"])
def test_a_file_of_many_parts_is_decoded_once_by_torchvision(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    decodes = []
    as_tensor = tensor_files._as_tensor
    monkeypatch.setattr(tensor_files, "_as_tensor", lambda data: (decodes.append(data), as_tensor(data))[1])
    cut = v2.Compose([v2.RandomCrop(20), v2.ToDtype(torch.float32, scale=True)])
    fastpipe.uninstall()
    with fastpipe.install(check=2):
        image = opened(data)
        torch.manual_seed(0)
        made = [F.resized_crop(image, top, 3, 17, 18, [9, 8]).clone() for top in range(20)]
        made += [cut(image).clone() for _ in range(20)]
        made += [F.to_dtype(image[:, top : top + 9, 4:22], torch.float32, scale=True).clone() for top in range(10)]
    assert len(decodes) == 1
    sites, _ = LEDGER.total()
    assert 0 < sum(site.checked for site in sites) <= MOST_COMPARED
    assert not any(site.differed for site in sites)
    plain = plainly_opened(data)
    torch.manual_seed(0)
    with plainly():
        expected = [F.resized_crop(plain, top, 3, 17, 18, [9, 8]) for top in range(20)]
        expected += [cut(plain) for _ in range(20)]
        expected += [F.to_dtype(plain[:, top : top + 9, 4:22], torch.float32, scale=True) for top in range(10)]
    assert list(map(shown, made)) == list(map(shown, expected))
