"""Accelerate: `with_accelerate.py DATA WORKERS`."""

import os
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder


def main():
    data, workers = sys.argv[1:3]
    set_seed(5)
    accelerator = Accelerator(cpu=True)
    transform = T.Compose(
        [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.TrivialAugmentWide(), T.ToTensor(), T.RandomErasing(0.3)]
    )
    loader = DataLoader(ImageFolder(os.path.join(data, "train"), transform), 16, shuffle=True, num_workers=int(workers))
    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 6)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for images, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    accelerator.end_training()


if __name__ == "__main__":
    main()
