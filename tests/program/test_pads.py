"""Pads that end a program, with flips and conversions after them, against torchvision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
import torchvision_here
from v2_pipelines import MEAN, STD, same

import fastpipe
from fastpipe.program import Encoded, execute, lower

theirs = torchvision_here.module("torchvision.transforms.v2")
their_datasets = torchvision_here.module("torchvision.datasets")
v2 = torchvision_here.module("fastpipe.transforms.v2")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    (folder / "a").mkdir()
    (folder / "a" / "0.jpg").write_bytes(corpus.jpeg(61, 84, seed=1))
    (folder / "a" / "1.jpg").write_bytes(corpus.jpeg(50, 33, "gray", seed=2))
    return folder


def ends(module: Any) -> dict[str, list[Any]]:
    scaled = module.ToDtype(torch.float32, scale=True)
    return {
        "uint8": [],
        "float": [scaled],
        "normalised": [scaled, module.Normalize(MEAN, STD)],
        "pure": [scaled, module.ToPureTensor()],
        "double": [module.ToDtype(torch.float64, scale=True)],
        "unscaled": [module.ToDtype(torch.float32)],
    }


@pytest.mark.parametrize("fill", [0, 127, (10, 200, 30)])
@pytest.mark.parametrize("flips", [(), ("RandomHorizontalFlip",), ("RandomVerticalFlip", "RandomHorizontalFlip")])
@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("end", list(ends(theirs)))
def test_pads_and_flips(root: Path, fill: Any, flips: tuple[str, ...], tensors: bool, end: str) -> None:
    def chain(module: Any) -> Any:
        first = [module.ToImage()] if tensors else []
        last = [] if tensors else [module.ToImage()]
        turned = [getattr(module, name)(p=1.0) for name in flips]
        colors = [module.ColorJitter(0.3, 0.4, 0.3, 0.1)] if end != "pure" else []
        pad = module.Pad([3, 0, 17, 8], fill=fill)
        return module.Compose([*first, *colors, pad, *turned, *last, *ends(module)[end]])

    for index in range(2):
        torch.manual_seed(index)
        ours = fastpipe.ImageFolder(root, chain(v2))[index][0]
        torch.manual_seed(index)
        assert same(ours, their_datasets.ImageFolder(root, chain(theirs))[index][0])


def test_an_image_that_is_written_into_a_place_of_the_callers(root: Path) -> None:
    dataset = fastpipe.ImageFolder(root, v2.Compose([v2.Pad([5, 2, 0, 4], fill=9), v2.ToImage()]))
    encoded = Encoded.of((root / "a" / "0.jpg").read_bytes())
    out = torch.zeros((3, 67, 89), dtype=torch.uint8)
    recipe = dataset.recipe(0)
    assert execute(lower(recipe.steps, recipe.shape), encoded, out) is out
    assert torch.equal(out, dataset[0][0])
