"""``to_tensor`` and ``pil_to_tensor`` of images without pixels, and torchvision's functions on their tensors."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image
from plain_and_hooked import assert_as_plain, assert_same
from torch.overrides import TorchFunctionMode
from torchvision_here import module

import fastpipe
from fastpipe import ops
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks.ledger import LEDGER
from fastpipe.pillow import image_tensors
from fastpipe.plain_way import plainly

pytestmark = pytest.mark.needs_core
T, F = module("torchvision.transforms"), module("torchvision.transforms.functional")
V, G = module("torchvision.transforms.v2"), module("torchvision.transforms.v2.functional")

PHOTO, GRAY = corpus.jpeg(151, 203, "420", seed=5), corpus.jpeg(140, 131, "gray", seed=2)
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@pytest.fixture(autouse=True)
def _installed(fresh_ledger: None) -> Iterator[None]:
    with fastpipe.install(check=0):
        yield


def opened(data: bytes = PHOTO) -> Any:
    return Image.open(io.BytesIO(data))


def _floats(image: Any) -> Any:
    return G.to_dtype(G.to_image(image), torch.float32, scale=True)


CHAINS: dict[str, Callable[[Any], Any]] = {
    "to_tensor": lambda image: F.to_tensor(image),
    "pil_to_tensor": lambda image: F.pil_to_tensor(image),
    "normalized": lambda image: F.normalize(F.to_tensor(image), MEAN[: len(image.getbands())], [0.25]),
    "of one number": lambda image: F.normalize(F.to_tensor(image), [0.5], [0.5]),
    "of the reference": lambda image: F.normalize(F.convert_image_dtype(F.pil_to_tensor(image)), [0.4], [0.2]),
    "of doubles": lambda image: F.convert_image_dtype(F.pil_to_tensor(image), torch.float64),
    "in place": lambda image: F.normalize(F.to_tensor(image), [0.5], [0.5], inplace=True),
    "twice": lambda image: F.normalize(F.normalize(F.to_tensor(image), [0.5], [0.5]), [0.1], [0.3]),
    "of a part": lambda image: F.to_tensor(F.resize(F.hflip(image.crop((3, 1, 131, 140))), 150)),
    "of v2": lambda image: G.normalize(G.to_dtype(G.to_image(image), torch.float32, scale=True), [0.5], [0.2]),
    "cut out": lambda image: F.pil_to_tensor(image)[:, 5:133, 2:131],
    "by transforms": lambda image: T.Normalize([0.5], [0.3])(
        T.ConvertImageDtype(torch.float32)(T.PILToTensor()(image))
    ),
    "divided by hand": lambda image: F.pil_to_tensor(image).float() / 255.0,
    "floats alone": lambda image: F.pil_to_tensor(image).float(),
    "divided by hand, of a part": lambda image: (
        F.pil_to_tensor(image.crop((3, 1, 131, 140))).to(torch.float32).div(255)
    ),
    "and arithmetic": lambda image: (F.to_tensor(image) - 0.5) / 0.5,
    "resized as floats": lambda image: F.resize(F.to_tensor(image), [64, 80]),
    "resized as floats, of v2": lambda image: G.center_crop(G.resize(_floats(image), [64, 80]), [50]),
    "resized as floats, of a window": lambda image: G.resize(G.crop(_floats(image), 3, 5, 90, 70), [64]),
    "resized as floats, in planes": lambda image: G.hflip(G.resize(G.crop(F.to_tensor(image), 3, 5, 90, 70), [64])),
    "of a normalized one's parts": lambda image: F.normalize(F.to_tensor(image), [0.5], [0.5])[:, 3:, 2:].flip(-1),
}


@pytest.mark.parametrize("data", [PHOTO, GRAY], ids=["colour", "gray"])
@pytest.mark.parametrize("chain", CHAINS)
def test_values_and_strides_are_torchvision_s(chain: str, data: bytes) -> None:
    made = CHAINS[chain](opened(data))
    with plainly():
        assert_same_or_error(made, lambda: CHAINS[chain](opened(data)))


def assert_same_or_error(made: Any, plain: Callable[[], Any]) -> None:
    expected = plain()
    assert (made.shape, made.dtype, made.stride()) == (expected.shape, expected.dtype, expected.stride())
    assert isinstance(made, torch.FloatTensor) == isinstance(expected, torch.FloatTensor)
    assert_same(made.clone(), expected.clone())


KNOWN = ("to_tensor", "pil_to_tensor", "normalized", "of the reference", "of v2", "cut out", "divided by hand")


@pytest.mark.parametrize("chain", KNOWN)
def test_known_chains_stay_without_pixels(chain: str) -> None:
    made = CHAINS[chain](opened())
    assert fastpipe.is_pending(made)
    made.numpy()
    assert not fastpipe.is_pending(made)


@pytest.mark.parametrize(
    ("mean", "std"), [([0.5], [0.0]), ([0.5], [1e-60]), ([0.1, 0.2], [0.5]), ([0.5] * 4, [0.5]), ([], [0.5])]
)
def test_torchvision_s_errors(mean: list[float], std: list[float]) -> None:
    with plainly(), pytest.raises((ValueError, RuntimeError)) as expected:
        F.normalize(F.to_tensor(opened()), mean, std)
    with pytest.raises(type(expected.value)) as error:
        F.normalize(F.to_tensor(opened()), mean, std)
    assert str(error.value) == str(expected.value)


def test_means_of_tensors_and_arrays_are_torchvision_s() -> None:
    for given in (torch.tensor, np.array):
        mean, std = given(MEAN), given(STD)
        with plainly():
            expected = F.normalize(F.to_tensor(opened()), mean, std)
        assert torch.equal(F.normalize(F.to_tensor(opened()), mean, std), expected)


def test_a_file_that_ends_early_fails_where_it_is_converted() -> None:
    image = opened(PHOTO[: len(PHOTO) // 2])
    with pytest.raises(OSError, match="truncated"):
        F.to_tensor(image)


def test_tensors_keep_what_the_image_was() -> None:
    image = opened().convert("RGB")
    with plainly():
        expected = F.to_tensor(opened())
    made = F.to_tensor(image)
    image.paste((1, 2, 3), (0, 0, 100, 100))
    assert torch.equal(made, expected)
    assert not torch.equal(F.to_tensor(image), expected)


IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "a function": lambda tensor: F.normalize(tensor, [0.5], [0.5], inplace=True),
    "v1": T.Compose([T.Normalize([0.5], [0.5], inplace=True)]),
    "v2": V.Compose([V.Normalize([0.5] * 3, [0.5] * 3, inplace=True)]),
    "behind nothing": V.Compose([V.RandomHorizontalFlip(0.0), V.Normalize([0.5] * 3, [0.5] * 3, inplace=True)]),
    "on a part": V.Compose([V.CenterCrop(60), V.Normalize([0.5] * 3, [0.5] * 3, inplace=True)]),
    "erased": V.Compose([V.RandomErasing(1.0, inplace=True)]),
    "on a copy": V.Compose([V.ToDtype(torch.float64), V.Normalize([0.5] * 3, [0.5] * 3, inplace=True)]),
}


@pytest.mark.parametrize("change", IN_PLACE)
def test_what_works_in_place_changes_the_tensor(change: str) -> None:
    def made() -> Any:
        torch.manual_seed(0)
        tensor = F.to_tensor(opened())
        return IN_PLACE[change](tensor).numpy(), tensor.numpy()

    with plainly():
        expected = made()
    assert_same(made(), expected)


def test_floats_keep_what_the_pixels_were() -> None:
    pixels = F.pil_to_tensor(opened())
    floats = pixels.float()
    pixels.add_(1)
    with plainly():
        expected = F.pil_to_tensor(opened()).float()
    assert torch.equal(floats / 255, expected / 255)
    assert torch.equal(floats, expected)


def test_small_images_and_other_default_dtypes_are_made_at_once() -> None:
    assert not fastpipe.is_pending(F.to_tensor(opened().convert("RGB").resize((64, 64))))
    torch.set_default_dtype(torch.float64)
    try:
        made = F.to_tensor(opened())
    finally:
        torch.set_default_dtype(torch.float32)
    assert made.dtype == torch.float64
    assert not fastpipe.is_pending(made)


def test_the_first_are_checked_with_all_that_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LEDGER, "check", 2)
    for _ in range(4):
        F.normalize(F.to_tensor(opened()), MEAN, STD).numpy()
    site = LEDGER.site("function", "torchvision.transforms.functional.to_tensor")
    assert (site.images, site.checked, site.differed) == (4, 2, 0)


def test_where_one_differs_the_plain_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LEDGER, "check", 2)
    monkeypatch.setattr(image_tensors, "interned_once", lambda _, mean, std: ops.Normalize(mean, (0.5, 0.5, 0.5)))
    with plainly():
        expected = F.normalize(F.to_tensor(opened()), MEAN, STD)
    with pytest.warns(FastpipeWarning, match="to_tensor"):
        made = F.normalize(F.to_tensor(opened()), MEAN, STD).numpy()
    np.testing.assert_array_equal(made, expected.numpy())


class Photos(torch.utils.data.Dataset[Any]):
    """A data set whose transforms are called one by one."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        image = opened(corpus.jpeg(140 + index, 150, "420", seed=index)).convert("RGB")
        return F.normalize(F.convert_image_dtype(F.pil_to_tensor(F.resize(image, [131, 140]))), MEAN, STD), index


def as_list(samples: list[Any]) -> list[Any]:
    return samples


@pytest.mark.parametrize("options", [{}, {"collate_fn": as_list}, {"batch_size": None}], ids=len)
def test_loaders(options: dict[str, Any]) -> None:
    fastpipe.uninstall()
    assert_as_plain(Photos(), **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"collate_fn": as_list}], ids=len)
def test_workers(options: dict[str, Any]) -> None:
    fastpipe.uninstall()
    assert_as_plain(Photos(), num_workers=1, **options)


def test_threads_that_look_at_one_tensor() -> None:
    made = F.normalize(F.to_tensor(opened()), MEAN, STD)
    with plainly():
        expected = F.normalize(F.to_tensor(opened()), MEAN, STD)
    same: list[bool] = []
    threads = [threading.Thread(target=lambda: same.append(torch.equal(made, expected))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same == [True] * 4


class _Calls(TorchFunctionMode):
    """Keeps the names of torch's functions that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(function.__name__)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("data", [PHOTO, GRAY], ids=["colour", "gray"])
@pytest.mark.parametrize("chain", ["to_tensor", "pil_to_tensor"])
def test_a_mode_of_torch_s_sees_each_call(chain: str, data: bytes) -> None:
    with _Calls() as ours:
        made = CHAINS[chain](opened(data))
    with plainly(), _Calls() as theirs:
        expected = CHAINS[chain](opened(data))
    assert ours.names == theirs.names
    assert_same(made, expected)


FIRST_IN_A_MODE = """
import io, sys
sys.path.append(sys.argv[2])
import torchvision_here
import fastpipe
fastpipe.install()
import torch
from PIL import Image
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
data, way = sys.stdin.buffer.read(), sys.argv[1]
F = torchvision_here.module("torchvision.transforms.functional")
T = torchvision_here.module("torchvision.transforms")
ways = {"function": F.to_tensor, "compose": T.Compose([T.ToTensor()])}
with FakeTensorMode():
    assert isinstance(ways[way](Image.open(io.BytesIO(data))), FakeTensor)
made = ways[way](Image.open(io.BytesIO(data)))
assert type(made.clone()) is torch.Tensor
fastpipe.uninstall()
assert torch.equal(made, F.to_tensor(Image.open(io.BytesIO(data))))
"""


@pytest.mark.parametrize("way", ["function", "compose"])
def test_the_first_image_of_a_process_in_a_mode_of_torch_s(way: str) -> None:
    command = [sys.executable, "-W", "error::UserWarning", "-c", FIRST_IN_A_MODE, way, str(Path(__file__).parents[2])]
    subprocess.run(command, input=PHOTO, check=True, timeout=300)
