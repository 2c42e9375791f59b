"""Indexes that are kept between runs: opened where they still hold, else built anew and written."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Any, Protocol

from fastpipe.errors import DatasetError
from fastpipe.index import format
from fastpipe.index.image_index import ImageIndex, not_kept_reason, opened_index, warn_not_kept
from fastpipe.paths import whole
from fastpipe.sources import ByteSource


class IndexSource(Protocol):
    """What an index can be made of: a folder, an archive, shards."""

    @property
    def root(self) -> str:
        """What the index's paths start from."""

    @property
    def bytes_from(self) -> ByteSource | None:
        """What has the files; None for this machine's file system."""

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this source's index from another's: ``root``, ``extensions``, and what else as JSON has it."""

    @property
    def refresh(self) -> bool:
        """Whether everything is to be looked at again, whatever is kept."""

    def look(self, index: ImageIndex) -> tuple[Any, str]:
        """What of an index that was kept still holds, for `build`, and why it won't do; no reason where it does."""

    def build(self, old: ImageIndex | None, unchanged: Any, reason: str) -> ImageIndex:
        """A new index, or `old` itself where it turns out to hold."""


def load_or_build(source: IndexSource, location: str | os.PathLike[str] | None) -> ImageIndex:
    """The index of a source as it is now, kept at a location, ``"auto"`` for the user's cache folder; None in memory.

    Raises:
        DatasetError: it can't be kept at the location that was given.
    """
    if location is None:
        return source.build(None, None, "kept nowhere")
    if isinstance(location, str) and location == "auto":
        try:
            default = _default_location(source.identity)
        except FileNotFoundError as error:
            warn_not_kept(None, error)
            return source.build(None, None, "kept nowhere")
        return _kept(source, default, required=False)
    folder = Path(whole(location))
    format.refuse_foreign_folder(folder)
    return _kept(source, folder, required=True)


def _default_location(identity: dict[str, Any]) -> Path:
    root, extensions, *others = identity.values()
    parts = [root, *extensions, *map(repr, others)]
    key = hashlib.sha256(os.fsencode("\0".join(parts))).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9_-]", "_", os.path.basename(root))[:40]
    return format.cache_folder() / "folders" / f"{name}-{key}"


def _look(source: IndexSource, location: Path) -> tuple[ImageIndex | None, Any, str]:
    """What can be used of a location: the index, what is unchanged in it, and why it won't do.

    Without a reason it will do as it is.
    """
    try:
        name = format.current_generation(location)
        identity = format.identity_of(location, name)
        if identity != source.identity:
            return None, None, f"what was there is of {identity['root']} and {', '.join(identity['extensions'])}"
        index = opened_index(location, source.root, "opened", name, source.bytes_from)
    except format.UnusableIndex as error:
        return None, None, str(error)
    if source.refresh:
        damage = index.damaged_arrays()
        return None, None, f"damaged: {', '.join(damage)}" if damage else "asked to look at everything again"
    return index, *source.look(index)


def _kept(source: IndexSource, location: Path, *, required: bool) -> ImageIndex:
    """The index at a location, brought up to date there."""
    index, unchanged, reason = _look(source, location)
    if index is not None and not reason:
        return index
    with contextlib.ExitStack() as stack:
        problem: Exception | None = None
        try:
            stack.enter_context(format.locked(location))
        except OSError as error:
            problem = error
        else:
            if not source.refresh:
                index, unchanged, reason = _look(source, location)  # another process may have done it meanwhile
                if index is not None and not reason:
                    return index
        built = source.build(index, unchanged, reason)
        if built is index:
            return built
        if problem is None:
            try:
                about = {**built._about(), **format.identity_header(source.identity)}
                generation = format.write(location, built.table.arrays(), about)
                return opened_index(location, source.root, built.origin, generation, source.bytes_from)
            except (OSError, format.UnusableIndex) as error:
                problem = error
    if required:
        reason = not_kept_reason(location, problem, built)
        raise DatasetError(f"the index can't be kept at {location}: {reason}") from problem
    warn_not_kept(location, not_kept_reason(location, problem, built))
    return built
