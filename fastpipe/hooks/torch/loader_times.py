"""Times of torch's own loaders: how long the training waited for their batches."""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING

from fastpipe.batch_size import samples_in
from fastpipe.hooks.guard import guard
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function

if TYPE_CHECKING:
    from torch.utils.data.dataloader import _BaseDataLoaderIter


def timed(plain: Function) -> Function:
    """Wraps ``__next__`` of iterators over loaders, each of which may run for several epochs: counts the times."""
    in_times = guard("a loader's times")
    last_batches: weakref.WeakKeyDictionary[_BaseDataLoaderIter, float] = weakref.WeakKeyDictionary()

    def next_batch(self: _BaseDataLoaderIter) -> object:
        asked = last = time.perf_counter()
        with in_times:
            last = last_batches.pop(self, asked)  # without the time between two epochs
        batch = plain(self)
        with in_times:
            got = last_batches[self] = time.perf_counter()
            site = LEDGER.site("loader", f"DataLoader({type(self._dataset).__name__})")
            site.waited += got - asked
            site.running += got - last
            site.images += samples_in(batch)
        return batch

    return next_batch
