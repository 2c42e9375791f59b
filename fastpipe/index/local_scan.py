"""Listing a tree of class folders in torchvision's order, in parallel, again only where something changed.

torchvision lists ``sorted(os.walk(class_folder, followlinks=True))`` for each class. This gives the same files in the
same order, but each folder is listed by a thread, which is what makes a network disk fast, and the state of each
folder is remembered. Adding, removing or renaming an entry changes its folder's times, so that whoever finds all
folders' states unchanged knows that a new scan would find the same files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fastpipe.errors import DatasetError
from fastpipe.index.file_states import NEVER_EQUAL, State, is_settled
from fastpipe.index.folders import FolderSource, Task, walk
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.listing import class_folders, is_folder
from fastpipe.index.parts import KnownParts, Part
from fastpipe.index.table import ENCODING, ERRORS, Array
from fastpipe.sources.threads import map_in_threads, threads_for_files

# Where a folder comes from memory, more threads than two only fight for the interpreter's lock (8 of them: twice as
# slow on two cores); where it comes over a network, threads wait beside each other. A few folders tell which it is.
_PROBED = 16
_SLOW_DISK_S = 0.003
_THREADS_ON_A_FAST_DISK = 2

# Serial stat calls beat threads on a local disk, where one takes microseconds; on a network disk it takes longer.
_PATIENCE_S = 0.2


def _state_of(status: os.stat_result) -> State:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino & 0x7FFFFFFFFFFFFFFF


def _state_or_never(path: str) -> State:
    try:
        return _state_of(os.stat(path))
    except OSError:
        return NEVER_EQUAL, 0, 0


def folder_states(root: str, folders: Sequence[str]) -> Array:
    """The state of each folder now: int64 ``(m, 3)`` as `Table.part_states`; 0s after a -1 if it isn't there."""
    start = os.path.join(root, "")
    states = []
    deadline = time.monotonic() + _PATIENCE_S
    for number, folder in enumerate(folders):
        states.append(_state_or_never(start + folder if folder else root))
        if time.monotonic() > deadline and number + 1 < len(folders):
            with ThreadPoolExecutor(threads_for_files()) as pool:
                states += pool.map(_state_or_never, (start + rest for rest in folders[number + 1 :]))
            break
    return np.array(states, np.int64).reshape(-1, 3)


Above = Sequence[Sequence[int]]
"""Device and inode of the folders from the root down to one's parent: what is known of a `Task`."""


class _Listing(NamedTuple):
    """A folder as a thread or a cluster's worker lists it: JSON can hold it.

    Attributes:
        state, subfolders, readable: as of `Part`.
        names: its files' paths from the root on, a NUL after each.
    """

    state: State
    names: str = ""
    subfolders: Sequence[str] = ()
    readable: bool = True


_UNREADABLE = _Listing((NEVER_EQUAL, 0, 0), readable=False)

Visited = tuple[_Listing | None, Above]
"""A folder, None for one that is known, and `Above` of the folders in it."""


@dataclass(frozen=True, kw_only=True)
class LocalFolderSource(FolderSource):
    """Class folders of this machine.

    Raises:
        FileNotFoundError: `root` is no folder.
    """

    def __post_init__(self) -> None:
        if not os.path.isdir(self.root):
            class_folders(self.root)  # says what is wrong

    def find_unchanged(self, index: IndexedFiles) -> tuple[KnownParts | None, str]:
        if index.table.folders is None:
            return None, "what was there is of a file"
        known = KnownParts(index)
        folders = [*known.numbers]
        now = folder_states(self.root, folders)
        same = (now == known.states).all(axis=1) & (known.states[:, 0] != NEVER_EQUAL)
        if same.all():
            return known, self.options.missing_in(index.table)
        changed = {folders[number] for number in np.flatnonzero(~same)}
        # One that is gone, or another folder now, may be a link whose target changed: its parent has to look again.
        changed |= {folders[number].rpartition("/")[0] for number in np.flatnonzero(now[:, 2] != known.states[:, 2])}
        return known.without(changed), f"{len(changed)} of {len(folders)} folders may have changed"

    def folders(self, known: KnownParts | None) -> Iterator[Part]:
        """Lists the folders level by level, but for those that are known.

        Raises:
            DatasetError: a link leads back to a folder above it, so that there is no end to the files.
            OSError: the root can't be listed.
        """
        return walk(lambda tasks: self._visited(tasks, known), ("", ()), "looking for images", self.options.progress)

    def _visited(self, tasks: list[Task], known: KnownParts | None) -> Iterator[tuple[Part, list[Task]]]:
        for some, visits in self._visits(tasks, known):
            for (path, _), (listing, above) in zip(some, visits, strict=True):
                if listing is None:
                    assert known is not None
                    folder = known.part(path)
                else:
                    (mtime, ctime, inode), names, subfolders, readable = listing
                    packed = names.encode(ENCODING, ERRORS)
                    folder = Part(path, (mtime, ctime, inode), packed, subfolders=subfolders, readable=readable)
                yield folder, [(f"{path}/{name}" if path else name, above) for name in folder.subfolders]

    def _visits(
        self, tasks: list[Task], known: KnownParts | None
    ) -> Iterator[tuple[Sequence[Task], Sequence[Visited]]]:
        """Visits folders: those that have to be listed on the cluster, if there is one, and the others here."""
        cluster, far = self.options.cluster, list[Task]()
        if cluster is not None and tasks[0][0]:
            far = [task for task in tasks if known is None or task[0] not in known]
            tasks = [task for task in tasks if known is not None and task[0] in known]

        probed, rest = tasks[:_PROBED], tasks[_PROBED:]
        start, cpu = time.perf_counter(), time.thread_time()
        visits = _visit_some((self.root, probed, self.extensions, known))
        waited_s = (time.perf_counter() - start) - (time.thread_time() - cpu)
        yield probed, visits
        slow = waited_s / _PROBED > _SLOW_DISK_S
        threads = threads_for_files() if slow else min(_THREADS_ON_A_FAST_DISK, os.cpu_count() or 1)
        chunks = _chunks(rest, 1 if slow else _PROBED)
        asked = ((self.root, chunk, self.extensions, known) for chunk in chunks)
        for number, visits in map_in_threads(_visit_some, asked, threads):
            yield chunks[number], visits
        if cluster is not None and far:
            root, chunks = os.path.abspath(self.root), _chunks(far, _PROBED)
            for number, visits in cluster.map(_visit_some, ((root, chunk, self.extensions, None) for chunk in chunks)):
                yield chunks[number], visits


def _chunks(tasks: list[Task], size: int) -> list[list[Task]]:
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


def _visit_some(asked: tuple[str, list[Task], tuple[str, ...], KnownParts | None]) -> list[Visited]:
    """Runs in a thread, or in a cluster worker."""
    root, tasks, extensions, known = asked
    return [_visit(root, *task, extensions, known) for task in tasks]


def _visit(root: str, path: str, above: Above, extensions: tuple[str, ...], known: KnownParts | None) -> Visited:
    full = os.path.join(root, *path.split("/")) if path else root
    before = time.time_ns()
    try:
        status = os.stat(full)  # before listing: what changes while it is listed shows the next time
    except OSError:
        if not path:
            raise
        return _UNREADABLE, ()
    here = [status.st_dev, status.st_ino]
    if status.st_ino and here in above:
        raise DatasetError(
            f"{full} is a link to a folder that holds it, so that there is no end to the files below it. "
            "Remove the link, or list the files that you mean: fastpipe.ImageList."
        )
    is_known = known is not None and path in known
    listing = None if is_known else _list(full, path, _state_of(status), before, extensions)
    return listing, [*above, here]


def _list(full: str, path: str, state: State, before: int, extensions: tuple[str, ...]) -> _Listing:
    mtime, ctime, inode = state
    try:
        names, subfolders, dangling = _entries(full, extensions)
    except OSError:
        if not path:
            raise
        return _UNREADABLE
    if dangling or not is_settled(mtime, ctime, before):  # a dangling link may come to point at a folder
        mtime = NEVER_EQUAL
    if not path:
        names = []  # files beside the class folders are no samples
    names.sort()
    start = path + "/"
    paths = start + f"\0{start}".join(names) + "\0" if names else ""
    return _Listing((mtime, ctime, inode), paths, subfolders)


def _entries(full: str, extensions: tuple[str, ...]) -> tuple[list[str], list[str], bool]:
    """Names of the files with such an extension, names of the folders, and whether a link leads nowhere."""
    with os.scandir(full) as entries:
        found = list(entries)
    # Whole lists, and no call of ours a file: this is what listing millions of files costs.
    try:
        subfolders = [entry.name for entry in found if entry.is_dir()]
    except OSError:
        subfolders = [entry.name for entry in found if is_folder(entry)]
    names = [entry.name for entry in found]
    if subfolders:
        folders = set(subfolders)
        names = [name for name in names if name not in folders]
    if names and not _all_end_as_the_first(names, extensions):
        names = [name for name in names if name.lower().endswith(extensions)]
    links = [entry for entry in found if entry.is_symlink()]
    return names, subfolders, any(not os.path.exists(link.path) for link in links)


def _all_end_as_the_first(names: list[str], extensions: tuple[str, ...]) -> bool:
    """Whether one look at an ending serves for all names, as where a folder holds ``.jpg`` files only."""
    ending = names[0][names[0].rfind(".") :]
    return ending.lower().endswith(extensions) and "\0".join([*names, ""]).count(f"{ending}\0") == len(names)
