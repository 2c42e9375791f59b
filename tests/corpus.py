"""Image files of every kind that fastpipe must read or refuse as Pillow does, made here and nowhere stored.

``files()`` → name → bytes; names say what a file is (``"jpeg-420-odd"``) and end in what is wrong with it, if anything
(``"jpeg-420-cut-half"``). The same on every run.
"""

from __future__ import annotations

import functools
import io
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image, ImageCms

SUBSAMPLINGS = ("444", "422", "420", "440", "411")
ODD_SIZES = ((1, 1), (1, 17), (17, 1), (2, 3), (7, 9), (15, 33), (16, 16), (65, 31))


def photo(height: int, width: int, seed: int = 0) -> np.ndarray:
    """A ``(height, width, 3)`` uint8 image with what a photo has: smooth colour, edges and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    phase = rng.uniform(0, 6.3, 6)
    period = rng.uniform(9, 60, 6)
    planes = [
        110 + 70 * np.sin(x / period[i] + phase[i]) + 50 * np.cos(y / period[i + 3] + phase[i + 3]) for i in range(3)
    ]
    image = np.stack(planes, axis=-1)
    image += (((x // 11 + y // 7) % 3 == 0) * 40)[..., None]
    return np.clip(image + rng.normal(0, 9, image.shape), 0, 255).astype(np.uint8)


def save(image: np.ndarray | Image.Image, format: str, **options: Any) -> bytes:
    """The file that Pillow writes."""
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    out = io.BytesIO()
    picture.save(out, format, **options)
    return out.getvalue()


def jpeg(height: int, width: int, subsampling: str = "420", seed: int = 0, quality: int = 88) -> bytes:
    """A baseline JPEG with any of `SUBSAMPLINGS`, or ``"gray"``."""
    image = photo(height, width, seed)
    if subsampling == "gray":
        return save(Image.fromarray(image).convert("L"), "JPEG", quality=quality)
    return simplejpeg.encode_jpeg(image, quality=quality, colorspace="RGB", colorsubsampling=subsampling)


def exif(orientation: int, big_endian: bool = False) -> bytes:
    """An Exif block with one tag: the orientation."""
    mark, order = (b"MM\0*", ">") if big_endian else (b"II*\0", "<")
    entry = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return b"Exif\0\0" + mark + struct.pack(order + "IH", 8, 1) + entry + bytes(4)


def with_segment(data: bytes, marker: int, body: bytes) -> bytes:
    """A JPEG with one more segment right after its start."""
    return data[:2] + bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body + data[2:]


def _profile() -> bytes:
    """An ICC colour profile; its date is that of its making, so it is set."""
    made = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return made[:24] + struct.pack(">6H", 2026, 1, 1, 0, 0, 0) + made[36:]


def chunk(name: bytes, body: bytes) -> bytes:
    """A PNG chunk with its checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def with_chunk(data: bytes, name: bytes, body: bytes) -> bytes:
    """A PNG with one more chunk after its IHDR."""
    return data[:33] + chunk(name, body) + data[33:]


def interlaced_png(height: int, width: int) -> bytes:
    """An Adam7 PNG, which Pillow can't write: 8-bit RGB."""
    image = photo(height, width)
    rows = b""
    for top, left, down, right in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2)):
        part = image[top::down, left::right]
        rows += b"".join(b"\0" + row.tobytes() for row in part if row.size)
    rows += b"".join(b"\0" + row.tobytes() for row in image[1::2])
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)
    pixels = zlib.compress(rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def png_that_does_not_inflate(height: int, width: int) -> bytes:
    """A PNG in RGB whose checksums are right, but whose stream is broken in its first row."""
    rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in photo(height, width)))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = rows[:60] + bytes([255] * (len(rows) - 60))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def small_png(image: np.ndarray, depth: int, color: int, *chunks: bytes) -> bytes:
    """A PNG of one sample a pixel and ``depth`` bits a sample, from a ``(H, W)`` image of such values."""
    height, width = image.shape
    bits = np.unpackbits(image.astype(np.uint8)[..., None], axis=-1)[..., -depth:].reshape(height, -1)
    rows = b"".join(b"\0" + np.packbits(row).tobytes() for row in bits)
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    body = chunk(b"IHDR", head) + b"".join(chunks) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _segments(data: bytes) -> dict[int, int]:
    """Where each kind of marker first stands in a JPEG's header."""
    found: dict[int, int] = {}
    position = 2
    while data[position + 1] != 0xDA:
        found.setdefault(data[position + 1], position)
        position += 2 + struct.unpack_from(">H", data, position + 2)[0]
    found[0xDA] = position
    return found


def patched(data: bytes, offset: int, value: int) -> bytes:
    """The file with one byte changed."""
    return data[:offset] + bytes((value,)) + data[offset + 1 :]


def _jpegs() -> dict[str, bytes]:
    image = photo(97, 131)
    found = {f"jpeg-{kind}": jpeg(97, 131, kind) for kind in (*SUBSAMPLINGS, "gray")}
    for kind in (*SUBSAMPLINGS, "gray"):
        for height, width in ODD_SIZES:
            found[f"jpeg-{kind}-{height}x{width}"] = jpeg(height, width, kind, seed=height)
    found["jpeg-quality-5"] = jpeg(97, 131, quality=5)
    found["jpeg-quality-100"] = jpeg(97, 131, quality=100)
    found["jpeg-progressive"] = save(image, "JPEG", progressive=True)
    found["jpeg-progressive-444"] = save(image, "JPEG", progressive=True, subsampling=0)
    found["jpeg-progressive-gray"] = save(Image.fromarray(image).convert("L"), "JPEG", progressive=True)
    found["jpeg-restart-blocks"] = save(image, "JPEG", restart_marker_blocks=3)
    found["jpeg-restart-rows"] = save(image, "JPEG", restart_marker_rows=1)
    found["jpeg-optimized"] = save(image, "JPEG", optimize=True)
    found["jpeg-rgb"] = save(image, "JPEG", keep_rgb=True)
    gray = found["jpeg-gray"]
    found["jpeg-gray-factors-2x2"] = patched(gray, _segments(gray)[0xC0] + 11, 0x22)
    for orientation in range(9):
        found[f"jpeg-exif-{orientation}"] = with_segment(jpeg(40, 70), 0xE1, exif(orientation, orientation % 2 == 0))
    found["jpeg-exif-9"] = with_segment(jpeg(40, 70), 0xE1, exif(9))
    found["jpeg-exif-twice"] = with_segment(found["jpeg-exif-6"], 0xE1, exif(3))
    found["jpeg-exif-absurd"] = with_segment(jpeg(40, 70), 0xE1, b"Exif\0\0II*\0" + b"\xff" * 40)
    found["jpeg-exif-cut"] = with_segment(jpeg(40, 70), 0xE1, exif(6)[:20])
    found["jpeg-exif-empty"] = with_segment(jpeg(40, 70), 0xE1, b"Exif\0\0")
    xmp = b'http://ns.adobe.com/xap/1.0/\0<x:xmpmeta><rdf tiff:Orientation="6"/></x:xmpmeta>'
    found["jpeg-xmp-orientation"] = with_segment(jpeg(40, 70), 0xE1, xmp)
    profile = _profile()
    found["jpeg-icc"] = save(image, "JPEG", icc_profile=profile)
    found["jpeg-comment"] = save(image, "JPEG", comment=b"a comment with \xff\xd9 in it")
    found["jpeg-thumbnail"] = with_segment(jpeg(97, 131), 0xE1, exif(1) + jpeg(24, 32))
    found["jpeg-large-header"] = with_segment(with_segment(jpeg(97, 131), 0xE5, bytes(65000)), 0xE5, bytes(65000))
    cmyk = save(Image.fromarray(image).convert("CMYK"), "JPEG")
    found["jpeg-cmyk"] = cmyk
    found["jpeg-ycck"] = patched(cmyk, _segments(cmyk)[0xEE] + 4 + 11, 2)
    plain = found["jpeg-420"]
    found["jpeg-adobe-0"] = _adobe(plain, 0)
    found["jpeg-adobe-1"] = _adobe(plain, 1)
    found["jpeg-adobe-2"] = _adobe(plain, 2)
    found["jpeg-adobe-0-444"] = _adobe(found["jpeg-444"], 0)
    found["jpeg-no-jfif"] = _without(plain, 0xE0)
    frame = _segments(found["jpeg-444"])[0xC0]
    found["jpeg-ids-rgb"] = _renamed(_without(found["jpeg-444"], 0xE0), b"RGB")
    found["jpeg-ids-odd"] = _renamed(_without(found["jpeg-444"], 0xE0), bytes((0, 1, 2)))
    found["jpeg-factors-2x2-all"] = patched(found["jpeg-444"], frame + 11, 0x41)
    found["jpeg-trailing"] = plain + b"something after the end" * 9
    found["jpeg-fill-bytes"] = plain[:2] + b"\xff\xff\xff" + plain[2:]
    second = Image.fromarray(photo(50, 60, 3))
    found["mpo"] = save(image, "MPO", save_all=True, append_images=[second])
    return found


def _without(data: bytes, marker: int) -> bytes:
    start = _segments(data)[marker]
    return data[:start] + data[start + 2 + struct.unpack_from(">H", data, start + 2)[0] :]


def _adobe(data: bytes, transform: int) -> bytes:
    return with_segment(_without(data, 0xE0), 0xEE, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, transform))


def _renamed(data: bytes, identifiers: bytes) -> bytes:
    """The three components under other numbers, in the frame and in the scan."""
    out, places = bytearray(data), _segments(data)
    for index, identifier in enumerate(identifiers):
        out[places[0xC0] + 10 + 3 * index] = identifier
        out[places[0xDA] + 5 + 2 * index] = identifier
    return bytes(out)


def _pngs() -> dict[str, bytes]:
    image = photo(61, 83)
    picture = Image.fromarray(image)
    found = {
        "png-rgb": save(image, "PNG"),
        "png-gray": save(picture.convert("L"), "PNG"),
        "png-palette": save(picture.quantize(40), "PNG"),
        "png-palette-4-bit": save(picture.quantize(12), "PNG", bits=4),
        "png-1-bit": save(picture.convert("1"), "PNG"),
        "png-rgba": save(picture.convert("RGBA"), "PNG"),
        "png-gray-alpha": save(picture.convert("LA"), "PNG"),
        "png-16-bit-gray": save(Image.fromarray(image[..., 0].astype(np.uint16) * 257), "PNG"),
        "png-interlaced": interlaced_png(61, 83),
        "png-interlaced-1x1": interlaced_png(1, 1),
        "png-palette-trns": save(picture.quantize(40), "PNG", transparency=3),
        "png-rgb-trns": save(image, "PNG", transparency=(1, 2, 3)),
        "png-gray-trns": save(picture.convert("L"), "PNG", transparency=7),
        "png-dpi": save(image, "PNG", dpi=(72, 72)),
        "png-animated": save(picture, "PNG", save_all=True, append_images=[Image.fromarray(photo(61, 83, 1))]),
    }
    for height, width in ODD_SIZES:
        found[f"png-rgb-{height}x{width}"] = save(photo(height, width), "PNG")
    rgb = found["png-rgb"]
    found["png-gamma"] = with_chunk(rgb, b"gAMA", struct.pack(">I", 100000))
    found["png-exif-6"] = with_chunk(rgb, b"eXIf", exif(6)[6:])
    found["png-background"] = with_chunk(rgb, b"bKGD", struct.pack(">HHH", 1, 2, 3))
    found["png-significant-bits"] = with_chunk(rgb, b"sBIT", bytes((5, 6, 5)))
    found["png-unknown-critical"] = with_chunk(rgb, b"ABCD", b"what")
    found["png-text-after"] = rgb[:-12] + chunk(b"tEXt", b"date:create\0now") + rgb[-12:]
    found["png-exif-after-8"] = rgb[:-12] + chunk(b"eXIf", exif(8)[6:]) + rgb[-12:]
    xmp = b'XML:com.adobe.xmp\0\0\0\0\0<rdf tiff:Orientation="3"/>'
    found["png-xmp-orientation"] = with_chunk(rgb, b"iTXt", xmp)
    found["png-xmp-orientation-after"] = rgb[:-12] + chunk(b"iTXt", xmp) + rgb[-12:]
    found["png-text-transparency"] = with_chunk(found["png-gray"], b"tEXt", b"transparency\0no number")
    profile = _profile()
    found["png-icc"] = save(image, "PNG", icc_profile=profile)
    found["png-short-gamma"] = with_chunk(rgb, b"gAMA", b"\0")
    colours = np.random.default_rng(1).integers(0, 256, 768, np.uint8).tobytes()
    for depth in (1, 2, 4, 8):
        values = image[..., 0] >> (8 - depth)
        found[f"png-gray-{depth}-bit"] = small_png(values, depth, 0)
        found[f"png-palette-{depth}-bit-full"] = small_png(values, depth, 3, chunk(b"PLTE", colours[: 3 << depth]))
        short = chunk(b"PLTE", colours[: (3 << depth) - 3])
        found[f"png-palette-{depth}-bit-short"] = small_png(values, depth, 3, short)
    found["png-rgba-noise"] = save(np.random.default_rng(2).integers(0, 256, (9, 13, 4), np.uint8), "PNG")
    wide = struct.pack(">IIBBBBB", 8, 8, 16, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(range(48)) for _ in range(8)))
    found["png-16-bit-rgb"] = rgb[:8] + chunk(b"IHDR", wide) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    found["png-bad-checksum"] = patched(rgb, 33 + 8 + 40, rgb[33 + 8 + 40] ^ 4)
    found["png-no-end"] = rgb[:-12]
    half = struct.pack(">IIBBBBB", 83, 61, 8, 2, 0, 0, 0)
    few = zlib.compress(b"".join(b"\0" + row.tobytes() for row in image[:30]))
    found["png-too-few-rows"] = rgb[:8] + chunk(b"IHDR", half) + chunk(b"IDAT", few) + chunk(b"IEND", b"")
    return found


def _others() -> dict[str, bytes]:
    image = photo(61, 83)
    picture, second = Image.fromarray(image), Image.fromarray(photo(61, 83, 1))
    found = {
        "gif": save(picture.quantize(60), "GIF"),
        "gif-animated": save(picture.quantize(60), "GIF", save_all=True, append_images=[second.quantize(60)]),
        "gif-transparent": save(picture.quantize(60), "GIF", transparency=2),
        "bmp": save(image, "BMP"),
        "bmp-palette": save(picture.quantize(60), "BMP"),
        "bmp-gray": save(picture.convert("L"), "BMP"),
        "tiff": save(image, "TIFF"),
        "tiff-lzw": save(image, "TIFF", compression="tiff_lzw"),
        "tiff-exif-6": save(image, "TIFF", tiffinfo={0x0112: 6}),
        "tiff-float": save(Image.fromarray(image[..., 0].astype(np.float32)), "TIFF"),
        "ppm": save(image, "PPM"),
    }
    try:
        found |= {
            "webp": save(image, "WEBP", quality=80),
            "webp-lossless": save(image, "WEBP", lossless=True),
            "webp-alpha": save(picture.convert("RGBA"), "WEBP"),
            "webp-alpha-half": save(Image.merge("RGBA", (*picture.split(), picture.convert("L"))), "WEBP"),
            "webp-lossless-alpha": save(
                Image.merge("RGBA", (*picture.split(), picture.convert("L"))), "WEBP", lossless=True
            ),
            "webp-animated": save(picture, "WEBP", save_all=True, append_images=[second]),
            "webp-icc": save(image, "WEBP", icc_profile=_profile()),
            "webp-lossless-icc": save(image, "WEBP", icc_profile=_profile(), lossless=True),
            "webp-exif-6": save(image, "WEBP", exif=exif(6)),
        }
        for height, width in ODD_SIZES:
            found[f"webp-{height}x{width}"] = save(photo(height, width), "WEBP")
            found[f"webp-lossless-{height}x{width}"] = save(photo(height, width), "WEBP", lossless=True)
    except (OSError, KeyError):  # a Pillow without WebP
        pass
    return found


def _huge() -> dict[str, bytes]:
    """Headers that claim far more pixels than any file of that length holds."""
    small = jpeg(16, 16)
    frame = _segments(small)[0xC0]
    claim = struct.pack(">HH", 65000, 65000)
    head = struct.pack(">IIBBBBB", 1 << 30, 1 << 30, 8, 2, 0, 0, 0)
    png = save(photo(8, 8), "PNG")
    tall = struct.pack(">HH", 1500, 2000)
    return {
        "jpeg-claims-huge": small[: frame + 5] + claim + small[frame + 9 :],
        "jpeg-claims-large": small[: frame + 5] + tall + small[frame + 9 :],
        "png-claims-huge": png[:8] + chunk(b"IHDR", head) + png[33:],
    }


def _broken(good: dict[str, bytes]) -> dict[str, bytes]:
    found = {
        "empty": b"",
        "one-byte": b"\xff",
        "text": b"this is not an image, and it is long enough to be looked at",
        "jpeg-start-only": b"\xff\xd8\xff",
        "png-start-only": b"\x89PNG\r\n\x1a\n",
        "riff-only": b"RIFF\x10\0\0\0WEBP",
    }
    for name in ("jpeg-420", "jpeg-progressive", "jpeg-restart-blocks", "jpeg-exif-6", "png-rgb", "webp", "gif", "bmp"):
        data = good.get(name)
        if data is None:
            continue
        for part, length in (("header", 20), ("third", len(data) // 3), ("half", len(data) // 2), ("end", -2)):
            found[f"{name}-cut-{part}"] = data[:length]
        rng = random.Random(name)
        for index in range(4):
            place = rng.randrange(len(data) // 4, len(data))
            found[f"{name}-flipped-{index}"] = patched(data, place, data[place] ^ (1 << rng.randrange(8)))
    for name in ("jpeg-420", "jpeg-progressive"):
        data = good[name]
        middle = (_segments(data)[0xDA] + len(data)) // 2
        found[f"{name}-marker-inside"] = data[:middle] + b"\xff\x02" + data[middle + 2 :]
        found[f"{name}-end-inside"] = data[:middle] + b"\xff\xd9" + data[middle + 2 :]
        found[f"{name}-frame-inside"] = data[:middle] + b"\xff\xc0\x00\x0b" + data[middle + 4 :]
        found[f"{name}-zeros-inside"] = data[:middle] + bytes(64) + data[middle + 64 :]
    scans = good["jpeg-progressive"]
    last = scans.rfind(b"\xff\xda")
    found["jpeg-progressive-scan-missing"] = scans[:last] + b"\xff\xd9"
    return found


@functools.lru_cache(maxsize=1)
def files() -> dict[str, bytes]:
    """Every file of the corpus, by name."""
    good = {**_jpegs(), **_pngs(), **_others()}
    return {**good, **_huge(), **_broken(good)}


def extension(name: str) -> str:
    """The file name's extension for a member of the corpus: that of its kind."""
    kind = name.partition("-")[0]
    return {"jpeg": ".jpg", "mpo": ".jpg", "tiff": ".tif"}.get(kind, f".{kind}" if kind in _KINDS else ".jpg")


_KINDS = ("png", "gif", "bmp", "webp", "ppm")


def write_folder(folder: Path, *, classes: int = 2, sound_only: bool = False) -> dict[str, Path]:
    """Write the corpus into ``folder/class_0``, ``class_1``, …, and a PNG named .jpg and a JPEG named .png.

    Args:
        folder: is made if it doesn't exist.
        classes: how many sub-folders the files are dealt to.
        sound_only: leave out what Pillow refuses or warns about.

    Returns:
        Each file's name in the corpus and its path.
    """
    chosen = sound_files() if sound_only else files()
    written = {}
    for index, (name, data) in enumerate(chosen.items()):
        path = folder / f"class_{index % classes}" / f"{name}{extension(name)}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        written[name] = path
    for name, suffix in (("jpeg-420", ".png"), ("png-rgb", ".jpg")):
        path = folder / "class_0" / f"{name}-misnamed{suffix}"
        path.write_bytes(chosen[name])
        written[f"{name}-misnamed"] = path
    return written


def odd_folder() -> dict[str, bytes]:
    """Three classes of odd, gray, tiny and ordinary images, in folders within folders, by their names."""
    return {
        "ants/1.jpg": jpeg(61, 47),
        "ants/2.JPG": jpeg(40, 90, "444", seed=1),
        "ants/deep/3.jpg": jpeg(33, 35, "gray"),
        "ants-b/1.png": save(photo(20, 31), "PNG"),
        "ants-b/b/1.jpg": jpeg(1, 1),
        "bees/ü 1.jpeg": jpeg(70, 50, seed=3),
        "bees/2.webp": save(photo(64, 50), "WEBP"),
        "bees/notes.txt": b"no image",
    }


def write(folder: Path, content: dict[str, bytes]) -> Path:
    """Write files by their names; returns the folder."""
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@functools.lru_cache(maxsize=1)
def sound_files() -> dict[str, bytes]:
    """The files that Pillow reads."""
    return {name: data for name, data in files().items() if reference(name) is not None}


@functools.cache
def reference(name: str) -> np.ndarray | None:
    """Pillow's pixels of a member of the corpus, ``(H, W, 3)`` uint8; None where Pillow refuses it."""
    return pillow_pixels(files()[name])


def pillow_pixels(data: bytes) -> np.ndarray | None:
    """Pillow's pixels, or None where it refuses the file."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            return np.array(image.convert("RGB"))
    except Exception:  # its plugins raise nearly anything on a damaged file
        return None
