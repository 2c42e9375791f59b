"""Sources and targets with all files under their own names, so that the target stands in for the source."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fastpipe.arguments import check_path
from fastpipe.atomic_write import atomic_write
from fastpipe.errors import ConfigError, DatasetError
from fastpipe.index.containers import common_folder
from fastpipe.index.glob import expand_paths
from fastpipe.packing.containers import is_container
from fastpipe.packing.items import Item
from fastpipe.packing.names import Ending
from fastpipe.packing.record import NAME
from fastpipe.packing.source import PackSource
from fastpipe.packing.target import Target
from fastpipe.paths import absolute_path, is_url, local_path, shell_quoted

NO_FILE = "neither a file nor a folder, such as a link to nothing"
"""The things in a folder that aren't copied, in words for the report."""

_README = """This is a packed copy of {source}, made by fastpipe pack --keep-names (torch-fastpipe).

Its JPEGs lie under their own names, but their bytes are fastpipe's packed images, which begin with
89 46 50 4A 0D 0A 1A 0A. Without fastpipe no program can read them. Under it scripts read them as the JPEGs:

    fastpipe run train.py

All other files are copies. This restores the JPEGs:

    fastpipe unpack {target} FOLDER --keep-names
"""


@dataclass(frozen=True)
class WholeSource(PackSource):
    """A folder with all of its files, or some archives and Parquet files.

    Attributes:
        root: the folder.
        paths: the files; None for all files in the folder.
        renamed: the only file's name in the target; ``""`` for its own.
    """

    root: str = ""
    paths: tuple[str, ...] | None = None
    renamed: str = ""

    @property
    def expected(self) -> int:
        return 0

    @property
    def is_remote(self) -> bool:
        return False

    @property
    def places(self) -> list[str]:
        return [self.root] if self.paths is None else [*self.paths]

    @property
    def is_one_nested_class(self) -> bool:
        return False

    def left_out(self) -> dict[str, int]:
        """The number of things in the folder that are neither files nor folders, such as links to nothing."""
        count = Counter(kind for kind, *_ in self._found())["other"]
        return {NO_FILE: count} if count else {}

    def files(self, ending: Ending, as_samples: bool, top: str) -> Iterator[Item]:
        for kind, name, path in self._found():
            if kind == "file":
                kept = self.renamed or name
                yield Item(name, path, kept, kept, os.path.getsize(path))
            elif kind == "folder":
                yield Item(f"{name}/", "", f"{name}/")

    def _found(self) -> Iterator[tuple[str, str, str]]:
        """Yields kind, name and path of all that is there; of folders only the empty ones."""
        if self.paths is None:
            yield from _walk(self.root, "", (os.path.realpath(self.root),))
            return
        for path in self.paths:
            yield "file", os.path.relpath(path, self.root).replace(os.sep, "/"), path


def _walk(folder: str, start: str, above: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yields what is in a folder, sorted by names; follows links, unless one leads back to a folder above.

    Args:
        folder: its path.
        start: what names begin with.
        above: the real paths of this folder and those that hold it.
    """
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    if not found and start:
        yield "folder", start.rstrip("/"), folder
    for entry in found:
        if entry.is_dir():
            real = os.path.realpath(entry.path)
            if real not in above:
                yield from _walk(entry.path, f"{start}{entry.name}/", (*above, real))
        else:
            yield "file" if entry.is_file() else "other", start + entry.name, entry.path


@dataclass(frozen=True)
class WholeTarget(Target):
    """A folder, or one archive or Parquet file, with its record beside it."""

    @property
    def record(self) -> str:
        return f"{self.path}.{NAME}"

    @property
    def readme(self) -> str:
        """The path of the text that says what the target is."""
        return f"{self.path}.README.txt"

    def has(self, name: str) -> bool:
        return not self.start or name == self.start

    def write_readme(self, source: str) -> None:
        """Writes the text beside the target."""
        with atomic_write(self.readme) as stream:
            text = _README.format(source=source, target=shell_quoted(self.path))
            stream.write(text.encode("utf-8", "surrogateescape"))


def has_whole_record(source: object) -> bool:
    """True if a path is a target that keeps names, with its record beside it."""
    if not isinstance(source, (str, os.PathLike)) or is_url(local_path(source)):
        return False
    try:
        with open(f"{absolute_path(local_path(source))}.{NAME}", "rb") as record:
            about = json.loads(record.readline())
    except (OSError, ValueError):
        return False
    return isinstance(about, dict) and about.get("names") == "kept"


def open_whole(given: object, to: str | os.PathLike[str]) -> tuple[WholeSource, WholeTarget]:
    """Opens source and target of a run that keeps names.

    Raises:
        DatasetError: there is nothing to pack, or the target is of another kind.
        ConfigError: the source isn't the path of a folder, an archive or Parquet files on this machine.
    """
    check_path("target", to, "a folder, or a file of the source's kind", error=DatasetError)
    path = absolute_path(local_path(to))
    if is_url(local_path(to)):
        raise DatasetError(f"{to}: a target is written on a disk of this machine: copy it to the store afterwards.")
    if not isinstance(given, (str, os.PathLike)) or is_url(local_path(given)):
        raise ConfigError(
            f"source={given!r:.80}: names are kept of the files in a folder on this machine, and of archives and "
            "Parquet files there: give a path, or a pattern."
        )
    name = absolute_path(local_path(given))
    if os.path.isdir(name):
        source = WholeSource(name, "folders", None, root=name)
    else:
        paths = expand_paths(local_path(given), "a folder, archives or Parquet files")
        others = [one for one in paths if not is_container(one)]
        if others:
            raise ConfigError(
                f"{others[0]}: names are kept of all files in a folder, and of what is in a .tar, .zip or .parquet: "
                "give one of these."
            )
        source = WholeSource(name, "folders", None, root=common_folder(paths), paths=paths)
    if not is_container(path):
        return source, WholeTarget(path, "folder", path)
    ending = os.path.splitext(path)[1].lower()
    if source.paths is None or len(source.paths) != 1 or not source.paths[0].lower().endswith(ending):
        raise DatasetError(
            f"{path}: the target is of the source's kind where names are kept: a folder for a folder or for several "
            f"files, and a {ending} for one {ending}."
        )
    folder, base = os.path.split(path)
    renamed = WholeSource(name, "folders", None, root=source.root, paths=source.paths, renamed=base)
    return renamed, WholeTarget(path, "folder", folder, start=base)
