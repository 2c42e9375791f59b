"""A job's operations, each written as a C struct by one ``struct.pack_into``: calls of a few microseconds."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from fastpipe.core.addresses import address_of_bytes
from fastpipe.core.structs import Filter, Kind, Padding, PassOrder, RawJob

MAX_OPERATIONS = 16

# Each Struct is an fpc_operation: kind and flags, then the kind's own struct, with the fields in the header's order;
# ``tests/core/layout.c`` checks the layout.
_KIND = Struct("@2i")
_CROP = Struct("@2i4i")
_RESIZE = Struct("@2i12i4d")
_PAD = Struct("@2i9i")
_LUT = Struct("@2iP2i")
_GRAY = Struct("@2ii")
_PERMUTE = Struct("@2i3i")
_CV_RESIZE = Struct("@2i2i")
_BLEND = Struct("@2id")
_HUE = Struct("@2ii")
_BLUR = Struct("@2i2d")
_TORCH_BLUR = Struct("@2iP2i")
_WARP = Struct("@2i7i4x8d")
_TENSOR_HUE = Struct("@2if")
_SAMPLE = Struct("@2i4i9f")
_SIZE = _WARP.size  # the longest one
_LIST = Struct("@Pi")  # in a job: the address of its operations, and their number
_LIST_AT: int = RawJob.operations.offset
_NO_COEFFICIENTS = (0.0,) * 8
_OPAQUE = 255  # the fourth byte of a colour in Pillow
# Plain ints, which cost less to pack.
_HFLIP_KIND, _RESIZE_KIND = int(Kind.HFLIP), int(Kind.RESIZE)


class EncodedOps(NamedTuple):
    """Operations of a job as C structs, to be added to other jobs.

    Attributes:
        content: the fpc_operation structs.
        number: how many there are.
        tables: the look-up tables that they point to.
    """

    content: bytes
    number: int
    tables: tuple[bytes, ...]


def one_blend(kind: int, flags: int, factor: float) -> bytes:
    """An fpc_operation of a kind that has a blend's factor as its only argument, or none."""
    return _BLEND.pack(kind, flags, factor).ljust(_SIZE, b"\0")


class JobOperations:
    """A job's operations, in the order in which they run; `Job` adds a source and a sink."""

    __slots__ = ("_bytes", "_count", "_operations", "_own", "_tables", "raw")

    def __init__(self, raw: RawJob) -> None:
        self.raw = raw
        """The struct itself, for fields without a method here."""
        self._operations = (ctypes.c_double * (MAX_OPERATIONS * _SIZE // 8))()  # doubles, for the structs' alignment
        self._bytes = memoryview(self._operations).cast("B")
        self._count = 0
        self._tables: list[bytes] = []
        self._own = raw.operations = ctypes.addressof(self._operations)

    @property
    def room(self) -> int:
        """Number of operations that still fit."""
        return MAX_OPERATIONS - self._count

    def clear(self) -> None:
        """Removes all operations."""
        self._count = 0
        self._tables.clear()
        _LIST.pack_into(self.raw, _LIST_AT, self._own, 0)

    def mark(self) -> tuple[int, int]:
        """The current end of the operations, for `packed`."""
        return self._count, len(self._tables)

    def packed(self, mark: tuple[int, int]) -> EncodedOps:
        """Packs the operations that were added since `mark`, for other jobs."""
        count, tables = mark
        content = bytes(self._bytes[count * _SIZE : self._count * _SIZE])
        return EncodedOps(content, self._count - count, tuple(self._tables[tables:]))

    def add(self, packed: EncodedOps) -> bool:
        """Adds packed operations; False if they don't fit."""
        content, number, tables = packed
        before = self._count
        if before + number > MAX_OPERATIONS:
            return False
        start = before * _SIZE
        self._bytes[start : start + len(content)] = content
        self._count = self.raw.operation_count = before + number
        if tables:
            self._tables += tables
        return True

    def use(self, packed: EncodedOps) -> None:
        """Makes packed operations the job's own until it is cleared; they have to live until the job has run."""
        self._count = packed.number
        _LIST.pack_into(self.raw, _LIST_AT, address_of_bytes(packed.content), packed.number)

    def crop(self, top: int, left: int, height: int, width: int) -> None:
        """Adds a crop."""
        _CROP.pack_into(self._operations, self._next(), Kind.CROP, 0, top, left, height, width)

    def resize(
        self,
        whole: tuple[int, int] | None,
        origin: tuple[int, int],
        out: tuple[int, int],
        window: tuple[int, int, int, int],
        filter: int = Filter.BILINEAR,
        pass_order: int = PassOrder.HORIZONTAL_FIRST,
        box: tuple[float, float, float, float] | None = None,
    ) -> None:
        """Adds Pillow's resize of a whole image, of which only a part may be there and only a window may be wanted.

        Args:
            whole: ``(height, width)`` of the whole input; None if all of the input is there.
            origin: ``(top, left)`` in the whole input of the pixels that are there.
            out: ``(height, width)`` of the whole output.
            window: ``(top, left, height, width)`` of the wanted part of the output.
            filter: a `Filter`.
            pass_order: a `PassOrder`; Pillow's is FEWER_ROWS_FIRST from version 13 on.
            box: ``(x0, y0, x1, y1)``, the source box in the whole input, as Pillow's ``resize(box=)``.
        """
        height, width = whole or (0, 0)
        x0, y0, x1, y1 = (0.0, 0.0, width, height) if box is None else box
        _RESIZE.pack_into(
            self._operations,
            self._next(),
            _RESIZE_KIND,
            0,
            height,
            width,
            *origin,
            *out,
            *window,
            filter,
            pass_order,
            x0,
            y0,
            x1,
            y1,
        )

    def float_resize(
        self,
        whole: tuple[int, int],
        origin: tuple[int, int],
        out: tuple[int, int],
        window: tuple[int, int, int, int],
        flags: int,
    ) -> None:
        """Adds torch's antialiased, bilinear resize of floats; only a sink of floats may follow.

        Args:
            whole, origin, out, window: see `resize`.
            flags: a `FloatRounding`, and HFLIP, VFLIP and MULTIPLY of `FloatResize`. Bytes are divided by 255 or, with
                MULTIPLY, multiplied by 1 / 255; the sink then doesn't do it.
        """
        unused = (0,) * 6
        place = *whole, *origin, *out, *window
        _RESIZE.pack_into(self._operations, self._next(), Kind.FLOAT_RESIZE, flags, *place, *unused)

    def flip(self) -> None:
        """Mirrors left and right."""
        _KIND.pack_into(self._operations, self._next(), _HFLIP_KIND, 0)

    def flip_vertically(self) -> None:
        """Mirrors top and bottom."""
        self._plain(Kind.VFLIP)

    def transpose(self) -> None:
        """Swaps rows and columns."""
        self._plain(Kind.TRANSPOSE)

    def pad(
        self,
        left: int,
        top: int,
        right: int,
        bottom: int,
        mode: int = Padding.CONSTANT,
        fill: tuple[int, int, int] = (0, 0, 0),
        rgbx_pad: int = 255,
    ) -> None:
        """Adds a border, as torchvision's ``pad`` of PIL images.

        Args:
            left, top, right, bottom: widths in pixels.
            mode: a `Padding`.
            fill: the channels of a constant border.
            rgbx_pad: the fourth byte of a constant border in Pillow's memory: 255 where Pillow gets a colour, as from
                torchvision's ``pad``, and 0 where torchvision's ``crop`` leaves the image.
        """
        _PAD.pack_into(self._operations, self._next(), Kind.PAD, 0, left, top, right, bottom, mode, *fill, rgbx_pad)

    def look_up(self, table: bytes, rgbx_pad: int = 0) -> None:
        """Adds a look-up of each value in a table.

        Args:
            table: 256 bytes for each channel, one table after the other.
            rgbx_pad: the fourth byte in Pillow's memory: 0 as after ``Image.point``, or `LOOK_UP_RGBX_PAD` to look that
                byte up, too.
        """
        self._tables.append(table)
        address = address_of_bytes(table)
        _LUT.pack_into(self._operations, self._next(), Kind.LUT, 0, address, rgbx_pad, 0)

    def gray(self, channels: int) -> None:
        """Adds Pillow's ``convert("L")``, to 1 or 3 channels."""
        _GRAY.pack_into(self._operations, self._next(), Kind.GRAY, 0, channels)

    def permute(self, order: Sequence[int]) -> None:
        """Adds a permutation of three channels: the result's channel i is ``order[i]``. Gray is kept."""
        _PERMUTE.pack_into(self._operations, self._next(), Kind.PERMUTE, 0, *order)

    def resize_as_opencv(self, height: int, width: int) -> None:
        """Adds OpenCV's resize by INTER_LINEAR, to another size than half of the image's."""
        _CV_RESIZE.pack_into(self._operations, self._next(), Kind.CV_RESIZE, 0, height, width)

    def blend(self, kind: int, factor: float) -> None:
        """Adds Pillow's ``ImageEnhance``: SATURATION, CONTRAST or SHARPNESS by a factor that is exact in float32."""
        _BLEND.pack_into(self._operations, self._next(), kind, 0, factor)

    def turn_hue(self, shift: int) -> None:
        """Adds a shift of the hue in Pillow's HSV: 0 to 255, modulo 256."""
        _HUE.pack_into(self._operations, self._next(), Kind.HUE, 0, shift)

    def autocontrast(self) -> None:
        """Adds Pillow's ``ImageOps.autocontrast``."""
        self._plain(Kind.AUTOCONTRAST)

    def equalize(self) -> None:
        """Adds Pillow's ``ImageOps.equalize``."""
        self._plain(Kind.EQUALIZE)

    def warp(
        self,
        kind: int,
        size: tuple[int, int],
        coefficients: Sequence[float],
        filter: int = Filter.NEAREST,
        fill: Sequence[int] = (0, 0, 0),
        rgbx_pad: int = _OPAQUE,
    ) -> None:
        """Adds Pillow's ``transform``.

        Args:
            kind: AFFINE or PERSPECTIVE.
            size: ``(height, width)`` of the result.
            coefficients: six or eight finite numbers, as Pillow has them.
            filter: NEAREST, BILINEAR or BICUBIC.
            fill: the channels outside of the image, 0 to 255; Pillow's ``fillcolor``.
            rgbx_pad: the fourth byte of the new image in Pillow's memory, outside only with NEAREST: 255 where Pillow
                gets a colour, else 0.
        """
        padded = (*coefficients, *_NO_COEFFICIENTS[len(coefficients) :])
        _WARP.pack_into(self._operations, self._next(), kind, 0, *size, filter, *fill, rgbx_pad, *padded)

    def blur(self, kind: int, x: float, y: float) -> None:
        """Adds Pillow's BOX_BLUR or GAUSSIAN_BLUR with a horizontal and a vertical radius, 0 to 2**20."""
        _BLUR.pack_into(self._operations, self._next(), kind, 0, x, y)

    def torch_blur(self, along: bytes, down: bytes) -> None:
        """Adds torchvision's ``gaussian_blur``.

        Args:
            along, down: the horizontal and the vertical weights, float32: an odd number of each, from 0 to 1, with a
                sum of 1. The kernel is their outer product.
        """
        weights = along + down
        self._tables.append(weights)
        address = address_of_bytes(weights)
        _TORCH_BLUR.pack_into(
            self._operations, self._next(), Kind.TORCH_BLUR, 0, address, len(along) // 4, len(down) // 4
        )

    # -- torchvision's operations on uint8 tensors; `flags` is a `TensorRounding`

    def tensor_gray(self, channels: int, flags: int) -> None:
        """Adds torchvision's ``rgb_to_grayscale`` of tensors, to 1 or 3 channels."""
        _GRAY.pack_into(self._operations, self._next(), Kind.TENSOR_GRAY, flags, channels)

    def tensor_blend(self, kind: int, factor: float, flags: int) -> None:
        """Adds TENSOR_SATURATION, TENSOR_CONTRAST or TENSOR_SHARPNESS, by a factor that is exact in float32.

        The core refuses TENSOR_CONTRAST if the sum of the gray values may exceed 2**24.
        """
        _BLEND.pack_into(self._operations, self._next(), kind, flags, factor)

    def tensor_hue(self, by: float) -> None:
        """Adds v2's ``adjust_hue`` of tensors, by -0.5 to 0.5."""
        _TENSOR_HUE.pack_into(self._operations, self._next(), Kind.TENSOR_HUE, 0, by)

    def tensor_autocontrast(self, flags: int) -> None:
        """Adds torchvision's ``autocontrast`` of tensors."""
        _KIND.pack_into(self._operations, self._next(), Kind.TENSOR_AUTOCONTRAST, flags)

    def tensor_sample(
        self,
        size: tuple[int, int],
        theta: Sequence[float],
        filter: int,
        fill: Sequence[float] | None,
        flags: int,
    ) -> None:
        """Adds torchvision's ``affine`` and ``rotate`` of tensors.

        Args:
            size: ``(height, width)`` of the result.
            theta: the matrix ``(3, 2)`` after its division by half the image's size, row by row; finite float32.
            filter: NEAREST or BILINEAR.
            fill: three values, 0 to 255; None for black.
            flags: a `TensorRounding`.
        """
        filled = fill is not None
        _SAMPLE.pack_into(
            self._operations,
            self._next(),
            Kind.TENSOR_SAMPLE,
            flags,
            *size,
            filter,
            filled,
            *theta,
            *(fill if fill is not None else (0.0, 0.0, 0.0)),
        )

    def _plain(self, kind: int) -> None:
        """Adds an operation without arguments."""
        _KIND.pack_into(self._operations, self._next(), kind, 0)

    def _next(self) -> int:
        count = self._count
        if count == MAX_OPERATIONS:
            raise ValueError(f"a job has at most {MAX_OPERATIONS} operations")
        self._count = self.raw.operation_count = count + 1
        return count * _SIZE
