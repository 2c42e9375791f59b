"""Functions of other libraries that return a value and draw nothing, computed by fastpipe where that is the same."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

from fastpipe.hooks.checking import OTHER_VALUES, check_value
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.patches import Function


class FasterFunction(ABC):
    """A function that replaces a library's.

    Args:
        name: the function's name in the report.
        plain: the library's own function.
    """

    def __init__(self, name: str, plain: Function) -> None:
        self._name, self._plain = name, plain

    @abstractmethod
    def make(self, *args: Any, **kwargs: Any) -> object:
        """Makes the value for any arguments.

        Returns:
            The value. Or, if the library has to make it: a str with the reason for the report, or None, so that the
            report doesn't mention the call.
        """

    @property
    def _site(self) -> Site:
        return LEDGER.site("function", self._name)

    def __call__(self, *args: object, **kwargs: object) -> object:
        site = self._site
        if site.is_off:
            return self._plain(*args, **kwargs)
        begun = time.perf_counter()
        try:
            made = self.make(*args, **kwargs)
        except Exception as error:  # whatever the error is, the library's own function raises what the user has to see
            site.count_failed(error)
            return self._plain(*args, **kwargs)
        seconds = time.perf_counter() - begun
        if isinstance(made, str):
            site.count_plain(made)
        if made is None or isinstance(made, str):
            return self._plain(*args, **kwargs)
        if not site.is_check_due():
            site.count(seconds)
            return made
        difference = OTHER_VALUES.format(self._name)
        made = check_value(site, made, seconds, partial(self._plain, *args, **kwargs), difference)
        site.count(None)
        return made
