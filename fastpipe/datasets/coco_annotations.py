"""COCO's annotations in memory-mapped arrays, without a Python object for each box.

An annotation file is read once. Its content is kept beside the indexes of images, under a name made from the
file's path, size and modification time, so that a changed file is read again.

    CACHE/annotations/<name>/     as `fastpipe.index.format` keeps arrays
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fastpipe.errors import DatasetError
from fastpipe.index import format
from fastpipe.index.cache import warn_not_kept
from fastpipe.index.table import Array
from fastpipe.paths import open_regular

Record: TypeAlias = format.JsonObject
"""An object of an annotation file."""


class Annotations:
    """n images with m annotations, mapped from a folder or in memory.

    Attributes:
        ids: int64 ``(n,)``, sorted.
        starts: int64 ``(n + 1,)``; where each image's annotations start.
        boxes: float64 ``(m, 4)``: x, y, width, height.
        boxes_whole: bool ``(m,)``; whether the file has all four as integers.
        labels: int64 ``(m,)``.
        records, record_offsets: each annotation as the file has it, JSON.
        paths, path_offsets: each image's file name, UTF-8.
    """

    def __init__(self, arrays: dict[str, Array], folder: Path | None = None, generation: str = "") -> None:
        self.arrays, self.folder, self.generation = arrays, folder, generation

    @classmethod
    def opened(cls, folder: Path, generation: str | None = None) -> Annotations:
        """Opens the arrays kept in a folder; raises `format.UnusableIndex`."""
        generation = generation or format.last_generation(folder)
        return cls(format.read(folder, generation)[1], folder, generation)

    def __len__(self) -> int:
        return len(self.arrays["ids"])

    def __reduce__(self) -> tuple[object, ...]:
        if self.folder is not None:
            return Annotations.opened, (self.folder, self.generation)
        return Annotations, (self.arrays,)

    def path(self, number: int) -> str:
        return self._bytes("paths", "path_offsets", number).decode()

    def id(self, number: int) -> int:
        return int(self.arrays["ids"][number])

    def count(self, number: int) -> int:
        """The number of an image's annotations."""
        first, last = self.range(number)
        return last - first

    def range(self, number: int) -> tuple[int, int]:
        """The start and end of an image's annotations."""
        starts = self.arrays["starts"]
        return int(starts[number]), int(starts[number + 1])

    def records(self, number: int) -> list[Record]:
        """An image's annotations as the file has them."""
        return [json.loads(self._bytes("records", "record_offsets", place)) for place in range(*self.range(number))]

    def boxes(self, number: int) -> Array:
        """An image's boxes ``(n, 4)``: int64 if the file has only integers, else float32, as torch makes of lists."""
        part = slice(*self.range(number))
        whole = bool(self.arrays["boxes_whole"][part].all())
        boxes: Array = self.arrays["boxes"][part].astype(np.int64 if whole else np.float32)
        return boxes

    def labels(self, number: int) -> Array:
        labels: Array = self.arrays["labels"][slice(*self.range(number))].copy()
        return labels

    def _bytes(self, name: str, offsets: str, place: int) -> bytes:
        ends = self.arrays[offsets]
        content: bytes = self.arrays[name][ends[place] : ends[place + 1]].tobytes()
        return content


class LoadedAnnotations:
    """`Annotations` of images that pycocotools has loaded; changes to its objects show.

    Args:
        coco: a ``pycocotools.coco.COCO``.
        ids: the images' ids, in the dataset's order.
    """

    def __init__(self, coco: Any, ids: Sequence[int]) -> None:
        self._coco, self._ids = coco, ids

    def __len__(self) -> int:
        return len(self._ids)

    def id(self, number: int) -> int:
        return self._ids[number]

    def count(self, number: int) -> int:
        return len(self._coco.getAnnIds(self.id(number)))

    def path(self, number: int) -> str:
        return str(self._coco.loadImgs(self.id(number))[0]["file_name"])

    def records(self, number: int) -> list[Record]:
        annotations: list[Record] = self._coco.loadAnns(self._coco.getAnnIds(self.id(number)))
        return annotations

    def boxes(self, number: int) -> Array:
        boxes = [record["bbox"] for record in self.records(number)]
        whole = all(isinstance(side, int) for box in boxes for side in box)
        return np.array(boxes, np.int64 if whole else np.float32).reshape(-1, 4)

    def labels(self, number: int) -> Array:
        return np.array([record["category_id"] for record in self.records(number)], np.int64)


def load_or_parse(path: str) -> Annotations:
    """Opens the kept annotations of a JSON file; if there are none, parses the file and keeps the result if it can.

    Args:
        path: the file's absolute path.

    Raises:
        DatasetError: it isn't in COCO's format.
        OSError: it can't be opened.
    """
    status = os.stat(path)
    made_of = json.dumps([path, status.st_size, status.st_mtime_ns])
    try:
        folder = format.place_of("annotations", made_of)
    except FileNotFoundError:  # no home folder
        return Annotations(parse(path))
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
        return Annotations(arrays)


def parse(path: str) -> dict[str, Array]:
    """Parses a JSON file into the arrays of `Annotations`."""
    with open_regular(path) as file:
        try:
            content = json.load(file)
        except ValueError as error:
            raise DatasetError(f"{path} is no JSON: {error}.") from error
    try:
        return _arrays_of(content)
    except (KeyError, TypeError, ValueError) as error:  # raised by valid JSON of another structure
        raise DatasetError(
            f"{path} isn't in COCO's format ({type(error).__name__}: {error}): it has images with id and "
            "file_name, and annotations with id, image_id, bbox and category_id."
        ) from error


def _arrays_of(content: Record) -> dict[str, Array]:
    # As in COCO's own code, the last of two images of one id counts.
    images = {int(image["id"]): str(image["file_name"]) for image in content["images"]}
    ids = np.array(sorted(images), np.int64)
    place = {image: number for number, image in enumerate(ids.tolist())}
    annotations = [one for one in content.get("annotations", []) if one["image_id"] in place]
    of_image = np.array([place[one["image_id"]] for one in annotations], np.int64)
    order = np.argsort(of_image, kind="stable")
    starts = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(np.bincount(of_image, minlength=len(ids)), out=starts[1:])
    annotations = [annotations[number] for number in order.tolist()]
    boxes = [one.get("bbox") or (0, 0, 0, 0) for one in annotations]
    records, record_offsets = _packed(json.dumps(one, separators=(",", ":")).encode() for one in annotations)
    paths, path_offsets = _packed(images[number].encode() for number in ids.tolist())
    return {
        "boxes": np.array(boxes, np.float64).reshape(-1, 4),
        "boxes_whole": np.array([all(isinstance(side, int) for side in box) for box in boxes], bool),
        "labels": np.array([one.get("category_id", -1) for one in annotations], np.int64),
        "records": records,
        "record_offsets": record_offsets,
        "starts": starts,
        "ids": ids,
        "paths": paths,
        "path_offsets": path_offsets,
    }


def _packed(parts: Iterable[bytes]) -> tuple[Array, Array]:
    lengths: list[int] = []
    content = bytearray()
    for part in parts:
        content += part
        lengths.append(len(part))
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return np.frombuffer(bytes(content), np.uint8), offsets
