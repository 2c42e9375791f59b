"""What every image dataset shares: from a path and a transform to a sample."""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, get_args

from PIL import Image
from torch.utils.data import Dataset, get_worker_info

from fastpipe import readers
from fastpipe.config import MachineConfig, current_config, readers_asked
from fastpipe.data.bad_files import NothingLeftError, OnError, is_bad_file, located, noted, without_frames
from fastpipe.data.in_python import python_part
from fastpipe.data.jobs import Assembly, Job
from fastpipe.data.lots import read_lot
from fastpipe.data.recipes import Recipes, upright
from fastpipe.data.standard import StandardTransform, default_loader
from fastpipe.data.straight import straight
from fastpipe.errors import DatasetError
from fastpipe.program import (
    BatchBuilder,
    BatchOptions,
    Encoded,
    Fidelity,
    ImageBatch,
    Lot,
    Pipeline,
    Program,
    SharedEpoch,
    Started,
    Work,
    compile_pipeline,
    drawing,
    end_threads,
    execute,
    flatten,
    keyed_generators,
    keyed_globals,
    lap,
    lower,
    start_together,
    to_pil,
    works_together,
)
from fastpipe.readers import MaxPixels
from fastpipe.sources import fetched
from fastpipe.sources._threads import Threads, kept_threads
from fastpipe.transforms.compose import call, members_of
from fastpipe.types import Generators, Recipe

__all__ = ["ImageDataset", "StandardTransform", "default_loader"]

_UNSET = object()
_TOGETHER = 64  # files that are read before the first of them is decoded


class ImageDataset(Recipes, Dataset[tuple[Any, Any]]):
    """Base of the image datasets: a subclass says what sample an index is, in `sample` and ``__len__``.

    Attributes:
        transform: as given; changing it, or the members of its `Compose`, takes effect at the next sample.
        target_transform: as given.
        transforms: both as one, None where neither is given.
        loader: as given.
        reader, config, fidelity, apply_exif, max_pixels: as given; readers that were given by format are in the config.
        seed: None, or what keys each sample's random numbers on (seed, epoch, index): the same sample whatever the
            order, the workers, the threads or the ranks. `fastpipe.DataLoader` counts the epochs; with another loader
            choose each with `set_epoch`.
        threads: how many threads decode the samples of a batch, within one process; 0 for none but the caller's.
        on_error: as given: what becomes of a sample whose file can't be read, or that the user's loader can't load.
            ``"raise"`` raises its error, with the file, the index, the reader and the reason. ``"skip"`` leaves it
            out: its batch is smaller, and ``dataset[index]`` is None. ``"replace"`` gives another sample of the same
            target in its place, drawn by (seed, epoch, index), with the random numbers of the sample asked for:
            batches keep their size. A function gets a `BadFile` and returns None to leave the sample out, the index
            of the sample to take in its place (it is called again where that one is bad, too), or a finished
            ``(image, target)``, which is handed out as it stands; what it raises stops the run.
        bad_files_log: the CSV file that lists each bad file once (path, index, reason, time), None for none. A
            relative path starts from the folder that the process is in when the dataset is made.
        max_bad_fraction: a run in which more than this share of an epoch's samples is bad stops.
    """

    root: str | os.PathLike[str] | None = None
    # What holds as long as nothing else is given: it needn't be sent to workers.
    target_transform: Callable[..., Any] | None = None
    reader: str | None = None
    fidelity: Fidelity = "torchvision"
    apply_exif: bool = False
    max_pixels: MaxPixels = "auto"
    threads: int = 0

    on_begin: Callable[[int], None] | None = None
    """In a loader's worker: called with the index of each sample that is begun, so that a stall can name its file."""

    _generators: Generators | None = None
    """What samples are drawn from without a seed; None for the global generators."""

    _draws_images_alone = True
    """What is drawn for an image doesn't wait for anything else of the sample."""

    # Made in each process when they are needed.
    _pool: Threads | None = None
    _pipeline: Pipeline | None = None
    _members: tuple[Any, ...] | None = None

    def __init__(
        self,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        *,
        loader: Callable[[str], Any] = default_loader,
        reader: str | Mapping[str, str] | None = None,
        config: MachineConfig | None = None,
        fidelity: Fidelity = "torchvision",
        apply_exif: bool = False,
        max_pixels: MaxPixels = "auto",
        seed: int | None = None,
        threads: int = 0,
        on_error: OnError = "raise",
        bad_files_log: str | os.PathLike[str] | None = None,
        max_bad_fraction: float = 0.1,
    ) -> None:
        super().__init__(on_error, bad_files_log, max_bad_fraction)
        if threads < 0:
            raise DatasetError(f"threads={threads}: give the number of threads that decode a batch, or 0.")
        if fidelity not in get_args(Fidelity):
            raise DatasetError(f"fidelity={fidelity!r}: choose one of {', '.join(map(repr, get_args(Fidelity)))}.")
        reader, asked = readers_asked(reader)
        for name in asked.values() if reader is None else [reader]:
            readers.get_reader(name)  # an unknown or uninstalled one is told here, not in a worker
        readers.pixel_limit(max_pixels)  # as is a limit that is none
        self.transform = transform
        self.target_transform = target_transform
        has_separate_transform = transform is not None or target_transform is not None
        self.transforms = StandardTransform(transform, target_transform) if has_separate_transform else None
        self.loader = loader
        self.reader = reader
        # Read here, so that a bad file is told once and in this process; workers need the choice alone.
        chosen = MachineConfig(readers=current_config().readers) if config is None else config
        served = {format: name for format, name in chosen.readers.items() if readers.configured_reader(format, chosen)}
        self.config = replace(chosen, readers={**served, **asked})
        self.fidelity = fidelity
        self.apply_exif = apply_exif
        self.max_pixels = max_pixels
        self.seed = seed
        self.threads = threads
        self._epoch = None if seed is None else SharedEpoch()

    def sample(self, index: int) -> tuple[str, Any]:
        """The path and target of a sample."""
        raise NotImplementedError(f"{type(self).__name__} must define sample(index)")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    @property
    def plans(self) -> bool:
        """Whether images are decoded by plan: not where the user gave a loader of their own."""
        return self.loader is default_loader

    @property
    def in_python(self) -> str:
        """What of the samples is Python code of the user's, which holds up threads; empty where nothing is."""
        return python_part(self, ImageDataset)

    @property
    def pipeline(self) -> Pipeline:
        """The compiled transform; compiled anew when the transform or its `Compose`'s list has changed."""
        known, transform = self._members, self.transform
        members = members_of(transform)
        members = (transform,) if members is None else members
        # Member by member; where there is a Compose within, all the way down.
        if (
            known is None
            or self._pipeline is None
            or not (len(members) == len(known) and all(map(is_, members, known)))
        ):
            flat = tuple(flatten(transform))
            if known is None or not (len(flat) == len(known) and all(map(is_, flat, known))):
                self._pipeline, self._members = compile_pipeline(transform), flat
        assert self._pipeline is not None
        return self._pipeline

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """The transformed image and the transformed target; None where ``on_error`` leaves a bad sample out."""
        if get_worker_info() is not None:  # a loader asks, if there is a wrapper between
            self._asked([index])
        return self.one(index, self._epoch_now())

    def one(self, index: int, epoch: int | None) -> tuple[Any, Any]:
        """``dataset[index]`` in an epoch; None without a seed."""
        made = self._made([operator.index(index)], None, 0, epoch)
        assert isinstance(made, list)
        return made[0] if made else None  # type: ignore[return-value] # only where the user chose to leave it out

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, Any]]:
        """Several samples: a list of what ``dataset[index]`` gives, made by `threads` threads.

        Random numbers are drawn one sample after the other, so that the result is the same for any number of threads.
        Samples that `on_error` leaves out are missing.

        Raises:
            BadFilesError: all are left out, which torch's loader can't collate.
        """
        samples = self.batch(indices)
        if indices and not samples:
            raise NothingLeftError(
                f"all {len(indices)} samples of a batch are bad and left out ({indices[0]} is the first), and a batch "
                "of none can't be collated: use fastpipe.DataLoader, which leaves such batches out, larger batches, or "
                "on_error='replace'."
            )
        assert isinstance(samples, list)
        return samples

    def batch(self, indices: Sequence[int], options: BatchOptions | None = None) -> list[tuple[Any, Any]] | ImageBatch:
        """What a loader asks for: the samples written straight into one batch, where they can be; else a list of them.

        Samples that `on_error` leaves out are missing; without options all are a list.
        """
        indices, epoch = self._asked(indices, None if options is None else options.epochs)
        # A subclass may say what a sample is; without a seed, draws follow on what the transforms before have drawn.
        if type(self).__getitem__ is not ImageDataset.__getitem__ or (self.seed is None and self._rest()):
            return [one for one in map(self.__getitem__, indices) if self.on_error == "raise" or one is not None]
        threads = self.threads if options is None or options.threads is None else options.threads
        return self._made(indices, options, threads, epoch)

    def _made(
        self, indices: list[int], options: BatchOptions | None, threads: int, epoch: int | None
    ) -> list[tuple[Any, Any]] | ImageBatch:
        """The one way to samples: read, draw, execute; what becomes of bad ones, then what isn't planned."""
        planned = not self._rest()
        if options is None and len(indices) == 1:  # a sample alone needs no assembling, unless it's bad
            job = self._read_or_fail(self._begun_job(indices[0], epoch))
            image = straight(self, job)
            if image is None:
                if job.recipe is None:
                    self._draw_all((job,), planned)
                image = self._decode_or_fail(job)
            if job.error is None:
                return [self._assembled(job, image) if planned else self._finish(job, image)]
            return Assembly(self, threads, None, planned, [job]).mended()
        return self._assembly(indices, options, threads, epoch).mended()

    def _assembly(self, indices: list[int], options: BatchOptions | None, threads: int, epoch: int | None) -> Assembly:
        planned = not self._rest()
        builder = None
        if options is not None and not options.as_list and self.plans and planned and indices:
            builder = self._builder(len(indices), options)
        coming = self._read_and_drawn(indices, epoch, threads, planned, builder is not None and works_together())
        return Assembly(self, threads, builder, planned, coming=coming)

    def begun(self, indices: Sequence[int], options: BatchOptions) -> Assembly:
        """`batch` step by step, for a loader that makes a batch while it finishes the one before.

        To be called where nothing of the dataset is Python code of the user's; in the thread that takes the steps.
        """
        indices, epoch = self._asked(indices, options.epochs)
        return self._assembly(indices, options, self.threads if options.threads is None else options.threads, epoch)

    def _builder(self, count: int, options: BatchOptions) -> BatchBuilder | None:
        """What holds a batch that is made in one piece; None for a list of samples."""
        return BatchBuilder(count, options, get_worker_info() is not None)

    def _read_and_drawn(
        self, indices: list[int], epoch: int | None, threads: int, with_targets: bool, together: bool
    ) -> Iterator[tuple[list[Job], Lot | None]]:
        """Jobs, some at a time: the files of a whole batch may be more than memory should hold at once.

        Where there is a lot, it has what was read and drawn for these jobs.
        """
        read = self._read_together if together else self._read_several
        step = max(_TOGETHER if together else 16, 16 * threads)
        for start in range(0, len(indices), step):
            some = indices[start : start + step]
            jobs = self._begun_jobs(some, epoch) if together else [self._begun_job(index, epoch) for index in some]
            lot = read(jobs, threads)
            if lot is None:
                self._draw_all(jobs, with_targets)
            yield jobs, lot

    def _read_several(self, jobs: list[Job], threads: int) -> None:
        """Reads several samples one by one; those that are in a store are fetched together before."""
        paths = [job.path for job in jobs]
        sources, errors = fetched([self._source(job) for job in jobs]) if self.plans else (paths, {})
        for number, error in errors.items():
            self._fail(jobs[number], error)
        sound = [number for number, job in enumerate(jobs) if job.error is None]
        at_hand = [None if sources[number] is paths[number] else sources[number] for number in sound]
        list(self._map(threads, self._read_or_fail, [jobs[number] for number in sound], at_hand))

    _read_together = read_lot

    def _draw_all(self, jobs: Sequence[Job], with_targets: bool) -> None:
        sound = [job for job in jobs if job.error is None and job.recipe is None]
        pipeline = self.pipeline if self.plans else None
        keys = None if self.seed is None or pipeline is None else [self._key(job) for job in sound]
        # The global generator is read once for all, unless targets may draw from it in between.
        apart = self.seed is not None or (with_targets and self.target_transform is not None)
        with contextlib.nullcontext() if apart else drawing(self._generators) as held:
            recipes: Iterator[Recipe] | None = None
            if pipeline is not None and pipeline.at_once is not None and self._draws_images_alone:
                shapes = [upright(job.encoded.header, job.orientation) for job in sound if job.encoded is not None]
                if keys is not None:
                    recipes = pipeline.draw_keyed(shapes, keys)
                elif held is not None:
                    recipes = pipeline.draw_each(shapes, held)
            for number, job in enumerate(sound):
                own = held if keys is None or recipes is not None else keyed_generators(keys[number])
                self._draw_one(job, pipeline, with_targets, own, recipes)

    def _draw_one(
        self,
        job: Job,
        pipeline: Pipeline | None,
        with_targets: bool,
        generators: Generators | None,
        recipes: Iterator[Recipe] | None = None,
    ) -> None:
        try:
            if pipeline is not None and job.encoded is not None:
                if recipes is None:
                    job.recipe = pipeline.draw(upright(job.encoded.header, job.orientation), generators)
                else:
                    job.recipe = next(recipes)
                lap("draw")
            if with_targets and self.target_transform is not None:
                with keyed_globals(self._key(job)) if job.epoch is not None else contextlib.nullcontext():
                    job.target = self.target_transform(job.target)
                lap("target")
        except Exception as error:
            noted(error, self._from_front(job.index), job.path)
            raise

    def _fits(self, builder: BatchBuilder, position: int, job: Job) -> bool:
        if job.finished is not None or job.recipe is None or job.encoded is None:
            return False
        return builder.accept(position, self._program(job), job.encoded)

    def _start_into(self, builder: BatchBuilder, jobs: Sequence[tuple[int, Job]], threads: int) -> Started:
        """Has the core make each job's image in its place in the batch."""
        return start_together([builder.work(position) for position, _ in jobs], threads)

    def _finish_into(self, started: Started, jobs: Sequence[tuple[int, Job]], threads: int) -> None:
        """Waits for it, and makes the images that it has left."""
        by_position = dict(jobs)

        def one(work: Work) -> None:
            try:
                execute(work.program, work.encoded, work.out)
            except Exception as error:
                self._fail(by_position[work.number], error)

        list(self._map(threads, one, started.left()))

    def _decode_or_fail(self, job: Job) -> Any:
        """What `_decode` gives; None for a bad file, which the job says then."""
        if job.error is not None or job.finished is not None:
            return None
        try:
            if self.plans and job.encoded is None:  # it went into a batch that came to nothing
                self._read(job)
            image = self._decode(job)
            if not self.plans and self.on_error != "raise" and isinstance(image, Image.Image):
                image.load()  # here, where it is known that it's the file that is bad
            return image
        except Exception as error:
            self._fail(job, error)
            return None

    def _fail(self, job: Job, error: Exception) -> None:
        """Notes in a job that its file is bad; raises what is no bad file, and everything with ``on_error="raise"``."""
        if not is_bad_file(error, self.plans):
            raise noted(error, self._from_front(job.index), job.path)
        named = located(error, self._from_front(job.index), job.path)
        if self.on_error == "raise":
            raise named from error.__cause__
        job.error = without_frames(error)

    def _map(self, threads: int, function: Callable[..., Any], *arguments: Iterable[Any]) -> Iterable[Any]:
        if threads < 2:
            return map(function, *arguments)
        pool = self._pool = kept_threads(self._pool, threads, "fastpipe")
        return pool.executor.map(function, *arguments)

    def end_threads(self) -> None:
        """Ends the threads that decode batches in this process; the next batch that wants some starts its own."""
        end_threads()
        self._pool = None  # an executor's threads end when it is collected

    def _rest(self) -> tuple[Callable[[Any], Any], ...]:
        """The transforms that see the image one by one, behind what is planned."""
        if self.plans:
            return self.pipeline.rest
        return () if self.transform is None else (self.transform,)

    def _read_or_fail(self, job: Job, source: str | bytes | None = None) -> Job:
        """`_read`; a bad file is noted in its job."""
        try:
            return self._read(job, source)
        except Exception as error:
            self._fail(job, error)
            return job

    def _begun_jobs(self, indices: Sequence[int], epoch: int | None) -> list[Job]:
        if self.on_begin is not None:
            for index in indices:
                self.on_begin(index)
        samples = self._several_samples(indices)
        return [Job(index, index, path, target, epoch) for index, (path, target) in zip(indices, samples, strict=True)]

    def _several_samples(self, indices: Sequence[int]) -> Iterable[tuple[str, Any]]:
        """What `sample` gives, of each."""
        return map(self.sample, indices)

    def _begun_job(self, index: int, epoch: int | None, place: int | None = None) -> Job:
        if self.on_begin is not None:
            self.on_begin(index)
        path, target = self.sample(index)
        lap("look-up")
        return Job(index, index if place is None else place, path, target, epoch)

    def _source(self, job: Job) -> str | bytes:
        """The path of a sample's file, or what is in it."""
        return job.path

    def _read(self, job: Job, source: str | bytes | None = None) -> Job:
        """Reads a job's file, or what is at hand of it: its bytes, or the path of a local copy."""
        if self.plans:
            data = readers.read_copy(job.path, self._source(job) if source is None else source, self.max_pixels)
            lap("read")
            header = readers.parse_header(data, job.path)
            job.encoded = Encoded(data, header, job.path, self.reader, self.config, self.max_pixels)
            job.orientation = readers.upright_orientation(data, header) if self.apply_exif else 1
            lap("header")
        return job

    def _program(self, job: Job) -> Program:
        assert job.recipe is not None
        program = lower(job.recipe, self.fidelity, orientation=job.orientation)
        lap("plan")
        return program

    def _decode(self, job: Job) -> Any:
        """The pixels as far as they are planned; draws nothing, so that threads may do it."""
        if job.recipe is None or job.encoded is None:
            loaded = self.loader(job.path)
            lap("decode")
            return loaded
        finished = to_pil(execute(self._program(job), job.encoded, in_rows=bool(self._rest())))
        lap("to PIL")
        return finished

    def _assembled(self, job: Job, image: Any) -> tuple[Any, Any]:
        """The sample, where nothing is left to do."""
        return image, job.target

    def _finish(self, job: Job, image: Any) -> tuple[Any, Any]:
        """What can't be planned: foreign transforms and the target's, which may draw from the global generators."""
        rest = self._rest()
        keyed = job.epoch is not None and (rest or self.target_transform is not None)
        with keyed_globals(self._key(job)) if keyed else contextlib.nullcontext():
            try:
                for transform in rest:
                    image = call(transform, image)
                    lap(transform)
                target = job.target if self.target_transform is None else self.target_transform(job.target)
                lap("target")
            except Exception as error:
                noted(error, self._from_front(job.index), job.path)
                raise
        return image, target

    def extra_repr(self) -> str:
        """Lines for the repr behind the root folder."""
        return ""

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if self.transforms is not None:
            body.append(repr(self.transforms))
        return "\n".join([f"Dataset {type(self).__name__}", *("    " + line for line in body)])

    def __getstate__(self) -> dict[str, Any]:
        own = (item for item in self.__dict__.items() if item[0] not in ("_members", "_pipeline", "_pool"))
        return {name: value for name, value in own if getattr(type(self), name, _UNSET) is not value}
