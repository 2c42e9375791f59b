"""Draws pictures of samples: converts tensors to images, amplifies differences, makes grids with text."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from fastpipe.errors import ConfigError, PlanError
from fastpipe.reporting.output import check_writable, write_bytes

Font: TypeAlias = "ImageFont.FreeTypeFont | ImageFont.ImageFont"
ChannelValues: TypeAlias = "Sequence[float] | torch.Tensor"
Normalizations: TypeAlias = "tuple[tuple[ChannelValues, ChannelValues], ...]"
"""Mean and std of each ``Normalize`` that a sample went through, in order."""

PixelArray: TypeAlias = NDArray[Any]
"""An image ``(H, W, C)`` of any type of numbers, on the scale of 0 to 255."""

_INK, _PAPER, _FAINT, _FRAME = (25, 25, 25), (255, 255, 255), (110, 110, 110), (215, 215, 215)
_GAP = 8
_TEXT_PX = 13


def arrays_of(result: object, undo: Normalizations = ()) -> list[PixelArray]:
    """Converts a transform's result to arrays ``(H, W, C)``, 0 to 255: uint8, or float64 from floats.

    Args:
        result: a PIL image, an array ``(H, W)`` or ``(H, W, C)``, a tensor ``(…, C, H, W)``, or a list or tuple of
            these.
        undo: the normalisations to undo.

    Raises:
        PlanError: the result is something else.
    """
    if isinstance(result, (list, tuple)):
        return [array for member in result for array in arrays_of(member, undo)]
    if isinstance(result, Image.Image):
        array = np.asarray(result)
        return [array if array.ndim == 3 else array[..., None]]
    if isinstance(result, np.ndarray) and result.ndim in (2, 3):
        array = result if result.ndim == 3 else result[..., None]
        return [array * 255.0 if array.dtype.kind == "f" else array]
    if isinstance(result, torch.Tensor) and result.ndim >= 2:
        images = result[None] if result.ndim == 2 else result
        return [_array_of(image, undo) for image in images.reshape(-1, *images.shape[-3:])]
    raise PlanError(
        f"the transform gives {type(result).__name__}, which is no image: images are PIL images, arrays (H, W, C), "
        "tensors (C, H, W), and lists of these"
    )


def _array_of(image: torch.Tensor, undo: Normalizations) -> PixelArray:
    if not image.is_floating_point():
        return image.permute(1, 2, 0).numpy()
    image = image.to(torch.float64)
    for mean, std in reversed(undo):
        means, stds = (torch.as_tensor(values, dtype=torch.float64).reshape(-1, 1, 1) for values in (mean, std))
        if means.shape[0] in (1, image.shape[0]) and stds.shape[0] in (1, image.shape[0]):
            image = image * stds + means
    return (image * 255).permute(1, 2, 0).numpy()


def pictures_of(result: object, undo: Normalizations = ()) -> list[Image.Image]:
    """Converts a transform's result to RGB images to look at; the arguments are as in `arrays_of`.

    Values far outside of the range (from unknown transforms) are rescaled into it.
    """
    return [_picture(array) for array in arrays_of(result, undo)]


def _picture(array: PixelArray) -> Image.Image:
    if array.dtype != np.uint8:
        values = array.astype(np.float64)
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        if low < -26 or high > 281:  # more than a tenth outside: not rounding, but another scale
            values = (values - low) * (255 / (high - low))
        array = values.round().clip(0, 255).astype(np.uint8)
    if array.shape[2] == 3:
        return Image.fromarray(np.ascontiguousarray(array))
    channels = array[..., :3] if array.shape[2] > 3 else array[..., :1]
    return Image.fromarray(np.ascontiguousarray(np.broadcast_to(channels, (*array.shape[:2], 3))))


def same_size(one: Sequence[PixelArray], other: Sequence[PixelArray]) -> bool:
    return len(one) == len(other) and all(a.shape == b.shape for a, b in zip(one, other, strict=True))


def difference(apart: NDArray[np.float64], factor: float, *, side: int = 0) -> Image.Image:
    """Draws the differences of two images, ``(H, W, C)``, 0 to 255, times a factor.

    The picture is made smaller to fit a square of `side` pixels (0 keeps its size); a pixel then shows the largest of
    its differences, which an average would hide.
    """
    planes = torch.from_numpy(np.ceil(apart * factor).clip(0, 255)).permute(2, 0, 1)
    height, width = planes.shape[1:]
    if 0 < side < max(height, width):
        small = [max(1, round(edge * side / max(height, width))) for edge in (height, width)]
        planes = torch.nn.functional.adaptive_max_pool2d(planes, small)
    return _picture(planes.permute(1, 2, 0).numpy().astype(np.uint8))


@dataclass(frozen=True, slots=True)
class Cell:
    """A picture and the lines below it, the first of which is its title in `color`."""

    picture: Image.Image
    lines: tuple[str, ...] = ()
    color: tuple[int, int, int] = _INK


def grid(rows: Sequence[Sequence[Cell]], *, side: int = 256, heading: str = "") -> Image.Image:
    """Draws cells in rows, with a heading: each picture fitted to a square, with its lines wrapped below.

    `side` is the square's side in pixels. Small pictures are enlarged by integer factors, pixel by pixel.
    """
    font = _font()
    heading = _drawable(heading, font)
    drawn = [[(fitted(cell.picture, side), _text(cell, font, side)) for cell in row] for row in rows]
    _, highest, _, lowest = font.getbbox("Mg")
    step = int(lowest - min(highest, 0)) + 3
    columns = max((len(row) for row in rows), default=1)
    # At least as wide as the heading.
    width = max(_GAP + columns * (side + _GAP), round(font.getlength(heading)) + 2 * _GAP)
    top = _GAP + (step + _GAP if heading else 0)
    tallest = [max((picture.height for picture, _ in row), default=0) for row in drawn]
    texts = [max((len(lines) for _, lines in row), default=0) for row in drawn]
    heights = [pixels + 4 + step * lines + 2 * _GAP for pixels, lines in zip(tallest, texts, strict=True)]
    canvas = Image.new("RGB", (width, top + sum(heights)), _PAPER)
    draw = ImageDraw.Draw(canvas)
    draw.text((_GAP, _GAP), heading, _INK, font)
    for row, below, height in zip(drawn, tallest, heights, strict=True):
        for column, (picture, lines) in enumerate(row):
            left = _GAP + column * (side + _GAP)
            upper = top + below - picture.height
            # A frame, as white pictures would not be seen on white.
            draw.rectangle((left - 1, upper - 1, left + picture.width, upper + picture.height), outline=_FRAME)
            canvas.paste(picture, (left, upper))
            for number, (line, ink) in enumerate(lines):
                draw.text((left, top + below + 4 + number * step), line, ink, font)
        top += height
    return canvas


def check_picture(path: str) -> None:
    """Checks that `save_picture` can write a file, before time is spent on the picture.

    Raises:
        ConfigError: the extension names no picture format, or the file can't be written.
    """
    if Image.registered_extensions().get(Path(path).suffix.lower()) not in Image.SAVE:
        raise ConfigError(f"{path}: no picture format has that extension; take .png or .jpg")
    check_writable(path, "--out")


def save_picture(picture: Image.Image, path: str) -> None:
    """Writes a picture in the format that the path's extension names.

    Raises:
        ConfigError: the extension names none, or the file can't be written.
    """
    check_picture(path)
    out = io.BytesIO()
    try:
        # Lossy formats' own default smears coloured text.
        picture.save(out, Image.registered_extensions()[Path(path).suffix.lower()], quality=92)
    except (OSError, ValueError) as error:  # such as larger than the format takes
        raise ConfigError(f"can't write {path}: {error}; give --out a .png") from error
    write_bytes(path, [out.getbuffer()], "--out")


def fitted(picture: Image.Image, side: int) -> Image.Image:
    """Resizes a picture to fit a square: enlarged by an integer factor, or made smaller."""
    longest = max(picture.size)
    if longest <= side // 2:
        times = side // longest
        return picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
    small = picture.copy()
    small.thumbnail((side, side), Image.Resampling.BOX)
    return small


def _font() -> Font:
    try:
        return ImageFont.truetype("DejaVuSans.ttf", _TEXT_PX)  # has more characters than Pillow's own font
    except OSError:
        return ImageFont.load_default(size=_TEXT_PX)
    except ImportError:  # a Pillow without FreeType has one small bitmap font
        return ImageFont.load_default()


def _drawable(text: str, font: Font) -> str:
    """Replaces characters that a font lacks by ``\\uXXXX``."""
    if isinstance(font, ImageFont.ImageFont):  # the bitmap font raises for characters that aren't Latin-1
        return text.encode("latin-1", "backslashreplace").decode("latin-1")
    box = bytes(font.getmask("\U0010fffe"))  # the glyph for missing characters
    lacking = {one for one in set(text) if not one.isspace() and bytes(font.getmask(one)) == box}
    return "".join(ascii(one)[1:-1] if one in lacking else one for one in text)


def _text(cell: Cell, font: Font, width: int) -> list[tuple[str, tuple[int, int, int]]]:
    """Wraps a cell's lines; returns each part with its colour."""
    lines = enumerate(_drawable(line, font) for line in cell.lines)
    return [(part, _FAINT if number else cell.color) for number, line in lines for part in _wrapped(line, font, width)]


def _wrapped(line: str, font: Font, width: int) -> list[str]:
    """Wraps a line to a width in pixels, between words, or inside a word that is too long."""
    letters = width
    while letters > 1 and max(map(font.getlength, textwrap.wrap(line, letters)), default=0) > width:
        letters = min(letters - 1, int(letters * 0.95))
    return textwrap.wrap(line, letters) or [""]
