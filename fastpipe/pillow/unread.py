"""JPEGs that are open without Pillow having read their headers, which takes it as long as the core takes for a photo.

Size and mode are the core's reading. Whatever else Pillow finds in a header follows when somebody asks for it: Pillow
reads the header then, from the bytes that the image holds. Only files take this way that Pillow is sure to open.
"""

from __future__ import annotations

import io
import threading
from functools import cache
from struct import unpack_from
from typing import Any

from PIL import Image, JpegImagePlugin

from fastpipe import core
from fastpipe.types import Header

_READ_AT_ONCE = 1 << 18
"""Bytes of a file up to which it is read when it is opened; reading a longer one takes longer than Pillow's opening."""

_OPEN: Any = JpegImagePlugin.JpegImageFile._open
_DQT, _SOF = 0xFFDB, (0xFFC0, 0xFFC1, 0xFFC2)
_TABLE = 65  # bytes of a quantization table of one byte a number, with its own
_SEGMENTS = {
    0xFFC4: (2, b""),  # DHT
    0xFFDA: (2, b""),  # SOS
    0xFFDD: (2, b""),  # DRI
    0xFFFE: (2, b""),  # COM
    0xFFE0: (16, b"JFIF\0"),
    0xFFE2: (18, b"ICC_PROFILE\0"),
    0xFFEE: (14, b"Adobe"),
}
"""Segments besides tables and frame that a header may have: the least length that they say, and how they begin."""


class UnreadJpeg(JpegImagePlugin.JpegImageFile):
    """A JPEG whose header may have to be read yet, for anything but size and mode.

    Attributes:
        _fastpipe_unread: the file's bytes and what the core has read, until Pillow has read the header.
        _fastpipe_lock: held while the fields of the header are being added.
    """

    _fastpipe_unread: tuple[bytes, Header]
    _fastpipe_lock: threading.RLock

    def __getattr__(self, name: str) -> Any:
        if name in _fields_of_header():
            with self._fastpipe_lock:
                self._read_header()
                if name in vars(self):
                    return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _read_header(self) -> None:
        """Gives the image the fields that it would have if Pillow had opened it."""
        own = vars(self)
        unread = own.get("_fastpipe_unread")
        if unread is not None:
            fields = vars(JpegImagePlugin.JpegImageFile(io.BytesIO(unread[0]), self.filename))
            own["_fastpipe_opened"] = [*fields["tile"]], *own["_fastpipe_opened"][1:]
            for name, value in fields.items():
                own.setdefault(name, value)
            del own["_fastpipe_unread"]

    def getexif(self) -> Image.Exif:
        if "_fastpipe_unread" not in vars(self) or "info" in vars(self) or "_exif" in vars(self):
            return super().getexif()
        self._exif = Image.Image().getexif()  # the header has none: see `_SEGMENTS`
        return self._exif


def open_unread(kind: type[UnreadJpeg], file: Any, filename: Any) -> UnreadJpeg | None:
    """Opens a JPEG without Pillow; None, with the file at its beginning, where Pillow has to read it.

    Args:
        kind: of the image.
        file: at its beginning.
        filename: as ``Image.open`` gives it to an opener: empty where the file isn't the image's own.
    """
    if type(file) not in (io.BufferedReader, io.BytesIO) or JpegImagePlugin.JpegImageFile._open is not _OPEN:
        return None
    length = file.seek(0, io.SEEK_END)
    file.seek(0)
    if length > _READ_AT_ONCE:
        return None
    data = file.read()
    header = core.read_header(data)
    if not isinstance(header, Header) or header.format != "JPEG" or not _is_sure(data, header):
        file.seek(0)
        return None
    image = kind.__new__(kind)
    own = vars(image)
    own.update(_same_fields())
    own["_mode"] = "L" if header.channels == 1 else "RGB"
    own["_size"] = header.width, header.height
    own["filename"] = filename if filename is not None else ""
    own["_fastpipe_unread"] = data, header
    if filename:  # the file is the image's own: as Pillow's, it is closed when it has been read
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
"""Names of what every JPEG has, as far as this Pillow has it, when it has been opened."""


@cache
def _fields_of_header() -> dict[str, Any]:
    """What an image has when Pillow has read a JPEG's header, of one JPEG."""
    file = io.BytesIO()
    Image.new("L", (1, 1)).save(file, "JPEG")
    file.seek(0)
    return vars(JpegImagePlugin.JpegImageFile(file, ""))


@cache
def _same_fields() -> dict[str, Any]:
    fields = _fields_of_header()
    return {name: fields[name] for name in _SAME if name in fields}


def _is_sure(data: bytes, header: Header) -> bool:
    """Whether Pillow is sure to open a JPEG, with these components, and without an index of further pictures."""
    if header.channels not in (1, 3) or header.bit_depth != 8:
        return False
    position, frames = 2, 0
    while position < header.data_offset:
        kind, length = unpack_from(">HH", data, position)
        if kind == _DQT:
            tables = data[position + 4 : position + 2 + length : _TABLE]
            if length % _TABLE != 2 or any(table > 15 for table in tables):
                return False
        elif kind in _SOF:
            frames += 1
            if length != 8 + 3 * header.channels:
                return False
        else:
            least, begin = _SEGMENTS.get(kind, (1 << 16, b""))
            if length < least or not data.startswith(begin, position + 4):
                return False
        position += 2 + length
    return position == header.data_offset and frames == 1
