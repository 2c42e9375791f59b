"""v2 on pending tensors: its functions are recorded, and a ``Compose`` is drawn as a whole."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from fastpipe.errors import PlanError
from fastpipe.hooks.checking import SiteAccount, check_call
from fastpipe.hooks.compose import ComposeCalls, calls_back
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.patches import Patches, is_plain

if TYPE_CHECKING:
    from fastpipe.program.pending_work import Record
    from fastpipe.transforms.pipeline import Pipeline

_V2 = "torchvision.transforms.v2.functional"


def is_pending(tensor: object) -> bool:
    """True for a pending tensor; imports nothing."""
    made: Any = sys.modules.get("fastpipe.program.pending_tensor")
    return made is not None and made.is_pending(tensor)


# -- functions


class FunctionsOnTensors:
    """v2's functions, which record their work on pending tensors once there is one.

    Args:
        patches: holds the replacements.
    """

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._are_known = False

    def record(self) -> None:
        """Makes the functions record, if v2 has been imported; called before a pending tensor is returned."""
        if not self._are_known and _V2 in sys.modules:
            _record_functions(self._patches)
            self._are_known = True


def _record_functions(patches: Patches) -> None:
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms.v2.functional._utils import _KERNEL_REGISTRY

    from fastpipe.program.pending_tensor import pending_class

    is_new = False
    for function, kernels in _KERNEL_REGISTRY.items():
        if function.__name__.startswith("get_"):  # they read the shape
            continue
        for plain in (torch.Tensor, tv_tensors.Image):
            pending = pending_class(plain)
            if plain in kernels and pending not in kernels:
                kernels[pending] = partial(_recorded, function, kernels[plain])
                patches.at_undo(partial(kernels.pop, pending, None))
                is_new = True
    if is_new:
        patches.wrap(tv_tensors, "wrap", _wrapping)


def _wrapping(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps ``tv_tensors.wrap`` so that it never makes a tensor of a pending class."""
    from fastpipe.program.pending_tensor import plain_class

    def wrap(wrappee: Any, *, like: Any, **options: Any) -> Any:
        kind = plain_class(like)
        return plain(wrappee, like=like, **options) if kind is type(like) else wrappee.as_subclass(kind)

    return wrap


def _recorded(function: Any, kernel: Any, image: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a function on a tensor; a pending one if possible."""
    from fastpipe.program.pending_tensor import record_of, with_pixels
    from fastpipe.transforms.sized_image import Untraceable

    record = record_of(image)
    if record is None or is_plain():
        return kernel(with_pixels(image), *args, **kwargs)
    failed: Exception | None = None
    made = None
    try:
        made = _behind(record, function, image, args, kwargs)
    except (PlanError, Untraceable):
        pass
    except Exception as error:  # the library raises the user's error; else it is a bug in fastpipe
        failed = error
    if made is None:
        made = kernel(with_pixels(image), *args, **kwargs)
    if failed is not None:
        LEDGER.site("function", function.__name__).count_failed(failed)
    return made


def _behind(record: Record, function: Any, image: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The pending result of a function; None if the library has to compute it."""
    from fastpipe.program.pending_tensor import with_steps
    from fastpipe.torch_modes import torch_modes_active
    from fastpipe.transforms.v2._proxies import given_by_name, image_steps, stand_in

    if torch_modes_active() or given_by_name(function.__name__, args, kwargs).get("inplace"):
        return None
    steps = image_steps(function(stand_in(record.shape), *args, **kwargs))
    if not steps:
        return image
    if function.__name__ == "rgb_to_grayscale":  # its three channels share one memory
        return None
    return with_steps(image, steps, type(image).plain, record.account.after(partial(_call, function, args, kwargs)))


def _call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], image: Any) -> Any:
    return function(image, *args, **kwargs)


# -- Compose


def call_on_pending(calls: ComposeCalls, compose: Any, tensor: Any, plain: Callable[..., Any]) -> Any:
    """Applies a ``Compose`` to a pending tensor; the result is pending, too, if possible.

    Args:
        calls: the calls of the ``Compose``.
        compose: the library's object.
        tensor: a pending tensor.
        plain: the library's own method.
    """
    call = calls.planned(compose.transforms)
    if call is None:
        return plain(compose, tensor)
    begun = time.perf_counter()
    for run in call.runs:
        tensor = _run(run, tensor, calls.site)
    calls.site.count(time.perf_counter() - begun)
    return tensor


def _run(run: Pipeline, tensor: object, site: Site) -> Any:
    from fastpipe.program.pending_tensor import record_of, with_pixels

    record = record_of(tensor)
    if record is None or not run.drawn or not _is_v2(run.drawn[0]):  # all transforms of a run are v1's, or all are v2's
        return _called(run, tensor)
    account: Any = record.account
    if account.library is None or not site.is_check_due() or calls_back(run.drawn):
        return _drawn(run, tensor, record, site)
    names = ", ".join(type(one).__name__ for one in run.drawn)
    return check_call(
        site,
        lambda: with_pixels(_drawn(run, tensor, record, site)),
        lambda: _called(run, account.library()),
        names,
    )


def _is_v2(transform: object) -> bool:
    """True if a transform's plan holds for tensors; v1's transforms treat tensors differently from images."""
    from fastpipe.transforms.adapters import planned

    return hasattr(planned(transform), "_plans_itself")


def _called(run: Pipeline, image: object) -> Any:
    for transform in (*run.drawn, *run.unplanned):
        image = transform(image)
    return image


def _drawn(run: Pipeline, tensor: Any, record: Record, site: Site) -> Any:
    """Applies a run by drawing it; calls its transforms if that fails."""
    from fastpipe.program.pending_tensor import with_steps
    from fastpipe.rng import drawing
    from fastpipe.transforms.sized_image import Untraceable

    turn = drawing(globally=True, with_python=run.draws_from_python)
    try:
        with turn as generators:
            steps = run.steps(record.shape, generators)
        if not steps:
            return tensor
        made = with_steps(tensor, steps, None, SiteAccount(site, None))
        if made is None:
            whole = *record.steps, *steps
            made = record.source.run(whole, record.source.program(whole), in_rows=True)
        return made
    except (PlanError, Untraceable):
        turn.rewind()
        return _called(run, tensor)
    except Exception as error:  # the transforms raise the user's error when called
        turn.rewind()
        made = _called(run, tensor)
        site.count_failed(error)  # they didn't raise, so it is a bug in fastpipe
        return made
