"""Which random numbers a sample gets: its epoch, and what is drawn for it, to look at and to make again."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastpipe import readers
from fastpipe.data.bad_files import warn_again
from fastpipe.data.handling import BadFileHandling
from fastpipe.data.jobs import Job
from fastpipe.errors import DatasetError, PlanError
from fastpipe.program import Pipeline, SharedEpoch
from fastpipe.rng import copied_generators, keyed_generators, sample_key
from fastpipe.types import Generators, Header, ImageShape, Recipe

__all__ = ["Recipes", "upright"]


class Recipes(BadFileHandling):
    """The part of a dataset that knows epochs, and draws samples without making them."""

    apply_exif: bool
    seed: int | None = None
    _epoch: SharedEpoch | None = None
    _read: Callable[[Job], Job]
    _decode: Callable[[Job], Any]
    _finish: Callable[[Job, Any], tuple[Any, Any]]

    @property
    def plans(self) -> bool:
        raise NotImplementedError

    @property
    def pipeline(self) -> Pipeline:
        raise NotImplementedError

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

    def _asked(
        self, indices: Sequence[int], epochs: Mapping[SharedEpoch, int] | None = None
    ) -> tuple[list[int], int | None]:
        """The samples that are asked for, as integers, and the epoch that they are of: as given, else the current one.

        Warns where a loader that counts no epochs begins one again.
        """
        indices = [operator.index(index) for index in indices]
        if self._epoch is not None and epochs and self._epoch in epochs:
            return indices, epochs[self._epoch]
        if self._epoch is not None and self._epoch.repeats(indices, lambda index: self.sample(index)[0]):
            warn_again(
                f"epoch {self.epoch} has begun a second time: with seed={self.seed}, each sample gets the same random "
                "numbers again. Call dataset.set_epoch(epoch) before each epoch, or use fastpipe.DataLoader, which "
                "counts them by itself."
            )
        return indices, self._epoch_now()

    def _epoch_now(self) -> int | None:
        return None if self._epoch is None else self._epoch.get()

    def _key(self, job: Job) -> int:
        assert self.seed is not None  # a job has an epoch only where there is a seed
        assert job.epoch is not None
        return sample_key(self.seed, job.epoch, self._from_front(job.place))

    def recipe(self, index: int, epoch: int | None = None, *, generators: Generators | None = None) -> Recipe:
        """Draws, as ``dataset[index]`` would, what would be done to a sample; reads its header only.

        Without a seed that is what the global generators would give if the sample came next; they don't move. What is
        done to boxes and masks isn't part of it.

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
        return replace(self._recipe_of(job, generators), index=index, epoch=job.epoch)

    def _recipe_of(self, job: Job, generators: Generators) -> Recipe:
        header = readers.read_header(job.path)
        return self.pipeline.draw(upright(header, header.orientation if self.apply_exif else 1), generators)

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
        assert job.encoded is not None
        if upright(job.encoded.header, job.orientation) != recipe.shape:
            raise PlanError(f"the recipe is for an image of shape {tuple(recipe.shape)}, {job.path} is another one.")
        job.recipe = recipe
        if job.epoch is not None and recipe.epoch is not None:
            job.epoch = recipe.epoch
        return self._finish(job, self._decode(job))


def upright(header: Header, orientation: int) -> ImageShape:
    """The shape of an image that is turned by its EXIF orientation."""
    return ImageShape(header.width, header.height) if orientation >= 5 else ImageShape(header.height, header.width)
