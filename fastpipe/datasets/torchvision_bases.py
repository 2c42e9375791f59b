"""Makes torchvision's dataset classes bases of ours, so that ``isinstance(dataset, VisionDataset)`` holds.

This doesn't import torchvision: as long as no other code has, none can make that check.
"""

from __future__ import annotations

import contextlib
import sys


def derive_from_torchvision(kind: type) -> None:
    """Makes a dataset class and its fastpipe bases derive from torchvision's classes of the same names, if imported.

    ``ImageDataset`` derives from ``VisionDataset``; ``ImageFolder`` from ``torchvision.datasets.ImageFolder``, and so
    on. torchvision's classes come last in the bases, so that they replace no method of ours.
    """
    theirs = sys.modules.get("torchvision.datasets")
    if theirs is None:
        return
    for cls in reversed(kind.__mro__):
        base = getattr(theirs, "VisionDataset" if cls.__name__ == "ImageDataset" else cls.__name__, None)
        if base is None or not cls.__module__.startswith("fastpipe.") or issubclass(cls, base):
            continue
        with contextlib.suppress(TypeError):  # a user's class may derive from both, in another order
            cls.__bases__ = (*(one for one in cls.__bases__ if not issubclass(base, one)), base)
