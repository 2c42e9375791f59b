"""Batches that tests of loaders ask for, and their comparison."""

from __future__ import annotations

import torch

import fastpipe
from fastpipe import transforms as T
from fastpipe.memory import shm_pool

STEPS = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ColorJitter(0.3), T.ToTensor(), T.Normalize([0.5], [0.2])]


def dataset(root, transform=None, **options):
    return fastpipe.ImageFolder(root, T.Compose(STEPS) if transform is None else transform, **options)


def epochs(data, count=2, until=None, **options):
    """All batches of some epochs, each broken off behind `until` of its batches."""
    torch.manual_seed(7)
    loader = fastpipe.DataLoader(data, 3, **{"shuffle": True, **options})
    found = []
    for _ in range(count):
        for number, batch in enumerate(loader, start=1):
            found.append([part.clone() for part in batch])
            if number == until:
                break
    return found


def equal(one, other):
    return len(one) == len(other) and all(
        len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(one, other, strict=True)
    )


def pieces_in_use(workers):
    """How many pieces of shared memory of these workers hold a batch that still exists."""
    pools = [shm_pool._opened[worker] for worker in workers if worker in shm_pool._opened]
    return sum(int((pool.states == shm_pool._IN_USE).sum()) for pool in pools)
