"""Measures the gain of `fastpipe run` with the versions installed here, and compares samples: for docs/limits.md.

    python benchmarks/environments.py PHOTOS            # in each environment; adds or replaces its row
    python benchmarks/environments.py --table           # writes the tables again, here and in the README

A script of all kinds of pipelines runs plainly and by `fastpipe run`, in turn. A kind's processor time an image, of the
second half of its images, gives the ratio, and a hash of every value that it makes tells if they are equal.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "data" / "environments.json"
LIMITS, README = ROOT / "docs" / "limits.md", ROOT / "README.md"
IMAGES = 96
TIERS = (
    ("0.24 or later", "all", 24, 99),
    ("0.21 to 0.23", "in part: v2 on tensors of bytes gains less on processors with AVX-512", 21, 23),
    ("0.18 to 0.20", "v1 alone", 18, 20),
)
"""Versions of torchvision, the accelerated libraries of each, and its first and last minor version."""
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


# -- the script: what it makes of one photo


def v1() -> Callable[[str], Any]:
    from PIL import Image
    from torchvision import transforms as T

    steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
    compose = T.Compose(steps)
    return lambda path: compose(Image.open(path).convert("RGB"))


def v2_on_images() -> Callable[[str], Any]:
    from PIL import Image
    from torchvision.transforms import v2

    steps = [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.PILToTensor()]
    compose = v2.Compose(
        [*steps, v2.ToDtype(importlib.import_module("torch").float32, scale=True), v2.Normalize(MEAN, STD)]
    )
    return lambda path: compose(Image.open(path).convert("RGB"))


def v2_on_tensors() -> Callable[[str], Any]:
    import torch
    from PIL import Image
    from torchvision.transforms import v2

    steps = [v2.PILToTensor(), v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    compose = v2.Compose([*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    return lambda path: compose(Image.open(path).convert("RGB"))


def detection() -> Callable[[str], Any]:
    import torch
    from PIL import Image
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    steps = [v2.RandomIoUCrop(), v2.RandomHorizontalFlip(), v2.Resize((320, 320), antialias=True), v2.ToImage()]
    compose = v2.Compose([*steps, v2.ToDtype(torch.float32, scale=True)])

    def make(path: str) -> Any:
        image = Image.open(path).convert("RGB")
        corners = [[10, 12, image.width - 30, image.height - 20], [30, 40, 90, 120]]
        boxes = tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=(image.height, image.width))
        image, target = compose(image, {"boxes": boxes})
        return image, target["boxes"]

    return make


def timm() -> Callable[[str], Any]:
    from PIL import Image
    from timm.data import create_transform

    transform = create_transform(224, is_training=True, auto_augment="rand-m9-mstd0.5", re_prob=0.25)
    return lambda path: transform(Image.open(path).convert("RGB"))


def albumentations() -> Callable[[str], Any]:
    import albumentations as A
    import cv2
    from albumentations.pytorch import ToTensorV2

    crop = A.RandomResizedCrop((224, 224)) if version("albumentations") >= (1, 4, 19) else A.RandomResizedCrop(224, 224)
    compose = A.Compose([crop, A.HorizontalFlip(), A.Normalize(), ToTensorV2()])
    if hasattr(compose, "set_random_seed"):
        compose.set_random_seed(0)
    return lambda path: compose(image=cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB))["image"]


def hugging_face() -> Callable[[str], Any]:
    from PIL import Image

    processors: Any = importlib.import_module("transformers")
    name = "ViTImageProcessorFast" if hasattr(processors, "ViTImageProcessorFast") else "ViTImageProcessor"
    processor = getattr(processors, name)()
    return lambda path: processor(Image.open(path).convert("RGB"), return_tensors="pt")["pixel_values"]


def io() -> Callable[[str], Any]:
    import torch
    from torchvision.io import ImageReadMode, read_image
    from torchvision.transforms import v2

    steps = [
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
    ]
    compose = v2.Compose(steps)
    return lambda path: compose(read_image(path, ImageReadMode.RGB))


KINDS: dict[str, Callable[[], Callable[[str], Any]]] = {
    "v1": v1,
    "v2, images": v2_on_images,
    "v2, tensors": v2_on_tensors,
    "detection": detection,
    "timm": timm,
    "albumentations": albumentations,
    "Hugging Face": hugging_face,
    "torchvision.io": io,
}


def version(package: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in metadata.version(package).split(".")[:3])


def run_script(kinds: list[str], paths: list[str]) -> None:
    """Prints, for each kind, the hash of all that it makes and the processor time of an image, as a line of JSON.

    A kind that can't be made here has its error there instead.
    """
    if (shim := os.environ.get("TORCHVISION_FIRST")) is not None:
        importlib.import_module(shim)
    import torch

    torch.set_num_threads(1)
    for kind in kinds:
        try:
            make = KINDS[kind]()
        except (ImportError, AttributeError, TypeError) as error:
            said: dict[str, Any] = {"error": f"{type(error).__name__}: {error}"}
        else:
            said = measured(make, paths)
        print(json.dumps({"kind": kind, **said}), flush=True)


def measured(make: Callable[[str], Any], paths: list[str]) -> dict[str, Any]:
    import numpy as np
    import torch

    torch.manual_seed(1)
    random.seed(2)
    np.random.seed(3)
    digest, times = hashlib.sha256(), []
    for path in paths:
        begun = time.process_time()
        made = make(path)
        parts = [part.numpy().copy() for part in (made if isinstance(made, tuple) else (made,))]
        times.append(time.process_time() - begun)
        for part in parts:
            digest.update(part.tobytes())
    digest.update(repr((torch.rand(1).item(), random.random(), np.random.rand())).encode())
    return {"hash": digest.hexdigest(), "seconds": statistics.fmean(times[len(times) // 2 :])}


# -- the row


def row(kinds: list[str], paths: list[str], rounds: int) -> dict[str, str]:
    """``"4.9"`` for each kind, how many times as fast; ``"differs"``; or ``"–"`` if this environment can't run it."""
    words = [str(Path(__file__)), "--script", *kinds, "--photos", *paths]
    seconds: dict[tuple[str, bool], list[float]] = {}
    hashes: dict[str, set[str]] = {}
    for _ in range(rounds):
        for hooked in (False, True):
            command = [sys.executable, *(["-m", "fastpipe", "run", "-q", "--check", "0"] if hooked else []), *words]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            for line in done.stdout.splitlines():
                said = json.loads(line)
                hashes.setdefault(said["kind"], set()).add(said.get("hash") or said["error"])
                if "seconds" in said:
                    seconds.setdefault((said["kind"], hooked), []).append(said["seconds"])
    found = {}
    for kind in kinds:
        plain, hooked_times = (seconds.get((kind, hooked), []) for hooked in (False, True))
        if len(hashes[kind]) > 1:
            found[kind] = "differs"
        else:
            found[kind] = f"{min(plain) / min(hooked_times):.1f}" if plain else "–"
        print(f"{environment()}: {kind} {found[kind]}{'' if plain else f' ({hashes[kind].pop()})'}", flush=True)
    return found


def environment() -> str:
    def of(package: str) -> str:
        try:
            return ".".join(metadata.version(package).split("+")[0].split(".")[:2])
        except metadata.PackageNotFoundError:
            return "–"

    return f"torch {of('torch')}, torchvision {of('torchvision')}"


def lines_of(*rows: list[str]) -> str:
    """A table; the numbers are at the right."""
    head, *rest = rows
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---", *["---:"] * (len(head) - 1)], *rest))


def minor(name: str) -> int:
    """The 24 of ``"torch 2.9, torchvision 0.24"``."""
    return int(name.rpartition(".")[2])


def tiers(rows: dict[str, dict[str, str]]) -> str:
    """The table of the promise: what is accelerated beside which torchvision, and what was measured."""
    columns = list(KINDS)[:3]
    lines = []
    for versions, promise, first, last in TIERS:
        of_tier = [row for name, row in rows.items() if first <= minor(name) <= last]
        cells = []
        for kind in columns:
            values = sorted({row[kind] for row in of_tier if row.get(kind, "–") != "–"}, key=float)
            cells.append("–".join(dict.fromkeys([*values[:1], *values[-1:]])) or "not measured")
        lines.append([versions, promise, *cells])
    return lines_of(["torchvision", "accelerated", *columns], *lines)


def write_tables() -> None:
    rows = json.loads(DATA.read_text()) if DATA.exists() else {}
    measured = [[name, *(rows[name].get(kind, "–") for kind in KINDS)] for name in sorted(rows, key=minor)]
    fill(LIMITS, "environments", lines_of(["", *KINDS], *measured))
    for page in (LIMITS, README):
        fill(page, "tiers", tiers(rows))


def fill(page: Path, name: str, table: str) -> None:
    """Writes a table to its place in a page."""
    begin, end = f"<!-- {name}, made by benchmarks/environments.py -->\n", f"<!-- end of {name} -->\n"
    before, begun, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise SystemExit(f"{page} has no place for the table of {name}")
    page.write_text(before + begin + table + end + after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="a folder of JPEGs")
    parser.add_argument("--script", choices=KINDS, nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--photos", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=KINDS, action="append", help="measure these columns alone")
    parser.add_argument("--rounds", type=int, default=3, help="runs of the script, of which the fastest counts")
    parser.add_argument("--table", action="store_true", help="only write the tables again")
    options = parser.parse_args()
    if options.script is not None:
        run_script(options.script, options.photos)
        return
    if not options.table:
        paths = sorted(map(str, options.folder.rglob("*.[jJ][pP]*[gG]")))[:IMAGES]
        found = row(options.only or [*KINDS], paths, options.rounds)
        rows = json.loads(DATA.read_text()) if DATA.exists() else {}
        rows.setdefault(environment(), {}).update(found)
        DATA.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    write_tables()


if __name__ == "__main__":
    main()
