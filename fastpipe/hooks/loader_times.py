"""Times of torch's own loaders: how long the training waited for their batches."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function

if TYPE_CHECKING:
    from torch.utils.data.dataloader import _BaseDataLoaderIter


def timed(plain: Function) -> Function:
    """Wraps ``__next__`` of iterators over loaders, each of which may run for several epochs: counts the times."""
    last_batches: weakref.WeakKeyDictionary[_BaseDataLoaderIter, float] = weakref.WeakKeyDictionary()

    def next_batch(self: _BaseDataLoaderIter) -> object:
        asked = time.perf_counter()
        last = last_batches.pop(self, asked)  # without the time between two epochs
        batch = plain(self)
        got = last_batches[self] = time.perf_counter()
        site = LEDGER.site("loader", f"DataLoader({type(self._dataset).__name__})")
        site.waited += got - asked
        site.running += got - last
        site.images += _samples_in(batch)
        return batch

    return next_batch


def _samples_in(batch: object) -> int:
    """Number of samples in a batch, by its first tensor or list of other values, within lists, tuples and dicts."""
    if isinstance(batch, (list, tuple, dict)) and type(batch) in (list, tuple, dict) and batch:
        first = next(iter(batch.values() if isinstance(batch, dict) else batch))
        return _samples_in(first) if type(first) in (list, tuple, dict) or hasattr(first, "shape") else len(batch)
    shape: Sequence[int] = getattr(batch, "shape", ())
    return int(shape[0]) if len(shape) else 1
