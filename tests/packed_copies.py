"""Packed copies of JPEGs: of the corpus, of heads with much metadata, and damaged ones."""

from __future__ import annotations

import functools
import io
import re
from typing import Any

import corpus
import numpy as np
from PIL import Image, ImageCms

from fastpipe.core.packed import pack
from fastpipe.errors import NotPackableError

_PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
_EXIF = Image.Exif()
_EXIF.update({0x0112: 6, 0x011A: 300.0, 0x0128: 3, 0x010E: "a fox"})


def _jpeg(mode: str = "RGB", size: tuple[int, int] = (71, 53), **options: Any) -> bytes:
    pixels = np.random.default_rng(5).integers(0, 256, (*size[::-1], 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, "JPEG", **options)
    return file.getvalue()


def _with_metadata() -> dict[str, bytes]:
    return {
        "exif": _jpeg(exif=_EXIF),
        "exif of a gray image": _jpeg("L", exif=_EXIF, dpi=(30, 40)),
        "xmp": _jpeg(xmp=b"<x:xmpmeta/>"),
        "comment": _jpeg(comment=b"a fox", dpi=(72, 72)),
        "profile": _jpeg(icc_profile=_PROFILE * 200),
        "photoshop": corpus.with_segment(_jpeg(), 0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x02ab"),
        "other table numbers": _jpeg(qtables=[[1 + k for k in range(64)], [64 - k for k in range(64)], [9] * 64]),
        "progressive": _jpeg(progressive=True, subsampling=0),
        "restarts": _jpeg(restart_marker_blocks=1),
        "large": _jpeg(size=(400, 300), quality=97, subsampling=0),
    }


@functools.lru_cache(maxsize=1)
def packed_jpegs() -> dict[str, tuple[bytes, bytes]]:
    """JPEGs that can be packed, and their packed bytes, by name."""
    made = {}
    for name, jpeg in {**corpus.files(), **_with_metadata()}.items():
        if re.search(r"flipped|jpeg-(4[2-4][24]|411|gray)-\d", name):  # damaged alike, or of a size of many
            continue
        try:
            made[name] = jpeg, pack(jpeg)
        except NotPackableError:
            continue
    assert len(made) > 20
    return made


def damaged(packed: bytes) -> dict[str, bytes]:
    """A packed image damaged in its head, in its rows, in what follows them, and by being cut off."""
    size = int.from_bytes(packed[36:40], "little")

    def changed(position: int) -> bytes:
        return packed[:position] + bytes([packed[position] ^ 1]) + packed[position + 1 :]

    return {
        "head": changed(13),
        "first row": changed(size),
        "last byte": changed(len(packed) - 1),
        "cut off": packed[: 2 * len(packed) // 3],
        "only a signature": packed[:8],
    }
