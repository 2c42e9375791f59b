"""How far albumentations' operations are from torchvision's of the same name and parameters, on PIL images.

    python benchmarks/albumentations_difference.py [PATH] [--count 24] [--markdown]

PATH is a folder of photos, searched to any depth; without it, photo-like images are made. Differences are absolute
ones in 1/255, over all values of all images: mean, 99.9th percentile, largest. The last columns say the same of
fastpipe on ndarrays.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import albumentations as A
import cv2
import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table
from torchvision_here import torchvision

from fastpipe.tools.bench.samples import photo
from fastpipe.transforms import functional as F

V = torchvision.transforms.functional
Operation = Callable[[Any], Any]


def jitter(**factors: tuple[float, float]) -> Any:
    neutral = {"brightness": (1.0, 1.0), "contrast": (1.0, 1.0), "saturation": (1.0, 1.0), "hue": (0.0, 0.0)}
    return A.ColorJitter(**{**neutral, **factors}, p=1)


def rows() -> dict[str, tuple[Callable[[Any], Operation], Any]]:
    """For each operation: torchvision's (or fastpipe's) call, given the module, and albumentations' transform."""
    bilinear, bicubic = V.InterpolationMode.BILINEAR, V.InterpolationMode.BICUBIC

    def mode(module: Any, which: Any) -> Any:
        return module.InterpolationMode(which.value)

    return {
        "hflip": (lambda m: m.hflip, A.HorizontalFlip(p=1)),
        "center_crop, 64": (lambda m: lambda x: m.center_crop(x, [64, 64]), A.CenterCrop(64, 64, p=1)),
        "resize to 224, bilinear": (
            lambda m: lambda x: m.resize(x, [224, 224], mode(m, bilinear)),
            A.Resize(224, 224, interpolation=cv2.INTER_LINEAR, p=1),
        ),
        "the same, albumentations with INTER_AREA": (
            lambda m: lambda x: m.resize(x, [224, 224], mode(m, bilinear)),
            A.Resize(224, 224, interpolation=cv2.INTER_AREA, p=1),
        ),
        "resize to 224, bicubic": (
            lambda m: lambda x: m.resize(x, [224, 224], mode(m, bicubic)),
            A.Resize(224, 224, interpolation=cv2.INTER_CUBIC, p=1),
        ),
        "adjust_brightness, 1.3": (lambda m: lambda x: m.adjust_brightness(x, 1.3), jitter(brightness=(1.3, 1.3))),
        "adjust_contrast, 1.3": (lambda m: lambda x: m.adjust_contrast(x, 1.3), jitter(contrast=(1.3, 1.3))),
        "adjust_saturation, 1.3": (lambda m: lambda x: m.adjust_saturation(x, 1.3), jitter(saturation=(1.3, 1.3))),
        "adjust_hue, 0.1": (lambda m: lambda x: m.adjust_hue(x, 0.1), jitter(hue=(0.1, 0.1))),
        "rgb_to_grayscale": (lambda m: lambda x: m.rgb_to_grayscale(x, 3), A.ToGray(p=1)),
        "invert": (lambda m: m.invert, A.InvertImg(p=1)),
        "posterize, 3 bits": (lambda m: lambda x: m.posterize(x, 3), A.Posterize(num_bits=3, p=1)),
        "solarize, 128": (
            lambda m: lambda x: m.solarize(x, 128),
            A.Solarize(threshold_range=(128 / 255, 128 / 255), p=1),
        ),
        "equalize": (lambda m: m.equalize, A.Equalize(mode="pil", p=1)),
        "autocontrast": (lambda m: m.autocontrast, A.AutoContrast(method="pil", p=1)),
        "gaussian_blur, 9, sigma 2": (
            lambda m: lambda x: m.gaussian_blur(x, [9, 9], [2.0, 2.0]),
            A.GaussianBlur(blur_limit=(9, 9), sigma_limit=(2, 2), p=1),
        ),
        "adjust_sharpness, 2": (
            lambda m: lambda x: m.adjust_sharpness(x, 2.0),
            A.Sharpen(alpha=(1, 1), lightness=(1, 1), p=1),
        ),
        "rotate by 20°, bilinear": (
            lambda m: lambda x: m.rotate(x, 20.0, mode(m, bilinear)),
            A.Rotate(limit=(20, 20), interpolation=cv2.INTER_LINEAR, border_mode=cv2.BORDER_CONSTANT, fill=0, p=1),
        ),
        "affine, scale 0.8, bilinear": (
            lambda m: lambda x: m.affine(x, 0.0, [0, 0], 0.8, [0.0, 0.0], mode(m, bilinear)),
            A.Affine(scale=0.8, interpolation=cv2.INTER_LINEAR, p=1),
        ),
    }


def images(path: Path | None, count: int) -> list[np.ndarray]:
    if path is None:
        return [photo(seed) for seed in range(count)]
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp"))
    step = max(1, len(files) // count)
    return [np.asarray(Image.open(file).convert("RGB")) for file in files[::step][:count]]


def difference(pairs: list[tuple[Any, Any]]) -> tuple[float, float, float]:
    """Mean, 99.9th percentile and maximum."""
    apart = np.concatenate([np.abs(np.asarray(a).astype(int) - np.asarray(b).astype(int)).ravel() for a, b in pairs])
    return float(apart.mean()), float(np.percentile(apart, 99.9)), float(apart.max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--count", type=int, default=24, help="how many images")
    parser.add_argument("--markdown", action="store_true", help="a Markdown table")
    options = parser.parse_args()
    arrays = images(options.path, options.count)

    heads = ["operation", "albumentations: mean", "99.9%", "max", "fastpipe: mean", "99.9%", "max"]
    lines = []
    for name, (call, transform) in rows().items():
        expected = [call(V)(Image.fromarray(array)) for array in arrays]
        theirs = difference([(transform(image=a)["image"], e) for a, e in zip(arrays, expected, strict=True)])
        ours = difference([(call(F)(a), e) for a, e in zip(arrays, expected, strict=True)])
        cells = [f"{v:.3f}" if i == 0 else f"{v:.0f}" for result in (theirs, ours) for i, v in enumerate(result)]
        lines.append([name, *cells])

    if options.markdown:
        print("| " + " | ".join(heads) + " |")
        print("| --- |" + " ---: |" * (len(heads) - 1))
        for line in lines:
            print("| " + " | ".join(line) + " |")
        return
    table = Table(*heads, title=f"From torchvision {torchvision.__version__}; albumentations {A.__version__}")
    for line in lines:
        table.add_row(*line)
    Console().print(table)


if __name__ == "__main__":
    main()
