"""The transform of a tool that is given none."""

from __future__ import annotations

from typing import Any

__all__ = ["standard_transform"]


def standard_transform() -> Any:
    """What ImageNet's training scripts do: random crop to 224×224, flip, ``ToTensor``, ``Normalize``."""
    from fastpipe import transforms as T

    return T.Compose(
        [
            T.RandomResizedCrop(224),
            T.RandomHorizontalFlip(),
            T.ToTensor(),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
