"""AugMix: mixes several chains of random operations with the image itself."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fastpipe import ops
from fastpipe.kernels.conversion import planes_to_array
from fastpipe.rng import Stream, TorchStream, stream_of
from fastpipe.tensor_kernels import planes
from fastpipe.tensor_kernels.torchscript import Image, is_scripting
from fastpipe.transforms import functional as F
from fastpipe.transforms._base import Filled
from fastpipe.transforms._operations import Space, apply_op, aug_mix_space, draw_operation, op_calls, space_for
from fastpipe.transforms.functional import InterpolationMode
from fastpipe.types import Fill, Generators, ImageShape, Step


@dataclass(frozen=True, slots=True)
class Mixture:
    """The step that `AugMix` draws: chains of operations, and the weights of the image and of the chains' results.

    Attributes:
        weights: the weight of the image, then of each chain.
        chains: the operations of each chain.
        dtype: the dtype of the weights and of their products.
    """

    contracts: ClassVar[tuple[ops.Contract, ...]] = (ops.EXACT,)

    weights: tuple[float, ...]
    chains: tuple[tuple[ops.Operation, ...], ...]
    dtype: torch.dtype = torch.float32

    def apply(self, image: Image) -> Image:
        """Mixes the image; as in torchvision, operations run on tensors, which are mixed in the weights' dtype."""
        tensor = image if isinstance(image, Tensor) else F.pil_to_tensor(image).contiguous()  # planes, for the core
        batch = tensor[None] if tensor.ndim == 3 else tensor
        images = [batch, *(_run(chain, batch) for chain in self.chains)]
        mixed = _mix(images, torch.tensor([self.weights], dtype=self.dtype, device=batch.device)).view(tensor.shape)
        if isinstance(image, np.ndarray):
            return planes_to_array(mixed.numpy()).reshape(image.shape)
        return mixed if isinstance(image, Tensor) else F.to_pil_image(mixed)

    def output_shape(self, shape: ImageShape) -> ImageShape:
        return shape

    def words(self) -> str:
        chains = [", ".join(operation.words() for operation in chain) or "itself" for chain in self.chains]
        parts = [f"{weight:.0%} ({text})" for weight, text in zip(self.weights[1:], chains, strict=True)]
        return " + ".join((f"mixed of {self.weights[0]:.0%} itself", *parts))

    def __str__(self) -> str:
        chains = [" → ".join(map(str, chain)) or "itself" for chain in self.chains]
        weighted = [f"{weight:.3f} × ({chain})" for weight, chain in zip(self.weights[1:], chains, strict=True)]
        return " + ".join([f"mixture({self.weights[0]:.3f} × itself", *weighted]) + ")"


def _run(chain: tuple[ops.Operation, ...], image: Tensor) -> Tensor:
    for call in chain:
        image = call.apply(image)
    return image


def _mix(images: list[Tensor], weights: Tensor) -> Tensor:
    """The sum of batches ``(N, C, H, W)`` times their weights ``(N, batches)``."""
    if not is_scripting():
        mixed = planes.mixed(images, weights)
        if mixed is not None:
            return mixed
    dims = [images[0].size(0)] + [1] * (images[0].ndim - 1)
    mix = weights[:, 0].view(dims) * images[0]
    for i, image in enumerate(images[1:]):
        mix.add_(weights[:, i + 1].view(dims) * image)
    return mix.to(dtype=images[0].dtype)


class AugMix(Filled):
    """Mixes an image with several randomly augmented versions of it (Hendrycks et al., 2020).

    For uint8 images of 1 or 3 channels. Paper: https://arxiv.org/abs/1912.02781. PIL images and ndarrays go through
    the tensor operations, as PIL images do in torchvision.

    Args:
        severity: the strongest magnitude of an operation, 1 to 10.
        mixture_width: number of augmented versions.
        chain_depth: number of operations for each; negative for a random number from 1 to 3.
        alpha: the parameter of the Dirichlet and Beta distributions that the weights are drawn from.
        all_ops: also use the operations that change brightness, contrast, colour and sharpness.
        interpolation: for the operations that warp; tensors take NEAREST and BILINEAR.
        fill: the value outside of a warped image: a number, or one for each channel; None for 0.

    Raises:
        ValueError: ``severity`` is out of its range.
    """

    _repr_format = (
        "severity={0.severity}, mixture_width={0.mixture_width}, chain_depth={0.chain_depth}, alpha={0.alpha}"
        ", all_ops={0.all_ops}, interpolation={0.interpolation}, fill={0.fill}"
    )

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        fill: Fill = None,
    ) -> None:
        super().__init__()
        self._PARAMETER_MAX = 10
        if not (1 <= severity <= self._PARAMETER_MAX):
            raise ValueError(f"The severity must be between [1, {self._PARAMETER_MAX}]. Got {severity} instead.")
        self.severity = severity
        self.mixture_width = mixture_width
        self.chain_depth = chain_depth
        self.alpha = alpha
        self.all_ops = all_ops
        self.interpolation = InterpolationMode.adopt(interpolation)
        self.fill = fill

    def _augmentation_space(self, num_bins: int, image_size: tuple[int, int]) -> dict[str, tuple[Tensor, bool]]:
        if is_scripting():
            return aug_mix_space(num_bins, image_size, self.all_ops)
        return space_for(aug_mix_space, num_bins, image_size, self.all_ops)

    def _sample_dirichlet(self, params: Tensor) -> Tensor:
        return torch._sample_dirichlet(params)

    def forward(self, orig_img: Image) -> Image:
        """Returns the mixture."""
        channels, height, width = F.get_dimensions(orig_img)
        op_meta = self._augmentation_space(self._PARAMETER_MAX, (height, width))
        if not isinstance(orig_img, Tensor):
            return self._mixture(op_meta, self._draw_weights(1, torch.device("cpu")), TorchStream()).apply(orig_img)

        fill = self._filling(orig_img, channels)
        orig_dims = list(orig_img.shape)
        batch = orig_img.view([1] * max(4 - orig_img.ndim, 0) + orig_dims)
        weights = self._draw_weights(batch.size(0), batch.device)
        chains = _draw_chains(op_meta, self.mixture_width, self.chain_depth, self.severity, TorchStream())

        images = [batch]
        for chain in chains:
            aug = batch
            for op_name, magnitude in chain:
                aug = apply_op(aug, op_name, magnitude, interpolation=self.interpolation, fill=fill)
            images.append(aug)
        return _mix(images, weights).view(orig_dims)

    def _draw_weights(self, count: int, device: torch.device) -> Tensor:
        """Draws weights ``(count, 1 + mixture_width)`` for images and their chains."""
        both = self._sample_dirichlet(torch.tensor([self.alpha, self.alpha], device=device).expand(count, -1))
        each = self._sample_dirichlet(torch.tensor([self.alpha] * self.mixture_width, device=device).expand(count, -1))
        return torch.cat([both[:, :1], each * both[:, 1:]], 1)

    def _mixture(self, op_meta: Space, weights: Tensor, stream: Stream) -> Mixture:
        chains = _draw_chains(op_meta, self.mixture_width, self.chain_depth, self.severity, stream)
        calls = []
        fill = self._fill_as_key()
        for chain in chains:
            drawn = [op_calls(name, magnitude, self.interpolation, fill) for name, magnitude in chain]
            calls.append(tuple(itertools.chain.from_iterable(drawn)))
        return Mixture(tuple(weights[0].tolist()), tuple(calls), weights.dtype)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        op_meta = self._augmentation_space(self._PARAMETER_MAX, (shape.height, shape.width))
        stream = stream_of(generators)
        generator = stream.generator()
        both = torch._sample_dirichlet(torch.tensor([[self.alpha, self.alpha]]), generator)
        each = torch._sample_dirichlet(torch.tensor([[self.alpha] * self.mixture_width]), generator)
        weights = torch.cat([both[:, :1], each * both[:, 1:]], 1)
        return (self._mixture(op_meta, weights, stream),)


def _draw_chains(
    op_meta: dict[str, tuple[Tensor, bool]],
    width: int,
    depth: int,
    severity: int,
    stream: Stream,
) -> list[list[tuple[str, float]]]:
    """Draws the names and magnitudes of each chain's operations."""
    chains: list[list[tuple[str, float]]] = []
    for _ in range(width):
        count = depth if depth > 0 else stream.randint(1, 4)
        chains.append([draw_operation(op_meta, None, severity, stream) for _ in range(count)])
    return chains
