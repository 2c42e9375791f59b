"""Lists a tree of class folders in torchvision's order, in parallel; unchanged folders aren't listed again.

torchvision lists ``sorted(os.walk(class_folder, followlinks=True))`` for each class. This gives the same files in the
same order, but folders are listed by several threads, which is faster on a network disk, and each folder's state is
kept. Adding, removing or renaming an entry changes its folder's times. So if the states of all folders are unchanged,
a new scan would find the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fastpipe.counts import pluralize
from fastpipe.errors import DatasetError
from fastpipe.index.folder_source import FolderSource, check_root, is_folder, walk
from fastpipe.index.pieces import (
    NO_STATE,
    UNSETTLED,
    Part,
    Parts,
    State,
    listed_parts,
    parts_of,
    settled_state,
    state_of,
)
from fastpipe.index.table import ENCODING, ERRORS, Array, Listing
from fastpipe.sources.threads import map_patiently

_FOLDERS_OF_A_TASK = 16  # on a cluster


def _state_now(folder: str) -> State:
    try:
        return state_of(os.path.join(folder, ""))  # a file in its place is an error
    except OSError:
        return NO_STATE


def folder_states(root: str, folders: Sequence[str]) -> Array:
    """The state of each folder now: int64 ``(m, 3)`` as in `Table.part_states`; `NO_STATE` for a missing folder."""
    paths = (os.path.join(root, folder) for folder in folders)
    return np.array([state for _, state in map_patiently(_state_now, paths)], np.int64).reshape(-1, 3)


Task = tuple[str, bool, str]
"""A folder to visit: its path relative to the root, whether to list it, devices and inodes of the folders above."""

Listed = tuple[State, str, list[int], list[str], bool]
"""A listed folder, representable in JSON: its state, its files' paths relative to the root with a NUL after each, their
sizes if they are wanted, the names of the folders in it, and whether it could be listed."""

Visited = tuple[Listed | None, str]
"""A listed folder, or None if it wasn't to be listed; and the devices and inodes for the `Task`s of its subfolders."""


@dataclass(frozen=True, kw_only=True)
class LocalFolderSource(FolderSource):
    """Class folders of this machine.

    Raises:
        FileNotFoundError: `root` is no folder.
    """

    def __post_init__(self) -> None:
        check_root(self.root)

    def find_unchanged(self, kept: Listing, confirmed_ns: int) -> tuple[Parts, str]:
        if self.options.sizes and kept.table.sizes is None:
            return {}, "it had no sizes of the files"
        folders, states = listed_parts(kept.table)
        now = folder_states(self.root, folders)
        same = (now == states).all(axis=1) & (states[:, 1] != UNSETTLED)
        if same.all():
            return {}, ""
        changed = {folders[number] for number in np.flatnonzero(~same)}
        # A folder that is gone may be a link to another place now: list its parent again.
        changed |= {folders[number].rpartition("/")[0] for number in np.flatnonzero(now[:, 1] == UNSETTLED)}
        unchanged = (number for number, folder in enumerate(folders) if folder not in changed)
        reason = f"{len(changed)} of {pluralize(len(folders), 'folder')} may have changed"
        return parts_of(kept.table, ("sizes",), unchanged), reason

    def folders(self, known: Parts) -> Iterator[Part]:
        """Lists the folders level by level, except known ones.

        Raises:
            DatasetError: a link leads back to a folder above it, so that the listing would never end.
            OSError: the root can't be listed.
        """
        root, sized = os.path.abspath(self.root), self.options.sizes
        size = 1 if self.options.cluster is None else _FOLDERS_OF_A_TASK

        def visit_all(tasks: list[Task]) -> Iterator[tuple[Part, list[Task]]]:
            chunks = [tasks[start : start + size] for start in range(0, len(tasks), size)]
            asked = ((root, chunk, self.extensions, sized) for chunk in chunks)
            for number, visits in self.options.map(_visit_some, asked):
                for (path, *_), (listed, above) in zip(chunks[number], visits, strict=True):
                    part = known[path] if listed is None else _part(path, sized, *listed)
                    below = (f"{path}/{name}" if path else name for name in part.subfolders)
                    yield part, [(folder, folder not in known, above) for folder in below]

        return walk(visit_all, ("", "" not in known, "/"), "looking for images", self.options.progress)


def _part(path: str, sized: bool, state: State, names: str, sizes: list[int], subfolders: list[str], ok: bool) -> Part:
    columns = {"sizes": np.array(sizes, np.int64)} if sized else {}
    return Part(path, state, names.encode(ENCODING, ERRORS), columns, subfolders, ok)


def _visit_some(asked: tuple[str, list[Task], tuple[str, ...], bool]) -> list[Visited]:
    """Visits a group of folders; runs in a thread, or in a cluster's worker."""
    root, tasks, extensions, sized = asked
    return [_visit(root, *task, extensions, sized) for task in tasks]


def _visit(root: str, path: str, is_new: bool, above: str, extensions: tuple[str, ...], sized: bool) -> Visited:
    full = os.path.join(root, *path.split("/")) if path else root
    try:
        status = os.stat(full)
        here = f"/{status.st_dev}:{status.st_ino}/"
        if status.st_ino and here in above:
            raise DatasetError(
                f"{full} is a link to a folder that holds it, so that there is no end to the files below it. "
                "Remove the link, or list the files with fastpipe.ImageList."
            )
        if not is_new:
            return None, above + here
        state = settled_state(full)  # before listing, so that a change during it is noticed the next time
        names, subfolders, dangling = _entries(full, extensions)
    except OSError:
        if not path:
            raise
        return (NO_STATE, "", [], [], False), ""
    if dangling:  # it may come to point at a folder
        state = NO_STATE
    if not path:
        names = []  # files beside the class folders are no samples
    names.sort()
    start = path + "/"
    paths = start + f"\0{start}".join(names) + "\0" if names else ""
    sizes = _sizes_of([f"{full}{os.sep}{name}" for name in names]) if sized else []
    return (state, paths, sizes, subfolders, True), above + here


def _sizes_of(files: list[str]) -> list[int]:
    sizes = [-1] * len(files)
    for number, size in map_patiently(_size_of, files):  # one folder may hold all files
        sizes[number] = size
    return sizes


def _size_of(path: str) -> int:
    """A file's size in bytes; -1 for an unreachable file."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _entries(full: str, extensions: tuple[str, ...]) -> tuple[list[str], list[str], bool]:
    """Names of the files with one of the extensions, names of the folders, and whether a link is dangling."""
    with os.scandir(full) as entries:
        all_entries = list(entries)
    # Whole-list operations, no Python call for each file: this loop dominates the listing of millions of files.
    try:
        subfolders = [entry.name for entry in all_entries if entry.is_dir()]
    except OSError:
        subfolders = [entry.name for entry in all_entries if is_folder(entry)]
    names = [entry.name for entry in all_entries if entry.name.lower().endswith(extensions)]
    if subfolders:
        folders = set(subfolders)
        names = [name for name in names if name not in folders]
    links = [entry for entry in all_entries if entry.is_symlink()]
    return names, subfolders, any(not os.path.exists(link.path) for link in links)
