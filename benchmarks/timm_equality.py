"""Random pipelines of timm's `create_transform`, held to timm: samples and generators' states are equal, or it fails.

    FASTPIPE_CORE=portable python benchmarks/timm_equality.py [--pipelines 5000] [--first 0]

Arguments and configuration strings are drawn from a seed each; images are small photos in colour and in gray, JPEG and
PNG. The tests run some hundred of these.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "recipes"))

import torch
from recipe_conformance import write_photos
from timm_pipelines import check_one

from fastpipe import core


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        photos = write_photos(Path(folder))
        for seed in range(options.first, options.first + options.pipelines):
            try:
                check_one(photos, seed)
            except AssertionError:
                print(f"the pipeline of seed {seed} differs", file=sys.stderr)
                raise
    how = core.isa() if core.available() else "off"
    print(f"{options.pipelines} pipelines equal, core {how}, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
