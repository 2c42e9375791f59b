"""COCO's annotations in memory-mapped arrays, without a Python object for each box.

An annotation file is read once. Its content is kept beside the indexes of images, under a name made from the
file's path, size and modification time, so that a changed file is read again.

    CACHE/annotations/<name>/     as `fastpipe.index.format` keeps arrays

Values are what torchvision makes of the same file, or an `AnnotationError` where it raises. Images whose annotations
all have a box of four numbers and an integer as their category are read from the arrays; others from the records.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch

from fastpipe.datasets.annotation_errors import NOT_OF_ANNOTATIONS, named, of_class, said
from fastpipe.errors import AnnotationError, DatasetError
from fastpipe.foreign_code import errors_as, outcome_of
from fastpipe.index import format
from fastpipe.index.cache import warn_not_kept
from fastpipe.index.table import Array
from fastpipe.paths import open_regular
from fastpipe.sources.refused import refused

Record: TypeAlias = format.JsonObject
"""An object of an annotation file."""

ResultT = TypeVar("ResultT")

_ODD, _FLOATS, _INTEGERS = range(3)
"""Kinds of annotations: such as only its record describes; with a box of four numbers; with a box of four integers."""

_EXACT = 1 << 53
"""Integers below this are floats without a loss."""

_PARSER = 2
"""The version of what `parse` makes of a file."""


class ImageAnnotations:
    """The annotations of images by their numbers; subclasses say where they are.

    Attributes:
        file: names the annotation file in errors.
    """

    file: str

    def id(self, number: int) -> Any:
        """An image's id: an integer, or text."""
        raise NotImplementedError

    def records(self, number: int) -> list[Record]:
        """An image's annotations as the file has them."""
        raise NotImplementedError

    def made(self, number: int, make: Callable[[list[Record]], ResultT]) -> ResultT:
        """Calls a function with an image's records; an error of it names the file and the annotation."""
        records = self.records(number)
        with errors_as(lambda error: self._named(number, error, records, make), *NOT_OF_ANNOTATIONS):
            return make(records)

    def _named(
        self, number: int, error: Exception, records: list[Record], make: Callable[[list[Record]], object]
    ) -> Exception:
        where = f"{self.file}: image {self.id(number)!r}"
        for record in records:
            alone = outcome_of(partial(make, [record]))
            if isinstance(alone, Exception):
                return named(error, f"{where}, annotation {record.get('id')!r}", alone)
        return named(error, f"{where}, its annotations together")

    def boxes(self, number: int) -> torch.Tensor:
        """An image's boxes ``(n, 4)``: int64 if the file has only integers, else floats, as torch makes of lists."""
        return self.made(number, lambda records: torch.as_tensor(column(records, "bbox")))

    def labels(self, number: int) -> torch.Tensor:
        return self.made(number, lambda records: torch.tensor(column(records, "category_id")))


def column(records: Sequence[Record], key: str) -> list[Any]:
    """The values of the records that have a key, as torchvision collects them; raises KeyError if none has it."""
    values = [record[key] for record in records if key in record]
    if not values:
        raise KeyError(key)
    return values


class Annotations(ImageAnnotations):
    """n images with m annotations, mapped from a folder or in memory.

    Attributes:
        ids: int64 ``(n,)``, sorted; or, if they aren't all integers, JSON in ``texts`` with ``text_offsets``.
        starts: int64 ``(n + 1,)``; where each image's annotations start.
        kinds: uint8 ``(m,)``; 0 for an annotation whose box isn't four usual numbers, or whose category isn't an int.
        boxes: float64 ``(m, 4)``: x, y, width, height; 0 where the kind is 0.
        labels: int64 ``(m,)``; 0 where the kind is 0.
        records, record_offsets: each annotation as the file has it, JSON.
        paths, path_offsets: each image's file name, UTF-8.
        problems: JSON: ``[number, class, text]`` of the error for each image that can't be used; the number is -1 for
            an error of the file as a whole.
    """

    def __init__(self, arrays: dict[str, Array], file: str, folder: Path | None = None, generation: str = "") -> None:
        self.arrays, self.file, self.folder, self.generation = arrays, file, folder, generation
        problems = json.loads(arrays["problems"].tobytes())
        self._problems = {number: (kind, text) for number, kind, text in reversed(problems)}

    @classmethod
    def opened(cls, folder: Path, generation: str | None = None) -> Annotations:
        """Opens the arrays kept in a folder; raises `format.UnusableIndex`."""
        generation = generation or format.last_generation(folder)
        header, arrays = format.read(folder, generation)
        return cls(arrays, json.loads(header["made_of"])[1], folder, generation)

    def __len__(self) -> int:
        return len(self.arrays["starts"]) - 1

    def __reduce__(self) -> tuple[object, ...]:
        if self.folder is not None and format.keep_for_pickle(self.folder, self.generation):
            return Annotations.opened, (self.folder, self.generation)
        return Annotations, (self.arrays, self.file)

    def refuse_problems(self) -> None:
        """Raises the first error that pycocotools raises for a file as a whole."""
        for kind, text in self._problems.values():
            if kind.startswith(_WHOLE):
                raise of_class(kind[len(_WHOLE) :], f"{self.file}: {text}")

    def _problem(self, number: int) -> Exception | None:
        kind, text = self._problems.get(number, ("", ""))
        return of_class(kind.removeprefix(_WHOLE), f"{self.file}: {text}") if kind else None

    def path(self, number: int) -> str:
        """The image's file name; for an image that can't be used, a name that raises when it is read."""
        name = self._bytes("paths", "path_offsets", number).decode("utf-8", "surrogatepass")
        problem = self._problem(number) if self._problems else None
        return name if problem is None else refused(name, problem)

    def id(self, number: int) -> Any:
        if "texts" in self.arrays:
            return json.loads(self._bytes("texts", "text_offsets", number))
        return int(self.arrays["ids"][number])

    def count(self, number: int) -> int:
        """The number of an image's annotations."""
        first, last = self.range(number)
        return last - first

    def range(self, number: int) -> tuple[int, int]:
        """The start and end of an image's annotations."""
        if self._problems and (problem := self._problem(number)) is not None:
            raise problem
        starts = self.arrays["starts"]
        return int(starts[number]), int(starts[number + 1])

    def records(self, number: int) -> list[Record]:
        return [json.loads(self._bytes("records", "record_offsets", place)) for place in range(*self.range(number))]

    def boxes(self, number: int) -> torch.Tensor:
        part = slice(*self.range(number))
        kinds = self.arrays["kinds"][part]
        if not kinds.all():
            return super().boxes(number)
        boxes = torch.from_numpy(self.arrays["boxes"][part].copy())
        return boxes.to(torch.int64 if (kinds == _INTEGERS).all() else torch.get_default_dtype())

    def labels(self, number: int) -> torch.Tensor:
        part = slice(*self.range(number))
        if not self.arrays["kinds"][part].all():
            return super().labels(number)
        return torch.from_numpy(self.arrays["labels"][part].copy())

    def _bytes(self, name: str, offsets: str, place: int) -> bytes:
        ends = self.arrays[offsets]
        content: bytes = self.arrays[name][ends[place] : ends[place + 1]].tobytes()
        return content


class LoadedAnnotations(ImageAnnotations):
    """The annotations of images that pycocotools has loaded; changes to its objects show.

    Args:
        coco: a ``pycocotools.coco.COCO``.
        ids: the images' ids, in the dataset's order.
    """

    file = "the COCO object"

    def __init__(self, coco: Any, ids: Sequence[int]) -> None:
        self._coco, self._ids = coco, ids

    def __len__(self) -> int:
        return len(self._ids)

    def id(self, number: int) -> Any:
        return self._ids[number]

    def count(self, number: int) -> int:
        return len(self._coco.getAnnIds(self.id(number)))

    def path(self, number: int) -> str:
        which = f"image {self.id(number)!r}"
        try:
            with errors_as(lambda error: named(error, f"{self.file}: {which}"), *NOT_OF_ANNOTATIONS):
                name: str = os.fspath(self._coco.loadImgs(self.id(number))[0]["file_name"])
        except AnnotationError as error:
            return refused(which, error)
        return name

    def records(self, number: int) -> list[Record]:
        annotations: list[Record] = self._coco.loadAnns(self._coco.getAnnIds(self.id(number)))
        return annotations


def load_or_parse(path: str) -> Annotations:
    """Opens the kept annotations of a JSON file; if there are none, parses the file and keeps the result if it can.

    Args:
        path: the file's absolute path.

    Raises:
        DatasetError: it isn't in COCO's format.
        OSError: it can't be opened.
    """
    status = os.stat(path)
    made_of = json.dumps([_PARSER, path, status.st_size, status.st_mtime_ns])
    try:
        folder = format.kept_at("annotations", made_of)
    except FileNotFoundError:  # no home folder
        return Annotations(parse(path), path)
    with contextlib.suppress(format.UnusableIndex):
        return Annotations.opened(folder)
    arrays: dict[str, Array] | None = None
    try:
        with format.locked(folder):
            with contextlib.suppress(format.UnusableIndex):
                return Annotations.opened(folder)
            arrays = parse(path)
            return Annotations.opened(folder, format.write(folder, arrays.items(), {"made_of": made_of}))
    except (OSError, format.UnusableIndex) as error:
        arrays = parse(path) if arrays is None else arrays  # raises the error again, if it is the JSON file's
        warn_not_kept("the table of annotations", folder, error)
        return Annotations(arrays, path)


def parse(path: str) -> dict[str, Array]:
    """Parses a JSON file into the arrays of `Annotations`.

    Raises:
        AnnotationError: an image has no usable id, or an annotation belongs to no image.
        DatasetError: it is no JSON.
    """
    with open_regular(path) as file:
        try:
            content = json.load(file)
        except ValueError as error:
            raise DatasetError(f"{path} is no JSON: {error}.") from error
    where = f"{path} isn't in COCO's format: it has images with id and file_name, and annotations with id and image_id"
    with errors_as(lambda error: named(error, where), *NOT_OF_ANNOTATIONS):
        return _File(content).arrays()


_WHOLE = "whole "
"""The beginning of a problem's class if pycocotools refuses the whole file for it."""


class _File:
    """The images and annotations of a file, associated as pycocotools does it.

    Of two images or annotations of one id the last counts. Keys are compared as Python's, so that 1, 1.0 and true are
    one id. A text as an image's id is a sequence of ids, so that only texts of one letter are found.
    """

    def __init__(self, content: Any) -> None:
        assert isinstance(content, dict), f"it holds {type(content).__name__}"
        self.images = {image["id"]: image for image in content.get("images", ())}
        self.ids = sorted(self.images)
        self.of_image: defaultdict[object, list[Record]] = defaultdict(list)
        self.by_id: dict[object, Record] = {}
        self.bad_images: dict[object, tuple[str, str]] = {}  # ids of images, why pycocotools refuses the file
        listed = content.get("annotations", [])
        names = [category["id"] for category in content["categories"]] if "categories" in content else None
        for name in names or ():
            hash(name)
        for place, one in enumerate(listed):
            self.of_image[one["image_id"]].append(one)
            try:
                self.by_id[one["id"]] = one
                if names is not None:
                    hash(one["category_id"])
            except (KeyError, TypeError) as error:
                which = f"annotation {one['id']!r}" if "id" in one else f"the {place + 1}th annotation"
                self.bad_images.setdefault(one["image_id"], (_WHOLE + type(error).__name__, f"{which}: {said(error)}"))

    def arrays(self) -> dict[str, Array]:
        problems: list[tuple[int, str, str]] = []
        paths: list[bytes] = []
        annotations: list[Record] = []
        starts = [0]
        used: set[object] = set()
        for number, image in enumerate(self.ids):
            name = ""
            try:
                keys = self._keys(image)
                name = os.fspath(self.images[keys[0]]["file_name"])
            except (LookupError, TypeError) as error:
                problems.append((number, type(error).__name__, f"image {image!r}: {said(error)}."))
            else:
                used.update(keys)
                refused_for = [self.bad_images[key] for key in keys if key in self.bad_images][:1]
                problems += [(number, kind, text) for kind, text in refused_for]
                if not refused_for:
                    annotations += [self.by_id[one["id"]] for key in keys for one in self.of_image.get(key, ())]
            paths.append(name.encode("utf-8", "surrogatepass"))
            starts.append(len(annotations))
        problems += [(-1, *problem) for image, problem in self.bad_images.items() if image not in used]
        kinds, boxes, labels = _plain_columns(annotations)
        arrays = {"kinds": kinds, "boxes": boxes, "labels": labels, "starts": np.array(starts, np.int64)}
        if all(type(one) is int and abs(one) < 1 << 62 for one in self.ids):
            arrays["ids"] = np.array(self.ids, np.int64)
        else:
            arrays["texts"], arrays["text_offsets"] = _packed(json.dumps(one).encode() for one in self.ids)
        arrays["records"], arrays["record_offsets"] = _packed(
            json.dumps(one, separators=(",", ":")).encode() for one in annotations
        )
        arrays["paths"], arrays["path_offsets"] = _packed(paths)
        arrays["problems"] = np.frombuffer(json.dumps(problems).encode(), np.uint8)
        return arrays

    def _keys(self, image: object) -> Sequence[object]:
        """The ids that pycocotools looks up for an image's id."""
        if isinstance(image, str):
            for letter in image:
                if letter not in self.images:
                    raise KeyError(letter)
            return image
        if type(image) is not int:
            raise TypeError(f"its id is of the type {type(image).__name__}, and is neither an integer nor a letter")
        return (image,)


def _plain_columns(annotations: Sequence[Record]) -> tuple[Array, Array, Array]:
    """The kinds, boxes and labels of annotations."""
    kinds = np.zeros(len(annotations), np.uint8)
    boxes = np.zeros((len(annotations), 4), np.float64)
    labels = np.zeros(len(annotations), np.int64)
    for place, one in enumerate(annotations):
        box, category = one.get("bbox"), one.get("category_id")
        types = {*map(type, box)} if type(box) is list and len(box) == 4 else {None}
        # Larger numbers, and NaN, are left to torch.
        if types <= {int, float} and type(category) is int and all(abs(side) < _EXACT for side in (*box, category)):  # type: ignore[misc]
            kinds[place] = _INTEGERS if types == {int} else _FLOATS
            boxes[place], labels[place] = box, category
    return kinds, boxes, labels


def _packed(parts: Iterable[bytes]) -> tuple[Array, Array]:
    lengths: list[int] = []
    content = bytearray()
    for part in parts:
        content += part
        lengths.append(len(part))
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return np.frombuffer(bytes(content), np.uint8), offsets
