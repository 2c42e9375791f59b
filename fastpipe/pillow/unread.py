"""JPEGs that are open before Pillow has read their headers, which takes Pillow as long as the core takes for a photo.

The core reads size and mode. When another field of the header is asked for, Pillow reads the header from the bytes in
memory. Only files that Pillow is sure to open are opened in this way, and packed images, which are JPEGs for Pillow.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from PIL import Image, JpegImagePlugin

from fastpipe import core
from fastpipe.core.encoded import JpegOrPng, jpeg_or_png
from fastpipe.pillow.packed_files import begins_packed, jpeg_file, name_of
from fastpipe.readers._jpeg import segments

_READ_AT_ONCE = 1 << 18
"""The longest file, in bytes, that is read when it is opened; for longer ones Pillow's opening takes less time."""

_OPEN: Any = JpegImagePlugin.JpegImageFile._open
_GETEXIF = JpegImagePlugin.JpegImageFile.getexif
_GETATTR: Callable[[Any, str], Any] | None = getattr(JpegImagePlugin.JpegImageFile, "__getattr__", None)
"""Gives deprecated attributes and raises for missing ones, in Pillow before 12."""

_APP1, _APP13 = b"\xff\xe1", b"\xff\xed"
_TELLING = frozenset({_APP1[1], _APP13[1]})
"""Markers of segments that Pillow interprets: APP1 with EXIF and XMP, and Photoshop's APP13."""


class UnreadJpeg(JpegImagePlugin.JpegImageFile):
    """A JPEG whose header may not have been read yet, apart from size and mode.

    Attributes:
        _fastpipe_found: the file's bytes, and its header as the core has read it.
        _fastpipe_unread: set on an instance, and deleted from it once Pillow has read the header.
        _fastpipe_lock: held while Pillow's fields of the header are added.
    """

    _fastpipe_found: JpegOrPng
    _fastpipe_unread: bool
    _fastpipe_lock: threading.RLock

    def __getattr__(self, name: str) -> Any:
        if name == "tile" and "_fastpipe_unread" in vars(self):
            self._set_tile()
            return vars(self)[name]
        if name in _fields_of_header():
            with self._fastpipe_lock:
                self._read_header()
                if name in vars(self):
                    return vars(self)[name]
        if _GETATTR is not None:
            return _GETATTR(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _set_tile(self) -> None:
        """Sets ``tile`` without the header: `draft` asks for it, and nothing of it is the file's but size and mode."""
        (tile,) = _fields_of_header()["tile"]
        own = vars(self)
        with self._fastpipe_lock:
            if "tile" not in own:
                known = tile._replace(extents=(0, 0, *self._size), args=(self._mode, ""))
                own["_fastpipe_opened"] = [known], *own["_fastpipe_opened"][1:]
                own["tile"] = [known]

    def _read_header(self) -> None:
        """Gives the image the attributes that it would have if Pillow had opened it."""
        own = vars(self)
        if "_fastpipe_unread" in own:
            fields = vars(
                JpegImagePlugin.JpegImageFile(jpeg_file(self._fastpipe_found.data, self.filename), self.filename)
            )
            own["_fastpipe_opened"] = [*fields["tile"]], *own["_fastpipe_opened"][1:]
            for name, value in fields.items():
                own.setdefault(name, value)
            del own["_fastpipe_unread"]

    def getexif(self) -> Image.Exif:
        is_pillows = JpegImagePlugin.JpegImageFile.getexif is _GETEXIF
        if not is_pillows or "_fastpipe_unread" not in vars(self) or "info" in vars(self) or "_exif" in vars(self):
            return super().getexif()
        if _tells_more(self._fastpipe_found):
            return super().getexif()
        self._exif = Image.Image().getexif()
        return self._exif


def open_unread(kind: type[UnreadJpeg], file: Any, filename: Any) -> UnreadJpeg | None:
    """Opens a JPEG without Pillow; None, with the file at its beginning, if Pillow has to read it.

    Args:
        kind: the image's class.
        file: the file object, at its beginning.
        filename: the path as ``Image.open`` gives it to its openers; empty if the script opened the file object, which
            then stays open.
    """
    if type(file) not in (io.BufferedReader, io.BytesIO) or not _is_opened_by_pillow():
        return None
    length = file.seek(0, io.SEEK_END)
    file.seek(0)
    if length > _READ_AT_ONCE:
        return None
    found = jpeg_or_png(file.read())
    # Pillow is sure to open a file whose header the core has read and calls plain.
    if isinstance(found, str) or found.stored.format != "JPEG" or not found.stored.plain or _tells_more(found):
        file.seek(0)
        return None
    if filename:  # the image owns the file, and closes it after reading, as Pillow does
        file.close()
        file = io.BytesIO(found.data)
    file.seek(found.stored.data_offset)
    return _unread(kind, found, filename, file)


def open_packed(kind: type[UnreadJpeg], file: Any, filename: Any) -> UnreadJpeg | None:
    """Opens a packed image; None, with the file at its beginning, for any other file.

    None, too, if the core isn't available, or if somebody has replaced Pillow's opening of JPEGs.

    Args:
        kind, file, filename: see `open_unread`.

    Raises:
        SyntaxError: its head is damaged: ``Image.open`` doesn't identify the file, and names it.
    """
    if not begins_packed(file) or not _is_opened_by_pillow() or not core.available():
        return None
    found = jpeg_or_png(file.read())
    if isinstance(found, str):
        raise SyntaxError(f"{name_of(filename)} is a damaged packed image: {found}")
    if filename:
        file.close()
    return _unread(kind, found, filename, jpeg_file(found.data, filename, None if filename else file))


def _is_opened_by_pillow() -> bool:
    """False if somebody, such as a test, has replaced Pillow's opening of JPEGs."""
    return JpegImagePlugin.JpegImageFile._open is _OPEN


def _unread(kind: type[UnreadJpeg], found: JpegOrPng, filename: Any, file: Any) -> UnreadJpeg:
    image = kind.__new__(kind)
    own = vars(image)
    own.update(same_fields())
    own["_mode"] = "L" if found.stored.channels == 1 else "RGB"
    own["_size"] = found.stored.width, found.stored.height
    own["filename"] = filename if filename is not None else ""
    own["_fastpipe_found"], own["_fastpipe_unread"] = found, True
    own["fp"] = file
    return image


_SAME = (
    "_exclusive_fp",
    "_im",
    "_min_frame",
    "_readonly",
    "custom_mimetype",
    "decoderconfig",
    "decodermaxblock",
    "palette",
    "readonly",
)
"""Attributes, in so far as this Pillow has them, that are equal for all opened JPEGs."""


@cache
def _fields_of_header() -> dict[str, Any]:
    """The attributes of an image whose header Pillow has read, with the values of one JPEG."""
    file = io.BytesIO()
    Image.new("L", (1, 1)).save(file, "JPEG")
    file.seek(0)
    return vars(JpegImagePlugin.JpegImageFile(file, ""))


@cache
def same_fields() -> dict[str, object]:
    """The attributes of `_SAME`, with their values."""
    fields = _fields_of_header()
    return {name: fields[name] for name in _SAME if name in fields}


def _tells_more(found: JpegOrPng) -> bool:
    """True if a JPEG has a segment of `_TELLING` before its pixels."""
    told = found.segments
    if told.find(_APP1) < 0 and told.find(_APP13) < 0:
        return False
    return found.is_packed or any(marker in _TELLING for marker, _, _ in segments(told))
