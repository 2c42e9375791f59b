"""What `verify`'s two comparisons share: samples beside torchvision's, and the hash of one."""

from __future__ import annotations

import copy
import hashlib
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.utils._pytree import tree_flatten

from fastpipe import readers
from fastpipe.datasets import ImageDataset, JointDataset
from fastpipe.reporting.pictures import arrays_of, same_size
from fastpipe.rng import GeneratorStates, keyed_globals
from fastpipe.tools import recipes
from fastpipe.tools.torchvision_mirror import mirror
from fastpipe.tools.verify_result import Certificate, Check, Difference, StepResult, Worst
from fastpipe.types import ArchiveMember, Recipe

_METADATA = ("format", "canvas_size", "clamping_mode")


@dataclass(slots=True, kw_only=True)
class Comparison:
    """A dataset of fastpipe's beside torchvision's transforms on what Pillow loads, sample by sample."""

    given: ImageDataset  # a seed of its own and ``on_error`` aren't asked
    module: Any  # ``torchvision.transforms``
    notes: list[str]  # for the certificate
    dataset: Any = None
    joint: bool = False  # whether its transforms see image and targets together: samples are tuples then
    members: tuple[Any, ...] = ()  # its transforms
    twins: tuple[Any, ...] = ()  # torchvision's
    index: int = 0  # this and the next two: of the sample at hand
    path: str = ""
    whole: Any = None  # what a transform gets, or the error in loading it
    equal: Check = field(default_factory=lambda: Check("finished samples equal torchvision's, byte for byte"))
    alike: Check = field(default_factory=lambda: Check("files and errors handled alike"))
    steps: dict[Any, StepResult] = field(default_factory=dict)
    final: Difference = field(default_factory=Difference)
    worst: Worst | None = None
    compared: int = 0
    hashes: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dataset = copy.copy(self.given)
        self.dataset.seed = self.dataset._fastpipe.epoch = None
        self.dataset.on_error = "raise"
        self.joint = recipes.is_joint(self.dataset)
        if not self.joint:
            self.dataset.target_transform = None
        self.members = (*self.dataset.pipeline.drawn, *self.dataset.pipeline.rest)
        self.twins = tuple(mirror(member, self.module, self.notes) for member in self.members)

    @property
    def checks(self) -> tuple[Check, ...]:
        """What must be equal, in the certificate's order."""
        raise NotImplementedError

    def explain(self, actual: Any, expected: Any, same_end: bool, drawing: int, key: int, where: str) -> None:
        """Finds out what makes a sample another one than torchvision's."""
        raise NotImplementedError

    def open(self, index: int) -> None:
        """Loads the sample that `run` compares, as a dataset of torchvision's does."""
        self.index, dataset = index, self.dataset
        self.path, _ = dataset.sample(index)
        try:
            image = loaded(self.path, dataset.apply_exif) if dataset.plans else dataset.loader(self.path)
            joint = self.joint and isinstance(dataset, JointDataset)
            targets = dataset.targets_at(index, (image.height, image.width)) if joint else ()
            self.whole = (image, *targets) if targets else image
        except Exception as error:  # Pillow's plugins raise nearly anything
            self.whole = error

    def run(self, drawing: int, key: int) -> None:
        """Compares one sample; drawings count from 1, as in a preview."""
        where = f"{self.path}, drawing {drawing}"
        try:
            if isinstance(self.whole, Exception):
                raise self.whole
            with keyed_globals(key):
                expected = copy.deepcopy(self.whole)
                for twin in self.twins:
                    expected = self.called(twin, recipes.own_memory(expected))
                end = GeneratorStates.of()
        except Exception as error:  # torchvision's own, such as for a crop larger than the image
            self._both_refuse(key, error, where)
            return
        with keyed_globals(key):
            sample = self.dataset[self.index]
            actual = sample if self.joint else sample[0]
            same_end = GeneratorStates.of().draws_like(end)
        self.compared += 1
        self.hashes.append(digest(actual))
        if self.hashes[-1] == digest(expected) and same_end:
            self.equal.add(True, where)
            self.final.add_equal(sum(array.size for array in self.images_of(actual)))
        else:
            self.explain(actual, expected, same_end, drawing, key, where)

    def called(self, transform: Callable[..., Any], sample: Any) -> Any:
        """What a transform makes of an image, or of an image and its targets."""
        return transform(*sample) if isinstance(self.whole, tuple) else transform(sample)

    def both(self, member: Any, twin: Any, before: Any) -> tuple[Any, Any, bool]:
        """What a transform and its twin make of a sample from one random state, and whether both end in the same.

        torchvision's is the one that stays.
        """
        start = GeneratorStates.of()
        theirs = self.called(twin, copy.deepcopy(before))
        end = GeneratorStates.of()
        start.restore()
        ours = self.called(member, copy.deepcopy(before))
        same = GeneratorStates.of().draws_like(end)
        end.restore()
        return ours, theirs, same

    def images_of(self, sample: Any, undo: Any = ()) -> list[Any]:
        """The arrays of a sample's images: of what is first where there are targets."""
        return arrays_of(sample[0] if isinstance(self.whole, tuple) else sample, undo)

    def _both_refuse(self, key: int, error: Exception, where: str) -> None:
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

    def measure(self, actual: Any, expected: Any, recipe: Recipe | None, drawing: int) -> None:
        """Takes in how far a sample's images, of the same sizes as torchvision's, are from these."""
        rest = self.dataset.pipeline.rest
        undo = recipes.normalizations(() if recipe is None else recipe.steps, rest)
        for one, other in zip(self.images_of(actual, undo), self.images_of(expected, undo), strict=True):
            largest = self.final.add(one, other)
            if largest > (0 if self.worst is None else self.worst.largest):
                words = recipes.in_words(recipe, rest)
                original = self.whole[0] if isinstance(self.whole, tuple) else self.whole
                self.worst = Worst(self.path, drawing, words, largest, original, np.array(other), np.array(one))

    def certificate(self, files: int, drawings: int, tolerance: float | None) -> Certificate:
        """All that was found."""
        return Certificate(
            repr(self.dataset.transforms if self.joint else self.dataset.transform),
            files,
            drawings,
            self.compared,
            self.equal.equal,
            hashlib.sha256(b"".join(self.hashes)).hexdigest() if self.hashes else "",
            self.dataset.fidelity,
            tuple(check for check in self.checks if check.count),
            tuple(self.steps.values()),
            self.final,
            tolerance,
            self.worst,
            tuple(dict.fromkeys(self.notes)),
        )


def compare(difference: Difference, ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Whether a difference so large had not been seen before; images of other sizes have none."""
    before = difference.max
    if same_size(ours, theirs):
        for one, other in zip(ours, theirs, strict=True):
            difference.add(one, other)
    return difference.max > before


def loaded(path: str, apply_exif: bool = False) -> Image.Image:
    """An image as torchvision's datasets load it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = io.BytesIO(readers.read_file(path, None)) if isinstance(path, ArchiveMember) else path
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
