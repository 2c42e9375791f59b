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
        DatasetError: pyarrow isn't installed, or the file is no Parquet file.
        OSError: it can't be opened, or is no regular file.
    """
    pyarrow = import_pyarrow()
    if not isinstance(path, RemoteFile):
        check_regular(path)  # pyarrow would wait for the writer of a FIFO
    stored = open_seekable(path) if isinstance(path, RemoteFile) else contextlib.nullcontext(path)
    try:
        with stored as opened, pyarrow.parquet.ParquetFile(opened, memory_map=stored is not opened) as file:
            yield file
    except pyarrow.ArrowException as error:
        raise DatasetError(f"{path} is no Parquet file, or is damaged: {error}.") from error
