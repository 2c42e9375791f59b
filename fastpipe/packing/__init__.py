"""Data sets packed and unpacked: every JPEG in an arrangement that is decoded several times as fast, and back."""

from fastpipe.packing.report import PackResult
from fastpipe.packing.run import pack, unpack

__all__ = ["PackResult", "pack", "unpack"]


def __dir__() -> list[str]:
    return sorted({*__all__, "smaller"})
