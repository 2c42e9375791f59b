"""`dataset[index]`: the straight way gives what the general one gives, and leaves the generators where that does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
import tv  # noqa: F401 - torchvision, which v2 imports

import fastpipe
import fastpipe.transforms as T
from fastpipe import core
from fastpipe.data import base
from fastpipe.data.straight import straight
from fastpipe.errors import FastpipeError
from fastpipe.transforms import v2

pytestmark = pytest.mark.skipif(not core.available(), reason="there is no core")

CROP, FLIP = T.RandomResizedCrop(32), T.RandomHorizontalFlip()
NUMBERS = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
CHAINS: dict[str, list[Any]] = {
    "training": [CROP, FLIP, T.ToTensor(), NUMBERS],
    "bytes": [T.RandomResizedCrop((24, 40), interpolation=T.InterpolationMode.BICUBIC), FLIP, T.PILToTensor()],
    "as large as the result": [T.RandomResizedCrop(48, (1.0, 1.0), (1.0, 1.0)), T.ToTensor()],
    "tensors": [CROP, T.ToTensor(), T.Normalize(torch.full((3,), 0.5), torch.full((3,), 0.2))],
    "PIL": [CROP, FLIP],
    "never fits": [T.RandomResizedCrop(9, (2.0, 3.0)), FLIP, T.ToTensor()],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight")
    corpus.write_folder(folder, classes=1)
    (folder / "more").mkdir()
    for number in range(12):
        (folder / "more" / f"{number}.jpg").write_bytes(corpus.jpeg(60 + number, 90 - number, seed=number))
    (folder / "more" / "square.jpg").write_bytes(corpus.jpeg(48, 48))
    return folder


def samples(dataset: Any, monkeypatch: pytest.MonkeyPatch, way: Any) -> tuple[list[Any], Any, int]:
    """What each index gives, the generators' states behind, and how many took the straight way."""
    taken = []

    def asked(dataset: Any, job: Any) -> Any:
        taken.append(way(dataset, job))
        return taken[-1]

    monkeypatch.setattr(base, "straight", asked)
    torch.manual_seed(7)
    random.seed(7)
    made: list[Any] = []
    for index in range(len(dataset)):
        try:
            image, target = dataset[index]
        except (FastpipeError, OSError) as error:
            made.append(str(error))
        else:
            made.append((torch.as_tensor(image if isinstance(image, torch.Tensor) else list(image.getdata())), target))
    return made, (torch.get_rng_state(), random.getstate()), sum(image is not None for image in taken)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    return one[1] == other[1] and one[0].dtype == other[0].dtype and torch.equal(one[0], other[0])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("name", CHAINS)
def test_both_ways(name: str, seed: int | None, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = fastpipe.ImageFolder(root, T.Compose(CHAINS[name]), seed=seed, max_pixels=5_000)
    ours, state, taken = samples(dataset, monkeypatch, straight)
    theirs, expected, _ = samples(dataset, monkeypatch, lambda dataset, job: None)
    assert len(ours) == len(theirs)
    assert all(map(same, ours, theirs))
    assert torch.equal(state[0], expected[0])
    assert state[1] == expected[1]
    assert bool(taken) is (name not in ("tensors", "PIL")) or name == "never fits"


@pytest.mark.parametrize(
    "options",
    [{"apply_exif": True}, {"fidelity": "fast"}, {"reader": "pil"}, {"target_transform": float}, {"on_error": "skip"}],
)
def test_with_options(options: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = fastpipe.ImageFolder(root, T.Compose(CHAINS["training"]), **options)
    dataset.samples = [sample for sample in dataset.samples if "more" in sample[0]]
    ours, state, taken = samples(dataset, monkeypatch, straight)
    theirs, expected, _ = samples(dataset, monkeypatch, lambda dataset, job: None)
    assert all(map(same, ours, theirs))
    assert torch.equal(state[0], expected[0])
    assert bool(taken) is ("apply_exif" in options or "on_error" in options)


def test_what_changes_in_a_transform_takes_effect(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crop, flip, numbers = T.RandomResizedCrop(32), T.RandomHorizontalFlip(0.0), T.Normalize([0.5] * 3, [0.5] * 3)
    dataset = fastpipe.ImageFolder(root, T.Compose([crop, flip, T.ToTensor(), numbers]))
    dataset.samples = [sample for sample in dataset.samples if "more" in sample[0]]
    for change in (
        lambda: None,
        lambda: setattr(crop, "scale", (0.9, 1.0)),
        lambda: setattr(crop, "size", (3, 4)),
        lambda: setattr(flip, "p", 1.0),
        lambda: numbers.mean.__setitem__(0, 0.1),
        lambda: dataset.transform.transforms.pop(),
    ):
        change()
        ours, state, taken = samples(dataset, monkeypatch, straight)
        theirs, expected, _ = samples(dataset, monkeypatch, lambda dataset, job: None)
        assert taken
        assert all(map(same, ours, theirs))
        assert torch.equal(state[0], expected[0])


@pytest.mark.parametrize("ends_in", ["tv_tensors.Image", "a plain tensor"])
def test_with_v2(ends_in: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    chain += [v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    chain += [v2.ToPureTensor()] if ends_in == "a plain tensor" else []
    dataset = fastpipe.ImageFolder(root, v2.Compose(chain))
    dataset.samples = [sample for sample in dataset.samples if "more" in sample[0]]
    ours, state, taken = samples(dataset, monkeypatch, straight)
    theirs, expected, _ = samples(dataset, monkeypatch, lambda dataset, job: None)
    assert taken
    assert all(map(same, ours, theirs))
    assert all(type(one[0]) is type(other[0]) for one, other in zip(ours, theirs, strict=True))
    assert torch.equal(state[0], expected[0])
