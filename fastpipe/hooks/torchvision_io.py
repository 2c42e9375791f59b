"""``torchvision.io.decode_image`` and its like: tensors without pixels, which v2's transforms record on."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.patches import Function, Patches, plainly

if TYPE_CHECKING:
    from fastpipe.types import Header

_ARGUMENTS = {
    "decode_image": ("input", "mode", "apply_exif_orientation"),
    "decode_jpeg": ("input", "mode", "device", "apply_exif_orientation"),
}
_JPEG = b"\xff\xd8\xff"
_EXIF, _XMP = b"Exif\0", b"http://ns.adobe.com/xap/"
_TURNED_PNG = (b"eXIf", b"exif", b"adobe.xmp")
"""Marks of a file that may be turned in a way that torchvision doesn't read, or reads otherwise than Pillow."""


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces ``decode_image``, which ``read_image`` calls, and ``decode_jpeg``."""
    for name in _ARGUMENTS:
        patches.wrap(module.image, name, _Decoder(name, patches).replacing)
        patches.put(module, name, getattr(module.image, name))


class _Decoder:
    """One of torchvision's functions.

    Args:
        name: of it.
        patches: that it is replaced by.
    """

    def __init__(self, name: str, patches: Patches) -> None:
        self._name = name
        self._patches = patches
        self._has_functions = False

    def replacing(self, plain: Function) -> Function:
        """The function in the plain one's place."""

        def decode(*args: Any, **kwargs: Any) -> Any:
            site = LEDGER.site("function", f"torchvision.io.{self._name}")
            made = None if site.is_off else self._pending(plain, args, kwargs, site)
            return plain(*args, **kwargs) if made is None else made

        return decode

    def _pending(self, plain: Function, args: tuple[Any, ...], kwargs: dict[str, Any], site: Site) -> Any:
        """The tensor without pixels; None where torchvision is to decode the file, or to refuse it."""
        import torch

        from fastpipe.transforms.image_call import observed

        begun = time.perf_counter()
        names = _ARGUMENTS[self._name]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or not given.keys() <= set(names) or "input" not in given:
            return None
        if observed() or torch._C._get_tracing_state() is not None or str(given.get("device", "cpu")) != "cpu":
            return None
        mode, turns = _mode_of(given.get("mode", "UNCHANGED")), given.get("apply_exif_orientation", False)
        data = _data_of(given["input"], takes_paths=self._name == "decode_image")
        if mode is None or type(turns) is not bool or data is None:
            site.leave("neither a path, nor a tensor of bytes, or arguments of another kind")
            return None

        options = {name: value for name, value in given.items() if name != "input"}

        def library() -> torch.Tensor:
            with plainly():
                made: torch.Tensor = plain(torch.frombuffer(bytearray(data), dtype=torch.uint8), **options)
                return made

        made = self._opened(data, mode, turns, library, site)
        if isinstance(made, str):
            site.leave(made)
            return None
        if not self._has_functions and "torchvision.transforms.v2.functional" in sys.modules:
            from fastpipe.hooks.pending_tensors import record_functions

            record_functions(self._patches)
            self._has_functions = True
        site.count(time.perf_counter() - begun)
        return made

    def _opened(self, data: bytes, mode: str, turns: bool, library: Callable[[], Any], site: Site) -> Any:
        """The tensor without pixels, or the reason why there is none."""
        from fastpipe import core, readers
        from fastpipe.hooks.pending_tensors import SiteAccount
        from fastpipe.program.encoded import Encoded
        from fastpipe.program.pending_tensor import Record, TensorSource, pending_tensor
        from fastpipe.readers import intact_jpeg
        from fastpipe.types import Header

        if not core.available():
            return "fastpipe's core isn't there"
        if self._name == "decode_jpeg" and not data.startswith(_JPEG):
            return "not a JPEG"
        header = core.read_header(data)
        if not isinstance(header, Header) or not readers.get_reader("core").accepts(header):
            return "a file that fastpipe's core doesn't decode"
        channels = _channels_of(header, mode)
        if not channels:
            return f"mode {mode} of a {header.color_space} {header.format}"
        orientation = _orientation_of(data, header) if turns else 1
        if not orientation:
            return "an orientation that the file says in an unusual way"
        limit = readers.pixel_limit()
        if limit is not None and header.height * header.width > limit:
            return "more pixels than the limit"
        source = TensorSource(Encoded(data, header), channels, orientation, library)
        # torchvision raises here where a file is damaged: so a JPEG's scans are gone through, a PNG is decoded.
        if not (intact_jpeg(data, header) if header.format == "JPEG" else source.decode()):
            return "a damaged file"
        return pending_tensor(Record.of(source, SiteAccount(site, library, site.is_due())))


def _mode_of(mode: Any) -> str | None:
    """The name of an ``ImageReadMode``, which may be given by its name."""
    modes = sys.modules["torchvision.io.image"].ImageReadMode
    if isinstance(mode, str):
        mode = modes.__members__.get(mode.upper())
    return str(mode.name) if isinstance(mode, modes) else None


def _data_of(given: Any, takes_paths: bool) -> bytes | None:
    """The bytes of a file, or of a tensor of bytes; None where torchvision has to say what is wrong."""
    import torch

    if type(given) is torch.Tensor:
        plain = given.dtype == torch.uint8 and given.ndim == 1 and given.is_cpu and given.is_contiguous()
        return given.numpy().tobytes() if plain else None
    if not takes_paths or not isinstance(given, (str, os.PathLike)):
        return None
    try:
        with open(str(given), "rb", buffering=0) as file:
            return file.readall()
    except (OSError, ValueError):
        return None


def _channels_of(header: Header, mode: str) -> int:
    """The channels of what torchvision gives; 0 where the core gives something else."""
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


def _orientation_of(data: bytes, header: Header) -> int:
    """The orientation that torchvision turns an image upright by; 0 where it may read another one."""
    if header.format == "PNG":
        return 0 if any(mark in data for mark in _TURNED_PNG) else 1
    head = data[: header.data_offset]
    return 0 if _XMP in head or head.count(_EXIF) > 1 else header.orientation
