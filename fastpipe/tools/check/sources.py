"""What a check was given → the index of its files."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path
from typing import Any

from fastpipe.datasets import ImageFolder, ImageIndex, ImageList, is_image_file, store
from fastpipe.datasets.table import unpack_paths
from fastpipe.datasets.views import Samples
from fastpipe.errors import DatasetError

__all__ = ["index_of", "loose_images", "other_images"]

_LISTS = (".txt", ".csv", ".tsv", ".parquet")

_OTHER_ENDINGS = (
    *(".apng", ".avif", ".gif", ".heic", ".heif", ".ico", ".jfif", ".jp2", ".jpe", ".jxl", ".pbm", ".pnm", ".psd"),
    *(".svg", ".tga", ".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raw", ".rw2"),
)
"""Endings of images that `ImageFolder` doesn't list: a folder of phones' photos must not seem sound by being empty."""


def index_of(source: Any, *, progress: bool = True) -> ImageIndex:
    """The files that a check is about.

    Args:
        source: a folder of class folders, as `fastpipe.ImageFolder` takes; a folder that holds images itself; the
            folder of an index that ``fastpipe index --at`` made; a list that `fastpipe.ImageList` reads; one image
            file; an `ImageIndex`; an `ImageFolder` or `ImageList`.
        progress: whether a terminal gets a bar while a folder is listed.

    Raises:
        DatasetError: none of these, or there is no image.
    """
    if isinstance(source, ImageIndex):
        return source
    if isinstance(source, (ImageFolder, ImageList)):
        samples = source.samples
        return samples.index_ if isinstance(samples, Samples) else _listed([path for path, _ in samples])
    if not isinstance(source, (str, os.PathLike)):
        raise DatasetError(
            f"check takes a folder, a list, an image file, an ImageIndex or a dataset; not {type(source).__name__}."
        )
    path = os.path.expanduser(os.fspath(source))
    if os.path.isfile(path):
        if os.path.splitext(path)[1].lower() in _LISTS:
            return ImageList(path).index
        return _listed([path])
    if not os.path.isdir(path):
        raise DatasetError(f"there is no {path}: give a folder of images, a list of them, or an image file.")
    return _of_folder(path, progress)


def _of_folder(path: str, progress: bool) -> ImageIndex:
    location = os.path.join(path, "current")
    if os.path.isfile(location):
        try:
            about = store.identity_of(Path(path), store.current_generation(Path(path)))
        except store.UnusableIndex:
            pass  # a folder with a file of that name
        else:
            if not about["root"]:
                raise DatasetError(f"the index at {path} is of a list: give the list itself.")
            return ImageIndex.from_folder(
                about["root"], location=path, extensions=tuple(about["extensions"]), progress=progress
            )
    with os.scandir(path) as entries:
        has_folders = any(entry.is_dir() for entry in entries)
    if has_folders:
        index = ImageIndex.from_folder(path, progress=progress)
        if len(index):
            return index
    if images := loose_images(path):
        return _listed(images, path)
    raise DatasetError(f"there is no image in {path}, neither in it nor in the folders in it.")


def loose_images(root: str) -> list[str]:
    """The names of the images that a folder holds itself; beside class folders, no dataset reads them."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if is_image_file(entry.name) and not entry.is_dir())


def other_images(index: ImageIndex) -> dict[str, int]:
    """How many images have which ending that the datasets don't read, in the folders of an index."""
    if index.table.folder_paths is None:
        return {}
    counts: Counter[str] = Counter()
    for folder in unpack_paths(index.table.folder_paths.tobytes())[1:]:
        with contextlib.suppress(OSError), os.scandir(index.prefix + folder) as entries:
            counts.update(os.path.splitext(entry.name)[1].lower() for entry in entries)
    return {ending: count for ending, count in counts.most_common() if ending in _OTHER_ENDINGS}


def _listed(paths: list[str], root: str | None = None) -> ImageIndex:
    return ImageList((paths, [0] * len(paths)), root=root).index
