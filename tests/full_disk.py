"""A disk that is full, as `RLIMIT_FSIZE` makes it: the kernel writes what still fits, and refuses the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Lets no file get longer than that many bytes. Python ignores the signal that would end the process."""
    resource = pytest.importorskip("resource", reason="no limit of a file's size on this system")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
