"""A PIL image with a size and no pixels, from which foreign code can draw; and the error for any other access."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from PIL import Image

from fastpipe.types import ImageShape

if TYPE_CHECKING:
    from typing_extensions import Self


class Untraceable(Exception):
    """A transform needs pixels before there are any."""


class SizedImage(Image.Image):
    """A PIL image that only has a size and a mode, RGB or L: any other access raises `Untraceable`."""

    def __init__(self, shape: ImageShape) -> None:
        super().__init__()
        self._size = shape.width, shape.height
        self._mode = "L" if shape.channels == 1 else "RGB"

    @property
    def info(self) -> NoReturn:
        raise Untraceable("this transform looks at what else is in the file, which isn't read yet")

    @info.setter
    def info(self, value: object) -> None:
        """Ignores the value, which Pillow's constructor sets."""

    def load(self) -> NoReturn:
        raise Untraceable("this transform looks at pixels, and there are none yet")

    def tobytes(self, *args: object, **kwargs: object) -> NoReturn:
        self.load()

    def getexif(self) -> Image.Exif:
        return self.info

    def copy(self) -> Self:
        return self

    def convert(self, mode: str | None = None, *args: object, **kwargs: object) -> Image.Image:
        """Returns the image itself for its own mode; for any other, pixels are needed."""
        return self if mode == self.mode and not args and not kwargs else self.load()
