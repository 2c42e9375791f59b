"""Nothing in fastpipe changes what belongs to the whole main process: settings, generators, signal handlers."""

from __future__ import annotations

import os
import random
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from PIL import Image, ImageFile

import fastpipe
from fastpipe import readers
from fastpipe import transforms as T

TRANSFORM = T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.GaussianBlur(3), T.ToTensor()])


def state() -> dict[str, Any]:
    """What a program may have set, or drawn from, and would miss."""
    numpy_state = np.random.get_state()  # noqa: NPY002
    return {
        "cv2 threads": cv2.getNumThreads(),
        "cv2 optimised": (cv2.useOptimized(), cv2.ocl.useOpenCL()),
        "torch threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "torch defaults": (torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()),
        "torch switches": (torch.are_deterministic_algorithms_enabled(), torch.is_inference_mode_enabled()),
        "torch sharing": torch.multiprocessing.get_sharing_strategy(),
        "start method": torch.multiprocessing.get_start_method(),  # settles it, as any DataLoader does
        "torch generator": torch.get_rng_state().tolist(),
        "python generator": random.getstate(),
        "numpy generator": (numpy_state[0], numpy_state[1].tolist(), *numpy_state[2:]),
        "pillow limits": (Image.MAX_IMAGE_PIXELS, Image.WARN_POSSIBLE_FORMATS, ImageFile.LOAD_TRUNCATED_IMAGES),
        "pillow readers": {name: Image.OPEN[name] for name in ("JPEG", "PNG", "GIF", "BMP", "PPM")},
        "signals": {one: signal.getsignal(one) for one in signal.Signals if one is not CHILD},
        "hooks": (sys.excepthook, sys.unraisablehook, sys.getswitchinterval(), sys.getrecursionlimit()),
        "warnings": list(warnings.filters),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "modules' path": list(sys.path),
        "umask": umask(),
    }


CHILD = getattr(signal, "SIGCHLD", None)
"""torch's own DataLoader sets its handler, and torch's it is."""


def umask() -> int:
    before = os.umask(0o022)
    os.umask(before)
    return before


def use_everything(photos: Path, tmp_path: Path) -> None:
    index = fastpipe.ImageIndex.from_folder(photos, location=tmp_path / "index", headers=True)
    (photos / "class1/17.jpg").write_bytes(b"")
    for name in readers.available_readers():
        readers.read_image(index.path(0), reader=name if name in ("pil", "cv2", "turbojpeg", "simplejpeg") else None)
    options = {"on_error": "replace", "bad_files_log": tmp_path / "bad_files.csv", "max_bad_fraction": 1}
    dataset = fastpipe.ImageFolder(photos, TRANSFORM, index=index, seed=1, threads=2, **options)
    assert len([dataset[number] for number in range(24)]) == 24
    # A generator of its own: from the global one torch's loader draws a number an epoch, as fastpipe's does.
    for workers in (0, 2) if sys.platform == "linux" else (0,):
        loader = fastpipe.DataLoader(
            dataset, 4, shuffle=True, num_workers=workers, generator=torch.Generator().manual_seed(1)
        )
        assert sum(len(labels) for _, labels in loader) == 24
    dataset.replay(dataset.recipe(3))
    fastpipe.explain(dataset)
    fastpipe.check(photos, jobs=1, progress=False)
    fastpipe.preview(dataset, 2)


@pytest.mark.filterwarnings("ignore::fastpipe.errors.FastpipeWarning")
def test_the_main_process_stays_as_it_was(photos, tmp_path):
    Image.preinit()
    before = state()
    use_everything(photos, tmp_path)
    after = state()
    assert {name for name in before if before[name] != after[name]} == set()
