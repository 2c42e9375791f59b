"""One DataLoader worker that runs what it is told: times taken there are those of training."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from torch.utils.data import DataLoader as TorchDataLoader

from fastpipe.errors import FastpipeError
from fastpipe.pipeline import keyed_globals
from fastpipe.tools.doctor.subject import Subject

__all__ = ["Probe"]

Result = TypeVar("Result")


class _Host:
    """Takes the dataset's place in the worker: an item is what a function makes of the dataset.

    Otherwise it is the dataset, for a ``worker_init_fn`` that looks at it or changes it.
    """

    def __init__(self, dataset: Any) -> None:
        object.__setattr__(self, "_hosted", dataset)

    def __getitem__(self, work: Callable[[Any], Any]) -> Any:
        try:
            return work(self._hosted)
        except FastpipeError as error:
            return error  # as a value: torch would put a traceback into its message

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hosted, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._hosted, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Host, (self._hosted,)


class _Next:
    """A sampler of the one item that it was last told."""

    item: Any = None

    def __iter__(self) -> Iterator[Any]:
        yield self.item

    def __len__(self) -> int:
        return 1


def _as_it_is(value: Any) -> Any:
    return value


class Probe:
    """A worker of the subject's making, alive between calls; used as a context manager.

    Attributes:
        why_here: why the dataset can't be sent to a worker, so that the work is done in this process; else empty.
    """

    def __init__(self, subject: Subject) -> None:
        self.why_here = ""
        self._subject = subject
        self._next = _Next()
        self._loader: Any = None
        self._started = False

    def run(self, work: Callable[[Any], Result]) -> Result:
        """What ``work(dataset)`` gives, in the worker.

        Args:
            work: a function that can be pickled, as its result can.
        """
        with keyed_globals(0):  # starting a worker draws from torch's generator
            try:
                return self._one(work)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                if self._started:
                    raise
                self.why_here = f"{type(error).__name__}: {error}".splitlines()[0]
                self._loader = self._made(0)
                return self._one(work)

    def _one(self, work: Callable[[Any], Result]) -> Result:
        if self._loader is None:
            self._loader = self._made(1)
        self._next.item = work
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Got pickle error", UserWarning)  # `why_here` says it
            results: list[Result] = list(self._loader)
        self._started = True
        if isinstance(results[0], FastpipeError):
            raise results[0]
        return results[0]

    def _made(self, workers: int) -> Any:
        given = self._subject.loader_for((), 1, workers)
        loading: Any = TorchDataLoader
        return loading(
            _Host(self._subject.dataset),
            batch_size=None,
            sampler=self._next,
            collate_fn=_as_it_is,
            num_workers=workers,
            persistent_workers=workers > 0,
            worker_init_fn=given.worker_init_fn,
            multiprocessing_context=self._subject.context if workers else None,
        )

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *error: object) -> None:
        self._loader = None  # torch's loader ends its workers when it goes
