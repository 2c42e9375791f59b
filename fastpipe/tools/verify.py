"""Holds a transform to torchvision on the user's own files: samples by their hash, step by step what differs."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils._pytree import keystr, tree_flatten_with_path

from fastpipe import readers
from fastpipe import transforms as fastpipe_transforms
from fastpipe.config import MachineConfig
from fastpipe.datasets import ImageDataset, ImageList
from fastpipe.errors import DatasetError, PlanError
from fastpipe.explanation.graph_breaks import one_line, shortened
from fastpipe.index._progress import SlowBar
from fastpipe.program import Fidelity, flatten
from fastpipe.reporting.pictures import arrays_of, same_size
from fastpipe.rng import GeneratorStates, keyed_generators, keyed_globals, sample_key
from fastpipe.tools import recipes
from fastpipe.tools.comparison import Comparison, compare, digest
from fastpipe.tools.inputs import choose_files
from fastpipe.tools.torchvision_mirror import import_torchvision, is_torchvisions, is_v2, mirror
from fastpipe.tools.verify_result import Certificate, Check, Difference, StepResult
from fastpipe.types import Box, ImageShape, Recipe, Step

__all__ = ["verify"]


def verify(
    transform: Callable[..., Any] | ImageDataset,
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    *,
    images: int = 32,
    drawings: int = 3,
    seed: int = 0,
    tolerance: float | None = None,
    reader: str | None = None,
    config: MachineConfig | None = None,
    fidelity: Fidelity = "torchvision",
    progress: bool = False,
) -> Certificate:
    """Compares a transform with torchvision's on real files: needs torchvision, changes no global state.

    For each file and drawing, with the same seed, the finished sample's hash must be that of torchvision's, and torch's
    and Python's generators must stand where torchvision leaves them. Where they don't, it is said what differs:

    - the random numbers: what fastpipe drew, run through torchvision's own functions, must be what torchvision's
      class gives;
    - the region that the plan decodes must equal Pillow's pixels;
    - the plan must give what its steps give one after the other;
    - each step, on the image that torchvision has before it, must equal torchvision's: only a Gaussian blur and an
      elastic transform, and so a sample with one of them, may differ, by as much as is documented.

    Of v2 whole samples are compared, boxes, masks and labels included; where one differs, it is said which part of it,
    and whether a transform gives something else when it is called, or the plan does.

    Args:
        transform: made of fastpipe's transforms, v1's or v2's, or of torchvision's, whose fastpipe twin is then
            verified: before the import is swapped. Other callables run as they are on both sides. Or a dataset of
            fastpipe's, such as `CocoDetection`: its own samples are verified.
        files: a folder, searched with its subfolders, a file, or several; None for a dataset.
        images: how many files at most.
        drawings: how often each is drawn.
        seed: of the drawings, and of the choice of files.
        tolerance: the largest difference that passes, in 1/255, of a finished sample that need not be equal; None
            judges its steps only, as the differences of several steps may add up.
        reader: the reader to use for every format; None for the machine's config, or the dataset's.
        config: the machine's config; None for the one on disk, or the dataset's.
        fidelity: as in `ImageFolder`, of a dataset its own; with ``"fast"`` the finished samples differ as much as you
            accept.
        progress: show a bar on a terminal where it takes long.

    Raises:
        FastpipeError: torchvision doesn't load.
        DatasetError: no image is found, or the dataset is empty.
        PlanError: the transform gives something that is no image; files and a dataset are given, or neither.
        ValueError: a number out of its range.
    """
    if isinstance(transform, ImageDataset) != (files is None):
        raise PlanError("give a transform and files, or a dataset of fastpipe's alone.")
    if images < 1 or drawings < 1:
        raise ValueError(f"images={images}, drawings={drawings}: give at least 1 of each.")
    if fidelity not in get_args(Fidelity):
        raise ValueError(f"fidelity={fidelity!r}: choose one of {', '.join(map(repr, get_args(Fidelity)))}.")
    module = import_torchvision().transforms
    notes: list[str] = []
    if isinstance(transform, ImageDataset):
        dataset = copy.copy(transform)
        chosen = sorted(random.Random(seed).sample(range(len(dataset)), min(images, len(dataset))))
        if not chosen:
            raise DatasetError(f"the {type(dataset).__name__} has no samples: there is nothing to verify.")
    else:
        paths = choose_files([] if files is None else files, images, seed)
        chosen = list(range(len(paths)))
        dataset = ImageList((paths, chosen), transform, reader=reader, config=config, fidelity=fidelity)
    made_of = "transforms" if recipes.is_joint(dataset) else "transform"
    pipeline = getattr(dataset, made_of)
    if any(map(is_torchvisions, flatten(pipeline))):
        pipeline = mirror(pipeline, fastpipe_transforms, notes)
        setattr(dataset, made_of, pipeline)
        notes.insert(0, "the transform is torchvision's: its fastpipe twin is verified")
    whole = made_of == "transforms" or dataset.apply_exif or not dataset.plans or any(map(is_v2, flatten(pipeline)))
    comparison = (SampleComparison if whole else StepComparison)(given=dataset, module=module, notes=notes)
    with SlowBar("Verifying", progress) as bar:
        bar.expect(len(chosen) * drawings)
        for index in chosen:
            comparison.open(index)
            for drawing in range(drawings):
                comparison.run(drawing + 1, sample_key(seed, drawing, index))
                bar.advance()
    return comparison.certificate(len(chosen), drawings, tolerance)


@dataclass(slots=True, kw_only=True)
class StepComparison(Comparison):
    """Says of a sample whether its random numbers differ, the pixels that it is made of, its plan, or a step."""

    draws: Check = field(default_factory=lambda: Check("random numbers equal torchvision's"))
    regions: Check = field(default_factory=lambda: Check("decoded regions equal Pillow's"))
    plans: Check = field(default_factory=lambda: Check("the plan equals its steps"))
    inexact: bool = False
    """Whether a step of the sample at hand is documented as another than torchvision's."""

    @property
    def checks(self) -> tuple[Check, ...]:
        return (self.equal, self.draws, self.regions, self.plans, self.alike)

    def explain(self, actual: Any, expected: Any, same_end: bool, drawing: int, key: int, where: str) -> None:
        self.alike.add(same_end, f"{where}: the generators end elsewhere than torchvision's")
        self.inexact = self.dataset.fidelity != "torchvision"
        with keyed_globals(key):
            self._walk(self.whole, key, where)
        if not self.inexact:
            self.equal.add(False, where)
        recipe = self._planned(np.asarray(self.whole), key, where)
        same_type = type(actual) is type(expected) and getattr(actual, "dtype", 0) == getattr(expected, "dtype", 0)
        if same_type and same_size(arrays_of(actual), arrays_of(expected)):
            self.measure(actual, expected, recipe, drawing)
        else:
            got, wanted = (f"{type(x).__name__} {[a.shape for a in arrays_of(x)]}" for x in (actual, expected))
            self.alike.add(False, f"{where}: {got} in place of {wanted}")

    def _planned(self, whole: NDArray[np.uint8], key: int, where: str) -> Recipe:
        """The part that is planned: what is decoded, and whether the plan equals its steps."""
        data = readers.read_file(self.path, None)
        recipe: Recipe = self.dataset.pipeline.draw(ImageShape(*whole.shape), keyed_generators(key))
        options = {"reader": self.dataset.reader, "config": self.dataset.config, "source": self.path}
        try:
            box = recipes.region_of(recipe) or Box(0, 0, *whole.shape[:2])
            pixels = recipes.decoded(data, recipe, **options)
            right = np.array_equal(pixels, whole[box.top : box.bottom, box.left : box.right])
            self.regions.add(right, f"{where}: rows {box.top}-{box.bottom}, columns {box.left}-{box.right}")
            planned = recipes.finished(data, recipe, **options)
        except Exception as error:
            self.regions.add(False, f"{where}: {type(error).__name__}: {error}")
            return recipe
        ours, theirs = arrays_of(planned), arrays_of(recipes.stepped(whole, recipe))
        equal = same_size(ours, theirs) and all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
        self.plans.add(equal, f"{where}: {recipe}")
        return recipe

    def _walk(self, whole: Image.Image, key: int, where: str) -> None:
        """Compares each step of fastpipe's on the way to torchvision's result."""
        drawn = len(self.dataset.pipeline.drawn)
        generators = keyed_generators(key)
        image: Any = whole
        right, which = True, ""
        for number, (member, twin) in enumerate(zip(self.members, self.twins, strict=True)):
            before = image
            if number >= drawn:
                if member is twin:  # foreign: there is one of it only
                    image = member(before)
                    continue
                ours, image, same = self.both(member, twin, before)
                self._compare(type(member).__name__, recipes.promise_of(None), ours, image, where)
                if right and not same:
                    right, which = False, one_line(member)
                continue
            steps = member.draw(_shape_of(before), generators)
            image = twin(recipes.own_memory(before))
            replayed = before
            for step in steps:
                replayed = self._step(step, replayed, where)
            same = GeneratorStates.of().draws_like(GeneratorStates.of(generators))
            if right and not (same and _equal(replayed, image)):
                right, which = False, one_line(member)
        self.draws.add(right, f"{where}: {which}")

    def _step(self, step: Step, before: Any, where: str) -> Any:
        """torchvision's result of a drawn step, and its difference from fastpipe's own."""
        several = recipes.views_of(step)
        if several is not None:
            results = []
            for steps in several:
                view = before
                for inner in steps:
                    view = self._step(inner, view, where)
                results.append(view)
            return results
        functional, is_image = self.module.functional, isinstance(before, Image.Image)
        theirs = recipes.by_torchvision(functional, step, before)
        ours = step.apply(np.asarray(before) if is_image else recipes.own_memory(before))
        promise = recipes.promise_of(step if is_image else None)
        result = self._compare(recipes.name_of(step), promise, ours, theirs, where)
        if is_image and recipes.is_warp(step):
            by_tensor = recipes.by_tensor_backend(functional, step, before)
            if by_tensor is not None:
                result.backend = result.backend or Difference()
                for one, other in zip(arrays_of(by_tensor), arrays_of(theirs), strict=True):
                    result.backend.add(one, other)
        return theirs

    def _compare(self, name: str, contract: Any, ours: Any, theirs: Any, where: str) -> StepResult:
        self.inexact |= contract.limit != 0
        result = self.steps.get((name, contract.name))
        if result is None:
            result = self.steps[name, contract.name] = StepResult(name, contract.name, contract.limit)
        result.images += 1
        one, other = arrays_of(ours), arrays_of(theirs)
        if not same_size(one, other):
            shapes = f"{[a.shape for a in one]} in place of {[b.shape for b in other]}"
            self.alike.add(False, f"{where}: {name} gives {shapes}")
        elif compare(result.own, one, other):
            result.worst = where
        return result


@dataclass(slots=True, kw_only=True)
class SampleComparison(Comparison):
    """For v2's whole samples: says which part differs, and whether a transform that is called does so, or the plan."""

    direct: Check = field(default_factory=lambda: Check("each transform, called alone, equals torchvision's"))
    plans: Check = field(default_factory=lambda: Check("the plan equals its transforms"))

    @property
    def checks(self) -> tuple[Check, ...]:
        return (self.equal, self.alike, self.direct, self.plans)

    def explain(self, actual: Any, expected: Any, same_end: bool, drawing: int, key: int, where: str) -> None:
        if self.dataset.fidelity == "torchvision":
            why = differences(actual, expected)
            self.equal.add(False, f"{where}: {'; '.join(why) or 'the generator ends elsewhere'}")
            self._walk(key, where)
        if same_size(self.images_of(actual), self.images_of(expected)):
            with keyed_globals(key):
                recipe = self.dataset.recipe(self.index) if self.dataset.plans else None
            self.measure(actual, expected, recipe, drawing)

    def _walk(self, key: int, where: str) -> None:
        """Whether a transform gives something else when it is called, or the plan does."""
        same = True
        made = self.whole
        with keyed_globals(key):
            for member, twin in zip(self.members, self.twins, strict=True):
                ours, made, same_end = self.both(member, twin, made)
                if digest(ours) != digest(made) or not same_end:
                    same = False
                    self.direct.add(False, f"{where}: {shortened(member)}")
                    name = type(member).__name__
                    step = self.steps.setdefault(name, StepResult(name, "exact", 0))
                    step.images += 1
                    if compare(step.own, self.images_of(ours), self.images_of(made)):
                        step.worst = where
        if same:
            self.direct.add(True, where)
        self.plans.add(not same, where)


def _shape_of(image: Any) -> ImageShape:
    if isinstance(image, Image.Image):
        return ImageShape(image.height, image.width, len(image.getbands()))
    if isinstance(image, torch.Tensor) and image.ndim >= 3:
        return ImageShape(image.shape[-2], image.shape[-1], image.shape[-3])
    raise PlanError(f"a transform got {type(image).__name__} from the one before it: an image or a tensor can go on")


def _equal(one: Any, other: Any) -> bool:
    a, b = arrays_of(one), arrays_of(other)
    return same_size(a, b) and all(
        np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in zip(a, b, strict=True)
    )


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
