"""Tars, zips and Parquet files whose images are converted in their places; everything else in them stays as it is."""

from __future__ import annotations

import copy
import io
import json
import os
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import IO, Any, TypeAlias

from fastpipe.atomic_write import rename
from fastpipe.errors import DatasetError
from fastpipe.index.parquet import import_pyarrow
from fastpipe.packing.conversions import Converted
from fastpipe.packing.record import Row, Totals
from fastpipe.sources.threads import map_in_threads

Convert: TypeAlias = Callable[[bytes, str, int | None], Converted]
"""Converts an image's bytes, by the ending of its name and its time."""

_ENDINGS = (".tar", ".zip", ".parquet")
_AT_ONCE = 16  # members that a thread converts at a time
_THREADS = 2
_CHUNKING = b"content_defined_chunking"  # the key by which Hugging Face's writer notes how it ends pages
_DAMAGED = "{} was written, and other bytes were read back: the disk or memory is damaged"


def is_container(name: str) -> bool:
    """True for the name of a file whose members or rows are converted."""
    return name.lower().endswith(_ENDINGS)


def rewrite(path: str, target: str, convert: Convert, beside: str) -> Totals | None:
    """Writes a container with the same members or rows, and with converted images; reads it back and compares.

    Args:
        path: the container.
        target: the new container's path.
        convert: converts an image.
        beside: what its name ends in until it is complete.

    Returns:
        The sums over its members, or over the images in its rows. None, and nothing is written, for a file that isn't
        what its name says, such as a compressed tar.

    Raises:
        OSError: it can't be written, or other bytes are read back.
    """
    totals = Totals()
    rewriting = _Rewriting(convert, totals)
    part = target + beside
    os.makedirs(os.path.dirname(target), exist_ok=True)
    kind = {".tar": rewriting.tar, ".zip": rewriting.zip, ".parquet": rewriting.parquet}
    try:
        if not kind[posixpath.splitext(path)[1].lower()](path, part):
            return None
        with open(part, "r+b") as stream:
            os.fsync(stream.fileno())
        rename(part, target)
    finally:
        if os.path.exists(part):
            os.unlink(part)
    return totals


class _Rewriting:
    """The rewriting of one container.

    Args:
        convert: converts an image.
        totals: the sums, to which each image is added.
    """

    def __init__(self, convert: Convert, totals: Totals) -> None:
        self._convert, self._totals = convert, totals

    # -- archives

    def tar(self, path: str, part: str) -> bool:
        try:
            with tarfile.open(path, "r:") as source, tarfile.open(part, "w:", format=tarfile.PAX_FORMAT) as out:
                for member, data in self._converted(_tar_members(source), lambda one: int(one.mtime * 10**9)):
                    if data is not None:
                        member.type, member.size = tarfile.REGTYPE, len(data)
                        member.pax_headers.pop("size", None)
                    out.addfile(member, None if data is None else io.BytesIO(data))
        except tarfile.ReadError:
            return False
        with tarfile.open(part, "r:") as again:
            self._compare(part, (zlib.crc32(data) for _, data in _tar_members(again) if data is not None))
        return True

    def zip(self, path: str, part: str) -> bool:
        try:
            with zipfile.ZipFile(path) as source, zipfile.ZipFile(part, "w") as out:
                out.comment = source.comment
                if any(info.flag_bits & 1 for info in source.infolist()):  # encrypted
                    return False
                for info, data in self._converted(_zip_members(source), lambda _: None):
                    out.writestr(copy.copy(info), data or b"")
        except (zipfile.BadZipFile, NotImplementedError):  # no zip, or a compression that Python lacks
            return False
        with zipfile.ZipFile(part) as again:
            self._compare(part, (zlib.crc32(data) for _, data in _zip_members(again) if data is not None))
        return True

    def _converted(
        self, members: Iterator[tuple[Any, bytes | None]], time_of: Callable[[Any], int | None]
    ) -> Iterator[tuple[Any, bytes | None]]:
        """Yields members with their converted bytes, in order; None for a folder or a link."""

        def convert_some(some: list[tuple[Any, bytes | None]]) -> list[tuple[Any, Converted | None, int]]:
            return [
                (one, None, 0)
                if data is None
                else (one, self._convert(data, posixpath.splitext(_name_of(one))[1], time_of(one)), len(data))
                for one, data in some
            ]

        self._sums: list[int] = []
        for _, some in map_in_threads(convert_some, _blocks(members), _THREADS):
            for member, converted, before in some:
                if converted is not None:
                    self._count(converted, before)
                yield member, None if converted is None else converted.data

    def _count(self, converted: Converted, before: int) -> None:
        self._sums.append(zlib.crc32(converted.data))
        row = Row("", 0, before, kept=converted.kept, exact=int(converted.exact), smaller=int(converted.smaller))
        self._totals.add_file(row, len(converted.data))

    def _compare(self, part: str, sums: Iterable[int]) -> None:
        if [*sums] != self._sums:
            raise OSError(_DAMAGED.format(part))

    # -- Parquet

    def parquet(self, path: str, part: str) -> bool:
        pyarrow = import_pyarrow()
        self._sums = []
        try:
            with (
                pyarrow.parquet.ParquetFile(path, memory_map=True) as source,
                pyarrow.parquet.ParquetWriter(part, source.schema_arrow, **_writing(pyarrow, source)) as out,
            ):
                if not _stores_schema(pyarrow):
                    out.add_key_value_metadata(source.metadata.metadata or {})
                for number in range(source.num_row_groups):
                    table = source.read_row_group(number)
                    columns = [self._column(pyarrow, column) for column in table.columns]
                    made = pyarrow.Table.from_arrays(columns, schema=table.schema)
                    out.write_table(made, row_group_size=max(1, made.num_rows))
        except pyarrow.ArrowInvalid as error:
            if "Parquet magic bytes" in str(error) or "Parquet file size" in str(error):
                return False
            raise DatasetError(f"{path} is a damaged Parquet file: {error}.") from error
        kept = self._sums
        self._sums, seen = [], _Rewriting(lambda data, *_: Converted(data), Totals())
        seen._sums = []
        with pyarrow.parquet.ParquetFile(part, memory_map=True) as again:
            for number in range(again.num_row_groups):
                for column in again.read_row_group(number).columns:
                    seen._column(pyarrow, column)
        if seen._sums != kept:
            raise OSError(_DAMAGED.format(part))
        return True

    def _column(self, pyarrow: Any, column: Any) -> Any:
        """A column with converted images: the same one if there are none."""
        if not _has_bytes(pyarrow, column.type):
            return column
        chunks = [self._array(pyarrow, chunk) for chunk in column.chunks]
        return pyarrow.chunked_array(chunks, type=column.type)

    def _array(self, pyarrow: Any, array: Any) -> Any:
        kind = array.type
        if not _has_bytes(pyarrow, kind):
            return array
        if pyarrow.types.is_struct(kind):
            fields = [self._array(pyarrow, field) for field in array.flatten()]
            return pyarrow.StructArray.from_arrays(fields, fields=[*kind], mask=array.is_null())
        if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
            # Values of None and of slices are left out by `flatten`; lengths give new offsets.
            values = self._array(pyarrow, array.flatten())
            counts = pyarrow.compute.fill_null(pyarrow.compute.list_value_length(array), 0)
            ends = pyarrow.compute.cumulative_sum(counts)
            offsets = pyarrow.concat_arrays([pyarrow.array([0], ends.type), ends])
            return type(array).from_arrays(offsets, values, type=kind, mask=array.is_null())
        return pyarrow.array([*self._values(array.to_pylist())], type=kind)

    def _values(self, values: list[bytes | None]) -> Iterator[bytes | None]:
        """Yields the converted values of a column of bytes."""
        for _, some in map_in_threads(self._convert_values, _blocks(iter(values)), _THREADS):
            for value, converted in some:
                if value is None or converted is None:
                    yield None
                    continue
                self._count(converted, len(value))
                yield converted.data

    def _convert_values(self, some: list[bytes | None]) -> list[tuple[bytes | None, Converted | None]]:
        return [(value, None if value is None else self._convert(value, "", None)) for value in some]


def _writing(pyarrow: Any, source: Any) -> dict[str, Any]:
    """The options by which a Parquet file was written, as far as the file says them."""
    about = source.metadata
    options: dict[str, Any] = {
        "version": about.format_version if about.format_version in ("1.0", "2.4", "2.6") else "2.6"
    }
    options["store_schema"] = _stores_schema(pyarrow)
    chunking = (about.metadata or {}).get(_CHUNKING)
    if chunking is not None and int(pyarrow.__version__.partition(".")[0]) >= 21:
        options["use_content_defined_chunking"] = json.loads(chunking)
    if about.num_row_groups:
        columns = [about.row_group(0).column(number) for number in range(about.num_columns)]
        names = [column.path_in_schema for column in columns]
        codecs = ["NONE" if column.compression == "UNCOMPRESSED" else column.compression for column in columns]
        options["compression"] = dict(zip(names, codecs, strict=True))
        options["use_dictionary"] = [
            name
            for name, column in zip(names, columns, strict=True)
            if any("DICTIONARY" in encoding for encoding in column.encodings)
        ]
        with_statistics = [name for name, column in zip(names, columns, strict=True) if column.statistics is not None]
        options["write_statistics"] = with_statistics or False
        options["write_page_index"] = any(getattr(column, "has_offset_index", False) for column in columns)
    return options


def _stores_schema(pyarrow: Any) -> bool:
    """True if the writer has to write metadata from the schema, as before pyarrow 16; else the source's are copied."""
    return not hasattr(pyarrow.parquet.ParquetWriter, "add_key_value_metadata")


def _has_bytes(pyarrow: Any, kind: Any) -> bool:
    """True if a type has values that are bytes, which may be images."""
    types = pyarrow.types
    if types.is_struct(kind):
        return any(_has_bytes(pyarrow, field.type) for field in kind)
    if types.is_list(kind) or types.is_large_list(kind):
        return _has_bytes(pyarrow, kind.value_type)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _blocks(members: Iterator[Any]) -> Iterator[list[Any]]:
    while some := [*islice(members, _AT_ONCE)]:
        yield some


def _name_of(member: tarfile.TarInfo | zipfile.ZipInfo) -> str:
    return member.name if isinstance(member, tarfile.TarInfo) else member.filename


def _tar_members(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, bytes | None]]:
    for member in archive:
        file: IO[bytes] | None = archive.extractfile(member) if member.isreg() else None
        yield member, None if file is None else file.read()


def _zip_members(archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, bytes | None]]:
    for info in archive.infolist():
        yield info, None if info.is_dir() else archive.read(info)
