"""Functions of other libraries that return a value and draw nothing, computed by fastpipe where that is the same."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from fastpipe.clock import clock
from fastpipe.hooks.checking import OTHER_VALUES, check_value
from fastpipe.hooks.ledger import DIFFERED, LEDGER, Site
from fastpipe.hooks.patches import Function
from fastpipe.mistakes import plain_instead
from fastpipe.pending import is_pending


class FasterFunction(ABC):
    """A function that replaces a library's.

    Args:
        name: the function's name in the report.
        plain: the library's own function.
    """

    def __init__(self, name: str, plain: Function) -> None:
        self._name, self._plain = name, plain

    def takes(self, *args: Any, **kwargs: Any) -> bool:
        """False for arguments that aren't meant for fastpipe, so that the report doesn't mention the call."""
        return True

    @abstractmethod
    def make(self, *args: Any, **kwargs: Any) -> object:
        """Makes the value for arguments that `takes` accepts.

        Returns:
            The value; one without pixels is counted and checked by whoever makes its pixels. Or, if the library has to
            make it: a str with the reason for the report, or None, so that the report doesn't mention the call.
        """

    def expected(self, *args: Any, **kwargs: Any) -> object:
        """The library's own value, which a check compares with the one from `make`."""
        return self._plain(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of `takes` or `make`, whichever names more of the function's parameters."""
        ours = inspect.signature(self.takes), inspect.signature(self.make)
        return max(ours, key=_named_parameters)

    @property
    def site(self) -> Site:
        """Counts the calls."""
        return LEDGER.site("function", self._name)

    def __call__(self, *args: object, **kwargs: object) -> object:
        site: Site | None = None
        begun = 0.0
        failed: Exception | None = None
        try:
            if self.takes(*args, **kwargs):
                site, begun = self.site, clock()
                value = DIFFERED if site.is_off else self.make(*args, **kwargs)
        except Exception as error:  # `attempt`, without a call more for each call
            failed = error
        if failed is not None:
            plain, inputs = partial(self._plain, *args, **kwargs), (*args, *kwargs.values())
            try:
                return plain_instead(failed, plain, self.site.count_failed, inputs)
            finally:
                failed = None  # its frames hold this one
        if site is None:
            return self._plain(*args, **kwargs)
        seconds = clock() - begun
        if value is None or isinstance(value, str):
            if value is not None:
                site.count_plain(value)
            return self._plain(*args, **kwargs)
        if is_pending(value):
            return value
        if not site.is_check_due():
            site.count(seconds)
            return value
        difference = OTHER_VALUES.format(self._name)
        value = check_value(site, value, seconds, partial(self.expected, *args, **kwargs), difference)
        site.count(None)
        return value


def _named_parameters(signature: inspect.Signature) -> int:
    return sum(one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in signature.parameters.values())


def counted(name: str, reason: str) -> Callable[[Function], Function]:
    """Makes a replacement that calls the library's function, and counts the call as left to it."""

    def make(plain: Function) -> Function:
        def call(*args: object, **kwargs: object) -> object:
            value = plain(*args, **kwargs)
            LEDGER.site("function", name).count_plain(reason)
            return value

        return call

    return make
