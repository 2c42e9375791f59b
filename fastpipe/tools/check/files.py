"""The files that `check` examines, and those beside them that no dataset reads."""

from __future__ import annotations

import os

from fastpipe.datasets import ImageFolder, ImageIndex, ImageList
from fastpipe.datasets.arrays import Arrays
from fastpipe.datasets.detection import Wrappable
from fastpipe.errors import AnnotationError, DatasetError
from fastpipe.index.index_source import DEFAULT_OPTIONS, BuildOptions
from fastpipe.index.list_source import index_of_rows
from fastpipe.index.open import named_images
from fastpipe.index.statistics import files_left_out
from fastpipe.tools.check.findings import FileFacts, Findings, bits_of
from fastpipe.types import RemoteFile

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
    if isinstance(source, Wrappable):
        listed = [source.sample(number)[0] for number in range(len(source))]
        # A name that stands for an error is a row without a path.
        paths = [None if isinstance(path, RemoteFile) else path for path in listed]
        return index_of_rows((paths, [0] * len(paths)))
    if not isinstance(source, (str, os.PathLike)):
        raise DatasetError(
            f"source={source!r:.80}: check takes a folder, a list, an image file, an ImageIndex or a dataset; "
            f"not {type(source).__name__}."
        )
    return named_images(source, options).index


def check_annotations(source: object, findings: Findings) -> None:
    """Finds images of a detection dataset whose annotations raise, as the dataset is: with its target keys."""
    if not isinstance(source, Wrappable):
        return
    for number in range(len(source)):
        try:
            size = int(findings.table["height"][number]), int(findings.table["width"][number])
            source.targets_at(number, size)
        except (AnnotationError, OSError) as error:
            if not findings.bad[number]:
                findings.put(number, FileFacts(bits_of(["annotation"]), text=str(error)))


def other_images(index: ImageIndex) -> dict[str, int]:
    """For each image ending that datasets don't read, the number of such files in local class folders."""
    if index.table.folders is None or index.source is not None:
        return {}
    return {ending: count for ending, count in files_left_out(index).items() if ending in _OTHER_ENDINGS}
