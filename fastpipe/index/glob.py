"""Expands paths, patterns and URLs of containers."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
from collections.abc import Iterable

from fastpipe.errors import DatasetError
from fastpipe.paths import absolute_path, is_url, local_path
from fastpipe.sources import ByteSource, Cache, RemoteSource, source_of
from fastpipe.types import RemoteFile

Paths = str | os.PathLike[str] | ByteSource | Iterable[str | os.PathLike[str]]

_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}")
_WILD = re.compile(r"[*?\[]")


def expand_paths(given: Paths, what: str, endings: tuple[str, ...] = (), cache: Cache | None = None) -> tuple[str, ...]:
    """The absolute paths of the files that paths and patterns name, in the given order; a pattern's files are sorted.

    A source stands for all its files with one of the lower-case `endings`. URLs must be of one store; `cache` keeps its
    files. `what` names the files in errors.

    Raises:
        DatasetError: there is no such file.
    """
    if isinstance(given, ByteSource):
        source = source_of(given, cache)
        assert source is not None
        entries = sorted(entry for entry in source.list() if entry.key.lower().endswith(endings))
        if not entries:
            raise DatasetError(
                f"there are no {what} in {source.name}: none of its files ends in {' or '.join(endings)}."
            )
        return tuple(source.file(entry) for entry in entries)
    patterns = [pattern for one in path_list(given) for pattern in _spelled_out(one)]
    if not patterns:
        raise DatasetError(f"no {what} are given.")
    if all(is_url(pattern) for pattern in patterns):
        return _remote(patterns, what, cache)
    if cache is not None:
        source_of(patterns[0], cache)  # raises the error
    names: list[str] = []
    for pattern in patterns:
        some = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
        if not some:
            raise DatasetError(f"there is no {pattern}: give the paths of {what}, or a pattern that finds some.")
        names += some
    return tuple(dict.fromkeys(os.path.abspath(name) for name in names))


def path_list(given: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Converts one path or several to a list of str."""
    several = given if isinstance(given, Iterable) and not isinstance(given, (str, os.PathLike)) else [given]
    return [local_path(one) for one in several]


def paths_digest(given: Paths) -> str:
    """A digest of the paths and patterns as given, not of the files that a pattern matches."""
    if isinstance(given, ByteSource):
        return hashlib.sha256(given.identity.encode()).hexdigest()[:16]
    names = "\0".join(one if is_url(one) else absolute_path(one) for one in path_list(given))
    return hashlib.sha256(os.fsencode(names)).hexdigest()[:16]


def _remote(patterns: list[str], what: str, cache: Cache | None) -> tuple[str, ...]:
    """The files that URLs and patterns of URLs name, all in one store."""
    starts = [_WILD.split(pattern, maxsplit=1)[0].rpartition("/")[0] for pattern in patterns]
    base = os.path.commonpath(starts).replace(os.sep, "/") if len(set(starts)) > 1 else starts[0]
    base = base.replace(":/", "://", 1) if "://" not in base else base
    if "://" not in base or not all(f"{start}/".startswith(f"{base}/") for start in starts):
        raise DatasetError(f"{what} of several stores can't be read as one dataset: {patterns[0]}, {patterns[-1]}.")
    source = source_of(RemoteSource(base), cache)
    assert source is not None
    files: list[RemoteFile] = []
    entries = None
    for pattern in patterns:
        key = pattern[len(base) + 1 :]
        if not _WILD.search(key):
            files.append(source.file(source.entry(key)))
            continue
        entries = sorted(source.list()) if entries is None else entries
        some = [source.file(entry) for entry in entries if _matches(entry.key, key)]
        if not some:
            raise DatasetError(f"there is no {pattern}: give the URLs of {what}, or a pattern that finds some.")
        files += some
    return tuple(dict.fromkeys(files))


def _matches(key: str, pattern: str) -> bool:
    """True if a key matches a pattern, in which ``*`` doesn't match ``/``."""
    parts, wanted = key.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _spelled_out(pattern: str) -> list[str]:
    """Expands ranges in braces as shells do: ``"{08..10}.tar"`` to 08.tar, 09.tar and 10.tar."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    first, last = braces.groups()
    numbers = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    start, end = pattern[: braces.start()], pattern[braces.end() :]
    return [whole for number in numbers for whole in _spelled_out(start + number + end)]
