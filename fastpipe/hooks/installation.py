"""`install` and `uninstall`: which module hooks which library, and when."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from dataclasses import dataclass
from functools import partial
from types import ModuleType, TracebackType

from fastpipe.arguments import whole_number
from fastpipe.hooks.imports import ImportHook
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Patches, be_in_force_everywhere

HOOKS = {
    "PIL.Image": "pillow",
    "PIL.ImageEnhance": "pillow_functions",
    "PIL.ImageOps": "pillow_functions",
    "PIL.JpegImagePlugin": "pillow_openers",
    "PIL.PngImagePlugin": "pillow_openers",
    "albumentations.augmentations.pixel.transforms": "albumentations",
    "albumentations.core.bbox_utils": "albumentations",
    "albumentations.core.composition": "albumentations",
    "albumentations.core.transforms_interface": "albumentations",
    "albumentations.pytorch.transforms": "albumentations",
    "cv2": "opencv",
    "fastpipe.program.pending_tensor": "torch_tensors",
    "lightning.fabric.strategies.launchers.subprocess_script": "ranks",
    "lightning_fabric.strategies.launchers.subprocess_script": "ranks",
    "multiprocessing.spawn": "children",
    "multiprocessing.util": "children",
    "pycocotools._mask": "pycocotools",
    "torch._dynamo.eval_frame": "torch_tracing",
    "torch.distributed.launcher.api": "ranks",
    "torch.export": "torch_tracing",
    "torch.jit": "torch_tracing",
    "torch.utils.data.dataloader": "torch_data",
    "torchvision.io": "torchvision_io",
    "torchvision.transforms._functional_pil": "torchvision_images",
    "torchvision.transforms.functional": "torchvision_images",
    "torchvision.transforms.transforms": "torchvision_v1",
    "torchvision.transforms.v2._container": "torchvision_v2",
    "torchvision.transforms.v2._geometry": "torchvision_boxes",
    "torchvision.transforms.v2.functional._color": "torchvision_images",
}
"""By another library's module: the module of this package whose ``hook(module, patches)`` replaces functions in it.
(``fastpipe.program.pending_tensor`` stands for torch: from then on there are tensors without pixels.)

A hook imports nothing heavy, and may run while its library is being imported. Its replacements import what they need
when they are first called.
"""


DEFAULT_CHECK = 2
"""Number of first samples of each thing taken over that are done the plain way, too, and compared."""

_LARGEST_OF_HEAP = (32 << 20) - (1 << 16)
"""Bytes of nearly the largest block that glibc can be brought to take from its heap: ``DEFAULT_MMAP_THRESHOLD_MAX``."""


class Installation:
    """The result of `install`: a ``with`` block that it is given to undoes at its end what that call installed."""

    def __init__(self, is_new: bool) -> None:
        self._is_new = is_new

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_new:
            uninstall()


@dataclass
class _Hooks:
    """The hooks that are in place.

    Attributes:
        patches: what they replaced.
        imports: puts others in place when their libraries are imported.
        everywhere: `install` was called; else they do something within `patches.in_force` alone.
    """

    patches: Patches
    imports: ImportHook
    everywhere: bool


_lock = threading.RLock()
_hooks: _Hooks | None = None


def install(*, check: int = DEFAULT_CHECK) -> Installation:
    """Has this process, and those that it starts by ``multiprocessing``, make images as fastpipe does.

    The script stays as it is: what ``PIL.Image.open`` opens has no pixels until somebody looks at them, torchvision's
    transforms are planned, a ``DataLoader`` makes whole batches. The samples are the same, and the first ones are
    compared with the plain way; where one differs, that is said, and the plain way is taken from then on.

    .. code:: python

        fastpipe.install()

        with fastpipe.install():  # or for a while
            train()

    Args:
        check: how many of the first samples of each data set, transform and function that is taken over are made the
            plain way, too, and compared: then one in some thousands. 0 for none.

    Returns:
        A context manager, which undoes it; not where it was installed before.

    Raises:
        ConfigError: ``check`` isn't a whole number, or is negative.
    """
    check = whole_number("check", check, "the number of samples that are compared with the plain way")
    with _lock:
        if is_installed():
            return Installation(False)
        LEDGER.check = check
        _have_freed_memory_kept()
        hooks = _hooks or _put_in_place()
        hooks.everywhere = True
        be_in_force_everywhere(True)
        _note_what_is_late(hooks.patches)
    return Installation(True)


def _have_freed_memory_kept() -> None:
    """Has glibc keep up to 64 MB of freed memory, as it does by itself once a block of 32 MB has been freed.

    It gives back what is free at its heap's end beyond twice the size of the largest block that was freed, 6 MB where a
    script computes with images in floats: each array's pages are then the system's to clear and map anew (a third of
    ControlNet's time). The most memory that such a script takes is the same within 1%, and ``MALLOC_TRIM_THRESHOLD_``
    and its like keep glibc as the user set it. Nobody touches the block's pages, so that it costs 30 µs; other
    allocators do as they did. `uninstall` leaves it so.
    """
    with contextlib.suppress(MemoryError):
        bytes(_LARGEST_OF_HEAP)


def install_for_blocks() -> None:
    """Puts the hooks in place, if they aren't, where they do something within `patches.in_force` alone."""
    if _hooks is not None:
        return
    with _lock:
        if _hooks is None:
            LEDGER.check = DEFAULT_CHECK
            be_in_force_everywhere(False)
            _put_in_place()


def _put_in_place() -> _Hooks:
    global _hooks
    patches = Patches()
    imports = ImportHook({name: partial(_hook, ours, patches) for name, ours in HOOKS.items()})
    _hooks = _Hooks(patches, imports, False)
    imports.start()
    return _hooks


def _note_what_is_late(patches: Patches) -> None:
    """Notes for the report what was there before `install`, and can't be reached any more."""
    for name in patches.held_elsewhere():
        LEDGER.note(f"{name} was imported before fastpipe.install, and stays as it was: install first.")
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.active_children():
        LEDGER.note(
            "Processes that were running before fastpipe.install stay as they were: install before loaders start."
        )


def uninstall() -> None:
    """Undoes `install`. Images that are open, and what was made of them, stay as they are."""
    global _hooks
    with _lock:
        if _hooks is None:
            return
        hooks, _hooks = _hooks, None
        hooks.imports.stop()
        hooks.patches.undo()
        be_in_force_everywhere(True)


def are_in_place() -> bool:
    """True if the hooks are there, everywhere or for blocks."""
    return _hooks is not None


def is_installed() -> bool:
    """True between `install` and `uninstall`."""
    return _hooks is not None and _hooks.everywhere


def _hook(ours: str, patches: Patches, module: ModuleType) -> None:
    importlib.import_module(f"fastpipe.hooks.{ours}").hook(module, patches)
