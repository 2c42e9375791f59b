"""`ImageIndex`: the memory-mapped list of files behind `ImageFolder` and `ImageList`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastpipe.data import store
from fastpipe.data.details import with_headers, with_sizes
from fastpipe.data.listing import IMG_EXTENSIONS, find_classes
from fastpipe.data.scan import Unchanged, scan, unchanged_folders
from fastpipe.data.table import Array, Table, decode_path
from fastpipe.errors import DatasetError, FastpipeWarning

__all__ = ["ImageIndex"]

_HEADER_ARRAYS = ("heights", "widths", "formats", "orientations", "flags")


class ImageIndex:
    """n image files and their labels in arrays, without a Python object a file; usually mapped from disk.

    Workers map the same pages, so that their memory doesn't grow, and a pickled index is a path and a name. It never
    changes: `from_folder` gives a new one where the folder has changed.

    Attributes:
        root: the folder that relative paths start from, as given.
        prefix: what is put before a relative path.
        classes: class names; the labels count them from 0, but for lists with integer labels (see `class_values`).
        class_values: the label of each class.
        table: the arrays.
        formats: the names that ``table.formats`` counts; empty without headers.
        location: the folder on disk, None in memory.
        generation: which of the states of that folder this is.
        origin: how it came about: ``"opened"``, or why and what was built.
    """

    def __init__(
        self,
        table: Table,
        *,
        root: str,
        classes: Sequence[str],
        class_values: Sequence[int] | None = None,
        formats: Sequence[str] = (),
        location: Path | None = None,
        generation: str = "",
        origin: str = "built in memory",
    ) -> None:
        self.table = table
        self.root = root
        self.prefix = os.path.join(root, "") if root else ""
        self.classes = tuple(classes)
        self.class_values = tuple(range(len(self.classes))) if class_values is None else tuple(class_values)
        self.formats = tuple(formats)
        self.location = location
        self.generation = generation
        self.origin = origin
        self._bytes = table.paths.data
        self._offsets = table.offsets

    @classmethod
    def from_folder(
        cls,
        root: str | os.PathLike[str],
        *,
        location: str | os.PathLike[str] | None = "auto",
        extensions: tuple[str, ...] = IMG_EXTENSIONS,
        sizes: bool = False,
        headers: bool = False,
        refresh: bool = False,
        progress: bool = True,
    ) -> ImageIndex:
        """The files of ``root/class/….jpg`` as they are now, in torchvision's order.

        What is kept at `location` is opened if it is whole, of this root, and no folder has changed since. Else the
        folders that changed are listed again, or all of them, and the result is written there. A file that is
        rewritten under its old name doesn't change its folder: its size and header stay those of the last look.

        Args:
            root: the folder that holds one folder a class.
            location: where the index is kept: a folder, ``"auto"`` for one in the user's cache folder
                (``FASTPIPE_CACHE`` overrides), None to keep it in memory only.
            extensions: lower-case endings of the files that count.
            sizes: also ask for each file's size: about four times as slow as listing alone.
            headers: also read each file's header (and size).
            refresh: list every folder and look at every file again, even where nothing seems to have changed.
            progress: whether a terminal gets a progress bar after two seconds.

        Raises:
            FileNotFoundError: `root` is no folder, or has no class folder.
            DatasetError: a link leads back to a folder above it, or `location` can't be written.
        """
        wanted = _Wanted(
            os.path.expanduser(os.fspath(root)), tuple(extensions), sizes or headers, headers, refresh, progress
        )
        if not os.path.isdir(wanted.root):
            find_classes(wanted.root)  # says what is wrong
        if location is None:
            return _built(wanted, None, None, "")
        if isinstance(location, str) and location == "auto":
            try:
                default = _default_location(wanted)
            except FileNotFoundError as error:
                _warn_not_kept(None, error)
                return _built(wanted, None, None, "")
            return _kept(wanted, default, required=False)
        folder = Path(os.path.abspath(os.path.expanduser(os.fspath(location))))
        store.refuse_foreign_folder(folder)
        return _kept(wanted, folder, required=True)

    @classmethod
    def from_table(
        cls, table: Table, *, root: str, classes: Sequence[str], class_values: Sequence[int] | None = None
    ) -> ImageIndex:
        """An index of files that were listed another way, kept in the cache folder if it is large.

        It is kept under a name made from its content, so that it can't be out of date; equal ones are kept once.

        Args:
            table: paths relative to `root`, and labels.
            root: the folder that they start from; ``""`` where they are whole.
            classes: class names.
            class_values: the label of each class; None for 0, 1, ….
        """
        index = cls(table, root=root, classes=classes, class_values=class_values)
        if table.nbytes <= 1 << 16:
            return index
        about = index._about()
        digest = hashlib.sha256(repr(sorted(about.items())).encode("ascii", "backslashreplace"))
        for name, array in table.arrays():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        location: Path | None = None
        try:
            location = store.cache_folder() / "lists" / digest.hexdigest()[:32]
            with contextlib.suppress(store.UnusableIndex):
                return _opened(location, root, "opened")
            with store.locked(location):
                store.write(location, table, about)
            return _opened(location, root, "built")
        except (OSError, store.UnusableIndex) as error:
            _warn_not_kept(location, error if location is None else _reason(location, error, index))
            return index

    def __len__(self) -> int:
        return len(self.table)

    def path(self, number: int) -> str:
        """The path of a file, from 0 to n - 1: the root as given and the relative path behind it."""
        start, stop = self._offsets[number], self._offsets[number + 1]
        return self.prefix + decode_path(self._bytes[start : stop - 1].tobytes())

    @property
    def labels(self) -> Array:
        """int32 ``(n,)``; read-only where it is mapped."""
        return self.table.labels

    @property
    def sizes(self) -> Array | None:
        """int64 ``(n,)`` bytes, -1 where a file can't be reached; None where they weren't asked for."""
        return self.table.sizes

    def counts(self) -> Array:
        """How many files each class has: int64 ``(classes,)``."""
        starts, folder_labels = self.table.folder_starts, self.table.folder_labels
        if starts is not None and folder_labels is not None:  # a look at the folders, not at every file
            counts = np.zeros(len(self.classes), np.int64)
            np.add.at(counts, folder_labels[1:], np.diff(starts)[1:])
            return counts
        values, counts = np.unique(self.labels, return_counts=True)
        found = dict(zip(values.tolist(), counts.tolist(), strict=True))
        return np.array([found.get(value, 0) for value in self.class_values], np.int64)

    def take(self, picks: Array) -> ImageIndex:
        """An index of these files, int64 positions from 0 to n - 1, in this order."""
        return ImageIndex.from_table(
            self.table.take(picks), root=self.root, classes=self.classes, class_values=self.class_values
        )

    def damaged_arrays(self) -> tuple[str, ...]:
        """The names of the arrays whose content is no longer what was written; reads all of them."""
        if self.location is None:
            return ()
        try:
            return store.damaged_arrays(self.location, self.generation, self.table)
        except store.UnusableIndex as error:
            return (str(error),)

    def _about(self) -> dict[str, Any]:
        return {"classes": list(self.classes), "class_values": list(self.class_values), "formats": list(self.formats)}

    def __repr__(self) -> str:
        where = "in memory" if self.location is None else f"at {self.location}"
        return f"ImageIndex({len(self)} files in {len(self.classes)} classes, root={self.root!r}, {where})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.location is not None:
            return _reopened, (str(self.location), self.generation, self.root)
        return _restored, (dict(self.table.arrays()), self.root, self._about())


def _restored(arrays: dict[str, Array], root: str, about: dict[str, Any]) -> ImageIndex:
    return ImageIndex(Table(**arrays), root=root, **about)


def _reopened(location: str, generation: str, root: str) -> ImageIndex:
    """The very generation that was pickled: a newer one may number the files otherwise."""
    try:
        return _opened(Path(location), root, "opened", generation)
    except store.UnusableIndex as error:
        raise DatasetError(
            f"the index at {location} (generation {generation}) can't be opened any more: {error}. It was rebuilt or "
            "removed since the dataset was made; make the dataset again."
        ) from None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The arguments of `ImageIndex.from_folder`."""

    root: str
    extensions: tuple[str, ...]
    sizes: bool
    headers: bool
    refresh: bool
    progress: bool

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this index from one of another folder."""
        return {"root": os.path.abspath(self.root), "extensions": list(self.extensions)}


def _default_location(wanted: _Wanted) -> Path:
    identity = wanted.identity
    key = hashlib.sha256(os.fsencode("\0".join([identity["root"], *wanted.extensions]))).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9_-]", "_", os.path.basename(identity["root"]))[:40]
    return store.cache_folder() / "folders" / f"{name}-{key}"


def _opened(location: Path, root: str, origin: str, generation: str | None = None) -> ImageIndex:
    """What is at a location, by the folder's current generation or by a given one; raises UnusableIndex."""
    for attempt in range(3):
        name = generation or store.current_generation(location)
        try:
            header, table = store.read(location, name)
            break
        except store.UnusableIndex:
            # somebody may have replaced and removed it between the two reads
            if generation or attempt == 2 or name == store.current_generation(location):
                raise
    try:
        about = {key: header[key] for key in ("classes", "class_values", "formats")}
    except KeyError as error:
        raise store.UnusableIndex(f"its header has no {error}") from None
    return ImageIndex(table, root=root, location=location, generation=name, origin=origin, **about)


def _look(wanted: _Wanted, location: Path) -> tuple[ImageIndex | None, Unchanged | None, str]:
    """What can be used of a location: the index, the folders that are unchanged in it, and why it won't do.

    Without a reason it will do as it is.
    """
    try:
        name = store.current_generation(location)
        identity = store.identity_of(location, name)
        if identity != wanted.identity:
            return None, None, f"what was there is of {identity['root']} and {', '.join(identity['extensions'])}"
        index = _opened(location, wanted.root, "opened", name)
    except store.UnusableIndex as error:
        return None, None, str(error)
    if wanted.refresh:
        damage = index.damaged_arrays()
        return None, None, f"damaged: {', '.join(damage)}" if damage else "asked to look at everything again"
    unchanged = unchanged_folders(wanted.root, index.table)
    if unchanged is not None:
        assert index.table.folder_states is not None
        changed = len(index.table.folder_states) - len(unchanged.numbers)
        return index, unchanged, f"{changed} of {len(index.table.folder_states)} folders may have changed"
    if (wanted.sizes and index.sizes is None) or (wanted.headers and index.table.heights is None):
        return index, None, "sizes or headers were not in it"
    return index, None, ""


def _kept(wanted: _Wanted, location: Path, *, required: bool) -> ImageIndex:
    """The index at a location, brought up to date there."""
    index, unchanged, reason = _look(wanted, location)
    if index is not None and not reason:
        return index
    with contextlib.ExitStack() as stack:
        problem: Exception | None = None
        try:
            stack.enter_context(store.locked(location))
        except OSError as error:
            problem = error
        else:
            if not wanted.refresh:
                index, unchanged, reason = _look(wanted, location)  # another process may have done it meanwhile
                if index is not None and not reason:
                    return index
        built = _built(wanted, index, unchanged, reason)
        if built is index:
            return built
        if problem is None:
            try:
                generation = store.write(location, built.table, {**built._about(), **wanted.identity})
                return _opened(location, wanted.root, built.origin, generation)
            except (OSError, store.UnusableIndex) as error:
                problem = error
    if required:
        raise DatasetError(f"the index can't be kept at {location}: {_reason(location, problem, built)}") from problem
    _warn_not_kept(location, _reason(location, problem, built))
    return built


def _reason(location: Path, problem: Exception, index: ImageIndex) -> str:
    """What is wrong; numpy says of a full disk only how many bytes it wrote."""
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(next(folder for folder in (location, *location.parents) if folder.exists())).free
        if free < index.table.nbytes:
            return f"its disk is full: the index takes {index.table.nbytes:,} bytes, and {free:,} are free ({problem})"
    return str(problem)


def _warn_not_kept(location: Path | None, problem: object) -> None:
    at = "" if location is None else f" at {location}"
    warnings.warn(
        f"the index can't be kept{at}, so it stays in memory and workers get copies: {problem}. "
        "Set FASTPIPE_CACHE to a folder that can be written.",
        FastpipeWarning,
        stacklevel=4,
    )


def _built(wanted: _Wanted, old: ImageIndex | None, unchanged: Unchanged | None, reason: str) -> ImageIndex:
    """A new index, or `old` itself where a scan finds that it still holds."""
    if old is not None and unchanged is None:  # only sizes or headers are missing
        table, classes = old.table, old.classes
        taken_over = np.arange(len(table))
        unreadable: tuple[str, ...] = ()
    else:
        found = scan(wanted.root, wanted.extensions, unchanged, progress=wanted.progress)
        table, classes, taken_over, unreadable = found.table, found.classes, found.taken_over, found.unreadable
    if not classes:
        find_classes(wanted.root)  # says what is wrong
    if unreadable:
        warnings.warn(
            f"{len(unreadable)} folders of {wanted.root} can't be listed, so their images are missing: "
            f"{', '.join(unreadable[:5])}{', …' if len(unreadable) > 5 else ''}. Check their permissions.",
            FastpipeWarning,
            stacklevel=5,
        )
    prefix = os.path.join(wanted.root, "")
    formats: Sequence[str] = ()
    before = old.table if old is not None else None
    if wanted.sizes or (before is not None and before.sizes is not None):
        known = None if before is None or before.sizes is None else _over(before.sizes, taken_over, -2)
        table = with_sizes(table, prefix, known, progress=wanted.progress)
    if wanted.headers or (before is not None and before.heights is not None):
        arrays = None
        if old is not None and old.table.heights is not None:
            formats = old.formats
            arrays = {name: _over(getattr(old.table, name), taken_over, 0) for name in _HEADER_ARRAYS}
        table, formats = with_headers(table, prefix, formats, arrays, progress=wanted.progress)
    if old is not None and classes == old.classes and _same(table, old.table):
        return old
    return ImageIndex(table, root=wanted.root, classes=classes, formats=formats, origin=f"built: {reason}")


def _over(values: Array, taken_over: Array, missing: int) -> Array:
    """The old values at their new places, `missing` elsewhere."""
    new = np.full(len(taken_over), missing, values.dtype)
    have = taken_over >= 0
    new[have] = values[taken_over[have]]
    return new


def _same(one: Table, other: Table) -> bool:
    mine, theirs = dict(one.arrays()), dict(other.arrays())
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)
