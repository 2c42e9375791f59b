"""A ``__getitem__`` of a class derived from a dataset: the images that it takes from ``super()`` are lazy ones.

What such a method crops, resizes or transforms is decoded alone. The images that it returns have their pixels.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from fastpipe.datasets.bad_files import with_location
from fastpipe.pillow.lazy_image import load_images, source_of

GetItem = Callable[[Any, Any], Any]


class _Calls(threading.local):
    """The datasets whose own ``__getitem__`` runs in this thread, with the images that were given to each."""

    def __init__(self) -> None:
        self.running: list[tuple[Any, list[Any]]] = []


_calls = _Calls()


def wants_lazy_images(dataset: object) -> bool:
    """Whether the samples that are asked for are for the dataset's own ``__getitem__``, in this thread.

    Not where bad files are forgiven: they are to be found before the sample is handed out.
    """
    running = _calls.running
    return bool(running) and running[-1][0] is dataset and dataset.on_error == "raise"


def note_lazy_images(dataset: object, sample: object) -> None:
    """Notes the images of a sample that is handed to the dataset's own ``__getitem__``: their errors are told there."""
    if wants_lazy_images(dataset):
        parts = sample if isinstance(sample, tuple) else (sample,)
        _calls.running[-1][1].extend(source for source in map(source_of, parts) if source is not None)


def with_lazy_images(method: GetItem) -> GetItem:
    """A class's own ``__getitem__``, within which its dataset gives lazy images, and which returns none."""
    if hasattr(method, "_fastpipe_gives_lazy_images"):
        return method

    @functools.wraps(method)
    def __getitem__(self: object, index: Any) -> object:
        running = _calls.running
        if any(dataset is self for dataset, _ in running):
            return method(self, index)
        given: list[Any] = []
        running.append((self, given))
        try:
            sample = method(self, index)
            load_images(sample)
            return sample
        except Exception:  # raised again; the user's code may have wrapped a file's error in one of its own
            for source in given:
                if source.error is not None:  # the file's fault, wherever it showed
                    raise with_location(source.error, index, source.encoded.source) from source.error.__cause__
            raise
        finally:
            running.pop()

    __getitem__._fastpipe_gives_lazy_images = True  # type: ignore[attr-defined]
    return __getitem__
