"""Compares every transform with torchvision's on PIL images, torchvision v2's on tensors, and albumentations'.

    python benchmarks/transforms.py [--photos PHOTOS] [--rounds 9] [--only WORD] [--json FILE]
    python benchmarks/transforms.py [--photos PHOTOS] --difference     # compares albumentations' pixels

fastpipe is called as users call it, by `fastpipe.transforms.functional` and the classes, on uint8 ndarrays; and in
separate rows on PIL images, as torchvision is. One thread. The images are 4 photos, from below PHOTOS or synthetic, of
256×256 and 375×500; PIL images also of 32×32, where a call's overhead dominates. fastpipe's results have to equal
torchvision's on PIL images.

Rows of tensors are torchvision's own chains on PIL images, which spend their time in torch's operations on tensors: as
they are, and converted as `fastpipe run` does it.

Marks: on PIL images, operations and policies are 4 times as fast as torchvision in the geometric mean, none below 0.95.
On arrays, no operation is slower than torchvision on PIL images; the geometric means are 6 times as fast as torchvision
on PIL images, 5 times as on tensors, and 2 times as albumentations; each policy is 5 times as fast, ColorJitter 7
times, and in a plan 4 times. Chains on tensors are twice as fast. albumentations' column is its nearest operation,
whose pixels may differ: --difference prints a Markdown table of the differences from torchvision on 24 photos of
375×500, in 1/255: mean, 99.9th percentile, max.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cv2
import numpy as np
import torch
from harness import MEAN, STD, Benchmark, Pass, calls, command_line, module, pictures
from PIL import Image

from fastpipe import convert
from fastpipe import transforms as fastpipe_transforms
from fastpipe.tools.bench.samples import photo
from fastpipe.types import Generators, ImageShape

torchvision_v1, torchvision_v2 = module("torchvision.transforms"), module("torchvision.transforms.v2")
LARGE, SMALL = ((256, 256), (375, 500)), (32, 32)
ROUND_S = 0.02  # a contender's time in a round: long enough for the clock, short enough against drift
MARKS = {"ColorJitter": 7.0, "ColorJitter, in a plan": 7.0}

Operation = Callable[[Any], Any]
Build = Callable[[Any], Operation]


@dataclass
class Row:
    """One operation: how to build it from a namespace, and albumentations' nearest operation.

    Attributes:
        build: makes the operation from ``torchvision.transforms``, its v2, or ``fastpipe.transforms``.
        albumentations: the name and arguments of albumentations' transform.
        policy: whether it is a random class, which has its own mark.
        on_tensors: whether the operation exists for tensors.
        on_pil: whether fastpipe has the operation for PIL images in this form.
        small: whether it accepts an image of 32×32.
    """

    name: str
    build: Build
    albumentations: tuple[str, dict[str, Any]] | None = None
    policy: bool = False
    on_tensors: bool = True
    on_pil: bool = True
    small: bool = True


def functional(name: str, *args: Any, **kwargs: Any) -> Build:
    """Builds a call of a function of ``.functional``; interpolation is given by name and looked up in the namespace."""

    def build(namespace: Any) -> Operation:
        function = getattr(namespace.functional, name)
        mode = kwargs.get("interpolation")
        own = kwargs if mode is None else {**kwargs, "interpolation": namespace.InterpolationMode(mode)}
        return lambda image: function(image, *args, **own)

    return build


def policy(name: str, *args: Any, nearest: tuple[str, dict[str, Any]] | None = None) -> list[Row]:
    """The rows of a random class: called, and run as in `fastpipe.ImageFolder`: drawn from the size, then applied."""

    def build(namespace: Any) -> Operation:
        made: Operation = getattr(namespace, name)(*args)
        return made

    def in_a_plan(namespace: Any) -> Operation:
        chosen: Any = build(namespace)
        if namespace is not fastpipe_transforms:
            return build(namespace)

        def apply(image: Any) -> Any:
            for step in chosen.draw(ImageShape(*image.shape), Generators()):
                image = step.apply(image)
            return image

        return apply

    return [Row(name, build, nearest, policy=True), Row(f"{name}, in a plan", in_a_plan, policy=True, on_pil=False)]


def to_normalized(namespace: Any) -> Operation:
    chain: Operation = namespace.Compose([namespace.ToTensor(), namespace.Normalize(MEAN, STD)])
    return chain


def elastic(namespace: Any) -> Operation:
    fields: dict[tuple[int, int], torch.Tensor] = {}

    def apply(image: Any) -> Any:
        size = image.size[::-1] if isinstance(image, Image.Image) else _size(image)
        if size not in fields:
            generator = torch.Generator().manual_seed(0)
            fields[size] = (torch.rand(1, *size, 2, generator=generator) - 0.5) * 0.05
        return namespace.functional.elastic_transform(image, fields[size])

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
    Row(
        "resize, bicubic",
        functional("resize", [224, 224], interpolation="bicubic"),
        ("Resize", {"height": 224, "width": 224, "interpolation": cv2.INTER_CUBIC}),
    ),
    Row("resized_crop", functional("resized_crop", 10, 20, 200, 180, [224, 224])),
    Row("five_crop", functional("five_crop", [128, 128]), small=False),
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
    Row("autocontrast", functional("autocontrast"), ("AutoContrast", {"method": "pil", "p": 1})),
    Row(
        "adjust_sharpness",
        functional("adjust_sharpness", 2.0),
        ("Sharpen", {"alpha": (1, 1), "lightness": (1, 1), "p": 1}),
    ),
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
    *policy(
        *("ColorJitter", 0.4, 0.4, 0.4, 0.1),
        nearest=(
            "ColorJitter",
            {"brightness": (0.6, 1.4), "contrast": (0.6, 1.4), "saturation": (0.6, 1.4), "hue": (-0.1, 0.1), "p": 1},
        ),
    ),
    *(row for name in ("RandAugment", "AutoAugment", "TrivialAugmentWide", "AugMix") for row in policy(name)),
]
OTHER_PARAMETERS = ("affine, bilinear", "perspective, bilinear", "elastic_transform")
"""Rows whose albumentations operation differs or draws, so that its pixels aren't compared."""

COMPARED_ALONE = [
    Row(
        "resize, bilinear, by INTER_AREA",
        functional("resize", [224, 224]),
        ("Resize", {"height": 224, "width": 224, "interpolation": cv2.INTER_AREA}),
    ),
    Row(
        "affine, scale 0.8, bilinear",
        functional("affine", 0.0, [0, 0], 0.8, [0.0, 0.0], interpolation="bilinear"),
        ("Affine", {"scale": 0.8, "p": 1}),
    ),
]


def nearest_of(row: Row) -> Operation | None:
    """albumentations' operation for a row; None if there is none, or without albumentations."""
    if row.albumentations is None:
        return None
    try:
        library = module("albumentations")
    except ImportError:
        return None
    name, arguments = row.albumentations
    step = getattr(library, name)(**arguments)
    return lambda image: step(image=image)["image"]


def arrays_of(made: Pass) -> Pass:
    """Converts the PIL images of a pass to arrays, of three dimensions for gray ones, too."""

    def array(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(array, value))
        if not isinstance(value, Image.Image):
            return value
        return np.atleast_3d(np.asarray(value))

    return lambda: map(array, made())


def chains() -> dict[str, Operation]:
    """torchvision's transforms of tensors, and of the float field of an elastic transform."""
    v1, v2 = torchvision_v1, torchvision_v2
    floats = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    jitter, blur = (0.4, 0.4, 0.4, 0.1), 23
    return {
        "ToTensor, ColorJitter": v1.Compose([v1.ToTensor(), v1.ColorJitter(*jitter)]),
        "PILToTensor, ColorJitter": v1.Compose([v1.PILToTensor(), v1.ColorJitter(*jitter)]),
        "ToTensor, GaussianBlur": v1.Compose([v1.ToTensor(), v1.GaussianBlur(blur)]),
        "v2: floats, ColorJitter": v2.Compose([*floats, v2.ColorJitter(*jitter)]),
        "v2: floats, GaussianBlur": v2.Compose([*floats, v2.GaussianBlur(blur)]),
        "ElasticTransform": v1.ElasticTransform(),
        "v2: ElasticTransform": v2.ElasticTransform(),
    }


def images_of(bench: Benchmark, count: int, size: tuple[int, int]) -> list[Image.Image]:
    """Photos, or synthetic ones, of that ``(height, width)``."""
    if bench.options.photos:
        return pictures(bench.options.photos, count, size)
    return [Image.fromarray(photo(seed, *size)) for seed in range(count)]


def measure(bench: Benchmark, row: Row, images: list[Image.Image]) -> None:
    """Times a row on arrays, in comparison with torchvision's PIL images and tensors and albumentations; and on PIL."""
    size = "×".join(map(str, images[0].size[::-1]))
    kind = "policies" if row.policy else "operations"
    theirs = calls(row.build(torchvision_v1), images)
    timed = partial(bench.row, count=len(images), least_s=ROUND_S)
    if row.on_pil and (row.small or images[0].size != SMALL):
        name = f"PIL, {kind if images[0].size != SMALL else 'small'}: {row.name}, {size}"
        timed(name, {"torchvision": theirs, "fastpipe": calls(row.build(fastpipe_transforms), images)}, mark=0.95)
    if images[0].size == SMALL:
        return
    arrays = [np.array(image) for image in images]
    contenders: dict[str, Pass] = {"torchvision PIL": theirs}
    if row.on_tensors:
        tensors = [torch.from_numpy(array).permute(2, 0, 1).contiguous() for array in arrays]
        contenders["torchvision tensor"] = calls(row.build(torchvision_v2), tensors)
    if nearest := nearest_of(row):
        contenders["albumentations"] = calls(nearest, arrays)
    contenders["fastpipe"] = calls(row.build(fastpipe_transforms), arrays)
    mark = MARKS.get(row.name, 4.0 if row.name.endswith("in a plan") else 5.0) if row.policy else 1.0
    timed(f"arrays, {kind}: {row.name}, {size}", contenders, equal=["fastpipe"], reference=arrays_of(theirs), mark=mark)


def show_differences(images: list[Image.Image]) -> None:
    """Prints the differences of albumentations' pixels from torchvision's as a table in Markdown."""
    print("| operation | albumentations: mean | 99.9% | max |\n| --- | ---: | ---: | ---: |")
    for row in (*ROWS, *COMPARED_ALONE):
        nearest = nearest_of(row)
        if nearest is None or row.policy or row.name in OTHER_PARAMETERS:
            continue
        theirs = row.build(torchvision_v1)
        apart = [
            np.abs(np.asarray(theirs(image)).astype(int) - np.asarray(nearest(np.array(image)))).ravel()
            for image in images
        ]
        every = np.concatenate(apart)
        print(f"| {row.name} | {every.mean():.3f} | {np.percentile(every, 99.9):.0f} | {every.max()} |")


def main() -> None:
    parser = command_line(__doc__, rounds=9, photos="--photos")
    parser.add_argument("--difference", action="store_true", help="print albumentations' differences instead")
    bench = Benchmark(parser.parse_args(), "one image")
    if bench.options.difference:
        show_differences(images_of(bench, 24, LARGE[1]))
        return
    for size in (*LARGE, SMALL):
        images = images_of(bench, 4, size)
        for row in ROWS:
            measure(bench, row, images)
        for name, chain in chains().items() if size != SMALL else ():
            contenders = {"torchvision": calls(chain, images), "converted": calls(convert(chain), images)}
            name = f"tensors: {name}, {size[1]}×{size[0]}"
            bench.row(name, contenders, count=len(images), least_s=ROUND_S, mark=2.0)
    bench.finish()


if __name__ == "__main__":
    main()
