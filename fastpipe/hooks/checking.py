"""One call made both ways: ours, and again the plain way from the generators' states before; then compared."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fastpipe.hooks.ledger import Site
from fastpipe.hooks.patches import plainly

if TYPE_CHECKING:
    import torch

    from fastpipe.rng.state import GeneratorStates

Result = TypeVar("Result")

_OTHER_VALUES = "{} gave other values than the library itself"

clock = time.thread_time if time.get_clock_info("thread_time").resolution < 1e-4 else time.perf_counter
"""Seconds of the processor for this thread, where the system counts them finely: other processes' work is no part."""


def check_call(
    site: Site, fast: Callable[[], Result], plain: Callable[[], Result], what: str, plain_seconds: float = 0.0
) -> Result:
    """The result of a call that is made both ways: the plain one's where they differ.

    Args:
        site: that counts the check.
        fast: our way; it may draw from the global generators.
        plain: the library's own way, of objects that ours leaves as they are.
        what: the call, as a warning names it.
        plain_seconds: that the plain way has taken already, for the image that it is called with.
    """
    from fastpipe.rng.state import GeneratorStates

    before = GeneratorStates.of()
    begun = clock()
    try:
        made = fast()
        after = GeneratorStates.of()
        _make_pixels(made)
    except Exception as error:  # raised again, unless the library makes the same without one
        before.restore()
        return _plain_instead(site, error, plain)
    fast_seconds = clock() - begun
    before.restore()
    begun = clock()
    with plainly():
        expected = plain()
    plain_seconds += clock() - begun
    difference = _difference(made, expected, after, GeneratorStates.of(), what)
    site.add_check(plain_seconds, fast_seconds, difference)
    if difference:
        return expected
    return made


def check_value(site: Site, made: Result, seconds: float, plain: Callable[[], Result], what: str) -> Result:
    """Checks, as `check_call` does, a call that drew nothing, in a process that may have no torch.

    Args:
        site: that counts the check.
        made: what our way gave.
        seconds: that it took.
        plain: the library's own way.
        what: the call, as a warning names it.
    """
    begun = clock()
    with plainly():
        expected = plain()
    plain_seconds = clock() - begun
    difference = "" if same_pixels(made, expected) else _OTHER_VALUES.format(what)
    site.add_check(plain_seconds, seconds, difference)
    return expected if difference else made


def _plain_instead(site: Site, error: Exception, plain: Callable[[], Result]) -> Result:
    """Returns the library's own result after our way failed; raises our error if the library fails in the same way."""
    try:
        with plainly():
            expected = plain()
    except Exception as same:  # raised again
        if type(same) is not type(error):
            raise
    else:
        site.count_failed(error)
        return expected
    raise error


def _make_pixels(made: Any) -> None:
    """Makes the pixels of an image without: the time that they take is a part of ours."""
    if _are("PIL.Image", "Image", made):
        made.load()  # a file that nothing was done to has no ``im`` before
        _ = made.im


def _difference(made: object, expected: object, after: GeneratorStates, plain_after: GeneratorStates, what: str) -> str:
    if not same_pixels(made, expected):
        return _OTHER_VALUES.format(what)
    if not after.draws_like(plain_after):
        return f"{what} left a random generator in another state than the library itself"
    return ""


def same_pixels(one: Any, other: Any) -> bool:
    """True if two samples are the same: type, shape, dtype and each value of tensors, arrays and Pillow images."""
    if _are("torch", "Tensor", one, other):
        same_kind = one.shape == other.shape and one.dtype == other.dtype
        return same_kind and _same_bytes(one.detach().cpu().numpy(), other.detach().cpu().numpy())
    if _are("PIL.Image", "Image", one, other):
        return (one.mode, one.size) == (other.mode, other.size) and one.tobytes() == other.tobytes()
    if _are("numpy", "ndarray", one, other):
        return one.shape == other.shape and one.dtype == other.dtype and _same_bytes(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_pixels(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same_pixels, one, other))
    return bool(one == other)


def _are(module: str, name: str, *things: object) -> bool:
    """True if things are of a class; if its module hasn't been imported, nothing is."""
    kind: Any = getattr(sys.modules.get(module), name, ())
    return all(isinstance(one, kind) for one in things)


def _same_bytes(one: Any, other: Any) -> bool:
    import numpy as np

    return bool(np.array_equal(one, other)) or one.tobytes() == other.tobytes()  # NaN equals itself here


@dataclass(frozen=True, slots=True)
class SiteAccount:
    """The account of a tensor without pixels: a site's, which may check it.

    Attributes:
        site: that counts.
        library: makes the same tensor by the library alone; None where that has drawn.
        checks: the tensor is compared with that.
    """

    site: Site
    library: Callable[[], torch.Tensor] | None
    checks: bool = False

    def count(self, seconds: float) -> None:
        """Counts the seconds that elements took: the image was counted when it was opened."""
        self.site.count(seconds, 0)

    def check(self, made: torch.Tensor, seconds: float) -> torch.Tensor:
        """The result, or the library's where that is another."""
        assert self.library is not None
        begun = time.perf_counter()
        with plainly():
            expected = self.library()
        same = same_pixels(made, expected)
        difference = "" if same else "an image had other values than the library itself gives"
        self.site.add_check(time.perf_counter() - begun, seconds, difference)
        self.site.count(seconds, 0)
        return made if same else expected

    def after(self, call: Callable[[Any], Any]) -> SiteAccount:
        """The account of what the library's own call makes of the tensor."""
        library = self.library
        return SiteAccount(self.site, None if library is None else lambda: call(library()), self.checks)
