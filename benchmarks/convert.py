"""Data sets as people have them, in torch's DataLoader, and the same loader behind `fastpipe.convert`.

    python benchmarks/convert.py [PHOTOS] [--samples 1024] [--rounds 5] [--batch 128] [--only WORD] [--json FILE]

Without PHOTOS (a folder as ImageFolder takes it, root/class/….jpg) only the data sets in memory are measured. Each
round makes the same batches by both loaders, one after the other and in turns, in one thread and without workers. A
figure is processor time; the ratio is the median over the rounds. Before it is timed, each row is compared: `equal`
says that all batches and the states of torch's, Python's and numpy's generators were the same.

Mark: CIFAR10 with RandomCrop(32, padding=4), flip, ToTensor and Normalize at least 6 times torchvision.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import torch
from paired import in_turns
from recipe_conformance import flat, seed_all, states
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader, Subset, TensorDataset
from torchvision_here import module, torchvision

import fastpipe

T = module("torchvision.transforms")
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
MARKS = {"CIFAR10": 6.0}


def photos_recipe() -> Any:
    return T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])


def in_memory(name: str, shape: tuple[int, ...], transform: Any, count: int) -> Any:
    """torchvision's data set of that name as its constructor leaves it, of random pixels."""
    kind = getattr(torchvision.datasets, name)
    dataset = kind.__new__(kind)
    torchvision.datasets.VisionDataset.__init__(dataset, "data", transform=transform)
    rng = np.random.default_rng(0)
    data: Any = rng.integers(0, 256, (count, *shape), np.uint8)
    dataset.train, dataset.split = True, "train"
    if name == "MNIST":
        dataset.data, dataset.targets = torch.from_numpy(data), torch.arange(count)
    elif name == "STL10":
        dataset.data, dataset.labels = data, np.arange(count)
    else:
        dataset.data, dataset.targets = data.transpose(0, 2, 3, 1), list(range(count))
    return dataset


def _cifar(count: int) -> Any:
    normalize = T.Normalize((0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261))
    crop = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), normalize]
    return in_memory("CIFAR10", (3, 32, 32), T.Compose(crop), count)


def _mnist(count: int) -> Any:
    return in_memory("MNIST", (28, 28), T.Compose([T.ToTensor(), T.Normalize(0.1307, 0.3081)]), count)


def _stl10(count: int) -> Any:
    crop = T.Compose([T.RandomCrop(96, padding=12), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])
    return in_memory("STL10", (3, 96, 96), crop, count)


def _tensors(count: int) -> Any:
    return TensorDataset(torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8), torch.arange(count))


def _folder(photos: Path) -> Any:
    return torchvision.datasets.ImageFolder(str(photos), photos_recipe())


def _timm(photos: Path) -> Any:
    data = module("timm.data")
    return data.ImageDataset(str(photos), transform=data.create_transform(224, is_training=True))


def _hugging_face(photos: Path, transform: Any = None) -> Any:
    """Rows with a function; it calls a Compose of torchvision's, where no other is given."""
    hf, transform = module("datasets"), transform or photos_recipe()
    paths = [path for path, _ in torchvision.datasets.ImageFolder(str(photos)).samples]
    features = hf.Features({"image": hf.Image(), "label": hf.Value("int64")})
    rows = hf.Dataset.from_dict({"image": paths, "label": list(range(len(paths)))}, features=features)

    def augment(batch: dict[str, Any]) -> dict[str, Any]:
        images = [transform(image.convert("RGB")) for image in batch["image"]]
        return {"pixel_values": images, "label": batch["label"]}

    return rows.with_transform(augment)


MEMORY: dict[str, Callable[[int], Any]] = {
    "CIFAR10": _cifar,
    "MNIST": _mnist,
    "STL10": _stl10,
    "TensorDataset": _tensors,
}
FILES: dict[str, Callable[[Path], Any]] = {
    "ImageFolder": _folder,
    "timm's ImageDataset": _timm,
    "Hugging Face's Dataset": _hugging_face,
    "… its Compose converted, too": lambda photos: (
        _hugging_face(photos),
        _hugging_face(photos, fastpipe.convert(photos_recipe())),
    ),
}


def one_pass(loader: Any) -> tuple[float, Any]:
    """Seconds of processor time of all batches, and what comes out, comparable."""
    seed_all(1)
    start = time.process_time()
    batches = list(loader)
    return time.process_time() - start, batches


def microseconds(pair: Sequence[Any], count: int, side: int) -> float:
    """The processor time of a sample of one of two loaders, over a whole pass."""
    return one_pass(pair[side])[0] / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, nargs="?")
    parser.add_argument("--samples", type=int, default=1024, help="of data sets in memory")
    parser.add_argument("--files", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, Callable[[], Any]] = {
        name: lambda make=make: make(options.samples) for name, make in MEMORY.items()
    }
    if options.photos is not None:
        rows |= {name: lambda make=make: make(options.photos) for name, make in FILES.items()}
    table = Table("data set", "its own, µs", "converted, µs", "ratio", "mark", "equal")
    found = []
    for name, make in rows.items():
        if options.only not in name:
            continue
        try:
            made = make()
        except ImportError as error:
            table.add_row(name, str(error))
            continue
        theirs, ours = made if isinstance(made, tuple) else (made, made)  # what is converted may be changed
        count, size = len(theirs), options.batch
        if name in FILES:
            whole, count, size = count, min(options.files, count), min(32, size)
            places = [number * whole // count for number in range(count)]
            theirs, ours = Subset(theirs, places), Subset(ours, places)
        pair = [DataLoader(theirs, batch_size=size), fastpipe.convert(DataLoader(ours, batch_size=size))]
        results = []
        for loader in pair:
            _, batches = one_pass(loader)
            results.append((flat(batches), states()))
        equal = results[0] == results[1]
        del results
        task = partial(microseconds, pair, count)
        before, after, ratio = in_turns([task], options.rounds)
        found.append({"dataset": name, "theirs_us": before, "fastpipe_us": after, "ratio": ratio, "equal": equal})
        mark = f"{MARKS[name]:g}x" if name in MARKS else ""
        table.add_row(name, f"{before:,.1f}", f"{after:,.1f}", f"{ratio:.2f}x", mark, "yes" if equal else "NO")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps({"schema": "fastpipe-convert/1", "datasets": found}, indent=1))


if __name__ == "__main__":
    main()
