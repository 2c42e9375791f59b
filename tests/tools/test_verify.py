"""A certificate that passes where samples equal torchvision's, and fails where something was broken on purpose."""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision_here import torchvision

import fastpipe
from fastpipe import ops
from fastpipe import transforms as T
from fastpipe.config import MachineConfig
from fastpipe.errors import PlanError
from fastpipe.ops.base import Bounded
from fastpipe.readers import Reader, get_reader, register_reader, registry
from fastpipe.reporting.pictures import grid
from fastpipe.rng import keyed_generators
from fastpipe.tools import verify_result as certificates
from fastpipe.tools.bench.samples import make_folder
from fastpipe.tools.verify_result import difference_cell, distances
from fastpipe.transforms.pipeline import Pipeline, compile_pipeline
from fastpipe.types import ImageShape

R = torchvision.transforms
PLAIN = MachineConfig()
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
TRAIN = [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    make_folder(root, 2, 3, kinds=("jpeg-420", "jpeg-gray", "png"), sizes=((60, 83), (97, 64)))
    return root


def check(certificate: Any, name: str) -> Any:
    return next(check for check in certificate.checks if name in check.name)


@pytest.mark.parametrize(
    "transforms",
    [
        TRAIN,
        [T.Resize(40), T.CenterCrop(32), T.PILToTensor()],
        [T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomRotation(20, interpolation=T.InterpolationMode.BILINEAR)],
        [T.RandomAffine(9, shear=4), T.RandomPerspective(p=1.0), T.GaussianBlur(3), T.ElasticTransform()],
        [T.RandAugment(), T.AugMix(), T.Grayscale(1), T.ToTensor(), T.RandomErasing(value="random")],
        [T.RandomApply([T.Resize(50)]), T.RandomChoice([T.Pad(3), T.RandomVerticalFlip()]), T.TrivialAugmentWide()],
        [T.Lambda(lambda image: image.rotate(90)), T.RandomCrop(20), T.TenCrop(9)],
        [T.PILToTensor(), T.ConvertImageDtype(torch.float32), T.ColorJitter(0.3), T.Normalize([0.5], [0.5])],
        [fastpipe.MultiView(T.Compose(TRAIN), 2)],
        [],
    ],
    ids=["train", "evaluation", "colours", "warps", "policies", "choices", "foreign", "tensors", "views", "nothing"],
)
def test_documented_transforms_pass(root: Path, transforms: list[Any]) -> None:
    certificate = fastpipe.verify(T.Compose(transforms), root, images=6, drawings=2, config=PLAIN)
    assert certificate.holds, str(certificate)
    assert certificate.compared > 0
    assert "PASS" in str(certificate)
    assert json.loads(json.dumps(certificate.to_dict()))["holds"] is True


def test_equal_samples_are_told_by_their_hash_alone(root: Path) -> None:
    certificate = fastpipe.verify(T.Compose(TRAIN), root, config=PLAIN)
    assert [(one.equal, one.count) for one in certificate.checks] == [(18, 18)]
    assert (certificate.compared, certificate.equal) == (18, 18)
    assert certificate.worst is None
    text = str(certificate)
    assert certificate.sha256 in text
    assert text.endswith("PASS: equal, byte for byte")
    again = fastpipe.verify(T.Compose(TRAIN), root, config=PLAIN)
    assert certificate.sha256 == again.sha256 == certificate.to_dict()["sha256"]
    assert fastpipe.verify(T.Compose(TRAIN), root, config=PLAIN, seed=1).sha256 != certificate.sha256


@pytest.mark.parametrize("wrong", ["size", "type"])
def test_a_sample_has_torchvisions_type_and_size(root: Path, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    plain = fastpipe.ImageList.__getitem__

    def other(self: Any, index: int) -> Any:
        image, target = plain(self, index)
        return (image[:, 1:] if wrong == "size" else image.double()), target

    monkeypatch.setattr(fastpipe.ImageList, "__getitem__", other)
    certificate = fastpipe.verify(T.Compose(TRAIN), root, images=2, config=PLAIN)
    assert not certificate.holds
    said = {"size": "torch.float32 (3, 31, 32) in place", "type": "torch.float64 (3, 32, 32) in place"}[wrong]
    assert said in check(certificate, "byte for byte").failures[0]
    assert "all images equal" not in str(certificate)
    assert certificate.picture().width > 100


def test_torchvisions_own_transform_is_planned_as_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transform = R.Compose([R.RandomCrop(20), R.ToTensor()])
    certificate = fastpipe.verify(transform, root, images=2, config=PLAIN)
    assert (certificate.holds, certificate.notes) == (True, ())
    assert certificate.equal == certificate.compared == 6
    steps = Pipeline.steps
    monkeypatch.setattr(Pipeline, "steps", lambda self, *inputs: [torch.rand(1), steps(self, *inputs)][1])
    assert not fastpipe.verify(transform, root, images=2, config=PLAIN).holds  # not torchvision twice


def test_the_generators_stay_where_they_are(root: Path) -> None:
    before = torch.get_rng_state(), random.getstate()
    fastpipe.verify(T.Compose([T.AutoAugment(), T.RandomOrder([T.Pad(1), T.Pad(2)])]), root, images=2, config=PLAIN)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


class Liar(Reader):
    """A reader whose pixels are one too large."""

    name = "liar"
    formats = frozenset({"JPEG"})
    proves = True

    def decode(self, data: bytes) -> Any:
        pixels = get_reader("pil").decode(data)
        return np.clip(pixels.astype(np.int16) + 1, 0, 255).astype(np.uint8)


@pytest.mark.needs_core
def test_a_reader_with_other_pixels_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))
    register_reader(Liar())
    certificate = fastpipe.verify(T.Compose(TRAIN), root, images=4, drawings=1, reader="liar")
    assert not certificate.holds
    samples = check(certificate, "byte for byte")
    assert samples.equal < samples.count
    assert samples.failures[0].endswith(", drawing 1: the image differs")
    assert "FAIL" in str(certificate)


@pytest.mark.parametrize("views", [0, 2], ids=["image", "views"])
def test_other_pixels_of_a_step_fail(root: Path, monkeypatch: pytest.MonkeyPatch, views: int) -> None:
    from fastpipe.transforms import functional as F

    plain = F.adjust_contrast
    monkeypatch.setattr(
        F, "adjust_contrast", lambda image, contrast_factor: F.posterize(plain(image, contrast_factor), 2)
    )
    monkeypatch.setattr(ops.AdjustContrast, "to_core", lambda *_: False)
    transform: Any = T.Compose([T.CenterCrop(30), T.ColorJitter(contrast=0.4)])
    if views:
        transform = fastpipe.MultiView(transform, views)
    certificate = fastpipe.verify(transform, root, images=3, config=PLAIN)
    assert not certificate.holds
    assert check(certificate, "byte for byte").equal < certificate.compared
    assert certificate.worst is not None
    assert certificate.worst.recipe[0].startswith("cropped to the middle 30x30")


@pytest.mark.parametrize(
    ("name", "transform"),
    [
        ("hflip", T.RandomHorizontalFlip(1.0)),
        ("resize", T.Resize((31, 45))),
        ("gaussian_blur", T.GaussianBlur(3)),
        ("elastic_transform", T.ElasticTransform()),
    ],
    ids=["exact", "resize", "blur", "warp"],
)
@pytest.mark.needs_core
def test_a_kernel_that_is_off_by_two_fails_with_its_worst_image(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, transform: Any
) -> None:
    from fastpipe.transforms import functional as F

    paths = sorted(map(str, root.rglob("*.*")))
    wrong = next(path for path in paths if path.endswith(".png"))
    marked = np.asarray(Image.open(wrong).convert("RGB"))[::7, ::11].tobytes()
    plain = getattr(F, name)

    def off_by_two(image: Any, *arguments: Any, **options: Any) -> Any:
        result = plain(image, *arguments, **options)
        if isinstance(image, torch.Tensor) or np.asarray(image)[::7, ::11].tobytes() != marked:
            return result
        pixels = np.asarray(result)
        changed = np.where(pixels > 250, pixels - 2, pixels + 2).astype(np.uint8)
        return changed if isinstance(result, np.ndarray) else Image.fromarray(changed)

    monkeypatch.setattr(F, name, off_by_two)
    monkeypatch.setattr(ops.REGISTRY[name], "to_core", lambda *_: False)
    # Chains, their programs and interned steps keep jobs of the core's that were made before.
    monkeypatch.setattr(sys.modules["fastpipe.program.lower"], "_chains", Bounded(1))
    for step in compile_pipeline(transform).draw(ImageShape(64, 64, 3), keyed_generators(0)).steps:
        if (memo := ops.memo_of(step)) is not None:
            memo.packed.clear()
            memo.jobs.clear()
    certificate = fastpipe.verify(
        T.Compose([transform, T.ToTensor()]), paths, images=6, drawings=2, config=PLAIN, seed=1
    )
    assert not certificate.holds
    assert certificate.worst is not None
    assert 2 <= certificate.worst.largest <= 3 + 1e-3  # float32's rounding
    assert certificate.worst.path == wrong
    assert certificate.worst.drawing in (1, 2)
    text = str(certificate)
    assert f"Worst image: {wrong}, drawing {certificate.worst.drawing}" in text
    assert "FAIL: " in text
    (failed,) = {failure.partition(", drawing ")[0] for failure in check(certificate, "byte for byte").failures}
    assert failed == wrong


def test_other_pixels_behind_an_elastic_transform_fail(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transform = T.Compose([T.CenterCrop(40), T.ElasticTransform(), T.ColorJitter(brightness=(2.0, 2.0)), T.ToTensor()])
    monkeypatch.setattr(ops.AdjustBrightness, "to_core", lambda *_: False)
    certificate = fastpipe.verify(transform, root, images=3, config=PLAIN)
    assert certificate.holds, str(certificate)
    assert certificate.equal == certificate.compared
    brightness = T.functional.adjust_brightness
    monkeypatch.setattr(T.functional, "adjust_brightness", lambda image, **given: brightness(image, 1.9))
    certificate = fastpipe.verify(transform, root, images=3, config=PLAIN)
    assert not certificate.holds
    assert check(certificate, "byte for byte").failures[0].endswith(", drawing 1: the image differs")


def test_other_numbers_of_a_blur_fail(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = T.GaussianBlur.draw

    def sharper(self: Any, shape: Any, generators: Any) -> Any:
        (step,) = plain(self, shape, generators)
        return (ops.GaussianBlur(step["kernel_size"], [0.3, 0.3]),)

    monkeypatch.setattr(T.GaussianBlur, "draw", sharper)
    certificate = fastpipe.verify(T.GaussianBlur(5, (1.0, 2.0)), root, images=2, config=PLAIN)
    assert not certificate.holds
    assert check(certificate, "byte for byte").failures[0].endswith(", drawing 1: the image differs")


def test_numbers_drawn_in_another_order_fail(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = T.ColorJitter.draw

    def brightness_first(self: Any, shape: Any, generators: Any) -> Any:
        torch.rand(1, generator=generators.torch)
        return plain(self, shape, generators)

    assert fastpipe.verify(T.ColorJitter(0.5, 0.5), root, images=2, drawings=1, config=PLAIN).holds
    monkeypatch.setattr(T.ColorJitter, "draw", brightness_first)
    transform = T.Compose([T.CenterCrop(30), T.ColorJitter(0.5, 0.5)])
    certificate = fastpipe.verify(transform, root, images=2, drawings=1, config=PLAIN)
    assert not certificate.holds
    samples = check(certificate, "byte for byte")
    assert samples.equal == 0
    assert str(root) in samples.failures[0]
    assert "the generators end elsewhere than torchvision's; the image differs" in samples.failures[0]
    assert certificate.worst is not None
    assert certificate.worst.largest > 2
    assert "FAIL" in str(certificate)


def test_a_plan_that_is_not_its_steps_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastpipe.ops import LookUp

    plain = LookUp.apply

    def changed(self: LookUp, image: Any) -> Any:
        made = plain(self, image)
        pixels = np.asarray(made) ^ 1
        return pixels if isinstance(made, np.ndarray) else Image.fromarray(pixels)

    monkeypatch.setattr(LookUp, "apply", changed)
    monkeypatch.setattr(LookUp, "to_core", lambda *_: False)
    transform = T.Compose([T.ColorJitter(0.4), T.RandomPosterize(5, p=1.0), T.RandomInvert(1.0)])
    certificate = fastpipe.verify(transform, root, images=2, drawings=1, config=PLAIN)
    samples = check(certificate, "byte for byte")
    assert (samples.equal, samples.count) == (0, 2)
    assert "the image differs" in samples.failures[0]
    assert not certificate.holds


class Drifting(T.RandomHorizontalFlip):
    """Draws another number than its forward does."""

    def forward(self, img: Any) -> Any:
        torch.rand(1)
        return super().forward(img)

    def draw(self, shape: Any, generators: Any) -> Any:
        return (ops.HFlip(),)


def test_other_random_numbers_fail(root: Path) -> None:
    certificate = fastpipe.verify(T.Compose([T.CenterCrop(30), Drifting()]), root, images=3, config=PLAIN)
    samples = check(certificate, "byte for byte")
    assert samples.equal == 0
    assert "the generators end elsewhere" in samples.failures[0]
    assert any("has no counterpart in torchvision" in note for note in certificate.notes)


def test_files_and_crops_that_both_refuse(root: Path, tmp_path: Path) -> None:
    bad, small = tmp_path / "bad.jpg", tmp_path / "small.png"
    bad.write_bytes(b"not an image")
    Image.new("RGB", (9, 7)).save(small)
    good = next(root.rglob("*.jpg"))
    certificate = fastpipe.verify(T.RandomCrop(20), [bad, small, good], config=PLAIN)
    assert certificate.holds
    assert check(certificate, "alike").count == 6
    assert check(certificate, "byte for byte").count == 3
    assert len([note for note in certificate.notes if note.startswith("both refuse")]) == 2
    assert "Required crop size (20, 20)" in str(certificate)


def test_nothing_compared_is_no_pass(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"not an image")
    certificate = fastpipe.verify(T.RandomCrop(20), [bad], config=PLAIN)
    assert not certificate.holds
    assert certificate.to_dict()["compared"] == 0
    assert str(certificate).endswith("FAIL: no image could be compared")
    assert np.asarray(certificate.picture(side=50))[60, 30].tolist() == [240, 225, 225]  # not the green of success


def test_a_sample_that_fastpipe_alone_refuses_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, index: int) -> Any:
        raise ValueError("not this one")

    line = f"{__file__}, line {refuse.__code__.co_firstlineno + 1}"

    monkeypatch.setattr(fastpipe.ImageList, "__getitem__", refuse)
    certificate = fastpipe.verify(T.Compose(TRAIN), root, images=2, drawings=1, config=PLAIN)
    assert not certificate.holds
    alike = check(certificate, "alike")
    assert (alike.equal, alike.count) == (0, 2)
    assert alike.failures[0].endswith(
        f", drawing 1: fastpipe raises ValueError: not this one ({line}); torchvision doesn't"
    )


def test_a_bug_in_a_foreign_transform_is_no_pass(root: Path) -> None:
    def bug(image: Any) -> Any:
        raise RuntimeError("a bug")

    certificate = fastpipe.verify(T.Compose([T.CenterCrop(9), T.Lambda(bug)]), root, images=2, config=PLAIN)
    assert not certificate.holds
    assert "RuntimeError: a bug" in str(certificate)


def test_the_picture_s_difference_is_the_distance_times_what_it_says(
    root: Path, monkeypatch: Any, off_by_one: Any
) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(certificates, "grid", lambda rows, **options: kept.extend(rows) or grid(rows, **options))
    certificate = fastpipe.verify(T.Compose([off_by_one(), *TRAIN]), root, images=4, config=PLAIN)
    certificate.picture(side=64)
    worst = certificate.worst
    assert worst is not None
    distance = np.abs(worst.fastpipe - worst.torchvision)
    distance[distance < 1e-3] = 0
    (*_, apart) = kept[0]
    assert apart.lines[0] == "difference x 255"  # of 1 at most
    assert apart.lines[2] == f"{(distance > 0).sum():,} of {distance.size:,} values differ"
    assert np.array_equal(np.asarray(apart.picture) > 0, distance > 0)
    assert np.abs(np.asarray(apart.picture) - distance * 255).max() < 1.5


def test_a_picture_of_the_worst_image(root: Path, off_by_one: Any) -> None:
    picture = fastpipe.verify(T.Compose([off_by_one(), *TRAIN]), root, images=2, config=PLAIN).picture(side=100)
    assert picture.mode == "RGB"
    assert picture.width > 400
    equal = fastpipe.verify(T.CenterCrop(10), root, images=2, config=PLAIN)
    assert equal.worst is None
    assert equal.picture().width > 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"images": 0}, "images=0"), ({"drawings": 0}, "drawings=0")],
)
def test_arguments(root: Path, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fastpipe.verify(T.ToTensor(), root, **arguments)


def test_something_that_is_no_image_is_told(root: Path) -> None:
    with pytest.raises(PlanError, match="gives dict, which is no image"):
        fastpipe.verify(T.Lambda(lambda image: {"image": image}), root, images=1)


def test_difference_is_mean_percentile_and_maximum() -> None:
    rng = np.random.default_rng(0)
    one, other = (rng.integers(0, 256, (40, 50, 3), dtype=np.uint8) for _ in range(2))
    for a, b in ((one, other), (one.astype(np.float64), other.astype(np.float64)), (one, one)):
        expected = np.abs(a.astype(float) - b.astype(float))
        assert np.array_equal(distances(a, b), expected)
        most = sorted(expected.ravel())[math.ceil(0.999 * expected.size) - 1]
        figures = f"mean {expected.mean():.3f}, 99.9% {most:.0f}, max {expected.max():.3g} of 255"
        differ = f"{(expected > 0).sum():,} of {expected.size:,} values differ"
        said = difference_cell(a, b, 64).lines[1:]
        assert said == ((figures, differ) if expected.any() else ("no difference",))
