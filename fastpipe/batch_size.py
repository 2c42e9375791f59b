"""`samples_in`: the number of samples in a batch of any form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastpipe.plain_lookup import class_attribute, is_a
from fastpipe.plain_way import raise_interruption


def samples_in(batch: object) -> int:
    """Number of samples in a batch: of collated tensors, of samples, or of the samples' parts, as by ``zip(*samples)``.

    A tuple of lists that are alike is taken for parts, a list of such lists for samples. A batch of a class that says
    something else when it is asked for its length, or raises, counts as one sample.
    """
    try:
        return _samples_in(batch, _NESTED)
    except (MemoryError, RecursionError):  # of its own ``len``, such as a ``__getattr__`` that calls itself
        return 1
    except (Exception, SystemExit) as error:  # a batch may be of any class
        raise_interruption(error)
        return 1


_NESTED = 8  # the most levels of lists and dicts that are looked into; a list may hold itself


def _samples_in(batch: Any, levels: int) -> int:
    if _is_tensor(batch) or not levels:
        return _length(batch)
    if is_a(batch, Mapping):
        return _samples_in(next(iter(batch.values())), levels - 1) if len(batch) else 0
    if is_a(batch, str):
        return 1
    if not is_a(batch, (list, tuple)) or not len(batch):
        return _length(batch)
    first = batch[0]
    if is_a(first, (list, tuple)) and len(first):
        return _samples_in_rows(batch, first, levels - 1)
    if is_a(first, Mapping):
        are_samples = all(is_a(part, Mapping) for part in batch)
        are_samples = are_samples and (len(batch) > 1 or not len(first) or _is_image(next(iter(first.values()))))
    else:
        are_samples = not _is_tensor(first) or all(map(_is_image, batch))
    return len(batch) if are_samples else _samples_in(first, levels - 1)


def _samples_in_rows(batch: Sequence[Any], first: Sequence[Any], levels: int) -> int:
    """The same for a batch that begins with a list."""
    are_rows = all(is_a(row, (list, tuple)) and len(row) for row in batch)
    if not are_rows or (_is_tensor(first[0]) and first[0].ndim > 3):  # several collated views
        return _samples_in(first[0], levels)
    are_parts = is_a(batch, tuple) or type(first[0]) is not type(batch[-1][0])
    return len(first if are_parts else batch)


def _is_tensor(thing: object) -> bool:
    """True for tensors and arrays; a nested tensor has no ``shape``, but its class has."""
    return class_attribute(thing, "shape") is not None


def _is_image(thing: Any) -> bool:
    """True for one image ``(C, H, W)``."""
    return _is_tensor(thing) and thing.ndim == 3 and _length(thing) <= 4


def _length(thing: Any) -> int:
    try:
        return len(thing)
    except TypeError:  # it has no dimension
        return 1
    except RuntimeError:  # raised by nested tensors
        return int(thing.size(0))
