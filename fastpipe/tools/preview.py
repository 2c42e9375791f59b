"""Draws a picture of a dataset's samples: originals, augmentations, and the parameters drawn for each."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch.utils._pytree import tree_leaves
from torch.utils.data import Dataset

from fastpipe import readers
from fastpipe.arguments import seed_number, whole_number
from fastpipe.datasets import ImageDataset
from fastpipe.datasets.wrappers import unwrap_subsets
from fastpipe.errors import DatasetError, DecodeError, FastpipeError, PlanError
from fastpipe.foreign_code import outcome_of
from fastpipe.progress_bar import SlowBar
from fastpipe.reporting.pictures import Cell, fitted, grid, pictures_of
from fastpipe.rng import keyed_globals, preserved_globals, sample_key
from fastpipe.tools import recipes
from fastpipe.tools.inputs import dataset_of
from fastpipe.tools.users_code import describe_error, users_line
from fastpipe.transforms.pipeline import flatten
from fastpipe.types import Recipe, Transform

__all__ = ["Sheet", "preview", "preview_files"]

_COLORS = ((200, 60, 40), (40, 110, 190), (30, 140, 90), (160, 90, 170), (190, 130, 20))
_MARKS = (
    (230, 60, 60),
    (60, 160, 230),
    (70, 190, 90),
    (240, 180, 40),
    (170, 90, 220),
    (240, 120, 200),
)
_ROWS_A_PAGE = 40
_MOST_VIEWS, _LARGEST_SIDE = 400, 1 << 14
_MOST_OF_ONE = 4  # the most pictures shown of a sample that is several images
_UNSEEN = frozenset({"ConvertImageDtype", "Normalize", "PILToTensor", "ToPILImage", "ToTensor"})


@dataclass(slots=True)
class Sheet:
    """A preview, and the samples that can't be shown.

    Attributes:
        pages: grids of up to 40 rows each.
        samples: the number of requested samples.
        failed: path and reason for each sample that can't be shown.
        broken: the samples among these whose error is the transform's fault, not the file's.
    """

    pages: list[Image.Image]
    samples: int
    failed: list[str] = field(default_factory=list)
    broken: int = 0

    @property
    def picture(self) -> Image.Image:
        """The first page, usually the only one."""
        return self.pages[0]


@preserved_globals()
def preview(
    dataset: Dataset[Any],
    indices: int | Sequence[int] = 8,
    *,
    views: int = 3,
    seed: int = 0,
    side: int = 224,
) -> Image.Image:
    """Draws a picture of some samples: each original, its augmentations, and their drawn parameters in words.

    For each augmentation, the original has an outline of the decoded region in the augmentation's colour. Normalised
    tensors are shown as they were before. The state of generators doesn't change. A notebook displays the result.

    Args:
        dataset: an `ImageFolder`, `ImageList` or another dataset of fastpipe, or a ``torch.utils.data.Subset`` of it.
            One with a seed shows its epochs, from the current one on; one without shows what `seed` draws.
        indices: which samples, or how many, spread over the dataset.
        views: augmentations of each.
        seed: of the random numbers, for a dataset without a seed of its own.
        side: the largest width and height of a picture in it, in pixels.

    Raises:
        DatasetError: the dataset isn't one of fastpipe's, or has no sample at an index.
        PlanError: the transform returns no image, or fails for all samples; the message names its line.
        ValueError: a number is out of its range.
    """
    behind, _ = unwrap_subsets(dataset)
    if not isinstance(behind, ImageDataset):
        raise DatasetError(
            f"preview shows datasets of fastpipe, not {type(behind).__name__}: make an ImageFolder or ImageList "
            "of these files, with any transform"
        )
    _, chosen = unwrap_subsets(dataset, _indices(cast(Sized, dataset), indices))
    chosen = _indices(behind, chosen)
    pages = _sheet(behind, chosen, views, seed, side, numbered=True, most=sys.maxsize).pages
    if not pages:
        raise DatasetError("there is no sample to show: give a dataset that has some, and at least one index.")
    return pages[0]


@preserved_globals()
def preview_files(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transform: Transform | None,
    count: int = 8,
    *,
    views: int = 3,
    seed: int = 0,
    side: int = 224,
    progress: bool = False,
) -> Sheet:
    """Draws a `preview` of up to ``count`` files from all over a folder.

    Args:
        files: as in `choose_files`.
        transform: any transform.
        count: the number of files.
        views, seed, side: as in `preview`.
        progress: show a progress bar in a terminal if it takes long.
    """
    dataset = dataset_of(files, transform, count, seed)
    return _sheet(dataset, range(len(dataset)), views, seed, side, progress=progress)


def _sheet(
    dataset: ImageDataset,
    indices: Sequence[int],
    views: int,
    seed: int,
    side: int,
    *,
    numbered: bool = False,
    progress: bool = False,
    most: int = _ROWS_A_PAGE,
) -> Sheet:
    """Makes the preview of some samples; ``numbered`` shows their indices, ``most`` is the most rows of a page."""
    views = whole_number("views", views, "how many augmentations are shown of each sample", least=1, most=_MOST_VIEWS)
    side = whole_number("side", side, "the largest side of a picture, in pixels", least=16, most=_LARGEST_SIDE)
    seed = seed_number(seed)
    sheet = Sheet([], len(indices))
    maker = _Maker(dataset, views, seed, side, numbered, sheet)
    rows: list[list[Cell]] = []
    with SlowBar("Drawing", progress) as bar:
        bar.expect(len(indices))
        for index in indices:
            rows.append(maker.row(index))
            bar.advance()
    if sheet.broken and len(sheet.failed) == sheet.samples:
        of = "" if sheet.samples == 1 else f"all {sheet.samples} samples, such as "
        raise PlanError(f"nothing can be shown of {of}{sheet.failed[0]}") from maker.error
    sheet.pages += [grid(rows[start : start + most], side=side) for start in range(0, len(rows), most)]
    return sheet


def _indices(dataset: Sized, indices: int | Sequence[int]) -> list[int]:
    length = len(dataset)
    if isinstance(indices, (int, np.integer)):
        takes = "how many samples are shown, or a sequence of indices"
        count = min(whole_number("indices", indices, takes, least=1), length)
        return [number * length // count for number in range(count)]
    try:
        chosen = [operator.index(index) for index in indices]
    except TypeError:
        raise DatasetError(f"indices={indices!r:.80}: give how many samples are shown, or whole numbers.") from None
    outside = next((index for index in chosen if not -length <= index < length), None)
    if outside is not None:
        raise DatasetError(f"indices={indices!r:.80}: there is no sample {outside}: the dataset has {length}.")
    return [index % length for index in chosen]


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One augmentation of a sample."""

    title: str
    color: tuple[int, int, int]  # the colour of its title and outline
    key: int  # the key of its random numbers
    recipe: Recipe | None  # the drawn steps; None if the dataset doesn't plan
    result: object  # the transform's result
    targets: object = None  # the sample's targets, for joint transforms


@dataclass(slots=True)
class _Maker:
    """Makes a row of the picture for each sample."""

    dataset: ImageDataset
    views: int
    seed: int
    side: int
    numbered: bool
    sheet: Sheet  # its `failed` gets the samples that can't be shown
    error: Exception | None = None  # the transform's last error

    def row(self, index: int) -> list[Cell]:
        """Makes the cells of a sample's original and its augmentations."""
        path, _ = self.dataset.sample(index)
        name, folder = Path(path).name, Path(path).parent.name
        loaded = outcome_of(lambda: self._loaded(path))
        if isinstance(loaded, Exception):
            return [self._failure(loaded, path, name)]
        whole = pictures_of(loaded)[0]
        place = f"sample {index}, in {folder}" if self.numbered else f"in {folder}"
        about = (name, place, f"{whole.height}x{whole.width} pixels (height x width)")
        drawings = outcome_of(lambda: [self._drawing(index, number) for number in range(self.views)])
        if isinstance(drawings, Exception):
            return [Cell(fitted(whole, self.side), about), self._transform_failure(drawings, path)]
        cells = [cell for drawing in drawings for cell in self._cells(drawing)]
        return [Cell(_outlined(whole, drawings, self.side), about), *cells]

    def _loaded(self, path: str) -> object:
        """Loads the original as an unplanned transform of the dataset gets it."""
        dataset = self.dataset
        if not dataset.plans:
            return dataset.loader(path)
        options: dict[str, Any] = {"reader": dataset.reader, "config": dataset.config}
        options |= {"apply_exif": dataset.apply_exif, "max_pixels": dataset.max_pixels}
        return Image.fromarray(readers.read_image(path, **options))

    def _failure(self, error: Exception, path: str, title: str) -> Cell:
        """Makes a cell with the error of a file; raises errors that aren't the file's fault."""
        expected = DecodeError if isinstance(error, FastpipeError) else (OSError, ValueError)
        if not isinstance(error, expected):
            raise error
        self.sheet.failed.append(str(error) if path in str(error) else f"{path}: {error}")
        return self._blank(title, getattr(error, "reason", error))

    def _transform_failure(self, error: Exception, path: str) -> Cell:
        """Makes a cell with the transform's error and the user's line; raises fastpipe's own errors."""
        is_files = isinstance(error, (OSError, ValueError)) and not users_line(error)  # e.g. a crop that is too large
        if is_files or isinstance(error, FastpipeError):
            return self._failure(error, path, "no augmentation")
        self.sheet.broken += 1
        self.error = error
        said = f"the transform fails: {describe_error(error)}"
        self.sheet.failed.append(f"{path}: {said}")
        return self._blank("no augmentation", said)

    def _blank(self, title: str, reason: object) -> Cell:
        blank = Image.new("RGB", (self.side, self.side // 2), (235, 235, 235))
        return Cell(blank, (title, f"can't be shown: {reason}"))

    def _drawing(self, index: int, number: int) -> _Drawing:
        dataset = self.dataset
        color, joint = _COLORS[number % len(_COLORS)], recipes.is_joint(dataset)
        if dataset.seed is not None and dataset.plans and not joint:
            epoch = dataset.epoch + number
            recipe = dataset.recipe(index, epoch)
            key = sample_key(dataset.seed, epoch, index)
            return _Drawing(f"epoch {epoch}", color, key, recipe, dataset.replay(recipe)[0])
        if joint:  # the dataset's seed isn't used
            dataset = recipes.unseeded(dataset)
        key = sample_key(self.seed, number, index)
        with keyed_globals(key):
            known = dataset.recipe(index) if dataset.plans else None  # draws from copies of the generators
            sample = dataset[index]
        image, *targets = sample if isinstance(sample, tuple) else (sample,)
        return _Drawing(f"drawing {number + 1}", color, key, known, image, targets if joint else None)

    def _cells(self, drawing: _Drawing) -> Iterator[Cell]:
        """Yields a cell for each image of a sample, with its drawn steps and the transforms that run after them."""
        recipe = drawing.recipe
        rest = tuple(flatten(self.dataset.transform) if recipe is None else self.dataset.pipeline.unplanned)
        pictures = pictures_of(drawing.result, recipes.normalizations(() if recipe is None else recipe.steps, rest))
        visible = [one for one in rest if type(one).__name__ not in _UNSEEN]
        for number, picture in enumerate(pictures[:_MOST_OF_ONE]):
            title = drawing.title + (f", image {number + 1} of {len(pictures)}" if len(pictures) > 1 else "")
            words = recipes.recipe_in_words(recipe, visible, number) or (() if number else ("nothing drawn",))
            shown = marked(picture, drawing.targets)
            yield Cell(shown, (f"{title}: {shown.height}x{shown.width}", *words), drawing.color)


def _outlined(whole: Image.Image, drawings: Sequence[_Drawing], side: int) -> Image.Image:
    """The original at its displayed size, with outlines of the decoded regions."""
    small = fitted(whole, side)
    pen = ImageDraw.Draw(small)
    scale = np.array([small.width / whole.width, small.height / whole.height])
    for drawing in drawings:
        box = recipes.decoded_region(drawing.recipe)
        if box is not None:
            left, top = np.floor(scale * (box.left, box.top)).astype(int).tolist()
            right, bottom = np.ceil(scale * (box.right, box.bottom)).astype(int).tolist()
            pen.rectangle((left, top, right - 1, bottom - 1), outline=drawing.color, width=2)
            if right - left > 8 and bottom - top > 8:  # a white line inside, for pictures of the outline's colour
                pen.rectangle((left + 2, top + 2, right - 3, bottom - 3), outline=(255, 255, 255))
    return small


def marked(picture: Image.Image, targets: object) -> Image.Image:
    """Draws the ``tv_tensors`` in ``targets`` on the picture: boxes' outlines, points, a colour for each mask or class.

    Targets may be in lists, tuples and dicts of any depth; those for another size of image are left out.
    """
    if "torchvision.tv_tensors" not in sys.modules:
        return picture
    from torchvision import tv_tensors
    from torchvision.utils import draw_bounding_boxes, draw_keypoints, draw_segmentation_masks

    leaves = tree_leaves(targets)
    size = (picture.height, picture.width)
    picture_tensor = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    for leaf in leaves:
        if isinstance(leaf, tv_tensors.Mask) and tuple(leaf.shape[-2:]) == size and leaf.ndim in (2, 3):
            planes = leaf.as_subclass(torch.Tensor).cpu().reshape(-1, *size)
            if len(planes) == 1:  # a mask of class numbers, each of which has a colour
                values = planes.unique()
                planes = planes == values[values != 0][:256].reshape(-1, 1, 1)
            if len(planes):
                picture_tensor = draw_segmentation_masks(picture_tensor, planes > 0, 0.5, _colors(len(planes)))
    for leaf in leaves:
        if getattr(leaf, "canvas_size", None) != size:
            continue
        if isinstance(leaf, tv_tensors.BoundingBoxes):
            from fastpipe.transforms.v2._samples import xyxy

            boxes = xyxy(leaf)
            boxes = boxes.as_subclass(torch.Tensor).cpu().reshape(-1, boxes.shape[-1])
            boxes = boxes[(boxes[:, 2:] > boxes[:, :2]).all(1)] if boxes.shape[-1] == 4 else boxes[:0]  # upright boxes
            if len(boxes):
                width = max(2, max(size) // 150)
                picture_tensor = draw_bounding_boxes(picture_tensor, boxes, None, _colors(len(boxes)), width=width)
        else:
            points = leaf.as_subclass(torch.Tensor).cpu().reshape(-1, 1, 2)
            picture_tensor = draw_keypoints(picture_tensor, points, colors=_MARKS[0], radius=max(2, max(size) // 100))
    return Image.fromarray(picture_tensor.permute(1, 2, 0).numpy())


def _colors(count: int) -> list[tuple[int, int, int]]:
    return [_MARKS[number % len(_MARKS)] for number in range(count)]
