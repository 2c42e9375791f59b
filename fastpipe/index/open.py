"""Opens the images that a path names: class folders, images, a list, an archive, shards, Parquet, a URL, an index."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fastpipe.errors import DatasetError
from fastpipe.index import format
from fastpipe.index.archives import ENDINGS, archive_in
from fastpipe.index.cache import open_kept
from fastpipe.index.containers import ContainerSource
from fastpipe.index.extensions import IMG_EXTENSIONS, is_image_file
from fastpipe.index.folder_source import is_folder
from fastpipe.index.glob import expand_paths
from fastpipe.index.image_index import ImageIndex, folder_source
from fastpipe.index.index_source import DEFAULT_OPTIONS, BuildOptions, IndexSource
from fastpipe.index.list_source import ListSource, index_of_rows
from fastpipe.index.shard_source import ShardSource
from fastpipe.index.table_source import TableSource, holds_images
from fastpipe.paths import check_regular, is_url, local_path

__all__ = ["OTHER_EXTENSIONS", "Kind", "NamedImages", "loose_images", "named_container", "named_images"]

Kind = Literal["folders", "images", "list", "samples"]
"""Class folders; images without labels; a list of images and labels; samples in shards or Parquet files."""

OTHER_EXTENSIONS = (".gif", ".jfif", ".mpo")
"""Endings of images besides `IMG_EXTENSIONS`."""

_TABLES = (".parquet",)
_LISTS = (".txt", ".csv", ".tsv", *_TABLES)
_PATTERN = ("*", "?", "[", "{")


@dataclass(frozen=True)
class NamedImages:
    """The images that a path names."""

    kind: Kind
    load: Callable[[], ImageIndex]  # lists the images
    samples: ContainerSource | None = None  # the source, for shards or Parquet files

    @functools.cached_property
    def index(self) -> ImageIndex:
        """The images' index, listed at the first access."""
        return self.load()


def named_container(
    path: str | os.PathLike[str],
    *,
    image: str | None = None,
    label: str | None = None,
    location: str | os.PathLike[str] | None = "auto",
    options: BuildOptions = DEFAULT_OPTIONS,
) -> NamedImages | None:
    """Opens a zip or tar of class folders, shards, or Parquet files with a column of images.

    Args:
        path: the path of one of these, a pattern of shards or Parquet files, or a URL of any of these or of class
            folders.
        image, label: as in `ImageShards` and `ImageTable`; None for the default image, and for no labels.
        location: as in `ImageIndex.from_folder`.
        options: how the index is made.

    Returns:
        The images; None if the path is none of these.

    Raises:
        DatasetError: the container can't be used; the message names the member.
    """
    path, remote = local_path(path), is_url(path)
    pattern = any(mark in path for mark in _PATTERN) and (remote or not os.path.exists(path))
    listed = pattern and not remote and path.lower().endswith(ENDINGS + _TABLES)
    paths = expand_paths(path, "containers") if listed else (path,)
    first = paths[0]
    if first.lower().endswith(_TABLES):
        if not remote and not (os.path.isfile(first) and (image or holds_images(paths))):
            return None
        return _samples(TableSource.of(path, image or "image", label, options), location)
    archive = first.lower().endswith(ENDINGS) if remote else archive_in(first) is not None
    if not remote and not archive:
        return None
    if not (pattern or image or label):
        folders = _folders(folder_source(path, IMG_EXTENSIONS, options), location)
        with contextlib.suppress(FileNotFoundError):  # an archive without class folders is a shard
            if archive:
                _ = folders.index  # listed to see what is in it
            return folders
    return _samples(ShardSource.of(path, image, label, options), location)


def named_images(
    path: str | os.PathLike[str],
    options: BuildOptions = DEFAULT_OPTIONS,
    *,
    image: str | None = None,
    label: str | None = None,
) -> NamedImages:
    """Opens the images that a path names: a container (see `named_container`), a folder, an index, a list, an image.

    Raises:
        DatasetError: the path is none of these, or there is no image.
    """
    if (found := named_container(path, image=image, label=label, options=options)) is not None:
        return found
    path = local_path(path)
    if os.path.isfile(path):
        if _is_list(path):
            return NamedImages("list", ListSource(path=path, root="").index)
        return NamedImages("images", lambda: index_of_rows(([path], [0])))
    if not os.path.isdir(path):
        what = "a folder of images, a list of them, or an image file"
        try:
            check_regular(path)
        except FileNotFoundError:
            raise DatasetError(f"there is no {path or repr(path)}: give {what}.") from None
        except OSError as error:
            raise DatasetError(f"{path} can't be opened, {error.strerror}: give {what}.") from None
    with contextlib.suppress(format.UnusableIndex):  # a folder that is no index
        about = open_kept(Path(path)).identity
        root = about.get("root")
        if not root:
            raise DatasetError(f"the index at {path} is of a list: give the list itself.")
        if not os.path.isdir(root):
            raise DatasetError(f"the index at {path} is of containers in {root}: give these.")
        return _folders(folder_source(root, tuple(about["extensions"]), options), path)
    with os.scandir(path) as entries:
        has_folders = any(map(is_folder, entries))
    if has_folders and len((folders := _folders(folder_source(path, IMG_EXTENSIONS, options), "auto")).index):
        return folders
    if images := loose_images(path):
        return NamedImages("images", lambda: index_of_rows((images, [0] * len(images)), path))
    raise DatasetError(f"there is no image in {path}, neither in it nor in the folders in it.")


def _folders(source: IndexSource, location: str | os.PathLike[str] | None) -> NamedImages:
    return NamedImages("folders", lambda: ImageIndex.load_or_build(source, location))


def _samples(source: ContainerSource, location: str | os.PathLike[str] | None) -> NamedImages:
    return NamedImages("samples", lambda: ImageIndex.load_or_build(source, location), source)


def _is_list(file: str) -> bool:
    ending = os.path.splitext(file)[1].lower()
    if ending in (*_LISTS, *IMG_EXTENSIONS, *OTHER_EXTENSIONS):
        return ending in _LISTS
    with open(file, "rb") as content:  # every image file has a NUL near its beginning, and a list has none
        return b"\0" not in content.read(4096)


def loose_images(root: str) -> list[str]:
    """The names of the images directly in a folder; if it has class folders, no dataset reads them."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if is_image_file(entry.name) and not is_folder(entry))
