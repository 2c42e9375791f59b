"""Data sets of photos as people write them, and functions that make batches of their samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, default_collate
from torchvision_here import torchvision

T = torchvision.transforms
NORMALIZE = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def train(size: int = 128) -> Any:
    return T.Compose([T.RandomResizedCrop(size), T.RandomHorizontalFlip(), T.ToTensor(), NORMALIZE])


class Photos(Dataset[Any]):
    """As people write it."""

    def __init__(self, files: list[str], transform: Any, form: str = "pair") -> None:
        self.files, self.transform, self.form = files, transform, form

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        image = Image.open(self.files[index]).convert("RGB")
        if self.form == "views":
            return [self.transform(image), self.transform(image)], index
        made = self.transform(image)
        if self.form == "changed":
            made.mul_(2)
        if self.form == "worked on":
            made = made * 2
        if self.form == "dict":
            return {"image": made, "label": index, "name": self.files[index]}
        if self.form == "redrawn" and index % 7 == 3:
            made = self.transform(image)
        if self.form == "sometimes" and index % 5 == 2:
            made = torch.full_like(made, float(index))
        return made, index


class Stream(IterableDataset[Any]):
    """Samples one after the other, of which some may be made ahead."""

    def __init__(self, files: list[str], transform: Any, ahead: int) -> None:
        self.files, self.transform, self.ahead = files, transform, ahead

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        files = self.files if worker is None else self.files[worker.id :: worker.num_workers]
        made: deque[Any] = deque()
        for number, file in enumerate(files):
            made.append((self.transform(Image.open(file).convert("RGB")), number))
            if len(made) > self.ahead:
                yield made.popleft()
        yield from made


def stacked(samples: list[Any]) -> Any:
    parts: Any = samples[0]
    if isinstance(parts, dict):
        return {"image": torch.stack([sample["image"] for sample in samples]), "of": [s["name"] for s in samples]}
    if isinstance(parts[0], list):
        return [torch.stack([views[place] for views, _ in samples]) for place in range(2)]
    return torch.stack([image for image, _ in samples]), torch.tensor([label for _, label in samples])


def stacked_otherwise(samples: list[Any]) -> Any:
    images = [sample["image"] if isinstance(sample, dict) else sample[0] for sample in samples]
    images = [image[0] if isinstance(image, list) else image for image in images]
    whole = torch.stack(images)
    images[0].zero_()  # which is no part of the batch
    return whole, torch.stack(images, 1), torch.stack(tensors=images), torch.stack(tuple(images)).mul_(2), images


def as_it_is(samples: list[Any]) -> Any:
    return samples


def doubled(samples: list[Any]) -> Any:
    images, labels = default_collate(samples)
    return images[:4] * 2, images, labels
