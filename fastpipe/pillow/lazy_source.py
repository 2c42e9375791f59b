"""A JPEG or PNG file that Pillow has opened, or would: what Pillow's images without pixels need of it."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

from PIL import Image

from fastpipe.pending import is_pending
from fastpipe.program.comparisons import Comparisons
from fastpipe.program.core_job import Encoded
from fastpipe.program.encoded_image import EncodedImage, OnMistake
from fastpipe.program.on_image import Info, to_pil
from fastpipe.program.uses import MadeBeforeForks
from fastpipe.types import Box

Opener: TypeAlias = Callable[[bytes], Image.Image]


class Check(Protocol):
    """Counts images that are made by Pillow, too, and compared."""

    def add_check(self, plain_seconds: float, fast_seconds: float, difference: str, stalled: float = 0.0) -> None:
        """Adds a comparison.

        Args:
            plain_seconds: the time that Pillow took.
            fast_seconds: the time that the core took.
            difference: a description of the difference; empty if there is none.
            stalled: wall-clock seconds that Pillow's way spent waiting: for a processor, a disk or a lock.
        """

    def note_decode(self, encoded: Encoded, box: Box | None) -> None:
        """Notes that a box of the file is decoded; None for the whole image."""


_PIXEL_BYTES = {"RGB": 4, "L": 1}  # of Pillow's memory


class LazySource(EncodedImage):
    """An encoded image that several lazy images are made from.

    Args:
        encoded, orientation, on_mistake, is_sound: see `EncodedImage`.
        open_by_pillow: opens the file by Pillow if the core refuses it, with Pillow's errors and warnings. None to
            raise a `fastpipe.errors.DecodeError` that names the file.
        check: the comparison of this file's first few images with Pillow's; None to compare none.

    Attributes:
        comparisons: the comparisons of this file's images, of any kind.
    """

    def __init__(
        self,
        encoded: Encoded,
        orientation: int = 1,
        open_by_pillow: Opener | None = None,
        check: Check | None = None,
        on_mistake: OnMistake | None = None,
        is_sound: bool = False,
    ) -> None:
        super().__init__(encoded, orientation, on_mistake, is_sound)
        self._check = check
        self.on_decode = None if check is None else check.note_decode
        self.comparisons = Comparisons(self.loaded_by_pillow)
        self._open_by_pillow = open_by_pillow
        self._info: Info | None = None
        self._images: list[weakref.ref[Image.Image]] = []
        self._most_images = 8
        _SOURCES.add(self)

    @property
    def check(self) -> Check | None:
        """The comparison of this file's images with Pillow's; None if none is to be compared any more."""
        return self._check if self.comparisons.left > 0 else None

    def add_image(self, image: Image.Image) -> None:
        """Registers an image without pixels that is made from the file."""
        if len(self._images) >= self._most_images:
            self._images = [reference for reference in self._images if reference() is not None]
            self._most_images = 8 + 2 * len(self._images)
        self._images.append(weakref.ref(image))

    def has_images_besides(self, image: Image.Image) -> bool:
        """True if another image without pixels that is made from the file still exists."""
        others = (reference() for reference in self._images)
        return any(other is not None and other is not image and is_pending(other) for other in others)

    def let_go(self) -> None:
        """Makes the images that take less memory than the file, so that the file can be freed with its last image."""
        self.make_images(len(self.encoded.data))
        self._whole = None

    def make_images(self, most: float = math.inf) -> None:
        """Makes the pixels of the images that still exist, of those that take less memory than some bytes."""
        for reference in [*self._images]:
            image = reference()
            if image is None or not is_pending(image):
                continue
            if image.width * image.height * _PIXEL_BYTES[image.mode] < most:
                with suppress(Exception):  # raised again when the pixels are used
                    _ = image.im

    def loaded_by_pillow(self) -> Image.Image:
        """The file as Pillow decodes it; of a file that Pillow has opened."""
        if self.error is not None:  # Pillow's own
            raise self.error
        assert self._open_by_pillow is not None  # images of other files aren't compared
        assert self.orientation == 1
        image = self._open_by_pillow(self.encoded.content)
        image.load()  # opening alone decodes nothing
        return image

    def info(self) -> Info:
        """A copy of Pillow's ``info`` of the file; empty without `open_by_pillow`."""
        if self._info is None:
            self._info = {} if self._open_by_pillow is None else self._open_by_pillow(self.encoded.content).info
        return self._info.copy()

    def decoded_by_library(self) -> Image.Image:
        encoded = self.encoded
        if self._open_by_pillow is not None:
            opened = self._open_by_pillow(encoded.content)
            opened.load()
            return opened.convert("RGB")
        return to_pil(encoded.decode(refused=True))


_SOURCES: MadeBeforeForks[LazySource] = MadeBeforeForks(LazySource.make_images)
