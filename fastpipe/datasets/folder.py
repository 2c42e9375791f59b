"""Image files in one folder a class: torchvision's layout, order, attributes and errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastpipe.config import MachineConfig
from fastpipe.datasets.base import ImageDataset, default_loader
from fastpipe.pipeline import Fidelity

__all__ = [
    "IMG_EXTENSIONS",
    "ImageFolder",
    "find_classes",
    "has_file_allowed_extension",
    "is_image_file",
    "make_dataset",
]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Whether a file's name ends with one of the (lower-case) extensions, whatever its own case."""
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename: str) -> bool:
    """Whether a file's name ends with one of `IMG_EXTENSIONS`."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: str | Path) -> tuple[list[str], dict[str, int]]:
    """The class folders of a directory, sorted, and their indices.

    Raises:
        FileNotFoundError: the directory doesn't exist or holds no folder.
    """
    if not os.path.isdir(directory):
        kind = NotADirectoryError if os.path.exists(directory) else FileNotFoundError
        raise kind(
            f"{os.fspath(directory)} is not a folder: give the one that holds a folder of images for each class."
        )
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(
            f"Couldn't find any class folder in {os.fspath(directory)}. "
            "ImageFolder expects one folder a class, with the images inside: root/class/image.jpg."
        )
    return classes, {name: index for index, name in enumerate(classes)}


def make_dataset(
    directory: str | Path,
    class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """The ``(path, class index)`` of every sample, in torchvision's order: by class, then folder, then name.

    Args:
        directory: the root folder.
        class_to_idx: class folders and their indices; None for all of them, sorted.
        extensions: endings that count, lower-case; either these or `is_valid_file`.
        is_valid_file: takes a path and says whether it counts.
        allow_empty: whether a class folder may be without a valid file.

    Raises:
        ValueError: not exactly one of `extensions` and `is_valid_file` is given, or `class_to_idx` is empty.
        FileNotFoundError: a class has no valid file and `allow_empty` is False.
    """
    directory = os.path.expanduser(directory)
    if class_to_idx is None:
        _, class_to_idx = find_classes(directory)
    elif not class_to_idx:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")

    def counts(path: str) -> bool:
        return is_valid_file(path) if is_valid_file else has_file_allowed_extension(path, extensions or ())

    samples: list[tuple[str, int]] = []
    empty = []
    for name in sorted(class_to_idx):
        before = len(samples)
        # followlinks as torchvision does: data sets are often folders of links
        for root, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            paths = (os.path.join(root, file) for file in sorted(files))
            samples.extend((path, class_to_idx[name]) for path in paths if counts(path))
        if len(samples) == before:
            empty.append(name)
    if empty and not allow_empty:
        message = f"Found no valid file for the classes {', '.join(empty)}. "
        if extensions is not None:
            message += (
                f"Supported extensions are: {extensions if isinstance(extensions, str) else ', '.join(extensions)}"
            )
        raise FileNotFoundError(message)
    return samples


class ImageFolder(ImageDataset):
    """A map-style dataset over ``root/class/….jpg``; a drop-in for ``torchvision.datasets.ImageFolder``.

    A fastpipe transform is drawn from the image's size before a pixel is decoded, so that only the crop is
    decoded; any other transform gets the PIL image that it expects. Either way the sample equals torchvision's
    for the same seed, within the contract in the README.

    Args:
        root: the folder that holds one folder a class.
        transform: takes a PIL image (a fastpipe transform: is compiled).
        target_transform: takes the class index.
        loader: takes a path and returns an image. Any but the default switches off compiled decoding.
        is_valid_file: takes a path and says whether it is a sample; None goes by extension.
        allow_empty: whether a class folder may be without a valid file.
        reader: the name of a reader to use for every format; None for the machine's config.
        config: the machine's config; None reads the one on disk when the first sample is read.
        fidelity: ``"torchvision"``, or ``"fast"`` to allow decoding at a reduced scale.
        apply_exif: turn each image upright by its EXIF orientation; torchvision's loader doesn't.
        seed: make each sample's random numbers depend on (seed, epoch, index) alone; None draws them from the global
            generators as torchvision does. See `set_epoch`.

    Attributes:
        classes: class names, sorted.
        class_to_idx: their indices.
        samples, imgs: ``(path, class index)`` pairs.
        targets: the class index of each sample.

    Raises:
        FileNotFoundError: `root` is no folder, has no class folder, or a class has no valid file.
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        reader: str | None = None,
        config: MachineConfig | None = None,
        fidelity: Fidelity = "torchvision",
        apply_exif: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            transform,
            target_transform,
            loader=loader,
            reader=reader,
            config=config,
            fidelity=fidelity,
            apply_exif=apply_exif,
            seed=seed,
        )
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        self.extensions = IMG_EXTENSIONS if is_valid_file is None else None
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(
            self.root,
            self.class_to_idx,
            extensions=self.extensions,
            is_valid_file=is_valid_file,
            allow_empty=allow_empty,
        )
        self.targets = [target for _, target in self.samples]
        self.imgs = self.samples

    @staticmethod
    def make_dataset(
        directory: str | Path,
        class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """The samples; override it to list them another way.

        Raises:
            ValueError: `class_to_idx` is None: the classes come from `find_classes`.
        """
        if class_to_idx is None:
            raise ValueError("The class_to_idx parameter cannot be None.")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """Class names and indices; override it to use only some folders, or other indices."""
        return find_classes(directory)

    def sample(self, index: int) -> tuple[str, int]:
        return self.samples[index]

    def __len__(self) -> int:
        return len(self.samples)
