"""A warp by the core from its coefficients, which no function of torchvision's takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastpipe import core
from fastpipe.kernels import warp


def warped(image: Any, kind: core.Kind, coefficients: Any, interpolation: str, fill: Any) -> Any:
    job = core.thread_job()
    job.read_pixels(image)
    assert warp.add_warp(job, kind, image.shape[:2], coefficients, interpolation, fill)
    out = np.empty_like(image)
    job.write_array(out)
    core.check(core.run(job))
    return out
