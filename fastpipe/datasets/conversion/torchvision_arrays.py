"""torchvision's data sets whose images are in memory. Each class has torchvision's name for it, and derives from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastpipe.datasets.conversion.known import KnownClass, NotConvertible, copy_attributes
from fastpipe.datasets.image_array import ImageArray
from fastpipe.errors import DatasetError


class Converted(ImageArray):
    """Base of images in memory with torchvision's attributes."""

    _fastpipe_repr = ""

    def extra_repr(self) -> str:
        return self._fastpipe_repr


class CIFAR10(Converted):
    """torchvision's data set of that name."""


class CIFAR100(Converted):
    """torchvision's data set of that name."""


class _Mnist(Converted):
    def target_of(self, index: int) -> Any:
        return int(self.targets[index])


class MNIST(_Mnist):
    """torchvision's data set of that name."""


class FashionMNIST(_Mnist):
    """torchvision's data set of that name."""


class KMNIST(_Mnist):
    """torchvision's data set of that name."""


class EMNIST(_Mnist):
    """torchvision's data set of that name."""


class QMNIST(Converted):
    """torchvision's data set of that name."""

    compat: bool

    def target_of(self, index: int) -> Any:
        return int(self.targets[index][0]) if self.compat else self.targets[index]


class _Labelled(Converted):
    labels: Any

    def target_of(self, index: int) -> Any:
        return None if self.labels is None else int(self.labels[index])


class SVHN(_Labelled):
    """torchvision's data set of that name."""


class STL10(_Labelled):
    """torchvision's data set of that name."""


def _converter(kind: type[Converted], targets: str, channels_first: bool) -> Callable[[Any, Any], Any]:
    def convert(dataset: Any, _: Any) -> Any:
        labels = getattr(dataset, targets)
        count = len(dataset.data)
        given = range(count) if labels is None or targets != "targets" else labels
        try:
            made = kind(dataset.data, given, dataset.transform, dataset.target_transform, channels_first=channels_first)
        except DatasetError as error:
            raise NotConvertible(str(error).rstrip(".")) from None
        if targets != "targets":
            del made.targets
        made.root = dataset.root
        made._fastpipe_repr = dataset.extra_repr()
        copy_attributes(made, dataset)
        return made

    return convert


def _known(kind: type[Converted], targets: str = "targets", *more: str, channels_first: bool = False) -> KnownClass:
    free = frozenset({"_check_exists", "_check_integrity", "_load_data", "_load_meta", "base_folder", "download"})
    free |= {"filename", "meta", "mirrors", "resources", "test_list", "tgz_md5", "train_list", "url"}
    return KnownClass(_converter(kind, targets, channels_first), reads=("data", targets, *more), free=free)


TABLE = {
    "CIFAR10": _known(CIFAR10),
    "CIFAR100": _known(CIFAR100),
    "EMNIST": _known(EMNIST),
    "FashionMNIST": _known(FashionMNIST),
    "KMNIST": _known(KMNIST),
    "MNIST": _known(MNIST),
    "QMNIST": _known(QMNIST, "targets", "compat"),
    "STL10": _known(STL10, "labels", channels_first=True),
    "SVHN": _known(SVHN, "labels", channels_first=True),
}
"""The classes that are known, and how each is converted."""
