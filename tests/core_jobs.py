"""Jobs for the core's tests, and what they are compared with."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

import corpus
import numpy as np
import PIL
import torch
from hypothesis import strategies as st
from PIL import Image

from fastpipe import core
from fastpipe.core.library import native
from fastpipe.core.structs import Isa
from fastpipe.types import Header

FILTERS = {
    core.Filter.NEAREST: Image.Resampling.NEAREST,
    core.Filter.BOX: Image.Resampling.BOX,
    core.Filter.BILINEAR: Image.Resampling.BILINEAR,
    core.Filter.HAMMING: Image.Resampling.HAMMING,
    core.Filter.BICUBIC: Image.Resampling.BICUBIC,
    core.Filter.LANCZOS: Image.Resampling.LANCZOS,
}


def read_path(job: core.Job, path: str | os.PathLike[str], offset: int = 0, length: int = 0) -> None:
    """Has a job read a file, or so many bytes of it."""
    raw = job.raw
    raw.path = os.fspath(path).encode() if os.name == "nt" else os.fsencode(path)
    raw.pixels = None
    raw.data.address = None
    raw.offset = offset
    raw.length = length


def headers(files: core.Files) -> list[Header | core.Status]:
    """The headers of the files that were read last, or why there are none."""
    return [header for header, _ in files.outcomes()]


def read_files(
    files: core.Files, sources: Sequence[str | bytes], max_bytes: int = 0, pool: core.Pool | None = None
) -> list[Header | core.Status]:
    """Reads whole files, and gives their headers."""
    files.load(sources, max_bytes, pool)
    return headers(files)


def was_read(files: core.Files, index: int) -> bool:
    """True if a file's bytes could be read, whatever they hold."""
    return bool(files._list.raws[index].status == core.Status.OK)


def os_error(files: core.Files, index: int) -> int:
    """``errno`` of a file that couldn't be read; else 0."""
    return int(files._list.raws[index].os_error)


def held_bytes(files: core.Files) -> int:
    """Bytes of memory that the library holds for files."""
    memory = files._memory
    return 0 if memory is None else int(native().fpc_files_bytes(memory.address))


def context_bytes(context: core.Context) -> int:
    """Bytes of scratch memory that a context holds."""
    return int(native().fpc_context_bytes(context.address))


REFUSALS = range(core.Status.UNKNOWN_FORMAT, core.Status.NO_MEMORY)

JPEGS = {name: data for name, data in corpus.files().items() if name.startswith(("jpeg", "mpo"))}


PILLOW_CHOOSES = int(PIL.__version__.partition(".")[0]) >= 13


def vertical_first(rows: int, columns: int, height: int, width: int) -> bool:
    """True if Pillow's resize goes down the columns first: found by resizing one axis after the other."""
    return PILLOW_CHOOSES and rows > height and rows - height > 2 * (columns - width)


def isas() -> list[Isa]:
    """The instruction sets to test: the one in use, what this machine has beside it, and the portable form."""
    if not core.available():
        return [Isa.PORTABLE]
    wanted = {Isa.PORTABLE, Isa[core.isa().upper()]}
    if core.isa() == "avx512":  # the same loops in other instructions
        wanted.add(Isa.AVX2)
    return sorted(wanted, reverse=True)


def decode(
    context: core.Context, data: bytes, box: tuple[int, int, int, int] | None = None, **limits: int
) -> tuple[int, np.ndarray | None]:
    """The status, and the pixels ``(H, W, 3)`` of the box or the whole file where it is OK."""
    header = core.read_header(data)
    if not isinstance(header, Header):
        return int(header), None
    if header.height * header.width > 1 << 26:
        return int(core.Status.TOO_LARGE), None
    job = core.Job()
    job.read(data)
    job.limit(**limits)
    height, width = header.size
    if box is not None:
        job.box(*box)
        height, width = box[2:]
    # What lies around the pixels must stay as it is.
    guarded = np.full((height + 2, width * 3 + 64), 0xA5, np.uint8)
    out = np.lib.stride_tricks.as_strided(
        guarded[1:, 32:], (height, width, 3), (guarded.strides[0], 3, 1), writeable=True
    )
    job.write_array(out)
    status = context.run(job)
    around = guarded.copy()
    around[1:-1, 32:-32] = 0xA5
    assert (around == 0xA5).all(), "pixels were written outside of the sink"
    return status, np.array(out) if status == core.Status.OK else None


def pixels(
    context: core.Context, image: np.ndarray, shape: tuple[int, ...], *operations: tuple[Any, ...]
) -> np.ndarray:
    """Runs operations, given as ``(method of Job, arguments…)``, on an array; the status has to be OK."""
    job = core.Job()
    job.read_pixels(image)
    for name, *arguments in operations:
        getattr(job, name)(*arguments)
    out = np.empty(shape, np.uint8)
    job.write_array(out)
    status = context.run(job)
    assert status == core.Status.OK, core.status_text(status)
    return out


def normalized(
    image: np.ndarray, dtype: torch.dtype, mean: Any = None, std: Any = None, multiplied: bool = False
) -> torch.Tensor:
    """``ToTensor``, or v2's ``ToDtype``, and ``Normalize`` of ``(H, W, C)`` uint8, as ``(C, H, W)`` of ``dtype``."""
    tensor = torch.from_numpy(image.copy()).permute(2, 0, 1).to(torch.float32)
    tensor = tensor.mul_(1.0 / 255) if multiplied else tensor.div(255)
    if mean is not None:
        shape = (-1, 1, 1)
        tensor = tensor.sub_(torch.tensor(mean).view(shape)).div_(torch.tensor(std).view(shape))
    return tensor.to(dtype)


def pillows_verdict(data: bytes) -> np.ndarray | None:
    """Pillow's pixels as RGB, or None where it raises."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"))
    except Exception:  # its plugins raise nearly anything on a damaged file
        return None


@st.composite
def jpegs(draw: st.DrawFn) -> bytes:
    """A file as an encoder writes it, of any kind that the core decodes."""
    height, width = draw(st.integers(1, 70)), draw(st.integers(1, 90))
    image = corpus.photo(height, width, draw(st.integers(0, 3)))
    if draw(st.booleans()):  # noise: long codes, large coefficients
        image = np.random.default_rng(0).integers(0, 256, image.shape, np.uint8)
    quality = draw(st.sampled_from([1, 5, 30, 75, 90, 95, 100]))
    progressive = draw(st.booleans())
    sampling = draw(st.sampled_from([*corpus.SUBSAMPLINGS, "gray"]))
    if not progressive and draw(st.booleans()):
        return corpus.jpeg(height, width, sampling, quality=quality)
    options: dict[str, int | bool] = {"quality": quality, "progressive": progressive, "optimize": draw(st.booleans())}
    picture = Image.fromarray(image)
    if sampling == "gray":
        picture = picture.convert("L")
    else:
        options["subsampling"] = {"444": 0, "422": 1, "420": 2}.get(sampling, 0)
        if options["subsampling"] == 0 and draw(st.booleans()):
            options["keep_rgb"] = True
    restart = draw(st.sampled_from(["", "", "restart_marker_blocks", "restart_marker_rows"]))
    if restart:
        options[restart] = draw(st.integers(1, 9))
    return corpus.save(picture, "JPEG", **options)
