"""torchvision's tensor backend on uint8 images ``(..., C, H, W)`` in main memory, by the core: the same bytes.

The result is None for any other tensor and for arguments that the core doesn't take; `transforms.functional` then
calls torchvision's code. The core rounds as torch's operations do, one by one. `grid_sample` has two forms, for
processors with and without FMA; `rounding` finds out which one this torch uses.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from fastpipe import core
from fastpipe.core import planes
from fastpipe.torch_modes import computes_by_default, is_traced
from fastpipe.types import Fill

MOST = 1 << 30
"""The largest size of an image's side."""
LEVELS = torch.arange(256, dtype=torch.uint8, device="cpu").view(1, 1, 256)
"""An image of all 256 values."""


def is_plain(image: Tensor) -> bool:
    """True if the core can read a tensor's memory, and nothing watches or changes what is done to it."""
    if is_traced() or type(image) is not Tensor:
        return False
    if image.device.type != "cpu" or image.layout is not torch.strided or not core.available():
        return False
    if not computes_by_default():
        return False
    try:
        image.data_ptr()
    except RuntimeError:  # raised by torch.func's tensors
        return False
    return True


def takes(image: Tensor) -> bool:
    """True if the core can read a tensor: contiguous uint8 images in plain memory."""
    if not is_plain(image) or image.dtype != torch.uint8 or image.ndim < 3 or not image.is_contiguous():
        return False
    if image.shape[-3] not in (1, 3) or image.numel() == 0 or max(image.shape) > MOST:
        return False
    expected = 1
    for size, stride in zip(reversed(image.shape), reversed(image.stride()), strict=True):
        if stride != expected:  # a dimension of one element may have another stride, also in torch's results
            return False
        expected *= size
    return True


def changed(kind: core.Kind, image: Tensor, factor: float = 1.0, flags: int = 0) -> Tensor | None:
    """Runs one of the TENSOR operations or EQUALIZE, with flags of `core.TensorRounding`; None if the core can't."""
    if not takes(image) or not factor <= 1e30:
        return None
    channels, *size = image.shape[-3:]
    if kind is core.Kind.TENSOR_SHARPNESS:
        return by_job(image, lambda job: job.tensor_blend(kind, factor, flags))  # a fifth faster
    out = torch.empty(
        (*image.shape[:-3], 1 if kind is core.Kind.TENSOR_GRAY else channels, *size), dtype=torch.uint8, device="cpu"
    )
    done = planes.change_planes(
        core.thread_context(), kind, image.data_ptr(), _planar(image), out.data_ptr(), factor, flags
    )
    return out if done else None


def by_job(image: Tensor, add: Callable[[core.Job], None], size: tuple[int, int] | None = None) -> Tensor | None:
    """Runs the operations that ``add`` adds to a job on all images of a tensor; None if the images are too large.

    Args:
        image: a tensor that `takes` accepts.
        add: adds operations, with arguments that the core takes.
        size: height and width of the results; None for the images' own.
    """
    *leading, channels, height, width = image.shape
    rows, columns = size or (height, width)
    out = torch.empty((*leading, channels, rows, columns), dtype=torch.uint8, device="cpu")
    job = core.thread_job()
    job.read_planes(image.data_ptr(), (height, width, channels))
    add(job)
    job.write_planes(out.data_ptr(), (rows, columns, channels))
    steps = channels * height * width, channels * rows * columns
    return out if core.done(core.run_thread_series(job, math.prod(leading), *steps)) else None


def _planar(image: Tensor) -> tuple[int, ...]:
    """The number of images in a tensor ``(..., C, H, W)``, then channels, height and width."""
    return math.prod(image.shape[:-3]), *image.shape[-3:]


def looked_up(image: Tensor, operation: Callable[..., Tensor], *args: object, **kwargs: object) -> Tensor | None:
    """Runs an operation that maps each value by itself: on an image of all values, which is the look-up table then."""
    if not takes(image):
        return None
    table, out = operation(LEVELS, *args, **kwargs), torch.empty_like(image)
    planes.look_up_planes(core.thread_context(), image.data_ptr(), image.numel(), table.data_ptr(), out.data_ptr())
    return out


def mixed(batches: list[Tensor], weights: Tensor) -> Tensor | None:
    """Adds up batches ``(N, …)`` of one shape, times float32 weights ``(N, batches)``, in order, and truncates."""
    first = batches[0]
    if weights.dtype != torch.float32 or not all(takes(one) and one.shape == first.shape for one in batches):
        return None
    out = torch.empty_like(first)
    for number, factors in enumerate(weights.tolist()):
        addresses, size = [batch[number].data_ptr() for batch in batches], first[number].numel()
        if not planes.mix_planes(core.thread_context(), addresses, factors, size, out[number].data_ptr()):
            return None
    return out


def sampled(
    image: Tensor,
    size: tuple[int, int],
    mode: str,
    fill: Fill,
    points: Tensor | None,
    flags: int = 0,
) -> Tensor | None:
    """torch's ``grid_sample`` without ``align_corners``, with the outside filled as torchvision does it.

    Args:
        image: any tensor.
        size: the result's height and width.
        mode: "nearest" or "bilinear".
        fill: a number, one for each channel, or None for black.
        points: float32 ``(1, height, width, 2)``, the point that each pixel is sampled at; or a matrix ``(1, 3, 2)``
            whose summed-up products are the points of torchvision's affine grid; or None, which the core doesn't take.
        flags: `core.planes.V2` to mix with the fill as torchvision's v2 does.
    """
    if points is None or points.dtype != torch.float32 or points.device.type != "cpu" or points.requires_grad:
        return None
    if mode not in ("nearest", "bilinear") or not takes(image):
        return None
    channels = image.shape[-3]
    colors = [float(fill)] if isinstance(fill, (int, float)) else None if fill is None else [float(x) for x in fill]
    if colors is not None and (len(colors) not in (1, channels) or not all(0 <= x <= 255 for x in colors)):
        return None
    form = rounding()
    is_matrix = points.ndim == 3
    if form is None or min(size) < 1 or points.shape != ((1, 3, 2) if is_matrix else (1, *size, 2)):
        return None
    points = points.contiguous()
    if is_matrix and not all(map(math.isfinite, points.flatten().tolist())):
        return None
    out = torch.empty((*image.shape[:-2], *size), dtype=torch.uint8, device="cpu")
    done = planes.grid_sample_planes(
        core.thread_context(),
        image.data_ptr(),
        (*_planar(image), *size),
        out.data_ptr(),
        form | flags | (planes.BILINEAR if mode == "bilinear" else 0),
        None if colors is None else (colors * channels)[:channels],
        points.data_ptr() if is_matrix else None,
        None if is_matrix else points.data_ptr(),
    )
    return out if done else None


@functools.cache
def rounding() -> int | None:
    """The flag for the core to sample with this torch's rounding; None if neither form matches."""
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (3, 41, 58), generator=generator, dtype=torch.uint8, device="cpu")
    grid = torch.rand((1, 50, 70, 2), generator=generator, dtype=torch.float32, device="cpu") * 2.2 - 1.1
    for form in (planes.FUSED, 0) if core.isa() != "portable" else (0,):
        out = torch.empty((3, 50, 70), dtype=torch.float32, device="cpu")
        flags = planes.BILINEAR | planes.FLOATS | form
        arguments = image.data_ptr(), (1, 3, 41, 58, 50, 70), out.data_ptr(), flags, None, None, grid.data_ptr()
        known = torch.nn.functional.grid_sample(image[None].float(), grid, align_corners=False)[0]
        if planes.grid_sample_planes(core.thread_context(), *arguments) and torch.equal(out, known):
            return form
    return None
