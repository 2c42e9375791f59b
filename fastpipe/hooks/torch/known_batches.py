"""Whole batches of known datasets of torchvision and timm, made by the core, in the main process and in workers.

Nothing is converted in advance: for each batch the dataset is asked for its current files, targets and transforms, so
that it may be changed at any time. No user's code runs here, so a batch can be made twice: for a check, or after an
error, the dataset itself makes it from the generators' states before.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch.utils.data import ConcatDataset
from torch.utils.data._utils.collate import default_collate, default_collate_fn_map

from fastpipe.clock import clock
from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.wrappers import is_transparent, locate, unwrap_subsets
from fastpipe.executor import BatchSpec, ImageBatch
from fastpipe.hooks.checking import check_call
from fastpipe.hooks.ledger import DIFFERED, LEDGER, Site
from fastpipe.hooks.library_functions import FILES, TRANSFORMS, Originals
from fastpipe.hooks.torch.fetchers import Fetcher, once_a_fetcher
from fastpipe.hooks.torchvision.compose_calls import calls_back
from fastpipe.interop.datasets import known_class
from fastpipe.interop.datasets.known import Files, KnownClass, NotConvertible
from fastpipe.loading.load_batch import load_batch
from fastpipe.mistakes import attempt
from fastpipe.plain_lookup import own_attribute
from fastpipe.rng import GeneratorStates
from fastpipe.transforms.pipeline import Pipeline, all_within

_collate: Callable[[object], object] = default_collate
_STACKING = ("fastpipe.hooks.torch.data_loader", "torch.utils.data._utils.collate")


class KnownBatches:
    """The batches of one of torch's fetchers.

    Attributes:
        dataset: the fetcher's dataset.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._files = _Files()
        self._arrays: _Arrays | None = None
        self._originals: tuple[Pipeline, Originals] | None = None

    @staticmethod
    def collates(function: object) -> bool:
        """True if a ``collate_fn`` is torch's, and stacks tensors as torch does."""
        stack = default_collate_fn_map.get(torch.Tensor)
        return function is default_collate and getattr(stack, "__module__", "") in _STACKING

    def as_list(self) -> KnownSamples:
        """The dataset for a fetcher that needs a list of samples."""
        return KnownSamples(self)

    def collated(self, indices: Sequence[int]) -> object:
        """A batch as torch's ``default_collate`` makes it from the samples; None if the samples have to be fetched."""
        batch = self._made(indices, BatchSpec())
        if not isinstance(batch, ImageBatch):
            return None if batch is None else _collate(batch)
        return [batch.images, _collate(batch.targets)]

    def samples(self, indices: Sequence[int]) -> list[object] | None:
        """A list of samples; None if they have to be fetched."""
        batch = self._made(indices, None)
        return batch if isinstance(batch, list) else None

    def _made(self, indices: Sequence[int], options: BatchSpec | None) -> object:
        def count_failed(error: Exception) -> None:
            kind = type(error).__name__
            reason = f"a batch was made again, one by one, as fastpipe raised {kind}"
            self._site(unwrap_subsets(self.dataset, through=is_transparent)[0]).count_plain(reason, len(indices))

        found = attempt(partial(self._found, indices), _one_by_one, count_failed)
        if found is None:
            return None
        before = GeneratorStates.of()
        batch = partial(self._batch, *found, indices, options, before)
        return attempt(batch, _one_by_one, count_failed, restore=before.restore)

    def _found(self, indices: Sequence[int]) -> tuple[Site, ImageDataset, Sequence[int]] | None:
        """The account of a batch, fastpipe's dataset for it, and the samples' numbers there; None if there is none."""
        outer, places = unwrap_subsets(self.dataset, indices, through=is_transparent)
        try:
            source = self._source(outer, places)
        except NotConvertible as reason:
            self._site(outer).count_plain(f"its samples are made one by one: {reason}", len(indices))
            return None
        if source is None:
            return None
        site = self._site(outer)
        if site.is_off:
            site.count_plain(DIFFERED, len(indices))
            return None
        return site, *source

    def _batch(
        self,
        site: Site,
        source: ImageDataset,
        numbers: Sequence[int],
        indices: Sequence[int],
        options: BatchSpec | None,
        before: GeneratorStates,
    ) -> object:
        """The batch; None if a check found a difference."""
        if site.is_check_due(len(indices)) and not self._is_as_plain(site, source, numbers, indices, before):
            return None
        begun = clock()
        batch = source.batch(numbers, options)
        site.count(clock() - begun, len(indices))
        return batch

    @staticmethod
    def _site(dataset: object) -> Site:
        root = _root_of(dataset)
        return LEDGER.site("dataset", type(dataset).__name__ + (f"({root})" if root else ""))

    def _is_as_plain(
        self,
        site: Site,
        source: ImageDataset,
        numbers: Sequence[int],
        indices: Sequence[int],
        before: GeneratorStates,
    ) -> bool:
        """True if the first samples equal the dataset's own; leaves the generators' states unchanged."""
        try:
            for number, index in zip(numbers, indices[: LEDGER.check], strict=False):
                ours = partial(operator.getitem, source, number)
                plain = partial(operator.getitem, self.dataset, index)
                check_call(site, ours, plain, site.name)
                if site.is_off:
                    break
                if isinstance(source, _Files):
                    source.measure_packed(number, site, before, _root_of(self.dataset))
        finally:
            before.restore()
        return not site.is_off

    def _source(self, outer: Any, places: Sequence[int]) -> tuple[ImageDataset, Sequence[int]] | None:
        """One of fastpipe's datasets that has the given samples of known datasets, and the samples' indices in it."""
        if isinstance(outer, ConcatDataset) and is_transparent(outer):
            where = [locate(outer, place, through=is_transparent) for place in places]
        else:
            where = [(outer, place) for place in places]
        datasets = {id(dataset): dataset for dataset, _ in where}
        asked = {key: (dataset, known_class(dataset)) for key, dataset in datasets.items()}
        files: dict[int, Files] = {}
        for key, (dataset, known) in asked.items():
            if known is None or not (known.files or known.in_memory):
                return None
            if dataset.target_transform is not None:
                raise NotConvertible("it has a target_transform")
            if known.files is not None:
                files[key] = known.files(dataset)
        transform = where[0][0].transform
        are_files = len(files) == len(asked) and all(dataset.transform is transform for dataset, _ in asked.values())
        if not are_files and len(asked) > 1:
            return None
        source: ImageDataset = self._files if are_files else self._array(*asked[id(where[0][0])])
        if source.transform is not transform:
            source.transform = transform
        pipeline = source.pipeline
        if not pipeline.drawn or pipeline.unplanned or calls_back(pipeline.drawn):
            return None  # the user's code runs, or samples are images
        numbers: Sequence[int] = [place for _, place in where]
        if are_files:
            self._files.set_rows([files[id(dataset)](place) for dataset, place in where])
            numbers = range(len(where))
        if not self._are_original(pipeline, [type(dataset) for dataset, _ in asked.values()]):
            raise NotConvertible("somebody has replaced a function that its library goes through")
        return source, numbers

    def _are_original(self, pipeline: Pipeline, kinds: list[type]) -> bool:
        if self._originals is None or self._originals[0] is not pipeline:
            kinds += [type(one) for transform in pipeline.drawn for one in all_within(transform)]
            self._originals = pipeline, Originals(kinds, (*TRANSFORMS, *FILES))
        return self._originals[1].are_there()

    def _array(self, dataset: object, known: KnownClass | None) -> ImageDataset:
        assert known is not None
        if self._arrays is None or not self._arrays.are_of(dataset, known):
            self._arrays = _Arrays(dataset, known)
        return self._arrays.made


def _one_by_one() -> None:
    """No batch: the dataset itself makes its samples, and raises the error of a bad file."""


@once_a_fetcher
def known_batches(fetcher: Fetcher) -> KnownBatches:
    """The `KnownBatches` of one of torch's fetchers."""
    return KnownBatches(fetcher.dataset)


def _root_of(dataset: object) -> str:
    """A dataset's folder; ``""`` if it says none."""
    root = own_attribute(dataset, "root")
    return str(os.fspath(root)) if root and isinstance(root, (str, os.PathLike)) else ""


class _Arrays:
    """fastpipe's dataset made from a library's dataset in memory; valid until the library's has other arrays."""

    def __init__(self, dataset: object, known: KnownClass) -> None:
        self.made: ImageDataset = known.convert(dataset, _no_other)
        self._dataset = dataset
        self._read = [getattr(dataset, name) for name in known.reads]

    def are_of(self, dataset: object, known: KnownClass) -> bool:
        """True if the arrays are the current ones of a dataset."""
        now = [getattr(dataset, name) for name in known.reads]
        return dataset is self._dataset and all(map(operator.is_, now, self._read))


class _Files(ImageDataset):
    """A dataset of files and targets, which are set for each batch."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[str, object]] = []

    def set_rows(self, rows: Iterable[tuple[str | os.PathLike[str], object]]) -> None:
        """Sets the path and target of each sample."""
        self._rows[:] = [(os.fspath(path), target) for path, target in rows]

    def measure_packed(self, number: int, site: Site, states: GeneratorStates, root: str) -> None:
        """Measures what packing would give a sample that is made from these states of the generators."""
        path, _ = self._rows[number]
        transform = self.transform
        assert transform is not None  # it gives tensors

        def make(data: bytes) -> object:
            states.restore()
            return load_batch([data], transform, threads=1)

        site.packing.measure(Path(path).read_bytes(), make, path, root)

    def __len__(self) -> int:
        return len(self._rows)

    def sample(self, index: int) -> tuple[str, object]:
        return self._rows[index]


def _no_other(dataset: object) -> NoReturn:
    raise NotConvertible("it has another dataset within")


class KnownSamples:
    """A dataset for a fetcher that needs a list of samples.

    Args:
        batches: makes the samples.
    """

    def __init__(self, batches: KnownBatches) -> None:
        self._batches = batches

    def __getitems__(self, indices: Sequence[int]) -> list[object]:
        samples = self._batches.samples(indices)
        return samples if samples is not None else list(self._one_by_one(indices))

    def _one_by_one(self, indices: Sequence[int]) -> Iterator[object]:
        dataset = self._batches.dataset
        several: Callable[[Sequence[int]], list[object]] | None = getattr(dataset, "__getitems__", None)
        if several:
            yield from several(indices)
        else:
            for index in indices:
                yield dataset[index]
