"""Times of torch's own loaders: how long the training waited for their batches."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.patches import Function

if TYPE_CHECKING:
    from torch.utils.data.dataloader import _BaseDataLoaderIter


class LoaderTimes:
    """The times of iterators over loaders, each of which may run for several epochs."""

    def __init__(self) -> None:
        self._until: weakref.WeakKeyDictionary[_BaseDataLoaderIter, float] = weakref.WeakKeyDictionary()

    def next_of(self, iterator: _BaseDataLoaderIter, plain: Function) -> object:
        """Returns the iterator's next batch, and counts the time.

        Args:
            iterator: torch's iterator.
            plain: its own method.
        """
        asked = time.perf_counter()
        until = self._until.pop(iterator, asked)  # without the time between two epochs
        batch = plain(iterator)
        got = self._until[iterator] = time.perf_counter()
        site: Site = LEDGER.site("loader", f"DataLoader({type(iterator._dataset).__name__})")
        site.waited += got - asked
        site.running += got - until
        site.images += _samples_in(batch)
        return batch


def _samples_in(batch: object) -> int:
    """Number of samples in a batch, by its first tensor or list of other values, within lists, tuples and dicts."""
    if isinstance(batch, (list, tuple, dict)) and type(batch) in (list, tuple, dict) and batch:
        first = next(iter(batch.values() if isinstance(batch, dict) else batch))
        return _samples_in(first) if type(first) in (list, tuple, dict) or hasattr(first, "shape") else len(batch)
    shape: Sequence[int] = getattr(batch, "shape", ())
    return int(shape[0]) if len(shape) else 1
