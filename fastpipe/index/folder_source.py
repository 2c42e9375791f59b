"""The index of class folders, local or in a store: visits folders level by level, and builds their table."""

from __future__ import annotations

import abc
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from fastpipe.errors import FastpipeWarning
from fastpipe.index.index_source import IndexSource
from fastpipe.index.pieces import Part, Parts, merge
from fastpipe.index.table import Listing
from fastpipe.progress_bar import SlowBar

_NAMED = 5  # at most so many folders are named in a warning

Task = TypeVar("Task")
"""A folder to visit, with what the visit of its parent found out about it."""


def walk(
    visit: Callable[[list[Task]], Iterable[tuple[Part, Iterable[Task]]]], root: Task, text: str, progress: bool
) -> Iterator[Part]:
    """Visits the root and all folders below it, level by level, with a progress bar.

    `visit` takes the folders of a level, and yields for each, in any order, its `Part` and the folders in it.
    """
    with SlowBar(text, progress) as bar:
        level = [root]
        while level:
            bar.expect(len(level))
            below: list[Task] = []
            for folder, tasks in visit(level):
                bar.advance()
                below += tasks
                yield folder
            level = below


@dataclass(frozen=True, kw_only=True)
class FolderSource(IndexSource):
    """The arguments of `ImageIndex.from_folder`; a subclass lists the folders."""

    @abc.abstractmethod
    def folders(self, known: Parts) -> Iterable[Part]:
        """Lists all folders, the root among them, in any order."""

    def list_files(self, known: Parts) -> Listing:
        folders = sorted(self.folders(known), key=lambda folder: walk_order(folder.path))
        root, *below = folders
        classes = sorted(root.subfolders)
        if not classes:
            raise without_classes(self.root)
        unreadable = [folder.path for folder in below if not folder.readable]
        if unreadable:
            named = ", ".join(unreadable[:_NAMED]) + (", …" if len(unreadable) > _NAMED else "")
            warnings.warn(
                f"{len(unreadable)} folder{'s' * (len(unreadable) != 1)} of {self.root} can't be listed, so images are "
                f"missing: {named}. "
                "Check their permissions.",
                FastpipeWarning,
                stacklevel=7,
            )
        labels = {name: label for label, name in enumerate(classes)}
        folder_labels = np.array([-1, *(labels[folder.path.partition("/")[0]] for folder in below)], np.int32)
        table = merge(folders, np.repeat(folder_labels, [*map(len, folders)]))
        return Listing(table, classes, range(len(classes)))


def walk_order(folder: str) -> tuple[str, str]:
    """The sort key of a folder's path, relative to the root: the order of torchvision's samples.

    Within a class it is that of os.walk's sorted tuples, separators included: "a-b" before "a/b" before "ab".
    """
    return folder.partition("/")[0], folder.replace("/", os.sep)


def check_root(directory: str | Path) -> None:
    """Raises FileNotFoundError or NotADirectoryError unless a directory exists."""
    if not os.path.isdir(directory):
        kind = NotADirectoryError if os.path.exists(directory) else FileNotFoundError
        raise kind(
            f"{os.fspath(directory) or repr('')} is not a folder: give the one that holds a folder of images for each "
            "class, or a .zip or .tar of it."
        )


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
