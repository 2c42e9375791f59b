"""Judgement on an error of a fast way: the user's mistake where the plain way fails as well, else fastpipe's own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

_thread = threading.local()


def is_trying_plain_way() -> bool:
    """True while the plain way is tried: whatever has a fast way leaves it."""
    return getattr(_thread, "is_trying_plain_way", False)


def raise_if_ours(error: Exception, plain: Callable[[], object]) -> None:
    """Raises an error that the plain way doesn't have: then it is fastpipe's, and must not pass for a refusal.

    Args:
        error: of the fast way.
        plain: the plain way, whose result isn't used. Where it fails, this returns, and the caller has the plain way
            tell the user what is wrong.
    """
    if is_trying_plain_way():
        return
    _thread.is_trying_plain_way = True
    try:
        plain()
    except Exception:  # the user's mistake, or a bad file: the caller shows it by the plain way
        return
    finally:
        _thread.is_trying_plain_way = False
    raise error


def raise_again(image: object, error: Exception) -> bool:
    """Has an image's next ``load`` raise the error of its last one; False if it raised no such.

    Pillow raises once for a file that is broken, and takes what pixels it has when it is asked again. A fast way that
    has failed leaves the image as one that nobody has asked.

    Args:
        image: Pillow's, or anything else.
        error: of a fast way.
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
