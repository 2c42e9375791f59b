"""torchvision's ``transforms.v2.Compose``, planned when it is called with an image, or with a sample with one image."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from fastpipe.hooks.checking import check_call
from fastpipe.hooks.compose import CallsByObject, calls_back
from fastpipe.hooks.originals import is_librarys
from fastpipe.hooks.patches import Function, Patches
from fastpipe.hooks.pending_tensors import FunctionsOnTensors, call_on_pending, is_pending
from fastpipe.hooks.plain_images import plain_image
from fastpipe.hooks.torchvision_v1 import is_pillow_image


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces ``Compose.forward``."""
    calls, samples = CallsByObject(FunctionsOnTensors(patches).record), _SampleCalls()

    def make(plain: Function) -> Function:
        def forward(self: object, *inputs: object) -> Any:
            if not inputs or type(self).__module__.startswith("fastpipe."):
                return plain(self, *inputs)
            if len(inputs) == 1 and is_pending(inputs[0]):
                return call_on_pending(calls.of(self), self, inputs[0], plain)
            if len(inputs) == 1 and is_pillow_image(inputs[0]):
                return calls.of(self).on_image(self, inputs[0], plain)
            if _image_of(inputs) is not None:
                return samples.call(self, inputs, plain, calls)
            return plain(self, *inputs)

        return forward if is_librarys(plain) else plain  # another library's replacement stays

    patches.wrap(module.Compose, "forward", make)


def _image_of(inputs: tuple[Any, ...]) -> Any:
    """The only Pillow image of a sample ``(image, target, …)`` or ``{"image": …}``; None for none or several."""
    first = inputs[0]
    parts = first.values() if type(first) is dict else first if type(first) in (list, tuple) else inputs
    found = [part for part in parts if is_pillow_image(part)]
    return found[0] if len(found) == 1 else None


class _SampleCalls:
    """Calls with samples of several parts, made by fastpipe's own ``Compose`` of the same transforms."""

    def __init__(self) -> None:
        self._ours: dict[int, tuple[weakref.ref[Any], tuple[object, ...], object]] = {}

    def call(self, compose: Any, inputs: tuple[Any, ...], plain: Callable[..., Any], calls: CallsByObject) -> Any:
        """Applies a ``Compose`` to a sample.

        Args:
            compose: the library's object.
            inputs: the inputs of the call.
            plain: the library's own method.
            calls: has the site of the ``Compose``.
        """
        from fastpipe.program.mistakes import raise_again
        from fastpipe.rng.state import GeneratorStates

        known = calls.of(compose)
        call = known.planned(compose.transforms)
        if call is None:
            return plain(compose, *inputs)
        own = partial(self._ours_of(compose), *inputs)

        def is_library_s() -> bool:
            return len(call.runs) == 1 and not calls_back(compose.transforms)

        if known.site.is_check_due() and is_library_s():
            twin, seconds = plain_image(_image_of(inputs))
            if twin is not None:
                given = _with_twin(inputs, twin)
                made = check_call(known.site, own, partial(plain, compose, *given), known.site.name, seconds)
                known.site.count_checked()
                return made
        begun, before = time.perf_counter(), GeneratorStates.of()
        try:
            made = own()
        except Exception as error:  # raised again by torchvision, or reported as a bug in fastpipe
            if not is_library_s():
                raise
            before.restore()
            raise_again(_image_of(inputs), error)
            made = plain(compose, *inputs)  # raises the user's errors
            known.report_mistake(error)
        known.site.count(time.perf_counter() - begun)
        return made

    def _ours_of(self, compose: Any) -> Any:
        from fastpipe.transforms import v2

        key, members = id(compose), tuple(compose.transforms)
        found = self._ours.get(key)
        if found is None or found[0]() is not compose or found[1] != members:
            made = v2.Compose(list(members))
            found = weakref.ref(compose, lambda _: self._ours.pop(key, None)), members, made
            self._ours[key] = found
        return found[2]


def _with_twin(inputs: tuple[Any, ...], twin: Any) -> tuple[Any, ...]:
    """The sample with its image replaced."""

    def exchanged(part: object) -> Any:
        return twin if is_pillow_image(part) else part

    first = inputs[0]
    if type(first) is dict:
        return ({name: exchanged(part) for name, part in first.items()}, *inputs[1:])
    if type(first) in (list, tuple):
        return (type(first)(map(exchanged, first)), *inputs[1:])
    return tuple(map(exchanged, inputs))
