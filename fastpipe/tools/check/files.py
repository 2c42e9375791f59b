"""The files that `check` examines, and those beside them that no dataset reads."""

from __future__ import annotations

import os

from fastpipe.datasets import ImageFolder, ImageIndex, ImageList
from fastpipe.datasets.arrays import Arrays
from fastpipe.errors import DatasetError
from fastpipe.index.index_source import DEFAULT_OPTIONS, BuildOptions
from fastpipe.index.open import named_images
from fastpipe.index.statistics import files_left_out

_OTHER_ENDINGS = (
    *(".apng", ".avif", ".gif", ".heic", ".heif", ".ico", ".jfif", ".jp2", ".jpe", ".jxl", ".pbm", ".pnm", ".psd"),
    *(".svg", ".tga", ".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raw", ".rw2"),
)
"""Endings of images that `ImageFolder` doesn't list; reported, so that a folder of them doesn't pass as empty."""


def index_of(source: object, options: BuildOptions = DEFAULT_OPTIONS) -> ImageIndex:
    """Returns the index of the images that a path names, an `ImageIndex` has, or a dataset has.

    Raises:
        DatasetError: none of these, or there is no image.
    """
    if isinstance(source, ImageIndex):
        return source
    if isinstance(source, Arrays):
        raise DatasetError(f"check examines images, and {type(source).__name__} holds arrays.")
    if isinstance(source, (ImageFolder, ImageList)):
        index = source._fastpipe_index
        if index is not None:
            return index
        return ImageList(([path for path, _ in source.samples], [0] * len(source))).index
    if not isinstance(source, (str, os.PathLike)):
        raise DatasetError(
            f"source={source!r:.80}: check takes a folder, a list, an image file, an ImageIndex or a dataset; "
            f"not {type(source).__name__}."
        )
    return named_images(source, options).index


def other_images(index: ImageIndex) -> dict[str, int]:
    """For each image ending that datasets don't read, the number of such files in local class folders."""
    if index.table.folders is None or index.source is not None:
        return {}
    return {ending: count for ending, count in files_left_out(index).items() if ending in _OTHER_ENDINGS}
