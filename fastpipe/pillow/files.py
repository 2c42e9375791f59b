"""JPEG and PNG files that Pillow opens, decoded by fastpipe's core: `open_image`, and an opener for ``Image.open``.

Packed images are JPEGs for Pillow: see `fastpipe.pillow.packed_files`.

The image is of Pillow's class, with all its methods and attributes. Pillow reads the header; for most JPEGs only when
more than size and mode is asked for (`fastpipe.pillow.unread`). The core makes the pixels; cropping, resizing,
converting and similar methods return a `LazyImage`. If the core refuses a file, Pillow decodes it.
"""

from __future__ import annotations

import io
import os
from contextlib import AbstractContextManager, ExitStack
from typing import IO

from PIL import Image, ImageFile, JpegImagePlugin, PngImagePlugin, UnidentifiedImageError

from fastpipe import core
from fastpipe.paths import check_regular
from fastpipe.pending import set_class
from fastpipe.pillow.held import MOST_OPEN, Held
from fastpipe.pillow.lazy_file import (
    OWN_MODES,
    SIXTEEN_BITS,
    TO_RGB,
    LazyFile,
    LazyJpeg,
    LazyPng,
    OnRefusal,
    begin_lazy,
)
from fastpipe.pillow.lazy_source import Check
from fastpipe.pillow.packed_files import Accept, Opener, accepting_packed, begins_packed, restoring
from fastpipe.pillow.unread import open_packed, open_unread
from fastpipe.program.encoded_image import OnMistake
from fastpipe.types import PACKED_SIGNATURE

_FORMATS = ("JPEG", "PNG")
_PNG_MODES = (*OWN_MODES, *TO_RGB, SIXTEEN_BITS)
_TINY_PNG = 12288
"""Bytes of pixels, as 64×64 in RGB, up to which Pillow decodes a PNG in less time than we take to record and decode."""
_TINY_BILEVEL_PNG = 27648
"""The same for mode "1", whose files have an eighth of the bytes, as 166×166."""


def _close_file(image: LazyFile) -> None:
    if image._exclusive_fp:  # ``Image.open`` sets it after the opener
        image._fastpipe_read()


OPEN_FILES: Held[LazyFile] = Held(MOST_OPEN, _close_file)
"""Images whose files Pillow has opened, and which stay open until their pixels are used."""


def adopt(
    image: ImageFile.ImageFile,
    check: Check | None = None,
    on_mistake: OnMistake | None = None,
    on_refusal: OnRefusal | None = None,
) -> ImageFile.ImageFile:
    """Makes a file that Pillow has just opened decode by the core, if the core can; returns the same object.

    Args:
        image: the file's image.
        check: makes the pixels of the image, and of images derived from it, by Pillow, too, and compares them.
        on_mistake: is called with errors of fastpipe's that Pillow doesn't have: see `LazySource`.
        on_refusal: is called with the reason if Pillow has to decode the file after all.
    """
    if type(image) is JpegImagePlugin.JpegImageFile and image.mode in OWN_MODES:
        kind: type[LazyFile] = LazyJpeg
    elif type(image) is PngImagePlugin.PngImageFile and not image.is_animated and image.mode in _PNG_MODES:
        kind = LazyPng
    else:
        return image
    if core.available():
        begin_lazy(image, [*image.tile], check, on_mistake, on_refusal)
        set_class(image, kind)
        if isinstance(image, LazyFile) and image.filename:  # else it was opened by the caller
            OPEN_FILES.add(image)
    return image


def open_lazily(
    opener: Opener,
    file: IO[bytes],
    filename: str | bytes,
    check: Check | None = None,
    on_mistake: OnMistake | None = None,
    on_refusal: OnRefusal | None = None,
) -> ImageFile.ImageFile:
    """Opens a file by one of Pillow's openers, and makes it decode by the core if the core can.

    Args:
        opener: the opener that is registered for the file's format.
        file, filename: the arguments that ``Image.open`` gives to the opener.
        check, on_mistake, on_refusal: see `adopt`.
    """
    unread = None
    if opener is JpegImagePlugin.jpeg_factory and core.available():
        unread = open_packed(LazyJpeg, file, filename)
        if unread is None and check is None:
            unread = open_unread(LazyJpeg, file, filename)
    if unread is not None:
        begin_lazy(unread, None, check, on_mistake, on_refusal)
        return unread
    image = restoring(opener)(file, filename)
    return image if check is None and _is_tiny(image) else adopt(image, check, on_mistake, on_refusal)


def why_by_pillow(image: ImageFile.ImageFile) -> str:
    """Why Pillow decodes a file of JPEG's or PNG's opener that `open_lazily` hasn't made lazy, for the report."""
    if not core.available():
        return core.why_not()
    if image.format not in _FORMATS:  # MPO
        return f"{image.format}, which fastpipe doesn't decode"
    if image.mode not in (OWN_MODES if image.format == "JPEG" else _PNG_MODES):
        return f"{image.format} in mode {image.mode}, which fastpipe doesn't decode"
    if getattr(image, "is_animated", False):
        return "animated PNG"
    if _is_tiny(image):
        return "PNG of few pixels, which Pillow decodes as fast"
    return f"{image.format} of a class of somebody's own"


def _is_tiny(image: ImageFile.ImageFile) -> bool:
    pixels = image.width * image.height * len(image.getbands())
    return image.format == "PNG" and pixels <= (_TINY_BILEVEL_PNG if image.mode == "1" else _TINY_PNG)


def open_image(source: str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]) -> Image.Image:
    """Opens an image as ``PIL.Image.open`` does; fastpipe decodes it when, and as far as, its pixels are used.

    Size, mode, format, ``info``, ``getexif()`` and similar are known at once. ``crop``, ``resize``, ``transpose``,
    ``transform``, ``convert``, ``point`` and ``copy`` are recorded and return further images without pixels, as do
    transforms that return images. Anything else that uses the pixels, such as ``numpy.asarray`` or ``save``, makes
    them: one call of the core decodes only the part of the file that is left, to Pillow's bytes. A transform to a
    tensor makes the tensor from the file directly.

    Files that the core can't decode are decoded by Pillow, with Pillow's errors and warnings.

    .. code:: python

        image = fastpipe.open_image(path).convert("RGB")  # in place of PIL.Image.open
        sample = transform(image)

    Args:
        source: a path, the bytes of a file, or a file object opened for reading bytes, which is read to its end.

    Returns:
        The image, of Pillow's class for the format, or of a class derived from it.

    Raises:
        TypeError: ``source`` is none of these.
        OSError: the path is that of a folder, a FIFO or a device.
        Exception: the errors of ``PIL.Image.open``.
    """
    file = io.BytesIO(source) if isinstance(source, (bytes, bytearray, memoryview)) else source
    if not isinstance(file, (str, os.PathLike)) and not hasattr(file, "read"):
        raise TypeError(f"source is a {type(source).__name__}: give a path, bytes, or a file that is open for reading.")
    if not hasattr(file, "read"):
        check_regular(file)  # Pillow would wait for the writer of a FIFO
    image = _opened_packed(file)
    if image is None:
        image = adopt(Image.open(file))
    if isinstance(image, LazyFile):
        image._fastpipe_read()
    return image


def _opened_packed(source: str | os.PathLike[str] | IO[bytes]) -> ImageFile.ImageFile | None:
    """A packed image, opened as by `register_pillow_opener`'s opener; None for any other file."""
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            return _packed_in(io.BytesIO(file.read()), os.fspath(source)) if begins_packed(file) else None
    try:
        source.seek(0)
    except (AttributeError, io.UnsupportedOperation):  # Pillow reads it
        return None
    return _packed_in(source, "") if begins_packed(source) else None


def _packed_in(file: IO[bytes], filename: str) -> ImageFile.ImageFile:
    opener, accept = Image.OPEN["JPEG"]
    try:
        takes_packed = accept is not None and accept(PACKED_SIGNATURE)
        image = opener(file, filename) if takes_packed else open_lazily(opener, file, filename)
    except SyntaxError:
        raise UnidentifiedImageError(f"cannot identify image file {filename or file!r}") from None
    Image._decompression_bomb_check(image.size)
    image._exclusive_fp = bool(filename)
    return image


class _LazyOpener:
    """Wraps an opener so that the core decodes the files that it opens.

    Args:
        opener, accept: what was registered before.
    """

    def __init__(self, opener: Opener, accept: Accept) -> None:
        self.opener, self.accept = opener, accept

    def __call__(self, file: IO[bytes], filename: str | bytes = "") -> ImageFile.ImageFile:
        return open_lazily(self.opener, file, filename)


def register_pillow_opener() -> AbstractContextManager[object]:
    """Makes the core decode the JPEG and PNG files that ``PIL.Image.open`` opens, in this process and its forks.

    Opened images are of Pillow's classes, as from `open_image`: pixels are decoded when, and as far as, they are used.
    Nothing else in Pillow changes, and images that are already open stay as they are.

    .. code:: python

        fastpipe.register_pillow_opener()

        with fastpipe.register_pillow_opener():  # or for a block
            ...

    Returns:
        A context manager that undoes the registration, unless there was one before.
    """
    Image.preinit()  # a later preinit would replace the openers
    is_new = False
    for name in _FORMATS:
        opener, accept = Image.OPEN[name]
        if not isinstance(opener, _LazyOpener):
            ours = accepting_packed(accept) if name == "JPEG" else accept
            Image.OPEN[name] = _LazyOpener(opener, accept), ours
            is_new = True
    undoing = ExitStack()
    if is_new:
        undoing.callback(unregister_pillow_opener)
    return undoing


def unregister_pillow_opener() -> None:
    """Undoes `register_pillow_opener`: Pillow opens files as before. Images that are already open stay as they are."""
    for name in _FORMATS:
        opener, _ = Image.OPEN.get(name, (None, None))
        if isinstance(opener, _LazyOpener):
            Image.OPEN[name] = opener.opener, opener.accept
