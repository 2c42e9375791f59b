"""From uint8 arrays to tensors: by the core; where that isn't there, split the channels, then convert each plane.

Splitting with ``cv2.split`` is vectorised; every way that converts and transposes at once (torch's ``contiguous``,
``np.copyto``, ``torch.div`` of a permuted view) walks the pixels with a stride and is two to six times as slow.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import torch

from fastpipe import core
from fastpipe.kernels._arrays import FloatArray, UInt8Array, channels


def array_to_tensor(image: UInt8Array, out: torch.Tensor | None = None) -> torch.Tensor:
    """The pixels as a contiguous ``(C, H, W)`` tensor; equal to torchvision's ``pil_to_tensor``.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``; may be a non-contiguous view.
        out: a contiguous uint8 tensor ``(C, H, W)`` to write into and return, such as one slot of a batch.
    """
    if out is None:
        out = torch.empty((channels(image), *image.shape[:2]), dtype=torch.uint8)
    _split(image, out.numpy())
    return out


def to_tensor(image: UInt8Array, out: torch.Tensor | None = None) -> torch.Tensor:
    """The pixels divided by 255 as a float32 ``(C, H, W)`` tensor; bit-equal to torchvision's ``to_tensor``.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``; may be a non-contiguous view.
        out: a float32 tensor ``(C, H, W)`` to write into and return.
    """
    if channels(image) in (1, 3) and image.size and core.available():
        if out is None:
            out = torch.empty((channels(image), *image.shape[:2]), dtype=torch.float32)
        return _by_core(image, out)
    planes = array_to_tensor(image)
    if out is None:
        return planes.to(torch.float32).div_(255)
    return torch.div(planes, 255, out=out)


def normalization_table(mean: Sequence[float], std: Sequence[float], multiplied: bool = False) -> FloatArray:
    """What ``ToTensor`` and ``Normalize(mean, std)`` make of each of the 256 pixel values.

    Args:
        mean: one value a channel, for pixels in [0, 1].
        std: one value a channel; not zero.
        multiplied: by 1 / 255, as v2's ``ToDtype`` does, and not divided by 255 as ``ToTensor``.

    Returns:
        A ``(C, 256)`` float32 table for `to_normalized_tensor`. It is computed with torchvision's own float32
        operations in their order, so that looking a pixel up is bit-equal to them.
    """
    levels = torch.arange(256, dtype=torch.uint8).to(torch.float32)
    levels = levels.mul_(1.0 / 255) if multiplied else levels.div_(255)
    means = torch.as_tensor(mean, dtype=torch.float32).view(-1, 1)
    stds = torch.as_tensor(std, dtype=torch.float32).view(-1, 1)
    return levels.repeat(max(len(means), len(stds)), 1).sub_(means).div_(stds).numpy()


def to_normalized_tensor(image: UInt8Array, table: FloatArray, out: torch.Tensor | None = None) -> torch.Tensor:
    """Each pixel's entry of a `normalization_table`; bit-equal to ``ToTensor`` followed by ``Normalize``.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``; may be a non-contiguous view.
        table: contiguous float32 ``(C, 256)``; one row serves all channels.
        out: a contiguous float32 tensor ``(C, H, W)`` to write into and return, such as one slot of a batch.

    Raises:
        RuntimeError: neither one row nor a row a channel, as in torchvision.
    """
    count = channels(image)
    if len(table) not in (1, count):
        raise RuntimeError(
            f"mean and std have {len(table)} values for an image of {count} channels: give {count} or 1 of each"
        )
    if out is None:
        out = torch.empty((count, *image.shape[:2]), dtype=torch.float32)
    if image.size == 0:
        return out
    into = out.numpy()
    planes = [image] if image.ndim == 2 else cv2.split(image)
    for channel in range(count):
        # cv2 has the fastest gather, and writes to `dst` where that is a contiguous plane already.
        cv2.LUT(planes[channel], table[channel if len(table) > 1 else 0], dst=into[channel])
    return out


def _by_core(image: UInt8Array, out: torch.Tensor) -> torch.Tensor:
    job = core.thread_job()
    job.read_pixels(image)
    job.write_tensor(out)
    core.check(core.run(job))
    return out


def _split(image: UInt8Array, out: UInt8Array) -> None:
    if image.size == 0:
        return
    if image.ndim == 2:
        out[0] = image
    elif image.shape[2] == 1:
        out[0] = image[..., 0]
    else:
        cv2.split(image, list(out))
