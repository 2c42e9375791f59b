"""Names of samples that have no file to read, such as a null row of a table: reading one raises the reason."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from fastpipe.types import RemoteFile


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The source of one such name: each call answers with its error."""

    error: Exception

    identity = "refused"

    def url(self, key: str) -> str:
        return key

    def read(self, key: str, offset: int = 0, length: int = -1) -> NoReturn:
        raise copy.copy(self.error)

    def read_file(self, file: RemoteFile) -> NoReturn:
        raise copy.copy(self.error)

    def fetch(self, files: Sequence[RemoteFile]) -> list[Exception]:
        return [copy.copy(self.error) for _ in files]


def refused(name: str, error: Exception) -> RemoteFile:
    """Makes a path that raises an error where it is read, so that a dataset's policy for bad files decides."""
    return RemoteFile(name, _Refusal(error), name, 0, 0)


def raise_if_refused(path: str) -> None:
    """Raises the error of a path that `refused` made, for code that would look for a file of that name."""
    if type(path) is RemoteFile and isinstance(path.source, _Refusal):
        raise copy.copy(path.source.error)
