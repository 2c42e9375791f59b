"""A worker in which the dataset is examined, and what workers take: memory, threads, and the batches of trials."""

from __future__ import annotations

import math
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch

from fastpipe.datasets.wrappers import inner_datasets
from fastpipe.environment import opencv
from fastpipe.rng import keyed_globals
from fastpipe.tools.doctor.loader_setup import LoaderSetup
from fastpipe.tools.doctor.measurements import ObjectList, StageProfile, WorkerThreads
from fastpipe.tools.timing import Workers

_BATCH_S = 0.15  # the time that a trial's batch should take one worker
_LEAST = 1000  # containers with fewer items are ignored
_LOOKED_AT = 500  # the number of a container's items whose size is measured

Result = TypeVar("Result")


class Probe:
    """A worker started as the training's loader starts them, alive between calls; used as a context manager.

    Attributes:
        why_here: why the dataset can't be sent to a worker, so that functions run in this process; else empty.
        start_s: seconds from the start to the worker's first answer.
    """

    def __init__(self, setup: LoaderSetup) -> None:
        self.why_here = ""
        begun = time.perf_counter()
        init = setup.loader_for((), 1, 1).worker_init_fn
        self._workers = Workers(setup.dataset, 1, worker_init_fn=init, multiprocessing_context=setup.context)
        try:
            self.run(id)
        except (pickle.PicklingError, AttributeError, TypeError) as error:  # raised by pickle for unpicklable objects
            self.why_here = f"{type(error).__name__}: {error}".splitlines()[0]
            self._workers = Workers(setup.dataset, 0)
        self.start_s = time.perf_counter() - begun

    def run(self, work: Callable[[Any], Result]) -> Result:
        """Calls ``work(dataset)`` in the worker, and returns its result; both must be picklable."""
        result: Result
        with keyed_globals(0), warnings.catch_warnings():  # starting a worker draws from torch's generator
            warnings.filterwarnings("ignore", "Got pickle error", UserWarning)  # `why_here` reports it
            (result,) = self._workers.run([work])
        return result

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *error: object) -> None:
        del self._workers  # torch's loader ends its workers when it is deleted


def start_s(workers: int, one_s: float, cpus: int) -> float:
    """Seconds that workers are expected to take for their start and their first two batches each.

    Args:
        workers: their number.
        one_s: the seconds that a single worker takes to start.
        cpus: the usable CPUs, on which they start and work.
    """
    return math.ceil(workers / cpus) * (one_s + 2 * _BATCH_S)


def trial_batch_size(setup: LoaderSetup, stages: StageProfile, most_workers: int, shared_free: int | None) -> int:
    """The batch size of a trial: the training's, or smaller if batches would take long or exceed free shared memory.

    `shared_free` is in bytes; None for no limit.
    """
    size = max(1, min(setup.batch_size, int(_BATCH_S * 1e6 / max(1.0, stages.total_us))))
    if shared_free is None:
        return size
    # A trial must not cause the bus error that doctor warns of.
    in_flight = most_workers * setup.prefetch + 2
    return max(1, min(size, int(shared_free / 2 / in_flight / stages.image_bytes)))


def object_lists(dataset: object) -> list[ObjectList]:
    """The large containers of Python objects among a dataset's attributes, the largest first.

    Access to an object changes its reference count, and so its page of memory: a forked worker gets a copy of every
    page that it accesses, and in the end of all. Arrays, tensors and fastpipe's views have no such objects.
    """
    lists: list[ObjectList] = []
    _look_into(dataset, "dataset", lists, set())
    return sorted(lists, key=lambda one: -one.bytes)


def _look_into(dataset: object, name: str, found: list[ObjectList], seen: set[int]) -> None:
    for attribute, value in getattr(dataset, "__dict__", {}).items():
        if isinstance(value, np.ndarray):
            objects = value.dtype == object and value.ndim == 1
        else:
            objects = isinstance(value, (list, tuple, dict, set, frozenset))
        if objects and len(value) >= _LEAST and id(value) not in seen:
            seen.add(id(value))
            found.append(ObjectList(f"{name}.{attribute}", len(value), _bytes(value)))
    for where, part in inner_datasets(dataset).items():
        _look_into(part, f"{name}.{where}", found, seen)


def _bytes(container: Collection[object]) -> int:
    """The bytes of a container and its items, estimated from its first items; shared items count several times."""
    items: Iterable[object] = container.items() if isinstance(container, dict) else container
    some = [_item_bytes(item) for item in islice(items, _LOOKED_AT)]
    return sys.getsizeof(container) + round(sum(some) / max(1, len(some)) * len(container))


def _item_bytes(item: object) -> int:
    if isinstance(item, (int, float, bool)) and not isinstance(item, np.generic) and -5 <= item <= 256:
        return 0  # Python shares small integers
    inner = sum(_item_bytes(part) for part in islice(item, 16)) if isinstance(item, (list, tuple)) else 0
    return sys.getsizeof(item) + inner


def threads_here(dataset: object, decoding: int, used: bool) -> WorkerThreads:
    """The threads of this process, a worker that has made samples; `used` says whether libraries' threads worked."""
    cv2 = opencv() if "cv2" in sys.modules else None  # else no sample has used it
    return WorkerThreads(torch.get_num_threads(), max(1, cv2.getNumThreads()) if cv2 else 1, decoding, used)
