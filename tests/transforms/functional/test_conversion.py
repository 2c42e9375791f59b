"""Images to tensors and back: torchvision's values, dtypes, modes and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torchvision_here import torchvision
from transforms.functional import cases

from fastpipe.transforms import functional as F

R = torchvision.transforms.functional


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("mode", cases.PIL_MODES)
@pytest.mark.parametrize("size", cases.SIZES, ids=str)
def test_from_pil(mode: str, size: tuple[int, int], is_shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Pillow doesn't share an image's memory, as older ones with one that is read-only."""
    if not is_shared:
        monkeypatch.setattr("fastpipe.core.image_jobs.installed", lambda: None)
        monkeypatch.setattr("fastpipe.core.pillow.installed", lambda: None)
    image = cases.pil_image(mode, *size)
    for name in ("to_tensor", "pil_to_tensor"):
        made, expected = (cases.outcome(getattr(functions, name), image) for functions in (F, R))
        cases.assert_same_outcome(made, expected)
        if size != (1, 1):
            assert made.stride() == expected.stride()
    assert F.to_tensor(image).is_contiguous()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64, bool])
@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1), (5, 4, 3), (5, 4, 4), (5, 4, 7), (5,), (1, 2, 3, 4)], ids=str)
def test_from_arrays(dtype: Any, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    for view in (array, array[::-1] if array.ndim == 1 else array[:, ::-1]):
        expected = cases.outcome(R.to_tensor, np.ascontiguousarray(view))
        cases.assert_same_outcome(cases.outcome(F.to_tensor, view), expected)


def test_noise_goes_to_the_same_pixels() -> None:
    """``randn_like`` draws for one number after the other as they lie in memory."""
    image = cases.pil_image("RGB", 5, 4)
    noise = []
    for functions in (F, R):
        torch.manual_seed(3)
        noise.append(torch.randn_like(functions.pil_to_tensor(image).float()))
    assert torch.equal(*noise)


def test_pil_to_tensor_takes_uint8_arrays_of_images() -> None:
    """Arrays that torchvision refuses stay refused, though the image of a planned pipeline is an ndarray."""
    array = cases.pixels(5, 4, 3)
    assert torch.equal(F.pil_to_tensor(array), torch.from_numpy(array).permute(2, 0, 1))
    assert F.pil_to_tensor(array[:, :, 0]).shape == (1, 5, 4)
    for other in (array.astype(np.float32), array[None], array.tolist(), torch.from_numpy(array)):
        with pytest.raises(TypeError, match="pic should be PIL Image"):
            F.pil_to_tensor(other)


@pytest.fixture
def float64_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("float64_default")
def test_the_default_dtype_counts() -> None:
    array = cases.pixels(5, 4, 3)
    assert F.to_tensor(array).dtype == torch.float64
    cases.assert_same_outcome(F.to_tensor(array), R.to_tensor(array))


def test_conversions_copy() -> None:
    array = cases.pixels(5, 4, 3)
    floats = np.zeros((5, 4, 3), np.float32)
    gray = cases.pixels(5, 4, None)
    results = [F.to_tensor(array), F.pil_to_tensor(array), F.to_tensor(floats)]
    images = [F.to_pil_image(array), F.to_pil_image(gray)]
    before = [result.clone() for result in results], [np.array(image) for image in images]
    array[:] = 0
    gray[:] = 0
    floats[:] = 1
    assert all(torch.equal(result, old) for result, old in zip(results, before[0], strict=True))
    assert all(np.array_equal(np.asarray(image), old) for image, old in zip(images, before[1], strict=True))


@pytest.mark.parametrize(
    "mode", [None, "L", "LA", "RGB", "YCbCr", "HSV", "RGBA", "CMYK", "RGBX", "I", "F", "I;16", "1"]
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64, np.uint16])
def test_to_pil_image(dtype: Any, mode: str | None) -> None:
    rng = np.random.default_rng(0)
    for shape in [(5, 4), (5, 4, 1), (5, 4, 2), (5, 4, 3), (5, 4, 4), (5, 4, 5), (5,), (2, 5, 4, 3)]:
        array = rng.integers(0, 200, shape).astype(dtype)
        if np.issubdtype(dtype, np.floating):
            array /= 200
        pictures: list[Any] = [array, array[::-1]]
        pictures.append(torch.from_numpy(array if array.ndim != 3 else np.ascontiguousarray(array.transpose(2, 0, 1))))
        for picture in pictures:
            expected = cases.outcome(R.to_pil_image, picture, mode)
            cases.assert_same_outcome(cases.outcome(F.to_pil_image, picture, mode), expected)


def test_to_pil_image_detaches() -> None:
    tensor = torch.rand(3, 5, 4, requires_grad=True)
    cases.assert_same_outcome(F.to_pil_image(tensor), R.to_pil_image(tensor))
