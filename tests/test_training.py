"""A network trained on fastpipe's samples is the network trained on torchvision's: losses and weights, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torchvision_here import torchvision

import fastpipe
from fastpipe import core
from fastpipe import transforms as T
from fastpipe.tools.bench.samples import make_folder

V = torchvision.transforms
CLASSES = 3


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    make_folder(root, CLASSES, 8, kinds=("jpeg-420", "jpeg-444", "jpeg-gray", "png"), sizes=((90, 121), (64, 80)))
    return root


def train(
    transforms: Any, ImageFolder: Any, DataLoader: Any, photos: Path, augmentation: Callable[[Any], list[Any]]
) -> tuple[list[float], list[torch.Tensor]]:
    """Each step's loss, and the weights behind the last one."""
    torch.manual_seed(0)
    dataset = ImageFolder(
        photos,
        transforms.Compose(
            [
                transforms.RandomResizedCrop(32),
                transforms.RandomHorizontalFlip(),
                *augmentation(transforms),
                transforms.ToTensor(),
                transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
                transforms.RandomErasing(0.3),
            ]
        ),
    )
    loader = DataLoader(dataset, batch_size=8, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(32, CLASSES),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(2):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, [value.clone() for value in model.state_dict().values()]


AUGMENTATIONS: dict[str, Callable[[Any], list[Any]]] = {
    "crop and flip": lambda _: [],
    "ColorJitter and RandAugment": lambda t: [t.ColorJitter(0.4, 0.4, 0.4, 0.1), t.RandAugment()],
    "TrivialAugmentWide": lambda t: [t.TrivialAugmentWide(interpolation=t.InterpolationMode.BILINEAR)],
    "warps": lambda t: [t.RandomRotation(30, t.InterpolationMode.BICUBIC), t.RandomPerspective(p=1.0)],
}


@pytest.mark.parametrize(
    "DataLoader", [torch.utils.data.DataLoader, fastpipe.DataLoader], ids=["torch's", "fastpipe's"]
)
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_the_same_losses_and_the_same_weights(name: str, DataLoader: Any, photos: Path) -> None:
    theirs = train(V, torchvision.datasets.ImageFolder, torch.utils.data.DataLoader, photos, AUGMENTATIONS[name])
    ours = train(T, fastpipe.ImageFolder, DataLoader, photos, AUGMENTATIONS[name])
    assert len(set(theirs[0])) == len(theirs[0]) == 6  # it does learn something
    assert ours[0] == theirs[0]
    for one, other in zip(ours[1], theirs[1], strict=True):
        assert torch.equal(one, other)


def test_without_the_core_too(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    augmentation = AUGMENTATIONS["ColorJitter and RandAugment"]
    with_core = train(T, fastpipe.ImageFolder, torch.utils.data.DataLoader, photos, augmentation)
    monkeypatch.setattr(core.library, "_loaded", core.library.load("off"))
    without = train(T, fastpipe.ImageFolder, torch.utils.data.DataLoader, photos, augmentation)
    assert with_core[0] == without[0]
    assert all(map(torch.equal, with_core[1], without[1]))
