"""Arrays to tensors: bit-equal to torchvision, into given slots, from any view."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torchvision_here import torchvision  # noqa: F401  (makes the next import work)

import torchvision.transforms.functional as tv  # isort: skip

from fastpipe.kernels import conversion

Array = np.ndarray[Any, np.dtype[np.uint8]]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def test_tensors_equal_torchvisions(image: Array, to_pil: Any) -> None:
    picture = to_pil(image)
    assert torch.equal(conversion.array_to_tensor(image), tv.pil_to_tensor(picture))
    assert torch.equal(conversion.to_tensor(image), tv.to_tensor(picture))
    assert conversion.array_to_tensor(image).is_contiguous()


def test_normalized_tensor_is_bit_equal(image: Array, to_pil: Any) -> None:
    count = 1 if image.ndim == 2 else image.shape[2]
    for mean, std in ((MEAN[:count], STD[:count]), ([0.5], [0.5]), ([0.1307], [0.3081])):
        expected = tv.normalize(tv.to_tensor(to_pil(image)), mean, std)
        assert torch.equal(conversion.to_tensor(image, None, mean, std), expected)
        multiplied = tv.normalize(tv.pil_to_tensor(to_pil(image)).float().mul_(1 / 255), mean, std)
        assert torch.equal(conversion.to_tensor(image, None, mean, std, multiplied=True), multiplied)


def test_statistics_of_another_number_of_channels() -> None:
    gray = np.arange(12, dtype=np.uint8).reshape(3, 4)
    with pytest.raises(RuntimeError, match="3 values for an image of 1 channels"):
        conversion.to_tensor(gray, None, MEAN, STD)


def test_into_a_slot_of_a_batch(photo: Array) -> None:
    height, width = photo.shape[:2]
    batch = torch.full((3, 3, height, width), 7.0)
    assert conversion.to_tensor(photo, batch[1], MEAN, STD).data_ptr() == batch[1].data_ptr()
    assert torch.equal(batch[1], conversion.to_tensor(photo, None, MEAN, STD))
    conversion.to_tensor(photo, out=batch[0])
    assert torch.equal(batch[0], conversion.to_tensor(photo))
    assert (batch[2] == 7).all()
    whole = torch.zeros((2, 3, height, width), dtype=torch.uint8)
    conversion.array_to_tensor(photo, out=whole[1])
    assert torch.equal(whole[1], conversion.array_to_tensor(photo))
    assert not whole[0].any()


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (0, 0), (0, 4, 1)])
def test_empty_images(shape: tuple[int, ...]) -> None:
    empty = np.zeros(shape, dtype=np.uint8)
    expected = (shape[2] if len(shape) == 3 else 1, *shape[:2])
    assert conversion.array_to_tensor(empty).shape == expected
    assert conversion.to_tensor(empty).shape == expected
    assert conversion.to_tensor(empty, None, [0.5], [0.5]).shape == expected


def test_read_only_and_reversed_views(photo: Array) -> None:
    frozen = photo.copy()
    frozen.flags.writeable = False
    turned = photo[::-1, ::-1, ::-1]
    assert torch.equal(conversion.array_to_tensor(frozen), conversion.array_to_tensor(photo))
    assert torch.equal(conversion.array_to_tensor(turned), conversion.array_to_tensor(np.ascontiguousarray(turned)))
