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

from fastpipe import readers
from fastpipe import transforms as fastpipe_transforms
from fastpipe.config import MachineConfig
from fastpipe.data import ImageDataset, ImageList
from fastpipe.data._progress import SlowBar
from fastpipe.errors import DatasetError, PlanError
from fastpipe.program import Fidelity, Pipeline, compile_pipeline, flatten, keyed_generators, keyed_globals, sample_key
from fastpipe.program.breaks import one_line
from fastpipe.reporting.pictures import arrays_of, same_size
from fastpipe.tools import recipes
from fastpipe.tools.certificate import Certificate, Check, Difference, StepResult, Worst
from fastpipe.tools.comparison import Comparison, loaded
from fastpipe.tools.subject import choose_files
from fastpipe.tools.twin import import_torchvision, is_torchvisions, is_v2, mirror
from fastpipe.tools.whole_samples import SampleComparison
from fastpipe.types import Box, Generators, ImageShape, Recipe, Step

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
    comparison: _Comparison | SampleComparison
    if isinstance(transform, ImageDataset):
        comparison, places = _of_dataset(transform, module, notes, images, seed)
    else:
        paths = choose_files([] if files is None else files, images, seed)
        ours = _ours(transform, notes)
        places = list(range(len(paths)))
        options: dict[str, Any] = {"reader": reader, "config": config, "fidelity": fidelity}
        if any(map(is_v2, flatten(ours))):
            given = ImageList((paths, places), ours, **options)
            comparison = SampleComparison(given=given, module=module, notes=notes)
        else:
            comparison = _Comparison(transform=ours, paths=paths, module=module, notes=notes, **options)
    with SlowBar("Verifying", progress) as bar:
        bar.expect(len(places) * drawings)
        for index in places:
            comparison.open(index)
            for drawing in range(drawings):
                comparison.run(drawing + 1, sample_key(seed, drawing, index))
                bar.advance()
    return comparison.certificate(len(places), drawings, tolerance)


def _ours(transform: Any, notes: list[str]) -> Any:
    """fastpipe's twin of a transform that is torchvision's."""
    if any(map(is_torchvisions, flatten(transform))):
        transform = mirror(transform, fastpipe_transforms, notes)
        notes.insert(0, "the transform is torchvision's: its fastpipe twin is verified")
    return transform


def _of_dataset(
    given: ImageDataset, module: Any, notes: list[str], images: int, seed: int
) -> tuple[_Comparison | SampleComparison, list[int]]:
    """What compares a dataset's own samples, and some of their indices."""
    dataset: Any = copy.copy(given)
    joint = recipes.is_joint(dataset)
    if joint:
        dataset.transforms = _ours(dataset.transforms, notes)
    else:
        dataset.transform = _ours(dataset.transform, notes)
    chosen = sorted(random.Random(seed).sample(range(len(dataset)), min(images, len(dataset))))
    if not chosen:
        raise DatasetError(f"the {type(dataset).__name__} has no samples: there is nothing to verify.")
    ordinary = dataset.plans and not dataset.apply_exif and not joint
    if not ordinary or any(map(is_v2, flatten(dataset.transform))):
        return SampleComparison(given=dataset, module=module, notes=notes), chosen
    paths = [dataset.sample(index)[0] for index in chosen]
    options = {"reader": dataset.reader, "config": dataset.config, "fidelity": dataset.fidelity}
    comparison = _Comparison(transform=dataset.transform, paths=paths, module=module, notes=notes, **options)
    return comparison, list(range(len(paths)))


@dataclass(slots=True, kw_only=True)
class _Comparison(Comparison):
    """One transform and its twin, over files."""

    transform: Callable[[Any], Any]
    paths: list[str]
    reader: str | None
    config: MachineConfig | None
    fidelity: Fidelity
    draws: Check = field(default_factory=lambda: Check("random numbers equal torchvision's"))
    regions: Check = field(default_factory=lambda: Check("decoded regions equal Pillow's"))
    plans: Check = field(default_factory=lambda: Check("the plan equals its steps"))
    pipeline: Pipeline = field(init=False)
    inexact: bool = False
    """Whether a step of the sample at hand is documented as another than torchvision's."""

    def __post_init__(self) -> None:
        self.pipeline = compile_pipeline(self.transform)
        self.members = (*self.pipeline.drawn, *self.pipeline.rest)
        twin_notes: list[str] = []
        self.twins = tuple(mirror(member, self.module, twin_notes) for member in self.members)
        self.notes += [note for note in twin_notes if note not in self.notes]
        self.dataset = ImageList(
            (self.paths, [0] * len(self.paths)),
            self.transform,
            reader=self.reader,
            config=self.config,
            fidelity=self.fidelity,
        )

    def open(self, index: int) -> None:
        """Reads the file that `run` compares, as torchvision's datasets do."""
        self.index, self.path = index, self.paths[index]
        try:
            self.whole = loaded(self.path)
        except Exception as error:  # Pillow's plugins raise nearly anything
            self.whole = error

    def run(self, drawing: int, key: int) -> None:
        """Compares one sample; drawings count from 1, as in a preview."""
        where = f"{self.path}, drawing {drawing}"
        whole = self.whole
        if isinstance(whole, Exception):
            self.both_refuse(key, whole, where)
            return
        try:
            with keyed_globals(key):
                expected: Any = whole
                for twin in self.twins:
                    expected = twin(recipes.own_memory(expected))
                end = _states()
        except Exception as error:  # torchvision's own, such as for a crop larger than the image
            self.both_refuse(key, error, where)
            return
        with keyed_globals(key):
            actual, _ = self.dataset[self.index]
            same_end = _same_states(_states(), end)
        if self.is_equal(actual, expected) and same_end:
            self.equal.add(True, where)
            self.final.add_equal(sum(array.size for array in arrays_of(actual)))
        else:
            self._explain(actual, expected, same_end, drawing, key, where)

    def _explain(self, actual: Any, expected: Any, same_end: bool, drawing: int, key: int, where: str) -> None:
        """What makes a sample another one: its random numbers, its pixels, its plan, or a step."""
        self.alike.add(same_end, f"{where}: the generators end elsewhere than torchvision's")
        self.inexact = self.fidelity != "torchvision"
        with keyed_globals(key):
            self._walk(self.whole, key, where)
        if not self.inexact:
            self.equal.add(False, where)
        recipe = self._planned(np.asarray(self.whole), key, where)
        self._finished(actual, expected, recipe, drawing, where)

    def _planned(self, whole: NDArray[np.uint8], key: int, where: str) -> Recipe:
        """The part that is planned: what is decoded, and whether the plan equals its steps."""
        data = readers.read_file(self.path, None)
        recipe = self.pipeline.draw(ImageShape(*whole.shape), keyed_generators(key))
        options: dict[str, Any] = {"reader": self.reader, "config": self.config, "source": self.path}
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
        drawn = len(self.pipeline.drawn)
        generators = keyed_generators(key)
        image: Any = whole
        right, which = True, ""
        for number, (member, twin) in enumerate(zip(self.members, self.twins, strict=True)):
            before = image
            if number >= drawn:
                image, same = self._run_both(member, twin, before, where)
                if right and not same:
                    right, which = False, one_line(member)
                continue
            steps = member.draw(_shape_of(before), generators)
            image = twin(recipes.own_memory(before))
            replayed = before
            for step in steps:
                replayed = self._step(step, replayed, where)
            if right and not (_equal(replayed, image) and _same_states(_states(), _states(generators))):
                right, which = False, one_line(member)
        self.draws.add(right, f"{where}: {which}")

    def _run_both(self, member: Any, twin: Any, before: Any, where: str) -> tuple[Any, bool]:
        """A transform behind the plan, run by both on one image from one random state.

        Returns:
            The result, and whether both left the generators alike.
        """
        if member is twin:  # foreign: there is one of it only
            return member(before), True
        start = _states()
        theirs = twin(copy.deepcopy(before))
        end = _states()
        _set_states(start)
        ours = member(copy.deepcopy(before))
        same = _same_states(_states(), end)
        _set_states(end)
        self._compare(type(member).__name__, recipes.promise_of(None), ours, theirs, where)
        return theirs, same

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
            return result
        for a, b in zip(one, other, strict=True):
            worst_so_far = result.own.max
            if result.own.add(a, b) > worst_so_far:
                result.worst = where
        return result

    def _finished(self, actual: Any, expected: Any, recipe: Recipe, drawing: int, where: str) -> None:
        undo = recipes.normalizations(recipe.steps, self.pipeline.rest)
        ours, theirs = arrays_of(actual, undo), arrays_of(expected, undo)
        same_type = type(actual) is type(expected) and getattr(actual, "dtype", 0) == getattr(expected, "dtype", 0)
        if not same_type or not same_size(ours, theirs):
            got, wanted = (f"{type(x).__name__} {[a.shape for a in arrays_of(x)]}" for x in (actual, expected))
            self.alike.add(False, f"{where}: {got} in place of {wanted}")
            return
        for one, other in zip(ours, theirs, strict=True):
            largest = self.final.add(one, other)
            if largest > (0 if self.worst is None else self.worst.largest):
                words = recipes.in_words(recipe, self.pipeline.rest)
                self.worst = Worst(self.path, drawing, words, largest, self.whole, np.array(other), np.array(one))

    def certificate(self, files: int, drawings: int, tolerance: float | None) -> Certificate:
        checks = (self.equal, self.draws, self.regions, self.plans, self.alike)
        return self.found(self.transform, checks, files, drawings, tolerance)


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


def _states(generators: Generators | None = None) -> tuple[torch.Tensor, Any]:
    """Where torch's and Python's generators stand: the global ones, or these."""
    if generators is None or generators.torch is None:
        return torch.get_rng_state(), random.getstate()
    return generators.torch.get_state(), generators.python.getstate()


def _set_states(states: tuple[torch.Tensor, Any]) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])


def _same_states(one: tuple[torch.Tensor, Any], other: tuple[torch.Tensor, Any]) -> bool:
    return torch.equal(one[0], other[0]) and one[1] == other[1]
