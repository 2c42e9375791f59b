"""torchvision's ``Compose``, planned when it is called with an image; v2's also with a sample with one image."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from fastpipe.clock import clock
from fastpipe.hooks.checking import check_call, plain_image
from fastpipe.hooks.class_checks import is_array, is_pillow_image
from fastpipe.hooks.library_functions import is_librarys
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.torchvision.compose_calls import CallsByObject, ComposeCalls, Composed
from fastpipe.hooks.torchvision.pending_tensors import call_on_pending, record_functions
from fastpipe.mistakes import attempt
from fastpipe.pending import is_pending
from fastpipe.plain_lookup import module_of

if TYPE_CHECKING:
    from PIL import Image


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces v1's ``Compose.__call__``, or v2's ``Compose.forward``."""
    calls = CallsByObject(partial(record_functions, patches))
    name, replacing = ("forward", _of_v2) if ".v2." in module.__name__ else ("__call__", _of_v1)

    def make(plain: Function) -> Function:
        return replacing(calls, plain) if is_librarys(plain) else plain  # another library's replacement stays

    patches.wrap(module.Compose, name, make)


def _of_v1(calls: CallsByObject, plain: Function) -> Function:
    def call(self: Composed, *args: object, **kwargs: object) -> object:
        if len(args) != 1 or kwargs or not (is_pillow_image(args[0]) or _is_array_of_bytes(args[0])):
            return plain(self, *args, **kwargs)
        return calls.of(self).on_image(self, args[0], plain)

    return call


def _is_array_of_bytes(image: object) -> bool:
    """True for a uint8 array ``(H, W, C)``, which ``ToPILImage`` and ``ToTensor`` take."""
    if not is_array(image):
        return False
    import numpy as np

    return type(image) is np.ndarray and image.ndim == 3 and image.dtype == np.uint8


def _of_v2(calls: CallsByObject, plain: Function) -> Function:
    def forward(self: Composed, *inputs: object) -> object:
        if not inputs or module_of(type(self)).startswith("fastpipe."):
            return plain(self, *inputs)
        image = _image_of(inputs)
        if image is None:
            is_tensor = len(inputs) == 1 and is_pending(inputs[0])
            return call_on_pending(calls.of(self), self, inputs[0], plain) if is_tensor else plain(self, *inputs)
        if len(inputs) == 1 and image is inputs[0]:
            return calls.of(self).on_image(self, image, plain)
        return _call_with_sample(calls.of(self), self, inputs, plain)

    return forward


def _image_of(inputs: tuple[object, ...]) -> Image.Image | None:
    """The only Pillow image of a sample ``(image, target, …)`` or ``{"image": …}``; None for none or several."""
    first = inputs[0]
    parts: Iterable[object] = inputs
    if type(first) is dict:
        parts = first.values()
    elif type(first) is list or type(first) is tuple:
        parts = first
    images = [part for part in parts if is_pillow_image(part)]
    return images[0] if len(images) == 1 else None


def _call_with_sample(calls: ComposeCalls, compose: Composed, inputs: tuple[object, ...], plain: Function) -> object:
    """Applies a ``Compose`` to a sample of several parts, by fastpipe's own ``Compose`` of the same transforms.

    Args:
        calls: the calls of the ``Compose``.
        compose: the library's object.
        inputs: the inputs of the call.
        plain: the library's own method.
    """
    from fastpipe.rng.state import GeneratorStates

    plan, site = calls.planned(compose.transforms), calls.site
    if plan is None:
        return plain(compose, *inputs)
    own = partial(calls.ours(compose), *inputs)
    calls_users = calls.call_users(plan, compose.transforms)
    if site.is_check_due() and not calls_users:
        twin, seconds = plain_image(_image_of(inputs))
        if twin is not None:
            sample = check_call(site, own, partial(plain, compose, *_with_twin(inputs, twin)), site.name, seconds)
            site.count(None)
            return sample
    begun = clock()
    if calls_users:  # once, whatever it raises
        sample = own()
    else:
        theirs, restore = partial(plain, compose, *inputs), GeneratorStates.of().restore
        sample = attempt(own, theirs, site.count_failed, [_image_of(inputs)], restore)
    site.count(clock() - begun)
    return sample


def _with_twin(inputs: tuple[object, ...], twin: object) -> tuple[object, ...]:
    """The sample with its image replaced."""

    def exchanged(part: object) -> object:
        return twin if is_pillow_image(part) else part

    first = inputs[0]
    if type(first) is dict:
        return ({name: exchanged(part) for name, part in first.items()}, *inputs[1:])
    if type(first) is list or type(first) is tuple:
        return (type(first)(map(exchanged, first)), *inputs[1:])
    return tuple(map(exchanged, inputs))
