"""Listing a tree of class folders in torchvision's order, in parallel, again only where something changed.

torchvision lists ``sorted(os.walk(class_folder, followlinks=True))`` for each class. This gives the same files in the
same order, but each folder is listed by a thread, which is what makes a network disk fast, and the state of each
folder is remembered. Adding, removing or renaming an entry changes its folder's times, so that whoever finds all
folders' states unchanged knows that a new scan would find the same files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpipe.errors import DatasetError
from fastpipe.index._progress import SlowBar
from fastpipe.index.cluster import Cluster, current_cluster
from fastpipe.index.file_states import NEVER_EQUAL, is_settled
from fastpipe.index.folders import FolderTable, KnownFolders, ListedFolder, folder_table
from fastpipe.index.listing import is_folder
from fastpipe.index.merge import new_part
from fastpipe.index.table import Array, Table, pack_paths, unpack_paths

# Where a folder comes from memory, more threads than two only fight for the interpreter's lock (8 of them: twice as
# slow on two cores); where it comes over a network, threads wait beside each other. A few folders tell which it is.
_PROBED = 16
_SLOW_DISK_S = 0.003
_THREADS_ON_A_FAST_DISK = 2

# Serial stat calls beat threads on a local disk, where one takes microseconds; on a network disk it takes longer.
_PATIENCE_S = 0.2


def threads_for_files() -> int:
    """Threads for listing and opening files: they mostly wait for the disk."""
    return min(32, 4 * (os.cpu_count() or 1))


def _state_of(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino & 0x7FFFFFFFFFFFFFFF


def _state_or_never(path: str) -> tuple[int, int, int]:
    try:
        return _state_of(os.stat(path))
    except OSError:
        return NEVER_EQUAL, 0, 0


def folder_states(root: str, folders: Sequence[str]) -> Array:
    """The state of each folder now: int64 ``(m, 3)`` as `Table.folder_states`; 0s behind a -1 if it isn't there."""
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


def unchanged_folders(root: str, table: Table) -> KnownFolders | None:
    """The folders that a scan need not list again; None where that holds for every one of them."""
    assert table.folder_paths is not None
    assert table.folder_states is not None
    folders = unpack_paths(table.folder_paths.tobytes())
    now = folder_states(root, folders)
    known = np.asarray(table.folder_states)
    same = (now == known).all(axis=1) & (known[:, 0] != NEVER_EQUAL)
    if same.all():
        return None
    changed = {folders[number] for number in np.flatnonzero(~same)}
    # One that is gone, or another folder now, may be a link whose target changed: its parent has to look again.
    changed |= {folders[number].rpartition(os.sep)[0] for number in np.flatnonzero(now[:, 2] != known[:, 2])}
    return KnownFolders(table).without({folder.replace(os.sep, "/") for folder in changed})


@dataclass(frozen=True, slots=True)
class _Task:
    path: str
    above: tuple[tuple[int, int], ...]  # device and inode of the folders from the root down to this one's parent


def scan(
    root: str, extensions: tuple[str, ...], unchanged: KnownFolders | None = None, *, progress: bool = True
) -> FolderTable:
    """Lists the files under each class folder of a root that end with one of the extensions, in torchvision's order.

    Args:
        root: a folder.
        extensions: lower-case.
        unchanged: the folders that need no listing; None lists all.
        progress: whether to show a bar if it takes long.

    Raises:
        DatasetError: a link leads back to a folder above it, so that there is no end to the files.
        OSError: the root can't be listed.
    """
    found: list[ListedFolder] = []

    cluster = current_cluster()

    def visited(tasks: list[_Task]) -> list[tuple[ListedFolder, list[_Task]]]:
        done = [_visit(root, task, extensions, unchanged) for task in tasks]
        bar.advance(len(tasks))
        return done

    with SlowBar("looking for images", progress) as bar:
        tasks = [_Task("", ())]
        while tasks:
            bar.expect(len(tasks))
            if cluster is not None and tasks[0].path:
                done = _visited_by(cluster, root, tasks, extensions, unchanged, bar)
                found += [listed for listed, _ in done]
                tasks = [task for _, below in done for task in below]
                continue
            start, cpu = time.perf_counter(), time.thread_time()
            done = visited(tasks[:_PROBED])
            waited_s = (time.perf_counter() - start) - (time.thread_time() - cpu)
            rest = tasks[_PROBED:]
            if rest:
                slow = waited_s / _PROBED > _SLOW_DISK_S
                threads = threads_for_files() if slow else min(_THREADS_ON_A_FAST_DISK, os.cpu_count() or 1)
                size = 1 if slow else _PROBED
                chunks = [rest[at : at + size] for at in range(0, len(rest), size)]
                with ThreadPoolExecutor(threads, thread_name_prefix="fastpipe-scan") as pool:
                    for some in pool.map(visited, chunks):
                        done += some
            found += [listed for listed, _ in done]
            tasks = [task for _, below in done for task in below]
    return folder_table(found)


def _visit(
    root: str, task: _Task, extensions: tuple[str, ...], unchanged: KnownFolders | None
) -> tuple[ListedFolder, list[_Task]]:
    full = os.path.join(root, *task.path.split("/")) if task.path else root
    before = time.time_ns()
    try:
        status = os.stat(full)  # before listing: what changes while it is listed shows the next time
    except OSError:
        if not task.path:
            raise
        return ListedFolder(task.path, (NEVER_EQUAL, 0, 0), new_part(b""), (), readable=False), []
    here = (status.st_dev, status.st_ino)
    if here[1] and here in task.above:
        raise DatasetError(
            f"{full} is a link to a folder that holds it, so that there is no end to the files below it. "
            "Remove the link, or list the files that you mean: fastpipe.ImageList."
        )
    listed = None if unchanged is None else unchanged.get(task.path)
    if listed is None:
        listed = _list(full, task.path, _state_of(status), before, extensions)
    start = task.path + "/" if task.path else ""
    return listed, [_Task(start + name, (*task.above, here)) for name in listed.subfolders]


def _visited_by(
    cluster: Cluster,
    root: str,
    tasks: list[_Task],
    extensions: tuple[str, ...],
    unchanged: KnownFolders | None,
    bar: SlowBar,
) -> list[tuple[ListedFolder, list[_Task]]]:
    """Visits the unchanged folders here, and the others on a cluster's workers, as `_visit`."""
    here = [task for task in tasks if unchanged is not None and task.path in unchanged]
    there = [task for task in tasks if unchanged is None or task.path not in unchanged]
    done = [_visit(root, task, extensions, unchanged) for task in here]
    bar.advance(len(here))
    chunks = [there[start : start + _PROBED] for start in range(0, len(there), _PROBED)]
    whole = os.path.abspath(root)
    for number, answers in cluster.map(_visit_some, ((whole, chunk, extensions) for chunk in chunks)):
        bar.advance(len(answers))
        for task, (state, files, subfolders, readable, above) in zip(chunks[number], answers, strict=True):
            content = new_part(files.encode("utf-8", "surrogateescape"))
            start = task.path + "/"
            below = tuple((device, inode) for device, inode in above)
            done.append(
                (
                    ListedFolder(task.path, tuple(state), content, tuple(subfolders), readable=readable),
                    [_Task(start + name, below) for name in subfolders],
                )
            )
    return done


def _visit_some(asked: tuple[str, list[_Task], tuple[str, ...]]) -> list[Any]:
    """Runs in a cluster worker; folders as JSON can hold them."""
    root, tasks, extensions = asked
    answers = []
    for task in tasks:
        listed, below = _visit(root, task, extensions, None)
        files = listed.files.paths.decode("utf-8", "surrogateescape")
        above = below[0].above if below else ()
        answers.append([listed.state, files, listed.subfolders, listed.readable, above])
    return answers


def _list(full: str, path: str, state: tuple[int, int, int], before: int, extensions: tuple[str, ...]) -> ListedFolder:
    mtime, ctime, inode = state
    try:
        names, subfolders, dangling = _entries(full, extensions)
    except OSError:
        if not path:
            raise
        return ListedFolder(path, (NEVER_EQUAL, 0, 0), new_part(b""), (), readable=False)
    if dangling or not is_settled(mtime, ctime, before):  # a dangling link may come to point at a folder
        mtime = NEVER_EQUAL
    if not path:
        names = []  # files beside the class folders are no samples
    names.sort()
    start = path + "/"
    packed = pack_paths([start + f"\0{start}".join(names)]) if names else b""
    return ListedFolder(path, (mtime, ctime, inode), new_part(packed), tuple(subfolders))


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
