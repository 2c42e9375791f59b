"""The registry of readers: built-in ones, those of installed packages, and those that a program registers.

A reader is imported at its first use. The built-in order of preference for each format is here, too; a `MachineConfig`
with measurements replaces it.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import warnings
from dataclasses import dataclass
from importlib import metadata

from fastpipe.errors import FastpipeWarning, ReaderError, ReaderUnavailableError, UnknownReaderError
from fastpipe.readers.base import Reader

ENTRY_POINTS = "fastpipe.readers"

# name → (class, advice if it doesn't load)
_BUILT_IN: dict[str, tuple[str, str]] = {
    "core": (
        "fastpipe.readers.core:CoreReader",
        "install torch-fastpipe where a C compiler is, and FASTPIPE_CORE isn't off",
    ),
    "cv2": (
        "fastpipe.readers.cv2:OpenCvReader",
        "pip install opencv-python-headless, or a newer version of the OpenCV package that is here",
    ),
    "imageio": ("fastpipe.readers.imageio:ImageioReader", "pip install imageio"),
    "pil": ("fastpipe.readers.pil:PillowReader", "pip install pillow"),
    "turbojpeg": ("fastpipe.readers.turbojpeg:TurboJpegReader", "pip install turbojpeg"),
}

_DEFAULT_ORDER: dict[str, tuple[str, ...]] = {
    "JPEG": ("core", "pil"),
    "MPO": ("core", "pil"),
    "PNG": ("core", "pil"),
    "WEBP": ("cv2", "pil"),
    "FPJ": ("core",),  # packed images, which nothing else reads
}

# A process forks only while no other thread loads a reader: otherwise the child would wait for ever for that thread,
# and for the locks of modules that it imports.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_loaded: dict[str, Reader] = {}  # loaded or registered
_failed: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class ReaderStatus:
    """The status of a reader: whether it can be used here.

    Attributes:
        name: the reader's name.
        available: whether its library loads.
        version: the library's version; empty if it doesn't load.
        reason: why the library doesn't load, and what to do; empty if it loads.
    """

    name: str
    available: bool
    version: str = ""
    reason: str = ""


def default_order(format: str) -> tuple[str, ...]:
    """The built-in order of preference for a format, by Pillow's name of it; the last reader reads every such file."""
    return _DEFAULT_ORDER.get(format, ("pil",))


def registered_formats() -> set[str]:
    """Pillow's names of the formats that have a built-in order of readers, or that a loaded reader reads."""
    with _lock:
        return {*_DEFAULT_ORDER, *(format for reader in _loaded.values() for format in reader.formats)}


def known_readers() -> list[str]:
    """The names of all readers that are built in, installed as plugins or registered, sorted."""
    with _lock:
        return sorted({*_BUILT_IN, *_plugins(), *_loaded})


def available_readers() -> list[str]:
    """The names of the readers that load on this machine, sorted."""
    return [name for name, status in reader_status().items() if status.available]


def reader_status() -> dict[str, ReaderStatus]:
    """The status of every known reader, by name."""
    statuses = {}
    for name in known_readers():
        try:
            statuses[name] = ReaderStatus(name, True, version=get_reader(name).version)
        except ReaderUnavailableError as error:
            statuses[name] = ReaderStatus(name, False, reason=str(error))
    return statuses


def get_reader(name: str) -> Reader:
    """The reader of that name; loads its library at the first call.

    Raises:
        UnknownReaderError: no reader has that name.
        ReaderUnavailableError: the reader's package or library doesn't load here.
    """
    reader = _loaded.get(name) if isinstance(name, str) else None
    if reader is not None:
        return reader
    with _lock:
        # plugins are looked for where they may be meant
        if not isinstance(name, str) or (name not in _BUILT_IN and name not in known_readers()):
            raise UnknownReaderError(
                f"no reader is called {name!r}; there are {', '.join(known_readers())}. "
                "A reader of your own is added with fastpipe.readers.register_reader()"
            )
        if name not in _failed and name not in _loaded:
            try:
                _loaded[name] = _load(name)
            except Exception as error:  # importing a broken package may raise anything
                _failed[name] = f"{type(error).__name__}: {error}"
                if name not in _BUILT_IN:
                    message = f"the plugin reader {name!r} ({_plugins()[name]}) doesn't load: {_failed[name]}"
                    warnings.warn(message, FastpipeWarning, stacklevel=2)
        if name in _failed:
            hint = _BUILT_IN[name][1] if name in _BUILT_IN else "reinstall the package that provides it"
            raise ReaderUnavailableError(f"the reader {name!r} doesn't load here ({_failed[name]}); try: {hint}")
        return _loaded[name]


def bundled_libraries() -> dict[str, dict[str, str]]:
    """The libraries in each reader that loads here, with their versions, as far as they are known.

    Returns:
        For example ``{"cv2": {"opencv": "5.0.0", "libjpeg-turbo": "3.1.2"}, …}``, each reader's package first.
    """
    return {name: dict(get_reader(name).libraries()) for name, status in reader_status().items() if status.available}


def register_reader(reader: Reader) -> None:
    """Adds a reader for this process; a later one replaces an earlier one of the same name.

    A package can provide its reader to every process instead, by an entry point in the group ``fastpipe.readers``,
    whose name is the reader's and whose value is a `Reader` class.

    Raises:
        TypeError: ``reader`` is no `Reader` instance with a name and formats.
        ReaderError: the name is that of a built-in reader.
    """
    name = getattr(reader, "name", None)
    if not isinstance(reader, Reader) or not isinstance(name, str) or not hasattr(reader, "formats"):
        raise TypeError(f"register_reader takes an instance of fastpipe.readers.Reader with a name, not {reader!r}")
    if name in _BUILT_IN:
        raise ReaderError(f"{name!r} is the name of a built-in reader; give yours another")
    with _lock:
        _loaded[name] = reader
        _failed.pop(name, None)


def _load(name: str) -> Reader:
    target = _BUILT_IN[name][0] if name in _BUILT_IN else _plugins()[name]
    module, _, attribute = target.partition(":")
    reader = getattr(importlib.import_module(module), attribute)()
    if not isinstance(reader, Reader):
        raise TypeError(f"{target} is not a fastpipe.readers.Reader")
    return reader


@functools.cache
def _plugins() -> dict[str, str]:
    """The "module:class" of each reader that an installed package has as an entry point; imports none."""
    plugins: dict[str, str] = {}
    for point in metadata.entry_points(group=ENTRY_POINTS):
        if point.name in _BUILT_IN:
            message = f"the entry point {point.value!r} can't take the name of the built-in reader {point.name!r}"
            warnings.warn(message, FastpipeWarning, stacklevel=2)
        else:
            plugins.setdefault(point.name, point.value)
    return plugins
