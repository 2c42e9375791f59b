"""Lists tar shards as WebDataset writes them, with each sample's offset."""

from __future__ import annotations

import itertools
import json
import posixpath
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from fastpipe.counts import pluralize
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.index import bad_rows
from fastpipe.index.archives import ENDINGS, Member, check_member, list_members, read_member
from fastpipe.index.containers import ContainerListing, ContainerSource, label_text
from fastpipe.index.extensions import IMG_EXTENSIONS
from fastpipe.index.glob import Paths
from fastpipe.index.index_source import BuildOptions
from fastpipe.sources import Cache
from fastpipe.sources.ranged import open_seekable


@dataclass(frozen=True, kw_only=True)
class ShardSource(ContainerSource):
    """Shards, with the endings of the members that are image and label."""

    label: str | None

    @classmethod
    def of(
        cls,
        shards: Paths,
        image: str | None,
        label: str | None,
        options: BuildOptions,
        cache: Cache | None = None,
    ) -> ShardSource:
        """Makes the source from the arguments of `ImageShards`."""
        for name, value in {"image": image, "label": label}.items():
            if not (value is None or isinstance(value, str)):
                raise DatasetError(f"{name}={value!r}: give the ending of a sample's member as a str, or None.")
        extensions = IMG_EXTENSIONS if image is None else ("." + image.lower().lstrip("."),)
        return cls.over(shards, "shards", ENDINGS, options, cache, extensions=extensions, label=label)

    @property
    def identity(self) -> dict[str, object]:
        return super().identity | {"kind": "shards", "numbers": True, "label": self.label, "given": self.given}

    def listing(self, path: str) -> ContainerListing:
        listing = ContainerListing.empty()
        without: list[str] = []
        with open_seekable(path) as file:
            samples, key = _samples(path), ""
            while True:
                try:
                    key, members = next(samples)
                except StopIteration:
                    break
                except DatasetError as error:  # the rest of the shard can't be listed
                    usable = sum(start >= 0 for start in listing.starts)
                    _warn(f"{error} {pluralize(usable, 'sample')} before that can be used.")
                    listing.add_bad(f"what follows {key or 'its beginning'}", None, bad_rows.DAMAGED, str(error))
                    break
                place, name, label = bad_rows.SEVERAL_IMAGES, key, None
                try:
                    image = self._image(path, key, members)
                    if image is None:
                        without.append(key)
                        continue
                    place, name = bad_rows.NO_LABEL, image.name
                    label = self._label(path, file, key, members)
                    place = bad_rows.NO_MEMBER
                    check_member(path, image)
                    listing.add(name, label, image.start, image.size)
                except DatasetError as error:  # of this sample alone, unless all have one
                    listing.add_bad(name, label, place, str(error))
        if without:
            _warn(
                f"{path}: {pluralize(len(without), 'sample')} without an image left out, {without[0]} the first. "
                "Name the ending of the images with image=."
            )
        return listing

    def _image(self, path: str, key: str, members: dict[str, Member]) -> Member | None:
        endings = [ending for ending in members if "." + ending in self.extensions]
        if len(endings) > 1:
            raise DatasetError(
                f"{path}: the sample {key} has several images ({', '.join(endings)}): say which with "
                f"image={endings[0]!r}."
            )
        return members[endings[0]] if endings else None

    def _label(self, path: str, file: IO[bytes], key: str, members: dict[str, Member]) -> str:
        if self.label is None:
            return "0"
        ending, _, field = self.label.partition(":")
        if ending not in members:
            raise DatasetError(
                f"{path}: the sample {key} has no .{ending}, only {', '.join('.' + name for name in members)}: say "
                "where labels are, as label='cls', label='json:label', or None for no labels."
            )
        member = members[ending]
        data = read_member(file, path, member)
        try:
            label = json.loads(data)[field] if field else data.decode().strip()
        except (ValueError, LookupError, TypeError) as error:  # no text, no JSON, no object, or no such field
            wanted = f"JSON with a field {field!r}" if field else "text"
            raise DatasetError(f"{path}: {member.name} is no {wanted} ({type(error).__name__}: {error}).") from error
        text = label_text(label, f"{path}: the label in {member.name}")
        if text is None:
            raise DatasetError(f"{path}: the label in {member.name} is empty.")
        return text


def _warn(text: str) -> None:
    warnings.warn(text, FastpipeWarning, stacklevel=3)


def _samples(path: str) -> Iterator[tuple[str, dict[str, Member]]]:
    """Yields each sample's key, and its members by ending; groups neighbours as WebDataset does.

    If the shard is damaged, raises the error behind the samples before the damage.
    """
    damage: list[DatasetError] = []

    def members_before() -> Iterator[Member]:
        try:
            yield from list_members(path)
        except DatasetError as error:
            damage.append(error)

    # Folders, and files such as .DS_Store, belong to no sample.
    files = (
        member for member in members_before() if member.start >= 0 and posixpath.basename(member.name).find(".") > 0
    )
    for key, some in itertools.groupby(files, lambda member: key_and_ending(member.name)[0]):
        members: dict[str, Member] = {}
        for member in some:
            ending = key_and_ending(member.name)[1]
            if ending in members:  # which one is meant?
                member = member._replace(problem="occurs twice")
            members[ending] = member
        yield key, members
    if damage:
        raise damage[0]


def key_and_ending(name: str) -> tuple[str, str]:
    """A member's sample and its lower-case ending: ``("a/0001", "left.jpg")`` for ``"a/0001.left.JPG"``."""
    folder, slash, base = name.rpartition("/")
    stem, _, ending = base.partition(".")
    return folder + slash + stem, ending.lower()
