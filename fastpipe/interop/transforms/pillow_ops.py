"""Operations of timm's with Pillow that torchvision lacks: a look-up, mixtures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from fastpipe import ops
from fastpipe.kernels.arrays import UInt8Array, through_pillow
from fastpipe.kernels.color import apply_table
from fastpipe.program.lower import lower
from fastpipe.program.on_image import run_on_image
from fastpipe.program.program import steps_in_words
from fastpipe.types import ImageShape, Step

_LEVELS = np.arange(256)


def _like(image: Image.Image, array: UInt8Array) -> Image.Image:
    """Converts an array to a PIL image of the mode of another image."""
    return Image.fromarray(array if image.mode == "RGB" else array.reshape(image.height, image.width))


@dataclass(frozen=True, slots=True, eq=False)
class LightenBelow(ops.TableOperation):
    """Adds a number to values below a threshold."""

    op: ClassVar[str] = "lighten_below"
    phrase: ClassVar[str] = "{add} added below {threshold}"
    pointwise: ClassVar[bool] = True
    takes_arrays_alone: ClassVar[bool] = True
    threshold: int
    add: int

    def apply(self, image: UInt8Array) -> UInt8Array:
        return apply_table(image, self.table())

    def table(self) -> NDArray[np.uint8]:
        table: NDArray[np.uint8] = np.where(self.threshold > _LEVELS, np.minimum(255, _LEVELS + self.add), _LEVELS)
        return table.astype(np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class PosterizeByPillow(ops.Operation):
    """`Posterize` to 0 bits or fewer, which some versions of Pillow refuse."""

    op: ClassVar[str] = "posterize"
    phrase: ClassVar[str] = "posterized to {bits} bits"
    pointwise: ClassVar[bool] = True
    takes_arrays_alone: ClassVar[bool] = True
    bits: int

    def apply(self, image: UInt8Array) -> UInt8Array:
        return through_pillow(image, lambda one: ImageOps.posterize(one, self.bits))


@dataclass(frozen=True, slots=True, eq=False)
class MixChains(ops.Operation):
    """timm's AugMix: mixes the results of chains of operations with each other and with the image."""

    op: ClassVar[str] = "mix_chains"
    moves: ClassVar[bool] = False
    takes_arrays_alone: ClassVar[bool] = True
    weights: Sequence[float] | NDArray[np.float32]  # the chains' weights
    chains: tuple[tuple[Step, ...], ...]  # the chains' steps
    share: float | None = None  # the share of the mixed chains in the result; None to blend the chains in one by one

    def apply(self, image: UInt8Array) -> UInt8Array:
        results = zip(self.weights, (self._run(chain, image) for chain in self.chains), strict=True)
        share = self.share
        if share is None:
            return through_pillow(image, lambda one: self._blended(one, results))
        mixed = np.zeros(image.shape, dtype=np.float32)
        for weight, result in results:
            mixed += weight * result.astype(np.float32)
        np.clip(mixed, 0, 255.0, out=mixed)
        other = mixed.astype(np.uint8)
        return through_pillow(image, lambda one: Image.blend(one, _like(one, other), share))

    @staticmethod
    def _run(chain: tuple[Step, ...], image: UInt8Array) -> UInt8Array:
        if not chain:
            return image
        result: UInt8Array = run_on_image(lower(chain, ImageShape(*(*image.shape, 1)[:3])), image)
        return result.reshape(image.shape)

    @staticmethod
    def _blended(image: Image.Image, results: Iterable[tuple[float, UInt8Array]]) -> Image.Image:
        for weight, result in results:
            image = Image.blend(image, _like(image, result), weight)
        return image

    def words(self) -> str:
        chains = [", ".join(steps_in_words(chain)) or "itself" for chain in self.chains]
        mixed = " + ".join(f"{weight:.0%} ({text})" for weight, text in zip(self.weights, chains, strict=True))
        return f"mixed of {mixed}"

    def __str__(self) -> str:
        chains = [" → ".join(map(str, chain)) or "itself" for chain in self.chains]
        mixed = " + ".join(f"{weight:.3f} × ({text})" for weight, text in zip(self.weights, chains, strict=True))
        return f"mix_chains({mixed}{'' if self.share is None else f', share={self.share:.3f}'})"


@dataclass(frozen=True, slots=True, eq=False)
class AsNumpy(ops.Operation):
    """Converts a tensor to an array that shares its memory."""

    op: ClassVar[str] = "as_numpy"
    moves: ClassVar[bool] = False

    def apply(self, image: torch.Tensor) -> NDArray[np.generic]:
        array: NDArray[np.generic] = image.numpy()
        return array


class ToTensorOnce(ops.ToTensor):
    """`ToTensor` that leaves tensors as they are."""

    __slots__ = ()

    def apply(self, image: object) -> object:
        return image if isinstance(image, torch.Tensor) else ops.Operation.apply(self, image)


class PilToTensorOnce(ops.PilToTensor):
    """`PilToTensor` that leaves tensors as they are."""

    __slots__ = ()

    def apply(self, image: object) -> object:
        return image if isinstance(image, torch.Tensor) else ops.Operation.apply(self, image)
