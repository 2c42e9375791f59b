"""torch's loader: whole batches of known datasets, memory of batches of all others, and the waiting time."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fastpipe.forks import garbage_left_to_parent
from fastpipe.hooks.guard import guard
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function, Patches, are_in_force
from fastpipe.hooks.torch.before_fork import may_make_images, prepare_workers, within_wrappers
from fastpipe.hooks.torch.loader_times import timed
from fastpipe.hooks.torch.tensors import with_ordinary_tensors
from fastpipe.plain_way import plainly

if TYPE_CHECKING:
    from torch.utils.data import DataLoader
    from typing_extensions import TypeIs

    from fastpipe.hooks.torch.fetchers import Fetcher, StreamFetcher
    from fastpipe.hooks.torch.known_batches import KnownBatches


def hook(module: ModuleType, patches: Patches) -> None:
    """Hooks torch's loader: its iterators, workers and fetchers, and the function that stacks tensors."""
    for path, make in _MAKERS.items():
        patches.hook(module, path, make)
    with patches.piece("torch", "torch.utils.data.default_collate"):
        _replace_stacking(module, patches)


def _replace_stacking(module: Any, patches: Patches) -> None:
    """Replaces the function that stacks tensors in torch's table."""
    by_class = module._utils.collate.default_collate_fn_map
    plain, tensor = module._utils.collate.collate_tensor_fn, module.torch.Tensor
    if by_class.get(tensor) is not plain:
        return  # somebody has replaced it

    def collate_tensors(batch: object, *, collate_fn_map: object = None) -> object:
        collating: Any = sys.modules.get("fastpipe.hooks.torch.collating")  # imported once it is used
        stacked = None if collating is None or not patches.active or not are_in_force() else collating.collated(batch)
        return plain(batch, collate_fn_map=collate_fn_map) if stacked is None else stacked

    patches.put_item(by_class, tensor, collate_tensors)


def _prepared(plain: Function) -> Function:
    def begin(self: Any, loader: DataLoader[object]) -> None:
        self._shutdown = True  # for torch's destructor: Ctrl-C may come before there is something to shut down
        forking: AbstractContextManager[object] = nullcontext()
        with guard("what is done before workers start"):
            forking = prepare_workers(loader)
        with guard("the reports of earlier workers in one file"):
            LEDGER.fold_ended()
        del self._shutdown
        with garbage_left_to_parent(), forking:
            plain(self, loader)

    return begin


def _working(plain: Function) -> Function:
    """Wraps the function that a worker runs: if the worker may make images, it sends batches by their position."""

    def work(
        dataset_kind: object, dataset: object, index_queue: object, data_queue: object, *others: object, **named: object
    ) -> object:
        with guard("batches sent by their position"):
            if may_make_images():
                from fastpipe.memory.torch_worker import send_directly

                send_directly(data_queue)
        return plain(dataset_kind, dataset, index_queue, data_queue, *others, **named)

    return work


def _fetching(plain: Function) -> Function:
    def fetched(self: Fetcher, indices: object) -> object:
        if not _is_batch(indices, self):
            return plain(self, indices)
        known: KnownBatches | None = None
        with guard("batches of datasets that are known"):
            known = _known_batches(self)
        if known is None and _MAKES_IMAGES not in sys.modules:
            return plain(_stacking_arrays(self), indices)
        from fastpipe.hooks.torch.batch_memory import fetch_in_places

        if known is None:
            return fetch_in_places(self, indices, plain)
        if known.collates(self.collate_fn):
            batch = known.collated(indices)
            return fetch_in_places(self, indices, plain) if batch is None else batch
        return fetch_in_places(self, indices, plain, known.as_list())

    return _handing_out(plain, fetched)


def _fetching_from_stream(plain: Function) -> Function:
    def fetched(self: StreamFetcher, indices: object) -> object:
        if self.ended or not _is_batch(indices, self):
            return plain(self, indices)
        if _MAKES_IMAGES not in sys.modules:
            stacks = _stacking_arrays(self)
            try:
                return plain(stacks, indices)
            finally:
                self.ended = stacks.ended
        from fastpipe.hooks.torch.batch_memory import fetch_from_stream

        return fetch_from_stream(self, indices, plain)

    return _handing_out(plain, fetched)


def _stacking_arrays(fetcher: Fetcher) -> Any:
    """A copy of a fetcher that stacks in reused memory, once OpenCV or torchvision has decoded a file by the core.

    Nothing is imported for samples of another kind.
    """
    collate, copied = fetcher.collate_fn, copy.copy(fetcher)

    def collate_arrays(samples: Sequence[object]) -> object:
        if _CORE not in sys.modules:
            return collate(samples)
        from fastpipe.hooks.torch.collating import stacking

        return stacking(collate)(samples)

    copied.collate_fn = collate_arrays
    return copied


def _handing_out(plain: Function, fetched: Function) -> Function:
    """Makes a fetcher's method of `fetched`: with faster functions on masks, and ordinary tensors in the result."""

    def fetch(self: Fetcher, possibly_batched_index: object) -> object:
        if _compares_images(self):
            with plainly():
                return plain(self, possibly_batched_index)
        masks: Any = sys.modules.get(_MASKS)
        with nullcontext() if masks is None else masks.fetching(self):
            batch = fetched(self, possibly_batched_index)
        return with_ordinary_tensors(batch)  # as user's code may ask for their class, or save them

    return fetch


def _compares_images(fetcher: Fetcher) -> bool:
    """True if the user's code compares ``type(image)`` with a class of Pillow's; then Pillow makes its images."""
    if "PIL.Image" not in sys.modules:
        return False
    from fastpipe.hooks.torch.type_calls import type_calls_of

    compares = False
    with guard("a search for calls of type"):
        compares = type_calls_of(fetcher).images
    if not compares:
        return False
    name = type(fetcher.dataset).__name__
    LEDGER.note(
        f"{name} asks whether type(image) is a class of Pillow's: its images are made by Pillow. isinstance helps"
    )
    return True


def _is_batch(indices: object, fetcher: Fetcher) -> TypeIs[Sequence[int]]:
    return bool(fetcher.auto_collation) and isinstance(indices, (list, tuple)) and len(indices) > 1


def _known_batches(fetcher: Fetcher) -> KnownBatches | None:
    """The batches of a fetcher whose dataset, perhaps within torch's wrappers, is a known library's; else None."""
    if within_wrappers(fetcher.dataset) is None:
        return None
    from fastpipe.hooks.torch.known_batches import known_batches

    return known_batches(fetcher)


_MAKERS: dict[str, Callable[[Function], Function]] = {
    "_BaseDataLoaderIter.__next__": timed,
    "_MultiProcessingDataLoaderIter.__init__": _prepared,
    "_utils.fetch._IterableDatasetFetcher.fetch": _fetching_from_stream,
    "_utils.fetch._MapDatasetFetcher.fetch": _fetching,
    "_utils.worker._worker_loop": _working,
}
"""Makes the replacement for a function of torch's loader, by the function's name in its module."""
_MASKS = "fastpipe.hooks.pycocotools"
_MAKES_IMAGES = "fastpipe.program.on_image"
"""A module that is imported once an image has been made."""
_CORE = "fastpipe.core"
"""A module that is imported once a file has been decoded to an array."""
