"""What a dataset's samples look like: originals, augmentations, and what was drawn for each, as one picture."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from fastpipe import readers
from fastpipe import transforms as fastpipe_transforms
from fastpipe.datasets import ImageDataset
from fastpipe.errors import DatasetError
from fastpipe.pipeline import flatten, keyed_globals, plan_decode, sample_key
from fastpipe.pipeline.breaks import one_line
from fastpipe.pipeline.wording import steps_in_words
from fastpipe.tools.certificate import Difference
from fastpipe.tools.files import dataset_of
from fastpipe.tools.pictures import (
    Cell,
    arrays_of,
    difference,
    fitted,
    grid,
    normalizations,
    pictures_of,
    same_size,
)
from fastpipe.tools.twin import import_torchvision, is_torchvisions, mirror
from fastpipe.types import Box, Recipe

__all__ = ["preview", "preview_files"]

_COLORS = ((200, 60, 40), (40, 110, 190), (30, 140, 90), (160, 90, 170), (190, 130, 20))
_MOST_OF_ONE = 4  # pictures shown of a sample that is several images
_AMPLIFIED = 64
_UNSEEN = frozenset({"ConvertImageDtype", "Normalize", "PILToTensor", "ToPILImage", "ToTensor"})


def preview(
    dataset: ImageDataset,
    indices: int | Sequence[int] = 8,
    *,
    views: int | None = None,
    seed: int = 0,
    diff: str | None = None,
    side: int = 224,
) -> Image.Image:
    """A picture of some samples: the original of each, augmentations, and their drawn parameters in words.

    The original carries an outline, in each augmentation's colour, of the region that was decoded for it. Normalised
    tensors are shown as they were before. No generator moves. A notebook shows the picture by itself.

    Args:
        dataset: an `ImageFolder`, `ImageList` or another dataset of fastpipe. One with a seed shows its epochs, from
            the current one on; one without shows what `seed` draws.
        indices: which samples, or how many, spread over the dataset.
        views: augmentations of each; None for 3, with ``diff`` for 1.
        seed: of the random numbers, for a dataset without a seed of its own.
        diff: ``"torchvision"`` adds what torchvision makes of the same random numbers, and the difference, amplified.
        side: the largest width and height of a picture in it, in pixels.

    Raises:
        DatasetError: the dataset is none of fastpipe's, or an index isn't in it.
        FastpipeError: ``diff`` is asked for, and torchvision doesn't load.
        PlanError: the transform gives something that is no image.
        ValueError: another ``diff``, or a number out of its range.
    """
    if not isinstance(dataset, ImageDataset):
        raise DatasetError(
            f"preview shows datasets of fastpipe, not {type(dataset).__name__}: make an ImageFolder or ImageList "
            "of these files, with any transform"
        )
    if diff not in (None, "torchvision"):
        raise ValueError(f"diff={diff!r}: fastpipe compares with 'torchvision'.")
    views = (1 if diff else 3) if views is None else views
    if views < 1 or side < 16:
        raise ValueError(f"views={views}, side={side}: give at least 1 view and 16 pixels.")
    twin: Callable[[Any], Any] | None = None
    if diff is not None:
        twin = mirror(dataset.transform, import_torchvision().transforms, [])
    rows: list[list[Cell]] = []
    for index in _indices(dataset, indices):
        rows += _rows(dataset, index, views, seed, twin, side)
    return grid(rows, side=side)


def preview_files(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    transform: Callable[[Any], Any] | None,
    count: int = 8,
    *,
    views: int | None = None,
    seed: int = 0,
    diff: str | None = None,
    side: int = 224,
) -> Image.Image:
    """`preview` of up to ``count`` files from all over a folder.

    Args:
        files: as `choose_files` takes them.
        transform: any; with ``diff``, the fastpipe twin of one that is made of torchvision's classes.
        count: how many files.
        views, seed, diff, side: as in `preview`.
    """
    if diff is not None and any(map(is_torchvisions, flatten(transform))):
        transform = mirror(transform, fastpipe_transforms, [])
    dataset = dataset_of(files, transform, count, seed)
    return preview(dataset, range(len(dataset)), views=views, seed=seed, diff=diff, side=side)


def _indices(dataset: ImageDataset, indices: int | Sequence[int]) -> list[int]:
    length = len(dataset)
    if isinstance(indices, int):
        if indices < 1:
            raise ValueError(f"indices={indices}: give how many samples, at least 1, or a sequence of indices.")
        count = min(indices, length)
        return [number * length // count for number in range(count)]
    chosen = [operator.index(index) for index in indices]
    outside = next((index for index in chosen if not -length <= index < length), None)
    if outside is not None:
        raise DatasetError(f"there is no sample {outside}: the dataset has {length}.")
    return [index % length for index in chosen]


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One augmentation of a sample.

    Attributes:
        title: what it is called.
        color: of its title and outline.
        key: of its random numbers.
        recipe: what was drawn; None where the dataset doesn't plan.
        result: what the transform gave.
    """

    title: str
    color: tuple[int, int, int]
    key: int
    recipe: Recipe | None
    result: Any


def _rows(
    dataset: ImageDataset, index: int, views: int, seed: int, twin: Callable[[Any], Any] | None, side: int
) -> Iterator[list[Cell]]:
    path, _ = dataset.sample(index)
    name, folder = Path(path).name, Path(path).parent.name
    try:
        whole = Image.fromarray(readers.read_image(path, apply_exif=dataset.apply_exif))
        drawings = [_drawing(dataset, index, number, seed) for number in range(views)]
    except OSError as error:  # no file, or a damaged one
        blank = Image.new("RGB", (side, side // 2), (235, 235, 235))
        yield [Cell(blank, (name, f"can't be shown: {error}"))]
        return
    about = (name, f"in {folder}", f"{whole.height}x{whole.width} pixels (height x width)")
    if twin is None:
        cells = [cell for drawing in drawings for cell in _cells(dataset, drawing)]
        yield [Cell(_outlined(whole, drawings, side), about), *cells]
        return
    for drawing in drawings:
        original = Cell(_outlined(whole, [drawing], side), about)
        yield [original, *_compared(dataset, drawing, twin, whole)]


def _drawing(dataset: ImageDataset, index: int, number: int, seed: int) -> _Drawing:
    color = _COLORS[number % len(_COLORS)]
    if dataset.seed is not None and dataset.plans:
        epoch = dataset.epoch + number
        recipe = dataset.recipe(index, epoch)
        key = sample_key(dataset.seed, epoch, index)
        return _Drawing(f"epoch {epoch}", color, key, recipe, dataset.replay(recipe)[0])
    key = sample_key(seed, number, index)
    with keyed_globals(key):
        known = dataset.recipe(index) if dataset.plans else None  # draws from copies of the generators
        return _Drawing(f"drawing {number + 1}", color, key, known, dataset[index][0])


def _cells(dataset: ImageDataset, drawing: _Drawing) -> Iterator[Cell]:
    pictures = pictures_of(drawing.result, _normalizations(dataset, drawing))
    words = _words(dataset, drawing)
    for number, picture in enumerate(pictures[:_MOST_OF_ONE]):
        title = drawing.title
        if len(pictures) > 1:
            title += f", image {number + 1} of {len(pictures)}"
        size = f"{picture.height}x{picture.width}"
        yield Cell(picture, (f"{title}: {size}", *(words if number == 0 else ())), drawing.color)


def _compared(
    dataset: ImageDataset, drawing: _Drawing, twin: Callable[[Any], Any], whole: Image.Image
) -> Iterator[Cell]:
    """fastpipe's result, torchvision's, and the difference, for each image of a sample."""
    with keyed_globals(drawing.key):
        reference = twin(whole)
    undo = _normalizations(dataset, drawing)
    pictures = zip(pictures_of(drawing.result, undo), pictures_of(reference, undo), strict=False)
    arrays = arrays_of(drawing.result, undo), arrays_of(reference, undo)
    alike = same_size(*arrays)
    for number, (ours, theirs) in enumerate(list(pictures)[:_MOST_OF_ONE]):
        words = _words(dataset, drawing) if number == 0 else ()
        yield Cell(ours, (f"fastpipe, {drawing.title}", *words), drawing.color)
        yield Cell(theirs, ("torchvision",))
        if not alike:
            yield Cell(Image.new("RGB", (64, 64), (200, 60, 40)), ("not of the same size",))
            continue
        apart = Difference()
        apart.add(arrays[0][number], arrays[1][number])
        found = f"mean {apart.mean:.3f}, max {apart.max:.3g} of 255" if apart.max else "no difference"
        picture = difference(arrays[0][number], arrays[1][number], _AMPLIFIED)
        yield Cell(picture, (f"difference x {_AMPLIFIED}", found))


def _normalizations(dataset: ImageDataset, drawing: _Drawing) -> Any:
    if drawing.recipe is None:
        return normalizations((), flatten(dataset.transform))
    return normalizations(drawing.recipe.steps, dataset.pipeline.rest)


def _words(dataset: ImageDataset, drawing: _Drawing) -> tuple[str, ...]:
    """What was drawn, and what runs behind it, whose parameters nobody knows."""
    steps = drawing.recipe.steps if drawing.recipe is not None else ()
    rest = dataset.pipeline.rest if drawing.recipe is not None else tuple(flatten(dataset.transform))
    unseen = [f"then {one_line(one)}" for one in rest if type(one).__name__ not in _UNSEEN]
    return (*steps_in_words(steps), *unseen) or ("nothing drawn",)


def _outlined(whole: Image.Image, drawings: Sequence[_Drawing], side: int) -> Image.Image:
    """The original at the size that it is shown at, with the regions that were decoded."""
    small = fitted(whole, side).copy()
    pen = ImageDraw.Draw(small)
    scale = np.array([small.width / whole.width, small.height / whole.height])
    for drawing in drawings:
        box = _region(drawing)
        if box is not None:
            left, top = np.floor(scale * (box.left, box.top)).astype(int).tolist()
            right, bottom = np.ceil(scale * (box.right, box.bottom)).astype(int).tolist()
            pen.rectangle((left, top, right - 1, bottom - 1), outline=drawing.color, width=2)
    return small


def _region(drawing: _Drawing) -> Box | None:
    return None if drawing.recipe is None else plan_decode(drawing.recipe).request.box
