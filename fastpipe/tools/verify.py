"""Compares a transform's finished samples with torchvision's on the user's own files, byte for byte."""

from __future__ import annotations

import copy
import hashlib
import io
import os
import random
import warnings
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path

from fastpipe import readers
from fastpipe.arguments import seed_number, whole_number
from fastpipe.config import MachineConfig
from fastpipe.core.packed import PACKED_SIGNATURE, is_packed, unpack
from fastpipe.datasets import ImageArray, ImageDataset, ImageList, JointDataset
from fastpipe.errors import DatasetError, PlanError
from fastpipe.foreign_code import outcome_of
from fastpipe.progress_bar import SlowBar
from fastpipe.reporting.pictures import Normalizations, PixelArray, arrays_of, same_size
from fastpipe.rng import GeneratorStates, keyed_globals, preserved_globals, sample_key
from fastpipe.tools import recipes
from fastpipe.tools.import_torchvision import import_torchvision
from fastpipe.tools.inputs import choose_files
from fastpipe.tools.torchvision_mirror import mirror
from fastpipe.tools.users_code import describe_error, users_line
from fastpipe.tools.verify_result import Certificate, Check, WorstSample, distances
from fastpipe.types import ArchiveMember, Recipe

_METADATA = ("format", "canvas_size", "clamping_mode")

__all__ = ["verify"]


@preserved_globals()
def verify(
    transform: Callable[..., object] | ImageDataset,
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    *,
    images: int = 32,
    drawings: int = 3,
    seed: int = 0,
    reader: str | None = None,
    config: MachineConfig | None = None,
    progress: bool = False,
) -> Certificate:
    """Compares a transform with torchvision's on real files. Needs torchvision; changes no global state.

    For each file and drawing, with the same seed, the hash of the finished sample must equal torchvision's, and torch's
    and Python's generators must end in the same state as with torchvision; in v2, boxes, masks and labels are part of
    the sample. If one of the two raises an error for a file, the other must, too.

    Args:
        transform: a transform made of fastpipe's transforms, v1's or v2's, or of torchvision's, as fastpipe's datasets
            run them; other callables in it run as they are on both sides. Or a dataset of fastpipe's, such as
            `CocoDetection`, whose own samples are then verified.
        files: a folder, searched with its subfolders, a file, or several; None for a dataset.
        images: the most files.
        drawings: the number of drawings for each file.
        seed: seeds the drawings and the choice of files.
        reader: the reader to use for every format; None for the machine's config, or the dataset's.
        config: the machine's config; None for the one on disk, or the dataset's.
        progress: show a progress bar in a terminal if it takes long.

    Raises:
        FastpipeError: torchvision doesn't load.
        DatasetError: no image is found, or the dataset is empty.
        PlanError: the transform returns no image; or both files and a dataset are given, or neither.
        ConfigError: a number is out of its range.
    """
    if isinstance(transform, ImageDataset) != (files is None):
        raise PlanError("give a transform and files, or a dataset of fastpipe's alone.")
    images = whole_number("images", images, "how many files are verified at most", least=1)
    drawings = whole_number("drawings", drawings, "how often each file is drawn", least=1)
    seed = seed_number(seed)
    import_torchvision()
    if isinstance(transform, ImageDataset):
        dataset = recipes.unseeded(transform)
        chosen = sorted(random.Random(seed).sample(range(len(dataset)), min(images, len(dataset))))
        if not chosen:
            raise DatasetError(f"the {type(dataset).__name__} has no samples: there is nothing to verify.")
    else:
        paths = choose_files([] if files is None else files, images, seed)
        chosen = list(range(len(paths)))
        dataset = ImageList((paths, chosen), transform, reader=reader, config=config)
    comparison = Comparison(dataset)
    with SlowBar("Verifying", progress) as bar:
        bar.expect(len(chosen) * drawings)
        for index in chosen:
            comparison.open(index)
            for drawing in range(drawings):
                comparison.run(drawing + 1, sample_key(seed, drawing, index))
                bar.advance()
    return comparison.certificate(len(chosen), drawings)


class Comparison:
    """Compares a dataset of fastpipe's, sample by sample, with torchvision's transforms of the images Pillow loads."""

    def __init__(self, dataset: Any) -> None:
        """Takes a dataset without a seed, and sets its `on_error` to "raise"."""
        self.notes: list[str] = []
        self.dataset = dataset
        dataset.on_error = "raise"
        self.joint = recipes.is_joint(dataset)  # transforms take image and targets together, so samples are tuples
        if not self.joint:
            dataset.target_transform = None
        members = (*dataset.pipeline.drawn, *dataset.pipeline.unplanned)
        self.twins = [mirror(member, self.notes) for member in members]
        self.index = 0  # the current sample's index; the next two attributes also belong to it
        self.path = ""
        self.whole: object = None  # the first transform's input, or the error in loading it
        self.equal = Check("finished samples equal torchvision's, byte for byte")
        self.alike = Check("files and errors handled alike")
        self.worst: WorstSample | None = None
        self.hashes: list[bytes] = []

    def open(self, index: int) -> None:
        """Loads the sample for `run`, as a dataset of torchvision's does."""
        self.index, dataset = index, self.dataset
        self.path, _ = dataset.sample(index)
        self.whole = outcome_of(self._loaded)

    def _loaded(self) -> object:
        """The current sample's image, with its targets if transforms take these, too."""
        dataset = self.dataset
        if isinstance(dataset, ImageArray):
            image = dataset.image(self.index)
        else:
            image = load_reference(self.path, dataset.apply_exif) if dataset.plans else dataset.loader(self.path)
        joint = self.joint and isinstance(dataset, JointDataset)
        targets = dataset.targets_at(self.index, (image.height, image.width)) if joint else ()
        return (image, *targets) if targets else image

    def run(self, drawing: int, key: int) -> None:
        """Compares one drawing of the current sample; drawings count from 1, as in a preview."""
        where = f"{self.path}, drawing {drawing}"
        expected, end = self._outcome(key, self._by_torchvision)
        actual, our_end = self._outcome(key, self._by_fastpipe)
        if isinstance(expected, Exception) or isinstance(actual, Exception):
            self._compare_errors(actual, expected, where)
            return
        same_end = our_end.draws_like(end)
        self._images_of(actual)  # raises if it is no image
        self.hashes.append(digest(actual))
        if self.hashes[-1] == digest(expected) and same_end:
            self.equal.add(True, where)
            return
        why = [] if same_end else ["the generators end elsewhere than torchvision's"]
        why += differences(actual, expected)
        if why:
            self.equal.add(False, f"{where}: {'; '.join(why)}")
        if same_size(self._images_of(actual), self._images_of(expected)):
            self._measure(actual, expected, self._recipe(key), drawing)

    def _outcome(self, key: int, make: Callable[[], object]) -> tuple[object, GeneratorStates]:
        """Calls `make` with a sample's random numbers; returns its result or error, and the generators' final state."""
        with keyed_globals(key):
            return outcome_of(make), GeneratorStates.of()

    def _by_torchvision(self) -> object:
        if isinstance(self.whole, Exception):
            raise self.whole
        sample: Any = copy.deepcopy(self.whole)
        for twin in self.twins:
            sample = twin(*sample) if isinstance(self.whole, tuple) else twin(sample)
        return sample

    def _by_fastpipe(self) -> object:
        sample = self.dataset[self.index]
        return sample if self.joint else sample[0]

    def _recipe(self, key: int) -> Recipe | None:
        """The steps drawn for the current sample; None if nothing is planned."""
        if self.dataset.plans:
            with keyed_globals(key):
                recipe: Recipe = self.dataset.recipe(self.index)
                return recipe
        return None

    def _images_of(self, sample: object, undo: Normalizations = ()) -> list[PixelArray]:
        """The arrays of a sample's images; with targets, of the sample's first part."""
        return arrays_of(sample[0] if isinstance(self.whole, tuple) and isinstance(sample, tuple) else sample, undo)

    def _compare_errors(self, actual: object, expected: object, where: str) -> None:
        """Records a sample for which at least one of the two libraries raised an error."""
        theirs = expected if isinstance(expected, Exception) else None
        ours = actual if isinstance(actual, Exception) else None
        if theirs is not None and ours is not None:
            said = describe_error(theirs)
            own = users_line(theirs) and users_line(theirs) == users_line(ours) and self.whole is not theirs
            self.notes.append(f"the transform fails: {said}" if own else f"both refuse {self.path}: {said}")
            self.alike.add(True, where)
        elif (error := theirs or ours) is not None:
            raises, other = ("fastpipe", "torchvision") if theirs is None else ("torchvision", "fastpipe")
            self.alike.add(False, f"{where}: {raises} raises {describe_error(error)}; {other} doesn't")

    def _measure(self, actual: object, expected: object, recipe: Recipe | None, drawing: int) -> None:
        """Records the difference of a sample's images from torchvision's, if they have the same sizes."""
        rest = self.dataset.pipeline.unplanned
        undo = recipes.normalizations(() if recipe is None else recipe.steps, rest)
        for one, other in zip(self._images_of(actual, undo), self._images_of(expected, undo), strict=True):
            largest = float(distances(one, other).max(initial=0))
            if largest > (0 if self.worst is None else self.worst.largest):
                words = recipes.recipe_in_words(recipe, rest)
                original = cast(Image.Image, self.whole[0] if isinstance(self.whole, tuple) else self.whole)
                self.worst = WorstSample(self.path, drawing, words, largest, original, np.array(other), np.array(one))

    def certificate(self, files: int, drawings: int) -> Certificate:
        """The result of all comparisons."""
        compared = len(self.hashes)
        return Certificate(
            repr(self.dataset.transforms if self.joint else self.dataset.transform),
            files,
            drawings,
            compared,
            self.equal.equal,
            hashlib.sha256(b"".join(self.hashes)).hexdigest() if compared else "",
            tuple(check for check in (self.equal, self.alike) if check.count),
            self.worst,
            tuple(dict.fromkeys(self.notes)),
        )


def load_reference(path: str, apply_exif: bool = False) -> Image.Image:
    """Loads an image as torchvision's datasets do; for a packed image, Pillow reads its JPEG."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source: str | io.BytesIO = path
        if is_packed(readers.read_start(path, len(PACKED_SIGNATURE))):
            source = io.BytesIO(unpack(readers.read_file(path, None)))
        elif isinstance(path, ArchiveMember):
            source = io.BytesIO(readers.read_file(path, None))
        with Image.open(source) as opened:
            return (ImageOps.exif_transpose(opened) if apply_exif else opened).convert("RGB")


def differences(actual: object, expected: object) -> list[str]:
    """Describes the parts of a sample that differ, by their places in it, such as ``[1]['boxes']``."""
    ours, our_structure = tree_flatten_with_path(actual)
    theirs, their_structure = tree_flatten_with_path(expected)
    if our_structure != their_structure:
        found, wanted = (", ".join(keystr(place) for place, _ in leaves) for leaves in (ours, theirs))
        return [f"{found or 'nothing'} in place of {wanted or 'nothing'}"]
    said = []
    for (place, one), (_, other) in zip(ours, theirs, strict=True):
        name, (form, content), (right_form, right_content) = keystr(place) or "the image", _parts(one), _parts(other)
        if form != right_form:
            said.append(f"{name} is {form} in place of {right_form}")
        elif content != right_content:
            said.append(f"{name} differs")
    return said


def digest(sample: object) -> bytes:
    """The hash of a whole sample: its structure, types, metadata of boxes and masks, and every byte."""
    leaves, structure = tree_flatten(sample)
    hashed = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        form, content = _parts(leaf)
        hashed.update(form.encode())
        hashed.update(content)
    return hashed.digest()


def _parts(leaf: object) -> tuple[str, bytes]:
    """The form of a part of a sample (type, size, metadata), and its content."""
    name = type(leaf).__name__
    if isinstance(leaf, torch.Tensor):
        about = [getattr(leaf, key) for key in _METADATA if hasattr(leaf, key)]
        plain = leaf.detach().cpu().as_subclass(torch.Tensor).contiguous()
        content = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
        return " ".join(map(str, (name, plain.dtype, tuple(plain.shape), *about))), content
    if isinstance(leaf, Image.Image):
        return f"{name} {leaf.mode} {leaf.size}", leaf.tobytes()
    if isinstance(leaf, np.ndarray):
        return f"{name} {leaf.dtype} {leaf.shape}", leaf.tobytes()
    return name, repr(leaf).encode()
