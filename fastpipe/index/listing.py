"""Which files count as images, and which folders as classes, as in torchvision."""

from __future__ import annotations

import os
from pathlib import Path

from fastpipe.core.packed import PACKED_EXTENSION

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", PACKED_EXTENSION)
"""torchvision's endings, and that of packed images."""


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """True if a file's name, in any case, ends with one of the lower-case extensions."""
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename: str) -> bool:
    """True if a file's name ends with one of `IMG_EXTENSIONS`."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def class_folders(directory: str | Path) -> list[str]:
    """The names of the folders in a directory, sorted.

    Raises:
        FileNotFoundError: the directory doesn't exist or holds no folder.
    """
    if not os.path.isdir(directory):
        kind = NotADirectoryError if os.path.exists(directory) else FileNotFoundError
        raise kind(
            f"{os.fspath(directory)} is not a folder: give the one that holds a folder of images for each "
            "class, or a .zip or .tar of it."
        )
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise without_classes(directory)
    return classes


def without_classes(root: str | os.PathLike[str]) -> FileNotFoundError:
    """Makes the error for a folder, an archive or a store without a class folder."""
    return FileNotFoundError(
        f"Couldn't find any class folder in {os.fspath(root)}. "
        "ImageFolder expects one folder for each class, with the images inside: root/class/image.jpg."
    )


def is_folder(entry: os.DirEntry[str]) -> bool:
    """True if an entry is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, which os.walk counts as a file
        return False
