"""torchvision's datasets of boxes and masks: COCO and Pascal VOC."""

from __future__ import annotations

import contextlib
import copy
import importlib
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import cached_property, partial
from typing import Any, TypeVar
from xml.etree import ElementTree

import numpy as np
import torch
from PIL import Image

from fastpipe import readers
from fastpipe.datasets.annotation_errors import NOT_OF_ANNOTATIONS, named
from fastpipe.datasets.base import SampleT
from fastpipe.datasets.coco_annotations import (
    Annotations,
    ImageAnnotations,
    LoadedAnnotations,
    Record,
    column,
    load_or_parse,
)
from fastpipe.datasets.coco_masks import load_masks, mask_size
from fastpipe.datasets.joint import JointDataset, placed
from fastpipe.datasets.joint_stages import v2_samples
from fastpipe.datasets.options import ImageOptions, Unpack, with_options
from fastpipe.datasets.target_values import Boxes, MaskFile
from fastpipe.errors import DatasetError
from fastpipe.foreign_code import errors_as, outcome_of
from fastpipe.index.list_source import index_of_rows
from fastpipe.paths import absolute_path, check_regular, local_path, open_regular
from fastpipe.transforms.named_arrays import Pixels, label_fields
from fastpipe.types import Box, RemoteFile, Transform

_COCO_KEYS = {"segmentation", "area", "iscrowd", "image_id", "bbox", "category_id", "boxes", "masks", "labels"}
_VOC_CLASSES = (
    "__background__ aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person "
    "pottedplant sheep sofa train tvmonitor"
)
_LABELS = {name: number for number, name in enumerate(_VOC_CLASSES.split())}


Self = TypeVar("Self", bound="Wrappable")


class Wrappable(JointDataset[SampleT]):
    """A dataset that `wrap_dataset_for_transforms_v2` takes."""

    target_keys: frozenset[str] | None = None
    """Keys of the target dict to return in torchvision's v2 classes; None returns the target as the file has it."""

    _fastpipe_keys: tuple[frozenset[str], frozenset[str]] | None = None
    """The keys that a target dict may have, and its default keys; None for datasets whose targets are no dicts."""

    def alternatives(self, index: int, generator: np.random.Generator) -> Iterator[int]:
        """All other samples, in random order: no two images have the same annotations."""
        return (other for other in generator.permutation(len(self)).tolist() if other != index)

    def wrapped(self: Self, target_keys: Collection[str] | str | None) -> Self:
        """A copy of the dataset whose targets are those of v2's transforms."""
        if self._fastpipe_keys is None:
            if target_keys is not None:
                raise ValueError(
                    "`target_keys` is currently only supported for `CocoDetection`, `VOCDetection`, `Kitti`, and "
                    f"`WIDERFace`, but got {type(self).__name__}."
                )
            keys = frozenset({"mask"})
        else:
            available, default = self._fastpipe_keys
            special = {None: default, "all": available}
            keys = special[target_keys] if target_keys in (None, "all") else frozenset(target_keys)
            if keys - available:
                raise ValueError(f"Target keys {sorted(keys - available)} are not available")
        other = copy.copy(self)
        other.target_keys = keys
        return other


def wrap_dataset_for_transforms_v2(dataset: object, target_keys: Collection[str] | str | None = None) -> Any:
    """Makes a dataset whose targets are those that v2's transforms take, as torchvision's function of this name does.

    Args:
        dataset: one of fastpipe's; or one of torchvision's, for which torchvision's own function is called.
        target_keys: the keys of a target dict; ``"all"``; or None for what detection needs: boxes, labels, and COCO's
            ``image_id``. COCO's ``"masks"`` need pycocotools.

    Raises:
        ValueError: a key is unknown.
        TypeError: torchvision has no wrapper for the dataset.
    """
    if not (
        target_keys is None
        or target_keys == "all"
        or (isinstance(target_keys, Collection) and all(isinstance(key, str) for key in target_keys))
    ):
        raise ValueError(
            "`target_keys` can be None, 'all', or a collection of strings denoting the keys to be returned, "
            f"but got {target_keys}"
        )
    if isinstance(dataset, Wrappable):
        return dataset.wrapped(target_keys)
    if type(dataset).__module__.startswith("fastpipe."):  # classification: nothing to wrap
        return dataset
    return importlib.import_module("torchvision.datasets").wrap_dataset_for_transforms_v2(dataset, target_keys)


class CocoDetection(Wrappable[SampleT]):
    """Images with COCO's annotations, as ``torchvision.datasets.CocoDetection``; pycocotools isn't needed for boxes.

    The annotation file is read once and kept in mapped arrays in fastpipe's cache folder: a dataset pickles to a few
    hundred bytes, and workers share the memory.

    A target is the list of an image's annotations, each a dict as the file has it; with
    `wrap_dataset_for_transforms_v2` it is a dict of ``tv_tensors``.

    Args:
        root: the folder that file names start from.
        annFile: the JSON file.
        transform: takes the image.
        target_transform: takes the target.
        transforms: takes both; not with the other two.
        loader, reader, config, apply_exif, max_pixels, seed, threads: as in `ImageFolder`.
        on_error, bad_files_log, max_bad_fraction: as in `ImageFolder`.

    Attributes:
        ids: the images' ids, sorted.
        annFile: the annotation file's absolute path.
        coco: the annotations as an object of pycocotools, made at the first access.

    Raises:
        DatasetError: the annotation file isn't in COCO's format.
        AnnotationError: pycocotools refuses the file for one of its annotations. With another ``on_error`` than
            ``"raise"`` only that annotation's image is a bad sample.
    """

    _fastpipe_keys = frozenset(_COCO_KEYS), frozenset({"image_id", "boxes", "labels"})

    @with_options(ImageOptions)
    def __init__(
        self,
        root: str | os.PathLike[str],
        annFile: str | os.PathLike[str],
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        transforms: Transform | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        super().__init__(transform, target_transform, transforms, **options)
        self.root = local_path(root)
        self.annFile = absolute_path(annFile)
        annotations = load_or_parse(self.annFile)
        if self.on_error == "raise":
            annotations.refuse_problems()
        self.annotations: Annotations | LoadedAnnotations = annotations
        self._fastpipe_share_record()

    @cached_property
    def coco(self) -> Any:
        """A ``pycocotools.coco.COCO`` of the annotation file, which is read at the first access.

        Changes to this object don't change the samples. It isn't sent to workers.

        Raises:
            DatasetError: pycocotools isn't installed.
        """
        try:
            api = importlib.import_module("pycocotools.coco")
        except ImportError as error:
            raise DatasetError(
                "CocoDetection.coco needs pycocotools, which isn't installed: pip install pycocotools."
            ) from error
        return api.COCO(self.annFile)

    def __getstate__(self) -> dict[str, object]:
        state = super().__getstate__()
        if isinstance(self.annotations, Annotations):  # else the annotations are the COCO object's
            state.pop("coco", None)
        return state

    @property
    def ids(self) -> list[int]:
        return [self.annotations.id(number) for number in range(len(self.annotations))]

    def __len__(self) -> int:
        return len(self.annotations)

    def sample(self, index: int) -> tuple[str, int]:
        """The image's path, and its number, by which `targets_of` looks its annotations up."""
        number = self._fastpipe_number(index)
        path = self.annotations.path(number)
        if not isinstance(path, RemoteFile):  # else its name stands for an error
            path = os.path.join(os.fspath(self.root or ""), path)
        return path, number

    def targets_of(self, target: int, size: tuple[int, int]) -> tuple[object, ...]:
        keys = self.target_keys
        return (self.annotations.records(target) if keys is None else self._fastpipe_v2_target(target, size, keys),)

    def _fastpipe_v2_target(self, number: int, size: tuple[int, int], keys: frozenset[str]) -> dict[str, object]:
        annotations = self.annotations
        image_id = annotations.id(number)
        if not annotations.count(number):
            return {"image_id": image_id}
        target: dict[str, object] = {}
        if "image_id" in keys:
            target["image_id"] = image_id
        if "boxes" in keys:
            target["boxes"] = self._fastpipe_boxes(number, size)
        if "masks" in keys:
            parts = annotations.made(number, lambda records: column(records, "segmentation"))
            whole = annotations.made(number, lambda records: mask_size(column(records, "segmentation"), size))
            load = partial(_masks_of, annotations, number, parts, whole)
            target["masks"] = v2_samples().mask_stand_in(load, len(parts), whole)
        if "labels" in keys:
            target["labels"] = annotations.labels(number)
        for key in sorted(keys - {"image_id", "boxes", "masks", "labels"}):
            target[key] = annotations.made(number, partial(column, key=key))
        return target

    def _fastpipe_boxes(self, number: int, size: tuple[int, int]) -> torch.Tensor:
        """The boxes as corners, in torchvision's class."""
        v2, annotations = v2_samples(), self.annotations

        def corners(boxes: object) -> torch.Tensor:
            return v2.xyxy(v2.box_tensor(boxes, "XYWH", size))

        boxes = annotations.boxes(number)
        if boxes.ndim == 2 and boxes.shape[1] == 4:
            return corners(boxes)
        return annotations.made(number, lambda records: corners(column(records, "bbox")))

    def named_targets_of(self, target: int, size: tuple[int, int], transform: object) -> tuple[object, ...]:
        annotations = self.annotations
        fields, records = label_fields(transform), annotations.records(target)
        targets: dict[str, object] = {"image_id": annotations.id(target)}
        boxes = Boxes(annotations.boxes(target) if records else [], "XYWH")
        ids = annotations.made(target, lambda some: [record["category_id"] for record in some])
        annotations.made(target, lambda some: [record["bbox"] for record in some] and boxes.numbers())
        targets["bboxes"] = boxes
        if "masks" in (self.target_keys or ()) and records:
            parts = annotations.made(target, lambda some: [record["segmentation"] for record in some])
            load = partial(_masks_of, annotations, target, parts, size)
            targets["masks"] = Pixels((len(records), *size), lambda box: load(box, None).numpy(), True, True)
        for field in fields:
            has_field = all(field in record for record in records) and records
            targets[field] = [record[field] for record in records] if has_field else list(ids)
        return (targets,)


def _masks_of(
    annotations: ImageAnnotations,
    number: int,
    parts: list[object],
    size: tuple[int, int],
    box: Box,
    keep: torch.Tensor | None,
) -> torch.Tensor:
    """A box of the masks of an image's annotations, of which `parts` are the segmentations; see `load_masks`."""
    made = outcome_of(lambda: load_masks(parts, size, box, keep))
    if isinstance(made, torch.Tensor):
        return made
    if not isinstance(made, NOT_OF_ANNOTATIONS):  # said again with the annotation's name
        annotations.made(number, lambda records: load_masks(column(records, "segmentation"), size, box, None))
    raise made


class _Voc(Wrappable[SampleT]):
    _fastpipe_layout: tuple[str, str, str]
    """The folder of the lists, the folder of the annotations, and the ending of the annotations' names."""

    @with_options(ImageOptions)
    def __init__(
        self,
        root: str | os.PathLike[str],
        year: str = "2012",
        image_set: str = "train",
        download: bool = False,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        transforms: Transform | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        super().__init__(transform, target_transform, transforms, **options)
        self.root = local_path(root)
        years = [str(number) for number in range(2007, 2013)]
        sets = ["train", "trainval", "val", *(["test"] if year == "2007" else [])]
        for value, name, allowed in ((year, "year", years), (image_set, "image_set", sets)):
            if value not in allowed:
                raise ValueError(f"Unknown value '{value}' for argument {name}. Valid values are {allowed}.")
        self.year, self.image_set = year, image_set
        if download:  # by torchvision's class
            theirs = getattr(importlib.import_module("torchvision.datasets"), type(self).__name__)
            theirs(root, year, image_set, download=True)
        base = os.path.join(self.root, *(["TrainVal"] if year == "2011" else []), "VOCdevkit", f"VOC{year}")
        if not os.path.isdir(base):
            raise RuntimeError("Dataset not found or corrupted. You can use download=True to download it")
        with open_regular(os.path.join(base, "ImageSets", self._fastpipe_layout[0], f"{image_set}.txt")) as file:
            listed = file.read().decode().splitlines()
        paths = [f"JPEGImages/{line.strip()}.jpg" for line in listed]
        self.index = index_of_rows((paths, [0] * len(paths)), base)
        self._fastpipe_share_record()

    def __len__(self) -> int:
        return len(self.index)

    def sample(self, index: int) -> tuple[str, str]:
        """The paths of the image and of its annotation."""
        image = self.index.path(self._fastpipe_number(index))
        return image, self._fastpipe_annotation_of(image)

    def _fastpipe_annotation_of(self, image: str) -> str:
        images, name = os.path.split(os.path.splitext(image)[0])
        _, folder, ending = self._fastpipe_layout
        return os.path.join(os.path.dirname(images), folder, name + ending)

    @property
    def images(self) -> list[str]:
        return [self.index.path(number) for number in range(len(self))]

    @property
    def targets(self) -> list[str]:
        return [self._fastpipe_annotation_of(image) for image in self.images]


class VOCDetection(_Voc[SampleT]):
    """Pascal VOC's images with boxes, as ``torchvision.datasets.VOCDetection``.

    A target is the dict of the image's XML file; with `wrap_dataset_for_transforms_v2` it has boxes and labels.

    Args:
        root: the folder that holds ``VOCdevkit``.
        year: ``"2007"`` to ``"2012"``.
        image_set: ``"train"``, ``"trainval"`` or ``"val"``; for 2007 also ``"test"``.
        download: have torchvision download it, if it isn't there.
        transform: takes the image.
        target_transform: takes the target.
        transforms: takes both; not with the other two.
        loader, reader, config, apply_exif, max_pixels, seed, threads: as in `ImageFolder`.
        on_error, bad_files_log, max_bad_fraction: as in `ImageFolder`.

    Raises:
        RuntimeError: the dataset isn't there.
        ValueError: a year or set that there isn't.
    """

    _fastpipe_layout = "Main", "Annotations", ".xml"
    _fastpipe_keys = frozenset({"annotation", "boxes", "labels"}), frozenset({"boxes", "labels"})

    @property
    def annotations(self) -> list[str]:
        return self.targets

    def targets_of(self, target: str, size: tuple[int, int]) -> tuple[object, ...]:
        tree = self._fastpipe_tree(target)
        keys = self.target_keys
        if keys is None:
            return (tree,)
        _of_objects(target, tree, lambda objects: [one.items() for one in objects])  # raises if "object" is a text
        targets: dict[str, object] = dict(tree) if "annotation" in keys else {}
        if "boxes" in keys:
            targets["boxes"] = _of_objects(
                target, tree, lambda objects: v2_samples().box_tensor(_corners(column(objects, "bndbox")), "XYXY", size)
            )
        if "labels" in keys:
            targets["labels"] = _of_objects(
                target, tree, lambda objects: torch.tensor([_LABELS[name] for name in column(objects, "name")])
            )
        return (targets,)

    def _fastpipe_tree(self, path: str) -> Record:
        """Parses an annotation file."""
        no_xml = errors_as(lambda error: named(error, f"{path} isn't valid XML"), *NOT_OF_ANNOTATIONS)
        with no_xml, open_regular(path) as file:
            return self.parse_voc_xml(ElementTree.parse(file).getroot())

    def named_targets_of(self, target: str, size: tuple[int, int], transform: object) -> tuple[object, ...]:
        tree = self._fastpipe_tree(target)
        objects = _of_objects(target, tree, list)
        boxes = _of_objects(target, tree, lambda some: _corners([one["bndbox"] for one in some]))
        labels: list[int] | None = None
        targets: dict[str, object] = {"bboxes": Boxes(boxes, "XYXY")}
        for field in label_fields(transform):
            has_field = objects and all(field in one for one in objects)
            if has_field:
                targets[field] = [one[field] for one in objects]
                continue
            labels = labels or _of_objects(target, tree, lambda some: [_LABELS[one["name"]] for one in some])
            targets[field] = list(labels)
        return (targets,)

    @staticmethod
    def parse_voc_xml(node: ElementTree.Element) -> Record:
        """An XML element as nested dicts, as torchvision has it."""
        tree: dict[str, object] = {}
        children = list(node)
        if children:
            inner = defaultdict(list)
            for child in map(VOCDetection.parse_voc_xml, children):
                for name, value in child.items():
                    inner[name].append(value)
            if node.tag == "annotation":
                inner["object"] = [inner["object"]]
            tree = {node.tag: {name: value[0] if len(value) == 1 else value for name, value in inner.items()}}
        if node.text:
            text = node.text.strip()
            if not children:
                tree[node.tag] = text
        return tree


class VOCSegmentation(_Voc[SampleT]):
    """Pascal VOC's images with masks of classes, as ``torchvision.datasets.VOCSegmentation``.

    A target is the mask's PIL image; with `wrap_dataset_for_transforms_v2` it is a ``tv_tensors.Mask`` ``(1, H, W)``.

    Args:
        root, year, image_set, download, transform, target_transform, transforms: as in `VOCDetection`.
        loader, reader, config, apply_exif, max_pixels, seed, threads: as in `ImageFolder`.
        on_error, bad_files_log, max_bad_fraction: as in `ImageFolder`.

    Raises:
        RuntimeError: the dataset isn't there.
        ValueError: a year or set that there isn't.
    """

    _fastpipe_layout = "Segmentation", "SegmentationClass", ".png"

    @property
    def masks(self) -> list[str]:
        return self.targets

    def targets_of(self, target: str, size: tuple[int, int]) -> tuple[object, ...]:
        if self.target_keys is None:
            check_regular(target)  # Pillow would wait for a FIFO's writer
            return (Image.open(target),)
        mask = MaskFile(target)
        if mask.size() == size and readers.read_header(target).channels == 1:
            return (placed(mask, size),)
        with Image.open(target) as image:  # as torchvision, which keeps a mask of any size
            return (v2_samples().mask_tensor(image),)

    def named_targets_of(self, target: str, size: tuple[int, int], transform: object) -> tuple[object, ...]:
        return (MaskFile(target),)


ResultT = TypeVar("ResultT")


def _of_objects(path: str, tree: Record, make: Callable[[list[Record]], ResultT]) -> ResultT:
    """Calls a function with the objects of an annotation file; an error of it names the object."""
    with errors_as(lambda error: _named_object(path, tree, make, error), *NOT_OF_ANNOTATIONS):
        return make(tree["annotation"]["object"])


def _named_object(path: str, tree: Record, make: Callable[[list[Record]], object], error: Exception) -> Exception:
    with contextlib.suppress(KeyError, TypeError):  # a tree of another structure
        for number, one in enumerate(tree["annotation"]["object"], 1):
            alone = outcome_of(partial(make, [one]))
            if isinstance(alone, Exception):
                return named(error, f"{path}, object {number}", alone)
    return named(error, path)


def _corners(boxes: list[Record]) -> list[list[int]]:
    """The boxes of an annotation file, as [xmin, ymin, xmax, ymax]."""
    return [[int(box[side]) for side in ("xmin", "ymin", "xmax", "ymax")] for box in boxes]
