"""Normalisation by a factor, computed as albumentations does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpipe.core.job_pool import run_thread_job, thread_job
from fastpipe.core.library import available

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def normalized_by_factor(
    image: NDArray[np.uint8],
    mean: NDArray[np.float32],
    factor: NDArray[np.float32],
    out: NDArray[np.float32] | None = None,
) -> NDArray[np.float32] | None:
    """``(image - mean) * factor`` in float32; None if the core can't compute it.

    Args:
        image: uint8 ``(H, W, 3)``, contiguous.
        mean: float32 ``(3,)``.
        factor: float32 ``(3,)``.
        out: float32 ``(H, W, 3)`` with any strides, to write to; None for a new array.
    """
    import numpy as np

    if not available() or not image.size:
        return None
    result = np.empty(image.shape, np.float32) if out is None else out
    job = thread_job()
    job.read_pixels(image)
    job.write_by_factor(result, mean.tolist(), factor.tolist())
    return None if run_thread_job(job) else result
