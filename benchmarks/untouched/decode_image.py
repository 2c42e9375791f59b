"""Batches of photos as torchvision's documentation makes them: ``decode_image``, v2 on tensors, torch's own loader.

``python benchmarks/untouched/decode_image.py PHOTOS`` prints, for each recipe, the time of its fastest epoch, a digest
of its batches, and one of the generators' states at the end: the same by ``fastpipe run``.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.io import decode_image
from torchvision.transforms import v2

SUFFIXES = {".jpeg", ".jpg", ".png"}
LAST = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]


class Photos(Dataset[Any]):
    """Photos of a folder, each with the number of its own folder."""

    def __init__(self, root: str, transform: Callable[[Any], Any] | None) -> None:
        self.paths = sorted(path for path in Path(root).rglob("*") if path.suffix.lower() in SUFFIXES)
        names = sorted({path.parent.name for path in self.paths})
        self.labels = [names.index(path.parent.name) for path in self.paths]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        image = decode_image(str(self.paths[index]), mode="RGB")
        return image if self.transform is None else self.transform(image), self.labels[index]


class OwnClass:
    """Transforms called one after the other, by a class of one's own."""

    def __init__(self) -> None:
        self.crop, self.flip, self.last = v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), LAST

    def __call__(self, image: Any) -> Any:
        image = self.flip(self.crop(image))
        for transform in self.last:
            image = transform(image)
        return image


RECIPES: dict[str, Callable[[Any], Any]] = {
    "training": v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), *LAST]),
    "with ColorJitter": v2.Compose([v2.RandomResizedCrop(224), v2.ColorJitter(0.4, 0.4, 0.4), *LAST]),
    "evaluation": v2.Compose([v2.Resize(256), v2.CenterCrop(224), *LAST]),
    "a class of one's own": OwnClass(),
    "nothing to gain": lambda image: v2.functional.center_crop(image.float() / 255, [224, 224]),
}


def states() -> bytes:
    """The generators' states."""
    parts = torch.get_rng_state().numpy().tobytes(), repr(random.getstate()), np.random.random(4).tobytes()  # noqa: NPY002
    return repr(parts).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", help="a folder of photos")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--recipe", action="append", choices=[*RECIPES], help="that one alone; may be given again")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.recipe or RECIPES:
        data = Photos(arguments.photos, RECIPES[name])
        loader = DataLoader(data, batch_size=64, num_workers=arguments.workers)
        best, digest = float("inf"), hashlib.sha256()
        for epoch in range(arguments.epochs):
            for seed in (torch.manual_seed, random.seed, np.random.seed):
                seed(epoch)
            seconds, begun = 0.0, time.perf_counter()
            for images, labels in loader:
                seconds += time.perf_counter() - begun
                digest.update(images.numpy().tobytes())
                digest.update(labels.numpy().tobytes())
                begun = time.perf_counter()
            best = min(best, seconds)
        ends = hashlib.sha256(states()).hexdigest()
        milliseconds = 1e3 * best / len(data)
        print(f"{name}: {milliseconds:.3f} ms an image, batches {digest.hexdigest()[:16]}, generators {ends[:16]}")


if __name__ == "__main__":
    main()
