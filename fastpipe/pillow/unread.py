"""JPEGs that are open without Pillow having read their headers, which takes it as long as the core takes for a photo.

Size and mode are the core's reading. Whatever else Pillow finds in a header follows when somebody asks for it: Pillow
reads the header then, from the bytes that the image holds. Only files take this way that Pillow is sure to open.
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
"""Bytes of a file up to which it is read when it is opened; reading a longer one takes longer than Pillow's opening."""

_OPEN: Any = JpegImagePlugin.JpegImageFile._open
_APP1, _APP13 = b"\xff\xe1", b"\xff\xed"
_TELLING = frozenset({_APP1[1], _APP13[1]})
"""Markers of segments of which Pillow makes more than their bytes: APP1, with EXIF and XMP, and Photoshop's APP13."""


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
        self._exif = Image.Image().getexif()  # the header has none: see `_TELLING`
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
    # A header that the core has read, and calls plain, Pillow is sure to open.
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
    """Fields of an image whose header Pillow has read, by their names; the values are of one JPEG."""
    file = io.BytesIO()
    Image.new("L", (1, 1)).save(file, "JPEG")
    file.seek(0)
    return vars(JpegImagePlugin.JpegImageFile(file, ""))


@cache
def _same_fields() -> dict[str, Any]:
    fields = _fields_of_header()
    return {name: fields[name] for name in _SAME if name in fields}


def _tells_more(data: bytes, header: Header) -> bool:
    """Whether a segment before a JPEG's pixels is one of `_TELLING`."""
    end = header.data_offset
    if data.find(_APP1, 0, end) < 0 and data.find(_APP13, 0, end) < 0:
        return False
    head = takewhile(lambda segment: segment[1] < end, segments(data))
    return any(marker in _TELLING for marker, _, _ in head)
