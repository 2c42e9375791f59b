"""Lists Parquet files with a column of images, as Hugging Face stores them, with each image's offset."""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fastpipe.atomic_write import atomic_write
from fastpipe.counts import pluralize
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.index import bad_rows, format, unpacked
from fastpipe.index.containers import ContainerListing, ContainerSource, label_text
from fastpipe.index.glob import Paths
from fastpipe.index.index_source import BuildOptions
from fastpipe.index.parquet import UnreadableParquet, import_pyarrow, open_parquet
from fastpipe.paths import is_url
from fastpipe.sources import Cache
from fastpipe.types import RemoteFile

if TYPE_CHECKING:
    from pyarrow import Buffer
    from pyarrow.parquet import ColumnChunkMetaData, ParquetFile

_ROWS = 64  # rows decoded at a time, as a row group may be larger than memory


def holds_images(paths: Sequence[str]) -> bool:
    """True if the first Parquet file that can be read has a column ``image`` that isn't text, unlike a list of paths.

    Raises:
        DatasetError: none of the files can be read.
    """
    with open_first(paths) as file:
        at = file.schema_arrow.get_field_index("image")
        return at >= 0 and not import_pyarrow().types.is_string(file.schema_arrow.field(at).type)


@contextlib.contextmanager
def open_first(paths: Sequence[str]) -> Iterator[ParquetFile]:
    """Opens the first of some Parquet files that can be read; raises the first one's error if none can."""
    with contextlib.ExitStack() as stack:
        errors: list[UnreadableParquet] = []
        for path in paths:
            try:
                file = stack.enter_context(open_parquet(path))
            except UnreadableParquet as error:
                errors.append(error)
            else:
                yield file
                return
        raise errors[0]


@dataclass(frozen=True, kw_only=True)
class TableSource(ContainerSource):
    """Parquet files, and their columns of images and labels."""

    image: str
    label: str | None

    @classmethod
    def of(
        cls,
        tables: Paths,
        image: str,
        label: str | None,
        options: BuildOptions,
        cache: Cache | None = None,
    ) -> TableSource:
        """Makes the source from the arguments of `ImageTable`."""
        source = cls.over(tables, "Parquet files", (".parquet",), options, cache, image=image, label=label)
        with open_first(source.paths) as file:
            return replace(source, class_names=_class_names(file, label))

    @property
    def identity(self) -> dict[str, object]:
        names = None if self.class_names is None else list(self.class_names)
        own = {"kind": "table", "image": self.image, "label": self.label, "given": self.given, "names": names}
        return super().identity | own | {"numbers": True}

    def listing(self, path: str) -> ContainerListing:
        try:
            return self._listing(path)
        except UnreadableParquet as error:  # of this file alone: `of` has read one
            warnings.warn(f"{error} It counts as one bad sample.", FastpipeWarning, stacklevel=2)
            listing = ContainerListing.empty()
            listing.add_bad("its rows", None, bad_rows.NO_TABLE, str(error))
            return listing

    def _listing(self, path: str) -> ContainerListing:
        with open_parquet(path) as file:
            column = self._column(file, path)
            listing = ContainerListing.empty()
            kinds = {_chunk(file, group, column).compression for group in range(file.num_row_groups)}
            if kinds <= {"UNCOMPRESSED"} and self._located(file, path, column, listing):
                return listing
            if isinstance(path, RemoteFile):
                raise DatasetError(
                    f"{path}: its column {column!r} is compressed or encoded, so that no image in it can be read by "
                    "its place. Write the file with compression='none', or copy it to this machine."
                )
            return self._unpacked(file, path, column)

    def _column(self, file: ParquetFile, path: str) -> str:
        """The name of the leaf column that has the images' bytes."""
        pyarrow = import_pyarrow()
        schema = file.schema_arrow
        for name in (self.image, self.label):
            if name is not None and schema.get_field_index(name) < 0:
                raise DatasetError(
                    f"{path}: there is no column {name!r} among {', '.join(map(repr, schema.names))}: name the columns "
                    "with image= and label= (None for no labels)."
                )
        kind = schema.field(self.image).type
        leaf = self.image
        if pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            kind, leaf = kind.field("bytes").type, f"{self.image}.bytes"
        bytes_kinds = pyarrow.types.is_binary, pyarrow.types.is_large_binary, pyarrow.types.is_null
        if not any(is_kind(kind) for is_kind in bytes_kinds):
            hint = "; for a column of paths use fastpipe.ImageList" if pyarrow.types.is_string(kind) else ""
            raise DatasetError(f"{path}: the column {self.image!r} holds {kind}, and no bytes of images{hint}.")
        return leaf

    def _rows(
        self, file: ParquetFile, path: str, column: str, group: int, listing: ContainerListing
    ) -> Iterator[tuple[Buffer, str, str]]:
        """Yields image, name and label of each row of a row group that has both; adds the others to the listing."""
        pyarrow = import_pyarrow()
        kind = file.schema_arrow.field(self.image).type
        has_paths = column != self.image and kind.get_field_index("path") >= 0
        columns = [
            column,
            *([f"{self.image}.path"] if has_paths else []),
            *([] if self.label is None else [self.label]),
        ]
        batches = file.iter_batches(batch_size=_ROWS, row_groups=[group], columns=columns)
        end = len(listing.names) + file.metadata.row_group(group).num_rows
        while True:
            try:
                batch = next(batches, None)
            except (pyarrow.ArrowMemoryError, pyarrow.ArrowCancelled):
                raise
            except (pyarrow.ArrowException, OSError) as error:  # an OSError of pyarrow's own, without a number
                problem = f"{path} is damaged in its row group {group}: {error}."
                if isinstance(path, RemoteFile) or (isinstance(error, OSError) and error.errno is not None):
                    raise DatasetError(problem) from error
                for row in range(len(listing.names), end):
                    listing.add_bad(str(row), None, bad_rows.DAMAGED, problem)
                return
            if batch is None:
                return
            images = batch.column(batch.schema.get_field_index(self.image))
            paths: list[object] = [None] * len(images)
            if has_paths:
                paths = pyarrow.compute.struct_field(images, "path").to_pylist()
            if column != self.image:
                images = pyarrow.compute.struct_field(images, "bytes")
            labels = ["0"] * len(images)
            if self.label is not None:
                labels = batch.column(batch.schema.get_field_index(self.label)).to_pylist()
            for image, where, label in zip(images, paths, labels, strict=True):
                row = len(listing.names)
                text = label_text(label, f"{path}: the label of row {row}")
                if text is None:
                    listing.add(str(row), None, bad_rows.NO_LABEL)
                elif image.is_valid:
                    yield image.as_buffer(), str(row), text
                else:
                    self._add_without_bytes(listing, where, text)

    @staticmethod
    def _add_without_bytes(listing: ContainerListing, where: object, label: str) -> None:
        """Adds a row without bytes: as `datasets.Image` does, its path is opened, from the working folder."""
        if not isinstance(where, str) or not where or "\0" in where:
            listing.add(str(len(listing.names)), label, bad_rows.NO_IMAGE)
        elif is_url(where) or "::" in where:
            listing.add(str(len(listing.names)), label, bad_rows.ELSEWHERE)
        else:
            listing.add(where.replace(os.sep, "/"), label, bad_rows.SEPARATE_FILE)

    def _located(self, file: ParquetFile, path: str, column: str, listing: ContainerListing) -> bool:
        """Finds the offset of each image's bytes in the file; returns False if one isn't there as it is.

        pyarrow decodes the column, and each value is searched for after the one before. So offsets are right whatever
        the page's layout, header, or encoding is.
        """
        for group in range(file.num_row_groups):
            chunk = _chunk(file, group, column)
            first = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                first = min(first, chunk.dictionary_page_offset)
            with _part_of(path, first, chunk.total_compressed_size) as (data, start):
                at, end = first - start, first - start + chunk.total_compressed_size
                seen: dict[bytes, int] = {}
                for image, name, label in self._rows(file, path, column, group, listing):
                    value = image.to_pybytes()
                    place = seen.get(_digest(value), -1)
                    if place < 0:
                        place = at + 4  # plain encoding has 4 bytes of length before a value
                        if data[place : place + len(value)] != value:
                            place = data.find(value, at, end)
                        if place < 0:
                            return False
                        seen[_digest(value)] = place
                        at = place + len(value)
                    listing.add(name, label, start + place, len(value))
        return True

    def copy_of(self, path: str) -> str | None:
        if isinstance(path, RemoteFile):
            return None
        try:
            status = os.stat(path)
            about = "\0".join([os.path.abspath(path), self.image, str(status.st_size), str(status.st_mtime_ns)])
            return format.kept_at("unpacked", about).with_suffix(".images").as_posix()
        except FileNotFoundError:  # no home folder, or the file is gone
            return None

    def _unpacked(self, file: ParquetFile, path: str, column: str) -> ContainerListing:
        """Writes the images of a compressed column one after the other into a file in the cache folder."""
        listing = ContainerListing.empty()
        try:
            target = self.copy_of(path)
            if target is None:
                raise FileNotFoundError("this user has no home folder")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with atomic_write(target) as out:
                for group in range(file.num_row_groups):
                    for image, name, label in self._rows(file, path, column, group, listing):
                        listing.add(name, label, out.tell(), image.size)
                        out.write(image)
        except OSError as error:
            raise DatasetError(
                f"{path} is compressed, and its images can't be unpacked into the cache folder: {error}. Set "
                "FASTPIPE_CACHE to a folder that has room, or write the file with compression='none'."
            ) from error
        used = sum(size for size in listing.sizes if size > 0)
        if not used:  # all rows are bad
            with contextlib.suppress(OSError):
                os.unlink(target)
            return listing
        unpacked.hold(target)
        unpacked.make_room(target)
        warnings.warn(
            f"the images of {path} are compressed as a column, or encoded, so they were unpacked once: "
            f"{pluralize(used, 'byte')} in {target}. Write the file with compression='none' to need no "
            "copy.",
            FastpipeWarning,
            stacklevel=2,
        )
        return listing._replace(unpacked=target)


@contextlib.contextmanager
def _part_of(path: str, start: int, length: int) -> Iterator[tuple[bytes | mmap.mmap, int]]:
    """Opens bytes that include a part of a file; yields them, and their offset in the file."""
    if isinstance(path, RemoteFile):
        yield path.source.read(path.key, start, length), start
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data, 0


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=16).digest()


def _chunk(file: ParquetFile, group: int, column: str) -> ColumnChunkMetaData:
    """A column's metadata of one row group, from the footer."""
    about = file.metadata.row_group(group)
    return next(about.column(n) for n in range(about.num_columns) if about.column(n).path_in_schema == column)


def _class_names(file: ParquetFile, label: str | None) -> tuple[str, ...] | None:
    """The names of a `datasets.ClassLabel`, from the metadata that `datasets` writes into the schema."""
    about = (file.schema_arrow.metadata or {}).get(b"huggingface")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        names = json.loads(about)["info"]["features"][label]["names"] if about else None
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(names)
    return None
