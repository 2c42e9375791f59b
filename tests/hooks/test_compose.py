"""A ``Compose`` that is called under `fastpipe.install`: torchvision's results, checked where it runs."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import io
import itertools
import pickle
import random
import signal
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision_here import module

import fastpipe
from fastpipe import core, ops
from fastpipe.errors import CoreError, FastpipeWarning
from fastpipe.hooks import originals
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.rng.state import GeneratorStates

T, v2 = module("torchvision.transforms"), module("torchvision.transforms.v2")
tv_tensors = module("torchvision.tv_tensors")


@pytest.fixture(autouse=True)
def _fresh_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LEDGER, "_sites", {})
    monkeypatch.setattr(LEDGER, "notes", {})


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    sizes = [(61, 83), (40, 40), (97, 33), (1, 1), (224, 300)]
    paths = []
    for number, (height, width) in enumerate(sizes):
        paths.append(tmp_path / f"{number}.jpg")
        paths[-1].write_bytes(corpus.jpeg(height, width, ("444", "420", "gray")[number % 3], number))
    return paths


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


class Counting:
    """A callable of the user's, which a check mustn't call a second time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, image: Any) -> Any:
        self.calls += 1
        return image.rotate(random.choice([0, 90])) if isinstance(image, Image.Image) else image * 1


def seeded() -> None:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)


def outcome(transform: Any, images: Iterator[Any]) -> tuple[list[Any], GeneratorStates]:
    seeded()
    return [transform(image) for image in images], GeneratorStates.of()


def opened(paths: list[Path], again: int = 2) -> Iterator[Any]:
    for path in paths * again:
        yield Image.open(path).convert("RGB")


RECIPES: dict[str, Callable[[], Any]] = {
    "training": lambda: T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor()]),
    "tensors": lambda: v2.Compose([v2.PILToTensor(), v2.RandomHorizontalFlip(), Counting(), v2.ToDtype(torch.float32)]),
    "a callable at the end": lambda: T.Compose([T.Resize(32), T.CenterCrop(24), T.ToTensor(), Counting()]),
    "colours": lambda: T.Compose([T.Resize(32), T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomGrayscale(), T.ToTensor()]),
    "nested": lambda: T.Compose([T.Compose([T.Resize(40), T.CenterCrop(32)]), T.RandomApply([T.RandomRotation(9)])]),
    "between": lambda: T.Compose(
        [T.RandomCrop(30, pad_if_needed=True), Counting(), T.RandomHorizontalFlip(), T.ToTensor()]
    ),
    "function": lambda: T.Compose([T.Resize(20), T.Lambda(lambda image: image.transpose(0)), T.ToTensor()]),
    "unknown": lambda: T.Compose([Counting()]),
    "empty": lambda: T.Compose([]),
    "v2": lambda: v2.Compose([v2.RandomResizedCrop(24), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]),
    "v2 between": lambda: v2.Compose([v2.Resize((31, 30)), Counting(), v2.ToImage()]),
}


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("check", [0, 3])
def test_results_and_generators_are_torchvision_s(photos: list[Path], name: str, check: int) -> None:
    plain, plain_state = outcome(RECIPES[name](), opened(photos))
    transform = RECIPES[name]()
    with fastpipe.install(check=check):
        made, state = outcome(transform, opened(photos))
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
    photos: list[Path], name: str, check: int
) -> None:
    def made() -> list[Any]:
        seeded()
        kind = v2 if name.startswith("v2") else T
        transform = kind.Compose([np.array, *ON_ARRAYS[name]()])
        results: list[Any] = []
        for path in photos:
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
def test_the_user_s_code_runs_once(photos: list[Path], name: str) -> None:
    transform = RECIPES[name]()
    with fastpipe.install(check=10):
        outcome(transform, opened(photos, again=1))
    counting = next(one for one in transform.transforms if isinstance(one, Counting))
    assert counting.calls == len(photos)


def test_a_user_s_function_within_a_library_s_transform_runs_once(photos: list[Path]) -> None:
    calls: list[int] = []
    transform = T.Compose([T.RandomApply([T.Lambda(lambda image: calls.append(1) or image)], p=1.0), T.ToTensor()])
    with fastpipe.install(check=10):
        outcome(transform, opened(photos, again=1))
    assert len(calls) == len(photos)


def site_of(transform: Any) -> Site:
    return next(site for site in fastpipe.report().sites if site.name.startswith(type(transform).__name__))


def test_plain_images_are_checked(photos: list[Path]) -> None:
    transform = RECIPES["training"]()
    loaded = [Image.fromarray(np.asarray(Image.open(path).convert("RGB"))) for path in photos]
    with fastpipe.install(check=3):
        outcome(transform, iter(loaded))
    site = site_of(transform)
    assert (site.images, site.checked, site.differed) == (len(photos), 3, 0)


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


def test_transforms_behind_a_user_s_tensor_are_called(photos: list[Path]) -> None:
    transform = T.Compose([T.Resize(20), T.ToTensor(), lambda tensor: tensor * 255, T.Normalize([3.0], [2.0])])
    expected = [transform(Image.open(path).convert("RGB")) for path in photos]
    with fastpipe.install(check=2):
        made = [transform(Image.open(path).convert("RGB")) for path in photos]
    assert all(map(torch.equal, made, expected))


@pytest.mark.parametrize("what", ["pixels", "draws"])
def test_where_something_differs_the_plain_result_is_taken_from_then_on(
    photos: list[Path], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    from fastpipe.transforms import compose_plan

    loaded = [Image.fromarray(np.asarray(Image.open(path).convert("RGB"))) for path in photos]
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


def test_an_error_of_ours_is_never_the_user_s(photos: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from fastpipe.transforms import compose_plan

    plain, plain_state = outcome(RECIPES["training"](), opened(photos))

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise AttributeError("a mistake of ours")

    monkeypatch.setattr(compose_plan, "run_on_image", broken)
    with fastpipe.install(check=0):
        made, state = outcome(RECIPES["training"](), opened(photos))
    assert all(map(torch.equal, made, plain))
    assert state.draws_like(plain_state)


@pytest.mark.parametrize("kind", [AttributeError, TypeError, CoreError])
def test_a_step_of_ours_that_fails_is_done_by_pillow_and_reported(
    photos: list[Path], monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    transforms = T.Compose([T.Resize(41), T.ToTensor()]), T.Resize(43), v2.Compose([v2.Resize(45), v2.ToImage()])
    with Image.open(photos[0]) as image:
        plain = [np.asarray(transform(image.convert("RGB"))) for transform in transforms]

    def broken(*args: Any) -> Any:
        raise kind("a mistake of ours")

    monkeypatch.setattr(ops.Resize, "to_core", broken)
    with fastpipe.install(check=0):
        made = [np.asarray(transform(Image.open(photos[0]).convert("RGB"))) for transform in transforms]
    assert all(map(np.array_equal, made, plain))
    if core.available():
        assert "a mistake of ours" in str(fastpipe.report())


def _too_large() -> list[Any]:
    return [v2.RandomCrop(500), v2.ToImage()]


class TimeIsUp(Exception):
    pass


def _stop(*_: object) -> None:
    raise TimeIsUp


class _Stopper:
    def method(self, number: int, frame: object) -> None:
        raise TimeIsUp

    def __call__(self, number: int, frame: object) -> None:
        raise TimeIsUp


LIMITED: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "v1": lambda: T.Compose([T.Resize(41), T.ToTensor()]),
    "v2": lambda: v2.Compose([v2.Resize(41), v2.ToImage()]),
    "v2, sample": lambda: lambda image: v2.Compose([v2.Resize(41), v2.ToImage()])(image, {"label": 1}),
    "transform": lambda: lambda image: np.asarray(T.Resize(41)(image)),
    "method": lambda: lambda image: image.resize((30, 31)).tobytes(),
    "batch": lambda: lambda image: next(iter(DataLoader([image] * 2, 2, collate_fn=_stacked))),
}


def _stacked(images: list[Any]) -> Any:
    return torch.stack([T.ToTensor()(T.Resize((41, 42))(image)) for image in images])


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs SIGALRM")
@pytest.mark.parametrize("check", [0, 2])
@pytest.mark.parametrize(
    ("name", "handler"),
    [
        *((name, _stop) for name in LIMITED),
        ("v1", _Stopper().method),
        ("v1", _Stopper()),
        ("v1", functools.partial(_stop, 1)),
    ],
)
@pytest.mark.needs_core
def test_what_a_signal_s_handler_raises_is_the_user_s(
    photos: list[Path], monkeypatch: pytest.MonkeyPatch, name: str, check: int, handler: Callable[..., object]
) -> None:
    plain = ops.Resize.to_core

    def interrupted(*args: Any) -> Any:
        signal.raise_signal(signal.SIGALRM)
        return plain(*args)

    before = signal.signal(signal.SIGALRM, handler)
    monkeypatch.setattr(ops.Resize, "to_core", interrupted)
    try:
        with fastpipe.install(check=check), pytest.raises(TimeIsUp):
            LIMITED[name]()(Image.open(photos[4]).convert("RGB"))
    finally:
        signal.signal(signal.SIGALRM, before)


MISTAKES: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "v1": lambda: T.Compose([T.RandomCrop(500), T.ToTensor()]),
    "v2": lambda: v2.Compose(_too_large()),
    "v2, sample": lambda: lambda image: v2.Compose(_too_large())(image, {"label": 1}),
    "a box of two": lambda: lambda image: image.crop((1, 2)),
    "a box that ends before it begins": lambda: lambda image: image.crop((5, 5, 2, 2)),
    "no size": lambda: lambda image: image.resize((0, -1)),
    "an unknown filter": lambda: lambda image: image.resize((9, 9), 77),
    "an unknown mode": lambda: lambda image: image.convert("XX"),
    "no filter": lambda: lambda image: image.filter(3),
    "functional": lambda: lambda image: T.functional.crop(image, 1, 2, "a", 3),
    "hue": lambda: lambda image: T.functional.adjust_hue(image, 3),
}


@pytest.mark.parametrize("check", [0, 2])
@pytest.mark.parametrize("name", MISTAKES)
def test_errors_of_the_user_s_are_the_library_s(photos: list[Path], name: str, check: int) -> None:
    def raised() -> list[tuple[str, BaseException | None, BaseException | None]]:
        found = []
        for opened_file in (True, False):
            image = Image.open(photos[0])
            with pytest.raises((IndexError, TypeError, ValueError)) as caught:
                MISTAKES[name]()(image if opened_file else image.convert("RGB"))
            found.append((repr(caught.value), caught.value.__cause__, caught.value.__context__))
        return found

    expected = raised()
    assert {context for _, _, context in expected} == {None}
    with fastpipe.install(check=check):
        assert raised() == expected


@pytest.mark.parametrize("name", MISTAKES)
def test_an_image_that_a_call_refused_is_gone_at_once(photos: list[Path], name: str) -> None:
    is_gone = False
    with fastpipe.install(check=0):
        gc.disable()
        try:
            for _ in range(2):  # what is imported at the first call may leave rings
                image = Image.open(photos[4]).convert("RGB")
                with contextlib.suppress(IndexError, TypeError, ValueError):
                    MISTAKES[name]()(image)
                left = weakref.ref(image)
                del image
                is_gone = left() is None
        finally:
            gc.enable()
    assert is_gone


class _OwnParameters(T.RandomCrop):  # type: ignore[misc, name-defined]
    calls = 0

    @classmethod
    def get_params(cls, img: Any, output_size: Any) -> Any:
        cls.calls += 1
        return 1, 2, *output_size


def test_a_method_of_a_class_of_the_user_s_runs_once_an_image(photos: list[Path]) -> None:
    compose = T.Compose([T.Resize(40), _OwnParameters(24), T.ToTensor()])
    expected, _ = outcome(compose, opened(photos[:2]))
    before = _OwnParameters.calls
    with fastpipe.install(check=99):
        made, _ = outcome(compose, opened(photos[:2]))
    assert all(map(torch.equal, made, expected))
    assert _OwnParameters.calls - before == before


def _marked(plain: Callable[..., Any], calls: list[str], name: str) -> Callable[..., Any]:
    def replaced(*args: Any, **options: Any) -> Any:
        calls.append(name)
        return plain(*args, **options)

    return replaced


def test_composes_made_anew_for_each_image_look_at_the_libraries_functions_once(
    photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []
    functional = module("torchvision.transforms.functional")
    is_librarys = originals.is_librarys

    def made() -> Any:
        return T.Compose([T.CenterCrop(30), T.ToTensor()])(Image.open(photos[0]))

    with fastpipe.install(check=0):
        expected = made()
        monkeypatch.setattr(originals, "is_librarys", lambda function: looked.append(function) or is_librarys(function))
        assert torch.equal(made(), expected)
        assert not looked
        calls: list[str] = []
        monkeypatch.setattr(functional, "to_tensor", _marked(functional.to_tensor, calls, "to_tensor"))
        assert torch.equal(made(), expected)
        assert looked
        assert calls == ["to_tensor"]


@pytest.mark.parametrize("is_late", [False, True])
def test_what_others_have_put_in_a_library_s_place_is_called(
    photos: list[Path], monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    functional = module("torchvision.transforms.functional")
    owners = [(T.RandomCrop, "forward"), (functional, "to_tensor"), (Image.Image, "crop"), (T.Compose, "__call__")]
    for owner, name in owners:
        calls: list[str] = []
        compose = T.Compose([T.RandomCrop(1), T.ToTensor()])
        with monkeypatch.context() as patched:
            if not is_late:
                patched.setattr(owner, name, _marked(getattr(owner, name), calls, name))
            with fastpipe.install(check=0):
                if is_late:
                    compose(Image.open(photos[0]))
                    patched.setattr(owner, name, _marked(getattr(owner, name), calls, name))
                compose(Image.open(photos[0]))
                patched.undo()
                assert calls == [name]
                compose(Image.open(photos[0]))
                assert calls == [name]
    lefts = {reason for found in fastpipe.report().sites for reason in found.left}
    assert lefts == {"somebody has replaced a function that its library goes through"}


def test_samples_with_boxes_are_torchvision_s(photos: list[Path]) -> None:
    transform = v2.Compose([v2.RandomIoUCrop(), v2.RandomHorizontalFlip(), v2.Resize((30, 31)), v2.ToImage()])

    def samples() -> Iterator[Any]:
        for path in photos[:3]:
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
    photos: list[Path], check: int, opened_file: bool, with_boxes: bool
) -> None:
    fills = {Image.Image: (200, 10, 30), "others": 5}
    transform = v2.Compose([v2.RandomRotation((20, 40), fill=fills), v2.RandomHorizontalFlip(), v2.ToImage()])

    def made() -> list[Any]:
        seeded()
        found = []
        for path in (photos[0], photos[1], photos[4]):
            image = Image.open(path) if opened_file else Image.open(path).convert("RGB")
            boxes = tv_tensors.BoundingBoxes([[0, 0, *image.size]], format="XYXY", canvas_size=image.size[::-1])  # type: ignore[call-overload]
            found.append((transform(image, {"boxes": boxes})[0] if with_boxes else transform(image)).tolist())
        return found

    expected = made()
    with warnings.catch_warnings(), fastpipe.install(check=check):
        warnings.simplefilter("error", FastpipeWarning)
        assert made() == expected


def test_changes_of_a_compose_are_seen_at_once(photos: list[Path]) -> None:
    image = Image.open(photos[4]).convert("RGB")
    with fastpipe.install():
        transform = T.Compose([T.CenterCrop(20), T.ToTensor()])
        assert transform(image).shape == (3, 20, 20)
        transform.transforms[0].size = (10, 12)
        assert transform(image).shape == (3, 10, 12)
        transform.transforms[0] = T.Resize((5, 6))
        assert transform(image).shape == (3, 5, 6)
        transform.transforms.pop()
        assert transform(image).size == (6, 5)


def test_objects_are_copied_and_pickled_as_without(photos: list[Path]) -> None:
    transform = RECIPES["training"]()
    before = pickle.dumps(transform), repr(transform), dict(vars(transform))
    with fastpipe.install():
        transform(Image.open(photos[0]).convert("RGB"))
        assert (pickle.dumps(transform), repr(transform), dict(vars(transform))) == before
        assert b"fastpipe" not in pickle.dumps(transform)
        assert copy.deepcopy(transform).transforms[0].size == (24, 24)


def test_subclasses_made_before_and_after_are_planned_and_stay_what_they_are(photos: list[Path]) -> None:
    class Before(T.Compose):  # type: ignore[misc, name-defined]
        pass

    with fastpipe.install():

        class After(T.Compose):  # type: ignore[misc, name-defined]
            def __call__(self, image: Any) -> Any:
                return super().__call__(image) + 1

        for kind, more in ((Before, 0), (After, 1)):
            transform = kind([T.CenterCrop(8), T.ToTensor()])
            assert isinstance(transform, T.Compose)
            made = transform(Image.open(photos[4]).convert("RGB"))
            assert float(made.min()) >= more
            assert site_of(transform).images == 1


def test_threads_that_call_one_compose(photos: list[Path]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    transform = T.Compose([T.Resize((20, 21)), T.ToTensor()])
    paths = photos * 8
    plain = [transform(Image.open(path).convert("RGB")) for path in paths]
    with fastpipe.install(check=4), ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda path: transform(Image.open(path).convert("RGB")), paths))
    assert all(map(torch.equal, made, plain))


def test_pickles_are_read_without_fastpipe(tmp_path: Path, photos: list[Path]) -> None:
    with fastpipe.install():
        transform = RECIPES["training"]()
        image = transform.transforms[0](Image.open(photos[4]).convert("RGB"))
        (tmp_path / "kept.pickle").write_bytes(pickle.dumps((transform, image, transform(image))))
    code = (
        "import sys, pickle, torchvision_here\n"
        "for name in [*sys.modules]: name.startswith('fastpipe') and sys.modules.pop(name)\n"
        "pickle.load(open(sys.argv[1], 'rb'))\nprint('fastpipe' in sys.modules)"
    )
    tests = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", code, str(tmp_path / "kept.pickle")]
    assert subprocess.run(command, capture_output=True, text=True, cwd=tests, check=True).stdout == "False\n"


def _broken_png(mode: str) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8)
    image = Image.fromarray(pixels) if mode == "RGB" else Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)
    file = io.BytesIO()
    image.save(file, "PNG")
    data = bytearray(file.getvalue())
    data[data.index(b"IDAT") + 3000] ^= 0x55
    return bytes(data)


def _jpeg_without_its_code(byte: int) -> bytes:
    """A baseline JPEG in which the first Huffman code has more codes of a length than there can be."""
    data = bytearray(corpus.jpeg(60, 80, "420", 0))
    data[data.index(b"\xff\xc4") + 5 + byte] = 0xFF
    return bytes(data)


BROKEN = {
    "PNG": lambda: _broken_png("RGB"),
    "PNG of 16 bits": lambda: _broken_png("I;16"),
    "JPEG": lambda: _jpeg_without_its_code(0),
    "JPEG that ends early": lambda: corpus.jpeg(60, 80, "420", 0)[:-400],
}
_CROP = v2.Compose([v2.RandomCrop(30, pad_if_needed=True), v2.ToImage()])
_DISTORTED = v2.Compose([v2.ColorJitter(hue=0.5), v2.ToImage()])


def _on_sample(image: Any) -> Any:
    return _CROP({"image": image, "label": 1})


ON_BROKEN: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "v1": lambda: T.Compose([T.RandomResizedCrop(24), T.ColorJitter(0.4, 0.4, 0.4), T.ToTensor()]),
    "v2": lambda: v2.Compose([v2.RandomCrop(30, pad_if_needed=True), v2.RandomRotation(20), v2.ToImage()]),
    "v2, sample": lambda: _on_sample,
    "convert": lambda: lambda image: image.convert("RGB") and 1,
    "flip": lambda: lambda image: T.functional.hflip(image) and 1,
    "hue, sample": lambda: lambda image: _DISTORTED({"image": image, "label": 1})["image"],
}


@pytest.mark.parametrize("check", [0, 2])
@pytest.mark.parametrize("name", ON_BROKEN)
@pytest.mark.parametrize("file", BROKEN)
def test_a_broken_file_raises_where_pillow_raises(file: str, name: str, check: int) -> None:
    def told(call: Callable[[Any], Any]) -> tuple[str, GeneratorStates]:
        """The error, and where the generators are after it, of a call and of one more on the same image."""
        seeded()
        words = []
        try:
            image = Image.open(io.BytesIO(data))
        except Exception as error:
            return repr(error), GeneratorStates.of()
        for _ in range(2):
            try:
                made = call(image)
                words.append(made.tolist() if isinstance(made, torch.Tensor) else str(made))
            except Exception as error:
                words.append(f"{error!r}, {error.__context__!r}")
        return repr(words), GeneratorStates.of()

    data = BROKEN[file]()
    expected, state = told(ON_BROKEN[name]())
    assert "Error" in expected
    with fastpipe.install(check=check):
        made, after = told(ON_BROKEN[name]())
    assert made == expected
    assert after.draws_like(state)


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


def test_results_of_a_dtype_that_numpy_lacks_are_checked(photos: list[Path]) -> None:
    compose = v2.Compose([v2.PILToTensor(), v2.ToDtype(torch.bfloat16, scale=True)])
    expected = compose(Image.open(photos[0]))
    with fastpipe.install(check=1):
        made = compose(Image.open(photos[0]))
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
    photos: list[Path], library: Any, computed: str
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
            loaded = [Image.open(photos[0]).convert("RGB"), Image.open(photos[-1]).convert("RGB")]
            samples = [outcome(compose, iter(loaded))[0] for compose in composes]
            return samples + [next(iter(DataLoader(_Samples(photos, one), 2))) for one in composes]

    expected = made()
    with fastpipe.install(check=0):
        assert all(map(_are_equal, made(), expected))


class _Samples(torch.utils.data.Dataset[Any]):
    def __init__(self, photos: list[Path], transform: Any) -> None:
        self.photos, self.transform = photos[-1:] * 2, transform

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, number: int) -> Any:
        torch.manual_seed(number)
        return self.transform(Image.open(self.photos[number]).convert("RGB"))


def _are_equal(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else all(map(_are_equal, one, other))


def test_the_report_says_why_no_transform_is_known(photos: list[Path]) -> None:
    class Odd(T.Resize):
        def forward(self, img: Any) -> Any:
            return img

    with fastpipe.install(check=0):
        T.Compose([Odd(3)])(Image.open(photos[0]))
        T.Compose([lambda image: image])(Image.open(photos[0]))
    lefts = {site.name: set(site.left) for site in fastpipe.report().sites if site.kind == "transform"}
    unknown = "none of its transforms is known"
    assert lefts["Compose(Odd)"] == {f"{unknown}: fastpipe doesn't know this class of torchvision's"}
    assert lefts["Compose(function)"] == {unknown}
