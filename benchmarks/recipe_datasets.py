"""The data sets of rows of `recipes.py`: other libraries', and photos with boxes and masks, arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import MEAN, STD, module, spread, torchvision, training
from PIL import Image
from torch.utils.data import Subset, TensorDataset

import fastpipe

T = module("torchvision.transforms")


def in_memory(name: str, shape: tuple[int, int, int], transform: Any, photos: Path, files: int) -> Any:
    """torchvision's dataset of that name, with random pixels, as its constructor would make it."""
    kind = getattr(torchvision.datasets, name)
    dataset, count = kind.__new__(kind), 8 * files
    torchvision.datasets.VisionDataset.__init__(dataset, "data", transform=transform)
    pixels = np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)
    dataset.train = True
    if name == "MNIST":
        dataset.data, dataset.targets = torch.from_numpy(pixels[..., 0]), torch.arange(count)
    else:
        dataset.data, dataset.targets = pixels, list(range(count))
    return dataset


def cifar(photos: Path, files: int) -> Any:
    crop = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
    return in_memory("CIFAR10", (32, 32, 3), T.Compose(crop), photos, files)


def mnist(photos: Path, files: int) -> Any:
    return in_memory("MNIST", (28, 28, 1), T.Compose([T.ToTensor(), T.Normalize(0.1307, 0.3081)]), photos, files)


def tensors(photos: Path, files: int) -> Any:
    return TensorDataset(torch.randint(0, 256, (8 * files, 3, 32, 32), dtype=torch.uint8), torch.arange(8 * files))


def subset(photos: Path, files: int) -> Any:
    dataset = torchvision.datasets.ImageFolder(str(photos), training(T, T.TrivialAugmentWide()))
    return Subset(dataset, spread(len(dataset), files))


def hugging_face(photos: Path, files: int) -> Any:
    """A Hugging Face dataset with a transform function that calls a Compose."""
    hf, transform = module("datasets"), training(T)
    paths = [path for path, _ in torchvision.datasets.ImageFolder(str(photos)).samples]
    paths = [paths[index] for index in spread(len(paths), files)]
    features = hf.Features({"image": hf.Image(), "label": hf.Value("int64")})
    rows = hf.Dataset.from_dict({"image": paths, "label": list(range(len(paths)))}, features=features)

    def augment(batch: dict[str, Any]) -> dict[str, Any]:
        images = [transform(image.convert("RGB")) for image in batch["image"]]
        return {"pixel_values": images, "label": batch["label"]}

    return rows.with_transform(augment)


class WithTargets:
    """Photos with boxes and masks, for fastpipe's `SampleDataset` and for datasets that users write."""

    def __init__(self, photos: list[str], masks: Path) -> None:
        self.photos = photos
        self.sizes: list[tuple[int, int]] = []
        self.masks: list[str] = []
        for number, path in enumerate(photos):
            with Image.open(path) as image:
                height, width = image.height, image.width
            rough = np.random.default_rng(number).integers(0, 21, (height // 64 + 1, width // 64 + 1), dtype=np.uint8)
            mask = masks / f"mask-{number}.png"
            Image.fromarray(rough.repeat(64, 0).repeat(64, 1)[:height, :width]).save(mask)
            self.sizes.append((height, width))
            self.masks.append(str(mask))

    def boxes(self, index: int) -> np.ndarray[Any, Any]:
        """Eight boxes ``(8, 4)`` in XYXY format."""
        rng = np.random.default_rng(index)
        size = np.array(self.sizes[index][::-1])
        corners = rng.uniform(0, 0.7, (8, 2)) * size
        return np.concatenate([corners, corners + rng.uniform(0.1, 0.3, (8, 2)) * size], 1).astype(np.float32)

    def detection(self, index: int) -> tuple[Any, ...]:
        return self.photos[index], {"boxes": fastpipe.Boxes(self.boxes(index)), "labels": torch.arange(8)}

    def segmentation(self, index: int) -> tuple[Any, ...]:
        return self.photos[index], fastpipe.MaskFile(self.masks[index])

    def their_detection(self, index: int) -> tuple[Any, ...]:
        kind = module("torchvision.tv_tensors").BoundingBoxes
        boxes = kind(self.boxes(index), format="XYXY", canvas_size=self.sizes[index])
        return Image.open(self.photos[index]).convert("RGB"), {"boxes": boxes, "labels": torch.arange(8)}

    def their_segmentation(self, index: int) -> tuple[Any, ...]:
        mask = module("torchvision.tv_tensors").Mask(Image.open(self.masks[index]))
        return Image.open(self.photos[index]).convert("RGB"), mask


class ByNumpy:
    """The dataset that users write: np.load, converted to a tensor."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(np.load(self.paths[index])), 0
