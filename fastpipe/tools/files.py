"""Which of a user's files a tool looks at, and a dataset of them."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from fastpipe.datasets import ImageList
from fastpipe.datasets.listing import IMG_EXTENSIONS
from fastpipe.errors import DatasetError

__all__ = ["choose_files", "dataset_of"]

_OTHER_EXTENSIONS = (".gif", ".jfif", ".mpo")


def choose_files(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], count: int, seed: int = 0
) -> list[str]:
    """Up to ``count`` image files: those that are given, or some from all over a folder.

    A folder's files are taken from its subfolders in turn, in an order that the seed decides, and only as many
    folders are listed as that needs: a folder of millions of files costs no more than a small one.

    Args:
        files: a folder, searched with its subfolders; one file, whatever its extension; or several of either.
        count: at least 1.
        seed: the same seed and folder give the same files.

    Raises:
        DatasetError: a path doesn't exist, or no image is found.
    """
    given = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    paths = [Path(path).expanduser() for path in given]
    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None:
        raise DatasetError(f"there is no {missing}; name a folder of images, or an image")
    rng = random.Random(seed)
    if paths and all(path.is_file() for path in paths):
        chosen = [str(path) for path in paths]
        return chosen if len(chosen) <= count else [chosen[i] for i in sorted(rng.sample(range(len(chosen)), count))]
    sources = [iter([str(path)]) if path.is_file() else _images_below(str(path), rng, set()) for path in paths]
    found = list(itertools.islice(_in_turn(sources), count))
    if not found:
        names = ", ".join(map(str, paths[:3])) or "no path"
        raise DatasetError(
            f"{names}: no image is found there; images are told by their extension, such as .jpg or .png"
        )
    return found


def dataset_of(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transform: Callable[[Any], Any] | None,
    count: int,
    seed: int = 0,
) -> ImageList:
    """An `ImageList` of what `choose_files` chooses; the label of each is its folder's name."""
    chosen = choose_files(files, count, seed)
    return ImageList((chosen, [Path(path).parent.name for path in chosen]), transform)


def _images_below(folder: str, rng: random.Random, seen: set[str]) -> Iterator[str]:
    real = os.path.realpath(folder)
    if real in seen:  # a link that leads back
        return
    seen.add(real)
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except PermissionError:
        return
    rng.shuffle(listed)
    images, folders = [], []
    for entry in listed:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            folders.append(entry.path)
        elif entry.name.lower().endswith((*IMG_EXTENSIONS, *_OTHER_EXTENSIONS)):
            images.append(entry.path)
    yield from _in_turn([iter(images), *(_images_below(below, rng, seen) for below in folders)])


def _in_turn(sources: list[Iterator[str]]) -> Iterator[str]:
    """One of each source after the other, until all are used up."""
    while sources:
        left = []
        for source in sources:
            for path in itertools.islice(source, 1):
                left.append(source)
                yield path
        sources = left
