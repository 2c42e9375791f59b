"""Handles samples whose files can't be read: leaves them out, replaces them or asks the user's function what to do.

Bad files are also counted, logged and warned about.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from fastpipe.counts import pluralize
from fastpipe.datasets.bad_files import (
    REPLACED,
    SKIPPED,
    BadFile,
    BadFileCounts,
    BadFileRecord,
    OnError,
    is_bad_file,
    warn_again,
    with_location,
    with_note,
    without_tracebacks,
)
from fastpipe.datasets.bad_files_log import append_once
from fastpipe.datasets.private import PrivateState
from fastpipe.errors import BadFilesError, DatasetError
from fastpipe.executor import SampleTask
from fastpipe.rng import sample_key
from fastpipe.types import Target

_TRIES = 32


class PolicyDataset(Protocol):
    """The part of an `ImageDataset` that the policy for its bad files uses."""

    on_error: OnError
    max_bad_fraction: float
    bad_files_log: str | None
    seed: int | None
    _fastpipe: PrivateState

    @property
    def plans(self) -> bool: ...
    def __len__(self) -> int: ...
    def sample(self, index: int) -> tuple[str, Target]: ...
    def alternatives(self, index: int, generator: np.random.Generator) -> Iterator[int]: ...
    def _fastpipe_tasks(self, indices: Sequence[int], epoch: int | None) -> list[SampleTask]: ...


class BadFilePolicy:
    """A `fastpipe.executor.tasks.FailurePolicy` that follows a dataset's attributes, such as ``on_error``.

    Args:
        dataset: the `ImageDataset`; held weakly, because its executor holds this.

    Raises:
        DatasetError: the dataset's ``on_error`` or ``max_bad_fraction`` isn't valid.
    """

    def __init__(self, dataset: PolicyDataset) -> None:
        on_error, fraction = dataset.on_error, dataset.max_bad_fraction
        if on_error not in ("raise", "skip", "replace") and not callable(on_error):
            raise DatasetError(
                f"on_error={on_error!r}: give 'raise', 'skip', 'replace', or a function that takes a BadFile and "
                "returns None, an index or an (image, target)."
            )
        if not isinstance(fraction, (int, float, np.number)) or not 0 <= fraction <= 1:
            raise DatasetError(f"max_bad_fraction={fraction!r:.80}: give a share of the samples, from 0 to 1.")
        self._dataset: PolicyDataset = weakref.proxy(dataset)
        self._told_of_log = False

    @property
    def _record(self) -> BadFileRecord:
        return self._dataset._fastpipe.bad_record(len(self._dataset))

    @property
    def _see_log(self) -> str:
        """The last sentence of a message: where bad files are listed, or how to have them listed."""
        log = self._dataset.bad_files_log
        return " Give bad_files_log='bad_files.csv' to have them listed." if log is None else f" See {log}."

    def _task(self, index: int, instead_of: SampleTask) -> SampleTask:
        """A task for a replacement sample, with the random key of the sample that it replaces."""
        (task,) = self._dataset._fastpipe_tasks([index], instead_of.epoch)
        task.requested_index, task.key = instead_of.requested_index, instead_of.key
        return task

    def failed(self, task: SampleTask, error: Exception) -> None:
        """Stores the error in the task if the file is bad; raises any other error, and with on_error="raise" all."""
        if not is_bad_file(error, self._dataset.plans):
            raise with_note(error, task.source_index, task.path)
        named = with_location(error, task.source_index, task.path)
        if not self.forgives:
            raise named from error.__cause__
        task.error = without_tracebacks(error)

    def in_user_code(self, task: SampleTask, error: Exception) -> Exception:
        return with_note(error, task.source_index, task.path)

    @property
    def forgives(self) -> bool:
        return self._dataset.on_error != "raise"

    @property
    def draws(self) -> bool:
        return self._dataset.on_error not in ("raise", "skip") and self._dataset.seed is None

    def counts(self) -> BadFileCounts:
        """Counts of samples that couldn't be read; zeros with ``on_error="raise"``."""
        return self._record.counts() if self.forgives else BadFileCounts(0, 0, 0)

    def begin_epoch(self, samples: int, by_loader: bool) -> None:
        """Begins an epoch of that many samples; a loader that calls this will call `end_epoch`, too."""
        if not self.forgives:
            return
        if by_loader:
            self.end_epoch()
            self._record.begin(min(samples, len(self._dataset)), by_loader=True)
        elif not (record := self._record).shared["has_loader"]:
            record.begin(samples, by_loader=False)

    def end_epoch(self) -> None:
        """Ends a loader's epoch; warns if any of its samples were bad."""
        if not self.forgives or not (record := self._record).end():
            return
        counts = record.counts()
        done = []
        if counts.skipped:
            done.append(f"{counts.skipped:,} left out, so that batches are smaller")
        if counts.replaced:
            done.append(f"{counts.replaced:,} replaced by others")
        if done and record.first_warning():
            number = (
                f"{counts.skipped + counts.replaced} of the {pluralize(record.shared['size'], 'sample')} of this epoch"
            )
            warn_again(f"{number} can't be read: {' and '.join(done)}.{self._see_log}")

    def substitutes(self, task: SampleTask) -> Iterator[SampleTask]:
        """Yields tasks to try in place of a failed one, until one succeeds; yields none to leave the sample out.

        Raises:
            BadFilesError: there are too many bad files, or no good one was found.
        """
        bad, on_error = self._bad_file(task), self._dataset.on_error
        if callable(on_error):
            yield from self._answers(on_error, bad, task)
        elif on_error == "replace":
            self._note(bad, REPLACED)
            yield from self._replacements(bad, task)
        else:
            self._note(bad, SKIPPED)

    def _replacements(self, bad: BadFile, task: SampleTask) -> Iterator[SampleTask]:
        key = sample_key(self._dataset.seed or 0, task.epoch or 0, bad.index)
        tried = 0
        others = self._dataset.alternatives(bad.index, np.random.default_rng(key))
        for index in itertools.islice(others, _TRIES):
            other = self._task(index, task)
            yield other
            self._list(self._bad_file(other))  # a good sample would have ended this loop
            tried += 1
        raise BadFilesError(
            f"{bad.path} (sample {bad.index}) can't be read ({bad.reason}), and there is no good sample of the same "
            f"target {bad.target!r} to replace it: "
            + (f"{pluralize(tried, 'other')} tried, all bad." if tried else "it is the only one.")
            + self._see_log
        )

    def _answers(self, on_error: Callable[[BadFile], object], bad: BadFile, task: SampleTask) -> Iterator[SampleTask]:
        asked = bad
        for _ in range(_TRIES):
            answer = on_error(bad)
            if answer is None:
                self._note(asked, SKIPPED)
                return
            self._note(asked, REPLACED)
            if isinstance(answer, tuple) and len(answer) == 2:
                yield SampleTask(
                    bad.index, task.requested_index, bad.path, answer[1], bad.path, task.epoch, finished=answer
                )
                return
            if isinstance(answer, bool) or not isinstance(answer, (int, np.integer)):
                raise DatasetError(
                    f"on_error returned {answer!r:.80} for {bad.path}: return None to leave the sample out, the index "
                    "of another one, or a finished (image, target)."
                )
            other = self._task(int(answer), task)
            yield other
            bad = self._bad_file(other)
            self._list(bad)
        raise BadFilesError(
            f"on_error named {_TRIES} samples in a row to replace {asked.path} (sample {asked.index}), and all are "
            f"bad.{self._see_log}"
        )

    def _bad_file(self, task: SampleTask) -> BadFile:
        assert task.error is not None
        target = self._dataset.sample(task.source_index)[1]  # the task's target may be transformed
        return BadFile(task.source_index, task.path, target, task.epoch, task.error)

    def _note(self, bad: BadFile, outcome: int) -> None:
        """Counts and logs a requested sample that is bad; warns if no loader will; raises if too many are bad."""
        record, most = self._record, self._dataset.max_bad_fraction
        record.mark(bad.index, outcome)
        self._list(bad)
        if not record.shared["has_loader"] and record.first_warning():
            warn_again(
                f"{bad.path} (sample {bad.index}) can't be read: {bad.reason}. It is "
                f"{'left out' if outcome == SKIPPED else 'replaced'}; no further warning is given until "
                f"the next epoch.{self._see_log}"
            )
        size = record.shared["size"]
        if most < 1 and (count := record.exceeding(most * size)):
            raise BadFilesError(
                f"{count} of the {pluralize(size, 'sample')} of this epoch can't be read, more than max_bad_fraction="
                f"{most} allows; the last is {bad.path}: {bad.reason}.{self._see_log} Is the disk "
                "there? Mend or remove the files, or allow a larger fraction."
            )

    def _list(self, bad: BadFile) -> None:
        log = self._dataset.bad_files_log
        if log is None:
            return
        try:
            append_once(log, bad, self._record, lambda index: self._dataset.sample(index)[0])
        except OSError as error:  # the training goes on without the log
            if not self._told_of_log:
                self._told_of_log = True
                warn_again(
                    f"bad files can't be listed in {log} ({error}); they are only counted. Give "
                    "bad_files_log= a file that can be written."
                )
