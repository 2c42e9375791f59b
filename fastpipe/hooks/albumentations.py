"""albumentations: the slow parts other than its draws, computed by the core.

Its crops are views, and its flips and resizes are OpenCV's, which are fast. Slow are ``Normalize``, which looks up its
table channel by channel, and stacking the tensors of ``ToTensorV2``, which are interleaved, to a planar batch. If both
follow each other in a `Compose`, the tensor has no elements until it is used or the batch is stacked: then the core
writes the planes directly, without intermediate floats. In addition, OpenCV copies transposed and rotated images, and
boxes are only filtered again if a transform has changed them. All transforms and their generators are unchanged.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from fastpipe.clock import clock
from fastpipe.hooks.faster_function import FasterFunction
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.patches import Function, Patches
from fastpipe.plain_way import plainly

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from typing_extensions import TypeIs

    from fastpipe.hooks.torchvision.compose_calls import Composed
    from fastpipe.program.pending_work import NormalizedPixels
    from fastpipe.readers.base import Pixels

    Floats: TypeAlias = NDArray[np.float32]

_FINGERPRINT = "9e5c6fe19016e82a"
"""Fingerprint of the functions of albucore with which ``Normalize`` computes."""
_PAIR_FINGERPRINT = "202d13e9d165f38d"
"""Fingerprint of albumentations' code from the input of ``Normalize`` to the tensor that `Compose` returns."""
_CHECK_FINGERPRINT = "5eae0499ecdba183"
"""Fingerprint of albumentations' ``check_bboxes``."""
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
        """True if this albucore's code is the one that this class was written for."""
        return _has_known_code(self._plain)

    def make(
        self, img: object = None, mean: object = None, denominator: object = None, *others: object, **named: object
    ) -> Floats | str:
        """The image in float32, or the reason why albucore has to make it."""
        from fastpipe.core.factors import normalized_by_factor

        if not self._is_known:
            return "another albucore than is known"
        if others or named or not (_is_photo(img) and _has_channels(mean) and _has_channels(denominator)):
            return "other images, means or deviations"
        normalized = normalized_by_factor(img, mean, denominator)
        return "images without pixels, or without the core" if normalized is None else normalized


def _has_known_code(normalize: object) -> bool:
    from fastpipe.interop.transforms.known_code import has_code, member

    home = sys.modules.get(getattr(normalize, "__module__", ""))
    return has_code([member(home, name) for name in ("normalize", "normalize_lut")], _FINGERPRINT)


def _is_photo(img: object) -> TypeIs[Pixels]:
    """True for a uint8 array ``(H, W, 3)``."""
    import numpy as np

    return type(img) is np.ndarray and img.dtype == np.uint8 and img.shape[2:] == (3,)


def _has_channels(values: object) -> TypeIs[Floats]:
    """True for a float32 array ``(3,)``."""
    import numpy as np

    return type(values) is np.ndarray and values.dtype == np.float32 and values.shape == (3,)


# -- Normalize and ToTensorV2 together


class _NormalizeTransform(Protocol):
    """The attributes of albumentations' ``Normalize`` that are read here."""

    normalization: str
    mean_np: object
    denominator: object


class _TensorTransform(Protocol):
    """albumentations' ``ToTensorV2``."""

    def apply(self, img: Floats) -> torch.Tensor:
        """Makes the tensor of an image."""


class _Pair:
    """A ``Normalize`` and the ``ToTensorV2`` after it, during one call of their `Compose`.

    Args:
        normalize: albumentations' object.
        to_tensor: albumentations' object.

    Attributes:
        array: a placeholder, without values, for the floats between both; None before, and once the tensor is made.
    """

    def __init__(self, normalize: _NormalizeTransform, to_tensor: _TensorTransform) -> None:
        self.normalize, self.to_tensor = normalize, to_tensor
        self.array: Floats | None = None
        self._work: NormalizedPixels
        self._seconds = 0.0

    @classmethod
    def of(cls, compose: Composed) -> _Pair | None:
        """The last pair of a `Compose`; None for a subclass, or if the members were changed on their instances."""
        composition, pixels, pytorch = map(sys.modules.get, (_COMPOSITION, _PIXELS, _PYTORCH))
        if composition is None or pixels is None or pytorch is None or not _pair_is_known():
            return None
        if type(compose) is not composition.Compose:
            return None
        members: list[Any] = [*compose.transforms]
        for normalize, to_tensor in reversed([*pairwise(members)]):
            if type(to_tensor) is pytorch.ToTensorV2 and type(normalize) is pixels.Normalize:
                both = (normalize, to_tensor)
                known = normalize.normalization == "standard" and all(map(_is_as_made, both))
                return cls(*both) if known else None
        return None

    def begin(self, image: object) -> bool:
        """Takes an image to normalise; False if albumentations has to do it."""
        begun = clock()
        site, mean, factor = self._site, self.normalize.mean_np, self.normalize.denominator
        if site.is_off or not (_is_photo(image) and _has_channels(mean) and _has_channels(factor)):
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
        library = partial(_made_plainly, self.to_tensor, pixels, mean, factor)
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


def _made_plainly(to_tensor: _TensorTransform, pixels: Pixels, mean: Floats, factor: Floats) -> torch.Tensor:
    """The tensor, made by albumentations' own functions."""
    with plainly():
        return to_tensor.apply(sys.modules[_PIXELS].normalize(pixels, mean, factor))


def _is_as_made(transform: object) -> bool:
    """True if no method of the instance is replaced, so that it does what its class does."""
    own = vars(transform)
    return "apply_with_params" not in own and own["_key2func"].get("image") == getattr(transform, "apply", None)


@lru_cache(maxsize=1)
def _pair_is_known() -> bool:
    from fastpipe.interop.transforms.known_code import has_code, member

    return has_code(_between(), _PAIR_FINGERPRINT) and _has_known_code(member(sys.modules.get(_PIXELS), "normalize"))


def _between() -> list[object]:
    """The functions from the input of ``Normalize`` to the tensor; None for each that this version lacks."""
    from fastpipe.interop.transforms.known_code import member

    return [member(sys.modules.get(home), path) for home, paths in _BETWEEN for path in paths.split()]


_BETWEEN = (
    (_COMPOSITION, "Compose.__call__ Compose.check_data_post_transform Compose._track_transform_params"),
    (_COMPOSITION, "Compose.postprocess BasicTransform.__call__ BasicTransform.apply_with_params"),
    (_COMPOSITION, "BasicTransform.should_apply BasicTransform.get_params_dependent_on_data"),
    (_PIXELS, "Normalize.apply"),
    (_PYTORCH, "ToTensorV2.apply"),
    ("albumentations.core.utils", "get_shape"),
)


def _composing(plain: Function) -> Function:
    def call(self: Composed, *args: object, **data: object) -> object:
        pair = _Pair.of(self)
        if pair is None:
            return plain(self, *args, **data)
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
        pair: _Pair | None = getattr(_thread, "pair", None)
        if pair is None or pair.normalize is not self or pair.array is not None or not pair.begin(data.get("image")):
            return plain(self, params, *args, **data)
        results = plain(self, params, *args, **{**data, "image": None})
        return {**results, "image": pair.array}

    return apply_with_params


def _making_tensors(plain: Function) -> Function:
    def apply_with_params(self: object, params: object, *args: object, **data: object) -> object:
        pair: _Pair | None = getattr(_thread, "pair", None)
        if pair is None or pair.to_tensor is not self or pair.array is None or data.get("image") is not pair.array:
            return plain(self, params, *args, **data)
        results = plain(self, params, *args, **{**data, "image": None})
        return {**results, "image": pair.tensor()}

    return apply_with_params


# -- transposed and rotated images


def _making_contiguous(plain: Function) -> Function:
    def ensure_contiguous_output(arg: object) -> object:
        turned = _turned(arg)
        return plain(arg) if turned is None else turned

    return ensure_contiguous_output


def _turned(array: object) -> object:
    """Copies a flipped or transposed view of an image to a new array by OpenCV; None for any other array.

    ``Transpose``, ``RandomRotate90`` and ``D4`` give such views. numpy copies them value by value; OpenCV takes a tenth
    of the time.
    """
    import numpy as np

    if type(array) is not np.ndarray or array.flags.c_contiguous or array.dtype not in (np.uint8, np.float32):
        return None
    if not array.size or array.ndim not in (2, 3) or array.shape[2:] not in ((), (2,), (3,), (4,)):
        return None
    cv2 = sys.modules["cv2"]
    upended, flipped = (stride < 0 for stride in array.strides[:2])
    upright = array[:: -1 if upended else 1, :: -1 if flipped else 1]
    across = upright.swapaxes(0, 1)
    if across.flags.c_contiguous:
        turned = cv2.transpose(across)
    elif upright.flags.c_contiguous:
        turned = upright
    else:
        return None
    return cv2.flip(turned, -1 if upended and flipped else int(flipped)) if upended or flipped else turned


# -- boxes


class _FilterOfBoxes:
    """albumentations' ``filter_bboxes``, which runs after each transform; keeps its last result for the same boxes.

    The result depends on the arguments only, so it is the same after a transform that only changes pixels.

    Args:
        plain: albumentations' function.
    """

    def __init__(self, plain: Function) -> None:
        self._plain = plain
        self._last: tuple[tuple[object, ...], NDArray[np.generic]] | None = None

    def __call__(self, *args: object, **kwargs: object) -> object:
        key, last = _key_of_boxes(*args, **kwargs), self._last
        if key is not None and last is not None and key == last[0]:
            return last[1].copy()
        result = self._plain(*args, **kwargs)
        if key is not None and result.size:
            self._last = key, result.copy()
        return result


def _key_of_boxes(
    bboxes: object = None, shape: object = None, *others: object, **named: object
) -> tuple[object, ...] | None:
    """A key of all that a result depends on; None for arguments other than those that `Compose` gives."""
    import numpy as np

    if type(bboxes) is not np.ndarray or bboxes.ndim != 2 or bboxes.dtype.kind != "f" or type(shape) is not dict:
        return None
    numbers = (*shape.values(), *others, *named.values())
    if not {*map(type, numbers)} <= {int, float, type(None)}:
        return None
    return bboxes.tobytes(), bboxes.shape, bboxes.dtype, tuple(shape), tuple(named), numbers


def _checking_boxes(plain: Function) -> Function:
    """Wraps albumentations' ``check_bboxes``: skips its ``np.isclose`` if all boxes are clearly valid."""

    def check_bboxes(bboxes: object) -> None:
        import numpy as np

        if type(bboxes) is np.ndarray and bboxes.ndim == 2 and bboxes.shape[1] > 3 and _check_of_boxes_is_known(plain):
            corners = bboxes[:, :4]
            is_inside = ((corners >= 0) & (corners <= 1)).all()
            if is_inside and (corners[:, 2:] > corners[:, :2]).all():
                return
        plain(bboxes)

    return check_bboxes


@lru_cache(maxsize=1)
def _check_of_boxes_is_known(check: Function) -> bool:
    from fastpipe.interop.transforms.known_code import has_code

    return has_code([check], _CHECK_FINGERPRINT)


_OF_THE_PACKAGE: tuple[tuple[str, str, Callable[[Function], Function]], ...] = (
    (_PIXELS, "normalize", partial(_Normalize, _NORMALIZE)),
    ("albumentations.core.bbox_utils", "check_bboxes", _checking_boxes),
    ("albumentations.core.bbox_utils", "filter_bboxes", _FilterOfBoxes),
    ("albumentations.core.transforms_interface", "ensure_contiguous_output", _making_contiguous),
)
"""For functions in the package's modules: the module, the name, and what makes the replacement."""
