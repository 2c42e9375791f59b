"""Checks, before the first batch is made, that shared memory has room for a loader's batches."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from fastpipe.datasets import ImageDataset
from fastpipe.errors import FastpipeError, FastpipeWarning
from fastpipe.executor import BatchSpec, batch_bytes, shared_memory_room, too_small
from fastpipe.rng import keyed_generators
from fastpipe.types import ImageShape

# Batches have one size whatever the images' sizes are, so that one drawn size serves; no file is read.
_ANY_SHAPE = ImageShape(480, 640)


def check_shared_memory(datasets: Iterable[ImageDataset], batch_size: int, ahead: int, options: BatchSpec) -> None:
    """Warns where the batches that workers make ahead may not fit; nothing where their size can't be told beforehand.

    Args:
        datasets: those that batches come from.
        batch_size: images in a batch.
        ahead: batches that exist at once.
        options: what is wanted of a batch.

    Raises:
        LoaderError: not even one batch fits.
    """
    room = shared_memory_room()
    if room is None:
        return
    for dataset in datasets:
        size = _batch_bytes(dataset, batch_size, options)
        if size is not None and size > room.free:
            raise too_small(size, "a batch takes")
        if size is not None and size * ahead > room.free:
            message = str(too_small(size * ahead, f"the {ahead} batches that workers make ahead take"))
            warnings.warn(message.replace("is too small", "may be too small", 1), FastpipeWarning, stacklevel=5)
            return


def _batch_bytes(dataset: ImageDataset, batch_size: int, options: BatchSpec) -> int | None:
    if not dataset.plans or dataset.pipeline.rest:
        return None
    try:
        recipe = dataset.pipeline.draw(_ANY_SHAPE, keyed_generators(0))
    except (FastpipeError, ValueError):  # a transform that wants another size; its own error tells that better
        return None
    return batch_bytes(recipe, batch_size, options, dataset.fidelity)
