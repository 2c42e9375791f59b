"""Packs and unpacks datasets: converts JPEGs to a format that is decoded several times as fast, and back."""

from fastpipe.packing.report import PackResult
from fastpipe.packing.run import pack, unpack

__all__ = ["PackResult", "pack", "unpack"]


def __dir__() -> list[str]:
    return sorted({*__all__, "smaller"})
