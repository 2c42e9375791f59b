"""A ``Compose`` that is called under `fastpipe.install`: torchvision's results, checked where it runs."""

from __future__ import annotations

import contextlib
import io
import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from hooks.composed import RECIPES, Counting, opened, outcome, seeded, site_of
from PIL import Image
from torch.utils.data import DataLoader
from torchvision_here import module

import fastpipe
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks.ledger import LEDGER
from fastpipe.rng.state import GeneratorStates

T, v2 = module("torchvision.transforms"), module("torchvision.transforms.v2")
tv_tensors = module("torchvision.tv_tensors")

pytestmark = pytest.mark.usefixtures("fresh_ledger")


@pytest.mark.parametrize(
    "build",
    [
        lambda: T.Compose([T.ToTensor()]),
        lambda: T.Compose([T.Resize((9, 11)), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5], [0.5])]),
        lambda: T.Compose([T.Grayscale(), T.ToTensor()]),
        lambda: T.Compose([T.ToTensor(), T.RandomVerticalFlip(1)]),
        lambda: T.Compose([T.PILToTensor(), T.ConvertImageDtype(torch.float32)]),
        lambda: T.ToTensor(),
        lambda: v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]),
    ],
)
def test_a_tensor_lies_in_memory_as_torchvision_s(build: Callable[[], Any]) -> None:
    for mode, format in itertools.product(("RGB", "L"), ("JPEG", "PNG")):
        file = io.BytesIO()
        Image.open(io.BytesIO(corpus.jpeg(50, 40, "420", seed=1))).convert(mode).save(file, format)
        for image in (lambda file=file: Image.open(file), lambda file=file: Image.open(file).copy()):
            seeded()
            expected = build()(image())
            with fastpipe.install(check=0):
                transform = build()
                for _ in range(2):  # the second by the job of the first
                    seeded()
                    made = transform(image())
                    assert made.stride() == expected.stride()
                    assert torch.equal(made, expected)
                    assert made._base is None or expected._base is not None  # `detach_` and others refuse views


@pytest.mark.parametrize("module_", [T, v2], ids=["v1", "v2"])
@pytest.mark.parametrize("cut", ["CenterCrop", "RandomCrop"])
def test_the_contrast_of_a_gray_window_is_summed_in_torch_s_order(module_: Any, cut: str) -> None:
    """Its mean depends on the order of the elements in memory, in the last bit."""
    to_floats = [T.ToTensor()] if module_ is T else [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    transform = module_.Compose([*to_floats, getattr(module_, cut)(20), module_.ColorJitter(contrast=0.3)])
    for number in range(8):
        data = corpus.jpeg(120, 97 + number, "gray", seed=number)
        seeded()
        expected = transform(Image.open(io.BytesIO(data)))
        with fastpipe.install(check=0):
            seeded()
            assert torch.equal(transform(Image.open(io.BytesIO(data))), expected)


def test_what_is_cut_out_of_a_tensor_that_somebody_keeps_is_a_window_of_it() -> None:
    image = Image.open(io.BytesIO(corpus.jpeg(50, 40, "420", seed=1))).convert("RGB")
    kept: list[Any] = []

    def keep(tensor: Any) -> Any:
        kept.append(tensor)
        return tensor

    with fastpipe.install(check=0):
        T.Compose([T.ToTensor(), T.Lambda(keep), T.CenterCrop(9)])(image).fill_(7)
        v2.Compose([v2.ToImage(), keep, v2.CenterCrop(9)])(image).fill_(7)
    assert [int((tensor == 7).sum()) >= 3 * 81 for tensor in kept] == [True, True]


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("check", [0, 3])
def test_results_and_generators_are_torchvision_s(varied_photos: list[Path], name: str, check: int) -> None:
    plain, plain_state = outcome(RECIPES[name](), opened(varied_photos))
    transform = RECIPES[name]()
    with fastpipe.install(check=check):
        made, state = outcome(transform, opened(varied_photos))
        assert type(transform) is type(RECIPES[name]())
    for one, other in zip(made, plain, strict=True):
        assert type(one).__name__ == type(other).__name__ or isinstance(one, Image.Image)
        assert np.array_equal(np.asarray(one), np.asarray(other))
    assert state.draws_like(plain_state)


ON_ARRAYS: dict[str, Callable[[], list[Any]]] = {
    "cut": lambda: [T.RandomCrop(4), T.ToTensor()],
    "flipped": lambda: [T.RandomHorizontalFlip(1.0)],
    "to uint8": lambda: [T.PILToTensor()],
    "to floats": lambda: [T.ToTensor(), T.RandomHorizontalFlip(), T.Normalize([0.5], [0.5])],
    "v2 resized": lambda: [v2.Resize(5), v2.ToImage()],
    "v2 cut": lambda: [v2.RandomCrop(4)],
    "v2 flipped": lambda: [v2.RandomHorizontalFlip(1.0), v2.PILToTensor()],
    "v2 nested": lambda: [v2.RandomApply([v2.Grayscale()], 1.0)],
    "v2 to an image": lambda: [v2.ToImage(), v2.RandomCrop(4, pad_if_needed=True)],
    "v2 to an image alone": lambda: [v2.ToImage()],
}


@pytest.mark.parametrize("name", ON_ARRAYS)
@pytest.mark.parametrize("check", [0, 3])
def test_an_array_that_a_callable_gives_is_no_image_to_most_transforms(
    varied_photos: list[Path], name: str, check: int
) -> None:
    def made() -> list[Any]:
        seeded()
        kind = v2 if name.startswith("v2") else T
        transform = kind.Compose([np.array, *ON_ARRAYS[name]()])
        results: list[Any] = []
        for path in varied_photos:
            try:
                results.append(transform(Image.open(path)))
            except (TypeError, ValueError) as error:
                results.append((type(error), str(error)))
        return [*results, torch.rand(1).item()]

    plain = made()
    with fastpipe.install(check=check):
        for one, other in zip(made(), plain, strict=True):
            assert type(one) is type(other)
            assert np.array_equal(one, other)
            if name == "v2 to an image alone" and isinstance(one, torch.Tensor):
                assert one.is_contiguous()
                assert other.is_contiguous()


@pytest.mark.parametrize("name", ["between", "v2 between", "unknown"])
def test_the_user_s_code_runs_once(varied_photos: list[Path], name: str) -> None:
    transform = RECIPES[name]()
    with fastpipe.install(check=10):
        outcome(transform, opened(varied_photos, again=1))
    counting = next(one for one in transform.transforms if isinstance(one, Counting))
    assert counting.calls == len(varied_photos)


def test_a_user_s_function_within_a_library_s_transform_runs_once(varied_photos: list[Path]) -> None:
    calls: list[int] = []
    transform = T.Compose([T.RandomApply([T.Lambda(lambda image: calls.append(1) or image)], p=1.0), T.ToTensor()])
    with fastpipe.install(check=10):
        outcome(transform, opened(varied_photos, again=1))
    assert len(calls) == len(varied_photos)


def test_plain_images_are_checked(varied_photos: list[Path]) -> None:
    transform = RECIPES["training"]()
    loaded = [Image.fromarray(np.asarray(Image.open(path).convert("RGB"))) for path in varied_photos]
    with fastpipe.install(check=3):
        outcome(transform, iter(loaded))
    site = site_of(transform)
    assert (site.images, site.checked, site.differed) == (len(varied_photos), 3, 0)


@pytest.mark.parametrize("make", [lambda: T.RandomHorizontalFlip(0.0), lambda: v2.RandomCrop((61, 83))])
def test_a_file_that_nothing_is_done_to_is_checked_and_stays_what_it_is(tmp_path: Path, make: Any) -> None:
    (tmp_path / "photo.jpg").write_bytes(corpus.jpeg(61, 83, "420", 1))
    one = make()
    transform = (v2 if ".v2" in type(one).__module__ else T).Compose([one])
    with fastpipe.install(check=2):
        for _ in range(3):
            image = Image.open(tmp_path / "photo.jpg")
            assert transform(image) is image
            assert image.format == "JPEG"
    site = site_of(transform)
    assert (site.checked, site.differed, site.left) == (2, 0, {})


def test_transforms_behind_a_user_s_tensor_are_called(varied_photos: list[Path]) -> None:
    transform = T.Compose([T.Resize(20), T.ToTensor(), lambda tensor: tensor * 255, T.Normalize([3.0], [2.0])])
    expected = [transform(Image.open(path).convert("RGB")) for path in varied_photos]
    with fastpipe.install(check=2):
        made = [transform(Image.open(path).convert("RGB")) for path in varied_photos]
    assert all(map(torch.equal, made, expected))


@pytest.mark.parametrize("what", ["pixels", "draws"])
def test_where_something_differs_the_plain_result_is_taken_from_then_on(
    varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    from fastpipe.transforms import compose_plan

    loaded = [Image.fromarray(np.asarray(Image.open(path).convert("RGB"))) for path in varied_photos]
    plain, plain_state = outcome(RECIPES["training"](), iter(loaded))
    right = compose_plan.draw_and_run

    def wrong(*args: Any, **kwargs: Any) -> Any:
        made = right(*args, **kwargs)
        if what == "draws":
            torch.rand(1)
            return made
        return made + 1

    monkeypatch.setattr(compose_plan, "draw_and_run", wrong)
    transform = RECIPES["training"]()
    with fastpipe.install(check=1), pytest.warns(FastpipeWarning, match="RandomResizedCrop") as warned:
        made, state = outcome(transform, iter(loaded))
    assert len(warned) == 1
    for one, other in zip(made, plain, strict=True):
        assert torch.equal(one, other)
    assert state.draws_like(plain_state)
    assert (site_of(transform).differed, site_of(transform).is_off) == (1, True)


def test_samples_with_boxes_are_torchvision_s(varied_photos: list[Path]) -> None:
    transform = v2.Compose([v2.RandomIoUCrop(), v2.RandomHorizontalFlip(), v2.Resize((30, 31)), v2.ToImage()])

    def samples() -> Iterator[Any]:
        for path in varied_photos[:3]:
            image = Image.open(path).convert("RGB")
            boxes = tv_tensors.BoundingBoxes([[0, 0, *image.size]], format="XYXY", canvas_size=image.size[::-1])  # type: ignore[call-overload]
            yield image, {"boxes": boxes, "labels": torch.tensor([1]), "name": path.name}

    def run() -> tuple[list[Any], GeneratorStates]:
        seeded()
        return [transform(*sample) for sample in samples()], GeneratorStates.of()

    plain, plain_state = run()
    with fastpipe.install(check=2):
        made, state = run()
    for (image, target), (plain_image, plain_target) in zip(made, plain, strict=True):
        assert type(image) is type(plain_image)
        assert torch.equal(image, plain_image)
        assert torch.equal(target["boxes"], plain_target["boxes"])
        assert target["name"] == plain_target["name"]
    assert state.draws_like(plain_state)


@pytest.mark.parametrize("check", [0, 2])
@pytest.mark.parametrize("opened_file", [True, False])
@pytest.mark.parametrize("with_boxes", [True, False])
def test_a_fill_for_pillow_s_class_is_none_for_a_class_of_a_file(
    varied_photos: list[Path], check: int, opened_file: bool, with_boxes: bool
) -> None:
    fills = {Image.Image: (200, 10, 30), "others": 5}
    transform = v2.Compose([v2.RandomRotation((20, 40), fill=fills), v2.RandomHorizontalFlip(), v2.ToImage()])

    def made() -> list[Any]:
        seeded()
        found = []
        for path in (varied_photos[0], varied_photos[1], varied_photos[4]):
            image = Image.open(path) if opened_file else Image.open(path).convert("RGB")
            boxes = tv_tensors.BoundingBoxes([[0, 0, *image.size]], format="XYXY", canvas_size=image.size[::-1])  # type: ignore[call-overload]
            found.append((transform(image, {"boxes": boxes})[0] if with_boxes else transform(image)).tolist())
        return found

    expected = made()
    with warnings.catch_warnings(), fastpipe.install(check=check):
        warnings.simplefilter("error", FastpipeWarning)
        assert made() == expected


ARRAYS = {
    "an image first": lambda: T.Compose(
        [T.ToPILImage(), T.RandomHorizontalFlip(), T.RandomCrop(30, pad_if_needed=True), T.ToTensor()]
    ),
    "a tensor first": lambda: T.Compose([T.ToTensor(), T.Normalize([0.5] * 3, [0.2] * 3)]),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("left", [0, 5])
def test_an_array_of_bytes_is_planned(name: str, left: int) -> None:
    images = [np.random.default_rng(4).integers(0, 256, (64, 48, 3), np.uint8)[:, left:]] * 4
    transform = ARRAYS[name]()
    expected, state = outcome(transform, iter(images))
    with fastpipe.install(check=2):
        made, after = outcome(transform, iter(images))
        (site,) = [site for site in LEDGER._sites.values() if site.kind == "transform"]
    assert (site.images, site.checked, site.differed) == (4, 2, 0)
    for one, other in zip(made, expected, strict=True):
        assert one.stride() == other.stride()
        assert torch.equal(one, other)
    assert after.draws_like(state)


@pytest.mark.parametrize("check", [0, 3])
def test_torch_warns_of_an_array_that_cannot_be_written(varied_photos: list[Path], check: int) -> None:
    """As ``np.asarray`` gives one of Pillow's images."""

    def warned() -> list[tuple[Any, ...]]:
        transform = T.Compose([T.CenterCrop(24), np.asarray, T.ToTensor(), T.Normalize([0.5], [0.5])])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome(transform, opened(varied_photos, again=1))
        return [(one.category, str(one.message), one.filename, one.lineno) for one in caught]

    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # it warns once in a process, else
    try:
        expected = warned()
        assert len(expected) == len(varied_photos)
        with fastpipe.install(check=check):
            assert warned() == expected
    finally:
        torch.set_warn_always(before)


def test_results_of_a_dtype_that_numpy_lacks_are_checked(varied_photos: list[Path]) -> None:
    compose = v2.Compose([v2.PILToTensor(), v2.ToDtype(torch.bfloat16, scale=True)])
    expected = compose(Image.open(varied_photos[0]))
    with fastpipe.install(check=1):
        made = compose(Image.open(varied_photos[0]))
        (site,) = [site for site in LEDGER._sites.values() if site.kind == "transform"]
    assert (site.checked, site.differed) == (1, 0)
    assert torch.equal(made, expected)


@contextlib.contextmanager
def by_default(dtype: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


COMPUTED: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "autocast to bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast to float16": lambda: torch.autocast("cpu", torch.float16),
    "bfloat16 by default": lambda: by_default(torch.bfloat16),
    "float16 by default": lambda: by_default(torch.float16),
    "float64 by default": lambda: by_default(torch.float64),
}


@pytest.mark.parametrize("computed", COMPUTED)
@pytest.mark.parametrize("library", [T, v2], ids=["v1", "v2"])
def test_transforms_of_tensors_compute_as_torch_does_at_the_moment(
    varied_photos: list[Path], library: Any, computed: str
) -> None:
    transforms = [
        library.ColorJitter(0.4),
        library.ColorJitter(0, 0.4),
        library.ColorJitter(0, 0, 0.4),
        library.ColorJitter(0, 0, 0, 0.2),
        library.RandomAdjustSharpness(1.7, 1.0),
        library.RandomGrayscale(1.0),
        library.RandomAffine(20, (0.1, 0.1)),
        library.RandomPerspective(0.5, 1.0),
    ]
    composes = [library.Compose([library.PILToTensor(), transform]) for transform in transforms]

    def made() -> list[Any]:
        with COMPUTED[computed]():
            loaded = [Image.open(varied_photos[0]).convert("RGB"), Image.open(varied_photos[-1]).convert("RGB")]
            samples = [outcome(compose, iter(loaded))[0] for compose in composes]
            return samples + [next(iter(DataLoader(_Samples(varied_photos, one), 2))) for one in composes]

    expected = made()
    with fastpipe.install(check=0):
        assert all(map(_are_equal, made(), expected))


class _Samples(torch.utils.data.Dataset[Any]):
    def __init__(self, varied_photos: list[Path], transform: Any) -> None:
        self.varied_photos, self.transform = varied_photos[-1:] * 2, transform

    def __len__(self) -> int:
        return len(self.varied_photos)

    def __getitem__(self, number: int) -> Any:
        torch.manual_seed(number)
        return self.transform(Image.open(self.varied_photos[number]).convert("RGB"))


def _are_equal(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else all(map(_are_equal, one, other))


def test_the_report_says_why_no_transform_is_known(varied_photos: list[Path]) -> None:
    class Odd(T.Resize):
        def forward(self, img: Any) -> Any:
            return img

    with fastpipe.install(check=0):
        T.Compose([Odd(3)])(Image.open(varied_photos[0]))
        T.Compose([lambda image: image])(Image.open(varied_photos[0]))
    lefts = {site.name: set(site.left) for site in fastpipe.report().sites if site.kind == "transform"}
    unknown = "none of its transforms is known"
    assert lefts["Compose(Odd)"] == {f"{unknown}: fastpipe doesn't know this class of torchvision's"}
    assert lefts["Compose(function)"] == {unknown}
