"""Random pipelines of torchvision's own transforms, v1 and v2."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import v2_pipelines
from recipe_conformance import assert_same
from torchvision_here import module
from transform_cases import FIXED, LARGE, ON_TENSORS, RANDOM

T = module("torchvision.transforms")
V = module("torchvision.transforms.v2")


ERASING = [arguments for name, arguments in ON_TENSORS if name == "RandomErasing"]


def v1(seed: int) -> Any:
    """Up to five transforms, some in containers, and mostly a conversion."""
    rng = random.Random(seed)
    made = [_one(rng) for _ in range(rng.randint(1, 5))]
    if rng.random() < 0.8:
        made.append(T.ToTensor() if rng.random() < 0.7 else T.PILToTensor())
        if isinstance(made[-1], T.PILToTensor) and rng.random() < 0.7:
            made.append(T.ConvertImageDtype(module("torch").float32))
        if not isinstance(made[-1], T.PILToTensor):
            made.append(T.Normalize([0.5], [0.2]))
        made += [T.RandomErasing(**rng.choice(ERASING)) for _ in range(rng.randint(0, 2))]
    return T.Compose(made)


def _one(rng: random.Random, depth: int = 0) -> Any:
    if depth < 2 and rng.random() < 0.3:
        members = [_one(rng, depth + 1) for _ in range(rng.randint(1, 3))]
        kind = rng.choice([T.Compose, T.RandomApply, T.RandomChoice, T.RandomOrder])
        return kind(members, p=rng.random()) if kind is T.RandomApply else kind(members)
    name, arguments = rng.choice(RANDOM + FIXED + LARGE)
    return getattr(T, name)(**arguments)


def v2(seed: int) -> Any:
    return V.Compose(v2_pipelines.pipeline(V, seed))


def cases() -> list[Any]:
    """Each transform alone."""
    alone = [getattr(T, name)(**arguments) for name, arguments in RANDOM + FIXED + LARGE]
    return alone + [T.Compose([T.ToTensor(), getattr(T, name)(**given)]) for name, given in ON_TENSORS]


def check(root: Path) -> None:
    for transform in cases():
        assert_same(root, transform)
    for seed in range(15):
        assert_same(root, v1(seed), seed)
        assert_same(root, v2(seed), seed, drawn=False)
