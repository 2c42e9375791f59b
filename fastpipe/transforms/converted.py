"""Converted transforms, as `fastpipe.convert` makes them: objects of the original's class whose calls run programs."""

from __future__ import annotations

from typing import Any

from fastpipe.plain_lookup import ByClass, is_a


class Converted:
    """The base of converted transforms, which share the original's attributes, methods and state.

    Attributes:
        _kind: the original's class.
        _program: the `Compose` of fastpipe's that is called instead.
        _is_program: True if the original is a ``Compose`` and the program shares its state; False if the program
            contains the original.
    """

    __slots__ = ("_is_program", "_kind", "_program")

    _kind: type
    _program: Any
    _is_program: bool

    def __call__(self, *inputs: object) -> Any:
        """Returns the original's result, made by fastpipe's program."""
        return self._program(*inputs)

    def __reduce__(self) -> tuple[object, ...]:
        return converted, (self._kind, self._program, self._is_program)


def converted(kind: type, program: Any, is_program: bool) -> Converted:
    """Makes an object of both ``kind`` and `Converted` that calls a program; see `Converted` for the arguments.

    It shares the original's ``__dict__``, so a change of one changes the other.
    """
    result, set_ = object.__new__(_class_of(kind)), object.__setattr__
    set_(result, "_kind", kind)
    set_(result, "_program", program)
    set_(result, "_is_program", is_program)
    set_(result, "__dict__", vars(program if is_program else program.transforms[0]))
    return result


@ByClass
def _class_of(kind: type) -> type[Converted]:
    names = {"__slots__": (), "__doc__": kind.__doc__, "__module__": __name__}
    derived: type[Converted] = type(kind)(kind.__name__, (Converted, kind), names)
    return derived


def seen_through(transform: object) -> object:
    """The program of a converted transform; any other object unchanged."""
    return transform._program if is_a(transform, Converted) else transform
