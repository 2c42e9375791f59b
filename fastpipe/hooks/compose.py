"""A library's ``Compose`` that is called with one image: planned in runs, each of which can be checked.

A transform that isn't known is called with the image as it is, and what stands behind it is planned on what it gives.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastpipe.hooks.checking import check_call
from fastpipe.hooks.ledger import LEDGER, Site

if TYPE_CHECKING:
    from fastpipe.transforms.image_call import ImageCall


class PlannedCalls:
    """The calls of one ``Compose``.

    Args:
        compose: the library's object; its ``transforms`` may change at any time.
    """

    def __init__(self, compose: Any) -> None:
        names = [type(member).__name__ for member in compose.transforms]
        self._site: Site = LEDGER.site("transform", f"{type(compose).__name__}({', '.join(names)})")
        self._call: ImageCall | None = None

    def __call__(self, compose: Any, image: Any, plain: Callable[[Any, Any], Any]) -> Any:
        """The result for an image.

        Args:
            compose: the library's object.
            image: a Pillow image, with or without pixels.
            plain: the library's own method.
        """
        from fastpipe.transforms.image_call import ImageCall, observed
        from fastpipe.transforms.pipeline import LISTS

        site, members = self._site, compose.transforms
        if site.is_off or observed() or not isinstance(members, LISTS):
            return plain(compose, image)
        if self._call is None or not self._call.holds(members):
            self._call = ImageCall(members)
        if not self._call.draws:
            site.leave("none of its transforms is known")
            return plain(compose, image)
        begun = time.perf_counter()
        made = self._checked(self._call, image, site) if site.is_due() else self._call(image)
        site.count(time.perf_counter() - begun)
        return made

    @staticmethod
    def _checked(call: ImageCall, image: Any, site: Site) -> Any:
        """The result, run by run: of those that are drawn, ours and the library's own are compared."""
        from fastpipe.hooks.plain_images import plain_image

        for run in call.runs:
            twin = plain_image(image) if run.drawn else None
            if twin is None:
                image = call.run_one(run, image)
                continue

            def plainly_made(run: Any = run, twin: Any = twin) -> Any:
                for transform in run.drawn:
                    twin = transform(twin)
                return twin

            names = ", ".join(type(one).__name__ for one in run.drawn)
            image = check_call(site, lambda run=run, image=image: call.run_one(run, image), plainly_made, names)  # type: ignore[misc]
        return image


class CallsByObject:
    """What is known of objects that may be neither hashed nor changed: by their identity, as long as they are there."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], PlannedCalls]] = {}

    def of(self, compose: Any) -> PlannedCalls:
        """The calls of one object."""
        key = id(compose)
        found = self._known.get(key)
        if found is not None and found[0]() is compose:
            return found[1]
        calls = PlannedCalls(compose)
        self._known[key] = weakref.ref(compose, lambda _: self._known.pop(key, None)), calls
        return calls
