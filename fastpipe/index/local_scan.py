"""Lists a tree of class folders in torchvision's order, in parallel; unchanged folders aren't listed again.

torchvision lists ``sorted(os.walk(class_folder, followlinks=True))`` for each class. This gives the same files in the
same order, but folders are listed by several threads, which is faster on a network disk, and each folder's state is
kept. Adding, removing or renaming an entry changes its folder's times. So if the states of all folders are unchanged,
a new scan would find the same files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fastpipe.errors import DatasetError
from fastpipe.index.folder_source import FolderSource, check_root, is_folder, walk
from fastpipe.index.parts import UNSETTLED, Part, Parts, State, is_settled, listed_parts, parts_of
from fastpipe.index.table import ENCODING, ERRORS, Array, Listing, Table, unpack_paths
from fastpipe.progress_bar import SlowBar
from fastpipe.sources.threads import map_patiently

_UNKNOWN = -2  # stands for a size that is to be read
_FOLDERS_OF_A_TASK = 16  # on a cluster
_SIZES_OF_A_TASK = 4096
_SIZES_AT_ONCE = 256


def _state_of(status: os.stat_result) -> State:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino & 0x7FFFFFFFFFFFFFFF


def _state_or_never(path: str) -> State:
    try:
        return _state_of(os.stat(path))
    except OSError:
        return UNSETTLED, 0, 0


def folder_states(root: str, folders: Sequence[str]) -> Array:
    """The state of each folder now: int64 ``(m, 3)`` as in `Table.part_states`; (-1, 0, 0) for a missing folder."""
    start = os.path.join(root, "")
    paths = (start + folder if folder else root for folder in folders)
    states = [state for _, state in map_patiently(_state_or_never, paths)]
    return np.array(states, np.int64).reshape(-1, 3)


Task = tuple[str, bool, str]
"""A folder to visit: its path relative to the root, whether to list it, devices and inodes of the folders above."""


Listed = tuple[State, str, Sequence[str], bool]
"""A listed folder, representable in JSON: its state, its files' paths relative to the root with a NUL after each, the
names of the folders in it, and whether it could be listed."""

_UNREADABLE: Listed = ((UNSETTLED, 0, 0), "", (), False)

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
        folders, states = listed_parts(kept.table)
        now = folder_states(self.root, folders)
        same = (now == states).all(axis=1) & (states[:, 0] != UNSETTLED)
        missing = self.options.sizes and kept.table.sizes is None
        if same.all() and not missing:
            return {}, ""
        changed = {folders[number] for number in np.flatnonzero(~same)}
        # A folder that is gone, or has another inode, may be a link whose target changed: list its parent again.
        changed |= {folders[number].rpartition("/")[0] for number in np.flatnonzero(now[:, 2] != states[:, 2])}
        # The root is always included, as its columns tell whether sizes are known.
        unchanged = (number for number, folder in enumerate(folders) if folder not in changed or not folder)
        known = parts_of(kept.table, ("sizes",), unchanged)
        if "" in changed:
            known[""] = replace(known[""], state=(UNSETTLED, 0, 0))
        reason = f"{len(changed)} of {len(folders)} folders may have changed"
        return known, reason if changed else "it had no sizes of the files"

    def list_files(self, known: Parts) -> Listing:
        listing = super().list_files(known)
        self._ask_for_sizes(listing.table)
        return listing

    def folders(self, known: Parts) -> Iterator[Part]:
        """Lists the folders level by level, except known ones; the root may be known and still have to be listed.

        Raises:
            DatasetError: a link leads back to a folder above it, so that the listing would never end.
            OSError: the root can't be listed.
        """
        sized = self.options.sizes or ("" in known and "sizes" in known[""].columns)

        def task(path: str, above: str) -> Task:
            return path, path not in known or known[path].state[0] == UNSETTLED, above

        def visit_all(tasks: list[Task]) -> Iterator[tuple[Part, list[Task]]]:
            for some, visits in self._visits(tasks):
                for (path, *_), (listed, above) in zip(some, visits, strict=True):
                    part = known[path] if listed is None else _part(path, *listed)
                    if sized and not part.columns:
                        part = replace(part, columns={"sizes": np.full(len(part), _UNKNOWN, np.int64)})
                    below = (f"{path}/{name}" if path else name for name in part.subfolders)
                    yield part, [task(folder, above) for folder in below]

        return walk(visit_all, task("", "/"), "looking for images", self.options.progress)

    def _visits(self, tasks: list[Task]) -> Iterator[tuple[Sequence[Task], Sequence[Visited]]]:
        """Visits folders: in groups on the cluster, or one by one in this process."""
        root = os.path.abspath(self.root)
        size = 1 if self.options.cluster is None else _FOLDERS_OF_A_TASK
        chunks = [tasks[start : start + size] for start in range(0, len(tasks), size)]
        for number, visits in self.options.map(_visit_some, ((root, chunk, self.extensions) for chunk in chunks)):
            yield chunks[number], visits

    def _ask_for_sizes(self, table: Table) -> None:
        """Reads the sizes that aren't known yet; -1 for an unreachable file."""
        if (sizes := table.sizes) is None:
            return
        rows = np.flatnonzero(sizes == _UNKNOWN)
        size = _SIZES_AT_ONCE if self.options.cluster is None else _SIZES_OF_A_TASK
        chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
        start = os.path.join(os.path.abspath(self.root), "")
        asked = ([start + path for path in unpack_paths(table.packed(picks))] for picks in chunks)
        with SlowBar("asking for sizes", self.options.progress) as bar:
            bar.expect(len(rows))
            for number, of_chunk in self.options.map(_sizes_of, asked):
                sizes[chunks[number]] = of_chunk
                bar.advance(len(of_chunk))


def _part(path: str, state: State, names: str, subfolders: Sequence[str], readable: bool) -> Part:
    return Part(path, state, names.encode(ENCODING, ERRORS), {}, subfolders, readable)


def _sizes_of(paths: Iterable[str]) -> list[int]:
    """Reads the sizes of files; runs in a thread, or in a cluster's worker."""
    return [*map(_size_of, paths)]


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _visit_some(asked: tuple[str, list[Task], tuple[str, ...]]) -> list[Visited]:
    """Visits a group of folders; runs in a thread, or in a cluster's worker."""
    root, tasks, extensions = asked
    return [_visit(root, *task, extensions) for task in tasks]


def _visit(root: str, path: str, is_new: bool, above: str, extensions: tuple[str, ...]) -> Visited:
    full = os.path.join(root, *path.split("/")) if path else root
    before = time.time_ns()
    try:
        status = os.stat(full)  # before listing, so that a change during it is noticed the next time
    except OSError:
        if not path:
            raise
        return _UNREADABLE, ""
    here = f"/{status.st_dev}:{status.st_ino}/"
    if status.st_ino and here in above:
        raise DatasetError(
            f"{full} is a link to a folder that holds it, so that there is no end to the files below it. "
            "Remove the link, or list the files with fastpipe.ImageList."
        )
    return _list(full, path, _state_of(status), before, extensions) if is_new else None, above + here


def _list(full: str, path: str, state: State, before: int, extensions: tuple[str, ...]) -> Listed:
    mtime, ctime, inode = state
    try:
        names, subfolders, dangling = _entries(full, extensions)
    except OSError:
        if not path:
            raise
        return _UNREADABLE
    if dangling or not is_settled(mtime, ctime, before):  # a dangling link may come to point at a folder
        mtime = UNSETTLED
    if not path:
        names = []  # files beside the class folders are no samples
    names.sort()
    start = path + "/"
    paths = start + f"\0{start}".join(names) + "\0" if names else ""
    return (mtime, ctime, inode), paths, subfolders, True


def _entries(full: str, extensions: tuple[str, ...]) -> tuple[list[str], list[str], bool]:
    """Names of the files with one of the extensions, names of the folders, and whether a link is dangling."""
    with os.scandir(full) as entries:
        all_entries = list(entries)
    # Whole-list operations, no Python call for each file: this loop dominates the listing of millions of files.
    try:
        subfolders = [entry.name for entry in all_entries if entry.is_dir()]
    except OSError:
        subfolders = [entry.name for entry in all_entries if is_folder(entry)]
    names = [entry.name for entry in all_entries]
    if subfolders:
        folders = set(subfolders)
        names = [name for name in names if name not in folders]
    if names and not _all_end_as_the_first(names, extensions):
        names = [name for name in names if name.lower().endswith(extensions)]
    links = [entry for entry in all_entries if entry.is_symlink()]
    return names, subfolders, any(not os.path.exists(link.path) for link in links)


def _all_end_as_the_first(names: list[str], extensions: tuple[str, ...]) -> bool:
    """True if all names have the ending of the first one, and it is in `extensions`."""
    ending = names[0][names[0].rfind(".") :]
    return ending.lower().endswith(extensions) and "\0".join([*names, ""]).count(f"{ending}\0") == len(names)
