"""Costs that nobody sees: objects that are copied into every worker, threads that fight for the CPUs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

import cv2
import numpy as np
import torch

from fastpipe.datasets.wrappers import inner_datasets
from fastpipe.tools.doctor.measurements import ObjectList, WorkerThreads

_LEAST = 1000  # shorter ones are no matter
_LOOKED_AT = 500


def object_lists(dataset: object) -> list[ObjectList]:
    """The large containers of Python objects among a dataset's attributes, the largest first.

    Looking at an object changes its reference count, and so its page of memory: a worker that was forked gets a copy
    of every page that it looks at, and in the end of all. Arrays, tensors and fastpipe's views have no such objects.

    Args:
        dataset: any; those inside torch's `Subset` and `ConcatDataset` are looked at as well.
    """
    found: list[ObjectList] = []
    _look_into(dataset, "dataset", found, set())
    return sorted(found, key=lambda one: -one.bytes)


def _look_into(dataset: object, name: str, found: list[ObjectList], seen: set[int]) -> None:
    for attribute, value in getattr(dataset, "__dict__", {}).items():
        objects = value.dtype == object and value.ndim == 1 if isinstance(value, np.ndarray) else _is_container(value)
        if objects and len(value) >= _LEAST and id(value) not in seen:
            seen.add(id(value))
            found.append(ObjectList(f"{name}.{attribute}", len(value), _bytes(value)))
    for where, part in inner_datasets(dataset).items():
        _look_into(part, f"{name}.{where}", found, seen)


def _is_container(value: object) -> bool:
    return isinstance(value, (list, tuple, dict, set, frozenset))


def _bytes(container: Collection[Any]) -> int:
    """The bytes of a container and its content, from its first items; shared items count as often as they come."""
    items: Iterable[Any] = container.items() if isinstance(container, dict) else container
    some = [_item_bytes(item) for item in islice(items, _LOOKED_AT)]
    return sys.getsizeof(container) + round(sum(some) / max(1, len(some)) * len(container))


def _item_bytes(item: object) -> int:
    if isinstance(item, (int, float, bool)) and not isinstance(item, np.generic) and -5 <= item <= 256:
        return 0  # small integers are made once
    inner = sum(_item_bytes(part) for part in islice(item, 16)) if isinstance(item, (list, tuple)) else 0
    return sys.getsizeof(item) + inner


def threads_here(dataset: object, decoding: int, used: bool) -> WorkerThreads:
    """The threads of this process, a worker that has made samples; `used`: those of libraries did work."""
    return WorkerThreads(torch.get_num_threads(), max(1, cv2.getNumThreads()), decoding, used)
