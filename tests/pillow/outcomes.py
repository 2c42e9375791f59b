"""Everything that can be seen of an image, and of what is done to it."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

from PIL import Image

import fastpipe


def shown(image: Any) -> Any:
    """Everything that can be seen of an image, its fourth byte included."""
    raw = "RGBX" if image.mode == "RGB" else image.mode
    content = image.tobytes("raw", raw) if image.mode in ("RGB", "L") else image.tobytes()
    return image.mode, image.size, image.info, image.getpalette(), content


def outcome(action: Callable[[], Any]) -> Any:
    """An action's result, as `shown` has it, or its error; and its warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            made = action()
            found = shown(made) if isinstance(made, Image.Image) else made
        except Exception as error:
            found = type(error), str(error).replace("BytesIO object at 0x", "").partition("<_io")[0]
    return found, sorted({str(one.message) for one in told if one.category is not ResourceWarning})


def both(data: bytes, change: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The outcome of a change, from Pillow's image and from ours."""
    return outcome(lambda: change(Image.open(io.BytesIO(data)))), outcome(lambda: change(fastpipe.open_image(data)))
