"""Opens Parquet files with pyarrow, if it is installed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fastpipe.errors import DatasetError
from fastpipe.paths import check_regular
from fastpipe.sources.ranged import open_seekable
from fastpipe.types import RemoteFile

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile


class UnreadableParquet(DatasetError):
    """A file is no Parquet file, or its footer is damaged."""


def import_pyarrow() -> Any:
    """Imports pyarrow.

    Raises:
        DatasetError: it isn't installed.
    """
    try:
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise DatasetError("reading Parquet needs pyarrow, which is not installed: pip install pyarrow") from None
    return pyarrow


@contextlib.contextmanager
def open_parquet(path: str) -> Iterator[ParquetFile]:
    """Opens a ``ParquetFile``, local or in a store.

    Raises:
        UnreadableParquet: the file is no Parquet file.
        DatasetError: pyarrow isn't installed, or a part of the file that is read is damaged.
        OSError: it can't be opened, or is no regular file.
    """
    pyarrow = import_pyarrow()
    if not isinstance(path, RemoteFile):
        check_regular(path)  # pyarrow would wait for the writer of a FIFO
    stored = open_seekable(path) if isinstance(path, RemoteFile) else contextlib.nullcontext(path)
    is_open = False
    try:
        with stored as opened, pyarrow.parquet.ParquetFile(opened, memory_map=stored is not opened) as file:
            is_open = True
            yield file
    except (pyarrow.ArrowMemoryError, pyarrow.ArrowCancelled):
        raise
    except pyarrow.ArrowException as error:
        kind = DatasetError if is_open else UnreadableParquet
        raise kind(f"{path} is no Parquet file, or is damaged: {error}.") from error
