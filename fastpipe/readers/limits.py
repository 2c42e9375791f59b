"""Limits on an image's pixels, with Pillow's meaning for any reader, and the limits on bytes that follow from them."""

from __future__ import annotations

import functools
import os
import warnings
from typing import Literal

from PIL import Image

from fastpipe.errors import ConfigError, DecodeError
from fastpipe.types import Header

MaxPixels = int | Literal["auto"] | None
"""The most pixels that an image may have: a number, None for no limit, or ``"auto"``.

``"auto"`` is ``FASTPIPE_MAX_PIXELS``, or the current ``PIL.Image.MAX_IMAGE_PIXELS`` if that isn't set.
"""

_VARIABLE = "FASTPIPE_MAX_PIXELS"

_MOST_PIXELS = 1 << 48
"""The largest limit, above any image: with more pixels the core's counts of bytes would overflow 64 bits."""


def pixel_limit(max_pixels: MaxPixels = "auto") -> int | None:
    """Resolves a ``max_pixels`` argument to a limit; None for no limit.

    Raises:
        ConfigError: the argument isn't a positive integer, None or ``"auto"``, or ``FASTPIPE_MAX_PIXELS`` is neither a
            number of pixels nor ``none``.
    """
    if max_pixels == "auto":
        text = os.environ.get(_VARIABLE)
        limit: float | None = _parsed(text) if text else Image.MAX_IMAGE_PIXELS  # users may set it to 1e10, or inf
    elif max_pixels is not None and (not isinstance(max_pixels, int) or max_pixels < 1):
        raise ConfigError(
            f"max_pixels={max_pixels!r:.80}: give a number of pixels (1 or more), None for no limit, or 'auto' for "
            f"{_VARIABLE} or else PIL.Image.MAX_IMAGE_PIXELS"
        )
    else:
        limit = max_pixels
    return None if limit is None else int(min(limit, _MOST_PIXELS))


SHORT_FILE = 64 << 20
"""Files of up to this many bytes are read whatever the limit of pixels."""

_BYTES_A_PIXEL = 16
_LEAST_SCRATCH = 1 << 26
_SCRATCH_WITHOUT_LIMIT = 1 << 32
_SCRATCH_A_PIXEL = 8  # for a progressive JPEG's coefficients, and some more


def longest_file(limit: int | None) -> int:
    """The most bytes of an image's file if an image may have `limit` pixels; 0 for any number."""
    return 0 if limit is None else max(SHORT_FILE, 2 * limit * _BYTES_A_PIXEL)


def most_scratch(limit: int | None) -> int:
    """The most bytes of scratch memory that the core may use for an image, in proportion to the limit of pixels.

    Without a limit, 4 GiB. A JPEG within the limit that needs more, because its blocks or intermediate results are far
    larger than the image, is left to Pillow.
    """
    return _SCRATCH_WITHOUT_LIMIT if limit is None else max(_LEAST_SCRATCH, 2 * limit * _SCRATCH_A_PIXEL)


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> int | None:
    if text.strip().lower() == "none":
        return None
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit < 1:
        raise ConfigError(f"{_VARIABLE}={text!r} is neither a number of pixels (1 or more) nor 'none' for no limit")
    return limit


def check_limit(header: Header, max_pixels: MaxPixels, source: str) -> None:
    """Warns of an image with more pixels than the limit, and refuses one with more than twice as many, as Pillow does.

    Raises:
        DecodeError: the image has too many pixels; its cause is Pillow's DecompressionBombError.
    """
    limit, pixels = pixel_limit(max_pixels), header.height * header.width
    if limit is None or pixels <= limit:
        return
    if pixels > 2 * limit:
        message = f"Image size ({pixels} pixels) exceeds limit of {2 * limit} pixels, could be decompression bomb"
        advice = f"; if you trust the file, raise max_pixels ({limit}) or {_VARIABLE}"
        cause = Image.DecompressionBombError(message)
        raise DecodeError(source, header.format, "pil", message + advice) from cause
    message = f"{source}: image size ({pixels} pixels) exceeds limit of {limit} pixels, could be decompression bomb"
    warnings.warn(message, Image.DecompressionBombWarning, stacklevel=3)
