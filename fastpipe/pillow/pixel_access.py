"""The result of ``Image.load`` for an image without pixels."""

from __future__ import annotations

from typing import Any

from PIL import Image


class PendingPixels:
    """Pillow's ``PixelAccess`` for an image whose pixels are made at the first access.

    Args:
        image: the image whose ``load`` was called.
    """

    __slots__ = ("_image",)

    def __init__(self, image: Image.Image) -> None:
        self._image = image

    def __getitem__(self, place: object) -> Any:
        return self._pixels()[place]

    def __setitem__(self, place: object, value: object) -> None:
        self._pixels()[place] = value

    def _pixels(self) -> Any:
        return self._image.im.pixel_access(self._image.readonly)
