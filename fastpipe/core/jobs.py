"""Jobs that say what is to be done: source, box, operations, sink.

Made for calls of a few microseconds: a job's struct is made once and filled again and again, an operation with one
``struct.pack_into``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from fastpipe.core.addresses import address_of
from fastpipe.core.library import (
    DType,
    Filter,
    Kind,
    Padding,
    RawJob,
    RawOperation,
    RawPixels,
)

if TYPE_CHECKING:
    import numpy as np
    import torch

MAX_OPERATIONS = 16

_OPERATION = Struct("@14i8dP")
_OPERATION_SIZE = _OPERATION.size
_NO_NUMBERS = (0.0,) * 8
_INTEGERS = tuple(Struct(f"@{1 + count}i") for count in range(14))  # kind, and the numbers that it has
_KIND = _INTEGERS[0]
_SOURCE = Struct("@3P2q6i2q")
_EXTENT = Struct("@2q6i2q")
_HFLIP, _RESIZE = int(Kind.HFLIP), int(Kind.RESIZE)
_BOX = Struct("@4i")
_SINK = Struct("@P3q5i6f")
_JOB = Struct("@3P2q6i2qP4iP3q5i6f")
_WORK = Struct("@P4iP3q5i6f")
_WORK_AT: int = RawJob.operations.offset
_PIXELS = Struct("@P3q3i")
_LIMITS = Struct("@2q")
_LIMITS_AT: int = RawJob.max_pixels.offset
_BOX_AT: int = RawJob.top.offset
_EXTENT_AT: int = RawJob.offset.offset
_SINK_AT: int = RawJob.sink.offset
_NO_EXTENT = (0,) * 10
_NO_MEAN = (0.0,) * 6
_NO_ARITHMETIC = (0, *_NO_MEAN)
_NORMALIZE, _MULTIPLY = 1, 2  # fpc_sink's normalize

# By numpy's characters, which cost less to ask for than a dtype's name; of the machine's own byte order.
_ARRAY_TYPES = {"B": DType.UINT8, "f": DType.FLOAT32, "e": DType.FLOAT16}
_TENSOR_TYPES = {
    "torch.uint8": DType.UINT8,
    "torch.float32": DType.FLOAT32,
    "torch.float16": DType.FLOAT16,
    "torch.bfloat16": DType.BFLOAT16,
}

_known_types: dict[Any, DType] = {}


def _type_of(dtype: Any) -> DType | None:
    """The sink's name for a torch dtype; by its name, so that torch needn't be imported."""
    found = _TENSOR_TYPES.get(str(dtype))
    if found is not None:
        _known_types[dtype] = found
    return found


def _arithmetic(mean: Sequence[float] | None, std: Sequence[float] | None, multiplied: bool) -> tuple[float, ...]:
    """fpc_sink's normalize, mean and std."""
    if mean is None or std is None:
        return (_MULTIPLY, *_NO_MEAN) if multiplied else _NO_ARITHMETIC
    return (_NORMALIZE | (_MULTIPLY if multiplied else 0), *mean, *std)


class Packed(NamedTuple):
    """Operations as the core has them, of a job, to be added to others.

    Attributes:
        content: an fpc_operation each.
        number: how many they are.
        tables: what they point to.
        address: of the content.
    """

    content: bytes
    number: int
    tables: tuple[bytes, ...]
    address: int = 0


class Job:
    """One fpc_job: source, box, operations, sink. Filled anew for each image; nothing is checked before `run`.

    What is given to ``read*`` and ``write*`` must live until the job has run: the job keeps bytes and arrays alive,
    and tensors and bare addresses are the caller's business.
    """

    __slots__ = (
        "_bytes",
        "_count",
        "_keep",
        "_operations",
        "_own",
        "_pixels",
        "_pixels_at",
        "_tables",
        "address",
        "raw",
    )

    def __init__(self, raw: RawJob | None = None) -> None:
        self.raw = RawJob() if raw is None else raw
        """The struct itself, for what has no method here."""
        self.address = ctypes.addressof(self.raw)
        self._operations = (RawOperation * MAX_OPERATIONS)()
        self._bytes = memoryview(self._operations).cast("B")
        self._pixels = RawPixels()
        self._pixels_at = ctypes.addressof(self._pixels)
        self._count = 0
        self._keep: Any = None
        self._tables: list[bytes] = []
        self._own = self.raw.operations = ctypes.addressof(self._operations)

    # -- the source

    def read(
        self, data: bytes, box: tuple[int, int, int, int] = (0, 0, 0, 0), limits: tuple[int, int] = (0, 0)
    ) -> None:
        """A JPEG or PNG in memory; ``box`` and ``limits`` as `box` and `limit` take them."""
        raw = self.raw
        raw.path = None
        raw.pixels = None
        raw.data.bytes = data
        _EXTENT.pack_into(raw, _EXTENT_AT, 0, len(data), *box, 0, 0, *limits)
        self._keep = data

    def read_address(
        self,
        address: int,
        length: int,
        box: tuple[int, int, int, int] = (0, 0, 0, 0),
        limits: tuple[int, int] = (0, 0),
    ) -> None:
        """A JPEG or PNG in memory that somebody else keeps; see `Files.place`.

        Args:
            address, length: where it is.
            box: as `box` takes it.
            limits: as `limit` takes them.
        """
        _SOURCE.pack_into(self.raw, 0, 0, address, 0, 0, length, *box, 0, 0, *limits)

    def read_pixels(self, array: np.ndarray[Any, Any]) -> None:
        """Pixels: uint8 of ``(H, W, C)`` or ``(H, W)`` with any strides, in place of a file: all, without limits."""
        if array.dtype.char != "B" or array.ndim not in (2, 3):
            raise TypeError(f"pixels are uint8 arrays (H, W, C) or (H, W), not {array.dtype} {array.shape}")
        shape, strides = (array.shape, array.strides) if array.ndim == 3 else ((*array.shape, 1), (*array.strides, 1))
        _PIXELS.pack_into(self._pixels, 0, address_of(array), *strides, *shape)
        _SOURCE.pack_into(self.raw, 0, 0, 0, self._pixels_at, *_NO_EXTENT)
        self._keep = array

    def whole(
        self,
        place: tuple[int, int],
        box: tuple[int, int, int, int],
        limits: tuple[int, int],
        packed: Packed,
        address: int,
        sink: tuple[Any, ...],
    ) -> None:
        """All of a job at one go; `clear` before it is filled in another way.

        Args:
            place: address and length of a JPEG or PNG in memory that somebody else keeps; see `Files.place`.
            box: as `box` takes it.
            limits: as `limit` takes them.
            packed: the operations, which the caller keeps.
            address: where the pixels go.
            sink: the rest of it; see `Places.sink`.
        """
        start, length = place
        _JOB.pack_into(
            self.raw,
            0,
            0,
            start,
            0,
            0,
            length,
            *box,
            0,
            0,
            *limits,
            packed.address,
            packed.number,
            0,
            0,
            0,
            address,
            *sink,
        )

    def work(self, packed: Packed, address: int, sink: tuple[Any, ...]) -> None:
        """The operations and the sink at one go, behind `read`; arguments and what follows as `whole`'s."""
        _WORK.pack_into(self.raw, _WORK_AT, packed.address, packed.number, 0, 0, 0, address, *sink)

    def box(self, top: int = 0, left: int = 0, height: int = 0, width: int = 0) -> None:
        """The part of the file that is decoded; without arguments all of it."""
        _BOX.pack_into(self.raw, _BOX_AT, top, left, height, width)

    def limit(self, max_pixels: int = 0, max_bytes: int = 0) -> None:
        """Refuse an image of more pixels, or one that takes more scratch memory; 0 for no limit."""
        _LIMITS.pack_into(self.raw, _LIMITS_AT, max_pixels, max_bytes)

    # -- the operations

    @property
    def room(self) -> int:
        """How many operations may follow."""
        return MAX_OPERATIONS - self._count

    def clear(self) -> None:
        """No operations."""
        self._count = 0
        self._tables.clear()
        self.raw.operations = self._own
        self.raw.operation_count = 0

    def mark(self) -> tuple[int, int]:
        """Where the next operation will stand; see `packed`."""
        return self._count, len(self._tables)

    def packed(self, mark: tuple[int, int]) -> Packed:
        """The operations that were added since the mark, for other jobs."""
        count, tables = mark
        content = bytes(self._bytes[count * _OPERATION_SIZE : self._count * _OPERATION_SIZE])
        address = ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value or 0
        return Packed(content, self._count - count, tuple(self._tables[tables:]), address)

    def add(self, packed: Packed) -> bool:
        """Adds operations that another job had; False where there is no room for them."""
        content, number, tables, _ = packed
        before = self._count
        if before + number > MAX_OPERATIONS:
            return False
        start = before * _OPERATION_SIZE
        self._bytes[start : start + len(content)] = content
        self._count = self.raw.operation_count = before + number
        if tables:
            self._tables += tables
        return True

    def crop(self, top: int, left: int, height: int, width: int) -> None:
        """Of what the operations before gave."""
        self._plain(Kind.CROP, top, left, height, width)

    def resize(
        self,
        whole: tuple[int, int] | None,
        origin: tuple[int, int],
        out: tuple[int, int],
        window: tuple[int, int, int, int],
        filter: int = Filter.BILINEAR,
        vertical_first: int = 0,
        box: tuple[float, float, float, float] | None = None,
    ) -> None:
        """Pillow's resize of a whole image, of which only parts are there and wanted.

        Args:
            whole: ``(height, width)`` of the whole input; None where all of it is there, whatever it is.
            origin: ``(top, left)`` in it of the pixels that are there.
            out: ``(height, width)`` of the whole output.
            window: ``(top, left, height, width)`` of the part of the output that is wanted.
            filter: a `Filter`.
            vertical_first: 1 for the vertical pass before the horizontal one; 2 for that where more rows go away than
                twice the columns that do, as Pillow has it from version 13 on.
            box: ``(x0, y0, x1, y1)``, the source box in the whole input, as Pillow's ``resize(box=)``.
        """
        height, width = whole or (0, 0)
        x0, y0, x1, y1 = (0.0, 0.0, width, height) if box is None else box
        _OPERATION.pack_into(
            self._operations,
            self._next(),
            _RESIZE,
            height,
            width,
            *origin,
            *out,
            *window,
            filter,
            vertical_first,
            0,
            x0,
            y0,
            x1,
            y1,
            *_NO_NUMBERS[4:],
            0,
        )

    def flip(self) -> None:
        """Left becomes right."""
        _KIND.pack_into(self._operations, self._next(), _HFLIP)

    def flip_vertically(self) -> None:
        """Top becomes bottom."""
        self._plain(Kind.VFLIP)

    def transpose(self) -> None:
        """Rows become columns."""
        self._plain(Kind.TRANSPOSE)

    def pad(
        self,
        left: int,
        top: int,
        right: int,
        bottom: int,
        mode: int = Padding.CONSTANT,
        fill: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        """Pixels around, as torchvision's ``pad`` on PIL images."""
        self._plain(Kind.PAD, left, top, right, bottom, mode, *fill)

    def look_up(self, table: bytes) -> None:
        """256 bytes for each channel, one table after the other."""
        self._tables.append(table)
        self._pack(Kind.LUT, table=ctypes.cast(ctypes.c_char_p(table), ctypes.c_void_p).value)

    def gray(self, channels: int) -> None:
        """Pillow's ``convert("L")``, in 1 or 3 channels."""
        self._plain(Kind.GRAY, channels)

    def blend(self, kind: int, factor: float) -> None:
        """Pillow's ``ImageEnhance``: SATURATION, CONTRAST or SHARPNESS by a factor that float32 has."""
        self._pack(kind, numbers=(factor,))

    def turn_hue(self, shift: int) -> None:
        """Pillow's HSV, its hue plus 0 to 255 modulo 256, and back."""
        self._plain(Kind.HUE, shift)

    def autocontrast(self) -> None:
        """Pillow's ``ImageOps.autocontrast``."""
        self._plain(Kind.AUTOCONTRAST)

    def equalize(self) -> None:
        """Pillow's ``ImageOps.equalize``."""
        self._plain(Kind.EQUALIZE)

    def warp(
        self,
        kind: int,
        size: tuple[int, int],
        coefficients: Sequence[float],
        filter: int = Filter.NEAREST,
        fill: Sequence[int] = (0, 0, 0),
    ) -> None:
        """Pillow's ``transform``.

        Args:
            kind: AFFINE or PERSPECTIVE.
            size: ``(height, width)`` of the result.
            coefficients: six or eight finite numbers, as Pillow has them.
            filter: NEAREST, BILINEAR or BICUBIC.
            fill: what the channels are outside of the image, 0 to 255.
        """
        self._pack(kind, (*size, filter, *fill), coefficients)

    def _plain(self, kind: int, *integers: int) -> None:
        _INTEGERS[len(integers)].pack_into(self._operations, self._next(), kind, *integers)

    def _pack(
        self, kind: int, integers: Sequence[int] = (), numbers: Sequence[float] = (), table: int | None = None
    ) -> None:
        rest = (0,) * (13 - len(integers)), _NO_NUMBERS[len(numbers) :]
        _OPERATION.pack_into(self._operations, self._next(), kind, *integers, *rest[0], *numbers, *rest[1], table or 0)

    def _next(self) -> int:
        count = self._count
        if count == MAX_OPERATIONS:
            raise ValueError(f"a job has at most {MAX_OPERATIONS} operations")
        self._count = self.raw.operation_count = count + 1
        return count * _OPERATION_SIZE

    # -- the sink

    def write(
        self,
        address: int,
        shape: tuple[int, int, int],
        strides: tuple[int, int, int],
        dtype: int,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        multiplied: bool = False,
    ) -> None:
        """Memory by its address.

        Args:
            address: of the element (0, 0, 0).
            shape: height, width and channels.
            strides: bytes from row to row, column to column, and channel to channel.
            dtype: a `DType`.
            mean: three numbers, with ``std``: normalised as `Normalize` does. Floating types alone.
            std: three numbers.
            multiplied: pixels times 1 / 255, as v2's ``ToDtype`` does, and not divided by 255. Floating types alone.
        """
        self.write_to(address, (*strides, *shape, dtype, *_arithmetic(mean, std, multiplied)))

    def write_to(self, address: int, sink: tuple[Any, ...]) -> None:
        """The same, from what `Places.sink` has put together."""
        _SINK.pack_into(self.raw, _SINK_AT, address, *sink)

    def write_array(
        self,
        array: np.ndarray[Any, Any],
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        """An array ``(H, W, C)`` or ``(H, W)``, of uint8, float16 or float32, with any strides."""
        dtype = _ARRAY_TYPES.get(array.dtype.char)
        if dtype is None or not array.dtype.isnative or not array.flags.writeable or array.ndim not in (2, 3):
            raise TypeError(
                "pixels go to writeable arrays (H, W, C) or (H, W) of uint8, float16 or float32, "
                f"not {array.dtype} {array.shape}"
            )
        shape, strides = (array.shape, array.strides) if array.ndim == 3 else ((*array.shape, 1), (*array.strides, 1))
        self.write_to(address_of(array), (*strides, *shape, dtype, *_arithmetic(mean, std, False)))

    def write_planes(
        self,
        address: int,
        shape: tuple[int, int, int],
        dtype: int,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        multiplied: bool = False,
    ) -> None:
        """Memory ``(C, H, W)`` without gaps, of uint8 or float32; arguments as `write`'s."""
        _, width, _ = shape
        size = 1 if dtype == DType.UINT8 else 4
        self.write(address, shape, (width * size, size, shape[0] * width * size), dtype, mean, std, multiplied)

    def write_tensor(
        self,
        tensor: torch.Tensor,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        multiplied: bool = False,
    ) -> None:
        """A tensor ``(C, H, W)`` in main memory, of uint8, float32, float16 or bfloat16, with any strides."""
        dtype = _known_types.get(tensor.dtype) or _type_of(tensor.dtype)
        if dtype is None or tensor.dim() != 3 or tensor.device.type != "cpu":
            raise TypeError(
                "pixels go to CPU tensors (C, H, W) of uint8, float32, float16 or bfloat16, "
                f"not {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
            )
        channels, height, width = tensor.shape
        size = tensor.element_size()
        channel, row, column = tensor.stride()
        strides = row * size, column * size, channel * size
        self.write(tensor.data_ptr(), (height, width, channels), strides, dtype, mean, std, multiplied)


class Places:
    """The places of a batch of images, each of which a job writes to.

    Args:
        images: a tensor ``(N, C, H, W)`` in main memory, of a dtype that `Job.write_tensor` takes, with any strides.

    Attributes:
        first: the address of the first image.
        step: bytes from one to the next.
    """

    __slots__ = ("_rest", "first", "step")

    def __init__(self, images: torch.Tensor) -> None:
        _, channels, height, width = images.shape
        size = images.element_size()
        number, channel, row, column = images.stride()
        self.first, self.step = images.data_ptr(), number * size
        dtype = _TENSOR_TYPES[str(images.dtype)]
        self._rest = row * size, column * size, channel * size, height, width, channels, dtype

    def sink(
        self, mean: Sequence[float] | None, std: Sequence[float] | None, multiplied: bool = False
    ) -> tuple[Any, ...]:
        """What a job has to know beside the address, as `Job.write_to` takes it; arguments as `Job.write`'s."""
        return (*self._rest, *_arithmetic(mean, std, multiplied))
