"""A program's question to an image that may have no pixels: to run the next steps without them.

The classes of such images are a library's face of it, as `fastpipe.pillow.lazy_image` is Pillow's. Programs see them by
`claim_of` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import torch

from fastpipe.ops import TensorConversion
from fastpipe.types import Box, Step

Claimed: TypeAlias = tuple[object, int, bool]
"""The core's result of an image's next steps, their number, and whether it was converted, too."""


class ClaimsSteps(Protocol):
    """An image, also one of Pillow's class, that may have no pixels."""

    def _fastpipe_claim(
        self,
        box: Box | None,
        steps: tuple[Step, ...],
        conversion: TensorConversion | None,
        out: torch.Tensor | None = None,
        in_rows: bool = False,
    ) -> Claimed | None:
        """Runs steps and a conversion on a box of the image, directly from the file, if the core has all of them.

        Args:
            box: the box; None for all of the image.
            steps, conversion, out, in_rows: see `fastpipe.program.on_image.on_pixels`.

        Returns:
            The result, the number of steps, and whether it was converted, too; another image without pixels if the
            result can be one. None if the image's pixels have to be used.
        """


def claim_of(kind: type) -> Callable[..., Claimed | None] | None:
    """The method by which images of a class claim steps; None if they always have their pixels."""
    claim: Callable[..., Claimed | None] | None = getattr(kind, "_fastpipe_claim", None)
    return claim
