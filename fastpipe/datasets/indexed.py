"""The base of datasets of files and labels in an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fastpipe.datasets.base import ImageDataset, SampleT
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.lazy_sequences import Samples, Targets
from fastpipe.index.table import NO_CLASS, Array


class IndexedDataset(ImageDataset[SampleT]):
    """Base of `ImageFolder` and `ImageList`: samples from an index or a list; `ImageFolder` has the attributes."""

    samples: Samples | list[tuple[str, int]]
    targets: Targets | list[int]
    imgs: Samples | list[tuple[str, int]]
    index: ImageIndex | None

    def _fastpipe_set_samples(self, samples: ImageIndex | list[tuple[str, int]]) -> None:
        if isinstance(samples, ImageIndex):
            self.index, self.samples, self.targets = samples, Samples(samples), Targets(samples)
        else:
            self.index, self.samples, self.targets = None, samples, [target for _, target in samples]
        self.imgs = self.samples
        self._fastpipe_share_record()

    @property
    def _fastpipe_index(self) -> ImageIndex | None:
        """The samples' index; None if `samples` is a list, such as one that the user assigned."""
        return self.samples.index_ if isinstance(self.samples, Samples) else None

    def __len__(self) -> int:
        return len(self.samples)

    def sample(self, index: int) -> tuple[str, int]:
        return self.samples[index]

    def samples_at(self, indices: Sequence[int]) -> Iterable[tuple[str, int]]:
        samples = self.samples
        if not isinstance(samples, Samples) or type(self).sample is not IndexedDataset.sample:
            return super().samples_at(indices)
        if not indices or min(indices) < 0 or max(indices) >= samples.size:
            return map(samples.__getitem__, indices)
        return samples.index_.samples_at(indices)

    def alternatives(self, index: int, generator: np.random.Generator) -> Iterator[int]:
        """The samples that `ImageDataset.alternatives` gives; for a sample without a label, all others."""
        target = self.sample(index)[1]
        if target == NO_CLASS or target != target:  # NaN, where targets are floats
            return (other for other in generator.permutation(len(self)).tolist() if other != index)
        return super().alternatives(index, generator)

    def _fastpipe_labels(self) -> Array | None:
        index = self._fastpipe_index
        return None if index is None else index.labels
