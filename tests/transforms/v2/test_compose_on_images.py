"""v2's Compose called on PIL images, arrays and samples: as torchvision's, and one program wherever that can be."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision.transforms as v1
import torchvision.transforms.v2 as theirs
from PIL import Image, ImageFilter
from torchvision import tv_tensors
from v2_pipelines import MEAN, STD, pipeline, same

from fastpipe.transforms import compose_plan, v2
from fastpipe.transforms.v2 import _planned

PHOTO, BILINEAR = corpus.photo(61, 83), theirs.InterpolationMode.BILINEAR


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that are run."""
    run, ran = compose_plan.run_on_image, list[Any]()

    def noting(program: Any, image: Any, **options: Any) -> Any:
        ran.append(program)
        return run(program, image, **options)

    for module in (compose_plan, _planned):
        monkeypatch.setattr(module, "run_on_image", noting)
    return ran


def outcome(transform: Any, seed: int, *inputs: Any) -> Any:
    torch.manual_seed(seed)
    try:
        made = transform(*inputs)
    except Exception as error:
        made = type(error).__name__, str(error)
    return made, torch.get_rng_state()


def build(library: Any) -> Any:
    return library.Compose(
        [
            library.RandomResizedCrop(24),
            library.RandomHorizontalFlip(),
            library.ColorJitter(0.3),
            library.ToImage(),
            library.ToDtype(torch.float32, scale=True),
            library.Normalize(MEAN, STD),
        ]
    )


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("seed", range(40))
def test_pipelines(seed: int, channels: int) -> None:
    image = Image.fromarray(PHOTO if channels == 3 else PHOTO[..., 1].copy())
    ours, expected = (library.Compose(pipeline(library, seed)) for library in (v2, theirs))
    for turn in range(3):
        assert same(outcome(ours, turn, image), outcome(expected, turn, image))


@pytest.mark.parametrize(
    "transform",
    [
        *(lambda L: L.ElasticTransform(), lambda L: L.GaussianBlur(5), lambda L: L.RandomErasing(p=1.0)),
        *(lambda L: L.RandomChannelPermutation(), lambda L: L.RandomPhotometricDistort(p=1.0)),
        *(lambda L: L.JPEG(50), lambda L: L.Pad(3, padding_mode="edge"), lambda L: L.RandomRotation(9)),
        *(lambda L: L.Resize((61, 83)), lambda L: L.RandomAutocontrast(1.0), lambda L: L.Grayscale(3)),
    ],
    ids=["elastic", "blur", "erase", "permute", "distort", "jpeg", "pad", "rotate", "resize", "contrast", "gray"],
)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(61, 83), (25, 31)])
def test_an_images_info_is_kept_or_dropped(transform: Any, channels: int, size: tuple[int, int]) -> None:
    pixels = PHOTO[: size[0], : size[1]]
    image = Image.fromarray(pixels if channels == 3 else pixels[..., 1].copy())
    image.info = {"dpi": (72, 72)}
    for behind in ((), (theirs.RandomHorizontalFlip(1.0),)):
        for seed in range(7):
            ours, expected = (
                outcome(library.Compose([transform(library), *behind]), seed, image) for library in (v2, theirs)
            )
            assert same(ours, expected)
            assert getattr(ours[0], "info", None) == getattr(expected[0], "info", None)


@pytest.mark.parametrize("names", [["RGB"], ["RGB", "RGB"], ["RGB", "ToImage"]])
def test_rgb_gives_a_copy_of_a_colour_image(names: list[str]) -> None:
    """Which is a plain image, also of an opened file."""
    for image in (Image.fromarray(PHOTO), Image.open(io.BytesIO(corpus.jpeg(61, 83)))):
        image.info["owner"] = "user"
        ours, expected = (
            library.Compose([getattr(library, name)() for name in names])(image) for library in (v2, theirs)
        )
        assert ours is not image
        assert type(ours) is type(expected)
        assert same(ours, expected)
        assert getattr(ours, "info", None) == getattr(expected, "info", None)


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (32, 32), (45, 7)])
@pytest.mark.parametrize(
    "transforms",
    [
        lambda L: [L.RandomCrop(32, padding=4, pad_if_needed=True), L.RandomHorizontalFlip(), L.ToImage()],
        lambda L: [L.RandomCrop((9, 4), padding=[1, 2], fill=7, padding_mode="edge"), L.ToTensor()],
        lambda L: [L.RandomCrop(8, padding=(0, 1, 2, 3), fill={Image.Image: (1, 2, 3), "others": 0}), L.PILToTensor()],
        lambda L: [L.RandomCrop(3, fill=2.6, padding=1), L.RandomRotation(9)],
        lambda L: [L.Resize(20), L.CenterCrop(30), L.ToImage(), L.ToPureTensor()],
        lambda L: [L.RandomApply([L.Resize((9, 4))]), L.RandomChoice([L.RandomInvert(1), L.Grayscale(3)]), L.ToImage()],
    ],
    ids=range(6),
)
def test_sizes(transforms: Any, size: tuple[int, int]) -> None:
    image = Image.fromarray(corpus.photo(*size))
    ours, expected = (library.Compose(transforms(library)) for library in (v2, theirs))
    for seed in range(5):
        assert same(outcome(ours, seed, image), outcome(expected, seed, image))


@pytest.mark.parametrize(
    "policy",
    [
        lambda L: L.RandAugment(),
        lambda L: L.RandAugment(4, 3, 10, interpolation=BILINEAR, fill=9),
        lambda L: L.RandAugment(3, 30, fill=[4]),
        lambda L: L.RandAugment(2, 31),  # no such magnitude
        lambda L: L.TrivialAugmentWide(),
        lambda L: L.TrivialAugmentWide(5, interpolation=2, fill=3.5),
        lambda L: L.AutoAugment(),
    ],
    ids=range(7),
)
@pytest.mark.parametrize("channels", [1, 3])
def test_policies(policy: Any, channels: int) -> None:
    image = Image.fromarray(PHOTO if channels == 3 else PHOTO[..., 1].copy())
    ours, expected = (library.Compose([policy(library), library.ToImage()]) for library in (v2, theirs))
    for seed in range(25):
        actual, wanted = outcome(ours, seed, image), outcome(expected, seed, image)
        assert same(actual, wanted)


def sample(image: Any, kind: str) -> Any:
    boxes = tv_tensors.BoundingBoxes([[1, 2, 30, 40], [5, 6, 70, 60]], format="XYXY", canvas_size=(61, 83))
    masks = tv_tensors.Mask(torch.from_numpy((PHOTO[..., :2] > 99).astype(np.uint8)).permute(2, 0, 1).contiguous())
    return {
        "label": (image, 3),
        "label first": (3, image),
        "tensor": (image, torch.arange(5)),
        "dict": ({"image": image, "boxes": boxes, "masks": masks, "labels": torch.tensor([1, 2]), "name": "a"},),
        "target": (image, {"boxes": boxes, "masks": masks, "labels": torch.tensor([1, 2])}),
        "two images": (image, image),
        "list": ([image, "a"],),
    }[kind]


@pytest.mark.parametrize("kind", ["label", "label first", "tensor", "dict", "target", "two images", "list"])
@pytest.mark.parametrize("seed", range(12))
def test_samples(seed: int, kind: str) -> None:
    boxes = kind in ("dict", "target")
    image = Image.fromarray(PHOTO)
    ours, expected = (library.Compose(pipeline(library, seed, boxes=boxes)) for library in (v2, theirs))
    for turn in range(2):
        actual = outcome(ours, turn, *sample(image, kind))
        assert same(actual, outcome(expected, turn, *sample(image, kind)))


@pytest.mark.parametrize("kind", ["label", "tensor", "dict", "target", "list"])
def test_samples_are_one_program(kind: str, programs: list[Any]) -> None:
    build(v2)(*sample(Image.fromarray(PHOTO), kind))
    assert len(programs) == 1
    assert programs[0].box.size != (61, 83)


def test_what_is_foreign_sees_what_torchvision_would_show(programs: list[Any]) -> None:
    def blur(image: Any) -> Any:
        assert type(image) is Image.Image
        return image.filter(ImageFilter.BoxBlur(2))

    def transforms(library: Any) -> Any:
        return library.Compose(
            [library.RandomResizedCrop(30), blur, library.RandomHorizontalFlip(), library.ToImage(), lambda x: x + 1]
        )

    image = Image.fromarray(PHOTO)
    for seed in range(3):
        assert same(outcome(transforms(v2), seed, image), outcome(transforms(theirs), seed, image))
    assert len(programs) == 6
    for seed in range(3):
        assert same(outcome(transforms(v2), seed, PHOTO), outcome(transforms(theirs), seed, image))


def test_changes_between_calls(programs: list[Any]) -> None:
    image, ours, expected = Image.fromarray(PHOTO), build(v2), build(theirs)
    seen: list[Any] = []
    for turn in range(6):
        for library, compose in ((v2, ours), (theirs, expected)):
            if turn == 1:
                compose.transforms[0].size = (20, 31)
            elif turn == 2:
                compose.transforms[2] = library.RandomApply([library.RandomVerticalFlip(1)], 1.0)
            elif turn == 3:
                compose.transforms[2].transforms.append(library.RandomInvert(1))
            elif turn == 4:
                compose.transforms[1].register_forward_hook(lambda module, given, result: seen.append(type(result)))
            elif turn == 5:
                compose.transforms[4].dtype = torch.float64
        assert same(outcome(ours, turn, image), outcome(expected, turn, image))
    assert seen == [Image.Image] * 4
    assert len(programs) == 8


def test_a_compose_is_what_it_was() -> None:
    ours, expected = build(v2), build(theirs)
    image = Image.fromarray(PHOTO)
    made = outcome(ours, 1, image)
    assert vars(ours).keys() == vars(expected).keys()
    assert repr(ours) == repr(expected)
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert vars(copied).keys() == vars(expected).keys()
        assert same(outcome(copied, 1, image), made)


def test_errors() -> None:
    def too_large(library: Any) -> Any:
        return library.Compose([library.RandomHorizontalFlip(), library.RandomCrop(90), library.RandomRotation(5)])

    def without_boxes(library: Any) -> Any:
        return library.Compose([library.RandomHorizontalFlip(), library.RandomIoUCrop(), library.ToImage()])

    image = Image.fromarray(PHOTO)
    for transforms in (too_large, without_boxes):
        for inputs in ((image,), (image, 3), (image, torch.arange(3))):
            actual = outcome(transforms(v2), 4, *inputs)
            assert isinstance(actual[0][0], str)
            assert same(actual, outcome(transforms(theirs), 4, *inputs))


@pytest.mark.parametrize("size", [pytest.param((61, 83), marks=pytest.mark.slow), (21, 25), (1, 1)])
def test_affine_has_the_matrix_of_v2(size: tuple[int, int]) -> None:
    """v2's matrix differs from v1's in the last bits, and some pixels with it."""
    image = Image.fromarray(corpus.photo(*size))
    for make in (lambda of: of.RandomAffine(15, (0.1, 0.2), (0.8, 1.2), 7, BILINEAR), lambda of: of.AutoAugment()):
        for kind in (image, np.asarray(image)):
            for seed in range(60):
                expected = outcome(theirs.Compose([make(theirs), theirs.PILToTensor()]), seed, image)
                assert same(outcome(v2.Compose([make(v2), v2.PILToTensor()]), seed, kind), expected)


@pytest.mark.parametrize("inputs", [(), (Image.fromarray(PHOTO),), (Image.fromarray(PHOTO), 3)], ids=len)
def test_a_transform_of_v1_takes_an_image_alone(inputs: tuple[Any, ...]) -> None:
    for members in (
        [v1.Compose([v1.RandomCrop(24), v1.ToTensor()])],
        [v1.RandomApply([v1.RandomCrop(24)], p=0.9)],
        [v1.RandomCrop(24), theirs.ToImage()],
    ):
        (expected, expected_state), (made, state) = (
            outcome(library.Compose(members), 5, *inputs) for library in (theirs, v2)
        )
        assert same(made, expected) if len(inputs) == 1 else made == expected
        assert torch.equal(state, expected_state)


@pytest.mark.parametrize("transform", ["Resize", "RandomResizedCrop"])
def test_a_warning_is_of_torchvisions_line(transform: str, programs: list[Any]) -> None:
    places = []
    for library in (theirs, v2):
        compose = library.Compose([getattr(library, transform)((20, 24), antialias=False)])
        with pytest.warns(UserWarning, match="Anti-alias option is always applied") as warned:
            compose(Image.fromarray(PHOTO))
        places.append([(one.filename, one.lineno) for one in warned])
    assert places[0] == places[1]
    assert len(programs) == 1


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("size", [(25, 34), (90, 110)])
def test_gray_images_have_torchvisions_strides(
    size: tuple[int, int], is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Pillow doesn't share an image's memory, as older ones with one that is read-only."""
    if not is_shared:
        monkeypatch.setattr("fastpipe.core.image_jobs.installed", lambda: None)
        monkeypatch.setattr("fastpipe.core.pillow.installed", lambda: None)
    gray = Image.fromarray(corpus.photo(83, 61)[..., 1].copy())
    for name in ("ToImage", "PILToTensor"):
        made, expected = (
            module.Compose([getattr(module, name)(), module.Resize(size), module.RandomHorizontalFlip(1)])(gray)
            for module in (v2, theirs)
        )
        assert same(made, expected)
        assert made.stride() == expected.stride()
