"""Indexes that are kept between runs: opened if they are still valid, else built again and written."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.index import format
from fastpipe.index.index_source import IndexSource
from fastpipe.index.pieces import Parts
from fastpipe.index.table import Listing, Table
from fastpipe.paths import absolute_path


@dataclass(frozen=True, slots=True)
class KeptIndex:
    """A listing and the place where it is kept."""

    listing: Listing  # the files; mapped from disk, or in memory
    origin: str  # ``"opened"``, or ``"built: "`` and the reason
    location: Path | None = None  # the folder on disk; None in memory
    generation: str = ""  # name of the generation in that folder
    # the identity of the `IndexSource` that it was made from; empty if there is none
    identity: format.JsonObject = field(default_factory=dict)


def open_kept(location: Path, generation: str | None = None) -> KeptIndex:
    """Opens the index at a location, its current generation or a given one; raises UnusableIndex."""
    generation = generation or format.last_generation(location)
    header, arrays = format.read(location, generation)
    try:
        listing = Listing(Table(**arrays), header["classes"], header["class_values"], header["rooted"])
    except (TypeError, KeyError) as error:
        raise format.UnusableIndex(f"something is missing: {error}") from None
    if listing.table.offsets[-1] != listing.table.paths.size:
        raise format.UnusableIndex("the offsets don't fit the paths")
    return KeptIndex(listing, "opened", location, generation, header.get("identity") or {})


def load_or_build(source: IndexSource, location: str | os.PathLike[str] | None) -> KeptIndex:
    """The index of a source as it is now, opened from its location or built and written there.

    Raises:
        DatasetError: the index can't be written to the given location.
    """
    if location is None:
        return KeptIndex(source.list_files({}), "built: kept nowhere")
    if isinstance(location, str) and location == "auto":
        try:
            default = _default_location(source)
        except FileNotFoundError as error:
            warn_not_kept("the index", None, error)
            return KeptIndex(source.list_files({}), "built: kept nowhere")
        return _kept(source, default, required=False)
    folder = Path(absolute_path(location))
    format.refuse_foreign_folder(folder)
    return _kept(source, folder, required=True)


@dataclass(frozen=True, kw_only=True)
class GivenFiles(IndexSource):
    """Files listed by other code; the index's name is a digest of its content, so it is never out of date."""

    listing: Listing

    kind = "lists"

    @functools.cached_property
    def identity(self) -> dict[str, object]:
        digest = hashlib.sha256(repr(self.listing.header()).encode("ascii", "backslashreplace"))
        for name, array in self.listing.table.arrays():
            digest.update(name.encode())
            digest.update(format.bytes_of(array))
        return {"root": "", "extensions": [], "content": digest.hexdigest()}

    def find_unchanged(self, kept: Listing, confirmed_ns: int) -> tuple[Parts, str]:
        return {}, ""

    def list_files(self, known: Parts) -> Listing:
        return self.listing


def _default_location(source: IndexSource) -> Path:
    identity = source.identity
    key = hashlib.sha256(json.dumps(identity).encode("ascii")).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9_-]", "_", os.path.basename(str(identity["root"])))[:40]
    return format.cache_folder() / source.kind / f"{name}-{key}"


def _open_and_compare(source: IndexSource, location: Path) -> tuple[KeptIndex | None, Parts, str]:
    """Opens a kept index; returns it, its parts that are still valid, and why it can't be used (``""`` if it can)."""
    try:
        kept = open_kept(location)
        confirmed_ns = format.confirmed_ns(location, kept.generation)
    except (format.UnusableIndex, FileNotFoundError) as error:
        return None, {}, str(error)
    if kept.identity != source.identity:
        return None, {}, f"the index there is of {kept.identity}"
    if source.options.refresh:
        return None, {}, "asked to look at everything again"
    return kept, *source.find_unchanged(kept.listing, confirmed_ns)


def _kept(source: IndexSource, location: Path, *, required: bool) -> KeptIndex:
    """Opens the index at a location, and updates it there if it is out of date."""
    kept, known, reason = _open_and_compare(source, location)
    if kept is not None and not reason:
        return kept
    with contextlib.ExitStack() as stack:
        problem: Exception | None = None
        try:
            stack.enter_context(format.locked(location))
        except OSError as error:
            problem = error
        else:
            if not source.options.refresh:  # another process may have updated it meanwhile
                kept, known, reason = _open_and_compare(source, location)
                if kept is not None and not reason:
                    return kept
        if (
            kept is not None and kept.listing.table.sizes is not None
        ):  # a kept index that has sizes is rebuilt with sizes
            source = replace(source, options=replace(source.options, sizes=True))
        listing = source.list_files(known)
        if kept is not None and listing.equals(kept.listing):
            format.confirm(location, kept.generation)  # so that processes that wait for the lock see it
            return kept
        origin = f"built: {reason}"
        if problem is None:
            try:
                about = {**listing.header(), "identity": source.identity}
                generation = format.write(location, listing.table.arrays(), about)
                return replace(open_kept(location, generation), origin=origin)
            except (OSError, format.UnusableIndex) as error:
                problem = error
    if required:
        raise DatasetError(f"the index can't be kept at {location}: {problem}") from problem
    warn_not_kept("the index", location, problem)
    return KeptIndex(listing, origin)


def warn_not_kept(what: str, location: Path | None, problem: object) -> None:
    """Warns that an index, or a table kept like one, can't be written to the cache folder."""
    at = "" if location is None else f" at {location}"
    warnings.warn(
        f"{what} can't be kept{at}, so it stays in memory and workers get copies: {problem}. "
        "Set FASTPIPE_CACHE to a folder that can be written.",
        FastpipeWarning,
        stacklevel=5,
    )
