"""torchvision's ``default_loader`` and ``StandardTransform``."""

from __future__ import annotations

from typing import TypeGuard

from PIL import Image

from fastpipe import readers
from fastpipe.types import Sample, Transform


def default_loader(path: str) -> Image.Image:
    """The whole image as an RGB PIL image, read by this machine's fastest exact reader."""
    return Image.fromarray(readers.read_image(path))


class StandardTransform:
    """Calls the image's and the target's transform, as torchvision's attribute ``dataset.transforms`` does."""

    def __init__(self, transform: Transform | None = None, target_transform: Transform | None = None) -> None:
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


def is_standard(transforms: object) -> TypeGuard[StandardTransform]:
    """True if an object is a `StandardTransform`, ours or torchvision's, whose transforms see only one part each."""
    kind = type(transforms)
    theirs = ("torchvision.datasets.vision", "StandardTransform")
    return kind is StandardTransform or (kind.__module__, kind.__name__) == theirs
