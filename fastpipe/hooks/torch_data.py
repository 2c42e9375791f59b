"""torch's loader: batches of data sets that are known, and the memory of batches of any others."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from fastpipe.hooks.patches import Function, Patches, is_plain


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces the fetcher of data sets with samples by number, and what stacks tensors while it fetches."""
    utils: Any = module._utils
    patches.wrap(utils.fetch._MapDatasetFetcher, "fetch", _fetching)
    by_class = utils.collate.default_collate_fn_map
    plain, tensor = utils.collate.collate_tensor_fn, module.torch.Tensor
    if by_class.get(tensor) is not plain:
        return  # somebody has taught it otherwise

    def collate_tensors(batch: Any, *, collate_fn_map: Any = None) -> Any:
        if not patches.active or is_plain():
            return plain(batch, collate_fn_map=collate_fn_map)
        from fastpipe.hooks import batch_memory

        return batch_memory.collate_tensors(batch, collate_fn_map=collate_fn_map)

    by_class[tensor] = collate_tensors

    def restore() -> None:
        if by_class.get(tensor) is collate_tensors:
            by_class[tensor] = plain

    patches.at_undo(restore)


def _fetching(plain: Function) -> Function:
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        if not self.auto_collation or not hasattr(possibly_batched_index, "__len__") or len(possibly_batched_index) < 2:
            return plain(self, possibly_batched_index)
        from fastpipe.hooks.batch_memory import fetch_in_places

        return fetch_in_places(self, possibly_batched_index, plain)

    return fetch
