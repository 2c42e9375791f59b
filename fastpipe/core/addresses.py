"""Addresses of arrays and bytes, for C."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Address of the first element: in CPython the first field after the object's head. (Asking numpy takes 2 µs.)"""
    if not _IS_CPYTHON:
        address: int = array.__array_interface__["data"][0]
        return address
    return _pointer_at(id(array) + _OBJECT_SIZE).value or 0


def address_of_bytes(data: bytes) -> int:
    """Address of the first byte; a NUL follows the last. Valid as long as somebody keeps the object."""
    if _BYTES_HEAD:
        return id(data) + _BYTES_HEAD
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


_IS_CPYTHON = sys.implementation.name == "cpython"
_OBJECT_SIZE = object.__basicsize__
_pointer_at = ctypes.c_void_p.from_address
# CPython's object in front of the bytes, less the NUL after them; 0 for others, who may have them elsewhere.
_BYTES_HEAD = bytes.__basicsize__ - 1 if _IS_CPYTHON else 0
