"""Subclasses of v2's Transform are planned by running their code without pixels, and give what they give."""

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
from fastpipe.rng import keyed_globals, sample_key
from fastpipe.transforms._base import drawable

ENDING = [V.ToImage(), V.ToDtype(torch.float32, scale=True), V.Normalize([0.5], [0.5])]


def name(transform: Any) -> str:
    return type(transform).__name__


@pytest.mark.parametrize("transform", cases.TRACED, ids=name)
def test_what_its_code_calls_is_planned(photos: Path, transform: Any) -> None:
    count = getattr(transform, "count", None)
    for pipeline in (transform, V.Compose([V.RandomResizedCrop(40), transform, *ENDING])):
        for seed in range(3):
            if count is not None:
                transform.count = count
            expected = run(torchvision.datasets.ImageFolder(str(photos), pipeline), seed)
            dataset = fastpipe.ImageFolder(photos, pipeline)
            assert dataset.pipeline.rest == ()
            if count is not None:
                transform.count = count
            assert run(dataset, seed) == expected


def test_tensors_first(photos: Path) -> None:
    for transform in (cases.PadIfSmaller(70), cases.LEROBOT):
        assert_same(photos, V.Compose([V.ToImage(), V.RandomCrop(30), transform, *ENDING[1:]]))


@pytest.mark.parametrize("ours", [False, True])
def test_within_containers(photos: Path, ours: bool) -> None:
    from fastpipe.transforms import v2

    names = v2 if ours else V
    choice = names.RandomChoice([cases.PadToSize(99), names.Compose([cases.SharpnessJitter((0.1, 2.0)), V.Pad(2)])])
    assert_same(photos, names.Compose([names.RandomApply([cases.PadIfSmaller(80)], p=0.5), choice, *ENDING]))


@pytest.mark.parametrize("transform", cases.FOREIGN, ids=name)
def test_what_looks_at_pixels_ends_the_plan(photos: Path, transform: Any) -> None:
    assert not drawable(transform)
    assert_same(photos, V.Compose([V.RandomCrop(20), transform, *ENDING]), drawn=False)


def test_one_that_takes_no_subclass_ends_the_plan() -> None:
    assert not drawable(cases.ExactClass())


def test_pixels_that_are_wanted_later_are_there(photos: Path) -> None:
    transform = cases.SometimesPixels()
    pipeline = V.Compose([V.RandomHorizontalFlip(), transform, *ENDING])
    assert drawable(transform)
    for seed in range(3):
        assert_same(photos, pipeline, seed)
    theirs = torchvision.datasets.ImageFolder(str(photos), pipeline)
    seed_all(4)
    expected = [theirs[index] for index in range(len(theirs))]
    end = states()
    seed_all(4)
    dataset = fastpipe.ImageFolder(photos, pipeline)
    assert dataset.in_python == "a transform's own drawing code"
    assert flat(dataset.batch(list(range(len(dataset))))) == flat(expected)
    assert states() == end
    keyed = fastpipe.ImageFolder(photos, pipeline, seed=5)
    for index in range(len(keyed)):
        with keyed_globals(sample_key(5, 0, index)):
            expected_sample = flat(theirs[index])
        assert flat(keyed[index]) == expected_sample
    assert states() == end
    loader = fastpipe.DataLoader(dataset, batch_size=2)
    seed_all(4)
    batches = [images for images, _ in loader]
    seed_all(4)
    theirs_loader = torch.utils.data.DataLoader(theirs, batch_size=2)
    assert all(map(torch.equal, batches, [images for images, _ in theirs_loader]))


def test_writing_to_a_tensor_ends_the_plan(photos: Path) -> None:
    for pipeline in (cases.InPlace(), V.Compose([V.ToImage(), cases.InPlace()])):
        assert_same(photos, pipeline, drawn=False)


def test_a_trial_changes_nothing(photos: Path) -> None:
    transform = cases.Turned()
    seed_all(3)
    before = states()
    assert drawable(transform)
    explain(transform)
    assert transform.count == 0
    assert states() == before


def test_hooks_are_run(photos: Path) -> None:
    seen: list[Any] = []
    transform = cases.PadIfSmaller(70)
    transform.register_forward_hook(lambda *_: seen.append(1))
    assert not drawable(transform)
    assert_same(photos, transform, drawn=False)
    assert seen


def test_samples_with_boxes(photos: Path) -> None:
    path = str(photos / "a" / "0.jpg")
    boxes = torch.tensor([[3.0, 4.0, 60.0, 50.0], [20.0, 10.0, 80.0, 60.0]])
    members = [cases.RandomIoUCrop(0.8), V.RandomHorizontalFlip(), cases.PadToSize(128), cases.ConvertBoxes()]
    transforms = V.Compose([*members, V.SanitizeBoundingBoxes(), *ENDING])
    labels = torch.tensor([3, 4])

    def sample(index: int) -> Any:
        return path, {"boxes": fastpipe.Boxes(boxes), "labels": labels}

    dataset = fastpipe.SampleDataset(sample, 1, transforms)
    image = fastpipe.open_image(path).convert("RGB")
    for seed in range(8):
        seed_all(seed)
        target = {
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(64, 96)),
            "labels": labels.clone(),
        }
        expected = transforms(image.copy(), target)
        end = states()
        seed_all(seed)
        assert flat(dataset[0]) == flat(expected)
        assert states() == end
    assert dataset.pipeline.rest == ()


def test_explain_says_so() -> None:
    found = explain(V.Compose([cases.PadIfSmaller(70), cases.DarkOnesBrighter()]))
    assert found.drawn[0] == "PadIfSmaller(size=70), which draws by its own code, on an image without pixels"
    assert found.broken_by is not None
    assert found.broken_by.cause == "pixels"
