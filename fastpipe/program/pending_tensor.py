"""Tensors without elements yet: operations on them are recorded, and run by the core in one job.

A pending tensor has its final shape, strides, dtype and device. Cropping it, and steps that `with_steps` adds, give
further pending tensors; stacking them makes the batch in its own memory. Any other access makes the pixels; from then
on the same object is an ordinary tensor, of torch's class, with its own memory.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import is_not, itemgetter, methodcaller
from typing import Any, TypeAlias, TypeVar

import torch

from fastpipe import core, result_memory
from fastpipe.clock import Stopwatch
from fastpipe.ops import (
    AsTvImage,
    CenterCrop,
    Crop,
    TensorShape,
    ToPureTensor,
    interned_once,
)
from fastpipe.ops.geometry import makes_no_pixels
from fastpipe.pending import may_be_pending, plain_class, set_class
from fastpipe.plain_lookup import is_a
from fastpipe.program.core_job import claimed_by_core
from fastpipe.program.pending_work import (
    Account,
    Cut,
    FloatsOfPixels,
    PendingWork,
    Record,
    becoming_ordinary,
    ordinary,
)
from fastpipe.program.tensor_source import TO_PURE, strides_of
from fastpipe.program.uses import MadeBeforeForks
from fastpipe.torch_modes import follows_calls, stacks_as_tensor
from fastpipe.types import Box, ImageShape, Step

_AS_TV_IMAGE = interned_once(AsTvImage)
_WHITE = 255
_CPU = torch.device("cpu")
Function: TypeAlias = Callable[..., object]
Thing = TypeVar("Thing")
_KEY = "_fastpipe"
"""The attribute of a pending tensor that holds its `PendingWork`."""

# -- the class


@may_be_pending
class _Pending:
    """The methods of pending tensors that override torch's."""

    plain: type
    """The class that a tensor has when it has its pixels."""

    @property
    def __class__(self) -> Any:
        """The class that the tensor will have as an ordinary one."""
        return self.plain

    @__class__.setter
    def __class__(self, kind: type) -> None:
        set_class(with_pixels(self), kind)

    def _fastpipe_is_pending(self) -> bool:
        return _KEY in vars(self)

    @classmethod
    def __torch_function__(
        cls, function: Function, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        if function in _KNOWN:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **kwargs)
        recorded = _RECORDED.get(function)
        result = NotImplemented if recorded is None or follows_calls() else recorded(*args, **kwargs)
        if result is not NotImplemented:
            return result
        return function(*exchanged(args), **exchanged(kwargs))

    def as_subclass(self, cls: type) -> torch.Tensor:
        """``Tensor.as_subclass``, which doesn't call ``__torch_function__``."""
        shown = _shown_as(self, cls)
        return with_pixels(self).as_subclass(cls) if shown is None else shown

    def set_(self, *given: object, **options: object) -> torch.Tensor:
        """``Tensor.set_``, which doesn't call ``__torch_function__`` either."""
        return with_pixels(self).set_(*exchanged(given), **options)

    @classmethod
    def __torch_dispatch__(
        cls, function: Function, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        # C++ code holds the tensor as it is, so it stays pending.
        return function(*exchanged(args, _result), **exchanged(kwargs or {}, _result))


def _result(tensor: object) -> torch.Tensor:
    """The elements of a pending tensor, which stays pending."""
    elements: torch.Tensor = vars(tensor)[_KEY].result()
    return elements


@lru_cache
def pending_class(plain: type) -> Any:
    """The class of pending tensors that become tensors of the class ``plain``; it has the same name."""
    names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__, "__doc__": plain.__doc__}
    return type(plain)(plain.__name__, (_Pending, plain), {**names, "plain": plain})


def pending_tensor(record: PendingWork, plain: type = torch.Tensor) -> torch.Tensor:
    """Makes the pending tensor of some work.

    Args:
        record: the work, which has no tensor yet.
        plain: the class that the tensor will have: ``torch.Tensor`` or ``tv_tensors.Image``.
    """
    height, width, channels = record.shape
    tensor: torch.Tensor = torch.Tensor._make_wrapper_subclass(
        pending_class(plain), (channels, height, width), strides=record.strides, dtype=record.shape.dtype, device=_CPU
    )
    record.owner = weakref.ref(tensor)
    tensor.__dict__[_KEY] = record
    _tensors.add(tensor)
    batch = result_memory.batch_results()
    if batch is not None:
        batch.add_pending(tensor)
    return tensor


def work_of(tensor: torch.Tensor) -> PendingWork:
    """The work of a pending tensor."""
    work: PendingWork = vars(tensor)[_KEY]
    return work


def record_of(tensor: object) -> Record | None:
    """The record of a pending tensor, to which steps can be added; None for any other tensor, or with elements made."""
    record = vars(tensor).get(_KEY) if is_a(tensor, _Pending) else None
    if not isinstance(record, Record) or record.made is not None:
        return None
    # A window shows the memory of its base, which may have been changed since it was made.
    return None if record.base is not None and record.base.made is not None else record


def with_pixels(tensor: Thing) -> Thing:
    """Turns a pending tensor into an ordinary one, in place, and returns it; returns anything else unchanged."""
    if not is_a(tensor, _Pending):
        return tensor
    shell: Any = tensor
    kind = type(tensor).plain
    record: PendingWork | None = vars(tensor).get(_KEY)
    if record is not None:
        record.result()
    with becoming_ordinary():
        if record is not None and _KEY in vars(tensor) and _is_shell(tensor):
            with ordinary(record.inference):
                own = record.result().detach()
            try:
                torch._C._swap_tensor_impl(shell, own)
            except RuntimeError:  # C++ code refers to it, for example a trace
                return record.result().as_subclass(kind)
            # `own` has the old implementation, which C++ may have saved for a backward pass: it stays pending.
            set_class(own, type(tensor))
            vars(own)[_KEY] = record
        set_class(tensor, kind)
        vars(tensor).pop(_KEY, None)
        _tensors.discard(shell)  # torch exchanges no tensor that somebody refers to weakly
    return tensor


_tensors: MadeBeforeForks[torch.Tensor] = MadeBeforeForks(with_pixels)


def _is_shell(tensor: Any) -> bool:
    """True if a tensor has no memory yet; a signal may have come between setting the memory and the class."""
    return torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python)


def exchanged(given: Any, exchange: Callable[[object], object] = with_pixels, levels: int = 64) -> Any:
    """A thing in which pending tensors, also those in lists, tuples and dicts, are replaced by ordinary ones.

    The thing itself if none is another object afterwards, as in most cases. A list may hold itself: only so many levels
    are looked into.
    """
    kind: type = type(given)  # not `isinstance`, which asks people's objects for ``__class__``
    if issubclass(kind, _Pending):
        return exchange(given)
    if not levels:
        return given
    if issubclass(kind, dict) and dict.__len__(given):
        parts = {name: exchanged(part, exchange, levels - 1) for name, part in dict.items(given)}
        return parts if any(map(is_not, parts.values(), dict.values(given))) else given
    if kind in (list, tuple):
        items = [exchanged(part, exchange, levels - 1) for part in given]
        return kind(items) if any(map(is_not, items, given)) else given
    return given


# -- recorded functions


def with_steps(
    tensor: torch.Tensor, steps: Sequence[Step], plain: type | None, account: Account
) -> torch.Tensor | None:
    """The pending tensor after further steps; shares the tensor's memory if the steps only cut out a window.

    None if the steps have to run at once, because torch takes part in them and may raise.

    Args:
        tensor: a pending tensor with a record.
        steps: the steps to add.
        plain: the class of the result; None for the one that the steps give.
        account: the account of the result.
    """
    record = record_of(tensor)
    assert record is not None
    program = claimed_by_core(record.source.program((*record.steps, *steps)))
    if program is None or program.after or program.conversion is None:
        return None
    shape: Any = record.shape
    whole, is_window = shape, True  # shape of the memory that the result shows; whether it is the tensor's own
    cuts: list[Cut] = []
    for step in steps:
        cut = _cut_of(step, shape)
        before, shape = shape, step.output_shape(shape)
        if cut is None:
            is_window = False
            whole = _padded(before, shape) if isinstance(getattr(step, "like", None) or step, CenterCrop) else shape
        else:
            cuts.append(cut)
    if min(shape) < 1:
        return None
    all_steps = (*record.steps, *steps)
    strides = strides_of(record.source, all_steps, program, whole)
    extended = Record(record.source, all_steps, program, parent=record, shape=shape, strides=strides, account=account)
    if is_window:
        extended.strides, extended.base = record.strides, record.base or record
        extended.cuts = (*record.cuts, *cuts)
        extended.base.windows += 1
    return pending_tensor(extended, plain or class_of(shape))


def class_of(shape: TensorShape) -> type:
    """The class of an ordinary tensor of that shape."""
    kind: type = torch.Tensor if shape.pure else sys.modules["torchvision.tv_tensors"].Image
    return kind


def _padded(image: ImageShape, crop: ImageShape) -> ImageShape:
    """The shape of an image that is padded to at least the size of the centre crop."""
    return ImageShape(max(image.height, crop.height), max(image.width, crop.width), crop.channels)


def _cut_of(step: object, shape: ImageShape) -> Cut | None:
    """The indexing that gives a step's result as a window of a tensor; None if the result is no window."""
    step = getattr(step, "like", None) or step  # of an operation on a tensor, the same one on pixels
    if isinstance(step, ToPureTensor):
        return _same
    if not isinstance(step, (Crop, CenterCrop)) or not makes_no_pixels(step, shape):
        return None
    box = step.as_crop(shape).box
    return itemgetter((..., slice(box.top, box.bottom), slice(box.left, box.right)))


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _get_item(tensor: torch.Tensor, index: object) -> object:
    """Records indexing that cuts out a window: ``[..., top:bottom, left:right]`` or ``[:, top:bottom, left:right]``."""
    record = record_of(tensor)
    if record is None or type(index) is not tuple or len(index) != 3 or index[0] not in (..., slice(None)):
        return NotImplemented
    box = _box_of(index[1:], record.shape)
    if box is None:
        return NotImplemented
    window = with_steps(tensor, (TO_PURE, Crop(*box)), torch.Tensor, record.account.after(itemgetter(index)))
    return NotImplemented if window is None else window


def _box_of(slices: tuple[object, ...], shape: ImageShape) -> Box | None:
    """The box of two slices, for rows and columns; None for a step other than 1, or an empty box."""
    edges: list[tuple[int, int]] = []
    for one, side in zip(slices, shape.size, strict=True):
        if type(one) is not slice or any(type(edge) not in (int, type(None)) for edge in (one.start, one.stop)):
            return None
        start, stop, _ = slice(one.start, one.stop).indices(side)
        if one.step not in (None, 1) or stop <= start:
            return None
        edges.append((start, stop))
    (top, bottom), (left, right) = edges
    return Box(top, left, bottom - top, right - left)


def _shown_as(tensor: Any, kind: type) -> torch.Tensor | None:
    """The pending tensor on the same memory as a ``tv_tensors.Image`` or a plain tensor; None for other classes."""
    record, plain = record_of(tensor), getattr(kind, "plain", kind)
    if record is None or not (plain is torch.Tensor or _is_tv_image(plain)):
        return None
    step = TO_PURE if plain is torch.Tensor else _AS_TV_IMAGE
    return with_steps(tensor, (step,), plain, record.account.after(methodcaller("as_subclass", plain)))


def _is_tv_image(kind: type) -> bool:
    return (kind.__module__, kind.__name__) == ("torchvision.tv_tensors._image", "Image")


def _requires_grad(tensor: object, requires_grad: bool = True) -> object:
    return tensor if requires_grad is False else NotImplemented  # the tensor is unchanged


def _float(tensor: object) -> object:
    record = record_of(tensor)
    if record is None or record.base is not None or record.shape.dtype is not torch.uint8 or record.shape.channels != 3:
        return NotImplemented
    if plain_class(tensor) is not torch.Tensor:
        return NotImplemented
    return pending_tensor(FloatsOfPixels.of(record, record.account.after(methodcaller("float"))))


def _to(tensor: object, *given: object, **options: object) -> object:
    is_float = (given, options) in (((torch.float32,), {}), ((), {"dtype": torch.float32}))
    return _float(tensor) if is_float else NotImplemented


def _divide(tensor: object, by: object, **options: object) -> object:
    work = vars(tensor).get(_KEY) if isinstance(tensor, _Pending) else None
    if not isinstance(work, FloatsOfPixels) or work.made is not None or options or type(by) not in (int, float):
        return NotImplemented
    quotient = work.divided(work.account.after(lambda floats: floats / by)) if by == _WHITE else None
    return NotImplemented if quotient is None else pending_tensor(quotient)


def _stack(tensors: Any, dim: object = 0, *, out: object = None) -> object:
    """Stacks pending tensors: makes their pixels in the batch's memory."""
    if type(tensors) not in (list, tuple) or dim != 0 or type(dim) is not int:
        return NotImplemented
    with torch._C.DisableTorchFunctionSubclass():
        shape, dtype = tensors[0].shape, tensors[0].dtype
        for one in tensors:
            is_usable = isinstance(one, _Pending) or (
                type(one) is torch.Tensor and not one.requires_grad and one.is_cpu
            )
            if not is_usable or one.dtype != dtype or one.shape != shape or not stacks_as_tensor(plain_class(one)):
                return NotImplemented
    whole = len(tensors), *shape
    if dtype not in (torch.uint8, torch.float32):
        return NotImplemented
    if out is None:
        with torch._C.DisableTorchFunction():
            out = result_memory.fresh(whole, dtype)
    elif type(out) is not torch.Tensor or out.shape != whole or out.dtype != dtype or not out.is_contiguous():
        return NotImplemented
    write_stack(tensors, out)
    return out


def write_stack(tensors: Sequence[torch.Tensor], out: torch.Tensor) -> None:
    """Writes tensors of one shape and dtype, pending or not, into a batch ``(N, C, H, W)``."""
    works: dict[int, PendingWork] = {place: vars(one)[_KEY] for place, one in enumerate(tensors) if _KEY in vars(one)}
    for place in _written_by_core(works, out):
        works[place].write(out[place])
    for place, one in enumerate(tensors):
        if place not in works:
            out[place].copy_(one)


def _written_by_core(works: Mapping[int, PendingWork], out: torch.Tensor) -> Sequence[int]:
    """Writes what the core's jobs can write, with torch's number of threads; returns the positions of the others."""
    threads = min(torch.get_num_threads(), len(works))
    resources = core.thread_resources(threads if threads > 1 else 0)
    if resources is None:
        return [*works]
    sink = core.BatchSink(out)
    jobs = resources.jobs(len(works))
    filled: list[int] = []
    left: list[int] = []
    watch = Stopwatch(threads)
    for place, work in works.items():
        (filled if work.fill(jobs[len(filled)], sink, place) else left).append(place)
    statuses = resources.pool.run(jobs, len(filled)) if filled else []
    for job in jobs:
        job.let_go()
    resources.give_back(jobs)
    seconds = watch.taken()[0] / max(1, len(filled))
    for place, status in zip(filled, statuses, strict=True):
        if status:
            left.append(place)
        else:
            works[place].account.count(seconds)
    return left


_ATTRIBUTES = (
    *("device", "dtype", "is_cpu", "is_cuda", "is_meta", "is_quantized", "is_sparse", "itemsize", "layout"),
    *("nbytes", "ndim", "requires_grad", "shape"),
)
_KNOWN = {
    *(getattr(torch.Tensor, name).__get__ for name in _ATTRIBUTES),
    *(getattr(torch.Tensor, name) for name in ("__len__", "dim", "element_size", "is_complex", "is_floating_point")),
    *(
        getattr(torch.Tensor, name)
        for name in ("is_conj", "is_contiguous", "is_neg", "nelement", "numel", "size", "stride")
    ),
    *(torch.is_floating_point, torch.is_complex, torch.numel),
}
"""Functions whose result is known without pixels."""
_RECORDED: dict[object, Function] = {
    torch.Tensor.__getitem__: _get_item,
    torch.Tensor.requires_grad_: _requires_grad,
    torch.Tensor.float: _float,
    torch.Tensor.to: _to,
    torch.Tensor.div: _divide,
    torch.Tensor.__truediv__: _divide,
    torch.stack: _stack,
}
"""The functions of torch that can be recorded, with their recorders, which return NotImplemented for other calls."""
