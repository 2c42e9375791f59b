"""Policies of many operations, learned or random: AutoAugment, RandAugment, TrivialAugment; and AugMix."""

from collections.abc import Iterable

import torch
from torch import Tensor

from fastpipe.ops.enums import TorchvisionEnum
from fastpipe.program import run_steps
from fastpipe.rng import TorchStream, stream_of
from fastpipe.rng.float32 import float32
from fastpipe.tensor_kernels.torchscript import Image, is_scripting
from fastpipe.transforms import _policies
from fastpipe.transforms import functional as F
from fastpipe.transforms._base import Filled
from fastpipe.transforms._operations import apply_op as _apply_op
from fastpipe.transforms._operations import (
    auto_augment_space,
    draw_listed,
    draw_operation,
    listed_space,
    op_calls,
    rand_augment_space,
    space_for,
    trivial_augment_space,
)
from fastpipe.transforms.augmix import AugMix
from fastpipe.transforms.functional import InterpolationMode
from fastpipe.types import Fill, Generators, ImageShape, Step

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"]


class AutoAugmentPolicy(TorchvisionEnum):
    """The datasets that AutoAugment's policies were learned on."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


class _Policy(Filled):
    """The base of transforms that choose a few operations with magnitudes, and apply them one after the other."""

    def _applied(self, img: Image, chosen: list[tuple[str, float]]) -> Image:
        if not isinstance(img, Tensor):
            changed: Image = run_steps(self._steps(chosen), img)
            return changed
        fill = self._filling(img, F.get_dimensions(img)[0])
        for op_name, magnitude in chosen:
            img = _apply_op(img, op_name, magnitude, interpolation=self.interpolation, fill=fill)
        return img

    def _steps(self, chosen: Iterable[tuple[str, float]]) -> tuple[Step, ...]:
        fill = self._fill_as_key()
        return tuple(step for name, level in chosen for step in op_calls(name, level, self.interpolation, fill))


class AutoAugment(_Policy):
    """One of 25 learned pairs of operations, each applied with its own probability (Cubuk et al., 2019).

    For uint8 images of 1 or 3 channels. Paper: https://arxiv.org/abs/1805.09501.

    Args:
        policy: the dataset that the policy was learned on.
        interpolation: for the operations that warp; tensors take NEAREST and BILINEAR.
        fill: the value outside of a warped image: a number, or one for each channel; None for 0.

    Raises:
        ValueError: ``policy`` isn't an `AutoAugmentPolicy`.
    """

    _repr_format = "policy={0.policy}, fill={0.fill}"

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: Fill = None,
    ) -> None:
        super().__init__()
        self.policy = AutoAugmentPolicy.adopt(policy)
        self.interpolation = InterpolationMode.adopt(interpolation)
        self.fill = fill
        self.policies = self._get_policies(policy)

    def _get_policies(self, policy: AutoAugmentPolicy) -> _policies.Policy:
        policy = AutoAugmentPolicy.adopt(policy)
        if not isinstance(policy, AutoAugmentPolicy):
            raise ValueError(f"The provided policy {policy} is not recognized.")
        return list(getattr(_policies, policy.name))

    def _augmentation_space(self, num_bins: int, image_size: tuple[int, int]) -> dict[str, tuple[Tensor, bool]]:
        if is_scripting():
            return auto_augment_space(num_bins, image_size)
        return space_for(auto_augment_space, num_bins, image_size)

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """Draws the index of a sub-policy, two random numbers for its probabilities, and two for its signs.

        Args:
            transform_num: number of sub-policies.
        """
        return TorchStream().randint(0, transform_num), torch.rand([2]), torch.randint(0, 2, [2])

    def forward(self, img: Image) -> Image:
        """Returns the augmented image."""
        _, height, width = F.get_dimensions(img)
        transform_id, probs, signs = self.get_params(len(self.policies))
        chances: list[float] = probs.tolist()  # numbers are compared in a tenth of a tensor's time
        numbers: list[int] = signs.tolist()
        op_meta = self._augmentation_space(10, (height, width))
        return self._applied(img, _chosen_operations(self.policies[transform_id], op_meta, chances, numbers))

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        stream = stream_of(generators)
        index = stream.randint(0, len(self.policies))
        probs = [stream.rand(), stream.rand()]
        signs = [stream.randint(0, 2), stream.randint(0, 2)]
        space = self._augmentation_space(10, (shape.height, shape.width))
        return self._steps(_chosen_operations(self.policies[index], space, probs, signs))


def _is_at_most(drawn: float, p: float) -> bool:
    """``drawn <= p`` for a number drawn in float32, compared in float32, as a tensor is."""
    if is_scripting():
        return drawn <= float(torch.tensor(p, dtype=torch.float32).item())
    return drawn <= float32(p)


def _chosen_operations(
    policy: tuple[tuple[str, float, int | None], tuple[str, float, int | None]],
    op_meta: dict[str, tuple[Tensor, bool]],
    probs: list[float],
    signs: list[int],
) -> list[tuple[str, float]]:
    """The operations of a sub-policy that the drawn numbers choose, with their magnitudes."""
    chosen: list[tuple[str, float]] = []
    for i, (op_name, p, magnitude_id) in enumerate(policy):
        if _is_at_most(probs[i], p):
            magnitudes, signed = op_meta[op_name]
            magnitude = float(magnitudes[magnitude_id].item()) if magnitude_id is not None else 0.0
            if signed and signs[i] == 0:
                magnitude *= -1.0
            chosen.append((op_name, magnitude))
    return chosen


class RandAugment(_Policy):
    """Random operations of one magnitude (Cubuk et al., 2020, https://arxiv.org/abs/1909.13719).

    For uint8 images of 1 or 3 channels.

    Args:
        num_ops: number of operations, applied one after the other.
        magnitude: the index of their magnitude.
        num_magnitude_bins: number of magnitudes.
        interpolation: for the operations that warp; tensors take NEAREST and BILINEAR.
        fill: the value outside of a warped image: a number, or one for each channel; None for 0.
    """

    _repr_format = (
        "num_ops={0.num_ops}, magnitude={0.magnitude}, num_magnitude_bins={0.num_magnitude_bins}"
        ", interpolation={0.interpolation}, fill={0.fill}"
    )

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: Fill = None,
    ) -> None:
        super().__init__()
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins
        self.interpolation = InterpolationMode.adopt(interpolation)
        self.fill = fill

    def _augmentation_space(self, num_bins: int, image_size: tuple[int, int]) -> dict[str, tuple[Tensor, bool]]:
        if is_scripting():
            return rand_augment_space(num_bins, image_size)
        return space_for(rand_augment_space, num_bins, image_size)

    def forward(self, img: Image) -> Image:
        """Returns the augmented image."""
        _, height, width = F.get_dimensions(img)
        op_meta = self._augmentation_space(self.num_magnitude_bins, (height, width))
        stream = TorchStream()
        for _ in range(self.num_ops):  # an operation that raises ends the draws
            img = self._applied(img, [draw_operation(op_meta, self.magnitude, 0, stream)])
        return img

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        space = listed_space(rand_augment_space, self.num_magnitude_bins, (shape.height, shape.width))
        stream = stream_of(generators)
        return self._steps(draw_listed(space, self.magnitude, 0, stream) for _ in range(self.num_ops))


class TrivialAugmentWide(_Policy):
    """One random operation of random magnitude (Müller and Hutter, 2021, https://arxiv.org/abs/2103.10158).

    For uint8 images of 1 or 3 channels.

    Args:
        num_magnitude_bins: number of magnitudes.
        interpolation: for the operations that warp; tensors take NEAREST and BILINEAR.
        fill: the value outside of a warped image: a number, or one for each channel; None for 0.
    """

    _repr_format = "num_magnitude_bins={0.num_magnitude_bins}, interpolation={0.interpolation}, fill={0.fill}"

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: Fill = None,
    ) -> None:
        super().__init__()
        self.num_magnitude_bins = num_magnitude_bins
        self.interpolation = InterpolationMode.adopt(interpolation)
        self.fill = fill

    def _augmentation_space(self, num_bins: int) -> dict[str, tuple[Tensor, bool]]:
        if is_scripting():
            return trivial_augment_space(num_bins)
        return space_for(trivial_augment_space, num_bins)

    def forward(self, img: Image) -> Image:
        """Returns the augmented image."""
        F.get_dimensions(img)  # raises for what is no image before anything is drawn
        op_meta = self._augmentation_space(self.num_magnitude_bins)
        return self._applied(img, [draw_operation(op_meta, None, 0, TorchStream())])

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        space = listed_space(trivial_augment_space, self.num_magnitude_bins)
        return self._steps([draw_listed(space, None, 0, stream_of(generators))])
