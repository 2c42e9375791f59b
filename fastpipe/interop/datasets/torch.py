"""torch's own datasets: wrappers of other datasets, and tensors in memory."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from fastpipe.executor import BatchSpec, CollatedBatch
from fastpipe.interop.datasets.known import Convert, KnownClass, NotConvertible, copy_attributes


class TensorBatches(TensorDataset):
    """torch's ``TensorDataset`` that makes a batch by one index call for each tensor."""

    gives_batches = True

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[torch.Tensor, ...]]:
        """A list of several samples."""
        return [self[index] for index in indices]

    def batch(
        self, indices: Sequence[int], options: BatchSpec | None = None
    ) -> CollatedBatch | list[tuple[torch.Tensor, ...]]:
        """A batch equal to ``default_collate`` of the samples, or a list of samples if the options ask for one."""
        if options is None or options.as_list:
            return self.__getitems__(indices)
        places = torch.as_tensor(indices, dtype=torch.int64)
        return CollatedBatch([tensor[places.to(tensor.device)].contiguous() for tensor in self.tensors])


def _tensors(dataset: TensorDataset, convert: Convert) -> TensorBatches:
    for number, tensor in enumerate(dataset.tensors):
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
            raise NotConvertible(
                f"tensors[{number}] is a {type(tensor).__name__} of {tensor.layout}, not a dense tensor"
            )
    batches = TensorBatches(*dataset.tensors)
    copy_attributes(batches, dataset)
    return batches


def _subset(dataset: Subset[object], convert: Convert) -> Subset[object]:
    subset = Subset(convert(dataset.dataset), dataset.indices)
    copy_attributes(subset, dataset)
    return subset


def _concat(dataset: ConcatDataset[object], convert: Convert) -> ConcatDataset[object]:
    concatenated = copy.copy(dataset)
    concatenated.datasets = [convert(part) for part in dataset.datasets]
    return concatenated


TABLE = {
    "ConcatDataset": KnownClass(_concat, reads=("datasets", "cumulative_sizes")),
    "Subset": KnownClass(_subset, methods=("__getitems__",), reads=("dataset", "indices")),
    "TensorDataset": KnownClass(_tensors, reads=("tensors",)),
}
