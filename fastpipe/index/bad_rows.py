"""Rows of lists, tables and shards that name no image, or no label: bad samples, which raise when they are read.

An index has such a row like any other, so that one of them doesn't make a whole dataset unusable. In a container the
row's start is one of the negative numbers below; in a list its path is empty.
"""

from __future__ import annotations

import errno

from fastpipe.sources.refused import refused

NO_IMAGE, NO_LABEL, SEPARATE_FILE, ELSEWHERE, SEVERAL_IMAGES, NO_MEMBER, DAMAGED, NO_TABLE = range(-1, -9, -1)

_REASONS = {
    NO_IMAGE: "this row has no image: neither bytes nor a path",
    NO_LABEL: "this sample has no label that can be read",
    ELSEWHERE: "this row has no bytes, only the address of an image that isn't on this machine",
    SEVERAL_IMAGES: "this sample has several images: image= says which ending is meant",
    NO_MEMBER: "this member can't be read at its offset: it is cut off, compressed, damaged, a link, or there twice",
    DAMAGED: "its shard is damaged from here on, or its row group is",
    NO_TABLE: "this file is no Parquet file, or is damaged, so that none of its rows is known",
}


def path_of(start: int, path: str, name: str) -> str:
    """The path of a row that isn't in its container: a file of its own, or one that raises when it is read.

    Args:
        start: one of this file's numbers.
        path: the row's name in messages.
        name: the path as the row has it.
    """
    return name if start == SEPARATE_FILE else _refused(path, _REASONS[start])


def reason_of(start: int) -> str:
    """Why a row can't be used, by its start."""
    return _REASONS[start]


def refused_row(list_name: str, number: int) -> str:
    """The path of a list's row, by its number from 0, that has no path or no label."""
    return _refused(f"{list_name}item {number}", "this row of the list has no path, or no label")


def _refused(path: str, reason: str) -> str:
    return refused(path, FileNotFoundError(errno.ENOENT, reason, path))
