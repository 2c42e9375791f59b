"""Conversions between PIL images, arrays and tensors, and the arithmetic on tensors that ends most pipelines."""

import contextlib
import copy
from collections.abc import Sequence

import PIL.Image
import torch
from torch import Tensor

from fastpipe import ops
from fastpipe.transforms import functional as F
from fastpipe.transforms._base import ReprMixin, Transform
from fastpipe.types import Array, Generators, ImageShape, Step


class ToTensor(ReprMixin):
    """Converts a PIL image or an ndarray ``(H, W)`` or ``(H, W, C)`` to a tensor ``(C, H, W)``.

    uint8 values (and the PIL modes L, LA, P, RGB, YCbCr, RGBA, CMYK, 1) become float32 in [0, 1]; other dtypes are
    kept, without scaling. So don't use it for masks of class labels. Not scriptable.
    """

    _looks_at_shape = False
    _draws_nothing = True

    def __init__(self) -> None:
        pass

    def __call__(self, pic: "PIL.Image.Image | Array") -> Tensor:
        return F.to_tensor(pic)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (_TO_TENSOR,)


class PILToTensor(ReprMixin):
    """Converts a PIL image to a tensor ``(C, H, W)`` of its own dtype, unscaled; copies the data. Not scriptable."""

    _looks_at_shape = False
    _draws_nothing = True

    def __init__(self) -> None:
        pass

    def __call__(self, pic: "PIL.Image.Image | Array") -> Tensor:
        return F.pil_to_tensor(pic)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (_PIL_TO_TENSOR,)


class ConvertImageDtype(torch.nn.Module):
    """Converts a tensor image to another dtype, scaled to that dtype's range ([0, 1] for floats).

    Args:
        dtype: the dtype of the result.

    Raises:
        RuntimeError: when called, from float32 to int32 or int64, or from float64 to int64, because such a float can't
            represent every integer of the range.
    """

    _looks_at_shape = False
    _draws_nothing = True

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        """Converts a tensor ``(…, C, H, W)``."""
        return F.convert_image_dtype(image, self.dtype)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (ops.interned_once(ops.ConvertImageDtype, self.dtype),)


class ToPILImage:
    """Converts a tensor ``(C, H, W)`` or an ndarray ``(H, W, C)`` to a PIL image. Not scriptable.

    Args:
        mode: Pillow's mode of the result. By default RGBA for 4 channels, RGB for 3, LA for 2, and for 1 a mode that
            fits the dtype.
    """

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: "Tensor | Array") -> PIL.Image.Image:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class Normalize(Transform):
    """``(image - mean) / std`` for each channel of a float tensor ``(…, C, H, W)``.

    Args:
        mean: one number for each channel.
        std: one number for each channel; none may be 0.
        inplace: overwrite the given tensor. (A drawn pipeline never does; the result is the same.)
    """

    _looks_at_shape = False
    _draws_nothing = True

    _repr_format = "mean={0.mean}, std={0.std}"

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, tensor: Tensor) -> Tensor:
        """Returns the normalised tensor."""
        return F.normalize(tensor, self.mean, self.std, self.inplace)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        mean, std = _numbers(self.mean), _numbers(self.std)
        if mean is not None and std is not None:
            with contextlib.suppress(TypeError):  # nested lists aren't hashable
                return (ops.interned_once(ops.Normalize, mean, std),)
        # Copied, because a step must not change when the transform does.
        return (ops.Normalize(copy.deepcopy(self.mean), copy.deepcopy(self.std)),)


def _numbers(given: object) -> float | tuple[object, ...] | None:
    """The numbers as a key of the cache of operations: of a float, list, tuple or float32 vector; None for others."""
    if isinstance(given, float):
        return given
    if isinstance(given, (list, tuple)):
        return tuple(given)
    if isinstance(given, Tensor) and given.dtype == torch.float32 and given.ndim == 1 and given.device.type == "cpu":
        return tuple(given.tolist())
    return None


class LinearTransformation(torch.nn.Module):
    """``(flattened image - mean_vector) @ transformation_matrix`` in the image's own shape, as for whitening.

    Args:
        transformation_matrix: a tensor ``(D, D)`` with ``D = C * H * W``.
        mean_vector: a tensor ``(D,)``.

    Raises:
        ValueError: the two don't fit each other in size, dtype or device; when called, the image doesn't fit them.
    """

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        rows, columns = transformation_matrix.size(0), transformation_matrix.size(1)
        if rows != columns:
            raise ValueError(
                f"transformation_matrix should be square. Got {tuple(transformation_matrix.size())} rectangular matrix."
            )
        if mean_vector.size(0) != rows:
            raise ValueError(
                f"mean_vector should have the same length {mean_vector.size(0)}"
                f" as any one of the dimensions of the transformation_matrix [{tuple(transformation_matrix.size())}]"
            )
        if transformation_matrix.device != mean_vector.device:
            raise ValueError(
                "Input tensors should be on the same device. "
                f"Got {transformation_matrix.device} and {mean_vector.device}"
            )
        if transformation_matrix.dtype != mean_vector.dtype:
            raise ValueError(
                f"Input tensors should have the same dtype. Got {transformation_matrix.dtype} and {mean_vector.dtype}"
            )
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def forward(self, tensor: Tensor) -> Tensor:
        """Transforms a tensor ``(…, C, H, W)``."""
        shape = tensor.shape
        n = shape[-3] * shape[-2] * shape[-1]
        if n != self.transformation_matrix.shape[0]:
            raise ValueError(
                "Input tensor and transformation matrix have incompatible shape."
                f"[{shape[-3]} x {shape[-2]} x {shape[-1]}] != {self.transformation_matrix.shape[0]}"
            )
        if tensor.device.type != self.mean_vector.device.type:
            raise ValueError(
                "Input tensor should be on the same device as transformation matrix and mean vector. "
                f"Got {tensor.device} vs {self.mean_vector.device}"
            )
        flat = tensor.view(-1, n) - self.mean_vector
        return torch.mm(flat, self.transformation_matrix.to(flat.dtype)).view(shape)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}(transformation_matrix={self.transformation_matrix.tolist()}"
            f", mean_vector={self.mean_vector.tolist()})"
        )


_TO_TENSOR = ops.interned_once(ops.ToTensor)
_PIL_TO_TENSOR = ops.interned_once(ops.PilToTensor)
