"""Endings of the files that count as images, as in torchvision."""

from __future__ import annotations

from collections.abc import Iterable

from fastpipe.core.packed import PACKED_EXTENSION
from fastpipe.errors import DatasetError

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", PACKED_EXTENSION)
"""torchvision's endings, and that of packed images."""


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """True if a file's name, in any case, ends with one of the lower-case extensions."""
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename: str) -> bool:
    """True if a file's name ends with one of `IMG_EXTENSIONS`."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def checked_extensions(extensions: str | Iterable[str]) -> tuple[str, ...]:
    """The endings that a user gave, one or several, as a tuple.

    Raises:
        DatasetError: they are no str.
    """
    several = (extensions,) if isinstance(extensions, str) else extensions
    if isinstance(several, Iterable):
        endings = tuple(several)
        if endings and all(isinstance(ending, str) for ending in endings):
            return endings
    raise DatasetError(f"extensions={extensions!r:.80}: give endings of files, as ('.npy', '.raw').")
