"""`ImageShards` and `ImageTable`: images in tar files, as WebDataset writes them, and in Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable

from fastpipe.datasets.image_list import ImageList
from fastpipe.datasets.options import ImageOptions, Unpack, with_options
from fastpipe.index.glob import Paths
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.index_source import BuildOptions
from fastpipe.index.shard_source import ShardSource
from fastpipe.index.table_source import TableSource
from fastpipe.sources import Cache


class ImageShards(ImageList):
    """A map-style dataset over tar shards as WebDataset writes them: ``0001.jpg`` beside ``0001.cls`` or ``0001.json``.

    The members of a shard whose names are the same up to the first dot are one sample. Shards are listed once, into an
    index; then any sample is read by its place, so that shuffling, sharding over ranks and resuming work as with files.
    A zip with members that are stored as they are is a shard as well.

    Args:
        shards: their paths: one, several, a pattern (``"shards/*.tar"``), or WebDataset's ``"shards/{000..099}.tar"``.
            URLs and their patterns as well (``"s3://bucket/shards/*.tar"``), of one store; or a `fastpipe.ByteSource`,
            for all of its files that end in ``.tar`` or ``.zip``. Samples are read from there by their place.
        transform: takes a PIL image (a fastpipe transform: is compiled).
        target_transform: takes the target.
        image: the ending of each sample's image (``"jpg"``, ``"left.png"``); None for the one that is an image.
        label: where each sample's label is: ``"cls"``, a member with that ending, whose text is the label;
            ``"json:label"``, the field ``label`` of the member that ends in ``json``; None gives all of them 0. Labels
            that are all integers are the targets as they stand; others are class names, as in `ImageList`.
        index: where the list of samples is kept between runs, as in `ImageFolder`. A shard that changed is listed
            again.
        cache: the `fastpipe.Cache` that keeps samples of a store on this machine; None for none.
        loader, reader, config, apply_exif, max_pixels, seed, threads: as in `ImageFolder`.
        on_error, bad_files_log, max_bad_fraction: as in `ImageFolder`.

    Raises:
        DatasetError: no shard is found; one is compressed or damaged, or a sample has no label, or several images:
            names the shard and the member.
        OSError: a shard can't be opened.
    """

    @with_options(ImageOptions)
    def __init__(
        self,
        shards: Paths,
        transform: Callable[..., object] | None = None,
        target_transform: Callable[..., object] | None = None,
        *,
        image: str | None = None,
        label: str | None = "cls",
        index: str | os.PathLike[str] | None = "auto",
        cache: Cache | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        source = ShardSource.of(shards, image, label, BuildOptions(), cache)
        root = source.bytes_from or source.root
        super().__init__(ImageIndex.load_or_build(source, index), transform, target_transform, root=root, **options)


class ImageTable(ImageList):
    """A map-style dataset over Parquet files with a column of encoded images, as Hugging Face stores them.

    The files are gone through once, into an index that says where each image's bytes are; then any sample is read by
    its place. Where a column is compressed (as ``datasets`` writes it unless told otherwise), its images are unpacked
    once, into fastpipe's cache folder: a warning says so, and how many bytes. ``pyarrow.parquet.write_table(…,
    compression="none")`` makes files that need no such copy.

    Args:
        tables: paths of Parquet files: one, several, or a pattern such as ``"data/train-*.parquet"``; URLs and their
            patterns, or a `fastpipe.ByteSource`, as in `ImageShards`. In a store columns must not be compressed.
        transform: takes a PIL image (a fastpipe transform: is compiled).
        target_transform: takes the target.
        image: the column of the images: bytes, or a struct with a field ``bytes`` as of `datasets.Image`.
        label: the column of the labels: integers are the targets as they stand, strings are class names; None gives all
            of them 0. The names of a `datasets.ClassLabel` are the classes.
        index: where the list of samples is kept between runs, as in `ImageFolder`. A file that changed is gone through
            again.
        cache: the `fastpipe.Cache` that keeps images of a store on this machine; None for none.
        loader, reader, config, apply_exif, max_pixels, seed, threads: as in `ImageFolder`.
        on_error, bad_files_log, max_bad_fraction: as in `ImageFolder`.

    Raises:
        DatasetError: pyarrow isn't installed, no file is found, a column is missing or no image, or a file is damaged:
            names the file and the row.
        OSError: a file can't be opened.
    """

    @with_options(ImageOptions)
    def __init__(
        self,
        tables: Paths,
        transform: Callable[..., object] | None = None,
        target_transform: Callable[..., object] | None = None,
        *,
        image: str = "image",
        label: str | None = "label",
        index: str | os.PathLike[str] | None = "auto",
        cache: Cache | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        source = TableSource.of(tables, image, label, BuildOptions(), cache)
        root = source.bytes_from or source.root
        super().__init__(ImageIndex.load_or_build(source, index), transform, target_transform, root=root, **options)
