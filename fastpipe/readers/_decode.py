"""Bytes → pixels: picks a reader, gives it only files whose header proves Pillow's pixels, and the others to Pillow."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

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
from fastpipe.readers.registry import default_order, get_reader, known_readers, registered_formats
from fastpipe.types import Box, Header, Turn

if TYPE_CHECKING:
    from fastpipe.config import MachineConfig

_PILLOW = "pil"

_JPEGS = ("JPEG", "MPO")

_known_formats = {"avif", "heif", "jxl"}
"""Keys of formats that have passed `check_formats`.

The first ones are read by a newer Pillow or a plugin's: a config may come from where they are.
"""


class ReaderChoice(Protocol):
    """The part of a config that readers use; `fastpipe.MachineConfig` implements it."""

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
    """Decodes an image in memory, to Pillow's pixels.

    A fast reader is used if the header proves that its pixels are Pillow's, and it decodes the file without an error or
    warning. Pillow decodes everything else, whichever reader is named.

    Args:
        data: the whole file.
        box: the pixels to decode; None for all.
        header: the file's header, if it has been parsed already.
        reader: a reader's name; None for the config's choice for the format, or the built-in order.
        config: the machine's config; None for the current one.
        source: the file's name in errors.
        max_pixels: see `read_image`.
        refused: the reader that `choose` gives has refused the file already, so that Pillow decides.

    Returns:
        ``(h, w, 3)`` uint8 RGB, perhaps a strided view.

    Raises:
        DecodeError: Pillow refuses the file, or it has more pixels or scans than are allowed.
        UnsupportedRequestError: the box isn't inside the image.
        UnknownReaderError: `reader` or `config` names an unknown reader.
        ReaderUnavailableError: `reader` doesn't load here.
    """
    data = as_bytes(data)
    if header is None:
        header = parse_header(data, source)
    check_limit(header, max_pixels, source)
    decides = refused and header.format != PACKED_FORMAT  # for a packed image the core raises once more
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
    """Reads an image file; the pixels equal ``numpy.asarray(PIL.Image.open(src).convert("RGB"))``.

    Args:
        src: a path, or the file as bytes-like data. The format comes from the bytes, never from the extension.
        reader: the name of the reader to use if it gives Pillow's pixels; see `available_readers`. Names by format are
            given as ``{"jpg": "cv2", "png": "pil"}`` or ``"jpg=cv2,png=pil"``. None, and other formats, use the choice
            of the config.
        region: ``(top, left, height, width)`` in pixels: gives only this box. Readers that can decode nothing else.
            With `apply_exif` it refers to the upright image.
        apply_exif: turn the image upright by its EXIF orientation, as `PIL.ImageOps.exif_transpose` does.
        config: the machine's config; None for the current one.
        max_pixels: a limit like Pillow's ``MAX_IMAGE_PIXELS``, the same for every reader. An image with more pixels
            gives a ``PIL.Image.DecompressionBombWarning``; one with more than twice as many is refused before memory is
            allocated for it. None for no limit. ``"auto"`` is ``FASTPIPE_MAX_PIXELS`` (a number or ``none``), or
            ``PIL.Image.MAX_IMAGE_PIXELS`` if it isn't set. Above Pillow's own limit, Pillow still applies that limit to
            TIFF and WebP files.
        mode: ``"RGB"``; or ``"P"`` for masks: the indices of a palette image, or the levels of a gray one, as in
            torchvision's segmentation datasets: ``numpy.asarray(PIL.Image.open(src))``.
    Returns:
        ``(height, width, 3)`` uint8 RGB, with ``mode="P"`` ``(height, width)`` uint8: new, contiguous and writable.

    Raises:
        DecodeError: Pillow refuses the file, or it has more pixels or scans than are allowed; names the file, its
            format, the reader and the reason.
        UnsupportedRequestError: a region that isn't inside the image; with ``mode="P"`` an image with colour channels.
        UnknownReaderError: `reader` or `config` names an unknown reader.
        ReaderUnavailableError: `reader` doesn't load here.
        OSError: the path can't be opened (FileNotFoundError, IsADirectoryError, …), or isn't a regular file.
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
    return np.require(pixels, requirements=("C", "W", "O"))  # copies views


def _reader_of(format: str, reader: str | Mapping[str, str] | None) -> str | None:
    """The reader that a ``reader=`` argument names for a format; None for the config's choice."""
    if reader is None:
        return None
    from fastpipe.config import ANY_FORMAT, format_key, readers_asked  # the code below needs no config

    asked = readers_asked(reader)
    check_readers(asked)  # an unknown reader is an error for files of any format
    return asked.get(format_key(format), asked.get(ANY_FORMAT))


def _decode(data: bytes, box: Box | None, header: Header, chosen: Reader, source: str) -> Pixels:
    if box is not None:
        _checked_box(box, header.size)
    is_jpeg, by_core = header.format in _JPEGS, isinstance(chosen, CoreReader)  # the core refuses bombs itself
    if is_jpeg and not by_core:
        refuse_bombs(data, header, source)
    if chosen.name != _PILLOW and chosen.accepts(header) and proved(chosen, data, header):
        try:
            if isinstance(chosen, CoreReader):
                return chosen.decode_region(data, box or Box(0, 0, *header.size))
            pixels = chosen.decode(data)
        except ReaderError as error:  # Pillow decides
            if header.format == PACKED_FORMAT:
                raise _with_source(error, source, header) from error.__cause__
        except chosen.refusals:
            pass
        except Exception as error:  # a plugin's reader; training must not stop if Pillow can read the file
            message = f"the reader {chosen.name!r} failed on {source} ({type(error).__name__}: {error}); Pillow read it"
            warnings.warn(message, FastpipeWarning, stacklevel=3)
        else:
            complaint = _complaint(pixels, header)
            if not complaint:
                return pixels if box is None else pixels[box.top : box.bottom, box.left : box.right]
            message = f"the reader {chosen.name!r} {complaint} for {source}; Pillow read it"
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


def _complaint(pixels: object, header: Header) -> str:
    """The complaint about a reader's result; empty for pixels of the image's size."""
    wanted = (*header.size, 3)
    if not isinstance(pixels, np.ndarray):
        return f"gave {type(pixels).__name__}, not a uint8 array {wanted}"
    if pixels.shape != wanted or pixels.dtype != np.uint8:
        return f"gave {pixels.dtype} {pixels.shape}, not uint8 {wanted}"
    return ""


def _with_source(error: ReaderError, source: str, header: Header) -> ReaderError:
    """Adds the file's name and format to a reader's error."""
    if not isinstance(error, DecodeError):
        return error
    return DecodeError(source, header.format or error.format, error.reader, error.reason)


def _decode_indices(data: bytes, box: Box, header: Header, chosen: Reader, source: str) -> Pixels:
    if isinstance(chosen, CoreReader) and header.color_space in ("P", "L"):
        try:
            return chosen.decode_indices(data, box)
        except ReaderError:
            pass  # the core refused: Pillow decides
    if header.format in _JPEGS:
        refuse_bombs(data, header, source)
    try:
        return _pillow().decode_indices(data, box)
    except DecodeError as error:
        raise _with_source(error, source, header) from error.__cause__
    except UnsupportedRequestError as error:
        raise UnsupportedRequestError(f"{source}: {error}") from None


def choose(header: Header, reader: str | None = None, config: ReaderChoice | None = None) -> Reader:
    """Chooses the reader that decodes a file; Pillow if no other proves that it gives Pillow's pixels.

    Packed images always go to the core, whichever reader is named, because nothing else reads them. Programs, `explain`
    and the tools all call this function.

    Args:
        header: the file's header.
        reader: a reader's name; it is used if it accepts the file. None for the config's choice.
        config: the machine's config; None for the current one.

    Raises:
        UnknownReaderError: `reader` or `config` names an unknown reader.
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
    """Raises unless each reader loads here and reads the format that it is asked for.

    Args:
        asked: the config's key of a format, or ``"*"``, to a reader's name.

    Raises:
        ConfigError: a format is unknown, or its reader doesn't read it.
        UnknownReaderError: a reader is unknown.
        ReaderUnavailableError: a reader doesn't load here.
    """
    from fastpipe.config import ANY_FORMAT, format_key

    of_formats = {format: get_reader(name) for format, name in asked.items()}
    check_formats(asked)
    for format, reader in of_formats.items():
        able = {format_key(one) for one in reader.formats} if format != ANY_FORMAT else {ANY_FORMAT}
        if able.isdisjoint((format, ANY_FORMAT)):
            name = asked[format]
            raise ConfigError(f"{format}={name}: the reader {name!r} reads {', '.join(sorted(able))}, not {format}.")


def check_formats(formats: Iterable[str]) -> None:
    """Raises ConfigError for a config's key of a format that neither Pillow nor a reader reads."""
    if _known_formats.issuperset(formats):
        return
    from fastpipe.config import ANY_FORMAT, format_key

    of_readers = set(map(format_key, registered_formats()))
    _known_formats.update((ANY_FORMAT, *of_readers))
    unknown = set(formats) - _known_formats
    if not unknown:
        return
    Image.init()
    known = {*map(format_key, Image.OPEN), *of_readers} - {ANY_FORMAT}
    _known_formats.update(known)
    for format in sorted(unknown - known):
        raise ConfigError(
            f"no format is called {format!r}; there are {', '.join(sorted(known))}, and {ANY_FORMAT!r} for all others. "
            "One of a plugin of Pillow's is known once that is registered."
        )


_followed: tuple[object, tuple[str, ...], MachineConfig] | None = None
"""The last config of `machine_config`, the readers known then if an entry was dropped, and the result."""


def machine_config() -> MachineConfig:
    """This machine's config without the entries of its file that can't be followed; one warning names them.

    Such an entry names an unknown reader, one that doesn't load here, or one that doesn't read the format.
    """
    global _followed
    from fastpipe.config import MachineConfig, current_config, parse_reader_override, warn_once

    given = current_config()
    if _followed is not None and _followed[0] is given:
        known_then = _followed[1]
        if not known_then or known_then == tuple(known_readers()):  # which looks at all installed packages
            return _followed[2]
    asked = parse_reader_override(os.environ.get("FASTPIPE_READER", ""))  # these raise where they are used
    kept: dict[str, str] = {}
    refused: dict[str, list[str]] = {}  # entries by the reason
    for format, name in given.readers.items():
        try:
            if format not in asked:
                check_readers({format: name})
            kept[format] = name
        except (ConfigError, ReaderError) as error:
            refused.setdefault(str(error).rstrip("."), []).append(f"{format} = {name!r}")
    if refused:
        said = "; and ".join(f"{' and '.join(some)}, which can't be followed: {why}" for why, some in refused.items())
        warn_once(
            f"{MachineConfig.path()} says {said}. Built-in defaults are used: same pixels, only slower. "
            "`fastpipe configure` measures and writes what there is here."
        )
    dropped = len(kept) < len(given.readers)
    _followed = given, tuple(known_readers()) if dropped else (), replace(given, readers=kept) if dropped else given
    return _followed[2]


def configured_reader(format: str, config: ReaderChoice | None = None) -> str | None:
    """The reader that a config names for a format; None if it names none, or one that doesn't load here.

    Warns once of a reader that doesn't load, instead of raising as for a `reader=` argument: a config may come from
    another environment, or from before the core was switched off, and other readers give the same pixels.

    Args:
        format: Pillow's or the config's name of the format.
        config: the machine's config; None for the current one.

    Raises:
        UnknownReaderError: `config` names an unknown reader.
    """
    if config is None:
        config = machine_config()
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
            f"the config (its file, or FASTPIPE_READER) names {name!r}, and {error}. The built-in order is used: "
            "same pixels, only slower. `fastpipe configure` measures and writes what this environment has."
        )
        return None
    return name


def proved(reader: Reader, data: bytes, header: Header) -> bool:
    """True if a reader that accepts the header may decode the file, because the whole file is intact.

    That is cheap to check for a JPEG or WebP file. A PNG would have to be decoded, so its readers have to check it
    themselves (`Reader.proves`).
    """
    if reader.proves:
        return True
    if header.format == "WEBP":
        return len(data) == int.from_bytes(data[4:8], "little") + 8
    if header.format in _JPEGS:
        return not header.progressive and intact_jpeg(data, header)
    return header.format != "PNG"


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
    """The turn for an EXIF orientation."""
    return orientation >= 5, orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)
