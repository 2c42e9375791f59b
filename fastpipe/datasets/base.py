"""What every image dataset shares: from a path and a transform to a sample."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, get_args

from PIL import Image
from torch.utils.data import Dataset

from fastpipe import readers
from fastpipe.config import MachineConfig, current_config
from fastpipe.errors import DatasetError
from fastpipe.pipeline import Fidelity, Pipeline, compile_pipeline, flatten, run, to_pil
from fastpipe.types import Generators, ImageShape, Recipe

__all__ = ["ImageDataset", "StandardTransform", "default_loader"]


def default_loader(path: str) -> Image.Image:
    """The whole image as an RGB PIL image, read by this machine's fastest exact reader."""
    return Image.fromarray(readers.read_image(path))


class StandardTransform:
    """An image's and a target's transform as one call on both; torchvision's attribute ``dataset.transforms``."""

    def __init__(
        self, transform: Callable[..., Any] | None = None, target_transform: Callable[..., Any] | None = None
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        return (
            input if self.transform is None else self.transform(input),
            target if self.target_transform is None else self.target_transform(target),
        )

    def __repr__(self) -> str:
        lines = ["StandardTransform"]
        for name, transform in (("Transform: ", self.transform), ("Target transform: ", self.target_transform)):
            if transform is not None:
                head, *rest = repr(transform).splitlines()
                lines += [name + head, *(" " * len(name) + line for line in rest)]
        return "\n".join(lines)


class ImageDataset(Dataset[tuple[Any, Any]]):
    """Base of the image datasets: a subclass says what sample an index is, in `sample` and ``__len__``.

    Attributes:
        transform: as given; changing it, or the members of its `Compose`, takes effect at the next sample.
        target_transform: as given.
        transforms: both as one, None where neither is given.
        loader: as given.
        reader, config, fidelity, apply_exif: as given.
    """

    root: str | os.PathLike[str] | None = None

    def __init__(
        self,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        *,
        loader: Callable[[str], Any] = default_loader,
        reader: str | None = None,
        config: MachineConfig | None = None,
        fidelity: Fidelity = "torchvision",
        apply_exif: bool = False,
    ) -> None:
        if fidelity not in get_args(Fidelity):
            raise DatasetError(f"fidelity={fidelity!r}: choose one of {', '.join(map(repr, get_args(Fidelity)))}.")
        if reader is not None:
            readers.get_reader(reader)  # an unknown or uninstalled one is told here, not in a worker
        self.transform = transform
        self.target_transform = target_transform
        has_separate_transform = transform is not None or target_transform is not None
        self.transforms = StandardTransform(transform, target_transform) if has_separate_transform else None
        self.loader = loader
        self.reader = reader
        self.config = config
        self.fidelity: Fidelity = fidelity
        self.apply_exif = apply_exif
        self._pipeline: Pipeline | None = None
        self._members: tuple[Any, ...] | None = None

    def sample(self, index: int) -> tuple[str, Any]:
        """The path and target of a sample."""
        raise NotImplementedError(f"{type(self).__name__} must define sample(index)")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    @property
    def plans(self) -> bool:
        """Whether images are decoded by plan: not where the user gave a loader of their own."""
        return self.loader is default_loader

    @property
    def pipeline(self) -> Pipeline:
        """The compiled transform; compiled anew when the transform or its `Compose`'s list has changed."""
        members = tuple(flatten(self.transform))
        known = self._members
        if self._pipeline is None or known is None or len(members) != len(known) or any(map(_differ, members, known)):
            self._pipeline, self._members = compile_pipeline(self.transform), members
        return self._pipeline

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """The transformed image and the transformed target."""
        path, target = self.sample(index)
        image = self._load(path)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def _load(self, path: str) -> Any:
        if not self.plans:
            image = self.loader(path)
            return image if self.transform is None else self.transform(image)
        if self.config is None:
            self.config = current_config()
        with open(path, "rb", buffering=0) as file:
            data = file.read()
        pipeline = self.pipeline
        image = self._draw_and_run(pipeline, data, path)
        image = to_pil(image)
        for transform in pipeline.rest:
            image = transform(image)
        return image

    def _draw_and_run(self, pipeline: Pipeline, data: bytes, path: str) -> Any:
        header = readers.parse_header(data, path)
        if self.apply_exif and header.orientation != 1:
            image: Any = readers.read_image(data, reader=self.reader, config=self.config, apply_exif=True)
            for step in pipeline.draw(ImageShape(*image.shape)):
                image = step.apply(image)
            return image
        recipe = pipeline.draw(ImageShape(header.height, header.width))
        return run(
            data,
            recipe,
            header=header,
            reader=self.reader,
            config=self.config,
            fidelity=self.fidelity,
            source=path,
        )

    def recipe(self, index: int, generators: Generators | None = None) -> Recipe:
        """Draws, as ``dataset[index]`` would, what would be done to a sample; reads its header only.

        Args:
            index: the sample.
            generators: where the numbers come from; None for the global generators, which it advances.
        """
        path, _ = self.sample(index)
        header = readers.read_header(path)
        size = header.size
        if self.apply_exif and header.orientation >= 5:
            size = type(size)(size.width, size.height)
        return self.pipeline.draw(ImageShape(*size), generators)

    def extra_repr(self) -> str:
        """Lines for the repr behind the root folder."""
        return ""

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if self.transforms is not None:
            body.append(repr(self.transforms))
        return "\n".join([f"Dataset {type(self).__name__}", *("    " + line for line in body)])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pipeline": None, "_members": None}


def _differ(one: Any, other: Any) -> bool:
    return one is not other
