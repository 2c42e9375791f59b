"""pycocotools' ``decode`` with run lengths drawn by the core: an ordinary array with the same bytes.

pycocotools decodes masks that the core refuses or that are unusual in any way. For datasets that decode masks, the
functions that follow are made faster, too: see `fastpipe.hooks.torch.mask_tensors`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from fastpipe.hooks.faster_function import FasterFunction
from fastpipe.hooks.guard import guard
from fastpipe.hooks.patches import Function, Patches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fastpipe.hooks.torch.fetchers import Fetcher

    Masks: TypeAlias = NDArray[np.uint8]

_MOST_BYTES = 1 << 30


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces ``decode`` of the extension module, which ``pycocotools.mask`` and ``pycocotools.coco`` call."""
    patches.wrap(module, "decode", _Decoder)


class _Decoder(FasterFunction):
    """``pycocotools._mask.decode`` of a list of masks.

    Args:
        plain: pycocotools' function.
    """

    def __init__(self, plain: Function) -> None:
        super().__init__("pycocotools.mask.decode", plain)

    def make(self, *args: object, **kwargs: object) -> Masks | str:
        """The masks, or the reason why pycocotools has to decode them."""
        masks = decoded(args[0]) if len(args) == 1 and not kwargs else "other arguments"
        if not isinstance(masks, str):
            _thread.decoded += 1
        return masks


def decoded(masks: object) -> Masks | str:
    """Decodes masks to a column-major array ``(H, W, N)`` of 0 and 1; or returns why pycocotools has to decode them.

    Args:
        masks: as from ``frPyObjects``: each with its ``size``, and ``counts`` in pycocotools' text format.
    """
    import numpy as np

    from fastpipe import core
    from fastpipe.core.addresses import address_of
    from fastpipe.core.masks import draw_runs

    if not core.available():
        return core.why_not()
    if type(masks) is not list or not masks or any(type(mask) is not dict for mask in masks):
        return "arguments other than a list of masks"
    size = masks[0].get("size")
    if type(size) not in (list, tuple) or [type(side) for side in size] != [int, int]:
        return "masks with another size than two numbers"
    height, width = size
    if min(size) < 2 or height * width * len(masks) > _MOST_BYTES:  # numpy's copy of a single line has other strides
        return "masks of a line, or huge ones"
    planes = np.empty((height, width, len(masks)), np.uint8, order="F")
    out = address_of(planes)
    for mask in masks:
        text = mask.get("counts")
        if type(text) is str:
            text = text.encode()
        if type(text) is not bytes or mask.get("size") != size:
            return "masks of several sizes, or without a text"
        if not draw_runs(text, out, height * width):
            return "run lengths that pycocotools may read otherwise"
        out += height * width
    return planes


# -- datasets that decode masks


class _Thread(threading.local):
    """A thread's number of calls that decoded masks."""

    decoded = 0


_thread = _Thread()
_fetchers: weakref.WeakSet[Fetcher] = weakref.WeakSet()
"""Fetchers of torch's whose datasets have decoded masks."""


@contextmanager
def fetching(fetcher: Fetcher) -> Iterator[None]:
    """Makes functions on masks faster within the block, if the fetcher's last samples decoded masks."""
    before = _thread.decoded
    mode: AbstractContextManager[object] = nullcontext()
    with guard("faster functions on masks"):
        if fetcher in _fetchers:
            from fastpipe.hooks.torch.mask_tensors import MaskMode

            mode = MaskMode()
    with mode:
        yield
    with guard("faster functions on masks"):
        if _thread.decoded == before:
            _fetchers.discard(fetcher)
        else:
            _fetchers.add(fetcher)
