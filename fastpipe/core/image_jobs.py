"""Jobs that read a Pillow image's memory and write a new image or other memory, in one call of C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpipe.core.job_pool import check
from fastpipe.core.pillow import CAPSULE_POINTER_AT, Pillow, installed
from fastpipe.core.pool import thread_context
from fastpipe.core.structs import Status

if TYPE_CHECKING:
    from PIL import Image
    from PIL._imaging import ImagingCore

_LEFT = frozenset({int(Status.UNSUPPORTED_MODE), int(Status.UNSURE)})


def run_to_new_image(
    job: int, image: Image.Image, offset: int, result: tuple[int, int, int], keeps_info: bool = True
) -> Image.Image | None:
    """Runs a job whose source is `Job.read_image_part` and whose sink is `Job.write_new_image`.

    Args:
        job: address of the job, or of a prepared job.
        image: an image of mode RGB or L; its pixels are loaded if they aren't yet.
        offset: bytes from the image's first pixel to the part's first pixel.
        result: height, width and channels of the new image.
        keeps_info: the new image gets a copy of the image's ``info``, as Pillow's methods do it.

    Returns:
        The new image. None if the memory of either image isn't accessible (see `memory_of`), or if torch has to do the
        work (see `check_or_unsure`).
    """
    pillow = installed()
    if pillow is None:
        return None
    new_core = pillow.core.new("L" if result[2] == 1 else "RGB", (result[1], result[0]))
    if not _run(pillow, job, image, offset, new_core, None):
        return None
    return image._new(new_core) if keeps_info else pillow.wrap(new_core)


def run_from_image(job: int, image: Image.Image, offset: int, out: int | None = None) -> bool:
    """Runs a job that reads an image and writes to memory that is no image's.

    Args:
        job, image, offset: as for `run_to_new_image`.
        out: address of the result; None for the address in the job.

    Returns:
        True if the job was done.
    """
    pillow = installed()
    return pillow is not None and _run(pillow, job, image, offset, None, out)


def _run(
    pillow: Pillow, job: int, image: Image.Image, offset: int, new_core: ImagingCore | None, out: int | None
) -> bool:
    """Runs a job that writes to a new image's pixels (`new_core`), or to memory at an address (`out`); True if done."""
    if type(image) is not pillow.plain:
        image.load()
    if not pillow.checks_rows and (image.readonly or pillow.core.get_alignment() != 1):
        return False
    width, height = image.size
    context = thread_context()
    sink = to = None
    try:
        source = image.im.__arrow_c_array__()
        if new_core is not None:
            sink = new_core.__arrow_c_array__()  # the capsule has to live as long as its memory is used
            to = id(sink) + CAPSULE_POINTER_AT
    except ValueError:  # an image with several blocks of memory
        return False
    status = context.run_on_image(
        context.address, job, height * width, offset, id(source) + CAPSULE_POINTER_AT, to, out
    )
    if status in _LEFT:
        return False
    if status:
        check(status)
    return True
