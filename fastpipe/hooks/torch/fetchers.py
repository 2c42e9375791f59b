"""Keeps the knowledge of one of torch's fetchers as long as the fetcher: one epoch of a loader, or of a worker."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from torch.utils.data._utils.fetch import _BaseDatasetFetcher, _IterableDatasetFetcher

Fetcher: TypeAlias = "_BaseDatasetFetcher"
StreamFetcher: TypeAlias = "_IterableDatasetFetcher"
Made = TypeVar("Made")


def once_a_fetcher(make: Callable[[Fetcher], Made]) -> Callable[[Fetcher], Made]:
    """Decorates a function of a fetcher: its result is kept as long as the fetcher exists."""
    kept: weakref.WeakKeyDictionary[Fetcher, Made] = weakref.WeakKeyDictionary()

    @functools.wraps(make)
    def made_once(fetcher: Fetcher) -> Made:
        found = kept.get(fetcher)
        if found is None:
            found = kept[fetcher] = make(fetcher)
        return found

    return made_once
