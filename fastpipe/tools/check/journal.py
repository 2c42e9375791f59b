"""The results of a check so far, on disk, so that a check that was killed goes on from there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import warnings
from typing import Any

from fastpipe.errors import FastpipeWarning
from fastpipe.index.format import cache_folder
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.journal import Journal
from fastpipe.tools.check.findings import KINDS, FileFacts, bits_of

_FOLDER = "checks"
_KEPT_S = 30 * 24 * 3600.0

_NOT_TRUSTED = bits_of(["unreachable", "hang", "crash"])
"""Findings that may have had their reason elsewhere than in the file: looked at again."""


def open_journal(index: ImageIndex, about: dict[str, Any], anew: bool) -> Journal:
    """The journal of one check, in the cache folder; warns where it can't be kept.

    Args:
        index: the files.
        about: what the results depend on: those of a check with other values aren't used.
        anew: forget what an interrupted check has left.
    """
    # A folder's check goes on although files were added or moved away; a list is known by its content.
    is_folder = index.table.folder_paths is not None and index.source is None
    paths = "" if is_folder else hashlib.sha256(index.table.paths.data).hexdigest()
    with contextlib.suppress(OSError):
        for file in (cache_folder() / _FOLDER).iterdir():  # of checks that nobody went on with, and their locks
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < time.time() - _KEPT_S:
                    file.unlink()
    place = os.path.abspath(index.root) if is_folder else index.root
    journal = Journal(_FOLDER, repr((place, paths, about, KINDS)), anew, _KEPT_S)
    if journal.problem:
        warnings.warn(
            f"this check can't be continued if it is interrupted: its journal can't be kept ({journal.problem})",
            FastpipeWarning,
            stacklevel=3,
        )
    return journal


def known(journal: Journal, path: str) -> FileFacts | None:
    """The result of an earlier check for a file; None if there is none."""
    found = journal.get(_key(path))
    return None if found is None else FileFacts(*found)


def note(journal: Journal, path: str, seen: FileFacts) -> None:
    """Keeps a file's result, if it is the file's alone."""
    if not seen.bits & _NOT_TRUSTED:
        journal.put(_key(path), seen)


def _key(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")
