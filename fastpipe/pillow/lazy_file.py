"""The classes of JPEG and PNG files that Pillow has opened: the core decodes them, and operations are recorded.

An image is of Pillow's class, with all its methods and attributes. Cropping, resizing, converting and similar methods
return a `LazyImage`. If the core refuses a file, Pillow decodes it.
"""

from __future__ import annotations

import copyreg
import io
import operator
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial, update_wrapper, wraps
from struct import unpack_from
from typing import IO, TYPE_CHECKING, Any, ClassVar, SupportsIndex, TypeAlias
from zlib import crc32

from PIL import Image, ImageFile, ImagePalette, JpegImagePlugin, PngImagePlugin

from fastpipe import core, readers
from fastpipe.clock import clock
from fastpipe.core.encoded import JpegOrPng, jpeg_or_png
from fastpipe.foreign_code import outcome_of
from fastpipe.mistakes import attempt, raise_mistake
from fastpipe.pending import may_be_pending, set_class
from fastpipe.pillow.held import MOST_BYTES, Held
from fastpipe.pillow.image_record import ImageRecord, OnInfo, PlainCall
from fastpipe.pillow.lazy_image import (
    PILLOWS_LOAD,
    ArrayInterface,
    LazyImage,
    info_for_next,
)
from fastpipe.pillow.lazy_source import Check, LazySource
from fastpipe.pillow.packed_files import jpeg_file
from fastpipe.pillow.pixel_access import PendingPixels
from fastpipe.pillow.unread import UnreadJpeg
from fastpipe.plain_way import own_function, raise_interruption
from fastpipe.program.claims import Claimed
from fastpipe.program.core_job import Encoded
from fastpipe.program.encoded_image import OnMistake
from fastpipe.program.on_image import copied_info, is_transparent
from fastpipe.readers.limits import SHORT_FILE
from fastpipe.types import Header

OWN_MODES = ("RGB", "L")
"""The modes of lazy images."""
SIXTEEN_BITS = "I;16"
"""The mode of gray PNGs of 16 bits a sample: the core decodes them, and no operation is recorded."""
TO_RGB = ("1", "LA", "P", "RGBA")
"""The modes from which the core can make the same pixels as Pillow's ``convert("RGB")``."""

OnRefusal: TypeAlias = Callable[[str], object]

BYTES: Held[LazySource] = Held(MOST_BYTES, LazySource.let_go)
"""Sources whose bytes are in memory for images without pixels."""


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL._imaging import ImagingCore

    _Base = ImageFile.ImageFile
else:
    _Base = object

_UNREADABLE = "a file object that can't be read from its beginning to its end"


@may_be_pending
class LazyFile(_Base):
    """A base class in front of Pillow's file class: decodes by the core, and records operations until then."""

    _fastpipe_pillow: ClassVar[type[ImageFile.ImageFile]]
    """Pillow's class of the file."""
    _fastpipe_opened: tuple[list[ImageFile._Tile] | None, str, tuple[int, int]]
    """``tile``, mode and size when it was opened; ``tile`` is None until Pillow has read the header."""
    _fastpipe_lock: threading.RLock
    _fastpipe_source: LazySource | None
    _fastpipe_check: Check | None = None
    _fastpipe_on_mistake: OnMistake | None = None
    _fastpipe_on_refusal: OnRefusal | None = None
    _fastpipe_end = 0
    """The position after a JPEG's end marker, once the file has been read."""
    _fastpipe_refusal = ""
    """Why the core doesn't decode the file, once it has been read."""
    _fastpipe_gave_array = False
    _fastpipe_is_loaded = False
    """True if Pillow would have decoded the file by now: ``load`` has been called, or an operation was recorded."""

    @property
    def __class__(self) -> Any:
        """Pillow's class of the file."""
        return self._fastpipe_pillow

    @__class__.setter
    def __class__(self, kind: type) -> None:  # as code does that derives from Pillow's class
        _ = self.info  # read while the class is ours: see `UnreadJpeg`
        if self._fastpipe_is_loaded:
            _ = self.im
        set_class(self, kind)

    # -- the file

    @property
    def _is_untouched(self) -> bool:
        """True if nothing has changed since the opening: not decoded, not closed, and same size and mode."""
        return (
            self._im is None
            and (self._mode, self._size) == self._fastpipe_opened[1:]
            and (self._fastpipe_is_loaded or vars(self).get("tile") == self._fastpipe_opened[0])
            and self.decoderconfig in ((), (1, 0))
            and (self.fp is not None or self._fastpipe_is_loaded)
        )

    def _loads_as_pillow(self) -> bool:
        """True if ``load``, which Pillow's methods call, is Pillow's own; a test may have replaced it."""
        return self._fastpipe_pillow.load is _LOAD and Image.Image.load is PILLOWS_LOAD

    def _fastpipe_is_pending(self) -> bool:
        return self._im is None

    def _fastpipe_read(self) -> LazySource | None:
        """The file's source; reads the bytes at the first call. None if Pillow has to decode the file."""
        with self._fastpipe_lock:  # threads share the file's position
            if not self._is_untouched:
                return None
            if "_fastpipe_source" not in vars(self):
                self._fastpipe_source = self._read()
            return self._fastpipe_source

    def _read(self) -> LazySource | None:
        file = self.fp
        if file is None or outcome_of(lambda: file.closed) is True:  # closed by its owner: Pillow raises
            return None
        name = os.fsdecode(self.filename) if self.filename else "<file>"
        found = self._found or self._read_from_start(file)
        if found is None or not (self._mode == SIXTEEN_BITS or readers.get_reader("core").accepts(found.stored)):
            self._fastpipe_refusal = self._fastpipe_refusal or f"{self.format} that fastpipe's core doesn't decode"
            return None
        data, header, is_sound = found.data, found.stored, found.is_intact()
        is_deep = self._mode == SIXTEEN_BITS  # decoded at once, with a look at the checksums
        if not is_sound and not (header.format == "PNG" and _is_whole_png(data, header, with_checksums=not is_deep)):
            self._fastpipe_refusal = f"{self.format} that may be damaged, or has more after its pixels"
            return None
        open_by_pillow = partial(_opened, self._fastpipe_pillow, self.filename)
        encoded, on_mistake = Encoded(data, header, name), self._fastpipe_on_mistake
        source = LazySource(encoded, 1, open_by_pillow, self._fastpipe_check, on_mistake, is_sound)
        self._fastpipe_end = found.end
        BYTES.add(source, len(data))
        return source

    @property
    def _found(self) -> JpegOrPng | None:
        """The file if it has been read before Pillow has read its header: see `UnreadJpeg`."""
        return vars(self).get("_fastpipe_found")

    def _read_from_start(self, file: IO[bytes]) -> JpegOrPng | None:
        """Reads the file; None if the core can't read its header, or reads another than Pillow.

        None, too, if somebody's file object can do less than a file, such as a stream without an end: Pillow reads it
        from where it stands.
        """
        position = outcome_of(lambda: max(file.tell(), 0))  # negative if a process that shares the file has moved it
        if isinstance(position, Exception):
            raise_interruption(position)
            self._fastpipe_refusal = _UNREADABLE
            return None
        data = outcome_of(lambda: _bytes_of(file))
        file.seek(position)
        if isinstance(data, Exception):
            raise_interruption(data)
            self._fastpipe_refusal = _UNREADABLE
            return None
        if self._exclusive_fp and data:  # as Pillow closes a file of its own after decoding
            copy = io.BytesIO(data)
            copy.seek(position)
            self._read_from(copy)
            file.close()
        found = jpeg_or_png(data, is_one_picture=True)
        if isinstance(found, str):
            return None
        header = found.stored
        return found if (header.format, header.width, header.height) == (self.format, *self.size) else None

    def _read_from(self, file: IO[bytes]) -> None:
        """Goes on with another file object with the same content."""
        self.fp = file

    # -- the pixels

    def _fastpipe_lazy(self) -> LazyImage | None:
        """The image as a lazy image, and marked as loaded; None if Pillow has to decode it."""
        lazy = self._lazy_in(OWN_MODES)
        if lazy is not None:
            self._be_loaded()
        return lazy

    def _lazy_to_record(self, modes: tuple[str, ...]) -> LazyImage | None:
        """The image as `_lazy_in` has it; None also if it is to get pixels, since many small parts were asked for."""
        source = vars(self).get("_fastpipe_source")  # absent before the file is read
        return None if source and source.gets_pixels else self._lazy_in(modes)

    def _lazy_in(self, modes: tuple[str, ...]) -> LazyImage | None:
        """The image as a lazy image, if its mode is one of ``modes``; None if Pillow has to decode it.

        The lazy image is in RGB if its class doesn't support the mode.
        """
        if not self._fastpipe_is_loaded and not self._loads_as_pillow():
            return None
        source = self._fastpipe_read() if self._mode in modes else None
        if source is None:
            return None
        calls: tuple[PlainCall, ...] = () if self._mode in OWN_MODES else (_in_rgb,)
        if source.check is not None:
            calls = (OnInfo(copied_info(self), *calls or (_as_it_is,)),)
        return LazyImage(source, "L" if self._mode == "L" else "RGB", info_for_next(self), calls=calls)

    def _fastpipe_claim(self, *given: Any) -> Claimed | None:
        """See `fastpipe.program.claims.ClaimsSteps`."""
        lazy = self._fastpipe_lazy()
        return None if lazy is None else lazy._fastpipe_claim(*given)

    def load(self) -> Any:
        if self._im is not None:
            return super().load()
        with self._fastpipe_lock:
            if self._is_untouched and self._loads_as_pillow():
                source = self._fastpipe_read() if self._mode in OWN_MODES else None
                if source is not None and source.is_sound:
                    self._be_loaded()
                    return PendingPixels(self)
                self._decode()
            if self._im is None and self._fastpipe_on_refusal is not None:
                on_refusal, self._fastpipe_on_refusal = self._fastpipe_on_refusal, None
                on_refusal(self._why_by_pillow())
            return super().load()

    def _why_by_pillow(self) -> str:
        """Why Pillow has decoded the file, for the report."""
        if self._fastpipe_refusal:
            return self._fastpipe_refusal
        if not self._loads_as_pillow():
            return "somebody has replaced Pillow's load"
        _, mode, size = self._fastpipe_opened
        if (self._mode, self._size) != (mode, size) or self.decoderconfig not in ((), (1, 0)):
            return "changed after it was opened, as by draft"
        if mode not in OWN_MODES:
            return f"{self.format} in mode {mode}, used without convert('RGB')"
        return "closed or changed after it was opened"

    @property
    def im(self) -> ImagingCore:
        if self._im is None and self._fastpipe_is_loaded:
            with self._fastpipe_lock:
                if self._is_untouched:
                    self._decode()
        core: ImagingCore = Image.Image.im.__get__(self)
        return core

    @im.setter
    def im(self, im: ImagingCore) -> None:
        Image.Image.im.__set__(self, im)  # type: ignore[attr-defined] # a property

    @property
    def __array_interface__(self) -> ArrayInterface:
        """Pillow's array interface; the first time it doesn't give the image pixels of its own: see `LazyImage`."""
        lazy = None if self._fastpipe_gave_array else self._fastpipe_lazy()
        if lazy is None:
            return super().__array_interface__
        self._fastpipe_gave_array = True
        return lazy.__array_interface__

    def _be_loaded(self) -> None:
        with self._fastpipe_lock:
            if not self._fastpipe_is_loaded:
                self._fastpipe_is_loaded = True
                self._end_loading()

    def _end_loading(self) -> None:
        """Leaves the file as Pillow does after decoding it."""
        self.tile, self.map = [], None
        self.readonly = 0
        file, self.fp = self.fp, None
        if file is not None and self._exclusive_fp:
            file.close()
        elif file is not None and self._fastpipe_source is not None:
            encoded = self._fastpipe_source.encoded
            with suppress(OSError, ValueError):  # the file, which has been read, is closed
                file.seek(self._end_of(encoded.data, encoded.header))

    def _end_of(self, data: bytes, header: Header) -> int:
        """The position at which Pillow stops reading: it reads a JPEG in blocks, up to the one with the end marker."""
        blocks = -(-self._fastpipe_end // self.decodermaxblock)
        return min(len(data), blocks * self.decodermaxblock)

    def _decode(self) -> None:
        """Decodes by the core; or by Pillow if its ``load`` couldn't, because the image has no open file any more."""
        lazy = self._fastpipe_lazy()
        source = self._fastpipe_source if self._fastpipe_is_loaded else None
        if lazy is not None:
            lazy.info = {}
            self.im = lazy.im
        elif source is not None:
            opened = _opened(self._fastpipe_pillow, self.filename, source.encoded.content)
            opened.load()
            vars(self).update({**vars(opened), "info": self.info})

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        kind, state = self._fastpipe_pillow, self.__getstate__()
        if operator.index(protocol) >= 2:
            return copyreg.__newobj__, (kind,), state  # type: ignore[attr-defined] # the functions of Python's own
        return copyreg._reconstructor, (kind, object, None), state  # type: ignore[attr-defined]

    def putpalette(self, data: ImagePalette.ImagePalette | bytes | Sequence[int], rawmode: str = "RGB") -> None:
        if self._fastpipe_is_loaded:
            _ = self.im
        super().putpalette(data, rawmode)  # changes the mode before it loads the image

    # -- recorded methods; see `_recorded` for the others

    def _done_to(self, lazy: LazyImage | None, name: str, *arguments: object, **options: object) -> Image.Image:
        """Calls a method on the lazy image, or Pillow's own if there is none.

        If the lazy image's method fails, calls Pillow's own, which raises the user's mistake, and alone knows whether
        the file counts as loaded then. If Pillow's method succeeds, the error was a mistake of fastpipe's.
        """
        plain: Callable[..., Image.Image] = getattr(super(), name)
        if lazy is None or own_function(getattr(self._fastpipe_pillow, name)) is not _PILLOWS[name]:
            return plain(*arguments, **options)

        def recorded() -> Image.Image:
            result: Image.Image = getattr(lazy, name)(*arguments, **options)
            self._be_loaded()
            return result

        on_mistake = self._fastpipe_on_mistake or raise_mistake
        return attempt(recorded, partial(plain, *arguments, **options), on_mistake)

    def convert(self, mode: str | None = None, *arguments: Any, **options: Any) -> Image.Image:
        to_rgb = mode == "RGB" and not arguments and not options and not is_transparent(self)
        lazy = self._lazy_to_record((*OWN_MODES, *TO_RGB) if to_rgb else OWN_MODES)
        is_pillows = self._fastpipe_pillow.convert is _PILLOWS["convert"]
        if is_pillows and lazy is not None and mode == lazy.mode and not arguments and not options:
            self._be_loaded()
            return lazy
        return self._done_to(lazy, "convert", mode, *arguments, **options)


def _recorded(name: str) -> object:
    """Makes a method that is called on a lazy image if possible, and otherwise is Pillow's own."""

    @wraps(getattr(Image.Image, name))
    def method(self: LazyFile, *arguments: object, **options: object) -> Image.Image:
        if self._im is None:
            return self._done_to(self._lazy_to_record(OWN_MODES), name, *arguments, **options)
        pillows: Callable[..., Image.Image] = getattr(super(LazyFile, self), name)
        return pillows(*arguments, **options)

    return method


_RECORDED = ("copy", "__copy__", "crop", "filter", "point", "reduce", "resize", "transform", "transpose")
for _name in _RECORDED:
    setattr(LazyFile, _name, _recorded(_name))
update_wrapper(LazyFile.convert, Image.Image.convert)

_LOAD = ImageFile.ImageFile.load
_PILLOWS = {name: own_function(getattr(Image.Image, name)) for name in ("convert", *_RECORDED)}
"""Pillow's own methods; its classes of files have the same, unless somebody, such as a test, has replaced them."""


def _as_it_is(image: Image.Image) -> Image.Image:
    return image


def _in_rgb(image: Image.Image) -> Image.Image:
    return image.convert("RGB")


class LazyJpeg(LazyFile, UnreadJpeg):
    _fastpipe_pillow = JpegImagePlugin.JpegImageFile


class LazyPng(LazyFile, PngImagePlugin.PngImageFile):
    _fastpipe_pillow = PngImagePlugin.PngImageFile

    def _decode(self) -> None:
        if self._mode != SIXTEEN_BITS:
            super()._decode()
            return
        source = self._fastpipe_read()
        if source is None:
            return
        begun = clock()
        samples = core.read_uint16(source.encoded.content, source.encoded.header, channels=1)
        if isinstance(samples, str):
            self._fastpipe_refusal = f"PNG of 16 bits that fastpipe's core doesn't decode: {samples}"
            return
        image = _of_samples(samples, self._mode)
        if source.check is not None:
            info = copied_info(self)
            record = ImageRecord(source, calls=(OnInfo(info, _as_it_is),), checked_info=info)
            image = record.checked(source.check, image, clock() - begun)
        self._be_loaded()
        self.im = image.im

    def _read_from(self, file: IO[bytes]) -> None:
        super()._read_from(file)
        self._fp = file
        if self.png is not None:
            self.png.fp = file

    def _end_loading(self) -> None:
        if self.png is not None:  # nothing follows the pixels: see `_is_whole_png`
            self._text = self.png.im_text
            self.png.close()
            self.png = None
        super()._end_loading()

    def _end_of(self, data: bytes, header: Header) -> int:
        """Where Pillow stops reading the file: after the name of the chunk that follows the IDAT chunks."""
        position = header.data_offset
        while data[position + 4 : position + 8] == b"IDAT":
            position += 12 + int.from_bytes(data[position : position + 4], "big")
        return position + 8


for _kind in (LazyJpeg, LazyPng):  # named as Pillow's classes are
    _kind.__module__, _kind.__qualname__ = _kind._fastpipe_pillow.__module__, _kind._fastpipe_pillow.__qualname__
    _kind.__name__ = _kind._fastpipe_pillow.__name__


def _of_samples(samples: NDArray[np.uint16], mode: str) -> Image.Image:
    """An image on the memory of an array of its own."""
    size = samples.shape[1], samples.shape[0]
    if sys.byteorder == "big":  # Pillow keeps the low byte first
        return Image.frombytes(mode, size, samples.tobytes(), "raw", "I;16N")
    return Image.frombuffer(mode, size, samples, "raw", mode, 0, 1)


def _bytes_of(file: IO[bytes]) -> bytes:
    """The bytes of a file object; empty if it is longer than any image that is decoded."""
    file.seek(0, os.SEEK_END)
    length = file.tell()
    limit = readers.longest_file(readers.pixel_limit()) if length > SHORT_FILE else 0
    file.seek(0)
    data = file.read() if not limit or length <= limit else b""
    return data if type(data) is bytes else bytes(memoryview(data))


def _opened(kind: type[ImageFile.ImageFile], filename: str | bytes, data: bytes) -> Image.Image:
    return kind(jpeg_file(data, filename), filename)


def begin_lazy(
    image: Image.Image,
    tile: list[ImageFile._Tile] | None,
    check: Check | None,
    on_mistake: OnMistake | None,
    on_refusal: OnRefusal | None,
) -> None:
    """Adds a lazy file's own attributes to an image that has just been opened.

    Args:
        image: the image, which gets the class `LazyJpeg` or `LazyPng`, or has it.
        tile: a copy of its ``tile``; None if Pillow hasn't read the header.
        check, on_mistake: see `LazySource`.
        on_refusal: is called with the reason if Pillow has to decode the file.
    """
    own = vars(image)
    own["_fastpipe_opened"] = tile, image._mode, image._size
    own["_fastpipe_lock"] = threading.RLock()
    if check is not None:
        own["_fastpipe_check"] = check
    if on_mistake is not None:
        own["_fastpipe_on_mistake"] = on_mistake
    if on_refusal is not None:
        own["_fastpipe_on_refusal"] = on_refusal


def _is_whole_png(data: bytes, header: Header, with_checksums: bool = True) -> bool:
    """True if a PNG is complete and undamaged, and ends after its pixels, so that Pillow needn't raise."""
    if header.data_offset < 0:
        return False
    position = header.data_offset
    kind, view = b"IDAT", memoryview(data)
    while kind == b"IDAT" and position + 12 <= len(data):
        length, kind = unpack_from(">I4s", data, position)
        end = position + 12 + length
        told = int.from_bytes(view[end - 4 : end], "big")
        if kind == b"IDAT" and with_checksums and crc32(view[position + 4 : end - 4]) != told:
            return False
        position = end
    return kind == b"IEND"
