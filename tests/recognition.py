"""Everything that recognises, explains, verifies, previews or converts, each in a fresh process, and what it draws.

Run as a program, ``python recognition.py FOLDER TRANSFORM…``, where the folder has photos and a transform is a name of
`TRANSFORMS`: prints JSON, use → the generators that it moved.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from recipe_conformance import flat, seed_all, states
from torchvision_here import module, torchvision

T, V, F = (
    module("torchvision.transforms"),
    module("torchvision.transforms.v2"),
    module("torchvision.transforms.functional"),
)
SIZE = 24


class MaybeToTensor(T.ToTensor):
    """DINOv2's."""

    def __call__(self, pic: Any) -> Any:
        """Leaves tensors."""
        if isinstance(pic, torch.Tensor):
            return pic
        return super().__call__(pic)


class GuardedToTensor(T.ToTensor):
    """A guard that nobody knows."""

    def __call__(self, pic: Any) -> Any:
        return pic if torch.is_tensor(pic) else F.to_tensor(pic)


class OfMAE(T.RandomResizedCrop):
    """A crop that draws by itself, in MAE's way, and once more from a distribution that is seldom used."""

    @staticmethod
    def get_params(img: Any, scale: Any, ratio: Any) -> Any:
        width, height = F.get_image_size(img)
        side = torch.empty(1).exponential_().item() + torch.empty(1).uniform_(scale[0], scale[1]).item()
        h = min(max(int(math.sqrt(side * width * height)), 1), width, height)
        return torch.randint(0, height - h + 1, size=(1,)).item(), 0, h, h


class Jitter(V.Transform):
    """v2's kind, with code of its own."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"angle": torch.empty(1).uniform_(-9, 9).item()}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return V.functional.rotate(inpt, params["angle"])


def _timm() -> Any:
    return importlib.import_module("timm.data").create_transform(
        SIZE, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", re_prob=0.3
    )


def _albumentations() -> Any:
    A = importlib.import_module("albumentations")
    return A.Compose([A.RandomCrop(SIZE, SIZE), A.HorizontalFlip(), A.GaussNoise()])


def _presets() -> Any:
    return module("torchvision.transforms._presets").ImageClassification(crop_size=SIZE)


ENDING = [T.ToTensor(), T.Normalize([0.5], [0.5])]
TRANSFORMS: dict[str, Callable[[], Any]] = {
    "v1": lambda: T.Compose(
        [T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(), T.AutoAugment(), T.ColorJitter(0.4), *ENDING]
    ),
    "DINOv2's": lambda: T.Compose([T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(), MaybeToTensor(), ENDING[1]]),
    "a guard": lambda: T.Compose([T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(), GuardedToTensor(), ENDING[1]]),
    "MAE's": lambda: T.Compose([OfMAE(SIZE), *ENDING]),
    "to RGB": lambda: T.Compose([T.Lambda(lambda image: image.convert("RGB")), T.RandomCrop(SIZE), *ENDING]),
    "presets": _presets,
    "v2": lambda: V.Compose(
        [V.RandomResizedCrop(SIZE), V.RandAugment(), V.ToImage(), V.ToDtype(torch.float32, scale=True)]
    ),
    "v2's kind": lambda: V.Compose([V.RandomCrop(SIZE), Jitter(), V.ToImage(), V.ToDtype(torch.float32, scale=True)]),
    "timm's": _timm,
    "albumentations'": _albumentations,
}


def _uses(root: str) -> dict[str, Callable[[Any], Any]]:
    """The uses of a transform; none makes a sample from the global generators."""
    import fastpipe

    def theirs(transform: Any) -> Any:
        return torchvision.datasets.ImageFolder(root, transform)

    def loader(transform: Any) -> Any:
        return torch.utils.data.DataLoader(theirs(transform), 2, shuffle=True)

    return {
        "a data set": lambda transform: fastpipe.ImageFolder(root, transform).pipeline,
        "convert": fastpipe.convert,
        "convert a data set": lambda transform: fastpipe.convert(theirs(transform)),
        "convert a loader": lambda transform: fastpipe.convert(loader(transform)),
        "explain": lambda transform: str(fastpipe.explain(transform)),
        "explain a data set": lambda transform: str(fastpipe.explain(fastpipe.ImageFolder(root, transform))),
        "explain theirs": lambda transform: str(fastpipe.explain(theirs(transform))),
        "preview": lambda transform: fastpipe.preview(fastpipe.ImageFolder(root, transform), 2),
        "verify": lambda transform: str(fastpipe.verify(transform, root, images=2, drawings=1)),
        "repr": lambda transform: repr(fastpipe.ImageFolder(root, transform)),
    }


def moved(uses: list[str], name: str, root: str) -> dict[str, list[str]]:
    """The generators that each use of a transform moves, one use after the other."""
    made = TRANSFORMS[name]()
    found = {}
    for use in uses:
        seed_all(5)
        before = states()
        try:
            _uses(root)[use](made)
        except Exception as error:  # one of fastpipe's says that the use isn't for this transform
            if not type(error).__module__.startswith("fastpipe."):
                raise
        after = states()
        changed = {"torch": before[0] != after[0], "python": before[1] != after[1], "numpy": before[2:] != after[2:]}
        found[f"{use} of {name}"] = [generator for generator, differs in changed.items() if differs]
    return found


def first_samples(name: str, root: str) -> dict[str, list[str]]:
    """The first samples of a process, made by fastpipe, are torchvision's for the same seed."""
    import fastpipe

    transform = TRANSFORMS[name]()
    dataset = fastpipe.convert(torchvision.datasets.ImageFolder(root, transform))
    seed_all(7)
    found = [flat(dataset[index]) for index in range(3)], states()
    seed_all(7)
    theirs = torchvision.datasets.ImageFolder(root, transform)
    are_theirs = found == ([flat(theirs[index]) for index in range(3)], states())
    return {f"first samples of {name}": [] if are_theirs else ["other samples"]}


USES = (
    "a data set",
    "convert",
    "convert a data set",
    "convert a loader",
    "explain",
    "explain a data set",
    "explain theirs",
    "preview",
    "repr",
    "verify",
)


def _tasks(root: str, names: list[str]) -> Iterator[Callable[[], dict[str, list[str]]]]:
    """The tasks, each of a process; with all `TRANSFORMS`, each use is the first of some process."""
    for name in names:
        if name != "albumentations'":  # which torchvision's data sets don't call
            yield partial(first_samples, name, root)
        first = [*TRANSFORMS].index(name) % len(USES)
        yield partial(moved, [*USES[first:], *USES[:first]], name, root)


def in_child(task: Callable[[], dict[str, list[str]]]) -> dict[str, list[str]]:
    """A task's result in a fork of this process, which has recognised nothing yet."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            try:
                answer = task()
            except Exception as error:
                answer = {"an error": [repr(error)]}
            with os.fdopen(writing, "w") as pipe:
                json.dump(answer, pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"a process": ["it died"]}


if __name__ == "__main__":
    wanted = list(dict.fromkeys(sys.argv[2:]))
    assert "fastpipe.transforms" not in sys.modules  # so that each fork's recognition is a process's first
    print(json.dumps({use: moves for task in _tasks(sys.argv[1], wanted) for use, moves in in_child(task).items()}))
