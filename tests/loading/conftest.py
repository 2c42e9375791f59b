"""Photos of several sizes and kinds, in class folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    for number in range(14):
        height, width = 60 + 7 * number, 90 + 3 * number
        y, x = np.mgrid[:height, :width]
        pixels = np.stack([(y * (number + 2)) % 256, (x * 3) % 256, (x + y) % 256], -1).astype(np.uint8)
        image = Image.fromarray(pixels)
        turned = Image.Exif()
        turned[0x0112] = 6 if number == 7 else 1
        path = root / f"class{number % 3}" / f"{number:02}.{'png' if number % 5 == 4 else 'jpg'}"
        path.parent.mkdir(exist_ok=True)
        (image.convert("L") if number == 3 else image).save(path, exif=turned)
    return root
