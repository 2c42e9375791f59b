"""Opens a source to pack (class folders, images, a list, shards or Parquet) as one sequence of files."""

from __future__ import annotations

import functools
import os
import posixpath
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias, cast

from fastpipe.datasets import ImageFolder, ImageIndex, ImageList
from fastpipe.errors import ConfigError, DatasetError
from fastpipe.index.archives import list_members
from fastpipe.index.containers import ContainerSource
from fastpipe.index.extensions import IMG_EXTENSIONS
from fastpipe.index.image_index import folder_source
from fastpipe.index.index_source import BuildOptions
from fastpipe.index.open import Kind, named_images
from fastpipe.index.shard_source import ShardSource
from fastpipe.index.statistics import files_left_out
from fastpipe.index.table import number_labels
from fastpipe.index.table_source import TableSource, open_first
from fastpipe.packing.items import Item
from fastpipe.packing.names import Ending, checked, in_a_folder, sample_key
from fastpipe.packing.record import NAME as RECORD
from fastpipe.packing.samples import shard_items, table_items
from fastpipe.paths import absolute_path, is_url, local_path
from fastpipe.sources import ByteSource
from fastpipe.types import ArchiveMember

FileFields: TypeAlias = tuple[str, str, int, int]
"""Relative name, path, size in bytes and label of a file."""

_TABLES = (".parquet",)


@dataclass(frozen=True)
class PackSource:
    """A source to pack."""

    name: str  # identifies the source in the record
    kind: Kind
    index: ImageIndex | None  # the images; None for shards, all members of which are packed
    containers: ContainerSource | None = None  # the shards or Parquet files; else None

    @property
    def images(self) -> ImageIndex:
        """The index of a source that isn't shards."""
        assert self.index is not None
        return self.index

    @property
    def expected(self) -> int:
        """The number of files; 0 if it isn't known before they are listed."""
        return 0 if self.index is None else len(self.index)

    @property
    def is_remote(self) -> bool:
        """True if the files are in a store."""
        store = self.images.source if self.containers is None else self.containers.bytes_from
        return store is not None

    @property
    def places(self) -> list[str]:
        """The local folders and files that the source is read from; empty for a store."""
        if self.is_remote:
            return []
        if self.containers is not None:
            return [*self.containers.paths]
        return [*self.images.containers] or ([self.images.root] if self.images.root else [])

    @property
    def columns(self) -> list[str | None]:
        """The columns of images and labels in Parquet files; empty for other sources."""
        tables = self.containers
        return [tables.image, tables.label] if isinstance(tables, TableSource) else []

    @property
    def labels(self) -> dict[int, str]:
        """The text of each label, from which shards or a list give the same classes and targets.

        It is the class name if the sorted names have the same numbers; otherwise the number.
        """
        index = self.images
        names = index.classes if self.labels_are_names else map(str, index.class_values)
        return dict(zip(index.class_values, names, strict=True))

    @property
    def labels_are_names(self) -> bool:
        """True if numbering the sorted class names gives the classes' numbers."""
        index = self.images
        used = [name for name, count in zip(index.classes, index.counts(), strict=True) if count]
        _, classes, values = number_labels(used, True)
        return (*classes,) == index.classes and (*values,) == index.class_values

    def members(self, ending: Ending, keeps_containers: bool, done: Container[str]) -> Iterator[Item]:
        """Yields the files of shards or Parquet files in order.

        Args:
            ending: the ending of converted images.
            keeps_containers: whether each container becomes one container in the target.
            done: the keys of shards to leave out.
        """
        if isinstance(self.containers, ShardSource):
            shards = self.containers
            left = tuple(path for path in shards.paths if shards.name_of(path) not in done)
            return shard_items(replace(shards, paths=left), ending, keeps_containers)
        tables = cast(TableSource, self.containers)
        return table_items(tables, self.images, self.labels, ending, keeps_containers)

    @property
    def is_one_nested_class(self) -> bool:
        """True if the source is one class folder all of whose images are in its subfolders."""
        if self.kind != "folders" or len(self.images.classes) != 1:
            return False
        skipped = _skipped(self.images)
        return all(name.count("/") - skipped > 1 for name, *_ in _rows(self.images))

    def files(self, ending: Ending, as_samples: bool, top: str) -> Iterator[Item]:
        """Yields the files of folders or a list in order.

        Args:
            ending: the ending of converted images.
            as_samples: name them as samples of shards, with their labels beside them; else keep their names.
            top: what their names in the target begin with.
        """
        for item in self._files(ending, as_samples):
            item = item._replace(kept=top + item.kept, converted=item.converted and top + item.converted)
            path = item.path
            if isinstance(path, ArchiveMember) and (times := self._member_times.get(path.container)):
                item = item._replace(modified_ns=times.get(path.offset))
            yield item

    @functools.cached_property
    def _member_times(self) -> dict[str, dict[int, int]]:
        """The times of the members of each local archive, by the offset of their bytes."""
        containers = () if self.is_remote or self.containers is not None else self.images.containers
        return {
            path: {member.start: member.modified_ns for member in list_members(path) if member.modified_ns is not None}
            for path in containers
        }

    def _files(self, ending: Ending, as_samples: bool) -> Iterator[Item]:
        labels = self.labels if as_samples and self.kind != "images" else {}
        if self.kind == "list":
            yield from self._listed(ending, as_samples, labels)
            return
        skipped = _skipped(self.images) if self.kind == "folders" else 0
        for _, files in groupby(_rows(self.images), key=lambda row: posixpath.dirname(row[0])):
            rows = [(self._own_name(row[0], skipped), *row[1:]) for row in files]
            yield from _folder_samples(rows, labels, ending, self.name) if as_samples else _folder_files(rows, ending)
        if self.kind == "folders" and not as_samples:
            for name, count in zip(self.images.classes, self.images.counts(), strict=True):
                if not count:  # the folder of a class without images
                    yield Item(f"{name}/", "", checked(f"{name}/", self.name))

    def _own_name(self, name: str, skipped: int) -> str:
        """A file's name relative to the folder that holds the class folders, or the images."""
        return checked(posixpath.basename(name) if self.kind == "images" else name.split("/", skipped)[-1], self.name)

    def _listed(self, ending: Ending, as_samples: bool, labels: dict[int, str]) -> Iterator[Item]:
        """Yields the images of a list, each once, even if the list has one twice."""
        start = _common_start(self.images)
        seen: Counter[str] = Counter()
        stems = Counter(hash(posixpath.splitext(row[0])[0]) for row in _rows(self.images))
        for name, path, size, label in _rows(self.images):
            own = checked(name[start:].lstrip("/"), self.name)
            shared = stems[hash(posixpath.splitext(name)[0])] > 1
            seen[own] += shared
            again = seen[own] if seen[own] > 1 else 0
            if as_samples:
                key = sample_key(own, shared) + (f"-{again}" if again else "")
                sample = _sample((own, path, size, label), key, labels, ending)
                yield sample._replace(key=f"{own}#{again}") if again else sample
            elif not again:
                yield Item(own, path, own, ending.long(own) if shared else ending.short(own), size)

    def listed_keys(self) -> Iterator[tuple[str, int]]:
        """Yields key and label of each line of a list, including images that it has twice."""
        start = _common_start(self.images)
        for name, _, _, label in _rows(self.images):
            yield name[start:].lstrip("/"), label

    def left_out(self) -> dict[str, int]:
        """For each ending, the number of files in the source's folders or archive that aren't among its images."""
        if self.index is None or self.containers is not None or self.is_remote:
            return {}
        return files_left_out(self.index, own=(RECORD,))


def open_source(given: object, image: str | None, label: str | None, options: BuildOptions) -> PackSource:
    """Opens the source that a path, a URL, an index or a dataset names.

    Args:
        given: a path, a URL, an index or a dataset.
        image, label: the columns of Parquet files; None for ``"image"``, and for ``"label"`` if there is one.
        options: options for building its index.

    Raises:
        DatasetError: there is no image, or a container can't be used.
        ConfigError: columns are given for a source that isn't Parquet.
    """
    if isinstance(given, (ImageFolder, ImageList)):
        given = given._fastpipe_index
        if given is None:
            raise DatasetError("the samples of this dataset were changed: give its folder or list.")
    if isinstance(given, ImageIndex):
        return _of_index(given)
    if isinstance(given, ByteSource):
        return PackSource(
            given.identity, "folders", ImageIndex.load_or_build(folder_source(given, IMG_EXTENSIONS, options), "auto")
        )
    if not isinstance(given, (str, os.PathLike)):
        raise DatasetError(
            f"source={given!r:.80}: a {type(given).__name__} can't be packed or unpacked: give a folder, a zip or tar, "
            "a pattern of shards or Parquet files, a list, an index, a URL, an ImageFolder or an ImageList."
        )
    name = local_path(given) if is_url(local_path(given)) else absolute_path(given)
    if not name.lower().endswith(_TABLES) and (image or label):
        raise ConfigError("image and label are columns of Parquet files; of shards, all members are packed.")
    found = named_images(given, options, image=image, label=label)
    source = found.samples
    if isinstance(source, ShardSource):
        return PackSource(name, "samples", None, source)
    if isinstance(source, TableSource) and label is None and _has_column(source.paths, "label"):
        source = TableSource.of(given, source.image, "label", options)
        return PackSource(name, "samples", ImageIndex.load_or_build(source, "auto"), source)
    return PackSource(name, found.kind, found.index, source)


def _of_index(index: ImageIndex) -> PackSource:
    if index.table.folders is not None:
        return PackSource(index.root if index.source is not None else absolute_path(index.root), "folders", index)
    if index.table.containers is not None:
        raise DatasetError("an index of containers can't be packed: give the containers' path or pattern itself.")
    return PackSource(f"a list of files in {index.root or 'any folder'}", "list", index)


def _rows(index: ImageIndex) -> Iterator[FileFields]:
    done = 0
    for (names, labels), (paths, _) in zip(index.table.blocks("/"), index.blocks(), strict=True):
        sizes: Sequence[int] = [-1] * len(names)
        if index.sizes is not None:
            sizes = index.sizes[done : done + len(names)].tolist()
        done += len(names)
        yield from zip(names, paths, sizes, labels.tolist(), strict=True)


def _skipped(index: ImageIndex) -> int:
    """The number of leading folders to drop from names: 1 if an archive's only top folder holds the classes; else 0."""
    classes = dict(zip(index.class_values, index.classes, strict=True))
    ends = [0, len(index) - 1] if len(index) and index.table.containers is not None else []
    names = [index.path(at)[len(index.prefix) :].replace(os.sep, "/") for at in ends]
    own = [classes[int(index.labels[at])] for at in ends]
    return int(any(name.split("/")[0] != label for name, label in zip(names, own, strict=True)))


def _folder_files(rows: list[FileFields], ending: Ending) -> Iterator[Item]:
    """Yields the files of a folder, with their own names."""
    folder, slash, _ = rows[0][0].rpartition("/")
    names = [posixpath.basename(row[0]) for row in rows]
    for (name, path, size, _), new in zip(rows, in_a_folder(names, ending), strict=True):
        yield Item(name, path, name, new and folder + slash + new, size)


def _folder_samples(rows: list[FileFields], labels: dict[int, str], ending: Ending, source: str) -> Iterator[Item]:
    """Yields the files of a folder as samples of shards."""
    stems = Counter(sample_key(row[0], False) for row in rows)
    taken: set[str] = set()
    for row in rows:
        key = sample_key(row[0], stems[sample_key(row[0], False)] > 1)
        if key in taken:
            raise DatasetError(
                f"{row[0]} would be the sample {key!r} in shards, as another file of {source} is: rename one of them, "
                "or choose a folder as the target."
            )
        taken.add(key)
        yield _sample(row, key, labels, ending)


def _sample(row: FileFields, key: str, labels: dict[int, str], ending: Ending) -> Item:
    """Makes a file a sample of a shard: a key without a dot, the label beside it."""
    name, path, size, label = row
    beside = ((f"{key}.cls", labels[label].encode()),) if labels else ()
    return Item(name, path, key + posixpath.splitext(name)[1], key + ending.new, size, beside)


def _common_start(index: ImageIndex) -> int:
    """The length of the path of the common folder of a list's files, if their names are absolute; else 0."""
    if index.root:
        return 0
    folder: str | None = None
    for name, *_ in _rows(index):
        above = posixpath.dirname(name)
        try:
            folder = above if folder is None or folder == above else posixpath.commonpath([folder, above])
        except ValueError:  # absolute and relative names are mixed
            return 0
    return len(folder or "")


def _has_column(paths: Sequence[str], name: str) -> bool:
    with open_first(paths) as file:
        return bool(file.schema_arrow.get_field_index(name) >= 0)
