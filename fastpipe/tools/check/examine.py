"""Examines one file after the other in a separate process, as a file may kill or hang the process that reads it.

The process reads pickles from its parent: `Rules` once, then sequences of `Task`s. It answers in lines of JSON: "ready"
once, then each file's `FileFacts`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pickle
import queue
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from PIL import Image, ImageFile

from fastpipe import readers
from fastpipe.core.packed import PACKED_FORMAT, is_whole, unpack
from fastpipe.environment import opencv
from fastpipe.errors import DecodeError, ReaderError
from fastpipe.foreign_code import outcome_of
from fastpipe.readers.header import guess_format
from fastpipe.tools.check.findings import FileFacts, bits_of
from fastpipe.types import Header

LARGE_FACTOR = 4
"""A file counts as large if its shorter side is more than this many times the size that training needs."""

_TINY_PX = 16
_LONG = 10.0
_TEXT_LENGTH = 400
_LOOK_BYTES = 1 << 16

_USUAL_FORMATS = frozenset({"JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", PACKED_FORMAT})
_USUAL_COLORS = frozenset({"YCbCr", "RGB", "L", "CMYK", "YCCK", "P", "RGBA", "LA", "1", "PA", "I;16", "I;16B", "I;16L"})
_SAME = {"MPO": "JPEG", "DIB": "BMP"}

_MEMORY = re.compile(r" <_io\.BytesIO object at 0x[0-9a-f]+>")  # Pillow's name in messages for a file given as bytes
_ENDS_EARLY = re.compile(
    r"truncat|incomplete|premature|end of file|not enough (?:image )?data|ends (?:early|before)|\beof\b", re.IGNORECASE
)

# Other content that downloads leave under an image's name, recognised by its beginning.
_OTHER_THINGS = (
    (re.compile(rb"\s*<(?:!doctype html|html|head|body|!--)", re.IGNORECASE), "a web page (HTML)"),
    (re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<svg", re.IGNORECASE | re.DOTALL), "an SVG drawing"),
    (re.compile(rb"\s*<\?xml|\s*<[A-Za-z]+[ >]"), "an XML document"),
    (re.compile(rb'\s*[{\[]\s*["{\[}\]]'), "JSON"),
    (re.compile(rb"%PDF-"), "a PDF document"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive"),
    (re.compile(rb"\x1f\x8b"), "a gzip file"),
    (re.compile(rb"....ftyp(?:hei[cmsx]|hev[cmx]|mif1|msf1)", re.DOTALL), "a HEIF picture, which needs pillow-heif"),
    (re.compile(rb"....ftypavi[fs]", re.DOTALL), "an AVIF picture, which this Pillow can't read"),
    (re.compile(rb"\x00\x00\x00\x0cJXL |\xff\x0a", re.DOTALL), "a JPEG XL picture, which Pillow can't read"),
    (re.compile(rb"....ftyp", re.DOTALL), "a video (MP4)"),
    (re.compile(rb"version https://git-lfs"), "a Git LFS pointer: the file itself was never fetched (git lfs pull)"),
)


class Task(NamedTuple):
    """A file to examine."""

    number: int  # its position in the index
    path: str  # the absolute path


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a check."""

    decode: bool  # decode pixels; False reads only headers
    size: int  # the side that training needs, in pixels
    max_pixels: int | None  # images with more pixels cause a warning, with twice as many an error; None for no limit
    pillow_max_pixels: int | None  # this and the next attribute: settings of the caller's Pillow
    pillow_load_truncated: bool


def _complaint(reader: readers.Reader, data: bytes) -> str:
    """A fast reader's error for a file; empty if it decodes the file."""
    error = outcome_of(lambda: reader.decode(data))
    if isinstance(error, ReaderError):
        return f"{reader.name}: {getattr(error, 'reason', str(error))}"
    return f"{reader.name}: {type(error).__name__}: {error}" if isinstance(error, Exception) else ""


def prepare(rules: Rules) -> None:
    """Imports readers ahead, so that no file's time includes that, and applies the caller's settings of Pillow."""
    Image.MAX_IMAGE_PIXELS = rules.pillow_max_pixels
    ImageFile.LOAD_TRUNCATED_IMAGES = rules.pillow_load_truncated
    Image.init()
    if rules.decode:
        for format in ("JPEG", "PNG", "WEBP", *readers.machine_config().readers):
            chosen = readers.configured_reader(format)  # warns here rather than while a file is examined
            for name in readers.default_order(format) if chosen is None else (chosen,):
                with contextlib.suppress(ReaderError):
                    readers.get_reader(name)
        if (cv2 := opencv()) is not None:
            cv2.setNumThreads(1)


def examine(path: str, rules: Rules) -> FileFacts:
    """Returns the findings of a file; never raises because of the file."""
    try:
        size = readers.stat_file(path)[0]
    except OSError as error:
        gone = os.path.islink(path) and isinstance(error, FileNotFoundError)
        return FileFacts(bits_of(["unreachable"]), text="a link to a file that isn't there" if gone else _said(error))

    def refused(kind: str, text: str, format: str | None = None) -> FileFacts:
        return FileFacts(bits_of([kind]), size, format or "", text=text[:_TEXT_LENGTH])

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            header, complaint = _read(path, rules)
        except DecodeError as error:
            kind, reason = _refusal(path, size, error)
            return refused(kind, _MEMORY.sub("", reason), error.format)
        except OSError as error:
            return refused("over-limit" if error.errno == errno.EFBIG else "unreachable", _said(error))
        except MemoryError:
            return refused("unreadable", "needs more memory than there is")
        except Exception as error:  # any exception would end the training
            return refused("unreadable", f"{type(error).__name__}: {error}")
    said = [str(one.message) for one in caught if not issubclass(one.category, Image.DecompressionBombWarning)]
    kinds, texts = _notes(path, header, rules)
    if complaint:
        kinds.append("damaged")
        texts.insert(0, complaint)
    if said:
        kinds.append("warns")
        texts += dict.fromkeys(said)
    return FileFacts(
        bits_of(kinds),
        size,
        header.format,
        header.height,
        header.width,
        header.orientation,
        "; ".join(texts)[:_TEXT_LENGTH],
    )


def _read(path: str, rules: Rules) -> tuple[Header, str]:
    """Reads a file, and raises as a dataset would; returns its header, and a fast reader's complaint, if any."""
    if not rules.decode:
        header = readers.read_header(path)
        limit, pixels = rules.max_pixels, header.height * header.width
        if limit is not None and pixels > 2 * limit:
            said = f"Image size ({pixels} pixels) exceeds limit of {2 * limit} pixels"
            raise DecodeError(path, header.format, "pil", said)
        return header, ""
    data = readers.read_file(path, rules.max_pixels)
    header = readers.parse_header(data, path)
    readers.check_limit(header, rules.max_pixels, path)
    chosen = readers.choose(header)
    fast = chosen.name != "pil"
    proved = fast and readers.proved(chosen, data, header)
    complaint = _complaint(chosen, data) if proved else ""
    if not proved or complaint:  # decode with Pillow
        readers.decode(data, header=header, reader="pil", source=path, max_pixels=None)
    if header.format == PACKED_FORMAT and not is_whole(data):  # damaged where the pixels aren't
        unpack(data)  # its error says where the damage is
        raise DecodeError(path, PACKED_FORMAT, "core", "a checksum is wrong")
    within = rules.max_pixels is None or header.height * header.width <= rules.max_pixels
    if fast and not proved and within:
        complaint = _complaint(chosen, data)
    return header, complaint if within else ""


def _said(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _refusal(path: str, size: int, error: DecodeError) -> tuple[str, str]:
    """The kind of finding for a file that can't be decoded, and the reason in words."""
    if size == 0:
        return "empty", "zero bytes"
    if isinstance(error.__cause__, Image.DecompressionBombError) or "exceeds limit" in error.reason:
        return "over-limit", error.reason
    try:
        file_name, offset, _ = readers.place_of(path)
        with open(file_name, "rb") as file:
            file.seek(offset)
            start = file.read(min(_LOOK_BYTES, size))
            file.seek(offset + max(size - _LOOK_BYTES, 0))
            end = file.read(min(_LOOK_BYTES, size))
    except OSError as problem:
        return "unreachable", _said(problem)
    format = error.format or guess_format(start)
    if _ENDS_EARLY.search(error.reason) or _is_cut(format, start, end, size):
        return "truncated", error.reason
    if format is not None:
        return "unreadable", error.reason
    if not any(start):
        return "not-an-image", f"starts with {len(start)} zero bytes: its content was never written"
    for pattern, name in _OTHER_THINGS:
        if pattern.match(start):
            return "not-an-image", f"it is {name}"
    return "not-an-image", "no format that Pillow recognises"


def _is_cut(format: str | None, start: bytes, end: bytes, size: int) -> bool:
    """True if a file that can't be decoded is truncated."""
    if format in ("JPEG", "MPO"):
        return b"\xff\xd9" not in end
    if format == "PNG":
        return b"IEND" not in end
    if format == "WEBP":
        return int.from_bytes(start[4:8], "little") + 8 > size
    return False


def _notes(path: str, header: Header, rules: Rules) -> tuple[list[str], list[str]]:
    """Findings for a file that can be decoded: kinds, and texts for those that need details."""
    height, width, color = header.height, header.width, header.color_space
    expected = Image.EXTENSION.get(os.path.splitext(path)[1].lower())
    texts = [f"format {header.format}"] if header.format not in _USUAL_FORMATS else []
    if color not in _USUAL_COLORS or (header.format == "JPEG" and color == "RGB"):
        texts.append(f"colour space {color}")
    if min(height, width) < _TINY_PX:
        texts.append(f"only {height}×{width} pixels")
    elif max(height, width) > _LONG * min(height, width):
        texts.append(f"a strip of {height}×{width} pixels")
    pages = header.format in ("MPO", "TIFF")
    is_packed = header.format == PACKED_FORMAT and expected is not None
    kinds = {
        "packed": is_packed,
        "mislabelled": expected is not None
        and not is_packed
        and _SAME.get(expected, expected) != _SAME.get(header.format, header.format),
        "near-limit": rules.max_pixels is not None and height * width > rules.max_pixels,
        "large": min(height, width) > LARGE_FACTOR * rules.size,
        "cmyk": color in ("CMYK", "YCCK"),
        "16-bit": header.bit_depth > 8,
        "alpha": header.transparency or color in ("RGBA", "LA", "PA", "La", "RGBa"),
        "palette": color in ("P", "PA"),
        "multi-page": header.animated and pages,
        "animated": header.animated and not pages,
        "progressive": header.progressive and header.format != "GIF",
        "rotated": header.orientation != 1,
        "unusual": bool(texts),
    }
    return [kind for kind, holds in kinds.items() if holds], texts


def main() -> None:
    """Answers tasks until the input ends, which it also does when the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not end up among the answers
    tasks: queue.SimpleQueue[Iterable[Task]] = queue.SimpleQueue()
    rules: Rules = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks), daemon=True).start()
    prepare(rules)
    try:
        _say(answers, "ready")
        while True:
            for task in tasks.get():
                _say(answers, examine(task.path, rules))
    except BrokenPipeError:  # the parent is gone
        os._exit(0)


def _say(answers: BinaryIO, what: object) -> None:
    answers.write(json.dumps(what).encode() + b"\n")
    answers.flush()


def _receive(source: BinaryIO, tasks: queue.SimpleQueue[Iterable[Task]]) -> None:
    try:
        while True:
            tasks.put(pickle.load(source))
    finally:
        os._exit(0)  # at once, even during a decode: the parent is gone
