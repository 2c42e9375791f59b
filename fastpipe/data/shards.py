"""`ImageShards`: samples in tar files, as WebDataset writes them, with random access."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Any

from fastpipe.data.archives import Entry, entries, read_entry
from fastpipe.data.containers import ContainerSource, Listing, common_folder
from fastpipe.data.found import Paths, files_of, given_key
from fastpipe.data.image_list import ImageList
from fastpipe.data.keeping import kept_index
from fastpipe.data.listing import IMG_EXTENSIONS
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.sources import ByteSource, Cache
from fastpipe.sources.ranged import open_file

_ENDINGS = (".tar", ".zip")


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
        headers: keep each image's header in the index, too.
        cache: the `fastpipe.Cache` that keeps samples of a store on this machine; None for none.
        options: `ImageList`'s: ``seed=``, ``on_error=``, ``reader=`` and so on.

    Raises:
        DatasetError: no shard is found; one is compressed or damaged, or a sample has no label, or several images:
            names the shard and the member.
        OSError: a shard can't be opened.
    """

    def __init__(
        self,
        shards: Paths,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        *,
        image: str | None = None,
        label: str | None = "cls",
        index: str | os.PathLike[str] | None = "auto",
        headers: bool = False,
        cache: Cache | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(shards, (str, os.PathLike, ByteSource)):
            shards = list(shards)
        source = ShardSource.of(shards, image, label, headers, cache=cache)
        root = source.bytes_from or source.root
        super().__init__(kept_index(source, index), transform, target_transform, root=root, **options)


@dataclass(frozen=True)
class ShardSource(ContainerSource):
    """Shards, and which member is the image, and which the label."""

    label: str | None
    given: str

    @classmethod
    def of(
        cls,
        shards: Paths,
        image: str | None,
        label: str | None,
        headers: bool,
        refresh: bool = False,
        progress: bool = True,
        cache: Cache | None = None,
    ) -> ShardSource:
        """With `ImageShards`'s arguments."""
        paths = files_of(shards, "shards", _ENDINGS, cache)
        extensions = IMG_EXTENSIONS if image is None else ("." + image.lower().lstrip("."),)
        return cls(common_folder(paths), paths, extensions, headers, refresh, progress, label, given_key(shards))

    @property
    def about(self) -> dict[str, Any]:
        return {"kind": "shards", "label": self.label, "given": self.given}

    def listing(self, path: str) -> Listing:
        listing = Listing([], [], [], [])
        without: list[str] = []
        with open_file(path) as file:
            for key, members in _samples(path):
                self._add(listing, path, file, key, members, without)
        if without:
            warnings.warn(
                f"{path}: {len(without)} of its samples have no image and are left out, {without[0]} the first. "
                "Name the ending of the images with image=.",
                FastpipeWarning,
                stacklevel=2,
            )
        return listing

    def _add(
        self, listing: Listing, path: str, file: IO[bytes], key: str, members: dict[str, Entry], without: list[str]
    ) -> None:
        found = [ending for ending in members if "." + ending in self.extensions]
        if not found:
            without.append(key)
            return
        if len(found) > 1:
            raise DatasetError(
                f"{path}: the sample {key} has several images ({', '.join(found)}): say which with image={found[0]!r}."
            )
        entry = members[found[0]]
        if entry.problem:
            raise DatasetError(f"{path}: {entry.name} {entry.problem}.")
        listing.names.append(entry.name)
        listing.labels.append(self._label(path, file, key, members))
        listing.starts.append(entry.start)
        listing.sizes.append(entry.size)

    def _label(self, path: str, file: IO[bytes], key: str, members: dict[str, Entry]) -> str:
        if self.label is None:
            return "0"
        ending, _, field = self.label.partition(":")
        if ending not in members:
            raise DatasetError(
                f"{path}: the sample {key} has no .{ending}, only {', '.join('.' + name for name in members)}: say "
                "where labels are, as label='cls', label='json:label', or None for no labels."
            )
        entry = members[ending]
        data = read_entry(file, path, entry)
        try:
            label = json.loads(data)[field] if field else data.decode().strip()
        except (ValueError, LookupError, TypeError) as error:
            wanted = f"JSON with a field {field!r}" if field else "text"
            raise DatasetError(f"{path}: {entry.name} is no {wanted} ({type(error).__name__}: {error}).") from error
        if isinstance(label, bool) or not isinstance(label, (int, str)) or label == "":
            raise DatasetError(f"{path}: the label in {entry.name} is {label!r:.60}: neither an integer nor a name.")
        return str(label)


def _samples(path: str) -> Iterable[tuple[str, dict[str, Entry]]]:
    """Keys, and the members of each by their ending, as WebDataset groups neighbours."""
    key, members = "", dict[str, Entry]()
    for entry in entries(path):
        folder, _, name = entry.name.rpartition("/")
        stem, dot, ending = name.partition(".")
        if entry.start < 0 or not dot or not stem:  # folders, and files such as .DS_Store
            continue
        own = f"{folder}/{stem}" if folder else stem
        if own != key:
            if members:
                yield key, members
            key, members = own, {}
        if ending.lower() in members:
            raise DatasetError(f"{path}: {entry.name} is in it twice.")
        members[ending.lower()] = entry
    if members:
        yield key, members
