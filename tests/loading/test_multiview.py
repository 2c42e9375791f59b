"""`MultiView`: what calling the transform n times gives, from one decode."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader as StockLoader

import fastpipe
from fastpipe import transforms as T
from fastpipe.program import lower
from fastpipe.transforms.pipeline import compile_pipeline
from fastpipe.types import ImageShape

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
VIEWS = {
    "crops": T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.PILToTensor()]),
    "normalised": T.Compose([T.RandomResizedCrop(24), T.ToTensor(), T.Normalize(MEAN, STD)]),
    "gray": T.Compose([T.RandomCrop(30), T.RandomGrayscale(0.5), T.ToTensor(), T.Normalize([0.5], [0.5])]),
    "no crop": T.Compose([T.Resize((20, 20)), T.RandomVerticalFlip(), T.PILToTensor()]),
    "outside": T.Compose([T.CenterCrop(150), T.PILToTensor()]),
    "single": T.RandomCrop(20),
    "images": T.Compose([T.RandomCrop(40), T.RandomHorizontalFlip()]),
    "foreign": T.Compose([T.RandomCrop(40), T.Lambda(lambda image: image.rotate(30)), T.PILToTensor()]),
}


def levels(view):
    return np.asarray(view).astype(float) * (255 * max(STD) if getattr(view, "dtype", None) == torch.float32 else 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_views_are_those_of_calls_one_after_the_other(root, name, n):
    dataset = fastpipe.ImageFolder(root, fastpipe.MultiView(VIEWS[name], n))
    for index, (path, _) in enumerate(dataset.samples):
        torch.manual_seed(index)
        views = dataset[index][0]
        state = torch.get_rng_state()
        torch.manual_seed(index)
        image = Image.open(path).convert("RGB")
        expected = [VIEWS[name](image) for _ in range(n)]
        assert torch.equal(torch.get_rng_state(), state)
        assert len(views) == n
        for view, other in zip(views, expected, strict=True):
            assert type(view) is type(other)
            assert levels(view).shape == levels(other).shape
            assert np.abs(levels(view) - levels(other)).max() <= 1.03  # the channels' std differ


def test_several_transforms_are_drawn_in_order_from_one_decode(root):
    """DINO's: two large crops, of which the second may be gray, and eight small ones."""
    first = T.Compose([T.RandomResizedCrop(24, scale=(0.4, 1)), T.RandomHorizontalFlip(), T.PILToTensor()])
    second = T.Compose([T.RandomResizedCrop(24, scale=(0.4, 1)), T.RandomGrayscale(0.5), T.PILToTensor()])
    small = T.Compose([T.RandomResizedCrop(10, scale=(0.05, 0.4)), T.PILToTensor()])
    dino = fastpipe.MultiView([first, second, small], [1, 1, 8])
    assert compile_pipeline(dino).unplanned == ()
    dataset = fastpipe.ImageFolder(root, dino)
    for index, (path, _) in enumerate(dataset.samples):
        torch.manual_seed(index)
        views = dataset[index][0]
        state = torch.get_rng_state()
        torch.manual_seed(index)
        image = Image.open(path).convert("RGB")
        expected = [first(image), second(image), *(small(image) for _ in range(8))]
        assert torch.equal(torch.get_rng_state(), state)
        assert [view.shape for view in views] == [(3, 24, 24)] * 2 + [(3, 10, 10)] * 8
        assert all((view.int() - other.int()).abs().max() <= 1 for view, other in zip(views, expected, strict=True))
    batch, _ = next(iter(fastpipe.DataLoader(dataset, batch_size=3)))
    assert [len(view) for view in batch] == [3] * 10
    assert len(fastpipe.MultiView([first, small])(image)) == 2
    assert len(fastpipe.MultiView([first, small], 3)(image)) == 6
    assert "view 10" in str(fastpipe.explain(dataset))
    broken = fastpipe.explain(fastpipe.MultiView([first, T.Lambda(abs)]))
    assert "holds Lambda" in str(broken)


def test_behind_other_steps(root):
    whole = T.Compose([T.CenterCrop(50), fastpipe.MultiView(VIEWS["crops"], 3), T.Lambda(torch.stack)])
    dataset = fastpipe.ImageFolder(root, whole)
    torch.manual_seed(1)
    sample = dataset[2][0]
    torch.manual_seed(1)
    expected = whole(Image.open(dataset.samples[2][0]).convert("RGB"))
    assert sample.shape == (3, 3, 24, 24)
    assert torch.equal(sample, expected)


def test_decodes_the_union_of_the_crops():
    pipeline = compile_pipeline(fastpipe.MultiView(T.Compose([T.RandomCrop(40), T.RandomHorizontalFlip()]), 3))
    for seed in range(20):
        torch.manual_seed(seed)
        recipe = pipeline.draw(ImageShape(300, 400))
        boxes = [view[0].box for view in recipe.steps[0].views]
        box = lower(recipe.steps, recipe.shape).box
        assert (box.top, box.left) == (min(b.top for b in boxes), min(b.left for b in boxes))
        assert (box.bottom, box.right) == (max(b.bottom for b in boxes), max(b.right for b in boxes))


def test_in_loaders_and_recipes(root):
    dataset = fastpipe.ImageFolder(root, fastpipe.MultiView(VIEWS["normalised"], 2), seed=1)
    for (views, targets), (expected, labels) in zip(
        fastpipe.DataLoader(dataset, batch_size=4, threads=2), StockLoader(dataset, batch_size=4), strict=True
    ):
        assert torch.equal(targets, labels)
        assert [view.shape[1:] for view in views] == [(3, 24, 24)] * 2
        assert all(torch.equal(a, b) for a, b in zip(views, expected, strict=True))
    recipe = pickle.loads(pickle.dumps(dataset.recipe(3)))
    assert all(torch.equal(a, b) for a, b in zip(dataset.replay(recipe)[0], dataset[3][0], strict=True))
    assert " | " in str(recipe)
    assert "bit for bit" in str(fastpipe.explain(dataset))


def test_arguments():
    with pytest.raises(ValueError, match="n=0"):
        fastpipe.MultiView(T.RandomCrop(3), 0)
    for numbers in ([1], [1, 0], [1, 2, 3]):
        with pytest.raises(ValueError, match="one number for each"):
            fastpipe.MultiView([T.RandomCrop(3), T.RandomCrop(4)], numbers)
    with pytest.raises(ValueError, match="at least 1"):
        fastpipe.MultiView([])
    with pytest.raises(TypeError, match="callable"):
        fastpipe.MultiView(3)
    assert "n=2" in repr(fastpipe.MultiView(T.RandomCrop(3)))
