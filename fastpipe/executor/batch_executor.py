"""The one path that makes samples: read, draw, lower, run in the core, make in Python what the core rejects, collect.

Every sample takes this path: ``dataset[index]`` is a batch of one, and loaders, `load_batch` and tools submit batches.
`BatchExecutor` knows no dataset: `ImageStages` and its subclasses define what is done with images, arrays or samples
with targets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import overload

from fastpipe.core import Run, thread_resources
from fastpipe.executor.batch import BatchSlots, BatchSpec, ImageBatch
from fastpipe.executor.image_stages import ImageStages
from fastpipe.executor.stage_times import Row, Stage
from fastpipe.executor.tasks import CoreTasks, SampleTask
from fastpipe.rng import copied_generators, keyed_generators
from fastpipe.sources.threads import map_in_threads
from fastpipe.types import Generators, Recipe, Sample

CHUNK = 64
"""Samples of a batch that are read before the first of them is decoded. A whole batch's files may not fit in memory,
and the core can decode the first ones while others are read and drawn."""


class BatchExecutor:
    """Makes samples.

    Args:
        tasks_of: makes tasks, which say what to read, from sample indices and an epoch (None without a seed).
        stages: the stages that process the tasks.
        threads: number of decoding threads, unless a batch sets it; 0 decodes in the calling thread only.
        times: the row of `StageTimes` to which batches add; None to measure nothing.
    """

    def __init__(
        self,
        tasks_of: Callable[[Sequence[int], int | None], list[SampleTask]],
        stages: ImageStages,
        threads: int = 0,
        times: Row | None = None,
    ) -> None:
        self.tasks_of = tasks_of
        self.stages = stages
        self.threads = threads
        self.times = times

    @overload
    def run(self, indices: Sequence[int], epoch: int | None = None, options: None = None) -> list[Sample]: ...
    @overload
    def run(
        self, indices: Sequence[int], epoch: int | None, options: BatchSpec | None
    ) -> list[Sample] | ImageBatch: ...
    def run(
        self, indices: Sequence[int], epoch: int | None = None, options: BatchSpec | None = None
    ) -> list[Sample] | ImageBatch:
        """Makes samples: an `ImageBatch` if options are given and all samples fit into one tensor, else a list.

        Args:
            indices: the samples' indices.
            epoch: the epoch of their random numbers; None without a seed.
            options: the batch's options; None for a list.
        """
        if self.stages.one_by_one and len(indices) > 1:
            return [sample for index in indices for sample in self.run([index], epoch)]
        return self.submit(indices, epoch, options).result()

    def submit(
        self, indices: Sequence[int], epoch: int | None = None, options: BatchSpec | None = None
    ) -> PendingBatch:
        """Begins a batch: reads and draws the first samples and hands them to the core; see `run` for the arguments."""
        slots = None
        if options is not None and not options.as_list and indices:
            slots = self.stages.slots(len(indices), options)
        threads = self.threads if options is None or options.threads is None else options.threads
        return PendingBatch(self, indices, epoch, slots, threads)

    def recipe(self, index: int, epoch: int | None, generators: Generators | None) -> Recipe:
        """Draws a sample's recipe; reads only the file's header.

        Args:
            index: the sample's index.
            epoch: the epoch of its random numbers; None without a seed.
            generators: generators to draw from; None for the sample's own, or a copy of the global ones without a seed.
        """
        (task,) = self.tasks_of([index], epoch)
        if generators is None:
            generators = copied_generators() if task.key is None else keyed_generators(task.key)
        return replace(self.stages.recipe(task, generators), index=index, epoch=task.epoch)

    def replay(self, recipe: Recipe, index: int, epoch: int | None) -> Sample:
        """Makes a sample by a recipe that was drawn before; see `ImageStages.replay`."""
        (task,) = self.tasks_of([index], epoch)
        return self.stages.replay(task, recipe)


class PendingBatch:
    """A batch in progress; see `BatchExecutor.submit`.

    The core makes some of its images while the next ones are read and drawn. If an image turns out bad, the others go
    on. At the end the policy decides about the bad ones, in their order, so that the random numbers of substitutes
    don't depend on the number of threads.
    """

    def __init__(
        self,
        executor: BatchExecutor,
        indices: Sequence[int],
        epoch: int | None,
        slots: BatchSlots | None,
        threads: int,
    ) -> None:
        self._tasks_of, self._stages, self._policy = executor.tasks_of, executor.stages, executor.stages.policy
        self._indices, self._epoch, self._slots, self._threads = indices, epoch, slots, threads
        self._resources = thread_resources(threads)
        self._tasks: list[SampleTask | None] = []  # by position; None for a sample that is left out
        self._running: tuple[CoreTasks, Run | None, list[SampleTask]] | None = None
        self._clock = StageClock(executor.times)
        if indices:
            self._submit_next()

    def submit_rest(self) -> None:
        """Submits the remaining samples, and waits for all but the last chunk; then other batches may draw."""
        while len(self._tasks) < len(self._indices):
            self._submit_next()

    @property
    def may_draw(self) -> bool:
        """True if `result` may draw after `submit_rest`: for substitutes of bad files."""
        return self._policy.draws

    def result(self) -> ImageBatch | list[Sample]:
        """The finished samples, without those left out: an `ImageBatch` if all fit into one tensor, else a list."""
        clock = self._clock
        self.submit_rest()
        self._settle()
        clock(None)
        if self._slots is not None:
            for position, task in enumerate(self._tasks):
                if task is not None and task.error is not None:
                    self._substitute(position, task)
        result: ImageBatch | list[Sample]
        if self._slots is not None and (kept := [task for task in self._tasks if task is not None]):
            result = self._slots.finish([task.target for task in kept], [task.slot for task in kept])
        else:
            result = self._finished()
        clock(Stage.PYTHON if isinstance(result, list) else Stage.COLLATE)
        return result

    def _finished(self) -> list[Sample]:
        """Finishes samples one by one: some files turn out bad only when the user's code reads the pixels."""
        samples: list[Sample] = []
        for position in range(len(self._tasks)):
            while (task := self._tasks[position]) is not None:
                if task.error is None:
                    self._stages.finish(task)
                if task.error is None:
                    samples.append(self._stages.sample_of(task) if task.finished is None else task.finished)
                    break
                self._substitute(position, task)
        return samples

    def _submit_next(self) -> None:
        first = len(self._tasks)
        indices = self._indices[first : first + max(CHUNK, 16 * self._threads)]
        tasks = self._tasks_of(indices, self._epoch)
        for position, task in enumerate(tasks, first):
            task.slot = position
        self._tasks += tasks
        self._clock.count(len(tasks))
        self._begin(tasks)

    def _begin(self, tasks: list[SampleTask]) -> None:
        """Reads and draws tasks and hands them to the core, which finishes the tasks before them meanwhile."""
        stages, slots, clock = self._stages, self._slots, self._clock
        clock(None)
        stages.read(tasks, self._resources)
        clock(Stage.READ)
        tasks = [task for task in tasks if task.error is None]
        stages.draw(tasks)
        tasks = [task for task in tasks if task.error is None]
        stages.lower(tasks)
        clock(Stage.DRAW)
        for task in tasks if slots is not None else ():
            if slots is not None and not slots.accept(task):
                tasks = self._as_list()
                break
        self._start(tasks)

    def _start(self, tasks: list[SampleTask]) -> None:
        """Has the core begin tasks, and finishes those before them; without threads the core runs in `_settle`."""
        resources, run = self._resources, None
        filled = self._stages.fill_jobs(tasks, self._slots, resources)
        if filled.claimed and filled.jobs is not None and resources is not None and resources.threads:
            run = resources.pool.start(filled.jobs, len(filled.claimed), (filled.claimed, filled.memory))
        if self._running is not None:
            self._settle()
        self._running = filled, run, tasks

    def _as_list(self) -> list[SampleTask]:
        """Falls back to a list, as results don't fit into one tensor; returns all unfinished tasks, lowered anew."""
        self._settle()
        self._slots = None
        tasks = [task for task in self._tasks if task is not None and task.error is None and task.finished is None]
        self._stages.read([task for task in tasks if task.encoded is None], self._resources)
        self._stages.lower(tasks)
        return tasks

    def _settle(self) -> None:
        """Waits for the core, and makes the images that it has rejected."""
        running, self._running = self._running, None
        if running is None:
            return
        (filled, run, tasks), clock = running, self._clock
        clock(None)
        left = self._wait(filled, run)
        clock(Stage.CORE)
        if left:
            for _ in map_in_threads(self._make, left, self._threads if self._threads > 1 else 0):
                pass
            clock(Stage.PYTHON)
        self._stages.release(tasks, self._resources)

    def _wait(self, filled: CoreTasks, run: Run | None) -> list[SampleTask]:
        """Waits for the jobs; returns the tasks that need further work; ``image`` is None if the core failed."""
        left, jobs, resources = filled.rejected, filled.jobs, self._resources
        if jobs is None or resources is None:
            return left
        statuses = resources.pool.run(jobs, len(filled.claimed)) if run is None else run.wait()
        resources.give_back(jobs)
        for task, status in zip(filled.claimed, statuses, strict=True):
            if status:  # refused: `execute` tries the next reader, or raises
                task.image = None
                left.append(task)
            elif task.slot in filled.unfinished:
                left.append(task)
        return left

    def _make(self, task: SampleTask) -> None:
        with self._stages.errors_noted(task):
            self._stages.make(task, None if self._slots is None else self._slots.place(task.slot))

    def _substitute(self, position: int, task: SampleTask) -> None:
        """Replaces a bad sample, or leaves it out, as the policy says."""
        for other in self._policy.substitutes(task):
            other.slot, other.needs_pixels = position, True
            self._tasks[position] = other
            if other.finished is None:
                self._begin([other])
            elif self._slots is not None:
                self._start(self._as_list())
            self._settle()
            if other.error is None:
                break
        else:
            self._tasks[position] = None


class StageClock:
    """Measures the stages of one batch: called with each stage when it is done, or with None to restart the clock.

    Args:
        row: the row to which times are added; None to measure nothing.
    """

    __slots__ = ("_row", "_since")

    def __init__(self, row: Row | None) -> None:
        self._row = row
        self._since = 0.0

    def __call__(self, done: Stage | None) -> None:
        if self._row is None:
            return
        now = time.perf_counter()
        if done is not None:
            self._row[done] += now - self._since
        self._since = now

    def count(self, images: int) -> None:
        """Adds to the number of images."""
        if self._row is not None:
            self._row[Stage.IMAGES] += images
