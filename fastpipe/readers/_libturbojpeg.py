"""libturbojpeg through ctypes: where the library is found, its functions' types, and one handle for a thread.

The C API's reference is turbojpeg.h of libjpeg-turbo 3.0; earlier ones have no regions. ctypes gives up the
GIL during a call.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from importlib import metadata

import numpy as np
from numpy.typing import NDArray

from fastpipe.errors import DecodeError, FastpipeWarning

_VARIABLE = "FASTPIPE_TURBOJPEG"

_INIT_DECOMPRESS = 1  # enum TJINIT
_PARAM_STOP_ON_WARNING, _PARAM_SUBSAMPLING, _PARAM_WIDTH, _PARAM_HEIGHT = 0, 4, 5, 6  # enum TJPARAM
_PIXELS_RGB = 0  # enum TJPF

_SYSTEM_NAMES = {
    "win32": ("turbojpeg.dll", "libturbojpeg.dll"),
    "darwin": ("libturbojpeg.dylib", "/opt/homebrew/opt/jpeg-turbo/lib/libturbojpeg.dylib"),
}


class _Region(ctypes.Structure):
    _fields_ = (("x", c_int), ("y", c_int), ("w", c_int), ("h", c_int))


class _Factor(ctypes.Structure):
    _fields_ = (("num", c_int), ("denom", c_int))


def _candidates() -> Iterator[str]:
    """Names and paths to try, best first: the environment variable alone, or the wheel's library, then the system's."""
    named = os.environ.get(_VARIABLE)
    if named:
        yield named
        return
    try:
        files = metadata.files("turbojpeg") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        # Linux: turbojpeg.libs/libturbojpeg-….so.0.3.0, macOS: turbojpeg.dylibs/libturbojpeg.0.3.0.dylib, Windows:
        # turbojpeg-….dll. The extension module beside it is turbojpeg.….so or .pyd.
        library = ".so" in file.name and len(file.parts) > 1
        if "turbojpeg" in file.name and (library or file.suffix in (".dll", ".dylib")):
            yield str(file.locate())
    by_linker = ctypes.util.find_library("turbojpeg")  # slow: on Linux it starts other programs
    if by_linker:
        yield by_linker
    yield from _SYSTEM_NAMES.get(sys.platform, ("libturbojpeg.so.0", "libturbojpeg.so"))


class Library:
    """A loaded libturbojpeg.

    Attributes:
        path: where it was found.
    """

    def __init__(self) -> None:
        failures = []
        for candidate in _candidates():
            try:
                self.c = ctypes.CDLL(candidate)
                break
            except OSError as error:
                failures.append(f"{candidate}: {error}")
        else:
            reason = f"no libturbojpeg loads: {'; '.join(failures)}"
            if os.environ.get(_VARIABLE):
                reason = f"the library named in {_VARIABLE} doesn't load: {failures[0]}"
                # Else the default order would quietly go on without the library that was asked for.
                warnings.warn(reason, FastpipeWarning, stacklevel=2)
            raise OSError(reason)
        self.path = candidate
        try:
            self._declare()
        except AttributeError as error:
            raise OSError(f"{candidate} is not a libturbojpeg 3, the first that decodes regions: {error}") from error

    def _declare(self) -> None:
        c = self.c
        signatures = {
            "tj3Init": (c_void_p, (c_int,)),
            "tj3Destroy": (None, (c_void_p,)),
            "tj3Set": (c_int, (c_void_p, c_int, c_int)),
            "tj3Get": (c_int, (c_void_p, c_int)),
            "tj3DecompressHeader": (c_int, (c_void_p, c_char_p, c_size_t)),
            "tj3SetScalingFactor": (c_int, (c_void_p, _Factor)),
            "tj3SetCroppingRegion": (c_int, (c_void_p, _Region)),
            "tj3Decompress8": (c_int, (c_void_p, c_char_p, c_size_t, c_void_p, c_int, c_int)),
            "tj3GetErrorStr": (c_char_p, (c_void_p,)),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(c, name)
            function.restype = result
            function.argtypes = arguments


class Decompressor:
    """One handle of the library; used by one thread of one process, and destroyed with it.

    `header` comes before each `decompress`, which refers to it.
    """

    def __init__(self, library: Library) -> None:
        self.pid = os.getpid()
        self._c = library.c
        self._cropped = False
        self._failed = False
        self._handle = self._c.tj3Init(_INIT_DECOMPRESS)
        if not self._handle:
            raise DecodeError("<bytes>", "JPEG", "turbojpeg", "the library gives no decompressor")
        self._c.tj3Set(self._handle, _PARAM_STOP_ON_WARNING, 1)

    def usable(self) -> bool:
        """Whether it serves on: in the process that made it, until it refuses a file.

        A header that was given up at a warning leaves the library in the midst of it: every file after that would be
        refused as well.
        """
        return not self._failed and self.alive()

    def alive(self, getpid: Callable[[], int] = os.getpid) -> bool:
        """Whether this process made the handle; a forked child makes its own."""
        return self.pid == getpid()  # bound early: module globals are gone when the interpreter ends

    def __del__(self) -> None:
        # A forked child leaves its copy of the parent's handle alone.
        if getattr(self, "_handle", None) and self.alive():
            self._c.tj3Destroy(self._handle)

    def header(self, data: bytes) -> tuple[int, int, int]:
        """Height, width and TJSAMP number of the chroma subsampling (-1 where it has no name)."""
        get, handle = self._c.tj3Get, self._handle
        if self._cropped:  # a region that doesn't fit the next image would make its header fail
            self._c.tj3SetCroppingRegion(handle, _Region(0, 0, 0, 0))
            self._c.tj3SetScalingFactor(handle, _Factor(1, 1))
            self._cropped = False
        if self._c.tj3DecompressHeader(handle, data, len(data)):
            raise self._error()
        found = get(handle, _PARAM_HEIGHT), get(handle, _PARAM_WIDTH), get(handle, _PARAM_SUBSAMPLING)
        if min(found[:2]) < 1:
            raise DecodeError("<bytes>", "JPEG", "turbojpeg", "it has tables, but no image")
        return found

    def decompress(
        self, data: bytes, pixels: NDArray[np.uint8], scale: int, region: tuple[int, int, int, int] | None = None
    ) -> None:
        """Writes the RGB pixels of an image, or of a region of it.

        Args:
            data: the file whose `header` was read last.
            pixels: ``(height, width, 3)``, contiguous, as large as the region.
            scale: denominator of the reduced size.
            region: ``(x, y, width, height)`` in the reduced image, x being a multiple of the (reduced) iMCU's width;
                None for all of it.
        """
        c, handle = self._c, self._handle
        self._cropped = True
        if c.tj3SetScalingFactor(handle, _Factor(1, scale)):
            raise self._error()
        if region is not None and c.tj3SetCroppingRegion(handle, _Region(*region)):
            raise self._error()
        if c.tj3Decompress8(handle, data, len(data), pixels.ctypes.data, 3 * pixels.shape[1], _PIXELS_RGB):
            raise self._error()

    def _error(self) -> DecodeError:
        self._failed = True
        text = self._c.tj3GetErrorStr(self._handle).decode(errors="replace")
        return DecodeError("<bytes>", "JPEG", "turbojpeg", text)
