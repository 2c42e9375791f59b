"""torchvision's datasets: samples in files or in memory, and both as v2 wraps them.

Each class has torchvision's name for it, and derives from it.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType

from fastpipe.datasets import detection
from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.coco_annotations import LoadedAnnotations
from fastpipe.datasets.folder import ImageFolder
from fastpipe.datasets.image_array import ImageArray
from fastpipe.datasets.indexed import IndexedDataset
from fastpipe.datasets.joint import JointDataset
from fastpipe.datasets.standard_transform import default_loader, is_standard
from fastpipe.errors import DatasetError
from fastpipe.index.list_source import index_of_rows
from fastpipe.interop import Foreign
from fastpipe.interop.datasets.known import Convert, Files, KnownClass, NotConvertible, copy_attributes

_LOADERS = (("torchvision.datasets.folder", "default_loader"), ("torchvision.datasets.folder", "pil_loader"))


class _Described:
    """Mixin for datasets that show torchvision's lines in their repr."""

    _fastpipe_repr = ""

    def extra_repr(self) -> str:
        return self._fastpipe_repr


class _Array(_Described, ImageArray):
    """A dataset of images in memory."""

    @classmethod
    def _fastpipe_of(cls, dataset: Foreign) -> Foreign:
        return cls(dataset.data, dataset.targets, dataset.transform, dataset.target_transform)


class _Mnist(_Array):
    def target_of(self, index: int) -> Foreign:
        return int(self.targets[index])


class QMNIST(_Array):
    """torchvision's dataset of that name."""

    compat: bool

    def target_of(self, index: int) -> Foreign:
        return int(self.targets[index][0]) if self.compat else self.targets[index]


class _Labelled(_Array):
    labels: Foreign

    @classmethod
    def _fastpipe_of(cls, dataset: Foreign) -> Foreign:
        count = len(dataset.data)
        converted = cls(dataset.data, range(count), dataset.transform, dataset.target_transform, channels_first=True)
        del converted.targets  # torchvision has `labels` instead
        return converted

    def target_of(self, index: int) -> Foreign:
        return None if self.labels is None else int(self.labels[index])


def _named(name: str, *bases: type) -> Foreign:
    """Makes a class of these bases with torchvision's name for the dataset."""
    return type(name, bases, {"__doc__": "torchvision's dataset of that name.", "__module__": __name__})


DatasetFolder, Flowers102, Food101 = (
    _named(name, _Described, IndexedDataset) for name in ("DatasetFolder", "Flowers102", "Food101")
)
ImageNet = _named("ImageNet", _Described, ImageFolder)
CIFAR10, CIFAR100 = (_named(name, _Array) for name in ("CIFAR10", "CIFAR100"))
MNIST, FashionMNIST = (_named(name, _Mnist) for name in ("MNIST", "FashionMNIST"))
KMNIST, EMNIST = (_named(name, _Mnist) for name in ("KMNIST", "EMNIST"))
SVHN, STL10 = (_named(name, _Labelled) for name in ("SVHN", "STL10"))


# -- from torchvision's objects


def _check_loader(dataset: object) -> None:
    """Raises `NotConvertible` unless the dataset's loader, if it has one, reads RGB images by Pillow."""
    loader = vars(dataset).get("loader", default_loader)
    if loader is default_loader:
        return
    is_function = isinstance(loader, FunctionType)
    name = (loader.__module__, loader.__qualname__) if is_function else ("", type(loader).__qualname__)
    if name not in _LOADERS or getattr(sys.modules[name[0]], name[1], None) is not loader:
        raise NotConvertible(f"its loader {name[1]} isn't torchvision's default_loader or pil_loader")
    backend = sys.modules["torchvision"].get_image_backend()
    if name[1] == "default_loader" and backend != "PIL":
        raise NotConvertible(f"torchvision's image backend is {backend}")


def _with_attributes(converted: Foreign, dataset: Foreign) -> Foreign:
    """Copies the attributes of torchvision's dataset to ours; returns ours."""
    converted.root = dataset.root
    if isinstance(converted, _Described):
        converted._fastpipe_repr = dataset.extra_repr()
    copy_attributes(converted, dataset)
    return converted


def set_samples(dataset: IndexedDataset, samples: Iterable[tuple[str | os.PathLike[str], Foreign]]) -> None:
    """Sets a dataset's samples; mapped arrays if targets are integers."""
    rows = [*samples]
    paths, targets = [os.fspath(path) for path, _ in rows], [target for _, target in rows]
    if set(map(type, targets)) == {int}:
        dataset._fastpipe_set_samples(index_of_rows((paths, targets)))
    else:
        dataset._fastpipe_set_samples(list(zip(paths, targets, strict=True)))


def _folder_files(dataset: Foreign) -> Files:
    _check_loader(dataset)
    get: Files = dataset.samples.__getitem__
    return get


def _listed_files(dataset: Foreign) -> Files:
    _check_loader(dataset)
    return lambda index: (dataset._image_files[index], dataset._labels[index])


def _of_files(kind: type[IndexedDataset], files: Callable[[Foreign], Files], dataset: Foreign, _: Convert) -> Foreign:
    converted = object.__new__(kind)
    ImageDataset.__init__(converted, dataset.transform, dataset.target_transform)
    set_samples(converted, map(files(dataset), range(len(dataset))))
    if isinstance(converted, ImageFolder):
        converted.extensions = dataset.extensions
    return _with_attributes(converted, dataset)


def _coco(dataset: Foreign, _: Convert) -> Foreign:
    converted = object.__new__(detection.CocoDetection)
    JointDataset.__init__(converted, transforms=dataset.transforms)
    converted.annotations = LoadedAnnotations(dataset.coco, dataset.ids)
    converted.coco = dataset.coco
    return _with_attributes(converted, dataset)


def _voc(kind: type[detection.VOCDetection | detection.VOCSegmentation], dataset: Foreign, _: Convert) -> Foreign:
    converted = object.__new__(kind)
    JointDataset.__init__(converted, transforms=dataset.transforms)
    images, targets = list(map(os.fspath, dataset.images)), list(map(os.fspath, dataset.targets))
    converted.index = index_of_rows((images, [0] * len(images)))
    if converted.images != images or converted.targets != targets:
        raise NotConvertible("its lists of images and of targets aren't those of VOC's folders")
    return _with_attributes(converted, dataset)


def _array(kind: type[_Array], dataset: object, _: Convert) -> Foreign:
    try:
        return _with_attributes(kind._fastpipe_of(dataset), dataset)
    except DatasetError as error:
        raise NotConvertible(str(error).rstrip(".")) from None


def _wrapped(dataset: Foreign, convert: Convert) -> Foreign:
    """Converts a dataset that ``torchvision.datasets.wrap_dataset_for_transforms_v2`` has wrapped."""
    inner = copy.copy(dataset._dataset)
    both = dataset.transforms
    inner.transforms = both
    inner.transform, inner.target_transform = (
        (both.transform, both.target_transform) if is_standard(both) else (None,) * 2
    )
    converted = convert(inner)
    if both is not None and not is_standard(both) and not isinstance(converted, JointDataset):
        raise NotConvertible("its transforms take image and target together, and its target is a number")
    return detection.wrap_dataset_for_transforms_v2(converted, dataset._target_keys)


_FOLDER_FREE = frozenset({"find_classes", "make_dataset", "parse_archives", "split_folder"})
_FOLDER = ("samples", "loader", "transform", "target_transform", "root", "classes", "class_to_idx")
_LIST = ("_image_files", "_labels", "transform", "target_transform")
_VOC = ("images", "targets", "transforms")


def _known_folder(kind: type[IndexedDataset]) -> KnownClass:
    convert = partial(_of_files, kind, _folder_files)
    return KnownClass(convert, reads=_FOLDER, free=_FOLDER_FREE, files=_folder_files)


def _known_list(kind: type[IndexedDataset]) -> KnownClass:
    return KnownClass(partial(_of_files, kind, _listed_files), reads=_LIST, files=_listed_files)


_ARRAY_FREE = frozenset({"_check_exists", "_check_integrity", "_load_data", "_load_meta", "base_folder", "download"})
_ARRAY_FREE |= {"filename", "meta", "mirrors", "resources", "test_list", "tgz_md5", "train_list", "url"}


def _known_array(kind: type[_Array], *labels: str) -> KnownClass:
    return KnownClass(partial(_array, kind), reads=("data", *labels), free=_ARRAY_FREE, in_memory=True)


TABLE = {
    "CIFAR10": _known_array(CIFAR10, "targets"),
    "CIFAR100": _known_array(CIFAR100, "targets"),
    "CocoDetection": KnownClass(_coco, ("_load_image", "_load_target"), ("coco", "ids", "root", "transforms")),
    "DatasetFolder": _known_folder(DatasetFolder),
    "EMNIST": _known_array(EMNIST, "targets"),
    "FashionMNIST": _known_array(FashionMNIST, "targets"),
    "Flowers102": _known_list(Flowers102),
    "Food101": _known_list(Food101),
    "ImageFolder": _known_folder(ImageFolder),
    "ImageNet": _known_folder(ImageNet),
    "KMNIST": _known_array(KMNIST, "targets"),
    "MNIST": _known_array(MNIST, "targets"),
    "QMNIST": _known_array(QMNIST, "targets", "compat"),
    "STL10": _known_array(STL10, "labels"),
    "SVHN": _known_array(SVHN, "labels"),
    "VOCDetection": KnownClass(partial(_voc, detection.VOCDetection), ("parse_voc_xml",), _VOC),
    "VOCSegmentation": KnownClass(partial(_voc, detection.VOCSegmentation), (), _VOC),
    "VisionDatasetTVTensorWrapper": KnownClass(_wrapped, reads=("_dataset", "_target_keys")),
}
