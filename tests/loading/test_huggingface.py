"""Accelerate and Hugging Face's Trainer, which call `set_epoch` on every dataset, with and without a seed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
import torchvision_here
from torch import nn
from torch.utils.data import DataLoader as TorchDataLoader

import fastpipe
from fastpipe import transforms as T

accelerate = pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")
theirs = torchvision_here.module("torchvision")

COUNT, EPOCHS = 5, 2
LOADERS = {"torch": TorchDataLoader, "fastpipe": fastpipe.DataLoader}
Epoch = list[tuple[torch.Tensor, torch.Tensor]]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("photos")
    for number in range(COUNT):
        (root / f"{number}.jpg").write_bytes(corpus.jpeg(50 + number, 71, seed=number))
    return [str(root / f"{number}.jpg") for number in range(COUNT)]


def recipe(module: Any) -> Any:
    return module.Compose([module.RandomResizedCrop(24), module.RandomHorizontalFlip(), module.ToTensor()])


def ours(paths: list[str], seed: int | None) -> fastpipe.ImageList:
    """A sample's target is its number."""
    return fastpipe.ImageList((paths, range(COUNT)), recipe(T), seed=seed)


class Theirs(torch.utils.data.Dataset[Any]):
    """The same by torchvision and Pillow."""

    def __init__(self, paths: list[str]) -> None:
        self.paths, self.transform = paths, recipe(theirs.transforms)

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.transform(theirs.datasets.folder.default_loader(self.paths[index])), index


def by_accelerate(dataset: Any, loader: Callable[..., Any], folder: Path) -> list[Epoch]:
    torch.manual_seed(3)
    prepared = accelerate.Accelerator(cpu=True).prepare(loader(dataset, batch_size=2, shuffle=True))
    return [[(images.clone(), labels) for images, labels in prepared] for _ in range(EPOCHS)]


class Model(nn.Module):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.seen: Epoch = []

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self.seen.append((pixel_values.clone(), labels.clone()))
        return {"loss": (pixel_values * self.scale).mean()}


def collate(samples: list[Any]) -> dict[str, torch.Tensor]:
    images, labels = zip(*samples, strict=True)
    return {"pixel_values": torch.stack(images), "labels": torch.tensor(labels)}


def by_trainer(dataset: Any, loader: Callable[..., Any], folder: Path) -> list[Epoch]:
    arguments = transformers.TrainingArguments(
        str(folder), num_train_epochs=EPOCHS, per_device_train_batch_size=2, use_cpu=True, seed=3, report_to=[],
        remove_unused_columns=False, save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            if loader is TorchDataLoader:  # its own
                return super().get_train_dataloader()
            return self.accelerator.prepare(loader(dataset, batch_size=2, shuffle=True, collate_fn=collate))

    model = Model()
    Trainer(model=model, args=arguments, train_dataset=dataset, data_collator=collate).train()
    steps = -(-COUNT // 2)
    assert len(model.seen) == EPOCHS * steps
    return [model.seen[:steps], model.seen[steps:]]


RUNS = pytest.mark.parametrize("run", [by_accelerate, by_trainer])


@pytest.mark.slow
@RUNS
@pytest.mark.parametrize("loader", LOADERS)
def test_without_a_seed_epochs_are_torchvisions(run: Any, loader: str, paths: list[str], tmp_path: Path) -> None:
    found = run(ours(paths, None), LOADERS[loader], tmp_path)
    expected = run(Theirs(paths), LOADERS[loader], tmp_path)
    for batches, references in zip(found, expected, strict=True):
        for (images, labels), (same, same_labels) in zip(batches, references, strict=True):
            assert torch.equal(images, same)
            assert torch.equal(labels, same_labels)


@pytest.mark.slow
@RUNS
@pytest.mark.parametrize("loader", LOADERS)
def test_with_a_seed_each_epoch_has_its_own_crops(run: Any, loader: str, paths: list[str], tmp_path: Path) -> None:
    found = run(ours(paths, 7), LOADERS[loader], tmp_path)
    reference = ours(paths, 7)
    for epoch, batches in enumerate(found):
        reference.set_epoch(epoch)
        labels = torch.cat([labels for _, labels in batches]).tolist()
        images = torch.cat([images for images, _ in batches])
        assert sorted(labels) == list(range(COUNT))
        assert torch.equal(images, torch.stack([reference[label][0] for label in labels]))
