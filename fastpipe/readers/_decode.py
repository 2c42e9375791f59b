"""Bytes → pixels: picks a reader, hands over only what its header proves, and lets Pillow decide the rest."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

import numpy as np
from PIL import Image

from fastpipe.core.packed import PACKED_FORMAT
from fastpipe.errors import (
    ConfigError,
    DecodeError,
    FastpipeWarning,
    ReaderError,
    ReaderUnavailableError,
    UnsupportedRequestError,
)
from fastpipe.readers._files import read_file
from fastpipe.readers._jpeg import refuse_bombs
from fastpipe.readers.base import Pixels, Reader
from fastpipe.readers.core import CoreReader, intact_jpeg
from fastpipe.readers.header import BytesLike, Source, as_bytes, parse_header, upright_orientation
from fastpipe.readers.limits import MaxPixels, check_limit
from fastpipe.readers.pil import PillowReader
from fastpipe.readers.registry import default_order, get_reader, registered_formats
from fastpipe.types import Box, Header, Turn

_PILLOW = "pil"

_JPEGS = ("JPEG", "MPO")

_ELSEWHERE = ("avif", "heif", "jxl")  # of a newer Pillow or a plugin's: a config may come from where they are


class ReaderChoice(Protocol):
    """The part of a config that readers use: `fastpipe.MachineConfig` or anything like it."""

    def reader_for(self, format: str) -> str | None: ...


def decode(
    data: BytesLike,
    box: Box | None = None,
    *,
    header: Header | None = None,
    reader: str | None = None,
    config: ReaderChoice | None = None,
    source: str = "<bytes>",
    max_pixels: MaxPixels = "auto",
    refused: bool = False,
) -> Pixels:
    """Pixels of an image in memory, equal to Pillow's.

    A fast reader is used where the header proves that its pixels are Pillow's and it decodes without a complaint;
    Pillow decodes everything else, whichever reader is named.

    Args:
        data: the whole file.
        box: the pixels that are wanted; None for all.
        header: of this file, if it has been parsed.
        reader: a reader's name; without it the config's choice for the format, or the built-in order.
        config: the machine's config; without it the current one.
        source: what an error calls the file.
        max_pixels: as `read_image`'s.
        refused: the reader that `choose` names has refused the file already: Pillow decides.

    Returns:
        ``(h, w, 3)`` uint8 RGB, maybe a strided view.

    Raises:
        DecodeError: Pillow refuses the file, or it has more pixels or scans than are allowed.
        UnsupportedRequestError: the box isn't inside the image.
        UnknownReaderError: `reader` or the config names one that there isn't.
        ReaderUnavailableError: `reader` doesn't load here.
    """
    data = as_bytes(data)
    if header is None:
        header = parse_header(data, source)
    check_limit(header, max_pixels, source)
    decides = refused and header.format != PACKED_FORMAT  # of a packed image the core says once more what is wrong
    chosen = get_reader(_PILLOW) if decides else choose(header, reader, config)
    return _decode(data, box, header, chosen, source)


def read_image(
    src: Source,
    *,
    reader: str | Mapping[str, str] | None = None,
    region: tuple[int, int, int, int] | None = None,
    apply_exif: bool = False,
    config: ReaderChoice | None = None,
    max_pixels: MaxPixels = "auto",
    mode: Literal["RGB", "P"] = "RGB",
) -> Pixels:
    """An image file's pixels, equal to ``numpy.asarray(PIL.Image.open(src).convert("RGB"))``.

    Args:
        src: a path, or the file as bytes-like data. The format comes from the bytes, never from the extension.
        reader: the name of the reader to use where it gives Pillow's pixels; see `available_readers`. By format
            ``{"jpg": "cv2", "png": "pil"}`` or ``"jpg=cv2,png=pil"``. Without it, and for other formats, the machine's
            config chooses.
        region: ``(top, left, height, width)`` in pixels: only these, and where the reader can, only these are
            decoded. With `apply_exif` it refers to the upright image.
        apply_exif: turn the image upright as its EXIF orientation says, as `PIL.ImageOps.exif_transpose` does.
        config: the machine's config; without it the current one.
        max_pixels: the same for every reader, and as Pillow's ``MAX_IMAGE_PIXELS``: an image with more pixels is
            warned about (``PIL.Image.DecompressionBombWarning``), one with more than twice as many is refused before
            memory is taken for it. None for no limit. ``"auto"`` is ``FASTPIPE_MAX_PIXELS`` (a number or ``none``),
            without it ``PIL.Image.MAX_IMAGE_PIXELS``. Above Pillow's own limit, Pillow still holds to its own when it
            decodes a TIFF or WebP.
        mode: ``"RGB"``; or ``"P"`` for masks: the indices of an image with a palette, or the levels of a gray one, as
            torchvision's segmentation datasets have them: ``numpy.asarray(PIL.Image.open(src))``.

    Returns:
        ``(height, width, 3)`` uint8 RGB, with ``mode="P"`` ``(height, width)`` uint8: fresh, contiguous and writable.

    Raises:
        DecodeError: Pillow refuses the file, or it has more pixels or scans than are allowed; names the file, its
            format, the reader and the reason.
        UnsupportedRequestError: a region that isn't inside the image; with ``mode="P"`` an image of colors.
        UnknownReaderError: `reader` or the config names one that there isn't.
        ReaderUnavailableError: `reader` doesn't load here.
        OSError: the path can't be opened (FileNotFoundError, IsADirectoryError, …), or isn't a regular file's.
    """
    if mode not in ("RGB", "P"):
        raise UnsupportedRequestError(f"an image is read in the mode 'RGB' or 'P', not {mode!r}")
    if isinstance(src, (str, os.PathLike)):
        source = str(os.fspath(src))
        data = read_file(src, max_pixels)
    else:
        source, data = "<bytes>", as_bytes(src)
    header = parse_header(data, source)
    check_limit(header, max_pixels, source)
    if config is not None:
        check_formats(getattr(config, "readers", ()))
    turn = swapped, rows_back, columns_back = _turn_of(upright_orientation(data, header) if apply_exif else 1)
    box = None
    if region is not None:
        upright = (header.width, header.height) if swapped else (header.height, header.width)
        box = _checked_box(region, upright).turned_back(turn, upright)
    chosen = choose(header, _reader_of(header.format, reader), config)
    if mode == "P":
        pixels = _decode_indices(data, box or Box(0, 0, *header.size), header, chosen, source)
    else:
        pixels = _decode(data, box, header, chosen, source)
    if swapped:
        pixels = np.swapaxes(pixels, 0, 1)
    pixels = pixels[:: -1 if rows_back else 1, :: -1 if columns_back else 1]
    return np.require(pixels, requirements=("C", "W", "O"))  # a copy where it is strided, or a part of more memory


def _reader_of(format: str, reader: str | Mapping[str, str] | None) -> str | None:
    """The reader that is asked for files of a format."""
    if reader is None:
        return None
    from fastpipe.config import ANY_FORMAT, format_key, readers_asked  # what is below doesn't need it

    asked = readers_asked(reader)
    check_readers(asked)  # an unknown one is told for files of any format
    return asked.get(format_key(format), asked.get(ANY_FORMAT))


def _decode(data: bytes, box: Box | None, header: Header, chosen: Reader, source: str) -> Pixels:
    if box is not None:
        _checked_box(box, header.size)
    is_jpeg, by_core = header.format in _JPEGS, isinstance(chosen, CoreReader)  # which refuses bombs by itself
    if is_jpeg and not by_core:
        refuse_bombs(data, header, source)
    if chosen.name != _PILLOW and chosen.accepts(header) and proved(chosen, data, header):
        try:
            if isinstance(chosen, CoreReader):
                return chosen.decode_region(data, box or Box(0, 0, *header.size))
            pixels = _checked(chosen.decode(data), header, chosen)
            return pixels if box is None else pixels[box.top : box.bottom, box.left : box.right]
        except ReaderError as error:  # Pillow decides
            if header.format == PACKED_FORMAT:
                raise _with_source(error, source, header) from error.__cause__
        except chosen.refusals:
            pass
        except Exception as error:  # another package's reader; a file must not stop training where Pillow can read it
            message = f"the reader {chosen.name!r} failed on {source} ({type(error).__name__}: {error}); Pillow read it"
            warnings.warn(message, FastpipeWarning, stacklevel=3)
    if is_jpeg and by_core:
        refuse_bombs(data, header, source)
    own = Image.MAX_IMAGE_PIXELS
    beyond = own is not None and header.height * header.width > own
    try:
        return _pillow().decode_region(data, box, any_size=beyond)
    except DecodeError as error:
        raise _with_source(error, source, header) from error.__cause__


def _pillow() -> PillowReader:
    pillow = get_reader(_PILLOW)
    assert isinstance(pillow, PillowReader)
    return pillow


def _checked(pixels: Pixels, header: Header, reader: Reader) -> Pixels:
    """A reader's pixels, if they are as large as the image."""
    if pixels.shape != (*header.size, 3) or pixels.dtype != np.uint8:
        reason = f"gives {pixels.dtype} {pixels.shape}, not uint8 {(*header.size, 3)}"
        raise DecodeError("<bytes>", None, reader.name, reason)
    return pixels


def _with_source(error: ReaderError, source: str, header: Header) -> ReaderError:
    """A reader's error, with the name of the file that it refuses."""
    if not isinstance(error, DecodeError):
        return error
    return DecodeError(source, header.format or error.format, error.reader, error.reason)


def _decode_indices(data: bytes, box: Box, header: Header, chosen: Reader, source: str) -> Pixels:
    if isinstance(chosen, CoreReader) and header.color_space in ("P", "L"):
        try:
            return chosen.decode_indices(data, box)
        except ReaderError:
            pass  # refused: Pillow decides
    if header.format in _JPEGS:
        refuse_bombs(data, header, source)
    try:
        return _pillow().decode_indices(data, box)
    except DecodeError as error:
        raise _with_source(error, source, header) from error.__cause__
    except UnsupportedRequestError as error:
        raise UnsupportedRequestError(f"{source}: {error}") from None


def choose(header: Header, reader: str | None = None, config: ReaderChoice | None = None) -> Reader:
    """The reader that decodes such a file; Pillow where no other proves that it gives Pillow's pixels.

    Of a packed image always the core, whichever reader is asked for: nothing else reads it.

    The one place that decides it: programs, `explain` and the tools ask here.

    Args:
        header: of the file.
        reader: a reader's name, where one is asked for: that one is taken where it accepts the file.
        config: the machine's config; without it the current one.

    Raises:
        UnknownReaderError: `reader` or the config names one that there isn't.
        ReaderUnavailableError: `reader` doesn't load here.
    """
    if header.format == PACKED_FORMAT:
        return get_reader("core")
    if reader is None:
        reader = configured_reader(header.format, config)
    for name in default_order(header.format) if reader is None else (reader,):
        try:
            candidate = get_reader(name)
        except ReaderUnavailableError:
            if reader is not None:
                raise
            continue
        if candidate.accepts(header):
            return candidate
    return get_reader(_PILLOW)


def check_readers(asked: Mapping[str, str]) -> None:
    """Raises unless each reader is there and reads the format that it is asked for.

    Args:
        asked: the config's key of a format, or ``"*"``, to a reader's name.

    Raises:
        ConfigError: there is no such format, or its reader reads others.
        UnknownReaderError: there is no such reader.
        ReaderUnavailableError: one doesn't load here.
    """
    from fastpipe.config import ANY_FORMAT, format_key

    able_of = {name: sorted({format_key(one) for one in get_reader(name).formats}) for name in asked.values()}
    check_formats(asked)
    for format, name in asked.items():
        able = able_of[name]
        if format not in (ANY_FORMAT, *able) and ANY_FORMAT not in able:
            raise ConfigError(f"{format}={name}: the reader {name!r} reads {', '.join(able)}, not {format}.")


def check_formats(formats: Iterable[str]) -> None:
    """Raises ConfigError for a config's key of a format that neither Pillow nor a reader has."""
    from fastpipe.config import ANY_FORMAT, format_key

    of_readers = set(map(format_key, registered_formats()))
    unknown = set(formats) - {ANY_FORMAT, *of_readers, *_ELSEWHERE}
    if not unknown:
        return
    Image.init()
    known = {*map(format_key, Image.OPEN), *of_readers} - {ANY_FORMAT}
    for format in sorted(unknown - known):
        raise ConfigError(
            f"no format is called {format!r}; there are {', '.join(sorted(known))}, and {ANY_FORMAT!r} for all others. "
            "One of a plugin of Pillow's is known once that is registered."
        )


def configured_reader(format: str, config: ReaderChoice | None = None) -> str | None:
    """The reader that a config names for a format; None where it names none, or one that doesn't load here.

    A config may come from another environment, or from before the core was switched off: what it names is a wish for
    speed, and pixels are the same without it. That is warned about once. A `reader=` argument isn't a config.

    Args:
        format: by Pillow's or the config's name of it.
        config: the machine's config; without it the current one.

    Raises:
        UnknownReaderError: the config names a reader that there isn't.
    """
    if config is None:
        from fastpipe.config import current_config  # reads the config file: on first use, never at import

        config = current_config()
    if not hasattr(config, "reader_for"):
        raise ConfigError(f"config={config!r:.80}: give a fastpipe.MachineConfig, or None for this machine's.")
    name = config.reader_for(format)
    if name is None:
        return None
    try:
        get_reader(name)
    except ReaderUnavailableError as error:
        from fastpipe.config import warn_once

        warn_once(
            f"the config (its file, or FASTPIPE_READER) names {name!r}, and {error}. Built-in defaults serve instead: "
            "same pixels, only slower. `fastpipe configure` measures and writes what this environment has."
        )
        return None
    return name


def proved(reader: Reader, data: bytes, header: Header) -> bool:
    """Whether a reader that accepts the header may be asked for a file's pixels: all of the file is in order.

    Of a JPEG or WebP file that is cheap to see; a PNG has to be decoded for it, so its readers have to prove it.
    """
    if reader.proves:
        return True
    if header.format == "WEBP":
        return len(data) == int.from_bytes(data[4:8], "little") + 8
    return header.format != "PNG" and (header.format not in _JPEGS or intact_jpeg(data, header))


def _checked_box(region: tuple[int, int, int, int], size: tuple[int, int]) -> Box:
    try:
        box = Box(*(int(value) for value in region))
    except (TypeError, ValueError):
        box = None
    if box is None or box != tuple(region) or box.height < 1 or box.width < 1 or not box.inside(size):
        raise UnsupportedRequestError(
            f"region {tuple(region) if isinstance(region, (tuple, list)) else region!r} is not inside the image of "
            f"{size[0]}×{size[1]} pixels (height×width); a region is (top, left, height, width) in whole pixels, "
            "at least 1×1"
        )
    return box


def _turn_of(orientation: int) -> Turn:
    """The turn that an EXIF orientation asks for."""
    return orientation >= 5, orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)
