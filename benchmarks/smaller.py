"""Filters for making images smaller, by what they leave of random crops: why `Smaller` takes Lanczos'.

    python benchmarks/smaller.py PATH [--short-side 256 512] [--crops 6] [--json FILE]

PATH is a folder of photos, looked through to its bottom; those that aren't larger are passed over. Each is resized by
each of Pillow's antialiasing filters, then encoded at quality 90. Random crops of that, resized to 224 pixels as
torchvision's `RandomResizedCrop` does, are compared with the same crops of the original: peak signal-to-noise ratio
in dB, of all crops together. `BOX` averages areas, as cv2's `INTER_AREA` does, which img2dataset and FFCV take.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.table import Table

from fastpipe.packing.smaller import DEFAULT_QUALITY, Smaller
from fastpipe.reporting.output import make_console
from fastpipe.types import Size

FILTERS = ("BOX", "BILINEAR", "HAMMING", "BICUBIC", "LANCZOS")
SIDE = 224


def crops_of(image: Image.Image, boxes: list[tuple[float, ...]]) -> np.ndarray:
    """Crops, given in shares of the image, as `RandomResizedCrop(224)` resizes them."""
    sides = (image.width, image.height, image.width, image.height)
    return np.stack(
        [
            np.asarray(
                image.resize(
                    (SIDE, SIDE),
                    Image.Resampling.BILINEAR,
                    box=tuple(share * side for share, side in zip(box, sides, strict=True)),  # type: ignore[arg-type]
                ),
                np.int32,
            )
            for box in boxes
        ]
    )


def random_boxes(count: int) -> list[tuple[float, ...]]:
    """Squares of 30% to 90% of each side, in shares: left, top, right, bottom."""
    found: list[tuple[float, ...]] = []
    for _ in range(count):
        side = random.uniform(0.3, 0.9)
        left, top = random.uniform(0, 1 - side), random.uniform(0, 1 - side)
        found.append((left, top, left + side, top + side))
    return found


def encoded(image: Image.Image) -> tuple[Image.Image, int]:
    """The image after encoding, and the bytes that it took."""
    out = io.BytesIO()
    image.save(out, "JPEG", quality=DEFAULT_QUALITY)
    return Image.open(out).convert("RGB"), len(out.getvalue())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--short-side", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--crops", type=int, default=6)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    random.seed(0)
    figures: dict[str, Any] = {}
    console = make_console()
    for side in given.short_side:
        smaller, errors = Smaller(short_side=side), {name: [0.0, 0.0, 0.0] for name in FILTERS}
        count = 0
        for path in sorted(path for path in given.path.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png")):
            with Image.open(path) as opened:
                image = opened.convert("RGB")
            size = smaller.size_of(Size(image.height, image.width))
            if size == (image.height, image.width):
                continue
            count += 1
            boxes = random_boxes(given.crops)
            wanted = crops_of(image, boxes)
            for name, sums in errors.items():
                small = image.resize((size.width, size.height), Image.Resampling[name])
                again, length = encoded(small)
                for at, one in enumerate((small, again)):
                    sums[at] += float(np.mean((crops_of(one, boxes) - wanted) ** 2))
                sums[2] += length
        if not count:
            raise SystemExit(f"no photo in {given.path} is larger than {side} pixels on both sides")
        table = Table(f"{count} photos, short side {side}", "resized, dB", "and encoded, dB", "bytes")
        for name, (resized, kept, total) in errors.items():
            row = {
                "resized": 10 * math.log10(255**2 * count / resized),
                "encoded": 10 * math.log10(255**2 * count / kept),
                "bytes": total / count,
            }
            figures[f"{side} {name}"] = row
            table.add_row(name, f"{row['resized']:.1f}", f"{row['encoded']:.1f}", f"{row['bytes']:,.0f}")
        console.print(table)
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
