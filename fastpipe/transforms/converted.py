"""Another library's transform as `fastpipe.convert` gives it: an object of its own class, whose calls are programs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


class Converted:
    """The base of converted transforms: attributes and methods are the original's, which share their state.

    Attributes:
        _kind: the original's class.
        _program: what is called in its place: a `Compose` of fastpipe's.
        _is_program: the program shares the original's state, as that is a ``Compose``, too; else it holds the original.
    """

    __slots__ = ("_is_program", "_kind", "_program")

    _kind: type
    _program: Any
    _is_program: bool

    def __call__(self, *inputs: object) -> Any:
        """The original's result, by fastpipe's program for its input."""
        return self._program(*inputs)

    def __reduce__(self) -> Any:
        return converted, (self._kind, self._program, self._is_program)


def converted(kind: type, program: Any, is_program: bool) -> Any:
    """An object of ``kind``, and of `Converted`, which a program is called for; arguments as its attributes.

    It shares the original's ``__dict__``: changes of one are the other's.
    """
    made, set_ = object.__new__(_class_of(kind)), object.__setattr__
    set_(made, "_kind", kind)
    set_(made, "_program", program)
    set_(made, "_is_program", is_program)
    set_(made, "__dict__", vars(program if is_program else program.transforms[0]))
    return made


@lru_cache(maxsize=512)
def _class_of(kind: type) -> Any:
    names = {"__slots__": (), "__doc__": kind.__doc__, "__module__": __name__}
    return type(kind)(kind.__name__, (Converted, kind), names)


def seen_through(transform: object) -> Any:
    """The program of a converted transform; any other object itself."""
    return transform._program if isinstance(transform, Converted) else transform
