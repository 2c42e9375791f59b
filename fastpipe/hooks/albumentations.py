"""albumentations: the slow parts other than its draws, computed by the core.

Its crops are views, and its flips and resizes are OpenCV's, which are fast. Slow are ``Normalize``, which looks up its
table channel by channel, and stacking the tensors of ``ToTensorV2``, which are interleaved, to a planar batch. If both
follow each other in a `Compose`, the tensor has no elements until it is used or the batch is stacked: then the core
writes the planes directly, without intermediate floats. In addition, OpenCV copies transposed and rotated images, and
boxes are only filtered again if a transform has changed them. All transforms and their generators are unchanged.
What is known of albumentations is in `fastpipe.interop.albumentations`; here are the calls, their counts and checks.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fastpipe.clock import clock
from fastpipe.hooks.faster_function import FasterFunction
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.patches import Function, Patches

if TYPE_CHECKING:
    import torch

    from fastpipe.hooks.torchvision.compose_calls import Composed
    from fastpipe.interop.albumentations.normalizing import Floats, Pair
    from fastpipe.program.pending_work import NormalizedPixels

_NORMALIZE = "albumentations.Normalize"
_PACKAGE = "albumentations"
_COMPOSITION, _PIXELS, _PYTORCH = (
    "albumentations.core.composition",
    "albumentations.augmentations.pixel.transforms",
    "albumentations.pytorch.transforms",
)
_LEAST_PIXELS = 1 << 14
"""The fewest pixels of an image for which the tensor is made later: smaller arrays of floats reuse freed memory.

Where the tensor is read at once, 64x64 would take 89 µs in place of 46, and 160x160 takes 112 in place of 122.
"""

_thread = threading.local()


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces functions once the package is imported; the pair of transforms once both are.

    Args:
        module: the package, or its module with ``ToTensorV2``.
        patches: hold the replacements.
    """
    if module.__name__ == _PACKAGE:
        for home, name, make in _OF_THE_PACKAGE:
            with patches.piece(_PACKAGE, f"{home}.{name}"):
                patches.wrap(sys.modules[home], name, make)
    if {_PIXELS, _PYTORCH, _COMPOSITION} <= sys.modules.keys():
        patches.once(_replace_pair, _PACKAGE, "Normalize followed by ToTensorV2")


def _replace_pair(patches: Patches) -> None:
    """Replaces the methods through which an image passes from ``Normalize`` to the tensor."""
    patches.wrap(sys.modules[_PIXELS].Normalize, "apply_with_params", _normalizing)
    patches.wrap(sys.modules[_PYTORCH].ToTensorV2, "apply_with_params", _making_tensors)
    patches.wrap(sys.modules[_COMPOSITION].Compose, "__call__", _composing)


class _Normalize(FasterFunction):
    """albucore's ``normalize`` of uint8 images with three channels, by the core."""

    @cached_property
    def _is_known(self) -> bool:
        from fastpipe.interop.albumentations.normalizing import is_known_normalize

        return is_known_normalize(self._plain)

    def make(
        self, img: object = None, mean: object = None, denominator: object = None, *others: object, **named: object
    ) -> Floats | str:
        """The image in float32, or the reason why albucore has to make it."""
        from fastpipe.interop.albumentations import normalizing

        if not self._is_known:
            return "another albucore than is known"
        if others or named or not normalizing.takes(img, mean, denominator):
            return "other images, means or deviations"
        normalized = normalizing.normalized(img, mean, denominator)
        return "images without pixels, or without the core" if normalized is None else normalized


class _PairInCall:
    """A ``Normalize`` and the ``ToTensorV2`` after it, during one call of their `Compose`.

    Args:
        pair: both.

    Attributes:
        normalize, to_tensor: albumentations' objects.
        array: a placeholder, without values, for the floats between both; None before, and once the tensor is made.
    """

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self.normalize, self.to_tensor = pair
        self.array: Floats | None = None
        self._work: NormalizedPixels
        self._seconds = 0.0

    def begin(self, image: Any) -> bool:
        """Takes an image to normalise; False if albumentations has to do it."""
        from fastpipe.interop.albumentations.normalizing import takes

        begun = clock()
        site, mean, factor = self._site, self.normalize.mean_np, self.normalize.denominator
        if site.is_off or not takes(image, mean, factor):
            return False
        if image.shape[0] * image.shape[1] < _LEAST_PIXELS:
            return False
        import numpy as np
        import torch

        from fastpipe import core
        from fastpipe.hooks.checking import SiteAccount
        from fastpipe.program.pending_work import NormalizedPixels

        if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack() or not core.available():
            return False
        pixels = image.copy(order="C")  # the image may be changed later
        mean, factor = mean.copy(), factor.copy()
        library = partial(self._pair.plainly, pixels, mean, factor)
        account = SiteAccount.of_file(site, library, site.is_check_due())
        self._work = NormalizedPixels.of(pixels, mean, factor, library, account)
        self.array = np.empty(pixels.shape, np.float32)  # pages that are never touched
        self._seconds = clock() - begun
        return True

    def tensor(self) -> torch.Tensor:
        """The pending tensor."""
        from fastpipe.program.pending_tensor import pending_tensor

        begun = clock()
        pending = pending_tensor(self._work)
        self.array = None
        self._site.count(self._seconds + clock() - begun)
        return pending

    def end(self) -> None:
        """Writes the floats to the placeholder if no tensor was made, because ``ToTensorV2`` was skipped."""
        if self.array is not None:
            self.array[...] = self._work.result().permute(1, 2, 0).numpy()
            self._site.count(self._seconds)

    @property
    def _site(self) -> Site:
        return LEDGER.site("function", _NORMALIZE)


def _composing(plain: Function) -> Function:
    def call(self: Composed, *args: object, **data: object) -> object:
        from fastpipe.interop.albumentations.normalizing import last_pair

        found = last_pair(self)
        if found is None:
            return plain(self, *args, **data)
        pair = _PairInCall(found)
        before = getattr(_thread, "pair", None)
        _thread.pair = pair
        try:
            return plain(self, *args, **data)
        finally:
            _thread.pair = before
            pair.end()

    return call


def _normalizing(plain: Function) -> Function:
    def apply_with_params(self: object, params: object, *args: object, **data: object) -> object:
        pair: _PairInCall | None = getattr(_thread, "pair", None)
        if pair is None or pair.normalize is not self or pair.array is not None or not pair.begin(data.get("image")):
            return plain(self, params, *args, **data)
        results = plain(self, params, *args, **{**data, "image": None})
        return {**results, "image": pair.array}

    return apply_with_params


def _making_tensors(plain: Function) -> Function:
    def apply_with_params(self: object, params: object, *args: object, **data: object) -> object:
        pair: _PairInCall | None = getattr(_thread, "pair", None)
        if pair is None or pair.to_tensor is not self or pair.array is None or data.get("image") is not pair.array:
            return plain(self, params, *args, **data)
        results = plain(self, params, *args, **{**data, "image": None})
        return {**results, "image": pair.tensor()}

    return apply_with_params


def _making_contiguous(plain: Function) -> Function:
    def ensure_contiguous_output(arg: object) -> object:
        from fastpipe.interop.albumentations.contiguous import turned

        made = turned(arg)
        return plain(arg) if made is None else made

    return ensure_contiguous_output


def _filtering_boxes(plain: Function) -> Function:
    from fastpipe.interop.albumentations.box_checks import FilterOfBoxes

    return FilterOfBoxes(plain)


def _checking_boxes(plain: Function) -> Function:
    """Wraps albumentations' ``check_bboxes``: skips its ``np.isclose`` if all boxes are clearly valid."""

    def check_bboxes(bboxes: object) -> None:
        from fastpipe.interop.albumentations.box_checks import are_clearly_valid, is_known_check

        if not (is_known_check(plain) and are_clearly_valid(bboxes)):
            plain(bboxes)

    return check_bboxes


_OF_THE_PACKAGE: tuple[tuple[str, str, Callable[[Function], Function]], ...] = (
    (_PIXELS, "normalize", partial(_Normalize, _NORMALIZE)),
    ("albumentations.core.bbox_utils", "check_bboxes", _checking_boxes),
    ("albumentations.core.bbox_utils", "filter_bboxes", _filtering_boxes),
    ("albumentations.core.transforms_interface", "ensure_contiguous_output", _making_contiguous),
)
"""For functions in the package's modules: the module, the name, and what makes the replacement."""
