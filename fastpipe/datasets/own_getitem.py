"""Lazy images for the ``__getitem__`` of a class derived from a dataset: ``super().__getitem__`` returns them to it.

Only the parts of an image that this method crops, resizes or transforms are decoded. Images that the method returns
are loaded first.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from fastpipe.datasets.bad_files import with_location
from fastpipe.pillow.image_record import source_of
from fastpipe.pillow.lazy_image import load_images
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.plain_lookup import own_attribute

Owner = TypeVar("Owner")
Item = TypeVar("Item")


class _Call(NamedTuple):
    """A running call of a dataset's own ``__getitem__``, and the sources of the lazy images that it was given."""

    dataset: object
    given: list[LazySource]


class _Calls(threading.local):
    """The calls that run in this thread, the innermost last."""

    def __init__(self) -> None:
        self.running: list[_Call] = []


_calls = _Calls()


def wants_lazy_images(dataset: object) -> bool:
    """True if this thread runs the dataset's own ``__getitem__``, which takes lazy images.

    False if `on_error` forgives bad files: these have to be found before the sample is handed out.
    """
    running = _calls.running
    return bool(running) and running[-1].dataset is dataset and getattr(dataset, "on_error", None) == "raise"


def note_lazy_images(dataset: object, sample: object) -> None:
    """Notes the lazy images handed to the dataset's own ``__getitem__``, which will raise their files' errors."""
    if wants_lazy_images(dataset):
        parts = sample if isinstance(sample, tuple) else (sample,)
        _calls.running[-1].given.extend(source for source in map(source_of, parts) if source is not None)


def with_lazy_images(method: Callable[[Owner, int], Item]) -> Callable[[Owner, int], Item]:
    """Wraps a class's own ``__getitem__``: its dataset gives it lazy images, and the wrapper loads those it returns."""
    if own_attribute(method, "_fastpipe_gives_lazy_images"):
        return method

    @functools.wraps(method)
    def __getitem__(self: Owner, index: int) -> Item:
        running = _calls.running
        if any(call.dataset is self for call in running):
            return method(self, index)
        given: list[LazySource] = []
        running.append(_Call(self, given))
        try:
            sample = method(self, index)
            load_images(sample)
            return sample
        except Exception:  # raised again; the user's code may have wrapped a file's error in one of its own
            for source in given:
                if source.error is not None:  # the file caused the error, whatever was raised
                    raise with_location(source.error, index, source.encoded.source) from source.error.__cause__
            raise
        finally:
            running.pop()

    __getitem__._fastpipe_gives_lazy_images = True  # type: ignore[attr-defined]
    return __getitem__
