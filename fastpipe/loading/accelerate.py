"""Keeps `fastpipe.DataLoader` in use with Accelerate, which replaces any loader that it prepares by torch's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader as TorchDataLoader

from fastpipe.datasets.bad_files import warn_again
from fastpipe.loading.base import LoaderBase
from fastpipe.loading.collate import users_collate
from fastpipe.loading.resumable import SavedState


def prepare_loader(loader: LoaderBase, accelerator: Any) -> Any:
    """Returns Accelerate's loader, with a loader of `loader`'s class inside that gives this rank's batches."""
    asked = copy.copy(loader)
    asked._warned_of_loss = True  # no threads are lost here, so don't warn
    result = accelerator.prepare_data_loader(asked)
    torchs = getattr(result, "base_dataloader", None)
    if type(torchs) is not TorchDataLoader:
        warn_lost(loader, f"this Accelerator gives a {type(result).__name__} that makes the batches itself")
        return result
    batches: dict[str, object] = {"batch_sampler": torchs.batch_sampler}
    if torchs.batch_sampler is None:
        batches = {"batch_size": None, "sampler": torchs.sampler}
    kind: Callable[..., LoaderBase] = type(loader)
    ours = kind(
        torchs.dataset,
        **batches,
        num_workers=loader.num_workers,
        collate_fn=users_collate(loader.collate_fn),
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=torchs.generator,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
        device=loader.device,
        dtype=loader.dtype,
        memory_format=loader.memory_format,
        threads=loader.threads,
    )
    if ours._resumable() is None:  # Accelerate calls state_dict after each batch, and uses the result only itself
        vars(ours)["state_dict"] = dict
    else:
        result.load_state_dict = lambda state: _load(result, ours, state)
    result.base_dataloader = ours
    result._is_accelerate_prepared = True  # so that accelerator.prepare doesn't replace it
    return result


def _load(prepared: Any, ours: LoaderBase, state: SavedState) -> None:
    """Loads a state, and sets the epoch that Accelerate's loader counts to the state's."""
    ours.load_state_dict(state)
    sampler = ours._own_sampler()
    assert sampler is not None  # it can be resumed
    prepared.iteration = sampler.next_epoch
    prepared.dl_state_dict = ours.state_dict()


def warn_lost(loader: LoaderBase, why: str) -> None:
    """Warns that Accelerate drops a loader's threads."""
    warn_again(
        f"threads={loader.threads} is lost: {why}. Call loader.prepare(accelerator) in place of "
        "accelerator.prepare(loader), or use workers (num_workers=…), which torch's loader has, too."
    )
