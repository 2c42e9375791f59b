"""The base of all image datasets: a dataset gives each sample's path and target, and an executor makes the sample."""

from __future__ import annotations

import copy
import operator
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch.utils.data import Dataset, get_worker_info

# typing's takes a default from Python 3.13 on; torch depends on typing_extensions.
from typing_extensions import TypeVar

from fastpipe import readers
from fastpipe.arguments import MOST_THREADS, seed_number, whole_number
from fastpipe.config import ANY_FORMAT, MachineConfig, readers_asked
from fastpipe.counts import pluralize
from fastpipe.datasets.bad_file_policy import BadFilePolicy
from fastpipe.datasets.bad_files import BadFileCounts, NothingLeftError, OnError, same_target, warn_again
from fastpipe.datasets.bad_files_log import log_path
from fastpipe.datasets.own_getitem import note_lazy_images, wants_lazy_images, with_lazy_images
from fastpipe.datasets.private import PrivateState
from fastpipe.datasets.python_steps import python_step
from fastpipe.datasets.standard_transform import StandardTransform, default_loader
from fastpipe.datasets.torchvision_bases import derive_from_torchvision
from fastpipe.errors import DatasetError, PlanError
from fastpipe.executor import (
    BatchExecutor,
    BatchSpec,
    DecodeOptions,
    ImageBatch,
    ImageStages,
    PendingBatch,
    SampleTask,
    SharedEpoch,
    StageOptions,
)
from fastpipe.index.table import Array
from fastpipe.memory.torch_worker import serve_torch_loader
from fastpipe.readers import MaxPixels
from fastpipe.rng import sample_keys
from fastpipe.transforms.pipeline import Pipeline, compile_pipeline
from fastpipe.transforms.unchanged import Unchanged
from fastpipe.types import Generators, Recipe, Sample, Target, Transform

SampleT = TypeVar("SampleT", covariant=True, default=Sample)
"""A dataset's sample: ``ImageFolder[tuple[Tensor, int]]``."""

_UNSET = object()


class ImageDataset(Dataset[SampleT]):
    """Base of the image datasets: a subclass defines `sample`, the path and target at an index, and ``__len__``.

    Attributes:
        transform: as given; changing it, or the members of its `Compose`, takes effect at the next sample.
        target_transform: as given.
        transforms: `transform` and `target_transform` as one callable; None if neither is given.
        loader: as given.
        reader, config, apply_exif, max_pixels: as given; readers given for single formats are in `config`.
        seed: if not None, each sample's random numbers depend on (seed, epoch, index) alone, not on the order, the
            workers, the threads or the ranks. `fastpipe.DataLoader` counts the epochs; with another loader choose each
            with `set_epoch`.
        threads: how many threads decode the samples of a batch, within one process; 0 for none but the caller's.
        on_error: what to do with a sample whose file can't be read, or that the user's loader can't load.
            ``"raise"`` raises its error, with the file, the index, the reader and the reason. ``"skip"`` leaves it
            out: its batch is smaller, and ``dataset[index]`` is None. ``"replace"`` gives another sample of the same
            target in its place, drawn by (seed, epoch, index), with the random numbers of the sample asked for:
            batches keep their size. A function gets a `BadFile` and returns None to leave the sample out, the index
            of the sample to take in its place (it is called again where that one is bad, too), or a finished
            ``(image, target)``, which is handed out as it stands; what it raises stops the run.
        bad_files_log: the CSV file that lists each bad file once (path, index, reason, time), None for none. A
            relative path starts from the folder that the process is in when the dataset is made.
        max_bad_fraction: the run stops if more than this fraction of an epoch's samples is bad.
    """

    root: str | os.PathLike[str] | None = None
    # Defaults, which needn't be sent to workers.
    target_transform: Transform | None = None
    reader: str | None = None
    apply_exif: bool = False
    max_pixels: MaxPixels = "auto"
    seed: int | None = None
    threads: int = 0
    on_error: OnError = "raise"
    bad_files_log: str | None = None
    max_bad_fraction: float = 0.1

    _fastpipe: PrivateState

    def __init__(
        self,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        *,
        loader: Callable[[str], object] = default_loader,
        reader: str | Mapping[str, str] | None = None,
        config: MachineConfig | None = None,
        apply_exif: bool = False,
        max_pixels: MaxPixels = "auto",
        seed: int | None = None,
        threads: int = 0,
        on_error: OnError = "raise",
        bad_files_log: str | os.PathLike[str] | None = None,
        max_bad_fraction: float = 0.1,
    ) -> None:
        derive_from_torchvision(type(self))
        self._fastpipe = PrivateState()
        self._fastpipe_check_callable(transform=transform, target_transform=target_transform)
        if not callable(loader):
            raise DatasetError(f"loader={loader!r:.80}: give a function that takes a path and gives an image.")
        if seed is not None:
            seed = seed_number(seed, alternative=", or None for the global generators", error=DatasetError)
        takes = "the number of threads that decode a batch"
        threads = whole_number("threads", threads, takes, most=MOST_THREADS, error=DatasetError)
        if not (config is None or isinstance(config, MachineConfig)):
            raise DatasetError(f"config={config!r}: give a fastpipe.MachineConfig, or None for this machine's.")
        asked = readers_asked(reader)
        readers.check_readers(asked)  # raises here, not in a worker, for an unknown or uninstalled reader
        readers.pixel_limit(max_pixels)  # raises for an invalid limit
        self.transform = transform
        self.target_transform = target_transform
        self.transforms: Transform | None = None
        if transform is not None or target_transform is not None:
            self.transforms = StandardTransform(transform, target_transform)
        self.loader = loader
        self.reader = asked.pop(ANY_FORMAT) if asked.keys() == {ANY_FORMAT} else None
        # Read here, so that an error in the config file is reported once and in this process; workers get the result.
        chosen = MachineConfig(readers=readers.machine_config().readers) if config is None else config
        usable = {format: name for format, name in chosen.readers.items() if readers.configured_reader(format, chosen)}
        readers.check_formats(chosen.readers)
        self.config = replace(chosen, readers=asked if ANY_FORMAT in asked else {**usable, **asked})
        self.apply_exif = apply_exif
        self.max_pixels = max_pixels
        self.seed = seed
        self.threads = threads
        self.on_error = on_error
        self.bad_files_log = None if bad_files_log is None else log_path(bad_files_log)
        self.max_bad_fraction = max_bad_fraction
        self._fastpipe_policy()  # raises for invalid on_error and max_bad_fraction

    def _fastpipe_check_callable(self, **given: object) -> None:
        """Raises PlanError for a transform that can't be called, unless a subclass makes its samples itself."""
        for name, value in given.items():
            if not (value is None or callable(value) or self._fastpipe_has_own_getitem()):
                several = "; several go into a Compose" if isinstance(value, (list, tuple)) else ""
                raise PlanError(f"{name}={value!r:.80}: give something that is called with an image{several}, or None.")

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if cls.__getitem__ is not ImageDataset.__getitem__:
            cls.__getitem__ = with_lazy_images(cls.__getitem__)  # type: ignore[method-assign]

    @classmethod
    def _fastpipe_has_own_getitem(cls) -> bool:
        """True for a subclass that says in its own ``__getitem__`` what a sample is."""
        return cls.__getitem__ is not ImageDataset.__getitem__

    # -- what a subclass defines

    def sample(self, index: int) -> tuple[str, Target]:
        """The path and target of a sample."""
        raise NotImplementedError(f"{type(self).__name__} must define sample(index)")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def samples_at(self, indices: Sequence[int]) -> Iterable[tuple[str, Target]]:
        """`sample` of each index; override it if many at once cost less."""
        return map(self.sample, indices)

    def _fastpipe_number(self, index: int) -> int:
        """Converts an index that may be negative to a number from 0; raises IndexError if there is no such sample."""
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"sample {index} of {count}")
        return index + count if index < 0 else index

    def alternatives(self, index: int, generator: np.random.Generator) -> Iterator[int]:
        """Yields samples to try in place of a bad one: by default all others of the same target, in random order.

        An override that chooses other samples should depend on its arguments alone.

        Args:
            index: the bad sample.
            generator: seeded by (seed, epoch, index).
        """
        return same_target(
            len(self), index, generator, self._fastpipe_labels(), lambda position: self.sample(position)[1]
        )

    def _fastpipe_labels(self) -> Array | None:
        """The targets as an array, if there is one."""
        return None

    # -- how samples are made

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        state: PrivateState | None = self.__dict__.get("_fastpipe")
        if state is None:
            return
        if name in _HELD_BY_STAGES:
            state.executor = None  # its stages hold the old attributes
        if name == "seed" and (value is None) != (state.epoch is None):
            state.epoch = None if value is None else SharedEpoch()

    @property
    def plans(self) -> bool:
        """True if fastpipe plans and decodes the images; False if the user gave a loader of their own."""
        return self.loader is default_loader

    @property
    def in_python(self) -> str:
        """Names the step of making a sample that is Python code of the user's and holds the GIL; empty if none is."""
        if self._fastpipe_has_own_getitem() or type(self).__getitems__ is not ImageDataset.__getitems__:
            return f"the dataset's own way to samples ({type(self).__name__})"
        return python_step(self)

    @property
    def pipeline(self) -> Pipeline:
        """The compiled transform; compiled again if the transform, or the list in its `Compose`, has changed.

        With a loader of the user's, no part of it is drawn before the image is loaded.
        """
        return self._fastpipe_compiled(self.transform)

    def _fastpipe_compiled(self, transform: object, v2_alone: bool = False) -> Pipeline:
        state = self._fastpipe
        if state.pipeline is None or state.unchanged is None or not state.unchanged.holds((transform,)):
            state.unchanged = Unchanged((transform,))
            state.pipeline = compile_pipeline(transform, v2_alone=v2_alone)
        return state.pipeline

    @property
    def executor(self) -> BatchExecutor:
        """Makes the samples; replaced by a new one if the dataset's attributes or its transform have changed."""
        state, pipeline = self._fastpipe, self.pipeline
        executor = state.executor
        if executor is None or executor.stages.options.pipeline is not pipeline or not executor.stages.is_current:
            # A weak proxy, as the dataset holds its executor: a reference cycle would keep shared memory, threads and
            # batches until the garbage collector runs.
            dataset = weakref.proxy(self)
            executor = state.executor = BatchExecutor(
                lambda indices, epoch: dataset._fastpipe_tasks(indices, epoch),
                self._fastpipe_stages(),
                self.threads,
                state.times,
            )
        return executor

    def _fastpipe_policy(self) -> BadFilePolicy:
        return BadFilePolicy(self)

    def _fastpipe_stages(self) -> ImageStages:
        """Builds the stages that make samples."""
        return ImageStages(self._fastpipe_stage_options())

    def _fastpipe_stage_options(self) -> StageOptions:
        return StageOptions(
            self.pipeline,
            DecodeOptions(self.reader, self.config, self.apply_exif, self.max_pixels),
            self._fastpipe_policy(),
            self.target_transform,
            loader=None if self.plans else self.loader,
            seeded=self.seed is not None,
        )

    def _fastpipe_check_pairs(self, indices: Sequence[int], samples: Sequence[object]) -> None:
        """Raises DatasetError, naming the class, for a `sample` that isn't a path and a target."""
        for index, sample in zip(indices, samples, strict=False):
            paths = (str, os.PathLike) if self.plans else object
            if not (isinstance(sample, (tuple, list)) and len(sample) == 2 and isinstance(sample[0], paths)):
                kind = type(self).__name__
                raise DatasetError(f"{kind}.sample({index}) returned {sample!r:.80}: return a path and a target.")

    def _fastpipe_tasks(self, indices: Sequence[int], epoch: int | None) -> list[SampleTask]:
        """The tasks of samples; see `BatchExecutor.tasks_of`."""
        on_begin = self._fastpipe.on_begin
        if on_begin is not None:
            for index in indices:
                on_begin(index)
        samples = list(self.samples_at(indices))  # first, as it raises for an invalid index
        places = indices
        if min(indices, default=0) < 0:
            count = len(self)
            places = [index + count if index < 0 else index for index in indices]
        try:
            tasks = [
                SampleTask(place, place, path, target, path, epoch)
                for place, (path, target) in zip(places, samples, strict=True)
            ]
        except (TypeError, ValueError):
            self._fastpipe_check_pairs(indices, samples)
            raise
        if not self.__module__.startswith("fastpipe."):
            self._fastpipe_check_pairs(indices, samples)
        if self.seed is not None:
            for task, key in zip(tasks, sample_keys(self.seed, epoch or 0, places), strict=True):
                task.key = key
        if self._fastpipe_has_own_getitem() and wants_lazy_images(self):
            for task in tasks:
                task.for_own_code = True
        return tasks

    def __getitem__(self, index: int) -> SampleT:
        """The transformed image and the transformed target; None where ``on_error`` leaves a bad sample out."""
        if get_worker_info() is not None:  # called by a loader, through a wrapper of the dataset
            serve_torch_loader()
            self._fastpipe_warn_if_repeated([operator.index(index)])
        samples: Any = self.executor.run([operator.index(index)], self._fastpipe_epoch)
        if not samples:  # on_error leaves it out
            return None  # type: ignore[return-value]  # callers get the type of the usual result
        if self._fastpipe_has_own_getitem():
            note_lazy_images(self, samples[0])
        sample: SampleT = samples[0]
        return sample

    def __getitems__(self, indices: Sequence[int]) -> list[SampleT]:
        """Several samples: a list of what ``dataset[index]`` gives, made by `threads` threads.

        Random numbers are drawn for one sample after the other, so the result is the same for any number of threads.
        Samples that `on_error` leaves out are missing.

        Raises:
            BadFilesError: all samples are left out, and torch's loader can't collate an empty batch.
        """
        serve_torch_loader()
        samples: Any = self.batch(indices)
        if indices and not samples:
            raise NothingLeftError(
                f"all {pluralize(len(indices), 'sample')} of a batch are bad and left out ({indices[0]} is the "
                "first), and a batch of none can't be collated: use fastpipe.DataLoader, which leaves such "
                "batches out, larger batches, or on_error='replace'."
            )
        several: list[SampleT] = samples
        return several

    def batch(self, indices: Sequence[int], options: BatchSpec | None = None) -> list[Sample] | ImageBatch:
        """Makes a batch for a loader: an `ImageBatch` written straight into one tensor if possible, else a list.

        Samples that `on_error` leaves out are missing. Without options the result is always a list.
        """
        indices = self._fastpipe_asked(indices)
        if self._fastpipe_has_own_getitem():
            several: Iterator[Any] = map(self.__getitem__, indices)
            return [one for one in several if self.on_error == "raise" or one is not None]
        return self.executor.run(indices, self._fastpipe_epoch, options)

    def submit(self, indices: Sequence[int], options: BatchSpec) -> PendingBatch:
        """Begins a `batch`, for a loader that starts the next batch while it finishes the one before.

        Call it only if `in_python` is empty, and in the thread that will wait for the batch.
        """
        return self.executor.submit(self._fastpipe_asked(indices), self._fastpipe_epoch, options)

    def _fastpipe_asked(self, indices: Sequence[int]) -> list[int]:
        """Returns a loader's indices as integers."""
        indices = [operator.index(index) for index in indices]
        self._fastpipe_warn_if_repeated(indices)
        return indices

    def _fastpipe_warn_if_repeated(self, indices: Sequence[int]) -> None:
        """Warns if a loader that doesn't count epochs begins the same epoch again with these samples."""
        counted = self._fastpipe.epoch
        if counted is not None and counted.repeats(indices, lambda index: self.sample(index)[0]):
            warn_again(
                f"epoch {counted.get()} has begun a second time: with seed={self.seed}, each sample gets the same "
                "random numbers again. Call dataset.set_epoch(epoch) before each epoch, or use fastpipe.DataLoader, "
                "which counts them by itself."
            )

    # -- epochs

    @property
    def epoch(self) -> int:
        """The epoch that samples are drawn for; without a seed, ``epoch`` of another base class, or 0."""
        counted = self._fastpipe.epoch
        return getattr(super(), "epoch", 0) if counted is None else counted.get()

    @property
    def _fastpipe_epoch(self) -> int | None:
        counted = self._fastpipe.epoch
        return None if counted is None else counted.get()

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch whose random numbers the next samples get, in running workers, too.

        Without a seed this doesn't affect the samples. If another base class has a ``set_epoch``, it is called, too.
        """
        following = getattr(super(), "set_epoch", None)
        if following is not None:
            following(epoch)
        if self._fastpipe.epoch is not None:
            self._fastpipe.epoch.set(whole_number("epoch", epoch, "the number of an epoch", error=DatasetError))
        self._fastpipe_policy().begin_epoch(len(self), by_loader=False)

    # -- bad files

    def _fastpipe_share_record(self) -> None:
        """Begins a new record of bad files; called before workers are forked, so that all share it."""
        self._fastpipe.record = None
        if self.on_error != "raise":
            self._fastpipe.bad_record(len(self))

    @property
    def bad_files(self) -> BadFileCounts:
        """Counts of unreadable samples of all workers, in this epoch and in total; zeros with ``on_error="raise"``."""
        return self._fastpipe_policy().counts()

    def begin_epoch(self, samples: int) -> None:
        """Called by a loader before an epoch of that many samples; it will call `end_epoch` afterwards.

        `fastpipe.DataLoader` calls it. With other loaders, each `set_epoch` begins an epoch of all samples.
        """
        self._fastpipe_policy().begin_epoch(samples, by_loader=True)

    def end_epoch(self) -> None:
        """Called by a loader that has got its samples; warns if any were bad."""
        self._fastpipe_policy().end_epoch()

    # -- recipes

    def recipe(self, index: int, epoch: int | None = None, *, generators: Generators | None = None) -> Recipe:
        """Draws the operations for a sample as ``dataset[index]`` would; reads only the image's header.

        Without a seed, it draws what the global generators would give if the sample came next; their state doesn't
        change. Operations on boxes and masks aren't part of a recipe.

        Args:
            index: the sample.
            epoch: the epoch to draw for; None for the current one. Only with a seed.
            generators: generators to draw from instead; they advance.

        Raises:
            DatasetError: an epoch is given, but the dataset has no seed.
        """
        if epoch is not None and self.seed is None:
            raise DatasetError(
                "recipe(index, epoch) needs a dataset with a seed: the global generators know no epochs."
            )
        epoch = self._fastpipe_epoch if epoch is None else epoch
        return self.executor.recipe(operator.index(index), epoch, generators)

    def replay(self, recipe: Recipe, index: int | None = None) -> Sample:
        """Makes a sample by a recipe that was drawn before: the same image, whatever the generators' state.

        Transforms after the planned part draw new random numbers; with a seed they repeat theirs as well.

        Args:
            recipe: from `recipe`.
            index: the sample; None for the sample that the recipe was drawn for.

        Raises:
            PlanError: no sample is named, the recipe is for an image of another size, or this dataset has a loader
                of its own, which isn't planned.
        """
        index = recipe.index if index is None else operator.index(index)
        if index is None:
            raise PlanError("this recipe doesn't say which sample it is for: give replay the index.")
        if not self.plans:
            raise PlanError("a dataset with a loader of its own loads whole images: it can't replay recipes.")
        epoch = self._fastpipe_epoch
        return self.executor.replay(recipe, index, epoch if epoch is None or recipe.epoch is None else recipe.epoch)

    def extra_repr(self) -> str:
        """Lines for the repr, after the root folder."""
        return ""

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if self.transforms is not None:
            body.append(repr(self.transforms))
        return "\n".join([f"Dataset {type(self).__name__}", *("    " + line for line in body)])

    def __getstate__(self) -> dict[str, object]:
        own = {**self.__dict__, "_fastpipe": copy.copy(self._fastpipe)}
        return {name: value for name, value in own.items() if getattr(type(self), name, _UNSET) is not value}

    def __setstate__(self, state: dict[str, object]) -> None:
        derive_from_torchvision(type(self))
        self.__dict__.update(state)


_HELD_BY_STAGES = {
    *("transform", "target_transform", "transforms", "loader", "reader", "config", "apply_exif", "max_pixels"),
    *("seed", "threads", "on_error", "max_bad_fraction", "data", "channels_first"),
}
"""The attributes that an executor's stages hold; others, such as a user's own, may change for each sample."""
