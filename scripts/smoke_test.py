"""Tries an installed fastpipe: `scripts/wheel` runs this in a fresh environment, in an empty folder.

Needs nothing but fastpipe and what it depends on. Pixels are compared with Pillow's, a tensor with plain numpy.
"""

from __future__ import annotations

import io
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import fastpipe
from fastpipe import core, readers
from fastpipe import transforms as T


def photo(number: int, height: int, width: int) -> bytes:
    random = np.random.default_rng(number)
    small = Image.fromarray(random.integers(0, 256, (9, 13, 3), np.uint8))
    file = io.BytesIO()
    small.resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG" if number % 2 else "PNG")
    return file.getvalue()


def main() -> None:
    assert Path(fastpipe.__file__).resolve().parent.parent != Path(__file__).resolve().parent.parent, "not installed"
    assert metadata.version("torch-fastpipe") == fastpipe.__version__
    assert core.available(), core.why_not()
    for number in range(12):
        file = Path("photos", f"class{number % 3}", f"{number}.{'jpg' if number % 2 else 'png'}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(photo(number, 150 + number, 211))
        expected = np.asarray(Image.open(file).convert("RGB"))
        assert np.array_equal(readers.read_image(file), expected), file
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    evaluation = T.Compose([T.Resize(96), T.CenterCrop(64), T.ToTensor(), T.Normalize(mean, std)])
    dataset = fastpipe.ImageFolder("photos", evaluation)
    for (image, target), (path, label) in zip(dataset, dataset.samples, strict=True):
        with Image.open(path) as opened:
            short = min(opened.size)
            size = tuple(96 if side == short else 96 * side // short for side in opened.size)
            resized = np.asarray(opened.convert("RGB").resize(size, Image.Resampling.BILINEAR))
        top, left = round((resized.shape[0] - 64) / 2), round((resized.shape[1] - 64) / 2)
        pixels = torch.from_numpy(resized[top : top + 64, left : left + 64].copy()).permute(2, 0, 1)
        assert torch.equal(image, (pixels / 255 - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None])
        assert target == label
    training = T.Compose([T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.ToTensor()])
    loader = fastpipe.DataLoader(fastpipe.ImageFolder("photos", training), 4, shuffle=True, num_workers=2)
    shapes = [tuple(images.shape) for images, _ in loader]
    assert shapes == [(4, 3, 64, 64)] * 3, shapes
    for command in (["--version"], ["explain", "photos"], ["check", "photos"]):
        subprocess.run([sys.executable, "-m", "fastpipe", *command], check=True, timeout=120)
    print(f"fastpipe {fastpipe.__version__} works here: {core.build()}; {core.isa()}; Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
