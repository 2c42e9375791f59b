"""A Compose called on a loaded image: as torchvision's, whether it runs as one program or transform by transform."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import torchvision
from transform_cases import FIXED, LARGE, RANDOM, as_pil, ident, picture
from transforms.composed_calls import Blur, Outcome, noise, recipe

import fastpipe
import fastpipe.transforms as T
from fastpipe import core

V = torchvision.transforms
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIZES = [(1, 1), (1, 40), (33, 3), (32, 32), (61, 83), (224, 224)]


def assert_as_torchvision(build: Callable[[Any], Any], image: Any, seeds: Any = range(6)) -> None:
    """One Compose of each library, called again and again, on a PIL image and on the array of its pixels."""
    ours, theirs = build(T), build(V)
    for seed in seeds:
        expected = Outcome(theirs, image, seed)
        Outcome(ours, image, seed).assert_equals(expected)


RECIPES: dict[str, Callable[[Any], list[Any]]] = {
    "crop and flip": lambda L: [
        L.RandomResizedCrop(24), L.RandomHorizontalFlip(), L.ToTensor(), L.Normalize([0.5], [0.3]),
    ],
    "jitter": lambda L: [L.RandomResizedCrop(24), L.ColorJitter(0.4, 0.4, 0.4, 0.1), L.ToTensor()],
    "policy": lambda L: [L.RandomResizedCrop(24), L.RandAugment(), L.PILToTensor(), L.ConvertImageDtype(torch.float32)],
    "evaluation": lambda L: [L.Resize(26), L.CenterCrop(24), L.ToTensor(), L.Normalize((0.5,), (0.3,))],
    "CIFAR": lambda L: [L.RandomCrop(32, padding=4, pad_if_needed=True), L.RandomHorizontalFlip(), L.ToTensor()],
    "MNIST": lambda L: [L.ToTensor(), L.Normalize((0.1307,), (0.3081,))],
    "pixels alone": lambda L: [L.RandomVerticalFlip(), L.ColorJitter(0.3), L.RandomHorizontalFlip()],
    "uint8": lambda L: [L.RandomHorizontalFlip(), L.PILToTensor()],
    "erased": lambda L: [L.RandomCrop(1), L.ToTensor(), L.RandomErasing(p=0.8, value="random")],
    "a foreign one in the middle": lambda L: [
        L.RandomResizedCrop(24), L.RandomHorizontalFlip(), Blur(), L.ColorJitter(0.2), Blur(), L.ToTensor(), noise,
    ],
    "several of an image": lambda L: [L.Resize(30), L.FiveCrop(9), lambda crops: [L.ToTensor()(one) for one in crops]],
    "nested": lambda L: [
        L.Compose([L.Resize(30), L.Compose([L.RandomHorizontalFlip(), Blur()])]),
        L.Compose([L.RandomCrop(20), L.ToTensor()]),
    ],
    "chosen": lambda L: [
        L.RandomChoice([L.Resize(30), L.RandomResizedCrop(25)], p=[1, 2]),
        L.RandomOrder([L.RandomHorizontalFlip(), L.ColorJitter(0.3, 0.2), L.RandomRotation(9)]),
        L.RandomApply([L.RandomVerticalFlip(1), L.GaussianBlur(3)], p=0.6),
        L.RandomApply(torch.nn.ModuleList([L.Grayscale(3)]), p=0.3),
        L.ToTensor(),
    ],
    "chosen, with foreign ones": lambda L: [
        L.RandomChoice([L.Resize(30), Blur()]), L.RandomApply([Blur(), L.Resize(20)]),
        L.RandomHorizontalFlip(), L.ToTensor(),
    ],
    "gray": lambda L: [L.RandomGrayscale(0.5), L.Grayscale(), L.RandomHorizontalFlip(), L.ToTensor()],
    "nothing": lambda L: [],
}  # fmt: skip


@pytest.fixture(params=["core", "no core"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no core":
        monkeypatch.setattr(core, "available", lambda: False)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes(recipe: str, mode: str) -> None:
    for size in SIZES:
        image = as_pil(picture(*size, channels=len(mode)))
        before = image.tobytes()
        assert_as_torchvision(lambda library: library.Compose(RECIPES[recipe](library)), image, range(2))
        assert image.tobytes() == before


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("recipe", [name for name in RECIPES if "foreign" not in name and name != "nested"])
def test_arrays(recipe: str, channels: int) -> None:
    """As torchvision's on the PIL image of the same pixels; transform by transform, nothing else comes out."""
    for size in SIZES:
        array = picture(*size, channels)
        ours, theirs = T.Compose(RECIPES[recipe](T)), V.Compose(RECIPES[recipe](V))
        for seed in range(2):
            expected, actual = Outcome(theirs, as_pil(array), seed), Outcome(ours, array, seed)
            if expected.error is None:
                actual.assert_equals(expected)
            else:
                assert actual.error is not None


@pytest.mark.parametrize("case", RANDOM + FIXED + LARGE, ids=ident)
def test_every_class(case: tuple[str, dict[str, Any]]) -> None:
    name, arguments = case
    for channels in (3, 1):
        image = as_pil(picture(37, 53, channels))
        assert_as_torchvision(lambda library: library.Compose([getattr(library, name)(**arguments)]), image)
        assert_as_torchvision(
            lambda library: library.Compose([getattr(library, name)(**arguments), library.ToTensor()]), image
        )


@given(
    cases=st.lists(st.sampled_from(RANDOM + FIXED + LARGE), min_size=1, max_size=6),
    height=st.integers(1, 70),
    width=st.integers(1, 70),
    channels=st.sampled_from([1, 3]),
    foreign=st.integers(-1, 5),
    tensor=st.booleans(),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=settings.default.max_examples, deadline=None)
def test_random_recipes(
    cases: Any, height: int, width: int, channels: int, foreign: int, tensor: bool, seed: int
) -> None:
    def build(library: Any) -> Any:
        transforms = [getattr(library, name)(**arguments) for name, arguments in cases]
        if foreign >= 0:
            transforms.insert(foreign, Blur())
        return library.Compose([*transforms, library.ToTensor()] if tensor else transforms)

    assert_as_torchvision(build, as_pil(picture(height, width, channels)), [seed])


@pytest.mark.parametrize("kind", ["pil", "array"])
def test_a_compose_is_one_program_that_reads_the_crop_alone(kind: str, programs: list[Any]) -> None:
    array = picture(61, 83)
    recipe(T)(as_pil(array) if kind == "pil" else array)
    assert len(programs) == 1
    assert programs[0].box.height * programs[0].box.width < 61 * 83
    programs.clear()
    T.Compose([T.RandomHorizontalFlip(), T.RandomCrop(20), Blur(), T.RandomApply([T.Resize(9)], 1), T.ToTensor()])(
        as_pil(array)
    )
    assert len(programs) == 2


def test_what_is_no_program(programs: list[Any]) -> None:
    """Tensors, other modes and arrays, images without pixels, and torch's modes."""
    transform = T.Compose([T.RandomHorizontalFlip(1), T.Resize(9)])
    image = as_pil(picture(20, 30))
    transform(torch.zeros(3, 20, 30))
    transform(image.convert("RGBA"))
    transform(picture(20, 30).astype(np.float32))
    transform(np.zeros((20, 30, 4), np.uint8))
    with torch.device("cpu"):
        transform(image)
    assert not programs
    transform(image)
    assert len(programs) == 1


def test_subclasses(programs: list[Any]) -> None:
    class Upside(T.RandomHorizontalFlip):
        def forward(self, image: Any) -> Any:
            return T.functional.vflip(image)

    class Own(T.Compose):
        def __call__(self, image: Any) -> Any:
            return "own"

    class Longer(T.Compose):
        def __init__(self) -> None:
            super().__init__([T.Resize(9), Upside(), T.ToTensor()])

    image = as_pil(picture(61, 83))
    assert Own([T.Resize(9)])(image) == "own"
    made = Longer()(image)
    assert torch.equal(made, T.functional.to_tensor(T.functional.vflip(T.functional.resize(image, 9))))
    assert len(programs) == 2
    assert T.Compose([T.RandomHorizontalFlip(0), Own([])])(image) == "own"


@pytest.mark.parametrize(
    "build",
    [
        lambda L: [L.RandomHorizontalFlip(), L.RandomCrop(90), L.RandomVerticalFlip()],
        lambda L: [L.RandomHorizontalFlip(), L.Pad(70, padding_mode="reflect"), L.RandomRotation(9)],
        lambda L: [L.RandomChoice([L.Resize(9)]), L.ToTensor(), L.Normalize([0.1, 0.2], [0.3, 0.4]), L.RandomErasing()],
        lambda L: [L.RandomHorizontalFlip(), Blur(), L.RandomRotation(9), L.RandomCrop(90), L.ToTensor()],
        lambda L: [L.RandomHorizontalFlip(), L.Normalize(MEAN, STD), L.RandomCrop(9)],
        lambda L: [L.RandomRotation(5), L.Normalize(MEAN, [0.0, 1.0, 1.0])],
        lambda L: [L.RandomResizedCrop(20), L.ToTensor(), L.ToTensor(), L.RandomHorizontalFlip()],
        lambda L: [L.RandomHorizontalFlip(), L.RandomErasing(1, scale=(1, 1), ratio=(1, 1)), L.ToTensor()],  # none fits
        lambda L: [L.RandomHorizontalFlip(), L.ToTensor(), L.RandAugment(4)],  # some operations refuse floats
    ],
    ids=range(9),
)
@pytest.mark.parametrize("channels", [1, 3])
def test_errors_and_what_was_drawn_until_then(build: Any, channels: int) -> None:
    image = as_pil(picture(37, 53, channels))
    assert_as_torchvision(lambda library: library.Compose(build(library)), image)


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
@pytest.mark.parametrize(
    "build",
    [
        recipe,
        lambda L: L.RandomCrop(20, padding=3),  # pads, and so loads the image, before it draws
        lambda L: L.Compose([L.RandomHorizontalFlip(), L.RandomCrop(20, padding=3)]),
        lambda L: L.RandomResizedCrop(20),
    ],
    ids=["recipe", "crop", "flip-crop", "resized crop"],
)
def test_a_broken_file(build: Any, format: str, tmp_path: Any) -> None:
    path = tmp_path / "broken"
    as_pil(picture(61, 83)).save(path, format, quality=95)
    data = bytearray(path.read_bytes())
    if format == "JPEG":
        data = data[:1500]
    else:  # a stream that doesn't inflate, of which Pillow tells once
        data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    for ours, theirs in ((T, V), (fastpipe.transforms.v2, V.v2)):
        outcomes = []
        for library in (ours, theirs):
            with Image.open(path) as image:
                outcomes.append(Outcome(build(library), image, 3))
        outcomes[0].assert_equals(outcomes[1])
        assert outcomes[0].error[0] is OSError


def test_a_broken_file_that_was_converted_raises_before_the_draws() -> None:
    data = corpus.png_that_does_not_inflate(61, 83)
    with pytest.raises(OSError, match="broken data stream") as theirs:
        Image.open(io.BytesIO(data)).convert("RGB")
    image, state = fastpipe.open_image(data).convert("RGB"), torch.get_rng_state()
    with pytest.raises(OSError, match="broken data stream") as ours:
        T.Compose([T.RandomHorizontalFlip(), T.Resize(20), T.ToTensor()])(image)
    assert str(ours.value) == str(theirs.value)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_compose_is_what_it_was() -> None:
    """A plan that is kept for later calls is in no `vars`, pickle or copy."""
    image, transform = as_pil(picture(61, 83)), recipe(T)
    shown = repr(transform)
    expected = Outcome(transform, image, 5)
    assert list(vars(transform)) == ["transforms"]
    assert repr(transform) == shown
    for copied in (pickle.loads(pickle.dumps(transform)), copy.deepcopy(transform), copy.copy(transform)):
        assert list(vars(copied)) == ["transforms"]
        Outcome(copied, image, 5).assert_equals(expected)
    assert copy.copy(transform).transforms is transform.transforms
    assert len(pickle.dumps(transform)) == len(pickle.dumps(recipe(T)))


def test_an_image_of_which_nothing_is_changed_is_returned_itself() -> None:
    image, array = as_pil(picture(9, 9)), picture(9, 9)
    transform = T.Compose([T.RandomHorizontalFlip(0), T.RandomApply([T.Resize(3)], 0)])
    assert transform(image) is image
    assert transform(array) is array


def test_threads_call_one_compose() -> None:
    image, transform = as_pil(picture(61, 83)), recipe(T)
    transform.transforms.insert(1, T.RandomChoice([T.RandomRotation(9), Blur()]))
    results: list[Any] = []

    def work() -> None:
        results.extend(transform(image) for _ in range(40))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    assert len({tensor.numpy().tobytes() for tensor in results}) > 150
    alone = T.Compose([T.Resize(20), T.CenterCrop(18), T.ToTensor()])
    results.clear()
    transform = alone
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(one, results[0]) for one in results)


@pytest.mark.parametrize("kind", ["pil", "array"])
def test_several_views(kind: str) -> None:
    def views(library: Any) -> list[Any]:
        return [library.RandomResizedCrop(20), library.ColorJitter(0.3), library.ToTensor()]

    array = picture(61, 83)
    image = as_pil(array) if kind == "pil" else array
    ours = T.Compose([T.RandomHorizontalFlip(), fastpipe.MultiView(T.Compose(views(T)), 3)])
    flip, theirs = V.RandomHorizontalFlip(), V.Compose(views(V))

    def expected(image: Any) -> Any:
        image = flip(image)
        return [theirs(image) for _ in range(3)]

    for seed in range(4):
        Outcome(ours, image, seed).assert_equals(Outcome(expected, as_pil(array), seed))


def test_default_dtype_of_torch() -> None:
    image = as_pil(picture(37, 53))
    try:
        torch.set_default_dtype(torch.float64)
        assert_as_torchvision(recipe, image)
    finally:
        torch.set_default_dtype(torch.float32)
