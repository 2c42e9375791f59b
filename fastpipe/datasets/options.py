"""Options that the dataset classes share; each class takes them as ``**options: Unpack[…]``."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec, TypeAlias, TypedDict, TypeVar

# typing has Unpack from Python 3.11 on; torch depends on typing_extensions.
from typing_extensions import Unpack

from fastpipe.config import MachineConfig
from fastpipe.datasets.bad_files import OnError
from fastpipe.datasets.base import ImageDataset
from fastpipe.readers import MaxPixels

__all__ = ["ImageOptions", "ReadOptions", "SampleOptions", "Unpack", "with_options"]

Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Init: TypeAlias = Callable[Concatenate[Owner, Arguments], None]
"""An ``__init__``."""


class SampleOptions(TypedDict, total=False):
    """Options of datasets of any kind of sample; `ImageFolder` describes them."""

    seed: int | None
    threads: int
    on_error: OnError
    bad_files_log: str | os.PathLike[str] | None
    max_bad_fraction: float


class ReadOptions(SampleOptions, total=False):
    """Options of datasets of images; `ImageFolder` describes them."""

    reader: str | Mapping[str, str] | None
    config: MachineConfig | None
    apply_exif: bool
    max_pixels: MaxPixels


class ImageOptions(ReadOptions, total=False):
    """Options of datasets of images that also take a loader; `ImageFolder` describes them."""

    loader: Callable[[str], object]


def with_options(options: type) -> Callable[[Init[Owner, Arguments]], Init[Owner, Arguments]]:
    """Decorates an ``__init__`` that takes ``**options``: lists them in its signature, and refuses unknown ones.

    Args:
        options: the `TypedDict` that ``**options`` is annotated with; the defaults are those of `ImageDataset`.
    """

    def decorate(init: Init[Owner, Arguments]) -> Init[Owner, Arguments]:
        own, base = inspect.signature(init), inspect.signature(ImageDataset)
        listed = [one for name, one in base.parameters.items() if name in options.__annotations__]
        kept = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        signature = own.replace(parameters=[*kept, *listed])

        @functools.wraps(init)
        def checked(self: Owner, /, *args: Arguments.args, **given: Arguments.kwargs) -> None:
            for name in given:
                if name not in signature.parameters:
                    raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {name!r}")
            init(self, *args, **given)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return checked

    return decorate
