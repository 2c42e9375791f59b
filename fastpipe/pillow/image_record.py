"""The record of an image without pixels: its file, the steps on it, and the calls with which Pillow does the same."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from PIL import Image

from fastpipe.clock import clock
from fastpipe.errors import CoreError
from fastpipe.ops import RgbToGrayscale
from fastpipe.pillow.lazy_source import Check, LazySource
from fastpipe.plain_way import plainly, raise_interruption
from fastpipe.program.on_image import Info, to_array
from fastpipe.readers.base import Pixels
from fastpipe.types import Box, Step

PlainCall: TypeAlias = Callable[[Image.Image], Image.Image]
"""A function that does a recorded operation by Pillow on a plain image; it must not hold anything that may change."""

GRAY_IN_ONE = RgbToGrayscale(1)


@dataclass(frozen=True)
class OnInfo:
    """A call for a check: first gives the plain image the ``info`` of the lazy one, as the user may have changed it.

    Attributes:
        info: a copy.
        call: to be made.
    """

    info: Info
    call: PlainCall

    def __call__(self, plain: Image.Image) -> Image.Image:
        plain.info = self.info.copy()
        return self.call(plain)


@dataclass(slots=True, eq=False)
class ImageRecord:
    """A lazy image's file and steps, which make its pixels.

    Attributes:
        source: the file.
        steps: the steps on the file's RGB pixels; a gray image stays RGB until its pixels are made.
        coloured: the colour image that this gray one was converted from. If it is still in use, as by ``ImageEnhance``,
            its pixels will be needed, too, and come from the same decode.
        calls: the calls that make the image by Pillow from the opened file; None if unknown.
        checked_info: a copy of the image's first ``info``, if the file's pixels are checked.
        gave_array: an array has been made from the image, without giving it pixels of its own.
    """

    source: LazySource
    steps: tuple[Step, ...] = ()
    coloured: weakref.ref[Image.Image] | None = None
    calls: tuple[PlainCall, ...] | None = None
    checked_info: Info | None = None
    gave_array: bool = False

    def steps_in(self, mode: str) -> tuple[Step, ...]:
        """The steps from the file to the image in its own mode, ``"RGB"`` or ``"L"``."""
        return self.steps if mode == "RGB" else (*self.steps, GRAY_IN_ONE)

    def image(self, mode: str) -> Image.Image:
        """Makes the image in its own mode."""
        begun = clock()
        try:
            image = self.source.image(self.source.program(self.steps_in(mode)))
        except Exception as error:  # raised again, unless Pillow can make the image
            raise_interruption(error)
            if error is self.source.error:  # Pillow's own
                raise
            image = self._by_pillow_instead(error)
        check = self.source.check
        if check is None or self.calls is None:
            return image
        return self._checked(check, image, clock() - begun)

    def array(self, mode: str) -> Pixels:
        """Makes the image in its own mode as an array ``(H, W, C)``, which may be valid until the next decode only."""
        try:
            return self.source.array(self.source.program(self.steps_in(mode)))
        except Exception as error:  # raised again, unless Pillow can make the image
            raise_interruption(error)
            if error is self.source.error:  # Pillow's own
                raise
            return to_array(self._by_pillow_instead(error))

    def by_pillow(self) -> Image.Image:
        """Makes the image by Pillow alone, also once it has pixels; its `calls` must be known."""
        image = self.source.opened_by_pillow()
        assert image is not None  # calls are known of images that Pillow has opened
        assert self.calls is not None
        with plainly():
            for call in self.calls:
                image = call(image)
        return image

    def _by_pillow_instead(self, error: Exception) -> Image.Image:
        """Makes the image by Pillow after fastpipe's way has failed; raises the user's error, or the given one."""
        on_mistake = self.source.on_mistake
        if on_mistake is None or self.calls is None:
            if isinstance(error, AttributeError):  # it would be taken for a missing attribute of the image
                raise CoreError(f"a step that was recorded fails: {error}") from error
            raise error
        image = self.by_pillow()
        image.load()
        on_mistake(error)
        return image

    def _checked(self, check: Check, image: Image.Image, seconds: float) -> Image.Image:
        """Compares the core's image with Pillow's, and returns Pillow's if they differ."""
        begun = clock()
        expected = self.by_pillow()
        expected.load()  # opening alone decodes nothing
        taken = clock() - begun
        is_same = (image.mode, image.size, image.tobytes()) == (expected.mode, expected.size, expected.tobytes())
        difference = "" if is_same else f"{self.source.encoded.source} has other pixels than Pillow's"
        if is_same and self.checked_info != expected.info:
            difference = f"{self.source.encoded.source} has another info than Pillow's"
        check.add_check(taken, seconds, difference)
        return expected if difference else image


def image_record_of(image: Image.Image | None) -> ImageRecord | None:
    """The record of a lazy image; None for a plain one, also if another thread has just made the pixels."""
    return None if image is None else vars(image).get("_fastpipe")


def source_of(image: object) -> LazySource | None:
    """The source of a lazy image, or the source itself if one is given; None for anything else."""
    if isinstance(image, LazySource):
        return image
    record = image_record_of(image) if isinstance(image, Image.Image) else None
    return None if record is None else record.source


def region_of(image: Image.Image, box: Box) -> Pixels | None:
    """A box of a lazy colour image as an array ``(H, W, 3)``, decoded alone; None for an image with pixels.

    The array is valid until the thread's next decode.
    """
    record = image_record_of(image)
    return None if record is None or image.mode != "RGB" else record.source.region(box, record.steps)
