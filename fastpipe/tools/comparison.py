"""What `verify`'s two comparisons share: what was found so far, and the hash of a sample."""

from __future__ import annotations

import hashlib
import io
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.utils._pytree import tree_flatten

from fastpipe import readers
from fastpipe.program import keyed_globals
from fastpipe.tools.certificate import Certificate, Check, Difference, StepResult, Worst
from fastpipe.types import Member

_METADATA = ("format", "canvas_size", "clamping_mode")


@dataclass(slots=True, kw_only=True)
class Comparison:
    """fastpipe's samples beside torchvision's, one after the other.

    Attributes:
        module: ``torchvision.transforms``.
        notes: for the certificate.
        dataset: fastpipe's.
        members, twins: its transforms, and torchvision's.
        index, path, whole: of the sample at hand; `whole` is what a transform gets, or the error in loading it.
    """

    module: Any
    notes: list[str]
    dataset: Any = None
    members: tuple[Any, ...] = ()
    twins: tuple[Any, ...] = ()
    index: int = 0
    path: str = ""
    whole: Any = None
    equal: Check = field(default_factory=lambda: Check("finished samples equal torchvision's, byte for byte"))
    alike: Check = field(default_factory=lambda: Check("files and errors handled alike"))
    steps: dict[Any, StepResult] = field(default_factory=dict)
    final: Difference = field(default_factory=Difference)
    worst: Worst | None = None
    compared: int = 0
    hashes: list[bytes] = field(default_factory=list)

    def both_refuse(self, key: int, error: Exception, where: str) -> None:
        """Where torchvision raises, so must the dataset."""
        try:
            with keyed_globals(key):
                self.dataset[self.index]
        except Exception:
            self.alike.add(True, where)
            note = f"both refuse {self.path}: {type(error).__name__}: {' '.join(str(error).split())}"
            if note not in self.notes:
                self.notes.append(note)
        else:
            self.alike.add(False, f"{where}: torchvision raises {type(error).__name__}: {error}; fastpipe doesn't")

    def is_equal(self, actual: Any, expected: Any) -> bool:
        """Whether two samples are the same, of which the first is noted."""
        self.compared += 1
        self.hashes.append(digest(actual))
        return self.hashes[-1] == digest(expected)

    def found(
        self, transform: Any, checks: tuple[Check, ...], files: int, drawings: int, tolerance: float | None
    ) -> Certificate:
        """All of it."""
        return Certificate(
            repr(transform),
            files,
            drawings,
            self.compared,
            self.equal.equal,
            hashlib.sha256(b"".join(self.hashes)).hexdigest() if self.hashes else "",
            self.dataset.fidelity,
            tuple(check for check in checks if check.count),
            tuple(self.steps.values()),
            self.final,
            tolerance,
            self.worst,
            tuple(self.notes),
        )


def loaded(path: str, apply_exif: bool = False) -> Image.Image:
    """An image as torchvision's datasets load it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = io.BytesIO(readers.read_file(path, None)) if isinstance(path, Member) else path
        with Image.open(source) as opened:
            return (ImageOps.exif_transpose(opened) if apply_exif else opened).convert("RGB")


def digest(sample: Any) -> bytes:
    """Of all that a sample is: its structure, types, what boxes say beside their numbers, and every byte."""
    leaves, structure = tree_flatten(sample)
    found = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        found.update(type(leaf).__name__.encode())
        if isinstance(leaf, torch.Tensor):
            about = [str(getattr(leaf, name, None)) for name in _METADATA]
            plain = leaf.detach().cpu().as_subclass(torch.Tensor).contiguous()
            found.update(f"{plain.dtype}{tuple(plain.shape)}{about}".encode())
            found.update(plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b"")
        elif isinstance(leaf, Image.Image):
            found.update(f"{leaf.mode}{leaf.size}".encode() + leaf.tobytes())
        elif isinstance(leaf, np.ndarray):
            found.update(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes())
        else:
            found.update(repr(leaf).encode())
    return found.digest()
