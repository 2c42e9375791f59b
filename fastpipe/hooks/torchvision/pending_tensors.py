"""v2 on pending tensors: its functions are recorded, and a ``Compose`` is drawn as a whole."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from fastpipe.clock import clock
from fastpipe.errors import PlanError
from fastpipe.hooks.checking import SiteAccount, check_call
from fastpipe.hooks.faster_function import FasterFunction
from fastpipe.hooks.ledger import Site
from fastpipe.hooks.patches import Function, Patches, are_in_force
from fastpipe.hooks.torchvision.compose_calls import ComposeCalls, Composed, call_in_turn, calls_back
from fastpipe.pending import is_pending, plain_class, plain_of

if TYPE_CHECKING:
    import torch
    from torchvision.transforms.v2 import ToDtype

    from fastpipe.program.pending_work import Record
    from fastpipe.transforms.pipeline import Pipeline
    from fastpipe.types import ImageShape, Step

_V2 = "torchvision.transforms.v2.functional"


# -- functions


def record_functions(patches: Patches) -> bool:
    """Makes v2's functions record their work on pending tensors, if v2 has been imported.

    Called before a pending tensor is returned.

    Args:
        patches: hold the replacements.

    Returns:
        False if v2 has been imported, and is of a version whose work can't be recorded.
    """
    return _V2 not in sys.modules or patches.once(_record_functions, "torchvision", f"{_V2} on tensors without pixels")


def _record_functions(patches: Patches) -> None:
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms import v2
    from torchvision.transforms.v2.functional._utils import _KERNEL_REGISTRY

    from fastpipe.program.pending_tensor import pending_class

    importlib.import_module("fastpipe.transforms.v2._proxies")  # records; raises with an unknown torchvision
    is_new = False
    for function, kernels in _KERNEL_REGISTRY.items():
        if function.__name__.startswith("get_"):  # they read the shape
            continue
        for plain in (torch.Tensor, tv_tensors.Image):
            pending = pending_class(plain)
            if plain in kernels and pending not in kernels:
                patches.put_item(kernels, pending, _Recorded(function, kernels[plain]))
                is_new = True
    if is_new:
        patches.wrap(tv_tensors, "wrap", _wrapping)
        for module in filter(lambda one: hasattr(one, "_get_fill"), (v2._geometry, v2._auto_augment)):
            patches.wrap(module, "_get_fill", _fill_by_class)
        patches.wrap(v2.ToDtype, "transform" if hasattr(v2.ToDtype, "transform") else "_transform", _dtype_by_class)


def _fill_by_class(plain: Function) -> Function:
    """Wraps the function that looks up a fill by class: a pending tensor gets that of the class that it will have."""

    def get_fill(fill_dict: dict[object, object], inpt_type: type) -> object:
        return plain(fill_dict, plain_of(inpt_type))

    return get_fill


def _dtype_by_class(plain: Function) -> Function:
    """Wraps the method of ``ToDtype`` that looks up a dtype by class, as `_fill_by_class` does for fills."""
    from torchvision.transforms.v2.functional import to_dtype

    from fastpipe.program.pending_tensor import with_pixels

    def transform(self: ToDtype, inpt: object, params: dict[str, object]) -> object:
        if not is_pending(inpt) or not isinstance(self.dtype, dict):
            return plain(self, inpt, params)
        dtype = self.dtype.get(plain_class(inpt))
        if dtype is None:  # torchvision looks further, or warns that nothing is scaled
            return plain(self, with_pixels(inpt), params)
        return self._call_kernel(to_dtype, inpt, dtype=dtype, scale=self.scale)

    return transform


def _wrapping(plain: Function) -> Function:
    """Wraps ``tv_tensors.wrap`` so that it never makes a tensor of a pending class."""

    def wrap(wrappee: torch.Tensor, *, like: object, **options: object) -> object:
        kind = plain_class(like)
        return plain(wrappee, like=like, **options) if kind is type(like) else wrappee.as_subclass(kind)

    return wrap


class _Recorded(FasterFunction):
    """A function of v2's on pending tensors.

    Args:
        function: the function.
        kernel: the library's own for ordinary tensors.
    """

    def __init__(self, function: Function, kernel: Function) -> None:
        from fastpipe.program.pending_tensor import with_pixels

        super().__init__(function.__name__, lambda image, *args, **kwargs: kernel(with_pixels(image), *args, **kwargs))
        self._function = function

    def takes(self, image: torch.Tensor, *args: object, **kwargs: object) -> bool:
        from fastpipe.program.pending_tensor import record_of

        return are_in_force() and record_of(image) is not None

    def make(self, image: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor | None:
        from fastpipe.program.pending_tensor import record_of
        from fastpipe.transforms.sized_image import Untraceable

        record = record_of(image)
        assert record is not None
        try:
            return _pending_result(record, self._function, image, args, kwargs)
        except (PlanError, Untraceable):
            return None


def _pending_result(
    record: Record, function: Function, image: torch.Tensor, args: tuple[object, ...], kwargs: dict[str, object]
) -> torch.Tensor | None:
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
    return with_steps(image, steps, plain_class(image), record.account.after(partial(_call, function, args, kwargs)))


def _call(
    function: Callable[..., torch.Tensor], args: tuple[object, ...], kwargs: dict[str, object], image: torch.Tensor
) -> torch.Tensor:
    return function(image, *args, **kwargs)


# -- Compose


def call_on_pending(calls: ComposeCalls, compose: Composed, tensor: object, plain: Function) -> object:
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
    begun = clock()
    for run in call.runs:
        tensor = _run(run, tensor, calls.site)
    calls.site.count(clock() - begun)
    return tensor


def _run(run: Pipeline, tensor: object, site: Site) -> object:
    from fastpipe.program.pending_tensor import record_of, with_pixels
    from fastpipe.transforms.compose_plan import run_drawn

    record = record_of(tensor)
    if record is None or not run.drawn or not _is_v2(run.drawn[0]):  # all transforms of a run are v1's, or all are v2's
        return call_in_turn(run, tensor)
    if _may_change_given(run.drawn, record.shape.dtype):
        return call_in_turn(run, tensor)
    drawn = partial(run_drawn, run, tensor, record.shape, site.count_failed, partial(_made, record, site))
    library = record.account.library
    if library is None or not (site.is_check_due() and record.account.may_compare) or calls_back(run.drawn):
        return drawn()
    names = ", ".join(type(one).__name__ for one in run.drawn)
    return check_call(site, lambda: with_pixels(drawn()), lambda: call_in_turn(run, library()), names)


def _made(record: Record, site: Site, steps: tuple[Step, ...], shape: ImageShape, tensor: torch.Tensor) -> object:
    """The result of drawn steps on a pending tensor."""
    from fastpipe.program.pending_tensor import with_steps
    from fastpipe.program.pending_work import run_recorded

    result = with_steps(tensor, steps, None, SiteAccount(site))
    if result is None:
        whole = *record.steps, *steps
        result = run_recorded(record, record.source, whole, record.source.program(whole), in_rows=True)
    return result


def _may_change_given(transforms: Iterable[object], dtype: torch.dtype | None) -> bool:
    """True if a transform may change the given tensor in place; after a change of the dtype it changes another one."""
    for own in map(vars, transforms):  # torch's modules take long to say that they lack an attribute
        if own.get("inplace", False):
            return True
        if own.get("dtype", dtype) != dtype:
            return False
    return False


def _is_v2(transform: object) -> bool:
    """True if a transform's plan holds for tensors; v1's transforms treat tensors differently from images."""
    from fastpipe.transforms.adapters import planned
    from fastpipe.transforms.pipeline import is_of_v2

    return is_of_v2(planned(transform))
