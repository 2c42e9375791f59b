"""`ImageShards` and `ImageTable`: images in tar files, as WebDataset writes them, and in Parquet files."""

from __future__ import annotations

import os

from fastpipe.datasets.base import SampleT
from fastpipe.datasets.image_list import ImageList
from fastpipe.datasets.options import ImageOptions, Unpack, with_options
from fastpipe.index.glob import Paths
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.index_source import BuildOptions
from fastpipe.index.shard_source import ShardSource
from fastpipe.index.table_source import TableSource
from fastpipe.sources import Cache
from fastpipe.types import Transform


class ImageShards(ImageList[SampleT]):
    """A map-style dataset over tar shards as WebDataset writes them: ``0001.jpg`` beside ``0001.cls`` or ``0001.json``.

    The members of a shard whose names are the same up to the first dot are one sample. Shards are listed once, into an
    index; then any sample is read at its offset: shuffling, sharding over ranks and resuming work as with files. A zip
    whose members aren't compressed is a shard as well.

    Args:
        shards: one path, several, a pattern (``"shards/*.tar"``), or WebDataset's ``"shards/{000..099}.tar"``; or URLs
            or patterns of URLs (``"s3://bucket/shards/*.tar"``) in one store; or a `fastpipe.ByteSource`, for all of
            its files that end in ``.tar`` or ``.zip``.
        transform: takes a PIL image (a fastpipe transform: is compiled).
        target_transform: takes the target.
        image: the ending of each sample's image (``"jpg"``, ``"left.png"``); None for its only member that is an image.
        label: where each sample's label is: ``"cls"``, the text of the member with that ending; ``"json:label"``, the
            field ``label`` of the member that ends in ``json``; None for the target 0 in all samples. Labels that are
            all integers, or all floats, are the targets; names are classes, as in a CSV file of `ImageList`.
        index: where the list of samples is kept between runs, as in `ImageFolder`. A shard that changed is listed
            again.
        cache: the `fastpipe.Cache` that keeps samples of a store on this machine; None for none.
        loader, reader, config, apply_exif, max_pixels, seed, threads: as in `ImageFolder`.
        on_error, bad_files_log, max_bad_fraction: as in `ImageFolder`.

    Raises:
        DatasetError: no shard is found, none of their samples can be read, or labels that are numbers are mixed with
            others; the message names the shard and the member. A sample without one image and a label is a bad sample,
            and so is all that follows where a shard is cut off or damaged.
        OSError: a shard can't be opened.
    """

    @with_options(ImageOptions)
    def __init__(
        self,
        shards: Paths,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
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


class ImageTable(ImageList[SampleT]):
    """A map-style dataset over Parquet files with a column of encoded images, as Hugging Face stores them.

    The files are scanned once, into an index of each image's offset; then any sample is read at its offset. If a column
    is compressed (the default of ``datasets``), its images are unpacked once, into fastpipe's cache folder; a warning
    says how many bytes it takes. ``pyarrow.parquet.write_table(…, compression="none")`` makes files that need no copy.

    Args:
        tables: paths of Parquet files: one, several, or a pattern such as ``"data/train-*.parquet"``; URLs and their
            patterns, or a `fastpipe.ByteSource`, as in `ImageShards`. In a store columns must not be compressed.
        transform: takes a PIL image (a fastpipe transform: is compiled).
        target_transform: takes the target.
        image: the column of the images: bytes, or a struct with a field ``bytes``, as `datasets.Image` has.
            A row without bytes is read from its ``path``, as `datasets` does: from the working folder, if it is
            relative. A row without both, or without a label, is a bad sample: see ``on_error``.
        label: the column of the labels: numbers are the targets, also as strings, other strings are class names; None
            for the target 0 in all samples. The names of a `datasets.ClassLabel` are the classes.
        index: where the list of samples is kept between runs, as in `ImageFolder`. A changed file is scanned again.
        cache: the `fastpipe.Cache` that keeps images of a store on this machine; None for none.
        loader, reader, config, apply_exif, max_pixels, seed, threads: as in `ImageFolder`.
        on_error, bad_files_log, max_bad_fraction: as in `ImageFolder`.

    Raises:
        DatasetError: pyarrow isn't installed, no file is found, a file is none of Parquet's, a column is missing or
            holds no images, no row can be read, or labels that are numbers are mixed with others; the message names
            the file and the row. The rows of a damaged row group are bad samples.
        OSError: a file can't be opened.
    """

    @with_options(ImageOptions)
    def __init__(
        self,
        tables: Paths,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
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
