"""Whether finished samples are torchvision's, byte for byte: with the core, with its portable form, and without it.

    python benchmarks/equality.py --photos PHOTOS [--inputs files pil opened opener] [--seeds 5] [--most N]
                                  [--cores auto portable off] [--done FILE]

PHOTOS is a folder as `ImageFolder` takes it. For each photo, transform and seed, torchvision's result on the loaded
PIL image is compared with the sample of `fastpipe.ImageFolder` (``files``), with the results of fastpipe's transforms
on that image (``pil``) and on the one of `fastpipe.open_image` (``opened``), and with that of torchvision's transforms
on the one that ``Image.open`` gives behind `fastpipe.register_pillow_opener` (``opener``): as uint8 and as normalised
float32, by its hash, and the PIL image itself: class, mode, size, info and all four bytes of a pixel. Each of
``--cores`` is a value of `FASTPIPE_CORE` and runs in a process of its own; all have to give the same. What draws
nothing, and what takes long, is compared at one seed. With ``--done`` a line a photo goes to FILE, and a run that was
stopped goes on from there. Exit status 1 where anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import sys
from collections import Counter, defaultdict
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import torch
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fastpipe
from fastpipe import transforms as fastpipe_transforms

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from torchvision_here import torchvision

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
ONE_SEED = {
    *("ElasticTransform", "ElasticTransform, nearest", "GaussianBlur"),
    *("Resize", "Resize, bicubic", "Pad", "Grayscale", "evaluation"),
}
VIEWS = 3
KINDS = ("uint8", "normalised")
PIL = "PIL image"
INPUTS = ("files", "pil", "opened", "opener")
Samples: TypeAlias = dict[tuple[str, str, int], list[Any]]
"""By transform, kind and seed: each view's dtype, shape and hash."""
Found: TypeAlias = dict[str, Any]
"""Of one photo or of many, by transform: samples ``compared``, how many of them are ``equal`` (by core);
``different``: a line for each sample that is."""


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
    if kind == PIL:
        return []
    return [T.PILToTensor()] if kind == "uint8" else [T.ToTensor(), T.Normalize(MEAN, STD)]


def seeded(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)


def told(views: list[Any]) -> list[Any]:
    if isinstance(views[0], Image.Image):
        return [_told_image(view) for view in views]
    return [(view.dtype, view.shape, hashlib.sha256(view.contiguous().numpy().data).digest()) for view in views]


def _told_image(image: Image.Image) -> tuple[Any, ...]:
    """Mode, size, info, and a hash of all bytes, with the fourth that Pillow has behind red, green and blue."""
    pixels = image.tobytes("raw", "RGBX") if image.mode == "RGB" else image.tobytes()
    info = sorted((str(key), repr(value)) for key, value in image.info.items())
    return image.mode, image.size, info, hashlib.sha256(pixels).digest()


def seeds_of(name: str, seeds: int) -> range:
    return range(1 if name in ONE_SEED else seeds)


def expected(path: str, seeds: int) -> Samples:
    """A photo's samples by torchvision. Both kinds end alike drawings, as no end draws."""
    T = torchvision.transforms
    photo = torchvision.datasets.folder.default_loader(path)
    found = {}
    for name, chain in transforms(T).items():
        for seed in seeds_of(name, seeds):
            seeded(seed)
            # What people write with torchvision for several views of an image.
            views = [T.Compose(chain)(photo) for _ in range(VIEWS if name == "MultiView" else 1)]
            found[name, PIL, seed] = told(views)
            for kind in KINDS:
                found[name, kind, seed] = told([T.Compose(ends(T, kind))(view) for view in views])
    return found


_datasets: dict[tuple[str, str], Any] = {}
_composed: dict[str, dict[tuple[str, str], Any]] = {}


def begin(core: str, photos: str, inputs: list[str]) -> None:
    """In the process that has this core."""
    os.environ["FASTPIPE_CORE"] = core
    torch.set_num_threads(1)
    T: Any
    for given in inputs:
        if given != "files":
            T = torchvision.transforms if given == "opener" else fastpipe_transforms
            _composed[given] = {
                (name, kind): T.Compose([*chain, *ends(T, kind)])
                for name, chain in transforms(T).items()
                for kind in (*KINDS, PIL)
            }
    T = fastpipe_transforms
    for name, chain in transforms(T).items():
        for kind in KINDS if "files" in inputs else ():
            transform: Any = T.Compose([*chain, *ends(T, kind)])
            if name == "MultiView":
                transform = fastpipe.MultiView(transform, VIEWS)
            _datasets[name, kind] = fastpipe.ImageFolder(photos, transform)


def given(index: int, path: str, seeds: int) -> dict[str, Samples]:
    """A photo's samples by fastpipe, by what they are made from."""
    found = {name: _from_image(name, path, seeds) for name in _composed}
    return {"files": _from_file(index, path, seeds), **found} if _datasets else found


def _photo(given: str, path: str) -> Image.Image:
    if given == "opened":
        return fastpipe.open_image(path).convert("RGB")
    with fastpipe.register_pillow_opener() if given == "opener" else contextlib.nullcontext():
        photo: Image.Image = torchvision.datasets.folder.default_loader(path)
        return photo


def _from_image(given: str, path: str, seeds: int) -> Samples:
    """A photo's samples made of its PIL image, which must stay as it is; a lazy one is opened anew for each."""
    found = {}
    photo = _photo(given, path)
    before = _told_image(_photo(given, path))
    for (name, kind), transform in _composed[given].items():
        for seed in seeds_of(name, seeds):
            if given != "pil":
                photo = _photo(given, path)
            seeded(seed)
            views = [transform(photo) for _ in range(VIEWS if name == "MultiView" else 1)]
            if kind == PIL:
                for view in views:
                    view.load()
            stays = given == "pil" or kind == PIL
            is_right = (kind != PIL or _are_plain(views)) and (not stays or _told_image(photo) == before)
            found[name, kind, seed] = told(views) if is_right else [None]
    return found


def _are_plain(images: list[Any]) -> bool:
    return all(type(image) is Image.Image for image in images)


def _from_file(index: int, path: str, seeds: int) -> Samples:
    found = {}
    for (name, kind), dataset in _datasets.items():
        assert os.path.samefile(dataset.samples[index][0], path)
        for seed in seeds_of(name, seeds):
            seeded(seed)
            sample = dataset[index][0]
            found[name, kind, seed] = told(sample if name == "MultiView" else [sample])
    return found


def compared(path: str, reference: Samples, jobs: dict[str, Future[dict[str, Samples]]]) -> Found:
    """A photo's samples, torchvision's with those of each core."""
    counts: Counter[str] = Counter()
    equal: dict[str, Counter[str]] = {core: Counter() for core in jobs}
    different = []
    for core, job in jobs.items():
        samples = [(source, key, ours) for source, made in job.result().items() for key, ours in made.items()]
        counts = Counter()
        for source, key, ours in samples:
            name, *_ = key
            counts[name] += len(reference[key])
            same = [one == other for one, other in zip(reference[key], ours, strict=True)]
            equal[core][name] += sum(same)
            if not all(same):
                different.append(f"{core}, from {source}: {path}, {', '.join(map(str, key))}")
    return {"compared": counts, "equal": equal, "different": different}


def all_of(photos: list[Found], cores: list[str]) -> Found:
    counts: Counter[str] = Counter()
    equal: dict[str, Counter[str]] = {core: Counter() for core in cores}
    for found in photos:
        counts.update(found["compared"])
        for core in cores:
            equal[core].update(found["equal"][core])
    different = [line for found in photos for line in found["different"]]
    return {"compared": counts, "equal": equal, "different": different}


def table(found: Found, photos: int) -> Table:
    made = Table(title=f"samples of {photos} photos with torchvision's bytes, by FASTPIPE_CORE")
    for heading in ("transform", "samples", *found["equal"]):
        made.add_column(heading, justify="left" if heading == "transform" else "right")
    for name, count in found["compared"].items():
        shares = [f"{100 * equal[name] / count:.6g}%" for equal in found["equal"].values()]
        made.add_row(name, f"{count:,}", *shares)
    total, *equal = (sum(one.values()) for one in (found["compared"], *found["equal"].values()))
    made.add_row("all", f"{total:,}", *(f"{count:,}" for count in equal))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", required=True, help="a folder with one folder a class")
    parser.add_argument("--inputs", nargs="+", choices=INPUTS, default=INPUTS, help="as above; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int, help="only so many photos, spread over the folder")
    parser.add_argument("--cores", nargs="+", default=["auto", "portable", "off"], help="values of FASTPIPE_CORE")
    parser.add_argument("--done", type=Path, help="a line a photo; what is in it isn't compared again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    paths = [path for path, _ in torchvision.datasets.ImageFolder(options.photos).samples]
    step = max(len(paths) // options.most, 1) if options.most else 1
    run = [options.seeds, *options.inputs, *options.cores]
    done: dict[str, Found] = {}
    if options.done and options.done.exists():
        lines = map(json.loads, options.done.read_text().splitlines())
        done = {path: found for path, of_run, found in lines if of_run == run}
    chosen = range(0, len(paths), step)
    spawning = multiprocessing.get_context("spawn")  # a core is chosen once in a process
    pools = {
        core: ProcessPoolExecutor(
            1, mp_context=spawning, initializer=begin, initargs=(core, options.photos, options.inputs)
        )
        for core in options.cores
    }
    left = [index for index in chosen if paths[index] not in done]
    jobs: dict[int, dict[str, Future[dict[str, Samples]]]] = defaultdict(dict)
    for index in left:  # so that none waits for a slower one
        for core, pool in pools.items():
            jobs[index][core] = pool.submit(given, index, paths[index], options.seeds)
    try:
        for index in track(left, "comparing", console=Console(stderr=True)):
            found = compared(paths[index], expected(paths[index], options.seeds), jobs.pop(index))
            done[paths[index]] = found
            for line in found["different"]:
                print("DIFFERENT", line, file=sys.stderr, flush=True)
            if options.done:
                with options.done.open("a") as file:
                    file.write(json.dumps([paths[index], run, found]) + "\n")
    finally:
        for pool in pools.values():
            pool.shutdown(cancel_futures=True)
    found = all_of([done[paths[index]] for index in chosen], options.cores)
    Console().print(table(found, len(chosen)))
    sys.exit(bool(found["different"]))


if __name__ == "__main__":
    main()
