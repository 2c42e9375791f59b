"""Jobs that say what is to be done: source, box, operations, sink.

Made for calls of a few microseconds: a job's struct is made once and filled again and again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from fastpipe.core.addresses import address_of, address_of_bytes
from fastpipe.core.operations import EncodedOps, JobOperations
from fastpipe.core.pillow import PillowMemory
from fastpipe.core.structs import Arithmetic, DType, RawJob, RawPixels

if TYPE_CHECKING:
    import numpy as np
    import torch

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

# By numpy's characters, which cost less to ask for than a dtype's name; of the machine's own byte order.
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


def _arithmetic(mean: Sequence[float] | None, std: Sequence[float] | None, multiplied: bool) -> tuple[float, ...]:
    """fpc_sink's flags, mean and std."""
    if mean is None or std is None:
        return (_MULTIPLY, *_NO_MEAN) if multiplied else _NO_ARITHMETIC
    return (_NORMALIZE | (_MULTIPLY if multiplied else 0), *mean, *std)


class PreparedJob(NamedTuple):
    """A job from pixels to pixels, packed but for the two addresses; see `Job.prepared`.

    Attributes:
        content: the fpc_job.
        pixels: its source, an fpc_pixels.
        operations: what it points to.
        address: of the fpc_job.
    """

    content: bytes
    pixels: bytes
    operations: EncodedOps
    address: int


class Job(JobOperations):
    """An fpc_job: source, box, operations, sink. Filled anew for each image; nothing is checked before `run`.

    What is given to ``read*`` and ``write*`` must live until the job has run: the job keeps bytes and arrays alive,
    and tensors and bare addresses are the caller's business.
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
        self._sink: tuple[object, ...] = ()  # as of `write_to`; empty where it may be another

    # -- the source

    def read(
        self, data: bytes, box: tuple[int, int, int, int] = (0, 0, 0, 0), limits: tuple[int, int] = (0, 0)
    ) -> None:
        """Sets the source: an image file in memory; ``box`` and ``limits`` as `box` and `limit` take them."""
        raw = self.raw
        raw.path = None
        raw.pixels = None
        raw.data.bytes = data
        _EXTENT.pack_into(raw, _EXTENT_AT, 0, len(data), *box, 0, 0, *limits)
        self._keep = data

    def read_place(
        self, place: tuple[int, ...], box: tuple[int, int, int, int] = (0, 0, 0, 0), limits: tuple[int, int] = (0, 0)
    ) -> None:
        """Sets the source: a file's place, as `Files.outcomes` gives it, which the caller keeps.

        Args:
            place: address and length of its bytes; or the address of its path, and offset and length in that file.
            box: as `box` takes it.
            limits: as `limit` takes them.
        """
        path, data = (0, place[0]) if len(place) == 2 else (place[0], 0)
        _SOURCE.pack_into(self.raw, 0, path, data, 0, 0 if data else place[1], place[-1], *box, 0, 0, *limits)

    def read_pixels(self, array: np.ndarray[Any, Any]) -> None:
        """Sets the source: uint8 pixels ``(H, W, C)`` or ``(H, W)`` with any strides; all of them, without limits."""
        if array.dtype.char != "B" or array.ndim not in (2, 3):
            raise TypeError(f"pixels are uint8 arrays (H, W, C) or (H, W), not {array.dtype} {array.shape}")
        shape, strides = (array.shape, array.strides) if array.ndim == 3 else ((*array.shape, 1), (*array.strides, 1))
        _PIXELS.pack_into(self._pixels, 0, address_of(array), *strides, *shape)
        _SOURCE.pack_into(self.raw, 0, 0, 0, self._pixels_at, *_NO_EXTENT)
        self._keep = array

    def read_planes(self, address: int, shape: tuple[int, int, int]) -> None:
        """Sets the source: uint8 planes without gaps, which the caller keeps; ``(height, width, channels)``."""
        self.read_memory(address, (shape[1], 1, shape[0] * shape[1]), shape)

    def read_memory(self, address: int, strides: tuple[int, int, int], shape: tuple[int, int, int]) -> None:
        """Sets the source: uint8 pixels that the caller keeps; all of them, without limits.

        Args:
            address: of the element (0, 0, 0).
            strides: bytes from row to row, column to column, and channel to channel.
            shape: height, width and channels.
        """
        _PIXELS.pack_into(self._pixels, 0, address, *strides, *shape)
        _SOURCE.pack_into(self.raw, 0, 0, 0, self._pixels_at, *_NO_EXTENT)

    def read_image(self, memory: PillowMemory) -> None:
        """Sets the source: the pixels of a Pillow image, all of them, without limits.

        RGB comes with its fourth byte, which reaches the result only through `write_image`; all other sinks, and
        operations, see three channels.
        """
        size = memory.pixel_bytes
        _PIXELS.pack_into(
            self._pixels, 0, memory.address, memory.row_stride, size, 1, memory.height, memory.width, size
        )
        _SOURCE.pack_into(self.raw, 0, 0, 0, self._pixels_at, *_NO_EXTENT)
        self._keep = memory

    def read_image_part(self, height: int, width: int, row_stride: int, pixel_bytes: int) -> None:
        """Sets the source: a part of a Pillow image that is named when the job is run; fields as of `PillowMemory`."""
        _PIXELS.pack_into(self._pixels, 0, 0, row_stride, pixel_bytes, 1, height, width, pixel_bytes)
        _SOURCE.pack_into(self.raw, 0, 0, 0, self._pixels_at, *_NO_EXTENT)

    def let_go(self) -> None:
        """Lets go of the source, which an idle job needn't keep alive; the next run needs another."""
        self._keep = None

    def box(self, top: int = 0, left: int = 0, height: int = 0, width: int = 0) -> None:
        """Sets the part of the file to decode; without arguments all of it."""
        _BOX.pack_into(self.raw, _BOX_AT, top, left, height, width)

    def limit(self, max_pixels: int = 0, max_bytes: int = 0) -> None:
        """Sets the most pixels and the most bytes of scratch memory; images beyond are refused. 0 for no limit."""
        _LIMITS.pack_into(self.raw, _LIMITS_AT, max_pixels, max_bytes)

    # -- all of it

    def prepared(self) -> PreparedJob:
        """Packs the job, which reads pixels, to be filled again with others of the same layout, and another sink."""
        operations = self.packed((0, 0))
        kept, self.raw.operations = self.raw.operations, address_of_bytes(operations.content)
        content, pixels = bytearray(self._content), bytes(self._pixels_content)
        self.raw.operations = kept
        _ADDRESS.pack_into(content, _PIXELS_POINTER_AT, address_of_bytes(pixels))
        job = bytes(content)
        return PreparedJob(job, pixels, operations, address_of_bytes(job))

    def fill(self, prepared: PreparedJob, source: int, sink: int, keep: object) -> None:
        """Makes this the prepared job, until it is cleared.

        Args:
            prepared: lives until the job has run.
            source, sink: addresses of the first pixel that is read, and of the first element that is written.
            keep: lives as long as the source has to.
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
    ) -> None:
        """Sets the sink: memory by its address.

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

    def write_to(self, address: int, sink: tuple[object, ...]) -> None:
        """Sets the sink: an address, and the rest as `BatchSink.sink` gives it."""
        if sink is self._sink:  # as for most images of a batch
            _ADDRESS.pack_into(self.raw, _SINK_AT, address)
        else:
            self._sink = ()  # until all is written: a signal handler may raise in between
            _SINK.pack_into(self.raw, _SINK_AT, address, *sink)
            self._sink = sink

    def write_array(
        self,
        array: np.ndarray[Any, Any],
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        """Sets the sink: an array ``(H, W, C)`` or ``(H, W)``, of uint8, float16 or float32, with any strides."""
        dtype = _ARRAY_TYPES.get(array.dtype.char)
        if dtype is None or not array.dtype.isnative or not array.flags.writeable or array.ndim not in (2, 3):
            raise TypeError(
                "pixels go to writeable arrays (H, W, C) or (H, W) of uint8, float16 or float32, "
                f"not {array.dtype} {array.shape}"
            )
        shape, strides = (array.shape, array.strides) if array.ndim == 3 else ((*array.shape, 1), (*array.strides, 1))
        self.write_to(address_of(array), (*strides, *shape, dtype, *_arithmetic(mean, std, False)))

    def write_by_factor(self, array: np.ndarray[Any, Any], mean: Sequence[float], factor: Sequence[float]) -> None:
        """Sets the sink: an array ``(H, W, 3)`` of float32, of the bytes minus the mean, times the factor."""
        sink = (*array.strides, *array.shape, DType.FLOAT32, _BY_FACTOR, *mean, *factor)
        self.write_to(address_of(array), sink)

    def write_image(self, memory: PillowMemory) -> None:
        """Sets the sink: the pixels of a new Pillow image, which the caller keeps; `new_image` has both.

        The fourth byte of RGB becomes what Pillow's own functions would leave there: the core works it out of the
        operations (``src/rgbx_pad.c``). An array or a file as the source counts as an image of 255s, as ``fromarray``
        and decoders make it.
        """
        size = memory.pixel_bytes
        self.write(memory.address, (memory.height, memory.width, size), (memory.row_stride, size, 1), DType.UINT8)

    def write_new_image(self, height: int, width: int, pixel_bytes: int) -> None:
        """Sets the sink: the pixels of the image that `run_to_new_image` makes; as `write_image`."""
        self.write_pixels(0, height, width, pixel_bytes)

    def write_pixels(self, address: int, height: int, width: int, channels: int) -> None:
        """Sets the sink: uint8 memory ``(H, W, C)`` without gaps."""
        row = width * channels
        _SINK.pack_into(self.raw, _SINK_AT, address, row, channels, 1, height, width, channels, _UINT8, *_NO_ARITHMETIC)

    def write_planes(self, address: int, shape: tuple[int, int, int]) -> None:
        """Sets the sink: uint8 planes without gaps; ``(height, width, channels)``."""
        self.write(address, shape, (shape[1], 1, shape[0] * shape[1]), DType.UINT8)

    def write_tensor(
        self,
        tensor: torch.Tensor,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        multiplied: bool = False,
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
        self.write(tensor.data_ptr(), (height, width, channels), strides, dtype, mean, std, multiplied)


class BatchSink:
    """Sinks in a batch's tensor: one for each image.

    Args:
        images: a tensor ``(N, C, H, W)`` in main memory, of a dtype that `Job.write_tensor` takes, with any strides.

    Attributes:
        first: the address of the first image.
        step: bytes from one to the next.
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

    def write(self, job: Job, number: int, arithmetic: tuple[Any, ...]) -> None:
        """Sets a job's sink: the place of an image; `arithmetic` as `sink` takes it."""
        known, sink = self._last
        if arithmetic is not known:  # as it is for most images of a batch
            sink = self.sink(*arithmetic)
            self._last = arithmetic, sink
        job.write_to(self.first + number * self.step, sink)

    def sink(
        self, mean: Sequence[float] | None, std: Sequence[float] | None, multiplied: bool = False
    ) -> tuple[object, ...]:
        """The sink but for its address, as `Job.write_to` takes it; arguments as `Job.write`'s."""
        return (*self._rest, *_arithmetic(mean, std, multiplied))
