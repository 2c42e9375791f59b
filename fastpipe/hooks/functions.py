"""Functions of other libraries that give a value and draw nothing: made our way, where that is known to be the same."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

from fastpipe.hooks.checking import check_value
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.patches import Function


class FasterFunction(ABC):
    """A function that is called in place of a library's.

    Args:
        name: of the function, in the report.
        plain: the library's own.
    """

    def __init__(self, name: str, plain: Function) -> None:
        self._name, self._plain = name, plain

    @abstractmethod
    def make(self, *args: object, **kwargs: object) -> object:
        """The value, for any arguments; or a text that says why the library has to give it."""

    @property
    def _site(self) -> Site:
        return LEDGER.site("function", self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        site = self._site
        if site.is_off:
            return self._plain(*args, **kwargs)
        begun = time.perf_counter()
        try:
            made = self.make(*args, **kwargs)
        except Exception as error:  # whatever it is, the library's own function raises what the user is to see
            site.count_failed(error)
            return self._plain(*args, **kwargs)
        seconds = time.perf_counter() - begun
        if isinstance(made, str):
            site.count_plain(made)
            return self._plain(*args, **kwargs)
        if not site.is_check_due():
            site.count(seconds)
            return made
        made = check_value(site, made, seconds, partial(self._plain, *args, **kwargs), self._name)
        site.count_checked()
        return made
