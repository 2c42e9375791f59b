"""Layout of an array in its file: read from a ``.npy`` header, or given by the caller for raw bytes."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import DTypeLike

from fastpipe import core, readers
from fastpipe.counts import pluralize
from fastpipe.errors import DatasetError, DecodeError
from fastpipe.types import Box, ImageShape

_START = 4096
_MAGIC = b"\x93NUMPY"
# dtypes that NumPy lacks are read as integers of the same size.
_AS_INTEGERS: dict[torch.dtype, np.dtype[np.generic]] = {torch.bfloat16: np.dtype("<i2")}


@dataclass(frozen=True, slots=True)
class Form:
    """dtype, shape and offset of the array in a file."""

    header: bytes  # the bytes before the array; files that begin with the same bytes hold arrays of the same form
    stored: np.dtype[np.generic]  # NumPy's dtype of the elements, with their byte order
    dtype: torch.dtype
    shape: tuple[int, ...]
    in_order: bool = True  # whether the array is in C order; only such files are read straight into a batch

    def __str__(self) -> str:
        return f"{self.stored.name} {self.shape}"

    @property
    def size(self) -> ImageShape:
        """The lengths of the last two axes, as height and width for transforms; 1 for a missing axis."""
        rows, columns = (1, 1, *self.shape)[-2:]
        return ImageShape(rows, columns)

    def in_core(self) -> core.ArrayForm:
        rows, columns = self.size.height, self.size.width
        itemsize = self.stored.itemsize
        swapped = 1
        if not self.stored.isnative:
            swapped = itemsize // 2 if self.stored.kind == "c" else itemsize
        return core.ArrayForm(self.header, math.prod(self.shape[:-2]), rows, columns * itemsize, swapped)

    def window(self, crop: Box | None) -> tuple[int, int, int, int]:
        """Converts a box, or None for the whole array, to (first row, first byte in a row, rows, bytes in a row)."""
        top, left, height, width = Box(0, 0, *self.size.size) if crop is None else crop
        return top, left * self.stored.itemsize, height, width * self.stored.itemsize

    def cropped(self, crop: Box | None) -> tuple[int, ...]:
        """The array's shape after a crop to a box; None for no crop."""
        return self.shape if crop is None else (*self.shape[:-2], *crop.size)


@dataclass(slots=True)
class ArrayFile:
    """The encoded array of a task: its form and where its bytes are."""

    form: Form
    # the path of the file, or of the local copy of a file in a store; or the file's bytes
    content: str | bytes


def form_of(path: str, content: str | bytes | None = None) -> Form:
    """Reads the form of a ``.npy`` file from its header.

    Args:
        path: the file's path.
        content: the file's bytes, or the path of a local copy; None to read `path`.

    Raises:
        DecodeError: it is no ``.npy`` file, or holds Python objects, or elements that torch has no dtype for.
        OSError: it can't be opened.
    """
    content = path if content is None else content
    return _parsed(content[:_START] if isinstance(content, bytes) else readers.read_start(content, _START), path)


def _parsed(start: bytes, path: str) -> Form:
    stream = io.BytesIO(start)
    try:
        if not start.startswith(_MAGIC):
            raise ValueError("it doesn't begin as a .npy file")
        version = np.lib.format.read_magic(stream)
        length_of = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version == (3, 0):  # format 2.0 with field names in UTF-8
            stream = io.BytesIO(_MAGIC + b"\2\0" + start[8:])
            version = np.lib.format.read_magic(stream)
        shape, by_column, stored = length_of[version](stream)
    except (ValueError, KeyError, EOFError, SyntaxError) as error:
        raise DecodeError(path, "NPY", "numpy", str(error) or type(error).__name__) from error
    header = start[: stream.tell()]
    try:
        dtype = _torch_type(stored)
    except TypeError as error:
        raise DecodeError(path, "NPY", "numpy", str(error)) from error
    # An array with only one axis longer than 1 has the same bytes in C and Fortran order.
    in_order = not by_column or sum(length > 1 for length in shape) < 2
    return Form(header, stored, dtype, tuple(shape), in_order)


def raw_form(dtype: torch.dtype | DTypeLike, shape: Sequence[int]) -> Form:
    """The form of files without a header.

    Args:
        dtype: the elements' dtype: torch's, or anything that `numpy.dtype` takes (``">f4"`` for big-endian).
        shape: the array's shape.

    Raises:
        DatasetError: there is no such type, or a length is negative.
    """
    lengths = tuple(int(length) for length in shape)
    if any(length < 0 for length in lengths):
        raise DatasetError(f"shape={tuple(shape)!r}: give whole numbers from 0.")
    try:
        if isinstance(dtype, torch.dtype):
            stored = _AS_INTEGERS.get(dtype)
            if stored is None:
                stored = torch.empty(0, dtype=dtype).numpy().dtype
            return Form(b"", stored, dtype, lengths)
        stored = np.dtype(dtype)
        return Form(b"", stored, _torch_type(stored), lengths)
    except TypeError as error:
        raise DatasetError(f"dtype={dtype!r}: {error}; give a dtype of torch or NumPy.") from error


def _torch_type(stored: np.dtype[np.generic]) -> torch.dtype:
    if stored.kind not in "biufc":
        what = "Python objects, which fastpipe doesn't load" if stored.kind == "O" else f"{stored}, no numbers"
        raise TypeError(f"it holds {what}")
    try:
        return torch.from_numpy(np.empty(0, stored.newbyteorder("="))).dtype
    except TypeError:
        raise TypeError(f"it holds {stored}, which torch has no type for") from None


def load_array(path: str, form: Form, crop: Box | None, content: str | bytes | None = None) -> torch.Tensor:
    """Reads an array, or a box of it, with NumPy; `path` and `content` are as in `form_of`.

    Raises:
        DatasetError: the file holds an array of another type or shape.
        DecodeError: the file holds no array, or is too short.
        OSError: it can't be read.
    """
    data = readers.read_copy(path, content, None)
    taken = form
    if not data.startswith(form.header):
        form = _parsed(data[:_START], path)
    if (form.shape, form.dtype) != (taken.shape, taken.dtype):
        raise DatasetError(
            f"{path} holds {form}, where other files hold {taken}: a batch has arrays of one type and shape. Give the "
            "loader a collate_fn for several, or crop= a window of one size."
        )
    count, start = math.prod(form.shape), len(form.header)
    wanted = count * form.stored.itemsize
    if len(data) - start < wanted:
        reason = f"it has {pluralize(len(data) - start, 'byte')} after its header of {start}, and {form} takes {wanted}"
        raise DecodeError(path, "NPY" if start else "raw", "numpy", reason)
    array = np.frombuffer(data, form.stored, count, start).reshape(form.shape, order="C" if form.in_order else "F")
    if crop is not None:
        array = array[..., crop.top : crop.bottom, crop.left : crop.right]
    native = np.array(array, dtype=form.stored.newbyteorder("="), order="C", copy=True)
    tensor = torch.from_numpy(native)
    return tensor.view(form.dtype) if form.dtype in _AS_INTEGERS else tensor
