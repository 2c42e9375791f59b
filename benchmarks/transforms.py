"""Every transform on one image, against torchvision on PIL images, torchvision v2 on tensors and albumentations.

    python benchmarks/transforms.py [--photos PATH] [--rounds 9] [--only TEXT] [--json FILE]

fastpipe gets uint8 ndarrays, called as users call it: `fastpipe.transforms.functional` and the classes; and in a
column of its own PIL images, beside torchvision on the same ones. One thread. Each figure is the processor time for
one image, a median over rounds in which all contenders take turns, so that drift of the machine hits them alike; a
ratio is the median of each round's ratio, above 1 where fastpipe is faster. Images are 4 photos, from below PATH or
made here, cut to 256×256 and 375×500; PIL images are cut to 32×32, too, where a call is overhead.

Held against, on PIL images: operations and policies 4 times as fast as torchvision in the geometric mean, none below
0.95. On arrays: no operation slower than torchvision on PIL images or on tensors; in the geometric mean 6 times as fast
as on PIL images, 5 times as on tensors, 2 times as albumentations; and the class pipelines 5 times as fast each,
ColorJitter 7, and policies in a plan 4. Rows that miss are listed by name. albumentations' column is its nearest
operation, which need not give the same pixels (its resize has no antialiasing).
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import cv2
import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torchvision_here import torchvision

import torchvision.transforms as torchvision_v1  # isort: skip
from torchvision.transforms import v2 as torchvision_v2  # isort: skip

import fastpipe
from fastpipe import transforms as fastpipe_transforms
from fastpipe.types import Generators, ImageShape

SIZES = ((256, 256), (375, 500))
SMALL = (32, 32)
PHOTOS = 4
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# A round of one contender lasts about this long: long against the clock, short against drift.
ROUND_SECONDS = 0.02
LEAST = 1.0
GEOMETRIC_MEANS = {"torchvision PIL": 6.0, "torchvision tensor": 5.0, "albumentations": 2.0}
PIL, PIL_LEAST, PIL_MEAN = "fastpipe PIL", 0.95, 4.0
PIL_RATIO = "× torchvision, both on PIL"
PIPELINE = 5.0
PIPELINES = {
    "ColorJitter": 7.0,
    "ColorJitter, in a plan": 7.0,
    **{f"{name}, in a plan": 4.0 for name in ("RandAugment", "AutoAugment", "TrivialAugmentWide")},
}

Operation = Callable[[Any], Any]
Build = Callable[[Any], Operation]


@dataclass
class Row:
    """One operation: how to build it from a namespace, and albumentations' nearest one.

    Attributes:
        build: from ``torchvision.transforms``, its v2, or ``fastpipe.transforms`` to the operation.
        albumentations: the name and arguments of albumentations' transform.
        pipeline: whether it is a random class with a target of its own.
        on_tensors: whether there is such an operation on tensors at all.
        on_pil: whether fastpipe has it for PIL images in this form.
    """

    name: str
    build: Build
    albumentations: tuple[str, dict[str, Any]] | None = None
    pipeline: bool = False
    on_tensors: bool = True
    on_pil: bool = True
    results: dict[str, dict[str, float]] = field(default_factory=dict)


def functional(name: str, *args: Any, **kwargs: Any) -> Build:
    """A function of ``.functional``; every ``InterpolationMode`` value is given by name and looked up there."""

    def build(namespace: Any) -> Operation:
        function = getattr(namespace.functional, name)
        mode = kwargs.get("interpolation")
        own = kwargs if mode is None else {**kwargs, "interpolation": namespace.InterpolationMode(mode)}
        return lambda image: function(image, *args, **own)

    return build


def transform(name: str, *args: Any, **kwargs: Any) -> Build:
    return lambda namespace: getattr(namespace, name)(*args, **kwargs)


def in_a_plan(name: str, *args: Any) -> Build:
    """A class as `fastpipe.ImageFolder` runs it: drawn from the size, then applied; torchvision's as it is."""

    def build(namespace: Any) -> Operation:
        chosen = getattr(namespace, name)(*args)
        if namespace is not fastpipe_transforms:
            return chosen

        def apply(image: Any) -> Any:
            for step in chosen.draw(ImageShape(*image.shape), Generators()):
                image = step.apply(image)
            return image

        return apply

    return build


def plan(name: str, *args: Any) -> Row:
    return Row(f"{name}, in a plan", in_a_plan(name, *args), pipeline=True, on_pil=False)


def to_normalized(namespace: Any) -> Operation:
    return namespace.Compose([namespace.ToTensor(), namespace.Normalize(MEAN, STD)])


def elastic(namespace: Any) -> Operation:
    fields = {}

    def apply(image: Any) -> Any:
        height, width = image.size[::-1] if isinstance(image, Image.Image) else _size(image)
        if (height, width) not in fields:
            torch.manual_seed(0)
            fields[height, width] = (torch.rand(1, height, width, 2) - 0.5) * 0.05
        return namespace.functional.elastic_transform(image, fields[height, width])

    return apply


def _size(image: Any) -> tuple[int, int]:
    height, width = image.shape[-2:] if isinstance(image, torch.Tensor) else image.shape[:2]
    return height, width


def jitter(**only: float) -> dict[str, Any]:
    """albumentations' ColorJitter with one fixed factor."""
    fixed: dict[str, Any] = {"brightness": (1, 1), "contrast": (1, 1), "saturation": (1, 1), "hue": (0, 0), "p": 1}
    return fixed | {name: (value, value) for name, value in only.items()}


START = [[0, 0], [255, 0], [255, 255], [0, 255]]
END = [[20, 13], [239, 5], [250, 230], [9, 244]]
ROWS = [
    Row("hflip", functional("hflip"), ("HorizontalFlip", {"p": 1})),
    Row("vflip", functional("vflip"), ("VerticalFlip", {"p": 1})),
    Row("crop", functional("crop", 10, 20, 200, 180), ("Crop", {"x_min": 20, "y_min": 10, "x_max": 200, "y_max": 210})),
    Row("center_crop", functional("center_crop", [224, 224]), ("CenterCrop", {"height": 224, "width": 224})),
    Row("pad, constant", functional("pad", [8, 12]), ("Pad", {"padding": (8, 12), "p": 1})),
    Row("pad, reflect", functional("pad", [8, 12], padding_mode="reflect")),
    Row("resize, nearest", functional("resize", [224, 224], interpolation="nearest")),
    Row("resize, bilinear", functional("resize", [224, 224]), ("Resize", {"height": 224, "width": 224})),
    Row("resize up, bilinear", functional("resize", [600, 600]), ("Resize", {"height": 600, "width": 600})),
    Row("resize, bicubic", functional("resize", [224, 224], interpolation="bicubic")),
    Row("resized_crop", functional("resized_crop", 10, 20, 200, 180, [224, 224])),
    Row("five_crop", functional("five_crop", [128, 128])),
    Row("adjust_brightness", functional("adjust_brightness", 1.3), ("ColorJitter", jitter(brightness=1.3))),
    Row("adjust_contrast", functional("adjust_contrast", 1.3), ("ColorJitter", jitter(contrast=1.3))),
    Row("adjust_saturation", functional("adjust_saturation", 1.3), ("ColorJitter", jitter(saturation=1.3))),
    Row("adjust_hue", functional("adjust_hue", 0.1), ("ColorJitter", jitter(hue=0.1))),
    Row("adjust_gamma", functional("adjust_gamma", 2.2), ("RandomGamma", {"gamma_limit": (220, 220), "p": 1})),
    Row("grayscale, 1 channel", functional("rgb_to_grayscale", 1)),
    Row("grayscale, 3 channels", functional("rgb_to_grayscale", 3), ("ToGray", {"p": 1})),
    Row("posterize", functional("posterize", 3), ("Posterize", {"num_bits": (3, 3), "p": 1})),
    Row("solarize", functional("solarize", 128), ("Solarize", {"threshold_range": (0.5, 0.5), "p": 1})),
    Row("invert", functional("invert"), ("InvertImg", {"p": 1})),
    Row("equalize", functional("equalize"), ("Equalize", {"mode": "pil", "p": 1})),
    Row("autocontrast", functional("autocontrast"), ("AutoContrast", {"p": 1})),
    Row("adjust_sharpness", functional("adjust_sharpness", 2.0), ("Sharpen", {"p": 1})),
    Row(
        "gaussian_blur 5",
        functional("gaussian_blur", [5, 5], [1.0, 1.0]),
        ("GaussianBlur", {"blur_limit": (5, 5), "sigma_limit": (1.0, 1.0), "p": 1}),
    ),
    Row(
        "gaussian_blur 23",
        functional("gaussian_blur", [23, 23], [2.0, 2.0]),
        ("GaussianBlur", {"blur_limit": (23, 23), "sigma_limit": (2.0, 2.0), "p": 1}),
    ),
    Row(
        "rotate, nearest",
        functional("rotate", 23.0),
        ("Rotate", {"limit": (23, 23), "interpolation": cv2.INTER_NEAREST, "p": 1}),
    ),
    Row(
        "rotate, bilinear",
        functional("rotate", 23.0, interpolation="bilinear"),
        ("Rotate", {"limit": (23, 23), "p": 1}),
    ),
    Row("rotate, expand, bilinear", functional("rotate", 23.0, interpolation="bilinear", expand=True)),
    Row("affine, nearest", functional("affine", 10.0, [9, -5], 1.1, [5.0, 0.0])),
    Row(
        "affine, bilinear",
        functional("affine", 10.0, [9, -5], 1.1, [5.0, 0.0], interpolation="bilinear"),
        ("Affine", {"rotate": (10, 10), "scale": (1.1, 1.1), "shear": (5, 5), "p": 1}),
    ),
    Row("affine, translation", functional("affine", 0.0, [9, -5], 1.0, [0.0, 0.0])),
    Row("perspective, bilinear", functional("perspective", START, END), ("Perspective", {"p": 1})),
    Row("elastic_transform", elastic, ("ElasticTransform", {"p": 1})),
    Row("to_tensor", functional("to_tensor"), on_tensors=False),
    Row("to_tensor, normalize", to_normalized, on_tensors=False),
    Row(
        "ColorJitter",
        transform("ColorJitter", 0.4, 0.4, 0.4, 0.1),
        (
            "ColorJitter",
            {"brightness": (0.6, 1.4), "contrast": (0.6, 1.4), "saturation": (0.6, 1.4), "hue": (-0.1, 0.1), "p": 1},
        ),
        pipeline=True,
    ),
    plan("ColorJitter", 0.4, 0.4, 0.4, 0.1),
    Row("RandAugment", transform("RandAugment"), pipeline=True),
    plan("RandAugment"),
    Row("AutoAugment", transform("AutoAugment"), pipeline=True),
    plan("AutoAugment"),
    Row("TrivialAugmentWide", transform("TrivialAugmentWide"), pipeline=True),
    plan("TrivialAugmentWide"),
    Row("AugMix", transform("AugMix"), pipeline=True),
    plan("AugMix"),
]


def load_photos(folder: Path | None, size: tuple[int, int]) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """`PHOTOS` images of that ``(height, width)``, cut from files below a folder or made here."""
    if folder is None:
        return [_made_photo(*size, seed) for seed in range(PHOTOS)]
    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp"))
    if not paths:
        raise SystemExit(f"no .jpg, .jpeg, .png or .webp file below {folder}")
    chosen = random.Random(0).sample(paths, min(PHOTOS, len(paths)))
    photos = []
    for path in chosen:
        with Image.open(path) as file:
            photos.append(np.asarray(file.convert("RGB").resize(size[::-1])))
    return photos


def _made_photo(height: int, width: int, seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Soft shapes, edges and grain, as in a photograph."""
    rng = np.random.default_rng(seed)
    coarse = rng.uniform(0, 255, (height // 16, width // 16, 3)).astype(np.float32)
    image = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    y, x = np.mgrid[:height, :width]
    image[(x * 2 + y) % 91 < 25] *= 0.5
    return np.clip(image + rng.normal(0, 6, image.shape), 0, 255).astype(np.uint8)


def contenders(row: Row, photos: list[Any]) -> dict[str, tuple[Operation, list[Any]]]:
    """Each contender's operation and images; one that can't do it (an error on the first image) is left out."""
    pictures = [Image.fromarray(photo) for photo in photos]
    tensors = [torch.from_numpy(photo.copy()).permute(2, 0, 1).contiguous() for photo in photos]
    found = {
        "fastpipe": (row.build(fastpipe_transforms), photos),
        "torchvision PIL": (row.build(torchvision_v1), pictures),
    }
    if row.on_pil:
        found[PIL] = (row.build(fastpipe_transforms), pictures)
    small = photos[0].shape[:2] == SMALL
    if small:
        del found["fastpipe"]
    if row.on_tensors and not small:
        found["torchvision tensor"] = (row.build(torchvision_v2), tensors)
    nearest = None if small else _albumentations(row)
    if nearest is not None:
        found["albumentations"] = (nearest, photos)
    for name, (operation, images) in list(found.items()):
        try:
            operation(images[0])
        except (TypeError, ValueError, RuntimeError, AttributeError) as error:
            if name in ("fastpipe", "torchvision PIL") and not small:
                raise
            print(f"{row.name}: no {name} ({error})", file=sys.stderr)
            del found[name]
    return found


def _albumentations(row: Row) -> Operation | None:
    if row.albumentations is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import albumentations
    except ImportError:
        return None
    name, arguments = row.albumentations
    step = getattr(albumentations, name)(**arguments)
    return lambda image: step(image=image)["image"]


def measure(row: Row, photos: list[Any], rounds: int) -> dict[str, float]:
    """Microseconds an image for each contender, and the ratios of the others to fastpipe."""
    field_of = contenders(row, photos)
    if not field_of:
        return {}
    repeats = {}
    for name, (operation, images) in field_of.items():
        for image in images:
            operation(image)
        start = time.thread_time()
        for image in images:
            operation(image)
        repeats[name] = max(1, math.ceil(ROUND_SECONDS / (time.thread_time() - start)))
    times: dict[str, list[float]] = {name: [] for name in field_of}
    for turn in range(rounds):
        names = list(field_of)
        # Who goes first changes, as the caches that one leaves behind are the next one's.
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            operation, images = field_of[name]
            torch.manual_seed(turn)
            random.seed(turn)
            start = time.thread_time()
            for _ in range(repeats[name]):
                for image in images:
                    operation(image)
            times[name].append((time.thread_time() - start) / repeats[name] / len(images) * 1e6)
    result = {f"{name} µs": statistics.median(values) for name, values in times.items()}
    if PIL in times:
        pairs = zip(times["torchvision PIL"], times[PIL], strict=True)
        result[PIL_RATIO] = statistics.median(other / own for other, own in pairs)
    for name in times:
        if name not in ("fastpipe", PIL) and "fastpipe" in times:
            pairs = zip(times[name], times["fastpipe"], strict=True)
            result[f"× {name}"] = statistics.median(other / own for other, own in pairs)
    return result


def misses(rows: list[Row]) -> list[str]:
    """The rows that miss a target, with the figure."""
    found = []
    for row in rows:
        for size, result in row.results.items():
            for name, least in (
                ("torchvision PIL", PIPELINES.get(row.name, PIPELINE) if row.pipeline else LEAST),
                ("torchvision tensor", LEAST),
                (PIL_RATIO[2:], PIL_LEAST),
            ):
                ratio = result.get(f"× {name}")
                if ratio is not None and ratio < least:
                    found.append(f"{row.name}, {size}: {ratio:.2f} × {name}, target {least:.2f}")
    on_pil = mean_on_pil(rows)
    if on_pil is not None and on_pil < PIL_MEAN:
        found.append(f"all on PIL images in the geometric mean: {on_pil:.2f} {PIL_RATIO}, target {PIL_MEAN:.2f}")
    means = geometric_means(rows, False)
    for name, least in GEOMETRIC_MEANS.items():
        mean = means.get(f"× {name}")
        if mean is not None and mean < least:
            found.append(f"operations in the geometric mean: {mean:.2f} × {name}, target {least:.2f}")
    return found


def geometric_means(rows: list[Row], pipeline: bool) -> dict[str, float]:
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row.pipeline == pipeline:
            for result in row.results.values():
                for key, value in result.items():
                    if key.startswith("×"):
                        ratios.setdefault(key, []).append(value)
    return {key: statistics.geometric_mean(values) for key, values in ratios.items()}


def mean_on_pil(rows: list[Row]) -> float | None:
    """The geometric mean of operations and policies on PIL images, but for those of 32×32."""
    small = "×".join(map(str, SMALL))
    ratios = [r[PIL_RATIO] for row in rows for size, r in row.results.items() if size != small and PIL_RATIO in r]
    return statistics.geometric_mean(ratios) if ratios else None


def show(rows: list[Row], console: Console) -> None:
    names = ("fastpipe", "torchvision PIL", "torchvision tensor", "albumentations", PIL)
    table = Table(title="One image, one thread, microseconds (in brackets: times as fast)")
    table.add_column("operation")
    table.add_column("size")
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        for size, result in row.results.items():
            cells = []
            for name in names:
                spent, ratio = result.get(f"{name} µs"), result.get(PIL_RATIO if name == PIL else f"× {name}")
                cells.append("" if spent is None else f"{spent:.0f}" + ("" if ratio is None else f" ({ratio:.2f})"))
            table.add_row(row.name, size, *cells)
    console.print(table)
    for title, pipeline in (("operations", False), ("class pipelines", True)):
        means = ", ".join(f"{value:.2f} {key}" for key, value in geometric_means(rows, pipeline).items())
        console.print(f"Geometric mean of the {title}: {means or 'none measured'}")
    on_pil = mean_on_pil(rows)
    if on_pil is not None:
        console.print(f"Geometric mean on PIL images: {on_pil:.2f} {PIL_RATIO}, target {PIL_MEAN:.0f}")
    wanted = ", ".join(f"{least:.0f} × {name}" for name, least in GEOMETRIC_MEANS.items())
    console.print(f"Targets: operations {wanted} in the geometric mean, none below {LEAST:.0f};")
    console.print(f"class pipelines {PIPELINE:.0f} × torchvision PIL each, but for {PIPELINES}. Missed by:")
    for line in misses(rows) or ["none"]:
        console.print(f"  {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, help="a folder of photos; photo-like images are made without it")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--json", type=Path, help="also write everything there")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    console = Console()
    rows = [row for row in ROWS if arguments.only.lower() in row.name.lower()]
    if not rows:
        raise SystemExit(f"no row's name contains {arguments.only!r}; the rows: {', '.join(row.name for row in ROWS)}")
    photos = {f"{size[0]}×{size[1]}": load_photos(arguments.photos, size) for size in (*SIZES, SMALL)}
    for row in track(rows, "measuring", console=Console(stderr=True), transient=True):
        for size, images in photos.items():
            if images[0].shape[:2] != SMALL or row.on_pil:
                row.results[size] = measure(row, images, arguments.rounds)
    show(rows, console)
    if arguments.json:
        report = {
            "versions": {
                "fastpipe": fastpipe.__version__,
                "torchvision": torchvision.__version__,
                "torch": torch.__version__,
                "opencv": cv2.__version__,
                "pillow": Image.__version__,
                "python": platform.python_version(),
            },
            "rounds": arguments.rounds,
            "rows": {row.name: row.results for row in rows},
            "geometric_means": {"operations": geometric_means(rows, False), "pipelines": geometric_means(rows, True)},
            "misses": misses(rows),
        }
        arguments.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
