"""Imports the object that ``module:name`` or ``file.py:name`` on the command line names, such as a transform."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import inspect
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fastpipe.errors import PlanError
from fastpipe.foreign_code import errors_as
from fastpipe.paths import absolute_path
from fastpipe.tools.users_code import describe_error

if TYPE_CHECKING:
    from fastpipe.types import Transform

_HOW = "give MODULE:NAME or FILE.py:NAME, such as train:transform or train.py:transform for train.py's `transform`"


def load_transform(place: str | None) -> Transform:
    """Loads the transform at a place: the object itself, the result of a function, or a dataset's transform.

    Raises:
        PlanError: there is no such object, or it can't be called with an image.
    """
    if place is None:
        return imagenet_transform()
    found: object = find_object(place)
    if not callable(found) and hasattr(found, "__getitem__") and hasattr(found, "transform"):
        found = found.transform
    if type(found).__module__.partition(".")[0] == "albumentations":
        raise PlanError(
            f"{place!r} is an albumentations transform, which takes more than an image: "
            "give fastpipe.transforms.Albumentations(…) around it"
        )
    if not callable(found):
        raise PlanError(
            f"{place!r} is {_described(found)}, no transform: name an object that is called with an image, "
            "such as a Compose, or a function without arguments that makes one"
        )
    return found


def find_object(place: str) -> Any:
    """Imports the object at a place such as ``"package.module:attribute.attribute"`` or ``"scripts/train.py:name"``.

    A function or class that can be called without arguments is called, and its result is the object. Modules are also
    searched in the current folder.

    Raises:
        PlanError: the place isn't ``module:name``, there is no such module, file or name, or the user's code fails; the
            message has its error and line.
    """
    module_name, colon, name = place.rpartition(":")
    if place.endswith(".py") and ":" not in os.path.basename(place):
        raise PlanError(
            f"{place!r} is a script: give MODULE:NAME or FILE.py:NAME. Write {place}:NAME, such as {place}:transform"
        )
    is_file = module_name.endswith(".py")
    is_path = os.sep in name or (not is_file and (os.sep in module_name or "/" in module_name))
    if not (module_name and colon and name) or is_path:
        raise PlanError(f"{place!r}: {_HOW}")

    def failed(error: Exception) -> PlanError:
        return PlanError(f"{place!r}: importing {module_name} fails: {describe_error(error)}")

    try:
        with errors_as(failed, PlanError):
            found = _load_file(place, module_name) if is_file else _import(place, module_name)
    except SystemExit as error:
        raise PlanError(
            f"{place!r}: importing {module_name} ends the program: put what a script does behind "
            'if __name__ == "__main__":'
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, [known for known in dir(found) if not known.startswith("_")], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise PlanError(f"{place!r}: {_described(found)} has no {part!r}{hint}")
        found = getattr(found, part)
    return _made(place, found)


def _import(place: str, module_name: str) -> ModuleType:
    _search_in(os.getcwd())
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise  # the module exists, but not one that it imports
        raise PlanError(
            f"{place!r}: no module is called {missing!r}; give it as in an import statement, from the folder it is in, "
            "or as FILE.py:NAME"
        ) from error


def _load_file(place: str, file: str) -> ModuleType:
    """Imports a Python file as a module; its folder is searched for its imports, as when it is run."""
    path = absolute_path(file)
    if not os.path.isfile(path):
        raise PlanError(f"{place!r}: there is no file {path}")
    _search_in(os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    known = sys.modules.get(name)
    known_file = getattr(known, "__file__", None) or ""
    if known is not None and os.path.exists(known_file) and os.path.samefile(known_file, path):
        return known
    if known is not None:  # another loaded module has this name: keep both
        name = f"{name} of {path}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # every name that ends in .py has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # needed to pickle the module's functions to a worker
    try:
        spec.loader.exec_module(module)
    except BaseException:  # also SystemExit: the next import runs the file again
        del sys.modules[name]
        raise
    return module


def _search_in(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _made(place: str, found: object) -> object:
    """Returns the object itself, or the result of a function or class that needs no arguments."""
    if not (inspect.isroutine(found) or inspect.isclass(found) or isinstance(found, functools.partial)):
        return found
    try:
        inspect.signature(found).bind()
    except ValueError:  # written in C, without a signature
        return found
    except TypeError as error:
        if inspect.isclass(found):
            raise PlanError(
                f"{place!r} is a class that can't be made without arguments ({error}): name an object of it, "
                "or a function without arguments that makes one"
            ) from error
        return found  # a function that takes the image is a transform as well
    with errors_as(lambda error: PlanError(f"{place!r}: calling it fails: {describe_error(error)}")):
        result = found()
    if result is None:
        raise PlanError(f"{place!r} is {_described(found)} that returns None: let it return the transform")
    return result


def _described(found: object) -> str:
    if isinstance(found, ModuleType):
        return f"module {found.__name__}"
    if inspect.isclass(found):
        return f"the class {found.__name__}"
    if inspect.isroutine(found):
        return f"the function {found.__name__}"
    return f"a value of type {type(found).__name__}"


def imagenet_transform() -> Transform:
    """ImageNet's usual training transform: random crop to 224×224, flip, ``ToTensor``, ``Normalize``."""
    from fastpipe import transforms as T

    return T.Compose(
        [
            T.RandomResizedCrop(224),
            T.RandomHorizontalFlip(),
            T.ToTensor(),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
