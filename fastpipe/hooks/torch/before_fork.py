"""Does before a loader's workers are forked what each of them would do, in each epoch: imports, and trials."""

from __future__ import annotations

import multiprocessing
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from fastpipe.hooks.imports import import_at_first_use
from fastpipe.hooks.ledger import LEDGER
from fastpipe.plain_lookup import module_of, modules_of, own_attributes

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_MAKES_IMAGES = ("torchvision.transforms", "torchvision.io", "albumentations", "timm.data")
"""Modules of which a script has imported some if its samples are images."""

_NEEDED_FOR_ARRAYS = (
    "fastpipe.core.encoded",
    "fastpipe.hooks.checking",
    "fastpipe.hooks.torch.collating",
    "fastpipe.memory.torch_worker",
)
"""For images that OpenCV gives as arrays."""
_RECORDING = "fastpipe.program.on_image"
_NEEDED = (
    "fastpipe.hooks.torch.batch_memory",
    "fastpipe.hooks.torch.type_calls",
    "fastpipe.ops.float_resize",
    "fastpipe.ops.tensor_function",
    "fastpipe.ops.warps",
    "fastpipe.pillow.files",
    "fastpipe.pillow.image_tensors",
    "fastpipe.rng.state",
    "fastpipe.transforms.compose_plan",
)
_LIBRARIES = {"timm", "torchvision"}
"""The libraries whose datasets `fastpipe.hooks.torch.known_batches` knows."""
_NESTED = 4  # the most nested wrappers


def within_wrappers(dataset: object) -> object | None:
    """The dataset of a known library's class, or of one derived from it, that torch's wrappers hold; else None."""
    for _ in range(_NESTED):
        if any(module.partition(".")[0] in _LIBRARIES for _, module in modules_of(type(dataset))):
            return dataset
        if module_of(type(dataset)) != "torch.utils.data.dataset":
            return None
        held = own_attributes(dataset)  # of a Subset or a ConcatDataset
        dataset = held.get("dataset", next(iter(held.get("datasets", ())), None))
    return None


def may_make_images() -> bool:
    """True if this process has made images, or has imported a library for making samples that are images."""
    return "fastpipe.core" in sys.modules or "cv2" in sys.modules or _has_transforms()


def _has_transforms() -> bool:
    return "PIL.Image" in sys.modules and any(name in sys.modules for name in _MAKES_IMAGES)


def prepare_workers(loader: DataLoader[object]) -> AbstractContextManager[object]:
    """Prepares workers, if a loader forks them and samples may be images, or earlier ones were.

    Args:
        loader: torch's loader, which is about to start workers.

    Returns:
        The block in which they are to be forked.
    """
    has_made = LEDGER.has_images()
    if not may_make_images() and not has_made:
        return nullcontext()
    context: Any = loader.multiprocessing_context or multiprocessing
    method = context.get_start_method(allow_none=True)  # else Python would settle on one, and refuse another later
    if (method or multiprocessing.get_all_start_methods()[0]) != "fork":
        return nullcontext()
    for name in _NEEDED_FOR_ARRAYS:
        import_at_first_use(name)
    if _has_transforms() or (has_made and "PIL.Image" in sys.modules) or _RECORDING in sys.modules:
        _import_for_recording()
        _import_for_known(loader.dataset)
    from fastpipe.hooks.torch.type_calls import known_to_workers

    return known_to_workers(loader)


def _import_for_recording() -> None:
    """Imports the modules for images on which operations are recorded."""
    for name in _NEEDED:
        import_at_first_use(name)
    from fastpipe import core, readers
    from fastpipe.transforms.adapters import RECIPES

    for library, recipe in RECIPES.items():
        if library in sys.modules and not library.startswith("fastpipe."):
            import_at_first_use(recipe)
    if core.available():
        readers.get_reader("core")
        _try_out_libraries()


def _import_for_known(dataset: object) -> None:
    """Imports the modules for batches of a known dataset."""
    within = within_wrappers(dataset)
    if within is not None:
        import_at_first_use("fastpipe.hooks.torch.known_batches")
        from fastpipe.interop.datasets import is_known

        for one in (dataset, within):
            is_known(one)  # imports its library's table


def _try_out_libraries() -> None:
    """Runs the trials of libraries that each process runs once, so that forked workers inherit the results.

    They take about as long as the first image.
    """
    from fastpipe.pillow.unread import same_fields
    from fastpipe.rng.generators import usable

    usable()
    same_fields()
    if "torchvision.io" in sys.modules:
        import_at_first_use("fastpipe.hooks.torchvision.tensor_files")
    if "albumentations" in sys.modules:
        from fastpipe.interop.albumentations.normalizing import pair_is_known

        pair_is_known()
        import_at_first_use("fastpipe.interop.albumentations.contiguous")
