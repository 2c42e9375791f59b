"""Moves bad files out of a data set and back again, without ever overwriting or losing one.

Before the first file moves, the list of all moves is on disk: whatever happens then, the list undoes it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fastpipe.atomic_write import atomic_write
from fastpipe.errors import DatasetError
from fastpipe.paths import absolute_path
from fastpipe.tools.check.findings import FileRow

_STAYS = "unreachable"
_FORMAT = "fastpipe check moves"


@dataclass(frozen=True, slots=True)
class Moved:
    """The outcome of moving files."""

    count: int  # files moved
    # the file that ``fastpipe check --undo`` takes; None where there was nothing to move, or once all of them are back
    undo_list: str | None
    left: tuple[tuple[str, str], ...]  # those that stayed where they were, each with the reason


def check_target(folder: str | os.PathLike[str], root: str) -> Path:
    """The folder to move to, whole; made if it isn't there.

    Raises:
        DatasetError: it lies inside the data set, where it would be taken for a class, or can't be made.
    """
    target = Path(absolute_path(folder))
    if root:
        real_root = os.path.realpath(root)
        if Path(os.path.realpath(target)).is_relative_to(real_root):
            raise DatasetError(
                f"the bad files can't be moved to {target}: it is inside {root} and would be taken for a class. "
                "Give a folder outside of it."
            )
    try:
        target.mkdir(parents=True, exist_ok=True)
        os.rmdir(tempfile.mkdtemp(dir=target))  # better known before a long check than after: it can be written to
    except OSError as error:
        raise DatasetError(f"the bad files can't be moved to {target}: {error.strerror or error}.") from error
    return target


def move_away(rows: Iterable[FileRow], prefix: str, mtimes: dict[int, int], folder: Path) -> Moved:
    """Moves files to a folder of `check_target`, under the paths that they have below the root.

    A file that is there already is never replaced; the new one gets another name. A file that has changed since it
    was checked (`mtimes`, in ns, by its number) stays, and so does one that couldn't be reached, since that need not be
    the file's fault.

    Raises:
        DatasetError: the undo list can't be written; then nothing has moved.
    """
    plan: list[tuple[str, str, FileRow]] = []
    left: list[tuple[str, str]] = []
    taken: set[str] = set()
    seen: set[str] = set()
    for row in rows:
        source = os.path.abspath(prefix + row.path)
        if source in seen:  # a list may name a file twice
            continue
        seen.add(source)
        if _STAYS in row.kinds:
            left.append((source, f"can't be reached ({row.reason}): it isn't moved"))
        elif reason := _changed(source, row, mtimes[row.number]):
            left.append((source, reason))
        else:
            target = _free(folder.joinpath(*_inside(row.path)), taken)
            taken.add(target)
            plan.append((source, target, row))
    if not plan:
        return Moved(0, None, tuple(left))
    try:
        undo_list = _write_list(folder, plan)
    except OSError as error:
        raise DatasetError(f"nothing is moved: the undo list can't be written in {folder} ({error}).") from error
    stayed = _move_each((source, target) for source, target, _ in plan)
    return Moved(len(plan) - len(stayed), undo_list, (*left, *stayed))


def undo(undo_list: str | os.PathLike[str]) -> Moved:
    """Puts the files of an undo list back where they were, as far as nothing else is there now.

    When all are back, the list and the folders that are empty then are removed. It may be called again after it was
    interrupted.

    Raises:
        DatasetError: it is no undo list, or can't be read.
    """
    path = Path(absolute_path(undo_list))
    moves = _read_list(path)
    left, plan = [], []
    for source, target in moves:
        if not os.path.lexists(target):
            if not os.path.lexists(source):
                left.append((target, "isn't there any more"))  # else it is back already, or had never been moved
        elif os.path.lexists(source):
            left.append((target, f"stays: there is a file again at {source}"))
        else:
            plan.append((target, source))
    stayed = _move_each(plan)
    count, left = len(plan) - len(stayed), [*left, *stayed]
    if left:
        return Moved(count, str(path), tuple(left))
    with contextlib.suppress(OSError):
        path.unlink()
    top = path.parent
    emptied = {folder for _, target in moves for folder in Path(target).parents if top in folder.parents}
    for folder in sorted(emptied, key=lambda folder: len(folder.parts), reverse=True):
        with contextlib.suppress(OSError):  # something else is in it
            folder.rmdir()
    return Moved(count, None, ())


def _move_each(moves: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Moves files, and says which stayed and why."""
    stayed = []
    for source, target in moves:
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _move(source, target)
        except OSError as error:
            stayed.append((source, _said(error)))
    return stayed


def _said(error: OSError) -> str:
    return error.strerror or str(error)


def _inside(path: str) -> list[str]:
    """The parts of a path that stay below whatever folder they are joined to."""
    drive, rest = os.path.splitdrive(path)
    parts = [part for part in rest.replace(os.sep, "/").split("/") if part not in ("", ".", "..")]
    return [*([drive.rstrip(":").strip("\\/")] if drive else []), *parts]


def _changed(path: str, row: FileRow, mtime_ns: int) -> str:
    """The reason why a file is no longer the one that was checked; empty where it is."""
    try:
        status = os.stat(path)
    except OSError as error:
        return f"can't be reached ({_said(error)}): it isn't moved"
    if row.bytes >= 0 and (status.st_size, status.st_mtime_ns) != (row.bytes, mtime_ns):
        return "has changed since it was checked: it isn't moved"
    return ""


def _free(path: Path, taken: set[str]) -> str:
    """The path, or one like it that nothing has yet."""
    tried, number = str(path), 1
    while tried in taken or os.path.lexists(tried):
        number += 1
        tried = str(path.with_name(f"{path.stem}~{number}{path.suffix}"))
    return tried


def _write_list(folder: Path, plan: list[tuple[str, str, FileRow]]) -> str:
    path = Path(_free(folder / f"{time.strftime('undo-%Y%m%d-%H%M%S')}.jsonl", set()))
    lines: list[object] = [{"format": _FORMAT, "version": 1}]
    lines += ({"from": source, "to": target, "why": ";".join(row.kinds)} for source, target, row in plan)
    with atomic_write(path) as stream:
        stream.writelines(json.dumps(line).encode() + b"\n" for line in lines)
    return str(path)


def _read_list(path: Path) -> list[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        if json.loads(lines[0])["format"] != _FORMAT:
            raise ValueError
        return [(str(move["from"]), str(move["to"])) for move in map(json.loads, lines[1:])]
    except OSError as error:
        raise DatasetError(f"the undo list {path} can't be read: {_said(error)}.") from error
    except (ValueError, KeyError, IndexError, TypeError):
        raise DatasetError(
            f"{path} is no undo list: give the undo-….jsonl that `fastpipe check --move-to` wrote."
        ) from None


def _move(source: str, target: str) -> None:
    """Renames a file to a name that nothing has; across file systems, copies it and then removes it.

    The name is taken by an empty file first, since a plain rename would replace what somebody put there meanwhile.

    Raises:
        OSError: it could not be moved, and is where it was.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    try:
        try:
            os.replace(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(source, target)
            os.unlink(source)
    except BaseException:
        if os.path.lexists(source):
            with contextlib.suppress(OSError):
                os.unlink(target)
        raise


def _copy(source: str, target: str) -> None:
    """Puts a whole, synced copy in place of the target."""
    if os.path.islink(source):
        os.unlink(target)
        os.symlink(os.readlink(source), target)
    else:
        with open(source, "rb") as old, atomic_write(target) as copy:
            shutil.copyfileobj(old, copy)
            copy.flush()
            shutil.copystat(source, copy.name)
