"""What a dataset does about its bad files: leave out, replace, ask; list, count, warn and stop."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fastpipe.data._bad_files_log import append_once
from fastpipe.data.bad_files import (
    REPLACED,
    SKIPPED,
    BadFile,
    BadFileCounts,
    BadFileRecord,
    OnError,
    alike,
    check_policy,
    warn_again,
)
from fastpipe.data.jobs import Job
from fastpipe.data.table import Array
from fastpipe.errors import BadFilesError, DatasetError
from fastpipe.paths import whole
from fastpipe.rng import sample_key

_TRIES = 32


class BadFileHandling:
    """The part of a dataset that decides about samples whose files can't be read.

    Args:
        on_error, bad_files_log, max_bad_fraction: see `ImageDataset`.

    Raises:
        DatasetError: one of them is none of what is accepted.
    """

    # The dataset's:
    seed: int | None
    sample: Callable[[int], tuple[str, Any]]
    _begun_job: Callable[[int, int | None, int | None], Job]
    _read_or_fail: Callable[[Job], Job]
    _draw_all: Callable[[Sequence[Job], bool], None]

    on_error: OnError = "raise"
    max_bad_fraction: float = 0.1
    _record: BadFileRecord | None = None
    _told_of_log = False

    def __init__(
        self, on_error: OnError, bad_files_log: str | os.PathLike[str] | None, max_bad_fraction: float
    ) -> None:
        check_policy(on_error, max_bad_fraction)
        self.on_error = on_error
        # Whole, so that workers, ranks and a later chdir all mean the same file.
        self.bad_files_log = None if bad_files_log is None else whole(bad_files_log)
        self.max_bad_fraction = max_bad_fraction

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def bad_files(self) -> BadFileCounts:
        """How many samples couldn't be read, in this epoch and in all, by whichever worker; zeros with "raise"."""
        return BadFileCounts(0, 0, 0) if self.on_error == "raise" else self._bad_record().counts()

    def begin_epoch(self, samples: int) -> None:
        """A loader is about to ask for an epoch of that many samples, and will call `end_epoch`.

        `fastpipe.DataLoader` does; another loader needn't: then each `set_epoch` begins an epoch of all samples.
        """
        if self.on_error != "raise":
            self.end_epoch()
            self._bad_record().begin(min(samples, len(self)), by_loader=True)

    def end_epoch(self) -> None:
        """The loader has got its samples: warns, if any were bad."""
        if self.on_error == "raise" or not (record := self._bad_record()).end():
            return
        counts = record.counts()
        done = []
        if counts.skipped:
            done.append(f"{counts.skipped} were left out, so that batches are smaller by them")
        if counts.replaced:
            done.append(f"{counts.replaced} were replaced by others")
        if done and record.first_warning():
            number = f"{counts.skipped + counts.replaced} of the {record.size} samples of this epoch"
            warn_again(f"{number} can't be read: {' and '.join(done)}.{self._see_log()}")

    def alternatives(self, index: int, generator: np.random.Generator) -> Iterator[int]:
        """Samples to try in place of a bad one: by default all others of the same target, in random order.

        Override it for another idea of what is alike; it should depend on its arguments alone.

        Args:
            index: the bad sample.
            generator: seeded by (seed, epoch, index).
        """
        return alike(len(self), index, generator, self._labels(), lambda position: self.sample(position)[1])

    def _labels(self) -> Array | None:
        """All targets as an array, where there is one."""
        return None

    def _instead(self, job: Job, with_targets: bool) -> Iterator[Job]:
        """Samples to try in place of a bad one, read and drawn, until one can be decoded; none to leave it out.

        Raises:
            BadFilesError: there are too many bad files, or no good one was found.
        """
        bad = self._bad_file(job)
        if self.on_error == "skip":
            self._note(bad, SKIPPED)
        elif self.on_error == "replace":
            self._note(bad, REPLACED)
            yield from self._replacements(bad, job, with_targets)
        else:
            yield from self._answers(bad, job, with_targets)

    def _replacements(self, bad: BadFile, job: Job, with_targets: bool) -> Iterator[Job]:
        key = sample_key(self.seed or 0, job.epoch or 0, bad.index)
        tried = 0
        for index in itertools.islice(self.alternatives(bad.index, np.random.default_rng(key)), _TRIES):
            other = self._begun(index, job, with_targets)
            if other.error is None:
                yield other
            self._list(self._bad_file(other))  # or it would have been the last
            tried += 1
        raise BadFilesError(
            f"{bad.path} (sample {bad.index}) can't be read ({bad.reason}), and there is no good sample of the same "
            f"target {bad.target!r} to replace it: "
            + (f"{tried} others were tried, all bad." if tried else "it is the only one.")
            + self._see_log()
        )

    def _answers(self, bad: BadFile, job: Job, with_targets: bool) -> Iterator[Job]:
        asked = bad
        for _ in range(_TRIES):
            answer: Any = self.on_error(bad)  # type: ignore[operator] # a function: the words are dealt with
            if answer is None:
                self._note(asked, SKIPPED)
                return
            self._note(asked, REPLACED)
            if isinstance(answer, tuple) and len(answer) == 2:
                yield Job(bad.index, job.place, bad.path, answer[1], job.epoch, finished=answer)
                return
            if isinstance(answer, bool) or not isinstance(answer, (int, np.integer)):
                raise DatasetError(
                    f"on_error returned {answer!r:.80} for {bad.path}: return None to leave the sample out, the index "
                    "of another one, or a finished (image, target)."
                )
            other = self._begun(int(answer), job, with_targets)
            if other.error is None:
                yield other
            bad = self._bad_file(other)
            self._list(bad)
        raise BadFilesError(
            f"on_error named {_TRIES} samples in a row to replace {asked.path} (sample {asked.index}), and all are "
            f"bad.{self._see_log()}"
        )

    def _begun(self, index: int, bad: Job, with_targets: bool) -> Job:
        """A sample to take in a bad one's place, read and drawn."""
        job = self._read_or_fail(self._begun_job(index, bad.epoch, bad.place))
        self._draw_all([job], with_targets)
        return job

    def _bad_file(self, job: Job) -> BadFile:
        assert job.error is not None
        target = self.sample(job.index)[1]  # the job's may have been transformed
        return BadFile(self._from_front(job.index), job.path, target, job.epoch, job.error)

    def _from_front(self, index: int) -> int:
        return index + len(self) if index < 0 else index

    def _bad_record(self) -> BadFileRecord:
        if self._record is None or self._record.count != len(self):
            self._record = BadFileRecord(len(self))
        return self._record

    def _share_record(self) -> None:
        """Makes the record anew, before workers are forked, so that all have the same."""
        self._record = None
        if self.on_error != "raise":
            self._bad_record()

    def _note(self, bad: BadFile, outcome: int) -> None:
        """Counts and lists a sample that was asked for; warns where no loader will, and stops where there are many."""
        record = self._bad_record()
        record.mark(bad.index, outcome)
        self._list(bad)
        if not record.has_loader and record.first_warning():
            warn_again(
                f"{bad.path} (sample {bad.index}) can't be read: {bad.reason}. It is "
                f"{'left out' if outcome == SKIPPED else 'replaced'}; more bad files are dealt with in silence until "
                f"the next epoch.{self._see_log()}"
            )
        if self.max_bad_fraction < 1 and (count := record.bad_now()) > self.max_bad_fraction * record.size:
            raise BadFilesError(
                f"{count} of the {record.size} samples of this epoch can't be read, more than max_bad_fraction="
                f"{self.max_bad_fraction} allows; the last is {bad.path}: {bad.reason}.{self._see_log()} Is the disk "
                "there? Mend or remove the files, or allow a larger fraction."
            )

    def _list(self, bad: BadFile) -> None:
        if self.bad_files_log is None:
            return
        try:
            append_once(self.bad_files_log, bad, self._bad_record(), lambda index: self.sample(index)[0])
        except OSError as error:  # no reason to stop a training
            if not self._told_of_log:
                self._told_of_log = True
                warn_again(
                    f"bad files can't be listed in {self.bad_files_log} ({error}); they are only counted. Give "
                    "bad_files_log= a file that can be written."
                )

    def _see_log(self) -> str:
        if self.bad_files_log is None:
            return " Give bad_files_log='bad_files.csv' to have them listed."
        return f" See {self.bad_files_log}."
