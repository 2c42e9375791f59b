"""Readers: bytes → header, bytes → pixels.

Each backend has one file, and one row in `registry`. Pillow defines the right pixels; another reader is used if the
file's header proves that it gives the same ones.
"""

from __future__ import annotations

from fastpipe.readers._decode import (
    check_formats,
    check_readers,
    choose,
    configured_reader,
    decode,
    machine_config,
    proved,
    read_image,
)
from fastpipe.readers._files import place_of, read_copy, read_file, read_start, stat_file
from fastpipe.readers.base import Reader
from fastpipe.readers.core import intact_jpeg
from fastpipe.readers.header import parse_header, read_header, upright_orientation
from fastpipe.readers.limits import MaxPixels, check_limit, longest_file, most_scratch, pixel_limit
from fastpipe.readers.registry import (
    ReaderStatus,
    available_readers,
    bundled_libraries,
    default_order,
    get_reader,
    reader_status,
    register_reader,
)
from fastpipe.types import Header

__all__ = [
    "Header",
    "MaxPixels",
    "Reader",
    "ReaderStatus",
    "available_readers",
    "bundled_libraries",
    "check_formats",
    "check_limit",
    "check_readers",
    "choose",
    "configured_reader",
    "decode",
    "default_order",
    "get_reader",
    "intact_jpeg",
    "longest_file",
    "machine_config",
    "most_scratch",
    "parse_header",
    "pixel_limit",
    "place_of",
    "proved",
    "read_copy",
    "read_file",
    "read_header",
    "read_image",
    "read_start",
    "reader_status",
    "register_reader",
    "stat_file",
    "upright_orientation",
]


def __dir__() -> list[str]:
    return sorted(__all__)
