"""The errors that fastpipe raises.

FastpipeError
├── CoreError          (RuntimeError)  the core refused an invalid call: a bug in fastpipe
├── ConfigError        (ValueError)    a config file or setting that can't be used; names the file and line
├── DatasetError       (ValueError)    a folder, list or index that can't be used as it was given
│   ├── AnnotationError                an annotation that lacks a field, or has no usable value in one; of torchvision's
│   │                                  class, too (KeyError, TypeError, …)
│   └── BadFilesError                  more bad files than were allowed, or no good one in place of a bad one
├── LoaderError        (RuntimeError)  a loader's worker died or stalled, or shared memory is too small for its batches
├── StoreError         (OSError)       a store that doesn't answer, or answers wrongly; names the URL
├── PlanError          (TypeError)     a transform or recipe that can't be planned or replayed as asked
└── ReaderError        (ValueError)    a requested reader that can't be used
    ├── UnknownReaderError             no reader of that name is registered
    ├── ReaderUnavailableError         registered, but its package or library doesn't load here
    ├── UnsupportedRequestError        the reader can't return that box or read that format
    ├── NotPackableError               an image that can't be packed without changing or losing something
    └── DecodeError    (OSError)       a file that can't be decoded; names the file, format, reader, reason

Each message says what was given, what is accepted and what to do. The class in brackets is a second base: the built-in
error that Pillow or torchvision raise for the same mistake, so that code which catches that keeps working.
"""

from __future__ import annotations

import sys

__all__ = [
    "AnnotationError",
    "BadFilesError",
    "ConfigError",
    "CoreError",
    "DatasetError",
    "DecodeError",
    "FastpipeError",
    "FastpipeWarning",
    "LoaderError",
    "NotPackableError",
    "PlanError",
    "ReaderError",
    "ReaderUnavailableError",
    "StoreError",
    "UnknownReaderError",
    "UnsupportedRequestError",
]

# Another project's `fastpipe`, installed over this one, replaces `__init__.py` and leaves this file in place.
if "open_image" not in dir(sys.modules["fastpipe"]):
    raise ImportError(
        f"{sys.modules['fastpipe'].__file__} is another project's, which is called fastpipe, too: "
        "pip uninstall fastpipe, then install torch-fastpipe again (pip install . in its checkout)"
    )


class FastpipeError(Exception):
    """The base of every error that fastpipe raises on purpose."""


class CoreError(FastpipeError, RuntimeError):
    """The core refused an invalid call: a bug in fastpipe, not a bad file."""


class ConfigError(FastpipeError, ValueError):
    """A config file or setting that can't be used."""


class DatasetError(FastpipeError, ValueError):
    """A folder, list or index of files that can't be used as it was given."""


class AnnotationError(DatasetError):
    """An annotation of COCO or Pascal VOC that lacks a field, or has no usable value in one.

    It is raised where torchvision raises, and is also an error of the class that torchvision raises there, such as a
    ``KeyError``. ``on_error`` counts it like a bad file.
    """


class BadFilesError(DatasetError):
    """More files are bad than ``max_bad_fraction`` allows, or none is good enough to take a bad one's place."""


class LoaderError(FastpipeError, RuntimeError):
    """A loader's worker died or stalled, or shared memory is too small for its batches."""


class StoreError(FastpipeError, OSError):
    """A store that doesn't answer, refuses, or returns other bytes than requested."""


class PlanError(FastpipeError, TypeError):
    """A transform or recipe that can't be planned, printed or replayed as asked."""


class ReaderError(FastpipeError, ValueError):
    """A requested reader that can't be used."""


class UnknownReaderError(ReaderError):
    """No reader of that name is registered."""


class ReaderUnavailableError(ReaderError):
    """The reader is registered, but its package or shared library doesn't load here."""


class UnsupportedRequestError(ReaderError):
    """The reader can't return that box or scale, or can't read that kind of file exactly."""


class NotPackableError(ReaderError):
    """An image that can't be packed; its file is to be kept as it is.

    Attributes:
        reason: why the image can't be packed.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the image can't be packed: {self.reason}. Keep the file as it is: it is read as before"


class DecodeError(ReaderError, OSError):
    """A file that can't be decoded.

    Attributes:
        source: the path, or ``"<bytes>"`` for data without a path.
        format: the format that the first bytes show (``"JPEG"``); None for an unknown one.
        reader: the name of the last reader that refused the file.
        reason: the message of that reader.
        index: the index of the sample in its dataset; None outside of a dataset.
    """

    # torch's DataLoader re-raises a worker's error with one text as its only argument, so all others have defaults.
    def __init__(self, source: str, format: str | None = None, reader: str = "", reason: str = "") -> None:
        super().__init__(source, format, reader, reason)
        self.source = source
        self.format = format
        self.reader = reader
        self.reason = reason
        self.index: int | None = None

    def __reduce__(self) -> tuple[object, ...]:  # dask's way of pickling errors can't handle two bases
        return type(self), (self.source, self.format, self.reader, self.reason), vars(self)

    def __str__(self) -> str:
        if not self.reader:
            return self.source
        sample = "" if self.index is None else f", sample {self.index} of the dataset"
        about = f"{self.format or 'unknown format'}, reader {self.reader!r}{sample}"
        return f"can't decode {self.source} ({about}): {self.reason}"


class FastpipeWarning(UserWarning):
    """Something works, but slower or other than configured; the message says what it is and how to fix it."""
