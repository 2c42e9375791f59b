"""Imports the modules of fastpipe that a loader's workers need before they are forked, so that each epoch is faster."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from typing import TYPE_CHECKING, Any

from fastpipe.hooks.ledger import LEDGER

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
    "fastpipe.hooks.torch.known_batches",
    "fastpipe.pillow.files",
    "fastpipe.pillow.image_tensors",
    "fastpipe.rng.state",
    "fastpipe.transforms.compose_plan",
)


def may_make_images() -> bool:
    """True if this process has made images, or has imported a library for making samples that are images."""
    return "fastpipe.core" in sys.modules or "cv2" in sys.modules or _has_transforms()


def _has_transforms() -> bool:
    return "PIL.Image" in sys.modules and any(name in sys.modules for name in _MAKES_IMAGES)


def import_for_workers(loader: DataLoader[object]) -> None:
    """Imports the modules for workers, if a loader forks its workers and samples may be images, or earlier ones were.

    Args:
        loader: torch's loader, which is about to start workers.
    """
    has_made = LEDGER.has_images()
    if not may_make_images() and not has_made:
        return
    context: Any = loader.multiprocessing_context or multiprocessing
    method = context.get_start_method(allow_none=True)  # else Python would settle on one, and refuse another later
    if (method or multiprocessing.get_all_start_methods()[0]) != "fork":
        return
    for name in _NEEDED_FOR_ARRAYS:
        importlib.import_module(name)
    if _has_transforms() or (has_made and "PIL.Image" in sys.modules) or _RECORDING in sys.modules:
        _import_for_recording()


def _import_for_recording() -> None:
    """Imports the modules for images on which operations are recorded."""
    for name in _NEEDED:
        importlib.import_module(name)
    from fastpipe import core, readers
    from fastpipe.transforms.adapters import RECIPES

    for library, recipe in RECIPES.items():
        if library in sys.modules and not library.startswith("fastpipe."):
            importlib.import_module(recipe)
    if core.available():
        readers.get_reader("core")
