"""What a path on the command line names where that is no folder and no list: an archive, shards, Parquet, a URL."""

from __future__ import annotations

import contextlib
import os

from fastpipe.data.archives import archive_in
from fastpipe.data.found import files_of
from fastpipe.data.image_table import TableSource, holds_images
from fastpipe.data.index import ImageIndex
from fastpipe.data.keeping import kept_index
from fastpipe.data.shards import ShardSource
from fastpipe.sources.remote import is_url

_PATTERN = ("*", "?", "[", "{")


def open_container(
    path: str,
    *,
    image: str | None = None,
    label: str | None = None,
    location: str | os.PathLike[str] | None = "auto",
    headers: bool = False,
    refresh: bool = False,
    progress: bool = True,
) -> ImageIndex | None:
    """The index of a zip or tar of class folders, of shards, or of Parquet files with a column of images.

    Args:
        path: one of these, or a pattern of shards or Parquet files. Or a URL of any of these, or of class folders.
        image, label: as in `ImageShards` and `ImageTable`; None for the usual image, and for no labels.
        location, headers, refresh, progress: as in `ImageIndex.from_folder`.

    Returns:
        None where it is none of these.

    Raises:
        DatasetError: it can't be used: names the member.
    """
    if is_url(path):
        return _in_store(path, image, label, location, headers, refresh, progress)
    pattern = not os.path.exists(path) and any(mark in path for mark in _PATTERN)
    first = files_of(path, "containers")[0] if pattern and path.lower().endswith((".tar", ".zip", ".parquet")) else path
    if first.lower().endswith(".parquet"):
        if not os.path.isfile(first) or not (image or holds_images(first)):
            return None
        return kept_index(TableSource.of(path, image or "image", label, headers, refresh, progress), location)
    if archive_in(first) is None:
        return None
    if label is None and image is None and not pattern:
        try:
            return ImageIndex.from_folder(path, location=location, headers=headers, refresh=refresh, progress=progress)
        except FileNotFoundError:  # no class folder
            pass
    return kept_index(ShardSource.of(path, image, label, headers, refresh, progress), location)


def _in_store(
    url: str,
    image: str | None,
    label: str | None,
    location: str | os.PathLike[str] | None,
    headers: bool,
    refresh: bool,
    progress: bool,
) -> ImageIndex:
    lower = url.lower()
    if lower.endswith(".parquet"):
        return kept_index(TableSource.of(url, image or "image", label, headers, refresh, progress), location)
    several = any(mark in url for mark in _PATTERN)
    if not (several or image or label):
        with contextlib.suppress(FileNotFoundError) if lower.endswith((".tar", ".zip")) else contextlib.nullcontext():
            return ImageIndex.from_folder(url, location=location, headers=headers, refresh=refresh, progress=progress)
    return kept_index(ShardSource.of(url, image, label, headers, refresh, progress), location)
