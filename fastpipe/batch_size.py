"""`samples_in`: the number of samples in a batch of any form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def samples_in(batch: object) -> int:
    """Number of samples in a batch: of collated tensors, of samples, or of the samples' parts, as by ``zip(*samples)``.

    A tuple of lists that are alike is taken for parts, a list of such lists for samples.
    """
    if _is_tensor(batch):
        return _length(batch)
    if isinstance(batch, Mapping):
        return samples_in(next(iter(batch.values()))) if batch else 0
    if isinstance(batch, str):
        return 1
    if not isinstance(batch, (list, tuple)) or not batch:
        return _length(batch)
    first = batch[0]
    if isinstance(first, (list, tuple)) and first:
        return _samples_in_rows(batch, first)
    if isinstance(first, Mapping):
        are_samples = all(isinstance(part, Mapping) for part in batch)
        are_samples = are_samples and (len(batch) > 1 or not first or _is_image(next(iter(first.values()))))
    else:
        are_samples = not _is_tensor(first) or all(map(_is_image, batch))
    return len(batch) if are_samples else samples_in(first)


def _samples_in_rows(batch: Sequence[Any], first: Sequence[Any]) -> int:
    """The same for a batch that begins with a list."""
    are_rows = all(isinstance(row, (list, tuple)) and row for row in batch)
    if not are_rows or (_is_tensor(first[0]) and first[0].ndim > 3):  # several collated views
        return samples_in(first[0])
    are_parts = isinstance(batch, tuple) or type(first[0]) is not type(batch[-1][0])
    return len(first if are_parts else batch)


def _is_tensor(thing: object) -> bool:
    """True for tensors and arrays; a nested tensor has no ``shape``, but its class has."""
    return hasattr(type(thing), "shape")


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
