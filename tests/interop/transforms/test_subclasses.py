"""Subclasses of v2's Transform are called as they are, and what stands beside them is planned: the same samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from interop.transforms import subclasses as cases
from interop.transforms.subclasses import V, tv_tensors
from recipe_conformance import assert_same, flat, run, seed_all, states
from torchvision_here import torchvision

import fastpipe
from fastpipe import explain
from fastpipe.transforms._base import drawable

ENDING = [V.ToImage(), V.ToDtype(torch.float32, scale=True), V.Normalize([0.5], [0.5])]


def name(transform: Any) -> str:
    return type(transform).__name__


@pytest.mark.parametrize("transform", cases.SUBCLASSES, ids=name)
def test_they_are_called(photos: Path, transform: Any) -> None:
    assert not drawable(transform)
    members = [V.RandomResizedCrop(40), transform, V.RandomHorizontalFlip(), *ENDING]
    first = [ENDING[0], V.RandomCrop(30), transform, *ENDING[1:]]
    for pipeline in (transform, V.Compose(members), V.Compose(members[1:]), V.Compose(first)):
        for seed in range(2):
            transform.count = 0
            expected = run(torchvision.datasets.ImageFolder(str(photos), pipeline), seed)
            transform.count = 0
            assert run(fastpipe.ImageFolder(photos, pipeline), seed) == expected


@pytest.mark.parametrize("ours", [False, True])
def test_within_containers(photos: Path, ours: bool) -> None:
    from fastpipe.transforms import v2

    names = v2 if ours else V
    choice = names.RandomChoice([cases.PadToSize(99), names.Compose([cases.SharpnessJitter((0.1, 2.0)), V.Pad(2)])])
    pipeline = names.Compose([names.RandomApply([cases.PadIfSmaller(80)], p=0.5), choice, *ENDING])
    assert_same(photos, pipeline, drawn=False)


def test_nothing_calls_them_but_samples(photos: Path) -> None:
    transform = cases.Turned()
    seed_all(3)
    before = states()
    assert not drawable(transform)
    explain(V.Compose([V.CenterCrop(9), transform, V.RandomCrop(5)]))
    assert transform.count == 0
    assert states() == before


def test_hooks_are_run(photos: Path) -> None:
    seen: list[Any] = []
    transform = cases.PadIfSmaller(70)
    transform.register_forward_hook(lambda *_: seen.append(1))
    assert_same(photos, transform, drawn=False)
    assert seen


@pytest.mark.parametrize("own_loader", [False, True])
def test_samples_with_boxes_and_masks(photos: Path, own_loader: bool) -> None:
    path = str(photos / "a" / "0.jpg")
    boxes = torch.tensor([[3.0, 4.0, 60.0, 50.0], [20.0, 10.0, 80.0, 60.0]])
    members = [cases.RandomIoUCrop(0.8), V.RandomHorizontalFlip(), cases.PadToSize(128), cases.ConvertBoxes()]
    transforms = V.Compose([V.RandomZoomOut(), *members, V.RandomCrop(60), V.SanitizeBoundingBoxes(), *ENDING])
    labels = torch.tensor([3, 4])
    masks = (torch.arange(2 * 64 * 96).reshape(2, 64, 96) % 7 > 3).to(torch.uint8)

    def sample(index: int) -> Any:
        return path, {"boxes": fastpipe.Boxes(boxes), "labels": labels, "masks": tv_tensors.Mask(masks)}

    image = fastpipe.open_image(path).convert("RGB")
    options: Any = {"loader": lambda _: image.copy()} if own_loader else {}
    dataset = fastpipe.SampleDataset(sample, 1, transforms, **options)
    for seed in range(8):
        seed_all(seed)
        target = {
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(64, 96)),
            "labels": labels.clone(),
            "masks": tv_tensors.Mask(masks),
        }
        expected = transforms(image.copy(), target)
        end = states()
        seed_all(seed)
        assert flat(dataset[0]) == flat(expected)
        assert states() == end


def test_explain_names_the_first() -> None:
    found = explain(V.Compose([V.CenterCrop(9), cases.PadIfSmaller(70), V.RandomCrop(5)]))
    assert found.broken_by is not None
    assert "PadIfSmaller" in found.broken_by.transform
