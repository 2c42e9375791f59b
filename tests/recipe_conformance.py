"""Holds a library's transforms to themselves: the same objects in torchvision's dataset and in fastpipe's."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import torch
from PIL import Image, ImageFilter
from torchvision_here import torchvision

import fastpipe

SIZES = ((64, 96), (91, 57), (48, 48))


def write_photos(root: Path) -> Path:
    """A few photos in two classes: JPEG in colour and in gray, and a PNG."""
    for name in ("a", "b"):
        (root / name).mkdir()
    for number, size in enumerate(SIZES):
        (root / "a" / f"{number}.jpg").write_bytes(corpus.jpeg(*size, seed=number))
    (root / "b" / "gray.jpg").write_bytes(corpus.jpeg(70, 81, "gray"))
    (root / "b" / "photo.png").write_bytes(corpus.save(corpus.photo(55, 83, 9), "PNG"))
    return root


class Blur:
    """DINO's, BYOL's, VICReg's and MoCo's: Pillow's, with a radius of its own each time."""

    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        if random.random() > self.p:
            return image
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(0.1, 2.0)))


def seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def states() -> Any:
    name, words, *rest = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), name, words.tolist(), rest


def flat(value: Any) -> list[Any]:
    """A sample's parts, comparable: type, shape or mode, and bytes."""
    if isinstance(value, (list, tuple)):
        return [type(value), *(part for one in value for part in flat(one))]
    if isinstance(value, dict):
        keys = sorted(value)  # torchvision's wrapped data sets have them in a set's order
        return [*keys, *flat([value[key] for key in keys])]
    if isinstance(value, torch.Tensor):
        return [type(value), value.dtype, tuple(value.shape), value.numpy().tobytes()]
    if isinstance(value, np.ndarray):
        return [value.dtype, value.shape, value.tobytes()]
    if isinstance(value, Image.Image):
        return [value.mode, value.size, value.tobytes()]
    return [value]


def run(dataset: Any, seed: int) -> Any:
    """All samples and the states behind them; or the class of the error."""
    seed_all(seed)
    try:
        samples = [flat(dataset[index]) for index in range(len(dataset))]
    except (ValueError, TypeError, RuntimeError) as error:
        return type(error)
    return samples, states()


def assert_same(root: Path, transform: Any, seed: int = 0, *, drawn: bool = True) -> Any:
    """Asserts that a transform gives the same in both datasets; and that all of it is planned."""
    expected = run(torchvision.datasets.ImageFolder(str(root), transform), seed)
    dataset = fastpipe.ImageFolder(root, transform)
    if drawn:
        assert dataset.pipeline.unplanned == ()
    found = run(dataset, seed)
    if isinstance(expected, type):
        assert isinstance(found, type), transform
    else:
        assert not isinstance(found, type), transform
        for number, (one, other) in enumerate(zip(found[0], expected[0], strict=True)):
            assert one == other, (number, transform)
        assert found[1] == expected[1], transform
    return expected


def in_process(module: str, root: Path, core: str) -> None:
    """Runs ``module.check(root)`` in a process whose core is chosen."""
    environment = {**os.environ, "FASTPIPE_CORE": core, "PYTHONPATH": str(Path(__file__).parent)}
    code = f"import pathlib, {module} as module; module.check(pathlib.Path({str(root)!r}))"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
