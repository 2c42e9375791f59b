"""OpenCV's ``imread`` and ``imdecode`` of JPEGs and PNGs by the core: an ordinary array with the same bytes.

OpenCV decodes files that the core refuses, that OpenCV may read in another way, or that are damaged.
"""

from __future__ import annotations

import inspect
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache, partial
from struct import Struct
from struct import error as StructError
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fastpipe.hooks.faster_function import FasterFunction, counted
from fastpipe.hooks.imports import import_at_first_use
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function, Patches, before
from fastpipe.hooks.png_chunks import has_colours, is_quiet
from fastpipe.plain_way import plainly
from fastpipe.png import chunks_of
from fastpipe.types import PACKED_SIGNATURE, is_packed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fastpipe.types import Header

    Pixels: TypeAlias = NDArray[np.generic]  # of uint8, or of uint16

_LIMITS = ("OPENCV_IO_MAX_IMAGE_WIDTH", "OPENCV_IO_MAX_IMAGE_HEIGHT", "OPENCV_IO_MAX_IMAGE_PIXELS")
"""Variables that limit the images that OpenCV reads; without them 2**20 rows or columns, and 2**30 pixels."""
_MOST_PIXELS = 1 << 28
_MOST_BYTES = 1 << 30
_SCRATCH, _SCRATCH_A_PIXEL = 1 << 26, 16

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces ``imread`` and ``imdecode``; has the report count files of several images, which OpenCV decodes."""
    for name in ("imreadmulti", "imdecodemulti", "imreadanimation", "imdecodeanimation"):
        if hasattr(module, name):
            patches.wrap(module, name, counted(f"cv2.{name}", "fastpipe decodes no files of several images"))
    is_limited = any(name in os.environ for name in _LIMITS)
    if is_limited:
        LEDGER.note(f"cv2.imread and cv2.imdecode are OpenCV's own: {', '.join(_LIMITS)} limit what they read.")
    known = _known_flags(hasattr(module, "IMREAD_COLOR_RGB"))
    imdecode = before(getattr(module, "imdecode", None))
    for name, encoded in (("imread", _file), ("imdecode", _buffer)):
        with patches.piece("cv2", f"cv2.{name}"):
            # The Python package copies its functions from the extension module, where they may have been replaced.
            vars(module)[name] = before(getattr(module, name))
            make = (lambda own: own) if is_limited else partial(_Decoder, f"cv2.{name}", encoded, known)
            patches.wrap(module, name, make, partial(_restoring, encoded, imdecode))


# -- arguments


class _Wanted(NamedTuple):
    """The meaning of a call's flags.

    Attributes:
        channels: 3, 1, or 0 for the file's own number.
        is_rgb: channels in the order RGB, not BGR.
        is_upright: turn the image by its EXIF orientation.
        keeps_depth: 16 bits of files that have them; otherwise 8.
    """

    channels: int
    is_rgb: bool
    is_upright: bool
    keeps_depth: bool


Encoded: TypeAlias = tuple[bytes, int]
"""The bytes of a file, and a call's flags."""
Flags: TypeAlias = dict[int, _Wanted]


def _known_flags(has_rgb: bool) -> Flags:
    """The meaning of each known value of flags, for images without transparency.

    Args:
        has_rgb: this OpenCV has ``IMREAD_COLOR_RGB``.
    """
    gray, color, any_color, any_depth, ignore_orientation, rgb = 0, 1, 4, 2, 128, 256
    known = {-1: _Wanted(0, False, False, True)}
    for ignored in (0, ignore_orientation):
        for depth in (0, any_depth):
            flags, rest = ignored | depth, (not ignored, bool(depth))
            known[gray | flags] = _Wanted(1, False, *rest)
            known[color | flags] = _Wanted(3, False, *rest)
            known[any_color | flags] = _Wanted(0, False, *rest)
            if has_rgb:
                known[rgb | flags] = _Wanted(3, True, *rest)
    return known


def _file(filename: object = None, flags: object = 1) -> Encoded | str:
    """The file's bytes and the flags of a call of ``imread``; or the reason why OpenCV has to read the file."""
    if type(filename) is not str or type(flags) is not int:
        return "arguments other than a name and flags"
    if not filename.isascii() and (os.name == "nt" or sys.getfilesystemencoding() != "utf-8" or not _is_utf8(filename)):
        return "names that OpenCV may encode otherwise"
    try:
        descriptor = os.open(filename, _FLAGS)
    except (OSError, ValueError):  # ValueError: a NUL byte
        return "files that can't be opened"
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return "not a file, or one of more than 1 GiB"
        data = os.read(descriptor, status.st_size + 1)
    except OSError:
        return "files that can't be read"
    finally:
        os.close(descriptor)
    return (data, flags) if len(data) == status.st_size else "files that are being written"


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _buffer(buf: object = None, flags: object = None) -> Encoded | str:
    """The bytes and the flags of a call of ``imdecode``; or the reason why OpenCV has to decode them."""
    import numpy as np  # OpenCV has imported it

    if type(buf) is not np.ndarray or type(flags) is not int:
        return "arguments other than an array and flags"
    if buf.ndim != 1 or buf.dtype.char != "B" or not buf.flags.c_contiguous or buf.size > _MOST_BYTES:
        return "buffers other than bytes in a row"
    return buf.tobytes(), flags


# -- packed images, which OpenCV doesn't know


def _restoring(encoded: Callable[..., Encoded | str], imdecode: Any, plain: Function) -> Function:
    """A function of OpenCV's that decodes the JPEGs of packed images; OpenCV's result for a damaged file is None."""

    def decode(*args: object, **kwargs: object) -> object:
        found = _packed_in(encoded, args, kwargs)
        if found is None:
            return plain(*args, **kwargs)
        import numpy as np

        from fastpipe.core.encoded import as_jpeg
        from fastpipe.errors import ReaderError

        data, flags = found
        try:
            jpeg = as_jpeg(data)
        except ReaderError as error:
            LEDGER.note(f"OpenCV gives None for a packed image: {error}")
            return None
        return imdecode(np.frombuffer(jpeg, np.uint8), flags)

    return decode


def _packed_in(
    encoded: Callable[..., Encoded | str], args: tuple[object, ...], kwargs: dict[str, object]
) -> Encoded | None:
    """A packed image among a call's arguments, with the call's flags; None for other images and unknown arguments."""
    if not is_packed(_start_of(args[0] if args else next(iter(kwargs.values()), None))):
        return None
    try:
        given = encoded(*args, **kwargs)
    except TypeError:  # arguments of another OpenCV
        return None
    return None if isinstance(given, str) else given


def _start_of(image: object) -> bytes:
    """The first bytes of a file, or of an array; empty for anything else."""
    import numpy as np

    if type(image) is np.ndarray:
        return image[: len(PACKED_SIGNATURE)].tobytes() if image.ndim == 1 else b""
    try:
        descriptor = os.open(image, _FLAGS) if type(image) is str else -1
    except (OSError, ValueError):
        return b""
    if descriptor < 0:
        return b""
    try:
        return os.read(descriptor, len(PACKED_SIGNATURE))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


# -- the decoder


class _Decoder(FasterFunction):
    """A function of OpenCV's that decodes by the core.

    Args:
        name: the function's name in the report.
        encoded: gets bytes and flags from a call's arguments; its parameters have OpenCV's names.
        known: the meaning of the known flags.
        plain: OpenCV's function.
    """

    def __init__(self, name: str, encoded: Callable[..., Encoded | str], known: Flags, plain: Function) -> None:
        super().__init__(name, plain)
        self._encoded, self._known = encoded, known
        self._names = tuple(inspect.signature(encoded).parameters)

    def make(self, *args: object, **kwargs: object) -> Pixels | str:
        """The image, or the reason why OpenCV has to make it."""
        if kwargs or len(args) > len(self._names):
            named = {**dict(zip(self._names, args, strict=False)), **kwargs}
            if len(named) != len(args) + len(kwargs) or not named.keys() <= set(self._names):
                return "other arguments"
            given = self._encoded(**named)
        else:
            given = self._encoded(*args)
        if isinstance(given, str):
            return given
        data, flags = given
        wanted = self._known.get(flags)
        return "other flags" if wanted is None else decode(data, wanted)


def decode(data: bytes, wanted: _Wanted) -> Pixels | str:
    """The decoded image, as OpenCV's; or the reason why OpenCV has to decode it."""
    from fastpipe.core.encoded import jpeg_or_png

    found = jpeg_or_png(data)
    if isinstance(found, str):
        return found
    if found.is_packed and not found.is_intact():
        return "damaged packed images"
    header = found.header
    gray = header.color_space == "L"
    is_known = header.plain or (header.format == "PNG" and header.color_space in ("L", "RGB"))  # see is_quiet, too
    is_known &= not (header.animated or header.transparency)
    if not is_known or header.height * header.width > _MOST_PIXELS or max(header.size) > 1 << 20:
        return "files that OpenCV may read otherwise"
    if header.format == "JPEG":
        exif = _exif_of_jpeg(found.head)
    else:
        exif = b"" if is_quiet(data, _libpng_version()) else None
    if exif is None:
        return "files that OpenCV may warn about"
    channels = wanted.channels or (1 if gray else 3)
    if header.bit_depth == 16:
        return _of_sixteen_bits(data, header, channels, wanted)
    if channels == 1 and header.color_space == "P":
        return _grays_of_indices(data, header)
    if header.color_space not in _COLORS[channels] or (channels == 1 and header.bit_depth != 8):
        return "other colours than the file's"
    orientation = _orientation(exif) if wanted.is_upright and exif else 1
    if orientation is None:
        return "EXIF data that OpenCV may read otherwise"
    return _decoded(data, header, channels, wanted.is_rgb, orientation)


_COLORS = {1: ("L", "YCbCr"), 3: ("L", "YCbCr", "RGB", "P")}


@cache
def _core() -> ModuleType:
    """The core, imported at the first image."""
    return import_at_first_use("fastpipe.core")


def _decoded(data: bytes, header: Header, channels: int, is_rgb: bool, orientation: int) -> Pixels | str:
    import numpy as np

    core = _core()
    height, width = header.size
    transposed, flipped, upended = _TURNS[orientation]
    job = core.thread_job()
    job.read(data, limits=(_MOST_PIXELS, _SCRATCH + _SCRATCH_A_PIXEL * height * width))
    if transposed:
        height, width = width, height
        job.transpose()
    if flipped:
        job.flip()
    if upended:
        job.flip_vertically()
    is_luma = channels == 1 and header.format == "JPEG"
    if channels == 1 and not is_luma:
        job.gray(1)  # the three channels are equal
    pixels = np.empty((height, width, channels) if channels == 3 else (height, width), np.uint8)
    job.write_array(pixels if channels == 1 or is_rgb else pixels[..., ::-1])
    job.raw.indices = is_luma
    status, warned = core.run(job), job.raw.warned
    job.raw.indices = False
    core.give_back(job)
    if status:
        return str(core.status_text(status))
    return "files that libjpeg warns about" if warned else pixels


def _of_sixteen_bits(data: bytes, header: Header, channels: int, wanted: _Wanted) -> Pixels | str:
    """A PNG of 16 bits a sample, as uint16, or as OpenCV's uint8: each sample's high byte."""
    import numpy as np

    from fastpipe import core

    if not (wanted.keeps_depth or _takes_high_bytes()):
        return "files of 16 bits, which this OpenCV converts in another way"
    count = header.height * header.width * channels
    samples = core.read_uint16(data, header, channels, _SCRATCH + _SCRATCH_A_PIXEL * count)
    if isinstance(samples, str):
        return samples
    pixels: Pixels = samples if wanted.keeps_depth else (samples >> 8).astype(np.uint8)
    is_swapped = channels == 3 and header.color_space == "RGB" and not wanted.is_rgb
    return np.ascontiguousarray(pixels[..., ::-1]) if is_swapped else pixels


@lru_cache(maxsize=1)
def _takes_high_bytes() -> bool:
    """True if this OpenCV makes 8 bits of 16 by their high byte: tried out on all 65,536 samples."""
    import numpy as np

    samples = np.arange(1 << 16, dtype=">u2").reshape(256, 256)
    rows = b"".join(bytes(1) + row.tobytes() for row in samples)
    with plainly():
        pixels = sys.modules["cv2"].imdecode(np.frombuffer(_png(256, 256, 16, 0, rows), np.uint8), 0)
    return pixels is not None and np.array_equal(pixels, samples >> 8)


def _png(height: int, width: int, depth: int, kind: int, rows: bytes, palette: bytes = b"") -> bytes:
    """A PNG; ``rows`` begin with their filters, ``kind`` is IHDR's color type."""
    chunks = [(b"IHDR", _ihdr(width, height, depth, kind, 0, 0, 0))]
    chunks += [(b"PLTE", palette)] * bool(palette) + [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    checked = [name + content + zlib.crc32(name + content).to_bytes(4, "big") for name, content in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join((len(each) - 8).to_bytes(4, "big") + each for each in checked)


def _grays_of_indices(data: bytes, header: Header) -> Pixels | str:
    """A PNG with a palette, such as a mask of classes, converted to gray."""
    import numpy as np

    from fastpipe import core

    palette = _palette(data)
    grays = _grays(palette) if len(palette) == 3 << header.bit_depth else None  # so that each index has a colour
    if grays is None or has_colours(data):
        return "palettes that OpenCV may read otherwise"
    job = core.thread_job()
    job.read(data, limits=(_MOST_PIXELS, _SCRATCH + _SCRATCH_A_PIXEL * header.height * header.width))
    pixels = np.empty(header.size, np.uint8)
    job.write_array(pixels)
    job.raw.indices = True
    status = core.run(job)
    job.raw.indices = False
    core.give_back(job)
    if status:
        return core.status_text(status)
    core.thread_context().look_up(pixels, grays, pixels)
    return pixels


@lru_cache(maxsize=64)
def _grays(palette: bytes) -> bytes | None:
    """The gray value of each colour of a palette, computed by OpenCV from a row with one pixel of each; zero-padded."""
    import numpy as np

    count = len(palette) // 3
    data = _png(1, count, 8, 3, bytes(1) + bytes(range(count)), palette)
    with plainly():
        row = sys.modules["cv2"].imdecode(np.frombuffer(data, np.uint8), 0)
    return None if row is None or row.shape != (1, count) else row.tobytes().ljust(256, b"\0")


# -- metadata

_SOS, _APP0, _APP1, _FILL = 0xDA, 0xE0, 0xE1, 0xFF
_APP0_MARKER, _APP1_MARKER = b"\xff\xe0", b"\xff\xe1"
_length = Struct(">H").unpack_from
_ihdr = Struct(">IIBBBBB").pack


def _exif_of_jpeg(data: bytes) -> bytes | None:
    """A JPEG's EXIF data; empty if there is none.

    None if libjpeg warns of the header, or if versions of OpenCV take different data for EXIF: the first APP1 segment
    from its seventh byte on, or the first one that begins with "Exif".
    """
    if _APP1_MARKER not in data and data.rfind(_APP0_MARKER) <= 2:  # most files: one APP0, at their beginning, or none
        return None if data.startswith(_APP0_MARKER, 2) and data.startswith(b"JFIF\0", 6) and data[11] != 1 else b""
    position, first, is_odd = 2, b"", False
    while (marker := data[position + 1]) != _SOS:
        end = position + (1 if marker == _FILL else 2 + _length(data, position + 2)[0])
        if marker == _APP1 and not first:
            first = data[position + 4 : end]
        elif marker == _APP1:
            is_odd |= data.startswith(b"Exif", position + 4)
        elif marker == _APP0:
            is_odd |= data.startswith(b"JFIF\0", position + 4) and data[position + 9] != 1
        position = end
    if first.startswith(b"Exif\0\0"):
        return None if is_odd else first[6:]
    return None if is_odd or first.startswith(b"Exif") or first[8:10] in (b"*\0", b"\0*") else b""


def _palette(data: bytes) -> bytes:
    """The content of a PNG's PLTE chunk; empty if it has none or several."""
    palettes = [data[start:end] for name, start, end in chunks_of(data) if name == b"PLTE"]
    return palettes[0] if len(palettes) == 1 else b""


@lru_cache(maxsize=1)
def _libpng_version() -> tuple[int, ...]:
    """The version of OpenCV's libpng; empty if OpenCV doesn't say which."""
    with suppress(AttributeError):  # of another OpenCV
        found = re.search(r"^\s*PNG:.*\(ver (\d+(?:\.\d+)+)\)", sys.modules["cv2"].getBuildInformation(), re.MULTILINE)
        if found:
            return tuple(map(int, found[1].split(".")))
    return ()


# -- the orientation, from EXIF data only, as OpenCV's exif.cpp reads it

_TURNS = {
    1: (False, False, False),
    2: (False, True, False),
    3: (False, True, True),
    4: (False, False, True),
    5: (True, False, False),
    6: (True, True, False),
    7: (True, True, True),
    8: (True, False, True),
}
"""For each orientation: whether rows and columns are swapped, then left and right, then top and bottom."""

_ORIENTATION = 0x0112
_TEXTS, _OTHERS = (0x010E, 0x010F, 0x0110, 0x0131, 0x0132, 0x8298), (0x011A, 0x011B, 0x013E, 0x013F, 0x0211, 0x0214)
"""Tags whose values OpenCV parses; after an invalid value it stops reading."""

_LAYOUTS = {
    little: (Struct(mark + "H").unpack_from, Struct(mark + "I").unpack_from, Struct(mark + "HHII").unpack_from)
    for little, mark in ((True, "<"), (False, ">"))
}


def _orientation(tiff: bytes) -> int | None:
    """The orientation by which OpenCV turns an image, 1 to 8; None if it depends on OpenCV's version."""
    u16, u32, entry = _LAYOUTS[tiff[:2] == b"II"]
    may_stop = False  # reading may stop before this entry
    try:
        if u16(tiff, 2)[0] != 42:
            return 1
        first = u32(tiff, 4)[0] + 2
        for position in range(first, first + 12 * u16(tiff, first - 2)[0], 12):
            tag, _, values, where = entry(tiff, position)
            if tag == _ORIENTATION:
                value: int = u16(tiff, position + 8)[0]
                return None if may_stop else value if value in _TURNS else 1
            may_stop |= tag in _OTHERS or (tag in _TEXTS and values > 4 and where + values > len(tiff))
    except StructError:  # the data ends here
        return None
    return 1
