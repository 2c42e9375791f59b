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
from fastpipe.hooks.needed_names import NEEDED, missing_names
from fastpipe.hooks.patches import Patches, are_in_force_everywhere, be_in_force_everywhere, with_version
from fastpipe.kernels import trials

HOOKS = {
    "PIL.Image": "pillow.images",
    "PIL.ImageEnhance": "pillow.images",
    "PIL.ImageOps": "pillow.images",
    "PIL.JpegImagePlugin": "pillow.openers",
    "PIL.PngImagePlugin": "pillow.openers",
    "albumentations": "albumentations",
    "albumentations.pytorch.transforms": "albumentations",
    "cv2": "opencv",
    "fastpipe.program.pending_tensor": "torch.tensors",
    "lightning.fabric.strategies.launchers.subprocess_script": "ranks",
    "lightning_fabric.strategies.launchers.subprocess_script": "ranks",
    "multiprocessing.spawn": "children",
    "os": "children",
    "pycocotools._mask": "pycocotools",
    "subprocess": "children",
    "torch._dynamo.eval_frame": "torch.tensors",
    "torch._dynamo.variables.builder": "torch.tensors",
    "torch.cuda": "torch.call_stacks",
    "torch.distributed.launcher.api": "ranks",
    "torch.export": "torch.tensors",
    "torch.jit": "torch.tensors",
    "torch.mtia": "torch.call_stacks",
    "torch.utils.data.dataloader": "torch.data_loader",
    "torch.xpu": "torch.call_stacks",
    "torchvision.io": "torchvision.io",
    "torchvision.transforms._functional_pil": "torchvision.images",
    "torchvision.transforms._functional_tensor": "torchvision.tensors",
    "torchvision.transforms.functional": "torchvision.images",
    "torchvision.transforms.transforms": "torchvision.compose",
    "torchvision.transforms.v2._container": "torchvision.compose",
    "torchvision.transforms.v2._geometry": "torchvision.boxes",
    "torchvision.transforms.v2.functional": "torchvision.tensors",
    "torchvision.transforms.v2.functional._color": "torchvision.images",
    "torchvision.transforms.v2.functional._misc": "torchvision.images",
    "transformers.image_processing_backends": "transformers",
}
"""The modules of this package whose ``hook(module, patches)`` replaces functions, by the name of the hooked module.
(``fastpipe.program.pending_tensor`` stands for torch: once it is imported there may be pending tensors.)

A hook imports nothing heavy, and may run while its library is being imported. Its replacements import what they need at
their first call.
"""


DEFAULT_CHECK = 2
"""Number of first samples of each site that are made in the library's own way, too, and compared."""

_LARGEST_OF_HEAP = (32 << 20) - (1 << 16)
"""Bytes of nearly the largest block that glibc can be made to take from its heap: ``DEFAULT_MMAP_THRESHOLD_MAX``."""


class Installation:
    """The result of `install`; a ``with`` block with it undoes what that call installed."""

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
    """The installed hooks.

    Attributes:
        patches: the replaced attributes.
        imports: hooks further libraries when they are imported.
    """

    patches: Patches
    imports: ImportHook


_lock = threading.RLock()
_hooks: _Hooks | None = None


def install(*, check: int = DEFAULT_CHECK) -> Installation:
    """Makes this process, and those that it starts by ``multiprocessing``, make images as fastpipe does.

    The script needn't change. Images from ``PIL.Image.open`` have no pixels until they are used, torchvision's
    transforms are planned, and a ``DataLoader`` makes whole batches. Samples are the same: the first ones are compared
    with the library's own result. If one differs, a warning says so, and the library's own way is taken from then on.

    .. code:: python

        fastpipe.install()

        with fastpipe.install():  # or for a block
            train()

    Args:
        check: how many of the first samples of each dataset, transform and hooked function are also made in the
            library's own way, and compared; later one in some thousands. 0 for none.

    Returns:
        A context manager that undoes the installation, unless the hooks were installed before.

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
        be_in_force_everywhere(True)
        _note_what_is_late(hooks.patches)
    return Installation(True)


def _have_freed_memory_kept() -> None:
    """Makes glibc keep up to 64 MB of freed memory, as it does once a block of 32 MB has been freed.

    glibc returns free memory at the end of its heap to the system, beyond twice the size of the largest block that was
    freed, which is 6 MB in a script that computes with float images. Then the system has to clear and map the pages of
    each array anew (a third of ControlNet's time). With this function, such a script's peak memory is the same within
    1%. ``MALLOC_TRIM_THRESHOLD_`` and similar variables still decide if the user sets them. The freed block's pages are
    never touched, so this costs 30 µs. Other allocators aren't affected. `uninstall` doesn't undo it.
    """
    with contextlib.suppress(MemoryError):
        bytes(_LARGEST_OF_HEAP)


def install_for_blocks() -> None:
    """Installs the hooks, unless they are, so that they only work within `patches.in_force`."""
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
    trials.tell(LEDGER.note)
    checks = {name: partial(_check_names, patches) for name in NEEDED}
    hooks = {name: partial(_hook, ours, patches) for name, ours in HOOKS.items()}
    imports = ImportHook(checks | hooks)
    _hooks = _Hooks(patches, imports)
    imports.start()
    return _hooks


def _note_what_is_late(patches: Patches) -> None:
    """Adds notes to the report about functions and processes that `install` came too late for."""
    for name in patches.held_elsewhere():
        LEDGER.note(f"{name} was imported before fastpipe.install, and stays as it was: install first.")
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.active_children():
        LEDGER.note(
            "Processes that were running before fastpipe.install stay as they were: install before loaders start."
        )


def uninstall() -> None:
    """Undoes `install`. Open images, and images and tensors made from them, stay as they are."""
    global _hooks
    with _lock:
        if _hooks is None:
            return
        hooks, _hooks = _hooks, None
        hooks.imports.stop()
        hooks.patches.undo()
        be_in_force_everywhere(True)


def are_in_place() -> bool:
    """True if the hooks are installed, everywhere or for blocks."""
    return _hooks is not None


def is_installed() -> bool:
    """True between `install` and `uninstall`."""
    return _hooks is not None and are_in_force_everywhere()


def _hook(ours: str, patches: Patches, module: ModuleType) -> None:
    _check_names(patches, module)
    if not patches.active:
        return
    with patches.piece(module.__name__, module.__name__):
        importlib.import_module(f"fastpipe.hooks.{ours}").hook(module, patches)


def _check_names(patches: Patches, module: ModuleType) -> None:
    """Undoes all replacements, and those to come, if a module lacks names without which they would fail at calls."""
    missing = missing_names(module)
    if missing:
        LEDGER.note(f"{with_version(module.__name__)}: nothing is accelerated (it lacks {', '.join(missing)})")
        patches.undo()
