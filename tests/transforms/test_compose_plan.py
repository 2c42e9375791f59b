"""A Compose called on a loaded image: as torchvision's, whether it runs as one program or transform by transform."""

from __future__ import annotations

import copy
import io
import pickle
import random
import threading
from collections.abc import Callable
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter
from torchvision_here import torchvision
from transform_cases import FIXED, LARGE, RANDOM, as_pil, ident, picture

import fastpipe
import fastpipe.transforms as T
from fastpipe import core
from fastpipe.transforms import compose_plan

V = torchvision.transforms
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIZES = [(1, 1), (1, 40), (33, 3), (32, 32), (61, 83), (224, 224)]


class Outcome:
    """A call's result or error, and the states of the generators after it."""

    def __init__(self, transform: Any, image: Any, seed: int) -> None:
        torch.manual_seed(seed)
        random.seed(seed)
        self.result: Any = None
        self.error: Any = None
        try:
            self.result = transform(image)
        except Exception as error:
            self.error = type(error), str(error)
        self.states = torch.get_rng_state(), random.getstate()

    def assert_equals(self, other: Outcome) -> None:
        assert self.error == other.error
        assert torch.equal(self.states[0], other.states[0])
        assert self.states[1] == other.states[1]
        assert_same(self.result, other.result)


def assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype
        assert layout(ours) == layout(theirs)
        assert torch.equal(ours, theirs)
    elif isinstance(theirs, Image.Image):
        if isinstance(ours, Image.Image):
            assert (ours.mode, ours.size) == (theirs.mode, theirs.size)
        np.testing.assert_array_equal(np.asarray(ours).squeeze(), np.asarray(theirs).squeeze())
    else:
        assert ours == theirs


def layout(tensor: torch.Tensor) -> object:
    """Strides; of an image of one pixel nothing depends on them."""
    return tensor.stride() if tensor.shape[-2:] != (1, 1) else ()


def assert_as_torchvision(build: Callable[[Any], Any], image: Any, seeds: Any = range(6)) -> None:
    """One Compose of each library, called again and again, on a PIL image and on the array of its pixels."""
    ours, theirs = build(T), build(V)
    for seed in seeds:
        expected = Outcome(theirs, image, seed)
        Outcome(ours, image, seed).assert_equals(expected)


class Blur:
    """A transform of the user's, which takes PIL images alone and draws from both generators."""

    def __call__(self, image: Any) -> Any:
        assert type(image) is Image.Image
        if torch.rand(1).item() < 0.3 or random.random() < 0.3:
            return image
        return image.filter(ImageFilter.BoxBlur(1))


def noise(tensor: Any) -> Any:
    return tensor + torch.randn_like(tensor)


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


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that are run."""
    run, ran = compose_plan.run_on_image, list[Any]()

    def noting(program: Any, image: Any, **options: Any) -> Any:
        ran.append(program)
        return run(program, image, **options)

    monkeypatch.setattr(compose_plan, "run_on_image", noting)
    return ran


def recipe(library: Any) -> Any:
    return library.Compose(
        [
            library.RandomResizedCrop(24),
            library.RandomHorizontalFlip(),
            library.ColorJitter(0.3),
            library.ToTensor(),
            library.Normalize(MEAN, STD),
        ]
    )


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


def test_attributes_that_change(programs: list[Any]) -> None:
    image, ours, theirs = as_pil(picture(61, 83)), recipe(T), recipe(V)

    def change(transforms: list[Any], turn: int) -> None:
        if turn == 1:
            transforms[0].size = (20, 31)
        elif turn == 2:
            transforms[0].scale, transforms[1].p = (0.5, 0.6), 1.0
        elif turn == 3:
            transforms[2].brightness = None
            transforms[2].hue = (-0.1, 0.2)
        elif turn == 4:
            transforms[4].mean, transforms[4].std = [0.1, 0.2, 0.3], (0.5, 0.5, 0.5)
        elif turn == 5:
            transforms[4].std[0:0] = []  # nothing
            transforms[4].mean[0] = 0.9

    for turn in range(6):
        for one in (ours, theirs):
            if turn == 5:
                one.transforms[4].std = [0.5] * 3
            change(one.transforms, turn)
        Outcome(ours, image, turn).assert_equals(Outcome(theirs, image, turn))
    assert len(programs) == 6


def test_members_that_change(programs: list[Any]) -> None:
    image, ours, theirs = as_pil(picture(61, 83)), recipe(T), recipe(V)

    def change(library: Any, compose: Any, turn: int) -> None:
        members = compose.transforms
        if turn == 1:
            members.insert(0, library.RandomVerticalFlip())
        elif turn == 2:
            members[2] = library.RandomChoice([library.RandomRotation(20), library.Resize(30)])
        elif turn == 3:
            members[2].transforms.append(library.RandomInvert(1))
        elif turn == 4:
            members[2].transforms = [library.RandomSolarize(9, 1)]
        elif turn == 5:
            members.append(noise)
        elif turn == 6:
            members.insert(2, library.Compose([library.RandomHorizontalFlip()]))
        elif turn == 7:
            members[2].transforms.append(Blur())
        elif turn == 8:
            compose.transforms = (library.RandomCrop(9), library.RandomApply(torch.nn.ModuleList([]), 1))
        elif turn == 9:
            compose.transforms[1].transforms.append(library.RandomHorizontalFlip(1))
        elif turn == 10:
            del members

    for turn in range(11):
        change(T, ours, turn)
        change(V, theirs, turn)
        Outcome(ours, image, turn).assert_equals(Outcome(theirs, image, turn))
    assert len(programs) == 12  # two where something foreign stands in the middle


def test_hooks_and_methods_that_come_later(programs: list[Any]) -> None:
    image, transform = as_pil(picture(61, 83)), recipe(T)
    transform(image)
    assert len(programs) == 1
    seen: list[Any] = []
    handles = [
        transform.transforms[1].register_forward_hook(lambda module, given, result: seen.append(type(result))),
        transform.transforms[2].register_forward_pre_hook(lambda module, given: seen.append(type(given[0]))),
    ]
    transform(image)
    assert seen == [Image.Image, Image.Image]
    assert len(programs) == 3  # the crop; ToTensor and Normalize
    for handle in handles:
        handle.remove()
    transform(image)
    transform.transforms[2].forward = lambda given: seen.append("own") or given
    transform(image)
    assert seen == [Image.Image, Image.Image, "own"]
    del transform.transforms[2].forward
    with torch.nn.modules.module.register_module_forward_hook(lambda module, given, result: seen.append(module)):
        transform(image)
    assert seen[3:] == [one for one in transform.transforms if isinstance(one, torch.nn.Module)]
    inner = T.RandomApply([T.RandomHorizontalFlip(1)], 1)
    transform = T.Compose([inner])
    transform(image)
    with inner.transforms[0].register_forward_hook(lambda module, given, result: seen.append("inner")):
        transform(image)
    assert seen[-1] == "inner"


def _set_forward(compose: Any) -> None:
    compose.transforms[0].forward = lambda image: image


def _set_forward_of_class(compose: Any) -> None:
    type(compose.transforms[0]).forward = lambda self, image: image


def _set_call_of_class(compose: Any) -> None:
    type(compose.transforms[0]).__call__ = lambda self, image: image


def _set_parameters_of_class(compose: Any) -> None:
    type(compose.transforms[1]).get_params = staticmethod(lambda image, size: (3, 1, *size))


def _set_class(compose: Any) -> None:
    compose.transforms[0].__class__ = type(compose.transforms[0]).vertical


def _hook(compose: Any) -> None:
    compose.transforms[0].register_forward_hook(lambda module, given, result: given[0])


@pytest.mark.parametrize(
    "change",
    [_set_forward, _set_forward_of_class, _set_call_of_class, _set_parameters_of_class, _set_class, _hook],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("is_file", [False, True], ids=["call", "dataset"])
def test_what_is_set_on_transforms_and_their_classes_later(change: Any, is_file: bool, tmp_path: Any) -> None:
    picture_of_file = as_pil(picture(61, 83))
    path = str(tmp_path / "a.png")
    picture_of_file.save(path)

    def shown(module: Any, as_dataset: bool) -> list[Any]:
        class Flip(module.RandomHorizontalFlip):  # type: ignore[misc]
            vertical = module.RandomVerticalFlip

        class Crop(module.RandomCrop):  # type: ignore[misc]
            pass

        compose = module.Compose([Flip(1), Crop((20, 30)), module.ToTensor()])
        dataset = fastpipe.ImageList(([path], [0]), transform=compose) if as_dataset else None
        torch.manual_seed(3)
        results = []
        for turn in range(3):
            results.append(compose(picture_of_file) if dataset is None else dataset[0][0])
            if turn == 0:
                change(compose)
        return [*results, torch.get_rng_state()]

    assert_same(shown(T, is_file), shown(V, False))
    assert_same(shown(V, is_file), shown(V, False))  # torchvision's own objects in our dataset


def test_a_hook_of_all_modules_that_comes_later(tmp_path: Any) -> None:
    picture_of_file = as_pil(picture(61, 83))
    path = str(tmp_path / "a.png")
    picture_of_file.save(path)
    for module in (T, V):
        dataset = fastpipe.ImageList(
            ([path], [0]), transform=module.Compose([module.Resize((9, 8)), module.ToTensor()])
        )
        dataset[0]
        seen: list[Any] = []
        with torch.nn.modules.module.register_module_forward_hook(lambda one, given, result: seen.append(one)):  # noqa: B023
            dataset[0]
        assert seen == [dataset.transform.transforms[0]]  # type: ignore[union-attr]


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
