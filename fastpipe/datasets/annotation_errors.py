"""Errors of annotations: each an `AnnotationError`, and of the class that torchvision raises for the same one."""

from __future__ import annotations

from xml.etree import ElementTree

from fastpipe.errors import AnnotationError


class _MissingError(AnnotationError, KeyError):
    __str__ = Exception.__str__  # KeyError's puts the text into quotes


class _IndexError(AnnotationError, IndexError):
    pass


class _TypeError(AnnotationError, TypeError):
    pass


class _AttributeError(AnnotationError, AttributeError):
    pass


class _RuntimeError(AnnotationError, RuntimeError):
    pass


class _OverflowError(AnnotationError, OverflowError):
    pass


class _SyntaxError(AnnotationError, ElementTree.ParseError):
    __str__ = Exception.__str__


class _AssertionError(AnnotationError, AssertionError):
    pass


_KINDS: dict[type[Exception], type[AnnotationError]] = {
    KeyError: _MissingError,
    IndexError: _IndexError,
    TypeError: _TypeError,
    AttributeError: _AttributeError,
    RuntimeError: _RuntimeError,
    OverflowError: _OverflowError,
    AssertionError: _AssertionError,
    SyntaxError: _SyntaxError,
}

NOT_OF_ANNOTATIONS = (MemoryError, RecursionError, OSError)
"""Errors of the process or of a file, which pass as they are."""


def named(error: Exception, where: str, alone: Exception | None = None) -> Exception:
    """An error of both classes that names the file and the annotation; `error` itself if it isn't an annotation's.

    Args:
        error: raised while annotations were used; the result is of its class.
        where: names the file and the annotation: ``"train.json, annotation 7"``.
        alone: what that annotation alone raises, if this is known; it says what is wrong.
    """
    if isinstance(error, (AnnotationError, *NOT_OF_ANNOTATIONS)):
        return error
    kind = next((kind for base, kind in _KINDS.items() if isinstance(error, base)), AnnotationError)
    return kind(f"{where}: {said(alone or error)}.")


def of_class(name: str, text: str) -> AnnotationError:
    """An error with a text, of the class that has this name among Python's."""
    return next((kind for base, kind in _KINDS.items() if base.__name__ == name), AnnotationError)(text)


def said(error: Exception) -> str:
    """The words for an annotation's error."""
    if isinstance(error, KeyError) and error.args:
        return f"there is no {error.args[0]!r}"
    return f"{type(error).__name__}: {str(error).rstrip('.')}"
