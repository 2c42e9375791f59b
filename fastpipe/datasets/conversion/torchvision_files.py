"""torchvision's data sets whose samples are files. Each class has torchvision's name for it, and derives from it."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from PIL import Image

from fastpipe.datasets import detection, folder
from fastpipe.datasets.base import ImageDataset, default_loader
from fastpipe.datasets.conversion.known import KnownClass, NotConvertible, copy_attributes
from fastpipe.datasets.indexed import IndexedDataset
from fastpipe.datasets.joint import JointDataset, MaskFile, placed
from fastpipe.datasets.standard_transform import is_standard
from fastpipe.errors import DatasetError
from fastpipe.executor import ImageStages, SampleTask, Workspace
from fastpipe.index.list_source import index_of_rows

Convert = Callable[[Any], Any]

_LOADERS = (("torchvision.datasets.folder", "default_loader"), ("torchvision.datasets.folder", "pil_loader"))


class _Described:
    """Mixin of data sets whose repr says what torchvision's says."""

    _fastpipe_repr = ""

    def extra_repr(self) -> str:
        return self._fastpipe_repr


class DatasetFolder(_Described, IndexedDataset):
    """torchvision's data set of that name."""


class ImageNet(_Described, folder.ImageFolder):
    """torchvision's data set of that name."""


class _Listed(_Described, ImageDataset):
    """Files and labels in lists, under torchvision's names."""

    _image_files: Sequence[str | os.PathLike[str]]
    _labels: Sequence[int]

    def __len__(self) -> int:
        return len(self._image_files)

    def sample(self, index: int) -> tuple[str, int]:
        return os.fspath(self._image_files[index]), self._labels[index]


class Flowers102(_Listed):
    """torchvision's data set of that name."""


class Food101(_Listed):
    """torchvision's data set of that name."""


class _RgbStages(ImageStages):
    """The stages of files that torchvision hands out in the mode that they are stored in: only RGB is served."""

    def read(self, tasks: Sequence[SampleTask], here: Workspace | None) -> None:
        super().read(tasks, here)
        for task in tasks:
            header = None if task.encoded is None else task.encoded.header
            if header is not None and not (header.format == "JPEG" and header.color_space == "YCbCr"):
                task.encoded = None
                reason = f"{task.path} isn't a colour JPEG: torchvision would hand it out in its own mode, not in RGB"
                self.policy.failed(task, DatasetError(f"{reason}. Leave it out, or take torchvision's data set."))


class CelebA(_Described, ImageDataset):
    """torchvision's data set of that name."""

    base_folder: str
    filename: Sequence[str]
    target_type: Sequence[str]
    attr: Any
    identity: Any
    bbox: Any
    landmarks_align: Any

    def __len__(self) -> int:
        return len(self.attr)

    def sample(self, index: int) -> tuple[str, Any]:
        assert self.root is not None
        path = os.path.join(self.root, self.base_folder, "img_align_celeba", self.filename[index])
        found = tuple(map(partial(self._fastpipe_target, index), self.target_type))
        return path, found if len(found) > 1 else found[0] if found else None

    def _fastpipe_target(self, index: int, name: str) -> Any:
        if name == "identity":
            return self.identity[index, 0]
        whole = {"attr": self.attr, "bbox": self.bbox, "landmarks": self.landmarks_align}
        if name not in whole:
            raise ValueError(f'Target type "{name}" is not recognized.')
        return whole[name][index, :]

    def _fastpipe_stages(self, kind: Callable[..., Any] = _RgbStages, **options: Any) -> Any:
        return super()._fastpipe_stages(kind, **options)


class OxfordIIITPet(_Described, detection.Wrappable):
    """torchvision's data set of that name."""

    _images: Sequence[Any]
    _segs: Sequence[Any]
    _labels: Sequence[int]
    _bin_labels: Sequence[int]
    _target_types: Sequence[str]

    def __len__(self) -> int:
        return len(self._images)

    def sample(self, index: int) -> tuple[str, int]:
        number = self._fastpipe_number(index)
        return os.fspath(self._images[number]), number

    def targets_of(self, target: Any, size: tuple[int, int]) -> tuple[Any, ...]:
        found = [self._fastpipe_target(target, name, size) for name in self._target_types]
        return (tuple(found) if len(found) > 1 else found[0] if found else None,)

    def _fastpipe_target(self, number: int, name: str, size: tuple[int, int]) -> Any:
        if name == "category":
            return self._labels[number]
        if name == "binary-category":
            return self._bin_labels[number]
        if self.target_keys is not None:
            return placed(MaskFile(self._segs[number]), size)
        return Image.open(self._segs[number])


# -- from torchvision's objects


def _check_loader(dataset: Any) -> None:
    """Raises `NotConvertible` unless the data set's loader gives what Pillow reads, in RGB."""
    loader = dataset.loader
    if loader is default_loader:
        return
    name = (getattr(loader, "__module__", ""), getattr(loader, "__qualname__", ""))
    if name not in _LOADERS or getattr(sys.modules[name[0]], name[1], None) is not loader:
        raise NotConvertible(
            f"its loader {name[1] or type(loader).__name__} isn't torchvision's default_loader or pil_loader",
            "leave loader= out if Pillow's pixels in RGB will do, or give fastpipe.ImageFolder the loader, which then "
            "decodes whole images",
        )
    backend = sys.modules["torchvision"].get_image_backend()
    if name[1] == "default_loader" and backend != "PIL":
        raise NotConvertible(
            f"torchvision's image backend is {backend}", 'call torchvision.set_image_backend("PIL") before'
        )


def _begin(kind: type[Any], dataset: Any) -> Any:
    """A data set of a class, with the transforms of torchvision's."""
    made: Any = object.__new__(kind)
    ImageDataset.__init__(made, dataset.transform, dataset.target_transform)
    made.root = dataset.root
    if hasattr(kind, "_fastpipe_repr"):
        made._fastpipe_repr = dataset.extra_repr()
    return made


def set_samples(made: IndexedDataset, samples: Sequence[tuple[Any, Any]]) -> None:
    """Gives a data set its samples: mapped arrays of them where targets are integers."""
    listed = [(os.fspath(path), target) for path, target in samples]
    if listed and all(type(target) is int for _, target in listed):
        paths, targets = zip(*listed, strict=True)
        made._fastpipe_hold(index_of_rows((paths, targets)))
    else:
        made._fastpipe_hold(None, listed)


def _folder(kind: type[Any]) -> Callable[[Any, Convert], Any]:
    def convert(dataset: Any, _: Convert) -> Any:
        _check_loader(dataset)
        made = _begin(kind, dataset)
        made.classes, made.class_to_idx = dataset.classes, dataset.class_to_idx
        set_samples(made, dataset.samples)
        if isinstance(made, folder.ImageFolder):
            made.extensions = dataset.extensions
        without = copy.copy(dataset)
        for name in ("imgs", "loader", "samples", "targets", "transforms"):
            vars(without).pop(name, None)
        copy_attributes(made, without)
        return made

    return convert


def _listed(kind: type[Any]) -> Callable[[Any, Convert], Any]:
    def convert(dataset: Any, _: Convert) -> Any:
        if "loader" in vars(dataset):
            _check_loader(dataset)
        made = _begin(kind, dataset)
        copy_attributes(made, dataset)
        made._fastpipe_share_record()
        return made

    return convert


def _joint(kind: type[Any]) -> Callable[[Any, Convert], Any]:
    def convert(dataset: Any, _: Convert) -> Any:
        try:
            made = kind._fastpipe_of(dataset)
        except DatasetError as error:
            raise NotConvertible(str(error)) from None
        copy_attributes(made, dataset)
        made._fastpipe_share_record()
        return made

    return convert


def _pet(dataset: Any, _: Convert) -> Any:
    made = OxfordIIITPet.__new__(OxfordIIITPet)
    JointDataset.__init__(made, transforms=dataset.transforms)
    made.root = dataset.root
    copy_attributes(made, dataset)
    made._fastpipe_share_record()
    return made


def _wrapped(dataset: Any, convert: Convert) -> Any:
    """A data set that ``torchvision.datasets.wrap_dataset_for_transforms_v2`` has wrapped."""
    inner = copy.copy(dataset._dataset)
    both = dataset.transforms
    inner.transforms = both
    inner.transform, inner.target_transform = (
        (both.transform, both.target_transform) if is_standard(both) else (None,) * 2
    )
    made = convert(inner)
    if both is not None and not is_standard(both) and not isinstance(made, JointDataset):
        raise NotConvertible("its transforms take image and target together, and its target is a number")
    if isinstance(made, CelebA) and "bbox" in made.target_type:
        raise NotConvertible("boxes of CelebA as v2 wraps them aren't known here", "leave the wrapper out")
    return detection.wrap_dataset_for_transforms_v2(made, dataset._target_keys)


_FOLDER_FREE = frozenset({"find_classes", "make_dataset", "parse_archives", "split_folder"})
_FOLDER = ("samples", "loader", "transform", "target_transform", "root", "classes", "class_to_idx")
_LIST = ("_image_files", "_labels", "transform", "target_transform")
_PET = ("_images", "_labels", "_bin_labels", "_segs", "_target_types", "transforms")
_CELEBA = ("filename", "attr", "identity", "bbox", "landmarks_align", "target_type", "transform", "target_transform")

TABLE = {
    "CelebA": KnownClass(_listed(CelebA), reads=_CELEBA),
    "CocoDetection": KnownClass(
        _joint(detection.CocoDetection), ("_load_image", "_load_target"), ("coco", "ids", "root", "transforms")
    ),
    "DatasetFolder": KnownClass(_folder(DatasetFolder), reads=_FOLDER, free=_FOLDER_FREE),
    "Flowers102": KnownClass(_listed(Flowers102), reads=_LIST),
    "Food101": KnownClass(_listed(Food101), reads=_LIST),
    "ImageFolder": KnownClass(_folder(folder.ImageFolder), reads=_FOLDER, free=_FOLDER_FREE),
    "ImageNet": KnownClass(_folder(ImageNet), reads=_FOLDER, free=_FOLDER_FREE),
    "OxfordIIITPet": KnownClass(_pet, reads=_PET),
    "VOCDetection": KnownClass(_joint(detection.VOCDetection), ("parse_voc_xml",), ("images", "targets", "transforms")),
    "VOCSegmentation": KnownClass(_joint(detection.VOCSegmentation), (), ("images", "targets", "transforms")),
    "VisionDatasetTVTensorWrapper": KnownClass(_wrapped, reads=("_dataset", "_target_keys")),
}
"""The classes that are known, and how each is converted."""
