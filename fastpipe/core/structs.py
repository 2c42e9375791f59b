"""The constants and structs of fastpipe_core.h; ``tests/core/layout.c`` checks that they match."""

from __future__ import annotations

import ctypes
from enum import IntEnum, IntFlag
from typing import TypeAlias, TypeVar

ABI = 25
"""The FPC_ABI that the structs below belong to."""


class Status(IntEnum):
    """fpc_status: how a job ended.

    From UNKNOWN_FORMAT to BAD_OPERATION the core refused the job, and another reader decides about the file. With
    UNSURE torch has to do the job. OTHER_BYTES occurs in packing only: the JPEG can't be restored byte by byte.
    """

    OK = 0
    UNKNOWN_FORMAT = 1
    UNUSUAL_HEADER = 2
    UNSUPPORTED_MODE = 3
    UNSUPPORTED_COLOR = 4
    BAD_TABLE = 5
    BAD_SCAN = 6
    BAD_CODE = 7
    TRUNCATED = 8
    BAD_MARKER = 9
    BAD_CHECKSUM = 10
    CONTRADICTION = 11
    TOO_LARGE = 12
    BAD_REGION = 13
    BAD_OPERATION = 14
    NO_MEMORY = 15
    IO_ERROR = 16
    UNSURE = 17
    OTHER_BYTES = 18


class Isa(IntEnum):
    """fpc_isa: instruction sets; BEST is the best one of this machine."""

    BEST = 0
    PORTABLE = 1
    AVX2 = 2
    NEON = 3
    AVX512 = 4


class Filter(IntEnum):
    """fpc_filter: Pillow's filters."""

    NEAREST = 0
    BOX = 1
    BILINEAR = 2
    HAMMING = 3
    BICUBIC = 4
    LANCZOS = 5


class Padding(IntEnum):
    """fpc_padding: torchvision's padding modes."""

    CONSTANT = 0
    EDGE = 1
    REFLECT = 2
    SYMMETRIC = 3


class Kind(IntEnum):
    """fpc_kind: operations."""

    CROP = 1
    RESIZE = 2
    HFLIP = 3
    VFLIP = 4
    TRANSPOSE = 5
    PAD = 6
    LUT = 7
    GRAY = 8
    SATURATION = 9
    CONTRAST = 10
    SHARPNESS = 11
    HUE = 12
    AUTOCONTRAST = 13
    EQUALIZE = 14
    AFFINE = 15
    PERSPECTIVE = 16
    BOX_BLUR = 17
    GAUSSIAN_BLUR = 18
    TENSOR_GRAY = 19
    TENSOR_SATURATION = 20
    TENSOR_CONTRAST = 21
    TENSOR_SHARPNESS = 22
    TENSOR_HUE = 23
    TENSOR_AUTOCONTRAST = 24
    TENSOR_SAMPLE = 25
    TORCH_BLUR = 26
    PERMUTE = 27
    FLOAT_RESIZE = 28
    CV_RESIZE = 29


class TensorRounding(IntFlag):
    """Flags of the TENSOR operations: how torchvision computes with uint8 tensors."""

    FUSED = 1
    V1 = 2


LOOK_UP_RGBX_PAD = -1
"""FPC_LOOK_UP_RGBX_PAD: the fourth byte is looked up in the first channel's table."""


class PassOrder(IntEnum):
    """fpc_pass_order: which pass of a resize comes first."""

    HORIZONTAL_FIRST = 0
    VERTICAL_FIRST = 1
    FEWER_ROWS_FIRST = 2
    TORCH_PASSES = 3


class DType(IntEnum):
    """fpc_dtype: the type of a sink's elements."""

    UINT8 = 1
    FLOAT32 = 2
    FLOAT16 = 3
    BFLOAT16 = 4


class Arithmetic(IntFlag):
    """Flags of fpc_sink: how bytes are converted to floats."""

    NORMALIZE = 1
    MULTIPLY = 2
    BY_FACTOR = 4


Number = TypeVar("Number", ctypes.c_int32, ctypes.c_int64)


def fields_of(kind: type[Number], *names: str) -> list[tuple[str, type[Number]]]:
    """Fields of one type, in order, for ctypes: pairs of name and type."""
    return [(name, kind) for name in names]


_Field: TypeAlias = tuple[str, type[ctypes.c_void_p | ctypes.c_int64 | ctypes.c_int32]]

_PIXELS: tuple[_Field, ...] = (
    ("data", ctypes.c_void_p),
    *fields_of(ctypes.c_int64, "row_stride", "column_stride", "channel_stride"),
    *fields_of(ctypes.c_int32, "height", "width", "channels"),
)


class RawHeader(ctypes.Structure):
    """The C struct ``fpc_header``."""

    _fields_ = (
        *fields_of(ctypes.c_int32, "height", "width", "components", "bit_depth", "color"),
        ("sampling", ctypes.c_int32 * 4),
        *fields_of(
            ctypes.c_int32, "progressive", "orientation", "multi_picture", "plain", "format", "transparency", "animated"
        ),
        ("data_offset", ctypes.c_int64),
    )


class RawFile(ctypes.Structure):
    """The C struct ``fpc_file``."""

    _fields_ = (
        ("path", ctypes.c_void_p),
        *fields_of(ctypes.c_int64, "offset", "length"),
        ("data", ctypes.c_void_p),
        *fields_of(ctypes.c_int64, "size", "max_bytes"),
        *fields_of(ctypes.c_int32, "status", "os_error", "header_status", "is_head"),
        ("header", RawHeader),
    )


class RawArray(ctypes.Structure):
    """The C struct ``fpc_array``."""

    _fields_ = (
        ("path", ctypes.c_void_p),
        *fields_of(ctypes.c_int64, "offset", "length"),
        ("header", ctypes.c_void_p),
        *fields_of(ctypes.c_int64, "header_size", "planes", "height", "width", "top", "left", "rows", "columns"),
        ("out", ctypes.c_void_p),
        *fields_of(ctypes.c_int32, "item", "status", "os_error", "reserved"),
    )


class RawBox(ctypes.Structure):
    """The C struct ``fpc_box``."""

    _fields_ = (*fields_of(ctypes.c_int32, "top", "left", "height", "width"),)


class RawSink(ctypes.Structure):
    """The C struct ``fpc_sink``."""

    _fields_ = (
        *_PIXELS,
        *fields_of(ctypes.c_int32, "dtype", "flags"),
        ("mean", ctypes.c_float * 3),
        ("std", ctypes.c_float * 3),
    )


class RawPixels(ctypes.Structure):
    """The C struct ``fpc_pixels``."""

    _fields_ = _PIXELS


class _Data(ctypes.Union):
    """``const uint8_t *data``: set from bytes without a copy, or to an address."""

    _fields_ = (("bytes", ctypes.c_char_p), ("address", ctypes.c_void_p))


class RawJob(ctypes.Structure):
    """The C struct ``fpc_job``."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("data", _Data),
        ("pixels", ctypes.c_void_p),
        *fields_of(ctypes.c_int64, "offset", "length"),
        ("box", RawBox),
        *fields_of(ctypes.c_int32, "expected_height", "expected_width"),
        *fields_of(ctypes.c_int64, "max_pixels", "max_bytes"),
        ("operations", ctypes.c_void_p),
        *fields_of(ctypes.c_int32, "operation_count", "indices"),
        ("sink", RawSink),
        *fields_of(ctypes.c_int32, "status", "os_error", "row", "warned"),
    )
