"""`verify` for torchvision's v2: an image alone or with boxes, masks and labels, held to torchvision whole."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from fastpipe.data import ImageDataset, JointDataset
from fastpipe.program import keyed_globals
from fastpipe.program.breaks import shortened
from fastpipe.reporting.pictures import arrays_of, same_size
from fastpipe.tools import recipes
from fastpipe.tools.certificate import Certificate, Check, Difference, StepResult, Worst
from fastpipe.tools.comparison import Comparison, digest, loaded
from fastpipe.tools.twin import mirror

__all__ = ["SampleComparison"]


@dataclass(slots=True, kw_only=True)
class SampleComparison(Comparison):
    """A dataset of fastpipe's and torchvision's transforms on what Pillow loads, sample by sample.

    Attributes:
        given: the dataset; a seed of its own and ``on_error`` aren't asked.
        joint: whether its transforms see image and targets together: `whole` is a tuple of both then.
    """

    given: ImageDataset
    direct: Check = field(default_factory=lambda: Check("each transform, called alone, equals torchvision's"))
    plans: Check = field(default_factory=lambda: Check("the plan equals its transforms"))
    joint: bool = False

    def __post_init__(self) -> None:
        dataset: Any = copy.copy(self.given)
        dataset.seed = dataset._epoch = None
        dataset.on_error = "raise"
        self.joint = recipes.is_joint(dataset)
        if not self.joint:
            dataset.target_transform = None
        self.dataset = dataset
        pipeline = dataset.pipeline
        self.members = (*pipeline.drawn, *pipeline.rest)
        self.twins = tuple(mirror(member, self.module, self.notes) for member in self.members)

    def open(self, index: int) -> None:
        """Loads the sample that `run` compares, as a dataset of torchvision's does."""
        self.index = index
        self.path, _ = self.dataset.sample(index)
        try:
            dataset = self.dataset
            image = loaded(self.path, dataset.apply_exif) if dataset.plans else dataset.loader(self.path)
            targets: tuple[Any, ...] = ()
            if self.joint and isinstance(self.dataset, JointDataset):
                targets = self.dataset.targets_at(index, (image.height, image.width))
            self.whole = (image, *targets)
        except Exception as error:  # Pillow's plugins raise nearly anything
            self.whole = error

    def run(self, drawing: int, key: int) -> None:
        """Compares one sample; drawings count from 1."""
        where = f"{self.path}, drawing {drawing}"
        try:
            if isinstance(self.whole, Exception):
                raise self.whole
            with keyed_globals(key):
                expected = self._through(self.twins, copy.deepcopy(self.whole))
                end = torch.get_rng_state()
        except Exception as error:
            self.both_refuse(key, error, where)
            return
        with keyed_globals(key):
            sample = self.dataset[self.index]
            actual = sample if self.joint else sample[0]
            same_end = torch.equal(torch.get_rng_state(), end)
        if self.is_equal(actual, expected) and same_end:
            self.equal.add(True, where)
            self.final.add_equal(sum(array.size for array in arrays_of(_image_of(actual))))
            return
        if self.dataset.fidelity == "torchvision":
            why = differences(actual, expected)
            self.equal.add(False, f"{where}: {'; '.join(why) or 'the generator ends elsewhere'}")
            self._walk(key, where)
        self._measure(actual, expected, key, drawing)

    def _through(self, transforms: Sequence[Callable[..., Any]], sample: tuple[Any, ...]) -> Any:
        made: Any = sample if len(sample) > 1 else sample[0]
        for transform in transforms:
            made = _called(transform, made)
        return made

    def _walk(self, key: int, where: str) -> None:
        """Whether a transform gives something else when it is called, or the plan does."""
        same = True
        made = copy.deepcopy(self.whole if len(self.whole) > 1 else self.whole[0])
        with keyed_globals(key):
            for member, twin in zip(self.members, self.twins, strict=True):
                start = torch.get_rng_state()
                ours = _called(member, copy.deepcopy(made))
                own_end = torch.get_rng_state()
                torch.set_rng_state(start)
                made = _called(twin, made)
                right = digest(ours) == digest(made) and torch.equal(own_end, torch.get_rng_state())
                if not right:
                    same = False
                    self.direct.add(False, f"{where}: {shortened(member)}")
                    name = type(member).__name__
                    step = self.steps.setdefault(name, StepResult(name, "exact", 0))
                    step.images += 1
                    if _compare(step.own, ours, made):
                        step.worst = where
        if same:
            self.direct.add(True, where)
        self.plans.add(not same, where)

    def _measure(self, actual: Any, expected: Any, key: int, drawing: int) -> None:
        largest = _compare(self.final, actual, expected)
        if largest <= (0 if self.worst is None else self.worst.largest):
            return
        words: tuple[str, ...] = ()
        if self.dataset.plans:
            with keyed_globals(key):
                words = recipes.in_words(self.dataset.recipe(self.index), self.dataset.pipeline.rest)
        ours, theirs = (np.array(arrays_of(_image_of(sample))[0]) for sample in (actual, expected))
        self.worst = Worst(self.path, drawing, words, largest, self.whole[0], theirs, ours)

    def certificate(self, files: int, drawings: int, tolerance: float | None) -> Certificate:
        checks = (self.equal, self.alike, self.direct, self.plans)
        transform = self.dataset.transforms if self.joint else self.dataset.transform
        return self.found(transform, checks, files, drawings, tolerance)


def _called(transform: Callable[..., Any], sample: Any) -> Any:
    return transform(*sample) if isinstance(sample, tuple) else transform(sample)


def _image_of(sample: Any) -> Any:
    """The images of a sample: what is first in it."""
    return sample[0] if isinstance(sample, tuple) else sample


def _compare(difference: Difference, actual: Any, expected: Any) -> float:
    """The largest difference of the images, where they have one size."""
    ours, theirs = arrays_of(_image_of(actual)), arrays_of(_image_of(expected))
    if not same_size(ours, theirs):
        return 0.0
    return max((difference.add(one, other) for one, other in zip(ours, theirs, strict=True)), default=0.0)


def differences(actual: Any, expected: Any) -> list[str]:
    """Which parts of a sample aren't equal, by their places in it, such as ``[1]['boxes']``."""
    ours, our_structure = tree_flatten_with_path(actual)
    theirs, their_structure = tree_flatten_with_path(expected)
    if our_structure != their_structure:
        found, wanted = (", ".join(keystr(place) for place, _ in leaves) for leaves in (ours, theirs))
        return [f"{found or 'nothing'} in place of {wanted or 'nothing'}"]
    pairs = zip(ours, theirs, strict=True)
    places = [place for (place, one), (_, other) in pairs if digest(one) != digest(other)]
    return [f"{keystr(place) or 'the image'} differs" for place in places]
