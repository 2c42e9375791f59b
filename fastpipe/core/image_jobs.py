"""Jobs from a Pillow image's memory to a new image's, or elsewhere: where both lie, and the work, are one call of C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from fastpipe.core.job_pool import check
from fastpipe.core.pillow import CAPSULE_POINTER_AT, installed
from fastpipe.core.pool import thread_context
from fastpipe.core.structs import Status

if TYPE_CHECKING:
    from PIL import Image

_LEFT = frozenset({int(Status.UNSUPPORTED_MODE), int(Status.UNSURE)})


@overload
def run_on_image(
    job: int, image: Image.Image, offset: int, result: tuple[int, int, int], keeps_info: bool = True
) -> Image.Image | None: ...
@overload
def run_on_image(
    job: int,
    image: Image.Image,
    offset: int,
    result: tuple[int, int, int] | None,
    keeps_info: bool = True,
    out: int | None = None,
) -> Image.Image | Literal[True] | None: ...
def run_on_image(
    job: int,
    image: Image.Image,
    offset: int,
    result: tuple[int, int, int] | None,
    keeps_info: bool = True,
    out: int | None = None,
) -> Image.Image | Literal[True] | None:
    """Runs a job whose source is `Job.read_image_part`, or a prepared one's.

    Args:
        job: its address.
        image: in mode RGB or L, whose pixels are loaded if they aren't yet.
        offset: bytes from the image's first pixel to the part's.
        result: height, width and channels of the new image, as in `Job.write_new_image`; None where the result goes
            elsewhere.
        keeps_info: the new image gets a copy of the image's ``info``, as Pillow makes it.
        out: where it goes, with another result; None for where the job says.

    Returns:
        The new image, or True. None where this image's memory isn't to be had, or a new one's: see `memory_of`; and
        where torch is to do the work, as `check_or_unsure` says.
    """
    pillow = installed()
    if pillow is None:
        return None
    if type(image) is not pillow.plain:
        image.load()
    if not pillow.checks_rows and (image.readonly or pillow.core.get_alignment() != 1):
        return None
    width, height = image.size
    context = thread_context()
    made = sink = to = None
    if result is not None:
        made = pillow.core.new("L" if result[2] == 1 else "RGB", (result[1], result[0]))
    try:
        source = image.im.__arrow_c_array__()
        if made is not None:
            sink = made.__arrow_c_array__()  # what shows the memory has to live as long as it is used
            to = id(sink) + CAPSULE_POINTER_AT
    except ValueError:  # several blocks of memory, of an image or of the result
        return None
    status = context.run_on_image(
        context.address, job, height * width, offset, id(source) + CAPSULE_POINTER_AT, to, out
    )
    if status:
        if status in _LEFT:
            return None
        check(status)
    if made is None:
        return True
    return image._new(made) if keeps_info else pillow.wrap(made)
