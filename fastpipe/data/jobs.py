"""Samples on their way, one by one (`Job`) and a batch of them (`Assembly`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastpipe import core
from fastpipe.program import BatchBuilder, Encoded, ImageBatch, Lot, Started, done_with
from fastpipe.types import Recipe

if TYPE_CHECKING:
    from fastpipe.data.base import ImageDataset


@dataclass(slots=True)
class Job:
    """One sample on its way: what was read, then what was drawn.

    Attributes:
        index: the sample that is read; may be negative.
        place: the sample that was asked for, whose random numbers are used: another one where this replaces it.
        path, target: of the sample that is read.
        epoch: None where the dataset has no seed.
        encoded, recipe: None where the user's loader does the work.
        orientation: the EXIF orientation that is applied; 1 for none.
        error: why it can't be read, None as long as it can.
        finished: an (image, target) to hand out as it stands, None where there is work to do.
    """

    index: int
    place: int
    path: str
    target: Any
    epoch: int | None
    encoded: Encoded | None = None
    orientation: int = 1
    recipe: Recipe | None = None
    error: Exception | None = None
    finished: tuple[Any, Any] | None = None


class Assembly:
    """The samples of one ``__getitems__``: in one tensor as long as all fit, else as a list.

    Jobs come a few at a time, read and drawn; the core makes their images while the next ones are read and drawn. Where
    one turns out bad, the others go on; `mend` then decides about the bad ones in their order, so that what is drawn
    for replacements doesn't depend on the number of threads.

    Args:
        dataset: does the work.
        threads: how many decode.
        builder: holds the tensor; None for a list.
        planned: no transform is left for behind the plan, and targets were transformed when the job was drawn.
        jobs: that have been decoded, or are bad.
        coming: gives the others, and with some the lot that they are.
    """

    def __init__(
        self,
        dataset: ImageDataset,
        threads: int,
        builder: BatchBuilder | None,
        planned: bool,
        jobs: Sequence[Job] = (),
        coming: Iterator[tuple[list[Job], Lot | None]] = iter(()),  # noqa: B008  # it has nothing to lose
    ) -> None:
        self._dataset = dataset
        self._threads = threads
        self._builder = builder
        self._planned = planned
        self._jobs: list[Job | None] = list(jobs)  # None: left out
        self._images: list[Any] = [None] * len(jobs)  # by position, in a list only
        self._coming = coming
        self._lots: list[tuple[Lot, list[Job]]] = []
        self._running: tuple[Started, list[tuple[int, Job]], core.Files | None] | None = None

    @property
    def draws_no_more(self) -> bool:
        """Whether what is left to do behind the last step draws nothing from the generators that others draw from."""
        return self._dataset.on_error in ("raise", "skip") or self._dataset.seed is not None

    def step(self) -> bool:
        """Has the next samples made, and finishes those before; False where there are none."""
        found = next(self._coming, None)
        if found is None:
            return False
        jobs, lot = found
        start = len(self._jobs)
        self._jobs += jobs
        self._images += [None] * len(jobs)
        if lot is None or not self._start(lot, jobs, start):
            self._decode(range(start, len(self._jobs)))
        return True

    def _start(self, lot: Lot, jobs: list[Job], start: int) -> bool:
        """Has a lot made; where it doesn't fit into the batch, its jobs become jobs like any others."""
        started = None if self._builder is None else lot.start(self._builder, start, self._threads)
        if started is None:
            for number, job in enumerate(jobs):
                job.encoded, job.recipe = lot.encoded(number), lot.recipe(number)
            return False
        self._settle()  # the ones before, while these are made
        self._lots.append((lot, jobs))
        self._running = started, [*enumerate(jobs, start)], lot.files
        return True

    def mended(self) -> list[tuple[Any, Any]] | ImageBatch:
        """The results, of all steps and after `mend`."""
        while self.step():
            pass
        self._settle()
        self.mend()
        return self.results()

    def mend(self) -> None:
        """Leaves the bad samples out, or puts others in their place, as the dataset's ``on_error`` says."""
        while (found := self._first_bad()) is not None:
            position, bad = found
            for other in self._dataset._instead(bad, self._planned):
                self._jobs[position] = other
                self._decode([position])
                self._settle()
                if other.error is None:
                    break
            else:
                self._jobs[position] = None

    def results(self) -> list[tuple[Any, Any]] | ImageBatch:
        """The samples in order, without those that were left out."""
        kept = [(position, job) for position, job in enumerate(self._jobs) if job is not None]
        if self._builder is not None and kept:
            return self._builder.finish([job.target for _, job in kept], [position for position, _ in kept])
        return [job.finished or self._finished(job, self._images[position]) for position, job in kept]

    def _finished(self, job: Job, image: Any) -> tuple[Any, Any]:
        dataset = self._dataset
        return dataset._assembled(job, image) if self._planned else dataset._finish(job, image)

    def _first_bad(self) -> tuple[int, Job] | None:
        for position, job in enumerate(self._jobs):
            if job is not None and job.error is not None:
                return position, job
        return None

    def _decode(self, positions: Iterable[int]) -> None:
        dataset = self._dataset
        chosen = self._sound(positions)
        builder = self._builder
        if builder is not None and all(dataset._fits(builder, position, job) for position, job in chosen):
            started = dataset._start_into(builder, chosen, self._threads)
            self._settle()  # the ones before, while these are made
            self._running = started, chosen, None
            return
        self._settle()
        if builder is not None:  # this can't be one tensor: once more, as a list
            self._builder = None
            for lot, jobs in self._lots:
                for number, job in enumerate(jobs):
                    job.recipe = lot.recipe(number)
            chosen = self._sound(range(len(self._jobs)))
        images = dataset._map(self._threads, dataset._decode_or_fail, [job for _, job in chosen])
        for (position, _), image in zip(chosen, images, strict=True):
            self._images[position] = image
        _let_go(chosen, None)

    def _settle(self) -> None:
        """Waits for the samples that are being made, and makes those that the core has left."""
        running, self._running = self._running, None
        if running is not None:
            started, chosen, files = running
            self._dataset._finish_into(started, chosen, self._threads)
            _let_go(chosen, files)

    def _sound(self, positions: Iterable[int]) -> list[tuple[int, Job]]:
        return [(at, job) for at in positions if (job := self._jobs[at]) is not None and job.error is None]


def _let_go(chosen: list[tuple[int, Job]], files: core.Files | None) -> None:
    """Forgets the files of samples that were made; of a lot these."""
    if files is not None:
        done_with(files)
        return
    places = [place for _, job in chosen if (place := getattr(job.encoded, "held", None)) is not None]
    for _, job in chosen:
        job.encoded = None
    for files in {id(files): files for files, _ in places}.values():
        done_with(files)
