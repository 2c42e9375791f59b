"""JPEGs that are open before Pillow has read their headers, which takes Pillow as long as the core takes for a photo.

The core reads size and mode. When another field of the header is asked for, Pillow reads the header from the bytes in
memory. Only files that Pillow is sure to open are opened in this way.
"""

from __future__ import annotations

import io
import threading
from functools import cache
from itertools import takewhile
from typing import Any

from PIL import Image, JpegImagePlugin

from fastpipe import core
from fastpipe.readers._jpeg import segments
from fastpipe.types import Header

_READ_AT_ONCE = 1 << 18
"""The longest file, in bytes, that is read when it is opened; for longer ones Pillow's opening takes less time."""

_OPEN: Any = JpegImagePlugin.JpegImageFile._open
_GETEXIF = JpegImagePlugin.JpegImageFile.getexif
_APP1, _APP13 = b"\xff\xe1", b"\xff\xed"
_TELLING = frozenset({_APP1[1], _APP13[1]})
"""Markers of segments that Pillow interprets: APP1 with EXIF and XMP, and Photoshop's APP13."""


class UnreadJpeg(JpegImagePlugin.JpegImageFile):
    """A JPEG whose header may not have been read yet, apart from size and mode.

    Attributes:
        _fastpipe_unread: the file's bytes and the core's header, until Pillow has read the header.
        _fastpipe_lock: held while the header's fields are added.
    """

    _fastpipe_unread: tuple[bytes, Header]
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
        unread = own.get("_fastpipe_unread")
        if unread is not None:
            fields = vars(JpegImagePlugin.JpegImageFile(io.BytesIO(unread[0]), self.filename))
            own["_fastpipe_opened"] = [*fields["tile"]], *own["_fastpipe_opened"][1:]
            for name, value in fields.items():
                own.setdefault(name, value)
            del own["_fastpipe_unread"]

    def getexif(self) -> Image.Exif:
        is_pillows = JpegImagePlugin.JpegImageFile.getexif is _GETEXIF
        if not is_pillows or "_fastpipe_unread" not in vars(self) or "info" in vars(self) or "_exif" in vars(self):
            return super().getexif()
        self._exif = Image.Image().getexif()  # the header has no EXIF: see `_TELLING`
        return self._exif


def open_unread(kind: type[UnreadJpeg], file: Any, filename: Any) -> UnreadJpeg | None:
    """Opens a JPEG without Pillow; None, with the file at its beginning, if Pillow has to read it.

    Args:
        kind: the image's class.
        file: the file object, at its beginning.
        filename: the argument of an opener that ``Image.open`` gives: empty if the caller owns the file object.
    """
    if type(file) not in (io.BufferedReader, io.BytesIO) or JpegImagePlugin.JpegImageFile._open is not _OPEN:
        return None
    length = file.seek(0, io.SEEK_END)
    file.seek(0)
    if length > _READ_AT_ONCE:
        return None
    data = file.read()
    header = core.read_header(data)
    # Pillow is sure to open a file whose header the core has read and calls plain.
    if not isinstance(header, Header) or header.format != "JPEG" or not header.plain or _tells_more(data, header):
        file.seek(0)
        return None
    image = kind.__new__(kind)
    own = vars(image)
    own.update(_same_fields())
    own["_mode"] = "L" if header.channels == 1 else "RGB"
    own["_size"] = header.width, header.height
    own["filename"] = filename if filename is not None else ""
    own["_fastpipe_unread"] = data, header
    if filename:  # the image owns the file, and closes it after reading, as Pillow does
        file.close()
        file = io.BytesIO(data)
    file.seek(header.data_offset)
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
def _same_fields() -> dict[str, object]:
    fields = _fields_of_header()
    return {name: fields[name] for name in _SAME if name in fields}


def _tells_more(data: bytes, header: Header) -> bool:
    """True if a JPEG has a segment of `_TELLING` before its pixels."""
    end = header.data_offset
    if data.find(_APP1, 0, end) < 0 and data.find(_APP13, 0, end) < 0:
        return False
    head = takewhile(lambda segment: segment[1] < end, segments(data))
    return any(marker in _TELLING for marker, _, _ in head)
