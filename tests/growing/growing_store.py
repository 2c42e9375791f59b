"""A store of small images, and which of them an epoch of a `GrowingDataset` has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import corpus
import numpy as np

from fastpipe.growing.dataset import GrowingDataset
from fastpipe.growing.prefetch_process import Prefetcher
from fastpipe.loading.permutation import Permutation
from fastpipe.sources import ByteSource, Entry

COUNT = 60
SIZE = 4096  # a file's, and so what it takes in the cache


class Store(ByteSource):
    """Small images in memory; reading one that is in `broken` raises that."""

    def __init__(self, count: int = COUNT) -> None:
        self.files = {f"class_{n % 3}/{n:03}.png": image(n) for n in range(count)}
        self.broken: dict[str, Exception] = {}
        self.reads: list[str] = []

    @property
    def name(self) -> str:
        return "store:"

    def list(self) -> Iterable[Entry]:
        return [Entry(key, len(data), hashlib.md5(data).hexdigest()) for key, data in self.files.items()]

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        self.reads.append(key)
        if key in self.broken:
            raise self.broken[key]
        data = self.files[key][offset:]
        return data if length < 0 else data[:length]


def image(number: int) -> bytes:
    return corpus.save(np.full((2, 3, 3), number, np.uint8), "PNG")


def go_on(grown: Any, steps: int = 1000) -> None:
    """Fetches so many times, as the process would."""
    if "_here" not in grown.__dict__:
        grown._here = Prefetcher(grown.dataset.samples.index_, grown._order, grown._state)
    while steps and grown._here.step():
        steps -= 1


def numbers(grown: GrowingDataset) -> list[int]:
    """Which images an epoch has, by their pixels, in order of place."""
    return [int(grown[place][0][0, 0, 0]) for place in range(len(grown))]


def order(grown: GrowingDataset, count: int = COUNT) -> list[int]:
    """In which images arrive, by the permutation and the source's list alone."""
    paths = [path for path, _ in grown.dataset.samples]
    places = Permutation(count, (5, 0x67726F77)).at(np.arange(count))
    return [int(paths[place].rpartition("/")[2].removesuffix(".png")) for place in places]
