"""Endings of the files that count as images, as in torchvision."""

from __future__ import annotations

from fastpipe.core.packed import PACKED_EXTENSION

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", PACKED_EXTENSION)
"""torchvision's endings, and that of packed images."""


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """True if a file's name, in any case, ends with one of the lower-case extensions."""
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename: str) -> bool:
    """True if a file's name ends with one of `IMG_EXTENSIONS`."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)
