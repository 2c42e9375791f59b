"""Jobs: a source, a box, operations and a sink, as a C struct.

Made for calls of a few microseconds: a job's struct is allocated once and filled again and again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fastpipe.core.addresses import address_of, address_of_bytes
from fastpipe.core.operations import EncodedOps, JobOperations
from fastpipe.core.pillow import PillowMemory
from fastpipe.core.structs import Arithmetic, DType, RawJob, RawPixels

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

_SOURCE = Struct("@3P2q6i2q")
_EXTENT = Struct("@2q6i2q")
_BOX = Struct("@4i")
_SINK = Struct("@P3q5i6f")
_PIXELS = Struct("@P3q3i")
_LIMITS = Struct("@2q")
_LIMITS_AT: int = RawJob.max_pixels.offset
_BOX_AT: int = RawJob.box.offset
_EXTENT_AT: int = RawJob.offset.offset
_SINK_AT: int = RawJob.sink.offset
_PIXELS_POINTER_AT: int = RawJob.pixels.offset
_ADDRESS = Struct("@P")
_NO_EXTENT = (0,) * 10
_NO_MEAN = (0.0,) * 6
_NO_ARITHMETIC = (0, *_NO_MEAN)
_NORMALIZE, _MULTIPLY = int(Arithmetic.NORMALIZE), int(Arithmetic.MULTIPLY)
_UINT8 = int(DType.UINT8)
_BY_FACTOR = int(Arithmetic.NORMALIZE | Arithmetic.BY_FACTOR)

SinkArithmetic: TypeAlias = (
    "tuple[Sequence[float] | None, Sequence[float] | None, bool] | tuple[Sequence[float], Sequence[float], bool, bool]"
)
"""The arguments ``mean``, ``std``, ``multiplied`` and, if it isn't False, ``by_factor`` of `Job.write`."""

# Keys are numpy's type characters, which are faster to get than a dtype's name; in the machine's byte order.
_ARRAY_TYPES = {"B": DType.UINT8, "f": DType.FLOAT32, "e": DType.FLOAT16}
_TENSOR_TYPES = {
    "torch.uint8": DType.UINT8,
    "torch.float32": DType.FLOAT32,
    "torch.float16": DType.FLOAT16,
    "torch.bfloat16": DType.BFLOAT16,
}


@lru_cache
def _type_of(dtype: object) -> DType | None:
    """The `DType` for a torch dtype, found by its name, so that torch needn't be imported."""
    return _TENSOR_TYPES.get(str(dtype))


def _arithmetic(
    mean: Sequence[float] | None, std: Sequence[float] | None, multiplied: bool, by_factor: bool = False
) -> tuple[float, ...]:
    """The fields flags, mean and std of an fpc_sink."""
    if mean is None or std is None:
        return (_MULTIPLY, *_NO_MEAN) if multiplied else _NO_ARITHMETIC
    if by_factor:
        return (_BY_FACTOR, *mean, *std)
    return (_NORMALIZE | (_MULTIPLY if multiplied else 0), *mean, *std)


class PreparedJob(NamedTuple):
    """A job from pixels to pixels, packed without the addresses of source and sink; see `Job.prepared`.

    Attributes:
        content: the fpc_job.
        pixels: its source, an fpc_pixels.
        operations: its operations.
        address: the address of `content`.
    """

    content: bytes
    pixels: bytes
    operations: EncodedOps
    address: int


class Job(JobOperations):
    """An fpc_job: source, box, operations, sink. It is filled again for each image; nothing is checked before `run`.

    Sources and sinks must live until the job has run. The job itself keeps bytes and arrays alive; the caller has to
    keep tensors and memory given by address.
    """

    __slots__ = ("_content", "_keep", "_pixels", "_pixels_at", "_pixels_content", "_sink", "address")

    def __init__(self, raw: RawJob | None = None) -> None:
        super().__init__(RawJob() if raw is None else raw)
        self.address = ctypes.addressof(self.raw)
        self._pixels = RawPixels()
        self._pixels_at = ctypes.addressof(self._pixels)
        self._content = memoryview(self.raw).cast("B")
        self._pixels_content = memoryview(self._pixels).cast("B")
        self._keep: object = None
        self._sink: tuple[object, ...] = ()  # the last argument of `write_to`; empty if the struct may differ from it

    # -- the source

    def read(
        self, data: bytes, box: tuple[int, int, int, int] = (0, 0, 0, 0), limits: tuple[int, int] = (0, 0)
    ) -> None:
        """Sets the source: an image file's bytes; see `box` and `limit` for the other arguments."""
        raw = self.raw
        raw.path = None
        raw.pixels = None
        raw.data.bytes = data
        _EXTENT.pack_into(raw, _EXTENT_AT, 0, len(data), *box, 0, 0, *limits)
        self._keep = data

    def read_place(
        self, place: tuple[int, ...], box: tuple[int, int, int, int] = (0, 0, 0, 0), limits: tuple[int, int] = (0, 0)
    ) -> None:
        """Sets the source: a file's position from `Files.outcomes`, whose memory the caller keeps.

        Args:
            place: address and length of its bytes; or the address of its path, and offset and length in that file.
            box: see `box`.
            limits: see `limit`.
        """
        path, data = (0, place[0]) if len(place) == 2 else (place[0], 0)
        _SOURCE.pack_into(self.raw, 0, path, data, 0, 0 if data else place[1], place[-1], *box, 0, 0, *limits)

    def read_pixels(self, array: NDArray[np.generic]) -> None:
        """Sets the source: a uint8 array ``(H, W, C)`` or ``(H, W)`` with any strides, whole and without limits."""
        if array.dtype.char != "B" or array.ndim not in (2, 3):
            raise TypeError(f"pixels are uint8 arrays (H, W, C) or (H, W), not {array.dtype} {array.shape}")
        shape, strides = (array.shape, array.strides) if array.ndim == 3 else ((*array.shape, 1), (*array.strides, 1))
        _PIXELS.pack_into(self._pixels, 0, address_of(array), *strides, *shape)
        _SOURCE.pack_into(self.raw, 0, 0, 0, self._pixels_at, *_NO_EXTENT)
        self._keep = array

    def read_planes(self, address: int, shape: tuple[int, int, int]) -> None:
        """Sets the source: contiguous uint8 planes that the caller keeps; shape: height, width, channels."""
        self.read_memory(address, (shape[1], 1, shape[0] * shape[1]), shape)

    def read_memory(self, address: int, strides: tuple[int, int, int], shape: tuple[int, int, int]) -> None:
        """Sets the source: uint8 pixels that the caller keeps, read whole and without limits.

        Args:
            address: the address of the element (0, 0, 0).
            strides: bytes from row to row, column to column, and channel to channel.
            shape: height, width and channels.
        """
        _PIXELS.pack_into(self._pixels, 0, address, *strides, *shape)
        _SOURCE.pack_into(self.raw, 0, 0, 0, self._pixels_at, *_NO_EXTENT)

    def read_image(self, memory: PillowMemory) -> None:
        """Sets the source: the pixels of a Pillow image, read whole and without limits.

        RGB has a fourth byte per pixel, which only `write_image` copies to the result. Operations and all other sinks
        see three channels.
        """
        size = memory.pixel_bytes
        _PIXELS.pack_into(
            self._pixels, 0, memory.address, memory.row_stride, size, 1, memory.height, memory.width, size
        )
        _SOURCE.pack_into(self.raw, 0, 0, 0, self._pixels_at, *_NO_EXTENT)
        self._keep = memory

    def read_image_part(self, height: int, width: int, row_stride: int, pixel_bytes: int) -> None:
        """Sets the source: a part of a Pillow image that is given at the run; see `PillowMemory` for the arguments."""
        _PIXELS.pack_into(self._pixels, 0, 0, row_stride, pixel_bytes, 1, height, width, pixel_bytes)
        _SOURCE.pack_into(self.raw, 0, 0, 0, self._pixels_at, *_NO_EXTENT)

    def let_go(self) -> None:
        """Drops the reference to the source, so that an idle job doesn't keep it alive."""
        self._keep = None

    def box(self, top: int = 0, left: int = 0, height: int = 0, width: int = 0) -> None:
        """Sets the part of the file to decode; without arguments the whole image."""
        _BOX.pack_into(self.raw, _BOX_AT, top, left, height, width)

    def limit(self, max_pixels: int = 0, max_bytes: int = 0) -> None:
        """Sets the most pixels and the most bytes of scratch memory: larger images are refused. 0 for no limit."""
        _LIMITS.pack_into(self.raw, _LIMITS_AT, max_pixels, max_bytes)

    # -- the whole job

    def prepared(self) -> PreparedJob:
        """Packs the job, which reads pixels, for `fill` with other pixels of the same layout and another sink."""
        operations = self.packed((0, 0))
        kept, self.raw.operations = self.raw.operations, address_of_bytes(operations.content)
        content, pixels = bytearray(self._content), bytes(self._pixels_content)
        self.raw.operations = kept
        _ADDRESS.pack_into(content, _PIXELS_POINTER_AT, address_of_bytes(pixels))
        job = bytes(content)
        return PreparedJob(job, pixels, operations, address_of_bytes(job))

    def fill(self, prepared: PreparedJob, source: int, sink: int, keep: object) -> None:
        """Makes this job a copy of the prepared one, until it is cleared.

        Args:
            prepared: the prepared job; it has to live until the job has run.
            source, sink: addresses of the first pixel to read, and of the first element to write.
            keep: an object that keeps the source's memory alive.
        """
        self._content[:] = prepared.content
        self._pixels_content[:] = prepared.pixels
        _ADDRESS.pack_into(self._pixels_content, 0, source)
        _ADDRESS.pack_into(self._content, _PIXELS_POINTER_AT, self._pixels_at)
        _ADDRESS.pack_into(self._content, _SINK_AT, sink)
        self._keep, self._sink = keep, ()

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
        by_factor: bool = False,
    ) -> None:
        """Sets the sink: memory at an address.

        Args:
            address: the address of the element (0, 0, 0).
            shape: height, width and channels.
            strides: bytes from row to row, column to column, and channel to channel.
            dtype: a `DType`.
            mean: three numbers to normalise with, as `Normalize` does; None for none. Floating types only.
            std: three numbers; given with ``mean``.
            multiplied: multiply pixels by 1 / 255, as v2's ``ToDtype`` does, instead of dividing by 255. Floating
                types only.
            by_factor: ``(pixels - mean) * std`` of bytes from 0 to 255, as albumentations' ``Normalize`` computes.
        """
        self.write_to(address, (*strides, *shape, dtype, *_arithmetic(mean, std, multiplied, by_factor)))

    def write_to(self, address: int, sink: tuple[object, ...]) -> None:
        """Sets the sink: an address, and the other fields as `BatchSink.sink` gives them."""
        if sink is self._sink:  # true for most images of a batch
            _ADDRESS.pack_into(self.raw, _SINK_AT, address)
        else:
            self._sink = ()  # until all fields are written: a signal handler may raise in between
            _SINK.pack_into(self.raw, _SINK_AT, address, *sink)
            self._sink = sink

    def write_array(self, array: NDArray[np.generic]) -> None:
        """Sets the sink: an array ``(H, W, C)`` or ``(H, W)``, of uint8, float16 or float32, with any strides."""
        dtype = _ARRAY_TYPES.get(array.dtype.char)
        if dtype is None or not array.dtype.isnative or not array.flags.writeable or array.ndim not in (2, 3):
            raise TypeError(
                "pixels go to writeable arrays (H, W, C) or (H, W) of uint8, float16 or float32, "
                f"not {array.dtype} {array.shape}"
            )
        shape, strides = (array.shape, array.strides) if array.ndim == 3 else ((*array.shape, 1), (*array.strides, 1))
        self.write_to(address_of(array), (*strides, *shape, dtype, *_NO_ARITHMETIC))

    def write_by_factor(self, array: NDArray[np.float32], mean: Sequence[float], factor: Sequence[float]) -> None:
        """Sets the sink: a float32 array ``(H, W, 3)`` that gets ``(pixels - mean) * factor``."""
        self.write_to(address_of(array), (*array.strides, *array.shape, DType.FLOAT32, _BY_FACTOR, *mean, *factor))

    def write_image(self, memory: PillowMemory) -> None:
        """Sets the sink: the pixels of a new Pillow image, which the caller keeps; see `new_image`.

        The fourth byte of RGB becomes what Pillow's own functions would leave there: the core derives it from the
        operations (``src/rgbx_pad.c``). A source that is an array or a file counts as an image with 255 in all fourth
        bytes, as ``fromarray`` and Pillow's decoders make it.
        """
        size = memory.pixel_bytes
        self.write(memory.address, (memory.height, memory.width, size), (memory.row_stride, size, 1), DType.UINT8)

    def write_new_image(self, height: int, width: int, pixel_bytes: int) -> None:
        """Sets the sink: the pixels of the image that `run_to_new_image` makes; see `write_image`."""
        self.write_pixels(0, height, width, pixel_bytes)

    def write_pixels(self, address: int, height: int, width: int, channels: int) -> None:
        """Sets the sink: contiguous uint8 memory ``(H, W, C)``."""
        row = width * channels
        _SINK.pack_into(self.raw, _SINK_AT, address, row, channels, 1, height, width, channels, _UINT8, *_NO_ARITHMETIC)

    def write_planes(self, address: int, shape: tuple[int, int, int]) -> None:
        """Sets the sink: contiguous uint8 planes; ``shape`` is ``(height, width, channels)``."""
        self.write(address, shape, (shape[1], 1, shape[0] * shape[1]), DType.UINT8)

    def write_tensor(
        self,
        tensor: torch.Tensor,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        multiplied: bool = False,
        by_factor: bool = False,
    ) -> None:
        """Sets the sink: a CPU tensor ``(C, H, W)`` of uint8, float32, float16 or bfloat16, with any strides."""
        dtype = _type_of(tensor.dtype)
        if dtype is None or tensor.dim() != 3 or tensor.device.type != "cpu":
            raise TypeError(
                "pixels go to CPU tensors (C, H, W) of uint8, float32, float16 or bfloat16, "
                f"not {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
            )
        channels, height, width = tensor.shape
        size = tensor.element_size()
        channel, row, column = tensor.stride()
        strides = row * size, column * size, channel * size
        self.write(tensor.data_ptr(), (height, width, channels), strides, dtype, mean, std, multiplied, by_factor)


class BatchSink:
    """The images of a batch's tensor as sinks of jobs.

    Args:
        images: a tensor ``(N, C, H, W)`` in main memory, of a dtype that `Job.write_tensor` takes, with any strides.

    Attributes:
        first: the address of the first image.
        step: bytes from one image to the next.
    """

    __slots__ = ("_last", "_rest", "first", "step")

    def __init__(self, images: torch.Tensor) -> None:
        _, channels, height, width = images.shape
        size = images.element_size()
        number, channel, row, column = images.stride()
        self.first, self.step = images.data_ptr(), number * size
        dtype = _TENSOR_TYPES[str(images.dtype)]
        self._rest = row * size, column * size, channel * size, height, width, channels, dtype
        self._last: tuple[object, tuple[object, ...]] = (None, ())

    def write(self, job: Job, number: int, arithmetic: SinkArithmetic) -> None:
        """Sets a job's sink to the image at position `number`; `arithmetic` holds the arguments of `sink`."""
        last, sink = self._last
        if arithmetic is not last:  # the same object for most images of a batch
            sink = self.sink(*arithmetic)
            self._last = arithmetic, sink
        job.write_to(self.first + number * self.step, sink)

    def sink(
        self,
        mean: Sequence[float] | None,
        std: Sequence[float] | None,
        multiplied: bool = False,
        by_factor: bool = False,
    ) -> tuple[object, ...]:
        """The sink without its address, as `Job.write_to` takes it; see `Job.write` for the arguments."""
        return (*self._rest, *_arithmetic(mean, std, multiplied, by_factor))
