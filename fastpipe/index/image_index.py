"""`ImageIndex`: the memory-mapped list of files behind `ImageFolder` and `ImageList`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from fastpipe.errors import DatasetError
from fastpipe.index import cache, format
from fastpipe.index.archives import ArchiveSource, archive_in, archive_named_by
from fastpipe.index.index_source import BuildOptions, IndexSource
from fastpipe.index.indexed_files import IndexedFiles, open_index
from fastpipe.index.listing import IMG_EXTENSIONS
from fastpipe.index.local_scan import LocalFolderSource
from fastpipe.index.remote_scan import RemoteFolderSource
from fastpipe.index.table import Array, Table
from fastpipe.paths import local_path
from fastpipe.sources import ByteSource, source_of
from fastpipe.types import RemoteFile


class ImageIndex(IndexedFiles):
    """n image files and their labels in arrays, without a Python object a file; usually mapped from disk.

    Workers map the same pages, so that their memory doesn't grow, and a pickled index is a path and a name. It never
    changes: `from_folder` gives a new one where the folder has changed.

    Attributes:
        root: the folder that relative paths start from, as given.
        prefix: what is put before a relative path.
        classes: class names; the labels count them from 0, but for lists with integer labels (see `class_values`).
        class_values: the label of each class.
        table: the arrays.
        location: the folder on disk, None in memory.
        generation: which of the states of that folder this is.
        origin: how it came about: ``"opened"``, or why and what was built.
        source: what has the files, or their containers; None for this machine's file system.
    """

    @classmethod
    def from_folder(
        cls,
        root: str | os.PathLike[str] | ByteSource,
        *,
        location: str | os.PathLike[str] | None = "auto",
        extensions: tuple[str, ...] = IMG_EXTENSIONS,
        sizes: bool = False,
        refresh: bool = False,
        progress: bool = True,
    ) -> ImageIndex:
        """The files of ``root/class/….jpg`` as they are now, in torchvision's order; in a zip or tar as in a folder.

        What is kept at `location` is opened if it is whole, of this root, and no folder has changed since. Else the
        folders that changed are listed again, or all of them, and the result is written there. A file that is
        rewritten under its old name doesn't change its folder: its size stays that of the last look.

        Args:
            root: the folder that holds one folder a class; or a zip or tar of it, or a `fastpipe.ByteSource`, as
                `fastpipe.ImageFolder` takes them.
            location: where the index is kept: a folder, ``"auto"`` for one in the user's cache folder
                (``FASTPIPE_CACHE`` overrides), None to keep it in memory only.
            extensions: lower-case endings of the files that count.
            sizes: also ask for each file's size: about four times as slow as listing alone.
            refresh: list every folder and look at every file again, even where nothing seems to have changed.
            progress: whether a terminal gets a progress bar after two seconds.

        Raises:
            FileNotFoundError: `root` is no folder, or has no class folder.
            DatasetError: a link leads back to a folder above it, an archive is compressed or damaged, or `location`
                can't be written.
        """
        options = BuildOptions(sizes, refresh, progress)
        return cls.load_or_build(folder_source(root, tuple(extensions), options), location)

    @classmethod
    def load_or_build(cls, source: IndexSource, location: str | os.PathLike[str] | None) -> ImageIndex:
        """The index of a source as it is now: see `fastpipe.index.cache.load_or_build`."""
        return cls._of(cache.load_or_build(source, location))

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

        Args:
            table: paths relative to `root`, and labels.
            root: the folder that they start from; ``""`` where they are whole.
            classes: class names.
            class_values: the label of each class; None for 0, 1, ….
            source: what has the files; None for this machine's file system.
        """
        files = cls(table, root=root, classes=classes, class_values=class_values, source=source)
        return cls._of(cache.keep_if_large(files))

    def take(self, picks: Array) -> ImageIndex:
        """An index of these files, int64 positions from 0 to n - 1, in this order."""
        return ImageIndex.from_table(
            self.table.take(picks),
            root=self.root,
            classes=self.classes,
            class_values=self.class_values,
            source=self.source,
        )

    @classmethod
    def _of(cls, files: IndexedFiles) -> ImageIndex:
        if isinstance(files, cls):
            return files
        index = cls.__new__(cls)
        index.__dict__ = files.__dict__
        return index

    def __reduce__(self) -> tuple[Any, ...]:
        if self.location is not None:
            return _reopened, (str(self.location), self.generation, self.root, self.source)
        return _restored, (dict(self.table.arrays()), self.root, self.header(), self.source)


def folder_source(
    root: str | os.PathLike[str] | ByteSource, extensions: tuple[str, ...], options: BuildOptions
) -> IndexSource:
    """The source of class folders, wherever they are."""
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


def _restored(arrays: dict[str, Array], root: str, header: dict[str, Any], source: ByteSource | None) -> ImageIndex:
    return ImageIndex(Table(**arrays), root=root, source=source, **header)


def _reopened(location: str, generation: str, root: str, source: ByteSource | None) -> ImageIndex:
    """The very generation that was pickled: a newer one may number the files otherwise."""
    try:
        return ImageIndex._of(open_index(Path(location), root, "opened", generation, source))
    except format.UnusableIndex as error:
        raise DatasetError(
            f"the index at {location} (generation {generation}) can't be opened any more: {error}. It was rebuilt or "
            "removed since the dataset was made; make the dataset again."
        ) from None
