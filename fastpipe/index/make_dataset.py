"""torchvision's functions that list class folders, and the samples in ``root/class/….jpg``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fastpipe.index.archives import archive_in
from fastpipe.index.extensions import has_file_allowed_extension
from fastpipe.index.folder_source import check_root, without_classes
from fastpipe.index.image_index import ImageIndex
from fastpipe.paths import local_path


def find_classes(directory: str | Path) -> tuple[list[str], dict[str, int]]:
    """The class folders of a directory, sorted, and their indices.

    Raises:
        FileNotFoundError: the directory doesn't exist or holds no folder.
    """
    if archive_in(local_path(directory)) is not None:
        classes = list(_all_files(directory).classes)
    else:
        check_root(directory)
        classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
        if not classes:
            raise without_classes(directory)
    return classes, {name: number for number, name in enumerate(classes)}


def make_dataset(
    directory: str | Path,
    class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """The ``(path, class index)`` of every sample, in torchvision's order: by class, then folder, then name.

    Args:
        directory: the root folder.
        class_to_idx: class folders and their indices; None for all class folders, sorted.
        extensions: endings of the files that count, lower-case; give either this or `is_valid_file`.
        is_valid_file: takes a path and says whether the file counts.
        allow_empty: whether a class folder may be without a valid file.

    Raises:
        ValueError: not exactly one of `extensions` and `is_valid_file` is given, or `class_to_idx` is empty.
        FileNotFoundError: a class has no valid file and `allow_empty` is False.
    """
    directory = local_path(directory)
    if class_to_idx is None:
        _, class_to_idx = find_classes(directory)
    elif not class_to_idx:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")

    def counts(path: str) -> bool:
        return is_valid_file(path) if is_valid_file else has_file_allowed_extension(path, extensions or ())

    samples: list[tuple[str, int]] = []
    empty = []
    index = _all_files(directory)
    for name in sorted(class_to_idx):
        before, start = len(samples), os.path.join(index.prefix + name, "")
        top = name.replace(os.sep, "/").partition("/")[0]
        label = index.classes.index(top) if top in index.classes else -1
        paths = index.paths(np.flatnonzero(index.labels == label))
        samples.extend((path, class_to_idx[name]) for path in paths if path.startswith(start) and counts(path))
        if len(samples) == before:
            empty.append(name)
    check_no_class_is_empty(empty, extensions, allow_empty)
    return samples


def check_no_class_is_empty(empty: list[str], extensions: str | tuple[str, ...] | None, allow_empty: bool) -> None:
    """Raises torchvision's FileNotFoundError if classes are without a file and that isn't allowed."""
    if not empty or allow_empty:
        return
    message = f"Found no valid file for the classes {', '.join(empty)}. "
    if extensions is not None:
        message += f"Supported extensions are: {extensions if isinstance(extensions, str) else ', '.join(extensions)}"
    raise FileNotFoundError(message)


def _all_files(directory: str | Path) -> ImageIndex:
    """The index of all files in class folders, of any ending."""
    return ImageIndex.from_folder(directory, location=None, extensions=("",))
