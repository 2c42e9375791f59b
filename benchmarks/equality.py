"""Compares fastpipe's finished samples with torchvision's on real photos, byte for byte, with and without the core.

    python benchmarks/equality.py --photos PHOTOS [--inputs files pil opened opener] [--seeds 5] [--most N]
                                  [--cores auto portable off]

PHOTOS is a folder as `ImageFolder` takes it. For each photo, transform and seed, torchvision's result on the loaded
PIL image is compared with

    files     the sample of `fastpipe.ImageFolder`
    pil       fastpipe's transforms on the same PIL image
    opened    fastpipe's transforms on the image of `fastpipe.open_image`
    opener    torchvision's transforms on the image of ``Image.open`` with `fastpipe.register_pillow_opener`

as uint8 and as normalised float32, by hash, and as a PIL image: class, mode, size, info and all four bytes of a pixel.
Each of ``--cores`` is a value of `FASTPIPE_CORE` and runs in a separate process. Transforms that draw nothing or take
long are compared for one seed. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import multiprocessing
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeAlias

import torch
from harness import MEAN, STD, torchvision
from PIL import Image
from recipe_conformance import seed_all
from rich.console import Console
from rich.progress import track

import fastpipe
from fastpipe import transforms as fastpipe_transforms
from fastpipe.reporting.tables import ReportTable

ONE_SEED = {
    *("ElasticTransform", "ElasticTransform, nearest", "GaussianBlur"),
    *("Resize", "Resize, bicubic", "Pad", "Grayscale", "evaluation"),
}
VIEWS = 3
PIL = "PIL image"
KINDS = (PIL, "uint8", "normalised")
INPUTS = ("files", "pil", "opened", "opener")
Samples: TypeAlias = "dict[tuple[str, str, int], list[Any]]"
"""By transform, kind and seed: a description of each view, as from `told`."""


def transforms(T: Any) -> dict[str, list[Any]]:
    """The transforms before the tensor, by name, of one of the two libraries."""
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
        "ElasticTransform, nearest": T.ElasticTransform(300.0, 4.0, T.InterpolationMode.NEAREST, fill=(9, 99, 200)),
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
    chains = {name: [small, one] if name.startswith("ElasticTransform") else [one] for name, one in alone.items()}
    chains |= {f"training, {name}": [*crop, one] for name, one in policies.items()}
    chains["training"] = crop
    chains["training, ColorJitter"] = [*crop, T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomGrayscale(0.2)]
    chains["evaluation"] = [T.Resize(256), T.CenterCrop(224)]

    chains["MultiView"] = [
        T.RandomResizedCrop(96),
        T.RandomHorizontalFlip(),
        T.ColorJitter(0.4, 0.4, 0.4, 0.1),
        T.RandAugment(),
    ]
    return chains


def ends(T: Any, kind: str) -> list[Any]:
    """The last transforms for a kind of sample."""
    return {PIL: [], "uint8": [T.PILToTensor()], "normalised": [T.ToTensor(), T.Normalize(MEAN, STD)]}[kind]


def told(view: Any) -> tuple[Any, ...]:
    """A description of a sample to compare; for an image: mode, size, info and all bytes, including RGB's fourth."""
    if isinstance(view, torch.Tensor):
        return view.dtype, tuple(view.shape), hashlib.sha256(view.contiguous().numpy().data).digest()
    pixels = view.tobytes("raw", "RGBX") if view.mode == "RGB" else view.tobytes()
    info = sorted((str(key), repr(value)) for key, value in view.info.items())
    return view.mode, view.size, info, hashlib.sha256(pixels).digest()


def drawn(seeds: int) -> list[tuple[str, int, int]]:
    """The name, the seed and the number of views of each transform to compare."""
    return [
        (name, seed, VIEWS if name == "MultiView" else 1)
        for name in transforms(fastpipe_transforms)
        for seed in range(1 if name in ONE_SEED else seeds)
    ]


def expected(path: str, seeds: int) -> Samples:
    """A photo's samples by torchvision. All kinds have the same drawings, as the last transforms don't draw."""
    T = torchvision.transforms
    photo, chains = torchvision.datasets.folder.default_loader(path), transforms(T)
    found = {}
    for name, seed, count in drawn(seeds):
        seed_all(seed)
        views = [T.Compose(chains[name])(photo) for _ in range(count)]  # as users write several views of an image
        for kind in KINDS:
            found[name, kind, seed] = [told(T.Compose(ends(T, kind))(view)) for view in views]
    return found


class Ours:
    """Makes fastpipe's samples, in a process with one of the cores.

    Args:
        photos: the folder.
        inputs: the inputs to make samples from, of `INPUTS`.
    """

    def __init__(self, photos: str, inputs: list[str]) -> None:
        self._datasets: dict[tuple[str, str], Any] = {}
        self._composed: dict[str, dict[tuple[str, str], Any]] = {}
        for given in inputs:
            T: Any = torchvision.transforms if given == "opener" else fastpipe_transforms
            composed = {
                (name, kind): T.Compose([*chain, *ends(T, kind)])
                for name, chain in transforms(T).items()
                for kind in KINDS
            }
            if given != "files":
                self._composed[given] = composed
                continue
            for (name, kind), transform in composed.items():
                if kind != PIL:
                    views = fastpipe.MultiView(transform, VIEWS) if name == "MultiView" else transform
                    self._datasets[name, kind] = fastpipe.ImageFolder(photos, views)

    def samples(self, index: int, path: str, seeds: int) -> dict[str, Samples]:
        """A photo's samples by input."""
        found = {given: self._from_image(given, path, seeds) for given in self._composed}
        return {"files": self._from_file(index, path, seeds), **found} if self._datasets else found

    def _from_file(self, index: int, path: str, seeds: int) -> Samples:
        found = {}
        for name, seed, count in drawn(seeds):
            for kind in KINDS[1:]:
                dataset = self._datasets[name, kind]
                assert os.path.samefile(dataset.samples[index][0], path)
                seed_all(seed)
                sample = dataset[index][0]
                found[name, kind, seed] = [told(view) for view in (sample if count > 1 else [sample])]
        return found

    def _from_image(self, given: str, path: str, seeds: int) -> Samples:
        """A photo's samples made from its PIL image, which mustn't change; a lazy image is opened again for each."""
        found = {}
        photo = _photo(given, path)
        before = told(_photo(given, path))
        for name, seed, count in drawn(seeds):
            for kind in KINDS:
                if given != "pil":
                    photo = _photo(given, path)
                seed_all(seed)
                views = [self._composed[given][name, kind](photo) for _ in range(count)]
                made = [told(view) for view in views]  # first, as it loads the images' pixels
                is_plain = kind != PIL or all(type(view) is Image.Image for view in views)
                stays = told(photo) == before if given == "pil" or kind == PIL else True
                found[name, kind, seed] = made if is_plain and stays else [None] * count
        return found


def _photo(given: str, path: str) -> Image.Image:
    if given == "opened":
        return fastpipe.open_image(path).convert("RGB")
    with fastpipe.register_pillow_opener() if given == "opener" else contextlib.nullcontext():
        photo: Image.Image = torchvision.datasets.folder.default_loader(path)
        return photo


_ours: list[Ours] = []  # this process's


def begin(core: str, photos: str, inputs: list[str]) -> None:
    """Initialises a process with one of the cores."""
    os.environ["FASTPIPE_CORE"] = core
    torch.set_num_threads(1)
    _ours.append(Ours(photos, inputs))


def given(*arguments: Any) -> dict[str, Samples]:
    """Calls this process's `Ours.samples`."""
    return _ours[0].samples(*arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", required=True, help="a folder with one folder for each class")
    parser.add_argument("--inputs", nargs="+", choices=INPUTS, default=INPUTS, help="as above; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int, help="the most photos, spread over the folder")
    parser.add_argument("--cores", nargs="+", default=["auto", "portable", "off"], help="values of FASTPIPE_CORE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    paths = [path for path, _ in torchvision.datasets.ImageFolder(options.photos).samples]
    chosen = range(0, len(paths), max(len(paths) // options.most, 1) if options.most else 1)
    compared: dict[str, Counter[str]] = {core: Counter() for core in options.cores}  # views, by transform
    equal: dict[str, Counter[str]] = {core: Counter() for core in options.cores}
    spawning = multiprocessing.get_context("spawn")  # a core is chosen once in a process
    with contextlib.ExitStack() as stack:
        pools = {
            core: stack.enter_context(
                ProcessPoolExecutor(
                    1, mp_context=spawning, initializer=begin, initargs=(core, options.photos, options.inputs)
                )
            )
            for core in options.cores
        }
        jobs = [  # for all photos at once, so that no core waits for a slower one
            {core: pool.submit(given, index, paths[index], options.seeds) for core, pool in pools.items()}
            for index in chosen
        ]
        for index, job in zip(track(chosen, "comparing", console=Console(stderr=True)), jobs, strict=True):
            reference = expected(paths[index], options.seeds)
            for core, made in job.items():
                for source, samples in made.result().items():
                    for key, ours in samples.items():
                        same = [one == other for one, other in zip(reference[key], ours, strict=True)]
                        compared[core][key[0]] += len(same)
                        equal[core][key[0]] += sum(same)
                        if not all(same):
                            where = f"{core}, from {source}: {paths[index]}, {', '.join(map(str, key))}"
                            print("DIFFERENT", where, file=sys.stderr, flush=True)
    title = f"samples of {len(chosen)} photos with torchvision's bytes, by FASTPIPE_CORE"
    columns = ["samples", *options.cores]
    table = ReportTable(["transform", *columns], columns, title=title)
    counts = compared[options.cores[0]]
    for name, count in counts.items():
        table.add_row(name, count, *(f"{100 * equal[core][name] / count:.6g}%" for core in options.cores))
    table.add_row("all", counts.total(), *(equal[core].total() for core in options.cores))
    print(table)
    sys.exit(equal != compared)


if __name__ == "__main__":
    main()
