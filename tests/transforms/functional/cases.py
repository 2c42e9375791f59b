"""Calls of every function of `fastpipe.transforms.functional` for images of one size, and images to call them with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image

from fastpipe.transforms.functional import InterpolationMode as Mode

SIZES = [(1, 1), (1, 5), (7, 4), (10, 13), (31, 20)]
PIL_MODES = ["RGB", "L", "RGBA", "1", "P", "LA", "I", "F", "I;16", "CMYK"]

Case = tuple[str, dict[str, Any]]


def displacement(height: int, width: int) -> torch.Tensor:
    return (torch.rand(1, height, width, 2, generator=torch.Generator().manual_seed(0)) - 0.5) * 0.3


def geometry(height: int, width: int) -> list[Case]:
    return [
        ("hflip", {}),
        ("vflip", {}),
        ("crop", {"top": 0, "left": 0, "height": 1, "width": 1}),
        ("crop", {"top": -2, "left": 1, "height": height + 3, "width": 3}),
        ("crop", {"top": height + 1, "left": 0, "height": 2, "width": 3}),
        ("center_crop", {"output_size": 6}),
        ("center_crop", {"output_size": [1]}),
        ("center_crop", {"output_size": (max(1, height - 1), width + 3)}),
        ("five_crop", {"size": [1, 1]}),
        ("five_crop", {"size": (height, max(1, width // 2))}),
        ("ten_crop", {"size": 1}),
        ("ten_crop", {"size": (max(1, height // 2), width), "vertical_flip": True}),
        ("pad", {"padding": 2}),
        ("pad", {"padding": [1, 2], "fill": 7}),
        ("pad", {"padding": (3, 0, 1, 2), "padding_mode": "edge"}),
        ("pad", {"padding": [0, 0, 0, 0], "padding_mode": "reflect"}),
        ("pad", {"padding": [1], "padding_mode": "symmetric"}),
        ("pad", {"padding": (1, 0, 0, -1 if height > 1 else 1), "fill": 255}),
    ]


def resizing(height: int, width: int) -> list[Case]:
    cases: list[Case] = [
        ("resize", {"size": size, "interpolation": mode, "antialias": antialias})
        for size in ([3, 5], [height * 2, width + 1], [height, width])
        for mode in (Mode.NEAREST, Mode.NEAREST_EXACT, Mode.BILINEAR, Mode.BICUBIC)
        for antialias in (True, None)
    ]
    return [
        *cases,
        ("resize", {"size": 6}),
        ("resize", {"size": [6], "max_size": 7}),
        ("resize", {"size": (4, 2), "interpolation": 3}),
        ("resized_crop", {"top": 0, "left": 0, "height": 1, "width": 1, "size": [3, 2]}),
        ("resized_crop", {"top": 0, "left": 0, "height": height, "width": width, "size": 5, "interpolation": 0}),
    ]


def colors() -> list[Case]:
    return [
        *(("adjust_brightness", {"brightness_factor": f}) for f in (0, 0.37, 1.0, 1.8)),
        *(("adjust_contrast", {"contrast_factor": f}) for f in (0, 0.37, 1.0, 1.8)),
        *(("adjust_saturation", {"saturation_factor": f}) for f in (0, 0.37, 1.0, 1.8)),
        *(("adjust_hue", {"hue_factor": f}) for f in (-0.5, -0.13, 0.0, 0.25, 0.5)),
        ("adjust_gamma", {"gamma": 0.5}),
        ("adjust_gamma", {"gamma": 2, "gain": 1.3}),
        ("rgb_to_grayscale", {}),
        ("rgb_to_grayscale", {"num_output_channels": 3}),
        ("invert", {}),
        *(("posterize", {"bits": bits}) for bits in (0, 3, 8)),
        *(("solarize", {"threshold": threshold}) for threshold in (0, 0.4, 100)),
        ("autocontrast", {}),
        ("equalize", {}),
    ]


def filters() -> list[Case]:
    return [
        *(("adjust_sharpness", {"sharpness_factor": f}) for f in (0, 0.37, 1.0, 1.8)),
        ("gaussian_blur", {"kernel_size": 1}),
        ("gaussian_blur", {"kernel_size": [3, 5], "sigma": [0.7]}),
        ("gaussian_blur", {"kernel_size": 3, "sigma": (0.4, 1.9)}),
    ]


def warps(height: int, width: int, channels: int) -> list[Case]:
    start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
    end = [[1, 0], [width, 1], [width - 2, height - 1], [0, height]]
    fills: list[Any] = [None, 9, [17], list(range(40, 40 + channels))]
    return [
        *(
            ("rotate", {"angle": angle, "interpolation": mode, "expand": expand, "center": center, "fill": fill})
            for angle, center in ((33.3, None), (90, None), (180, None), (-90, None), (-190, [1, 2]), (0, None))
            for mode, fill in zip((Mode.NEAREST, Mode.BILINEAR) * 2, fills, strict=True)
            for expand in (False, True)
        ),
        *(
            (
                "affine",
                {"angle": angle, "translate": [1, -2], "scale": 1.2, "shear": shear, "interpolation": mode,
                 "fill": fill, "center": center},
            )
            for angle, shear, center in ((10, 5.0, None), (-100.5, [3.0, -8.0], [2, 1]), (0, (0.0, 0.0), None))
            for mode, fill in zip((Mode.BILINEAR, Mode.NEAREST) * 2, fills, strict=True)
        ),
        *(
            ("perspective", {"startpoints": start, "endpoints": end, "interpolation": mode, "fill": fill})
            for mode, fill in zip((Mode.NEAREST, Mode.BILINEAR, Mode.BILINEAR, Mode.NEAREST), fills, strict=True)
            if min(height, width) > 2
        ),
        *(
            ("elastic_transform", {"displacement": displacement(height, width), "interpolation": mode, "fill": fill})
            for mode, fill in zip((Mode.NEAREST, Mode.BILINEAR) * 2, fills, strict=True)
        ),
    ]  # fmt: skip


def pixels(height: int, width: int, channels: int | None, seed: int = 0) -> np.ndarray[Any, Any]:
    """uint8 ``(H, W)`` or ``(H, W, C)``: a smooth picture with noise, so that neighbours differ but not wildly."""
    rng = np.random.default_rng([seed, height, width, channels or 0])
    shape = (height, width) if channels is None else (height, width, channels)
    ramp = np.linspace(0, 200, height)[:, None] + np.linspace(0, 40, width)
    ramp = ramp if channels is None else ramp[:, :, None]
    return np.clip(ramp + rng.integers(-40, 60, shape), 0, 255).astype(np.uint8)


def pil_image(mode: str, height: int, width: int) -> Image.Image:
    if mode in ("RGB", "L"):
        return Image.fromarray(pixels(height, width, 3 if mode == "RGB" else None))
    if mode == "I;16":
        return Image.fromarray(pixels(height, width, None).astype(np.uint16) * 100)
    if mode in ("LA", "RGBA"):
        image = Image.fromarray(pixels(height, width, 3)).convert(mode)
        image.putalpha(Image.fromarray(pixels(height, width, None, seed=1)))
        return image
    return Image.fromarray(pixels(height, width, 3)).convert(mode)


def tensor(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Values over the whole range that the dtype has for images."""
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        return torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype)
    return torch.randint(0, 256 if dtype == torch.uint8 else 100, shape, generator=generator).to(dtype)


def outcome(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a call, or the exception that it raises."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return error


def _plain(error: Exception) -> str:
    return (
        str(error).translate(str.maketrans("[]", "()")).replace("torch.Size", "").replace("((", "(").replace("))", ")")
    )


def assert_same_outcome(actual: Any, expected: Any) -> None:
    """Equal errors (type and message), or equal images of one type, mode, dtype and shape; tuples member by member."""
    if isinstance(expected, Exception):
        assert type(actual) is type(expected), f"expected {expected!r}, got {actual!r}"
        # Torchvision's message of a wrong mode names numpy's class dtype instead of the array's dtype.
        if "supplied for input type" not in str(expected):
            assert _plain(actual) == _plain(expected)
        return
    if isinstance(actual, Exception):
        raise AssertionError(f"expected {type(expected)}") from actual
    if isinstance(expected, tuple):
        assert isinstance(actual, tuple)
        assert len(actual) == len(expected)
        for mine, theirs in zip(actual, expected, strict=True):
            assert_same_outcome(mine, theirs)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    else:
        assert actual.mode == expected.mode
        assert actual.size == expected.size
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))
        assert actual.getpalette() == expected.getpalette()
