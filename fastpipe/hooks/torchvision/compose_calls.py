"""Calls of a library's ``Compose``, planned in runs, each of which can be checked.

An unknown transform is called with the image at that point, and the transforms after it are planned from its result.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Iterable
from functools import cache, lru_cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch

from fastpipe.clock import clock
from fastpipe.hooks.checking import SiteAccount, check_call, plain_image
from fastpipe.hooks.class_checks import is_array, is_pillow_image
from fastpipe.hooks.imports import import_at_first_use
from fastpipe.hooks.ledger import DIFFERED, LEDGER, Site
from fastpipe.hooks.library_functions import Originals, is_librarys
from fastpipe.mistakes import attempt
from fastpipe.pending import is_pending
from fastpipe.plain_lookup import own_attributes
from fastpipe.plain_way import plainly
from fastpipe.torch_modes import torch_modes_active

if TYPE_CHECKING:
    from fastpipe.transforms.compose_plan import ComposePlan
    from fastpipe.transforms.pipeline import Pipeline
    from fastpipe.types import ImageShape, Step

    Forward: TypeAlias = Callable[..., object]


class Composed(Protocol):
    """A ``Compose`` of torchvision's or another library's."""

    @property
    def transforms(self) -> Iterable[Callable[..., object]]:
        """Its transforms; any object that the user has set."""


class ComposeCalls:
    """Facts about one ``Compose`` that are kept from call to call: its plan, and the account of its calls.

    Args:
        compose: the library's object; its ``transforms`` may change at any time.
        record: makes functions on tensors record; called before a pending tensor is returned.
    """

    def __init__(self, compose: Composed, record: Callable[[], object]) -> None:
        members = compose.transforms
        is_list = isinstance(members, (list, tuple, torch.nn.ModuleList))
        names = [type(member).__name__ for member in members] if is_list else ["…"]
        self.site: Site = LEDGER.site("transform", f"{type(compose).__name__}({', '.join(names)})")
        self._record = record
        self._account = SiteAccount(self.site)
        self._call: ComposePlan | None = None
        self._ours: Forward | None = None
        self._call_users: bool | None = None
        self._originals: Originals | None = None
        self._why_unknown = ""

    def planned(self, members: object, image: object = None) -> ComposePlan | None:
        """The plan of the current members, for an image; None if the library has to call them."""
        return attempt(partial(self._planned, members, image), _unplanned, self.site.count_failed)

    def _planned(self, members: object, image: object) -> ComposePlan | None:
        if self.site.is_off:
            self.site.count_plain(DIFFERED)
            return None
        if torch_modes_active():
            self.site.count_plain("called while a torch mode was active")
            return None
        plans = _plans()
        if not isinstance(members, plans.LISTS):
            return None
        if self._call is None or self._originals is None or not self._call.holds(members):
            from fastpipe.transforms.pipeline import all_within

            self._call, self._ours, self._call_users = plans.ComposePlan(members), None, None
            self._originals = _originals_of(frozenset(type(one) for member in members for one in all_within(member)))
            self._why_unknown = "" if self._call.draws else _why_unknown(members)
        if not self._call.draws:
            self.site.count_plain(self._why_unknown)
            return None
        if not self._originals.are_there():
            self.site.count_plain("somebody has replaced a function that its library goes through")
            return None
        if not self._call.takes(image):
            self.site.count_plain("its fill depends on the image's class")
            return None
        return self._call

    def call_users(self, plan: ComposePlan, members: Iterable[object]) -> bool:
        """True if the planned members are the user's, or call the user's functions, and must run once."""
        if self._call_users is None:
            self._call_users = len(plan.runs) > 1 or calls_back(members)
        return self._call_users

    def on_image(self, compose: Composed, image: object, plain: Forward) -> object:
        """Applies the transforms to an image.

        Args:
            compose: the library's object.
            image: the image, with or without pixels.
            plain: the library's own method.
        """
        call = self.planned(compose.transforms, image)
        if call is None:
            return plain(compose, image)
        if self.site.is_check_due():
            return self._checked(call, image)
        from fastpipe.result_memory import batch_results

        plans, results, begun = _plans(), batch_results(), clock()
        last = self._made_later if results is not None and results.later else plans.made_at_once
        for run in call.runs:
            run_last = last if run is call.runs[-1] else plans.made_at_once
            warn_as_library(run, image)
            image = plans.run_one(run, image, self.site.count_failed, run_last)
        is_recorded = is_pending(image) and is_pillow_image(image)  # then the time of its tensor counts
        self.site.count(None if is_recorded else clock() - begun)
        return image

    def _made_later(self, steps: tuple[Step, ...], shape: ImageShape, image: object) -> object:
        """The result of drawn steps, as a pending tensor if possible: stacking it makes its pixels in the batch."""
        from fastpipe.pillow.image_tensors import drawn_tensor

        tensor = drawn_tensor(image, steps, shape, self._account)
        if tensor is None:
            return _plans().made_at_once(steps, shape, image)
        self._record()
        return tensor

    def ours(self, compose: Composed) -> Forward:
        """fastpipe's own ``v2.Compose`` of the transforms that have been `planned`, for samples of several parts."""
        from fastpipe.transforms import v2

        if self._ours is None:
            self._ours = v2.Compose([*compose.transforms])
        return self._ours

    def _checked(self, call: ComposePlan, image: object) -> object:
        """Applies the transforms run by run; compares drawn runs with the library's own result."""
        for run in call.runs:
            warn_as_library(run, image)
            own = partial(_plans().run_one, run, image, self.site.count_failed)
            is_ours = attempt(partial(_is_comparable, run, image), _not_compared, self.site.count_failed)
            twin, seconds = plain_image(image) if is_ours else (None, 0.0)
            if twin is None:
                image = own()
            else:
                names = ", ".join(type(one).__name__ for one in run.drawn)
                image = check_call(self.site, own, partial(call_in_turn, run, twin), names, seconds)
        self.site.count(None)
        return image


def _unplanned() -> None:
    """No plan: the library calls the transforms."""


def _is_comparable(run: Pipeline, image: object) -> bool:
    """True if transforms are drawn for the image, and may be called a second time for a comparison."""
    from fastpipe.program.on_image import shape_of

    return bool(run.drawn) and shape_of(image) is not None and not calls_back(run.drawn)


def _not_compared() -> bool:
    return False


@lru_cache(maxsize=64)
def _originals_of(kinds: frozenset[type]) -> Originals:
    """The watched functions of some classes; cached for scripts that make a new ``Compose`` for each image."""
    return Originals(kinds)


def _why_unknown(members: Iterable[object]) -> str:
    from fastpipe.transforms.adapters import planned, why_not

    reasons = (why_not(member) for member in members if planned(member) is member)
    reason = next(filter(None, reasons), "")
    return f"none of its transforms is known: {reason}" if reason else "none of its transforms is known"


@cache
def _plans() -> ModuleType:
    """The planning module, imported at the first call because it imports torch."""
    return import_at_first_use("fastpipe.transforms.compose_plan")


def warn_as_library(run: Pipeline, image: object) -> None:
    """Has torch warn of an array that can't be written, as the library's ``ToTensor`` does: of one pixel of it."""
    if run.drawn and is_array(image) and not image.flags.writeable and type(run.drawn[0]).__name__ == "ToTensor":
        with plainly():
            run.drawn[0](image[:1, :1])


def call_in_turn(run: Pipeline, image: object) -> object:
    """Calls a run's transforms one by one; returns the last one's result."""
    for transform in (*run.drawn, *run.unplanned):
        image = transform(image)
    return image


def calls_back(transforms: Iterable[object]) -> bool:
    """True if a transform, or one within it, is of a user's class, or has a user's function as an attribute.

    A check must not call these a second time.
    """
    from fastpipe.transforms.pipeline import all_within

    within = [one for transform in transforms for one in all_within(transform)]
    if any(not is_librarys(type(one)) for one in within):
        return True
    return any(_is_users(value) for one in within for value in [*own_attributes(one).values()])


def _is_users(value: Any) -> bool:
    kind = type(value)
    if issubclass(kind, partial):
        return _is_users(value.func)
    return issubclass(kind, _ROUTINES) and not is_librarys(value)


_ROUTINES = (
    *(types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodDescriptorType),
    *(types.WrapperDescriptorType, types.MethodWrapperType, types.ClassMethodDescriptorType),
)


class CallsByObject:
    """The calls of objects that may be unhashable and immutable, found by identity as long as an object lives.

    Args:
        record: see `ComposeCalls`.
    """

    def __init__(self, record: Callable[[], object]) -> None:
        self._record = record
        self._known: dict[int, tuple[weakref.ref[Composed], ComposeCalls]] = {}

    def of(self, compose: Composed) -> ComposeCalls:
        """The calls of an object."""
        key = id(compose)
        found = self._known.get(key)
        if found is not None and found[0]() is compose:
            return found[1]
        calls = ComposeCalls(compose, self._record)
        forget = partial(self._known.pop, key)  # a line of Python's would lose what Ctrl-C raises in it
        self._known[key] = weakref.ref(compose, forget), calls
        return calls
