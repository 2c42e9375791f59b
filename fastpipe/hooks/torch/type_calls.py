"""Searches the user's code for calls of ``type``, because a pending object has another class than an ordinary one.

Nothing tells of ``type(x) is torch.Tensor`` when it runs. A transform that raises for what is "neither an array nor a
tensor", or that converts only what is an image by ``type(x) is Image.Image``, would do something else than without
fastpipe. (``type(x) == Image.Image`` is true of an image without pixels, too; only files are of other classes.)
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.utils.data import Dataset

from fastpipe.hooks.library_functions import LIBRARIES
from fastpipe.hooks.torch.fetchers import once_a_fetcher
from fastpipe.plain_lookup import attribute_of_class, module_of, own_attributes

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from fastpipe.hooks.torch.fetchers import Fetcher

_NOT_LOOKED_INTO = {
    *(*LIBRARIES, *sys.stdlib_module_names),
    *("cv2", "datasets", "huggingface_hub", "numpy", "pycocotools", "transformers", "webdataset"),
}
"""Packages whose code isn't searched, as it isn't the user's; objects of theirs may still hold the user's objects."""

_CALLED = ("__call__", "__getitem__", "__getitems__", "__iter__", "__next__", "forward")
"""Methods that are called by code other than the user's."""

_IS, _EQUALS = "is", "=="
_ALIKE = {"__module__", "__name__", "__qualname__"}
_MOST = 2000
_MOST_OF_A_LIST = 64  # lists of transforms are short; longer ones hold files


class TypeCalls(NamedTuple):
    """The kinds of objects that the user's code may pass to ``type``.

    Attributes:
        tensors: tensors, or any other object.
        images: Pillow's images, to ask whether the result ``is`` one of Pillow's classes, or equal to one of a file.
    """

    tensors: bool
    images: bool


class _OfParent(NamedTuple):
    """The result of the parent process's search, made before it forked this process for a loader."""

    dataset: object
    collate_fn: object
    found: TypeCalls


_of_parent: _OfParent | None = None


@contextmanager
def known_to_workers(loader: DataLoader[object]) -> Iterator[None]:
    """Searches the code that a loader's workers may call; those that are forked within the block needn't."""
    global _of_parent
    dataset, collate_fn = loader.dataset, loader.collate_fn
    _of_parent = _OfParent(dataset, collate_fn, type_calls(dataset, collate_fn, loader.worker_init_fn))
    try:
        yield
    finally:
        _of_parent = None


@once_a_fetcher
def type_calls_of(fetcher: Fetcher) -> TypeCalls:
    """The `TypeCalls` of code that a fetcher's dataset and ``collate_fn`` may call."""
    known = _of_parent
    if known is not None and known.dataset is fetcher.dataset and known.collate_fn is fetcher.collate_fn:
        return known.found
    return type_calls(fetcher.dataset, fetcher.collate_fn)


def type_calls(*things: object) -> TypeCalls:
    """The `TypeCalls` of the user's code that some objects may call.

    Follows functions, methods and modules that code refers to by name, closures, and objects' attributes that are
    callable or datasets. Calls that are built at run time aren't found. If there is too much to follow, ``tensors`` is
    True.

    Args:
        things: datasets, functions, and other objects at which the user's code starts.
    """
    tensors = images = False
    waiting: list[tuple[object, type | None]] = [(thing, None) for thing in things]
    seen: dict[tuple[int, type | None], object] = {}
    while waiting:
        thing, kind = waiting.pop()
        key = id(thing), kind
        if key in seen:
            continue
        seen[key] = thing  # kept alive, so that its id isn't reused
        if len(seen) > _MOST:
            return TypeCalls(True, images)
        if type(thing) is not FunctionType:
            waiting += _held(thing)
        elif not _is_librarys(thing):
            codes = [*_codes(thing.__code__)]
            lines = [names for code in codes if "type" in code.co_names for names in _lines_that_call_type(code)]
            tensors = tensors or bool(lines)
            images = images or any(map(_compares_images, lines))
            waiting += _named(thing, codes, kind)
    return TypeCalls(tensors, images)


def _compares_images(names: set[str]) -> bool:
    """True for the names on a line that tells a class of Pillow's from one without pixels."""
    told = "Image" if _IS in names else "ImageFile" if _EQUALS in names else None
    return told is not None and any(told in name for name in names)


def _is_librarys(thing: Any) -> bool:
    kind: type = type(thing)
    if kind is FunctionType:
        home = thing.__module__
    else:
        home = module_of(thing if issubclass(kind, type) else kind)
    return (home or "").partition(".")[0] in _NOT_LOOKED_INTO


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of all functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@functools.lru_cache(maxsize=1024)  # the same for equal code; each epoch's fetcher asks again
def _lines_that_call_type(code: CodeType) -> list[set[str]]:
    """For each line that calls ``type``, the names on it, with `_IS` or `_EQUALS` if it compares.

    Lines that only read the result's name or module are skipped, because these are the same for a pending class.
    """
    line_at = {at: line for start, end, line in code.co_lines() for at in range(start, end, 2)}
    steps = [*dis.get_instructions(code)]
    lines: dict[int | None, set[str]] = {}
    are_called: set[int | None] = set()
    for number, step in enumerate(steps):
        line = line_at.get(step.offset)
        names = lines.setdefault(line, set())
        if step.opname in ("COMPARE_OP", "CONTAINS_OP", "IS_OP"):
            names.add(_IS if step.opname == "IS_OP" else _EQUALS)
        elif isinstance(step.argval, str):
            names.add(step.argval)
            if step.argval == "type" and step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                called = (at for at in range(number, len(steps) - 1) if steps[at].opname.startswith("CALL"))
                if steps[next(called, number) + 1].argval not in _ALIKE:
                    are_called.add(line)
    return [lines[line] for line in are_called]


def _named(
    function: FunctionType, codes: Iterable[CodeType], kind: type | None
) -> Iterator[tuple[object, type | None]]:
    """Objects that a function's code refers to by name, or its closure holds; methods come with their class."""
    names = {name for code in codes for name in code.co_names}
    things = [function.__globals__[name] for name in names if name in function.__globals__]
    for cell in function.__closure__ or ():
        try:
            things.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    for thing in things:
        if issubclass(type(thing), ModuleType):
            own = own_attributes(thing)
            if str(own.get("__name__")).partition(".")[0] not in _NOT_LOOKED_INTO:
                yield from ((own[name], None) for name in names if name in own)
        elif _is_followed(thing):
            yield thing, None
    if kind is not None:
        yield from _members(kind, names)


def _members(kind: type, names: Iterable[str]) -> Iterator[tuple[object, type | None]]:
    """The members of a class with some names: methods come with their class."""
    for name in names:
        member = attribute_of_class(kind, name)
        if type(member) is property:
            member = member.fget
        elif type(member) in (classmethod, staticmethod):
            member = member.__func__
        if type(member) is FunctionType:
            yield member, kind
        elif _is_followed(member):
            yield member, None


def _held(thing: Any) -> Iterator[tuple[object, type | None]]:
    """Objects to follow from an object: its methods that others call, and the objects that it holds."""
    kind: type = type(thing)  # not `isinstance`, which asks people's objects for ``__class__``
    if issubclass(kind, functools.partial):
        held: Iterable[object] = (thing.func, *thing.args, *thing.keywords.values())
    elif kind is MethodType:
        yield thing.__func__, type(thing.__self__)
        held = (thing.__self__,)
    elif issubclass(kind, dict):
        held = islice(dict.values(thing), _MOST_OF_A_LIST)
        yield from _of_object(thing)
    elif issubclass(kind, (list, tuple)):
        held = islice(list.__iter__(thing) if issubclass(kind, list) else tuple.__iter__(thing), _MOST_OF_A_LIST)
        yield from _of_object(thing)
    elif issubclass(kind, type):
        held = ()
        yield from _members(thing, ("__init__", "__new__", *_CALLED))
    else:
        held = ()
        yield from _of_object(thing)
    yield from ((one, None) for one in [*held] if _is_followed(one))


def _of_object(thing: object) -> Iterator[tuple[object, type | None]]:
    own = own_attributes(thing)
    values = [*dict.values(own)] if isinstance(own, dict) else []
    yield from ((one, None) for one in values if _is_followed(one))
    yield from _members(type(thing), _CALLED)


def _is_followed(thing: object) -> bool:
    kind: type = type(thing)
    if issubclass(kind, type):
        return not _is_librarys(thing)
    return callable(thing) or issubclass(kind, (dict, list, tuple, Dataset))
