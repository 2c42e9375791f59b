"""Pending tensors of files: results of ``torchvision.io``'s decoders, on which v2's transforms are recorded."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torchvision.io import ImageReadMode

from fastpipe import core, readers
from fastpipe.clock import clock
from fastpipe.core.encoded import JpegOrPng, as_jpeg, jpeg_or_png
from fastpipe.environment import has_version
from fastpipe.errors import ReaderError
from fastpipe.hooks.checking import OTHER_VALUES, SiteAccount, check_value
from fastpipe.hooks.ledger import DIFFERED, LEDGER, Site
from fastpipe.hooks.patches import Function
from fastpipe.mistakes import attempt
from fastpipe.plain_way import plainly
from fastpipe.program.core_job import Encoded
from fastpipe.program.encoded_image import EncodedImage, OnMistake
from fastpipe.program.lower import lower
from fastpipe.program.on_image import run_on_image
from fastpipe.program.pending_tensor import pending_tensor
from fastpipe.program.pending_work import Record
from fastpipe.program.tensor_source import TensorSource
from fastpipe.readers.base import Pixels
from fastpipe.torch_modes import torch_modes_active
from fastpipe.types import PACKED_SIGNATURE, Header, ImageShape, is_packed

_ARGUMENTS = {
    "decode_image": ("input", "mode", "apply_exif_orientation"),
    "decode_jpeg": ("input", "mode", "device", "apply_exif_orientation"),
}
_MAGIC = {
    "decode_image": (b"\xff\xd8\xff", b"\x89PNG", PACKED_SIGNATURE),
    "decode_jpeg": (b"\xff\xd8\xff", PACKED_SIGNATURE),
}
_TAKES_NAMES = has_version("torchvision", 0, 20)
"""True if modes have names, and `decode_image` takes paths."""
_GIVES_UINT16 = has_version("torchvision", 0, 21)
"""True if PNGs of 16 bits are decoded to uint16."""
_EXIF, _XMP = b"Exif\0", b"http://ns.adobe.com/xap/"
_TURNED_PNG = (b"eXIf", b"exif", b"adobe.xmp")
"""Marks of a PNG with an orientation that torchvision doesn't read, or reads otherwise than Pillow."""
LEAST_BYTES, LEAST_PIXELS = 1 << 12, 1 << 15
"""The smallest files and images that are worth the overhead: torchvision decodes smaller ones in less time.

Where the pixels are read at once, an image of 64x64 would take 180 µs in place of 73, and one of 256x256 takes 390 in
place of 440; looking at a file of 1 kB takes 20 µs. Where all transforms are recorded, 64x64 would gain 1.7 times.
"""


class _TensorFile(EncodedImage):
    """A file that torchvision would have decoded.

    Args:
        encoded, orientation, on_mistake: see `EncodedImage`.
        library: torchvision's own decoder of the file, to the upright uint8 tensor ``(C, H, W)``.
    """

    def __init__(
        self, encoded: Encoded, orientation: int, library: Callable[[], torch.Tensor], on_mistake: OnMistake
    ) -> None:
        super().__init__(encoded, orientation, on_mistake)
        self._library = library

    def decoded_by_library(self) -> Pixels:
        upright = self._library().permute(1, 2, 0).expand(-1, -1, 3).numpy()
        turned = {6: 8, 8: 6}.get(self.orientation, self.orientation)  # the orientation that undoes this one
        stored: Pixels = run_on_image(lower((), ImageShape(*self.encoded.header.size), orientation=turned), upright)
        return stored


class _Left(NamedTuple):
    """A call that is left to torchvision.

    Attributes:
        reason: why, for the report; empty for calls that it doesn't mention.
        given: the arguments with the bytes that have been read; None for the call's own.
    """

    reason: str = ""
    given: dict[str, object] | None = None


class TensorFiles:
    """The replacement of one of torchvision's decoders.

    Args:
        name: the function's name.
        plain: torchvision's function, which takes packed images, too.
    """

    def __init__(self, name: str, plain: Function) -> None:
        self._name, self._plain = name, plain

    def open(self, args: tuple[object, ...], kwargs: dict[str, object], is_recorded: bool = True) -> object:
        """The function's result, pending if possible; otherwise torchvision's result, or its error.

        Args:
            args, kwargs: of the call.
            is_recorded: False if v2's functions would ask for the pixels at once: then torchvision decodes as fast.
        """
        site = LEDGER.site("function", f"torchvision.io.{self._name}")
        plain = partial(self._plain, *args, **kwargs)
        if not is_recorded:
            site.count_plain("torchvision's v2 isn't accelerated")
            return plain()
        result = attempt(partial(self._tried, site, args, kwargs), plain, site.count_failed)
        if not isinstance(result, _Left):
            return result
        if result.reason:
            site.count_plain(result.reason)
        return plain() if result.given is None else self._plain(**result.given)

    def _tried(self, site: Site, args: tuple[object, ...], kwargs: dict[str, object]) -> torch.Tensor | _Left:
        """The pending tensor, counted; or what torchvision's function is called with instead, and why."""
        small = _why_small(args[0] if args else kwargs.get("input"))
        if small:  # asked first, as torchvision takes no longer for such a file than the questions below
            return _Left(small)
        names = _ARGUMENTS[self._name]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or not given.keys() <= set(names) or "input" not in given:
            return _Left()  # with an error
        if site.is_off:
            return _Left(DIFFERED)
        names_given = any(isinstance(given.get(name), (str, os.PathLike)) for name in ("input", "mode"))
        if names_given and not _TAKES_NAMES:
            return _Left()
        if str(given.get("device", "cpu")) != "cpu":
            return _Left("decoded on a device")
        if torch_modes_active():
            return _Left("called while a torch mode was active")
        begun = clock()
        data = self._data_of(given["input"])
        if isinstance(data, str):
            return _Left(data)
        tensor = self._opened(data, given, site)
        if isinstance(tensor, str):
            reuses_bytes = data and not isinstance(given["input"], torch.Tensor)
            return _Left(tensor, {**given, "input": _as_tensor(data)} if reuses_bytes else None)
        site.count(clock() - begun)
        return tensor

    def _data_of(self, given: object) -> bytes | str:
        """The bytes of a file, or of a uint8 tensor (copied, as it may be overwritten); or a reason to leave it."""
        if type(given) is torch.Tensor:
            if given.dtype != torch.uint8 or given.ndim != 1 or not given.is_cpu or not given.is_contiguous():
                return "not a tensor of bytes in a row"
            array = given.numpy()
            known = array[: len(PACKED_SIGNATURE)].tobytes().startswith(_MAGIC[self._name])
            return array.tobytes() if known else "neither a JPEG nor a PNG"
        if self._name != "decode_image" or not isinstance(given, (str, os.PathLike)):
            return "neither a path nor a tensor of bytes"
        try:
            with open(str(given), "rb", buffering=0) as file:
                return file.readall()
        except (OSError, ValueError):
            return "a file that can't be read"

    def _opened(self, data: bytes, given: dict[str, object], site: Site) -> torch.Tensor | str:
        """The pending tensor, or the reason why there is none."""
        mode, turns = _mode_of(given.get("mode", "UNCHANGED")), given.get("apply_exif_orientation", False)
        if mode is None or type(turns) is not bool:
            return "arguments of another kind"
        if not core.available():
            return core.why_not()
        if not data.startswith(_MAGIC[self._name]):
            return "neither a JPEG nor a PNG"
        found = jpeg_or_png(data)
        if isinstance(found, str):
            return "a file that fastpipe's core doesn't decode"
        is_deep = found.stored.format == "PNG" and found.stored.bit_depth == 16
        if not (is_deep or readers.get_reader("core").accepts(found.stored)):
            return "a file that fastpipe's core doesn't decode"
        if found.is_packed and not found.is_intact():
            return "a damaged file"
        header = found.header
        if header.subsampling == "4:4:0":
            return "a JPEG in 4:4:0, whose chroma older versions of torchvision's libjpeg don't smooth"
        pixels, limit = header.height * header.width, readers.pixel_limit()
        if pixels < LEAST_PIXELS:
            return _few_pixels()
        channels = _channels_of(header, mode)
        if not channels:
            return f"mode {mode} of a {header.color_space} {header.format}"
        orientation = _orientation_of(found) if turns else 1
        if not orientation:
            return "an orientation that the file says in an unusual way"
        if limit is not None and pixels > limit:
            return "more pixels than the limit"
        library = self._library(data, given)
        if is_deep:
            return _of_sixteen_bits(data, header, channels, library, site)
        image = _TensorFile(Encoded(data, found.stored), orientation, library, site.count_failed)
        # torchvision raises here for a damaged file: so a JPEG's scan is checked, and other files are decoded.
        if not (found.is_packed or found.is_intact() or image.decode()):
            return "a damaged file"
        is_due = site.is_check_due()
        image.on_decode = site.note_decode if is_due else None
        account = SiteAccount.of_file(site, library, is_due)
        return pending_tensor(Record.of(TensorSource.of_file(image, channels), account))

    def _library(self, data: bytes, given: dict[str, object]) -> Callable[[], torch.Tensor]:
        def library() -> torch.Tensor:
            with plainly():
                tensor: torch.Tensor = self._plain(**{**given, "input": _as_tensor(data)})
                return tensor

        return library


def _of_sixteen_bits(
    data: bytes, header: Header, channels: int, library: Callable[[], torch.Tensor], site: Site
) -> torch.Tensor | str:
    """A PNG of 16 bits a sample as torchvision's uint16, on which nothing is recorded; or the reason to leave it."""
    if header.transparency:
        return "a PNG of 16 bits with transparency"
    if not _GIVES_UINT16:
        return "a PNG of 16 bits, which this torchvision doesn't give as uint16"
    begun = clock()
    samples = core.read_uint16(data, header, channels)
    if isinstance(samples, str):
        return samples
    result = torch.from_numpy(samples.reshape(*header.size, channels)).permute(2, 0, 1)  # torchvision's strides, too
    if not site.is_check_due():
        return result
    return check_value(site, result, clock() - begun, library, OTHER_VALUES.format("an image of 16 bits"))


def _why_small(given: object) -> str:
    """Why torchvision decodes a small file's bytes in a tensor as fast; empty for anything else."""
    if type(given) is not torch.Tensor:
        return ""
    length = given.numel()
    if length < LEAST_BYTES:
        return f"a file of less than {LEAST_BYTES:,} bytes, which torchvision decodes as fast"
    is_short = length < 4 * LEAST_PIXELS  # as nearly all files of so few pixels are
    if is_short and given.dtype == torch.uint8 and given.ndim == 1 and given.is_cpu and core.available():
        header = core.read_header(given.numpy()[:LEAST_BYTES].tobytes())  # the file is copied below
        if isinstance(header, Header) and header.height * header.width < LEAST_PIXELS:
            return _few_pixels()
    return ""


def _few_pixels() -> str:
    return f"an image of less than {LEAST_PIXELS:,} pixels, which torchvision decodes as fast"


def _as_tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _mode_of(mode: object) -> str | None:
    """The name of an ``ImageReadMode``, which may be given as a str."""
    if isinstance(mode, str):
        mode = ImageReadMode.__members__.get(mode.upper())
    return str(mode.name) if isinstance(mode, ImageReadMode) else None


def _channels_of(header: Header, mode: str) -> int:
    """The number of channels of torchvision's result; 0 if the core's result would differ."""
    color = header.color_space
    if header.format == "JPEG":
        if not header.plain or color not in ("YCbCr", "RGB", "L"):
            return 0
    elif header.format != "PNG":
        return 0
    if mode == "RGB":
        return 3
    if mode == "UNCHANGED":
        return {"YCbCr": 3, "RGB": 3, "L": 1}.get(color, 0)
    return 1 if mode == "GRAY" and color in ("L", "LA") else 0


def _orientation_of(found: JpegOrPng) -> int:
    """The orientation by which torchvision turns an image upright; 0 if it may read another one."""
    if found.header.format == "PNG":
        return 0 if any(mark in found.data for mark in _TURNED_PNG) else 1
    told = found.segments
    return 0 if _XMP in told or told.count(_EXIF) > 1 else found.header.orientation


def restored(given: object) -> object:
    """The argument of torchvision's decoders with packed images restored; any other argument itself.

    Args:
        given: a tensor of bytes, a list of these, or the path of a file.

    Raises:
        RuntimeError: a packed image is damaged.
    """
    if type(given) is list:
        return [*map(restored, given)]
    data = None
    if type(given) is torch.Tensor:
        if given.dtype == torch.uint8 and given.ndim == 1 and given.is_cpu:
            array = given.numpy()  # a view; a slice of the tensor would take longer
            data = array.tobytes() if is_packed(array[: len(PACKED_SIGNATURE)].tobytes()) else None
    elif isinstance(given, (str, os.PathLike)) and _TAKES_NAMES:
        data = _packed_bytes(str(given))
    if data is None:
        return given
    try:
        return _as_tensor(as_jpeg(data, "<tensor>" if isinstance(given, torch.Tensor) else str(given)))
    except ReaderError as error:
        raise RuntimeError(str(error)) from None


def _packed_bytes(name: str) -> bytes | None:
    """The bytes of a packed image's file; None for any other file, and one that can't be read."""
    try:
        with open(name, "rb") as file:
            start = file.read(len(PACKED_SIGNATURE))
            return start + file.read() if is_packed(start) else None
    except (OSError, ValueError):
        return None
