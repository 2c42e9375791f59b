"""`ImageTable`: images in a column of Parquet files, as Hugging Face stores them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.image_list import ImageList
from fastpipe.datasets.options import ImageOptions, Unpack, with_options
from fastpipe.index.glob import Paths
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.index_source import BuildOptions
from fastpipe.index.table_source import TableSource
from fastpipe.sources import ByteSource, Cache


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
        headers: keep each image's header in the index, too.
        cache: the `fastpipe.Cache` that keeps images of a store on this machine; None for none.
        options: `ImageList`'s: ``seed=``, ``on_error=``, ``reader=`` and so on.

    Raises:
        DatasetError: pyarrow isn't installed, no file is found, a column is missing or no image, or a file is damaged:
            names the file and the row.
        OSError: a file can't be opened.
    """

    @with_options(ImageOptions, ImageDataset.__init__)
    def __init__(
        self,
        tables: Paths,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        *,
        image: str = "image",
        label: str | None = "label",
        index: str | os.PathLike[str] | None = "auto",
        headers: bool = False,
        cache: Cache | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        if not isinstance(tables, (str, os.PathLike, ByteSource)):
            tables = list(tables)
        source = TableSource.of(tables, image, label, BuildOptions(headers=headers), cache)
        root = source.bytes_from or source.root
        super().__init__(ImageIndex.load_or_build(source, index), transform, target_transform, root=root, **options)
