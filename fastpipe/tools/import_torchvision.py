"""Imports torchvision, also beside a torch that it wasn't built for."""

from __future__ import annotations

import importlib
import sys
from typing import Any, cast

import torch

from fastpipe.errors import FastpipeError
from fastpipe.foreign_code import errors_as

_kept: list[object] = []  # keeps torch libraries alive, whose declarations would be removed with them


def import_torchvision() -> Any:
    """Imports torchvision; if its compiled part doesn't load, only its Python part: transforms and datasets.

    A wheel of torchvision is built for one torch. With another torch (such as a CPU-only one) its compiled part doesn't
    load, and the import fails only because two operators aren't declared: this function then declares them.

    Raises:
        FastpipeError: torchvision isn't installed, or doesn't load for another reason.
    """
    with errors_as(_not_loaded):  # a build for another torch fails in many ways
        try:
            return importlib.import_module("torchvision")
        except RuntimeError as error:
            if "torchvision::nms" not in str(error):
                raise
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]  # partly imported
            _declare_operators()
            return importlib.import_module("torchvision")


def _not_loaded(error: Exception) -> FastpipeError:
    reason = (str(error).splitlines() or [""])[0]
    return FastpipeError(
        f"this compares with torchvision, which doesn't load here ({type(error).__name__}: {reason}): "
        "pip install torchvision, or the torchvision that was built for your torch"
    )


def _declare_operators() -> None:
    library = cast(Any, torch.library).Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)
