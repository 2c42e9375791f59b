"""timm's `create_transform` with random arguments and configuration strings."""

from __future__ import annotations

import inspect
import random
import warnings
from pathlib import Path
from typing import Any

from recipe_conformance import assert_same
from torchvision_here import module

auto_augment, data = module("timm.data.auto_augment"), module("timm.data")
crops = module("timm.data.transforms")
HAS_NAFLEX = "patchify" in inspect.signature(data.create_transform).parameters


CALLED = {"CenterCropOrPad", "RandomCropOrPad", "RandomPad", "ResizeKeepRatio", "TrimBorder"}
"""timm's classes that are called on an image without pixels, which records what they do."""


def naflex_crops() -> list[Any]:
    """timm's crops and resizes to a sequence of patches; none where this timm has none."""
    if not HAS_NAFLEX:
        return []
    naflex = module("timm.data.naflex_transforms")
    return [
        naflex.ResizeToSequence(8, 20, interpolation="random"),
        naflex.ResizeToSequence((7, 5), 30, False, 1.2),
        naflex.ResizeKeepRatioToSequence(8, 20, True, 0.3, "random", 0.8, (0.7, 1.2), True, 0.8, (0.7, 1.4)),
        naflex.CenterCropToSequence(16, 30, fill=(1, 2, 3)),
        naflex.RandomCropToSequence(16, 12, fill=9),
        naflex.RandomResizedCropToSequence(8, 20, interpolation="random", final_scale_range=(0.5, 1.0)),
        naflex.RandomResizedCropToSequence((5, 7), 30, (2.0, 3.0), divisible_by_patch=False),
    ]


def config(rng: random.Random) -> str | None:
    """A configuration string of a policy."""
    kind = rng.choice(["none", "rand", "rand", "rand", "augmix", "auto"])
    if kind == "none":
        return None
    parts = [rng.choice(["original", "originalr", "v0", "v0r", "3a"]) if kind == "auto" else kind]
    deviation = rng.choice(["", "", "mstd0.5", "mstd1", "mstd101"])
    if deviation and not (kind == "auto" and deviation == "mstd101"):
        parts.append(deviation)
    if kind != "auto" and rng.random() < 0.8:
        parts.append(f"m{rng.randint(0, 12)}")
    if kind == "rand":
        options = [f"n{rng.randint(1, 4)}", f"p{rng.choice(['0.3', '1.0'])}", "inc1", "mmax15"]
        parts += rng.sample(options, rng.randint(0, 4))
        choice = rng.choice(["", "", "t3a", "t3aw", "tweights"])
        if choice:
            parts.append(choice)
    if kind == "augmix":
        parts += rng.sample([f"w{rng.randint(1, 4)}", f"d{rng.randint(1, 3)}", "b1", "a2"], rng.randint(0, 3))
    return "-".join(parts)


def arguments(rng: random.Random) -> dict[str, Any]:
    """Arguments of `create_transform`."""
    size: Any = rng.choice([24, 33, (20, 31), (3, 28, 17)])
    common = {
        "input_size": size,
        "interpolation": rng.choice(["bilinear", "bicubic", "random", "random"]),
        "use_prefetcher": rng.random() < 0.2,
        "normalize": rng.random() < 0.8,
        "mean": rng.choice([(0.485, 0.456, 0.406), (0.5, 0.5, 0.5)]),
    }
    if HAS_NAFLEX and rng.random() < 0.2:
        sequence = {"patch_size": rng.choice([4, (5, 3)]), "max_seq_len": rng.choice([30, 64])}
        common |= {"naflex": True, "patchify": rng.random() < 0.3, **sequence}
    if rng.random() < 0.25:
        common["interpolation"] = rng.choice(["nearest", "bilinear", "bicubic", "lanczos", "box"])
        return {
            **common,
            "crop_pct": rng.choice([None, 0.9, 1.0]),
            "crop_mode": rng.choice([None, "center", "squash", "border"]),
            "crop_border_pixels": rng.choice([None, None, 3]),
        }
    return {
        **common,
        "is_training": True,
        "no_aug": rng.random() < 0.1,
        "train_crop_mode": rng.choice([None, None, "rrc", "rkrc", "rkrr"]),
        "scale": rng.choice([None, (0.3, 1.0)]),
        "ratio": rng.choice([None, (0.5, 2.0)]),
        "hflip": rng.choice([0.0, 0.5]),
        "vflip": rng.choice([0.0, 0.3]),
        "color_jitter": rng.choice([None, 0.4, (0.3, 0.2, 0.1), (0.3, 0.2, 0.1, 0.1)]),
        "color_jitter_prob": rng.choice([None, 0.6]),
        "grayscale_prob": rng.choice([0.0, 0.3]),
        "gaussian_blur_prob": rng.choice([0.0, 0.0, 0.0, 0.4]),
        "auto_augment": config(rng),
        "re_prob": rng.choice([0.0, 0.7]),
        "re_mode": rng.choice(["const", "rand", "pixel"]),
        "re_count": rng.choice([1, 1, 3]),
    }


def check_one(root: Path, seed: int) -> None:
    """Holds one pipeline to timm; all of it is planned but for crops that pad, and what makes sequences of patches."""
    given = arguments(random.Random(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transform = data.create_transform(**given)
    members = {type(member).__name__ for member in transform.transforms}
    assert_same(root, transform, seed, drawn=not given.get("naflex") and members.isdisjoint(CALLED))


def check(root: Path) -> None:
    for seed in range(25):
        check_one(root, seed)
