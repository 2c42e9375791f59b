"""One input through a reader: the outcome must be Pillow's, for the whole image, a region, the header and upright."""

from __future__ import annotations

import io
import random
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from fuzz.png import rows_above
from PIL import Image, ImageOps

from fastpipe import readers
from fastpipe.errors import DecodeError, ReaderError
from fastpipe.readers import proved
from fastpipe.readers.core import CoreReader
from fastpipe.types import Box

PILLOW, HEADER = "Pillow itself", "header"
"""Beside the readers: the decode that all are compared with, and the header parser."""

MAX_PIXELS = 1 << 20
"""Pillow's limit while fuzzing: an input that claims more must be refused as well, and costs no time."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Pillow's result for an input.

    Attributes:
        described: format, height, width and EXIF orientation; None where `Image.open` refuses.
        pixels: ``(H, W, 3)`` uint8, None where Pillow refuses them.
        reason: of its refusal.
    """

    described: tuple[str | None, int, int, int] | None
    pixels: np.ndarray | None
    reason: str = ""


def expected_of(data: bytes) -> Expected:
    """Pillow's reading of an input; its plugins raise nearly anything on a damaged one."""
    described = described_of(data)
    try:
        with Image.open(io.BytesIO(data)) as image:
            return Expected(described, np.asarray(image.convert("RGB")))
    except Exception as error:
        return Expected(described, None, f"{type(error).__name__}: {error}")


def described_of(data: bytes) -> tuple[str | None, int, int, int] | None:
    """Format, height, width and EXIF orientation as Pillow has them; None where it doesn't identify the input."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.format, image.height, image.width, _orientation(image)
    except Exception:
        return None


def _orientation(image: Image.Image) -> int:
    """As the header tells it, before any pixel: 1 where there is none, or its EXIF data is damaged."""
    try:
        # Not a PNG's own getexif, which looks behind the pixels; and Pillow turns a TIFF upright by itself.
        value = 1 if image.format == "TIFF" else Image.Image.getexif(image).get(0x0112)
    except Exception:
        return 1
    return value if value in range(1, 9) else 1


def prepare() -> None:
    """Make the process ready: low limits, and what fastpipe warns about is an error."""
    from fastpipe.errors import FastpipeWarning

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", FastpipeWarning)


class Turns(Protocol):
    """Is told whose turn it is, so that a crash, a hang and memory can be put down to a reader."""

    def begin(self, name: str) -> None: ...

    def end(self, own: bool) -> None: ...


class Unwatched:
    """For inputs that are checked in this process."""

    def begin(self, name: str) -> None: ...

    def end(self, own: bool) -> None: ...


def check(
    data: bytes, names: tuple[str, ...], number: int, folder: Path, turns: Turns | None = None
) -> list[tuple[str, str]]:
    """The faults of the readers' outcomes, as (reader, phrase); empty where all agree with Pillow.

    Args:
        data: the input.
        names: the readers. One that doesn't read the header's format leaves nearly every such input out.
        number: of the input; chooses the region, and which rarer checks are made.
        folder: where a file may be written.
        turns: is told whose turn it is.
    """
    turns = turns or Unwatched()
    turns.begin(PILLOW)
    expected = expected_of(data)
    turns.end(expected.pixels is not None)
    turns.begin(HEADER)
    phrases, header = _headers(data, expected, number, folder)
    turns.end(header is not None)
    found = [(HEADER, phrase) for phrase in phrases]
    for name in names:
        rng = random.Random(number)
        if number % 8 and not _reads(name, header):
            continue
        turns.begin(name)
        phrases = _whole(data, name, expected)
        own = False
        if header is not None and min(header.size) > 0:
            proved = _proved(data, name, header)
            if proved or number % 4 == 0:  # else Pillow decodes, whichever reader is named
                phrases += _region(data, name, header, expected, rng)
            if number % 8 == 0 and header.orientation != 1:
                phrases += _upright(data, name, expected)
            # OpenCV takes 4 GiB for a chunk of a PNG that says so: nothing but a JPEG is decoded without a proof.
            if proved or (header.format in ("JPEG", "MPO") and _reads(name, header)):
                raw, decoded = _alone(data, name, header, rng, proved)
                phrases, own = phrases + raw, proved and decoded
        turns.end(own)
        found += [(name, phrase) for phrase in phrases]
    if found and not _same(expected.pixels, expected_of(data).pixels):
        return []  # Pillow isn't of one mind: what it gives was never written
    return found


def _reads(name: str, header: readers.Header | None) -> bool:
    return name == "pil" or (header is not None and header.format in readers.get_reader(name).formats)


def _proved(data: bytes, name: str, header: readers.Header) -> bool:
    """True if `readers.decode` lets this reader decode the input."""
    reader = readers.get_reader(name)
    return name == "pil" or (reader.accepts(header) and proved(reader, data, header))


def _alone(data: bytes, name: str, header: readers.Header, rng: random.Random, proved: bool) -> tuple[list[str], bool]:
    """The reader without the checks that stand before it: it may refuse, or give other pixels than Pillow, no more.

    Returns:
        What is wrong, and whether it decoded.
    """
    reader = readers.get_reader(name)
    if header.height * header.width > 2 * MAX_PIXELS:
        return [], False
    box = None
    if rng.random() < 0.5:
        top, left = rng.randrange(header.height), rng.randrange(header.width)
        box = Box(top, left, rng.randint(1, header.height - top), rng.randint(1, header.width - left))
    if not isinstance(reader, CoreReader):
        box = None
    what = f"get_reader({name!r}) of {box or 'all'}"
    try:
        pixels = reader.decode_region(data, box) if box else reader.decode(data)
    except (ReaderError, *reader.refusals):
        return [], False
    except Exception as error:
        return [f"{what} raises {type(error).__name__}: {error}"], False
    size = header.size if box is None else box.size
    if proved and pixels.shape != (*size, 3):
        return [f"{what} gives {pixels.shape}, not {size}"], True
    return [], True


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _headers(data: bytes, expected: Expected, number: int, folder: Path) -> tuple[list[str], readers.Header | None]:
    found = []
    try:
        header = readers.parse_header(data)
    except DecodeError:
        header = None
        if expected.pixels is not None:
            found.append(f"parse_header refuses what Pillow describes as {expected.described}")
    except Exception as error:
        return [f"parse_header raises {type(error).__name__}: {error}"], None
    if header is not None:
        described = (header.format, header.height, header.width, header.orientation)
        if expected.described not in (None, described):
            found.append(f"parse_header says {described}, Pillow {expected.described}")
        if not -1 <= header.data_offset <= len(data) or header.orientation not in range(1, 9):
            found.append(f"parse_header gives {header}")
    if number % 16 == 0:
        path = folder / "input"
        path.write_bytes(data)
        try:
            read = readers.read_header(path)
        except DecodeError:
            read = None
        except Exception as error:
            return [*found, f"read_header raises {type(error).__name__}: {error}"], header
        if read != header:
            found.append(f"read_header of a file says {read}, parse_header {header}")
    return found, header


def _whole(data: bytes, name: str, expected: Expected) -> list[str]:
    what = f"read_image(reader={name!r})"
    try:
        pixels = readers.read_image(data, reader=name)
    except DecodeError as error:
        if expected.pixels is not None:
            return [f"{what} refuses what Pillow reads: {error}"]
        return []
    except Exception as error:
        return [f"{what} raises {type(error).__name__}: {error}"]
    return _compared(what, pixels, expected.pixels, expected.reason)


def _region(data: bytes, name: str, header: readers.Header, expected: Expected, rng: random.Random) -> list[str]:
    height, width = header.size
    top, left = rng.randrange(height), rng.randrange(width)
    box = Box(top, left, rng.randint(1, height - top), rng.randint(1, width - left))
    what = f"decode(reader={name!r}, {tuple(box)})"
    if expected.pixels is None and box.height * box.width > MAX_PIXELS:
        box = Box(top, left, 1, 1)
    try:
        pixels = readers.decode(data, box, header=header, reader=name)
    except DecodeError as error:
        if expected.pixels is not None:
            return [f"{what} refuses what Pillow reads: {error}"]
        return []
    except Exception as error:
        return [f"{what} raises {type(error).__name__}: {error}"]
    if expected.pixels is None and header.format == "PNG" and box.bottom < height:
        above = rows_above(data, header, box.bottom)
        if above is None:
            return []
        expected = expected_of(above)
        if expected.pixels is not None:
            pixels = pixels[: expected.pixels.shape[0] - box.top]
    part = None if expected.pixels is None else expected.pixels[box.top : box.bottom, box.left : box.right]
    return _compared(what, pixels, part, expected.reason)


def _upright(data: bytes, name: str, expected: Expected) -> list[str]:
    what = f"read_image(reader={name!r}, apply_exif=True)"
    try:
        with Image.open(io.BytesIO(data)) as image:
            upright = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except Exception:
        return []  # where its EXIF data is damaged Pillow turns nothing, and raises
    try:
        return _compared(what, readers.read_image(data, reader=name, apply_exif=True), upright, "")
    except Exception as error:
        return [] if expected.pixels is None else [f"{what} raises {type(error).__name__}: {error}"]


def _compared(what: str, pixels: np.ndarray, expected: np.ndarray | None, reason: str) -> list[str]:
    if expected is None:
        return [f"{what} gives {pixels.shape} where Pillow refuses: {reason}"]
    if pixels.shape != expected.shape:
        return [f"{what} gives {pixels.shape}, Pillow {expected.shape}"]
    if not np.array_equal(pixels, expected):
        apart = int(np.abs(pixels.astype(int) - expected).max())
        places = np.argwhere((pixels != expected).any(axis=2))
        return [f"{what} is up to {apart} from Pillow in {len(places)} pixels, from {places[0].tolist()} on"]
    return []
