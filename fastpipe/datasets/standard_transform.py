"""torchvision's default loader, and its class that has the two transforms as one."""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image

from fastpipe import readers
from fastpipe.types import Sample


def default_loader(path: str) -> Image.Image:
    """The whole image as an RGB PIL image, read by this machine's fastest exact reader."""
    return Image.fromarray(readers.read_image(path))


class StandardTransform:
    """An image's and a target's transform as one call on both; torchvision's attribute ``dataset.transforms``."""

    def __init__(
        self, transform: Callable[..., object] | None = None, target_transform: Callable[..., object] | None = None
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input: object, target: object) -> Sample:
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


def is_standard(transforms: object) -> bool:
    """Whether an object is a `StandardTransform`, this one or torchvision's: each half sees its own part alone."""
    kind = type(transforms)
    theirs = ("torchvision.datasets.vision", "StandardTransform")
    return kind is StandardTransform or (kind.__module__, kind.__name__) == theirs
