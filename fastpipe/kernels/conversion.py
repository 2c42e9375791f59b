"""Conversions between uint8 arrays and tensors, by the core or, without it, by numpy and torch: the same values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe import core
from fastpipe.kernels.arrays import UInt8Array, channels


def array_to_tensor(image: UInt8Array, out: torch.Tensor | None = None) -> torch.Tensor:
    """The pixels as a contiguous ``(C, H, W)`` tensor; equal to torchvision's ``pil_to_tensor``.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``; may be a non-contiguous view.
        out: a contiguous uint8 tensor ``(C, H, W)`` to write into and return, such as one slot of a batch.
    """
    if out is None:
        out = _new_planes(image, torch.uint8)
    if image.ndim == 2 or image.shape[2] == 1:
        out.numpy()[0] = image.reshape(image.shape[:2])
    elif image.shape[2] == 3 and image.size and core.available():
        job = core.thread_job()
        job.read_pixels(image)
        job.write_tensor(out)
        core.check(core.run_thread_job(job))
    else:
        for plane, channel in zip(out.numpy(), image.transpose(2, 0, 1), strict=True):
            plane[...] = channel
    return out


def _new_planes(image: UInt8Array, dtype: torch.dtype) -> torch.Tensor:
    """A contiguous tensor ``(C, H, W)``; for one channel with torchvision's strides, those of a transposed array."""
    count, (height, width) = channels(image), image.shape[:2]
    return torch.empty_strided((count, height, width), (height * width if count > 1 else 1, width, 1), dtype=dtype)


def planes_to_array(planes: UInt8Array) -> UInt8Array:
    """Converts ``(C, H, W)`` to a contiguous ``(H, W, C)``; copies nothing if there is one channel."""
    if len(planes) < 2 or not planes.size:
        return np.ascontiguousarray(planes.transpose(1, 2, 0))
    count, height, width = planes.shape
    out = np.empty((height, width, count), np.uint8)
    if count == 3 and core.available():
        job = core.thread_job()
        job.read_pixels(planes.transpose(1, 2, 0))
        job.write_array(out)
        core.check(core.run_thread_job(job))
    else:
        for number, plane in enumerate(planes):
            out[..., number] = plane
    return out


def to_tensor(
    image: UInt8Array,
    out: torch.Tensor | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    multiplied: bool = False,
) -> torch.Tensor:
    """Divides pixels by 255 and normalises them: the same bits as torchvision's ``to_tensor`` and ``normalize``.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``; may be a non-contiguous view.
        out: a float32 tensor ``(C, H, W)`` to write into and return, such as one slot of a batch.
        mean: one value a channel, or one for all, for pixels in [0, 1]; given with ``std``.
        std: one value a channel, or one for all; not zero.
        multiplied: multiply by 1 / 255, as v2's ``ToDtype`` does, instead of dividing by 255.

    Raises:
        RuntimeError: ``mean`` has neither one value nor one a channel, as in torchvision.
    """
    count = channels(image)
    if mean is not None and len(mean) not in (1, count):
        raise RuntimeError(
            f"mean and std have {len(mean)} values for an image of {count} channels: give {count} or 1 of each"
        )
    if out is None:
        out = _new_planes(image, torch.float32)
    if count in (1, 3) and image.size and core.available():
        job = core.thread_job()
        job.read_pixels(image)
        # The core takes three numbers; for gray it uses the first.
        mean_of_3, std_of_3 = (None if values is None else tuple(values) * (3 // len(values)) for values in (mean, std))
        job.write_tensor(out, mean_of_3, std_of_3, multiplied)
        core.check(core.run_thread_job(job))
        return out
    out.copy_(array_to_tensor(image))
    out = out.mul_(1.0 / 255) if multiplied else out.div_(255)
    if mean is not None and std is not None:
        means, stds = (torch.tensor(numbers, dtype=torch.float32)[:, None, None] for numbers in (mean, std))
        out.sub_(means).div_(stds)
    return out


def floats_to_tensor(
    image: NDArray[np.float32],
    out: torch.Tensor | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> torch.Tensor:
    """`to_tensor` of float32 ``(H, W, C)`` that are from 0 to 1 already."""
    planes = torch.from_numpy(image).permute(2, 0, 1)
    if mean is not None:
        planes = planes.sub(torch.tensor(mean)[:, None, None]).div_(torch.tensor(std)[:, None, None])
    return planes.contiguous() if out is None else out.copy_(planes)
