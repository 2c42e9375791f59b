"""Versions of the codec libraries inside the readers: wheels bundle their own, and they differ.

The TurboJPEG API doesn't tell its library's version and simplejpeg doesn't pass it on, but libjpeg-turbo has it as text
in its table of messages: it is read from the file of the library.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from fastpipe.environment import installed
from fastpipe.readers.base import Reader

_TURBO = re.compile(rb"libjpeg-turbo version (\d+(?:\.\d+)+)")
_OLD_TURBO = b"LIBJPEGTURBO_"  # a symbol's version: a library that has it and doesn't say its own is older than 2


def libraries_of(reader: Reader) -> dict[str, str]:
    """The libraries in one reader and their versions; `Reader.version` alone for one that isn't built in."""
    look = _LOOK.get(reader.name)
    try:
        found = {} if look is None else look(reader)
    except (AttributeError, ImportError, OSError):  # another build, laid out otherwise: it reads all the same
        found = {}
    found = found or {reader.name: reader.version}
    return {library: version for library, version in found.items() if version}


def _in_opencv(reader: Reader) -> dict[str, str]:
    import cv2

    found = {"opencv": reader.version}
    for line in cv2.getBuildInformation().splitlines():
        name, _, text = line.strip().partition(":")
        version = re.search(r"ver (?:\d+ - )?(\d+(?:\.\d+)+)", text)
        library = {"JPEG": "libjpeg-turbo" if "turbo" in text else "libjpeg", "PNG": "libpng", "TIFF": "libtiff"}
        if version and name in library:
            found[library[name]] = version[1]
    return found


def _in_pillow(reader: Reader) -> dict[str, str]:
    from PIL import features

    found = {"pillow": reader.version, "libjpeg-turbo": features.version("libjpeg_turbo") or ""}
    if not found["libjpeg-turbo"]:
        found["libjpeg"] = features.version("jpg") or ""
    for name, library in (("webp", "libwebp"), ("libtiff", "libtiff"), ("jpg_2000", "openjpeg"), ("zlib", "zlib")):
        found[library] = features.version(name) or ""
    return found


def _in_turbojpeg(reader: Any) -> dict[str, str]:
    path = Path(reader.library.path)
    files = [path] if path.is_absolute() else _loaded_files("turbojpeg")
    return {"turbojpeg": installed("turbojpeg") or "", "libjpeg-turbo": _turbo_version(files)}


def _in_package(distribution: str, extension: str | None = None) -> Callable[[Reader], dict[str, str]]:
    """Looks into a distribution's own libjpeg, or into the extension module that it is linked into."""

    def look(reader: Reader) -> dict[str, str]:
        if extension is None:
            files: Iterable[Path] = _shipped_files(distribution, "jpeg")
        else:
            files = [Path(str(importlib.import_module(extension).__file__))]
        return {distribution: reader.version, "libjpeg-turbo": _turbo_version(files)}

    return look


_LOOK: dict[str, Callable[[Any], dict[str, str]]] = {
    "cv2": _in_opencv,
    "pil": _in_pillow,
    "simplejpeg": _in_package("simplejpeg", "simplejpeg._jpeg"),
    "torchcodec": _in_package("torchcodec"),
    "torchvision": _in_package("torchvision"),
    "turbojpeg": _in_turbojpeg,
}


def _turbo_version(files: Iterable[Path]) -> str:
    for file in files:
        try:
            content = file.read_bytes()
        except OSError:
            continue
        if found := _TURBO.search(content):
            return found[1].decode()
        if _OLD_TURBO in content:
            return "1"
    return ""


def _shipped_files(distribution: str, part: str) -> Iterator[Path]:
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        if part in file.name and any(ending in file.name for ending in (".so", ".dll", ".dylib")):
            yield Path(str(file.locate()))


def _loaded_files(part: str) -> list[Path]:
    """Files of libraries that the linker found by name; Linux alone tells which these are."""
    if sys.platform != "linux":
        return []
    lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if line.count(" ") >= 5 and len(line.split(maxsplit=5)) == 6}
    return sorted(Path(path) for path in paths if part in Path(path).name)
