"""Chooses image files for the tools: from a folder, a list, a container, or as they are named."""

from __future__ import annotations

import itertools
import os
import random
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from fastpipe.datasets import ImageList
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.index.extensions import IMG_EXTENSIONS
from fastpipe.index.folder_source import is_folder
from fastpipe.index.open import OTHER_EXTENSIONS, named_container
from fastpipe.paths import check_regular, local_path
from fastpipe.reporting.output import pluralize
from fastpipe.types import Transform


def choose_files(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], count: int, seed: int = 0
) -> list[str]:
    """Returns up to ``count`` image files: the given ones, or some from all over a folder.

    A folder's files are taken from its subfolders in turn, in an order fixed by the seed. Only the folders needed are
    listed, so a folder of millions of files takes no longer than a small one. A file given by name may have any
    extension.

    Raises:
        DatasetError: a path doesn't exist, or no image is found.
    """
    given = list(files) if isinstance(files, Iterable) and not isinstance(files, (str, os.PathLike)) else [files]
    paths = [Path(local_path(path)) for path in given]
    rng = random.Random(seed)
    if len(paths) == 1 and (container := named_container(given[0])) is not None:
        index = container.index
        return index.paths(np.array(sorted(rng.sample(range(len(index)), min(count, len(index)))), np.int64))
    # An empty path would mean the current folder; for a too long path, os.path.exists returns False.
    missing = next((one for one, path in zip(given, paths, strict=True) if not one or not os.path.exists(path)), None)
    if missing is not None:
        shown = os.fspath(missing) or "path in ''"
        raise DatasetError(f"there is no {shown:.200}: give a folder of images, or an image file.")
    for path in paths:
        if not path.is_dir():
            try:
                check_regular(path)
            except OSError as error:
                raise DatasetError(
                    f"{path} can't be opened, {error.strerror}: give a folder of images, or an image file."
                ) from None
    if paths and all(path.is_file() for path in paths):
        chosen = [str(path) for path in paths]
        return chosen if len(chosen) <= count else [chosen[i] for i in sorted(rng.sample(range(len(chosen)), count))]
    unlisted: list[str] = []
    sources = [
        iter([str(path)]) if path.is_file() else _images_below(str(path), rng, set(), unlisted) for path in paths
    ]
    found = list(itertools.islice(_in_turn(sources), count))
    if unlisted:
        warnings.warn(
            f"{pluralize(len(unlisted), 'folder')} can't be listed, so images are missing: {', '.join(unlisted[:3])}"
            f"{', …' if len(unlisted) > 3 else ''}. Check the permissions.",
            FastpipeWarning,
            stacklevel=3,
        )
    if not found:
        names = ", ".join(map(str, paths[:3])) or "no path"
        raise DatasetError(
            f"{names}: no image is found there; images are told by their extension, such as .jpg or .png"
        )
    return found


def dataset_of(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transform: Transform | None,
    count: int,
    seed: int = 0,
) -> ImageList:
    """An `ImageList` of the files that `choose_files` returns; each file's label is its folder's name."""
    chosen = choose_files(files, count, seed)
    return ImageList((chosen, [Path(path).parent.name for path in chosen]), transform)


def _images_below(folder: str, rng: random.Random, seen: set[str], unlisted: list[str]) -> Iterator[str]:
    """Yields the images in a folder and below it; adds the folders that can't be listed to `unlisted`."""
    real = os.path.realpath(folder)
    if real in seen:  # a link that leads back to a visited folder
        return
    seen.add(real)
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError:  # no permission, or a loop of links
        unlisted.append(folder)
        return
    rng.shuffle(listed)
    images, folders = [], []
    for entry in listed:
        if entry.name.startswith("."):
            continue
        if is_folder(entry):
            folders.append(entry.path)
        elif entry.name.lower().endswith((*IMG_EXTENSIONS, *OTHER_EXTENSIONS)):
            images.append(entry.path)
    yield from _in_turn([iter(images), *(_images_below(below, rng, seen, unlisted) for below in folders)])


def _in_turn(sources: list[Iterator[str]]) -> Iterator[str]:
    """Yields one item of each source in turn, until all are exhausted."""
    for some in itertools.zip_longest(*sources):
        yield from (path for path in some if path is not None)
