"""Checks of calls: makes the result in fastpipe's way and in the library's own, from the same generators' states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from fastpipe.clock import Stopwatch, clock
from fastpipe.foreign_code import outcome_of
from fastpipe.hooks.class_checks import is_array, is_pillow_image, is_tensor
from fastpipe.hooks.ledger import Site
from fastpipe.mistakes import attempt, raise_again
from fastpipe.plain_way import plainly, raise_interruption

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from fastpipe.program.comparisons import Comparisons
    from fastpipe.rng.state import GeneratorStates

Result = TypeVar("Result")

OTHER_VALUES = "{} gave other values than the library itself"


def check_call(
    site: Site, fast: Callable[[], Result], plain: Callable[[], Result], what: str, plain_seconds: float = 0.0
) -> Result:
    """Makes a call in both ways and compares; returns the library's own result if they differ.

    Args:
        site: counts the check.
        fast: fastpipe's way; it may draw from the global generators.
        plain: the library's own way, on objects that `fast` doesn't change.
        what: a description of the call, for the warning.
        plain_seconds: the time that the library has already spent on the image with which `plain` is called.
    """
    from fastpipe.rng.state import GeneratorStates

    before = GeneratorStates.of()
    begun = clock()

    def made() -> tuple[Result, GeneratorStates | None]:
        result = fast()
        after = GeneratorStates.of()
        _make_pixels(result)
        return result, after

    result, after = attempt(made, lambda: (plain(), None), site.count_failed, restore=before.restore)
    if after is None:  # fastpipe's way has failed
        return result
    fast_seconds = clock() - begun
    before.restore()
    watch = Stopwatch()
    with plainly():
        expected = plain()
    taken, wall = watch.taken()
    difference = _difference(result, expected, after, GeneratorStates.of(), what)
    site.add_check(plain_seconds + taken, fast_seconds, difference, wall - taken)
    if difference:
        return expected
    return result


def check_value(site: Site, result: Result, seconds: float, plain: Callable[[], Result], difference: str) -> Result:
    """Compares a result that needed no random numbers with the library's own; returns the library's if they differ.

    Args:
        site: counts the check.
        result: the result of fastpipe's way.
        seconds: the time that it took.
        plain: the library's own way.
        difference: the text of the warning if they differ.
    """
    watch = Stopwatch()
    with plainly():
        expected = plain()
    taken, wall = watch.taken()
    is_same = same_pixels(result, expected)
    site.add_check(taken, seconds, "" if is_same else difference, wall - taken)
    return result if is_same else expected


def _make_pixels(result: object) -> None:
    """Makes the pixels of a lazy image, so that the time of fastpipe's way includes them."""
    if is_pillow_image(result):
        result.load()  # an opened file without operations has no ``im`` before
        _ = result.im


def _difference(
    result: object, expected: object, after: GeneratorStates, plain_after: GeneratorStates, what: str
) -> str:
    if not same_pixels(result, expected):
        return OTHER_VALUES.format(what)
    if not after.draws_like(plain_after):
        return f"{what} left a random generator in another state than the library itself"
    return ""


def same_pixels(one: object, other: object) -> bool:
    """True if two samples are equal: type, shape, dtype and every value of tensors, arrays and Pillow images."""
    if is_tensor(one) and is_tensor(other):
        same_kind = one.shape == other.shape and one.dtype == other.dtype
        return same_kind and _same_values(one.detach().cpu(), other.detach().cpu())
    if is_pillow_image(one) and is_pillow_image(other):
        return (one.mode, one.size) == (other.mode, other.size) and one.tobytes() == other.tobytes()
    if is_array(one) and is_array(other):
        return one.shape == other.shape and one.dtype == other.dtype and _same_bytes(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_pixels(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same_pixels, one, other))
    return bool(one == other)


def _same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    import torch

    return torch.equal(one, other) or torch.equal(*(each.reshape(-1).view(torch.uint8) for each in (one, other)))


def _same_bytes(one: NDArray[np.generic], other: NDArray[np.generic]) -> bool:
    import numpy as np

    return bool(np.array_equal(one, other)) or one.tobytes() == other.tobytes()  # by bytes a NaN equals itself


def plain_image(image: object) -> tuple[object, float]:
    """Makes the same image by Pillow alone, from the file's bytes and the recorded operations; copies a plain image.

    Args:
        image: a Pillow image, or an array.

    Returns:
        The image, and the seconds that Pillow took. The image is None if Pillow's calls for it are unknown, for a
        broken file, and for any other object, such as a tensor, which fastpipe leaves to its library.
    """
    begun = clock()
    if is_pillow_image(image):
        from fastpipe.pillow.lazy_image import shadow_of

        twin = outcome_of(lambda: shadow_of(image))
        if not isinstance(twin, Exception):
            return twin, clock() - begun
        raise_interruption(twin)
        if not raise_again(image, twin):  # a broken file's error comes again at the next use
            raise twin
    if is_array(image):
        return image.copy(), clock() - begun
    return None, 0.0


@dataclass(frozen=True, slots=True)
class SiteAccount:
    """The account of a pending tensor: counts at a site, and may check the tensor.

    Attributes:
        site: the site that counts.
        library: makes the same tensor by the library alone; None if the library would have to draw.
        comparisons: those of the tensors that are made from one file; None without `library`.
        is_due: compare the tensor, and those made from it, with the library's.
    """

    site: Site
    library: Callable[[], torch.Tensor] | None = None
    comparisons: Comparisons[torch.Tensor] | None = None
    is_due: bool = False

    @classmethod
    def of_file(cls, site: Site, library: Callable[[], torch.Tensor], is_due: bool) -> SiteAccount:
        """The account of a file's own tensor, which the library makes once for all comparisons."""
        from fastpipe.program.comparisons import Comparisons

        comparisons = Comparisons(library)
        return cls(site, comparisons.plain, comparisons, is_due)

    @property
    def may_compare(self) -> bool:
        """True if one more tensor of the file may be compared."""
        return self.comparisons is not None and self.comparisons.left > 0

    @property
    def checks(self) -> bool:
        """True if results have to go through `check`."""
        return self.is_due and self.may_compare

    def count(self, seconds: float) -> None:
        """Adds the seconds that the elements took; the image was counted when it was opened."""
        self.site.count(seconds, 0)

    def check(self, result: torch.Tensor, seconds: float) -> torch.Tensor:
        """Compares a result with the library's; returns the library's if they differ."""
        assert self.library is not None
        difference = "an image had other values than the library itself gives"
        checked = check_value(self.site, result, seconds, self.library, difference)
        self.site.count(seconds, 0)
        return result if checked is result else checked.clone()

    def after(self, call: Callable[[torch.Tensor], torch.Tensor]) -> SiteAccount:
        """The account of the tensor that the library's call makes from this one."""
        library = self.library
        called = None if library is None else lambda: call(library())
        return SiteAccount(self.site, called, self.comparisons, self.is_due)
