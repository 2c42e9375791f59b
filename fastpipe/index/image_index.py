"""`ImageIndex`: the memory-mapped list of files behind `ImageFolder` and `ImageList`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.index import format
from fastpipe.index.listing import IMG_EXTENSIONS
from fastpipe.index.table import Array, Table, decode_path, unpack_paths
from fastpipe.paths import local
from fastpipe.types import ArchiveMember, RemoteFile

if TYPE_CHECKING:
    from fastpipe.sources import ByteSource


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
        source: what has the files, or their containers; None for this machine's file system.
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
        source: ByteSource | None = None,
    ) -> None:
        self.table = table
        self.root = root
        self.source = source
        self._separator = os.sep if source is None else "/"
        if source is None:
            self.prefix = os.path.join(root, "") if root else ""
        else:
            self.prefix = root.rstrip("/") + "/"
        self.classes = tuple(classes)
        self.class_values = tuple(range(len(self.classes))) if class_values is None else tuple(class_values)
        self.formats = tuple(formats)
        self.location = location
        self.generation = generation
        self.origin = origin
        self._bytes = table.paths.data
        self._offsets = table.offsets
        # Of files in containers: which one, where, how many bytes.
        self._places = None
        if table.containers is not None and table.starts is not None and table.sizes is not None:
            self._places = (table.containers, table.starts, table.sizes)
        self._containers: tuple[str, ...] | None = None

    @classmethod
    def from_folder(
        cls,
        root: str | os.PathLike[str] | ByteSource,
        *,
        location: str | os.PathLike[str] | None = "auto",
        extensions: tuple[str, ...] = IMG_EXTENSIONS,
        sizes: bool = False,
        headers: bool = False,
        refresh: bool = False,
        progress: bool = True,
    ) -> ImageIndex:
        """The files of ``root/class/….jpg`` as they are now, in torchvision's order; in a zip or tar as in a folder.

        What is kept at `location` is opened if it is whole, of this root, and no folder has changed since. Else the
        folders that changed are listed again, or all of them, and the result is written there. A file that is
        rewritten under its old name doesn't change its folder: its size and header stay those of the last look.

        Args:
            root: the folder that holds one folder a class; or a zip or tar of it, or a `fastpipe.ByteSource`, as
                `fastpipe.ImageFolder` takes them.
            location: where the index is kept: a folder, ``"auto"`` for one in the user's cache folder
                (``FASTPIPE_CACHE`` overrides), None to keep it in memory only.
            extensions: lower-case endings of the files that count.
            sizes: also ask for each file's size: about four times as slow as listing alone.
            headers: also read each file's header (and size).
            refresh: list every folder and look at every file again, even where nothing seems to have changed.
            progress: whether a terminal gets a progress bar after two seconds.

        Raises:
            FileNotFoundError: `root` is no folder, or has no class folder.
            DatasetError: a link leads back to a folder above it, an archive is compressed or damaged, or `location`
                can't be written.
        """
        from fastpipe.index.archives import ArchiveSource, archive_in, archive_named_by
        from fastpipe.index.cache import load_or_build
        from fastpipe.index.folder_source import FolderSource
        from fastpipe.index.remote_scan import StoredFolder
        from fastpipe.sources import ByteSource, source_of

        source = source_of(root, None)
        if source is not None:
            stored = archive_named_by(source)
            if stored is not None:
                return load_or_build(
                    ArchiveSource(source.name, stored, tuple(extensions), headers, refresh, progress), location
                )
            return load_or_build(StoredFolder(source, tuple(extensions), headers, refresh, progress), location)
        assert not isinstance(root, ByteSource)
        folder = local(root)
        archive = archive_in(folder)
        if archive is not None:
            return load_or_build(
                ArchiveSource(folder, archive, tuple(extensions), headers, refresh, progress), location
            )
        found = FolderSource(folder, tuple(extensions), sizes or headers, headers, refresh, progress)
        return load_or_build(found, location)

    @classmethod
    def from_table(
        cls,
        table: Table,
        *,
        root: str,
        classes: Sequence[str],
        class_values: Sequence[int] | None = None,
        source: ByteSource | None = None,
    ) -> ImageIndex:
        """An index of files that were listed another way, kept in the cache folder if it is large.

        It is kept under a name made from its content, so that it can't be out of date; equal ones are kept once.

        Args:
            table: paths relative to `root`, and labels.
            root: the folder that they start from; ``""`` where they are whole.
            classes: class names.
            class_values: the label of each class; None for 0, 1, ….
            source: what has the files; None for this machine's file system.
        """
        index = cls(table, root=root, classes=classes, class_values=class_values, source=source)
        if table.nbytes <= 1 << 16:
            return index
        about = index._about()
        digest = hashlib.sha256(repr(sorted(about.items())).encode("ascii", "backslashreplace"))
        for name, array in table.arrays():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        location: Path | None = None
        try:
            location = format.cache_folder() / "lists" / digest.hexdigest()[:32]
            with contextlib.suppress(format.UnusableIndex):
                return opened_index(location, root, "opened", source=source)
            with format.locked(location):
                format.write(location, table.arrays(), about)
            return opened_index(location, root, "built", source=source)
        except (OSError, format.UnusableIndex) as error:
            warn_not_kept(location, error if location is None else not_kept_reason(location, error, index))
            return index

    def __len__(self) -> int:
        return len(self.table)

    def path(self, number: int) -> str:
        """The path of a file, from 0 to n - 1: the root as given and the relative path behind it.

        Of a file in a container it is a `fastpipe.types.ArchiveMember`, which knows where its bytes are.
        """
        start, stop = self._offsets[number], self._offsets[number + 1]
        name = decode_path(self._bytes[start : stop - 1].tobytes(), self._separator)
        if self.source is not None:
            return self._stored([name], slice(number, number + 1))[0]
        path = self.prefix + name
        if self._places is None:
            return path
        at, offset, length = (int(array[number]) for array in self._places)
        return ArchiveMember(path, self.containers[at], offset, length)

    def blocks(self) -> Iterator[tuple[list[str], Array]]:
        """All files as blocks of ``(paths, labels)``, paths as `path` gives them: few objects alive at once."""
        done = 0
        for names, labels in self.table.blocks(self._separator):
            yield self._placed(names, slice(done, done + len(names))), labels
            done += len(names)

    def paths(self, picks: Array) -> list[str]:
        """What `path` gives, of many files: int64 positions from 0 to n - 1."""
        places = zip(self._offsets[picks].tolist(), self._offsets[picks + 1].tolist(), strict=True)
        packed = b"".join([self._bytes[start:stop] for start, stop in places])
        return self._placed(unpack_paths(packed, self._separator), picks)

    def _placed(self, names: list[str], picks: Any) -> list[str]:
        if self.source is not None:
            return self._stored(names, picks)
        prefix, containers = self.prefix, self.containers
        paths = [prefix + name for name in names]
        if self._places is None:
            return paths
        places = (array[picks].tolist() for array in self._places)
        return [ArchiveMember(path, containers[at], *place) for path, at, *place in zip(paths, *places, strict=True)]

    def _stored(self, names: list[str], picks: Any) -> list[str]:
        """Paths of files in a store, which know how they are read."""
        table, source, prefix = self.table, self.source, self.prefix
        assert source is not None
        count = len(names)
        sizes = [-1] * count if table.sizes is None else table.sizes[picks].tolist()
        if self._places is None:
            versions = [0] * count if table.versions is None else table.versions[picks].tolist()
            files = zip(names, sizes, versions, strict=True)
            return [RemoteFile(prefix + name, source, name, 0, size, version) for name, size, version in files]
        assert table.container_states is not None
        containers, starts, _ = (array[picks] for array in self._places)
        versions = table.container_states[containers, 1].tolist()
        keys = [self.containers[at] for at in containers.tolist()]
        parts = zip(names, keys, starts.tolist(), sizes, versions, strict=True)
        return [
            RemoteFile(prefix + name, source, key, start, size, version, False)
            for name, key, start, size, version in parts
        ]

    @property
    def containers(self) -> tuple[str, ...]:
        """The paths of the containers that hold the files, of those in a store their keys; none where files lie by
        themselves."""
        if self._containers is None:
            packed = self.table.container_paths
            names = () if packed is None else unpack_paths(packed.tobytes(), self._separator)
            if self.source is None:
                names = [os.path.normpath(os.path.join(self.root, name)) for name in names]
            self._containers = tuple(names)
        return self._containers

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
            self.table.take(picks),
            root=self.root,
            classes=self.classes,
            class_values=self.class_values,
            source=self.source,
        )

    def read_through(self, source: ByteSource) -> ImageIndex:
        """The same index, whose files come from another source of the same name, as one with a cache is."""
        if source is self.source:
            return self
        other = ImageIndex.__new__(ImageIndex)  # copy.copy would open it again
        other.__dict__ = {**self.__dict__, "source": source}
        return other

    def without_root(self) -> ImageIndex:
        """The same index, of paths that are whole by themselves."""
        other = ImageIndex.__new__(ImageIndex)
        other.__dict__ = {**self.__dict__, "root": "", "prefix": ""}
        return other

    def damaged_arrays(self) -> tuple[str, ...]:
        """The names of the arrays whose content is no longer what was written; reads all of them."""
        if self.location is None:
            return ()
        try:
            return format.damaged_arrays(self.location, self.generation, self.table)
        except format.UnusableIndex as error:
            return (str(error),)

    def _about(self) -> dict[str, Any]:
        return {"classes": list(self.classes), "class_values": list(self.class_values), "formats": list(self.formats)}

    def __repr__(self) -> str:
        where = "in memory" if self.location is None else f"at {self.location}"
        return f"ImageIndex({len(self)} files in {len(self.classes)} classes, root={self.root!r}, {where})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.location is not None:
            return _reopened, (str(self.location), self.generation, self.root, self.source)
        return _restored, (dict(self.table.arrays()), self.root, self._about(), self.source)


def _restored(arrays: dict[str, Array], root: str, about: dict[str, Any], source: ByteSource | None) -> ImageIndex:
    return ImageIndex(Table(**arrays), root=root, source=source, **about)


def _reopened(location: str, generation: str, root: str, source: ByteSource | None) -> ImageIndex:
    """The very generation that was pickled: a newer one may number the files otherwise."""
    try:
        return opened_index(Path(location), root, "opened", generation, source)
    except format.UnusableIndex as error:
        raise DatasetError(
            f"the index at {location} (generation {generation}) can't be opened any more: {error}. It was rebuilt or "
            "removed since the dataset was made; make the dataset again."
        ) from None


def opened_index(
    location: Path, root: str, origin: str, generation: str | None = None, source: ByteSource | None = None
) -> ImageIndex:
    """What is at a location, by the folder's current generation or by a given one; raises UnusableIndex."""
    for attempt in range(3):
        name = generation or format.current_generation(location)
        try:
            header, table = format.read_table(location, name)
            break
        except format.UnusableIndex:
            # somebody may have replaced and removed it between the two reads
            if generation or attempt == 2 or name == format.current_generation(location):
                raise
    try:
        about = {key: header[key] for key in ("classes", "class_values", "formats")}
    except KeyError as error:
        raise format.UnusableIndex(f"its header has no {error}") from None
    return ImageIndex(table, root=root, location=location, generation=name, origin=origin, source=source, **about)


def not_kept_reason(location: Path, problem: Exception, index: ImageIndex) -> str:
    """What is wrong; numpy says of a full disk only how many bytes it wrote."""
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(next(folder for folder in (location, *location.parents) if folder.exists())).free
        if free < index.table.nbytes:
            return f"its disk is full: the index takes {index.table.nbytes:,} bytes, and {free:,} are free ({problem})"
    return str(problem)


def warn_not_kept(location: Path | None, problem: object) -> None:
    at = "" if location is None else f" at {location}"
    warnings.warn(
        f"the index can't be kept{at}, so it stays in memory and workers get copies: {problem}. "
        "Set FASTPIPE_CACHE to a folder that can be written.",
        FastpipeWarning,
        stacklevel=4,
    )
