"""Decides whose mistake an error in a fast path is: the user's if the plain path fails, too, otherwise fastpipe's."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from fastpipe.plain_way import is_plain, plainly, raise_interruption


def raise_if_ours(error: Exception, plain: Callable[[], object]) -> None:
    """Raises the error of a fast path if the plain path works: a bug in fastpipe, which must not count as a refusal.

    Args:
        error: the fast path's error.
        plain: runs the plain path; its result isn't used. If it fails, `raise_if_ours` returns, and the caller runs the
            plain path to raise the user's error.
    """
    raise_interruption(error)
    if is_plain():
        return
    try:
        with plainly():
            plain()
    except Exception:  # the user's mistake, or a bad file: the caller raises it by the plain path
        return
    raise error


def raise_again(image: object, error: Exception) -> bool:
    """Makes an image's next ``load`` raise the error of its last one; False if the error didn't come from ``load``.

    Pillow raises once for a broken file, and on the next ``load`` returns the pixels that it has. This makes an image
    that a fast path failed on look as if it had never been loaded.

    Args:
        image: a Pillow image, or any other object.
        error: the fast path's error.
    """
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
