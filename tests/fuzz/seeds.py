"""The small files that are mutated: every kind of each format, made by `corpus`, so small that a decode takes
microseconds."""

from __future__ import annotations

import functools
import struct
import zlib

import corpus
import numpy as np
from PIL import Image

FORMATS = ("jpeg", "jpeg", "jpeg", "jpeg", "jpeg", "png", "png", "webp", "gif", "bmp", "tiff")
"""The files that are mutated; JPEG, which all readers read, comes most often."""

_WIDTH, _HEIGHT = 41, 27  # several iMCUs wide, and no multiple of one


@functools.lru_cache(maxsize=1)
def seeds() -> dict[str, tuple[bytes, ...]]:
    """Format → its files; the same in every process."""
    made = {"jpeg": _jpegs(), "png": _pngs(), "webp": _webps(), "gif": _gifs(), "bmp": _bmps(), "tiff": _tiffs()}
    return {name: tuple(files) for name, files in made.items() if files}


def _jpegs() -> list[bytes]:
    image = corpus.photo(_HEIGHT, _WIDTH)
    picture = Image.fromarray(image)
    files = [corpus.jpeg(_HEIGHT, _WIDTH, kind) for kind in (*corpus.SUBSAMPLINGS, "gray")]
    plain = corpus.jpeg(_HEIGHT, 70, "420", quality=60)
    save = functools.partial(corpus.save, format="JPEG", quality=70)
    files += [
        plain,
        corpus.jpeg(1, 1),
        save(image, progressive=True),
        save(image, progressive=True, subsampling=0),
        save(picture.convert("L"), progressive=True),
        save(image, restart_marker_blocks=2),
        save(image, restart_marker_rows=1),
        save(image, optimize=True),
        save(image, keep_rgb=True),
        save(picture.convert("CMYK")),
        save(picture.convert("CMYK"), progressive=True),
        save(image, comment=b"a comment"),
        save(image, save_all=True, append_images=[Image.fromarray(corpus.photo(16, 24, 3))], format="MPO"),
        corpus.with_segment(plain, 0xE1, corpus.exif(6)),
        corpus.with_segment(plain, 0xE1, corpus.exif(3, big_endian=True) + corpus.jpeg(8, 8)),
        corpus.with_segment(plain, 0xE1, b'http://ns.adobe.com/xap/1.0/\0<rdf tiff:Orientation="6"/>'),
        corpus.with_segment(plain, 0xE2, b"ICC_PROFILE\0\1\1" + bytes(40)),
        corpus.with_segment(plain, 0xEE, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, 1)),
        plain + corpus.jpeg(8, 8),
    ]
    return files


def _pngs() -> list[bytes]:
    image = corpus.photo(_HEIGHT, _WIDTH)
    picture = Image.fromarray(image)
    save = functools.partial(corpus.save, format="PNG")
    rgb = save(image)
    wide = struct.pack(">IIBBBBB", 8, 8, 16, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(range(48)) for _ in range(8)))
    colours = np.random.default_rng(1).integers(0, 256, 768, np.uint8).tobytes()
    small = image[:9, :13, 0]
    files = [
        rgb,
        save(picture.convert("L")),
        save(picture.quantize(40)),
        save(picture.quantize(12), bits=4),
        save(picture.convert("1")),
        save(picture.convert("RGBA")),
        save(picture.convert("LA")),
        save(Image.fromarray(image[..., 0].astype(np.uint16) * 257)),
        rgb[:8] + corpus.chunk(b"IHDR", wide) + corpus.chunk(b"IDAT", rows) + corpus.chunk(b"IEND", b""),
        corpus.interlaced_png(13, 21),
        corpus.interlaced_png(1, 1),
        save(picture.quantize(40), transparency=3),
        save(image, transparency=(1, 2, 3)),
        save(picture, save_all=True, append_images=[Image.fromarray(corpus.photo(_HEIGHT, _WIDTH, 1))]),
        corpus.with_chunk(rgb, b"gAMA", struct.pack(">I", 100000)),
        corpus.with_chunk(rgb, b"eXIf", corpus.exif(6)[6:]),
        corpus.with_chunk(rgb, b"iTXt", b'XML:com.adobe.xmp\0\0\0\0\0<rdf tiff:Orientation="3"/>'),
        corpus.with_chunk(rgb, b"zTXt", b"note\0\0" + zlib.compress(b"text" * 9)),
        rgb[:-12] + corpus.chunk(b"tEXt", b"date:create\0now") + rgb[-12:],
        save(image, icc_profile=bytes(60)),
    ]
    files += [
        corpus.small_png(small >> (8 - depth), depth, 3, corpus.chunk(b"PLTE", colours[: 3 << depth]))
        for depth in (1, 2, 4, 8)
    ]
    return files


def _webps() -> list[bytes]:
    image = corpus.photo(_HEIGHT, _WIDTH)
    picture = Image.fromarray(image)
    alpha = Image.merge("RGBA", (*picture.split(), picture.convert("L")))
    save = functools.partial(corpus.save, format="WEBP")
    try:
        return [
            save(image, quality=70),
            save(image, lossless=True),
            save(corpus.photo(1, 1)),
            save(alpha),
            save(alpha, lossless=True),
            save(picture, save_all=True, append_images=[Image.fromarray(corpus.photo(_HEIGHT, _WIDTH, 1))]),
            save(image, icc_profile=bytes(60)),
            save(image, exif=corpus.exif(6)),
        ]
    except (OSError, KeyError):  # a Pillow without WebP
        return []


def _gifs() -> list[bytes]:
    picture, second = (Image.fromarray(corpus.photo(_HEIGHT, _WIDTH, seed)).quantize(30) for seed in (0, 1))
    save = functools.partial(corpus.save, format="GIF")
    return [
        save(picture),
        save(picture, interlace=0),
        save(picture, transparency=2),
        save(picture, save_all=True, append_images=[second], disposal=2, transparency=1),
        save(picture.convert("L"), comment=b"a comment"),
    ]


def _bmps() -> list[bytes]:
    image = corpus.photo(13, 21)
    picture = Image.fromarray(image)
    save = functools.partial(corpus.save, format="BMP")
    files = [save(image), save(picture.quantize(40)), save(picture.convert("L")), save(picture.convert("1"))]
    return [*files, save(picture.convert("RGBA"))]


def _tiffs() -> list[bytes]:
    image = corpus.photo(13, 21)
    picture = Image.fromarray(image)
    save = functools.partial(corpus.save, format="TIFF")
    files = [
        save(image),
        save(image, big_tiff=True),
        save(image, tiffinfo={0x0112: 6}),
        save(picture.convert("CMYK")),
        save(picture.convert("1")),
        save(picture.quantize(40)),
        save(Image.fromarray(image[..., 0].astype(np.uint16) * 257)),
        save(Image.fromarray(image[..., 0].astype(np.float32))),
        save(picture, save_all=True, append_images=[picture]),
    ]
    files += [save(image, compression=name) for name in ("tiff_lzw", "tiff_deflate", "packbits", "jpeg")]
    return [*files, save(picture.convert("1"), compression="group4")]
