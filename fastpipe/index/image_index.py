"""`ImageIndex`: the memory-mapped list of files behind `ImageFolder` and `ImageList`."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from fastpipe.counts import pluralize
from fastpipe.errors import DatasetError
from fastpipe.index import bad_rows, cache, format
from fastpipe.index.archives import ArchiveSource, archive_in, archive_named_by
from fastpipe.index.extensions import IMG_EXTENSIONS, checked_extensions
from fastpipe.index.index_source import BuildOptions, IndexSource
from fastpipe.index.local_scan import LocalFolderSource
from fastpipe.index.pieces import listed_parts
from fastpipe.index.remote_scan import RemoteFolderSource
from fastpipe.index.table import ENCODING, ERRORS, Array, Listing, unpack_paths
from fastpipe.index.unpacked import hold
from fastpipe.paths import local_path
from fastpipe.sources import ByteSource, source_of
from fastpipe.types import RemoteFile, member_of

_FEW = 4  # for so few files numpy is slower than a loop
_SMALL = 1 << 16  # a table of fewer bytes stays in memory


class ImageIndex:
    """n image files and their labels in arrays, usually mapped from disk; no Python object for each file.

    Workers map the same pages, so that their memory doesn't grow, and an index pickles to a path and a name. An index
    never changes: if the folder has changed, `from_folder` returns a new one.

    Attributes:
        root: the folder that relative paths start from, as given; ``""`` if paths are absolute.
        prefix: the text put before a relative path.
        classes: class names; label i is the i-th class, except for lists with integer labels (see `class_values`).
        class_values: the label of each class.
        table: the arrays.
        labels: int32 ``(n,)``, read-only if mapped; float64 for a list with float labels.
        location: the folder on disk, None in memory.
        generation: name of the generation in that folder.
        origin: ``"opened"``, or ``"built: "`` and the reason.
        source: the store of the files, or of their containers; None for this machine's file system.
    """

    def __init__(self, kept: cache.KeptIndex, root: str, source: ByteSource | None = None) -> None:
        listing = kept.listing
        self.table = table = listing.table
        self.labels = table.targets
        self.root = root = root if listing.rooted else ""
        self.source = source
        self._separator = os.sep if source is None else "/"
        if source is None:
            self.prefix = os.path.join(root, "") if root else ""
        else:
            self.prefix = root.rstrip("/") + "/"
        self.classes = tuple(listing.classes)
        self.class_values = tuple(listing.class_values)
        self.location = kept.location
        self.generation = kept.generation
        self.origin = kept.origin
        self._kept = kept
        self._bytes = table.paths.data
        self._offsets = table.offsets.data  # items of a memoryview are plain integers
        # For files in containers: the container, the offset, and the number of bytes.
        self._places = None
        if table.containers is not None and table.starts is not None and table.sizes is not None:
            self._places = (table.containers, table.starts, table.sizes)

    @classmethod
    def from_folder(
        cls,
        root: str | os.PathLike[str] | ByteSource,
        *,
        location: str | os.PathLike[str] | None = "auto",
        extensions: str | tuple[str, ...] = IMG_EXTENSIONS,
        sizes: bool = False,
        refresh: bool = False,
        progress: bool = True,
    ) -> ImageIndex:
        """Lists the files of ``root/class/….jpg``, in a folder, zip or tar, in torchvision's order.

        The index kept at `location` is opened if it is intact, of this root, and no folder has changed since. Otherwise
        the changed folders, or all, are listed again, and the result is written there. A file that is rewritten under
        its old name doesn't change its folder, so its kept size may be out of date.

        Args:
            root: the folder that holds one folder for each class; or a zip or tar of it, or a `fastpipe.ByteSource`,
                as in `fastpipe.ImageFolder`.
            location: where the index is kept: a folder, ``"auto"`` for one in the user's cache folder
                (``FASTPIPE_CACHE`` overrides), None to keep it in memory only.
            extensions: lower-case endings of the files that count, or one such ending.
            sizes: also get each file's size, which takes about four times as long as listing alone.
            refresh: list every folder and get every size again, even if nothing seems to have changed.
            progress: show a progress bar in a terminal after two seconds.

        Raises:
            FileNotFoundError: `root` is no folder, or has no class folder.
            DatasetError: a link leads back to a folder above it, an archive is compressed or damaged, or `location`
                can't be written.
        """
        options = BuildOptions(sizes, refresh, progress)
        endings = checked_extensions(extensions)
        return cls.load_or_build(folder_source(root, endings, options), location)

    @classmethod
    def load_or_build(cls, source: IndexSource, location: str | os.PathLike[str] | None) -> ImageIndex:
        """The index of a source as it is now: see `fastpipe.index.cache.load_or_build`."""
        return cls(cache.load_or_build(source, location), source.root, source.bytes_from)

    @classmethod
    def from_listing(cls, listing: Listing, root: str, source: ByteSource | None = None) -> ImageIndex:
        """Makes an index of files listed by other code; keeps it in the cache folder if it is large."""
        files = cache.GivenFiles(root=root, bytes_from=source, listing=listing)
        return cls.load_or_build(files, "auto" if listing.table.nbytes > _SMALL else None)

    def take(self, picks: Array) -> ImageIndex:
        """Makes an index of the files at int64 positions from 0 to n - 1, in this order."""
        return ImageIndex.from_listing(
            Listing(self.table.take(picks), self.classes, self.class_values), self.root, self.source
        )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def path(self, number: int) -> str:
        """The path of a file by its number, 0 to n - 1: the root as given, then the relative path.

        For a file in a container, it is a `fastpipe.types.ArchiveMember`, which holds the offset of its bytes.
        """
        start, stop = self._offsets[number], self._offsets[number + 1]
        name = str(self._bytes[start : stop - 1], ENCODING, ERRORS)
        if self._separator != "/":
            name = name.replace("/", self._separator)
        if self.source is None and self._places is None and name:
            return self.prefix + name
        return self._placed([name], slice(number, number + 1))[0]

    def blocks(self) -> Iterator[tuple[list[str], Array]]:
        """Yields all files in blocks of ``(paths, labels)``, so that few Python objects exist at once."""
        done = 0
        for names, labels in self.table.blocks(self._separator):
            yield self._placed(names, slice(done, done + len(names))), labels
            done += len(names)

    def paths(self, picks: Array) -> list[str]:
        """The paths, as from `path`, of files at int64 positions from 0 to n - 1."""
        return self._placed(unpack_paths(self.table.packed(picks), self._separator), picks)

    def samples_at(self, indices: Sequence[int]) -> Iterable[tuple[str, int]]:
        """The paths and labels of files at positions from 0 to n - 1."""
        if len(indices) < _FEW:
            return [(self.path(one), self.labels.item(one)) for one in indices]
        picks = np.array(indices)
        return zip(self.paths(picks), self.labels[picks].tolist(), strict=True)

    def _placed(self, names: list[str], picks: Array | slice) -> list[str]:
        """Converts names to paths; those in containers or a store become `ArchiveMember` or `RemoteFile`."""
        table, source, prefix = self.table, self.source, self.prefix
        paths = [prefix + name for name in names]
        if self._places is not None:
            containers = self.containers
            members = zip(paths, *(array[picks].tolist() for array in self._places), strict=True)
            return [
                member_of(containers[at], path, start, size)
                if start >= 0
                else bad_rows.path_of(start, path, path[len(prefix) :])
                for path, at, start, size in members
            ]
        if "" in names:
            numbers = range(len(self))[picks] if isinstance(picks, slice) else picks.tolist()
            rows = zip(names, paths, numbers, strict=True)
            paths = [path if name else bad_rows.refused_row(prefix, number) for name, path, number in rows]
        if source is None:
            return paths
        sizes = [-1] * len(names) if table.sizes is None else table.sizes[picks].tolist()
        versions = [0] * len(names) if table.versions is None else table.versions[picks].tolist()
        files = zip(paths, names, sizes, versions, strict=True)
        return [
            RemoteFile(path, source, name, 0, size, version) if name else path for path, name, size, version in files
        ]

    @functools.cached_property
    def containers(self) -> tuple[str, ...]:
        """The paths of the containers that hold the files, in a store `RemoteFile`; empty for separate files."""
        if self._places is None:
            return ()
        names, states = listed_parts(self.table)
        source = self.source
        if source is None:
            for name in names:
                if name.endswith(".images") and os.path.isabs(name):
                    hold(name)
            return tuple(os.path.normpath(os.path.join(self.root, name)) for name in names)
        versions = zip(names, states[:, 1].tolist(), strict=True)
        return tuple(RemoteFile(source.url(key), source, key, version=version) for key, version in versions)

    @property
    def sizes(self) -> Array | None:
        """File sizes in bytes, int64 ``(n,)``, -1 for unreachable files; None if sizes weren't requested."""
        return self.table.sizes

    def counts(self) -> Array:
        """The number of files in each class: int64 ``(classes,)``."""
        if self.table.folders is not None:  # files are grouped by class, so few labels need be read
            return np.diff(np.searchsorted(self.labels, np.arange(len(self.classes) + 1, dtype=np.int32)))
        values, counts = np.unique(self.labels, return_counts=True)
        by_value = dict(zip(values.tolist(), counts.tolist(), strict=True))
        return np.array([by_value.get(value, 0) for value in self.class_values], np.int64)

    def read_through(self, source: ByteSource) -> ImageIndex:
        """Returns the index with another source of the same name, such as one with a cache."""
        return self if source is self.source else ImageIndex(self._kept, self.root, source)

    def __repr__(self) -> str:
        where = "in memory" if self.location is None else f"at {self.location}"
        files, classes = pluralize(len(self), "file"), pluralize(len(self.classes), "class")
        return f"ImageIndex({files} in {classes}, root={self.root!r}, {where})"

    def __reduce__(self) -> tuple[object, ...]:
        if self.location is not None and format.keep_for_pickle(self.location, self.generation):
            return _reopened, (str(self.location), self.generation, self.root, self.source)
        return ImageIndex, (self._kept, self.root, self.source)


def folder_source(
    root: str | os.PathLike[str] | ByteSource, extensions: tuple[str, ...], options: BuildOptions
) -> IndexSource:
    """Makes the source of class folders in a folder, an archive or a store."""
    store = source_of(root, None)
    folder = local_path(root) if store is None else store.name  # type: ignore[arg-type]  # a source has one
    archive = archive_in(folder) if store is None else archive_named_by(store)
    if archive is not None:
        holder = archive.source if isinstance(archive, RemoteFile) else None
        return ArchiveSource(
            root=folder.rstrip("/" + os.sep),
            paths=(archive,),
            extensions=extensions,
            options=options,
            bytes_from=cast("ByteSource | None", holder),
        )
    if store is not None:
        return RemoteFolderSource(root=folder, extensions=extensions, options=options, bytes_from=store)
    return LocalFolderSource(root=folder, extensions=extensions, options=options)


def _reopened(location: str, generation: str, root: str, source: ByteSource | None) -> ImageIndex:
    """Opens exactly the generation that was pickled, as a newer one may number the files differently."""
    try:
        return ImageIndex(cache.open_kept(Path(location), generation), root, source)
    except format.UnusableIndex as error:
        raise DatasetError(
            f"the index at {location} (generation {generation}) can't be opened any more: {error}. It was rebuilt or "
            "removed since the dataset was made; make the dataset again."
        ) from None
