"""The record of an image without pixels: its file, the steps on it, and the calls with which Pillow does the same."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from PIL import Image

from fastpipe.clock import Stopwatch, clock
from fastpipe.errors import CoreError
from fastpipe.ops import RgbToGrayscale
from fastpipe.pillow.lazy_source import Check, LazySource
from fastpipe.plain_way import plainly
from fastpipe.program.encoded_image import LoadedPixels, ProgramImage
from fastpipe.program.on_image import Info, to_array
from fastpipe.program.uses import start_of_child
from fastpipe.readers.base import Pixels
from fastpipe.types import Box, Step

PlainCall: TypeAlias = Callable[[Image.Image], Image.Image]
"""A function that does a recorded operation by Pillow on a plain image; it must not hold anything that may change."""

Result = TypeVar("Result")

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
        parent: the record of the image that this one was made from; None for a file's.
        owner: returns the image; None if it is gone.
        uses: how many times pixels have been made from the steps.
        children: how many images and tensors were recorded on this one.
        kept: the pixels in RGB, for children that haven't theirs yet; None until they are made.
    """

    source: LazySource
    steps: tuple[Step, ...] = ()
    coloured: weakref.ref[Image.Image] | None = None
    calls: tuple[PlainCall, ...] | None = None
    checked_info: Info | None = None
    parent: ImageRecord | None = None
    owner: Callable[[], Image.Image | None] = lambda: None
    uses: int = 0
    children: int = 0
    kept: LoadedPixels | None = None

    def start(self) -> tuple[ProgramImage, tuple[Step, ...]]:
        """Counts a use; returns what the image's pixels are to be made from, and the steps from there."""
        self.uses += 1
        source, done = (self.source, 0) if self.parent is None else self.parent.start_of_child()
        return source, self.steps[done:]

    def start_of_child(self) -> tuple[ProgramImage, int]:
        """Counts a use by what was recorded on this image; returns its start, and the number of steps done there."""
        known = start_of_child(self)
        if not isinstance(known, ImageRecord) or known.kept is None:
            return self.source, 0
        return known.kept, len(known.steps)

    @property
    def is_file(self) -> bool:
        return not self.steps

    def needs_pixels(self) -> bool:
        """True if the image is to get its pixels now: it has been used before, or a file in many small parts."""
        return self.uses > 0 if self.steps else self.source.gets_pixels

    def keep(self) -> None:
        """Gives the image its pixels, and keeps them for its children."""
        image = self.owner()
        if image is not None and image_record_of(image) is self:
            _ = image.im
        if self.kept is None:
            pixels = self._made("RGB")
            self.kept = LoadedPixels(pixels if pixels.mode == "RGB" else pixels.convert("RGB"))

    def steps_in(self, mode: str) -> tuple[Step, ...]:
        """The steps from the file to the image in its own mode, ``"RGB"`` or ``"L"``."""
        return in_mode(self.steps, mode)

    def image(self, mode: str) -> Image.Image:
        """Makes the image in its own mode."""
        begun = clock()
        image = self._made(mode)
        check = self.source.check
        if check is None or self.calls is None:
            return image
        return self.checked(check, image, clock() - begun)

    def _made(self, mode: str) -> Image.Image:
        def ours() -> Image.Image:
            source, steps = self.start()
            return source.image(source.program(in_mode(steps, mode)))

        return self._attempt(ours, self._loaded_by_pillow)

    def array(self, mode: str) -> Pixels:
        """Makes the image in its own mode as an array ``(H, W, C)``, which may be valid until the next decode only."""

        def ours() -> Pixels:
            source, steps = self.start()
            return source.array(source.program(in_mode(steps, mode)))

        return self._attempt(ours, lambda: to_array(self._loaded_by_pillow()))

    def _attempt(self, ours: Callable[[], Result], by_pillow: Callable[[], Result]) -> Result:
        """Makes pixels by `ours`; if that fails, by Pillow, if its calls are known: see `EncodedImage.attempt`."""
        try:
            return ours() if self.calls is None else self.source.attempt(ours, by_pillow)
        except AttributeError as error:  # it would be taken for a missing attribute of the image
            raise CoreError(f"a step that was recorded fails: {error}") from error

    def _loaded_by_pillow(self) -> Image.Image:
        image = self.by_pillow()
        image.load()
        return image

    def by_pillow(self) -> Image.Image:
        """Makes the image by Pillow alone, also once it has pixels, for a comparison; its `calls` must be known."""
        assert self.calls is not None  # known of images that Pillow has opened
        image = _same_pixels(self.source.comparisons.plain())
        with plainly():
            for call in self.calls:
                image = call(image)
        return image

    def checked(self, check: Check, image: Image.Image, seconds: float) -> Image.Image:
        """Compares the core's image with Pillow's, and returns Pillow's if they differ."""
        watch = Stopwatch()
        expected = self.by_pillow()
        taken, wall = watch.taken()
        is_same = (image.mode, image.size, image.tobytes()) == (expected.mode, expected.size, expected.tobytes())
        difference = "" if is_same else f"{self.source.encoded.source} has other pixels than Pillow's"
        if is_same and self.checked_info != expected.info:
            difference = f"{self.source.encoded.source} has another info than Pillow's"
        check.add_check(taken, seconds, difference, wall - taken)
        return expected if difference else image


def _same_pixels(image: Image.Image) -> Image.Image:
    """An image of the same class on the same pixels, which Pillow copies before it changes them."""
    same = type(image).__new__(type(image))
    vars(same).update({**vars(image), "info": image.info.copy()})
    same.readonly = 1
    return same


def in_mode(steps: tuple[Step, ...], mode: str) -> tuple[Step, ...]:
    """Steps on a file's RGB pixels, and the one to an image in mode ``"RGB"`` or ``"L"``."""
    return steps if mode == "RGB" else (*steps, GRAY_IN_ONE)


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
    if record is None or image.mode != "RGB" or record.needs_pixels():
        return None
    source, steps = record.start()
    return source.array(source.program(steps, box))
