"""torchvision's dataset classes as base classes of ours, so that ``isinstance(dataset, VisionDataset)`` holds.

Nothing imports torchvision for it: where nobody has, nobody can ask.
"""

from __future__ import annotations

import contextlib
import sys


def derive_from_torchvision(kind: type) -> None:
    """Has a dataset's class and its fastpipe bases derive from torchvision's of the same names, once it is imported.

    ``ImageDataset`` derives from ``VisionDataset``; ``ImageFolder`` from ``torchvision.datasets.ImageFolder``, and so
    on. torchvision's come last, so that no method of ours becomes another.
    """
    theirs = sys.modules.get("torchvision.datasets")
    if theirs is None:
        return
    for cls in reversed(kind.__mro__):
        base = getattr(theirs, "VisionDataset" if cls.__name__ == "ImageDataset" else cls.__name__, None)
        if base is None or not cls.__module__.startswith("fastpipe.") or issubclass(cls, base):
            continue
        with contextlib.suppress(TypeError):  # a class of the user's derives from both, in another order
            cls.__bases__ = (*(one for one in cls.__bases__ if not issubclass(base, one)), base)
