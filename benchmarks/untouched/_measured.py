"""Code that these scripts share: the photos, an epoch with fixed seeds whose digest is printed, and a timed epoch.

A script imports this module first. It imports the module named by ``UNTOUCHED_FIRST``, for example one that makes
torchvision work with the installed torch.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import pickle
import random
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

if first := os.environ.get("UNTOUCHED_FIRST"):
    importlib.import_module(first)

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


def arguments() -> argparse.Namespace:
    """The command line: ``photos``, ``workers``, ``batch_size``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("photos", type=Path, help="folder with a folder for each class")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=32)
    return parser.parse_args()


def photos_in(root: Path) -> list[str]:
    """All files under a folder, in their order."""
    return sorted(str(path) for path in root.rglob("*") if path.is_file())


def measured(epoch: Callable[[], Iterable[Any]]) -> None:
    """Prints JSON: digests of an epoch's batches and of the generators' end states, and another epoch's seconds.

    Args:
        epoch: makes the batches of an epoch; it is called twice.
    """
    seed(0)
    digest = 0
    for batch in epoch():
        digest = digest_of(batch, digest)
    states = digest_of([torch.get_rng_state(), str(random.getstate()), str(np.random.get_state())], 0)
    seed(1)
    images, cpu, begun = 0, time.process_time(), time.perf_counter()
    for batch in epoch():
        images += count_of(batch)
        look_at(batch)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    if not images:
        raise SystemExit("these photos make no whole batch: give a folder of more")
    print(json.dumps({"digest": digest, "states": states, "images": images, "seconds": seconds, "cpu": cpu}))


def seed(number: int) -> None:
    """Seeds torch's, Python's and numpy's generators."""
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def digest_of(value: Any, before: int) -> int:
    """A digest of a batch, together with what was before."""
    if isinstance(value, dict):
        value = [*map(str, value), *value.values()]
    if isinstance(value, (list, tuple)):
        return functools.reduce(lambda known, part: digest_of(part, known), value, before)
    if isinstance(value, torch.Tensor):
        before = zlib.crc32(f"{value.dtype}{tuple(value.shape)}".encode(), before)
        return zlib.crc32(value.detach().contiguous().as_subclass(torch.Tensor).numpy().tobytes(), before)
    return zlib.crc32(pickle.dumps(value), before)


def look_at(batch: Any) -> None:
    """Has each tensor's memory, as whoever trains on it."""
    if isinstance(batch, torch.Tensor):
        batch.data_ptr()
    elif isinstance(batch, (list, tuple, dict)):
        for part in batch.values() if isinstance(batch, dict) else batch:
            look_at(part)


def count_of(batch: Any) -> int:
    """How many samples a batch has."""
    while isinstance(batch, (list, tuple, dict)):
        first = next(iter(batch.values() if isinstance(batch, dict) else batch))
        if not isinstance(first, (list, tuple, dict, torch.Tensor)) or (torch.is_tensor(first) and first.ndim < 4):
            return len(first) if torch.is_tensor(first) and isinstance(batch, dict) else len(batch)
        batch = first
    return len(batch)


class Compose:
    """Transforms of an image and its target or mask, one after the other, as the references for both have it."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any, target: Any) -> Any:
        for transform in self.transforms:
            image, target = transform(image, target)
        return image, target
