"""Whether finished samples are torchvision's, byte for byte.

    python benchmarks/equality.py --photos PHOTOS [--seeds 5] [--most N]

PHOTOS is a folder as `ImageFolder` takes it. For each transform, photo and seed the sample of `fastpipe.ImageFolder` is
compared with that of torchvision's, on PIL images, as uint8 and as normalised float32. `FASTPIPE_CORE=portable` and
`FASTPIPE_CORE=off` have to give the same. What can't be equal stands in docs/exactness.md with its bound. Exit status 1
where anything else differs.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import fastpipe
from fastpipe import core
from fastpipe import transforms as fastpipe_transforms

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from tv import torchvision

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
EXCEPTIONS = {"GaussianBlur", "ElasticTransform"}
"""docs/exactness.md"""


def transforms(T: Any) -> dict[str, list[Any]]:
    """What comes before the tensor, by name, in one of the two libraries."""
    bilinear, bicubic = T.InterpolationMode.BILINEAR, T.InterpolationMode.BICUBIC
    crop = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()]
    small = T.Resize(160)
    alone = {
        "Resize": T.Resize(224),
        "Resize, bicubic": T.Resize((224, 160), bicubic),
        "RandomResizedCrop": T.RandomResizedCrop(224),
        "RandomCrop": T.RandomCrop(160, padding=8, pad_if_needed=True, padding_mode="reflect"),
        "flips": T.Compose([T.RandomHorizontalFlip(), T.RandomVerticalFlip()]),
        "Pad": T.Pad((3, 9), fill=77),
        "Grayscale": T.Grayscale(3),
        "brightness": T.ColorJitter(brightness=0.8),
        "contrast": T.ColorJitter(contrast=0.8),
        "saturation": T.ColorJitter(saturation=0.8),
        "hue": T.ColorJitter(hue=0.5),
        "ColorJitter": T.ColorJitter(0.4, 0.4, 0.4, 0.1),
        "RandomRotation": T.RandomRotation(180),
        "RandomRotation, bilinear": T.RandomRotation(45, bilinear, expand=True, fill=(9, 99, 200)),
        "RandomRotation, bicubic": T.RandomRotation(45, bicubic),
        "RandomAffine": T.RandomAffine(40, (0.2, 0.2), (0.6, 1.5), 30),
        "RandomAffine, bilinear": T.RandomAffine(40, (0.2, 0.2), (0.6, 1.5), (-9, 9, -9, 9), bilinear, fill=128),
        "RandomPerspective": T.RandomPerspective(0.5, 1.0),
        "RandomPerspective, bicubic": T.RandomPerspective(0.5, 1.0, bicubic),
        "RandomInvert": T.RandomInvert(),
        "RandomPosterize": T.RandomPosterize(3, 1.0),
        "RandomSolarize": T.RandomSolarize(128, 1.0),
        "RandomAdjustSharpness": T.RandomAdjustSharpness(2, 1.0),
        "RandomAutocontrast": T.RandomAutocontrast(1.0),
        "RandomEqualize": T.RandomEqualize(1.0),
        "GaussianBlur": T.GaussianBlur(9, (0.1, 2.0)),
        "ElasticTransform": T.ElasticTransform(50.0),
    }
    policies = {
        "AutoAugment": T.AutoAugment(),
        "AutoAugment, CIFAR10": T.AutoAugment(T.AutoAugmentPolicy.CIFAR10, bilinear),
        "AutoAugment, SVHN": T.AutoAugment(T.AutoAugmentPolicy.SVHN),
        "RandAugment": T.RandAugment(),
        "RandAugment, bilinear": T.RandAugment(3, 15, interpolation=bilinear, fill=[9, 8, 7]),
        "TrivialAugmentWide": T.TrivialAugmentWide(),
        "AugMix": T.AugMix(),
    }
    chains = {name: [small, one] if name in EXCEPTIONS else [one] for name, one in alone.items()}
    chains |= {f"training, {name}": [*crop, one] for name, one in policies.items()}
    chains["training"] = crop
    chains["training, ColorJitter"] = [*crop, T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomGrayscale(0.2)]
    chains["evaluation"] = [T.Resize(256), T.CenterCrop(224)]
    return chains


def finished(T: Any, chain: list[Any], normalized: bool) -> Any:
    ends = [T.ToTensor(), T.Normalize(MEAN, STD)] if normalized else [T.PILToTensor()]
    return T.Compose([*chain, *ends])


def views(T: Any, view: type, normalized: bool) -> Any:
    jitter = T.ColorJitter(0.4, 0.4, 0.4, 0.1)
    return view(
        finished(T, [T.RandomResizedCrop(96), T.RandomHorizontalFlip(), jitter, T.RandAugment()], normalized), 3
    )


class Views:
    """What people write with torchvision for several views of an image."""

    def __init__(self, transform: Any, n: int) -> None:
        self.transform, self.n = transform, n

    def __call__(self, image: Any) -> list[Any]:
        return [self.transform(image) for _ in range(self.n)]


def sample(dataset: Any, index: int, seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    random.seed(seed)
    made = dataset[index][0]
    return made if isinstance(made, list) else [made]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", required=True, help="a folder with one folder a class")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int, help="only so many photos, spread over the folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    reference = torchvision.transforms
    pairs: dict[str, list[tuple[Any, Any]]] = {}
    theirs, ours = transforms(reference), transforms(fastpipe_transforms)
    for name in theirs:
        pairs[name] = [
            (finished(reference, theirs[name], normalized), finished(fastpipe_transforms, ours[name], normalized))
            for normalized in (False, True)
        ]
    pairs["MultiView"] = [
        (views(reference, Views, normalized), views(fastpipe_transforms, fastpipe.MultiView, normalized))
        for normalized in (False, True)
    ]
    table = Table(title=f"samples with torchvision's bytes; core: {core.isa() if core.available() else 'none'}")
    for heading in ("transform", "samples", "equal", "largest difference", ""):
        table.add_column(heading, justify="left" if heading in ("transform", "") else "right")
    failed, digest = False, hashlib.sha256()
    for name, both in pairs.items():
        compared, equal, largest = 0, 0, 0.0
        for kind, (their, our) in enumerate(both):
            expected, got = (
                torchvision.datasets.ImageFolder(options.photos, their),
                fastpipe.ImageFolder(options.photos, our),
            )
            step = max(len(got) // options.most, 1) if options.most else 1
            for index in range(0, len(got), step):
                for seed in range(options.seeds):
                    for one, other in zip(sample(expected, index, seed), sample(got, index, seed), strict=True):
                        same = one.dtype == other.dtype and one.shape == other.shape
                        same = same and one.numpy().tobytes() == other.numpy().tobytes()
                        compared += 1
                        equal += same
                        if not same and kind == 0 and one.shape == other.shape:
                            largest = max(largest, np.abs(one.numpy().astype(int) - other.numpy()).max())
                        if name not in EXCEPTIONS:
                            digest.update(other.numpy().tobytes())
        wrong = equal < compared and name not in EXCEPTIONS
        failed |= wrong
        note = "DIFFERENT" if wrong else "docs/exactness.md" if name in EXCEPTIONS else ""
        table.add_row(name, f"{compared:,}", f"{100 * equal / compared:.6g}%", f"{largest:.0f}", note)
    console = Console()
    console.print(table)
    console.print(f"all of them, the exceptions left out: {digest.hexdigest()[:16]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
