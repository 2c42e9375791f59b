"""What `fastpipe run` gains, and whether samples stay equal, with the versions installed here: a row of docs/limits.md.

    python benchmarks/environments.py PHOTOS            # in each environment; adds or replaces its row
    python benchmarks/environments.py --table           # writes the table again

For each kind of pipeline a script runs plainly and by `fastpipe run`, in turn. Its processor time an image, of the
second half of its images, gives the ratio, and a hash of every value that it makes tells if they are equal.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA, PAGE = ROOT / "docs" / "data" / "environments.json", ROOT / "docs" / "limits.md"
BEGIN, END = "<!-- made by benchmarks/environments.py -->\n", "<!-- end of what is made -->\n"
IMAGES = 32
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


def run_script(kind: str, paths: list[str]) -> None:
    """Prints the hash of all that a kind makes, and the processor time of an image, as JSON."""
    if (shim := os.environ.get("TORCHVISION_FIRST")) is not None:
        importlib.import_module(shim)
    import numpy as np
    import torch

    torch.set_num_threads(1)
    make = KINDS[kind]()
    torch.manual_seed(1)
    random.seed(2)
    np.random.seed(3)
    digest, seconds = hashlib.sha256(), 0.0
    for number, path in enumerate(paths):
        begun = time.process_time()
        made = make(path)
        parts = [part.numpy().copy() for part in (made if isinstance(made, tuple) else (made,))]
        if number >= len(paths) // 2:
            seconds += time.process_time() - begun
        for part in parts:
            digest.update(part.tobytes())
    digest.update(repr((torch.rand(1).item(), random.random(), np.random.rand())).encode())
    print(json.dumps({"hash": digest.hexdigest(), "seconds": seconds / (len(paths) - len(paths) // 2)}))


# -- the row


def measured(kind: str, paths: list[str], rounds: int) -> str:
    """``"4.9"``, how many times as fast; ``"differs"``; or ``"–"`` if this environment can't run the script."""
    words = [str(Path(__file__)), "--script", kind, *paths]
    best = {False: float("inf"), True: float("inf")}
    hashes = set()
    for _ in range(rounds):
        for hooked in best:
            command = [sys.executable, *(["-m", "fastpipe", "run", "-q", "--check", "0"] if hooked else []), *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                if hooked and hashes:
                    raise SystemExit(f"{kind}: runs plainly, and not by fastpipe:\n{done.stderr}")
                return "–"
            said = json.loads(done.stdout.splitlines()[-1])
            hashes.add(said["hash"])
            best[hooked] = min(best[hooked], said["seconds"])
    return f"{best[False] / best[True]:.1f}" if len(hashes) == 1 else "differs"


def environment() -> str:
    def of(package: str) -> str:
        try:
            return ".".join(metadata.version(package).split("+")[0].split(".")[:2])
        except metadata.PackageNotFoundError:
            return "–"

    return f"torch {of('torch')}, torchvision {of('torchvision')}"


def write_table() -> None:
    rows = json.loads(DATA.read_text()) if DATA.exists() else {}
    names = sorted(rows, key=lambda name: [int(part) for part in name.split()[-1].split(".") if part.isdigit()])
    cells = [[name, *(rows[name].get(kind, "–") for kind in KINDS)] for name in names]
    lines = [f"| {' | '.join(line)} |" for line in (["", *KINDS], ["---", *["---:"] * len(KINDS)], *cells)]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", nargs="*", help="a folder of JPEGs")
    parser.add_argument("--script", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=KINDS, action="append", help="measure these columns alone")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each script, of which the fastest counts")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    options = parser.parse_args()
    if options.script is not None:
        run_script(options.script, options.photos)
        return
    if not options.table:
        paths = sorted(map(str, Path(options.photos[0]).rglob("*.[jJ][pP]*[gG]")))[:IMAGES]
        for kind in options.only or KINDS:
            result = measured(kind, paths, options.rounds)
            print(f"{environment()}: {kind} {result}", flush=True)
            rows = json.loads(DATA.read_text()) if DATA.exists() else {}
            rows.setdefault(environment(), {})[kind] = result
            DATA.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    write_table()


if __name__ == "__main__":
    main()
