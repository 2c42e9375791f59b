"""``torchvision.io``'s decoders, also beside a CPU-only torch.

A torchvision that was built for the installed torch has loaded them itself. ``FASTPIPE_TESTS_NEED_IO`` asks for that:
a skip of the tests that use them is an error then.

A CUDA build of torchvision needs two of torch's libraries that aren't there. Two small ones of the same names, compiled
here, define what it misses: nothing that runs on a CPU calls it.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision_here import torchvision

_MISSING = re.compile(r" U (_ZNK?(?:3c10|2at)4cuda[^@\s]*)")
_A_VARIABLE = "CUDACachingAllocator9allocatorE"


@cache
def why_not() -> str:
    """The reason why nothing can be decoded; empty where it can, from now on.

    Raises:
        RuntimeError: there is one, and ``FASTPIPE_TESTS_NEED_IO`` is set.
    """
    reason = _why_not()
    if reason and os.environ.get("FASTPIPE_TESTS_NEED_IO"):
        raise RuntimeError(f"torchvision.io decodes nothing here: {reason}")
    return reason


def skip_where_torchvision_dies_of(damaged: bytes) -> None:
    """Skips the test of a damaged PNG with torchvision 0.29 or later, whose own decoder may crash, not every time."""
    if damaged.startswith(b"\x89PNG") and [*map(int, torchvision.__version__.split(".")[:2])] >= [0, 29]:
        pytest.skip("torchvision's own decoder may crash for a damaged PNG")


def _why_not() -> str:
    if hasattr(torch.ops.image, "decode_jpeg"):
        return ""
    found = sorted(Path(torchvision.__file__).parent.glob("image*.so"))  # image.so; image_stable.so from 0.29 on
    if not found:
        return "torchvision has no library of decoders"
    image = found[0]
    try:
        torch.ops.load_library(str(image))
    except OSError as error:
        if "cuda" not in f"{error}{error.__cause__}":
            return str(error)
        if shutil.which("cc") is None or shutil.which("nm") is None:
            return "a CUDA build of torchvision beside a CPU torch, and no compiler"
        _load_stand_ins(image)
        for runtime in (image.parents[1] / "torchvision.libs").glob("libcudart*.so.*"):
            ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)
        torch.ops.load_library(str(image))
    io: Any = torchvision.io.image
    io._has_image_ops = _has_image_ops
    return ""


def _has_image_ops() -> bool:
    return True


def _load_stand_ins(library: Path) -> None:
    listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
    lines = ["#include <stdlib.h>"]
    for number, name in enumerate(sorted(set(_MISSING.findall(listed.stdout)))):
        kind = f"void *v{number}[8]" if name.endswith(_A_VARIABLE) else f"void f{number}(void)"
        lines.append(f'{kind} __asm__("{name}");')
        if not name.endswith(_A_VARIABLE):
            lines.append(f"void f{number}(void) {{ abort(); }}")
    with tempfile.TemporaryDirectory() as folder:
        for name, source in (("libc10_cuda.so", "\n".join(lines)), ("libtorch_cuda.so", "int nothing;")):
            made = Path(folder) / name
            options = ["-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,{name}", "-o", str(made)]
            subprocess.run(["cc", *options], input=source + "\n", text=True, check=True)
            ctypes.CDLL(str(made), mode=ctypes.RTLD_GLOBAL)
