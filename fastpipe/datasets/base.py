"""What every image dataset shares: from a path and a transform to a sample."""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from PIL import Image
from torch.utils.data import Dataset, get_worker_info

from fastpipe import readers
from fastpipe.config import MachineConfig, current_config
from fastpipe.datasets.bad_files import OnError, is_bad_file, located, without_frames
from fastpipe.datasets.handling import BadFileHandling
from fastpipe.datasets.jobs import Assembly, Job
from fastpipe.errors import BadFilesError, DatasetError, PlanError
from fastpipe.pipeline import (
    BatchBuilder,
    Fidelity,
    ImageBatch,
    Pipeline,
    SharedEpoch,
    compile_pipeline,
    copied_generators,
    flatten,
    keyed_generators,
    keyed_globals,
    lap,
    requested_batches,
    run,
    run_plan,
    sample_key,
    to_pil,
)
from fastpipe.readers import MaxPixels
from fastpipe.types import Generators, Header, ImageShape, Recipe

__all__ = ["ImageDataset", "StandardTransform", "default_loader"]

_UNSET = object()


def default_loader(path: str) -> Image.Image:
    """The whole image as an RGB PIL image, read by this machine's fastest exact reader."""
    return Image.fromarray(readers.read_image(path))


class StandardTransform:
    """An image's and a target's transform as one call on both; torchvision's attribute ``dataset.transforms``."""

    def __init__(
        self, transform: Callable[..., Any] | None = None, target_transform: Callable[..., Any] | None = None
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        return (
            input if self.transform is None else self.transform(input),
            target if self.target_transform is None else self.target_transform(target),
        )

    def __repr__(self) -> str:
        lines = ["StandardTransform"]
        for name, transform in (("Transform: ", self.transform), ("Target transform: ", self.target_transform)):
            if transform is not None:
                head, *rest = repr(transform).splitlines()
                lines += [name + head, *(" " * len(name) + line for line in rest)]
        return "\n".join(lines)


class _Pool(NamedTuple):
    """Threads, and the process and number that they were made for."""

    owner: tuple[int, int]
    executor: ThreadPoolExecutor


class ImageDataset(BadFileHandling, Dataset[tuple[Any, Any]]):
    """Base of the image datasets: a subclass says what sample an index is, in `sample` and ``__len__``.

    Attributes:
        transform: as given; changing it, or the members of its `Compose`, takes effect at the next sample.
        target_transform: as given.
        transforms: both as one, None where neither is given.
        loader: as given.
        reader, config, fidelity, apply_exif, max_pixels: as given.
        seed: None, or what keys each sample's random numbers on (seed, epoch, index): the same sample whatever the
            order, the workers, the threads or the ranks. Choose the epoch with `set_epoch`.
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
    seed: int | None = None
    threads: int = 0
    _epoch: SharedEpoch | None = None

    on_begin: Callable[[int], None] | None = None
    """In a loader's worker: called with the index of each sample that is begun, so that a stall can name its file."""

    # Made in each process when they are needed.
    _pool: _Pool | None = None
    _pipeline: Pipeline | None = None
    _members: tuple[Any, ...] | None = None

    def __init__(
        self,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        *,
        loader: Callable[[str], Any] = default_loader,
        reader: str | None = None,
        config: MachineConfig | None = None,
        fidelity: Fidelity = "torchvision",
        apply_exif: bool = False,
        max_pixels: MaxPixels = "auto",
        seed: int | None = None,
        threads: int = 0,
        on_error: OnError = "raise",
        bad_files_log: str | os.PathLike[str] | None = "bad_files.csv",
        max_bad_fraction: float = 0.1,
    ) -> None:
        super().__init__(on_error, bad_files_log, max_bad_fraction)
        if threads < 0:
            raise DatasetError(f"threads={threads}: give the number of threads that decode a batch, or 0.")
        if fidelity not in get_args(Fidelity):
            raise DatasetError(f"fidelity={fidelity!r}: choose one of {', '.join(map(repr, get_args(Fidelity)))}.")
        if reader is not None:
            readers.get_reader(reader)  # an unknown or uninstalled one is told here, not in a worker
        readers.pixel_limit(max_pixels)  # as is a limit that is none
        self.transform = transform
        self.target_transform = target_transform
        has_separate_transform = transform is not None or target_transform is not None
        self.transforms = StandardTransform(transform, target_transform) if has_separate_transform else None
        self.loader = loader
        self.reader = reader
        # Read here, so that a bad file is told once and in this process; workers need the choice alone.
        self.config = MachineConfig(readers=current_config().readers) if config is None else config
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
    def pipeline(self) -> Pipeline:
        """The compiled transform; compiled anew when the transform or its `Compose`'s list has changed."""
        members = tuple(flatten(self.transform))
        known = self._members
        if self._pipeline is None or known is None or len(members) != len(known) or any(map(_differ, members, known)):
            self._pipeline, self._members = compile_pipeline(self.transform), members
        return self._pipeline

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """The transformed image and the transformed target; None where ``on_error`` leaves a bad sample out."""
        job = self._read_or_fail(operator.index(index))
        self._draw_all([job], with_targets=False)
        image = self._decode_or_fail(job)
        if job.error is None:
            return self._finish(job, image)
        for other in self._instead(job, with_targets=False):
            image = self._decode_or_fail(other)
            if other.error is None:
                return self._finish(other, image) if other.finished is None else other.finished
        return None  # type: ignore[return-value] # only where the user chose it; everybody else keeps the plain type

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, Any]] | ImageBatch:
        """Several samples: a list of what ``dataset[index]`` gives, made by `threads` threads.

        Random numbers are drawn one sample after the other, so that the result is the same for any number of threads.
        Where the process asked for batches (see `fastpipe.pipeline.batch`) and the samples can be written straight
        into one, that is the result instead. Samples that `on_error` leaves out are missing.

        Raises:
            BadFilesError: all are left out, and another loader than fastpipe's asked: torch's can't collate nothing.
        """
        indices = [operator.index(index) for index in indices]
        options = requested_batches()
        rest = self._rest()
        samples: list[tuple[Any, Any]] | ImageBatch
        # A subclass may say what a sample is; without a seed, draws follow on what the transforms before have drawn.
        if type(self).__getitem__ is not ImageDataset.__getitem__ or (self.seed is None and rest):
            samples = [self[index] for index in indices]
            if self.on_error != "raise":
                samples = [sample for sample in samples if sample is not None]
        else:
            threads = self.threads if options is None or options.threads is None else options.threads
            builder = None
            if options is not None and not options.as_list and self.plans and not rest and indices:
                builder = BatchBuilder(len(indices), options, self.fidelity, get_worker_info() is not None)
            assembly = Assembly(self, threads, builder, planned=not rest)
            for jobs in self._read_and_drawn(indices, threads, not rest):
                assembly.add(jobs)
            assembly.mend()
            samples = assembly.results()
        if indices and options is None and isinstance(samples, list) and not samples:
            raise BadFilesError(
                f"all {len(indices)} samples of a batch are bad and left out ({indices[0]} is the first), and a batch "
                "of none can't be collated: use fastpipe.DataLoader, which leaves such batches out, larger batches, or "
                "on_error='replace'."
            )
        return samples

    def _read_and_drawn(self, indices: list[int], threads: int, with_targets: bool) -> Iterator[list[Job]]:
        """Jobs, a few at a time: the files of a whole batch may be more than memory should hold at once."""
        step = 16 * threads if threads > 1 else 1
        for start in range(0, len(indices), step):
            jobs = list(self._map(threads, self._read_or_fail, indices[start : start + step]))
            self._draw_all(jobs, with_targets)
            yield jobs

    def _draw_all(self, jobs: Sequence[Job], with_targets: bool) -> None:
        for job in jobs:
            if job.error is not None:
                continue
            if self.plans:
                self._draw(job)
            if with_targets and self.target_transform is not None:
                with keyed_globals(self._key(job)) if job.epoch is not None else contextlib.nullcontext():
                    job.target = self.target_transform(job.target)
                lap("target")

    def _fits(self, builder: BatchBuilder, position: int, job: Job) -> bool:
        if job.finished is not None or job.recipe is None or job.header is None:
            return False
        return not (self.apply_exif and job.header.orientation != 1) and builder.accept(position, job.recipe)

    def _decode_into(self, builder: BatchBuilder, position: int, job: Job) -> None:
        try:
            image = run_plan(
                job.data,
                builder.plan(position),
                header=job.header,
                reader=self.reader,
                config=self.config,
                source=job.path,
                max_pixels=self.max_pixels,
            )
        except Exception as error:
            self._fail(job, error)
            return
        builder.fill(position, image)
        lap("convert")

    def _decode_or_fail(self, job: Job) -> Any:
        """What `_decode` gives; None for a bad file, which the job says then."""
        if job.error is not None or job.finished is not None:
            return None
        try:
            if self.plans and not job.data:  # it went into a batch that came to nothing
                job.data = self._read(job).data
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
            raise error
        named = located(error, self._from_front(job.index), job.path)
        if self.on_error == "raise":
            raise named from error.__cause__
        job.error = without_frames(error)

    def _map(self, threads: int, function: Callable[..., Any], *arguments: Iterable[Any]) -> Iterable[Any]:
        if threads < 2:
            return map(function, *arguments)
        pool = self._pool
        if pool is None or pool.owner != (os.getpid(), threads):  # a fork inherits the object, but no threads
            pool = self._pool = _Pool((os.getpid(), threads), ThreadPoolExecutor(threads, "fastpipe"))
        return pool.executor.map(function, *arguments)

    def end_threads(self) -> None:
        """Ends the threads that decode batches in this process; the next batch that wants some starts its own."""
        self._pool = None  # an executor's threads end when it is collected

    def _rest(self) -> tuple[Callable[[Any], Any], ...]:
        """The transforms that see the image one by one, behind what is planned."""
        if self.plans:
            return self.pipeline.rest
        return () if self.transform is None else (self.transform,)

    def _read_or_fail(self, index: int, place: int | None = None) -> Job:
        """The job of a sample, read; a bad file is noted in it."""
        if self.on_begin is not None:
            self.on_begin(index)
        path, target = self.sample(index)
        lap("look-up")
        job = Job(index, index if place is None else place, path, target, self._epoch_now())
        try:
            return self._read(job)
        except Exception as error:
            self._fail(job, error)
            return job

    def _read(self, job: Job) -> Job:
        if self.plans:
            job.data = readers.read_file(job.path, self.max_pixels)
            lap("read")
            job.header = readers.parse_header(job.data, job.path)
            lap("header")
        return job

    def _draw(self, job: Job) -> None:
        assert job.header is not None  # only a dataset that plans draws
        generators = None if job.epoch is None else keyed_generators(self._key(job))
        job.recipe = self.pipeline.draw(self._shape(job.header), generators)
        lap("draw")

    def _shape(self, header: Header) -> ImageShape:
        turned = self.apply_exif and header.orientation >= 5
        return ImageShape(header.width, header.height) if turned else ImageShape(header.height, header.width)

    def _decode(self, job: Job) -> Any:
        """The pixels as far as they are planned; draws nothing, so that threads may do it."""
        if job.recipe is None or job.header is None:
            loaded = self.loader(job.path)
            lap("decode")
            return loaded
        if self.apply_exif and job.header.orientation != 1:
            image: Any = readers.read_image(
                job.data, reader=self.reader, config=self.config, apply_exif=True, max_pixels=self.max_pixels
            )
            lap("decode")
            for step in job.recipe:
                image = step.apply(image)
                lap(step)
        else:
            image = run(
                job.data,
                job.recipe,
                header=job.header,
                reader=self.reader,
                config=self.config,
                fidelity=self.fidelity,
                source=job.path,
                max_pixels=self.max_pixels,
            )
        finished = to_pil(image)
        lap("to PIL")
        return finished

    def _finish(self, job: Job, image: Any) -> tuple[Any, Any]:
        """What can't be planned: foreign transforms and the target's, which may draw from the global generators."""
        rest = self._rest()
        keyed = job.epoch is not None and (rest or self.target_transform is not None)
        with keyed_globals(self._key(job)) if keyed else contextlib.nullcontext():
            for transform in rest:
                image = transform(image)
                lap(transform)
            target = job.target if self.target_transform is None else self.target_transform(job.target)
            lap("target")
        return image, target

    @property
    def epoch(self) -> int:
        """The epoch that samples are drawn for; always 0 without a seed."""
        return 0 if self._epoch is None else self._epoch.get()

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch whose random numbers the next samples get; running workers follow.

        Raises:
            DatasetError: the dataset has no seed.
        """
        if self._epoch is None:
            raise DatasetError(
                "set_epoch chooses among the streams of a seed: give the dataset one, seed=0 for example."
            )
        self._epoch.set(epoch)
        if self.on_error != "raise" and not (record := self._bad_record()).has_loader:
            record.begin(len(self), by_loader=False)

    def _epoch_now(self) -> int | None:
        return None if self._epoch is None else self._epoch.get()

    def _key(self, job: Job) -> int:
        assert self.seed is not None  # a job has an epoch only where there is a seed
        assert job.epoch is not None
        return sample_key(self.seed, job.epoch, self._from_front(job.place))

    def recipe(self, index: int, epoch: int | None = None, *, generators: Generators | None = None) -> Recipe:
        """Draws, as ``dataset[index]`` would, what would be done to a sample; reads its header only.

        Without a seed that is what the global generators would give if the sample came next; they don't move.

        Args:
            index: the sample.
            epoch: the epoch to draw for; None for the current one. Only with a seed.
            generators: draw from these instead, and advance them.

        Raises:
            DatasetError: an epoch is given, but the dataset has no seed.
        """
        if epoch is not None and self.seed is None:
            raise DatasetError(
                "recipe(index, epoch) needs a dataset with a seed: the global generators know no epochs."
            )
        index = operator.index(index)
        path, target = self.sample(index)
        job = Job(index, index, path, target, self._epoch_now() if epoch is None else epoch)
        if generators is None:
            generators = copied_generators() if job.epoch is None else keyed_generators(self._key(job))
        drawn = self.pipeline.draw(self._shape(readers.read_header(path)), generators)
        return replace(drawn, index=index, epoch=job.epoch)

    def replay(self, recipe: Recipe, index: int | None = None) -> tuple[Any, Any]:
        """Makes a sample by a recipe that was drawn before: the same image, whatever the generators say now.

        Transforms behind the planned part draw anew, unless the dataset has a seed: then they repeat as well.

        Args:
            recipe: from `recipe`.
            index: the sample; None for the one that the recipe was drawn for.

        Raises:
            PlanError: no sample is named, the recipe is for an image of another size, or this dataset has a loader
                of its own, which isn't planned.
        """
        index = recipe.index if index is None else operator.index(index)
        if index is None:
            raise PlanError("this recipe doesn't say which sample it is for: give replay the index.")
        if not self.plans:
            raise PlanError("a dataset with a loader of its own loads whole images: it can't replay recipes.")
        job = self._read(Job(index, index, *self.sample(index), self._epoch_now()))
        assert job.header is not None
        if self._shape(job.header) != recipe.shape:
            raise PlanError(f"the recipe is for an image of shape {tuple(recipe.shape)}, {job.path} is another one.")
        job.recipe = recipe
        if job.epoch is not None and recipe.epoch is not None:
            job.epoch = recipe.epoch
        return self._finish(job, self._decode(job))

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


def _differ(one: Any, other: Any) -> bool:
    return one is not other
