"""Indexes that are kept between runs: opened where they still hold, else built anew and written."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import warnings
from pathlib import Path
from typing import Any

from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.index import format
from fastpipe.index.index_source import IndexSource
from fastpipe.index.indexed_files import IndexedFiles, open_index
from fastpipe.index.parts import KnownParts
from fastpipe.paths import absolute_path

_SMALL = 1 << 16  # bytes


def load_or_build(source: IndexSource, location: str | os.PathLike[str] | None) -> IndexedFiles:
    """The index of a source as it is now, kept at a location, ``"auto"`` for the user's cache folder; None in memory.

    Raises:
        DatasetError: it can't be kept at the location that was given.
    """
    if location is None:
        return source.build(None, "kept nowhere")
    if isinstance(location, str) and location == "auto":
        try:
            default = _default_location(source.identity)
        except FileNotFoundError as error:
            _warn_not_kept(None, error)
            return source.build(None, "kept nowhere")
        return _kept(source, default, required=False)
    folder = Path(absolute_path(location))
    format.refuse_foreign_folder(folder)
    return _kept(source, folder, required=True)


def keep_if_large(files: IndexedFiles) -> IndexedFiles:
    """The files mapped from the cache folder, if they are many; small ones stay in memory.

    They are kept under a name made from their content, so that it can't be out of date; equal ones are kept once.
    """
    if files.table.nbytes <= _SMALL:
        return files
    digest = hashlib.sha256(repr(sorted(files.header().items())).encode("ascii", "backslashreplace"))
    for name, array in files.table.arrays():
        digest.update(name.encode())
        digest.update(format.bytes_of(array))
    location: Path | None = None
    try:
        location = format.cache_folder() / "lists" / digest.hexdigest()[:32]
        with contextlib.suppress(format.UnusableIndex):
            return open_index(location, files.root, "opened", source=files.source)
        with format.locked(location):
            format.write(location, files.table.arrays(), files.header())
        return open_index(location, files.root, "built", source=files.source)
    except (OSError, format.UnusableIndex) as error:
        _warn_not_kept(location, error)
        return files


def _default_location(identity: dict[str, Any]) -> Path:
    root, extensions, *others = identity.values()
    parts = [root, *extensions, *map(repr, others)]
    key = hashlib.sha256(os.fsencode("\0".join(parts))).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9_-]", "_", os.path.basename(root))[:40]
    return format.cache_folder() / "folders" / f"{name}-{key}"


def _open_and_compare(source: IndexSource, location: Path) -> tuple[IndexedFiles | None, KnownParts | None, str]:
    """Opens the index at a location: the index, its unchanged parts, and why it won't do (``""`` if it does)."""
    try:
        index = open_index(location, source.root, "opened", source=source.bytes_from)
    except format.UnusableIndex as error:
        return None, None, str(error)
    if index.identity != source.identity:
        return None, None, f"what was there is of {index.identity}"
    if source.options.refresh:
        damage = index.damaged_arrays()
        return None, None, f"damaged: {', '.join(damage)}" if damage else "asked to look at everything again"
    return index, *source.find_unchanged(index)


def _kept(source: IndexSource, location: Path, *, required: bool) -> IndexedFiles:
    """The index at a location, brought up to date there."""
    index, known, reason = _open_and_compare(source, location)
    if index is not None and not reason:
        return index
    with contextlib.ExitStack() as stack:
        problem: Exception | None = None
        try:
            stack.enter_context(format.locked(location))
        except OSError as error:
            problem = error
        else:
            if not source.options.refresh:  # another process may have done it meanwhile
                index, known, reason = _open_and_compare(source, location)
                if index is not None and not reason:
                    return index
        built = source.build(known, reason)
        if built is index:
            format.confirm(location, built.generation)  # so that whoever waited meanwhile sees it
            return built
        if problem is None:
            try:
                about = {**built.header(), "identity": source.identity}
                generation = format.write(location, built.table.arrays(), about)
                return open_index(location, source.root, built.origin, generation, source.bytes_from)
            except (OSError, format.UnusableIndex) as error:
                problem = error
    if required:
        raise DatasetError(f"the index can't be kept at {location}: {problem}") from problem
    _warn_not_kept(location, problem)
    return built


def _warn_not_kept(location: Path | None, problem: object) -> None:
    at = "" if location is None else f" at {location}"
    warnings.warn(
        f"the index can't be kept{at}, so it stays in memory and workers get copies: {problem}. "
        "Set FASTPIPE_CACHE to a folder that can be written.",
        FastpipeWarning,
        stacklevel=5,
    )
