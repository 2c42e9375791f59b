"""Whose mistake an error in a fast path is: the user's if the plain path fails, too, otherwise fastpipe's.

All of fastpipe's ways that stand for a library's own go through `attempt`, or through `plain_instead` where a call more
would take noticeable time. What neither calls has no plain way: its error is raised.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import NoReturn, TypeVar

from fastpipe.plain_lookup import is_a
from fastpipe.plain_way import is_plain, plainly, raise_interruption

Result = TypeVar("Result")


def raise_mistake(error: Exception) -> None:
    """Raises an error of fastpipe's: what `attempt` does with one unless it is told otherwise."""
    raise error


def attempt(
    fast: Callable[[], Result],
    plain: Callable[[], Result],
    on_mistake: Callable[[Exception], object] = raise_mistake,
    images: Iterable[object] = (),
    restore: Callable[[], object] | None = None,
    refusals: tuple[type[Exception], ...] = (),
) -> Result:
    """Runs fastpipe's way; if it fails, the plain way, whose error is the user's.

    If the plain way works, the mistake is fastpipe's: it is raised, or given to `on_mistake`. What is nobody's mistake
    passes: see `fastpipe.plain_way.raise_interruption`.

    Args:
        fast: fastpipe's way.
        plain: the library's own way; runs within `plainly` if fastpipe's has failed.
        on_mistake: is called with fastpipe's error.
        images: inputs of both; one whose file is broken raises again, though Pillow reports that only once.
        restore: takes back what `fast` has done, such as draws.
        refusals: errors that say that fastpipe's way isn't for this: the plain way is taken, and nothing was wrong.
    """
    failed: Exception | None = None
    try:
        return fast()
    except refusals:
        pass
    except Exception as error:  # whose mistake it is, the plain way shows
        failed = error
    if failed is None:
        return plain()
    try:
        return plain_instead(failed, plain, on_mistake, images, restore)
    finally:
        del failed  # its frames hold this one, and thus the image


def plain_instead(
    failed: Exception,
    plain: Callable[[], Result],
    on_mistake: Callable[[Exception], object] = raise_mistake,
    images: Iterable[object] = (),
    restore: Callable[[], object] | None = None,
) -> Result:
    """The plain way after fastpipe's has failed: the second half of `attempt`, for code that asks too often for a call.

    Called outside of the handler, so that the library's error has no context. The caller deletes its own reference to
    the error, whose frames hold the caller's.

    Args:
        failed: fastpipe's error.
        plain, on_mistake, images, restore: see `attempt`.
    """
    raise_interruption(failed)
    for image in images:
        raise_again(image, failed)
    if restore is not None:
        restore()
    try:
        was_plain = is_plain()
        with plainly():
            result = plain()
        if not was_plain:
            on_mistake(failed)
        return result
    finally:
        del failed  # its frames hold this one, and thus the image


def raise_again(image: object, error: Exception) -> bool:
    """Makes an image's next ``load`` raise the error of its last one; False if the error didn't come from ``load``.

    Pillow raises once for a broken file, and on the next ``load`` returns the pixels that it has. This makes an image
    that a fast path failed on look as if it had never been loaded.

    Args:
        image: a Pillow image, or any other object.
        error: the fast path's error.
    """
    pillow = sys.modules.get("PIL.Image")
    if pillow is None or not is_a(image, pillow.Image):
        return False
    trace = error.__traceback__
    while trace is not None and not _is_load_of(image, trace.tb_frame):
        trace = trace.tb_next
    if trace is None:
        return False

    def load() -> NoReturn:
        del own["load"]
        raise error

    own = vars(image)
    own["load"] = load
    return True


def _is_load_of(image: object, frame: FrameType) -> bool:
    return frame.f_code.co_name == "load" and frame.f_locals.get("self") is image
