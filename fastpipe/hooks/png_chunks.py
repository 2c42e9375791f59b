"""Chunks of PNGs that libpng, which OpenCV reads PNGs by, reads without a warning, and that turn no image.

The rules are libpng's, of its versions 1.6.0 to 1.6.58: what one of them warns about is refused, but for sRGB profiles,
which libpng compared with known ones until 1.6.46. For each chunk see ``png_handle_…`` in libpng's ``pngrutil.c``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache
from struct import Struct, unpack_from
from typing import NamedTuple

from fastpipe.png import chunks_of

COLOURS = {b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT"}
"""Chunks by some of which libpng converts colours to gray. All of them stand before a palette."""

_BEFORE_PIXELS = COLOURS | {b"bKGD", b"pHYs", b"oFFs", b"PLTE"}
_REPEATED = {b"tEXt", b"zTXt", b"iTXt", b"IDAT"}
_OF_ANIMATIONS = {b"acTL", b"fcTL", b"fdAT"}
_MOST_BYTES, _MOST_CHUNKS = 1 << 20, 100
"""libpng limits the bytes of a chunk, inflated, to 8,000,000, and the number of texts to 1,000."""
_SRGB_GAMMA = 45455
_SRGB_PRIMARIES = Struct(">8I").pack(31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
_D50 = bytes.fromhex("0000f6d6000100000000d32d")
_SRGB_PROFILES = {3024, 3048, 3052, 3144, 60960, 60988}
"""Lengths of the profiles that libpng before 1.6.47 knows, and warns of, if they are edited or by Hewlett-Packard."""
_LATEST_WITH_PROFILES = (1, 6, 46)
_u32: Callable[..., tuple[int]] = Struct(">I").unpack_from


class PngKind(NamedTuple):
    """The facts of a PNG that libpng checks a chunk against.

    Attributes:
        depth: bits of a sample, or of an index.
        color_type: as in IHDR: 0 for gray, 2 for RGB, 3 for indices.
        colors: number of colours in the palette so far.
        libpng: the version; empty if it isn't known.
    """

    depth: int
    color_type: int
    colors: int
    libpng: tuple[int, ...]


def is_quiet(data: bytes, libpng: tuple[int, ...]) -> bool:
    """True if libpng reads all chunks of a PNG, up to its end, without a warning, and none of them turns the image.

    Args:
        data: a PNG whose IHDR is valid, without alpha. Its pixels aren't looked at.
        libpng: the version; empty if it isn't known.
    """
    kind = PngKind(data[24], data[25], 0, libpng)
    seen: set[bytes] = set()
    before = b""
    for count, (name, start, end) in enumerate(chunks_of(data)):
        if end > len(data) - 4 or count > _MOST_CHUNKS:
            return False
        if name == b"IEND":
            return start == end
        if name in seen and (name not in _REPEATED or (name == b"IDAT" and before != name)):
            return False
        if (name in _BEFORE_PIXELS and b"IDAT" in seen) or (name in COLOURS and b"PLTE" in seen):
            return False
        if name == b"PLTE":
            kind = kind._replace(colors=(end - start) // 3)
            if kind.color_type not in (2, 3) or (end - start) % 3 or not 1 <= kind.colors <= 256:
                return False
        elif name not in (b"IHDR", b"IDAT"):
            content = data[start:end]
            is_whole = zlib.crc32(content, zlib.crc32(name)) == _u32(data, end)[0]
            if len(content) > _MOST_BYTES or not is_whole or not _is_quiet(name, content, kind, seen):
                return False
        seen.add(name)
        before = name
    return False


def has_colours(data: bytes) -> bool:
    """True if a PNG has one of the `COLOURS` chunks."""
    return any(name in COLOURS for name, _, _ in chunks_of(data))


def _is_quiet(name: bytes, content: bytes, kind: PngKind, seen: set[bytes]) -> bool:
    if name == b"iCCP":
        return b"sRGB" not in seen and _is_quiet_profile(content, kind.color_type != 0, kind.libpng)
    if name == b"sRGB":
        return len(content) == 1 and content[0] < 4 and b"iCCP" not in seen and not seen & {b"gAMA", b"cHRM"}
    if name == b"gAMA":
        gamma = int.from_bytes(content, "big") if len(content) == 4 else 0
        return gamma == _SRGB_GAMMA or (b"sRGB" not in seen and 16 <= gamma <= 625_000_000)
    check = _CHECKS.get(name)
    if check is not None:
        return check(content, kind)
    is_private = name.isalpha() and name[:2].islower() and name[2:3].isupper() and name not in _OF_ANIMATIONS
    return is_private or name == b"iDOT"  # libpng skips both; the latter are Apple's


def _is_primaries(content: bytes, kind: PngKind) -> bool:
    return content == _SRGB_PRIMARIES


def _is_significant_bits(content: bytes, kind: PngKind) -> bool:
    depth = 8 if kind.color_type == 3 else kind.depth
    return len(content) == (1 if kind.color_type == 0 else 3) and all(1 <= bits <= depth for bits in content)


def _is_background(content: bytes, kind: PngKind) -> bool:
    if kind.color_type == 3:
        return len(content) == 1 and content[0] < kind.colors
    samples: tuple[int, ...] = unpack_from(f">{len(content) // 2}H", content)
    return len(content) == (2 if kind.color_type == 0 else 6) and max(samples) < 1 << kind.depth


def _is_nine_bytes(content: bytes, kind: PngKind) -> bool:
    return len(content) == 9


def _is_time(content: bytes, kind: PngKind) -> bool:
    if len(content) != 7:
        return False
    month, day, hour, minute, second = content[2:]
    return 1 <= month <= 12 and 1 <= day <= 31 and hour <= 23 and minute <= 59 and second <= 59


def _is_text(content: bytes, kind: PngKind) -> bool:
    keyword, end, _ = content.partition(b"\0")
    return _is_keyword(keyword) and bool(end)


def _is_compressed_text(content: bytes, kind: PngKind) -> bool:
    keyword, _, text = content.partition(b"\0")
    return _is_keyword(keyword) and text[:1] == b"\0" and _inflated(text[1:]) is not None


def _is_international_text(content: bytes, kind: PngKind) -> bool:
    keyword, _, rest = content.partition(b"\0")
    return _is_keyword(keyword) and rest[:2] == b"\0\0" and rest[2:].count(b"\0") >= 2  # not compressed


def _is_keyword(keyword: bytes) -> bool:
    """True for a keyword, but not one of EXIF data, by which OpenCV turns images."""
    return 1 <= len(keyword) <= 79 and not keyword.lower().startswith(b"raw profile type")


_CHECKS: dict[bytes, Callable[[bytes, PngKind], bool]] = {
    b"bKGD": _is_background,
    b"cHRM": _is_primaries,
    b"iTXt": _is_international_text,
    b"oFFs": _is_nine_bytes,
    b"pHYs": _is_nine_bytes,
    b"sBIT": _is_significant_bits,
    b"tEXt": _is_text,
    b"tIME": _is_time,
    b"zTXt": _is_compressed_text,
}


@lru_cache(maxsize=64)
def _is_quiet_profile(content: bytes, is_color: bool, libpng: tuple[int, ...]) -> bool:
    """True for the content of an iCCP chunk that libpng's ``png_icc_check_…`` find nothing to say about."""
    keyword, _, rest = content.partition(b"\0")
    profile = _inflated(rest[1:])
    if not 1 <= len(keyword) <= 79 or rest[:1] != b"\0" or len(content) < 81 + 11 or profile is None:
        return False
    length = len(profile)
    if length < 132 or length % 4 or (length in _SRGB_PROFILES and not libpng > _LATEST_WITH_PROFILES):
        return False
    told, tags = _u32(profile)[0], _u32(profile, 128)[0]
    if told != length or 132 + 12 * tags > length or _u32(profile, 64)[0] > 3:
        return False
    kind, space, connection = profile[12:16], profile[16:20], profile[20:24]
    if kind not in (b"scnr", b"mntr", b"prtr", b"spac") or space != (b"RGB " if is_color else b"GRAY"):
        return False
    if connection not in (b"XYZ ", b"Lab ") or profile[36:40] != b"acsp" or profile[68:80] != _D50:
        return False
    places: list[tuple[int, int]] = [unpack_from(">II", profile, 136 + 12 * tag) for tag in range(tags)]
    return all(start % 4 == 0 and start + size <= length for start, size in places)


def _inflated(stream: bytes) -> bytes | None:
    """The bytes of a zlib stream that ends where it should; None for any other, or one of too many bytes."""
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(stream, _MOST_BYTES)
    except zlib.error:
        return None
    return inflated if inflater.eof and not inflater.unused_data else None
